/* The idempotency state machine against a real PostgreSQL. Run inside with-postgres. */
#include "integration/store_testlib.h"

#include "api/server/idempotency.h"
#include "api/server/presence.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

static struct store *store;
static struct uuid here; /* the instance that makes claims */
static struct presence *presence;

static int open_store(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    use_config();
    migrate();
    struct fault fault = store_open(test_config, &why, &store);
    if (FAULTED(fault)) {
        print_error("%.*s", (int)why.len, (const char *)why.at);
    }
    assert_ok(fault);
    CLEANUP(op_freep) struct op *op = test_op("acme", 30000);
    assert_ok(uuid_new(&here));
    assert_ok(presence_new(op, store, here, &presence));
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    presence_free(presence);
    store_close(store);
    return 0;
}

static struct op *caller(const char *tenant_text, const char *subject)
{
    struct op *op = test_op(tenant_text, 30000);
    (void)snprintf(op->principal.subject, sizeof(op->principal.subject), "%s", subject);
    return op;
}

static struct idempotency_request asking(const char *key, const char *body)
{
    struct idempotency_request request = {
        .key = key, .route = "things.make", .method = "POST", .path = "/api/v1/things", .body = span_text(body)
    };
    request.instance = here;
    return request;
}

/* One call of a fresh request; the operation's note is left to look at. */
static struct fault claim_as(struct op *op, const char *key, const char *body, struct idempotency_claim *ret_claim,
                             struct response *response)
{
    struct idempotency_request request = asking(key, body);
    op->note = (struct fault_note){ .set = false };
    response_clear(response);
    return idempotency_claim(op, store, &request, ret_claim, response);
}

static struct response good_answer(struct op *op)
{
    static const uint8_t bytes[] = { '{', 0, 0xff, 0x80, '\'', '"', '\\', '\n', '}' };
    struct response response = { .status = 201, .content_type = "application/json", .body = SPAN_ARRAY(bytes) };
    assert_ok(response_add(op, &response, "Location", "/api/v1/things/1"));
    return response;
}

static const char *header(const struct response *response, const char *name)
{
    for (size_t i = 0; i < response->header_count; i++) {
        if (strcmp(response->headers[i].name, name) == 0) {
            return response->headers[i].value;
        }
    }
    return NULL;
}

static void rewind_claims(void)
{
    assert_ok(as_superuser("UPDATE svc.idempotency_keys SET claimed_us = claimed_us - 600000001"));
}

static void another_body_or_caller_is_refused_before_anything_else_is_told(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *alice = caller("acme", "alice");
    CLEANUP(op_freep) struct op *mallory = caller("acme", "mallory");
    struct idempotency_claim claim;
    struct idempotency_claim other;
    struct response response;
    assert_ok(claim_as(alice, "reused", "one", &claim, &response));
    for (int phase = 0; phase < 4; phase++) { /* in progress, abandoned, done, walled */
        if (phase == 1) {
            rewind_claims();
        } else if (phase == 2) {
            response = good_answer(alice);
            assert_ok(idempotency_record(alice, store, &claim, &response, false));
        } else if (phase == 3) {
            assert_ok(as_superuser("UPDATE svc.idempotency_keys SET state = 'indeterminate' WHERE key = 'reused'"));
        }
        assert_fault(claim_as(alice, "reused", "two", &other, &response), IDEMPOTENCY_KEY_REUSED);
        assert_fault(claim_as(mallory, "reused", "one", &other, &response), IDEMPOTENCY_KEY_REUSED);
    }
}

static void the_same_request_in_progress_is_told_to_come_back(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct idempotency_claim other;
    struct response response;
    assert_ok(claim_as(op, "busy", "one", &claim, &response));
    assert_int_equal(claim.state, IDEMPOTENCY_OURS);
    assert_fault(claim_as(op, "busy", "one", &other, &response), IDEMPOTENCY_IN_PROGRESS);
    assert_true(op->note.retry_after_s > 0);
}

static void a_recorded_answer_is_replayed_byte_for_byte(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct idempotency_claim again;
    struct response response;
    assert_ok(claim_as(op, "replay", "one", &claim, &response));
    struct response answer = good_answer(op);
    assert_ok(idempotency_record(op, store, &claim, &answer, false));
    for (int i = 0; i < 3; i++) {
        assert_ok(claim_as(op, "replay", "one", &again, &response));
        assert_int_equal(again.state, IDEMPOTENCY_REPLAYED);
        assert_int_equal(response.status, 201);
        assert_string_equal(response.content_type, "application/json");
        assert_true(span_equal(response.body, answer.body));
        assert_string_equal(header(&response, "Location"), "/api/v1/things/1");
        assert_string_equal(header(&response, "Idempotent-Replayed"), "true");
    }
}

