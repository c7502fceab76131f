/* Many events at once give the rows that the same events give one at a time, whatever the batches are. */
#include "projection_testlib.h"

#include "api/codesign/codesign.h"
#include "api/feature.h"
#include "api/keys/keys.h"

#include <stdarg.h>

#define MESSAGES_MAX 400

static const struct event_row *tables[2];
static size_t counts[2];
static struct event_message log_of[MESSAGES_MAX];
static struct uuid ids[64]; /* the same number, the same id */

static const char *id(unsigned number)
{
    if (ids[number].text[0] == '\0') {
        (void)snprintf(ids[number].text, sizeof(ids[0].text), "00000000-0000-8000-8000-%012x", number);
    }
    return ids[number].text;
}

__attribute__((format(printf, 4, 5))) static void happen(struct fixture *fixture, const char *tenant_text,
                                                         const char *type, const char *format, ...)
{
    CLEANUP(op_freep) struct op *op = op_of(tenant_text, 10000);
    char data[2048];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(data, sizeof(data), format, args);
    va_end(args);
    uint64_t seq = 0;
    struct event event = { type, 1, span_text(data) };
    struct event_append append = { .lane = "a", .events = &event, .count = 1 };
    assert_fault(events_append(op, fixture->a.log, &append, &seq), NONE);
}

static void command(struct fixture *fixture, const char *tenant_text, unsigned operation, unsigned key, int position)
{
    happen(fixture, tenant_text, "codesign.commanded",
           "{\"artifact_type\":\"file\",\"command_fingerprint\":\"%064d\",\"command_id\":\"%s\",\"count\":1,"
           "\"digest_algorithm\":\"sha256\",\"key_id\":\"%s\",\"mode\":\"key\",\"operation_id\":\"%s\",\"position\":%d,"
           "\"request_fingerprint\":\"%064d\",\"sealed_command\":\"c2VhbGVk\",\"signature_scheme\":\"ecdsa\","
           "\"transparency_destination\":\"none\"}",
           operation, id(operation), id(key), id(operation), position, operation);
}

static void sign(struct fixture *fixture, const char *tenant_text, unsigned operation, unsigned key, char mark)
{
    happen(
        fixture, tenant_text, "codesign.signed",
        "{\"algorithm\":\"ec-p256\",\"artifact_type\":\"file\",\"digest\":\"%c%041dA=\",\"digest_algorithm\":\"sha256\","
        "\"key_id\":\"%s\",\"operation_id\":\"%s\",\"principal\":\"p\",\"signature\":\"QUJD\","
        "\"signature_scheme\":\"ecdsa\"}",
        mark, 0, id(key), id(operation));
}

static void end(struct fixture *fixture, const char *tenant_text, const char *type, unsigned operation)
{
    const char *more = strcmp(type, "codesign.completed") == 0 ? "\"transparency_destination\":\"none\""
                                                               : "\"code\":\"policy_denied\"";
    happen(fixture, tenant_text, type, "{\"command_id\":\"%s\",\"mode\":\"%s\",\"operation_id\":\"%s\",%s}",
           id(operation), strcmp(type, "codesign.failed") == 0 ? "keyless" : "key", id(operation), more);
}

static void make_key(struct fixture *fixture, const char *tenant_text, unsigned key, const char *more)
{
    happen(
        fixture, tenant_text, "key.generated",
        "{\"algorithm\":\"ec-p256\",\"key_id\":\"%s\",\"name\":\"k%u\",\"public_key_der\":\"QUJD\",\"purpose\":\"codesign\","
        "\"system\":false%s}",
        id(key), key, more);
}

/* Operations that end well, badly, twice, too early or not at all, of a key with a limit and one without; forty more of
 * each tenant, so that its turn is a long one. */
