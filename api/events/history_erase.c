/* Takes away what is superseded: overwritten on the servers' disks. */
#include "api/events/history.h"

static struct fault erase_at(struct op *op, struct event_log *log, const char *stream, uint64_t stream_seq)
{
    jsOptions options;
    jsErrCode code = 0;
    REQUIRE(jsOptions_Init(&options) == NATS_OK, INTERNAL);
    options.Wait = wait_ms(op->deadline, HISTORY_ASK_MS);
    natsStatus status = js_EraseMsg(log->js, stream, stream_seq, &options, &code);
    if (status == NATS_OK) {
        return OK;
    }
    struct fault fault = nats_fault(op, status, code, "erasing a message");
    return fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault;
}

/* The server's answers to erasing what is gone differ between its versions: so it is asked whether it is there. */
static struct fault erase_if_there(struct op *op, struct event_log *log, const char *stream, uint64_t stream_seq)
{
    natsMsg *message = NULL;
    jsOptions options;
    jsErrCode code = 0;
    REQUIRE(jsOptions_Init(&options) == NATS_OK, INTERNAL);
    options.Wait = wait_ms(op->deadline, HISTORY_ASK_MS);
    natsStatus status = js_GetMsg(&message, log->js, stream, stream_seq, &options, &code);
    natsMsg_Destroy(message);
    if (status == NATS_OK) {
        return erase_at(op, log, stream, stream_seq);
    }
    struct fault fault = nats_fault(op, status, code, "looking for a message to erase");
    if (fault.code == FAULT_NOT_FOUND) {
        op->note = (struct fault_note){ 0 };
        return OK;
    }
    return fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault;
}

static struct fault erase_older(struct op *op, struct event_log *log, const struct event_replacement *entry)
{
    char stream[HISTORY_SUBJECT_MAX], subject[HISTORY_SUBJECT_MAX];
    history_name(log, stream);
    for (int64_t generation = 2; generation < entry->generation; generation++) {
        natsMsg *message = NULL;
        history_body_subject(op->tenant, generation, entry->stream_seq, subject);
        struct fault fault = history_newest(op, log, subject, &message);
        if (fault.code == FAULT_NOT_FOUND) {
            op->note = (struct fault_note){ 0 };
            continue;
        }
        TRY(fault);
        uint64_t seq = natsMsg_GetSequence(message);
        natsMsg_Destroy(message);
        TRY(erase_at(op, log, stream, seq));
    }
    return OK;
}

struct fault event_log_erase(struct op *op, struct event_log *log, const struct event_replacement *entry)
{
    BUG_IF(op->tx_open != 0);
    struct history_entry known;
    REQUIRE(history_find(log, entry->stream_seq, &known) && tenant_id_equal(known.tenant, op->tenant) &&
                known.replacement.generation == entry->generation,
            BAD_ARGUMENT);
    TRY(erase_if_there(op, log, log->config->nats_stream, entry->stream_seq));
    return erase_older(op, log, entry);
}

struct fault event_log_can_erase(struct op *op, struct event_log *log)
{
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus status = stream_get(log, op->deadline, &info, &code);
    if (status != NATS_OK) {
        return nats_fault(op, status, code, "looking at the stream");
    }
    bool denied = info->Config->DenyDelete;
    jsStreamInfo_Destroy(info);
    return denied ? op_fail(op, FAULT(LOG_UNSAFE),
                            "the event log's stream was made to deny deletes, for good: what is superseded cannot be "
                            "erased from it; see docs/privacy-erasure.md")
                  : OK;
}
