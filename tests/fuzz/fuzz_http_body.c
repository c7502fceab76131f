/* rooms: tsa codesign audit keys identity server */
/*
 * Bodies of requests, each by the table of a true route: the first byte picks the route, the rest is the body. A
 * refusal says what is wrong, in text that an answer can carry; what is decoded keeps the bounds of its table.
 */
#include "tests/fuzz/decoded.h"

#include "api/audit/audit.h"
#include "api/codesign/codesign.h"
#include "api/identity/identity_feature.h"
#include "api/keys/keys.h"
#include "api/server/exchange.h"
#include "api/server/server_feature.h"
#include "api/tsa/tsa.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const struct feature *const features[] = {
    &server_feature, &identity_feature, &keys_feature, &audit_feature, &codesign_feature, &tsa_feature,
};
static const struct route *routes[64];
static size_t route_count;
static struct op *op;

static void start(void)
{
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    for (size_t i = 0; i < COUNT_OF(features); i++) {
        for (size_t j = 0; j < features[i]->route_count; j++) {
            if (features[i]->routes[j].body != NULL) {
                BUG_IF(route_count == COUNT_OF(routes));
                routes[route_count++] = &features[i]->routes[j];
            }
        }
    }
    BUG_IF(route_count == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        start();
    }
    if (len == 0) {
        return 0;
    }
    const struct route *route = routes[bytes[0] % route_count];
    void *body = NULL;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    struct fault fault = body_decode(op, route, span_of(bytes + 1, len - 1), &body);
    if (FAULTED(fault)) {
        BUG_IF(body != NULL);
        check_note(op, fault);
    } else {
        check_decoded(route->body, route->body_count, body);
    }
    return 0;
}
