/*
 * Verification as a service: the signature is judged by the signer's cryptography, certificates and time stamps by the
 * offline verifiers (verify.h, api/tsa/verify.h). Nothing is recorded. Whoever can should verify offline instead: these
 * routes say what this appliance finds, not what its caller can prove.
 */
#include "api/codesign/internal.h"

#include "api/ca/certificate.h"
#include "api/codesign/verify.h"
#include "api/tsa/tsa.h"
#include "api/tsa/verify.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

#define ANSWER_MAX ((size_t)256 << 10)
#define PEM_MAX    ((size_t)256 << 10)

/* ---- reading ---- */

static struct fault read_digest(struct op *op, const struct check_body *body, enum hash_algorithm *ret_hash)
{
    struct codesign_request request;
    const struct codesign_body one = {
        .artifact_type = "",
        .digest_algorithm = body->digest_algorithm,
        .digest = body->digest,
    };
    TRY(codesign_request_read(op, FORM_SIGN, &one, &request));
    *ret_hash = request.hash;
    return OK;
}

static struct fault read_chain(struct op *op, const char *pointer, const struct jin_texts *texts,
                               struct chain *ret_chain)
{
    struct chain chain = { 0 };
    if (texts->count > CHAIN_MAX) {
        return op_fail_field(op, FAULT(JSON_FIELD), pointer, "at most %d certificates", CHAIN_MAX);
    }
    for (size_t i = 0; i < texts->count; i++) {
        CLEANUP(buf_free) struct buf der = BUF_INIT(8192);
        if (FAULTED(base64_decode(span_text(texts->at[i]), &der))) {
            return op_fail_field(op, FAULT(JSON_FIELD), pointer, "each certificate is the base64 of its DER");
        }
        TRY(arena_copy(op->arena, buf_span(&der), &chain.at[chain.count++]));
    }
    *ret_chain = chain;
    return OK;
}

/* The scheme that goes with a public key where the caller does not say. */
static struct fault choose_scheme(struct op *op, struct span spki, const char *text, enum sign_scheme *ret_scheme)
{
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    if (key == NULL || at != spki.at + spki.len) {
        IGNORE(crypto_fail(NULL, "public key"));
        return op_fail_field(op, FAULT(JSON_FIELD), "/public_key_der", "this is no PKIX public key (DER, base64)");
    }
    bool rsa = EVP_PKEY_is_a(key, "RSA") == 1;
    return codesign_scheme_choose(op, text, rsa ? KEY_ALGORITHM_RSA_3072 : KEY_ALGORITHM_EC_P256, ret_scheme);
}

/* ---- the signature ---- */

struct judged {
    enum hash_algorithm hash;
    enum sign_scheme scheme;
    struct span spki;
};

static struct fault judge(struct request *request, const struct check_body *body, enum key_purpose purpose,
                          struct judged *judged)
{
    struct op *op = request->op;
    TRY(read_digest(op, body, &judged->hash));
    TRY(choose_scheme(op, judged->spki, body->signature_scheme, &judged->scheme));
    struct sign_request asked = {
        .key = { .tenant = op->tenant, .purpose = purpose },
        .scheme = judged->scheme,
        .hash = judged->hash,
        .digest = body->digest,
    };
    TRY(uuid_derive("codesign.check", &judged->spki, 1, &asked.key.id));
    return signer_verify_under(op, request->services->signer, &asked, judged->spki, body->signature);
}

