/*
 * The PKCS#11 module in memory, and the slot of our token. libp11 loads it, initialises and finalises it, and finds the
 * slot; from the first session on everything goes through the gate. Two facts of libp11 0.4.13 draw that line:
 * releasing its slots closes every session of the slot, so it may hold none while ours are open; and its login keeps a
 * plain copy of the PIN, its key generation knows RSA only. The library stays mapped from module_load to module_unload,
 * so the gate's function list is valid across module_stop and module_start.
 *
 * Not thread-safe: start and stop only while no call is inside the module.
 */
#ifndef SIGNER_TOKEN_MODULE_H
#define SIGNER_TOKEN_MODULE_H

#include "signer-pkcs11/token/gate.h"

#include <libp11.h>

/* What the token says it can do; never assumed. Key sizes in bits. */
struct mechanisms {
    bool ecdsa, rsa_pkcs, rsa_pss, aes_gcm; /* for signing and sealing */
    bool ec_generate, rsa_generate, aes_generate;
    CK_ULONG rsa_max;
};

struct module {
    const char *path;           /* borrowed */
    const char *label, *serial; /* of the wanted token; borrowed; serial "" = any */
    void *library;
    PKCS11_CTX *libp11; /* NULL = not initialised */
    struct gate gate;
    CK_SLOT_ID slot;
    char token_label[33], token_model[17], token_serial[17];
    bool login_required, pin_locked, pin_final_try;
    struct mechanisms has;
};

/* Maps the library and takes its function list. TOKEN_UNAVAILABLE; `why` says which file and what the loader said. */
struct fault module_load(struct module *module, const char *path, char *why, size_t why_size);
void module_unload(struct module *module); /* after module_stop */
/* C_Initialize, then the slot of the wanted token, then its mechanisms. No session is open afterwards.
 * TOKEN_UNAVAILABLE; call->refusal is set, `why` says it in words. */
struct fault module_start(struct module *module, struct call *call, char *why, size_t why_size);
void module_stop(struct module *module); /* C_Finalize; every session and handle is void */

#endif
