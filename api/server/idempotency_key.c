/* What a key may look like, and what it is bound to. */
#include "api/server/idempotency.h"

struct fault idempotency_key_check(struct op *op, const struct route *route, const char *key)
{
    if ((route->flags & ROUTE_MUTATION) == 0) {
        return OK;
    }
    if (key == NULL) {
        return op_fail_field(op, FAULT(IDEMPOTENCY_KEY_REQUIRED), "Idempotency-Key",
                             "send an Idempotency-Key header: a new value for each command, the same for its retries");
    }
    size_t len = 0;
    while (key[len] > ' ' && key[len] <= '~' && len <= IDEMPOTENCY_KEY_MAX) {
        len++;
    }
    if (key[len] != 0 || len == 0 || len > IDEMPOTENCY_KEY_MAX) {
        return op_fail_field(op, FAULT(IDEMPOTENCY_KEY_MALFORMED), "Idempotency-Key",
                             "the Idempotency-Key must be 1 to %d visible ASCII characters", IDEMPOTENCY_KEY_MAX);
    }
    return OK;
}

struct fault idempotency_fingerprint(const struct op *op, const struct idempotency_request *request,
                                     struct sha256 *ret_fingerprint)
{
    const struct span fields[] = { span_text(request->method), span_text(request->path), span_text(request->query),
                                   span_text(op->principal.subject), request->body };
    uint8_t lengths[COUNT_OF(fields)][8];
    struct span parts[1 + 2 * COUNT_OF(fields)] = { span_text("svc.idempotency.v1") };
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        for (size_t byte = 0; byte < 8; byte++) {
            lengths[i][byte] = (uint8_t)((uint64_t)fields[i].len >> (56 - 8 * byte));
        }
        parts[1 + 2 * i] = SPAN_ARRAY(lengths[i]);
        parts[2 + 2 * i] = fields[i];
    }
    return sha256_of_parts(parts, COUNT_OF(parts), ret_fingerprint);
}

struct fault idempotency_command_id(struct op *op, const struct idempotency_request *request)
{
    const struct span parts[] = { span_text(op->tenant.text), span_text(op->principal.subject), span_text(request->key),
                                  span_text(request->route) };
    return uuid_derive("svc.command", parts, COUNT_OF(parts), &op->command_id);
}
