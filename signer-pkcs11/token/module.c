#include "signer-pkcs11/token/module.h"

#include <dlfcn.h>
#include <openssl/err.h>
#include <stdio.h>

#define MECHANISMS_MAX 1024

struct fault module_load(struct module *module, const char *path, char *why, size_t why_size)
{
    CK_RV (*function_list)(CK_FUNCTION_LIST **) = NULL;
    module->path = path;
    module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module->library == NULL) {
        const char *said = dlerror();
        (void)snprintf(why, why_size, "PKCS#11 module %s does not load: %s", path, said != NULL ? said : "unknown");
        return FAULT(TOKEN_UNAVAILABLE);
    }
    *(void **)&function_list = dlsym(module->library, "C_GetFunctionList");
    if (function_list == NULL || function_list(&module->gate.list) != CKR_OK || module->gate.list == NULL) {
        (void)snprintf(why, why_size, "%s is not a PKCS#11 module: it has no usable C_GetFunctionList", path);
        module_unload(module);
        return FAULT(TOKEN_UNAVAILABLE);
    }
    return OK;
}

void module_unload(struct module *module)
{
    void *library = TAKE(module->library);
    module->gate.list = NULL;
    if (library != NULL) {
        (void)dlclose(library);
    }
}

/* libp11 leaves the module's return value in OpenSSL's queue; taken out at once, so that it cannot be mistaken later.
 */
static struct fault libp11_refused(struct call *call, const char *function, char *why, size_t why_size)
{
    int rv = ERR_get_CKR_code();
    ERR_clear_error();
    struct fault fault = call_refused(call, function, rv != 0 ? (CK_RV)rv : CKR_GENERAL_ERROR);
    call_print(call, why, why_size);
    return fault;
}

static bool wanted(const struct module *module, const PKCS11_TOKEN *token)
{
    return token != NULL && token->initialized && strcmp(token->label, module->label) == 0 &&
           (module->serial[0] == '\0' || strcmp(token->serialnr, module->serial) == 0);
}

static void keep(struct module *module, PKCS11_SLOT *slot)
{
    const PKCS11_TOKEN *token = slot->token;
    module->slot = PKCS11_get_slotid_from_slot(slot);
    (void)snprintf(module->token_label, sizeof(module->token_label), "%s", token->label);
    (void)snprintf(module->token_model, sizeof(module->token_model), "%s", token->model);
    (void)snprintf(module->token_serial, sizeof(module->token_serial), "%s", token->serialnr);
    module->login_required = token->loginRequired;
    module->pin_locked = token->userPinLocked;
    module->pin_final_try = token->userPinFinalTry;
}

static struct fault choose(struct module *module, struct call *call, PKCS11_SLOT *slots, unsigned count, char *why,
                           size_t why_size)
{
    PKCS11_SLOT *chosen = NULL;
    unsigned matching = 0;
    for (unsigned i = 0; i < count; i++) {
        if (wanted(module, slots[i].token)) {
            chosen = chosen == NULL ? &slots[i] : chosen;
            matching++;
        }
    }
    if (matching == 1) {
        keep(module, chosen);
        return OK;
    }
    struct fault fault = call_refused(call, "C_GetSlotList", CKR_TOKEN_NOT_PRESENT);
    if (matching == 0) {
        (void)snprintf(why, why_size,
                       "%s has no initialised token labelled '%s'%s%s among its %u slots: "
                       "correct token.label, or initialise the token with its own tools",
                       module->path, module->label, module->serial[0] != '\0' ? " with serial " : "", module->serial,
                       count);
    } else {
        (void)snprintf(why, why_size, "%u tokens are labelled '%s': set token.serial to choose one", matching,
                       module->label);
    }
    return fault;
}

static struct fault find_slot(struct module *module, struct call *call, char *why, size_t why_size)
{
    PKCS11_SLOT *slots = NULL;
    unsigned count = 0;
    if (PKCS11_enumerate_slots(module->libp11, &slots, &count) != 0) {
        return libp11_refused(call, "C_GetSlotList", why, why_size);
    }
    struct fault fault = choose(module, call, slots, count, why, why_size);
    /* Closes every session of every slot: none is open yet. */
    PKCS11_release_all_slots(module->libp11, slots, count);
    return fault;
}

static void note_mechanism(struct module *module, struct call *call, CK_MECHANISM_TYPE type)
{
    struct mechanisms *has = &module->has;
    const struct {
        CK_MECHANISM_TYPE type;
        CK_FLAGS needs;
        bool *into;
    } known[] = {
        { CKM_ECDSA, CKF_SIGN, &has->ecdsa },
        { CKM_RSA_PKCS, CKF_SIGN, &has->rsa_pkcs },
        { CKM_RSA_PKCS_PSS, CKF_SIGN, &has->rsa_pss },
        { CKM_AES_GCM, CKF_ENCRYPT | CKF_DECRYPT, &has->aes_gcm },
        { CKM_EC_KEY_PAIR_GEN, CKF_GENERATE_KEY_PAIR, &has->ec_generate },
        { CKM_RSA_PKCS_KEY_PAIR_GEN, CKF_GENERATE_KEY_PAIR, &has->rsa_generate },
        { CKM_AES_KEY_GEN, CKF_GENERATE, &has->aes_generate },
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        CK_MECHANISM_INFO info = { 0 };
        if (known[i].type != type || FAULTED(gate_mechanism_info(call, module->slot, type, &info))) {
            continue;
        }
        *known[i].into = (info.flags & known[i].needs) == known[i].needs;
        if (type == CKM_RSA_PKCS_KEY_PAIR_GEN) {
            has->rsa_max = info.ulMaxKeySize;
        }
    }
}

static struct fault list_mechanisms(struct module *module, struct call *call)
{
    CK_MECHANISM_TYPE list[MECHANISMS_MAX];
    CK_ULONG count = MECHANISMS_MAX;
    TRY(gate_mechanism_list(call, module->slot, list, &count));
    module->has = (struct mechanisms){ 0 };
    for (CK_ULONG i = 0; i < count; i++) {
        note_mechanism(module, call, list[i]);
    }
    call_clear(call); /* a mechanism that is listed but not explained counts as absent */
    return OK;
}

static struct fault start(struct module *module, struct call *call, char *why, size_t why_size)
{
    module->libp11 = PKCS11_CTX_new();
    REQUIRE(module->libp11 != NULL, NO_MEMORY);
    if (PKCS11_CTX_load(module->libp11, module->path) != 0) {
        return libp11_refused(call, "C_Initialize", why, why_size);
    }
    TRY(find_slot(module, call, why, why_size));
    struct fault fault = list_mechanisms(module, call);
    if (FAULTED(fault)) {
        call_print(call, why, why_size);
    }
    return fault;
}

struct fault module_start(struct module *module, struct call *call, char *why, size_t why_size)
{
    BUG_IF(module->libp11 != NULL);
    struct fault fault = start(module, call, why, why_size);
    if (FAULTED(fault)) {
        module_stop(module);
    }
    return fault;
}

void module_stop(struct module *module)
{
    PKCS11_CTX *libp11 = TAKE(module->libp11);
    if (libp11 != NULL) {
        PKCS11_CTX_unload(libp11);
        PKCS11_CTX_free(libp11);
        ERR_clear_error();
    }
}
