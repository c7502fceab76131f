/* A tenant's history that is replaced: activation, regeneration, scrub, and damage that is still found afterwards. */
#include "projection_testlib.h"

#include "appliance/base/codec.h"
#include "appliance/base/json_view.h"

#define PLANTED 40 /* odd sequences are acme's, even ones other's */

static struct fault project_activated(struct projection *projection, const struct event_view *event)
{
    struct op *op = projection_op(projection);
    struct view data;
    struct history_generation generation = { .erasure_id = "e", .statement = "s" };
    TRY(view_of(op, event->data, &data));
    TRY(view_int(view_get(data, "generation"), &generation.generation));
    TRY(view_int(view_get(data, "count"), &generation.replaced));
    return projection_generation(projection, &generation);
}

static const struct event_row history_rows[] = {
    { "test.said", 1, project_said, "" },
    { "test.settled", 1, project_settled, "" },
    { EVENTS_ACTIVATED, 1, project_activated, "" },
};
static const struct event_row *const history_tables[] = { history_rows };
static const size_t history_counts[] = { COUNT_OF(history_rows) };

static struct projector_config history_config(struct instance *instance)
{
    struct projector_config config = projector_config_of(instance);
    config.tables = history_tables;
    config.counts = history_counts;
    return config;
}

static void project(struct instance *instance)
{
    struct projector_config config = history_config(instance);
    assert_fault(projector_start(&config, &instance->projector), NONE);
}

static const char *tenant_of(int seq)
{
    return seq % 2 == 1 ? "acme" : "other";
}

static void body_by(int seq, const char *who, struct buf *out)
{
    char data[32];
    (void)snprintf(data, sizeof(data), "{\"n\":%d}", seq == 5 ? 1005 : seq); /* one of them queues an outbox row */
    struct event event = { "test.said", 1, span_text(data) };
    struct principal actor = { 0 };
    (void)snprintf(actor.subject, sizeof(actor.subject), "%s", who);
    struct event_body body = { .actor = &actor,
                               .lane = "a",
                               .trace_id = "",
                               .message_id = id_of(seq),
                               .time = 1000000LL * seq,
                               .events = &event,
                               .count = 1 };
    (void)snprintf(body.tenant.text, sizeof(body.tenant.text), "%s", tenant_of(seq));
    assert_fault(event_message_encode(&body, out), NONE);
}

static void plant_all(struct fixture *fixture)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    for (int seq = 1; seq <= PLANTED; seq++) {
        char subject[64];
        body_by(seq, seq % 4 == 1 ? "alice@example.com" : "bob", &body);
        (void)snprintf(subject, sizeof(subject), "svc.events.%s.a", tenant_of(seq));
        assert_int_equal(plant(fixture->raw, subject, buf_span(&body)), seq);
    }
}

/* Replacements of every fourth message by somebody else. */
static size_t lay_down(struct event_log *log, int64_t generation, const char *who, struct event_replacement *entries,
                       struct sha256 *ret_digest)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    size_t count = 0;
    for (int seq = 1; seq <= PLANTED; seq += 4) {
        body_by(seq, who, &body);
        entries[count] = (struct event_replacement){ .stream_seq = (uint64_t)seq, .generation = generation };
        assert_fault(sha256_of(buf_span(&body), &entries[count].digest), NONE);
        assert_fault(event_history_put(op, log, generation, (uint64_t)seq, buf_span(&body)), NONE);
        assert_fault(event_history_put(op, log, generation, (uint64_t)seq, buf_span(&body)), NONE); /* a repetition */
        count++;
    }
    assert_fault(event_history_put(op, log, generation, 1, span_text("{}")), LOG_CONFLICT);
    op->note = (struct fault_note){ 0 };
    assert_fault(event_history_put_list(op, log, generation, entries, count, ret_digest), NONE);
    assert_fault(event_history_put_list(op, log, generation, entries, count, ret_digest), NONE);
    return count;
}

static uint64_t activate(struct event_log *log, int64_t generation, size_t count, const struct sha256 *digest)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    char data[256], hex[2 * SHA256_LEN + 1];
    uint64_t seq = 0;
    hex_text(SPAN_ARRAY(digest->at), hex, sizeof(hex));
    (void)snprintf(data, sizeof(data), "{\"count\":%zu,\"digest\":\"%s\",\"generation\":%lld}", count, hex,
                   (long long)generation);
    struct event event = { EVENTS_ACTIVATED, 1, span_text(data) };
    struct event_append append = { .lane = EVENTS_PRIVACY_LANE, .events = &event, .count = 1 };
    assert_fault(events_append(op, log, &append, &seq), NONE);
    return seq;
}

