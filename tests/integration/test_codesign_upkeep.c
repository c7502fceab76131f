/* What reconciliation and requeueing rest on, for every destination of keys, signings and publications: a lost row is
 * found, and derived again byte for byte; what has ended is owed no more. */
#include "projection_testlib.h"

#include "api/codesign/codesign.h"
#include "api/feature.h"
#include "api/keys/keys.h"
#include "api/transparency/transparency.h"

#include <stdarg.h>

static const struct feature *const features[] = { &keys_feature, &transparency_feature, &codesign_feature };
static const struct event_row *tables[COUNT_OF(features)];
static size_t counts[COUNT_OF(features)];

static const char *id(unsigned number)
{
    static struct uuid ids[64];
    (void)snprintf(ids[number].text, sizeof(ids[0].text), "00000000-0000-8000-8000-%012x", number);
    return ids[number].text;
}

__attribute__((format(printf, 3, 4))) static void happen(struct fixture *fixture, const char *type, const char *format,
                                                         ...)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    char data[2048];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(data, sizeof(data), format, args);
    va_end(args);
    uint64_t seq = 0;
    const struct event event = { type, 1, span_text(data) };
    const struct event_append append = { .lane = "a", .events = &event, .count = 1 };
    assert_fault(events_append(op, fixture->a.log, &append, &seq), NONE);
    assert_fault(projector_wait(op, fixture->a.projector, seq), NONE);
}

static void command(struct fixture *fixture, unsigned operation, const char *mode, const char *destination)
{
    happen(fixture, "codesign.commanded",
           "{\"artifact_type\":\"file\",\"command_fingerprint\":\"%064d\",\"command_id\":\"%s\",\"count\":1,"
           "\"digest_algorithm\":\"sha256\",%s\"mode\":\"%s\",\"operation_id\":\"%s\",\"position\":0,"
           "\"request_fingerprint\":\"%064d\",\"sealed_command\":\"c2VhbGVk\",\"signature_scheme\":\"ecdsa\","
           "\"transparency_destination\":\"%s\"}",
           operation, id(operation),
           mode[0] == 'k' && mode[3] == '\0' ? "\"key_id\":\"00000000-0000-8000-8000-000000000001\"," : "", mode,
           id(operation), operation, destination);
}

static void sign(struct fixture *fixture, unsigned operation, const char *type)
{
    happen(
        fixture, type,
        "{\"algorithm\":\"ec-p256\",\"artifact_type\":\"file\",\"digest\":\"%043d=\",\"digest_algorithm\":\"sha256\","
        "\"operation_id\":\"%s\",\"principal\":\"p\",\"public_key_der\":\"QUJD\",\"signature\":\"QUJD\","
        "\"signature_scheme\":\"ecdsa\"}",
        0, id(operation));
}

static void end(struct fixture *fixture, const char *type, unsigned operation, const char *mode, const char *more)
{
    happen(fixture, type, "{\"command_id\":\"%s\",\"mode\":\"%s\",\"operation_id\":\"%s\",%s}", id(operation), mode,
           id(operation), more);
}

#define TO_LOG "\"transparency_destination\":\"rekor-v1:https://log.example\""

/* One open effect of each destination, two of cleanup; and some that ended. */
static void fill(struct fixture *fixture)
{
    for (unsigned key = 1; key <= 3; key++) {
        happen(fixture, "key.generated",
               "{\"algorithm\":\"ec-p256\",\"key_id\":\"%s\",\"name\":\"k%u\",\"public_key_der\":\"QUJD\","
               "\"purpose\":\"codesign\",\"system\":false}",
               id(key), key);
    }
    happen(fixture, "key.destroyed",
           "{\"command_id\":\"%s\",\"key_id\":\"%s\",\"purpose\":\"codesign\",\"reason\":\"r\",\"system\":false}",
           id(40), id(2));
    happen(fixture, "key.retiring",
           "{\"command_id\":\"%s\",\"key_id\":\"%s\",\"overlap_us\":3600000000,\"reason\":\"r\"}", id(41), id(3));
    command(fixture, 10, "key", "none"); /* stays open */
    command(fixture, 11, "key", "rekor-v1:https://log.example");
    sign(fixture, 11, "codesign.signed");
    end(fixture, "codesign.completed", 11, "key", TO_LOG);
    command(fixture, 12, "keyless", "none");
    sign(fixture, 12, "codesign.keyless.signed");
    end(fixture, "codesign.completed", 12, "keyless", "\"transparency_destination\":\"none\"");
    command(fixture, 13, "keyless", "none");
    end(fixture, "codesign.failed", 13, "keyless", "\"code\":\"internal\"");
    command(fixture, 14, "key", "none");
    end(fixture, "codesign.failed", 14, "key", "\"code\":\"internal\"");
    command(fixture, 15, "keyless", "none");
    end(fixture, "codesign.failed", 15, "keyless", "\"code\":\"internal\"");
    happen(fixture, "codesign.ephemeral.destroyed", "{\"ephemeral_id\":\"%s\",\"operation_id\":\"%s\"}", id(1), id(15));
}

