#include "signer-pkcs11/token/module.h"

#include <dlfcn.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define MECHANISMS_MAX 1024
#define OTHERS_WAIT_S  2 /* longer than the pause between two attempts of a keeper */

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
    unsigned long error = ERR_peek_last_error();
    /* ERR_get_CKR_code gives the number of the error library, not of the error. */
    bool known = ERR_GET_LIB(error) == ERR_get_CKR_code() && ERR_GET_REASON(error) != 0;
    CK_RV rv = known ? (CK_RV)ERR_GET_REASON(error) : CKR_GENERAL_ERROR;
    ERR_clear_error();
    struct fault fault = call_refused(call, function, rv);
    call_print(call, why, why_size);
    return fault;
}

/* A mechanism that is listed but denied when asked for counts as absent. Any other refusal is no answer: what the token
 * has would be wrong until the next start. */
static struct fault note_mechanism(struct module *module, struct call *call, CK_MECHANISM_TYPE type)
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
        { CKM_RSA_X_509, CKF_SIGN, &has->rsa_raw },
        { CKM_AES_GCM, CKF_ENCRYPT | CKF_DECRYPT, &has->aes_gcm },
        { CKM_EC_KEY_PAIR_GEN, CKF_GENERATE_KEY_PAIR, &has->ec_generate },
        { CKM_RSA_PKCS_KEY_PAIR_GEN, CKF_GENERATE_KEY_PAIR, &has->rsa_generate },
        { CKM_RSA_X9_31_KEY_PAIR_GEN, CKF_GENERATE_KEY_PAIR, &has->rsa_x9_31 },
        { CKM_AES_KEY_GEN, CKF_GENERATE, &has->aes_generate },
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        CK_MECHANISM_INFO info = { 0 };
        if (known[i].type != type) {
            continue;
        }
        struct fault fault = gate_mechanism_info(call, module->slot, type, &info);
        if (FAULTED(fault) && call->rv == CKR_MECHANISM_INVALID) {
            call_clear(call);
            continue;
        }
        TRY(fault);
        *known[i].into = (info.flags & known[i].needs) == known[i].needs;
        if ((type == CKM_RSA_PKCS_KEY_PAIR_GEN || type == CKM_RSA_X9_31_KEY_PAIR_GEN) &&
            info.ulMaxKeySize > has->rsa_max) {
            has->rsa_max = info.ulMaxKeySize;
        }
    }
    return OK;
}

struct fault module_mechanisms(struct module *module, struct call *call)
{
    CK_MECHANISM_TYPE list[MECHANISMS_MAX];
    CK_ULONG count = MECHANISMS_MAX;
    TRY(gate_mechanism_list(call, module->slot, list, &count));
    module->has = (struct mechanisms){ 0 };
    for (CK_ULONG i = 0; i < count; i++) {
        TRY(note_mechanism(module, call, list[i]));
    }
    return OK;
}

/* ---- C_Initialize and C_Finalize ---- */

/* One library, one C_Initialize, however many tokens of ours are in it. */
struct library {
    void *handle;
    PKCS11_CTX *libp11;
    unsigned users;
    struct module *members[TOKENS_MAX]; /* `users` of them */
};
static struct library libraries[TOKENS_MAX];
static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t library_finalised = PTHREAD_COND_INITIALIZER;
static unsigned finalisations;

/* The library's row; a free one when it has none. A process has at most TOKENS_MAX tokens. */
static struct library *library_of(void *handle)
{
    struct library *free_row = NULL;
    for (size_t i = 0; i < COUNT_OF(libraries); i++) {
        if (libraries[i].handle == handle) {
            return &libraries[i];
        }
        free_row = libraries[i].handle == NULL ? &libraries[i] : free_row;
    }
    return free_row;
}

/* The first of several: libp11 initialises. */
static struct fault initialise(struct module *module, struct call *call, struct library *row, char *why,
                               size_t why_size)
{
    PKCS11_CTX *libp11 = PKCS11_CTX_new();
    REQUIRE(libp11 != NULL, NO_MEMORY);
    if (module->settings->init_args != NULL && module->settings->init_args[0] != '\0') {
        PKCS11_CTX_init_args(libp11, module->settings->init_args);
    }
    if (PKCS11_CTX_load(libp11, module->path) != 0) {
        struct fault fault = libp11_refused(call, "C_Initialize", why, why_size);
        PKCS11_CTX_free(libp11);
        return fault;
    }
    *row = (struct library){ .handle = module->library, .libp11 = libp11 };
    return OK;
}

