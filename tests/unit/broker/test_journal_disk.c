#include "journal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#define RECORD ((size_t)144)

/* How often something could not be written. */
static atomic_uint writes_failed;

ssize_t pwrite(int fd, const void *at, size_t len, off_t offset)
{
    ssize_t put = (ssize_t)syscall(SYS_pwrite64, fd, at, len, offset);
    atomic_fetch_add(&writes_failed, put < 0);
    return put;
}

/* ---- a disk that refuses ---- */

static void assert_unusable(struct journal *journal, const char *reason)
{
    char why[128] = "";
    assert_false(journal_usable(journal, why, sizeof(why)));
    if (strstr(why, reason) == NULL) {
        fail_msg("'%s' does not say '%s'", why, reason);
    }
}

static void assert_size(const struct place *place, size_t size)
{
    char path[128];
    struct stat status;
    segment_path(place, 1, path);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, size);
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
    assert_size(&place, FIRST_AT + RECORD); /* the part that got in was cut again */
    assert_signs(journal, 1, true);         /* what is there can be read */
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

/* ---- a disk of its own that is full ---- */

#define DISK_BYTES ((size_t)3 << 20)

struct disk {
    struct place place; /* where it is mounted; the journal is in a folder of it */
    struct place journal;
    char ballast[128];
};

/* Skips the test where mounting is not allowed. */
static void disk_new(struct disk *disk)
{
    disk->place = place_new();
    bool mounted = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                   mount("none", disk->place.folder, "tmpfs", 0, "size=3m,mode=0700") == 0;
    if (!mounted) {
        (void)rmdir(disk->place.folder);
        skip();
    }
    (void)snprintf(disk->journal.folder, sizeof(disk->journal.folder), "%.40s/journal", disk->place.folder);
    (void)snprintf(disk->ballast, sizeof(disk->ballast), "%.40s/ballast", disk->place.folder);
}

static void disk_free(struct disk *disk)
{
    (void)umount2(disk->place.folder, MNT_DETACH);
    (void)rmdir(disk->place.folder);
}

static void disk_fill(const struct disk *disk)
{
    static const char page[4096] = { 1 };
    CLEANUP(fd_closep) int fd = open(disk->ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, page, sizeof(page)) > 0) {
    }
    assert_int_equal(errno, ENOSPC);
}

static void disk_empty(const struct disk *disk)
{
    assert_int_equal(unlink(disk->ballast), 0);
}

/* Signs until the disk is full: the number of the first that was refused. */
static unsigned sign_until_refused(struct journal *journal, unsigned n)
{
    for (;; n++) {
        CLEANUP(op_freep) struct op *op = op_within(60000);
        bool replayed = false;
        struct fault fault = sign_once(op, journal, n, &replayed);
        if (FAULTED(fault)) {
            assert_fault(fault, SIGNER_JOURNAL);
            assert_non_null(strstr(op->note.detail, "No space left on device"));
            assert_non_null(strstr(op->note.detail, "make room"));
            return n;
        }
        assert_false(replayed);
    }
}

static void a_full_disk_refuses_new_signatures_keeps_the_old_and_goes_on_by_itself(void **state)
{
    (void)state;
    CLEANUP(disk_free) struct disk disk = { 0 };
    CLEANUP(buf_free) struct buf file = BUF_INIT(DISK_BYTES);
    disk_new(&disk);
    struct journal *journal = journal_in(&disk.journal, SEGMENT_BYTES);
    disk_fill(&disk);
    unsigned refused = sign_until_refused(journal, 0); /* first, what was filled ahead is used up */
    assert_int_equal(refused, (SEGMENT_FILL - FIRST_AT) / RECORD);
    unsigned tried = atomic_load(&writes_failed);
    do { /* also after it was tried again, and though a mark would still fit */
        assert_unusable(journal, "No space left on device");
    } while (atomic_load(&writes_failed) == tried);
    for (unsigned n = 0; n < refused; n += 101) {
        assert_signs(journal, n, true);
    }
    segment_load_records(&disk.journal, 1, &file); /* nothing is half-written */
    assert_int_equal(file.len, FIRST_AT + refused * RECORD);
    assert_int_equal(journal_bytes(journal), file.len);

    disk_empty(&disk);
    until_usable(journal);
    assert_signs(journal, refused, false);
    journal_close(journal);
    journal = journal_in(&disk.journal, SEGMENT_BYTES);
    assert_signs(journal, refused, true);
    assert_signs(journal, refused + 1, false);
    journal_close(journal);
}

static void a_full_disk_is_tried_no_more_than_once_a_second_and_costs_the_token_nothing(void **state)
{
    (void)state;
    CLEANUP(disk_free) struct disk disk = { 0 };
    disk_new(&disk);
    CLEANUP(journal_closep) struct journal *journal = journal_in(&disk.journal, SEGMENT_BYTES);
    disk_fill(&disk);
    unsigned refused = sign_until_refused(journal, 0);
    mono_ns begun = clock_mono();
    unsigned before = atomic_load(&writes_failed);
    for (unsigned i = 0; i < 2000; i++) {
        CLEANUP(op_freep) struct op *op = op_within(60000);
        CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
        CLEANUP(journal_leave) struct journal_entry entry = { 0 };
        struct uuid id = id_of(refused);
        struct sha256 request = hash_of_number(refused);
        bool replayed = false;
        assert_fault(journal_enter(op, journal, &id, &request, &entry, &signature, &replayed), SIGNER_JOURNAL);
        assert_false(journal_usable(journal, NULL, 0));
    }
    unsigned seconds = (unsigned)((clock_mono() - begun) / NS_PER_S) + 1;
    assert_true(atomic_load(&writes_failed) - before <= seconds);
    disk_empty(&disk);
}