static void an_empty_answer_is_replayed_empty(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct response response;
    assert_ok(claim_as(op, "empty", "", &claim, &response));
    struct response answer = { .status = 204, .content_type = "application/json" };
    assert_ok(idempotency_record(op, store, &claim, &answer, false));
    assert_ok(claim_as(op, "empty", "", &claim, &response));
    assert_int_equal(claim.state, IDEMPOTENCY_REPLAYED);
    assert_int_equal(response.status, 204);
    assert_int_equal(response.body.len, 0);
}

static void a_record_whose_acknowledgement_was_lost_can_be_repeated(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct response response;
    assert_ok(claim_as(op, "twice", "one", &claim, &response));
    struct response answer = good_answer(op);
    assert_ok(idempotency_record(op, store, &claim, &answer, false));
    assert_ok(idempotency_record(op, store, &claim, &answer, false));
}

static void a_released_key_runs_again_under_the_same_command_id(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct response response;
    assert_ok(claim_as(op, "released", "one", &claim, &response));
    struct uuid first = op->command_id;
    idempotency_release(op, store, &claim);
    assert_ok(claim_as(op, "released", "two", &claim, &response)); /* another command may have it too */
    assert_int_equal(claim.state, IDEMPOTENCY_OURS);
    assert_true(uuid_equal(first, op->command_id));
    struct response answer = good_answer(op);
    assert_ok(idempotency_record(op, store, &claim, &answer, false));
    idempotency_release(op, store, &claim); /* too late: the answer stays */
    assert_ok(claim_as(op, "released", "two", &claim, &response));
    assert_int_equal(claim.state, IDEMPOTENCY_REPLAYED);
}

static void an_abandoned_claim_is_taken_over_after_ten_minutes_by_one(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim old;
    struct idempotency_claim new;
    struct idempotency_claim third;
    struct response response;
    assert_ok(claim_as(op, "abandoned", "one", &old, &response));
    assert_ok(
        as_superuser("UPDATE svc.idempotency_keys SET claimed_us = claimed_us - 599000000 WHERE key = 'abandoned'"));
    assert_fault(claim_as(op, "abandoned", "one", &new, &response), IDEMPOTENCY_IN_PROGRESS);
    rewind_claims();
    assert_ok(claim_as(op, "abandoned", "one", &new, &response));
    assert_int_equal(new.state, IDEMPOTENCY_OURS);
    assert_fault(claim_as(op, "abandoned", "one", &third, &response), IDEMPOTENCY_IN_PROGRESS);

    struct response answer = good_answer(op);
    assert_fault(idempotency_record(op, store, &old, &answer, false), IDEMPOTENCY_IN_PROGRESS); /* void by now */
    idempotency_release(op, store, &old);
    assert_fault(claim_as(op, "abandoned", "one", &third, &response), IDEMPOTENCY_IN_PROGRESS);
    assert_ok(idempotency_record(op, store, &new, &answer, false));
    assert_ok(claim_as(op, "abandoned", "one", &third, &response));
    assert_int_equal(third.state, IDEMPOTENCY_REPLAYED);
}

static void an_answer_that_cannot_be_kept_walls_its_key(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct idempotency_claim again;
    struct response response;
    assert_ok(claim_as(op, "walled", "one", &claim, &response));
    assert_ok(as_superuser("ALTER TABLE svc.idempotency_keys ADD CONSTRAINT nothing_is_done"
                           " CHECK (state <> 'done') NOT VALID"));
    struct response answer = good_answer(op);
    struct fault fault = idempotency_record(op, store, &claim, &answer, false);
    assert_ok(as_superuser("ALTER TABLE svc.idempotency_keys DROP CONSTRAINT nothing_is_done"));
    assert_fault(fault, IDEMPOTENCY_INDETERMINATE);
    assert_int_equal(op->note.code, FAULT_IDEMPOTENCY_INDETERMINATE);
    assert_fault(claim_as(op, "walled", "one", &again, &response), IDEMPOTENCY_INDETERMINATE);
    rewind_claims(); /* a wall does not fall with time */
    assert_fault(claim_as(op, "walled", "one", &again, &response), IDEMPOTENCY_INDETERMINATE);
}

