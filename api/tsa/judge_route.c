/* POST /api/v1/protocols/tsa/verify: the offline verifier for those who have no svc-cli at hand. */
#include "api/ca/certificate.h"
#include "api/server/request.h"
#include "api/tsa/oid.h"
#include "api/tsa/routes.h"
#include "api/tsa/tsa.h"
#include "api/tsa/verify.h"

#define TOKEN_BYTES  65536
#define PEM_BYTES    65536
#define ANSWER_BYTES 16384
#define OWN_MAX      32 /* the newest units' certificates */

const struct jin_field tsa_verify_body[TSA_VERIFY_MEMBERS] = {
    JIN_BASE64(struct tsa_verify_request, token, JIN_REQUIRED, 1, TOKEN_BYTES),
    JIN_TEXT(struct tsa_verify_request, hash_algorithm, JIN_REQUIRED, 1, 16),
    JIN_BASE64(struct tsa_verify_request, digest, JIN_REQUIRED, 1, 64),
    JIN_HEX(struct tsa_verify_request, nonce, JIN_OPTIONAL, 1, 65),
    JIN_TEXT(struct tsa_verify_request, roots_pem, JIN_OPTIONAL, 1, PEM_BYTES),
    JIN_TIME(struct tsa_verify_request, at, JIN_OPTIONAL),
};
const struct answer_field tsa_verify_answer[TSA_VERIFY_ANSWERS] = {
    { "verified", "boolean", "Everything holds." },
    { "reasons", "array",
      "What did not hold, the first thing found: malformed, not_granted, no_root, signer, algorithm, binding, "
      "signature, certificate, digest, nonce. Empty when it is verified." },
    { "detail", "string", "The same in words; null when it is verified." },
    { "roots", "string", "What was trusted: given, or authority (the roots of this tenant's and of /tsa's units)." },
    { "time", "string", "Stated by the token; this and the members below are null unless it is verified." },
    { "accuracy_us", "integer", "Plus or minus; 0 = not stated." },
    { "serial", "string", "Hexadecimal." },
    { "policy", "string", "Dotted." },
    { "signer", "string", "Subject of the certificate that signed (RFC 4514)." },
};

static struct fault put_once(struct span certificate, struct span *seen, size_t *count, struct buf *pem)
{
    for (size_t i = 0; i < *count; i++) {
        if (span_equal(seen[i], certificate)) {
            return OK;
        }
    }
    if (*count == OWN_MAX) {
        return OK;
    }
    seen[(*count)++] = certificate;
    return certificate_pem(certificate, pem);
}

/* Of the tenant's authority, and of the one at /tsa: for tokens without certificates the rest of the chains, too. */
static struct fault own_certificates(struct op *op, struct services *services, struct buf *roots, struct buf *below)
{
    struct tsa_chain *chains = NULL;
    size_t count = 0, root_count = 0, below_count = 0;
    struct span seen_roots[OWN_MAX], seen_below[OWN_MAX];
    TRY(tsa_history(op, services, &chains, &count));
    for (size_t i = 0; i < count; i++) {
        TRY(put_once(chains[i].root, seen_roots, &root_count, roots));
        for (size_t at = 0; at + 1 < chains[i].chain_count; at++) {
            TRY(put_once(chains[i].chain[at], seen_below, &below_count, below));
        }
    }
    return OK;
}

static struct fault print(const struct op *op, bool given, enum tst_reason reason, const struct tst_info *info,
                          struct buf *out)
{
    struct jout jout;
    bool verified = reason == TST_HOLDS;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_bool(&jout, "verified", verified);
    jout_key(&jout, "reasons");
    jout_array(&jout);
    if (!verified) {
        jout_text(&jout, tst_reason_text(reason));
    }
    jout_array_end(&jout);
    jout_key_text(&jout, "detail", verified ? NULL : op->note.detail);
    jout_key_text(&jout, "roots", given ? "given" : "authority");
    jout_key(&jout, "time");
    if (verified) {
        jout_time(&jout, info->time);
        jout_key_int(&jout, "accuracy_us", info->accuracy_us);
    } else {
        jout_null(&jout);
        jout_key(&jout, "accuracy_us");
        jout_null(&jout);
    }
    jout_key_text(&jout, "serial", verified ? info->serial : NULL);
    jout_key_text(&jout, "policy", verified ? info->policy : NULL);
    jout_key_text(&jout, "signer", verified ? info->signer : NULL);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault tsa_verify(struct request *request)
{
    struct op *op = request->op;
    const struct tsa_verify_request *body = request->body;
    CLEANUP(buf_free) struct buf roots = BUF_INIT(OWN_MAX * 16384), below = BUF_INIT(OWN_MAX * 16384);
    CLEANUP(buf_free) struct buf json = BUF_INIT(ANSWER_BYTES);
    enum tst_reason reason = TST_HOLDS;
    struct tst_info info = { 0 };
    bool given = body->roots_pem != NULL;
    const struct tst_hash *hash = tst_hash_by_name(body->hash_algorithm);
    if (hash == NULL || body->digest.len != hash->size) {
        return op_fail_field(op, FAULT(JSON_FIELD), hash == NULL ? "/hash_algorithm" : "/digest",
                             "hash_algorithm is sha256, sha384 or sha512, and digest has its length");
    }
    if (!given) {
        TRY(own_certificates(op, request->services, &roots, &below));
    }
    const struct tst_expect expect = { .hash = hash->name,
                                       .digest = body->digest,
                                       .nonce = body->nonce,
                                       .roots_pem = given ? span_text(body->roots_pem) : buf_span(&roots),
                                       .extra_pem = buf_span(&below),
                                       .at = body->at };
    struct fault fault = tst_judge(op, body->token, &expect, &info, &reason);
    if (FAULTED(fault) && fault.code != FAULT_TST_INVALID) {
        return fault;
    }
    TRY(print(op, given, reason, &info, &json));
    op->note = (struct fault_note){ 0 };
    return response_json(request, 0, &json);
}
