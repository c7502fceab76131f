#include "api/pkcs11/mechanism.h"

static const struct mechanism mechanisms[] = {
    { CKM_ECDSA, SCHEME_ECDSA, 0 },
    { CKM_ECDSA_SHA256, SCHEME_ECDSA, CKM_SHA256 },
    { CKM_ECDSA_SHA384, SCHEME_ECDSA, CKM_SHA384 },
    { CKM_ECDSA_SHA512, SCHEME_ECDSA, CKM_SHA512 },
    { CKM_RSA_PKCS, SCHEME_PKCS1, 0 },
    { CKM_SHA256_RSA_PKCS, SCHEME_PKCS1, CKM_SHA256 },
    { CKM_SHA384_RSA_PKCS, SCHEME_PKCS1, CKM_SHA384 },
    { CKM_SHA512_RSA_PKCS, SCHEME_PKCS1, CKM_SHA512 },
    { CKM_RSA_PKCS_PSS, SCHEME_PSS, 0 },
    { CKM_SHA256_RSA_PKCS_PSS, SCHEME_PSS, CKM_SHA256 },
    { CKM_SHA384_RSA_PKCS_PSS, SCHEME_PSS, CKM_SHA384 },
    { CKM_SHA512_RSA_PKCS_PSS, SCHEME_PSS, CKM_SHA512 },
    { CKM_SHA256, SCHEME_DIGEST, CKM_SHA256 },
    { CKM_SHA384, SCHEME_DIGEST, CKM_SHA384 },
    { CKM_SHA512, SCHEME_DIGEST, CKM_SHA512 },
};

const struct mechanism *mechanism_all(size_t *ret_count)
{
    *ret_count = COUNT_OF(mechanisms);
    return mechanisms;
}

const struct mechanism *mechanism_find(CK_MECHANISM_TYPE type)
{
    for (size_t i = 0; i < COUNT_OF(mechanisms); i++) {
        if (mechanisms[i].type == type) {
            return &mechanisms[i];
        }
    }
    return NULL;
}

const char *scheme_text(enum scheme scheme)
{
    static const char *const texts[] = {
        [SCHEME_DIGEST] = NULL,
        [SCHEME_ECDSA] = "ecdsa",
        [SCHEME_PKCS1] = "rsa-pkcs1v15",
        [SCHEME_PSS] = "rsa-pss",
    };
    return texts[scheme];
}

static CK_RV read_pss(const CK_MECHANISM *asked, const struct mechanism *mechanism, const struct hash **ret_hash)
{
    CK_RSA_PKCS_PSS_PARAMS params;
    if (asked->pParameter == NULL || asked->ulParameterLen != sizeof(params)) {
        return CKR_MECHANISM_PARAM_INVALID;
    }
    memcpy(&params, asked->pParameter, sizeof(params)); /* the caller's bytes need not be aligned */
    const struct hash *hash = hash_by_mechanism(params.hashAlg);
    bool fits = hash != NULL && params.mgf == hash->mgf && params.sLen == hash->len &&
                (mechanism->hash == 0 || mechanism->hash == params.hashAlg);
    if (!fits) {
        return CKR_MECHANISM_PARAM_INVALID;
    }
    *ret_hash = hash;
    return CKR_OK;
}

CK_RV mechanism_read(const CK_MECHANISM *asked, const struct mechanism **ret_mechanism, const struct hash **ret_hash)
{
    const struct hash *hash = NULL;
    if (asked == NULL) {
        return CKR_ARGUMENTS_BAD;
    }
    const struct mechanism *mechanism = mechanism_find(asked->mechanism);
    if (mechanism == NULL) {
        return CKR_MECHANISM_INVALID;
    }
    if (mechanism->scheme == SCHEME_PSS) {
        CK_RV rv = read_pss(asked, mechanism, &hash);
        if (rv != CKR_OK) {
            return rv;
        }
    } else if (asked->ulParameterLen != 0) {
        return CKR_MECHANISM_PARAM_INVALID;
    } else if (mechanism->hash != 0) {
        hash = hash_by_mechanism(mechanism->hash);
    }
    *ret_mechanism = mechanism;
    *ret_hash = hash;
    return CKR_OK;
}
