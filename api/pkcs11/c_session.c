/* Sessions and login. */
#include "api/pkcs11/session.h"

CK_RV C_OpenSession(CK_SLOT_ID slot, CK_FLAGS flags, CK_VOID_PTR application, CK_NOTIFY notify,
                    CK_SESSION_HANDLE_PTR handle)
{
    (void)application;
    (void)notify; /* nothing is ever surrendered */
    MODULE_ENTER();
    if (slot != MODULE_SLOT) {
        return CKR_SLOT_ID_INVALID;
    }
    if (handle == NULL) {
        return CKR_ARGUMENTS_BAD;
    }
    if ((flags & CKF_SERIAL_SESSION) == 0) {
        return CKR_SESSION_PARALLEL_NOT_SUPPORTED;
    }
    if ((flags & CKF_RW_SESSION) != 0) {
        return CKR_TOKEN_WRITE_PROTECTED;
    }
    return session_open(flags, handle);
}

CK_RV C_CloseSession(CK_SESSION_HANDLE handle)
{
    MODULE_ENTER();
    return session_close(handle);
}

CK_RV C_CloseAllSessions(CK_SLOT_ID slot)
{
    MODULE_ENTER();
    if (slot != MODULE_SLOT) {
        return CKR_SLOT_ID_INVALID;
    }
    sessions_close_all();
    return CKR_OK;
}

CK_RV C_GetSessionInfo(CK_SESSION_HANDLE handle, CK_SESSION_INFO_PTR info)
{
    SESSION_ENTER(session, handle);
    if (info == NULL) {
        return CKR_ARGUMENTS_BAD;
    }
    *info = (CK_SESSION_INFO){
        .slotID = MODULE_SLOT,
        .state = login_is() ? CKS_RO_USER_FUNCTIONS : CKS_RO_PUBLIC_SESSION,
        .flags = session->flags,
    };
    return CKR_OK;
}

/* The PIN is not looked at, let alone sent: who signs is what the bearer token says. */
CK_RV C_Login(CK_SESSION_HANDLE handle, CK_USER_TYPE user, CK_UTF8CHAR_PTR pin, CK_ULONG pin_len)
{
    SESSION_ENTER(session, handle);
    (void)session;
    if (pin == NULL && pin_len > 0) {
        return CKR_ARGUMENTS_BAD;
    }
    if (user == CKU_CONTEXT_SPECIFIC) {
        return CKR_OPERATION_NOT_INITIALIZED; /* no key asks for it */
    }
    return user == CKU_USER ? login_set() : CKR_USER_TYPE_INVALID;
}

CK_RV C_Logout(CK_SESSION_HANDLE handle)
{
    SESSION_ENTER(session, handle);
    (void)session;
    return login_clear();
}
