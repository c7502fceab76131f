#include "signer-pkcs11/token/gate.h"

#include <stdatomic.h>
#include <stdio.h>

static const struct ckr_row rows[] = {
#define CKR_ROW(name, class, fault, cause, action) \
    { CKR_##name, "CKR_" #name, CKR_CLASS_##class, FAULT_##fault, cause, action },
#include "signer-pkcs11/token/ckr.def"
#undef CKR_ROW
};
static const struct ckr_row vendor_row = { CKR_VENDOR_DEFINED,
                                           "CKR_VENDOR_DEFINED",
                                           CKR_CLASS_DEVICE,
                                           FAULT_TOKEN_UNAVAILABLE,
                                           "the token reported an error of its maker",
                                           "look the value up in the token's manual" };
static const struct ckr_row unlisted_row = { 0,
                                             "unlisted value",
                                             CKR_CLASS_CALL,
                                             FAULT_INTERNAL,
                                             "the token answered with a value that PKCS#11 does not have",
                                             "report it together with the token's model" };

static const struct ckr_row misplaced_row = { CKR_OK,
                                              "misplaced value",
                                              CKR_CLASS_CALL,
                                              FAULT_INTERNAL,
                                              "the token gave an answer that belongs to another call",
                                              "report it together with the token's model" };

const struct ckr_row *ckr_row(CK_RV rv)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].rv == rv) {
            return &rows[i];
        }
    }
    return rv >= CKR_VENDOR_DEFINED ? &vendor_row : &unlisted_row;
}

const struct ckr_row *ckr_rows(size_t *ret_count)
{
    *ret_count = COUNT_OF(rows);
    return rows;
}

void call_clear(struct call *call)
{
    call->refusal = NULL;
    call->function = NULL;
    call->rv = CKR_OK;
}

/* "Already" is as good as "now", but only as an answer to those who asked for it: a C_Sign that says so signed nothing.
 */
static bool is_success(const char *function, CK_RV rv)
{
    return rv == CKR_OK || (rv == CKR_USER_ALREADY_LOGGED_IN && strcmp(function, "C_Login") == 0) ||
           (rv == CKR_CRYPTOKI_ALREADY_INITIALIZED && strcmp(function, "C_Initialize") == 0);
}

struct fault call_refused(struct call *call, const char *function, CK_RV rv)
{
    const struct ckr_row *row = ckr_row(rv);
    if (row->fault == FAULT_NONE) {
        if (is_success(function, rv)) {
            return OK;
        }
        row = &misplaced_row;
    }
    _Atomic uint64_t *counter = &call->refusals[row->class];
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
    call->refusal = row;
    call->function = function;
    call->rv = rv;
    return (struct fault){ row->fault };
}

struct fault call_note(struct op *op, const struct call *call, struct fault fault)
{
    const struct ckr_row *row = call->refusal;
    if (row == NULL || !FAULTED(fault)) {
        return fault;
    }
    op_note_log(op, "%s: %s (0x%lx)", call->function, row->name, call->rv);
    if (row->action[0] == '\0') {
        return op_fail(op, fault, "%s", row->cause);
    }
    return op_fail(op, fault, "%s: %s", row->cause, row->action);
}

void call_print(const struct call *call, char *text, size_t size)
{
    const struct ckr_row *row = call->refusal;
    if (row == NULL) {
        (void)snprintf(text, size, "no call was refused");
        return;
    }
    (void)snprintf(text, size, "%s: %s (0x%lx): %s: %s", call->function, row->name, call->rv, row->cause, row->action);
}

static struct fault answered(struct call *call, const char *function, CK_RV rv)
{
    atomic_store_explicit(&call->entered, 0, memory_order_relaxed);
    return rv == CKR_OK ? OK : call_refused(call, function, rv);
}

