#include "journal.h"

#include "appliance/base/alloc.h"

#include <pthread.h>

static struct fault enter(struct journal *journal, const char *id_text, unsigned request_number, int ms,
                          struct journal_entry *ret_entry)
{
    CLEANUP(op_freep) struct op *op = op_within(ms);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    struct sha256 request = hash_of_number(request_number);
    struct uuid id = { "" };
    bool replayed = false;
    (void)snprintf(id.text, sizeof(id.text), "%s", id_text);
    struct fault fault = journal_enter(op, journal, &id, &request, ret_entry, &signature, &replayed);
    assert_false(replayed);
    assert_int_equal(signature.len, 0);
    assert_int_equal(op->note.set, FAULTED(fault) && fault.code != FAULT_BAD_ARGUMENT);
    return fault;
}

static const struct place *starved;

static struct fault open_starved(void)
{
    struct journal *journal = NULL;
    uint64_t cut = 0;
    TRY(journal_open_sized(starved->folder, JOURNAL_RETENTION_MIN, 1024, NULL, &cut, &journal));
    mem_fail_after(-1);
    journal_close(journal);
    return OK;
}

static void a_start_without_memory_is_refused_and_harms_nothing(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    starved = &place;
    assert_true(fail_each_allocation(open_starved) >= 4); /* a new journal */
    struct journal *journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < 20; n++) {
        assert_signs(journal, n, false);
    }
    journal_close(journal);
    assert_true(fail_each_allocation(open_starved) >= 4); /* and one that has something to tell */
    journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < 20; n++) {
        assert_signs(journal, n, true);
    }
    journal_close(journal);
}

static void a_signature_that_the_index_has_no_memory_for_is_not_written(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    CLEANUP(op_freep) struct op *op = op_within(60000);
    struct journal_entry entry = { 0 };
    uint8_t made[SIGNATURE_LEN];
    unsigned n = 0;
    for (; journal->index.used + 1 <= journal->index.size / 4 * 3; n++) {
        assert_signs(journal, n, false);
    }
    uint64_t bytes = journal_bytes(journal);
    signature_of(n, made);
    assert_fault(enter(journal, id_of(n).text, n, 60000, &entry), NONE);
    mem_fail_after(0);
    assert_fault(journal_commit(op, &entry, SPAN_ARRAY(made)), SIGNER_JOURNAL);
    mem_fail_after(-1);
    assert_non_null(strstr(op->note.detail, "memory"));
    assert_true(journal_usable(journal, NULL, 0));
    assert_int_equal(journal_bytes(journal), bytes);
    assert_signs(journal, n, false);
    assert_signs(journal, 0, true);
}

static void an_id_that_was_used_for_another_request_is_refused(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct journal_entry entry = { 0 };
    assert_signs(journal, 1, false);
    assert_fault(enter(journal, id_of(1).text, 2, 60000, &entry), SIGNER_OP_MISMATCH);
    assert_null(entry.journal);
    assert_signs(journal, 1, true); /* and the refusal left nothing claimed */
}

static void an_id_that_is_none_is_refused(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct journal_entry entry = { 0 };
    static const char *const wrong[] = { "", "0190B3C4-0000-7000-8000-000000000001", "../../etc/passwd" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_fault(enter(journal, wrong[i], 1, 60000, &entry), BAD_ARGUMENT);
    }
}

static void a_second_signer_on_the_same_journal_is_refused(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct journal *second = NULL;
    uint64_t cut = 0;
    assert_fault(journal_open(place.folder, JOURNAL_RETENTION_MIN, &why, &cut, &second), SIGNER_JOURNAL);
    assert_null(second);
    assert_non_null(memmem(why.at, why.len, "another signer", 14));
}

static void a_signature_that_failed_leaves_its_id_free(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    {
        CLEANUP(journal_leave) struct journal_entry entry = { 0 };
        assert_fault(enter(journal, id_of(1).text, 7, 60000, &entry), NONE);
    }
    assert_signs(journal, 1, false);
}

static void the_same_id_and_request_give_the_same_bytes_also_after_a_restart(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    for (unsigned n = 0; n < 100; n++) {
        assert_signs(journal, n, false);
        assert_signs(journal, n, true);
    }
    uint64_t bytes = journal_bytes(journal);
    for (int restart = 0; restart < 3; restart++) {
        journal_close(journal);
        journal = journal_in(&place, SEGMENT_BYTES);
        for (unsigned n = 0; n < 100; n++) {
            assert_signs(journal, n, true);
        }
        assert_signs(journal, 1000 + (unsigned)restart, false);
    }
    assert_true(journal_bytes(journal) > bytes);
    journal_close(journal);
}

/* ---- at the same time ---- */

struct signer {
    struct journal *journal;
    pthread_t thread;
    unsigned n;
    struct fault fault;
    bool replayed;
};

static void *sign_main(void *arg)
{
    struct signer *signer = arg;
    struct op *op = op_within(60000);
    signer->fault = sign_once(op, signer->journal, signer->n, &signer->replayed);
    op_free(op);
    return NULL;
}