static struct tx *begin(struct fixture *fixture, struct op *op)
{
    struct tx *tx = NULL;
    assert_fault(tx_begin(op, fixture->a.store, STORE_BOOKKEEPING, &tx), NONE);
    return tx;
}

static bool says(struct fixture *fixture, const struct sql *sql, const char *key)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    CLEANUP(tx_rollbackp) struct tx *tx = begin(fixture, op);
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_fault(tx_query(tx, sql, (struct sql_arg[]){ SQL_TEXT("acme"), SQL_TEXT(key) }, 2, &rows), NONE);
    return rows_count(rows) > 0;
}

static const struct outbox_row *row_named(const char *destination)
{
    for (size_t i = 0; i < COUNT_OF(features); i++) {
        for (size_t j = 0; j < features[i]->outbox_count; j++) {
            if (strcmp(features[i]->outbox[j].destination, destination) == 0) {
                return &features[i]->outbox[j];
            }
        }
    }
    fail_msg("no destination %s", destination);
    return NULL;
}

/* What a derived row says, as the query below says it of a real one. */
static void append_effect(const struct projection_effect *effect, struct buf *out)
{
    assert_fault(buf_printf(out, "%lld|%s|%s|%s|%lld|%lld|", (long long)effect->id, effect->destination, effect->key,
                            effect->trace_id, (long long)effect->due, (long long)effect->created),
                 NONE);
    for (size_t i = 0; i < effect->payload.len; i++) {
        assert_fault(buf_printf(out, "%02x", effect->payload.at[i]), NONE);
    }
    assert_fault(buf_text(out, "\n"), NONE);
}

/* All that is missing of one destination, derived from the first candidate that queued it. */
static void derive_missing(struct fixture *fixture, const struct outbox_row *row, struct buf *out)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    struct tx *tx = begin(fixture, op);
    CLEANUP(rows_freep) struct rows *rows = NULL;
    char done[128] = "";
    assert_fault(tx_query(tx, row->upkeep->missing, (struct sql_arg[]){ SQL_TEXT("acme"), SQL_INT(0) }, 2, &rows),
                 NONE);
    tx_rollback(tx);
    for (size_t i = 0; i < rows_count(rows); i++) {
        struct projection_effect effect = { 0 };
        const char *key = rows_text(rows, i, 0);
        if (key[0] == '\0' || strcmp(key, done) == 0) {
            continue;
        }
        struct fault fault = projection_rederive(op, fixture->a.projector, (uint64_t)rows_int(rows, i, 1),
                                                 row->destination, key, &effect);
        assert_true(!FAULTED(fault) || fault.code == FAULT_NOT_FOUND);
        if (!FAULTED(fault)) {
            append_effect(&effect, out);
            (void)snprintf(done, sizeof(done), "%s", key);
        }
    }
}

static int by_line(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_lines(char *text, char out[8192])
{
    char *lines[32], *save = NULL;
    size_t count = 0;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        lines[count++] = line;
    }
    qsort(lines, count, sizeof(lines[0]), by_line);
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(out + strlen(out), 8192 - strlen(out), "%s\n", lines[i]);
    }
}

