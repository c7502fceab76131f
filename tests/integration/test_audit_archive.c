/*
 * The archive of the audit trail over a real log and read model, with a signer of this process: what is refused and
 * leaves everything as it was; segments, checkpoints and the served view; a log that lost what a checkpoint stands for;
 * a backup, its restore and the rebuild after it. Run by with-stores.
 */
#include "api/audit/archive.h"
#include "api/audit/backup.h"
#include "api/audit/floor.h"
#include "api/audit/source.h"
#include "api/events/internal.h"
#include "api/events/transfer.h"
#include "fips/fips.h"
#include "signer-pkcs11/provider/provider.h"

#define FLOW_FEATURE_LIST &identity_feature, &keys_feature, &audit_feature, &audit_archive_feature
#include "integration/flow_testlib.h"

#include "appliance/base/file.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOUR_NS (3600 * NS_PER_S)

static char dir[64];
static char token[TOKEN_TEXT_MAX], writer[TOKEN_TEXT_MAX];

static struct op *op_in(const char *tenant_text)
{
    struct op *op = NULL;
    struct arena *arena = NULL;
    assert_ok(op_new("tester", tenant(tenant_text), 60000, &op));
    assert_ok(arena_new((size_t)64 << 20, &arena));
    arena_free(op->arena);
    op->arena = arena;
    return op;
}

/* A tenant of the test's own with at least `records` records, all of them old enough. */
static struct op *begin_in(const char *tenant_text, int records)
{
    struct op *op = op_in(tenant_text);
    test_config->audit_archive_dir = dir;
    test_config->audit_retention = 1000;
    struct managed_key key;
    flow_token(tenant_text, "auditor", "auditor", token);
    flow_token(tenant_text, "operator", "operator", writer);
    assert_ok(export_key(op, &flow_services, &key));
    for (int i = 0; i < records; i++) {
        char unused[TOKEN_TEXT_MAX];
        flow_token(tenant_text, "auditor", "auditor", unused);
    }
    assert_int_equal(chmod(dir, 0700), 0);
    return op;
}

static int64_t newest(struct op *op)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    int64_t sequence = 0;
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(record_head(tx, &sequence));
    return sequence;
}

static int64_t served_from(struct op *op)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    int64_t last = 0;
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(audit_floor(op, tx, &last));
    return last + 1;
}

static struct archive_checkpoint newest_checkpoint(struct op *op)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct archive_checkpoint checkpoint;
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(archive_last(op, tx, &checkpoint));
    return checkpoint;
}

/* An export of records first..last in the place of a segment that ends with `named`; altered so many bytes before its
 * end (0 = not). */
static void leave_file(struct op *of, struct op *in, int64_t first, int64_t last, int64_t named, size_t altered)
{
    CLEANUP(buf_free) struct buf bundle = BUF_INIT((size_t)8 << 20);
    CLEANUP(fd_closep) int folder = -1;
    char name[ARCHIVE_NAME_MAX];
    assert_ok(export_make(of, &flow_services, first, last, &bundle));
    assert_true(altered < bundle.len);
    if (altered > 0) {
        uint8_t *at = &bundle.at[bundle.len - altered];
        *at = *at == 'A' ? 'B' : 'A';
    }
    archive_name(named, name);
    assert_ok(archive_folder_open(in, dir, &folder));
    (void)unlinkat(folder, name, 0);
    assert_ok(archive_file_write(in, folder, name, buf_span(&bundle)));
}

static void assert_refused(struct op *op, enum fault_code code)
{
    struct archive_run run;
    op->note = (struct fault_note){ 0 };
    struct fault fault = archive_run(op, &flow_services, &run);
    if (fault.code != code) {
        fail_msg("wanted %s, got %s: %s", fault_row(code)->text, fault_row(fault.code)->text, op->note.detail);
    }
    assert_int_equal(served_from(op), 1);
    assert_int_equal(newest_checkpoint(op).last_sequence, 0);
}

/* ---- refused, and nothing has moved ---- */

static void without_retention_there_is_no_run(void **state)
{
    (void)state;
    static struct answer answer;
    CLEANUP(op_freep) struct op *op = begin_in("t-off", 1);
    test_config->audit_retention = 0;
    flow_call("POST", "/api/v1/audit/archive/runs", writer, "run-off", NULL, 20000, &answer);
    assert_problem(&answer, 409, "conflict");
    flow_call("POST", "/api/v1/audit/archive/runs/preview", token, NULL, NULL, 20000, &answer);
    assert_problem(&answer, 409, "conflict");
    test_config->audit_retention = 1000;
    flow_call("POST", "/api/v1/audit/archive/runs", token, "run-auditor", NULL, 20000, &answer);
    assert_problem(&answer, 403, "forbidden");
    assert_int_equal(served_from(op), 1);
}

