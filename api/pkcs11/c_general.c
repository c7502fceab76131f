/* The module, its one slot, its one token, its mechanisms. */
#include "api/pkcs11/session.h"

#define LIBRARY_VERSION { 0, 1 }
#define RSA_BITS_MIN    2048
#define RSA_BITS_MAX    8192
#define EC_BITS_MIN     256
#define EC_BITS_MAX     521

/* Padded with blanks, never with a NUL. */
static void pad(unsigned char *out, size_t size, const char *text)
{
    size_t len = strnlen(text, size);
    memcpy(out, text, len);
    memset(out + len, ' ', size - len);
}
#define PAD(array, text) pad((array), sizeof(array), (text))

CK_RV C_Initialize(CK_VOID_PTR args)
{
    return module_start(args);
}

CK_RV C_Finalize(CK_VOID_PTR reserved)
{
    return reserved != NULL ? CKR_ARGUMENTS_BAD : module_stop();
}

CK_RV C_GetInfo(CK_INFO_PTR info)
{
    MODULE_ENTER();
    if (info == NULL) {
        return CKR_ARGUMENTS_BAD;
    }
    *info = (CK_INFO){ .cryptokiVersion = { 2, 40 }, .libraryVersion = LIBRARY_VERSION };
    PAD(info->manufacturerID, "svc");
    PAD(info->libraryDescription, "svc code signing");
    return CKR_OK;
}

CK_RV C_GetSlotList(CK_BBOOL token_present, CK_SLOT_ID_PTR list, CK_ULONG_PTR count)
{
    (void)token_present; /* the one token is always there */
    MODULE_ENTER();
    if (count == NULL) {
        return CKR_ARGUMENTS_BAD;
    }
    CK_ULONG room = *count;
    *count = 1;
    if (list == NULL) {
        return CKR_OK;
    }
    if (room < 1) {
        return CKR_BUFFER_TOO_SMALL;
    }
    list[0] = MODULE_SLOT;
    return CKR_OK;
}

CK_RV C_GetSlotInfo(CK_SLOT_ID slot, CK_SLOT_INFO_PTR info)
{
    MODULE_ENTER();
    if (slot != MODULE_SLOT || info == NULL) {
        return slot != MODULE_SLOT ? CKR_SLOT_ID_INVALID : CKR_ARGUMENTS_BAD;
    }
    CLEANUP(settings_unrefp) struct settings *settings = NULL;
    CK_RV rv = module_settings(&settings);
    if (rv != CKR_OK) {
        return rv;
    }
    *info = (CK_SLOT_INFO){ .flags = CKF_TOKEN_PRESENT,
                            .hardwareVersion = LIBRARY_VERSION,
                            .firmwareVersion = LIBRARY_VERSION };
    PAD(info->slotDescription, settings->base_url);
    PAD(info->manufacturerID, "svc");
    return CKR_OK;
}

/* Nobody need log in: the bearer token of the settings says who signs. A PIN is "initialized" so that tools which were
 * given one may present it. */
CK_RV C_GetTokenInfo(CK_SLOT_ID slot, CK_TOKEN_INFO_PTR info)
{
    MODULE_ENTER();
    if (slot != MODULE_SLOT || info == NULL) {
        return slot != MODULE_SLOT ? CKR_SLOT_ID_INVALID : CKR_ARGUMENTS_BAD;
    }
    CLEANUP(settings_unrefp) struct settings *settings = NULL;
    CK_RV rv = module_settings(&settings);
    if (rv != CKR_OK) {
        return rv;
    }
    *info = (CK_TOKEN_INFO){
        .flags = CKF_TOKEN_INITIALIZED | CKF_USER_PIN_INITIALIZED | CKF_WRITE_PROTECTED,
        .ulMaxSessionCount = SESSIONS_MAX,
        .ulSessionCount = session_count(),
        .ulMaxRwSessionCount = 0,
        .ulMaxPinLen = 255,
        .ulTotalPublicMemory = CK_UNAVAILABLE_INFORMATION,
        .ulFreePublicMemory = CK_UNAVAILABLE_INFORMATION,
        .ulTotalPrivateMemory = CK_UNAVAILABLE_INFORMATION,
        .ulFreePrivateMemory = CK_UNAVAILABLE_INFORMATION,
        .hardwareVersion = LIBRARY_VERSION,
        .firmwareVersion = LIBRARY_VERSION,
    };
    PAD(info->label, "svc");
    PAD(info->manufacturerID, "svc");
    PAD(info->model, "code signing");
    PAD(info->serialNumber, settings->serial);
    PAD(info->utcTime, "");
    return CKR_OK;
}

CK_RV C_GetMechanismList(CK_SLOT_ID slot, CK_MECHANISM_TYPE_PTR list, CK_ULONG_PTR count)
{
    size_t all = 0;
    const struct mechanism *mechanisms = mechanism_all(&all);
    MODULE_ENTER();
    if (slot != MODULE_SLOT || count == NULL) {
        return slot != MODULE_SLOT ? CKR_SLOT_ID_INVALID : CKR_ARGUMENTS_BAD;
    }
    CK_ULONG room = *count;
    *count = all;
    if (list == NULL) {
        return CKR_OK;
    }
    if (room < all) {
        return CKR_BUFFER_TOO_SMALL;
    }
    for (size_t i = 0; i < all; i++) {
        list[i] = mechanisms[i].type;
    }
    return CKR_OK;
}

CK_RV C_GetMechanismInfo(CK_SLOT_ID slot, CK_MECHANISM_TYPE type, CK_MECHANISM_INFO_PTR info)
{
    MODULE_ENTER();
    if (slot != MODULE_SLOT || info == NULL) {
        return slot != MODULE_SLOT ? CKR_SLOT_ID_INVALID : CKR_ARGUMENTS_BAD;
    }
    const struct mechanism *mechanism = mechanism_find(type);
    if (mechanism == NULL) {
        return CKR_MECHANISM_INVALID;
    }
    switch (mechanism->scheme) {
    case SCHEME_DIGEST:
        *info = (CK_MECHANISM_INFO){ .flags = CKF_DIGEST };
        break;
    case SCHEME_ECDSA:
        *info =
            (CK_MECHANISM_INFO){ EC_BITS_MIN, EC_BITS_MAX,
                                 CKF_HW | CKF_SIGN | CKF_VERIFY | CKF_EC_F_P | CKF_EC_NAMEDCURVE | CKF_EC_UNCOMPRESS };
        break;
    case SCHEME_PKCS1:
    case SCHEME_PSS:
        *info = (CK_MECHANISM_INFO){ RSA_BITS_MIN, RSA_BITS_MAX, CKF_HW | CKF_SIGN | CKF_VERIFY };
        break;
    }
    return CKR_OK;
}
