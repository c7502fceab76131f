/* The envelope: a pinned key, its signature, and that what stands beside it is what was signed. */
#include "api/compliance/verify_internal.h"

#include "appliance/base/crypto.h"

struct fault take_file(struct check *check, struct span bytes, const struct jin_field *fields, size_t count,
                       void *ret_struct)
{
    const struct fault_note *note = &check->op->note;
    const char *envelope = "/signed_export";
    check->op->note = (struct fault_note){ 0 };
    struct fault fault = jin_decode(check->op, bytes, fields, count, ret_struct);
    if (fault.code == FAULT_JSON_SYNTAX) {
        return refuse(check, PACK_NOT_JSON, note->pointer, "%s", note->detail);
    }
    if (fault.code == FAULT_JSON_FIELD) {
        bool within = strncmp(note->pointer, envelope, strlen(envelope)) == 0;
        return refuse(check, within ? PACK_ENVELOPE : PACK_MEMBERS, note->pointer, "%s", note->detail);
    }
    return fault;
}

static const struct jwk *pinned(const struct check *check, const char *kid)
{
    const struct jwk_set *keys = check->pins->keys;
    for (size_t i = 0; i < keys->count; i++) {
        if (strcmp(keys->at[i].kid, kid) == 0) {
            return &keys->at[i];
        }
    }
    return NULL;
}

static struct fault check_key(struct check *check, struct span public_key_der)
{
    char kid[44];
    const unsigned char *at = public_key_der.at;
    long len = (long)public_key_der.len;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, len, crypto_context(), NULL);
    if (key == NULL || at != public_key_der.at + len) {
        IGNORE(crypto_fail(NULL, "public key"));
        return refuse(check, PACK_PUBLIC_KEY, "/public_key_der", "it is no SubjectPublicKeyInfo in DER");
    }
    TRY(jwk_kid(public_key_der, kid));
    if (pinned(check, kid) == NULL) {
        return refuse(check, PACK_KEY_UNPINNED, "/public_key_der", "the key %s is none of the %zu pinned ones", kid,
                      check->pins->keys->count);
    }
    return OK;
}

struct fault verify_key_window(struct check *check, const struct jwk *key, utc_us at)
{
    char text[RFC3339_MAX];
    if (key->not_before != 0 && at < key->not_before) {
        rfc3339_print(key->not_before, text);
        return refuse(check, PACK_KEY_WINDOW, AT_MANIFEST "/generated_at", "the key signs from %s on", text);
    }
    if (key->not_after != 0 && at > key->not_after) {
        rfc3339_print(key->not_after, text);
        return refuse(check, PACK_KEY_WINDOW, AT_MANIFEST "/generated_at", "the key signed until %s", text);
    }
    return OK;
}

/* ---- the signature ---- */

static enum evidence_reason jws_reason(struct fault fault)
{
    switch ((int)fault.code) {
    case FAULT_JWS_FORMAT:
        return PACK_JWS_FORM;
    case FAULT_JWS_KEY:
    case FAULT_JWS_ALGORITHM:
        return PACK_JWS_KEY;
    case FAULT_JWS_SIGNATURE:
        return PACK_SIGNATURE;
    default:
        return PACK_HOLDS;
    }
}

static struct fault verify_signed(struct check *check, struct span compact, const char *typ, const struct jwk **ret_key)
{
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(EVIDENCE_MANIFEST_MAX);
    struct evidence_verdict *verdict = check->verdict;
    struct span payload;
    const char *kid = NULL;
    check->op->note = (struct fault_note){ 0 };
    struct fault fault = jws_verify(check->op, compact, typ, check->pins->keys, &payload, &kid);
    if (FAULTED(fault)) {
        enum evidence_reason reason = jws_reason(fault);
        return reason == PACK_HOLDS ? fault : refuse(check, reason, "/signed_export/jws", "%s", check->op->note.detail);
    }
    fault = json_canonical(payload, &canonical);
    if (fault.code == FAULT_NO_MEMORY) {
        return fault;
    }
    if (FAULTED(fault) || !span_equal(buf_span(&canonical), payload)) {
        return refuse(check, PACK_PAYLOAD, "/signed_export/jws", "the signed bytes are not canonical JSON (RFC 8785)");
    }
    TRY(sha256_of(payload, &verdict->digest));
    verdict->payload = payload;
    *ret_key = pinned(check, kid);
    return arena_text(check->op->arena, span_text(kid), &verdict->kid);
}

struct fault verify_envelope(struct check *check, const struct envelope *envelope, struct span public_key_der,
                             const char *typ, const struct jwk **ret_key)
{
    const struct evidence_verdict *verdict = check->verdict;
    char kid[44];
    if (strcmp(envelope->algorithm, EVIDENCE_JWS_ALG) != 0) {
        return refuse(check, PACK_ALGORITHM, "/signed_export/algorithm", "\"%s\", where %s is wanted",
                      envelope->algorithm, EVIDENCE_JWS_ALG);
    }
    TRY(check_key(check, public_key_der));
    TRY(verify_signed(check, span_text(envelope->jws), typ, ret_key));
    TRY(jwk_kid(public_key_der, kid));
    if (strcmp(verdict->kid, kid) != 0) {
        return refuse(check, PACK_JWS_KEY, "/signed_export/jws", "it is signed by the key %s, and not by %s",
                      verdict->kid, kid);
    }
    if (!span_equal(envelope->manifest, verdict->payload)) {
        return refuse(check, PACK_MANIFEST_COPY, AT_MANIFEST, "it is not the payload of the JWS");
    }
    if (memcmp(envelope->manifest_sha256.at, verdict->digest.at, SHA256_LEN) != 0) {
        return refuse(check, PACK_DIGEST, "/signed_export/manifest_sha256", "it is not SHA-256 of the signed bytes");
    }
    return OK;
}
