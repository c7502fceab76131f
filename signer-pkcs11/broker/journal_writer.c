#include "signer-pkcs11/broker/journal_internal.h"

#include "appliance/base/failpoint.h"

#include <errno.h>
#include <stdio.h>

#define ROLL_MS     ((uint64_t)24 * 3600 * 1000)
#define RETRY_AFTER (1 * NS_PER_S)

/* ---- trouble ---- */

bool journal_lacks_space(struct journal_trouble trouble)
{
    return trouble.error == ENOSPC || trouble.error == EDQUOT || trouble.error == EFBIG;
}

void journal_trouble_text(struct journal_trouble trouble, char *out, size_t size)
{
    char error[48];
    const char *reason = strerror_r(trouble.error, error, sizeof(error));
    switch (trouble.kind) {
    case TROUBLE_NONE:
        (void)snprintf(out, size, "%s", "");
        break;
    case TROUBLE_MEMORY:
        (void)snprintf(out, size, "the signer has no memory left for its journal: restart it");
        break;
    case TROUBLE_FILES:
        (void)snprintf(out, size, "the signer's journal has all the files it may have: shorten its retention");
        break;
    case TROUBLE_WRITE:
        (void)snprintf(out, size, "the signer's journal cannot be written (%s): %s", reason,
                       journal_lacks_space(trouble) ? "make room on its disk, then signing goes on" : "check its disk");
        break;
    case TROUBLE_SYNC:
        (void)snprintf(out, size, "the signer's journal could not be synced: check its disk, then restart the signer");
        break;
    }
}

struct journal_trouble journal_trouble(struct journal *journal)
{
    mono_ns now = clock_mono();
    journal_lock(journal);
    struct journal_trouble trouble = journal->blocked;
    /* whoever writes at the moment finds out as well, and may be held up by the disk */
    bool retry =
        trouble.kind != TROUBLE_NONE && trouble.kind != TROUBLE_SYNC && !journal->writing && now >= journal->retry_at;
    if (retry) {
        journal->retry_at = now + RETRY_AFTER;
    }
    journal_unlock(journal);
    return retry ? journal_mark(journal) : trouble;
}

/* ---- a batch, outside the lock ---- */

struct batch {
    struct journal_write *first;
    size_t size, count;
    size_t room;      /* to be had before anything is written: as `size`, or more */
    uint32_t on_disk; /* number of the oldest file */
};

static size_t size_of(const struct journal_write *write)
{
    return write->entry == NULL ? RECORD_MARK_SIZE : record_size(write->signature.len);
}

static struct fault encode(struct journal *journal, const struct batch *batch)
{
    struct segment_writer *writer = &journal->writer;
    buf_clear(&journal->encoded);
    for (const struct journal_write *write = batch->first; write != NULL; write = write->next) {
        struct record record = { .kind = RECORD_MARK, .synced = writer->end };
        if (write->entry == NULL) {
            record.time = journal_now(journal);
        } else {
            record.kind = RECORD_SIGNATURE;
            record.request = write->entry->request;
            record.signature = write->signature;
            memcpy(record.op_id, write->entry->op_id, sizeof(record.op_id));
        }
        TRY(record_put(&journal->encoded, writer->number, writer->end + journal->encoded.len, &record));
        journal->marked = write->entry == NULL;
    }
    return OK;
}

static enum journal_trouble_kind begin_file(struct journal *journal, const struct batch *batch)
{
    struct segment_writer *writer = &journal->writer;
    if (writer->number + 2 - batch->on_disk > SEGMENTS_MAX) {
        return TROUBLE_FILES;
    }
    struct segment_time now = journal_now(journal);
    if (FAULTED(segment_begin(writer, now))) {
        return TROUBLE_WRITE;
    }
    journal->begun_ms = now.age_ms;
    journal->in_newest = 0;
    journal->begin_next = false;
    return TROUBLE_NONE;
}

/* A batch never spans two files. */
static enum journal_trouble_kind make_room(struct journal *journal, const struct batch *batch)
{
    struct segment_writer *writer = &journal->writer;
    bool old = journal->in_newest > 0 && journal_now(journal).age_ms - journal->begun_ms >= ROLL_MS;
    if (journal->begin_next || old || writer->end + batch->room > writer->limit) {
        enum journal_trouble_kind kind = begin_file(journal, batch);
        if (kind != TROUBLE_NONE) {
            return kind;
        }
    }
    return FAULTED(segment_fill(writer, batch->room)) ? TROUBLE_WRITE : TROUBLE_NONE;
}

static enum journal_trouble_kind write_batch(struct journal *journal, const struct batch *batch)
{
    if (journal->writer.broken) {
        return TROUBLE_SYNC;
    }
    enum journal_trouble_kind kind = make_room(journal, batch);
    if (kind != TROUBLE_NONE) {
        return kind;
    }
    if (FAULTED(encode(journal, batch))) {
        return TROUBLE_MEMORY;
    }
    FAILPOINT("signer.before_journal");
    struct fault fault = segment_append(&journal->writer, buf_span(&journal->encoded));
    FAILPOINT("signer.after_journal");
    if (!FAULTED(fault)) {
        return TROUBLE_NONE;
    }
    journal->marked = false;
    return journal->writer.broken ? TROUBLE_SYNC : TROUBLE_WRITE;
}