/* Retention is on by now: so the second one of a key would do it, if it did not ask first. */
static void a_key_that_was_used_makes_no_file_and_no_checkpoint(void **state)
{
    (void)state;
    static struct answer answer;
    CLEANUP(op_freep) struct op *op = begin_in("t-key", 1);
    CLEANUP(fd_closep) int folder = -1;
    char other[TOKEN_TEXT_MAX];
    int64_t left = 0;
    test_config->audit_retention = 0;
    flow_call("POST", "/api/v1/audit/archive/runs", writer, "run-key", NULL, 20000, &answer);
    assert_problem(&answer, 409, "conflict");
    test_config->audit_retention = 1000;
    flow_call("POST", "/api/v1/audit/archive/runs", writer, "run-key", NULL, 20000, &answer);
    assert_problem(&answer, 409, "conflict");
    flow_token("t-key", "operator-2", "operator", other);
    flow_call("POST", "/api/v1/audit/archive/runs", other, "run-key", NULL, 20000, &answer);
    assert_problem(&answer, 409, "idempotency_key_reused");
    assert_ok(archive_folder_open(op, dir, &folder));
    assert_ok(archive_file_find(op, folder, 0, &left));
    assert_int_equal(left, 0);
    assert_int_equal(newest_checkpoint(op).last_sequence, 0);
    assert_int_equal(served_from(op), 1);
}

static void an_altered_file_is_not_taken(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = begin_in("t-altered", 4);
    leave_file(op, op, 1, 3, 3, 1500); /* in a record */
    assert_refused(op, FAULT_AUDIT_ARCHIVE_INVALID);
    leave_file(op, op, 1, 3, 3, 10); /* in the signature */
    assert_refused(op, FAULT_AUDIT_ARCHIVE_INVALID);
}

static void another_tenants_file_is_not_taken(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *other = begin_in("t-theirs", 4);
    CLEANUP(op_freep) struct op *op = begin_in("t-mine", 4);
    leave_file(other, op, 1, 3, 3, 0);
    assert_refused(op, FAULT_AUDIT_ARCHIVE_INVALID);
}

static void a_file_of_other_records_is_not_taken(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = begin_in("t-range", 6);
    leave_file(op, op, 2, 4, 4000, 0); /* of a sequence that is not there */
    assert_refused(op, FAULT_AUDIT_ARCHIVE_INVALID);
    leave_file(op, op, 2, 4, 4, 0); /* without the first one; the lower number is looked at first */
    assert_refused(op, FAULT_AUDIT_ARCHIVE_INVALID);
    leave_file(op, op, 1, 3, 4, 0); /* without the last one */
    assert_refused(op, FAULT_AUDIT_ARCHIVE_INVALID);
}

static void a_folder_that_is_not_ours_alone_is_not_used(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = begin_in("t-folder", 2);
    assert_int_equal(chmod(dir, 0770), 0);
    assert_refused(op, FAULT_AUDIT_ARCHIVE_DIR);
    assert_int_equal(chmod(dir, 0700), 0);
    test_config->audit_archive_dir = "/nowhere/at/all";
    assert_refused(op, FAULT_AUDIT_ARCHIVE_DIR);
    assert_int_equal(archive_start(op, &flow_services).code, FAULT_AUDIT_ARCHIVE_DIR);
}

