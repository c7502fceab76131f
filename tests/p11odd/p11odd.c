#include "tests/p11odd/p11odd.h"

#include <dlfcn.h>
#include <p11-kit/pkcs11.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT         __attribute__((visibility("default")))
#define ATTRIBUTES_MAX 32
#define SESSIONS_MAX   64
#define FEW_SESSIONS   3

p11odd_set_fn p11odd_set EXPORT;
p11odd_info_fn p11odd_info EXPORT;

static CK_FUNCTION_LIST *real, list;
static _Atomic unsigned oddities;
static unsigned char info[4096];
static unsigned long info_len;
/* What a session is about to sign with; guarded by lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    CK_SESSION_HANDLE session;
    size_t field; /* 0 = not ECDSA */
} signing[SESSIONS_MAX];
static _Atomic unsigned sessions;

static bool odd(enum p11odd oddity)
{
    return (oddities >> oddity & 1u) != 0;
}

void p11odd_set(unsigned wanted)
{
    oddities = wanted;
}

void p11odd_info(const void *bytes, unsigned long len)
{
    info_len = len < sizeof(info) ? len : sizeof(info);
    memcpy(info, bytes, info_len);
}

/* ---- helpers ---- */

static CK_OBJECT_CLASS class_of(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object)
{
    CK_OBJECT_CLASS class = CKO_DATA;
    CK_ATTRIBUTE shown = { CKA_CLASS, &class, sizeof(class) };
    (void)real->C_GetAttributeValue(session, object, &shown, 1);
    return class;
}

/* The public key with the label of `object`, or the object itself. */
static CK_OBJECT_HANDLE public_of(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object)
{
    char label[256];
    CK_OBJECT_CLASS class = CKO_PUBLIC_KEY;
    CK_OBJECT_HANDLE found = object;
    CK_ULONG count = 0;
    CK_ATTRIBUTE wanted[] = { { CKA_LABEL, label, sizeof(label) }, { CKA_CLASS, &class, sizeof(class) } };
    if (real->C_GetAttributeValue(session, object, wanted, 1) == CKR_OK &&
        real->C_FindObjectsInit(session, wanted, 2) == CKR_OK) {
        (void)real->C_FindObjects(session, &found, 1, &count);
        (void)real->C_FindObjectsFinal(session);
    }
    return count == 1 ? found : object;
}

