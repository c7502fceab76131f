#include "api/pkcs11/module.h"

#include "api/pkcs11/tell.h"

#define PAGES_MAX  400
#define CURSOR_MAX 2048

/* A key of a kind that this module does not know is no reason to hide the others. */
static struct fault add_page(struct remote *remote, struct view page, struct keyring *keyring)
{
    struct view rest = view_get(page, "items"), item;
    while (view_next(&rest, &item)) {
        const char *id = view_member(remote->op, item, "key_id"), *name = view_member(remote->op, item, "name");
        if (id == NULL || name == NULL || !settings_show(remote->settings, id, name)) {
            continue;
        }
        struct fault fault = keyring_add(keyring, remote->op, item);
        if (fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_JSON_FIELD) {
            tell(
                remote->settings,
                "key %s (%s) is not shown: it is of a kind that this module does not know, or its description cannot be "
                "read",
                name, id);
            continue;
        }
        TRY(fault);
    }
    return OK;
}

/* Each page is an operation of its own, so that memory is bounded by one page. */
static CK_RV fetch_page(struct settings *settings, char cursor[CURSOR_MAX], struct keyring *keyring)
{
    CLEANUP(remote_end) struct remote remote = { 0 };
    struct view page = { 0 };
    struct fault fault = remote_begin(settings, &remote);
    if (!FAULTED(fault)) {
        fault = remote_keys(&remote, cursor[0] != '\0' ? cursor : NULL, &page);
    }
    if (FAULTED(fault)) {
        refusal_tell(settings, "list the keys", &remote.refusal);
        return refusal_rv(&remote.refusal);
    }
    fault = add_page(&remote, page, keyring);
    if (FAULTED(fault)) {
        tell(settings, "list the keys: %s: fewer keys may be shown with SVC_PKCS11_KEYS", fault_row(fault.code)->text);
        return CKR_HOST_MEMORY;
    }
    const char *next = view_member(remote.op, page, "next_cursor");
    size_t len = next != NULL ? strlen(next) : 0;
    if (len >= CURSOR_MAX) {
        return CKR_DEVICE_ERROR;
    }
    memcpy(cursor, next != NULL ? next : "", len + 1);
    return CKR_OK;
}

CK_RV keyring_fetch(struct settings *settings, struct keyring *keyring)
{
    char cursor[CURSOR_MAX] = "";
    for (unsigned pages = 0; pages < PAGES_MAX; pages++) {
        CK_RV rv = fetch_page(settings, cursor, keyring);
        if (rv != CKR_OK || cursor[0] == '\0') {
            return rv;
        }
    }
    tell(settings, "list the keys: there is no end of pages");
    return CKR_DEVICE_ERROR;
}
