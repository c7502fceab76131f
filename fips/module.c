#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "fips/internal.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/self_test.h>
#include <stdio.h>

#define MODULE_MAX ((size_t)32 << 20)

/* The key of the module's integrity check. It is published in OpenSSL's sources and is no secret: the check finds
 * accidents, the pinned SHA-256 finds intent. */
static const uint8_t integrity_key[] = {
    0xf4, 0x55, 0x66, 0x50, 0xac, 0x31, 0xd3, 0x54, 0x61, 0x61, 0x0b, 0xac, 0x4e, 0xd8, 0x1b, 0x1a,
    0x18, 0x1b, 0x2d, 0x8a, 0x43, 0xea, 0x28, 0x54, 0xcb, 0xae, 0x22, 0xca, 0x74, 0x56, 0x08, 0x13,
};

/* What `openssl fipsinstall -pedantic` switches on: an unapproved use is an error, not only an indicator. */
static const char *const approved_only[] = {
    "conditional-errors",
    "security-checks",
    "hmac-key-check",
    "kmac-key-check",
    "tls1-prf-ems-check",
    "no-short-mac",
    "drbg-no-trunc-md",
    "signature-digest-check",
    "hkdf-digest-check",
    "tls13-kdf-digest-check",
    "tls1-prf-digest-check",
    "sshkdf-digest-check",
    "sskdf-digest-check",
    "x963kdf-digest-check",
    "dsa-sign-disabled",
    "tdes-encrypt-disabled",
    "rsa-pkcs15-pad-disabled",
    "rsa-pss-saltlen-check",
    "rsa-sign-x931-pad-disabled",
    "hkdf-key-check",
    "kbkdf-key-check",
    "tls13-kdf-key-check",
    "tls1-prf-key-check",
    "sshkdf-key-check",
    "sskdf-key-check",
    "x963kdf-key-check",
    "x942kdf-key-check",
    "pbkdf2-lower-bound-check",
    "ecdh-cofactor-check",
};

DEFINE_FREEP(OSSL_LIB_CTX, OSSL_LIB_CTX_free)

/* SHA-256 and HMAC-SHA-256 of the file's bytes, before any module is active: in a context of its own that is thrown
 * away. The module checks the MAC again over the file as it is then, so a change in between is found by it. */
static struct fault digests_of(struct span bytes, uint8_t sha[SHA256_LEN], uint8_t mac[SHA256_LEN])
{
    CLEANUP(OSSL_LIB_CTX_freep) OSSL_LIB_CTX *libctx = OSSL_LIB_CTX_new();
    REQUIRE(libctx != NULL, NO_MEMORY);
    size_t sha_len = SHA256_LEN;
    size_t mac_len = 0;
    if (EVP_Q_digest(libctx, "SHA256", NULL, bytes.at, bytes.len, sha, &sha_len) != 1 ||
        EVP_Q_mac(libctx, "HMAC", NULL, "SHA256", NULL, integrity_key, sizeof(integrity_key), bytes.at, bytes.len, mac,
                  SHA256_LEN, &mac_len) == NULL) {
        return crypto_fail(NULL, "");
    }
    REQUIRE(sha_len == SHA256_LEN && mac_len == SHA256_LEN, CRYPTO);
    return OK;
}

/* "/usr/lib/ossl-modules/fips.so" -> folder and provider name. */
static struct fault split_path(const char *path, struct fips_module *module)
{
    const char *slash = strrchr(path, '/');
    REQUIRE(path[0] == '/' && slash != NULL, CONFIG);
    size_t name_len = strlen(slash + 1);
    REQUIRE(name_len > 3 && strcmp(slash + 1 + name_len - 3, ".so") == 0, CONFIG);
    size_t folder_len = slash == path ? 1 : (size_t)(slash - path);
    REQUIRE(folder_len < sizeof(module->folder) && name_len - 3 < sizeof(module->name), CONFIG);
    (void)snprintf(module->folder, sizeof(module->folder), "%.*s", (int)folder_len, path);
    (void)snprintf(module->name, sizeof(module->name), "%.*s", (int)name_len - 3, slash + 1);
    return OK;
}

struct fault fips_module_check(const char *path, const char *pin, struct fips_module *ret_module, struct buf *detail)
{
    struct fips_module module = { 0 };
    if (FAULTED(split_path(path, &module))) {
        TRY(buf_printf(detail, "FIPS module %s: fips.module must be an absolute path that ends in .so", path));
        return FAULT(FIPS_INACTIVE);
    }
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(MODULE_MAX);
    struct fault fault = file_read(path, &bytes);
    if (FAULTED(fault)) {
        TRY(buf_printf(detail,
                       "FIPS module %s: %s; install the package openssl-provider-fips, or set fips.module to its file",
                       path, fault_row(fault.code)->title));
        return FAULT(FIPS_INACTIVE);
    }
    uint8_t sha[SHA256_LEN];
    uint8_t mac[SHA256_LEN];
    TRY(digests_of(buf_span(&bytes), sha, mac));
    char text[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(sha), text, sizeof(text));
    if (strcmp(text, pin) != 0) {
        TRY(buf_printf(
            detail,
            "FIPS module %s: its SHA-256 is %s, this build trusts %s; reinstall openssl-provider-fips of the "
            "version that this build was made with",
            path, text, pin));
        return FAULT(FIPS_SELF_TEST);
    }
    hex_text(SPAN_ARRAY(mac), module.mac, sizeof(module.mac));
    *ret_module = module;
    return OK;
}