static void a_journal_on_a_full_disk_opens_and_replays(void **state)
{
    (void)state;
    for (int torn = 0; torn <= 1; torn++) {
        CLEANUP(disk_free) struct disk disk = { 0 };
        disk_new(&disk);
        struct journal *journal = journal_in(&disk.journal, SEGMENT_BYTES);
        assert_signs(journal, 1, false);
        journal_close(journal);
        if (torn) {
            CLEANUP(buf_free) struct buf file = BUF_INIT(DISK_BYTES);
            segment_load_records(&disk.journal, 1, &file);
            segment_store(&disk.journal, 1, span_of(file.at, file.len - 1)); /* no mark: one is to be written */
        }
        disk_fill(&disk);
        journal = journal_in(&disk.journal, SEGMENT_BYTES);
        assert_signs(journal, 1, true);
        unsigned refused = sign_until_refused(journal, 2);
        assert_unusable(journal, "No space left on device");
        disk_empty(&disk);
        until_usable(journal);
        assert_signs(journal, refused, false);
        journal_close(journal);
    }
}

static void a_disk_too_full_for_the_next_file_leaves_none_behind(void **state)
{
    (void)state;
    CLEANUP(disk_free) struct disk disk = { 0 };
    char path[128];
    disk_new(&disk);
    struct journal *journal = journal_in(&disk.journal, 64 * 1024);
    disk_fill(&disk);
    unsigned refused = sign_until_refused(journal, 0);
    assert_int_equal(refused, (64 * 1024 - FIRST_AT) / RECORD);
    segment_path(&disk.journal, 2, path);
    assert_int_equal(access(path, F_OK), -1);
    disk_empty(&disk);
    until_usable(journal);
    assert_signs(journal, refused, false);
    assert_int_equal(access(path, F_OK), 0);
    journal_close(journal);
    journal = journal_in(&disk.journal, 64 * 1024);
    assert_signs(journal, 0, true);
    assert_signs(journal, refused, true);
    journal_close(journal);
}

/* Signs one after the other, each until it is on disk. */
struct hammer {
    struct journal *journal;
    pthread_t thread;
    unsigned first;
    atomic_uint count, refusals;
    atomic_bool stop;
};

static void *hammer_main(void *arg)
{
    struct hammer *hammer = arg;
    while (!atomic_load(&hammer->stop) && hammer->count < 2000) {
        CLEANUP(op_freep) struct op *op = op_within(60000);
        bool replayed = false;
        if (FAULTED(sign_once(op, hammer->journal, hammer->first + hammer->count, &replayed))) {
            atomic_fetch_add(&hammer->refusals, 1);
            (void)sched_yield();
            continue;
        }
        hammer->count++;
    }
    return NULL;
}

static void until_refused(struct hammer hammers[4])
{
    unsigned before[4];
    bool all = false;
    for (unsigned i = 0; i < 4; i++) {
        before[i] = atomic_load(&hammers[i].refusals);
    }
    while (!all) {
        all = true;
        for (unsigned i = 0; i < 4; i++) {
            all = all && (hammers[i].count >= 2000 || atomic_load(&hammers[i].refusals) > before[i]);
        }
        (void)sched_yield();
    }
}

static void many_signers_on_a_disk_that_fills_and_empties_lose_nothing(void **state)
{
    (void)state;
    CLEANUP(disk_free) struct disk disk = { 0 };
    disk_new(&disk);
    struct journal *journal = journal_in(&disk.journal, 32 * 1024);
    struct hammer hammers[4];
    for (unsigned i = 0; i < COUNT_OF(hammers); i++) {
        hammers[i] = (struct hammer){ .journal = journal, .first = i * 10000 };
        assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer_main, &hammers[i]), 0);
    }
    for (int round = 0; round < 3; round++) {
        disk_fill(&disk);
        until_refused(hammers);
        disk_empty(&disk);
        until_usable(journal);
    }
    unsigned total = 0;
    for (unsigned i = 0; i < COUNT_OF(hammers); i++) {
        atomic_store(&hammers[i].stop, true);
        assert_int_equal(pthread_join(hammers[i].thread, NULL), 0);
        total += hammers[i].count;
    }
    assert_true(total > 0);
    journal_close(journal);
    journal = journal_in(&disk.journal, 32 * 1024);
    for (unsigned i = 0; i < COUNT_OF(hammers); i++) {
        for (unsigned k = 0; k < hammers[i].count; k++) {
            assert_signs(journal, hammers[i].first + k, true);
        }
    }
    journal_close(journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_refuses_and_signing_goes_on_when_there_is_room_again),
        cmocka_unit_test(after_a_failed_sync_nothing_is_journalled_until_a_restart),
        cmocka_unit_test(a_full_disk_refuses_new_signatures_keeps_the_old_and_goes_on_by_itself),
        cmocka_unit_test(a_full_disk_is_tried_no_more_than_once_a_second_and_costs_the_token_nothing),
        cmocka_unit_test(a_journal_on_a_full_disk_opens_and_replays),
        cmocka_unit_test(a_disk_too_full_for_the_next_file_leaves_none_behind),
        cmocka_unit_test(many_signers_on_a_disk_that_fills_and_empties_lose_nothing),
    };
    return cmocka_run_group_tests_name("journal disk", tests, NULL, NULL);
}
