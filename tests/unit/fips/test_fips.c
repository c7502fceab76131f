/* The gate itself. Its state is the process's, so each start runs in a child of its own. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "fips/internal.h"

#include <ctype.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODULE "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so"

static char folder[] = "/tmp/svc-test-fips-XXXXXX";

/* Runs `body` in a child; its return value is the exit code. */
static int in_child(int (*body)(void))
{
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(body());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}
#define CHECK(cond)                                                  \
    do {                                                             \
        if (!(cond)) {                                               \
            (void)fprintf(stderr, "line %d: %s\n", __LINE__, #cond); \
            return 1;                                                \
        }                                                            \
    } while (0)

/* A copy of the module with one byte changed, at `at`. */
static const char *tampered(size_t at)
{
    static char path[128];
    struct buf bytes = BUF_INIT((size_t)32 << 20);
    (void)snprintf(path, sizeof(path), "%s/fips.so", folder);
    if (FAULTED(file_read(MODULE, &bytes))) {
        return NULL;
    }
    bytes.at[at < bytes.len ? at : bytes.len - 1] ^= 1;
    bool written = !FAULTED(file_write(path, buf_span(&bytes), 0644));
    buf_free(&bytes);
    return written ? path : NULL;
}

static struct fault start(const char *module, bool required, struct buf *detail)
{
    struct config config = { .fips_module = module, .fips_required = required };
    return fips_start(&config, detail);
}

static bool says(struct buf *detail, const char *what)
{
    const char *text = NULL;
    return !FAULTED(buf_cstr(detail, &text)) && strstr(text, what) != NULL;
}

/* After a refusal nothing may be computed: not by the module, not by anything in its place. */
static bool closed(void)
{
    EVP_MD *md = EVP_MD_fetch(crypto_context(), "SHA256", NULL);
    EVP_MD_free(md);
    return md == NULL && crypto_context() != NULL;
}

static int refuse_tampered(size_t at)
{
    struct buf detail = BUF_INIT(2048);
    const char *path = tampered(at);
    CHECK(path != NULL);
    CHECK(start(path, true, &detail).code == FAULT_FIPS_SELF_TEST);
    CHECK(says(&detail, path) && says(&detail, "reinstall"));
    CHECK(closed());
    struct fips_posture posture;
    fips_posture(&posture);
    CHECK(!posture.module_active && !posture.self_test_passed && posture.required);
    buf_clear(&detail);
    CHECK(start(MODULE, true, &detail).code == FAULT_FIPS_SELF_TEST); /* sticky: the right file comes too late */
    CHECK(fips_known_answer_tests(&detail).code == FAULT_FIPS_SELF_TEST);
    buf_free(&detail);
    return 0;
}
static int refuse_first_byte(void)
{
    return refuse_tampered(0);
}
static int refuse_middle_byte(void)
{
    return refuse_tampered(1000003);
}
static int refuse_last_byte(void)
{
    return refuse_tampered(SIZE_MAX);
}

static void a_module_altered_by_one_byte_is_refused_for_ever(void **state)
{
    (void)state;
    assert_int_equal(in_child(refuse_first_byte), 0);
    assert_int_equal(in_child(refuse_middle_byte), 0);
    assert_int_equal(in_child(refuse_last_byte), 0);
}

static int refuse_missing(void)
{
    struct buf detail = BUF_INIT(2048);
    CHECK(start("/nowhere/fips.so", true, &detail).code == FAULT_FIPS_INACTIVE);
    CHECK(says(&detail, "/nowhere/fips.so") && says(&detail, "openssl-provider-fips"));
    CHECK(closed());
    buf_free(&detail);
    return 0;
}

static void a_missing_module_is_refused_and_named(void **state)
{
    (void)state;
    assert_int_equal(in_child(refuse_missing), 0);
}

static int refuse_relative(void)
{
    struct buf detail = BUF_INIT(2048);
    CHECK(start("fips.so", true, &detail).code == FAULT_FIPS_INACTIVE);
    CHECK(says(&detail, "absolute path"));
    buf_free(&detail);
    return 0;
}

static void a_relative_path_is_refused(void **state)
{
    (void)state;
    assert_int_equal(in_child(refuse_relative), 0);
}

/* The module's own check is not skipped: a wrong MAC stops the real file too. */
static int refuse_wrong_mac(void)
{
    struct buf detail = BUF_INIT(2048);
    struct fips_module module = { .folder = "/usr/lib/x86_64-linux-gnu/ossl-modules", .name = "fips" };
    memset(module.mac, '0', 64);
    OSSL_LIB_CTX *libctx = OSSL_LIB_CTX_new();
    struct fips_posture posture = { 0 };
    CHECK(fips_module_load(&module, libctx, &posture, &detail).code == FAULT_FIPS_SELF_TEST);
    CHECK(!posture.module_active && says(&detail, "Integrity"));
    OSSL_LIB_CTX_free(libctx);
    buf_free(&detail);
    return 0;
}

static void the_modules_own_integrity_test_runs_at_every_load(void **state)
{
    (void)state;
    assert_int_equal(in_child(refuse_wrong_mac), 0);
}

/* The very module, but this build was made with another one. */
static void a_module_that_is_not_the_pinned_one_is_refused(void **state)
{
    (void)state;
    char pin[65];
    struct buf detail = BUF_INIT(2048);
    struct fips_module untouched = { 0 };
    memset(pin, 'a', 64);
    pin[64] = '\0';
    assert_int_equal(fips_module_check(MODULE, pin, &untouched, &detail).code, FAULT_FIPS_SELF_TEST);
    assert_true(says(&detail, pin) && says(&detail, MODULE));
    assert_int_equal(untouched.mac[0], '\0');
    buf_free(&detail);
}

static int honest_without(void)
{
    struct buf detail = BUF_INIT(2048);
    CHECK(!FAULTED(start("/nowhere/fips.so", false, &detail)));
    CHECK(says(&detail, "/nowhere/fips.so"));
    struct fips_posture posture;
    fips_posture(&posture);
    CHECK(!posture.required && !posture.module_active && posture.self_test_passed && posture.module[0] == '\0');
    CHECK(OSSL_PROVIDER_available(fips_libctx(), "default") == 1);
    buf_free(&detail);
    return 0;
}

static void without_the_module_the_posture_says_so(void **state)
{
    (void)state;
    assert_int_equal(in_child(honest_without), 0);
}

static int optional_with(void)
{
    struct buf detail = BUF_INIT(2048);
    CHECK(!FAULTED(start(MODULE, false, &detail)));
    struct fips_posture posture;
    fips_posture(&posture);
    CHECK(!posture.required && posture.module_active && posture.self_test_passed);
    EVP_MD *md = EVP_MD_fetch(fips_libctx(), "SHA256", NULL);
    CHECK(md != NULL && strcmp(OSSL_PROVIDER_get0_name(EVP_MD_get0_provider(md)), "fips") == 0);
    EVP_MD_free(md);
    buf_free(&detail);
    return 0;
}

static void where_it_is_optional_an_active_module_is_preferred(void **state)
{
    (void)state;
    assert_int_equal(in_child(optional_with), 0);
}

static int required_with(void)
{
    struct buf detail = BUF_INIT(2048);
    struct fault fault = start(MODULE, true, &detail);
    const char *text = NULL;
    CHECK(!FAULTED(buf_cstr(&detail, &text)));
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%s\n", text);
        return 1;
    }
    CHECK(detail.len == 0);
    struct fips_posture posture;
    fips_posture(&posture);
    CHECK(posture.required && posture.module_active && posture.self_test_passed);
    CHECK(strcmp(posture.module, "OpenSSL FIPS Provider") == 0 && posture.version[0] == '3');
    CHECK(crypto_context() == fips_libctx() && fips_libctx() != NULL);
    EVP_MD *md5 = EVP_MD_fetch(fips_libctx(), "MD5", NULL);
    CHECK(md5 == NULL);
    CHECK(OSSL_PROVIDER_available(fips_libctx(), "default") == 0);
    CHECK(OSSL_PROVIDER_available(NULL, "fips") == 0); /* the default context is left alone */
    CHECK(!FAULTED(fips_known_answer_tests(&detail)));
    CHECK(!FAULTED(start("/nowhere/fips.so", true, &detail))); /* a second start is the first one's result */
    buf_free(&detail);
    return 0;
}

