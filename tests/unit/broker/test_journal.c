#include "journal.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#define RECORD ((size_t)144)

static struct fault enter(struct journal *journal, const char *id_text, unsigned request_number, struct caller *caller,
                          struct journal_entry *ret_entry, enum journal_outcome *ret_outcome)
{
    CLEANUP(op_freep) struct op *op = op_within(60000);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    struct sha256 request = hash_of_number(request_number);
    struct uuid id = { "" };
    (void)snprintf(id.text, sizeof(id.text), "%s", id_text);
    caller_init(caller);
    struct fault fault = journal_enter(op, journal, &id, &request, &caller->parked, ret_entry, &signature, ret_outcome);
    assert_true(!FAULTED(fault) || signature.len == 0);
    assert_int_equal(op->note.set, FAULTED(fault) && fault.code != FAULT_BAD_ARGUMENT);
    return fault;
}

static void an_id_that_was_used_for_another_request_is_refused(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct journal_entry entry = { 0 };
    enum journal_outcome outcome = JOURNAL_PARKED;
    struct caller caller;
    assert_signs(journal, 1, false);
    assert_fault(enter(journal, id_of(1).text, 2, &caller, &entry, &outcome), SIGNER_OP_MISMATCH);
    assert_null(entry.journal);
    assert_signs(journal, 1, true); /* and the refusal left nothing claimed */
}

