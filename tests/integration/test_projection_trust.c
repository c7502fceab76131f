/* A log that is no longer the one that was applied. */
#include "projection_testlib.h"

#define APPLIED 60

static void plant_numbers(struct fixture *fixture, int first, int last, int odd_one)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    for (int i = first; i <= last; i++) {
        body_of_number("acme", "a", i == odd_one ? 9999 : i, &body);
        assert_int_equal(plant(fixture->raw, "svc.events.acme.a", buf_span(&body)), i);
    }
}

/* The log begins again with messages first..last, one of them another than it was. */
static void replace_log(struct fixture *fixture, int last, int odd_one)
{
    delete_stream(fixture->raw);
    make_soft_stream(fixture->raw, 0);
    plant_numbers(fixture, 1, last, odd_one);
}

static void apply_all(struct fixture *fixture)
{
    instance_project(&fixture->a);
    plant_numbers(fixture, 1, APPLIED, 0);
    assert_fault(wait_for(&fixture->a, APPLIED, 20000), NONE);
}

/* As a restart of svc-api: what the old process saw is forgotten. */
static void restart(struct fixture *fixture)
{
    instance_close(&fixture->a);
    instance_open(&fixture->a, &fixture->config);
    instance_project(&fixture->a);
}

static void assert_untrusted(struct fixture *fixture, const char *cause, uint64_t first_bad)
{
    struct projector_state now = state_of(&fixture->a);
    mono_ns until = clock_mono() + 20 * NS_PER_S;
    while ((now.log_trusted || now.first_bad_seq != first_bad || now.cause[0] == '\0') && clock_mono() < until) {
        (void)poll(NULL, 0, 20);
        now = state_of(&fixture->a);
    }
    assert_false(now.log_trusted);
    assert_string_equal(now.cause, cause);
    assert_int_equal(now.first_bad_seq, first_bad);
    assert_fault(wait_for(&fixture->a, APPLIED + 1000, 5000), LOG_UNTRUSTED);
}

static void a_log_that_lost_its_tail_is_found_at_start(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    replace_log(fixture, APPLIED - 7, 0);
    harden_stream(fixture->raw);
    restart(fixture);
    assert_untrusted(fixture, "tail_lost", APPLIED - 6);
    /* Nothing is applied on top, although the sequence after the checkpoint comes by one day. */
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    for (int i = APPLIED - 6; i <= APPLIED + 5; i++) {
        body_of_number("acme", "a", 5000 + i, &body);
        (void)plant(fixture->raw, "svc.events.acme.a", buf_span(&body));
    }
    assert_untrusted(fixture, "tail_lost", APPLIED - 6);
    assert_int_equal(state_of(&fixture->a).checkpoint <= APPLIED, 1);
    assert_int_equal(admin_int(&fixture->config, "SELECT max(stream_seq) FROM svc.event_envelopes"), APPLIED);
}

static void a_log_that_began_again_is_found_at_start(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    delete_stream(fixture->raw);
    restart(fixture); /* makes a new, empty stream */
    assert_untrusted(fixture, "rewind", 1);
}

static void a_log_that_began_again_with_other_messages_is_found_at_start(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    apply_all(fixture);
    delete_stream(fixture->raw);
    make_soft_stream(fixture->raw, 0);
    plant_numbers(fixture, 1, 3, 0);
    for (int i = 4; i <= 10; i++) {
        body_of_number("acme", "a", 7000 + i, &body);
        (void)plant(fixture->raw, "svc.events.acme.a", buf_span(&body));
    }
    harden_stream(fixture->raw);
    restart(fixture);
    assert_untrusted(fixture, "rewind", 4);
}

static void one_altered_message_is_found_and_named(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    replace_log(fixture, APPLIED + 3, 23);
    harden_stream(fixture->raw);
    restart(fixture);
    assert_untrusted(fixture, "altered", 23);
}

static void one_missing_message_is_found_and_named(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    replace_log(fixture, APPLIED, 0);
    assert_int_equal(js_DeleteMsg(fixture->raw->js, "TEST", 31, NULL, NULL), NATS_OK);
    harden_stream(fixture->raw);
    restart(fixture);
    assert_untrusted(fixture, "gap", 31);
}

