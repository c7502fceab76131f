/*
 * The one gate to the PKCS#11 module: a function per C_ call that we use, on the module's own function list. Each call
 * is timed, its refusals are counted, and a return value becomes a fault by ckr.def; the refusal (which function, which
 * value, what it means) stays in the `struct call` of the thread, for recovery to judge and for the log. Nothing else
 * in this program calls a C_ function. Thread-safe: one struct call, one thread at a time.
 */
#ifndef SIGNER_TOKEN_GATE_H
#define SIGNER_TOKEN_GATE_H

#include "appliance/base/clock.h"
#include "appliance/base/op.h"

#include <p11-kit/pkcs11.h>
#include <stdatomic.h>

/* What has to be done before the same call can work. In the order of escalation. */
enum ckr_class {
    CKR_CLASS_CALL,
    CKR_CLASS_HANDLE,
    CKR_CLASS_SESSION,
    CKR_CLASS_LOGIN,
    CKR_CLASS_DEVICE,
    CKR_CLASS_MODULE,
    CKR_CLASS_PIN,
    CKR_CLASS_COUNT,
};

struct ckr_row {
    CK_RV rv;
    const char *name; /* "CKR_DEVICE_ERROR" */
    enum ckr_class class;
    enum fault_code fault;
    const char *cause, *action; /* for the operator */
};
/* Never NULL: a vendor's value gives the row of CKR_GENERAL_ERROR, an unlisted one a row of INTERNAL. */
const struct ckr_row *ckr_row(CK_RV rv);
/* All rows in table order, for tests and generated docs. */
const struct ckr_row *ckr_rows(size_t *ret_count);

struct gate {
    CK_FUNCTION_LIST *list; /* the module's; valid while the module is mapped */
    bool read_only;         /* sessions are opened so */
};

/* One thread's way through the gate, and what it was last refused. */
struct call {
    struct gate *gate;
    _Atomic mono_ns entered; /* since when a call is inside the module; 0 = none is */
    _Atomic uint64_t
        refusals[CKR_CLASS_COUNT]; /* written by the one thread, read by all: no line is shared by writers */
    const struct ckr_row *refusal; /* NULL = nothing was refused since call_clear */
    const char *function;          /* that was refused */
    CK_RV rv;
};
void call_clear(struct call *call);
/* Around calls into the module that do not go through the gate. */
static inline void call_entered(struct call *call)
{
    atomic_store_explicit(&call->entered, clock_mono(), memory_order_relaxed);
}
static inline void call_returned(struct call *call)
{
    atomic_store_explicit(&call->entered, 0, memory_order_relaxed);
}
/* Records a refusal that did not come as a return value of the gate (libp11, or our own conclusion). Gives its fault.
 */
struct fault call_refused(struct call *call, const char *function, CK_RV rv);
/* op's note for the refusal: cause and action for the caller, function and value for the log. Gives the fault back. */
struct fault call_note(struct op *op, const struct call *call, struct fault fault);
/* "C_Sign: CKR_DEVICE_ERROR (0x30): the token ..., look at ..." into `text`. */
void call_print(const struct call *call, char *text, size_t size);

struct fault gate_info(struct call *call, CK_INFO *ret_info);
/* *count: in the room, out the slots; `slots` NULL = only how many. */
struct fault gate_slot_list(struct call *call, bool with_token, CK_SLOT_ID *slots, CK_ULONG *count);
struct fault gate_slot_info(struct call *call, CK_SLOT_ID slot, CK_SLOT_INFO *ret_info);
struct fault gate_token_info(struct call *call, CK_SLOT_ID slot, CK_TOKEN_INFO *ret_info);
struct fault gate_mechanism_list(struct call *call, CK_SLOT_ID slot, CK_MECHANISM_TYPE *list, CK_ULONG *count);
struct fault gate_mechanism_info(struct call *call, CK_SLOT_ID slot, CK_MECHANISM_TYPE type,
                                 CK_MECHANISM_INFO *ret_info);
struct fault gate_open_session(struct call *call, CK_SLOT_ID slot,
                               CK_SESSION_HANDLE *ret_session); /* read-write, unless gate.read_only */
struct fault gate_close_session(struct call *call, CK_SESSION_HANDLE session);
struct fault gate_session_info(struct call *call, CK_SESSION_HANDLE session, CK_SESSION_INFO *ret_info);
/* An empty pin with a NULL address: the token asks for it by itself (PIN pad). */
struct fault gate_login(struct call *call, CK_SESSION_HANDLE session, struct span pin);
/* For the one operation that was initialised, on a key with CKA_ALWAYS_AUTHENTICATE. */
struct fault gate_login_again(struct call *call, CK_SESSION_HANDLE session, struct span pin);
struct fault gate_find_init(struct call *call, CK_SESSION_HANDLE session, CK_ATTRIBUTE *wanted, CK_ULONG count);
struct fault gate_find(struct call *call, CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *found, CK_ULONG max,
                       CK_ULONG *ret_count);
struct fault gate_find_final(struct call *call, CK_SESSION_HANDLE session);
struct fault gate_attributes(struct call *call, CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object,
                             CK_ATTRIBUTE *attributes, CK_ULONG count);
struct fault gate_generate_key(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism,
                               CK_ATTRIBUTE *attributes, CK_ULONG count, CK_OBJECT_HANDLE *ret_key);
/* A template and its length, for the two halves of a key pair. */
struct key_template {
    CK_ATTRIBUTE *at;
    CK_ULONG count;
};
struct fault gate_generate_pair(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism,
                                struct key_template public_half, struct key_template private_half,
                                CK_OBJECT_HANDLE *ret_public, CK_OBJECT_HANDLE *ret_private);
struct fault gate_destroy(struct call *call, CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object);
struct fault gate_sign_init(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism,
                            CK_OBJECT_HANDLE key);
/* *len: in the room, out the bytes; for all three. */
struct fault gate_sign(struct call *call, CK_SESSION_HANDLE session, struct span input, uint8_t *out, CK_ULONG *len);
struct fault gate_encrypt_init(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism,
                               CK_OBJECT_HANDLE key);
struct fault gate_encrypt(struct call *call, CK_SESSION_HANDLE session, struct span input, uint8_t *out, CK_ULONG *len);
struct fault gate_decrypt_init(struct call *call, CK_SESSION_HANDLE session, CK_MECHANISM *mechanism,
                               CK_OBJECT_HANDLE key);
struct fault gate_decrypt(struct call *call, CK_SESSION_HANDLE session, struct span input, uint8_t *out, CK_ULONG *len);
struct fault gate_random(struct call *call, CK_SESSION_HANDLE session, uint8_t *at, size_t len);

#endif
