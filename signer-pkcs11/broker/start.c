#include "signer-pkcs11/broker/start.h"

#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "fips/fence.h"
#include "fips/fips.h"
#include "signer-pkcs11/broker/broker.h"
#include "signer-pkcs11/broker/post.h"
#include "signer-pkcs11/broker/sandbox.h"
#include "signer-pkcs11/token/places.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SOFTHSM_MODULE "/usr/lib/softhsm/libsofthsm2.so"
#define PATH_SIZE      4096
#define DRAIN_NS       (5 * NS_PER_S)
#define AWAIT_NS       (75 * NS_PER_S) /* longer than what svc-appliance calls stable: its pauses start over then */
#define AWAIT_MS       1000

enum exit_code { EXIT_STOPPED = 0, EXIT_FAILED = 1, EXIT_REFUSED = 2, EXIT_SELF_TEST = 3 };

struct signer {
    struct config *config;
    struct tokens_settings *settings;
    struct journal *journal;
    struct sealed_keys *sealed;
    struct tokens *tokens;
    struct broker *broker;
    struct buf why;             /* one line about what failed */
    struct token_places places; /* of the modules */
    char socket_folder[PATH_SIZE], fips_folder[PATH_SIZE];
    char tls_folders[3][PATH_SIZE]; /* of certificate, key and authorities, which are read again when they change */
    enum sandbox_profile profile;
    bool memory_locked; /* all of it, not only the secrets' */
    struct listeners listeners;
    int signals;
};

/* The failure's record and the exit code that goes with it. */
static enum exit_code give_up(const struct signer *signer, const char *event, struct fault fault, enum exit_code code)
{
    char line[1024];
    (void)snprintf(line, sizeof(line), "%.*s", (int)signer->why.len,
                   signer->why.at != NULL ? (const char *)signer->why.at : "");
    log_write(ERROR, event, LOG_TEXT("code", fault_row(fault.code)->text),
              LOG_TEXT("detail", line[0] != 0 ? line : fault_row(fault.code)->title));
    return code;
}

/* ---- configuration ---- */

static bool join(char out[PATH_SIZE], const char *folder, const char *name)
{
    int len = snprintf(out, PATH_SIZE, "%s%s", folder, name);
    return len > 0 && len < PATH_SIZE;
}

static void folder_of(const char *path, char out[PATH_SIZE])
{
    (void)snprintf(out, PATH_SIZE, "%s", path);
    char *slash = strrchr(out, '/');
    if (slash == NULL) {
        (void)snprintf(out, PATH_SIZE, ".");
    } else {
        slash[slash == out ? 1 : 0] = 0;
    }
}

/* Which folders are ours to look at. */
static struct fault find_places(struct signer *signer)
{
    const struct config *config = signer->config;
    REQUIRE(join(signer->fips_folder, config->data_dir, "/fips"), TOO_LARGE);
    folder_of(config->signer_socket, signer->socket_folder);
    folder_of(config->signer_tls_certificate, signer->tls_folders[0]);
    folder_of(config->signer_tls_key, signer->tls_folders[1]);
    folder_of(config->signer_tls_ca, signer->tls_folders[2]);
    return OK;
}

static enum exit_code load_config(struct signer *signer, const char *path)
{
    enum log_level level = LOG_LEVEL_INFO;
    enum log_format format = LOG_FORMAT_JSON;
    struct fault fault = config_load(path, &signer->why, &signer->config);
    if (FAULTED(fault)) {
        return give_up(signer, "configuration_refused", fault, EXIT_REFUSED);
    }
    IGNORE(log_level_parse(signer->config->log_level, &level));
    IGNORE(log_format_parse(signer->config->log_format, &format));
    log_setup("svc-signer", level, format);
    fault = find_places(signer);
    if (FAULTED(fault)) {
        IGNORE(buf_text(&signer->why, "a path of the configuration is too long"));
        return give_up(signer, "configuration_refused", fault, EXIT_REFUSED);
    }
    fault = tokens_settings_load(signer->config, SOFTHSM_MODULE, &signer->why, &signer->settings);
    if (FAULTED(fault)) {
        return give_up(signer, "pin_refused", fault, EXIT_REFUSED);
    }
    fault = token_places_find(signer->settings, &signer->places);
    if (FAULTED(fault)) {
        IGNORE(buf_text(&signer->why, "the tokens have too many folders"));
        return give_up(signer, "configuration_refused", fault, EXIT_REFUSED);
    }
    signer->profile = signer->places.softhsm_only ? SANDBOX_SOFTHSM : SANDBOX_MODULE;
    return EXIT_STOPPED;
}

/* ---- start ---- */