static void signer_start(struct signer *signer, struct journal *journal, unsigned n)
{
    *signer = (struct signer){ .journal = journal, .n = n };
    assert_int_equal(pthread_create(&signer->thread, NULL, sign_main, signer), 0);
}

static void signer_join(struct signer *signer)
{
    assert_int_equal(pthread_join(signer->thread, NULL), 0);
}

/* Waits for a state of the journal that other threads bring about. */
#define until(journal, condition)       \
    for (bool done_ = false; !done_;) { \
        journal_lock(journal);          \
        done_ = (condition);            \
        journal_unlock(journal);        \
        (void)sched_yield();            \
    }

static size_t waiting_locked(const struct journal *journal)
{
    size_t count = 0;
    for (const struct journal_write *write = journal->waiting; write != NULL; write = write->next) {
        count++;
    }
    return count;
}

static size_t waiters_locked(const struct journal *journal)
{
    size_t count = 0;
    for (const struct journal_waiter *waiter = journal->waiters; waiter != NULL; waiter = waiter->next) {
        count++;
    }
    return count;
}

static void *sign_large_main(void *arg)
{
    struct signer *signer = arg;
    struct journal_entry entry = { 0 };
    uint8_t *made = NULL;
    struct op *op = op_within(60000);
    assert_fault(mem_new(SIGNATURE_MAX, 1, &made), NONE);
    memset(made, (int)signer->n, SIGNATURE_MAX);
    signer->fault = enter(signer->journal, id_of(signer->n).text, signer->n, 60000, &entry);
    if (!FAULTED(signer->fault)) {
        signer->fault = journal_commit(op, &entry, span_of(made, SIGNATURE_MAX));
    }
    mem_free(made);
    op_free(op);
    return NULL;
}

static void large_signer_start(struct signer *signer, struct journal *journal, unsigned n)
{
    *signer = (struct signer){ .journal = journal, .n = n };
    assert_int_equal(pthread_create(&signer->thread, NULL, sign_large_main, signer), 0);
}

static void two_callers_with_one_id_sign_once(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    for (unsigned n = 0; n < 50; n++) {
        struct signer signers[4];
        unsigned signed_so = 0;
        for (size_t i = 0; i < COUNT_OF(signers); i++) {
            signer_start(&signers[i], journal, n);
        }
        for (size_t i = 0; i < COUNT_OF(signers); i++) {
            signer_join(&signers[i]);
            assert_fault(signers[i].fault, NONE);
            signed_so += !signers[i].replayed;
        }
        assert_int_equal(signed_so, 1);
    }
}

static void until_a_sync_is_held(void)
{
    while (atomic_load(&syncs_held) == 0) {
        (void)sched_yield();
    }
}

static void signers_that_wait_together_share_one_sync(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct signer signers[6];
    atomic_store(&sync_holds, true);
    unsigned before = atomic_load(&syncs);
    signer_start(&signers[0], journal, 0);
    until_a_sync_is_held();
    for (unsigned i = 1; i < 6; i++) {
        signer_start(&signers[i], journal, i);
    }
    until(journal, waiting_locked(journal) == 5);
    atomic_store(&sync_holds, false);
    for (size_t i = 0; i < COUNT_OF(signers); i++) {
        signer_join(&signers[i]);
        assert_fault(signers[i].fault, NONE);
    }
    assert_int_equal(atomic_load(&syncs) - before, 2);
}

static void a_signer_writes_one_batch_and_leaves_the_next_to_one_that_waits(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct signer signers[4];
    unsigned before = atomic_load(&syncs);
    atomic_store(&sync_holds, true);
    for (unsigned i = 0; i < COUNT_OF(signers); i++) {
        signer_start(&signers[i], journal, i);
        if (i > 0) {
            until(journal, waiting_locked(journal) == 1);
            atomic_fetch_add(&sync_tickets, 1);
        }
        while (atomic_load(&syncs) < before + i + 1) {
            (void)sched_yield(); /* the batch before is written, this one's sync begins and is held */
        }
        if (i > 0) {
            signer_join(&signers[i - 1]); /* and who wrote it is gone */
            assert_fault(signers[i - 1].fault, NONE);
        }
    }
    atomic_store(&sync_holds, false);
    signer_join(&signers[COUNT_OF(signers) - 1]);
    assert_fault(signers[COUNT_OF(signers) - 1].fault, NONE);
}

static void an_id_that_is_on_its_way_is_replayed_to_who_asks_for_it_meanwhile(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct signer first, same[3], other;
    atomic_store(&sync_holds, true);
    signer_start(&first, journal, 1);
    until_a_sync_is_held();
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        signer_start(&same[i], journal, 1);
    }
    until(journal, waiters_locked(journal) == 3);
    signer_start(&other, journal, 2);
    until(journal, waiting_locked(journal) == 1);
    atomic_store(&sync_holds, false);
    signer_join(&first);
    signer_join(&other);
    assert_fault(first.fault, NONE);
    assert_fault(other.fault, NONE);
    assert_false(first.replayed || other.replayed);
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        signer_join(&same[i]);
        assert_fault(same[i].fault, NONE);
        assert_true(same[i].replayed);
    }
}