/* A missing entry of the list is a module of an older Cryptoki: an ordinary refusal, not a crash. */
#define THROUGH(call, name, ...)                                                                              \
    ({                                                                                                        \
        CK_FUNCTION_LIST *list_ = (call)->gate->list;                                                         \
        atomic_store_explicit(&(call)->entered, clock_mono(), memory_order_relaxed);                          \
        answered((call), #name, list_->name != NULL ? list_->name(__VA_ARGS__) : CKR_FUNCTION_NOT_SUPPORTED); \
    })
/* Cryptoki's prototypes have no const; it reads inputs only. */
#define UNCONST(at) ((CK_BYTE *)(uintptr_t)(at))

struct fault gate_info(struct call *call, CK_INFO *ret_info)
{
    return THROUGH(call, C_GetInfo, ret_info);
}

struct fault gate_slot_list(struct call *call, bool with_token, CK_SLOT_ID *slots, CK_ULONG *count)
{
    return THROUGH(call, C_GetSlotList, with_token ? CK_TRUE : CK_FALSE, slots, count);
}

struct fault gate_slot_info(struct call *call, CK_SLOT_ID slot, CK_SLOT_INFO *ret_info)
{
    return THROUGH(call, C_GetSlotInfo, slot, ret_info);
}

struct fault gate_token_info(struct call *call, CK_SLOT_ID slot, CK_TOKEN_INFO *ret_info)
{
    return THROUGH(call, C_GetTokenInfo, slot, ret_info);
}

struct fault gate_mechanism_list(struct call *call, CK_SLOT_ID slot, CK_MECHANISM_TYPE *list, CK_ULONG *count)
{
    return THROUGH(call, C_GetMechanismList, slot, list, count);
}

struct fault gate_mechanism_info(struct call *call, CK_SLOT_ID slot, CK_MECHANISM_TYPE type,
                                 CK_MECHANISM_INFO *ret_info)
{
    return THROUGH(call, C_GetMechanismInfo, slot, type, ret_info);
}

struct fault gate_open_session(struct call *call, CK_SLOT_ID slot, CK_SESSION_HANDLE *ret_session)
{
    CK_FLAGS flags = CKF_SERIAL_SESSION | (call->gate->read_only ? 0 : CKF_RW_SESSION);
    return THROUGH(call, C_OpenSession, slot, flags, NULL, NULL, ret_session);
}

struct fault gate_close_session(struct call *call, CK_SESSION_HANDLE session)
{
    return THROUGH(call, C_CloseSession, session);
}

struct fault gate_session_info(struct call *call, CK_SESSION_HANDLE session, CK_SESSION_INFO *ret_info)
{
    return THROUGH(call, C_GetSessionInfo, session, ret_info);
}

struct fault gate_login(struct call *call, CK_SESSION_HANDLE session, struct span pin)
{
    return THROUGH(call, C_Login, session, CKU_USER, UNCONST(pin.at), (CK_ULONG)pin.len);
}

struct fault gate_login_again(struct call *call, CK_SESSION_HANDLE session, struct span pin)
{
    return THROUGH(call, C_Login, session, CKU_CONTEXT_SPECIFIC, UNCONST(pin.at), (CK_ULONG)pin.len);
}

struct fault gate_find_init(struct call *call, CK_SESSION_HANDLE session, CK_ATTRIBUTE *wanted, CK_ULONG count)
{
    return THROUGH(call, C_FindObjectsInit, session, wanted, count);
}

struct fault gate_find(struct call *call, CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *found, CK_ULONG max,
                       CK_ULONG *ret_count)
{
    return THROUGH(call, C_FindObjects, session, found, max, ret_count);
}

struct fault gate_find_final(struct call *call, CK_SESSION_HANDLE session)
{
    return THROUGH(call, C_FindObjectsFinal, session);
}

struct fault gate_attributes(struct call *call, CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object,
                             CK_ATTRIBUTE *attributes, CK_ULONG count)
{
    return THROUGH(call, C_GetAttributeValue, session, object, attributes, count);
}

struct fault gate_generate_key(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism,
                               CK_ATTRIBUTE *attributes, CK_ULONG count, CK_OBJECT_HANDLE *ret_key)
{
    return THROUGH(call, C_GenerateKey, session, mechanism, attributes, count, ret_key);
}

struct fault gate_generate_pair(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism,
                                struct key_template public_half, struct key_template private_half,
                                CK_OBJECT_HANDLE *ret_public, CK_OBJECT_HANDLE *ret_private)
{
    return THROUGH(call, C_GenerateKeyPair, session, mechanism, public_half.at, public_half.count, private_half.at,
                   private_half.count, ret_public, ret_private);
}

struct fault gate_destroy(struct call *call, CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object)
{
    return THROUGH(call, C_DestroyObject, session, object);
}

struct fault gate_sign_init(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key)
{
    return THROUGH(call, C_SignInit, session, mechanism, key);
}

struct fault gate_sign(struct call *call, CK_SESSION_HANDLE session, struct span input, uint8_t *out, CK_ULONG *len)
{
    return THROUGH(call, C_Sign, session, UNCONST(input.at), (CK_ULONG)input.len, out, len);
}

struct fault gate_encrypt_init(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism,
                               CK_OBJECT_HANDLE key)
{
    return THROUGH(call, C_EncryptInit, session, mechanism, key);
}

struct fault gate_encrypt(struct call *call, CK_SESSION_HANDLE session, struct span input, uint8_t *out, CK_ULONG *len)
{
    return THROUGH(call, C_Encrypt, session, UNCONST(input.at), (CK_ULONG)input.len, out, len);
}

struct fault gate_decrypt_init(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism,
                               CK_OBJECT_HANDLE key)
{
    return THROUGH(call, C_DecryptInit, session, mechanism, key);
}

struct fault gate_decrypt(struct call *call, CK_SESSION_HANDLE session, struct span input, uint8_t *out, CK_ULONG *len)
{
    return THROUGH(call, C_Decrypt, session, UNCONST(input.at), (CK_ULONG)input.len, out, len);
}

struct fault gate_random(struct call *call, CK_SESSION_HANDLE session, uint8_t *at, size_t len)
{
    return THROUGH(call, C_GenerateRandom, session, at, (CK_ULONG)len);
}
