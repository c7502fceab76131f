#include "api/events/internal.h"

#include "appliance/base/tracing.h"

#include <stdio.h>

#define ATTEMPT_MS  2000 /* one wait for an acknowledgement */
#define AGAIN_NS    (50 * NS_PER_MS)
#define UNSENT_NS   (3 * NS_PER_S) /* what was never sent is given up sooner than what may be stored */
#define ACCEPT_NS   (3 * NS_PER_S)
#define SUBJECT_MAX 128

/* ---- is this connection's server still what event_log_open accepted? ---- */

/* True when this caller is to look; it must then call accepted(). Waits while another one looks. */
static bool must_look(struct event_log *log, mono_ns deadline)
{
    event_log_lock(log);
    while (log->checking && clock_mono() < deadline) {
        event_log_wait(log, deadline);
    }
    bool mine = !log->checking && atomic_load(&log->accepted_connect) != atomic_load(&log->connects);
    log->checking = log->checking || mine;
    event_log_unlock(log);
    return mine;
}

static void accepted(struct event_log *log, unsigned connect, bool safe)
{
    event_log_lock(log);
    log->checking = false;
    if (safe) {
        event_log_accepted(log, connect);
    }
    BUG_IF(pthread_cond_broadcast(&log->changed) != 0);
    event_log_unlock(log);
}

static struct fault look_again(struct op *op, struct event_log *log)
{
    event_log_count_connects(log);
    if (atomic_load(&log->accepted_connect) == atomic_load(&log->connects)) {
        return OK;
    }
    mono_ns most = clock_mono() + ACCEPT_NS;
    mono_ns deadline = op->deadline < most ? op->deadline : most;
    if (!must_look(log, deadline)) {
        return atomic_load(&log->accepted_connect) == atomic_load(&log->connects) ? OK : FAULT(LOG_UNAVAILABLE);
    }
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    unsigned connect = atomic_load(&log->connects);
    struct fault fault = stream_accept(log, false, deadline, &why);
    accepted(log, connect, !FAULTED(fault));
    if (FAULTED(fault)) {
        op_note_log(op, "%.*s", (int)why.len, (const char *)why.at);
    }
    return fault;
}

/* ---- one message ---- */

struct publication {
    const struct event_append *append;
    struct uuid message_id;
    char subject[SUBJECT_MAX];
    struct buf body; /* the library is given bytes and not a message of its own: each of those it frees in a thread */
    bool sent;       /* once it went out without an answer, it may be stored */
    mono_ns started;
    bool duplicate; /* it was there before */
};

static struct fault fill_message(struct op *op, const struct event_append *append, struct publication *publication)
{
    struct event_body parts = {
        .actor = &op->principal,
        .tenant = op->tenant,
        .lane = append->lane,
        .trace_id = op->trace_id,
        .message_id = publication->message_id,
        .time = clock_utc(),
        .events = append->events,
        .count = append->count,
    };
    struct fault encoded = event_message_encode(&parts, &publication->body);
    if (encoded.code == FAULT_TOO_LARGE) {
        return op_fail(op, encoded, "the events take more than %zu bytes together", EVENT_MESSAGE_MAX);
    }
    if (FAULTED(encoded)) {
        return op_fail(op, encoded, "an event to append is not well-formed: tenant, lane, type or data");
    }
    (void)snprintf(publication->subject, SUBJECT_MAX, "svc.events.%s.%s", op->tenant.text, append->lane);
    return OK;
}