static void an_id_that_is_none_is_refused(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct journal_entry entry = { 0 };
    enum journal_outcome outcome = JOURNAL_PARKED;
    struct caller caller;
    static const char *const wrong[] = { "", "0190B3C4-0000-7000-8000-000000000001", "../../etc/passwd" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_fault(enter(journal, wrong[i], 1, &caller, &entry, &outcome), BAD_ARGUMENT);
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
    assert_fault(journal_open(place.folder, &why, &cut, &second), SIGNER_JOURNAL);
    assert_null(second);
    assert_non_null(memmem(why.at, why.len, "another signer", 14));
}

static void a_signature_that_failed_leaves_its_id_free(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    enum journal_outcome outcome = JOURNAL_PARKED;
    struct caller caller;
    {
        CLEANUP(journal_leave) struct journal_entry entry = { 0 };
        assert_fault(enter(journal, id_of(1).text, 7, &caller, &entry, &outcome), NONE);
        assert_int_equal(outcome, JOURNAL_NEW);
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

/* ---- what the disk may do ---- */

#define TORN_RECORDS 4u

/* The file of a signer that was killed: no mark at its end. */
static void crashed_file(struct buf *out)
{
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    for (unsigned n = 0; n < TORN_RECORDS; n++) {
        assert_signs(journal, n, false);
    }
    segment_load(&place, 1, out);
    assert_int_equal(out->len, SEGMENT_HEADER + TORN_RECORDS * RECORD);
}

static void assert_whole_records(const struct place *place, unsigned whole, uint64_t expected_cut)
{
    struct journal *journal = NULL;
    uint64_t cut = 0;
    assert_fault(journal_open(place->folder, NULL, &cut, &journal), NONE);
    assert_int_equal(cut, expected_cut);
    for (unsigned n = 0; n < TORN_RECORDS; n++) {
        assert_signs(journal, n, n < whole);
    }
    journal_close(journal);
    journal = journal_in(place, SEGMENT_BYTES);
    for (unsigned n = 0; n < TORN_RECORDS; n++) {
        assert_signs(journal, n, true);
    }
    journal_close(journal);
}

static void a_tail_torn_at_any_byte_is_cut_and_what_is_whole_is_kept(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
    crashed_file(&file);
    for (size_t len = 0; len <= file.len; len++) {
        CLEANUP(place_free) struct place place = place_new();
        size_t body = len < SEGMENT_HEADER ? 0 : len - SEGMENT_HEADER;
        segment_store(&place, 1, span_of(file.at, len));
        uint64_t cut = len < SEGMENT_HEADER ? len : body % RECORD;
        assert_whole_records(&place, (unsigned)(body / RECORD), cut);
    }
}

static void a_tail_of_zeros_or_rubbish_is_cut(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
    crashed_file(&file);
    for (int fill = 0; fill <= 255; fill += 85) {
        CLEANUP(place_free) struct place place = place_new();
        CLEANUP(buf_free) struct buf longer = BUF_INIT(65536);
        uint8_t *tail = NULL;
        assert_fault(buf_put(&longer, buf_span(&file)), NONE);
        assert_fault(buf_reserve(&longer, 5000, &tail), NONE);
        memset(tail, fill, 5000);
        segment_store(&place, 1, buf_span(&longer));
        assert_whole_records(&place, TORN_RECORDS, 5000);
    }
}

static void assert_refuses(const struct place *place, const char *offset)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct journal *journal = NULL;
    const char *text = NULL;
    uint64_t cut = 0;
    assert_fault(journal_open(place->folder, &why, &cut, &journal), SIGNER_JOURNAL);
    assert_null(journal);
    assert_fault(buf_cstr(&why, &text), NONE);
    assert_non_null(strstr(text, ".journal"));
    if (strstr(text, offset) == NULL) {
        fail_msg("'%s' does not name '%s'", text, offset);
    }
}

static void damage_to_any_byte_that_a_caller_may_rely_on_refuses_and_names_the_offset(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
    crashed_file(&file);
    for (size_t at = 0; at < file.len - RECORD; at++) {
        CLEANUP(place_free) struct place place = place_new();
        char offset[32];
        size_t record = at < SEGMENT_HEADER ? 0 : (at - SEGMENT_HEADER) / RECORD * RECORD + SEGMENT_HEADER;
        file.at[at] ^= 0x10;
        segment_store(&place, 1, buf_span(&file));
        file.at[at] ^= 0x10;
        (void)snprintf(offset, sizeof(offset), "at offset %zu:", record);
        assert_refuses(&place, offset);
    }
}

static void damage_to_the_end_is_found_when_the_signer_had_closed_or_opened_it(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
    struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    assert_signs(journal, 1, false);
    journal_close(journal);
    segment_load(&place, 1, &file);
    assert_int_equal(file.len, SEGMENT_HEADER + RECORD + RECORD_FIXED);
    file.at[SEGMENT_HEADER + 100] ^= 1;
    segment_store(&place, 1, buf_span(&file));
    assert_refuses(&place, "at offset 64:");
}

static void a_batch_that_was_not_acknowledged_may_be_torn_anywhere(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
    crashed_file(&file);
    size_t acknowledged = file.len;
    uint8_t signature[SIGNATURE_LEN] = { 3 };
    for (unsigned i = 0; i < 3; i++) { /* one batch: all three say the same about what is certain */
        struct record record = { .kind = RECORD_SIGNATURE,
                                 .op_id = { 200, (uint8_t)i },
                                 .signature = SPAN_ARRAY(signature),
                                 .synced = acknowledged };
        assert_fault(record_put(&file, 1, file.len, &record), NONE);
    }
    file.at[acknowledged + 20] ^= 0xff; /* its first block did not reach the disk, the others did */
    segment_store(&place, 1, buf_span(&file));
    assert_whole_records(&place, TORN_RECORDS, 3 * RECORD);
}

static void records_copied_to_another_place_are_none(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
    struct record record;
    size_t size = 0;
    crashed_file(&file);
    struct span first = span_of(file.at + SEGMENT_HEADER, RECORD);
    assert_true(record_get(first, 1, SEGMENT_HEADER, &record, &size));
    assert_false(record_get(first, 1, SEGMENT_HEADER + RECORD, &record, &size));
    assert_false(record_get(first, 2, SEGMENT_HEADER, &record, &size));
}

/* ---- many files ---- */

static void files_follow_one_another_and_a_missing_or_short_one_refuses(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
    char path[128];
    struct journal *journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < 50; n++) {
        assert_signs(journal, n, false);
    }
    assert_true(atomic_load(&journal->current) >= 8);
    journal_close(journal);
    journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < 50; n++) {
        assert_signs(journal, n, true);
    }
    journal_close(journal);

    segment_load(&place, 3, &file);
    segment_store(&place, 3, span_of(file.at, file.len - RECORD));
    journal = journal_in(&place, 1024); /* whole records only: nothing tells that there were more */
    journal_close(journal);
    segment_store(&place, 3, span_of(file.at, file.len - 1));
    char offset[32];
    (void)snprintf(offset, sizeof(offset), "at offset %zu:", file.len - RECORD);
    assert_refuses(&place, offset);
    segment_path(&place, 3, path);
    assert_int_equal(unlink(path), 0);
    assert_refuses(&place, "00000003.journal: the file is missing");
}