static bool printable(const CK_ATTRIBUTE *attribute)
{
    const unsigned char *at = attribute->pValue;
    for (CK_ULONG i = 0; i < attribute->ulValueLen; i++) {
        if (at[i] < 0x20 || at[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

/* What a template of a new key must not have; also its copy, with the curve as the real module wants it. */
static CK_RV take_template(const CK_ATTRIBUTE *from, CK_ULONG count, CK_ATTRIBUTE to[ATTRIBUTES_MAX], bool public_half)
{
    static unsigned char p256[] = { 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07 };
    static unsigned char p384[] = { 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22 };
    if (count > ATTRIBUTES_MAX) {
        return CKR_TEMPLATE_INCONSISTENT;
    }
    for (CK_ULONG i = 0; i < count; i++) {
        const CK_ATTRIBUTE *a = &from[i];
        to[i] = *a;
        if ((odd(P11ODD_NO_IDS) && a->type == CKA_ID) || (odd(P11ODD_NO_DERIVE) && a->type == CKA_DERIVE) ||
            (odd(P11ODD_NO_WRAP) && (a->type == CKA_WRAP || a->type == CKA_UNWRAP))) {
            return CKR_ATTRIBUTE_TYPE_INVALID;
        }
        if ((odd(P11ODD_TEXT_IDS) && a->type == CKA_ID && !printable(a)) ||
            (odd(P11ODD_SHORT_LABELS) && a->type == CKA_LABEL && a->ulValueLen > 32)) {
            return CKR_ATTRIBUTE_VALUE_INVALID;
        }
        if (odd(P11ODD_NO_ROOM) && public_half && a->type == CKA_TOKEN && *(CK_BBOOL *)a->pValue) {
            return CKR_DEVICE_MEMORY;
        }
        if (odd(P11ODD_PARAMS_NAME) && a->type == CKA_EC_PARAMS) {
            if (*(unsigned char *)a->pValue != 0x13) {
                return CKR_ATTRIBUTE_VALUE_INVALID;
            }
            bool first = memcmp((char *)a->pValue + 2, "secp256r1", 9) == 0;
            to[i].pValue = first ? p256 : p384;
            to[i].ulValueLen = first ? sizeof(p256) : sizeof(p384);
        }
    }
    return CKR_OK;
}

/* ---- tokens and sessions ---- */

static CK_RV odd_token_info(CK_SLOT_ID slot, CK_TOKEN_INFO *out)
{
    CK_RV rv = real->C_GetTokenInfo(slot, out);
    if (rv == CKR_OK && odd(P11ODD_FEW)) {
        out->ulMaxSessionCount = out->ulMaxRwSessionCount = FEW_SESSIONS;
    }
    if (rv == CKR_OK && odd(P11ODD_PIN_PAD)) {
        out->flags |= CKF_PROTECTED_AUTHENTICATION_PATH;
    }
    return rv;
}

static CK_RV odd_open_session(CK_SLOT_ID slot, CK_FLAGS flags, void *app, CK_NOTIFY notify, CK_SESSION_HANDLE *out)
{
    if (odd(P11ODD_READ_ONLY) && (flags & CKF_RW_SESSION) != 0) {
        return CKR_TOKEN_WRITE_PROTECTED;
    }
    if (odd(P11ODD_FEW) && sessions >= FEW_SESSIONS) {
        return CKR_SESSION_COUNT;
    }
    CK_RV rv = real->C_OpenSession(slot, flags, app, notify, out);
    sessions += rv == CKR_OK;
    return rv;
}

static CK_RV odd_close_session(CK_SESSION_HANDLE session)
{
    CK_RV rv = real->C_CloseSession(session);
    sessions -= rv == CKR_OK;
    return rv;
}

static CK_RV odd_close_all(CK_SLOT_ID slot)
{
    sessions = 0;
    return real->C_CloseAllSessions(slot);
}

static CK_RV odd_finalize(void *reserved)
{
    sessions = 0;
    return real->C_Finalize(reserved);
}

static CK_RV odd_login(CK_SESSION_HANDLE session, CK_USER_TYPE who, CK_UTF8CHAR *pin, CK_ULONG len)
{
    if (!odd(P11ODD_PIN_PAD)) {
        return real->C_Login(session, who, pin, len);
    }
    char *typed = getenv("P11ODD_PIN");
    if (pin != NULL || typed == NULL) {
        return CKR_ARGUMENTS_BAD;
    }
    return real->C_Login(session, who, (CK_UTF8CHAR *)typed, strlen(typed));
}

/* ---- objects ---- */

static CK_RV odd_find_init(CK_SESSION_HANDLE session, CK_ATTRIBUTE *wanted, CK_ULONG count)
{
    for (CK_ULONG i = 0; i < count; i++) {
        if (odd(P11ODD_NO_IDS) && wanted[i].type == CKA_ID) {
            return CKR_ATTRIBUTE_TYPE_INVALID;
        }
    }
    return real->C_FindObjectsInit(session, wanted, count);
}

static CK_RV odd_find(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *found, CK_ULONG max, CK_ULONG *count)
{
    CK_RV rv = real->C_FindObjects(session, found, max, count);
    if (rv == CKR_OK && odd(P11ODD_NO_PUBLIC)) {
        CK_ULONG kept = 0;
        for (CK_ULONG i = 0; i < *count; i++) {
            if (class_of(session, found[i]) != CKO_PUBLIC_KEY) {
                found[kept++] = found[i];
            }
        }
        *count = kept;
    }
    return rv;
}

static CK_RV show(CK_ATTRIBUTE *attribute, const void *bytes, CK_ULONG len)
{
    bool fits = attribute->pValue == NULL || attribute->ulValueLen >= len;
    if (attribute->pValue != NULL && fits) {
        memcpy(attribute->pValue, bytes, len);
    }
    attribute->ulValueLen = fits ? len : CK_UNAVAILABLE_INFORMATION;
    return fits ? CKR_OK : CKR_BUFFER_TOO_SMALL;
}

static CK_RV show_one(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE *attribute, bool private_half)
{
    bool about_public = attribute->type == CKA_EC_POINT || attribute->type == CKA_MODULUS ||
                        attribute->type == CKA_PUBLIC_EXPONENT || attribute->type == CKA_PUBLIC_KEY_INFO;
    if (private_half && attribute->type == CKA_PUBLIC_KEY_INFO && odd(P11ODD_SHOW_INFO)) {
        return show(attribute, info, info_len);
    }
    if (private_half && attribute->type == CKA_EC_POINT && odd(P11ODD_SHOW_POINT)) {
        object = public_of(session, object);
    } else if (private_half && about_public && odd(P11ODD_HIDE_INFO)) {
        attribute->ulValueLen = CK_UNAVAILABLE_INFORMATION;
        return CKR_ATTRIBUTE_TYPE_INVALID;
    }
    CK_RV rv = real->C_GetAttributeValue(session, object, attribute, 1);
    if (rv == CKR_OK && attribute->type == CKA_EC_POINT && odd(P11ODD_RAW_POINT) && attribute->pValue != NULL) {
        attribute->ulValueLen -= 2; /* both curves have a short length */
        memmove(attribute->pValue, (char *)attribute->pValue + 2, attribute->ulValueLen);
    }
    return rv;
}

static CK_RV odd_attributes(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE *shown, CK_ULONG count)
{
    bool private_half = class_of(session, object) == CKO_PRIVATE_KEY;
    CK_RV rv = CKR_OK;
    for (CK_ULONG i = 0; i < count; i++) {
        CK_RV one = show_one(session, object, &shown[i], private_half);
        rv = rv == CKR_OK ? one : rv;
    }
    return rv;
}

/* ---- keys ---- */

static CK_RV odd_generate_pair(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_ATTRIBUTE *publics,
                               CK_ULONG public_count, CK_ATTRIBUTE *privates, CK_ULONG private_count,
                               CK_OBJECT_HANDLE *public_key, CK_OBJECT_HANDLE *private_key)
{
    CK_ATTRIBUTE a[ATTRIBUTES_MAX], b[ATTRIBUTES_MAX];
    CK_MECHANISM with = *mechanism;
    CK_RV rv = take_template(publics, public_count, a, true);
    rv = rv == CKR_OK ? take_template(privates, private_count, b, false) : rv;
    if (odd(P11ODD_X9_31)) {
        if (with.mechanism == CKM_RSA_PKCS_KEY_PAIR_GEN) {
            return CKR_MECHANISM_INVALID;
        }
        if (with.mechanism == CKM_RSA_X9_31_KEY_PAIR_GEN) {
            with.mechanism = CKM_RSA_PKCS_KEY_PAIR_GEN;
        }
    }
    return rv != CKR_OK
               ? rv
               : real->C_GenerateKeyPair(session, &with, a, public_count, b, private_count, public_key, private_key);
}

static CK_RV odd_generate(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_ATTRIBUTE *attributes, CK_ULONG count,
                          CK_OBJECT_HANDLE *key)
{
    CK_ATTRIBUTE a[ATTRIBUTES_MAX];
    CK_RV rv = take_template(attributes, count, a, false);
    return rv != CKR_OK ? rv : real->C_GenerateKey(session, mechanism, a, count, key);
}

/* ---- mechanisms ---- */

static CK_RV odd_mechanism_list(CK_SLOT_ID slot, CK_MECHANISM_TYPE *types, CK_ULONG *count)
{
    CK_RV rv = real->C_GetMechanismList(slot, types, count);
    CK_ULONG kept = 0;
    for (CK_ULONG i = 0; rv == CKR_OK && types != NULL && i < *count; i++) {
        CK_MECHANISM_TYPE type = types[i];
        if (odd(P11ODD_NO_PSS) && type == CKM_RSA_PKCS_PSS) {
            continue;
        }
        if (odd(P11ODD_X9_31) && type == CKM_RSA_PKCS_KEY_PAIR_GEN) {
            type = CKM_RSA_X9_31_KEY_PAIR_GEN;
        }
        types[kept++] = type;
    }
    *count = types != NULL && rv == CKR_OK ? kept : *count;
    return rv;
}

static CK_RV odd_mechanism_info(CK_SLOT_ID slot, CK_MECHANISM_TYPE type, CK_MECHANISM_INFO *out)
{
    bool x9_31 = odd(P11ODD_X9_31) && type == CKM_RSA_X9_31_KEY_PAIR_GEN;
    return real->C_GetMechanismInfo(slot, x9_31 ? CKM_RSA_PKCS_KEY_PAIR_GEN : type, out);
}

static CK_RV odd_sign_init(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key)
{
    unsigned char params[32];
    CK_ATTRIBUTE shown = { CKA_EC_PARAMS, params, sizeof(params) };
    if (odd(P11ODD_NO_PSS) && mechanism->mechanism == CKM_RSA_PKCS_PSS) {
        return CKR_MECHANISM_INVALID;
    }
    bool ecdsa = mechanism->mechanism == CKM_ECDSA && real->C_GetAttributeValue(session, key, &shown, 1) == CKR_OK;
    (void)pthread_mutex_lock(&lock);
    signing[session % SESSIONS_MAX].session = session;
    signing[session % SESSIONS_MAX].field = !ecdsa ? 0 : shown.ulValueLen == 7 ? 48 : 32;
    (void)pthread_mutex_unlock(&lock);
    return real->C_SignInit(session, mechanism, key);
}

static CK_RV odd_sign(CK_SESSION_HANDLE session, CK_BYTE *data, CK_ULONG len, CK_BYTE *out, CK_ULONG *out_len)
{
    (void)pthread_mutex_lock(&lock);
    size_t field = signing[session % SESSIONS_MAX].session == session ? signing[session % SESSIONS_MAX].field : 0;
    (void)pthread_mutex_unlock(&lock);
    CK_RV rv = real->C_Sign(session, data, len, out, out_len); /* ends the operation in any case */
    return odd(P11ODD_WANT_FIELD) && field != 0 && len != field ? CKR_DATA_LEN_RANGE : rv;
}

struct gcm_short {
    CK_BYTE *iv;
    CK_ULONG iv_len;
    CK_BYTE *aad;
    CK_ULONG aad_len, tag_bits;
};

/* The real module's form of the parameters in `full`. */
static CK_RV take_gcm(CK_MECHANISM *mechanism, CK_GCM_PARAMS *full, CK_MECHANISM *with)
{
    *with = *mechanism;
    if (mechanism->mechanism != CKM_AES_GCM || !odd(P11ODD_GCM_SHORT)) {
        return CKR_OK;
    }
    const struct gcm_short *from = mechanism->pParameter;
    if (mechanism->ulParameterLen != sizeof(*from)) {
        return CKR_MECHANISM_PARAM_INVALID;
    }
    *full = (CK_GCM_PARAMS){ from->iv, from->iv_len, from->iv_len * 8, from->aad, from->aad_len, from->tag_bits };
    *with = (CK_MECHANISM){ CKM_AES_GCM, full, sizeof(*full) };
    return CKR_OK;
}

static CK_RV odd_encrypt_init(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key)
{
    static const CK_BYTE zeros[64] = { 0 };
    CK_GCM_PARAMS full;
    CK_MECHANISM with;
    CK_RV rv = take_gcm(mechanism, &full, &with);
    if (rv == CKR_OK && with.mechanism == CKM_AES_GCM && odd(P11ODD_GCM_OWN_IV)) {
        CK_GCM_PARAMS *params = with.pParameter;
        if (params->ulIvLen > sizeof(zeros) || memcmp(params->pIv, zeros, params->ulIvLen) != 0) {
            return CKR_MECHANISM_PARAM_INVALID;
        }
        rv = real->C_GenerateRandom(session, params->pIv, params->ulIvLen);
    }
    return rv != CKR_OK ? rv : real->C_EncryptInit(session, &with, key);
}

static CK_RV odd_decrypt_init(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key)
{
    CK_GCM_PARAMS full;
    CK_MECHANISM with;
    CK_RV rv = take_gcm(mechanism, &full, &with);
    return rv != CKR_OK ? rv : real->C_DecryptInit(session, &with, key);
}

static CK_RV odd_random(CK_SESSION_HANDLE session, CK_BYTE *out, CK_ULONG len)
{
    return odd(P11ODD_NO_RNG) ? CKR_RANDOM_NO_RNG : real->C_GenerateRandom(session, out, len);
}

/* ---- the module ---- */

static void take_environment(void)
{
    static const char *const names[] = {
#define X(sym, name) [P11ODD_##sym] = name,
        P11ODD_TABLE(X)
#undef X
    };
    const char *at = getenv("P11ODD");
    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ",");
        for (unsigned i = 0; i < P11ODD_COUNT; i++) {
            if (strlen(names[i]) == len && strncmp(names[i], at, len) == 0) {
                oddities |= 1u << i;
            }
        }
        at += len + (at[len] == ',');
    }
}

static bool load_real(void)
{
    CK_RV (*function_list)(CK_FUNCTION_LIST **) = NULL;
    const char *path = getenv("P11ODD_MODULE");
    void *library = dlopen(path != NULL ? path : "/usr/lib/softhsm/libsofthsm2.so", RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        *(void **)&function_list = dlsym(library, "C_GetFunctionList");
    }
    return function_list != NULL && function_list(&real) == CKR_OK;
}

EXPORT CK_RV C_GetFunctionList(CK_FUNCTION_LIST **out)
{
    if (real == NULL) {
        if (!load_real()) {
            return CKR_GENERAL_ERROR;
        }
        take_environment();
        list = *real;
        list.C_GetTokenInfo = odd_token_info;
        list.C_OpenSession = odd_open_session;
        list.C_CloseSession = odd_close_session;
        list.C_CloseAllSessions = odd_close_all;
        list.C_Finalize = odd_finalize;
        list.C_Login = odd_login;
        list.C_FindObjectsInit = odd_find_init;
        list.C_FindObjects = odd_find;
        list.C_GetAttributeValue = odd_attributes;
        list.C_GenerateKeyPair = odd_generate_pair;
        list.C_GenerateKey = odd_generate;
        list.C_GetMechanismList = odd_mechanism_list;
        list.C_GetMechanismInfo = odd_mechanism_info;
        list.C_SignInit = odd_sign_init;
        list.C_Sign = odd_sign;
        list.C_EncryptInit = odd_encrypt_init;
        list.C_DecryptInit = odd_decrypt_init;
        list.C_GenerateRandom = odd_random;
    }
    *out = &list;
    return CKR_OK;
}
