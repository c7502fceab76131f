/*
 * A real svc-signer on a SoftHSM token of the test's own, in a folder of its own under /tmp. The program is the one
 * beside the test's binary. Everything is removed at the end; only processes that were started here are signalled.
 * SVC_TEST_SIGNER=tls runs the same over TLS.
 */
#ifndef TESTS_INTEGRATION_SIGNER_H
#define TESTS_INTEGRATION_SIGNER_H

#include "integration/signer_tls.h"
#include "signer-pkcs11/client/client.h"
#include "testlib.h"
#include "tests/unit/token/nss.h"

#include "appliance/base/file.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WIRE_OUT  ((size_t)63 * 1024)
#define RIG_PIN   "1234-right"
#define RIG_LIMIT (60 * NS_PER_S) /* bounds a hang; nothing here asserts speed */

extern char **environ;

struct rig {
    char folder[64], config_path[128], log_path[128], program[512];
    pid_t pid;
    unsigned port;    /* 0: over the socket; otherwise over TLS (signer_tls.h) */
    struct issued ca; /* with TLS */
    struct config *config;
    struct signer_client *client;
};

static inline const char *rig_path(const struct rig *rig, const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", rig->folder, name);
    return path;
}

static inline void rig_write(const struct rig *rig, const char *name, const char *text, mode_t mode)
{
    assert_fault(file_write(rig_path(rig, name), span_text(text), mode), NONE);
}

/* Runs a program to its end with its output in `log_path`: its exit code, 128 + signal when it was killed. */
static inline int rig_run(const struct rig *rig, char *const argv[], pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    pid_t pid = 0;
    int status = 0;
    assert_int_equal(posix_spawn_file_actions_init(&files), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&files, 1, rig->log_path, O_WRONLY | O_CREAT | O_APPEND, 0600),
                     0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&files, 1, 2), 0);
    assert_int_equal(posix_spawnp(&pid, argv[0], &files, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&files);
    if (ret_pid != NULL) {
        *ret_pid = pid;
        return 0;
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* SVC_TEST_TOKEN=nss: the same with the second software token. What it wants is told by the environment, because the
 * configuration's lines are the tests'. */
static inline void rig_nss(struct rig *rig)
{
    char folder[128], args[512];
    (void)snprintf(folder, sizeof(folder), "%s/data/nss", rig->folder);
    assert_fault(file_make_dirs(folder, 0700), NONE);
    assert_fault(file_make_dirs(rig_path(rig, "data/signer"), 0700), NONE);
    nss_init_token(folder, "svc", RIG_PIN);
    nss_init_args(folder, "svc", args, sizeof(args));
    assert_int_equal(setenv("SVC_TOKEN_INIT_ARGS", args, 1), 0);
    assert_int_equal(setenv("P11FAULT_MODULE", NSS_MODULE, 1), 0);
    rig_write(rig, "data/signer/pin", RIG_PIN "\n", 0600);
}

/* Where the test's lines name a module, that one is meant. */
static inline void rig_nss_environment(const struct rig *rig, const char *more)
{
    if (strstr(more, "token:") != NULL) {
        assert_int_equal(unsetenv("SVC_TOKEN_MODULE") | unsetenv("SVC_TOKEN_PIN_FILE"), 0);
        return;
    }
    assert_int_equal(setenv("SVC_TOKEN_MODULE", NSS_MODULE, 1), 0);
    assert_int_equal(setenv("SVC_TOKEN_PIN_FILE", rig_path(rig, "data/signer/pin"), 1), 0);
}

static inline void rig_softhsm(struct rig *rig)
{
    char text[512];
    assert_fault(file_make_dirs(rig_path(rig, "data/softhsm/tokens"), 0700), NONE);
    assert_fault(file_make_dirs(rig_path(rig, "data/signer"), 0700), NONE);
    (void)snprintf(text, sizeof(text), "directories.tokendir = %s/data/softhsm/tokens\nlog.level = ERROR\n",
                   rig->folder);
    rig_write(rig, "data/softhsm/softhsm2.conf", text, 0600);
    assert_int_equal(setenv("SOFTHSM2_CONF", rig_path(rig, "data/softhsm/softhsm2.conf"), 1), 0);
    char *argv[] = {
        (char *)"softhsm2-util", (char *)"--init-token", (char *)"--free",   (char *)"--label",     (char *)"svc",
        (char *)"--pin",         (char *)RIG_PIN,        (char *)"--so-pin", (char *)"so-pin-1234", NULL
    };
    assert_int_equal(rig_run(rig, argv, NULL), 0);
    rig_write(rig, "data/signer/pin", RIG_PIN "\n", 0600);
}

/* `more`: further lines of the configuration. */
static inline void rig_configure(struct rig *rig, const char *more)
{
    char text[2048];
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    (void)snprintf(text, sizeof(text), "data_dir: \"%s/data\"\nrun_dir: \"%s/run\"\n%s", rig->folder, rig->folder,
                   more);
    rig_write(rig, "svc.yaml", text, 0644);
    signer_client_free(TAKE(rig->client));
    config_free(TAKE(rig->config));
    if (test_token_is_nss()) {
        rig_nss_environment(rig, more);
    }
    if (rig->port != 0) {
        rig_tls_environment(rig->folder, rig->port, RIG_CLIENT);
    }
    if (FAULTED(config_load(rig->config_path, &why, &rig->config))) {
        fail_msg("%.*s", (int)why.len, (const char *)why.at);
    }
    if (rig->port != 0) {
        rig_tls_environment(rig->folder, rig->port, RIG_SIGNER); /* for what is started from here on */
    }
    assert_fault(signer_client_new(rig->config, &rig->client), NONE);
}

static inline void rig_new(struct rig *rig, const char *more)
{
    *rig = (struct rig){ .folder = "/tmp/svc-broker-XXXXXX" };
    assert_non_null(mkdtemp(rig->folder));
    assert_int_equal(chmod(rig->folder, 0755), 0);
    (void)snprintf(rig->config_path, sizeof(rig->config_path), "%s/svc.yaml", rig->folder);
    (void)snprintf(rig->log_path, sizeof(rig->log_path), "%s/log", rig->folder);
    ssize_t len = readlink("/proc/self/exe", rig->program, sizeof(rig->program) - 16);
    assert_true(len > 0);
    rig->program[len] = 0;
    (void)snprintf(strrchr(rig->program, '/'), 16, "/svc-signer");
    if (rig_over_tls()) {
        rig->ca = rig_tls_certificates(rig->folder);
        rig->port = rig_free_port();
    }
    if (test_token_is_nss()) {
        rig_nss(rig);
    } else {
        rig_softhsm(rig);
    }
    rig_configure(rig, more);
}

static inline struct op *op_within(int ms)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ "acme" }, ms, &op), NONE);
    return op;
}

