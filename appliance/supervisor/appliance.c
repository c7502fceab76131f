#include "appliance/supervisor/appliance.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/base/log.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/nats.h"
#include "appliance/stores/postgres.h"
#include "appliance/stores/process.h"
#include "appliance/stores/softhsm.h"
#include "appliance/supervisor/bootstrap.h"
#include "appliance/supervisor/children.h"
#include "appliance/supervisor/gate.h"
#include "appliance/supervisor/hardening.h"
#include "appliance/supervisor/listener_cert.h"
#include "appliance/supervisor/prepare.h"
#include "appliance/supervisor/signer_door.h"
#include "appliance/supervisor/units.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREPARE_LIMIT_MS   180000 /* initdb on a slow disk */
#define MIGRATE_LIMIT_MS   600000
#define MIGRATE_TRIES      5
#define REBUILD_LIMIT_MS   (24 * 3600 * 1000)
#define BOOTSTRAP_LIMIT_MS 60000
#define BOOTSTRAP_TRIES    10
#define PAUSE_MS           500
#define WATCH_MS           60000
#define REPAIR_WORDS_MAX   8
#define ANSWER_MAX         ((size_t)64 << 10)

/* What a start holds, in the order of taking. */
struct session {
    struct appliance *appliance;
    struct children *children;
    int lock;
    enum exit_code refused;   /* what a program that ran to its end refused with */
    const char *const *words; /* of a command of svc-api's */
    const char *snapshot;     /* that a rebuild begins with; NULL = none */
    bool json;
};

void appliance_complain(const char *what, const struct op *op, struct fault fault)
{
    const char *detail = op != NULL && op->note.set ? op->note.detail : fault_row(fault.code)->title;
    (void)fprintf(stderr, "svc-appliance: %s: %s\n", what, detail);
}

static enum exit_code code_of(struct fault fault)
{
    return fault.code == FAULT_CONFIG ? EXIT_REFUSED : EXIT_FAILED;
}

/* Runs one step with an operation of its own; says why it failed. */
typedef struct fault (*step_fn)(struct op *op, struct session *session);
static struct fault step(struct session *session, const char *what, int limit_ms, step_fn run)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault done = op_new("svc-appliance", (struct tenant_id){ 0 }, limit_ms, &op);
    if (!FAULTED(done)) {
        done = run(op, session);
    }
    if (FAULTED(done) && done.code != FAULT_CANCELLED) {
        appliance_complain(what, op, done);
    }
    return done;
}

/* ---- the steps ---- */

static struct fault take_lock(struct op *op, struct session *session)
{
    return prepare_lock(op, session->appliance->config, &session->lock);
}

static struct fault prepare_stores(struct op *op, struct session *session)
{
    const struct config *config = session->appliance->config;
    TRY(prepare_run_dir(op, config));
    TRY(hardening_record(op, config));
    if (postgres_embedded(config)) {
        TRY(postgres_init(op, config));
    }
    return nats_embedded(config) ? nats_init(op, config) : OK;
}

static bool signer_is_here(const struct config *config)
{
    return config->signer_address[0] == 0;
}

static struct fault prepare_rest(struct op *op, struct session *session)
{
    const struct config *config = session->appliance->config;
    TRY(prepare_ports(op, config));
    TRY(prepare_stores(op, session));
    if (signer_is_here(config)) {
        TRY(softhsm_embedded(config) ? softhsm_init(op, config) : softhsm_check_external(op, config));
        TRY(signer_door_new(op, config, &session->appliance->door));
    }
    TRY(prepare_api_dir(op, config));
    return listener_cert_ensure(op, config);
}

static struct fault provision(struct op *op, struct session *session)
{
    return postgres_provision(op, session->appliance->config);
}

/* `svc-api <word>` as `user`. *ret_code is its exit code; what it had to say is on our stderr. */
static struct fault run_words(struct op *op, struct session *session, const char *const *words, const char *user,
                              int *ret_code)
{
    const char *const *argv = NULL;
    TRY(unit_argv(op, session->appliance, "svc-api", words, &argv));
    return process_run(op, &(struct process_spec){ .argv = argv, .user = user }, (struct span){ 0 }, NULL, ret_code);
}

static struct fault run_api(struct op *op, struct session *session, const char *word, const char *user, int *ret_code)
{
    const char *const words[] = { word, NULL };
    return run_words(op, session, words, user, ret_code);
}

