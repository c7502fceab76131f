/* Which messages of the log are replaced, and by what: a sorted array, which history_load.c puts in place whole. */
#include "api/events/history.h"

#include "appliance/base/alloc.h"

void history_free(struct history *history)
{
    mem_free(history->entries);
    *history = (struct history){ 0 };
}

/* ---- what is known ---- */

static const struct history_entry *find_locked(const struct history *history, uint64_t stream_seq)
{
    size_t low = 0, high = history->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t there = history->entries[middle].replacement.stream_seq;
        if (there == stream_seq) {
            return &history->entries[middle];
        }
        if (there < stream_seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

bool history_find(struct event_log *log, uint64_t stream_seq, struct history_entry *ret_entry)
{
    event_log_lock(log);
    const struct history_entry *entry = find_locked(&log->history, stream_seq);
    if (entry != NULL) {
        *ret_entry = *entry;
    }
    event_log_unlock(log);
    return entry != NULL;
}

bool event_log_replaced(struct event_log *log, uint64_t stream_seq, struct event_replacement *ret_replacement)
{
    struct history_entry entry;
    if (!history_find(log, stream_seq, &entry)) {
        return false;
    }
    if (ret_replacement != NULL) {
        *ret_replacement = entry.replacement;
    }
    return true;
}

uint64_t event_log_activated(struct event_log *log)
{
    event_log_lock(log);
    uint64_t activated = log->history.activated;
    event_log_unlock(log);
    return activated;
}

struct fault event_log_replacements(struct op *op, struct event_log *log, struct tenant_id tenant, uint64_t below,
                                    struct event_replacement **ret_entries, size_t *ret_count)
{
    event_log_lock(log);
    size_t count = 0, at = 0;
    for (size_t i = 0; i < log->history.count; i++) {
        const struct history_entry *entry = &log->history.entries[i];
        count += tenant_id_equal(entry->tenant, tenant) && entry->replacement.stream_seq < below;
    }
    struct event_replacement *made = NULL;
    struct fault fault = arena_take(op->arena, count + 1, sizeof(*made), &made);
    for (size_t i = 0; i < log->history.count && !FAULTED(fault); i++) {
        const struct history_entry *entry = &log->history.entries[i];
        if (tenant_id_equal(entry->tenant, tenant) && entry->replacement.stream_seq < below) {
            made[at++] = entry->replacement;
        }
    }
    event_log_unlock(log);
    TRY(fault);
    *ret_entries = made;
    *ret_count = count;
    return OK;
}

/* ---- replacements ---- */

static struct fault get_body(struct op *op, struct event_log *log, struct tenant_id tenant, int64_t generation,
                             uint64_t stream_seq, const struct sha256 *wanted, struct event_message *ret_message)
{
    char subject[HISTORY_SUBJECT_MAX];
    natsMsg *message = NULL;
    struct sha256 digest;
    struct event_message made;
    history_body_subject(tenant, generation, stream_seq, subject);
    struct fault fault = history_newest(op, log, subject, &message);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(op, FAULT(LOG_UNTRUSTED), "the replacement of message %llu is missing",
                       (unsigned long long)stream_seq);
    }
    TRY(fault);
    fault = sha256_of(message_span(message), &digest);
    if (!FAULTED(fault) && !span_equal(SPAN_ARRAY(digest.at), SPAN_ARRAY(wanted->at))) {
        fault = op_fail(op, FAULT(LOG_UNTRUSTED), "the replacement of message %llu is not the one that was activated",
                        (unsigned long long)stream_seq);
    }
    if (!FAULTED(fault)) {
        fault = event_body_decode(op, stream_seq, message_span(message), &made);
    }
    natsMsg_Destroy(message);
    TRY(fault);
    REQUIRE(tenant_id_equal(made.tenant, tenant), LOG_UNTRUSTED);
    *ret_message = made;
    return OK;
}

struct fault event_history_get(struct op *op, struct event_log *log, int64_t generation, uint64_t stream_seq,
                               const struct sha256 *digest, struct event_message *ret_message)
{
    return get_body(op, log, op->tenant, generation, stream_seq, digest, ret_message);
}

struct fault history_read(struct op *op, struct event_log *log, uint64_t stream_seq, struct event_message *ret_message)
{
    struct history_entry entry;
    REQUIRE(history_find(log, stream_seq, &entry), NOT_FOUND);
    return get_body(op, log, entry.tenant, entry.replacement.generation, stream_seq, &entry.replacement.digest,
                    ret_message);
}
