#include "api/server/trace.h"

#include "appliance/base/codec.h"

#include <stdio.h>

/* `len` lower-case hex digits, not all zero when `nonzero` (W3C Trace Context 3.2.2). */
static bool hex_field(const char *at, size_t len, bool nonzero)
{
    bool any = false;
    for (size_t i = 0; i < len; i++) {
        if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f'))) {
            return false;
        }
        any = any || at[i] != '0';
    }
    return any || !nonzero;
}

bool traceparent_parse(const char *text, char ret_trace_id[33])
{
    size_t len = strlen(text);
    if (len < TRACEPARENT_LEN || text[2] != '-' || text[35] != '-' || text[52] != '-') {
        return false;
    }
    bool later = memcmp(text, "00", 2) != 0;
    if (!hex_field(text, 2, false) || memcmp(text, "ff", 2) == 0 || !hex_field(text + 3, 32, true) ||
        !hex_field(text + 36, 16, true) || !hex_field(text + 53, 2, false)) {
        return false;
    }
    if (len > TRACEPARENT_LEN && (!later || text[TRACEPARENT_LEN] != '-')) {
        return false;
    }
    memcpy(ret_trace_id, text + 3, 32);
    ret_trace_id[32] = 0;
    return true;
}

struct fault trace_begin(struct op *op, const char *header)
{
    uint8_t fresh[24];
    TRY(random_bytes(fresh, sizeof(fresh)));
    hex_text(span_of(fresh, 8), op->span_id, sizeof(op->span_id));
    if (header == NULL || !traceparent_parse(header, op->trace_id)) {
        hex_text(span_of(fresh + 8, 16), op->trace_id, sizeof(op->trace_id));
    }
    return OK;
}

void traceparent_print(const struct op *op, char out[TRACEPARENT_LEN + 1])
{
    (void)snprintf(out, TRACEPARENT_LEN + 1, "00-%.32s-%.16s-01", op->trace_id, op->span_id);
}
