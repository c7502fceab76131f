#include "signer-pkcs11/broker/journal_internal.h"

#include "appliance/base/failpoint.h"

/* A batch that takes no longer than this costs less than waking another thread for it and for each answer. */
#define SWIFT_NS (200 * 1000)
#define ROUNDS   2 /* batches that one caller writes, at most */

/* ---- a batch, outside the lock ---- */

static size_t size_of(const struct journal_write *write)
{
    return (RECORD_FIXED + write->len + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
}

static struct fault encode(struct journal *journal, const struct journal_write *batch)
{
    struct segment_writer *writer = &journal->writer;
    buf_clear(&journal->encoded);
    for (const struct journal_write *write = batch; write != NULL; write = write->next) {
        struct record record = { .kind = RECORD_SIGNATURE,
                                 .request = write->request,
                                 .signature = span_of(write->signature, write->len),
                                 .synced = writer->end };
        memcpy(record.op_id, write->op_id, sizeof(record.op_id));
        TRY(record_put(&journal->encoded, writer->number, writer->end + journal->encoded.len, &record));
    }
    return OK;
}

/* A batch never spans two files. */
static struct fault make_room(struct journal *journal, const struct journal_write *batch, const char **ret_why)
{
    struct segment_writer *writer = &journal->writer;
    size_t need = 0;
    for (const struct journal_write *write = batch; write != NULL; write = write->next) {
        need += size_of(write);
    }
    if (writer->end + need <= writer->limit) {
        return OK;
    }
    if (writer->number - journal->first >= SEGMENTS_MAX - 1) {
        *ret_why = "the signer's journal is full: stop the signer and move its oldest files away";
        return FAULT(SIGNER_JOURNAL);
    }
    TRY(segment_begin(writer, writer->number + 1));
    atomic_store(&journal->current, writer->number);
    return OK;
}

static struct fault write_batch(struct journal *journal, const struct journal_write *batch, const char **ret_why)
{
    *ret_why = "the signer's journal could not be written: check the space on its disk";
    TRY(make_room(journal, batch, ret_why));
    TRY(encode(journal, batch));
    FAILPOINT("signer.before_journal");
    struct fault fault = segment_append(&journal->writer, buf_span(&journal->encoded));
    FAILPOINT("signer.after_journal");
    if (journal->writer.broken) {
        *ret_why = JOURNAL_BROKEN_TEXT;
    }
    journal->marked = journal->marked && FAULTED(fault);
    return fault;
}

/* ---- the thread ---- */

/* The ids of a batch that was written are known before their callers are told. */
static void settle_locked(struct journal *journal, const struct journal_write *batch, struct fault fault,
                          struct journal_parked **woken)
{
    size_t offset = journal->writer.end - journal->encoded.len;
    for (const struct journal_write *write = batch; write != NULL; write = write->next) {
        if (!FAULTED(fault)) {
            index_put(&journal->index, write->op_id, place_of(journal->writer.number, offset));
            offset += size_of(write);
        }
        journal_land_locked(journal, write->op_id, woken);
    }
    journal->bytes += FAULTED(fault) ? 0 : journal->encoded.len;
    journal->broken = journal->writer.broken;
}

static struct fault write_timed(struct journal *journal, const struct journal_write *batch, const char **ret_why,
                                bool *ret_swift)
{
    mono_ns begun = clock_mono();
    struct fault fault = write_batch(journal, batch, ret_why);
    *ret_swift = clock_mono() - begun <= SWIFT_NS;
    return fault;
}

static void tell(struct journal_write *batch, struct fault fault, const char *why)
{
    while (batch != NULL) {
        struct journal_write *next = batch->next;
        batch->done(batch, FAULTED(fault) ? FAULT(SIGNER_JOURNAL) : OK, FAULTED(fault) ? why : "");
        batch = next;
    }
}

/* Takes all that waits, writes it, and tells. Under the lock at both ends, not in between. */
static void run_batch_locked(struct journal *journal)
{
    const char *why = "the signer has no memory left for its journal: restart it";
    struct journal_parked *woken = NULL;
    struct journal_write *batch = TAKE(journal->waiting);
    bool swift = false;
    size_t count = 0;
    BUG_IF(journal->writing || batch == NULL);
    journal->writing = true;
    journal->waiting_end = &journal->waiting;
    for (const struct journal_write *write = batch; write != NULL; write = write->next) {
        count++;
    }
    /* before the disk has what the index could not hold */
    struct fault fault = index_reserve(&journal->index, count);
    journal_unlock(journal);
    if (!FAULTED(fault)) {
        fault = write_timed(journal, batch, &why, &swift);
    }
    journal_lock(journal);
    settle_locked(journal, batch, fault, &woken);
    journal->swift = swift;
    journal_unlock(journal);
    tell(batch, fault, why);
    journal_wake(woken);
    journal_lock(journal);
    journal->writing = false;
}

static void call_thread(struct journal *journal)
{
    BUG_IF(pthread_cond_signal(&journal->work) != 0);
}

void journal_write_unlock(struct journal *journal)
{
    for (int round = 0; round < ROUNDS && journal->swift && !journal->writing && journal->waiting != NULL; round++) {
        run_batch_locked(journal);
    }
    bool left = !journal->writing && (journal->waiting != NULL || journal->stopping);
    journal_unlock(journal);
    if (left) {
        call_thread(journal);
    }
}

static void *writer_main(void *arg)
{
    struct journal *journal = arg;
    (void)pthread_setname_np(pthread_self(), "journal");
    journal_lock(journal);
    while (journal->waiting != NULL || journal->writing || !journal->stopping) {
        if (journal->waiting != NULL && !journal->writing) {
            run_batch_locked(journal);
        } else {
            BUG_IF(pthread_cond_wait(&journal->work, &journal->lock) != 0);
        }
    }
    journal_unlock(journal);
    return NULL;
}

struct fault journal_thread_start(struct journal *journal)
{
    REQUIRE(pthread_create(&journal->thread, NULL, writer_main, journal) == 0, NO_MEMORY);
    journal->runs = true;
    return OK;
}

void journal_thread_stop(struct journal *journal)
{
    if (!journal->runs) {
        return;
    }
    journal_lock(journal);
    journal->stopping = true;
    BUG_IF(pthread_cond_signal(&journal->work) != 0);
    journal_unlock(journal);
    BUG_IF(pthread_join(journal->thread, NULL) != 0);
    journal->runs = false;
}

struct fault journal_mark(struct journal *journal)
{
    if (journal->marked || journal->writer.end == SEGMENT_HEADER) {
        return OK;
    }
    struct record mark = { .kind = RECORD_MARK, .synced = journal->writer.end };
    buf_clear(&journal->encoded);
    TRY(record_put(&journal->encoded, journal->writer.number, journal->writer.end, &mark));
    TRY(segment_append(&journal->writer, buf_span(&journal->encoded)));
    journal->bytes += journal->encoded.len;
    journal->marked = true;
    return OK;
}
