/* Reads all activations and their lists, and puts what they say in the place of what was known. */
#include "api/events/history.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/json_view.h"

#define LISTS_MAX 4096u

struct activation {
    struct tenant_id tenant;
    uint64_t stream_seq;
    int64_t generation, count;
    struct sha256 digest;
};

struct loading {
    struct event_log *log;
    struct history made;
    size_t room;
    struct op *op; /* of one activation: its arena is forgotten after each */
};

static struct fault read_activation(struct op *op, const struct event_view *event, struct activation *ret_activation)
{
    struct view data;
    struct activation made = { .tenant = event->tenant, .stream_seq = event->stream_seq };
    CLEANUP(buf_free) struct buf digest = BUF_INIT(SHA256_LEN);
    TRY(view_of(op, event->data, &data));
    TRY(view_int(view_get(data, "generation"), &made.generation));
    TRY(view_int(view_get(data, "count"), &made.count));
    REQUIRE(made.count >= 0 && made.count <= (int64_t)HISTORY_MAX && made.generation >= 2, LOG_UNTRUSTED);
    const char *hex = view_member(op, data, "digest");
    REQUIRE(hex != NULL && !FAULTED(hex_decode(span_text(hex), &digest)) && digest.len == SHA256_LEN, LOG_UNTRUSTED);
    memcpy(made.digest.at, digest.at, SHA256_LEN);
    *ret_activation = made;
    return OK;
}

/* No list at all (*ret_there false): a log that was restored from a backup, which holds the replacements in their
 * places. Then nothing is replaced here, and what is not in its place is found missing or altered like any other
 * message. */
static struct fault read_list(struct op *op, struct event_log *log, const struct activation *activation,
                              struct buf *ret_list, bool *ret_there)
{
    *ret_there = true;
    size_t bytes = (size_t)activation->count * HISTORY_LIST_ENTRY;
    struct sha256 digest;
    for (size_t part = 0; ret_list->len < bytes && part < LISTS_MAX; part++) {
        char subject[HISTORY_SUBJECT_MAX];
        natsMsg *message = NULL;
        history_list_subject(activation->tenant, activation->generation, part, subject);
        struct fault fault = history_newest(op, log, subject, &message);
        bool gone = fault.code == FAULT_NOT_FOUND || fault.code == FAULT_LOG_UNTRUSTED;
        if (gone && part == 0) {
            op->note = (struct fault_note){ 0 };
            *ret_there = false;
            return OK;
        }
        if (gone) {
            return op_fail(op, FAULT(LOG_UNTRUSTED), "the list of generation %lld of %s is missing",
                           (long long)activation->generation, activation->tenant.text);
        }
        TRY(fault);
        fault = message_span(message).len > 0 ? buf_put(ret_list, message_span(message)) : FAULT(LOG_UNTRUSTED);
        natsMsg_Destroy(message);
        TRY(fault);
    }
    TRY(history_list_digest(buf_span(ret_list), &digest));
    if (ret_list->len != bytes || !span_equal(SPAN_ARRAY(digest.at), SPAN_ARRAY(activation->digest.at))) {
        return op_fail(op, FAULT(LOG_UNTRUSTED), "the list of generation %lld of %s is not the one that was activated",
                       (long long)activation->generation, activation->tenant.text);
    }
    return OK;
}

static struct fault grow(struct loading *loading, size_t more)
{
    size_t need = loading->made.count + more;
    if (need > loading->room) {
        size_t room = need < 2 * loading->room ? 2 * loading->room : need;
        REQUIRE(room <= 2 * (size_t)HISTORY_MAX, TOO_LARGE);
        TRY(mem_resize(&loading->made.entries, room, sizeof(*loading->made.entries)));
        loading->room = room;
    }
    return OK;
}

static struct fault take_activation(struct loading *loading, const struct activation *activation)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT((size_t)HISTORY_MAX * HISTORY_LIST_ENTRY);
    bool there = false;
    loading->made.activated = activation->stream_seq;
    TRY(read_list(loading->op, loading->log, activation, &list, &there));
    if (!there) {
        return OK;
    }
    TRY(grow(loading, (size_t)activation->count));
    struct reader reader = { .rest = buf_span(&list) };
    for (int64_t i = 0; i < activation->count; i++) {
        struct history_entry *entry = &loading->made.entries[loading->made.count];
        struct span digest;
        *entry = (struct history_entry){ .tenant = activation->tenant };
        entry->replacement.generation = activation->generation;
        entry->replacement.active_since = activation->stream_seq;
        TRY(reader_u64(&reader, &entry->replacement.stream_seq));
        TRY(reader_bytes(&reader, SHA256_LEN, &digest));
        REQUIRE(entry->replacement.stream_seq < activation->stream_seq, LOG_UNTRUSTED);
        memcpy(entry->replacement.digest.at, digest.at, SHA256_LEN);
        loading->made.count++;
    }
    return OK;
}