/* Beyond the system's own: what the module needs, and where a renewed certificate will stand. */
static struct sandbox_files folders_needed(const struct signer *signer)
{
    struct sandbox_files files = {
        .profile = signer->profile,
        .journal = signer->config->signer_journal,
        .socket = listeners_handed(&signer->listeners) ? NULL : signer->socket_folder,
        .read = { signer->fips_folder },
        .more_read = signer->places.read,
        .more_write = signer->places.write,
    };
    size_t count = 1;
    for (size_t i = 0; signer->listeners.tls != NULL && i < COUNT_OF(signer->tls_folders); i++) {
        files.read[count++] = signer->tls_folders[i];
    }
    return files;
}

static struct fault restrict_files(struct signer *signer)
{
    int abi = 0;
    const struct sandbox_files files = folders_needed(signer);
    TRY(sandbox_files(&files, &signer->why, &abi));
    if (abi == 0) {
        log_write(WARN, "landlock_missing",
                  LOG_TEXT("detail", "this kernel has no Landlock: file rights alone decide "
                                     "what the signer may write"));
    } else {
        log_write(INFO, "landlock_active", LOG_INT("abi", abi),
                  LOG_TEXT("profile", signer->profile == SANDBOX_SOFTHSM ? "softhsm" : "module"));
    }
    return OK;
}

static struct fault open_journal(struct signer *signer)
{
    uint64_t cut = 0;
    TRY(journal_open(signer->config->signer_journal, signer->config->signer_journal_retention, &signer->why, &cut,
                     &signer->journal));
    if (cut > 0) {
        log_write(WARN, "journal_tail_cut", LOG_INT("bytes", cut));
    }
    log_write(INFO, "journal_open", LOG_INT("bytes", journal_bytes(signer->journal)));
    return OK;
}

/* Beside the journal, so under its lock. */
static struct fault open_sealed(struct signer *signer)
{
    char folder[PATH_SIZE];
    size_t count = 0;
    REQUIRE(join(folder, signer->config->signer_journal, "/sealed"), TOO_LARGE);
    TRY(sealed_keys_open(folder, &signer->why, &count, &signer->sealed));
    log_write(INFO, "sealed_keys_open", LOG_INT("keys", (int64_t)count),
              LOG_TEXT("post_quantum", !FAULTED(fence_check(NULL)) ? "allowed" : "refused"));
    return OK;
}

static enum exit_code test_token(struct signer *signer, struct token *token)
{
    CLEANUP(buf_free) struct buf tested = BUF_INIT(256);
    struct fault fault = post_run(token, &signer->why, &tested);
    if (fault.code == FAULT_TOKEN_UNAVAILABLE) { /* went away meanwhile: that says nothing about its cryptography */
        return give_up(signer, "token_refused", fault, EXIT_FAILED);
    }
    if (FAULTED(fault)) {
        return give_up(signer, "self_test_refused", fault, EXIT_SELF_TEST);
    }
    const char *names = "";
    IGNORE(buf_cstr(&tested, &names));
    struct token_status status = { 0 };
    token_status(token, &status);
    log_write(INFO, "token_open", LOG_TEXT("label", status.label), LOG_TEXT("model", status.model),
              LOG_TEXT("serial", status.serial), LOG_TEXT("self_tests", names));
    return EXIT_STOPPED;
}

static bool tokens_known(const struct tokens_settings *settings)
{
    bool known = true;
    for (size_t i = 0; i < settings->count; i++) {
        known = known && token_known(&settings->at[i]);
    }
    return known;
}

/* A token that was found before is away, not misconfigured: signing shall go on when it is back, not when a
 * supervisor's pauses, which grow, allow it. */
static struct fault await_tokens(struct signer *signer)
{
    struct pollfd stop = { .fd = signer->signals, .events = POLLIN };
    mono_ns until = clock_mono() + AWAIT_NS;
    struct fault fault = tokens_open(signer->settings, &signer->why, &signer->tokens);
    if (fault.code == FAULT_TOKEN_UNAVAILABLE && tokens_known(signer->settings)) {
        const char *detail = "";
        IGNORE(buf_cstr(&signer->why, &detail));
        log_write(WARN, "token_awaited", LOG_TEXT("detail", detail));
        while (fault.code == FAULT_TOKEN_UNAVAILABLE && clock_mono() < until && poll(&stop, 1, AWAIT_MS) == 0) {
            buf_clear(&signer->why);
            fault = tokens_open(signer->settings, &signer->why, &signer->tokens);
        }
    }
    return fault;
}

static enum exit_code open_tokens(struct signer *signer)
{
    struct fault fault = await_tokens(signer);
    if (FAULTED(fault)) {
        return give_up(signer, "token_refused", fault, EXIT_FAILED);
    }
    enum exit_code code = EXIT_STOPPED;
    for (size_t i = 0; i < tokens_count(signer->tokens) && code == EXIT_STOPPED; i++) {
        struct token_name name;
        code = test_token(signer, tokens_at(signer->tokens, i, &name));
    }
    return code;
}

