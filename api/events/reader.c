/*
 * Reading is a push consumer without acknowledgements, made and kept by hand: what was delivered is told by two
 * numbers in each message's reply subject. The consumer's own number is without gaps as long as nothing was lost on the
 * way (then we ask again from where we are); the stream's number is without gaps as long as nothing is missing in the
 * log itself. The library's own ordered consumer skips over the second kind.
 */
#include "api/events/internal.h"

#include "appliance/base/alloc.h"

#define HEARTBEAT_NS  NS_PER_S
#define SILENCE_NS    (3 * NS_PER_S)
#define AGAIN_NS      (100 * NS_PER_MS)
#define INACTIVE_NS   (30 * NS_PER_S)
#define REQUEST_MS    2000
#define PENDING_MAX   (1 << 18)
#define PENDING_BYTES (128 << 20)
#define CONSUMER_MAX  128
#define TOKENS_MAX    16
#define READ_MAX      32   /* messages that wait to be freed, */
#define READ_SIZE     8192 /* if they are small */

struct event_reader {
    struct event_log *log;
    uint64_t next_seq;      /* of the stream */
    uint64_t next_delivery; /* of the consumer */
    natsSubscription *subscription;
    natsMsg *held; /* behind a gap whose messages are replaced: its turn comes after them */
    natsMsg *read[READ_MAX];
    size_t read_count;
    char consumer[CONSUMER_MAX];
    unsigned joins;
    unsigned connect; /* the connection that the consumer was made on */
    mono_ns heard;    /* last sign of life */
    mono_ns tried;
};

struct fault event_reader_new(struct event_log *log, uint64_t first_seq, struct event_reader **ret_reader)
{
    struct event_reader *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->log = log;
    made->next_seq = first_seq > 0 ? first_seq : 1;
    *ret_reader = made;
    return OK;
}

/* The library has a thread of its own that frees messages, and wakes it for each that it finds asleep: for 32 together
 * that costs little more than for one. */
static void free_read(struct event_reader *reader)
{
    for (size_t i = 0; i < reader->read_count; i++) {
        natsMsg_Destroy(reader->read[i]);
    }
    reader->read_count = 0;
}

static void done_with(struct event_reader *reader, natsMsg *message)
{
    if (natsMsg_GetDataLength(message) > READ_SIZE) {
        natsMsg_Destroy(message);
        return;
    }
    reader->read[reader->read_count++] = message;
    if (reader->read_count == READ_MAX) {
        free_read(reader);
    }
}

static void leave(struct event_reader *reader)
{
    free_read(reader);
    natsMsg_Destroy(reader->held);
    reader->held = NULL;
    natsSubscription_Destroy(reader->subscription);
    reader->subscription = NULL;
    bool same = reader->connect == atomic_load(&reader->log->connects) && event_log_connected(reader->log);
    if (reader->consumer[0] != '\0' && same) {
        /* Otherwise the server drops it by itself once nobody has listened for a while. */
        jsOptions options;
        if (jsOptions_Init(&options) == NATS_OK) {
            options.Wait = AGAIN_NS / NS_PER_MS;
            (void)js_DeleteConsumer(reader->log->js, reader->log->config->nats_stream, reader->consumer, &options,
                                    NULL);
        }
    }
    reader->consumer[0] = '\0';
}

void event_reader_free(struct event_reader *reader)
{
    if (reader != NULL) {
        leave(reader);
        mem_free(reader);
    }
}

uint64_t event_reader_seq(const struct event_reader *reader)
{
    return reader->next_seq;
}

unsigned event_reader_joins(const struct event_reader *reader)
{
    return reader->joins;
}

/* ---- subscribing ---- */

static natsStatus add_consumer(struct event_reader *reader, const char *inbox, mono_ns deadline, jsErrCode *ret_code)
{
    jsConsumerConfig config;
    jsOptions options;
    jsConsumerInfo *info = NULL;
    natsStatus status = jsConsumerConfig_Init(&config);
    if (status == NATS_OK) {
        status = jsOptions_Init(&options);
    }
    if (status != NATS_OK) {
        return status;
    }
    config.DeliverSubject = inbox;
    config.DeliverPolicy = js_DeliverByStartSequence;
    config.OptStartSeq = reader->next_seq;
    config.AckPolicy = js_AckNone;
    config.MaxDeliver = 1;
    config.FlowControl = true;
    config.Heartbeat = HEARTBEAT_NS;
    config.InactiveThreshold = INACTIVE_NS;
    config.MemoryStorage = true;
    config.Replicas = 1;
    options.Wait = wait_ms(deadline, REQUEST_MS);
    status = js_AddConsumer(&info, reader->log->js, reader->log->config->nats_stream, &config, &options, ret_code);
    if (status == NATS_OK && strlen(info->Name) < sizeof(reader->consumer)) {
        memcpy(reader->consumer, info->Name, strlen(info->Name) + 1);
    }
    jsConsumerInfo_Destroy(info);
    return status;
}

