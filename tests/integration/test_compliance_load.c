/*
 * What a pack rests on, out of real tables: counts on the window's edges, times that do not follow sequences, another
 * tenant's records, one snapshot, the same as looking at every record, bounded memory; and samples by the API. Run by
 * with-stores. Inventory is played by compliance_testlib.h.
 */
#include "api/audit/audit.h"
#include "api/compliance/compliance.h"
#include "api/compliance/sample_internal.h"
#include "fips/fips.h"

#define FLOW_FEATURE_LIST &identity_feature, &keys_feature, &audit_feature, &compliance_feature
#include "integration/flow_testlib.h"

#include "integration/compliance_testlib.h"

#include <malloc.h>

static struct evidence load(struct op *op, const struct framework *framework)
{
    struct evidence evidence;
    assert_ok(evidence_load(op, &flow_services, framework, NOW, &evidence));
    assert_int_equal(op->tx_open, 0);
    return evidence;
}

static int64_t count_of_type(const struct evidence *evidence, const char *type)
{
    for (size_t i = 0; i < evidence->type_count; i++) {
        if (strcmp(evidence->types[i].type, type) == 0) {
            return evidence->types[i].count;
        }
    }
    return 0;
}

/* ---- counts ---- */

static void the_windows_edges_are_inside_to_the_microsecond(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        { 1, FROM - 1, "a", "x", "{}" }, { 2, FROM, "a", "x", "{}" },    { 3, FROM + 1, "b", "x", "{}" },
        { 4, NOW, "a", "x", "{}" },      { 5, NOW + 1, "a", "x", "{}" },
    };
    CLEANUP(op_freep) struct op *op = test_op("edges", 20000);
    plant("edges", planted, COUNT_OF(planted));
    struct evidence evidence = load(op, NULL);
    assert_int_equal(evidence.window_total, 3);
    assert_int_equal(evidence.outside_total, 2);
    assert_int_equal(count_of_type(&evidence, "a"), 2);
    assert_int_equal(count_of_type(&evidence, "b"), 1);
    assert_int_equal(evidence.window_first, 2);
    assert_int_equal(evidence.window_last, 4);
    assert_int_equal(evidence.head_sequence, 5);
    assert_int_equal(evidence.generation, 1);
    assert_true(evidence.facts.window.from == FROM && evidence.facts.window.to == NOW && evidence.now == NOW);
    assert_int_equal(evidence.facts.gathering_count, 0);
}

static void times_need_not_follow_sequences(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        { 1, NOW - 5, "a", "x", "{}" },  { 2, FROM - DAY_US, "a", "x", "{}" }, { 3, NOW + DAY_US, "a", "x", "{}" },
        { 4, FROM + 5, "a", "x", "{}" }, { 5, FROM - 1, "a", "x", "{}" },      { 6, NOW - DAY_US, "b", "x", "{}" },
        { 7, NOW + 1, "b", "x", "{}" },
    };
    CLEANUP(op_freep) struct op *op = test_op("apart", 20000);
    plant("apart", planted, COUNT_OF(planted));
    struct evidence evidence = load(op, NULL);
    assert_int_equal(evidence.window_total, 3);
    assert_int_equal(evidence.outside_total, 4);
    assert_int_equal(evidence.window_first, 1);
    assert_int_equal(evidence.window_last, 6);
}

static void another_tenants_records_are_never_seen(void **state)
{
    (void)state;
    static const struct planted mine[] = { { 1, NOW - 9, "a", "x", "{}" } };
    static const struct planted others[] = { { 1, NOW - 8, "a", "y", "{}" }, { 2, NOW - 7, "c", "y", "{}" } };
    static const char *const types[] = { "a", "c" };
    static const struct framework_prerequisite asked[] = {
        { .name = "p", .kind = PREREQUISITE_EVENT, .types = types, .type_count = 2, .min = 1, .distinct_actors = 2 },
    };
    static const struct framework_control control = { .id = "C", .prerequisites = asked, .prerequisite_count = 1 };
    static const struct framework framework = { .id = "soc2", .controls = &control, .control_count = 1 };
    CLEANUP(op_freep) struct op *op = test_op("mine", 20000);
    CLEANUP(op_freep) struct op *empty = test_op("nobody", 20000);
    plant("mine", mine, COUNT_OF(mine));
    plant("others", others, COUNT_OF(others));
    struct evidence evidence = load(op, &framework);
    assert_int_equal(evidence.window_total, 1);
    assert_int_equal(evidence.type_count, 1);
    assert_int_equal(evidence.facts.gatherings[0].population.total, 1);
    assert_int_equal(evidence.facts.gatherings[0].actor_count, 1);
    evidence = load(empty, &framework);
    assert_int_equal(evidence.window_total + evidence.outside_total + evidence.head_sequence, 0);
    assert_int_equal(evidence.window_first, 0);
    assert_int_equal(evidence.facts.gatherings[0].population.total, 0);
}

