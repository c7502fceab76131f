/* svc-api snapshot, check-snapshot, load-snapshot. */
#include "api/commands.h"
#include "api/progress.h"
#include "api/start.h"

#include "api/snapshot/snapshot.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#include <stdio.h>
#include <unistd.h>

#define LIMIT_MS (24 * 3600 * 1000)

static int say_fault(const char *what, const struct op *op, const struct buf *why, struct fault fault)
{
    const char *detail = op != NULL && op->note.set ? op->note.detail : fault_row(fault.code)->title;
    (void)fprintf(stderr, "svc-api: %s: %s: %.*s%s\n", what, fault_row(fault.code)->text, (int)why->len,
                  why->len > 0 ? (const char *)why->at : "", why->len > 0 ? "" : detail);
    bool refused = fault.code == FAULT_SNAPSHOT_INVALID || fault.code == FAULT_SNAPSHOT_MISMATCH ||
                   fault.code == FAULT_CONFLICT || fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_NOT_FOUND ||
                   fault.code == FAULT_SNAPSHOT_DIR;
    return refused ? 2 : 1;
}

static void print_totals(const char *path, uint64_t checkpoint, const struct snapshot_totals *totals, bool json)
{
    char digest[2 * SHA256_LEN + 1];
    CLEANUP(buf_free) struct buf out = BUF_INIT(8192);
    struct jout jout;
    hex_text(SPAN_ARRAY(totals->digest.at), digest, sizeof(digest));
    if (!json) {
        (void)printf("snapshot %s: message %llu, %llu tables, %llu rows, %llu bytes, digest %s\n", path,
                     (unsigned long long)checkpoint, (unsigned long long)totals->tables,
                     (unsigned long long)totals->rows, (unsigned long long)totals->bytes, digest);
        return;
    }
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_int(&jout, "bytes", (int64_t)totals->bytes);
    jout_key_int(&jout, "checkpoint", (int64_t)checkpoint);
    jout_key_text(&jout, "digest", digest);
    jout_key_text(&jout, "path", path);
    jout_key_int(&jout, "rows", (int64_t)totals->rows);
    jout_key_int(&jout, "tables", (int64_t)totals->tables);
    jout_object_end(&jout);
    if (!FAULTED(jout_end(&jout))) {
        (void)printf("%.*s\n", (int)out.len, (const char *)out.at);
    }
}

int command_snapshot(const struct config *config, int argc, char **argv)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct snapshot_made made = { .fresh = false };
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc != 1 && !json) {
        (void)fprintf(stderr, "usage: snapshot [--json]\n");
        return 2;
    }
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(event_log_closep) struct event_log *log = NULL;
    CLEANUP(secret_freep) struct secret *key = NULL;
    struct fault fault = op_new("system:snapshot", (struct tenant_id){ 0 }, LIMIT_MS, &op);
    fault = FAULTED(fault) ? fault : services_fingerprint_key(config, &why, &key);
    fault = FAULTED(fault) ? fault : event_log_open(config, &why, &log);
    fault = FAULTED(fault) ? fault : snapshot_make(op, config, log, secret_span(key), NULL, NULL, &made);
    if (FAULTED(fault)) {
        return say_fault("snapshot", op, &why, fault);
    }
    if (!made.fresh) {
        (void)fprintf(stderr, "svc-api: snapshot: there is one of message %llu already\n",
                      (unsigned long long)made.checkpoint);
    }
    print_totals(made.path, made.checkpoint, &made.totals, json);
    return 0;
}

static void tell_progress(void *arg, uint64_t done, uint64_t last)
{
    (void)arg;
    progress_tell("checking the event log", done, last);
}

int command_check_snapshot(const struct config *config, int argc, char **argv)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct snapshot_checked checked = { .copies = 0 };
    bool json = argc == 3 && strcmp(argv[2], "--json") == 0;
    if (argc != 2 && !json) {
        (void)fprintf(stderr, "usage: check-snapshot FILE|latest [--json]\n");
        return 2;
    }
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(store_closep) struct store *store = NULL;
    CLEANUP(event_log_closep) struct event_log *log = NULL;
    CLEANUP(secret_freep) struct secret *key = NULL;
    struct fault fault = op_new("system:snapshot", (struct tenant_id){ 0 }, LIMIT_MS, &op);
    fault = FAULTED(fault) ? fault : services_fingerprint_key(config, &why, &key);
    fault = FAULTED(fault) ? fault : store_open(services_local_config(config), &why, &store);
    fault = FAULTED(fault) ? fault : event_log_open(config, &why, &log);
    if (!FAULTED(fault)) {
        const struct projector_config projector = { .store = store, .log = log, .on_progress = tell_progress };
        fault = snapshot_check(op, &projector, config, secret_span(key), argv[1], &checked);
    }
    if (FAULTED(fault)) {
        return say_fault("check-snapshot", op, &why, fault);
    }
    print_totals(checked.path, checked.checkpoint, &checked.totals, json);
    (void)fprintf(stderr, "svc-api: the event log up to message %llu of %llu is the snapshot's; %llu copies written\n",
                  (unsigned long long)checked.checkpoint, (unsigned long long)checked.log_last,
                  (unsigned long long)checked.copies);
    return 0;
}

static bool read_digest(const char *text, struct sha256 *ret_digest)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(SHA256_LEN);
    if (strlen(text) != (size_t)2 * SHA256_LEN || FAULTED(hex_decode(span_text(text), &bytes)) ||
        bytes.len != SHA256_LEN) {
        return false;
    }
    memcpy(ret_digest->at, bytes.at, SHA256_LEN);
    return true;
}

int command_load_snapshot(const struct config *config, int argc, char **argv)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct sha256 digest;
    struct snapshot_totals totals = { 0 };
    if (argc != 3 || strcmp(argv[1], "--digest") != 0 || !read_digest(argv[2], &digest)) {
        (void)fprintf(stderr, "usage: load-snapshot --digest HEX < FILE (the digest that check-snapshot printed)\n");
        return 2;
    }
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("svc-rebuild", (struct tenant_id){ 0 }, LIMIT_MS, &op);
    fault = FAULTED(fault) ? fault : snapshot_load(op, config, STDIN_FILENO, &digest, &why, &totals);
    if (FAULTED(fault)) {
        return say_fault("load-snapshot", op, &why, fault);
    }
    (void)fprintf(stderr, "svc-api: loaded %llu rows of %llu tables\n", (unsigned long long)totals.rows,
                  (unsigned long long)totals.tables);
    return 0;
}