static void when_not_even_the_wall_can_be_built_the_caller_is_told_the_same(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct response response;
    assert_ok(claim_as(op, "no-wall", "one", &claim, &response));
    assert_ok(as_superuser("REVOKE UPDATE ON svc.idempotency_keys FROM svc_app"));
    struct response answer = good_answer(op);
    struct fault fault = idempotency_record(op, store, &claim, &answer, false);
    assert_ok(as_superuser("GRANT UPDATE ON svc.idempotency_keys TO svc_app"));
    assert_fault(fault, IDEMPOTENCY_INDETERMINATE);
    assert_fault(claim_as(op, "no-wall", "one", &claim, &response), IDEMPOTENCY_IN_PROGRESS);
}

static void a_secret_answer_is_not_in_the_table_and_not_replayed(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct response response;
    assert_ok(claim_as(op, "secret", "one", &claim, &response));
    struct response answer = { .status = 201, .content_type = "application/json", .body = span_text("svc_acme_hush") };
    assert_ok(idempotency_record(op, store, &claim, &answer, true));
    assert_fault(claim_as(op, "secret", "one", &claim, &response), IDEMPOTENCY_INDETERMINATE);
    assert_ok(
        as_superuser("DO $$ BEGIN IF EXISTS (SELECT 1 FROM svc.idempotency_keys k WHERE k::text LIKE '%hush%' OR"
                     " k::text LIKE '%' || encode('hush', 'hex') || '%') THEN RAISE 'secret kept'; END IF; END $$"));
}

static void a_key_of_one_tenant_is_nothing_to_another(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *acme = caller("acme", "alice");
    CLEANUP(op_freep) struct op *globex = caller("globex", "alice");
    struct idempotency_claim one;
    struct idempotency_claim two;
    struct response response;
    assert_ok(claim_as(acme, "shared", "one", &one, &response));
    assert_ok(claim_as(globex, "shared", "two", &two, &response));
    assert_int_equal(two.state, IDEMPOTENCY_OURS);
    assert_false(uuid_equal(acme->command_id, globex->command_id));
}

static void an_expired_request_claims_nothing(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct response response;
    op->deadline = clock_mono();
    assert_true(FAULTED(claim_as(op, "late", "one", &claim, &response)));
    op->deadline = clock_mono() + 30 * NS_PER_S;
    assert_ok(claim_as(op, "late", "one", &claim, &response));
    assert_int_equal(claim.state, IDEMPOTENCY_OURS);
    op->deadline = clock_mono(); /* ran out while the command ran: its answer is kept all the same */
    struct response answer = good_answer(op);
    assert_ok(idempotency_record(op, store, &claim, &answer, false));
    assert_true(op->deadline <= clock_mono());
}

/* ---- presence ---- */

static struct fault claim_at(struct op *op, struct uuid instance, const char *key, struct idempotency_claim *ret_claim)
{
    struct response response;
    struct idempotency_request request = asking(key, "one");
    request.instance = instance;
    op->note = (struct fault_note){ .set = false };
    response_clear(&response);
    return idempotency_claim(op, store, &request, ret_claim, &response);
}

static void a_claim_of_a_dead_instance_is_taken_over_soon_and_one_of_a_living_is_not(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct uuid other;
    struct presence *others = NULL;
    struct idempotency_claim old;
    struct idempotency_claim new;
    assert_ok(uuid_new(&other));
    assert_ok(presence_new(op, store, other, &others));
    assert_ok(claim_at(op, other, "orphan", &old));
    assert_fault(claim_at(op, here, "orphan", &new), IDEMPOTENCY_IN_PROGRESS);
    presence_free(others);
    struct fault fault = claim_at(op, here, "orphan", &new);
    for (int i = 0; i < 3000 && fault.code == FAULT_IDEMPOTENCY_IN_PROGRESS; i++) {
        (void)poll(NULL, 0, 10);
        fault = claim_at(op, here, "orphan", &new);
    }
    assert_ok(fault);
    assert_int_equal(new.state, IDEMPOTENCY_OURS);
    assert_fault(claim_at(op, other, "orphan", &old), IDEMPOTENCY_IN_PROGRESS); /* whoever has it now is alive */
}

