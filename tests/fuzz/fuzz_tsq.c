/* rooms: tsa */
/*
 * The time-stamp request path up to the decision, and the reply to a refusal. Oracles: what is accepted is read by
 * OpenSSL too, and means the same; a refusal encodes to DER that OpenSSL reads back to the same bytes; a note says why.
 */
#include "api/tsa/internal.h"

#include <openssl/err.h>
#include <openssl/ts.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct op *op;
static struct tsa_rules rules;

static void start(void)
{
    static const char *hashes[] = { "sha256", "sha384", "sha512" };
    static const char *policies[] = { "1.2.3.4.5.6" };
    static const struct config config = {
        .tsa_policy = "1.3.6.1.4.1.57264.2.1.1",
        .tsa_policies = { policies, 1 },
        .tsa_hashes = { hashes, 3 },
    };
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    BUG_IF(FAULTED(tsa_rules_init(op, &config, &rules)));
}

static void check_accepted(struct span der, const struct tsq *request, const struct tst_hash *hash, struct span policy)
{
    const unsigned char *at = der.at;
    TS_REQ *read = d2i_TS_REQ(NULL, &at, (long)der.len);
    BUG_IF(read == NULL || at != der.at + der.len);
    BUG_IF(TS_REQ_get_version(read) != 1 || (TS_REQ_get_cert_req(read) != 0) != request->certificate_wanted);
    BUG_IF((TS_REQ_get_nonce(read) != NULL) != (request->nonce.len > 0));
    BUG_IF(TS_REQ_get_ext_count(read) > 0);
    const ASN1_OCTET_STRING *digest = TS_MSG_IMPRINT_get_msg(TS_REQ_get_msg_imprint(read));
    BUG_IF((size_t)ASN1_STRING_length(digest) != hash->size || request->digest.len != hash->size);
    BUG_IF(memcmp(ASN1_STRING_get0_data(digest), request->digest.at, hash->size) != 0);
    const ASN1_OBJECT *asked = TS_REQ_get_policy_id(read);
    BUG_IF((asked != NULL) != (request->policy.len > 0));
    BUG_IF(asked != NULL && !span_equal(policy, span_of(OBJ_get0_data(asked), OBJ_length(asked))));
    BUG_IF(request->nonce.len > 4 + TSA_NONCE_MAX);
    TS_REQ_free(read);
}

static void check_refused(struct fault fault)
{
    struct span reply;
    BUG_IF(!op->note.set || op->note.detail[0] == '\0');
    BUG_IF(FAULTED(tsa_reply_refused(op, fault, op->note.detail, &reply)));
    const unsigned char *at = reply.at;
    TS_RESP *read = d2i_TS_RESP(NULL, &at, (long)reply.len);
    BUG_IF(read == NULL || at != reply.at + reply.len || TS_RESP_get_token(read) != NULL);
    TS_RESP_free(read);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        start();
    }
    struct tsq request = { 0 };
    const struct tst_hash *hash = NULL;
    struct span policy = { 0 };
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    struct fault fault = tsq_parse(op, span_of(bytes, len), &request);
    if (!FAULTED(fault)) {
        fault = tsq_judge(op, &rules, &request, &hash, &policy);
    }
    if (FAULTED(fault)) {
        check_refused(fault);
    } else {
        check_accepted(span_of(bytes, len), &request, hash, policy);
    }
    ERR_clear_error();
    return 0;
}
