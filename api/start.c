#include "api/start.h"

#include "api/audit/source.h"
#include "api/feature.h"
#include "api/operations/operations.h"
#include "api/progress.h"
#include "api/server/server_feature.h"
#include "api/server/spine_metrics.h"
#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "fips/fips.h"
#include "signer-pkcs11/provider/provider.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FEATURES_MAX        32
#define FINGERPRINT_KEY_MIN 64
#define START_LIMIT_MS      120000
#define SWEEP_LIMIT_MS      2000
#define REBUILD_LIMIT_MS    (24 * 3600 * 1000)
#define MARK_PATH_MAX       4096

/* The features' tables, gathered once in the form that projector and outbox take. */
static const struct event_row *event_tables[FEATURES_MAX];
static size_t event_counts[FEATURES_MAX];
static const struct outbox_row *outbox_tables[FEATURES_MAX];
static size_t outbox_counts[FEATURES_MAX];

static size_t gather_tables(void)
{
    size_t count = 0;
    const struct feature *const *features = features_all(&count);
    BUG_IF(count > FEATURES_MAX);
    for (size_t i = 0; i < count; i++) {
        event_tables[i] = features[i]->events;
        event_counts[i] = features[i]->event_count;
        outbox_tables[i] = features[i]->outbox;
        outbox_counts[i] = features[i]->outbox_count;
    }
    return count;
}

/* The projector runs before the outboxes do and ends after them: what it wakes is handed over here. The process's own
 * two. */
static _Atomic(struct outbox *) outboxes_to_wake[2];

static void wake_outboxes(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < COUNT_OF(outboxes_to_wake); i++) {
        struct outbox *outbox = atomic_load(&outboxes_to_wake[i]);
        if (outbox != NULL) {
            outbox_wake(outbox);
        }
    }
}

/* The MAC key of previews and cursors: 32 random bytes as hex, made once by the supervisor, shared by replicas as a
 * file. */
struct fault services_fingerprint_key(const struct config *config, struct buf *why, struct secret **ret_key)
{
    char path[512];
    CLEANUP(secret_freep) struct secret *key = NULL;
    (void)snprintf(path, sizeof(path), "%s/api/fingerprint.key", config->data_dir);
    struct fault fault = secret_from_file(path, &key);
    if (FAULTED(fault) || secret_span(key).len < FINGERPRINT_KEY_MIN) {
        TRY(buf_printf(why, "%s: must be a 0600 file of at least %d characters, owned by this user", path,
                       FINGERPRINT_KEY_MIN));
        return FAULT(CONFIG);
    }
    *ret_key = TAKE(key);
    return OK;
}

static struct projector_config projector_config_of(struct services *services)
{
    return (struct projector_config){ .store = services->store,
                                      .log = services->log,
                                      .tables = event_tables,
                                      .counts = event_counts,
                                      .table_count = gather_tables(),
                                      .on_outbox = wake_outboxes,
                                      .on_applied = spine_applied,
                                      .arg = services };
}

static struct fault open_stores(struct op *op, struct services *services, enum start_scope scope, struct buf *why)
{
    TRY(store_open(services->config, why, &services->store));
    TRY(event_log_open(services->config, why, &services->log));
    event_log_on_append(services->log, spine_appended, services);
    TRY(identity_open(services->config, why, &services->identity));
    struct projector_config config = projector_config_of(services);
    TRY(projector_start(&config, &services->projector));
    struct fault fault = projector_catch_up(op, services->projector);
    if (scope == START_LOOKING) {
        return OK; /* what was found is told by the projector's state */
    }
    if (FAULTED(fault)) {
        struct projector_state state;
        projector_state(services->projector, &state);
        TRY(buf_printf(why, "the read model did not catch up with the event log: checkpoint %llu of %llu%s%s",
                       (unsigned long long)state.checkpoint, (unsigned long long)state.log_last,
                       state.cause[0] != 0 ? ", " : "", state.cause));
        if (state.first_bad_seq != 0) {
            TRY(buf_printf(why, ", first bad message %llu (docs/event-log-faults.md)",
                           (unsigned long long)state.first_bad_seq));
        }
    }
    return fault;
}

/* After the features: a handler finds what they loaded. What was queued before is looked for at once. */
static struct fault start_outboxes(struct services *services)
{
    size_t count = 0;
    (void)features_all(&count);
    struct outbox_config config = { .store = services->store,
                                    .services = services,
                                    .tables = outbox_tables,
                                    .counts = outbox_counts,
                                    .table_count = count,
                                    .threads = (unsigned)services->config->codesign_workers,
                                    .cap_tenant = (unsigned)services->config->outbox_cap_tenant,
                                    .cap_destination = (unsigned)services->config->outbox_cap_destination,
                                    .on_timeout = server_count_outbox_timeout,
                                    .on_attempt = operations_count_attempt,
                                    .arg = services };
    TRY(outbox_start(&config, &services->outbox));
    config.outbound = true;
    config.threads = (unsigned)services->config->tlog_in_flight;
    TRY(outbox_start(&config, &services->outbound));
    atomic_store(&outboxes_to_wake[0], services->outbox);
    atomic_store(&outboxes_to_wake[1], services->outbound);
    wake_outboxes(NULL);
    return OK;
}

