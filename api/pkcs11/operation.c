#include "api/pkcs11/operation.h"

static CK_RV start(struct operation *operation, const struct mechanism *mechanism, const struct hash *hash)
{
    struct operation made = { .mechanism = mechanism, .hash = hash };
    if (mechanism->hash != 0 && FAULTED(hash_start(hash, &made.md))) {
        return CKR_HOST_MEMORY;
    }
    *operation = made;
    return CKR_OK;
}

CK_RV operation_begin_digest(struct operation *operation, const CK_MECHANISM *asked)
{
    const struct mechanism *mechanism = NULL;
    const struct hash *hash = NULL;
    if (operation_active(operation)) {
        return CKR_OPERATION_ACTIVE;
    }
    CK_RV rv = mechanism_read(asked, &mechanism, &hash);
    if (rv != CKR_OK) {
        return rv;
    }
    return mechanism->scheme == SCHEME_DIGEST ? start(operation, mechanism, hash) : CKR_MECHANISM_INVALID;
}

CK_RV operation_begin(struct operation *operation, const CK_MECHANISM *asked, struct keyring *keyring,
                      CK_OBJECT_HANDLE handle, CK_OBJECT_CLASS class)
{
    const struct mechanism *mechanism = NULL;
    const struct hash *hash = NULL;
    if (operation_active(operation)) {
        return CKR_OPERATION_ACTIVE;
    }
    CK_RV rv = mechanism_read(asked, &mechanism, &hash);
    if (rv != CKR_OK) {
        return rv;
    }
    if (mechanism->scheme == SCHEME_DIGEST) {
        return CKR_MECHANISM_INVALID;
    }
    const struct object *object = keyring_find(keyring, handle);
    if (object == NULL || object->key == NULL) {
        return CKR_KEY_HANDLE_INVALID;
    }
    if (object->class != class) {
        return CKR_KEY_FUNCTION_NOT_PERMITTED;
    }
    if (object->key->type != scheme_key_type(mechanism->scheme)) {
        return CKR_KEY_TYPE_INCONSISTENT;
    }
    rv = start(operation, mechanism, hash);
    if (rv == CKR_OK) {
        operation->keyring = keyring_ref(keyring);
        operation->key = object->key;
    }
    return rv;
}

void operation_end(struct operation *operation)
{
    EVP_MD_CTX_free(operation->md);
    keyring_unref(operation->keyring);
    *operation = (struct operation){ 0 };
}

CK_RV operation_put(struct operation *operation, struct span data)
{
    if (operation->md != NULL) {
        bool fine = data.len == 0 || EVP_DigestUpdate(operation->md, data.at, data.len) == 1;
        return fine ? CKR_OK : CKR_GENERAL_ERROR;
    }
    if (data.len > sizeof(operation->raw) - operation->raw_len) {
        return CKR_DATA_LEN_RANGE;
    }
    if (data.len > 0) {
        memcpy(operation->raw + operation->raw_len, data.at, data.len);
    }
    operation->raw_len += data.len;
    return CKR_OK;
}

static CK_RV take_raw(const struct operation *operation, uint8_t *digest, const struct hash **ret_hash)
{
    struct span data = span_of(operation->raw, operation->raw_len), inner = data;
    const struct hash *hash = operation->hash;
    if (operation->mechanism->scheme == SCHEME_PKCS1) {
        hash = hash_unwrap(data, &inner);
        if (hash == NULL) {
            return CKR_DATA_INVALID;
        }
    } else if (hash == NULL) {
        hash = hash_by_len(data.len);
    }
    if (hash == NULL || inner.len != hash->len) {
        return CKR_DATA_LEN_RANGE;
    }
    memcpy(digest, inner.at, inner.len);
    *ret_hash = hash;
    return CKR_OK;
}

CK_RV operation_digest(struct operation *operation, uint8_t *digest, const struct hash **ret_hash)
{
    if (operation->md == NULL) {
        return take_raw(operation, digest, ret_hash);
    }
    unsigned len = 0;
    if (EVP_DigestFinal_ex(operation->md, digest, &len) != 1 || len != operation->hash->len) {
        return CKR_GENERAL_ERROR;
    }
    *ret_hash = operation->hash;
    return CKR_OK;
}