static void erase(struct event_log *log, const struct event_replacement *entries, size_t count)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    for (size_t i = 0; i < count; i++) {
        assert_fault(event_log_erase(op, log, &entries[i]), NONE);
        assert_fault(event_log_erase(op, log, &entries[i]), NONE); /* a repetition */
    }
    struct event_replacement not_replaced = { .stream_seq = 3, .generation = 2 };
    assert_fault(event_log_erase(op, log, &not_replaced), BAD_ARGUMENT);
}

#define DUMP(table, order) "SELECT coalesce(string_agg(md5(t::text), ',' ORDER BY " order "), '') FROM svc." table " t"
static const char *const dumps[] = {
    DUMP("audit_records", "tenant_id, sequence"),
    DUMP("audit_heads", "tenant_id"),
    DUMP("audit_tiles", "tenant_id, level, tile"),
    DUMP("test_said", "tenant_id, sequence"),
    DUMP("event_envelopes", "stream_seq"),
    DUMP("projection_checkpoint", "id"),
    DUMP("audit_generations", "tenant_id, generation"),
    DUMP("outbox", "id"),
};
struct dump {
    char *at[COUNT_OF(dumps)];
};
static struct dump dump_all(const struct config *config)
{
    struct dump made;
    for (size_t i = 0; i < COUNT_OF(dumps); i++) {
        made.at[i] = admin_text(config, dumps[i]);
    }
    return made;
}
static void assert_same_and_free(struct dump *a, struct dump *b)
{
    for (size_t i = 0; i < COUNT_OF(dumps); i++) {
        assert_string_equal(a->at[i], b->at[i]);
        mem_free(a->at[i]);
        mem_free(b->at[i]);
    }
}

static void rebuild(struct fixture *fixture)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    uint64_t messages = 0;
    instance_close(&fixture->a);
    assert_fault(store_empty_projections(&fixture->config, &why), NONE);
    instance_open(&fixture->a, &fixture->config);
    struct projector_config config = history_config(&fixture->a);
    assert_fault(projection_rebuild(op, &config, &messages), NONE);
}

static void assert_trusted_after_walk(struct fixture *fixture)
{
    /* Trusted at the start means: all was compared. */
    instance_close(&fixture->b);
    instance_open(&fixture->b, &fixture->config);
    CLEANUP(op_freep) struct op *op = op_of("", 20000);
    struct trust_walk walk = { 0 };
    struct trust_verdict verdict = { 0 };
    bool end = false;
    assert_fault(trust_walk_start(op, fixture->b.store, fixture->b.log, &walk), NONE);
    while (!end) {
        assert_fault(trust_walk_step(op, fixture->b.store, &walk, &verdict, &end), NONE);
    }
    trust_walk_stop(&walk);
    assert_int_equal(verdict.cause, TRUST_GOOD);
    uint64_t sample = 0;
    for (int i = 0; i < 8; i++) {
        assert_fault(trust_glance(op, fixture->b.store, fixture->b.log, &sample, &verdict), NONE);
        assert_int_equal(verdict.cause, TRUST_GOOD);
    }
}

static int64_t holds_alice(const struct config *config)
{
    return admin_int(config,
                     "SELECT (SELECT count(*) FROM svc.audit_records WHERE tenant_id = 'acme' AND"
                     " position('alice'::bytea in record) > 0) + (SELECT count(*) FROM svc.event_envelopes WHERE"
                     " tenant_id = 'acme' AND position('alice'::bytea in body) > 0)");
}