/* A test cannot wait for what has to have lasted: the rows say that it did. */
static void seen_since(struct uuid instance, const char *since)
{
    char script[256];
    (void)snprintf(script, sizeof(script), "UPDATE svc.instances SET since_us = %s WHERE instance = '%s'", since,
                   instance.text);
    assert_ok(as_superuser(script));
}

static void write_instance(struct uuid instance, const char *seen)
{
    char script[512];
    (void)snprintf(script, sizeof(script),
                   "INSERT INTO svc.instances VALUES ('%s', 0, 0, %s) ON CONFLICT (instance) DO UPDATE SET "
                   "seen_us = excluded.seen_us",
                   instance.text, seen);
    assert_ok(as_superuser(script));
}

#define NOW_US "(extract(epoch FROM clock_timestamp()) * 1000000)::int8"

static void a_lost_lock_alone_frees_no_claim(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct uuid other;
    struct idempotency_claim old, new;
    assert_ok(uuid_new(&other)); /* never had a lock */
    assert_ok(claim_at(op, other, "lockless", &old));
    seen_since(here, "0");
    write_instance(other, NOW_US " + 3600000000"); /* seen lately, however slow this machine is */
    assert_fault(claim_at(op, here, "lockless", &new), IDEMPOTENCY_IN_PROGRESS);
    write_instance(other, "0");
    seen_since(here, NOW_US " + 3600000000"); /* as after a failover: we could not have seen it */
    assert_fault(claim_at(op, here, "lockless", &new), IDEMPOTENCY_IN_PROGRESS);
    struct uuid stranger; /* and who is not seen at all may not say it either */
    assert_ok(uuid_new(&stranger));
    assert_fault(claim_at(op, stranger, "lockless", &new), IDEMPOTENCY_IN_PROGRESS);
    seen_since(here, "0");
    struct fault fault = claim_at(op, here, "lockless", &new);
    for (int i = 0; i < 3000 && fault.code == FAULT_IDEMPOTENCY_IN_PROGRESS; i++) {
        (void)poll(NULL, 0, 10); /* a stall of this machine counts as a gap */
        fault = claim_at(op, here, "lockless", &new);
    }
    assert_ok(fault);
    assert_int_equal(new.state, IDEMPOTENCY_OURS);
}

static void a_presence_that_was_lost_is_taken_again(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    char script[512];
    unsigned objid = (unsigned)((uint64_t)presence_key(here) & 0xffffffffu);
    (void)snprintf(script, sizeof(script),
                   "CREATE TABLE public.ended AS SELECT pid, pg_terminate_backend(pid) FROM pg_locks WHERE "
                   "locktype = 'advisory' AND objid = %u",
                   objid);
    assert_ok(as_superuser(script));
    (void)snprintf(script, sizeof(script),
                   "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %u AND "
                   "granted AND pid NOT IN (SELECT pid FROM public.ended)) THEN RAISE 'not yet'; END IF; END $$",
                   objid);
    struct fault fault = as_superuser(script);
    for (int i = 0; i < 600 && FAULTED(fault); i++) {
        (void)poll(NULL, 0, 50);
        fault = as_superuser(script);
    }
    assert_ok(fault);
    assert_ok(as_superuser("DROP TABLE public.ended"));
    struct presence *second = NULL;
    assert_fault(presence_new(op, store, here, &second), CONFLICT); /* it is held */
}

/* ---- the handler's first question travels behind the claim ---- */

static const struct sql SQL_LOOK = { "test_look", "SELECT count(*) FROM svc.idempotency_keys", 0 };

static struct fault look(struct op *op)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, store, STORE_REQUEST, &tx));
    return tx_query(tx, &SQL_LOOK, NULL, 0, &rows);
}

static void claim_question_and_record_cost_two_round_trips(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_request request = asking("trips", "one");
    struct idempotency_claim claim;
    struct response response;
    response_clear(&response);
    assert_ok(idempotency_begin(op, store, &request, &claim, &response));
    assert_int_equal(claim.state, IDEMPOTENCY_SENT);
    assert_ok(look(op));
    assert_int_equal(claim.state, IDEMPOTENCY_OURS);
    assert_int_equal(op->store_waits, 1);
    assert_null(op->ahead);
    struct response answer = good_answer(op);
    assert_ok(idempotency_record(op, store, &claim, &answer, false));
    assert_int_equal(op->store_waits, 2);
}