/* Nobody waits for what goes to others' services: that begins to stop at once. */
void services_stop_dispatch(struct services *services)
{
    outbox_narrow(services->outbox);
    outbox_stop_begin(services->outbound);
}

/* Both at the same time; what stands in the network gives up. */
void services_stop_outboxes(struct services *services)
{
    struct outbox *outboxes[] = { services->outbox, services->outbound };
    for (size_t i = 0; i < COUNT_OF(outboxes); i++) {
        if (outboxes[i] != NULL) {
            outbox_stop_begin(outboxes[i]);
        }
    }
    for (size_t i = 0; i < COUNT_OF(outboxes); i++) {
        if (outboxes[i] != NULL) {
            outbox_stop(outboxes[i]);
        }
    }
}

static void sweep(struct outbox *outbox)
{
    CLEANUP(op_freep) struct op *op = NULL;
    int64_t rows = 0;
    struct fault fault = op_new("system:drain", (struct tenant_id){ 0 }, SWEEP_LIMIT_MS, &op);
    if (!FAULTED(fault)) {
        fault = outbox_sweep(op, outbox, &rows);
    }
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_WARN, "outbox_not_swept", op, fault); /* the leases run out */
    } else if (rows > 0) {
        log_write(INFO, "outbox_swept", LOG_INT("rows", rows));
    }
}

void services_sweep(struct services *services)
{
    sweep(services->outbox);
    sweep(services->outbound);
}

static void free_outboxes(struct services *services)
{
    for (size_t i = 0; i < COUNT_OF(outboxes_to_wake); i++) {
        atomic_store(&outboxes_to_wake[i], NULL);
    }
    outbox_free(TAKE(services->outbox));
    outbox_free(TAKE(services->outbound));
}

static struct fault start_features(struct op *op, struct services *services, struct buf *why)
{
    size_t count = 0;
    const struct feature *const *features = features_all(&count);
    for (size_t i = 0; i < count; i++) {
        if (features[i]->start == NULL) {
            continue;
        }
        struct fault fault = features[i]->start(op, services);
        if (FAULTED(fault)) {
            log_fault(LOG_LEVEL_ERROR, "feature_start_failed", op, fault);
            TRY(buf_printf(why, "feature %s did not start: %s: %s", features[i]->name, fault_row(fault.code)->text,
                           op->note.set ? op->note.detail : ""));
            return fault;
        }
    }
    return start_outboxes(services);
}

/* A local command runs beside a serving process and does one thing at a time: it must not take a second full budget of
 * database connections. One command a process, so one copy. */
const struct config *services_local_config(const struct config *config)
{
    static struct config local;
    local = *config;
    local.postgres_max_conns = 2;
    local.postgres_probe_conns = 1;
    local.postgres_reserved_conns = 1;
    local.postgres_bookkeeping_conns = 2;
    local.postgres_lock_conns = 2;
    return &local;
}

struct fault services_restored(const struct config *config, struct buf *why)
{
    char path[MARK_PATH_MAX];
    struct stat about;
    int len = snprintf(path, sizeof(path), "%s/" RESTORE_MARK, config->data_dir);
    if (len < 0 || (size_t)len >= sizeof(path)) {
        TRY(buf_printf(why, "data_dir is too long: %d bytes at most", MARK_PATH_MAX - (int)sizeof("/" RESTORE_MARK)));
        return FAULT(CONFIG);
    }
    if (lstat(path, &about) != 0) {
        if (errno == ENOENT) {
            return OK;
        }
        TRY(buf_printf(why, "%s: cannot tell whether a restore was interrupted: %s", path, strerrordesc_np(errno)));
        return FAULT(IO);
    }
    TRY(buf_text(why,
                 "a restore of the event log was interrupted: go on with svc-appliance restore --continue FILE, or "
                 "remove the folder nats/jetstream below data_dir and restore anew (docs/backup.md)"));
    return FAULT(RESTORE_UNFINISHED);
}

static struct fault bring_up(struct services *services, enum start_scope scope, struct buf *why)
{
    struct tenant_id tenant = { 0 };
    TRY(tenant_id_parse(span_text(services->config->first_tenant), &tenant));
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(services_restored(services->config, why));
    TRY(op_new("system:start", tenant, START_LIMIT_MS, &op));
    TRY(uuid_new(&services->instance));
    TRY(metrics_new(&services->metrics));
    TRY(features_metrics(services->metrics));
    TRY(bulkheads_new(services->config, &services->bulkheads));
    TRY(signer_client_new(services->config, &services->signer));
    signer_client_on_call(services->signer, spine_signed, services);
    signer_client_bound(services->signer, bulkheads_get(services->bulkheads, BULKHEAD_SIGNING));
    TRY(open_stores(op, services, scope, why));
    if (scope != START_SERVING) {
        return OK;
    }
    TRY(services_fingerprint_key(services->config, why, &services->fingerprint_key));
    TRY(svc_provider_load(fips_libctx(), services->signer));
    return start_features(op, services, why);
}