/* Records 1 and 2 are archived, and the second one lies in the window. */
static void what_is_archived_is_excluded_with_its_reason_and_counted_once(void **state)
{
    (void)state;
    static const char *const types[] = { "a" };
    static const struct framework_prerequisite asked[] = {
        { .name = "p", .kind = PREREQUISITE_EVENT, .types = types, .type_count = 1, .min = 1 },
    };
    static const struct framework_control control = { .id = "C", .prerequisites = asked, .prerequisite_count = 1 };
    static const struct framework one = { .id = "soc2", .controls = &control, .control_count = 1 };
    static const struct planted planted[] = {
        { 1, FROM - 9, "a", "x", "{}" }, { 2, FROM + 1, "a", "x", "{}" }, { 3, FROM + 2, "b", "x", "{}" },
        { 4, FROM - 1, "a", "x", "{}" }, { 5, NOW - 1, "a", "x", "{}" },
    };
    CLEANUP(op_freep) struct op *op = test_op("archived", 20000);
    plant("archived", planted, COUNT_OF(planted));
    assert_ok(as_superuser("INSERT INTO svc.audit_checkpoints VALUES ('archived', 2, 1, 1, 1, 1, 1, sha256('a'),"
                           " sha256('b'), 'f', 1, sha256('c'), 1)"));
    struct evidence evidence = load(op, &one);
    const struct evidence_population *population = &evidence.facts.gatherings[0].population;
    assert_int_equal(evidence.archived_through, 2);
    assert_int_equal(evidence.archived_total, 1);
    assert_int_equal(evidence.window_total, 2);
    assert_int_equal(evidence.outside_total, 1);
    assert_int_equal(count_of_type(&evidence, "a"), 1);
    assert_int_equal(population->total, 2);
    assert_int_equal(population->matched, 1);
    assert_int_equal(population->excluded_archived, 1);
    assert_int_equal(evidence.window_total + evidence.outside_total + evidence.archived_through,
                     evidence.head_sequence);
}

static void a_trail_that_lacks_a_record_gives_no_evidence(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        { 1, NOW - 9, "a", "x", "{}" },
        { 2, FROM - 8, "a", "x", "{}" },
        { 3, NOW - 7, "a", "x", "{}" },
    };
    CLEANUP(op_freep) struct op *op = test_op("lacking", 20000);
    struct evidence evidence;
    plant("lacking", planted, COUNT_OF(planted));
    load(op, NULL);
    assert_ok(as_superuser("DELETE FROM svc.audit_records WHERE tenant_id = 'lacking' AND sequence = 2"));
    assert_fault(evidence_load(op, &flow_services, NULL, NOW, &evidence), AUDIT_SOURCE_GAP);
    assert_non_null(strstr(op->note.detail, "should serve 3 records and has 2"));
}

static void all_of_it_is_as_of_one_moment(void **state)
{
    (void)state;
    static const struct planted planted[] = { { 1, NOW - 9, "a", "x", "{}" }, { 2, NOW - 8, "a", "x", "{}" } };
    CLEANUP(op_freep) struct op *op = test_op("moment", 20000);
    plant("moment", planted, COUNT_OF(planted));
    meanwhile =
        "BEGIN; INSERT INTO svc.audit_records SELECT tenant_id, 3, 'e3', type, actor_subject, time_us, 1, record,"
        " chain FROM svc.audit_records WHERE tenant_id = 'moment' AND sequence = 2;"
        " UPDATE svc.audit_heads SET sequence = 3, chain = sha256('3') WHERE tenant_id = 'moment'; COMMIT";
    struct evidence evidence = load(op, NULL);
    meanwhile = NULL;
    assert_int_equal(evidence.window_total, 2);
    assert_int_equal(evidence.head_sequence, 2);
    assert_int_equal(load(op, NULL).window_total, 3);
}

