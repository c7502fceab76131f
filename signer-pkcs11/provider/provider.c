#include "signer-pkcs11/provider/provider.h"

#include "appliance/base/crypto.h"
#include "signer-pkcs11/provider/internal.h"

#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/provider.h>

/* Set once by svc_provider_load, before threads. */
static struct {
    OSSL_LIB_CTX *libctx;
    struct signer_client *client;
} provider;

static thread_local struct {
    struct op *op;
    struct uuid op_id;
    struct fault fault;
} bound;

#define PROPERTIES "provider=svc,fips=yes"

static const OSSL_ALGORITHM keymgmts[] = {
    { "EC:id-ecPublicKey:1.2.840.10045.2.1", PROPERTIES, svc_keymgmt_ec, "elliptic-curve key in the token" },
    { "RSA:rsaEncryption:1.2.840.113549.1.1.1", PROPERTIES, svc_keymgmt_rsa, "RSA key in the token" },
    { NULL, NULL, NULL, NULL },
};
static const OSSL_ALGORITHM signatures[] = {
    { "ECDSA", PROPERTIES, svc_signature_ecdsa, "ECDSA by the token" },
    { "RSA:rsaEncryption:1.2.840.113549.1.1.1", PROPERTIES, svc_signature_rsa, "RSA PKCS#1 v1.5 and PSS by the token" },
    { NULL, NULL, NULL, NULL },
};

static const OSSL_ALGORITHM *query(void *context, int operation, int *no_cache)
{
    (void)context;
    *no_cache = 0;
    if (operation == OSSL_OP_KEYMGMT) {
        return keymgmts;
    }
    return operation == OSSL_OP_SIGNATURE ? signatures : NULL;
}

static const OSSL_PARAM *gettable(void *context)
{
    (void)context;
    static const OSSL_PARAM known[] = {
        OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_NAME, NULL, 0),
        OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_VERSION, NULL, 0),
        OSSL_PARAM_int(OSSL_PROV_PARAM_STATUS, NULL),
        OSSL_PARAM_END,
    };
    return known;
}

static int get_params(void *context, OSSL_PARAM params[])
{
    (void)context;
    OSSL_PARAM *param = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_NAME);
    if (param != NULL && OSSL_PARAM_set_utf8_ptr(param, "svc token keys") != 1) {
        return 0;
    }
    param = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_VERSION);
    if (param != NULL && OSSL_PARAM_set_utf8_ptr(param, SVC_VERSION) != 1) {
        return 0;
    }
    param = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_STATUS);
    return param == NULL || OSSL_PARAM_set_int(param, 1) == 1;
}

static const OSSL_DISPATCH functions[] = {
    { OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query },
    { OSSL_FUNC_PROVIDER_GETTABLE_PARAMS, (void (*)(void))gettable },
    { OSSL_FUNC_PROVIDER_GET_PARAMS, (void (*)(void))get_params },
    OSSL_DISPATCH_END,
};

static int init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out, void **context)
{
    (void)handle;
    (void)in;
    *out = functions;
    *context = &provider;
    return 1;
}

struct fault svc_provider_load(OSSL_LIB_CTX *libctx, struct signer_client *client)
{
    BUG_IF(provider.client != NULL || client == NULL);
    provider.libctx = libctx;
    provider.client = client;
    if (OSSL_PROVIDER_add_builtin(libctx, SVC_PROVIDER_NAME, init) != 1 ||
        OSSL_PROVIDER_load(libctx, SVC_PROVIDER_NAME) == NULL) {
        return crypto_fail(NULL, "");
    }
    return OK;
}

OSSL_LIB_CTX *svc_provider_libctx(void)
{
    return provider.libctx;
}

void svc_provider_bind(struct op *op, struct uuid op_id)
{
    BUG_IF(op == NULL || bound.op != NULL);
    bound.op = op;
    bound.op_id = op_id;
    bound.fault = OK;
}

void svc_provider_unbind(void)
{
    bound.op = NULL;
}

struct fault svc_provider_fault(void)
{
    return bound.fault;
}

bool svc_provider_sign(const struct svc_key *key, enum sign_scheme scheme, enum hash_algorithm hash, struct span digest,
                       struct buf *signature)
{
    if (bound.op == NULL) {
        bound.fault = FAULT(CANCELLED); /* nobody's operation: no deadline, no tenant to answer to */
        return false;
    }
    struct sign_request request = {
        .key = key->ref,
        .scheme = scheme,
        .hash = hash,
        .digest = digest,
        .op_id = bound.op_id,
    };
    bound.fault = signer_sign(bound.op, provider.client, &request, signature);
    return !FAULTED(bound.fault);
}

static struct fault import(OSSL_LIB_CTX *libctx, const char *type, const struct key_ref *ref, struct span spki,
                           EVP_PKEY **ret_pkey)
{
    unsigned purpose = (unsigned)ref->purpose;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(SVC_PARAM_TENANT, (char *)ref->tenant.text, 0),
        OSSL_PARAM_construct_uint(SVC_PARAM_PURPOSE, &purpose),
        OSSL_PARAM_construct_utf8_string(SVC_PARAM_ID, (char *)ref->id.text, 0),
        OSSL_PARAM_construct_utf8_string(SVC_PARAM_TOKEN, (char *)ref->token.text, 0),
        OSSL_PARAM_construct_octet_string(SVC_PARAM_SPKI, (void *)spki.at, spki.len),
        OSSL_PARAM_construct_end(),
    };
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(libctx, type, "provider=svc");
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *pkey = NULL;
    if (ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_KEYPAIR, params) != 1) {
        return crypto_fail(NULL, "");
    }
    *ret_pkey = TAKE(pkey);
    return OK;
}

struct fault svc_pkey_new(OSSL_LIB_CTX *libctx, const struct key_ref *key, struct span spki, EVP_PKEY **ret_pkey)
{
    BUG_IF(key == NULL || provider.client == NULL);
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *public = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, libctx, "provider!=svc");
    if (public == NULL) {
        return crypto_fail(NULL, "");
    }
    const char *type = EVP_PKEY_get0_type_name(public);
    REQUIRE(type != NULL && (strcmp(type, "EC") == 0 || strcmp(type, "RSA") == 0), UNSUPPORTED);
    return import(libctx, type, key, spki, ret_pkey);
}
