/* Verification under a certificate: chain, identity, and the time at which both are judged. */
#include "api/codesign/check.h"

#include "appliance/base/crypto.h"

#define ANSWER_MAX ((size_t)64 << 10)
#define PEM_MAX    ((size_t)512 << 10)
#define CHAIN      "/certificate_chain"

/* What the verifiers refuse is here always the certificate's fault. */
static struct fault of_certificate(struct op *op, struct fault fault)
{
    if (fault.code != FAULT_BUNDLE_INVALID && fault.code != FAULT_BAD_ARGUMENT) {
        return fault;
    }
    op->note.code = FAULT_CERTIFICATE_REFUSED;
    memcpy(op->note.pointer, CHAIN, sizeof(CHAIN));
    return FAULT(CERTIFICATE_REFUSED);
}

/* ---- the time stamp ---- */

/* What stamps are judged by, as PEM: the roots, and further certificates for stamps without their own. */
struct stamp_trust {
    struct buf roots, others;
};
static void stamp_trust_clear(struct stamp_trust *trust)
{
    buf_free(&trust->roots);
    buf_free(&trust->others);
}

static struct fault trust_own(struct request *request, struct stamp_trust *trust)
{
    struct authorities stampers;
    TRY(trust_stampers(request, &stampers));
    if (stampers.count == 0) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/timestamp_roots",
                             "there is no time-stamping authority here: give the roots of yours");
    }
    for (size_t i = 0; i < stampers.count; i++) {
        struct chain others = stampers.at[i].chain;
        const struct chain root = { .at = { others.at[others.count - 1] }, .count = 1 };
        others.count--;
        TRY(chain_to_pem(&root, &trust->roots));
        TRY(chain_to_pem(&others, &trust->others));
    }
    return OK;
}

/* The caller's roots, or else our own authority's. */
static struct fault read_trust(struct request *request, const struct check_body *body, struct stamp_trust *trust)
{
    struct chain given;
    TRY(check_read_chain(request->op, "/timestamp_roots", &body->timestamp_roots, &given));
    if (given.count == 0) {
        return trust_own(request, trust);
    }
    TRY(chain_to_pem(&given, &trust->roots));
    return chain_to_pem(&given, &trust->others);
}

/* The stamp must cover exactly this signature. */
static struct fault check_stamp(struct request *request, const struct check_body *body, struct tst_info *ret_info)
{
    CLEANUP(stamp_trust_clear) struct stamp_trust trust = { BUF_INIT(PEM_MAX), BUF_INIT(PEM_MAX) };
    struct op *op = request->op;
    struct tst_info seen;
    uint8_t digest[EVP_MAX_MD_SIZE];
    size_t len = 0;
    TRY(tst_inspect(op, body->timestamp, &seen)); /* says which hash to take */
    TRY(read_trust(request, body, &trust));
    if (EVP_Q_digest(crypto_context(), seen.hash, NULL, body->signature.at, body->signature.len, digest, &len) != 1) {
        return crypto_fail(op, "the signature could not be hashed");
    }
    const struct tst_expect expect = {
        .hash = seen.hash,
        .digest = span_of(digest, len),
        .roots_pem = buf_span(&trust.roots),
        .extra_pem = buf_span(&trust.others),
    };
    return tst_verify(op, body->timestamp, &expect, ret_info);
}

/* ---- the certificate ---- */

/* To any one authority that was one at that time. The refusal is the last such one's: with one authority, the reason.
 */
static struct fault check_path(struct op *op, const struct chain *chain, const struct authorities *authorities,
                               utc_us time, enum signer_use use)
{
    struct fault fault = op_fail_field(op, FAULT(CERTIFICATE_REFUSED), CHAIN,
                                       "there is no authority that was valid then, to judge the certificate by");
    for (size_t i = 0; i < authorities->count; i++) {
        if (!authority_at(&authorities->at[i], time)) {
            continue;
        }
        op->note = (struct fault_note){ 0 };
        fault = chain_verify(op, chain, &authorities->at[i].chain, time, use);
        if (!FAULTED(fault)) {
            return OK;
        }
    }
    return of_certificate(op, fault);
}

static struct fault check_identity(struct op *op, const struct check_body *body, struct span leaf)
{
    struct identity identity;
    bool named = false;
    TRY(of_certificate(op, certificate_identity(op, leaf, &identity)));
    for (size_t i = 0; i < identity.name_count; i++) {
        named = named || strcmp(identity.names[i], body->expected_san) == 0;
    }
    if (!named || identity.issuer == NULL || strcmp(identity.issuer, body->expected_issuer) != 0) {
        return op_fail_field(op, FAULT(KEYLESS_CONTRADICTION), named ? "/expected_issuer" : "/expected_san",
                             "the certificate is of another identity than the one that is expected");
    }
    return OK;
}