static void inventory_is_taken_over_as_it_speaks(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("nobody", 20000);
    struct evidence evidence = load(op, NULL);
    const struct evidence_fact *custody = &evidence.facts.facts[INVENTORY_FACT_CUSTODY_RECORDED];
    assert_int_equal(evidence.facts.fact_count, INVENTORY_FACT_COUNT);
    assert_string_equal(custody->name, "custody.recorded");
    assert_int_equal(custody->state, FACT_FAILS);
    assert_int_equal(custody->total * 10 + custody->matched, 32);
    assert_true(custody->snapshot == NOW && tenant_id_equal(custody->tenant, tenant("nobody")));
    assert_int_equal(evidence.facts.facts[INVENTORY_FACT_CHAIN_WHOLE].state, FACT_HOLDS);
    assert_int_equal(evidence.facts.facts[INVENTORY_FACT_FIPS_ACTIVE].state, FACT_ABSENT);
    assert_int_equal(evidence.facts.attestation_count, 2);
    assert_false(evidence.facts.attestations[0].malformed);
    assert_true(evidence.facts.attestations[1].malformed); /* no digest of anything */
    assert_true(span_equal_text(evidence.custody, "{\"name\":\"custody\"}"));
    assert_true(span_equal_text(evidence.readiness, "{\"name\":\"readiness\"}"));
}

/* ---- prerequisites: the same as looking at every record ---- */

#define MANY 3000
static struct planted many[MANY];
static char many_data[MANY][64];

static uint64_t chance(uint64_t limit)
{
    static uint64_t seed = 7;
    uint64_t z = seed += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % limit;
}

/* Times go on with the sequences, more or less; one subject does nearly everything. */
static void make_many(void)
{
    static const char *const types[] = { "often", "often", "often", "often", "judged", "judged", "rare" };
    static const char *const actors[] = { "robot", "robot", "robot", "robot", "robot", "robot", "ada", "bob" };
    for (size_t i = 0; i < MANY; i++) {
        utc_us time = FROM - DAY_US + (utc_us)i * 92 * DAY_US / MANY + (utc_us)chance(2 * DAY_US) - DAY_US;
        const char *actor = i < MANY / 2 ? actors[chance(8)] : chance(400) == 0 ? "carol" : "robot";
        static const char *const values[] = { "true", "true", "false", "[]", "tru", "7.5" };
        const char *ok_text = values[chance(20) == 0 ? chance(COUNT_OF(values)) : chance(3)];
        (void)snprintf(many_data[i], sizeof(many_data[i]), "{\"by\":\"%s\",\"ok\":%s}", actors[chance(8)], ok_text);
        many[i] = (struct planted){ (int64_t)i + 1, time, types[chance(7)], actor, many_data[i] };
    }
}

static const char *const just_often[] = { "often" }, *const just_judged[] = { "judged" },
                         *const mixed[] = { "judged", "often", "never" }, *const both[] = { "rare", "often" },
                         *const yes[] = { "true" };
static const struct framework_condition ok[] = { { .path = "data.ok", .values = yes, .value_count = 1 } };
static const struct framework_condition ok_of[] = {
    { .of = "judged", .path = "data.ok", .values = yes, .value_count = 1 },
};
static const struct framework_condition by_another[] = { { .path = "data.by", .differs_from = "actor.subject" } };
#define ASKED(types_, ...)            \
    { .name = "p",                    \
      .kind = PREREQUISITE_EVENT,     \
      .types = (types_),              \
      .type_count = COUNT_OF(types_), \
      .min = 1,                       \
      __VA_ARGS__ }
