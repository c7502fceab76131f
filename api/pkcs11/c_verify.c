/* Verifying, in this process: the appliance is not asked. */
#include "api/pkcs11/check.h"
#include "api/pkcs11/session.h"

CK_RV C_VerifyInit(CK_SESSION_HANDLE handle, CK_MECHANISM_PTR mechanism, CK_OBJECT_HANDLE key)
{
    SESSION_ENTER(session, handle);
    CLEANUP(keyring_unrefp) struct keyring *keyring = NULL;
    CK_RV rv = module_keyring(&keyring);
    return rv == CKR_OK ? operation_begin(&session->verify, mechanism, keyring, key, CKO_PUBLIC_KEY) : rv;
}

static CK_RV finish(struct operation *operation, struct span data, struct span signature)
{
    uint8_t digest[HASH_LEN_MAX];
    const struct hash *hash = NULL;
    CK_RV rv = operation_put(operation, data);
    if (rv == CKR_OK) {
        rv = operation_digest(operation, digest, &hash);
    }
    if (rv == CKR_OK) {
        rv = signature_check(operation->key, operation->mechanism->scheme, hash, span_of(digest, hash->len), signature);
    }
    operation_end(operation);
    return rv;
}

CK_RV C_Verify(CK_SESSION_HANDLE handle, CK_BYTE_PTR data, CK_ULONG data_len, CK_BYTE_PTR signature, CK_ULONG len)
{
    SESSION_ENTER(session, handle);
    if (!operation_active(&session->verify)) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    if ((data == NULL && data_len > 0) || signature == NULL || session->verify.in_parts) {
        operation_end(&session->verify);
        return CKR_ARGUMENTS_BAD;
    }
    return finish(&session->verify, span_of(data, data_len), span_of(signature, len));
}

CK_RV C_VerifyUpdate(CK_SESSION_HANDLE handle, CK_BYTE_PTR part, CK_ULONG part_len)
{
    SESSION_ENTER(session, handle);
    if (!operation_active(&session->verify)) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    bool bad = part == NULL && part_len > 0;
    CK_RV rv = bad ? CKR_ARGUMENTS_BAD : operation_put(&session->verify, span_of(part, part_len));
    session->verify.in_parts = true;
    if (rv != CKR_OK) {
        operation_end(&session->verify);
    }
    return rv;
}

CK_RV C_VerifyFinal(CK_SESSION_HANDLE handle, CK_BYTE_PTR signature, CK_ULONG len)
{
    SESSION_ENTER(session, handle);
    if (!operation_active(&session->verify)) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    if (signature == NULL) {
        operation_end(&session->verify);
        return CKR_ARGUMENTS_BAD;
    }
    return finish(&session->verify, (struct span){ 0 }, span_of(signature, len));
}
