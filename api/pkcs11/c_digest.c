/* Hashing in this process. */
#include "api/pkcs11/session.h"

CK_RV C_DigestInit(CK_SESSION_HANDLE handle, CK_MECHANISM_PTR mechanism)
{
    SESSION_ENTER(session, handle);
    return operation_begin_digest(&session->digest, mechanism);
}

/* A question about the length, and a buffer that is too small, leave the operation as it is; all else ends it. */
static CK_RV finish(struct operation *operation, struct span data, CK_BYTE_PTR out, CK_ULONG_PTR len)
{
    uint8_t digest[HASH_LEN_MAX];
    const struct hash *hash = operation->hash;
    CK_ULONG room = *len;
    *len = hash->len;
    if (out == NULL) {
        return CKR_OK;
    }
    if (room < hash->len) {
        return CKR_BUFFER_TOO_SMALL;
    }
    CK_RV rv = operation_put(operation, data);
    if (rv == CKR_OK) {
        rv = operation_digest(operation, digest, &hash);
    }
    if (rv == CKR_OK) {
        memcpy(out, digest, hash->len);
    }
    operation_end(operation);
    return rv;
}

CK_RV C_Digest(CK_SESSION_HANDLE handle, CK_BYTE_PTR data, CK_ULONG data_len, CK_BYTE_PTR digest, CK_ULONG_PTR len)
{
    SESSION_ENTER(session, handle);
    if (!operation_active(&session->digest)) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    if ((data == NULL && data_len > 0) || len == NULL || session->digest.in_parts) {
        operation_end(&session->digest);
        return CKR_ARGUMENTS_BAD;
    }
    return finish(&session->digest, span_of(data, data_len), digest, len);
}

CK_RV C_DigestUpdate(CK_SESSION_HANDLE handle, CK_BYTE_PTR part, CK_ULONG part_len)
{
    SESSION_ENTER(session, handle);
    if (!operation_active(&session->digest)) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    bool bad = part == NULL && part_len > 0;
    CK_RV rv = bad ? CKR_ARGUMENTS_BAD : operation_put(&session->digest, span_of(part, part_len));
    session->digest.in_parts = true;
    if (rv != CKR_OK) {
        operation_end(&session->digest);
    }
    return rv;
}

CK_RV C_DigestFinal(CK_SESSION_HANDLE handle, CK_BYTE_PTR digest, CK_ULONG_PTR len)
{
    SESSION_ENTER(session, handle);
    if (!operation_active(&session->digest)) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    if (len == NULL) {
        operation_end(&session->digest);
        return CKR_ARGUMENTS_BAD;
    }
    return finish(&session->digest, (struct span){ 0 }, digest, len);
}
