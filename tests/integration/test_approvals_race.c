/* Approvers and signings at the same time: run by with-stores from the top folder. */
#include "integration/approvals_testlib.h"

#define ROUNDS 6

struct decider {
    const struct asked *asked;
    const char *token;
    bool grant;
    pthread_barrier_t *start;
    struct answer answer;
};

static void *run_decider(void *arg)
{
    struct decider *decider = arg;
    (void)pthread_barrier_wait(decider->start);
    decide(decider->token, decider->asked, decider->grant, &decider->answer);
    return NULL;
}

static void at_once(struct decider *deciders, unsigned count)
{
    pthread_t threads[8];
    pthread_barrier_t start;
    assert_true(count <= COUNT_OF(threads));
    assert_int_equal(pthread_barrier_init(&start, NULL, count), 0);
    for (unsigned i = 0; i < count; i++) {
        deciders[i].start = &start;
        assert_int_equal(pthread_create(&threads[i], NULL, run_decider, &deciders[i]), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&start);
}

static void one_approver_at_once_counts_once(void **state)
{
    (void)state;
    static struct decider deciders[4];
    for (int round = 0; round < ROUNDS; round++) {
        const struct asked asked = ask_for(2, 0);
        uint64_t before = flow_log_last();
        for (size_t i = 0; i < COUNT_OF(deciders); i++) {
            deciders[i] = (struct decider){ .asked = &asked, .token = ann, .grant = true };
        }
        at_once(deciders, COUNT_OF(deciders));
        for (size_t i = 0; i < COUNT_OF(deciders); i++) {
            assert_status(&deciders[i].answer, 200);
            assert_string_equal(flow_text(&deciders[i].answer, "time"), flow_text(&deciders[0].answer, "time"));
        }
        assert_int_equal(status_at(&asked, 2, clock_utc()).approvals, 1);
        assert_int_equal(flow_log_last(), before + 1);
    }
}

static void two_approvers_at_once_both_count(void **state)
{
    (void)state;
    static struct decider deciders[2];
    for (int round = 0; round < ROUNDS; round++) {
        const struct asked asked = ask_for(2, 0);
        deciders[0] = (struct decider){ .asked = &asked, .token = ann, .grant = true };
        deciders[1] = (struct decider){ .asked = &asked, .token = ben, .grant = true };
        at_once(deciders, COUNT_OF(deciders));
        assert_status(&deciders[0].answer, 200);
        assert_status(&deciders[1].answer, 200);
        assert_int_equal(state_now(&asked, 2), APPROVAL_APPROVED);
    }
}

static void approval_and_denial_at_once_end_denied(void **state)
{
    (void)state;
    static struct decider deciders[2];
    for (int round = 0; round < ROUNDS; round++) {
        const struct asked asked = ask_for(1, 0);
        uint64_t before = flow_log_last();
        deciders[0] = (struct decider){ .asked = &asked, .token = ann, .grant = true };
        deciders[1] = (struct decider){ .asked = &asked, .token = ben, .grant = false };
        at_once(deciders, COUNT_OF(deciders));
        assert_status(&deciders[1].answer, 200);
        bool came_first = deciders[0].answer.status == 200;
        if (!came_first) {
            assert_problem(&deciders[0].answer, 409, "approval_request_closed");
        }
        assert_int_equal(state_now(&asked, 1), APPROVAL_DENIED);
        assert_int_equal(flow_log_last(), before + (came_first ? 2 : 1)); /* what does not count is not in the log */
    }
}

struct signer {
    const struct asked *asked;
    struct uuid operation_id;
    utc_us now;
    pthread_barrier_t *start;
    struct fault fault;
};

static void *run_signer(void *arg)
{
    struct signer *signer = arg;
    (void)pthread_barrier_wait(signer->start);
    signer->fault = use_at(signer->asked, 1, signer->operation_id, signer->now);
    return NULL;
}

static void sign_at_once(struct signer *signers, unsigned count)
{
    pthread_t threads[16];
    pthread_barrier_t start;
    assert_true(count <= COUNT_OF(threads));
    assert_int_equal(pthread_barrier_init(&start, NULL, count), 0);
    for (unsigned i = 0; i < count; i++) {
        signers[i].start = &start;
        assert_int_equal(pthread_create(&threads[i], NULL, run_signer, &signers[i]), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&start);
}

static void fill(struct signer *signers, size_t count, const struct asked *asked)
{
    for (size_t i = 0; i < count; i++) {
        signers[i] = (struct signer){ .asked = asked, .now = clock_utc() };
        assert_ok(uuid_new(&signers[i].operation_id));
    }
}

static size_t winners(const struct signer *signers, size_t count)
{
    size_t won = 0;
    for (size_t i = 0; i < count; i++) {
        if (FAULTED(signers[i].fault)) {
            assert_fault(signers[i].fault, APPROVAL_REQUIRED);
        } else {
            won++;
        }
    }
    return won;
}

static void the_last_signing_goes_to_exactly_one(void **state)
{
    (void)state;
    struct signer signers[2];
    for (int round = 0; round < ROUNDS; round++) {
        const struct asked asked = ask_for(1, 2);
        assert_status(granted(ann, &asked), 200);
        assert_ok(use_once_more(&asked));
        uint64_t before = flow_log_last();
        fill(signers, COUNT_OF(signers), &asked);
        sign_at_once(signers, COUNT_OF(signers));
        assert_int_equal(winners(signers, COUNT_OF(signers)), 1);
        assert_int_equal(flow_log_last(), before + 1);
        for (size_t i = 0; i < COUNT_OF(signers); i++) { /* asked again, each gets what it got */
            assert_int_equal(use_at(&asked, 1, signers[i].operation_id, clock_utc()).code, signers[i].fault.code);
        }
        assert_int_equal(flow_log_last(), before + 1);
    }
}

static void many_take_as_many_as_there_are(void **state)
{
    (void)state;
    struct signer signers[12];
    const struct asked asked = ask_for(1, 5);
    assert_status(granted(ann, &asked), 200);
    uint64_t before = flow_log_last();
    fill(signers, COUNT_OF(signers), &asked);
    sign_at_once(signers, COUNT_OF(signers));
    assert_int_equal(winners(signers, COUNT_OF(signers)), 5);
    assert_int_equal(flow_log_last(), before + 5);
    assert_int_equal(state_now(&asked, 1), APPROVAL_USED_UP);
}

/* Two workers that hold the same command. */
static void the_same_operation_at_once_takes_one(void **state)
{
    (void)state;
    struct signer signers[4];
    const struct asked asked = ask_for(1, 3);
    assert_status(granted(ann, &asked), 200);
    fill(signers, COUNT_OF(signers), &asked);
    for (size_t i = 1; i < COUNT_OF(signers); i++) {
        signers[i].operation_id = signers[0].operation_id;
    }
    sign_at_once(signers, COUNT_OF(signers));
    assert_int_equal(winners(signers, COUNT_OF(signers)), COUNT_OF(signers));
    assert_int_equal(status_at(&asked, 1, clock_utc()).uses, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_approver_at_once_counts_once),
        cmocka_unit_test(two_approvers_at_once_both_count),
        cmocka_unit_test(approval_and_denial_at_once_end_denied),
        cmocka_unit_test(the_last_signing_goes_to_exactly_one),
        cmocka_unit_test(many_take_as_many_as_there_are),
        cmocka_unit_test(the_same_operation_at_once_takes_one),
    };
    return cmocka_run_group_tests_name("approvals_race", tests, approvals_start, approvals_end);
}