static struct fault migrate(struct op *op, struct session *session)
{
    int code = 0;
    for (int tries = 1; tries <= MIGRATE_TRIES; tries++) {
        TRY(run_api(op, session, "migrate", POSTGRES_USER, &code));
        if (code == EXIT_FINE) {
            return OK;
        }
        if (code == EXIT_REFUSED || code == EXIT_GATE) {
            session->refused = code == EXIT_GATE ? EXIT_GATE : EXIT_REFUSED;
            return op_fail(op, FAULT(CONFIG), "svc-api migrate refused, code %d", code);
        }
        TRY(children_pause(session->children, PAUSE_MS * tries));
    }
    return op_fail(op, FAULT(STORE_SCHEMA), "svc-api migrate failed %d times, last with code %d", MIGRATE_TRIES, code);
}

/* A command of svc-api whose answer is its stdout: with --json it is ours, too. */
static struct fault run_answered(struct op *op, struct session *session, const struct process_spec *how,
                                 const char *const *words, struct buf *answer, int *ret_code)
{
    struct process_spec spec = *how;
    spec.answer_only = true;
    TRY(unit_argv(op, session->appliance, "svc-api", words, &spec.argv));
    return process_run(op, &spec, (struct span){ 0 }, answer, ret_code);
}

static struct fault ended(struct op *op, struct session *session, const char *what, int code)
{
    if (code == EXIT_REFUSED) {
        session->refused = EXIT_REFUSED;
        return FAULT(CANCELLED); /* its own line says why */
    }
    return code == EXIT_FINE ? OK : op_fail(op, FAULT(PROJECTION_FAILED), "svc-api %s ended with code %d", what, code);
}

struct checked_snapshot {
    const char *digest, *path;
    int64_t bytes, checkpoint, rows, tables;
};
static const struct jin_field checked_fields[] = {
    JIN_INT(struct checked_snapshot, bytes, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct checked_snapshot, checkpoint, JIN_REQUIRED, 0, INT64_MAX),
    JIN_TEXT(struct checked_snapshot, digest, JIN_REQUIRED, 64, 64),
    JIN_TEXT(struct checked_snapshot, path, JIN_REQUIRED, 1, 4096),
    JIN_INT(struct checked_snapshot, rows, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct checked_snapshot, tables, JIN_REQUIRED, 0, INT64_MAX),
};

/* Checked by the user of svc-api, who may read it; loaded by the owner of the schema, who may not: the file comes to it
 * as its stdin, and the digest tells that it is the one that was checked. */
static struct fault from_snapshot(struct op *op, struct session *session)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    CLEANUP(fd_closep) int file = -1;
    struct checked_snapshot checked = { 0 };
    int code = 0;
    const char *const check[] = { "check-snapshot", session->snapshot, "--json", NULL };
    TRY(run_answered(op, session, &(struct process_spec){ .user = USER_API }, check, &answer, &code));
    TRY(ended(op, session, "check-snapshot", code));
    TRY(jin_decode(op, buf_span(&answer), checked_fields, COUNT_OF(checked_fields), &checked));
    TRY(process_open_as(op, USER_API, checked.path, &file));
    const char *const load[] = { "load-snapshot", "--digest", checked.digest, NULL };
    const struct process_spec how = { .user = POSTGRES_USER, .input = file };
    buf_clear(&answer);
    TRY(run_answered(op, session, &how, load, &answer, &code));
    return ended(op, session, "load-snapshot", code);
}

static struct fault replay(struct op *op, struct session *session)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    int code = 0;
    const char *const words[] = { "rebuild", session->json ? "--json" : NULL, NULL };
    TRY(run_answered(op, session, &(struct process_spec){ .user = USER_API }, words, &answer, &code));
    TRY(ended(op, session, "rebuild", code));
    return fwrite(answer.at, 1, answer.len, stdout) == answer.len && fflush(stdout) == 0 ? OK : FAULT(IO);
}

/* Emptying needs the owner of the schema, replaying the credentials of the event log: two users, two runs. Interrupted
 * between the two, the next start replays what is missing by itself. */
static struct fault rebuild(struct op *op, struct session *session)
{
    int code = 0;
    TRY(run_api(op, session, "check-log", USER_API, &code));
    if (code != EXIT_FINE) {
        return op_fail(op, FAULT(AUDIT_SOURCE_GAP), "nothing was emptied: svc-api check-log ended with code %d", code);
    }
    if (session->snapshot != NULL) {
        TRY(from_snapshot(op, session));
    } else {
        TRY(run_api(op, session, "empty", POSTGRES_USER, &code));
        TRY(ended(op, session, "empty", code));
    }
    return replay(op, session);
}

static struct fault repair_log(struct op *op, struct session *session)
{
    int code = 0;
    TRY(run_words(op, session, session->words, USER_API, &code));
    if (code == EXIT_REFUSED) {
        session->refused = EXIT_REFUSED;
        return FAULT(CANCELLED); /* its own line says why */
    }
    return code == EXIT_FINE ? OK : op_fail(op, FAULT(LOG_REPAIR), "svc-api ended with code %d", code);
}