/* Not the first: the library should be initialised. If it lost that, then for all of its tokens. */
static struct fault initialise_again(struct module *module, struct call *call, char *why, size_t why_size)
{
    CK_C_INITIALIZE_ARGS args = { .flags = CKF_OS_LOCKING_OK,
                                  .pReserved = (void *)(uintptr_t)module->settings->init_args };
    if (module->settings->init_args != NULL && module->settings->init_args[0] == '\0') {
        args.pReserved = NULL;
    }
    CK_RV rv = module->gate.list->C_Initialize(&args);
    if (rv == CKR_OK || rv == CKR_CRYPTOKI_ALREADY_INITIALIZED) {
        return OK;
    }
    struct fault fault = call_refused(call, "C_Initialize", rv);
    call_print(call, why, why_size);
    return fault;
}

struct fault module_initialise(struct module *module, struct call *call, char *why, size_t why_size)
{
    BUG_IF(pthread_mutex_lock(&libraries_lock) != 0);
    struct library *row = library_of(module->library);
    struct fault fault = FAULT(SATURATED);
    if (row != NULL) {
        fault = row->users == 0 ? initialise(module, call, row, why, why_size)
                                : initialise_again(module, call, why, why_size);
    }
    if (!FAULTED(fault)) {
        row->members[row->users++] = module;
        module->libp11 = row->libp11;
    }
    BUG_IF(pthread_mutex_unlock(&libraries_lock) != 0);
    return fault;
}

static void no_member(struct library *row, const struct module *module)
{
    unsigned i = 0;
    while (row->members[i] != module) {
        i++;
        BUG_IF(i == row->users);
    }
    row->members[i] = row->members[--row->users];
}

static void leave_locked(struct module *module)
{
    struct library *row = library_of(module->library);
    BUG_IF(row == NULL || row->users == 0);
    no_member(row, module);
    module->libp11 = NULL;
    if (row->users > 0) {
        if (module->slot_known) { /* C_Finalize would close them */
            (void)module->gate.list->C_CloseAllSessions(module->slot);
        }
    } else {
        PKCS11_CTX_unload(row->libp11);
        PKCS11_CTX_free(row->libp11);
        *row = (struct library){ 0 };
        ERR_clear_error();
        finalisations++;
        BUG_IF(pthread_cond_broadcast(&library_finalised) != 0);
    }
}

/* For the others' keepers; each goes about it when no call of its token is inside. */
static void ask_others_locked(const void *library)
{
    const struct library *row = library_of((void *)(uintptr_t)library);
    unsigned seen = finalisations;
    struct timespec until;
    BUG_IF(clock_gettime(CLOCK_REALTIME, &until) != 0);
    until.tv_sec += OTHERS_WAIT_S;
    for (unsigned i = 0; row != NULL && row->handle == library && i < row->users; i++) {
        if (row->members[i]->asked != NULL) {
            row->members[i]->asked(row->members[i]->owner);
        }
    }
    while (row != NULL && row->handle == library && finalisations == seen &&
           pthread_cond_timedwait(&library_finalised, &libraries_lock, &until) == 0) {
    }
}

static struct fault start(struct module *module, struct call *call, char *why, size_t why_size)
{
    TRY(module_initialise(module, call, why, why_size));
    TRY(slot_find(module, call, why, why_size));
    struct fault fault = module_mechanisms(module, call);
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

static void stop(struct module *module, bool all)
{
    if (module->libp11 != NULL) {
        BUG_IF(pthread_mutex_lock(&libraries_lock) != 0);
        leave_locked(module);
        if (all) {
            ask_others_locked(module->library);
        }
        BUG_IF(pthread_mutex_unlock(&libraries_lock) != 0);
    }
}

void module_stop(struct module *module)
{
    stop(module, false);
}

void module_stop_all(struct module *module)
{
    stop(module, true);
}