static void who_waits_for_an_id_beyond_its_deadline_is_refused_and_leaves_nothing_behind(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    CLEANUP(journal_leave) struct journal_entry entry = { 0 }, second = { 0 };
    assert_fault(enter(journal, id_of(1).text, 1, 60000, &entry), NONE);
    assert_fault(enter(journal, id_of(1).text, 1, 20, &second), SATURATED);
    assert_fault(enter(journal, id_of(1).text, 1, 0, &second), SATURATED);
    assert_null(second.journal);
    assert_null(journal->waiters);
    journal_leave(&entry);
    assert_signs(journal, 1, false);
}

static void a_batch_is_bounded_and_the_rest_goes_with_the_next(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    enum { COUNT = 90 }; /* of the largest: more than BATCH_BYTES */
    struct signer *signers = NULL;
    assert_fault(mem_new(COUNT, sizeof(*signers), &signers), NONE);
    atomic_store(&sync_holds, true);
    unsigned before = atomic_load(&syncs);
    for (unsigned i = 0; i < COUNT; i++) {
        large_signer_start(&signers[i], journal, i);
        if (i == 0) {
            until_a_sync_is_held();
        }
    }
    until(journal, waiting_locked(journal) == COUNT - 1);
    atomic_store(&sync_holds, false);
    for (unsigned i = 0; i < COUNT; i++) {
        signer_join(&signers[i]);
        assert_fault(signers[i].fault, NONE);
    }
    assert_int_equal(atomic_load(&syncs) - before, 3);
    mem_free(signers);
}

static void an_id_that_was_given_back_wakes_who_asks_for_it(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct journal_entry entry = { 0 };
    struct signer second;
    assert_fault(enter(journal, id_of(1).text, 1, 60000, &entry), NONE);
    signer_start(&second, journal, 1);
    until(journal, journal->waiters != NULL);
    journal_leave(&entry);
    journal_leave(&entry);
    signer_join(&second);
    assert_fault(second.fault, NONE);
    assert_false(second.replayed);
}

static void *sign_many(void *arg)
{
    struct signer *signer = arg;
    struct op *op = op_within(60000);
    for (unsigned i = 0; i < 200 && !FAULTED(signer->fault); i++) {
        bool replayed = false;
        signer->fault = sign_once(op, signer->journal, signer->n + i, &replayed);
        signer->replayed = signer->replayed || replayed;
    }
    op_free(op);
    return NULL;
}

static void many_signers_lose_nothing(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    struct journal *journal = journal_in(&place, 16384);
    struct signer signers[8];
    atomic_store(&sync_slow, true); /* so that others wait for it */
    for (unsigned i = 0; i < 8; i++) {
        signers[i] = (struct signer){ .journal = journal, .n = i * 1000 };
        assert_int_equal(pthread_create(&signers[i].thread, NULL, sign_many, &signers[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        signer_join(&signers[i]);
        assert_fault(signers[i].fault, NONE);
        assert_false(signers[i].replayed);
    }
    atomic_store(&sync_slow, false);
    journal_close(journal);
    journal = journal_in(&place, 16384);
    for (unsigned i = 0; i < 8; i++) {
        for (unsigned k = 0; k < 200; k++) {
            assert_signs(journal, i * 1000 + k, true);
        }
    }
    journal_close(journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_without_memory_is_refused_and_harms_nothing),
        cmocka_unit_test(a_signature_that_the_index_has_no_memory_for_is_not_written),
        cmocka_unit_test(an_id_that_was_used_for_another_request_is_refused),
        cmocka_unit_test(an_id_that_is_none_is_refused),
        cmocka_unit_test(a_second_signer_on_the_same_journal_is_refused),
        cmocka_unit_test(a_signature_that_failed_leaves_its_id_free),
        cmocka_unit_test(the_same_id_and_request_give_the_same_bytes_also_after_a_restart),
        cmocka_unit_test(two_callers_with_one_id_sign_once),
        cmocka_unit_test(signers_that_wait_together_share_one_sync),
        cmocka_unit_test(a_signer_writes_one_batch_and_leaves_the_next_to_one_that_waits),
        cmocka_unit_test(an_id_that_is_on_its_way_is_replayed_to_who_asks_for_it_meanwhile),
        cmocka_unit_test(who_waits_for_an_id_beyond_its_deadline_is_refused_and_leaves_nothing_behind),
        cmocka_unit_test(a_batch_is_bounded_and_the_rest_goes_with_the_next),
        cmocka_unit_test(an_id_that_was_given_back_wakes_who_asks_for_it),
        cmocka_unit_test(many_signers_lose_nothing),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