static void the_oldest_files_may_be_moved_away(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    char path[128];
    struct journal *journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < 50; n++) {
        assert_signs(journal, n, false);
    }
    journal_close(journal);
    segment_path(&place, 1, path);
    assert_int_equal(unlink(path), 0);
    journal = journal_in(&place, 1024);
    assert_signs(journal, 49, true);
    assert_signs(journal, 0, false);
    journal_close(journal);
}

static void a_file_that_was_only_begun_is_begun_again(void **state)
{
    (void)state;
    for (size_t len = 0; len < SEGMENT_HEADER; len += 7) {
        CLEANUP(place_free) struct place place = place_new();
        CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
        crashed_file(&file);
        segment_store(&place, 1, buf_span(&file));
        segment_store(&place, 2, span_of(file.at, len));
        struct journal *journal = journal_in(&place, SEGMENT_BYTES);
        assert_signs(journal, 0, true);
        assert_signs(journal, 100, false);
        journal_close(journal);
        journal = journal_in(&place, SEGMENT_BYTES);
        assert_signs(journal, 100, true);
        journal_close(journal);
    }
}

/* ---- a disk that refuses ---- */

static void a_full_disk_refuses_and_signing_goes_on_when_there_is_room_again(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct rlimit old, small = { .rlim_cur = SEGMENT_HEADER + RECORD + 50, .rlim_max = RLIM_INFINITY };
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_signs(journal, 1, false);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 3; i++) {
        CLEANUP(op_freep) struct op *op = op_within(60000);
        bool replayed = true;
        assert_fault(sign_once(op, journal, 2, &replayed), SIGNER_JOURNAL);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(journal_usable(journal));
    assert_signs(journal, 2, false);
    journal_close(journal);
    journal = journal_in(&place, SEGMENT_BYTES);
    assert_signs(journal, 1, true);
    assert_signs(journal, 2, true);
    journal_close(journal);
}

