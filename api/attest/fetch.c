#include "api/attest/internal.h"

#include "appliance/http/http.h"

#define WHY_MAX 256

static struct fault judge(struct op *op, const struct http_answer *answer, struct buf *body)
{
    if (answer->status != 200) {
        return op_fail(op, FAULT(IO), "the issuer answered with HTTP status %ld where a JWK set was expected%s",
                       answer->status,
                       answer->status / 100 == 3 ? "; redirects are not followed, name the final address" : "");
    }
    return buf_put(body, buf_span(&answer->body));
}

struct fault keys_fetch_https(struct op *op, const struct keys_source *source, int64_t timeout_ns, struct buf *body)
{
    const struct http_request request = {
        .method = "GET",
        .url = source->url,
        .accept = "application/jwk-set+json, application/json",
        .ca_file = source->ca_file,
        .keep = true,
        .timeout_ns = timeout_ns,
        .answer_max = JWKS_MAX,
    };
    char why[WHY_MAX] = "";
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    if (FAULTED(http_send(&request, why, sizeof(why), &answer))) {
        return op_fail(op, FAULT(IO), "%s", why);
    }
    return judge(op, &answer, body);
}