static void a_replaced_history_is_regenerated_scrubbed_and_rebuilt_to_the_same_bytes(void **state)
{
    struct fixture *fixture = *state;
    struct event_replacement entries[PLANTED], again[PLANTED];
    struct sha256 digest;
    project(&fixture->a);
    plant_all(fixture);
    assert_fault(wait_for(&fixture->a, PLANTED, 20000), NONE);
    char *others = admin_text(&fixture->config, "SELECT string_agg(md5(t::text), ',' ORDER BY sequence) FROM"
                                                " svc.audit_records t WHERE tenant_id = 'other'");
    assert_int_equal(holds_alice(&fixture->config), 20);

    size_t count = lay_down(fixture->a.log, 2, "erased:1", entries, &digest);
    struct dump before = dump_all(&fixture->config);
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    assert_fault(projection_rehearse(op, fixture->a.projector, entries, count), NONE);
    struct dump rehearsed = dump_all(&fixture->config);
    assert_same_and_free(&before, &rehearsed);

    uint64_t seq = activate(fixture->a.log, 2, count, &digest);
    assert_fault(wait_for(&fixture->a, seq, 30000), NONE);
    assert_int_equal(holds_alice(&fixture->config), 0);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.history_staging"), 0);
    char *others_now = admin_text(&fixture->config, "SELECT string_agg(md5(t::text), ',' ORDER BY sequence) FROM"
                                                    " svc.audit_records t WHERE tenant_id = 'other'");
    assert_string_equal(others, others_now);
    mem_free(others);
    mem_free(others_now);
    assert_trusted_after_walk(fixture);

    erase(fixture->a.log, entries, count);
    assert_trusted_after_walk(fixture);
    assert_true(state_of(&fixture->a).log_trusted);
    struct dump live = dump_all(&fixture->config);
    rebuild(fixture);
    struct dump rebuilt = dump_all(&fixture->config);
    assert_same_and_free(&live, &rebuilt);

    /* A second generation over the first, and what was the first's is scrubbed too. */
    project(&fixture->a);
    (void)say(&fixture->a, "acme", 77);
    count = lay_down(fixture->a.log, 3, "erased:2", again, &digest);
    seq = activate(fixture->a.log, 3, count, &digest);
    assert_fault(wait_for(&fixture->a, seq, 30000), NONE);
    erase(fixture->a.log, again, count);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.audit_records WHERE actor_subject = "
                                                 "'erased:1'"),
                     0);
    assert_trusted_after_walk(fixture);
    live = dump_all(&fixture->config);
    rebuild(fixture);
    rebuilt = dump_all(&fixture->config);
    assert_same_and_free(&live, &rebuilt);
}

static void an_activation_that_waits_is_applied_at_the_next_start_and_a_rebuild_before_it_gives_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct event_replacement entries[PLANTED];
    struct sha256 digest;
    project(&fixture->a);
    plant_all(fixture);
    assert_fault(wait_for(&fixture->a, PLANTED, 20000), NONE);
    size_t count = lay_down(fixture->a.log, 2, "erased:1", entries, &digest);
    instance_close(&fixture->a); /* as a crash between the event and its projection */
    uint64_t seq = activate(fixture->raw, 2, count, &digest);
    assert_trusted_after_walk(fixture); /* the log reads newer than the copies are, and is no less trusted for it */
    rebuild(fixture);                   /* with copies of what is superseded */
    struct dump rebuilt = dump_all(&fixture->config);
    assert_int_equal(holds_alice(&fixture->config), 0);

    admin_script(&fixture->config, "DELETE FROM svc.event_envelopes");
    rebuild(fixture);
    struct dump without = dump_all(&fixture->config);
    project(&fixture->a);
    assert_fault(wait_for(&fixture->a, seq, 30000), NONE);
    assert_same_and_free(&rebuilt, &without);
    assert_trusted_after_walk(fixture);
}

static void damage_is_found_after_a_scrub_as_before(void **state)
{
    struct fixture *fixture = *state;
    struct event_replacement entries[PLANTED];
    struct sha256 digest;
    project(&fixture->a);
    plant_all(fixture);
    assert_fault(wait_for(&fixture->a, PLANTED, 20000), NONE);
    size_t count = lay_down(fixture->a.log, 2, "erased:1", entries, &digest);
    uint64_t seq = activate(fixture->a.log, 2, count, &digest);
    assert_fault(wait_for(&fixture->a, seq, 30000), NONE);
    erase(fixture->a.log, entries, count);
    assert_trusted_after_walk(fixture);

    assert_int_equal(js_DeleteMsg(fixture->raw->js, "TEST", 10, NULL, NULL), NATS_OK);
    CLEANUP(op_freep) struct op *op = op_of("", 20000);
    struct event_log_state now;
    assert_fault(event_log_state_now(op, fixture->b.log, &now), NONE);
    assert_int_equal(now.first_missing, 10);

    /* A replacement that is gone is a gap too: nothing stands in for it. */
    natsMsg *message = NULL;
    assert_int_equal(js_GetLastMsg(&message, fixture->raw->js, "TEST_history", "svc.history.acme.2.5", NULL, NULL),
                     NATS_OK);
    uint64_t at = natsMsg_GetSequence(message);
    natsMsg_Destroy(message);
    assert_int_equal(js_DeleteMsg(fixture->raw->js, "TEST_history", at, NULL, NULL), NATS_OK);
    struct event_message got;
    assert_fault(event_log_get(op, fixture->b.log, 5, &got), LOG_UNTRUSTED);
    struct trust_walk walk = { 0 };
    struct trust_verdict verdict = { 0 };
    bool end = false;
    assert_fault(trust_walk_start(op, fixture->b.store, fixture->b.log, &walk), NONE);
    while (!end) {
        assert_fault(trust_walk_step(op, fixture->b.store, &walk, &verdict, &end), NONE);
    }
    trust_walk_stop(&walk);
    assert_int_equal(verdict.cause, TRUST_GAP);
    assert_int_equal(verdict.first_bad_seq, 5);
}