static struct fault restore(struct op *op, struct session *session)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    int code = 0;
    TRY(prepare_api_dir(op, session->appliance->config)); /* an unfinished one is marked there */
    TRY(run_answered(op, session, &(struct process_spec){ .user = USER_API }, session->words, &answer, &code));
    if (code == EXIT_REFUSED) {
        session->refused = EXIT_REFUSED;
        return FAULT(CANCELLED); /* its own line says why */
    }
    if (code != EXIT_FINE) {
        return op_fail(op, FAULT(LOG_BACKUP), "svc-api ended with code %d", code);
    }
    return fwrite(answer.at, 1, answer.len, stdout) == answer.len && fflush(stdout) == 0 ? OK : FAULT(IO);
}

static struct fault bootstrap(struct op *op, struct session *session)
{
    return bootstrap_run(op, session->appliance);
}

/* ---- the order ---- */

static struct fault bring_up(struct session *session, const struct unit_row *row)
{
    size_t unit = 0;
    TRY(children_add(session->children, row, &unit));
    struct fault waited = children_wait_ready(session->children, unit);
    if (waited.code == FAULT_CONFIG) {
        (void)fprintf(stderr, "svc-appliance: svc-%s refused to start; its own line above says why\n", row->name);
    }
    return waited;
}

static struct fault start_stores(struct session *session)
{
    const struct config *config = session->appliance->config;
    TRY(bring_up(session, unit_postgres(config)));
    TRY(bring_up(session, unit_nats(config)));
    return postgres_embedded(config) ? step(session, "preparing the database", MIGRATE_LIMIT_MS, provision) : OK;
}

/* Without first tokens the appliance still serves those who have some: so a failure is loud, but not the end. */
static struct fault first_tokens(struct session *session)
{
    for (int tries = 0; tries < BOOTSTRAP_TRIES; tries++) {
        struct fault made = step(session, "first tokens", BOOTSTRAP_LIMIT_MS, bootstrap);
        if (!FAULTED(made) || made.code == FAULT_CANCELLED) {
            return made;
        }
        TRY(children_pause(session->children, PAUSE_MS));
    }
    log_write(ERROR, "client_env_incomplete");
    return OK;
}

static struct fault start_all(struct session *session)
{
    TRY(step(session, "preparing", PREPARE_LIMIT_MS, prepare_rest));
    TRY(start_stores(session));
    TRY(step(session, "migrating the database", MIGRATE_LIMIT_MS, migrate));
    if (session->appliance->door != NULL) {
        TRY(bring_up(session, unit_signer()));
    } else {
        log_write(INFO, "signer_elsewhere", LOG_TEXT("address", session->appliance->config->signer_address));
    }
    TRY(bring_up(session, unit_api(session->appliance->config)));
    if (bootstrap_applies(session->appliance->config)) {
        TRY(first_tokens(session));
    }
    children_all_ready(session->children);
    log_write(INFO, "appliance_ready", LOG_TEXT("address", session->appliance->config->http_listen));
    return OK;
}

static struct fault watch(struct session *session)
{
    while (children_stop_signals(session->children) == 0) {
        TRY(children_step(session->children, WATCH_MS));
    }
    return FAULT(CANCELLED);
}

static struct fault harden(struct op *op, struct session *session)
{
    return hardening_establish(op, session->appliance->config);
}

/* The gate, the lock and what we give up ourselves come before anything is written, started or listened on. */
static enum exit_code session_open(struct session *session)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    session->lock = -1;
    if (FAULTED(gate_pass(session->appliance->config, &why))) {
        (void)fprintf(stderr, "svc-appliance: self-test gate: %.*s\n", (int)why.len, (const char *)why.at);
        return EXIT_GATE;
    }
    struct fault opened = step(session, "starting", PREPARE_LIMIT_MS, take_lock);
    if (!FAULTED(opened)) {
        opened = children_new(session->appliance, &session->children);
    }
    if (!FAULTED(opened)) {
        opened = step(session, "confining", PREPARE_LIMIT_MS, harden);
    }
    if (FAULTED(opened)) {
        children_free(TAKE(session->children));
        return code_of(opened);
    }
    process_set_interrupt(children_stop_fd(session->children));
    return EXIT_FINE;
}

static enum exit_code session_close(struct session *session, struct fault ended)
{
    const char *name = NULL;
    int refused = children_refused(session->children, &name);
    process_set_interrupt(-1);
    children_drain(session->children);
    children_free(TAKE(session->children));
    signer_door_free(TAKE(session->appliance->door));
    fd_closep(&session->lock);
    log_write(INFO, "appliance_stopped");
    if (refused != 0) {
        return refused == EXIT_GATE ? EXIT_GATE : EXIT_REFUSED;
    }
    if (session->refused != EXIT_FINE) {
        return session->refused;
    }
    return !FAULTED(ended) || ended.code == FAULT_CANCELLED ? EXIT_FINE : code_of(ended);
}