#define WHERE(conditions) .where = (conditions), .where_count = COUNT_OF(conditions)
static const struct framework_prerequisite first_asked[] = {
    ASKED(just_often, .distinct_actors = 0),
    ASKED(just_often, .distinct_actors = 4),
    ASKED(just_often, .max_age_days = 30, .distinct_actors = 3),
    ASKED(both, .max_age_days = 7),
    { .name = "f", .kind = PREREQUISITE_FACT, .fact = "custody.recorded" },
    ASKED(mixed, .distinct_actors = 8),
};
static const struct framework_prerequisite second_asked[] = {
    ASKED(just_judged, WHERE(ok)),
    ASKED(just_judged, WHERE(ok), .max_age_days = 30, .distinct_actors = 4),
    ASKED(mixed, WHERE(ok_of), .max_age_days = 45, .distinct_actors = 4),
    ASKED(both, WHERE(by_another)),
    ASKED(mixed, WHERE(ok_of), .max_age_days = 90),
};
static const struct framework_control controls[] = {
    { .id = "1", .prerequisites = first_asked, .prerequisite_count = COUNT_OF(first_asked) },
    { .id = "2", .prerequisites = second_asked, .prerequisite_count = COUNT_OF(second_asked) },
};
static const struct framework framework = { .id = "soc2", .controls = controls, .control_count = COUNT_OF(controls) };

static struct gathering look_at_all(struct op *op, struct op *scratch, const struct gathering *found)
{
    static char record[4096];
    struct gathering all;
    gathering_init(&all, found->prerequisite, found->tenant, found->window);
    for (size_t i = MANY; i-- > 0;) {
        const struct planted *p = &many[i];
        struct evidence_event event = { .tenant = op->tenant,
                                        .event_id = "e",
                                        .type = p->type,
                                        .actor = p->actor,
                                        .sequence = p->sequence,
                                        .time = p->time };
        print_record(op->tenant.text, p, record, sizeof(record));
        event.record = span_text(record);
        if (p->time >= FROM && p->time <= NOW &&
            load_has_type(found->prerequisite->types, found->prerequisite->type_count, p->type)) {
            arena_clear(scratch->arena);
            assert_ok(gather_take(op, scratch, &all, &event));
        }
    }
    return all;
}

static void assert_same_gathering(const struct gathering *found, const struct gathering *all)
{
    assert_memory_equal(&found->population, &all->population, sizeof(all->population));
    assert_int_equal(found->newest_malformed, all->newest_malformed);
    assert_int_equal(found->newest_stale, all->newest_stale);
    assert_int_equal(found->newest, all->newest);
    assert_int_equal(found->actor_count, all->actor_count);
    for (size_t i = 0; i < all->actor_count; i++) {
        assert_string_equal(found->actors[i], all->actors[i]);
    }
    assert_int_equal(found->reference_count, all->reference_count);
    for (size_t i = 0; i < all->reference_count; i++) {
        assert_int_equal(found->references[i].sequence, all->references[i].sequence);
    }
}

static void what_is_gathered_is_what_looking_at_every_record_gives(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("many", 60000);
    CLEANUP(op_freep) struct op *scratch = test_op("many", 60000);
    make_many();
    plant("many", many, MANY);
    assert_ok(as_superuser("ANALYZE svc.audit_records"));
    struct evidence evidence = load(op, &framework);
    assert_int_equal(evidence.facts.gathering_count, 10);
    for (size_t i = 0; i < evidence.facts.gathering_count; i++) {
        const struct gathering *found = &evidence.facts.gatherings[i];
        struct gathering all = look_at_all(op, scratch, found);
        assert_true(all.population.total > 0);
        assert_same_gathering(found, &all);
    }
}

/* ---- memory ---- */

/* 6,000 records of 8 KB, each looked at; a page is 4 MiB, which is half of what a slice would be in number. */
static void memory_does_not_grow_with_the_records(void **state)
{
    (void)state;
    static const char *const types[] = { "long" };
    static const struct framework_prerequisite asked[] = { ASKED(types, WHERE(ok)) };
    static const struct framework_control control = { .id = "1", .prerequisites = asked, .prerequisite_count = 1 };
    static const struct framework of_long = { .id = "soc2", .controls = &control, .control_count = 1 };
    CLEANUP(op_freep) struct op *op = test_op("long", 60000);
    assert_ok(as_superuser(
        "INSERT INTO svc.audit_records SELECT 'long', i, 'e' || i, 'long', 'x', 1794000000000000 + i, 1,"
        " convert_to('{\"data\":{\"filler\":\"' || repeat(md5(i::text), 250) || '\",\"ok\":true},\"tenant_id\":\"long\","
        "\"type\":\"long\"}', 'UTF8'), sha256('x') FROM generate_series(1, 6000) i;"
        "INSERT INTO svc.audit_heads VALUES ('long', 6000, sha256('x'))"));
    struct evidence evidence = load(op, &of_long); /* warm */
    size_t used = arena_used(op->arena);
    struct mallinfo2 before = mallinfo2();
    evidence = load(op, &of_long);
    struct mallinfo2 after = mallinfo2();
    assert_int_equal(evidence.facts.gatherings[0].population.matched, 6000);
    assert_true(arena_used(op->arena) - used < 64 * 1024);
    assert_true(after.arena + after.hblkhd < before.arena + before.hblkhd + ((size_t)8 << 20));
}

