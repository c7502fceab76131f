#include "journal.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

/* ---- the wall clock and the folder, under the test's control ---- */

static _Atomic int64_t clock_wrong_s;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME) {
        time->tv_sec += atomic_load(&clock_wrong_s);
    }
    return rc;
}

/* The process dies before (even) or after (odd) that call that changes the folder; -1: never. */
static int death_at = -1;
static atomic_int changes;
static atomic_bool unlink_fails;
static atomic_bool watched; /* else all calls are let through */
static atomic_int unsynced; /* removals that the folder's fsync has not made durable; never more than one */

static void maybe_die(void)
{
    if (atomic_fetch_add(&changes, 1) == death_at) {
        _exit(9);
    }
}

int unlinkat(int folder, const char *name, int flags)
{
    if (!atomic_load(&watched)) {
        return (int)syscall(SYS_unlinkat, folder, name, flags);
    }
    if (atomic_load(&unlink_fails)) {
        errno = EPERM;
        return -1;
    }
    maybe_die();
    int rc = (int)syscall(SYS_unlinkat, folder, name, flags);
    maybe_die();
    atomic_fetch_add(&unsynced, 1);
    return rc;
}

int fsync(int fd)
{
    int rc = (int)syscall(SYS_fsync, fd);
    int removed = atomic_exchange(&unsynced, 0); /* once: those who sign sync files of their own meanwhile */
    if (removed > 0) {
        assert_int_equal(removed, 1);
        maybe_die();
    }
    return rc;
}

/* The next time that the first file is looked up, it and others go a moment before. */
static struct journal *_Atomic goes_just_now;

int openat(int folder, const char *name, int flags, ...)
{
    struct journal *journal = strcmp(name, "00000001.journal") == 0 ? atomic_exchange(&goes_just_now, NULL) : NULL;
    unsigned removed = 0;
    assert_true(journal == NULL || !FAULTED(journal_retain(journal, &removed)));
    return (int)syscall(SYS_openat, folder, name, flags, 0600);
}

#define HOUR_MS ((uint64_t)3600 * 1000)
#define DAY     24u /* hours */

static void grow_older(struct journal *journal, unsigned hours)
{
    journal_lock(journal);
    journal->age_at_open_ms += hours * HOUR_MS;
    journal_unlock(journal);
}

static unsigned removed_from(struct journal *journal)
{
    unsigned removed = 1000;
    atomic_store(&watched, true);
    assert_fault(journal_retain(journal, &removed), NONE);
    atomic_store(&watched, false);
    return removed;
}

static size_t ids_known(struct journal *journal)
{
    journal_lock(journal);
    size_t used = journal->index.used;
    journal_unlock(journal);
    return used;
}

/* Without the thread that would remove files in the test's place. */
static struct journal *journal_alone(const struct place *place, size_t segment_bytes)
{
    struct journal *journal = NULL;
    uint64_t cut = 0;
    assert_fault(journal_open_sized(place->folder, INT64_MAX, segment_bytes, NULL, &cut, &journal), NONE);
    journal_keeper_stop(journal);
    journal->retention_ms = DAY * HOUR_MS;
    return journal;
}

/* Ids 0, 1, 2, ... on the first day, 100, 101, ... on the second; each day is a file of its own. */
static void sign_days(struct journal *journal, unsigned days, unsigned per_day)
{
    for (unsigned day = 0; day < days; day++) {
        for (unsigned i = 0; i < per_day; i++) {
            assert_signs(journal, day * 100 + i, false);
        }
        grow_older(journal, DAY);
    }
}

/* ---- what must not be forgotten ---- */

static void nothing_is_forgotten_before_its_time(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_alone(&place, 1024);
    for (unsigned n = 0; n < 50; n++) {
        assert_signs(journal, n, false);
    }
    assert_true(journal->current >= 8);
    grow_older(journal, DAY - 1);
    assert_int_equal(removed_from(journal), 0);
    for (unsigned n = 0; n < 50; n++) {
        assert_signs(journal, n, true);
    }
}

