/* A SoftHSM token of the test's own, in a folder of its own: made by softhsm2-util, removed at the end. */
#ifndef TESTS_UNIT_TOKEN_SOFTHSM_H
#define TESTS_UNIT_TOKEN_SOFTHSM_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"
#include "appliance/base/secret.h"
#include "signer-pkcs11/token/token.h"

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

struct softhsm {
    char folder[64];
};

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

static inline struct config softhsm_config(void)
{
    return (struct config){ .token_label = SOFTHSM_LABEL, .token_serial = "", .signer_sessions = 4 };
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
