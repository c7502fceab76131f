/*
 * A token of the test's own, in a folder of its own, removed at the end: of SoftHSM, made by softhsm2-util; or with
 * SVC_TEST_TOKEN=nss of NSS softokn. The whole suite runs on both; a test that is about one of them says so with
 * NEEDS_SOFTHSM.
 */
#ifndef TESTS_UNIT_TOKEN_SOFTHSM_H
#define TESTS_UNIT_TOKEN_SOFTHSM_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"
#include "appliance/base/secret.h"
#include "signer-pkcs11/token/token.h"
#include "tests/unit/token/nss.h"

#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SOFTHSM_MODULE "/usr/lib/softhsm/libsofthsm2.so"
#define SOFTHSM_LABEL  "svc-test"
#define SOFTHSM_PIN    "1234-right"

#define assert_ok(expr)         assert_int_equal((expr).code, FAULT_NONE)
#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

/* The module of the token that is tested. */
#define TEST_MODULE (test_token_is_nss() ? NSS_MODULE : SOFTHSM_MODULE)
#define NEEDS_SOFTHSM          \
    if (test_token_is_nss()) { \
        skip();                \
    }

struct softhsm {
    char folder[64];
    char init_args[512]; /* "" = none */
};
static struct softhsm *softhsm_present; /* what softhsm_settings is about */

extern char **environ;

static inline void softhsm_init_token(const char *label)
{
    char *argv[] = { (char *)"softhsm2-util",  (char *)"--init-token",
                     (char *)"--free",         (char *)"--label",
                     (char *)(uintptr_t)label, (char *)"--pin",
                     (char *)SOFTHSM_PIN,      (char *)"--so-pin",
                     (char *)"so-pin-1234",    NULL };
    posix_spawn_file_actions_t quiet;
    pid_t pid = 0;
    int status = -1;
    assert_int_equal(posix_spawn_file_actions_init(&quiet), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0), 0);
    assert_int_equal(posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    (void)posix_spawn_file_actions_destroy(&quiet);
}

static inline void softhsm_new(struct softhsm *hsm)
{
    char path[128];
    (void)snprintf(hsm->folder, sizeof(hsm->folder), "/tmp/svc-token-XXXXXX");
    assert_non_null(mkdtemp(hsm->folder));
    (void)snprintf(path, sizeof(path), "%s/tokens", hsm->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    softhsm_present = hsm;
    assert_int_equal(setenv("P11FAULT_MODULE", TEST_MODULE, 1), 0);
    if (test_token_is_nss()) {
        nss_init_args(path, SOFTHSM_LABEL, hsm->init_args, sizeof(hsm->init_args));
        nss_init_token(path, SOFTHSM_LABEL, SOFTHSM_PIN);
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/softhsm2.conf", hsm->folder);
    FILE *conf = fopen(path, "we");
    assert_non_null(conf);
    (void)fprintf(conf, "directories.tokendir = %s/tokens\nobjectstore.backend = file\nlog.level = ERROR\n",
                  hsm->folder);
    assert_int_equal(fclose(conf), 0);
    assert_int_equal(setenv("SOFTHSM2_CONF", path, 1), 0);
    softhsm_init_token(SOFTHSM_LABEL);
}

static inline int softhsm_remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline void softhsm_free(struct softhsm *hsm)
{
    (void)nftw(hsm->folder, softhsm_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline struct token_settings softhsm_settings(const char *module, struct secret *pin)
{
    return (struct token_settings){ .module = module,
                                    .label = SOFTHSM_LABEL,
                                    .serial = "",
                                    .pin = pin,
                                    .sessions = 4,
                                    .queue = 16,
                                    .init_args = softhsm_present->init_args };
}

static inline struct secret *pin_of(const char *text)
{
    struct secret *pin = NULL;
    assert_ok(secret_new(span_text(text), &pin));
    return pin;
}

static inline struct op *op_within(int ms)
{
    struct op *op = NULL;
    assert_ok(op_new("test", (struct tenant_id){ "acme" }, ms, &op));
    return op;
}

static inline struct key_ref key_new(enum key_purpose purpose)
{
    struct key_ref ref = { .tenant = { "acme" }, .purpose = purpose };
    assert_ok(uuid_new(&ref.id));
    return ref;
}

#endif