static void a_full_disk_leaves_nothing_behind(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = begin_in("t-full", 2);
    CLEANUP(fd_closep) int folder = -1;
    struct rlimit before, little;
    int64_t left = 0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = (struct rlimit){ 100, before.rlim_max };
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    assert_refused(op, FAULT_AUDIT_ARCHIVE_DIR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_ok(archive_folder_open(op, dir, &folder));
    assert_ok(archive_file_find(op, folder, 0, &left));
    assert_int_equal(left, 0);
    assert_int_equal(faccessat(folder, ".audit-archive.new", F_OK, 0), -1);
}

/* ---- runs ---- */

static void what_is_young_stays(void **state)
{
    (void)state;
    static struct answer answer;
    CLEANUP(op_freep) struct op *op = begin_in("t-young", 2);
    struct archive_run run;
    test_config->audit_retention = HOUR_NS;
    flow_call("POST", "/api/v1/audit/archive/runs/preview", token, NULL, NULL, 20000, &answer);
    assert_status(&answer, 200);
    assert_non_null(strstr(answer.body, "\"records\":0"));
    assert_ok(archive_run(op, &flow_services, &run));
    assert_int_equal(run.segments, 0);
    assert_int_equal(served_from(op), 1);
}

static void a_run_archives_and_the_view_begins_behind(void **state)
{
    (void)state;
    static struct answer answer;
    CLEANUP(op_freep) struct op *op = begin_in("t-run", 5);
    int64_t last = newest(op);
    char wanted[128], path[256];
    struct stat status;
    flow_call("POST", "/api/v1/audit/archive/runs", writer, "run-1", NULL, 30000, &answer);
    assert_status(&answer, 200);
    (void)snprintf(wanted, sizeof(wanted), "\"last_sequence\":%lld", (long long)last);
    assert_non_null(strstr(answer.body, wanted));
    struct archive_checkpoint first = newest_checkpoint(op);
    assert_int_equal(first.number, 1);
    assert_int_equal(first.last_sequence, last);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, first.locator);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_size, first.bytes);

    flow_call("GET", "/api/v1/audit/records?order=asc&limit=1", token, NULL, NULL, 20000, &answer);
    assert_status(&answer, 200);
    (void)snprintf(wanted, sizeof(wanted), "\"sequence\":%lld,", (long long)last + 1);
    assert_non_null(strstr(answer.body, wanted));
    (void)snprintf(path, sizeof(path), "/api/v1/audit/export?from_sequence=%lld", (long long)last);
    flow_call("GET", path, token, NULL, NULL, 20000, &answer);
    assert_problem(&answer, 410, "audit_archived");
    assert_non_null(strstr(answer.body, first.locator));
    flow_call("GET", "/api/v1/audit/archives", token, NULL, NULL, 20000, &answer);
    assert_status(&answer, 200);
    assert_string_equal(flow_text(&answer, "archive"), first.locator);
    assert_string_equal(flow_text(&answer, "file"), "present");

    struct archive_run run;
    assert_ok(archive_run(op, &flow_services, &run));
    assert_int_equal(run.segments, 0); /* its own record alone is no reason */
    flow_token("t-run", "auditor", "auditor", token);
    assert_ok(archive_run(op, &flow_services, &run));
    assert_int_equal(run.segments, 1);
    struct archive_checkpoint second = newest_checkpoint(op);
    assert_int_equal(second.number, 2);
    assert_int_equal(second.first_sequence, last + 1);
    assert_memory_equal(second.seed.at, first.head.at, SHA256_LEN);
}

static void a_file_that_was_left_is_taken_as_it_is(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = begin_in("t-left", 6);
    CLEANUP(buf_free) struct buf before = BUF_INIT(ARCHIVE_FILE_MAX), after = BUF_INIT(ARCHIVE_FILE_MAX);
    CLEANUP(fd_closep) int folder = -1;
    struct archive_checkpoint *list = NULL;
    struct archive_run run;
    size_t count = 0;
    leave_file(op, op, 1, 4, 4, 0);
    assert_ok(archive_folder_open(op, dir, &folder));
    assert_ok(archive_file_read(op, folder, "audit-4.jws", &before));
    (void)close(openat(folder, ".audit-archive.new", O_WRONLY | O_CREAT, 0600));
    assert_ok(archive_run(op, &flow_services, &run));
    assert_int_equal(run.segments, 2);
    assert_int_equal(run.first_sequence, 1);
    assert_ok(archive_file_read(op, folder, "audit-4.jws", &after));
    assert_true(span_equal(buf_span(&before), buf_span(&after)));
    assert_int_equal(faccessat(folder, ".audit-archive.new", F_OK, 0), -1);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(archive_list(op, tx, INT64_MAX, 10, &list, &count));
    assert_int_equal(count, 2);
    assert_int_equal(list[1].last_sequence, 4);
    assert_int_equal(list[0].first_sequence, 5);
}