static void a_wall_clock_that_is_wrong_forgets_nothing_and_keeps_nothing(void **state)
{
    (void)state;
    static const int64_t wrong[] = { 3600LL * 24 * 365 * 10, -3600LL * 24 * 365 * 10, 3600LL * 24 * 365 * 200 };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        CLEANUP(place_free) struct place place = place_new();
        struct journal *journal = journal_alone(&place, 1024);
        for (unsigned n = 0; n < 20; n++) {
            assert_signs(journal, n, false);
        }
        atomic_store(&clock_wrong_s, wrong[i]);
        assert_int_equal(removed_from(journal), 0);
        assert_signs(journal, 100, false);
        journal_close(journal);
        journal = journal_alone(&place, 1024);
        assert_int_equal(removed_from(journal), 0);
        for (unsigned n = 0; n < 20; n++) {
            assert_signs(journal, n, true);
        }
        grow_older(journal, DAY + 1); /* the time that counts */
        assert_true(removed_from(journal) >= 2);
        assert_signs(journal, 0, false);
        atomic_store(&clock_wrong_s, 0);
        journal_close(journal);
    }
}

static void the_newest_file_stays_however_old(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_alone(&place, SEGMENT_BYTES);
    assert_signs(journal, 1, false);
    grow_older(journal, 1000 * DAY);
    assert_int_equal(removed_from(journal), 0);
    assert_signs(journal, 1, true);
}

static void a_file_is_as_old_as_its_last_record(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_alone(&place, SEGMENT_BYTES);
    assert_signs(journal, 1, false);
    grow_older(journal, DAY - 1);
    assert_signs(journal, 2, false); /* into the same file */
    assert_int_equal(journal->current, 1);
    grow_older(journal, 2);
    assert_signs(journal, 3, false); /* a day after it was begun: into the next */
    assert_int_equal(journal->current, 2);
    assert_int_equal(removed_from(journal), 0);
    assert_signs(journal, 1, true);
    grow_older(journal, DAY - 1);
    assert_int_equal(removed_from(journal), 0);
    grow_older(journal, 1);
    assert_int_equal(removed_from(journal), 1);
    assert_signs(journal, 3, true);
    assert_signs(journal, 1, false);
}

/* ---- what is forgotten ---- */

static void what_is_older_than_the_retention_is_removed_and_signs_anew(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    struct journal *journal = journal_alone(&place, SEGMENT_BYTES);
    char path[128];
    sign_days(journal, 5, 4);
    uint64_t bytes = journal_bytes(journal);
    assert_int_equal(ids_known(journal), 20);
    assert_int_equal(removed_from(journal), 4); /* the fifth day is the newest file */
    assert_int_equal(ids_known(journal), 4);
    assert_true(journal_bytes(journal) < bytes / 3);
    for (uint32_t number = 1; number <= 5; number++) {
        segment_path(&place, number, path);
        assert_int_equal(access(path, F_OK), number <= 4 ? -1 : 0);
    }
    assert_signs(journal, 401, true);
    assert_signs(journal, 1, false);
    assert_signs(journal, 1, true);
    journal_close(journal);
    journal = journal_alone(&place, SEGMENT_BYTES);
    assert_signs(journal, 401, true);
    assert_signs(journal, 1, true);
    assert_signs(journal, 2, false);
    journal_close(journal);
}