/* Keeps the name of the self-test that failed. */
static int on_self_test(const OSSL_PARAM params[], void *arg)
{
    char *failed = arg;
    const OSSL_PARAM *phase = OSSL_PARAM_locate_const(params, OSSL_PROV_PARAM_SELF_TEST_PHASE);
    const OSSL_PARAM *type = OSSL_PARAM_locate_const(params, OSSL_PROV_PARAM_SELF_TEST_TYPE);
    const OSSL_PARAM *what = OSSL_PARAM_locate_const(params, OSSL_PROV_PARAM_SELF_TEST_DESC);
    const char *phase_text = NULL;
    const char *type_text = NULL;
    const char *what_text = NULL;
    if (phase != NULL && type != NULL && what != NULL && OSSL_PARAM_get_utf8_string_ptr(phase, &phase_text) == 1 &&
        OSSL_PARAM_get_utf8_string_ptr(type, &type_text) == 1 &&
        OSSL_PARAM_get_utf8_string_ptr(what, &what_text) == 1 && strcmp(phase_text, OSSL_SELF_TEST_PHASE_FAIL) == 0 &&
        failed[0] == '\0') {
        (void)snprintf(failed, 64, "%s %s", type_text, what_text);
    }
    return 1;
}

static struct fault describe(const OSSL_PROVIDER *provider, struct fips_posture *posture)
{
    const char *name = NULL;
    const char *version = NULL;
    int status = 0;
    OSSL_PARAM wanted[] = {
        OSSL_PARAM_construct_utf8_ptr(OSSL_PROV_PARAM_NAME, (char **)&name, 0),
        OSSL_PARAM_construct_utf8_ptr(OSSL_PROV_PARAM_VERSION, (char **)&version, 0),
        OSSL_PARAM_construct_int(OSSL_PROV_PARAM_STATUS, &status),
        OSSL_PARAM_construct_end(),
    };
    REQUIRE(OSSL_PROVIDER_get_params(provider, wanted) == 1 && name != NULL && version != NULL && status == 1,
            FIPS_INACTIVE);
    (void)snprintf(posture->module, sizeof(posture->module), "%s", name);
    (void)snprintf(posture->version, sizeof(posture->version), "%s", version);
    (void)snprintf(posture->standard, sizeof(posture->standard), "%s", "FIPS 140-3");
    return OK;
}

/* The configuration that fipsinstall would write, handed over in memory: no file that somebody could edit. */
static OSSL_PROVIDER *load_provider(const struct fips_module *module, OSSL_LIB_CTX *libctx)
{
    char on[] = "1";
    OSSL_PARAM config[COUNT_OF(approved_only) + 4];
    size_t at = 0;
    for (size_t i = 0; i < COUNT_OF(approved_only); i++) {
        config[at++] = OSSL_PARAM_construct_utf8_string(approved_only[i], on, 0);
    }
    config[at++] = OSSL_PARAM_construct_utf8_string("activate", on, 0);
    config[at++] = OSSL_PARAM_construct_utf8_string("install-version", on, 0);
    config[at++] = OSSL_PARAM_construct_utf8_string("module-mac", (char *)module->mac, 0);
    config[at] = OSSL_PARAM_construct_end();
    if (OSSL_PROVIDER_set_default_search_path(libctx, module->folder) != 1) {
        return NULL;
    }
    return OSSL_PROVIDER_load_ex(libctx, module->name, config);
}

struct fault fips_module_load(const struct fips_module *module, OSSL_LIB_CTX *libctx, struct fips_posture *ret_posture,
                              struct buf *detail)
{
    char failed[64] = "";
    char reason[256];
    OSSL_SELF_TEST_set_callback(libctx, on_self_test, failed);
    OSSL_PROVIDER *provider = load_provider(module, libctx);
    OSSL_SELF_TEST_set_callback(libctx, NULL, NULL);
    if (provider == NULL) {
        crypto_last_error(reason, sizeof(reason));
        TRY(buf_printf(detail, "FIPS module %s/%s.so: %s%s: %s; reinstall openssl-provider-fips and start again",
                       module->folder, module->name, failed[0] != '\0' ? "self-test failed: " : "not activated", failed,
                       reason));
        return FAULT(FIPS_SELF_TEST);
    }
    struct fips_posture posture = *ret_posture;
    if (OSSL_PROVIDER_self_test(provider) != 1 || OSSL_PROVIDER_available(libctx, module->name) != 1 ||
        FAULTED(describe(provider, &posture))) {
        crypto_last_error(reason, sizeof(reason));
        TRY(buf_printf(detail, "FIPS module %s/%s.so: loaded but not running: %s", module->folder, module->name,
                       reason));
        return FAULT(FIPS_INACTIVE);
    }
    posture.module_active = true;
    *ret_posture = posture;
    return OK;
}