static struct fault subscribe(struct op *op, struct event_reader *reader, mono_ns deadline)
{
    leave(reader);
    if (!event_log_connected(reader->log)) {
        return FAULT(LOG_UNAVAILABLE);
    }
    unsigned connect = atomic_load(&reader->log->connects);
    natsInbox *inbox = NULL;
    jsErrCode code = 0;
    natsStatus status = natsInbox_Create(&inbox);
    if (status == NATS_OK) {
        status = natsConnection_SubscribeSync(&reader->subscription, reader->log->connection, inbox);
    }
    if (status == NATS_OK) {
        status = natsSubscription_SetPendingLimits(reader->subscription, PENDING_MAX, PENDING_BYTES);
    }
    if (status == NATS_OK) {
        status = add_consumer(reader, inbox, deadline, &code);
    }
    natsInbox_Destroy(inbox);
    if (status != NATS_OK) {
        leave(reader);
        return nats_fault(op, status, code, "making a consumer");
    }
    reader->joins++;
    reader->connect = connect;
    reader->next_delivery = 1;
    reader->heard = clock_mono();
    return OK;
}

static bool must_subscribe(const struct event_reader *reader)
{
    return reader->subscription == NULL || reader->connect != atomic_load(&reader->log->connects) ||
           (clock_mono() - reader->heard > SILENCE_NS && event_log_connected(reader->log));
}

/* ---- what came ---- */

static struct fault number_of(struct span text, uint64_t *ret_number)
{
    uint64_t number = 0;
    REQUIRE(text.len >= 1 && text.len <= 19, LOG_DECODE);
    for (size_t i = 0; i < text.len; i++) {
        REQUIRE(text.at[i] >= '0' && text.at[i] <= '9', LOG_DECODE);
        number = number * 10 + (uint64_t)(text.at[i] - '0');
    }
    *ret_number = number;
    return OK;
}

/* "$JS.ACK.<stream>.<consumer>.<times>.<stream seq>.<consumer seq>.<time>.<pending>", or with <domain>.<account hash>
 * before the stream and perhaps a token at the end. */
static struct fault parse_reply(const char *reply, uint64_t *ret_seq, uint64_t *ret_delivery)
{
    struct span token[TOKENS_MAX];
    size_t count = 0;
    for (const char *at = reply; at != NULL && count < TOKENS_MAX;) {
        const char *dot = strchr(at, '.');
        token[count++] = span_of(at, dot != NULL ? (size_t)(dot - at) : strlen(at));
        at = dot != NULL ? dot + 1 : NULL;
    }
    size_t stream = count == 9 ? 2 : 4;
    REQUIRE(count == 9 || (count >= 11 && count <= 12), LOG_DECODE);
    REQUIRE(span_equal_text(token[0], "$JS") && span_equal_text(token[1], "ACK"), LOG_DECODE);
    TRY(number_of(token[stream + 3], ret_seq));
    return number_of(token[stream + 4], ret_delivery);
}

/* Heartbeats and flow control have no body. True when `message` was one. */
static bool control(struct event_reader *reader, natsMsg *message)
{
    const char *status = NULL, *stalled = NULL;
    if (natsMsg_GetDataLength(message) > 0 || natsMsgHeader_Get(message, "Status", &status) != NATS_OK) {
        return false;
    }
    const char *answer = natsMsg_GetReply(message);
    if (answer == NULL && natsMsgHeader_Get(message, "Nats-Consumer-Stalled", &stalled) == NATS_OK) {
        answer = stalled;
    }
    if (answer != NULL) {
        (void)natsConnection_Publish(reader->log->connection, answer, NULL, 0);
    }
    return true;
}

/* What is missing may have been replaced and erased since we last looked. */
static struct fault check_gap(struct op *op, struct event_reader *reader)
{
    if (event_log_replaced(reader->log, reader->next_seq, NULL)) {
        return OK;
    }
    TRY(event_log_history_load(op, reader->log));
    return event_log_replaced(reader->log, reader->next_seq, NULL)
               ? OK
               : op_fail(op, FAULT(LOG_UNTRUSTED), "message %llu of the event log is missing",
                         (unsigned long long)reader->next_seq);
}

/* What came of receiving. LOST: something did not arrive on the way; ask again. KEPT: the message's turn comes later.
 */
enum taken { TAKEN, TAKEN_LOST, TAKEN_KEPT };