static void after_a_failed_sync_nothing_is_journalled_until_a_restart(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    assert_signs(journal, 1, false);
    for (unsigned n = 2; n < 5; n++) {
        CLEANUP(op_freep) struct op *op = op_within(60000);
        bool replayed = true;
        atomic_store(&sync_fails, n == 2);
        assert_fault(sign_once(op, journal, n, &replayed), SIGNER_JOURNAL);
        atomic_store(&sync_fails, false);
        assert_true(n == 2 || strstr(op->note.detail, "restart") != NULL);
    }
    assert_false(journal_usable(journal));
    journal_close(journal);
    journal = journal_in(&place, SEGMENT_BYTES);
    assert_signs(journal, 1, true);
    assert_signs(journal, 4, false);
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

/* On a slow disk the journal's thread writes, on a swift one the first signer does: the same either way. */
static void signers_that_wait_together_share_one_sync(void **state)
{
    (void)state;
    for (int swift = 0; swift <= 1; swift++) {
        CLEANUP(place_free) struct place place = place_new();
        CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
        struct signer signers[6];
        journal->swift = swift;
        atomic_store(&sync_holds, true);
        unsigned before = atomic_load(&syncs);
        signer_start(&signers[0], journal, 0);
        while (atomic_load(&syncs_held) == 0) {
            (void)sched_yield();
        }
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
}

static void a_signer_that_wrote_for_others_long_enough_leaves_the_rest_to_the_thread(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct signer signers[4];
    unsigned before = atomic_load(&syncs);
    journal->swift = true;
    atomic_store(&sync_holds, true);
    for (unsigned i = 0; i < COUNT_OF(signers); i++) {
        signer_start(&signers[i], journal, i);
        if (i == 0) {
            while (atomic_load(&syncs) == before) {
                (void)sched_yield();
            }
        } else {
            until(journal, waiting_locked(journal) == 1);
            atomic_fetch_add(&sync_tickets, 1); /* the batch before is written, this one's sync begins and is held */
            while (atomic_load(&syncs) < before + i + 1) {
                (void)sched_yield();
            }
        }
    }
    atomic_store(&sync_holds, false);
    for (size_t i = 0; i < COUNT_OF(signers); i++) {
        signer_join(&signers[i]);
        assert_fault(signers[i].fault, NONE);
    }
}

static void an_id_that_is_on_its_way_wakes_who_asks_for_it_when_it_is_there(void **state)
{
    (void)state;
    for (int swift = 0; swift <= 1; swift++) {
        CLEANUP(place_free) struct place place = place_new();
        CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
        struct signer first, same[3], other;
        journal->swift = swift;
        atomic_store(&sync_holds, true);
        signer_start(&first, journal, 1);
        while (atomic_load(&syncs_held) == 0) {
            (void)sched_yield();
        }
        for (size_t i = 0; i < COUNT_OF(same); i++) {
            signer_start(&same[i], journal, 1);
        }
        until(journal, journal->parked != NULL && journal->parked->next != NULL && journal->parked->next->next != NULL);
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
}

static void an_id_that_was_given_back_wakes_who_asks_for_it(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct journal_entry entry = { 0 };
    enum journal_outcome outcome = JOURNAL_PARKED;
    struct caller caller;
    struct signer second;
    assert_fault(enter(journal, id_of(1).text, 1, &caller, &entry, &outcome), NONE);
    signer_start(&second, journal, 1);
    until(journal, journal->parked != NULL);
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
    for (unsigned i = 0; i < 8; i++) {
        signers[i] = (struct signer){ .journal = journal, .n = i * 1000 };
        assert_int_equal(pthread_create(&signers[i].thread, NULL, sign_many, &signers[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        signer_join(&signers[i]);
        assert_fault(signers[i].fault, NONE);
        assert_false(signers[i].replayed);
    }
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
        cmocka_unit_test(an_id_that_was_used_for_another_request_is_refused),
        cmocka_unit_test(an_id_that_is_none_is_refused),
        cmocka_unit_test(a_second_signer_on_the_same_journal_is_refused),
        cmocka_unit_test(a_signature_that_failed_leaves_its_id_free),
        cmocka_unit_test(the_same_id_and_request_give_the_same_bytes_also_after_a_restart),
        cmocka_unit_test(a_tail_torn_at_any_byte_is_cut_and_what_is_whole_is_kept),
        cmocka_unit_test(a_tail_of_zeros_or_rubbish_is_cut),
        cmocka_unit_test(damage_to_any_byte_that_a_caller_may_rely_on_refuses_and_names_the_offset),
        cmocka_unit_test(damage_to_the_end_is_found_when_the_signer_had_closed_or_opened_it),
        cmocka_unit_test(a_batch_that_was_not_acknowledged_may_be_torn_anywhere),
        cmocka_unit_test(records_copied_to_another_place_are_none),
        cmocka_unit_test(files_follow_one_another_and_a_missing_or_short_one_refuses),
        cmocka_unit_test(the_oldest_files_may_be_moved_away),
        cmocka_unit_test(a_file_that_was_only_begun_is_begun_again),
        cmocka_unit_test(a_full_disk_refuses_and_signing_goes_on_when_there_is_room_again),
        cmocka_unit_test(after_a_failed_sync_nothing_is_journalled_until_a_restart),
        cmocka_unit_test(two_callers_with_one_id_sign_once),
        cmocka_unit_test(signers_that_wait_together_share_one_sync),
        cmocka_unit_test(a_signer_that_wrote_for_others_long_enough_leaves_the_rest_to_the_thread),
        cmocka_unit_test(an_id_that_is_on_its_way_wakes_who_asks_for_it_when_it_is_there),
        cmocka_unit_test(an_id_that_was_given_back_wakes_who_asks_for_it),
        cmocka_unit_test(many_signers_lose_nothing),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