static void fill(struct fixture *fixture)
{
    static const char *const tenants[] = { "zeta", "acme", "umbrella" };
    for (size_t i = 0; i < COUNT_OF(tenants); i++) {
        make_key(fixture, tenants[i], 1, "");
    }
    for (unsigned round = 0; round < 40; round++) {
        for (size_t i = 0; i < COUNT_OF(tenants); i++) {
            command(fixture, tenants[i], 20 + round, 1, 0);
            if (round % 3 != 0) {
                sign(fixture, tenants[i], 20 + round, 1, 'A');
                end(fixture, tenants[i], "codesign.completed", 20 + round);
            }
        }
    }
    sign(fixture, "acme", 10, 1, 'A'); /* of an operation that is not there yet */
    command(fixture, "acme", 10, 1, 0);
    end(fixture, "acme", "codesign.completed", 10); /* not signed yet */
    command(fixture, "acme", 10, 1, 1);             /* again, and another one */
    sign(fixture, "acme", 10, 1, 'B');
    sign(fixture, "acme", 10, 1, 'C');
    end(fixture, "acme", "codesign.refused", 10); /* too late */
    end(fixture, "acme", "codesign.completed", 10);
    command(fixture, "acme", 20, 1, 1); /* one that an earlier batch has made */
    make_key(fixture, "acme", 2, ",\"max_uses\":2");
    for (unsigned i = 11; i < 15; i++) { /* two of four are granted */
        command(fixture, "acme", i, 2, 0);
    }
    end(fixture, "acme", "codesign.refused", 11); /* gives back its use */
    command(fixture, "acme", 15, 2, 0);
    end(fixture, "acme", "codesign.failed", 12);
    happen(fixture, "acme", "codesign.ephemeral.destroyed", "{\"ephemeral_id\":\"%s\",\"operation_id\":\"%s\"}", id(1),
           id(12));
    command(fixture, "umbrella", 16, 1, 0);
    happen(fixture, "umbrella", "codesign.ephemeral.destroyed", "{\"ephemeral_id\":\"%s\",\"operation_id\":\"%s\"}",
           id(1), id(16));
}

static char *dump(struct fixture *fixture)
{
    return admin_text(
        &fixture->config,
        "SELECT concat_ws(E'\\n--\\n', (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.codesign_operations t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.outbox t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.managed_keys t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.key_claims t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.key_uses t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.audit_records t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.audit_heads t))");
}

static size_t read_log(struct op *op, struct fixture *fixture)
{
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    struct event_log_state state;
    assert_fault(event_log_state_now(op, fixture->a.log, &state), NONE);
    assert_true(state.last_seq <= MESSAGES_MAX);
    assert_fault(event_reader_new(fixture->a.log, 1, &reader), NONE);
    for (size_t i = 0; i < state.last_seq; i++) {
        assert_fault(event_reader_next(op, reader, op->deadline, &log_of[i]), NONE);
    }
    return state.last_seq;
}

/* Into emptied tables, so many messages a transaction; what the database holds then. */
static char *applied_by(struct op *op, struct fixture *fixture, size_t count, size_t each)
{
    CLEANUP(applier_freep) struct applier *applier = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct projector_config config = projector_config_of(&fixture->a);
    config.tables = tables;
    config.counts = counts;
    config.table_count = COUNT_OF(tables);
    assert_fault(store_empty_projections(&fixture->config, &why), NONE);
    assert_fault(applier_new(&config, &applier), NONE);
    assert_fault(applier_load(op, applier), NONE);
    for (size_t at = 0; at < count; at += each) {
        bool outbox = false;
        uint64_t bad = 0;
        size_t piece = count - at < each ? count - at : each;
        struct fault fault = applier_apply(op, applier, &log_of[at], piece, &outbox, &bad);
        if (FAULTED(fault)) {
            (void)fprintf(stderr, "%s %s\n", op->note.detail, op->note.log_detail);
        }
        assert_fault(fault, NONE);
    }
    return dump(fixture);
}

static void any_batches_give_the_same_rows(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("", 120000);
    tables[0] = keys_feature.events;
    counts[0] = keys_feature.event_count;
    tables[1] = codesign_feature.events;
    counts[1] = codesign_feature.event_count;
    fill(fixture);
    size_t count = read_log(op, fixture);
    char *alone = applied_by(op, fixture, count, 1);
    assert_true(strlen(alone) > 100000);
    assert_non_null(strstr(alone, ",refused,"));
    assert_non_null(strstr(alone, ",failed,"));
    static const size_t sizes[] = { 7, 8, 33, 100, MESSAGES_MAX };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char *together = applied_by(op, fixture, count, sizes[i]);
        assert_string_equal(together, alone);
        mem_free(together);
    }
    mem_free(alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(any_batches_give_the_same_rows),
    };
    return cmocka_run_group_tests_name("codesign/fold", tests, NULL, NULL);
}
