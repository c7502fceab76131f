#include "api/events/transfer.h"

#include "api/events/internal.h"

#include <stdio.h>

#define ASK_MS      3000
#define READ_NS     (30 * NS_PER_S)
#define SUBJECT_MAX 160

struct fault event_log_each(struct op *op, struct event_log *log, uint64_t first, uint64_t last, event_message_fn take,
                            void *arg)
{
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    TRY(event_reader_new(log, first, &reader));
    for (uint64_t seq = first; seq <= last; seq++) {
        struct event_message message;
        REQUIRE(!op_expired(op), DEADLINE);
        arena_clear(op->arena);
        TRY(event_reader_next(op, reader, clock_mono() + READ_NS, &message));
        TRY(take(op, arg, &message));
    }
    return OK;
}

/* ---- stored messages by subject ---- */

struct filtered {
    const char *stream, *subject;
    struct fault (*take)(struct op *op, void *arg, natsMsg *message);
    void *arg;
};

static struct fault each_of(struct op *op, const struct filtered *filtered, natsSubscription *subscription)
{
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus status = natsSubscription_GetConsumerInfo(&info, subscription, NULL, &code);
    if (status != NATS_OK) {
        return nats_fault(op, status, code, "asking how many messages there are");
    }
    uint64_t left = info->NumPending + info->Delivered.Consumer;
    jsConsumerInfo_Destroy(info);
    for (; left > 0; left--) {
        natsMsg *message = NULL;
        arena_clear(op->arena);
        status = natsSubscription_NextMsg(&message, subscription, wait_ms(op->deadline, ASK_MS));
        if (status != NATS_OK) {
            return nats_fault(op, status, 0, "reading stored messages");
        }
        struct fault fault = filtered->take(op, filtered->arg, message);
        natsMsg_Destroy(message);
        TRY(fault);
    }
    return OK;
}

/* A stream that is not there has no messages. */
static struct fault each(struct op *op, struct event_log *log, const struct filtered *filtered)
{
    BUG_IF(op->tx_open != 0);
    jsSubOptions options;
    natsSubscription *subscription = NULL;
    jsErrCode code = 0;
    natsStatus status = jsSubOptions_Init(&options);
    if (status == NATS_OK) {
        options.Stream = filtered->stream;
        options.Ordered = true;
        options.Config.DeliverPolicy = js_DeliverAll;
        status = js_SubscribeSync(&subscription, log->js, filtered->subject, NULL, &options, &code);
    }
    if ((unsigned)code == JSStreamNotFoundErr) {
        return OK;
    }
    if (status != NATS_OK) {
        return nats_fault(op, status, code, "reading stored messages");
    }
    struct fault fault = each_of(op, filtered, subscription);
    (void)natsSubscription_Unsubscribe(subscription);
    natsSubscription_Destroy(subscription);
    return fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault;
}

struct lane {
    event_message_fn take;
    void *arg;
};

static struct fault take_decoded(struct op *op, void *arg, natsMsg *message)
{
    const struct lane *lane = arg;
    jsMsgMetaData *meta = NULL;
    struct event_message decoded;
    REQUIRE(natsMsg_GetMetaData(&meta, message) == NATS_OK, LOG_DECODE);
    uint64_t seq = meta->Sequence.Stream;
    jsMsgMetaData_Destroy(meta);
    TRY(event_message_decode(op, seq, span_text(natsMsg_GetSubject(message)), message_span(message), &decoded));
    return lane->take(op, lane->arg, &decoded);
}

struct fault event_lane_each(struct op *op, struct event_log *log, const char *lane, event_message_fn take, void *arg)
{
    char subject[SUBJECT_MAX];
    struct lane way = { take, arg };
    (void)snprintf(subject, sizeof(subject), "svc.events.*.%s", lane);
    return each(op, log, &(struct filtered){ log->config->nats_stream, subject, take_decoded, &way });
}

struct stored {
    event_stored_fn take;
    void *arg;
};

static struct fault take_stored(struct op *op, void *arg, natsMsg *message)
{
    const struct stored *stored = arg;
    return stored->take(op, stored->arg, span_text(natsMsg_GetSubject(message)), message_span(message));
}

struct fault event_history_each(struct op *op, struct event_log *log, event_stored_fn take, void *arg)
{
    char stream[SUBJECT_MAX];
    struct stored way = { take, arg };
    (void)snprintf(stream, sizeof(stream), "%s_history", log->config->nats_stream);
    return each(op, log, &(struct filtered){ stream, "svc.history.>", take_stored, &way });
}

/* ---- storing ---- */

struct fault event_log_restore(struct op *op, struct event_log *log, const struct event_message *message)
{
    BUG_IF(op->tx_open != 0);
    jsPubOptions options;
    jsPubAck *ack = NULL;
    jsErrCode code = 0;
    char subject[SUBJECT_MAX];
    (void)snprintf(subject, sizeof(subject), "svc.events.%s.%s", message->tenant.text, message->events[0].lane);
    REQUIRE(jsPubOptions_Init(&options) == NATS_OK, INTERNAL);
    options.MaxWait = wait_ms(op->deadline, ASK_MS);
    options.ExpectStream = log->config->nats_stream;
    options.ExpectLastSeq = message->stream_seq - 1; /* 0 asks for nothing: the answer tells */
    /* Without its message id: a late retry that the log has twice would be taken for a duplicate. */
    natsStatus status = js_Publish(&ack, log->js, subject, message->body.at, (int)message->body.len, &options, &code);
    uint64_t seq = ack != NULL ? ack->Sequence : 0;
    jsPubAck_Destroy(ack);
    if (status != NATS_OK) {
        return nats_fault(op, status, code, "restoring a message");
    }
    event_log_saw(log, seq);
    return seq == message->stream_seq
               ? OK
               : op_fail(op, FAULT(LOG_CONFLICT), "somebody else writes to the event log: message %llu became %llu",
                         (unsigned long long)message->stream_seq, (unsigned long long)seq);
}

struct fault event_history_restore(struct op *op, struct event_log *log, const char *subject, struct span body)
{
    return history_store(op, log, subject, body);
}
