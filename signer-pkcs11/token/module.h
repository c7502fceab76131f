/*
 * The PKCS#11 module in memory, and the slot of our token. libp11 loads it, initialises and finalises it; from there on
 * everything goes through the gate. Facts of libp11 0.4.13 draw that line: releasing its slots closes every session of
 * every slot, also those of another token of ours in the same module; it shows no session limits; and its login keeps a
 * plain copy of the PIN, its key generation knows RSA only. The library stays mapped from module_load to module_unload,
 * so the gate's function list is valid across module_stop and module_start.
 *
 * Several tokens may be in one module: they share its C_Initialize, and the last one to stop calls C_Finalize.
 *
 * Not thread-safe: start and stop only while no call is inside the module.
 */
#ifndef SIGNER_TOKEN_MODULE_H
#define SIGNER_TOKEN_MODULE_H

#include "signer-pkcs11/token/gate.h"
#include "signer-pkcs11/token/settings.h"

#include <libp11.h>

/* What the token says it can do; never assumed. Key sizes in bits. */
struct mechanisms {
    bool ecdsa, rsa_pkcs, rsa_pss, rsa_raw, aes_gcm; /* for signing and sealing */
    bool ec_generate, rsa_generate, rsa_x9_31, aes_generate;
    CK_ULONG rsa_max;
};

struct module {
    const char *path;                      /* borrowed */
    const struct token_settings *settings; /* which token is wanted, and C_Initialize's text; borrowed */
    void *library;
    PKCS11_CTX *libp11; /* NULL = not initialised; shared with the other tokens of this library */
    struct gate gate;
    CK_SLOT_ID slot;
    bool slot_known; /* since the first module_start that found it */
    char token_label[33], token_model[17], token_serial[17];
    bool login_required, pin_locked, pin_final_try;
    CK_ULONG session_limit;     /* at most open at once; 0 = the token says none */
    void (*asked)(void *owner); /* another token of this library needs C_Finalize: stop and start, soon */
    void *owner;
    struct mechanisms has;
};

/* Maps the library and takes its function list. TOKEN_UNAVAILABLE; `why` says which file and what the loader said. */
struct fault module_load(struct module *module, const char *path, char *why, size_t why_size);
void module_unload(struct module *module); /* after module_stop */
/* C_Initialize, then the slot of the wanted token, then its mechanisms. No session is open afterwards.
 * TOKEN_UNAVAILABLE; call->refusal is set, `why` says it in words. */
struct fault module_start(struct module *module, struct call *call, char *why, size_t why_size);
/* Its first step alone, for who looks at the slots by himself. */
struct fault module_initialise(struct module *module, struct call *call, char *why, size_t why_size);
/* Its last step: fills `has`. */
struct fault module_mechanisms(struct module *module, struct call *call);
/* Every session and handle is void. C_Finalize, unless other tokens of ours use the library. */
void module_stop(struct module *module);
/* The same, but the others are asked to stop too, and waited for a while, so that C_Finalize may come. */
void module_stop_all(struct module *module);

/* ---- slot.c ---- */
/* The slot of the wanted token; fills what `struct module` says of it. TOKEN_UNAVAILABLE, `why` in words. */
struct fault slot_find(struct module *module, struct call *call, char *why, size_t why_size);
/* Cryptoki pads its texts with blanks: without them, NUL-terminated. `size` is that of `out`. */
void slot_text(const void *padded, size_t len, char *out, size_t size);
/* Does `info` fit the settings? */
bool slot_wanted(const struct token_settings *settings, CK_SLOT_ID slot, const CK_TOKEN_INFO *info);

#endif
