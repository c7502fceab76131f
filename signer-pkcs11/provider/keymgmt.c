#include "signer-pkcs11/provider/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"

#include <openssl/core_names.h>
#include <openssl/params.h>

/*
 * EVP_PKEY's key management. Only svc_pkey_new's own import is known: a private key that somebody has in hand cannot
 * become one of the token's. Export gives the public half, and refuses a selection with the private one, which is how
 * OpenSSL learns that signing has to happen here.
 */

struct svc_key *svc_key_ref(struct svc_key *key)
{
    BUG_IF(__atomic_fetch_add(&key->refs, 1, __ATOMIC_RELAXED) == 0);
    return key;
}

void svc_key_unref(struct svc_key *key)
{
    if (key == NULL || __atomic_sub_fetch(&key->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    EVP_PKEY_free(key->public);
    mem_free(key);
}

static void *key_new(void *context)
{
    (void)context;
    struct svc_key *key = NULL;
    if (FAULTED(mem_new(1, sizeof(*key), &key))) {
        return NULL;
    }
    key->refs = 1;
    return key;
}

static void key_free(void *data)
{
    svc_key_unref(data);
}

static void *key_dup(const void *data, int selection)
{
    (void)selection; /* a handle has no halves that could be copied apart */
    return svc_key_ref((struct svc_key *)data);
}

static int key_has(const void *data, int selection)
{
    const struct svc_key *key = data;
    (void)selection; /* public, private and parameters: all or nothing */
    return key != NULL && key->imported;
}

static int key_match(const void *a, const void *b, int selection)
{
    const struct svc_key *left = a;
    const struct svc_key *right = b;
    (void)selection;
    return left->imported && right->imported && EVP_PKEY_eq(left->public, right->public) == 1;
}

static struct fault take_text(const OSSL_PARAM params[], const char *name, char *out, size_t size)
{
    const OSSL_PARAM *param = OSSL_PARAM_locate_const(params, name);
    const char *text = NULL;
    REQUIRE(param != NULL && OSSL_PARAM_get_utf8_string_ptr(param, &text) == 1 && strlen(text) < size, BAD_ARGUMENT);
    memcpy(out, text, strlen(text) + 1);
    return OK;
}

static struct fault key_fill(const OSSL_PARAM params[], const char *type, struct svc_key *key)
{
    unsigned purpose = 0;
    const void *spki = NULL;
    size_t len = 0;
    const OSSL_PARAM *param = OSSL_PARAM_locate_const(params, SVC_PARAM_PURPOSE);
    REQUIRE(param != NULL && OSSL_PARAM_get_uint(param, &purpose) == 1 && purpose > KEY_PURPOSE_NONE &&
                purpose < KEY_PURPOSE_COUNT,
            BAD_ARGUMENT);
    TRY(take_text(params, SVC_PARAM_TENANT, key->ref.tenant.text, sizeof(key->ref.tenant.text)));
    TRY(take_text(params, SVC_PARAM_ID, key->ref.id.text, sizeof(key->ref.id.text)));
    TRY(take_text(params, SVC_PARAM_TOKEN, key->ref.token.text, sizeof(key->ref.token.text)));
    key->ref.purpose = (enum key_purpose)purpose;

    param = OSSL_PARAM_locate_const(params, SVC_PARAM_SPKI);
    REQUIRE(param != NULL && OSSL_PARAM_get_octet_string_ptr(param, &spki, &len) == 1 && len <= SPKI_MAX, BAD_ARGUMENT);
    const unsigned char *at = spki;
    key->public = d2i_PUBKEY_ex(NULL, &at, (long)len, svc_provider_libctx(), "provider!=svc");
    REQUIRE(key->public != NULL && EVP_PKEY_is_a(key->public, type) == 1, BAD_ARGUMENT);
    key->imported = true;
    return OK;
}

static int import_as(struct svc_key *key, const char *type, const OSSL_PARAM params[])
{
    return !key->imported && !FAULTED(key_fill(params, type, key));
}

static int import_ec(void *data, int selection, const OSSL_PARAM params[])
{
    (void)selection;
    return import_as(data, "EC", params);
}

static int import_rsa(void *data, int selection, const OSSL_PARAM params[])
{
    (void)selection;
    return import_as(data, "RSA", params);
}

static const OSSL_PARAM *import_types(int selection)
{
    (void)selection;
    static const OSSL_PARAM known[] = {
        OSSL_PARAM_utf8_string(SVC_PARAM_TENANT, NULL, 0), OSSL_PARAM_uint(SVC_PARAM_PURPOSE, NULL),
        OSSL_PARAM_utf8_string(SVC_PARAM_ID, NULL, 0),     OSSL_PARAM_utf8_string(SVC_PARAM_TOKEN, NULL, 0),
        OSSL_PARAM_octet_string(SVC_PARAM_SPKI, NULL, 0),  OSSL_PARAM_END,
    };
    return known;
}

static int key_export(void *data, int selection, OSSL_CALLBACK *callback, void *arg)
{
    const struct svc_key *key = data;
    if (!key->imported || (selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) != 0) {
        return 0;
    }
    return EVP_PKEY_export(key->public, EVP_PKEY_PUBLIC_KEY, callback, arg);
}

static const OSSL_PARAM *export_types_ec(int selection)
{
    static const OSSL_PARAM known[] = {
        OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
        OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_PUB_KEY, NULL, 0),
        OSSL_PARAM_END,
    };
    return (selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) != 0 ? NULL : known;
}

static const OSSL_PARAM *export_types_rsa(int selection)
{
    static const OSSL_PARAM known[] = {
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_N, NULL, 0),
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_E, NULL, 0),
        OSSL_PARAM_END,
    };
    return (selection & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) != 0 ? NULL : known;
}

