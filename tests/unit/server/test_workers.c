#include "unit/server/testing.h"

#include "api/server/workers.h"

#include <pthread.h>
#include <stdatomic.h>

/* Whether this process leads. */
static atomic_bool leading;
void projector_state(struct projector *projector, struct projector_state *ret_state)
{
    (void)projector;
    *ret_state = (struct projector_state){ .leader = atomic_load(&leading) };
}

static atomic_int runs, leader_runs, failures, inside;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ran = PTHREAD_COND_INITIALIZER;

static void count(atomic_int *counter)
{
    (void)pthread_mutex_lock(&lock);
    (void)atomic_fetch_add(counter, 1);
    (void)pthread_cond_broadcast(&ran);
    (void)pthread_mutex_unlock(&lock);
}

static void wait_for(atomic_int *counter, int least)
{
    (void)pthread_mutex_lock(&lock);
    while (atomic_load(counter) < least) {
        (void)pthread_cond_wait(&ran, &lock);
    }
    (void)pthread_mutex_unlock(&lock);
}

static struct fault work(struct op *op, struct services *services)
{
    (void)services;
    BUG_IF(atomic_fetch_add(&inside, 1) != 0); /* never on two threads at once */
    BUG_IF(strcmp(op->principal.subject, "system:worker:work") != 0 || op_expired(op));
    count(&runs);
    (void)atomic_fetch_sub(&inside, 1);
    return OK;
}
static struct fault lead(struct op *op, struct services *services)
{
    (void)op, (void)services;
    count(&leader_runs);
    return OK;
}
static struct fault fail_always(struct op *op, struct services *services)
{
    (void)services;
    count(&failures);
    return op_fail(op, FAULT(STORE_BUSY), "busy");
}

static const struct worker_row rows[] = {
    { "work", 1, false, work },
    { "lead", 1, true, lead },
    { "fail", 1, false, fail_always },
};
static const struct feature feature = { .name = "f", .workers = rows, .worker_count = COUNT_OF(rows) };
static const struct feature *const features[] = { &feature };

static void a_period_of_zero_is_refused(void **state)
{
    (void)state;
    static const struct worker_row bad[] = { { "bad", 0, false, work } };
    static const struct feature with_bad = { .name = "f", .workers = bad, .worker_count = 1 };
    static const struct feature *const list[] = { &with_bad };
    struct services services = { 0 };
    struct workers *workers = NULL;
    assert_fault(workers_start(&services, list, 1, &workers), BAD_ARGUMENT);
    assert_null(workers);
}

static void rows_run_again_and_again_and_leader_only_ones_where_it_leads(void **state)
{
    (void)state;
    struct services services = { 0 };
    struct workers *workers = NULL;
    assert_fault(metrics_new(&services.metrics), NONE);
    assert_fault(workers_start(&services, features, 1, &workers), NONE);
    wait_for(&runs, 20);
    wait_for(&failures, 20); /* a failing one goes on */
    assert_int_equal(atomic_load(&leader_runs), 0);
    atomic_store(&leading, true);
    wait_for(&leader_runs, 5);
    workers_stop(workers);
    int after = atomic_load(&runs);
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    const char *text = NULL;
    assert_fault(metrics_print(services.metrics, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    assert_non_null(strstr(text, "svc_worker_failures_total{worker=\"fail\"}"));
    assert_null(strstr(text, "worker=\"work\""));
    assert_int_equal(atomic_load(&runs), after);
    metrics_free(services.metrics);
}

static void nothing_to_do_needs_no_thread(void **state)
{
    (void)state;
    static const struct feature idle = { .name = "idle" };
    static const struct feature *const list[] = { &idle };
    struct services services = { 0 };
    struct workers *workers = NULL;
    assert_fault(workers_start(&services, list, 1, &workers), NONE);
    workers_stop(workers);
    workers_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_period_of_zero_is_refused),
        cmocka_unit_test(rows_run_again_and_again_and_leader_only_ones_where_it_leads),
        cmocka_unit_test(nothing_to_do_needs_no_thread),
    };
    return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}