static void the_worker_goes_over_all_tenants(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = begin_in("t-worker", 2);
    CLEANUP(op_freep) struct op *job = op_in("");
    CLEANUP(fd_closep) int folder = -1;
    CLEANUP(op_freep) struct op *bad = op_in("t-altered");
    int64_t last = newest(op);
    assert_ok(archive_start(job, &flow_services));
    job->deadline = clock_mono() + 60 * NS_PER_S;
    struct fault fault = archive_work(job, &flow_services);
    assert_int_equal(fault.code, FAULT_AUDIT_ARCHIVE_INVALID); /* what other tests left lies there still */
    assert_int_equal(archive_ready(job, &flow_services).code, FAULT_AUDIT_ARCHIVE_INVALID);
    assert_int_equal(served_from(op), last + 1); /* one tenant's fault is not the others' */
    assert_int_equal(served_from(bad), 1);
    static const char *const tenants[] = { "t-altered", "t-mine", "t-range", "t-range" };
    for (size_t i = 0; i < COUNT_OF(tenants); i++) {
        CLEANUP(op_freep) struct op *one = op_in(tenants[i]);
        int64_t sequence = 0;
        char name[ARCHIVE_NAME_MAX];
        fd_closep(&folder);
        assert_ok(archive_folder_open(one, dir, &folder));
        assert_ok(archive_file_find(one, folder, 0, &sequence));
        archive_name(sequence, name);
        assert_int_equal(unlinkat(folder, name, 0), 0);
    }
    job->note = (struct fault_note){ 0 };
    assert_ok(archive_work(job, &flow_services));
    assert_ok(archive_ready(job, &flow_services));
    assert_true(served_from(bad) > 1);
}

/* ---- the source ---- */

static void digest_of_model(char out[512])
{
    static const struct sql sql = {
        "test_digest",
        "SELECT (SELECT md5(string_agg(t::text, ',' ORDER BY tenant_id, last_sequence)) FROM svc.audit_checkpoints t)"
        " || (SELECT md5(string_agg(t::text, ',' ORDER BY stream_seq)) FROM svc.event_envelopes t)",
        0,
    };
    static const struct sql records = {
        "test_records",
        "SELECT md5(string_agg(t::text, ',' ORDER BY sequence)) FROM svc.audit_records t",
        0,
    };
    CLEANUP(op_freep) struct op *op = op_in("t-run");
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL, *more = NULL;
    assert_ok(tx_begin(op, flow_services.store, STORE_BOOKKEEPING, &tx));
    assert_ok(tx_query(tx, &sql, NULL, 0, &rows));
    assert_ok(tx_query(tx, &records, NULL, 0, &more));
    (void)snprintf(out, 512, "%s%s", rows_text(rows, 0, 0), rows_text(more, 0, 0));
}

static void a_checkpoint_that_only_the_read_model_has_is_found(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_in("");
    size_t checkpoints = 0;
    assert_ok(source_check(op, flow_services.log, flow_services.store, &checkpoints));
    assert_true(checkpoints >= 4);
    assert_ok(as_superuser("INSERT INTO svc.audit_checkpoints SELECT 't-none', last_sequence, first_sequence, number,"
                           " generation, stream_seq, event_seq, chain_seed, chain_head, archive, archive_bytes,"
                           " archive_sha256, archived_us FROM svc.audit_checkpoints LIMIT 1"));
    assert_int_equal(source_check(op, flow_services.log, flow_services.store, &checkpoints).code,
                     FAULT_AUDIT_SOURCE_GAP);
    assert_ok(as_superuser("DELETE FROM svc.audit_checkpoints WHERE tenant_id = 't-none'"));
}

/* The stream goes, as a lost server's does. */
static void open_empty_log(void)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    char history[128];
    (void)snprintf(history, sizeof(history), "%s_history", test_config->nats_stream);
    assert_int_equal(js_DeleteStream(flow_services.log->js, test_config->nats_stream, NULL, NULL), NATS_OK);
    assert_int_equal(js_DeleteStream(flow_services.log->js, history, NULL, NULL), NATS_OK);
    event_log_close(TAKE(flow_services.log));
    assert_ok(event_log_open(test_config, &why, &flow_services.log));
}

static void rebuild(void)
{
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    uint64_t messages = 0;
    assert_ok(store_empty_projections(test_config, &why));
    assert_ok(projection_rebuild(op, flow_projector_config(), &messages));
}

static struct fault count_replacement(struct op *op, void *arg, struct span subject, struct span body)
{
    (void)op;
    assert_true(span_equal_text(subject, "svc.history.t-run.2.1"));
    assert_true(span_equal_text(body, "what stands in the place of a message"));
    (*(unsigned *)arg)++;
    return OK;
}