enum exit_code appliance_run(const struct appliance *appliance)
{
    struct appliance running = *appliance;
    struct session session = { .appliance = &running };
    enum exit_code opened = session_open(&session);
    if (opened != EXIT_FINE) {
        return opened;
    }
    struct fault ended = start_all(&session);
    if (!FAULTED(ended)) {
        ended = watch(&session);
    }
    return session_close(&session, ended);
}

static struct fault rebuild_all(struct session *session)
{
    TRY(step(session, "preparing", PREPARE_LIMIT_MS, prepare_stores));
    TRY(start_stores(session));
    TRY(step(session, "migrating the database", MIGRATE_LIMIT_MS, migrate));
    return step(session, "rebuilding", REBUILD_LIMIT_MS, rebuild);
}

static struct fault repair_log_all(struct session *session)
{
    TRY(step(session, "preparing", PREPARE_LIMIT_MS, prepare_stores));
    TRY(start_stores(session));
    return step(session, "repairing the event log", REBUILD_LIMIT_MS, repair_log);
}

static struct fault restore_all(struct session *session)
{
    TRY(step(session, "preparing", PREPARE_LIMIT_MS, prepare_stores));
    TRY(start_stores(session));
    TRY(step(session, "migrating the database", MIGRATE_LIMIT_MS, migrate));
    return step(session, "restoring", REBUILD_LIMIT_MS, restore);
}

static struct fault scrub(struct op *op, struct session *session)
{
    return postgres_scrub(op, session->appliance->config);
}

static struct fault scrub_all(struct session *session)
{
    const struct config *config = session->appliance->config;
    TRY(step(session, "preparing", PREPARE_LIMIT_MS, prepare_stores));
    TRY(bring_up(session, unit_postgres(config)));
    return step(session, "scrubbing", REBUILD_LIMIT_MS, scrub);
}

/* Between the stores' start and their stop. */
static enum exit_code run_between(struct session *session, struct fault (*run)(struct session *session))
{
    enum exit_code opened = session_open(session);
    if (opened != EXIT_FINE) {
        return opened;
    }
    struct fault ended = run(session);
    enum exit_code code = session_close(session, ended);
    return code == EXIT_FINE && FAULTED(ended) ? EXIT_FAILED : code; /* interrupted is not done */
}

enum exit_code appliance_rebuild(const struct appliance *appliance, int count, char *const *args)
{
    struct appliance running = *appliance;
    struct session session = { .appliance = &running };
    for (int i = 1; i < count; i++) {
        if (strcmp(args[i], "--json") == 0) {
            session.json = true;
        } else if (strcmp(args[i], "--from-snapshot") == 0 && i + 1 < count && session.snapshot == NULL) {
            session.snapshot = args[++i];
        } else {
            (void)fprintf(stderr, "svc-appliance: rebuild [--from-snapshot FILE|latest] [--json]\n");
            return EXIT_REFUSED;
        }
    }
    return run_between(&session, rebuild_all);
}

enum exit_code appliance_repair_log(const struct appliance *appliance, int count, char *const *args)
{
    const char *words[REPAIR_WORDS_MAX + 1] = { 0 };
    struct appliance running = *appliance;
    if (count > REPAIR_WORDS_MAX) {
        (void)fprintf(stderr, "svc-appliance: too many arguments\n");
        return EXIT_REFUSED;
    }
    for (int i = 0; i < count; i++) {
        words[i] = args[i];
    }
    return run_between(&(struct session){ .appliance = &running, .words = words }, repair_log_all);
}

enum exit_code appliance_restore(const struct appliance *appliance, int count, char *const *args)
{
    const char *words[REPAIR_WORDS_MAX + 1] = { 0 };
    struct appliance running = *appliance;
    int files = 0;
    for (int i = 1; i < count && i < REPAIR_WORDS_MAX; i++) {
        files += args[i][0] == '/';
        words[i] = args[i];
    }
    words[0] = "restore";
    if (count > REPAIR_WORDS_MAX || files != 1) {
        (void)fprintf(stderr,
                      "svc-appliance: restore [--continue] FILE [--json]: one absolute path, readable by the user "
                      "svc-api\n");
        return EXIT_REFUSED;
    }
    return run_between(&(struct session){ .appliance = &running, .words = words }, restore_all);
}

enum exit_code appliance_scrub(const struct appliance *appliance)
{
    struct appliance running = *appliance;
    if (!postgres_embedded(appliance->config)) {
        (void)fprintf(stderr, "svc-appliance: postgres.url names a database of its own keepers: see "
                              "docs/privacy-erasure.md for what they have to do\n");
        return EXIT_REFUSED;
    }
    return run_between(&(struct session){ .appliance = &running }, scrub_all);
}