static struct fault take_message(struct loading *loading, natsMsg *message)
{
    jsMsgMetaData *meta = NULL;
    struct event_message decoded;
    REQUIRE(natsMsg_GetMetaData(&meta, message) == NATS_OK, LOG_DECODE);
    uint64_t seq = meta->Sequence.Stream;
    jsMsgMetaData_Destroy(meta);
    TRY(event_message_decode(loading->op, seq, span_text(natsMsg_GetSubject(message)), message_span(message),
                             &decoded));
    for (size_t i = 0; i < decoded.count; i++) {
        if (strcmp(decoded.events[i].type, EVENTS_ACTIVATED) == 0) {
            struct activation activation;
            TRY(read_activation(loading->op, &decoded.events[i], &activation));
            TRY(take_activation(loading, &activation));
        }
    }
    return OK;
}

static int entry_order(const void *a, const void *b)
{
    const struct event_replacement *first = &((const struct history_entry *)a)->replacement;
    const struct event_replacement *second = &((const struct history_entry *)b)->replacement;
    if (first->stream_seq != second->stream_seq) {
        return first->stream_seq < second->stream_seq ? -1 : 1;
    }
    return (first->active_since > second->active_since) - (first->active_since < second->active_since);
}

/* Of several for one sequence the newest stays. */
static void sort_entries(struct history *history)
{
    size_t kept = 0;
    if (history->count == 0) {
        return;
    }
    qsort(history->entries, history->count, sizeof(*history->entries), entry_order);
    for (size_t i = 0; i < history->count; i++) {
        bool last = i + 1 == history->count ||
                    history->entries[i].replacement.stream_seq != history->entries[i + 1].replacement.stream_seq;
        if (last) {
            history->entries[kept++] = history->entries[i];
        }
    }
    history->count = kept;
}

static void put_in_place(struct event_log *log, struct history *made)
{
    event_log_lock(log);
    struct history old = log->history;
    log->history = *made;
    log->good_holes = log->good_first = 0;
    event_log_unlock(log);
    *made = (struct history){ 0 };
    history_free(&old);
}

static struct fault load_from(struct op *op, struct loading *loading, natsSubscription *subscription)
{
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus status = natsSubscription_GetConsumerInfo(&info, subscription, NULL, &code);
    if (status != NATS_OK) {
        return nats_fault(op, status, code, "asking for activations");
    }
    uint64_t left = info->NumPending + info->Delivered.Consumer;
    jsConsumerInfo_Destroy(info);
    struct fault fault = OK;
    while (left > 0 && !FAULTED(fault)) {
        natsMsg *message = NULL;
        status = natsSubscription_NextMsg(&message, subscription, wait_ms(op->deadline, HISTORY_ASK_MS));
        if (status != NATS_OK) {
            return nats_fault(op, status, 0, "reading activations");
        }
        fault = take_message(loading, message);
        natsMsg_Destroy(message);
        arena_clear(loading->op->arena);
        left--;
    }
    return fault;
}

static struct fault load_all(struct op *op, struct loading *loading)
{
    jsSubOptions options;
    natsSubscription *subscription = NULL;
    jsErrCode code = 0;
    natsStatus status = jsSubOptions_Init(&options);
    if (status == NATS_OK) {
        options.Stream = loading->log->config->nats_stream;
        options.Ordered = true;
        options.Config.DeliverPolicy = js_DeliverAll;
        status = js_SubscribeSync(&subscription, loading->log->js, "svc.events.*." EVENTS_PRIVACY_LANE, NULL, &options,
                                  &code);
    }
    if (status != NATS_OK) {
        return nats_fault(op, status, code, "looking for activations");
    }
    struct fault fault = load_from(op, loading, subscription);
    (void)natsSubscription_Unsubscribe(subscription);
    natsSubscription_Destroy(subscription);
    return fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault;
}

struct fault event_log_history_load(struct op *op, struct event_log *log)
{
    BUG_IF(op->tx_open != 0);
    struct loading loading = { .log = log };
    TRY(op_new("system:event-log", (struct tenant_id){ "" }, (int)clock_ms_left(op->deadline) + 1, &loading.op));
    struct fault fault = load_all(op, &loading);
    if (FAULTED(fault) && loading.op->note.set && !op->note.set) {
        op->note = loading.op->note;
    }
    op_free(loading.op);
    if (!FAULTED(fault)) {
        sort_entries(&loading.made);
        put_in_place(log, &loading.made);
    }
    history_free(&loading.made);
    return fault;
}