static struct fault read_signer(struct op *op, const struct check_body *body, struct chain *ret_chain,
                                struct judged *judged)
{
    TRY(check_read_chain(op, CHAIN, &body->certificate_chain, ret_chain));
    TRY(of_certificate(op, chain_check_order(op, ret_chain)));
    return of_certificate(op, certificate_spki(op, ret_chain->at[0], &judged->spki));
}

static struct fault put_certificate(struct op *op, struct jout *jout, struct span leaf)
{
    struct sha256 digest;
    utc_us from = 0, until = 0;
    TRY(sha256_of(leaf, &digest));
    TRY(certificate_validity(op, leaf, &from, &until));
    jout_key_hex(jout, "certificate_sha256", SPAN_ARRAY(digest.at));
    jout_key_time(jout, "not_before", from);
    jout_key_time(jout, "not_after", until);
    return OK;
}

/* ---- keyless ---- */

/* Without a stamp the only time there is, is now. */
static struct fault check_now(struct op *op, const struct chain *chain, const struct authorities *authorities,
                              utc_us now)
{
    struct fault fault = check_path(op, chain, authorities, now, SIGNER_CODE_SIGNING);
    if (fault.code != FAULT_TIMESTAMP_VALIDITY) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    return op_fail_field(op, FAULT(CERTIFICATE_REFUSED), CHAIN,
                         "the certificate is not valid now: give the time stamp that proves when it was signed");
}

struct fault route_keyless_verify(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    const struct check_body *body = request->body;
    struct op *op = request->op;
    bool stamped = body->timestamp.len > 0;
    struct judged judged = { 0 };
    struct tst_info stamp = { .time = clock_utc() };
    struct authorities authorities;
    struct chain chain;
    struct jout jout;
    TRY(read_signer(op, body, &chain, &judged));
    TRY(check_identity(op, body, chain.at[0]));
    TRY(stamped ? check_stamp(request, body, &stamp) : OK);
    TRY(trust_signers(request, &authorities));
    TRY(stamped ? check_path(op, &chain, &authorities, stamp.time, SIGNER_CODE_SIGNING)
                : check_now(op, &chain, &authorities, stamp.time));
    TRY(check_signature(request, body, KEY_PURPOSE_CODESIGN_EPHEMERAL, FAULT(CERTIFICATE_REFUSED), CHAIN, &judged));
    TRY(check_answer_begin(&jout, &answer, &judged));
    TRY(put_certificate(op, &jout, chain.at[0]));
    jout_key_text(&jout, "fulcio_san", body->expected_san);
    jout_key_text(&jout, "fulcio_issuer", body->expected_issuer);
    jout_key_text(&jout, "time_source", stamped ? "timestamp" : "now");
    jout_key_time(&jout, "judged_at", stamp.time);
    return check_answer_end(request, &jout, &answer);
}

/* ---- long term ---- */

static struct fault read_roots(struct request *request, const struct check_body *body, struct authorities *ret_roots)
{
    struct authorities roots = { .count = 0 };
    struct chain given;
    TRY(check_read_chain(request->op, "/root_certificates", &body->root_certificates, &given));
    if (given.count == 0) {
        return trust_signers(request, ret_roots);
    }
    TRY(authorities_add(request->op, &given, &roots));
    if (roots.count == 0) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/root_certificates",
                             "none of them is self-signed: there is no root among them");
    }
    *ret_roots = roots;
    return OK;
}

struct fault route_verify_long_term(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    const struct check_body *body = request->body;
    struct op *op = request->op;
    struct judged judged = { 0 };
    struct tst_info stamp;
    struct authorities roots;
    struct chain chain;
    struct jout jout;
    TRY(read_signer(op, body, &chain, &judged));
    TRY(read_roots(request, body, &roots));
    TRY(check_stamp(request, body, &stamp));
    TRY(check_path(op, &chain, &roots, stamp.time, SIGNER_ANY_USE));
    TRY(check_signature(request, body, KEY_PURPOSE_CODESIGN, FAULT(CERTIFICATE_REFUSED), CHAIN, &judged));
    TRY(check_answer_begin(&jout, &answer, &judged));
    TRY(put_certificate(op, &jout, chain.at[0]));
    jout_key_time(&jout, "gen_time", stamp.time);
    jout_key_text(&jout, "timestamp_serial", stamp.serial);
    jout_key_text(&jout, "timestamp_policy", stamp.policy);
    jout_key_text(&jout, "timestamp_signer", stamp.signer);
    return check_answer_end(request, &jout, &answer);
}
