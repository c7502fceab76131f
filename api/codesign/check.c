/*
 * Verification as a service: the signature is judged by the signer's cryptography, certificates and time stamps by the
 * offline verifiers (verify.h, api/tsa/verify.h). Nothing is recorded. Whoever can should verify offline instead: these
 * routes say what this appliance finds, not what its caller can prove.
 */
#include "api/codesign/check.h"

#define ANSWER_MAX ((size_t)64 << 10)

struct fault check_signature(struct request *request, const struct check_body *body, enum key_purpose purpose,
                             struct fault code, const char *pointer, struct judged *judged)
{
    struct op *op = request->op;
    TRY(check_read_digest(op, body, &judged->hash));
    TRY(check_read_scheme(op, judged->spki, code, pointer, body->signature_scheme, &judged->scheme));
    struct sign_request asked = {
        .key = { .tenant = op->tenant, .purpose = purpose },
        .scheme = judged->scheme,
        .hash = judged->hash,
        .digest = body->digest,
    };
    TRY(uuid_derive("codesign.check", &judged->spki, 1, &asked.key.id));
    return signer_verify_under(op, request->services->signer, &asked, judged->spki, body->signature);
}

struct fault check_answer_begin(struct jout *jout, struct buf *answer, const struct judged *judged)
{
    struct sha256 spki;
    TRY(sha256_of(judged->spki, &spki));
    jout_init(jout, answer);
    jout_object(jout);
    jout_key_bool(jout, "valid", true);
    jout_key_text(jout, "digest_algorithm", hash_algorithm_text(judged->hash));
    jout_key_text(jout, "signature_scheme", codesign_scheme_text(judged->scheme));
    keys_print_mode(jout, check_approved(judged->spki), judged->scheme == SIGN_SCHEME_ML_DSA);
    jout_key_hex(jout, "public_key_sha256", SPAN_ARRAY(spki.at));
    return OK;
}

struct fault check_answer_end(struct request *request, struct jout *jout, struct buf *answer)
{
    jout_object_end(jout);
    TRY(jout_end(jout));
    return response_json(request, 0, answer);
}

/* ---- under a key ---- */

/* Another tenant's key, one of another purpose and what is no id at all are the same: not a key for this. */
static struct fault find_key(struct request *request, const char *text, struct managed_key *ret_key)
{
    struct op *op = request->op;
    struct managed_key key = { .state = "" };
    struct uuid id;
    struct fault fault = FAULT(KEY_NOT_FOUND);
    if (!FAULTED(uuid_parse(span_text(text), &id))) {
        fault = keys_get(op, request->services, id, &key);
    }
    if (!FAULTED(fault) && key.ref.purpose == KEY_PURPOSE_CODESIGN) {
        *ret_key = key;
        return OK;
    }
    if (FAULTED(fault) && fault.code != FAULT_KEY_NOT_FOUND) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    return op_fail_field(op, FAULT(KEY_NOT_FOUND), "/key_id", "no such code-signing key");
}

static struct fault ask_token(struct request *request, const struct check_body *body, const struct managed_key *key,
                              struct judged *judged)
{
    struct op *op = request->op;
    TRY(check_read_digest(op, body, &judged->hash));
    TRY(keys_check_fence(op, key->algorithm, "/key_id"));
    TRY(codesign_scheme_choose(op, body->signature_scheme, key->algorithm, &judged->scheme));
    const struct sign_request asked = {
        .key = key->ref, .scheme = judged->scheme, .hash = judged->hash, .digest = body->digest
    };
    return signer_verify(op, request->services->signer, &asked, body->signature);
}

/* The token is asked by the key's handle; of a key that it has no more, the public half is kept. */
static struct fault check_key(struct request *request, const struct check_body *body, struct managed_key *ret_key,
                              struct judged *judged)
{
    TRY(find_key(request, body->key_id, ret_key));
    BUG_IF(ret_key->state == NULL);
    judged->spki = ret_key->spki;
    if (strcmp(ret_key->state, "destroyed") != 0) {
        struct fault fault = ask_token(request, body, ret_key, judged);
        if (fault.code != FAULT_KEY_NOT_FOUND) {
            return fault;
        }
        request->op->note = (struct fault_note){ 0 };
    }
    return check_signature(request, body, KEY_PURPOSE_CODESIGN, FAULT(KEY_STATE), "/key_id", judged);
}

struct fault route_verify(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    const struct check_body *body = request->body;
    struct judged judged = { .spki = body->public_key_der };
    struct managed_key key = { .state = "" };
    struct jout jout;
    if ((body->key_id != NULL) == (body->public_key_der.len > 0)) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/key_id", "give either key_id or public_key_der");
    }
    TRY(body->key_id != NULL
            ? check_key(request, body, &key, &judged)
            : check_signature(request, body, KEY_PURPOSE_CODESIGN, FAULT(JSON_FIELD), "/public_key_der", &judged));
    TRY(check_answer_begin(&jout, &answer, &judged));
    if (body->key_id != NULL) {
        jout_key_text(&jout, "key_id", key.ref.id.text);
        jout_key_text(&jout, "key_state", key.state);
    }
    return check_answer_end(request, &jout, &answer);
}
