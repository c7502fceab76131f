#include "signer-pkcs11/broker/journal_internal.h"

/* ---- the leader's part: outside the lock, one at a time ---- */

static struct fault encode(struct journal *journal, const struct batch *batch)
{
    struct segment_writer *writer = &journal->writer;
    buf_clear(&journal->encoded);
    for (size_t i = 0; i < batch->count; i++) {
        const struct pending *pending = &batch->at[i];
        struct record record = { .kind = RECORD_SIGNATURE,
                                 .request = pending->request,
                                 .signature = span_of(pending->signature, pending->len),
                                 .synced = writer->end };
        memcpy(record.op_id, pending->op_id, sizeof(record.op_id));
        TRY(record_put(&journal->encoded, writer->number, writer->end + journal->encoded.len, &record));
    }
    return OK;
}

/* A batch never spans two files. */
static struct fault make_room(struct journal *journal, const struct batch *batch, const char **ret_complaint)
{
    struct segment_writer *writer = &journal->writer;
    size_t need = 0;
    for (size_t i = 0; i < batch->count; i++) {
        need += (RECORD_FIXED + batch->at[i].len + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
    }
    if (writer->end + need <= writer->limit) {
        return OK;
    }
    if (writer->number - journal->first >= SEGMENTS_MAX - 1) {
        *ret_complaint = "the signer's journal is full: stop the signer and move its oldest files away";
        return FAULT(SIGNER_JOURNAL);
    }
    TRY(segment_begin(writer, writer->number + 1));
    atomic_store(&journal->current, writer->number);
    return OK;
}

static struct fault write_batch(struct journal *journal, const struct batch *batch, const char **ret_complaint)
{
    *ret_complaint = "the signer's journal could not be written: check the space on its disk";
    TRY(make_room(journal, batch, ret_complaint));
    TRY(encode(journal, batch));
    struct fault fault = segment_append(&journal->writer, buf_span(&journal->encoded));
    if (journal->writer.broken) {
        *ret_complaint = JOURNAL_BROKEN_TEXT;
    }
    journal->marked = journal->marked && FAULTED(fault);
    return fault;
}

/* ---- under the lock ---- */

static void finish_locked(struct journal *journal, struct batch *batch, uint32_t number, size_t start,
                          struct fault fault)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct pending *pending = &batch->at[i];
        if (!FAULTED(fault)) {
            index_put(&journal->index, pending->op_id, place_of(number, start));
            start += (RECORD_FIXED + pending->len + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
        }
        journal_land_locked(journal, pending->op_id);
        if (pending->waiter != NULL) {
            pending->waiter->done = true;
            pending->waiter->fault = fault;
        }
    }
    batch->count = 0;
    batch->waiting = 0;
}

/* Writes the batch that is filling now, while the next one fills. */
static void lead_locked(struct journal *journal)
{
    uint64_t number = journal->filling++;
    struct batch *batch = &journal->batches[number & 1];
    BUG_IF(journal->leading || journal->batches[journal->filling & 1].count != 0);
    journal->leading = true;
    const char *complaint = "the signer has no memory left for its journal: restart it";
    struct fault fault = index_reserve(&journal->index, batch->count);
    journal_unlock(journal);
    if (!FAULTED(fault)) {
        fault = write_batch(journal, batch, &complaint);
    }
    size_t start = journal->writer.end - journal->encoded.len;
    journal_lock(journal);
    journal->bytes += FAULTED(fault) ? 0 : journal->encoded.len;
    journal->broken = journal->writer.broken;
    journal->complaint = complaint;
    journal->leading = false;
    finish_locked(journal, batch, journal->writer.number, start, FAULTED(fault) ? FAULT(SIGNER_JOURNAL) : OK);
    BUG_IF(pthread_cond_broadcast(&journal->written[number & 1]) != 0);
    if (journal->batches[journal->filling & 1].count > 0) {
        BUG_IF(pthread_cond_signal(&journal->written[journal->filling & 1]) != 0); /* one of them leads now */
    }
}

/* A batch whose waiters have all given up: its records are wanted all the same, others may wait for their ids. */
static bool abandoned_locked(const struct journal *journal)
{
    const struct batch *batch = &journal->batches[journal->filling & 1];
    return !journal->leading && batch->count > 0 && batch->waiting == 0;
}

static struct fault await_locked(struct op *op, struct journal *journal, uint64_t number, struct waiter *waiter)
{
    bool in_time = true;
    while (!waiter->done && (in_time || !journal->leading)) {
        if (!journal->leading) {
            lead_locked(journal); /* whoever wakes and finds nobody writing writes: no batch is left behind */
            continue;
        }
        in_time = journal_wait_locked(journal, &journal->written[number & 1], op->deadline);
    }
    if (waiter->done) {
        while (abandoned_locked(journal)) {
            lead_locked(journal);
        }
    } else {
        waiter->pending->waiter = NULL;
        journal->batches[number & 1].waiting--;
        return op_fail(op, FAULT(DEADLINE), "the signer's journal was not on disk in time: repeat the request");
    }
    if (FAULTED(waiter->fault)) {
        return op_fail(op, waiter->fault, "%s", journal->complaint);
    }
    return OK;
}

struct fault journal_commit(struct op *op, struct journal_entry *entry, struct span signature)
{
    BUG_IF(entry->journal == NULL || signature.len > SIGNATURE_MAX);
    struct journal *journal = entry->journal;
    struct waiter waiter = { 0 };
    journal_lock(journal);
    uint64_t number = journal->filling;
    struct batch *batch = &journal->batches[number & 1];
    BUG_IF(batch->count == BATCH_MAX); /* each has a flight of its own */
    struct pending *pending = &batch->at[batch->count++];
    pending->waiter = &waiter;
    batch->waiting++;
    memcpy(pending->op_id, entry->op_id, sizeof(pending->op_id));
    pending->request = entry->request;
    pending->len = (uint16_t)signature.len;
    memcpy(pending->signature, signature.at, signature.len);
    waiter.pending = pending;
    entry->journal = NULL; /* the flight is the batch's now */
    struct fault fault = await_locked(op, journal, number, &waiter);
    journal_unlock(journal);
    return fault;
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
