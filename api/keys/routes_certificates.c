#include "api/keys/internal.h"

#include "appliance/base/json_view.h"

#define CSR_MAX  16384
#define FIELD    "/certificate_chain"
#define PEM_KIND "CERTIFICATE REQUEST"

struct fault keys_answer_csr(struct request *request, struct span csr)
{
    struct jout jout;
    CLEANUP(buf_free) struct buf pem = BUF_INIT((size_t)CSR_MAX * 2);
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)CSR_MAX * 4);
    TRY(key_pem(PEM_KIND, csr, &pem));
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "csr_pem");
    jout_span_text(&jout, buf_span(&pem));
    jout_key_base64(&jout, "csr_der", csr);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

struct fault route_key_csr(struct request *request)
{
    struct uuid id;
    struct span csr;
    TRY(route_key_id(request, &id));
    TRY(key_csr_sign(request->op, request->services, id, request->body, &csr));
    return keys_answer_csr(request, csr);
}

static struct fault wrong_chain(struct op *op)
{
    return op_fail_field(op, FAULT(JSON_FIELD), FIELD,
                         FIELD ": must be an array of 1 to %d certificates, base64 of DER, leaf first, of %d bytes "
                               "together at most",
                         KEYS_CERTIFICATES_MAX, KEY_CHAIN_MAX);
}

struct fault keys_read_chain(struct op *op, struct span json, struct span chain[KEYS_CERTIFICATES_MAX],
                             size_t *ret_count)
{
    struct view rest = { json }, item;
    size_t count = 0, bytes = 0;
    while (view_next(&rest, &item)) {
        if (count == KEYS_CERTIFICATES_MAX || FAULTED(view_base64(op, item, &chain[count])) || chain[count].len == 0) {
            return wrong_chain(op);
        }
        bytes += chain[count++].len;
    }
    if (count == 0 || bytes > KEY_CHAIN_MAX) {
        return wrong_chain(op);
    }
    *ret_count = count;
    return OK;
}

struct fault route_key_certificates(struct request *request)
{
    const struct key_certificates_body *body = request->body;
    struct uuid id;
    struct managed_key key;
    struct span chain[KEYS_CERTIFICATES_MAX];
    size_t count = 0;
    TRY(route_key_id(request, &id));
    TRY(keys_read_chain(request->op, body->certificate_chain, chain, &count));
    TRY(key_certify(request->op, request->services, id, chain, count, body->expected_version, &key));
    return route_key_answer(request, &key);
}
