/* Signing: the data is hashed here, the digest is signed by the appliance. */
#include "api/pkcs11/check.h"
#include "api/pkcs11/ecdsa.h"
#include "api/pkcs11/session.h"
#include "api/pkcs11/tell.h"

#include <stdio.h>

#define SIGNATURE_MAX 2048
#define WHAT_MAX      320

CK_RV C_SignInit(CK_SESSION_HANDLE handle, CK_MECHANISM_PTR mechanism, CK_OBJECT_HANDLE key)
{
    SESSION_ENTER(session, handle);
    CLEANUP(keyring_unrefp) struct keyring *keyring = NULL;
    CK_RV rv = module_keyring(&keyring);
    return rv == CKR_OK ? operation_begin(&session->sign, mechanism, keyring, key, CKO_PRIVATE_KEY) : rv;
}

static CK_RV refused(struct settings *settings, const struct token_key *key, const struct refusal *refusal)
{
    char what[WHAT_MAX];
    (void)snprintf(what, sizeof(what), "sign with %s (%s)", key->name, key->id.text);
    refusal_tell(settings, what, refusal);
    if (refusal->fault.code == FAULT_KEY_NOT_FOUND || refusal->fault.code == FAULT_KEY_STATE) {
        module_keyring_doubt();
    }
    return refusal_rv(refusal);
}

/* As PKCS#11 wants it, and only when it fits the key: what does not would be found out much later by somebody else. */
static CK_RV take_signature(struct settings *settings, const struct operation *operation, const struct hash *hash,
                            struct span digest, struct span given, CK_BYTE_PTR out)
{
    uint8_t raw[SIGNATURE_MAX];
    const struct token_key *key = operation->key;
    enum scheme scheme = operation->mechanism->scheme;
    bool fits = key->signature_len <= sizeof(raw);
    if (fits && scheme == SCHEME_ECDSA) {
        fits = !FAULTED(ecdsa_to_raw(given, key->signature_len / 2, raw));
    } else if (fits) {
        fits = given.len == key->signature_len;
        memcpy(raw, given.at, fits ? given.len : 0);
    }
    struct span signature = span_of(raw, key->signature_len);
    if (!fits || signature_check(key, scheme, hash, digest, signature) != CKR_OK) {
        tell(settings, "sign with %s (%s): signature_invalid: what the appliance answered does not verify", key->name,
             key->id.text);
        return CKR_DEVICE_ERROR;
    }
    memcpy(out, raw, signature.len);
    return CKR_OK;
}

static CK_RV sign_digest(const struct operation *operation, const struct hash *hash, struct span digest,
                         CK_BYTE_PTR out)
{
    CLEANUP(settings_unrefp) struct settings *settings = NULL;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    struct refusal refusal = { 0 };
    const struct sign_order order = {
        .key_id = operation->key->id.text,
        .key_name = operation->key->name,
        .hash = hash,
        .digest = digest,
        .scheme = scheme_text(operation->mechanism->scheme),
    };
    CK_RV rv = module_settings(&settings);
    if (rv != CKR_OK) {
        return rv;
    }
    if (FAULTED(order_signature(settings, &order, &signature, &refusal))) {
        return refused(settings, operation->key, &refusal);
    }
    return take_signature(settings, operation, hash, digest, buf_span(&signature), out);
}

/* A reader of the log sees why a tool that worked with another token does not work with this one. */
static void tell_unsuitable(const struct operation *operation, CK_RV rv)
{
    CLEANUP(settings_unrefp) struct settings *settings = NULL;
    if (module_settings(&settings) == CKR_OK) {
        tell(settings, "sign with %s: refused here: %s of SHA-256, SHA-384 or SHA-512 is signed, and this is none (%s)",
             operation->key->name, operation->mechanism->scheme == SCHEME_PKCS1 ? "a DigestInfo" : "a digest",
             rv == CKR_DATA_INVALID ? "its form" : "its length");
    }
}

/* The signature's length is known beforehand: neither a question about it nor a buffer that is too small reaches the
 * appliance, or ends the operation. All else ends it. */
static CK_RV finish(struct operation *operation, struct span data, CK_BYTE_PTR out, CK_ULONG_PTR len)
{
    uint8_t digest[HASH_LEN_MAX];
    const struct hash *hash = NULL;
    CK_ULONG room = *len;
    *len = operation->key->signature_len;
    if (out == NULL) {
        return CKR_OK;
    }
    if (room < operation->key->signature_len) {
        return CKR_BUFFER_TOO_SMALL;
    }
    CK_RV rv = operation_put(operation, data);
    if (rv == CKR_OK) {
        rv = operation_digest(operation, digest, &hash);
    }
    if (rv == CKR_OK) {
        rv = sign_digest(operation, hash, span_of(digest, hash->len), out);
    } else {
        tell_unsuitable(operation, rv);
    }
    operation_end(operation);
    return rv;
}

CK_RV C_Sign(CK_SESSION_HANDLE handle, CK_BYTE_PTR data, CK_ULONG data_len, CK_BYTE_PTR signature, CK_ULONG_PTR len)
{
    SESSION_ENTER(session, handle);
    if (!operation_active(&session->sign)) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    if ((data == NULL && data_len > 0) || len == NULL || session->sign.in_parts) {
        operation_end(&session->sign);
        return CKR_ARGUMENTS_BAD;
    }
    return finish(&session->sign, span_of(data, data_len), signature, len);
}

CK_RV C_SignUpdate(CK_SESSION_HANDLE handle, CK_BYTE_PTR part, CK_ULONG part_len)
{
    SESSION_ENTER(session, handle);
    if (!operation_active(&session->sign)) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    bool bad = part == NULL && part_len > 0;
    CK_RV rv = bad ? CKR_ARGUMENTS_BAD : operation_put(&session->sign, span_of(part, part_len));
    session->sign.in_parts = true;
    if (rv != CKR_OK) {
        operation_end(&session->sign);
    }
    return rv;
}

CK_RV C_SignFinal(CK_SESSION_HANDLE handle, CK_BYTE_PTR signature, CK_ULONG_PTR len)
{
    SESSION_ENTER(session, handle);
    if (!operation_active(&session->sign)) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    if (len == NULL) {
        operation_end(&session->sign);
        return CKR_ARGUMENTS_BAD;
    }
    return finish(&session->sign, (struct span){ 0 }, signature, len);
}