/* An active key is asked by its handle; of one that is destroyed its public half is kept. */
static struct fault judge_key(struct request *request, const struct check_body *body, struct managed_key *ret_key,
                              struct judged *judged)
{
    struct op *op = request->op;
    struct uuid id;
    struct fault fault = uuid_parse(span_text(body->key_id), &id);
    if (!FAULTED(fault)) {
        fault = keys_get(op, request->services, id, ret_key);
    }
    if (fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_KEY_NOT_FOUND ||
        (!FAULTED(fault) && ret_key->ref.purpose != KEY_PURPOSE_CODESIGN)) {
        op->note = (struct fault_note){ 0 };
        return op_fail_field(op, FAULT(KEY_NOT_FOUND), "/key_id", "no such code-signing key");
    }
    TRY(fault);
    judged->spki = ret_key->spki;
    if (strcmp(ret_key->state, "active") != 0) {
        return judge(request, body, KEY_PURPOSE_CODESIGN, judged);
    }
    TRY(read_digest(op, body, &judged->hash));
    TRY(codesign_scheme_choose(op, body->signature_scheme, ret_key->algorithm, &judged->scheme));
    const struct sign_request asked = {
        .key = ret_key->ref, .scheme = judged->scheme, .hash = judged->hash, .digest = body->digest
    };
    return signer_verify(op, request->services->signer, &asked, body->signature);
}

static struct fault begin_answer(struct jout *jout, struct buf *answer, const struct judged *judged)
{
    struct sha256 spki;
    TRY(sha256_of(judged->spki, &spki));
    jout_init(jout, answer);
    jout_object(jout);
    jout_key_bool(jout, "valid", true);
    jout_key_text(jout, "digest_algorithm", hash_algorithm_text(judged->hash));
    jout_key_text(jout, "signature_scheme", codesign_scheme_text(judged->scheme));
    jout_key_hex(jout, "public_key_sha256", SPAN_ARRAY(spki.at));
    return OK;
}

static struct fault end_answer(struct request *request, struct jout *jout, struct buf *answer)
{
    jout_object_end(jout);
    TRY(jout_end(jout));
    return response_json(request, 0, answer);
}

struct fault route_verify(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    const struct check_body *body = request->body;
    struct judged judged = { .spki = body->public_key_der };
    struct managed_key key = { 0 };
    struct jout jout;
    if ((body->key_id != NULL) == (body->public_key_der.len > 0)) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/key_id", "give either key_id or public_key_der");
    }
    TRY(body->key_id != NULL ? judge_key(request, body, &key, &judged)
                             : judge(request, body, KEY_PURPOSE_CODESIGN, &judged));
    TRY(begin_answer(&jout, &answer, &judged));
    if (body->key_id != NULL) {
        jout_key_text(&jout, "key_id", key.ref.id.text);
        jout_key_text(&jout, "key_state", key.state);
    }
    return end_answer(request, &jout, &answer);
}

/* ---- the time ---- */

static struct fault to_pem(struct op *op, const struct chain *chain, struct span *ret_pem)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(PEM_MAX);
    for (size_t i = 0; i < chain->count; i++) {
        TRY(certificate_pem(chain->at[i], &pem));
    }
    return arena_copy(op->arena, buf_span(&pem), ret_pem);
}

/* The roots that stamps are judged by: the caller's, or our own authority's. */
static struct fault stamp_roots(struct request *request, const struct check_body *body, struct span *ret_pem)
{
    struct chain roots = { 0 };
    struct span leaf;
    TRY(read_chain(request->op, "/timestamp_roots", &body->timestamp_roots, &roots));
    if (roots.count == 0) {
        if (!tsa_certificates(request->services, &leaf, &roots.at[0])) {
            return op_fail_field(request->op, FAULT(JSON_FIELD), "/timestamp_roots",
                                 "there is no time-stamping authority here: give the roots of yours");
        }
        roots.count = 1;
    }
    return to_pem(request->op, &roots, ret_pem);
}

/* The stamp must cover exactly this signature. */
static struct fault judge_stamp(struct request *request, const struct check_body *body, struct tst_info *ret_info)
{
    struct op *op = request->op;
    struct tst_info seen;
    uint8_t digest[EVP_MAX_MD_SIZE];
    size_t len = 0;
    struct span roots;
    TRY(tst_inspect(op, body->timestamp, &seen));
    TRY(stamp_roots(request, body, &roots));
    if (EVP_Q_digest(crypto_context(), seen.hash, NULL, body->signature.at, body->signature.len, digest, &len) != 1) {
        return crypto_fail(op, "the signature could not be hashed");
    }
    const struct tst_expect expect = { .hash = seen.hash, .digest = span_of(digest, len), .roots_pem = roots };
    return tst_verify(op, body->timestamp, &expect, ret_info);
}

