/* The second stream: replacements and their lists, laid down once and never over one another. */
#include "api/events/history.h"

#include <stdio.h>

/* ---- the second stream ---- */

void history_name(const struct event_log *log, char out[HISTORY_SUBJECT_MAX])
{
    (void)snprintf(out, HISTORY_SUBJECT_MAX, "%s_history", log->config->nats_stream);
}

struct fault history_newest(struct op *op, struct event_log *log, const char *subject, natsMsg **ret_message)
{
    BUG_IF(op->tx_open != 0);
    jsOptions options;
    jsErrCode code = 0;
    char stream[HISTORY_SUBJECT_MAX];
    history_name(log, stream);
    natsStatus status = jsOptions_Init(&options);
    if (status == NATS_OK) {
        options.Wait = wait_ms(op->deadline, HISTORY_ASK_MS);
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
    char name[HISTORY_SUBJECT_MAX];
    jsStreamConfig wanted;
    jsOptions options;
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    history_name(log, name);
    REQUIRE(jsStreamConfig_Init(&wanted) == NATS_OK && jsOptions_Init(&options) == NATS_OK, INTERNAL);
    options.Wait = wait_ms(op->deadline, HISTORY_ASK_MS);
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
    char stream[HISTORY_SUBJECT_MAX];
    history_name(log, stream);
    REQUIRE(body.len <= EVENT_MESSAGE_MAX, TOO_LARGE);
    REQUIRE(jsPubOptions_Init(&options) == NATS_OK, INTERNAL);
    options.MaxWait = wait_ms(op->deadline, HISTORY_ASK_MS);
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
    TRY(history_newest(op, log, subject, &there));
    bool same = span_equal(message_span(there), body);
    natsMsg_Destroy(there);
    return same ? OK : op_fail(op, FAULT(LOG_CONFLICT), "another replacement lies at %s", subject);
}

void history_body_subject(struct tenant_id tenant, int64_t generation, uint64_t stream_seq,
                          char out[HISTORY_SUBJECT_MAX])
{
    (void)snprintf(out, HISTORY_SUBJECT_MAX, "svc.history.%s.%lld.%llu", tenant.text, (long long)generation,
                   (unsigned long long)stream_seq);
}

void history_list_subject(struct tenant_id tenant, int64_t generation, size_t part, char out[HISTORY_SUBJECT_MAX])
{
    (void)snprintf(out, HISTORY_SUBJECT_MAX, "svc.history.%s.%lld.list.%zu", tenant.text, (long long)generation, part);
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
    char subject[HISTORY_SUBJECT_MAX];
    history_body_subject(op->tenant, generation, stream_seq, subject);
    return history_store(op, log, subject, body);
}

/* ---- lists ---- */

struct fault history_list_digest(struct span entries, struct sha256 *ret_digest)
{
    static const char domain[] = "svc.history.list.v1"; /* with its NUL */
    const struct span parts[] = { SPAN_ARRAY(domain), entries };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_digest);
}

struct fault event_history_put_list(struct op *op, struct event_log *log, int64_t generation,
                                    const struct event_replacement *entries, size_t count, struct sha256 *ret_digest)
{
    CLEANUP(buf_free) struct buf all = BUF_INIT((size_t)HISTORY_MAX * HISTORY_LIST_ENTRY);
    for (size_t i = 0; i < count; i++) {
        TRY(buf_u64(&all, entries[i].stream_seq));
        TRY(buf_put(&all, SPAN_ARRAY(entries[i].digest.at)));
    }
    TRY(stream_for_history(op, log));
    for (size_t part = 0; part * HISTORY_LIST_PART < count; part++) {
        char subject[HISTORY_SUBJECT_MAX];
        size_t from = part * HISTORY_LIST_PART, left = count - from;
        history_list_subject(op->tenant, generation, part, subject);
        TRY(lay_down(op, log, subject,
                     span_of(all.at + from * HISTORY_LIST_ENTRY,
                             (left < HISTORY_LIST_PART ? left : HISTORY_LIST_PART) * HISTORY_LIST_ENTRY)));
    }
    return history_list_digest(buf_span(&all), ret_digest);
}