static struct fault take(struct op *op, struct event_reader *reader, natsMsg *message, enum taken *ret_taken,
                         struct event_message *ret_message)
{
    uint64_t seq = 0, delivery = 0;
    const char *reply = natsMsg_GetReply(message);
    REQUIRE(reply != NULL, LOG_DECODE);
    TRY(parse_reply(reply, &seq, &delivery));
    if (delivery != reader->next_delivery || seq < reader->next_seq) {
        *ret_taken = TAKEN_LOST;
        return OK;
    }
    if (seq > reader->next_seq) {
        TRY(check_gap(op, reader));
        TRY(history_read(op, reader->log, reader->next_seq, ret_message));
        reader->next_seq++;
        *ret_taken = TAKEN_KEPT;
        return OK;
    }
    if (event_log_replaced(reader->log, seq, NULL)) {
        TRY(history_read(op, reader->log, seq, ret_message));
    } else {
        TRY(event_message_decode(op, seq, span_text(natsMsg_GetSubject(message)), message_span(message), ret_message));
    }
    reader->next_seq++;
    reader->next_delivery++;
    *ret_taken = TAKEN;
    event_log_saw(reader->log, seq);
    return OK;
}

static struct fault receive(struct op *op, struct event_reader *reader, mono_ns deadline, bool *ret_got,
                            struct event_message *ret_message)
{
    natsMsg *message = TAKE(reader->held);
    int64_t ms = clock_ms_left(deadline);
    int64_t most = AGAIN_NS / NS_PER_MS; /* so that a new connection is noticed */
    natsStatus status =
        message != NULL ? NATS_OK : natsSubscription_NextMsg(&message, reader->subscription, ms < most ? ms : most);
    if (status == NATS_TIMEOUT) {
        return OK;
    }
    if (status != NATS_OK) {
        leave(reader);
        return OK;
    }
    reader->heard = clock_mono();
    enum taken taken = TAKEN;
    struct fault fault = OK;
    if (!control(reader, message)) {
        fault = take(op, reader, message, &taken, ret_message);
        *ret_got = !FAULTED(fault) && taken != TAKEN_LOST;
    }
    if (!FAULTED(fault) && taken == TAKEN_KEPT) {
        reader->held = message;
        return OK;
    }
    done_with(reader, message);
    if (taken == TAKEN_LOST || FAULTED(fault)) {
        leave(reader);
    }
    return fault;
}

static struct fault subscribe_if_needed(struct op *op, struct event_reader *reader, mono_ns deadline)
{
    if (!must_subscribe(reader)) {
        return OK;
    }
    if (clock_mono() - reader->tried < AGAIN_NS) {
        event_log_lock(reader->log);
        event_log_wait(reader->log, reader->tried + AGAIN_NS < deadline ? reader->tried + AGAIN_NS : deadline);
        event_log_unlock(reader->log);
        return clock_mono() - reader->tried < AGAIN_NS ? FAULT(DEADLINE) : subscribe_if_needed(op, reader, deadline);
    }
    reader->tried = clock_mono();
    return subscribe(op, reader, deadline);
}

struct fault event_reader_next(struct op *op, struct event_reader *reader, mono_ns deadline,
                               struct event_message *ret_message)
{
    BUG_IF(op->tx_open != 0);
    for (;;) {
        bool got = false;
        struct fault fault = subscribe_if_needed(op, reader, deadline);
        if (!FAULTED(fault)) {
            fault = receive(op, reader, deadline, &got, ret_message);
        }
        bool transient = fault.code == FAULT_DEADLINE || fault.code == FAULT_LOG_UNAVAILABLE;
        if (got || (FAULTED(fault) && !transient)) {
            return fault;
        }
        REQUIRE(clock_mono() < deadline, DEADLINE);
    }
}

static struct fault get_stored(struct op *op, struct event_log *log, uint64_t stream_seq,
                               struct event_message *ret_message)
{
    natsMsg *message = NULL;
    jsOptions options;
    jsErrCode code = 0;
    natsStatus status = jsOptions_Init(&options);
    if (status == NATS_OK) {
        options.Wait = wait_ms(op->deadline, REQUEST_MS);
        /* From the stream's leader: a follower may not have it yet. */
        status = js_GetMsg(&message, log->js, log->config->nats_stream, stream_seq, &options, &code);
    }
    if (status != NATS_OK) {
        struct fault fault = nats_fault(op, status, code, "getting a message");
        return fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault;
    }
    struct fault fault = event_message_decode(op, stream_seq, span_text(natsMsg_GetSubject(message)),
                                              message_span(message), ret_message);
    natsMsg_Destroy(message);
    return fault;
}

struct fault event_log_get(struct op *op, struct event_log *log, uint64_t stream_seq, struct event_message *ret_message)
{
    BUG_IF(op->tx_open != 0);
    if (event_log_replaced(log, stream_seq, NULL)) {
        return history_read(op, log, stream_seq, ret_message);
    }
    struct fault fault = get_stored(op, log, stream_seq, ret_message);
    if (fault.code != FAULT_NOT_FOUND) {
        return fault;
    }
    TRY(event_log_history_load(op, log)); /* replaced and erased since we last looked? */
    return event_log_replaced(log, stream_seq, NULL) ? history_read(op, log, stream_seq, ret_message) : fault;
}
