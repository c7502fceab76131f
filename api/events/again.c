/* A message of a verified copy, back to where it was. */
#include "api/events/internal.h"

#include <stdio.h>

#define ATTEMPT_MS  10000
#define SUBJECT_MAX 128

static struct fault check_copy(struct op *op, const struct event_copy *copy, char subject[SUBJECT_MAX])
{
    struct event_message message;
    (void)snprintf(subject, SUBJECT_MAX, "svc.events.%s.%s", copy->tenant.text, copy->lane);
    struct fault fault = event_message_decode(op, copy->stream_seq, span_text(subject), copy->body, &message);
    if (FAULTED(fault) || !uuid_equal(message.message_id, copy->message_id)) {
        op->note = (struct fault_note){ 0 };
        return op_fail(op, FAULT(LOG_REPAIR), "the copy of message %llu is not a message of this log",
                       (unsigned long long)copy->stream_seq);
    }
    return OK;
}

static natsStatus publish(struct op *op, struct event_log *log, const struct event_copy *copy, const char *subject,
                          jsPubAck **ret_ack, jsErrCode *ret_code)
{
    jsPubOptions options;
    natsStatus status = jsPubOptions_Init(&options);
    if (status != NATS_OK) {
        return status;
    }
    options.MaxWait = wait_ms(op->deadline, ATTEMPT_MS);
    options.MsgId = copy->repeated ? NULL : copy->message_id.text;
    options.ExpectStream = log->config->nats_stream;
    options.ExpectLastSeq = copy->stream_seq - 1; /* 0 asks for nothing: the answer's number tells */
    return js_Publish(ret_ack, log->js, subject, copy->body.at, (int)copy->body.len, &options, ret_code);
}

struct fault event_log_append_again(struct op *op, struct event_log *log, const struct event_copy *copy)
{
    BUG_IF(op->tx_open != 0);
    char subject[SUBJECT_MAX];
    jsPubAck *ack = NULL;
    jsErrCode code = 0;
    TRY(check_copy(op, copy, subject));
    natsStatus status = publish(op, log, copy, subject, &ack, &code);
    if (status != NATS_OK) {
        return op_fail(op, nats_fault(op, status, code, "appending a copy"),
                       "message %llu was not acknowledged: look at the log again, and repeat the command with what "
                       "its end is then",
                       (unsigned long long)copy->stream_seq);
    }
    uint64_t seq = ack->Sequence;
    bool again = ack->Duplicate;
    jsPubAck_Destroy(ack);
    if (seq != copy->stream_seq || again) {
        return op_fail(op, FAULT(LOG_REPAIR), "message %llu came to lie at %llu%s: stopped",
                       (unsigned long long)copy->stream_seq, (unsigned long long)seq, again ? " as a duplicate" : "");
    }
    event_log_saw(log, seq);
    return OK;
}

void event_log_distrust(struct event_log *log, uint64_t from)
{
    atomic_store(&log->distrusted_from, from);
}

struct fault event_log_check_trust(struct op *op, struct event_log *log)
{
    uint64_t from = atomic_load(&log->distrusted_from);
    return from == 0 ? OK
                     : op_fail(op, FAULT(LOG_UNTRUSTED),
                               "the event log does not match the verified copies from message %llu on: nothing was "
                               "recorded",
                               (unsigned long long)from);
}