/* ---- samples ---- */

static char auditor[TOKEN_TEXT_MAX];

static struct answer *ask(const char *query, const char *token)
{
    static struct answer answer;
    char target[512];
    (void)snprintf(target, sizeof(target), "/api/v1/compliance/populations/%s", query);
    flow_call("GET", target, token, NULL, NULL, 20000, &answer);
    return &answer;
}

static void a_sample_that_cannot_be_drawn_again_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        int status;
        const char *code, *says;
    } cases[] = {
        { "soc2/sample", 400, "bad_query", "seed" },
        { "soc2/sample?seed=", 400, "bad_query", "seed" },
        { "soc2/sample?seed=a%20b", 400, "bad_query", "seed" },
        { "soc2/sample?seed=s&n=0", 400, "bad_query", "n: " },
        { "soc2/sample?seed=s&n=501", 400, "bad_query", "n: " },
        { "soc2/sample?seed=s&n=-1", 400, "bad_query", "n: " },
        { "soc2/sample?seed=s&to=2999-01-01T00:00:00Z", 400, "bad_query", "past" },
        { "soc2/sample?seed=s&to=yesterday", 400, "bad_query", "RFC 3339" },
        { "soc2/sample?seed=s&head_sequence=999999", 400, "bad_query", "newest record" },
        { "soc2/sample?seed=s&control=CC7", 400, "bad_query", "go together" },
        { "soc2/sample?seed=s&prerequisite=x", 400, "bad_query", "go together" },
        { "soc2/sample?seed=s&control=CC99&prerequisite=x", 400, "bad_query", "no such control" },
        { "soc2/sample?seed=s&control=CC7&prerequisite=x", 400, "bad_query", "no such prerequisite" },
        { "soc2/sample?seed=s&control=CC6&prerequisite=complete-ownership", 400, "bad_query",
          "not about audit records" },
    };
    uint64_t last = flow_log_last();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct answer *answer = ask(cases[i].query, auditor);
        if (answer->status != cases[i].status || strstr(answer->body, cases[i].says) == NULL) {
            fail_msg("%s: %d %s", cases[i].query, answer->status, answer->body);
        }
    }
    assert_status(ask("iso-27001/sample?seed=s", auditor), 404);
    assert_status(ask("soc2/sample?seed=s", NULL), 401);
    assert_int_equal(flow_log_last(), last); /* nothing was given, nothing is recorded */
}

/* The text between two marks of the answer, in static storage. */
static const char *between(const char *text, const char *begin, const char *end)
{
    static char found[4][4096];
    static unsigned turn;
    char *out = found[turn++ % 4];
    const char *at = strstr(text, begin);
    assert_non_null(at);
    at += strlen(begin);
    (void)snprintf(out, sizeof(found[0]), "%.*s", (int)(strstr(at, end) - at), at);
    return out;
}

static void the_same_seed_draws_the_same_records_again_later(void **state)
{
    (void)state;
    char query[256], ranks[512], records[60000];
    char unused[TOKEN_TEXT_MAX];
    for (int i = 0; i < 12; i++) {
        flow_token("sampled", "someone", "auditor", unused);
    }
    uint64_t before = flow_log_last();
    struct answer *answer = ask("soc2/sample?seed=2026-Q3&n=6", auditor);
    assert_status(answer, 200);
    assert_int_equal(flow_log_last(), before + 1); /* compliance.pack.read */
    (void)snprintf(ranks, sizeof(ranks), "%s", between(answer->body, "\"ranks\":[", "]"));
    (void)snprintf(records, sizeof(records), "%s", strstr(answer->body, "\"records\":["));
    (void)snprintf(query, sizeof(query), "soc2/sample?seed=2026-Q3&n=6&to=%s&head_sequence=%s",
                   between(answer->body, "\"to\":\"", "\""), between(answer->body, "\"head_sequence\":", "}"));
    answer = ask(query, auditor); /* there are more records by now */
    assert_status(answer, 200);
    assert_string_equal(between(answer->body, "\"ranks\":[", "]"), ranks);
    assert_string_equal(strstr(answer->body, "\"records\":["), records);
    answer = ask("soc2/sample?seed=another&n=6", auditor);
    assert_string_not_equal(between(answer->body, "\"ranks\":[", "]"), ranks);
}