static struct fault publish_once(struct op *op, struct event_log *log, struct publication *publication,
                                 uint64_t *ret_seq)
{
    jsPubOptions options;
    jsPubAck *ack = NULL;
    jsErrCode code = 0;
    const struct event_append *append = publication->append;
    natsStatus status = jsPubOptions_Init(&options);
    if (status != NATS_OK) {
        return nats_fault(op, status, 0, "making options");
    }
    options.MaxWait = wait_ms(op->deadline, ATTEMPT_MS);
    options.MsgId = publication->message_id.text;
    options.ExpectStream = log->config->nats_stream;
    options.ExpectLastSubjectSeq = append->expect ? append->expected : 0;
    options.ExpectNoMessage = append->expect && append->expected == 0;
    op->event_log_waits++;
    status = js_Publish(&ack, log->js, publication->subject, publication->body.at, (int)publication->body.len, &options,
                        &code);
    if (status == NATS_OK) {
        *ret_seq = ack->Sequence;
        publication->duplicate = ack->Duplicate;
        jsPubAck_Destroy(ack);
        return OK;
    }
    /* A closed code from the server, nobody listening and a full buffer mean that nothing was stored. */
    bool certain = code != 0 || status == NATS_NO_RESPONDERS || status == NATS_INSUFFICIENT_BUFFER ||
                   status == NATS_MAX_PAYLOAD || status == NATS_INVALID_SUBJECT;
    publication->sent = publication->sent || !certain;
    if (status == NATS_NO_RESPONDERS) {
        atomic_store(&log->accepted_connect, 0); /* is the stream still there? */
    }
    return nats_fault(op, status, code, "appending");
}

static bool worth_repeating(struct fault fault)
{
    return fault.code == FAULT_DEADLINE || fault.code == FAULT_LOG_UNAVAILABLE;
}

/* Without a connection what was never sent is given up soon. With one, a cluster may be choosing a leader. */
static bool give_up(const struct op *op, struct event_log *log, const struct publication *publication)
{
    mono_ns again = clock_mono() + AGAIN_NS;
    bool hopeless = !publication->sent && !event_log_connected(log) && again >= publication->started + UNSENT_NS;
    return again >= op->deadline || hopeless;
}

static struct fault publish(struct op *op, struct event_log *log, struct publication *publication, uint64_t *ret_seq)
{
    for (;;) {
        TRY(event_log_check_trust(op, log));
        struct fault fault = event_log_connected(log) ? look_again(op, log) : FAULT(LOG_UNAVAILABLE);
        if (!FAULTED(fault)) {
            fault = publish_once(op, log, publication, ret_seq);
            if (!FAULTED(fault)) {
                publication->sent = true;
                fault = look_again(op, log); /* the answer may be that of a server that came meanwhile */
            }
        }
        if (!FAULTED(fault)) {
            return OK;
        }
        if (!worth_repeating(fault)) {
            return fault.code == FAULT_LOG_CONFLICT ? fault : op_fail(op, fault, "the event log refused the events");
        }
        if (give_up(op, log, publication)) {
            return publication->sent
                       ? op_fail(op, FAULT(DEADLINE),
                                 "the event log did not acknowledge in time: it may have stored "
                                 "the events; repeat the request as it is")
                       : op_fail(op, FAULT(LOG_UNAVAILABLE), "the event log cannot be reached: nothing was recorded");
        }
        event_log_lock(log);
        event_log_wait(log, clock_mono() + AGAIN_NS);
        event_log_unlock(log);
    }
}

struct fault events_append(struct op *op, struct event_log *log, const struct event_append *append, uint64_t *ret_seq)
{
    BUG_IF(op->tx_open != 0);
    TRY(op_settle(op));
    struct publication publication = {
        .append = append, .message_id = append->message_id, .body = BUF_INIT(EVENT_MESSAGE_MAX), .started = clock_mono()
    };
    if (publication.message_id.text[0] == '\0') {
        TRY(uuid_new(&publication.message_id));
    }
    uint64_t seq = 0;
    struct trace_span span;
    trace_enter(op, &span, TRACE_PRODUCER, "append", "svc.events.lane", append->lane);
    struct fault fault = fill_message(op, append, &publication);
    if (!FAULTED(fault)) {
        fault = publish(op, log, &publication, &seq);
    }
    buf_free(&publication.body);
    if (span.on && !FAULTED(fault)) {
        span.id = publication.duplicate ? span.id : trace_append_id(publication.message_id.text);
        span.attribute = (struct trace_attribute){ "svc.stream.sequence", NULL, (int64_t)seq };
    }
    (void)trace_leave(&span, fault);
    if (log->on_append != NULL) {
        log->on_append(log->on_append_arg, clock_mono() - publication.started, fault);
    }
    TRY(fault);
    event_log_saw(log, seq);
    op_record(op, seq);
    *ret_seq = seq;
    return OK;
}

void event_log_on_append(struct event_log *log, void (*on_append)(void *arg, mono_ns took, struct fault end), void *arg)
{
    log->on_append = on_append;
    log->on_append_arg = arg;
}