static void every_lost_row_is_found_and_derived_again(void **state)
{
    static const char *const destinations[] = { "codesign.command", "codesign.cleanup", "transparency.tlog",
                                                "keys.erase", "keys.retire" };
    struct fixture *fixture = *state;
    CLEANUP(buf_free) struct buf derived = BUF_INIT(8000);
    static char want[8192], got[8192];
    fill(fixture);
    for (size_t i = 0; i < COUNT_OF(destinations); i++) {
        derive_missing(fixture, row_named(destinations[i]), &derived);
    }
    assert_int_equal(derived.len, 0); /* all are there */
    char *rows = admin_text(&fixture->config,
                            "SELECT string_agg(concat_ws('|', id, destination, key, trace_id, due_us, created_us,"
                            " encode(payload, 'hex')), E'\\n') FROM svc.outbox WHERE state = 'pending'");
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.outbox WHERE state = 'pending'"), 6);
    sort_lines(rows, want);
    mem_free(rows);
    char *before = admin_text(&fixture->config, "SELECT string_agg(o::text, E'\\n' ORDER BY operation_id)"
                                                " FROM svc.codesign_operations o");
    admin_script(&fixture->config, "DELETE FROM svc.outbox");
    for (size_t i = 0; i < COUNT_OF(destinations); i++) {
        derive_missing(fixture, row_named(destinations[i]), &derived);
    }
    assert_fault(buf_put(&derived, span_of("", 1)), NONE);
    sort_lines((char *)derived.at, got);
    assert_string_equal(got, want);
    char *after = admin_text(&fixture->config, "SELECT string_agg(o::text, E'\\n' ORDER BY operation_id)"
                                               " FROM svc.codesign_operations o");
    assert_string_equal(before, after); /* looking changed nothing */
    mem_free(before);
    mem_free(after);
}

static void what_has_ended_is_owed_no_more(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    const struct outbox_upkeep *command_upkeep = row_named("codesign.command")->upkeep;
    assert_true(says(fixture, command_upkeep->owed, id(10)));
    assert_false(says(fixture, command_upkeep->owed, id(11)));
    assert_false(says(fixture, command_upkeep->owed, id(14))); /* failed: its caller knows */
    assert_null(command_upkeep->reopenable);
    const struct outbox_upkeep *cleanup = row_named("codesign.cleanup")->upkeep;
    assert_true(says(fixture, cleanup->owed, id(12)));
    assert_true(says(fixture, cleanup->owed, id(13)));
    assert_false(says(fixture, cleanup->owed, id(14)));
    assert_false(says(fixture, cleanup->owed, id(15)));
    const struct outbox_upkeep *tlog = row_named("transparency.tlog")->upkeep;
    assert_true(says(fixture, tlog->owed, id(11)));
    assert_false(says(fixture, tlog->reopenable, id(11)));
    happen(fixture, "transparency.failed",
           "{\"code\":\"tlog_unavailable\",\"log\":\"rekor-v1:https://log.example\",\"operation_id\":\"%s\"}", id(11));
    assert_false(says(fixture, tlog->owed, id(11)));
    assert_true(says(fixture, tlog->reopenable, id(11)));
    const struct outbox_upkeep *erase = row_named("keys.erase")->upkeep;
    const struct outbox_upkeep *retire = row_named("keys.retire")->upkeep;
    assert_true(says(fixture, erase->owed, id(2)));
    assert_false(says(fixture, erase->owed, id(1)));
    assert_true(says(fixture, retire->owed, id(3)));
    happen(fixture, "key.retired", "{\"key_id\":\"%s\"}", id(3));
    happen(fixture, "key.erased", "{\"key_id\":\"%s\"}", id(2));
    assert_false(says(fixture, retire->owed, id(3)));
    assert_false(says(fixture, erase->owed, id(2)));
}

static int set_up_features(void **state)
{
    if (set_up(state) != 0) {
        return -1;
    }
    struct fixture *fixture = *state;
    struct projector_config config = projector_config_of(&fixture->a);
    for (size_t i = 0; i < COUNT_OF(features); i++) {
        tables[i] = features[i]->events;
        counts[i] = features[i]->event_count;
    }
    config.tables = tables;
    config.counts = counts;
    config.table_count = COUNT_OF(features);
    assert_fault(projector_start(&config, &fixture->a.projector), NONE);
    return 0;
}

static int tear_down_features(void **state)
{
    struct fixture *fixture = *state;
    projector_stop(TAKE(fixture->a.projector));
    return tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_lost_row_is_found_and_derived_again, set_up_features, tear_down_features),
        cmocka_unit_test_setup_teardown(what_has_ended_is_owed_no_more, set_up_features, tear_down_features),
    };
    return cmocka_run_group_tests_name("codesign/upkeep", tests, NULL, NULL);
}
