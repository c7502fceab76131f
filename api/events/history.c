/*
 * Which messages of the log are replaced, and by what. What is known is a sorted array; who has read all activations
 * and their lists puts a new one in its place.
 */
#include "api/events/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/json_view.h"

#include <stdio.h>

#define ASK_MS      3000
#define SUBJECT_MAX 160
#define LIST_PART   16384u /* entries of one part: 40 bytes each */
#define LIST_ENTRY  40u
#define LISTS_MAX   4096u
#define HISTORY_MAX 4000000u

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

static bool find(struct event_log *log, uint64_t stream_seq, struct history_entry *ret_entry)
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
    if (!find(log, stream_seq, &entry)) {
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

/* ---- the second stream ---- */

static void history_name(const struct event_log *log, char out[SUBJECT_MAX])
{
    (void)snprintf(out, SUBJECT_MAX, "%s_history", log->config->nats_stream);
}

static struct fault newest_of(struct op *op, struct event_log *log, const char *subject, natsMsg **ret_message)
{
    BUG_IF(op->tx_open != 0);
    jsOptions options;
    jsErrCode code = 0;
    char stream[SUBJECT_MAX];
    history_name(log, stream);
    natsStatus status = jsOptions_Init(&options);
    if (status == NATS_OK) {
        options.Wait = wait_ms(op->deadline, ASK_MS);
        status = js_GetLastMsg(ret_message, log->js, stream, subject, &options, &code);
    }
    if (status == NATS_OK) {
        return OK;
    }
    struct fault fault = nats_fault(op, status, code, "getting a replacement");
    return fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault;
}

static bool history_is_safe(const jsStreamConfig *stream, const struct config *config)
{
    return stream->Storage == js_FileStorage && stream->Retention == js_LimitsPolicy &&
           stream->Discard == js_DiscardNew && stream->MaxMsgs <= 0 && stream->MaxBytes <= 0 && stream->MaxAge == 0 &&
           stream->MaxMsgsPerSubject <= 0 && stream->DenyPurge && !stream->AllowRollup && stream->Mirror == NULL &&
           stream->SourcesLen == 0 && !stream->NoAck && stream->Replicas >= config->nats_replicas;
}

/* The servers were found to sync what they keep when the log was opened: it is the same account and the same servers.
 */
static struct fault stream_for_history(struct op *op, struct event_log *log)
{
    const char *subjects[] = { "svc.history.>" };
    char name[SUBJECT_MAX];
    jsStreamConfig wanted;
    jsOptions options;
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    history_name(log, name);
    REQUIRE(jsStreamConfig_Init(&wanted) == NATS_OK && jsOptions_Init(&options) == NATS_OK, INTERNAL);
    options.Wait = wait_ms(op->deadline, ASK_MS);
    natsStatus status = js_GetStreamInfo(&info, log->js, name, &options, &code);
    if (status != NATS_OK && (unsigned)code == JSStreamNotFoundErr) {
        wanted.Name = name;
        wanted.Subjects = subjects;
        wanted.SubjectsLen = COUNT_OF(subjects);
        wanted.Storage = js_FileStorage;
        wanted.Retention = js_LimitsPolicy;
        wanted.Discard = js_DiscardNew;
        wanted.MaxMsgSize = STREAM_MESSAGE_MAX;
        wanted.Replicas = log->config->nats_replicas;
        wanted.DenyPurge = true;
        code = 0;
        status = js_AddStream(&info, log->js, &wanted, &options, &code);
    }
    if (status != NATS_OK) {
        return nats_fault(op, status, code, "looking at the stream of replacements");
    }
    bool safe = history_is_safe(info->Config, log->config);
    jsStreamInfo_Destroy(info);
    return safe ? OK
                : op_fail(op, FAULT(LOG_UNSAFE),
                          "the stream of replacements could lose or drop a message: compare it with the event log's");
}

static struct fault lay_down(struct op *op, struct event_log *log, const char *subject, struct span body)
{
    BUG_IF(op->tx_open != 0);
    jsPubOptions options;
    jsPubAck *ack = NULL;
    jsErrCode code = 0;
    char stream[SUBJECT_MAX];
    history_name(log, stream);
    REQUIRE(body.len <= EVENT_MESSAGE_MAX, TOO_LARGE);
    REQUIRE(jsPubOptions_Init(&options) == NATS_OK, INTERNAL);
    options.MaxWait = wait_ms(op->deadline, ASK_MS);
    options.ExpectStream = stream;
    options.ExpectNoMessage = true;
    natsStatus status = js_Publish(&ack, log->js, subject, body.at, (int)body.len, &options, &code);
    jsPubAck_Destroy(ack);
    if (status == NATS_OK) {
        return OK;
    }
    struct fault fault = nats_fault(op, status, code, "laying down a replacement");
    if (fault.code != FAULT_LOG_CONFLICT) {
        return fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault;
    }
    natsMsg *there = NULL; /* an earlier attempt's, if it is the same */
    TRY(newest_of(op, log, subject, &there));
    bool same = span_equal(message_span(there), body);
    natsMsg_Destroy(there);
    return same ? OK : op_fail(op, FAULT(LOG_CONFLICT), "another replacement lies at %s", subject);
}

static void body_subject(struct tenant_id tenant, int64_t generation, uint64_t stream_seq, char out[SUBJECT_MAX])
{
    (void)snprintf(out, SUBJECT_MAX, "svc.history.%s.%lld.%llu", tenant.text, (long long)generation,
                   (unsigned long long)stream_seq);
}

static void list_subject(struct tenant_id tenant, int64_t generation, size_t part, char out[SUBJECT_MAX])
{
    (void)snprintf(out, SUBJECT_MAX, "svc.history.%s.%lld.list.%zu", tenant.text, (long long)generation, part);
}

struct fault history_store(struct op *op, struct event_log *log, const char *subject, struct span body)
{
    struct fault fault = lay_down(op, log, subject, body);
    if (fault.code != FAULT_LOG_UNAVAILABLE && fault.code != FAULT_LOG_UNTRUSTED && fault.code != FAULT_LOG_UNSAFE) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    TRY(stream_for_history(op, log)); /* the first one makes it */
    return lay_down(op, log, subject, body);
}

struct fault event_history_put(struct op *op, struct event_log *log, int64_t generation, uint64_t stream_seq,
                               struct span body)
{
    char subject[SUBJECT_MAX];
    body_subject(op->tenant, generation, stream_seq, subject);
    return history_store(op, log, subject, body);
}

/* ---- lists ---- */

/* SHA-256("svc.history.list.v1" 0x00, then for each: u64 sequence, 32 bytes digest). */
static struct fault list_digest(struct span entries, struct sha256 *ret_digest)
{
    static const char domain[] = "svc.history.list.v1"; /* with its NUL */
    const struct span parts[] = { SPAN_ARRAY(domain), entries };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_digest);
}

