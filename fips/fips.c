#include "fips/fips.h"

#include "appliance/base/crypto.h"
#include "fips/internal.h"

#include <openssl/provider.h>
#include <pthread.h>

DEFINE_FREEP(OSSL_LIB_CTX, OSSL_LIB_CTX_free)

/* Written by fips_start before threads; later only `error` and the posture's self_test_passed may change, under lock.
 */
static struct {
    pthread_mutex_t lock;
    bool started;
    enum fault_code error; /* sticky: the first failure is the last word of this process */
    OSSL_LIB_CTX *libctx;
    struct fips_posture posture;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* After a refusal nothing may fall back to another implementation by accident: a context whose only provider is `null`
 * fetches nothing, while NULL would mean OpenSSL's default context. */
static void close_crypto(void)
{
    OSSL_LIB_CTX *nothing = OSSL_LIB_CTX_new();
    BUG_IF(nothing == NULL || OSSL_PROVIDER_load(nothing, "null") == NULL);
    state.libctx = nothing;
    crypto_context_set(nothing);
}

static struct fault load(OSSL_LIB_CTX *libctx, const char *provider, struct buf *detail)
{
    if (OSSL_PROVIDER_load(libctx, provider) != NULL) {
        return OK;
    }
    char reason[256];
    crypto_last_error(reason, sizeof(reason));
    TRY(buf_printf(detail, "OpenSSL's provider %s does not load: %s", provider, reason));
    return FAULT(FIPS_INACTIVE);
}

/* Required: the module and `base`, nothing else, and every fetch asks for fips=yes. Otherwise the module is preferred
 * where it is active, and `default` serves what is fenced (or everything, which the posture then says). */
static struct fault fill_context(const struct config *config, OSSL_LIB_CTX *libctx, struct fips_posture *posture,
                                 struct buf *detail)
{
    struct fips_module module;
    struct fault fault = fips_module_check(config->fips_module, SVC_FIPS_MODULE_SHA256, &module, detail);
    if (!FAULTED(fault)) {
        fault = fips_module_load(&module, libctx, posture, detail);
    }
    if (config->fips_required) {
        TRY(fault);
    } else {
        TRY(load(libctx, "default", detail));
    }
    TRY(load(libctx, "base", detail));
    REQUIRE(!config->fips_required || OSSL_PROVIDER_available(libctx, "default") == 0, FIPS_INACTIVE);
    REQUIRE(EVP_set_default_properties(libctx, config->fips_required ? "fips=yes" : "?fips=yes") == 1, CRYPTO);
    return OK;
}

static struct fault start(const struct config *config, struct buf *detail)
{
    CLEANUP(OSSL_LIB_CTX_freep) OSSL_LIB_CTX *libctx = OSSL_LIB_CTX_new();
    REQUIRE(libctx != NULL, NO_MEMORY);
    struct fips_posture posture = { .required = config->fips_required };
    TRY(fill_context(config, libctx, &posture, detail));
    TRY(kat_run(libctx, &kat_vectors, detail));
    posture.self_test_passed = true;
    state.posture = posture;
    state.libctx = TAKE(libctx);
    crypto_context_set(state.libctx);
    return OK;
}

struct fault fips_start(const struct config *config, struct buf *detail)
{
    BUG_IF(config == NULL || detail == NULL);
    if (state.started) {
        if (state.error != FAULT_NONE) {
            TRY(buf_text(detail, "the cryptographic gate refused earlier in this process; restart it"));
        }
        return (struct fault){ state.error };
    }
    state.started = true;
    state.posture = (struct fips_posture){ .required = config->fips_required };
    struct fault fault = start(config, detail);
    if (FAULTED(fault)) {
        state.error = fault.code;
        close_crypto();
    }
    return fault;
}

OSSL_LIB_CTX *fips_libctx(void)
{
    return state.libctx;
}

void fips_posture(struct fips_posture *ret_posture)
{
    BUG_IF(pthread_mutex_lock(&state.lock) != 0);
    *ret_posture = state.posture;
    BUG_IF(pthread_mutex_unlock(&state.lock) != 0);
}

const char *fips_module_pin(void)
{
    return SVC_FIPS_MODULE_SHA256;
}

bool fips_approved_mode(void)
{
    struct fips_posture posture;
    fips_posture(&posture);
    return posture.required && posture.module_active && posture.self_test_passed;
}

struct fault fips_known_answer_tests(struct buf *detail)
{
    BUG_IF(pthread_mutex_lock(&state.lock) != 0);
    enum fault_code error = state.error;
    BUG_IF(pthread_mutex_unlock(&state.lock) != 0);
    if (error != FAULT_NONE) {
        TRY(buf_text(detail, "the cryptographic self-test failed earlier in this process; restart it"));
        return FAULT(FIPS_SELF_TEST);
    }
    struct fault fault = kat_run(state.libctx, &kat_vectors, detail);
    if (FAULTED(fault)) {
        BUG_IF(pthread_mutex_lock(&state.lock) != 0);
        state.error = fault.code;
        state.posture.self_test_passed = false;
        BUG_IF(pthread_mutex_unlock(&state.lock) != 0);
    }
    return fault;
}