static struct sample draw(struct op *op, const struct sample_wish *wish)
{
    static struct sample sample;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    assert_ok(tx_begin_snapshot(op, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(sample_choose(op, tx, wish, &sample));
    return sample;
}

static void a_record_that_comes_later_with_an_earlier_time_changes_no_sample_of_before(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        { 1, NOW - 5, "a", "x", "{}" }, { 2, NOW - 9, "b", "x", "{}" }, { 3, NOW - 7, "a", "x", "{}" },
        { 4, NOW + 1, "a", "x", "{}" }, { 5, NOW - 6, "a", "x", "{}" },
    };
    static const struct planted late[] = { { 6, NOW - 8, "a", "x", "{}" } };
    static const int64_t by_time[] = { 2, 3, 5, 1 };
    const struct sample_wish wish = { .seed = "s", .n = 500, .through = 5, .to = NOW };
    CLEANUP(op_freep) struct op *op = test_op("late", 20000);
    plant("late", planted, COUNT_OF(planted));
    for (int i = 0; i < 2; i++) {
        struct sample sample = draw(op, &wish);
        assert_int_equal(sample.n, COUNT_OF(by_time));
        for (size_t at = 0; at < sample.n; at++) {
            assert_int_equal(sample.sequences[at], by_time[sample.ranks[at] - 1]);
        }
        if (i == 0) {
            plant("late", late, COUNT_OF(late));
        }
    }
    assert_int_equal(draw(op, &(struct sample_wish){ .seed = "s", .n = 1, .to = NOW }).population.count, 5);
}

static void a_population_that_is_smaller_comes_whole_and_by_rank(void **state)
{
    (void)state;
    struct answer *answer = ask("soc2/sample?seed=s&n=500&control=CC7&prerequisite=credential-lifecycle", auditor);
    assert_status(answer, 200);
    assert_non_null(strstr(answer->body, "\"types\":[\"key.generated\""));
    int64_t total = strtoll(between(answer->body, "\"total\":", ","), NULL, 10), counted = 0;
    assert_true(total >= 12);
    for (const char *at = answer->body; (at = strstr(at, "{\"rank\":")) != NULL; at++) {
        counted++;
    }
    assert_int_equal(counted, total);
    assert_null(strstr(answer->body, "\"type\":\"tenant.created\"")); /* not of the population */
    assert_non_null(strstr(answer->body, "\"type\":\"identity.token.issued\""));
}

static int start(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    flow_start();
    flow_token("sampled", "auditor", "auditor", auditor);
    op = test_op("sampled", 12000);
    assert_ok(compliance_feature.start(op, &flow_services));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    flow_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_windows_edges_are_inside_to_the_microsecond),
        cmocka_unit_test(times_need_not_follow_sequences),
        cmocka_unit_test(another_tenants_records_are_never_seen),
        cmocka_unit_test(what_is_archived_is_excluded_with_its_reason_and_counted_once),
        cmocka_unit_test(a_trail_that_lacks_a_record_gives_no_evidence),
        cmocka_unit_test(all_of_it_is_as_of_one_moment),
        cmocka_unit_test(inventory_is_taken_over_as_it_speaks),
        cmocka_unit_test(what_is_gathered_is_what_looking_at_every_record_gives),
        cmocka_unit_test(memory_does_not_grow_with_the_records),
        cmocka_unit_test(a_sample_that_cannot_be_drawn_again_is_refused),
        cmocka_unit_test(the_same_seed_draws_the_same_records_again_later),
        cmocka_unit_test(a_record_that_comes_later_with_an_earlier_time_changes_no_sample_of_before),
        cmocka_unit_test(a_population_that_is_smaller_comes_whole_and_by_rank),
    };
    return cmocka_run_group_tests_name("compliance_load", tests, start, stop);
}
