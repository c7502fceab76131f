#include "signer-pkcs11/broker/journal_internal.h"

#include "appliance/base/failpoint.h"
#include "appliance/base/log.h"

#include <errno.h>
#include <unistd.h>

#define LOOK_EVERY  (3600 * NS_PER_S)
#define MARK_MS     ((uint64_t)3600 * 1000) /* what a killed signer loses of its journal's age, at most */
#define SWEEP_SLOTS ((size_t)4096)          /* of the index, under the lock at one time */
#define STACK_SIZE  ((size_t)128 << 10)

/* ---- which ---- */

/* How many of the oldest files are old enough. A file's records are older than the file behind it. */
static uint32_t forget_locked(struct journal *journal, uint64_t age_ms)
{
    uint32_t before = journal->first;
    while (journal->first < journal->current) {
        uint64_t begun_ms = journal->files[(journal->first + 1) % SEGMENTS_MAX].begun_ms;
        if (age_ms < begun_ms || age_ms - begun_ms < journal->retention_ms) {
            break;
        }
        journal->bytes -= journal->files[journal->first % SEGMENTS_MAX].end;
        journal->first++;
    }
    return journal->first - before;
}

/* ---- away with them ---- */

/* One after the other, each durably: a power loss must leave no gap. */
static struct fault remove_file(const struct journal *journal, uint32_t number)
{
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    FAILPOINT("signer.before_forget");
    REQUIRE(unlinkat(journal->folder, name, 0) == 0 || errno == ENOENT, SIGNER_JOURNAL);
    FAILPOINT("signer.after_forget");
    REQUIRE(fsync(journal->folder) == 0, SIGNER_JOURNAL);
    return OK;
}

struct forgotten {
    uint32_t current, first;
};

static bool is_forgotten(const void *arg, uint32_t place)
{
    const struct forgotten *forgotten = arg;
    return place_number(forgotten->current, place) < forgotten->first;
}

static void sweep_index(struct journal *journal)
{
    for (size_t at = 0, size = 0; at == 0 || at < size; at += SWEEP_SLOTS) {
        journal_lock(journal);
        if (size != journal->index.size) { /* it grew: everything stands elsewhere */
            size = journal->index.size;
            at = 0;
        }
        const struct forgotten forgotten = { .current = journal->current, .first = journal->first };
        index_forget(&journal->index, at, SWEEP_SLOTS, is_forgotten, &forgotten);
        journal_unlock(journal);
    }
}

struct fault journal_retain(struct journal *journal, unsigned *ret_removed)
{
    struct fault fault = OK;
    uint64_t age_ms = journal_now(journal).age_ms;
    journal_lock(journal);
    uint32_t forgotten = forget_locked(journal, age_ms), first = journal->first, on_disk = journal->on_disk;
    journal_unlock(journal);
    if (forgotten > 0) {
        sweep_index(journal); /* before newer files could get the same places */
    }
    for (*ret_removed = 0; on_disk < first && !FAULTED(fault);) {
        fault = remove_file(journal, on_disk);
        if (!FAULTED(fault)) {
            on_disk++;
            ++*ret_removed;
        }
    }
    journal_lock(journal);
    journal->on_disk = on_disk;
    journal_unlock(journal);
    return fault;
}

/* ---- the keeper ---- */

static void mark_the_time(struct journal *journal)
{
    uint64_t age_ms = journal_now(journal).age_ms;
    journal_lock(journal);
    bool due = age_ms - journal->marked_ms >= MARK_MS && journal->blocked.kind == TROUBLE_NONE;
    journal_unlock(journal);
    if (due) {
        (void)journal_mark(journal); /* a trouble is remembered where requests meet it */
    }
}

static void *keeper_main(void *arg)
{
    struct journal *journal = arg;
    (void)pthread_setname_np(pthread_self(), "journal");
    for (;;) {
        unsigned removed = 0;
        if (FAULTED(journal_retain(journal, &removed))) {
            log_write(ERROR, "journal_not_compacted",
                      LOG_TEXT("detail", "an old file of the signer's journal cannot be removed"));
        }
        if (removed > 0) {
            log_write(INFO, "journal_compacted", LOG_INT("files", removed), LOG_INT("bytes", journal_bytes(journal)));
        }
        mark_the_time(journal);
        uint32_t call = futex_wait_while(&journal->keeper_call, KEEPER_SLEEPS, clock_mono() + LOOK_EVERY);
        if (call == KEEPER_ENDS) {
            return NULL;
        }
        (void)atomic_compare_exchange_strong(&journal->keeper_call, &call, KEEPER_SLEEPS);
    }
}

void journal_keeper_wake(struct journal *journal)
{
    uint32_t sleeps = KEEPER_SLEEPS;
    if (atomic_compare_exchange_strong(&journal->keeper_call, &sleeps, KEEPER_LOOKS)) {
        futex_wake(&journal->keeper_call);
    }
}

struct fault journal_keeper_start(struct journal *journal)
{
    pthread_attr_t attr;
    BUG_IF(pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, STACK_SIZE) != 0);
    int rc = pthread_create(&journal->keeper, &attr, keeper_main, journal);
    (void)pthread_attr_destroy(&attr);
    REQUIRE(rc == 0, NO_MEMORY);
    journal->keeper_runs = true;
    return OK;
}

void journal_keeper_stop(struct journal *journal)
{
    if (journal->keeper_runs) {
        futex_set_and_wake(&journal->keeper_call, KEEPER_ENDS);
        BUG_IF(pthread_join(journal->keeper, NULL) != 0);
        journal->keeper_runs = false;
    }
}