struct fault event_history_put_list(struct op *op, struct event_log *log, int64_t generation,
                                    const struct event_replacement *entries, size_t count, struct sha256 *ret_digest)
{
    CLEANUP(buf_free) struct buf all = BUF_INIT((size_t)HISTORY_MAX * LIST_ENTRY);
    for (size_t i = 0; i < count; i++) {
        TRY(buf_u64(&all, entries[i].stream_seq));
        TRY(buf_put(&all, SPAN_ARRAY(entries[i].digest.at)));
    }
    TRY(stream_for_history(op, log));
    for (size_t part = 0; part * LIST_PART < count; part++) {
        char subject[SUBJECT_MAX];
        size_t from = part * LIST_PART, left = count - from;
        list_subject(op->tenant, generation, part, subject);
        TRY(lay_down(op, log, subject,
                     span_of(all.at + from * LIST_ENTRY, (left < LIST_PART ? left : LIST_PART) * LIST_ENTRY)));
    }
    return list_digest(buf_span(&all), ret_digest);
}

/* ---- reading all activations ---- */

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
    size_t bytes = (size_t)activation->count * LIST_ENTRY;
    struct sha256 digest;
    for (size_t part = 0; ret_list->len < bytes && part < LISTS_MAX; part++) {
        char subject[SUBJECT_MAX];
        natsMsg *message = NULL;
        list_subject(activation->tenant, activation->generation, part, subject);
        struct fault fault = newest_of(op, log, subject, &message);
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
    TRY(list_digest(buf_span(ret_list), &digest));
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
    CLEANUP(buf_free) struct buf list = BUF_INIT((size_t)HISTORY_MAX * LIST_ENTRY);
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
        status = natsSubscription_NextMsg(&message, subscription, wait_ms(op->deadline, ASK_MS));
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

/* ---- replacements ---- */

static struct fault get_body(struct op *op, struct event_log *log, struct tenant_id tenant, int64_t generation,
                             uint64_t stream_seq, const struct sha256 *wanted, struct event_message *ret_message)
{
    char subject[SUBJECT_MAX];
    natsMsg *message = NULL;
    struct sha256 digest;
    struct event_message made;
    body_subject(tenant, generation, stream_seq, subject);
    struct fault fault = newest_of(op, log, subject, &message);
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
    REQUIRE(find(log, stream_seq, &entry), NOT_FOUND);
    return get_body(op, log, entry.tenant, entry.replacement.generation, stream_seq, &entry.replacement.digest,
                    ret_message);
}

/* ---- erasing what is superseded ---- */

static struct fault erase_at(struct op *op, struct event_log *log, const char *stream, uint64_t stream_seq)
{
    jsOptions options;
    jsErrCode code = 0;
    REQUIRE(jsOptions_Init(&options) == NATS_OK, INTERNAL);
    options.Wait = wait_ms(op->deadline, ASK_MS);
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
    options.Wait = wait_ms(op->deadline, ASK_MS);
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
    char stream[SUBJECT_MAX], subject[SUBJECT_MAX];
    history_name(log, stream);
    for (int64_t generation = 2; generation < entry->generation; generation++) {
        natsMsg *message = NULL;
        body_subject(op->tenant, generation, entry->stream_seq, subject);
        struct fault fault = newest_of(op, log, subject, &message);
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
    REQUIRE(find(log, entry->stream_seq, &known) && tenant_id_equal(known.tenant, op->tenant) &&
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
