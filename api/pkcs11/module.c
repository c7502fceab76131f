#include "api/pkcs11/module.h"

#include "api/pkcs11/session.h"
#include "api/pkcs11/tell.h"
#include "appliance/base/alloc.h"
#include "appliance/http/http.h"

#define KEYRING_FRESH_NS (5 * NS_PER_S)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool started;
    struct settings *settings;
    struct keyring *keyring;
    mono_ns keyring_until; /* fresh before this; 0 = never fetched, or in doubt */
    uint64_t keyring_turn; /* which fetch it is from: a slow one does not replace a later one */
    uint64_t turns;
    struct handles handles;
} module;

static void enter(void)
{
    (void)pthread_mutex_lock(&lock); /* a plain mutex that is never destroyed cannot fail */
}

static void leave(void)
{
    (void)pthread_mutex_unlock(&lock);
}

/* Only the forking thread is in the child: others' locks and half-done changes are left behind with what they guarded.
 * Nothing is freed: connections and locked memory are shared with the parent, who is using them. */
static void forked(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(&module, 0, sizeof(module));
    sessions_forked();
    context_forked();
    secret_forked();
    http_forked();
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forked);
}

/* PKCS#11 2.40 5.4, C_Initialize. The module locks by pthreads and libcurl may resolve names in a thread of its own. */
static CK_RV check_args(const CK_C_INITIALIZE_ARGS *args)
{
    if (args == NULL) {
        return CKR_OK;
    }
    int functions = (args->CreateMutex != NULL) + (args->DestroyMutex != NULL) + (args->LockMutex != NULL) +
                    (args->UnlockMutex != NULL);
    if (args->pReserved != NULL || (functions != 0 && functions != 4)) {
        return CKR_ARGUMENTS_BAD;
    }
    if ((args->flags & CKF_LIBRARY_CANT_CREATE_OS_THREADS) != 0) {
        return CKR_NEED_TO_CREATE_THREADS;
    }
    return functions == 4 && (args->flags & CKF_OS_LOCKING_OK) == 0 ? CKR_CANT_LOCK : CKR_OK;
}

static CK_RV read_settings(struct settings **ret_settings)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = context_ready();
    if (!FAULTED(fault)) {
        fault = op_new("pkcs11", (struct tenant_id){ 0 }, 1000, &op);
    }
    if (!FAULTED(fault)) {
        fault = settings_read(op, ret_settings);
    }
    if (FAULTED(fault)) {
        tell(NULL, "C_Initialize: %s: %s", fault_row(fault.code)->text,
             op != NULL && op->note.set ? op->note.detail : fault_row(fault.code)->title);
    }
    return !FAULTED(fault) ? CKR_OK : fault.code == FAULT_NO_MEMORY ? CKR_HOST_MEMORY : CKR_GENERAL_ERROR;
}

static CK_RV start_locked(void)
{
    struct settings *settings = NULL;
    if (module.started) {
        return CKR_CRYPTOKI_ALREADY_INITIALIZED;
    }
    CK_RV rv = read_settings(&settings);
    if (rv == CKR_OK) {
        module.settings = settings;
        module.started = true;
    }
    return rv;
}

CK_RV module_start(const CK_C_INITIALIZE_ARGS *args)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    CK_RV rv = check_args(args);
    if (rv != CKR_OK) {
        return rv;
    }
    (void)pthread_once(&once, watch_forks);
    enter();
    rv = start_locked();
    leave();
    return rv;
}

CK_RV module_stop(void)
{
    enter();
    bool was = module.started;
    if (was) {
        sessions_close_all();
        settings_unref(TAKE(module.settings));
        keyring_unref(TAKE(module.keyring));
        handles_clear(&module.handles);
        module.keyring_until = 0;
        module.keyring_turn = module.turns; /* what is under way now comes too late */
        module.started = false;
        http_forget();
    }
    leave();
    return was ? CKR_OK : CKR_CRYPTOKI_NOT_INITIALIZED;
}

CK_RV module_check(void)
{
    enter();
    bool started = module.started;
    leave();
    return started ? CKR_OK : CKR_CRYPTOKI_NOT_INITIALIZED;
}

CK_RV module_settings(struct settings **ret_settings)
{
    enter();
    bool started = module.started;
    if (started) {
        *ret_settings = settings_ref(module.settings);
    }
    leave();
    return started ? CKR_OK : CKR_CRYPTOKI_NOT_INITIALIZED;
}

/* ---- objects ---- */

static CK_RV keyring_locked(struct keyring **ret_keyring)
{
    if (!module.started) {
        return CKR_CRYPTOKI_NOT_INITIALIZED;
    }
    if (module.keyring == NULL && FAULTED(keyring_new(&module.keyring))) {
        return CKR_HOST_MEMORY;
    }
    *ret_keyring = keyring_ref(module.keyring);
    return CKR_OK;
}

CK_RV module_keyring(struct keyring **ret_keyring)
{
    enter();
    CK_RV rv = keyring_locked(ret_keyring);
    leave();
    return rv;
}

void module_keyring_doubt(void)
{
    enter();
    module.keyring_until = 0;
    leave();
}

static CK_RV install_locked(struct keyring *made, uint64_t turn)
{
    if (!module.started) {
        return CKR_CRYPTOKI_NOT_INITIALIZED;
    }
    if (turn <= module.keyring_turn) {
        return CKR_OK; /* a later look was quicker */
    }
    if (FAULTED(handles_give(&module.handles, made))) {
        return CKR_HOST_MEMORY;
    }
    keyring_unref(module.keyring);
    module.keyring = keyring_ref(made);
    module.keyring_turn = turn;
    module.keyring_until = clock_mono() + KEYRING_FRESH_NS;
    return CKR_OK;
}

static CK_RV refresh(struct settings *settings, uint64_t turn)
{
    CLEANUP(keyring_unrefp) struct keyring *made = NULL;
    if (FAULTED(keyring_new(&made))) {
        return CKR_HOST_MEMORY;
    }
    CK_RV rv = keyring_fetch(settings, made);
    if (rv != CKR_OK) {
        return rv;
    }
    enter();
    rv = install_locked(made, turn);
    leave();
    return rv;
}

CK_RV module_keyring_fresh(struct keyring **ret_keyring)
{
    CLEANUP(settings_unrefp) struct settings *settings = NULL;
    uint64_t turn = 0;
    enter();
    bool started = module.started, fresh = clock_mono() < module.keyring_until;
    if (started) {
        settings = settings_ref(module.settings);
        turn = ++module.turns;
    }
    leave();
    CK_RV rv = started ? CKR_OK : CKR_CRYPTOKI_NOT_INITIALIZED;
    if (rv == CKR_OK && !fresh) {
        rv = refresh(settings, turn);
    }
    return rv == CKR_OK ? module_keyring(ret_keyring) : rv;
}