static void a_hole_in_front_of_the_projector_stops_it(void **state)
{
    struct fixture *fixture = *state;
    delete_stream(fixture->raw);
    make_soft_stream(fixture->raw, 0);
    plant_numbers(fixture, 1, 10, 0);
    assert_int_equal(js_DeleteMsg(fixture->raw->js, "TEST", 6, NULL, NULL), NATS_OK);
    harden_stream(fixture->raw);
    instance_project(&fixture->a);
    assert_untrusted(fixture, "gap", 6);
    assert_true(state_of(&fixture->a).checkpoint < 6);
}

static void copies_that_were_altered_with_the_log_are_found_by_the_rolling_hash(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    replace_log(fixture, APPLIED, 23);
    harden_stream(fixture->raw);
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    body_of_number("acme", "a", 9999, &body);
    char script[4096];
    (void)snprintf(script, sizeof(script),
                   "UPDATE svc.event_envelopes SET body = '%.*s'::bytea, sha256 = sha256('%.*s'::bytea)"
                   " WHERE stream_seq = 23",
                   (int)body.len, (const char *)body.at, (int)body.len, (const char *)body.at);
    admin_script(&fixture->config, script);
    restart(fixture);
    assert_untrusted(fixture, "altered", APPLIED);
}

static void a_running_projector_notices_a_lost_tail(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    replace_log(fixture, APPLIED - 1, 0);
    harden_stream(fixture->raw);
    assert_untrusted(fixture, "tail_lost", APPLIED);
}

static void another_log_that_has_grown_past_the_checkpoint_is_not_applied(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    replace_log(fixture, APPLIED + 20, APPLIED);
    harden_stream(fixture->raw);
    assert_untrusted(fixture, "altered", APPLIED);
    assert_int_equal(admin_int(&fixture->config, "SELECT max(stream_seq) FROM svc.event_envelopes"), APPLIED);
}

static void what_was_acknowledged_and_not_applied_is_missed_too(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    atomic_store(&refuse_13, true);
    (void)say(&fixture->a, "acme", 13); /* the projector stands here */
    (void)say(&fixture->a, "acme", 14);
    replace_log(fixture, APPLIED + 1, 0);
    harden_stream(fixture->raw);
    assert_untrusted(fixture, "rewind", APPLIED + 2);
}

static void a_log_that_was_put_right_is_trusted_after_all_of_it_was_compared(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    replace_log(fixture, APPLIED, 23);
    harden_stream(fixture->raw);
    restart(fixture);
    assert_untrusted(fixture, "altered", 23);
    replace_log(fixture, APPLIED, 0);
    harden_stream(fixture->raw);
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    uint64_t seen = 0;
    while (!state_of(&fixture->a).log_trusted) {
        IGNORE(projector_changed(op, fixture->a.projector, &seen, clock_mono() + 50 * NS_PER_MS));
        assert_false(op_expired(op));
    }
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "acme", 1), 20000), NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(a_log_that_lost_its_tail_is_found_at_start),
        WITH_STORES(a_log_that_began_again_is_found_at_start),
        WITH_STORES(a_log_that_began_again_with_other_messages_is_found_at_start),
        WITH_STORES(one_altered_message_is_found_and_named),
        WITH_STORES(one_missing_message_is_found_and_named),
        WITH_STORES(a_hole_in_front_of_the_projector_stops_it),
        WITH_STORES(copies_that_were_altered_with_the_log_are_found_by_the_rolling_hash),
        WITH_STORES(a_running_projector_notices_a_lost_tail),
        WITH_STORES(another_log_that_has_grown_past_the_checkpoint_is_not_applied),
        WITH_STORES(what_was_acknowledged_and_not_applied_is_missed_too),
        WITH_STORES(a_log_that_was_put_right_is_trusted_after_all_of_it_was_compared),
    };
    return cmocka_run_group_tests_name("projection/trust", tests, NULL, NULL);
}
