#include "journal.h"

#include <signal.h>
#include <sys/resource.h>

#define RECORD ((size_t)144)

/* ---- a disk that refuses ---- */

static void assert_unusable(struct journal *journal, const char *reason)
{
    char why[128] = "";
    assert_false(journal_usable(journal, why, sizeof(why)));
    if (strstr(why, reason) == NULL) {
        fail_msg("'%s' does not say '%s'", why, reason);
    }
}

static void until_usable(struct journal *journal)
{
    while (!journal_usable(journal, NULL, 0)) {
        (void)sched_yield();
    }
}

static void a_full_disk_refuses_and_signing_goes_on_when_there_is_room_again(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    struct rlimit old, small = { .rlim_cur = FIRST_AT + RECORD + 50, .rlim_max = RLIM_INFINITY };
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
    assert_unusable(journal, "File too large");
    assert_signs(journal, 1, true); /* what is there can be read */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    until_usable(journal);
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
    assert_false(journal_usable(journal, NULL, 0));
    journal_close(journal);
    journal = journal_in(&place, SEGMENT_BYTES);
    assert_signs(journal, 1, true);
    assert_signs(journal, 4, false);
    journal_close(journal);
}