static struct fault signals_open(int *ret_fd)
{
    sigset_t set;
    BUG_IF(sigemptyset(&set) != 0 || sigaddset(&set, SIGTERM) != 0 || sigaddset(&set, SIGINT) != 0);
    BUG_IF(pthread_sigmask(SIG_BLOCK, &set, NULL) != 0);
    BUG_IF(signal(SIGPIPE, SIG_IGN) == SIG_ERR);
    *ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    REQUIRE(*ret_fd >= 0, IO);
    return OK;
}

/* Opens everything but the door. */
static enum exit_code prepare(struct signer *signer)
{
    struct fault fault = signals_open(&signer->signals);
    if (FAULTED(fault)) {
        return give_up(signer, "signals_refused", fault, EXIT_FAILED);
    }
    fault = fips_start(signer->config, &signer->why);
    if (!FAULTED(fault)) {
        buf_clear(&signer->why);
        fault = fence_start(fence_of(signer->config), &signer->why);
    }
    if (FAULTED(fault)) {
        return give_up(signer, "fips_refused", fault, EXIT_SELF_TEST);
    }
    buf_clear(&signer->why);
    fault = file_make_dirs(signer->config->signer_journal, 0700); /* the sandbox knows folders only that are there */
    if (FAULTED(fault)) {
        IGNORE(buf_printf(&signer->why, "cannot make %s", signer->config->signer_journal));
        return give_up(signer, "folders_refused", fault, EXIT_FAILED);
    }
    fault = listeners_open(signer->config, &signer->why, &signer->listeners);
    if (FAULTED(fault)) {
        return give_up(signer, "socket_refused", fault, EXIT_FAILED);
    }
    fault = restrict_files(signer);
    if (FAULTED(fault)) {
        return give_up(signer, "sandbox_refused", fault, EXIT_FAILED);
    }
    fault = open_journal(signer);
    if (FAULTED(fault)) {
        return give_up(signer, "journal_refused", fault, EXIT_FAILED);
    }
    fault = open_sealed(signer);
    if (FAULTED(fault)) {
        return give_up(signer, "sealed_keys_refused", fault, EXIT_FAILED);
    }
    return open_tokens(signer);
}

/* The door, and the last lock before it opens. */
static enum exit_code open_door(struct signer *signer, const struct askers *askers)
{
    struct fips_posture posture;
    fips_posture(&posture);
    const struct broker_parts parts = { .config = signer->config,
                                        .tokens = signer->tokens,
                                        .journal = signer->journal,
                                        .sealed = signer->sealed,
                                        .listeners = &signer->listeners,
                                        .askers = *askers,
                                        .fips_active = posture.module_active,
                                        .self_test_passed = true };
    struct fault fault = broker_new(&parts, &signer->broker);
    if (!FAULTED(fault)) {
        fault = listeners_begin(&signer->listeners, &signer->why);
    }
    if (FAULTED(fault)) {
        return give_up(signer, "socket_refused", fault, EXIT_FAILED);
    }
    fault = sandbox_calls(signer->profile, &signer->why);
    if (FAULTED(fault)) {
        return give_up(signer, "sandbox_refused", fault, EXIT_FAILED);
    }
    log_write(INFO, "listening", LOG_TEXT("socket", signer->config->signer_socket),
              LOG_INT("sessions", signer->config->signer_sessions), LOG_INT("locked_memory", secret_arena_locked()),
              LOG_INT("all_memory_locked", signer->memory_locked), LOG_INT("fips_active", posture.module_active));
    return EXIT_STOPPED;
}

/* ---- end ---- */

/* In-flight requests first, then the journal; the token last, because a module may hang. */
static enum exit_code stop(struct signer *signer, struct fault served)
{
    listeners_close(&signer->listeners,
                    signer->config); /* nobody shall wait for an answer at a door that is left over */
    bool drained = broker_drain(signer->broker, clock_mono() + DRAIN_NS);
    log_write(INFO, "stopped", LOG_TEXT("drained", drained ? "yes" : "no"));
    if (drained && !FAULTED(served)) {
        broker_free(signer->broker);
        listeners_free(&signer->listeners);
        sealed_keys_close(signer->sealed);
        journal_close(signer->journal);
        tokens_close(signer->tokens);
    }
    return FAULTED(served) ? EXIT_FAILED : EXIT_STOPPED;
}

int signer_run(const char *config_path)
{
    static struct signer signer = { .why = BUF_INIT(1024), .listeners = LISTENERS_NONE, .signals = -1 };
    struct askers askers;
    log_setup("svc-signer", LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    signer.memory_locked = process_lock_memory();
    askers_look_up(&askers);
    enum exit_code code = load_config(&signer, config_path);
    if (code == EXIT_STOPPED) {
        code = prepare(&signer);
    }
    if (code == EXIT_STOPPED) {
        code = open_door(&signer, &askers);
    }
    if (code == EXIT_STOPPED) {
        code = stop(&signer, broker_serve(signer.broker, signer.signals));
    } else if (signer.config != NULL) {
        listeners_close(&signer.listeners, signer.config); /* nobody will ever answer at that door */
    }
    return (int)code; /* what is left open ends with the process, see main() */
}