static void age_goes_on_over_restarts_and_stands_still_in_between(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    uint64_t age_ms = 0;
    for (unsigned n = 0; n < 10; n++) {
        struct journal *journal = journal_alone(&place, SEGMENT_BYTES);
        assert_true(journal_now(journal).age_ms >= age_ms);
        assert_true(journal_now(journal).age_ms < age_ms + HOUR_MS);
        assert_signs(journal, n, false);
        grow_older(journal, 10);
        age_ms = journal_now(journal).age_ms;
        journal_close(journal);
        atomic_store(&clock_wrong_s, atomic_load(&clock_wrong_s) + 3600LL * 24 * 30); /* it was off for a month */
    }
    atomic_store(&clock_wrong_s, 0);
    struct journal *journal = journal_alone(&place, SEGMENT_BYTES);
    assert_int_equal(journal->current, 4); /* 30 hours each */
    assert_int_equal(removed_from(journal), 2);
    assert_signs(journal, 9, true);
    assert_signs(journal, 0, false);
    journal_close(journal);
}

static void a_file_that_cannot_be_removed_is_forgotten_all_the_same_and_tried_again(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_alone(&place, SEGMENT_BYTES);
    unsigned removed = 0;
    sign_days(journal, 3, 2);
    atomic_store(&unlink_fails, true);
    atomic_store(&watched, true);
    assert_fault(journal_retain(journal, &removed), SIGNER_JOURNAL);
    assert_int_equal(removed, 0);
    assert_signs(journal, 0, false); /* a file that is there for one and not for another would be worse */
    atomic_store(&unlink_fails, false);
    assert_int_equal(removed_from(journal), 2);
    assert_signs(journal, 200, true);
    assert_signs(journal, 0, true);
}

static void as_many_files_as_there_may_be_refuse_until_some_are_removed(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_alone(&place, 1024);
    CLEANUP(op_freep) struct op *op = op_within(60000);
    char why[128] = "";
    bool replayed = false;
    unsigned n = 0;
    assert_signs(journal, n++, false);
    journal_lock(journal);
    journal->on_disk = journal->current - (SEGMENTS_MAX - 1); /* as if so many were there */
    journal_unlock(journal);
    struct fault fault = OK;
    while (!FAULTED(fault) && n < 20) {
        fault = sign_once(op, journal, n++, &replayed);
    }
    assert_fault(fault, SIGNER_JOURNAL);
    assert_false(journal_usable(journal, why, sizeof(why)));
    assert_non_null(strstr(why, "retention"));
    assert_signs(journal, 0, true);
    journal_lock(journal);
    journal->on_disk = journal->first;
    journal_unlock(journal);
    while (!journal_usable(journal, NULL, 0)) {
        (void)sched_yield();
    }
    assert_signs(journal, n - 1, false);
}

static void a_file_that_goes_while_it_is_looked_up_is_forgotten_and_no_failure(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_alone(&place, SEGMENT_BYTES);
    sign_days(journal, 3, 2);
    atomic_store(&goes_just_now, journal);
    assert_signs(journal, 0, false);
    assert_null(atomic_load(&goes_just_now));
    assert_signs(journal, 0, true);
}

static void the_journals_own_thread_removes_when_a_file_was_ended(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_alone(&place, 1024);
    char path[128];
    segment_path(&place, 1, path);
    journal->retention_ms = 0; /* whatever is not the newest is old enough */
    atomic_store(&journal->keeper_call, KEEPER_SLEEPS);
    assert_fault(journal_keeper_start(journal), NONE);
    for (unsigned n = 0; n < 10; n++) {
        assert_signs(journal, n, false);
    }
    while (access(path, F_OK) == 0) {
        (void)sched_yield();
    }
}

/* ---- death in the middle ---- */

#define DEATH_DAYS 4u