static void the_real_module_starts_and_only_it_serves(void **state)
{
    (void)state;
    assert_int_equal(in_child(required_with), 0);
}

/* What `openssl fipsinstall` computes for this file is what we hand to it. */
static void the_module_mac_is_that_of_fipsinstall(void **state)
{
    (void)state;
    struct buf detail = BUF_INIT(2048);
    struct fips_module module;
    FILE *real =
        popen("openssl fipsinstall -quiet -module " MODULE " | sed -n 's/^module-mac = //p' | tr -d ':\\n'", "r");
    assert_non_null(real);
    char expected[65] = "";
    assert_int_equal(fread(expected, 1, 64, real), 64);
    assert_int_equal(pclose(real), 0);
    struct buf bytes = BUF_INIT((size_t)32 << 20);
    struct sha256 digest;
    char pin[65];
    assert_int_equal(file_read(MODULE, &bytes).code, FAULT_NONE);
    assert_int_equal(sha256_of(buf_span(&bytes), &digest).code, FAULT_NONE);
    hex_text(SPAN_ARRAY(digest.at), pin, sizeof(pin));
    assert_int_equal(fips_module_check(MODULE, pin, &module, &detail).code, FAULT_NONE);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(tolower(module.mac[i]), tolower(expected[i]));
    }
    buf_free(&bytes);
    buf_free(&detail);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}
static int remove_folder(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/fips.so", folder);
    (void)unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_altered_by_one_byte_is_refused_for_ever),
        cmocka_unit_test(a_missing_module_is_refused_and_named),
        cmocka_unit_test(a_relative_path_is_refused),
        cmocka_unit_test(a_module_that_is_not_the_pinned_one_is_refused),
        cmocka_unit_test(the_modules_own_integrity_test_runs_at_every_load),
        cmocka_unit_test(without_the_module_the_posture_says_so),
        cmocka_unit_test(where_it_is_optional_an_active_module_is_preferred),
        cmocka_unit_test(the_real_module_starts_and_only_it_serves),
        cmocka_unit_test(the_module_mac_is_that_of_fipsinstall),
    };
    return cmocka_run_group_tests_name("fips", tests, make_folder, remove_folder);
}
