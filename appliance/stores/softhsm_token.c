#include "appliance/stores/softhsm_token.h"

#include <dlfcn.h>
#include <p11-kit-1/p11-kit/pkcs11.h>
#include <string.h>

#define SLOTS_MAX 16

static struct fault check(struct op *op, CK_RV rv, const char *call)
{
    return rv == CKR_OK ? OK : op_fail(op, FAULT(TOKEN_UNAVAILABLE), "SoftHSM: %s failed: 0x%lx", call, rv);
}

static struct fault load(struct op *op, const char *module, CK_FUNCTION_LIST **ret_functions)
{
    void *library = dlopen(module, RTLD_NOW | RTLD_LOCAL);
    CK_C_GetFunctionList get = NULL;
    if (library != NULL) {
        void *symbol = dlsym(library, "C_GetFunctionList");
        memcpy(&get, &symbol, sizeof(get));
    }
    if (get == NULL) {
        return op_fail(op, FAULT(TOKEN_UNAVAILABLE), "cannot load %s: is the package softhsm2 installed?", module);
    }
    TRY(check(op, get(ret_functions), "C_GetFunctionList"));
    return check(op, (*ret_functions)->C_Initialize(NULL), "C_Initialize");
}

/* The first slot whose token is, or is not, initialised. */
static struct fault find_slot(struct op *op, CK_FUNCTION_LIST *f, bool initialised, CK_SLOT_ID *ret_slot)
{
    CK_SLOT_ID slots[SLOTS_MAX];
    CK_ULONG count = SLOTS_MAX;
    BUG_IF(f == NULL);
    TRY(check(op, f->C_GetSlotList(CK_TRUE, slots, &count), "C_GetSlotList"));
    for (CK_ULONG i = 0; i < count; i++) {
        CK_TOKEN_INFO info;
        TRY(check(op, f->C_GetTokenInfo(slots[i], &info), "C_GetTokenInfo"));
        if (((info.flags & CKF_TOKEN_INITIALIZED) != 0) == initialised) {
            *ret_slot = slots[i];
            return OK;
        }
    }
    return op_fail(op, FAULT(TOKEN_UNAVAILABLE), "SoftHSM shows no slot to make the token in");
}

struct fault softhsm_token_new(struct op *op, const char *module, const char *label, struct span so_pin,
                               struct span user_pin)
{
    CK_UTF8CHAR padded[TOKEN_LABEL_MAX];
    size_t len = strlen(label);
    if (len == 0 || len > sizeof(padded)) {
        return op_fail(op, FAULT(CONFIG), "token.label must have 1 to %d bytes", TOKEN_LABEL_MAX);
    }
    memset(padded, ' ', sizeof(padded));
    memcpy(padded, label, len);

    CK_FUNCTION_LIST *f = NULL;
    CK_SLOT_ID slot = 0;
    CK_SESSION_HANDLE session = 0;
    CK_UTF8CHAR *so = (CK_UTF8CHAR *)so_pin.at, *user = (CK_UTF8CHAR *)user_pin.at;
    TRY(load(op, module, &f));
    TRY(find_slot(op, f, false, &slot));
    TRY(check(op, f->C_InitToken(slot, so, so_pin.len, padded), "C_InitToken"));
    TRY(find_slot(op, f, true, &slot)); /* it has moved: SoftHSM names slots by their token's serial */
    TRY(check(op, f->C_OpenSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &session), "C_OpenSession"));
    TRY(check(op, f->C_Login(session, CKU_SO, so, so_pin.len), "C_Login"));
    TRY(check(op, f->C_InitPIN(session, user, user_pin.len), "C_InitPIN"));
    return check(op, f->C_Finalize(NULL), "C_Finalize");
}