/* ---- keyless ---- */

/* A path to any one of several roots. */
static struct fault path_to(struct op *op, const struct chain *chain, const struct chain *roots, utc_us time,
                            enum signer_use use)
{
    struct fault fault = op_fail(op, FAULT(CERTIFICATE_REFUSED), "there is no authority to judge the certificate by");
    for (size_t i = 0; i < roots->count; i++) {
        const struct chain root = { .at = { roots->at[i] }, .count = 1 };
        op->note = (struct fault_note){ 0 };
        fault = chain_verify(op, chain, &root, time, use);
        if (!FAULTED(fault)) {
            return OK;
        }
    }
    return fault;
}

static struct fault check_identity(struct op *op, const struct check_body *body, struct span leaf)
{
    struct identity identity;
    bool named = false;
    TRY(certificate_identity(op, leaf, &identity));
    for (size_t i = 0; i < identity.name_count; i++) {
        named = named || strcmp(identity.names[i], body->expected_san) == 0;
    }
    if (!named || identity.issuer == NULL || strcmp(identity.issuer, body->expected_issuer) != 0) {
        return op_fail(op, FAULT(KEYLESS_CONTRADICTION),
                       "the certificate is not of the identity that is expected (expected_san, expected_issuer)");
    }
    return OK;
}

static struct fault read_signer(struct request *request, const struct check_body *body, struct chain *ret_chain,
                                struct judged *judged)
{
    TRY(read_chain(request->op, "/certificate_chain", &body->certificate_chain, ret_chain));
    return certificate_spki(request->op, ret_chain->at[0], &judged->spki);
}

struct fault route_keyless_verify(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    const struct check_body *body = request->body;
    struct judged judged = { 0 };
    struct tst_info stamp = { .time = clock_utc() };
    struct chain chain, roots;
    struct jout jout;
    TRY(read_signer(request, body, &chain, &judged));
    TRY(check_identity(request->op, body, chain.at[0]));
    TRY(body->timestamp.len > 0 ? judge_stamp(request, body, &stamp) : OK);
    TRY(trust_authorities(request, &roots));
    TRY(path_to(request->op, &chain, &roots, stamp.time, SIGNER_CODE_SIGNING));
    TRY(judge(request, body, KEY_PURPOSE_CODESIGN_EPHEMERAL, &judged));
    TRY(begin_answer(&jout, &answer, &judged));
    jout_key_text(&jout, "fulcio_san", body->expected_san);
    jout_key_text(&jout, "fulcio_issuer", body->expected_issuer);
    jout_key_text(&jout, "time_source", body->timestamp.len > 0 ? "timestamp" : "now");
    jout_key_time(&jout, "judged_at", stamp.time);
    return end_answer(request, &jout, &answer);
}

/* ---- long term ---- */

struct fault route_verify_long_term(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    const struct check_body *body = request->body;
    struct op *op = request->op;
    struct judged judged = { 0 };
    struct tst_info stamp;
    struct chain chain, roots;
    struct jout jout;
    utc_us from = 0, until = 0;
    TRY(read_signer(request, body, &chain, &judged));
    TRY(read_chain(op, "/root_certificates", &body->root_certificates, &roots));
    TRY(roots.count == 0 ? trust_authorities(request, &roots) : OK);
    TRY(judge_stamp(request, body, &stamp));
    TRY(path_to(op, &chain, &roots, stamp.time, SIGNER_ANY_USE));
    TRY(certificate_validity(op, chain.at[0], &from, &until));
    TRY(judge(request, body, KEY_PURPOSE_CODESIGN, &judged));
    TRY(begin_answer(&jout, &answer, &judged));
    jout_key_time(&jout, "gen_time", stamp.time);
    jout_key_text(&jout, "timestamp_serial", stamp.serial);
    jout_key_text(&jout, "timestamp_policy", stamp.policy);
    jout_key_text(&jout, "timestamp_signer", stamp.signer);
    jout_key_time(&jout, "not_before", from);
    jout_key_time(&jout, "not_after", until);
    return end_answer(request, &jout, &answer);
}