static void a_question_behind_somebody_elses_claim_fails_and_an_effect_is_not_begun(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim first;
    struct idempotency_claim claim;
    struct response response;
    assert_ok(claim_as(op, "behind", "one", &first, &response));
    struct idempotency_request request = asking("behind", "one");
    assert_ok(idempotency_begin(op, store, &request, &claim, &response));
    assert_fault(look(op), IDEMPOTENCY_IN_PROGRESS);
    assert_fault(idempotency_await(&claim), IDEMPOTENCY_IN_PROGRESS);
    assert_ok(idempotency_begin(op, store, &request, &claim, &response));
    assert_fault(op_settle(op), IDEMPOTENCY_IN_PROGRESS); /* as events_append asks */
    assert_ok(op_settle(op));
    assert_fault(idempotency_await(&claim), IDEMPOTENCY_IN_PROGRESS);
    struct response answer = good_answer(op);
    assert_ok(idempotency_record(op, store, &first, &answer, false));
    op->note = (struct fault_note){ .set = false };
    assert_ok(idempotency_begin(op, store, &request, &claim, &response));
    assert_fault(look(op), IDEMPOTENCY_IN_PROGRESS); /* nothing to run: there is an answer */
    assert_ok(idempotency_await(&claim));
    assert_int_equal(claim.state, IDEMPOTENCY_REPLAYED);
    assert_int_equal(response.status, 201);
}

static void begin_behind(struct op *op, struct idempotency_claim *claim)
{
    struct response response;
    struct idempotency_request request = asking("elsewhere", "one");
    op->note = (struct fault_note){ .set = false };
    response_clear(&response);
    assert_ok(idempotency_begin(op, store, &request, claim, &response));
}

static void what_works_on_another_connection_asks_first(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim first, claim;
    struct response response;
    struct store_lock *lock = NULL;
    struct tx *tx = NULL;
    bool held = false;
    assert_ok(claim_as(op, "elsewhere", "one", &first, &response));
    begin_behind(op, &claim);
    assert_fault(store_lock_try(op, store, 4711, &lock, &held), IDEMPOTENCY_IN_PROGRESS);
    assert_fault(idempotency_await(&claim), IDEMPOTENCY_IN_PROGRESS);
    begin_behind(op, &claim);
    assert_fault(tx_begin(op, store, STORE_BOOKKEEPING, &tx), IDEMPOTENCY_IN_PROGRESS);
    assert_fault(idempotency_await(&claim), IDEMPOTENCY_IN_PROGRESS);
    begin_behind(op, &claim);
    assert_fault(store_once(op, store, STORE_RESERVED, STORE_SOON, &SQL_LOOK, NULL, 0, NULL, NULL),
                 IDEMPOTENCY_IN_PROGRESS);
    assert_fault(idempotency_await(&claim), IDEMPOTENCY_IN_PROGRESS);
}

static void a_refusal_does_not_speak_with_the_handlers_words(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim first, claim;
    struct response response;
    IGNORE(claim_as(op, "elsewhere", "one", &first, &response)); /* somebody has it */
    begin_behind(op, &claim);
    assert_fault(op_fail_field(op, FAULT(JSON_FIELD), "/name", "must be short"), JSON_FIELD);
    assert_fault(idempotency_await(&claim), IDEMPOTENCY_IN_PROGRESS);
    assert_int_equal(op->note.code, FAULT_IDEMPOTENCY_IN_PROGRESS);
    assert_string_equal(op->note.pointer, "");
}

static void a_claim_survives_the_end_of_its_connection(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    for (int asked = 0; asked < 2; asked++) {
        struct idempotency_request request = asking(asked == 0 ? "cut-0" : "cut-1", "one");
        struct idempotency_claim claim;
        struct response response;
        response_clear(&response);
        assert_ok(idempotency_begin(op, store, &request, &claim, &response));
        assert_ok(as_superuser("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'svc_app'"));
        if (asked == 0) {
            assert_ok(look(op));
        }
        assert_ok(idempotency_await(&claim));
        assert_int_equal(claim.state, IDEMPOTENCY_OURS);
        struct response answer = good_answer(op);
        assert_ok(idempotency_record(op, store, &claim, &answer, false));
    }
}