/* ---- who writes ---- */

/* Of what waits, the first that fit into one batch. Never empty. */
static struct batch take_batch_locked(struct journal *journal)
{
    struct journal_write *last = journal->waiting;
    struct batch batch = { .first = last, .size = size_of(last), .count = 1, .on_disk = journal->on_disk };
    for (; last->next != NULL && batch.size + size_of(last->next) <= BATCH_BYTES; last = last->next, batch.count++) {
        batch.size += size_of(last->next);
    }
    journal->waiting = last->next;
    last->next = NULL;
    if (journal->waiting == NULL) {
        journal->waiting_end = &journal->waiting;
    }
    /* A disk that was full counts as usable when any signature would fit. */
    bool was_blocked = journal->blocked.kind != TROUBLE_NONE;
    batch.room = was_blocked && batch.size < RECORD_SIZE_MAX ? RECORD_SIZE_MAX : batch.size;
    return batch;
}

/* A file that was begun is known from here on, whether the batch got into it or not. */
static void adopt_file_locked(struct journal *journal)
{
    uint32_t number = journal->writer.number;
    if (number != journal->current) {
        journal->current = number;
        journal->files[number % SEGMENTS_MAX].begun_ms = journal->begun_ms;
        journal->files[number % SEGMENTS_MAX].end = 0;
        journal->marked_ms = journal->begun_ms;
        journal_keeper_wake(journal);
    }
    if (number > 0) {
        size_t *end = &journal->files[number % SEGMENTS_MAX].end;
        journal->bytes += journal->writer.end - *end;
        *end = journal->writer.end;
    }
}

/* The ids of a batch that was written are known before their callers are told. */
static void settle_locked(struct journal *journal, const struct batch *batch, struct journal_trouble trouble)
{
    bool written = trouble.kind == TROUBLE_NONE;
    size_t offset = journal->writer.end - batch->size;
    adopt_file_locked(journal);
    for (const struct journal_write *write = batch->first; write != NULL; write = write->next) {
        if (write->entry == NULL) {
            journal->marked_ms = written ? journal_now(journal).age_ms : journal->marked_ms;
        } else {
            if (written) {
                index_put(&journal->index, write->entry->op_id, place_of(journal->writer.number, offset));
                journal->in_newest++;
            }
            journal_land_locked(journal, write->entry->op_id);
        }
        offset += size_of(write);
    }
    if (trouble.kind != TROUBLE_MEMORY) {
        journal->blocked = trouble;
        journal->retry_at = written ? 0 : clock_mono() + RETRY_AFTER;
    }
}

/* Nothing of a write may be touched once its caller knows: it is on that caller's stack. */
static void tell(const struct journal_write *leader, struct journal_write *batch, struct journal_trouble trouble)
{
    while (batch != NULL) {
        struct journal_write *write = batch;
        batch = write->next;
        write->trouble = trouble;
        if (write != leader) {
            futex_set_and_wake(&write->state, WRITE_DONE);
        }
    }
}

/* Writes the batch that begins with `leader`. The next leader starts before the followers of this one are told: the
 * disk shall not wait for them. Gives the lock back. */
static void lead_unlock(struct journal *journal, struct journal_write *leader)
{
    struct journal_trouble trouble = { TROUBLE_MEMORY, 0 };
    struct batch batch = take_batch_locked(journal);
    BUG_IF(!journal->writing || batch.first != leader);
    /* before the disk has what the index could not hold */
    struct fault fault = index_reserve(&journal->index, batch.count);
    journal_unlock(journal);
    if (!FAULTED(fault)) {
        trouble.kind = write_batch(journal, &batch);
        trouble.error = trouble.kind == TROUBLE_NONE ? 0 : journal->writer.error;
    }
    journal_lock(journal);
    settle_locked(journal, &batch, trouble);
    struct journal_write *next = journal->waiting;
    journal->writing = next != NULL;
    journal_unlock(journal);
    if (next != NULL) {
        futex_set_and_wake(&next->state, WRITE_LEADS);
    }
    tell(leader, batch.first, trouble);
}

struct journal_trouble journal_write(struct journal *journal, struct journal_write *write)
{
    journal_lock(journal);
    *journal->waiting_end = write;
    journal->waiting_end = &write->next;
    if (journal->writing) {
        journal_unlock(journal);
        if (futex_wait_while(&write->state, WRITE_WAITS, FUTEX_FOREVER) == WRITE_DONE) {
            return write->trouble;
        }
        journal_lock(journal);
    }
    journal->writing = true;
    lead_unlock(journal, write);
    return write->trouble;
}

struct journal_trouble journal_mark(struct journal *journal)
{
    struct journal_write mark = { 0 };
    return journal_write(journal, &mark);
}