static inline void rig_print_log(const struct rig *rig)
{
    CLEANUP(buf_free) struct buf log = BUF_INIT(1 << 20);
    if (!FAULTED(file_read(rig->log_path, &log))) {
        size_t skip = log.len > 3500 ? log.len - 3500 : 0; /* cmocka prints no more at once */
        print_message("%.*s\n", (int)(log.len - skip), (const char *)log.at + skip);
    }
}

static inline bool rig_log_has(const struct rig *rig, const char *text)
{
    CLEANUP(buf_free) struct buf log = BUF_INIT(1 << 20);
    assert_fault(file_read(rig->log_path, &log), NONE);
    return memmem(log.at, log.len, text, strlen(text)) != NULL;
}

/* Runs the signer to its end, as when it refuses to start: its exit code. */
static inline int rig_signer_ends(struct rig *rig)
{
    char *argv[] = { rig->program, (char *)"--config", rig->config_path, NULL };
    (void)unlink(rig->log_path);
    return rig_run(rig, argv, NULL);
}

/* Returns when it answers. */
static inline void rig_start(struct rig *rig)
{
    char *argv[] = { rig->program, (char *)"--config", rig->config_path, NULL };
    mono_ns limit = clock_mono() + RIG_LIMIT;
    struct signer_health health;
    (void)rig_run(rig, argv, &rig->pid);
    for (;;) {
        CLEANUP(op_freep) struct op *op = op_within(5000);
        if (!FAULTED(signer_health(op, rig->client, &health))) {
            return;
        }
        int status = 0;
        if (clock_mono() > limit || waitpid(rig->pid, &status, WNOHANG) != 0) {
            rig_print_log(rig);
            fail_msg("svc-signer did not start");
        }
        (void)poll(NULL, 0, 5); /* there is nothing to wait on before its socket exists */
    }
}

static inline int rig_end(struct rig *rig, int sig)
{
    int status = 0;
    if (rig->pid <= 0) {
        return 0;
    }
    assert_int_equal(kill(rig->pid, sig), 0);
    assert_int_equal(waitpid(rig->pid, &status, 0), rig->pid);
    rig->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Returns when it has stopped. rig_continue lets it go on. */
static inline void rig_halt(struct rig *rig)
{
    int status = 0;
    assert_int_equal(kill(rig->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(rig->pid, &status, WUNTRACED), rig->pid);
    assert_true(WIFSTOPPED(status));
}

static inline void rig_continue(struct rig *rig)
{
    assert_int_equal(kill(rig->pid, SIGCONT), 0);
}

static inline int rig_remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline void rig_free(struct rig *rig)
{
    (void)rig_end(rig, SIGKILL);
    signer_client_free(TAKE(rig->client));
    config_free(TAKE(rig->config));
    issued_clear(&rig->ca);
    (void)nftw(rig->folder, rig_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline struct key_ref key_new(enum key_purpose purpose)
{
    struct key_ref key = { .tenant = { "acme" }, .purpose = purpose };
    assert_fault(uuid_new(&key.id), NONE);
    return key;
}

static const uint8_t rig_digest[64] = { 1, 2, 3 };
static inline struct sign_request request_for(struct key_ref key, enum key_algorithm algorithm)
{
    return (struct sign_request){
        .key = key, .scheme = key_default_scheme(algorithm), .hash = HASH_SHA256, .digest = span_of(rig_digest, 32)
    };
}

#endif