static void an_answer_is_kept_although_the_database_forgot_the_claim(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "alice");
    struct idempotency_claim claim;
    struct idempotency_claim again;
    struct response response;
    assert_ok(claim_as(op, "forgotten", "one", &claim, &response));
    assert_ok(as_superuser("DELETE FROM svc.idempotency_keys WHERE key = 'forgotten'"));
    struct response answer = good_answer(op);
    assert_ok(idempotency_record(op, store, &claim, &answer, false));
    assert_ok(claim_as(op, "forgotten", "one", &again, &response));
    assert_int_equal(again.state, IDEMPOTENCY_REPLAYED);
}

#define RACERS 20
static atomic_int executions;

/* As a client does it: repeats until it has an answer. */
static void *race(void *arg)
{
    const char *key = arg;
    CLEANUP(op_freep) struct op *op = caller("acme", "racer");
    struct idempotency_claim claim;
    struct response response;
    struct fault fault = claim_as(op, key, "race", &claim, &response);
    while (fault.code == FAULT_IDEMPOTENCY_IN_PROGRESS || fault.code == FAULT_STORE_BUSY) {
        fault = claim_as(op, key, "race", &claim, &response);
    }
    BUG_IF(FAULTED(fault));
    if (claim.state == IDEMPOTENCY_OURS) {
        (void)atomic_fetch_add(&executions, 1);
        struct response answer = good_answer(op);
        BUG_IF(FAULTED(idempotency_record(op, store, &claim, &answer, false)));
        return NULL;
    }
    struct response expected = good_answer(op);
    BUG_IF(response.status != 201 || !span_equal(response.body, expected.body));
    return NULL;
}

static void run_race(const char *key)
{
    pthread_t threads[RACERS];
    atomic_store(&executions, 0);
    for (size_t i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, race, (void *)(uintptr_t)key), 0);
    }
    for (size_t i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&executions), 1);
}

static void of_twenty_at_once_exactly_one_executes(void **state)
{
    (void)state;
    static const char *const keys[] = { "race-0", "race-1", "race-2", "race-3", "race-4" };
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        run_race(keys[i]);
    }
}

static void of_twenty_that_find_an_abandoned_claim_exactly_one_takes_it_over(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = caller("acme", "racer");
    struct idempotency_claim claim;
    struct response response;
    assert_ok(claim_as(op, "race-abandoned", "race", &claim, &response));
    rewind_claims();
    run_race("race-abandoned");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_body_or_caller_is_refused_before_anything_else_is_told),
        cmocka_unit_test(the_same_request_in_progress_is_told_to_come_back),
        cmocka_unit_test(a_recorded_answer_is_replayed_byte_for_byte),
        cmocka_unit_test(an_empty_answer_is_replayed_empty),
        cmocka_unit_test(a_record_whose_acknowledgement_was_lost_can_be_repeated),
        cmocka_unit_test(a_released_key_runs_again_under_the_same_command_id),
        cmocka_unit_test(an_abandoned_claim_is_taken_over_after_ten_minutes_by_one),
        cmocka_unit_test(a_claim_of_a_dead_instance_is_taken_over_soon_and_one_of_a_living_is_not),
        cmocka_unit_test(a_lost_lock_alone_frees_no_claim),
        cmocka_unit_test(a_presence_that_was_lost_is_taken_again),
        cmocka_unit_test(claim_question_and_record_cost_two_round_trips),
        cmocka_unit_test(a_question_behind_somebody_elses_claim_fails_and_an_effect_is_not_begun),
        cmocka_unit_test(what_works_on_another_connection_asks_first),
        cmocka_unit_test(a_refusal_does_not_speak_with_the_handlers_words),
        cmocka_unit_test(a_claim_survives_the_end_of_its_connection),
        cmocka_unit_test(an_answer_is_kept_although_the_database_forgot_the_claim),
        cmocka_unit_test(an_answer_that_cannot_be_kept_walls_its_key),
        cmocka_unit_test(when_not_even_the_wall_can_be_built_the_caller_is_told_the_same),
        cmocka_unit_test(a_secret_answer_is_not_in_the_table_and_not_replayed),
        cmocka_unit_test(a_key_of_one_tenant_is_nothing_to_another),
        cmocka_unit_test(an_expired_request_claims_nothing),
        cmocka_unit_test(of_twenty_at_once_exactly_one_executes),
        cmocka_unit_test(of_twenty_that_find_an_abandoned_claim_exactly_one_takes_it_over),
    };
    return cmocka_run_group_tests_name("server_idempotency", tests, open_store, close_store);
}