static void a_backup_gives_the_log_back_and_the_rebuild_the_same_bytes(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_in("");
    CLEANUP(fd_closep) int fd = memfd_create("backup", MFD_CLOEXEC);
    static char before[512], after[512];
    struct backup_totals made, restored;
    struct event_log_state log;
    uint8_t byte = 0;
    CLEANUP(op_freep) struct op *of = op_in("t-run");
    assert_ok(event_history_put(of, flow_services.log, 2, 1, span_text("what stands in the place of a message")));
    flow_pause();
    assert_ok(log_backup(op, flow_services.log, flow_services.store, "TEST", fd, NULL, &made));
    digest_of_model(before);
    assert_int_equal(log_restore(op, flow_services.log, fd, NULL, &restored).code, FAULT_CONFLICT); /* not empty */

    open_empty_log();
    off_t middle = lseek(fd, 0, SEEK_END) / 2;
    assert_int_equal(pread(fd, &byte, 1, middle), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, middle), 1);
    op->note = (struct fault_note){ 0 };
    assert_int_equal(log_restore(op, flow_services.log, fd, NULL, &restored).code, FAULT_LOG_BACKUP);
    assert_ok(event_log_state_now(op, flow_services.log, &log));
    assert_int_equal(log.last_seq, 0); /* nothing was written */
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, middle), 1);

    op->note = (struct fault_note){ 0 };
    assert_ok(log_restore(op, flow_services.log, fd, NULL, &restored));
    assert_int_equal(restored.messages, made.messages);
    assert_int_equal(made.replacements, 1);
    unsigned replacements = 0;
    assert_ok(event_history_each(op, flow_services.log, count_replacement, &replacements));
    assert_int_equal(replacements, 1);
    assert_memory_equal(restored.digest.at, made.digest.at, SHA256_LEN);
    rebuild();
    digest_of_model(after);
    assert_string_equal(before, after);
    flow_resume();
}

/* A log whose checkpoint says more than there is: neither backed up nor believed. */
static void a_checkpoint_without_its_source_stops_everything(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = begin_in("t-gap", 2);
    CLEANUP(op_freep) struct op *all = op_in("");
    CLEANUP(fd_closep) int fd = memfd_create("backup", MFD_CLOEXEC);
    struct archive_checkpoint lie = { .number = 1,
                                      .generation = 1,
                                      .first_sequence = 1,
                                      .last_sequence = newest(op) - 1,
                                      .stream_seq = flow_log_last(),
                                      .locator = "t-gap/audit-1.jws",
                                      .bytes = 1 };
    struct backup_totals totals;
    size_t checkpoints = 0;
    assert_ok(archive_append(op, &flow_services, &lie, 0));
    assert_int_equal(source_check(all, flow_services.log, NULL, &checkpoints).code, FAULT_AUDIT_SOURCE_GAP);
    assert_non_null(strstr(all->note.detail, "t-gap"));
    all->note = (struct fault_note){ 0 };
    assert_int_equal(log_backup(all, flow_services.log, flow_services.store, "TEST", fd, NULL, &totals).code,
                     FAULT_AUDIT_SOURCE_GAP);
}

static int begin(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf detail = BUF_INIT(2048);
    static struct config fips = { .fips_required = true,
                                  .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so" };
    (void)snprintf(dir, sizeof(dir), "/tmp/archive-XXXXXX");
    BUG_IF(mkdtemp(dir) == NULL);
    use_config();
    BUG_IF(FAULTED(fips_start(&fips, &detail)));
    static char fake_client;
    flow_services.signer = (struct signer_client *)&fake_client;
    BUG_IF(FAULTED(svc_provider_load(fips_libctx(), flow_services.signer)));
    flow_start();
    test_config->tsa_enabled = false;
    return 0;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat, (void)kind, (void)at;
    return remove(path);
}

static int end(void **state)
{
    (void)state;
    flow_stop();
    return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_retention_there_is_no_run),
        cmocka_unit_test(a_key_that_was_used_makes_no_file_and_no_checkpoint),
        cmocka_unit_test(an_altered_file_is_not_taken),
        cmocka_unit_test(another_tenants_file_is_not_taken),
        cmocka_unit_test(a_file_of_other_records_is_not_taken),
        cmocka_unit_test(a_folder_that_is_not_ours_alone_is_not_used),
        cmocka_unit_test(a_full_disk_leaves_nothing_behind),
        cmocka_unit_test(what_is_young_stays),
        cmocka_unit_test(a_run_archives_and_the_view_begins_behind),
        cmocka_unit_test(a_file_that_was_left_is_taken_as_it_is),
        cmocka_unit_test(the_worker_goes_over_all_tenants),
        cmocka_unit_test(a_checkpoint_that_only_the_read_model_has_is_found),
        cmocka_unit_test(a_backup_gives_the_log_back_and_the_rebuild_the_same_bytes),
        cmocka_unit_test(a_checkpoint_without_its_source_stops_everything),
    };
    return cmocka_run_group_tests_name("archive of the audit trail", tests, begin, end);
}