/* A backup is read through the replacements. */
static void a_restored_log_has_the_replacements_in_their_places_and_is_trusted(void **state)
{
    struct fixture *fixture = *state;
    struct event_replacement entries[PLANTED];
    struct event_message messages[PLANTED + 1];
    struct sha256 digest;
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    project(&fixture->a);
    plant_all(fixture);
    assert_fault(wait_for(&fixture->a, PLANTED, 20000), NONE);
    size_t count = lay_down(fixture->a.log, 2, "erased:1", entries, &digest);
    assert_int_equal(activate(fixture->a.log, 2, count, &digest), PLANTED + 1);
    assert_fault(wait_for(&fixture->a, PLANTED + 1, 30000), NONE);
    erase(fixture->a.log, entries, count);
    assert_fault(event_reader_new(fixture->a.log, 1, &reader), NONE);
    for (size_t i = 0; i < COUNT_OF(messages); i++) {
        assert_fault(event_reader_next(op, reader, op->deadline, &messages[i]), NONE);
        assert_int_equal(messages[i].stream_seq, i + 1);
    }
    event_reader_free(TAKE(reader));
    instance_close(&fixture->a);
    delete_stream(fixture->raw);
    assert_int_equal(js_DeleteStream(fixture->raw->js, "TEST_history", NULL, NULL), NATS_OK);
    make_soft_stream(fixture->raw, 0);
    for (size_t i = 0; i < COUNT_OF(messages); i++) {
        char subject[128];
        (void)snprintf(subject, sizeof(subject), "svc.events.%s.%s", messages[i].tenant.text,
                       messages[i].events[0].lane);
        (void)plant(fixture->raw, subject, messages[i].body);
    }
    harden_stream(fixture->raw);
    assert_trusted_after_walk(fixture);
    instance_open(&fixture->a, &fixture->config);
    struct dump live = dump_all(&fixture->config);
    rebuild(fixture);
    struct dump rebuilt = dump_all(&fixture->config);
    assert_same_and_free(&live, &rebuilt);
}

static void a_list_that_is_not_the_activated_one_stops_the_start(void **state)
{
    struct fixture *fixture = *state;
    struct event_replacement entries[PLANTED];
    struct sha256 digest;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct event_log *log = NULL;
    plant_all(fixture);
    size_t count = lay_down(fixture->raw, 2, "erased:1", entries, &digest);
    digest.at[0] ^= 1;
    (void)activate(fixture->raw, 2, count, &digest);
    assert_fault(event_log_open(&fixture->config, &why, &log), LOG_UNTRUSTED);
    CLEANUP(op_freep) struct op *op = op_of("", 20000);
    assert_fault(event_log_history_load(op, fixture->raw), LOG_UNTRUSTED);
    assert_false(event_log_replaced(fixture->raw, 1, NULL)); /* what was known stays */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(a_replaced_history_is_regenerated_scrubbed_and_rebuilt_to_the_same_bytes),
        WITH_STORES(an_activation_that_waits_is_applied_at_the_next_start_and_a_rebuild_before_it_gives_the_same),
        WITH_STORES(damage_is_found_after_a_scrub_as_before),
        WITH_STORES(a_restored_log_has_the_replacements_in_their_places_and_is_trusted),
        WITH_STORES(a_list_that_is_not_the_activated_one_stops_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