static int key_get_params(void *data, OSSL_PARAM params[])
{
    const struct svc_key *key = data;
    return key->imported && EVP_PKEY_get_params(key->public, params) == 1;
}

#define COMMON_GETTABLE                                                                              \
    OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, NULL), OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, NULL), \
        OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, NULL),                                              \
        OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_DEFAULT_DIGEST, NULL, 0)

static const OSSL_PARAM *gettable_ec(void *context)
{
    (void)context;
    static const OSSL_PARAM known[] = {
        COMMON_GETTABLE,
        OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
        OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_PUB_KEY, NULL, 0),
        OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY, NULL, 0),
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_EC_PUB_X, NULL, 0),
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_EC_PUB_Y, NULL, 0),
        OSSL_PARAM_END,
    };
    return known;
}

static const OSSL_PARAM *gettable_rsa(void *context)
{
    (void)context;
    static const OSSL_PARAM known[] = {
        COMMON_GETTABLE,
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_N, NULL, 0),
        OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_E, NULL, 0),
        OSSL_PARAM_END,
    };
    return known;
}

static const char *operation_name_ec(int operation)
{
    return operation == OSSL_OP_SIGNATURE ? "ECDSA" : NULL;
}

static const char *operation_name_rsa(int operation)
{
    return operation == OSSL_OP_SIGNATURE ? "RSA" : NULL;
}

#define KEYMGMT(kind)                                                                      \
    {                                                                                      \
        { OSSL_FUNC_KEYMGMT_NEW, (void (*)(void))key_new },                                \
        { OSSL_FUNC_KEYMGMT_FREE, (void (*)(void))key_free },                              \
        { OSSL_FUNC_KEYMGMT_DUP, (void (*)(void))key_dup },                                \
        { OSSL_FUNC_KEYMGMT_HAS, (void (*)(void))key_has },                                \
        { OSSL_FUNC_KEYMGMT_MATCH, (void (*)(void))key_match },                            \
        { OSSL_FUNC_KEYMGMT_IMPORT, (void (*)(void))import_##kind },                       \
        { OSSL_FUNC_KEYMGMT_IMPORT_TYPES, (void (*)(void))import_types },                  \
        { OSSL_FUNC_KEYMGMT_EXPORT, (void (*)(void))key_export },                          \
        { OSSL_FUNC_KEYMGMT_EXPORT_TYPES, (void (*)(void))export_types_##kind },           \
        { OSSL_FUNC_KEYMGMT_GET_PARAMS, (void (*)(void))key_get_params },                  \
        { OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, (void (*)(void))gettable_##kind },            \
        { OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, (void (*)(void))operation_name_##kind }, \
        OSSL_DISPATCH_END,                                                                 \
    }

const OSSL_DISPATCH svc_keymgmt_ec[] = KEYMGMT(ec);
const OSSL_DISPATCH svc_keymgmt_rsa[] = KEYMGMT(rsa);
