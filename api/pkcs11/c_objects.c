/* Finding objects and reading them. */
#include "api/pkcs11/session.h"

#include "appliance/base/alloc.h"

static void find_end(struct session *session)
{
    mem_free(TAKE(session->found));
    session->found_count = session->found_next = 0;
    session->finding = false;
}

static bool is_template(const CK_ATTRIBUTE *wanted, CK_ULONG count)
{
    if (wanted == NULL) {
        return count == 0;
    }
    for (CK_ULONG i = 0; i < count; i++) {
        if (wanted[i].pValue == NULL && wanted[i].ulValueLen > 0) {
            return false;
        }
    }
    return true;
}

CK_RV C_FindObjectsInit(CK_SESSION_HANDLE handle, CK_ATTRIBUTE_PTR wanted, CK_ULONG count)
{
    SESSION_ENTER(session, handle);
    CLEANUP(keyring_unrefp) struct keyring *keyring = NULL;
    if (!is_template(wanted, count)) {
        return CKR_ARGUMENTS_BAD;
    }
    if (session->finding) {
        return CKR_OPERATION_ACTIVE;
    }
    CK_RV rv = module_keyring_fresh(&keyring);
    if (rv != CKR_OK) {
        return rv;
    }
    if (FAULTED(mem_new(keyring_count(keyring) + 1, sizeof(*session->found), &session->found))) {
        return CKR_HOST_MEMORY;
    }
    for (size_t i = 0; i < keyring_count(keyring); i++) {
        const struct object *object = keyring_at(keyring, i);
        if (attributes_match(&object->attributes, wanted, count)) {
            session->found[session->found_count++] = object->handle;
        }
    }
    session->finding = true;
    return CKR_OK;
}

CK_RV C_FindObjects(CK_SESSION_HANDLE handle, CK_OBJECT_HANDLE_PTR objects, CK_ULONG room, CK_ULONG_PTR count)
{
    SESSION_ENTER(session, handle);
    if (count == NULL || (objects == NULL && room > 0)) {
        return CKR_ARGUMENTS_BAD;
    }
    if (!session->finding) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    CK_ULONG given = 0;
    while (given < room && session->found_next < session->found_count) {
        objects[given++] = session->found[session->found_next++];
    }
    *count = given;
    return CKR_OK;
}

CK_RV C_FindObjectsFinal(CK_SESSION_HANDLE handle)
{
    SESSION_ENTER(session, handle);
    if (!session->finding) {
        return CKR_OPERATION_NOT_INITIALIZED;
    }
    find_end(session);
    return CKR_OK;
}

CK_RV C_GetAttributeValue(CK_SESSION_HANDLE handle, CK_OBJECT_HANDLE object_handle, CK_ATTRIBUTE_PTR wanted,
                          CK_ULONG count)
{
    SESSION_ENTER(session, handle);
    (void)session;
    CLEANUP(keyring_unrefp) struct keyring *keyring = NULL;
    if (wanted == NULL) {
        return CKR_ARGUMENTS_BAD;
    }
    CK_RV rv = module_keyring(&keyring);
    if (rv != CKR_OK) {
        return rv;
    }
    const struct object *object = keyring_find(keyring, object_handle);
    return object != NULL ? attributes_get(&object->attributes, wanted, count) : CKR_OBJECT_HANDLE_INVALID;
}