struct fault services_start(const struct config *config, enum start_scope scope, struct buf *why,
                            struct services **ret_services)
{
    struct services *services = NULL;
    TRY(mem_new(1, sizeof(*services), &services));
    services->config = scope == START_STORES ? services_local_config(config) : config;
    struct fault fault = bring_up(services, scope, why);
    if (FAULTED(fault)) {
        services_stop(services);
        return fault;
    }
    *ret_services = services;
    return OK;
}

static void tell_progress(void *arg, uint64_t done, uint64_t last)
{
    (void)arg;
    progress_tell("replaying", done, last);
}

static struct fault replay(struct services *services, struct buf *why, uint64_t *ret_messages)
{
    TRY(store_open(services->config, why, &services->store));
    TRY(event_log_open(services->config, why, &services->log));
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(op_new("system:rebuild", (struct tenant_id){ 0 }, REBUILD_LIMIT_MS, &op));
    struct projector_config config = projector_config_of(services);
    config.on_progress = tell_progress;
    size_t checkpoints = 0;
    struct fault fault = source_check(op, services->log, NULL, &checkpoints); /* the read model is empty by now */
    if (!FAULTED(fault)) {
        fault = projection_rebuild(op, &config, ret_messages);
    }
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_ERROR, "rebuild_failed", op, fault);
        IGNORE(buf_text(why, op->note.set ? op->note.detail : "the replay failed"));
    }
    return fault;
}

struct fault services_rebuild(const struct config *config, struct buf *why, uint64_t *ret_messages)
{
    struct services *services = NULL;
    TRY(mem_new(1, sizeof(*services), &services));
    services->config = config;
    struct fault fault = services_restored(config, why);
    fault = FAULTED(fault) ? fault : replay(services, why, ret_messages);
    services_stop(services);
    return fault;
}

/* The repair is a fact of its own in the trail. */
static struct fault record_repair(struct op *op, struct services *services, const struct log_repair *repair)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    struct jout jout;
    uint64_t seq = 0;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_int(&jout, "first_sequence", (int64_t)repair->log_last + 1);
    jout_key_int(&jout, "last_sequence", (int64_t)repair->copies_last);
    jout_key_int(&jout, "messages", (int64_t)repair->appended);
    jout_key_hex(&jout, "rolling_digest", SPAN_ARRAY(repair->rolling.at));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct event event = { .type = "audit.log.repaired", .schema_version = 1, .data = buf_span(&data) };
    const struct event_append append = { .lane = "audit-log", .events = &event, .count = 1 };
    TRY(tenant_id_parse(span_text(services->config->first_tenant), &op->tenant));
    return events_append(op, services->log, &append, &seq);
}

static struct fault repair_log(struct services *services, const struct log_repair_request *request, struct buf *why,
                               struct log_repair *ret_repair)
{
    TRY(store_open(services->config, why, &services->store));
    TRY(event_log_open(services->config, why, &services->log));
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(op_new("system:repair-log", (struct tenant_id){ 0 }, REBUILD_LIMIT_MS, &op));
    struct fault fault = projection_repair_log(op, services->store, services->log, request, ret_repair);
    if (!FAULTED(fault) && request->go) {
        fault = record_repair(op, services, ret_repair);
    }
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_ERROR, "repair_log_failed", op, fault);
        IGNORE(buf_text(why, op->note.set ? op->note.detail : fault_row(fault.code)->title));
    }
    return fault;
}

struct fault services_repair_log(const struct config *config, const struct log_repair_request *request, struct buf *why,
                                 struct log_repair *ret_repair)
{
    struct services *services = NULL;
    TRY(mem_new(1, sizeof(*services), &services));
    services->config = config;
    struct fault fault = repair_log(services, request, why, ret_repair);
    services_stop(services);
    return fault;
}

static void tell_closed(bool served, const char *event)
{
    if (served) { /* a local command's end is of no interest */
        log_write(INFO, event);
    }
}

void services_stop(struct services *services)
{
    if (services == NULL) {
        return;
    }
    services_stop_outboxes(services);
    size_t count = 0;
    const struct feature *const *features = features_all(&count);
    for (size_t i = count; i-- > 0;) {
        if (features[i]->stop != NULL) {
            features[i]->stop(services);
        }
    }
    if (services->projector != NULL) {
        projector_stop(services->projector);
    }
    bool served = services->outbox != NULL;
    free_outboxes(services);
    event_log_close(services->log);
    tell_closed(served, "event_log_closed");
    store_close(services->store);
    tell_closed(served, "datastore_closed");
    identity_close(services->identity);
    signer_client_free(services->signer);
    bulkheads_free(services->bulkheads);
    metrics_free(services->metrics);
    secret_free(services->fingerprint_key);
    mem_free(services);
}
