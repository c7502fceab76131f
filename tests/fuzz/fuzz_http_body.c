/* rooms: scale operations otlp console compliance inventory privacy feeds tsa codesign audit keys ca server */
/* JSON bodies through the router's decode of every route that has a body table: the first byte picks the route. What is
 * refused is refused with one of the few faults of a decoder, and its problem body is JSON whatever the input was. */
#include "api/features.c"
#include "api/server/exchange.h"
#include "api/server/problem.h"
#include "appliance/base/json.h"

#define TABLES_MAX 256

static const struct route *tables[TABLES_MAX];
static size_t table_count;

static void gather(void)
{
    size_t count = 0;
    const struct feature *const *features = features_all(&count);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < features[i]->route_count && table_count < TABLES_MAX; j++) {
            if (features[i]->routes[j].body != NULL) {
                tables[table_count++] = &features[i]->routes[j];
            }
        }
    }
    BUG_IF(table_count == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (table_count == 0) {
        gather();
    }
    if (size == 0) {
        return 0;
    }
    CLEANUP(op_freep) struct op *op = NULL;
    void *decoded = NULL;
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "fuzz" }, 60000, &op)));
    struct fault fault = body_decode(op, tables[data[0] % table_count], span_of(data + 1, size - 1), &decoded);
    if (!FAULTED(fault)) {
        BUG_IF(decoded == NULL);
        return 0;
    }
    BUG_IF(decoded != NULL);
    BUG_IF(fault.code != FAULT_JSON_SYNTAX && fault.code != FAULT_JSON_FIELD && fault.code != FAULT_TOO_LARGE);
    struct response response = { .status = 0 };
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(65536);
    problem_fill(op, fault, &response);
    BUG_IF(response.status != fault_row(fault.code)->http || FAULTED(json_canonical(response.body, &canonical)));
    return 0;
}