static int retain_and_die(const struct place *place, int at)
{
    pid_t pid = fork();
    int status = 0;
    assert_true(pid >= 0);
    if (pid == 0) {
        struct journal *journal = journal_alone(place, SEGMENT_BYTES);
        unsigned removed = 0;
        atomic_store(&watched, true);
        death_at = at;
        atomic_store(&changes, 0);
        _exit(FAULTED(journal_retain(journal, &removed)) || removed != DEATH_DAYS - 1 ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void death_at_any_point_of_the_removal_harms_nothing(void **state)
{
    (void)state;
    int at = 0, code = 9;
    for (; code == 9; at++) {
        CLEANUP(place_free) struct place place = place_new();
        struct journal *journal = journal_alone(&place, SEGMENT_BYTES);
        sign_days(journal, DEATH_DAYS, 3);
        journal_close(journal); /* whose end knows its age */
        code = retain_and_die(&place, at);
        journal = journal_alone(&place, SEGMENT_BYTES);
        for (unsigned day = 0, known_before = 0; day < DEATH_DAYS; day++) {
            CLEANUP(op_freep) struct op *op = op_within(60000);
            bool replayed = false;
            assert_fault(sign_once(op, journal, day * 100 + 1, &replayed), NONE);
            assert_true(replayed || known_before == 0); /* the oldest are gone, never some in between */
            known_before += replayed;
            assert_true(replayed || day + 1 < DEATH_DAYS);
        }
        journal_close(journal);
    }
    assert_int_equal(code, 0);
    assert_int_equal(at, 3 * (DEATH_DAYS - 1) + 1); /* around each of three removals, and behind its sync */
}

/* ---- at the same time ---- */

struct replayer {
    struct journal *journal;
    pthread_t thread;
    atomic_bool *stop;
    struct fault fault;
};

static void *replay_all(void *arg)
{
    struct replayer *one = arg;
    CLEANUP(op_freep) struct op *op = op_within(60000);
    for (unsigned n = 0; !FAULTED(one->fault) && !atomic_load(one->stop); n = (n + 7) % 600) {
        bool replayed = false;
        one->fault = sign_once(op, one->journal, n, &replayed);
    }
    return NULL;
}

static void who_asks_while_files_go_gets_the_same_bytes_or_signs_anew(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_alone(&place, 4096);
    struct replayer all[4];
    atomic_bool stop = false;
    unsigned total = 0;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        all[i] = (struct replayer){ .journal = journal, .stop = &stop };
        assert_int_equal(pthread_create(&all[i].thread, NULL, replay_all, &all[i]), 0);
    }
    for (unsigned round = 0; round < 2000 && total < 200; round++) {
        journal_lock(journal);
        for (uint32_t number = journal->first + 1; number + 1 < journal->current; number++) {
            journal->files[number % SEGMENTS_MAX].begun_ms = 0; /* old enough, as the journal's age is */
        }
        journal->retention_ms = 0;
        journal_unlock(journal);
        total += removed_from(journal);
        (void)sched_yield();
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
        assert_fault(all[i].fault, NONE);
    }
    assert_true(total > 0);
    assert_int_equal(journal->on_disk, journal->first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_forgotten_before_its_time),
        cmocka_unit_test(a_wall_clock_that_is_wrong_forgets_nothing_and_keeps_nothing),
        cmocka_unit_test(the_newest_file_stays_however_old),
        cmocka_unit_test(a_file_is_as_old_as_its_last_record),
        cmocka_unit_test(what_is_older_than_the_retention_is_removed_and_signs_anew),
        cmocka_unit_test(age_goes_on_over_restarts_and_stands_still_in_between),
        cmocka_unit_test(a_file_that_cannot_be_removed_is_forgotten_all_the_same_and_tried_again),
        cmocka_unit_test(as_many_files_as_there_may_be_refuse_until_some_are_removed),
        cmocka_unit_test(a_file_that_goes_while_it_is_looked_up_is_forgotten_and_no_failure),
        cmocka_unit_test(the_journals_own_thread_removes_when_a_file_was_ended),
        cmocka_unit_test(death_at_any_point_of_the_removal_harms_nothing),
        cmocka_unit_test(who_asks_while_files_go_gets_the_same_bytes_or_signs_anew),
    };
    return cmocka_run_group_tests_name("journal retention", tests, NULL, NULL);
}
