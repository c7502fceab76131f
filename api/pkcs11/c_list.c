/*
 * The doors of the module: all that it shows of itself.
 *
 * Clients of PKCS#11 3.0 ask for C_GetInterface first. It is here although the interface behind it is 2.40's: dlsym
 * looks into the libraries that a module needs too, and one of libcurl's brings p11-kit, whose own C_GetInterface would
 * be found and would lead to whatever tokens the machine has.
 */
#include "appliance/base/fault.h"

#include <p11-kit/pkcs11.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

/* clang-format off */
static CK_FUNCTION_LIST functions = {
    .version = { 2, 40 },
    .C_Initialize = C_Initialize,
    .C_Finalize = C_Finalize,
    .C_GetInfo = C_GetInfo,
    .C_GetFunctionList = C_GetFunctionList,
    .C_GetSlotList = C_GetSlotList,
    .C_GetSlotInfo = C_GetSlotInfo,
    .C_GetTokenInfo = C_GetTokenInfo,
    .C_GetMechanismList = C_GetMechanismList,
    .C_GetMechanismInfo = C_GetMechanismInfo,
    .C_InitToken = C_InitToken,
    .C_InitPIN = C_InitPIN,
    .C_SetPIN = C_SetPIN,
    .C_OpenSession = C_OpenSession,
    .C_CloseSession = C_CloseSession,
    .C_CloseAllSessions = C_CloseAllSessions,
    .C_GetSessionInfo = C_GetSessionInfo,
    .C_GetOperationState = C_GetOperationState,
    .C_SetOperationState = C_SetOperationState,
    .C_Login = C_Login,
    .C_Logout = C_Logout,
    .C_CreateObject = C_CreateObject,
    .C_CopyObject = C_CopyObject,
    .C_DestroyObject = C_DestroyObject,
    .C_GetObjectSize = C_GetObjectSize,
    .C_GetAttributeValue = C_GetAttributeValue,
    .C_SetAttributeValue = C_SetAttributeValue,
    .C_FindObjectsInit = C_FindObjectsInit,
    .C_FindObjects = C_FindObjects,
    .C_FindObjectsFinal = C_FindObjectsFinal,
    .C_EncryptInit = C_EncryptInit,
    .C_Encrypt = C_Encrypt,
    .C_EncryptUpdate = C_EncryptUpdate,
    .C_EncryptFinal = C_EncryptFinal,
    .C_DecryptInit = C_DecryptInit,
    .C_Decrypt = C_Decrypt,
    .C_DecryptUpdate = C_DecryptUpdate,
    .C_DecryptFinal = C_DecryptFinal,
    .C_DigestInit = C_DigestInit,
    .C_Digest = C_Digest,
    .C_DigestUpdate = C_DigestUpdate,
    .C_DigestKey = C_DigestKey,
    .C_DigestFinal = C_DigestFinal,
    .C_SignInit = C_SignInit,
    .C_Sign = C_Sign,
    .C_SignUpdate = C_SignUpdate,
    .C_SignFinal = C_SignFinal,
    .C_SignRecoverInit = C_SignRecoverInit,
    .C_SignRecover = C_SignRecover,
    .C_VerifyInit = C_VerifyInit,
    .C_Verify = C_Verify,
    .C_VerifyUpdate = C_VerifyUpdate,
    .C_VerifyFinal = C_VerifyFinal,
    .C_VerifyRecoverInit = C_VerifyRecoverInit,
    .C_VerifyRecover = C_VerifyRecover,
    .C_DigestEncryptUpdate = C_DigestEncryptUpdate,
    .C_DecryptDigestUpdate = C_DecryptDigestUpdate,
    .C_SignEncryptUpdate = C_SignEncryptUpdate,
    .C_DecryptVerifyUpdate = C_DecryptVerifyUpdate,
    .C_GenerateKey = C_GenerateKey,
    .C_GenerateKeyPair = C_GenerateKeyPair,
    .C_WrapKey = C_WrapKey,
    .C_UnwrapKey = C_UnwrapKey,
    .C_DeriveKey = C_DeriveKey,
    .C_SeedRandom = C_SeedRandom,
    .C_GenerateRandom = C_GenerateRandom,
    .C_GetFunctionStatus = C_GetFunctionStatus,
    .C_CancelFunction = C_CancelFunction,
    .C_WaitForSlotEvent = C_WaitForSlotEvent,
};
/* clang-format on */

static char standard[] = "PKCS 11";
static CK_INTERFACE interface = { standard, &functions, 0 };

EXPORTED CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list)
{
    if (list == NULL) {
        return CKR_ARGUMENTS_BAD;
    }
    *list = &functions;
    return CKR_OK;
}

EXPORTED CK_RV C_GetInterfaceList(CK_INTERFACE_PTR list, CK_ULONG_PTR count)
{
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
    list[0] = interface;
    return CKR_OK;
}

/* Any name, version and flags that are not given do. */
EXPORTED CK_RV C_GetInterface(CK_UTF8CHAR_PTR name, CK_VERSION_PTR version, CK_INTERFACE_PTR_PTR ret_interface,
                              CK_FLAGS flags)
{
    if (ret_interface == NULL) {
        return CKR_ARGUMENTS_BAD;
    }
    bool named = name == NULL || strcmp((const char *)name, standard) == 0;
    bool versioned =
        version == NULL || (version->major == functions.version.major && version->minor == functions.version.minor);
    if (!named || !versioned || flags != 0) {
        return CKR_FUNCTION_FAILED;
    }
    *ret_interface = &interface;
    return CKR_OK;
}
