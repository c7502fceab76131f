/* The stream: what it must be, and making it. */
#include "api/events/history.h"
#include "api/events/internal.h"

#include "appliance/base/log.h"

#include <stdio.h>

#define CHECK_MS 2000
#define GROW_MS  10000
#define RETRY_NS (200 * NS_PER_MS)

static bool one_of_ours(const jsStreamConfig *stream)
{
    return stream->SubjectsLen == 1 && strcmp(stream->Subjects[0], EVENTS_SUBJECTS) == 0 && stream->Mirror == NULL &&
           stream->SourcesLen == 0;
}

struct fault stream_config_check(const jsStreamConfig *stream, const struct config *config, struct buf *why)
{
    const struct {
        bool good;
        const char *must;
    } rules[] = {
        { one_of_ours(stream), "must take exactly the subjects " EVENTS_SUBJECTS ", without mirror or sources" },
        { stream->Storage == js_FileStorage, "must have file storage" },
        { stream->Retention == js_LimitsPolicy, "must have the retention policy 'limits'" },
        { stream->Discard == js_DiscardNew,
          "must have the discard policy 'new': the oldest events are not to be lost" },
        { stream->MaxMsgs <= 0 && stream->MaxBytes <= 0 && stream->MaxAge == 0 && stream->MaxMsgsPerSubject <= 0,
          "must have no limit of messages, bytes or age" },
        { stream->MaxMsgSize <= 0 || stream->MaxMsgSize >= STREAM_MESSAGE_MAX, "must take messages of 1 MiB" },
        { stream->Duplicates >= DUPLICATE_WINDOW_NS, "must have a duplicate window of 20 minutes or more" },
        /* A stream that denies deletes does so for ever, and a privacy erasure has to overwrite what it replaced. Any
         * other message that is deleted is found missing. */
        { stream->DenyPurge && !stream->AllowRollup, "must deny purge and rollup" },
        { !stream->NoAck && !stream->Sealed, "must acknowledge, and must not be sealed" },
        { stream->SubjectTransform.Source == NULL && stream->SubjectTransform.Destination == NULL,
          "must not rewrite subjects" },
        { stream->Replicas >= config->nats_replicas, "has fewer replicas than nats.replicas" },
    };
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        if (!rules[i].good) {
            IGNORE(buf_printf(why, "event log: stream %s %s\n", config->nats_stream, rules[i].must));
            return FAULT(LOG_UNSAFE);
        }
    }
    return OK;
}

static natsStatus add_stream(struct event_log *log, mono_ns deadline, jsStreamInfo **ret_info, jsErrCode *ret_code)
{
    const char *subjects[] = { EVENTS_SUBJECTS };
    jsStreamConfig wanted;
    jsOptions options;
    natsStatus status = jsStreamConfig_Init(&wanted);
    if (status == NATS_OK) {
        status = jsOptions_Init(&options);
    }
    if (status != NATS_OK) {
        return status;
    }
    wanted.Name = log->config->nats_stream;
    wanted.Subjects = subjects;
    wanted.SubjectsLen = COUNT_OF(subjects);
    wanted.Storage = js_FileStorage;
    wanted.Retention = js_LimitsPolicy;
    wanted.Discard = js_DiscardNew;
    wanted.MaxMsgSize = STREAM_MESSAGE_MAX;
    wanted.Replicas = log->config->nats_replicas;
    wanted.Duplicates = DUPLICATE_WINDOW_NS;
    wanted.DenyPurge = true;
    wanted.AllowDirect = true;
    options.Wait = wait_ms(deadline, CHECK_MS);
    return js_AddStream(ret_info, log->js, &wanted, &options, ret_code);
}

natsStatus stream_get(struct event_log *log, mono_ns deadline, jsStreamInfo **ret_info, jsErrCode *ret_code)
{
    jsOptions options;
    natsStatus status = jsOptions_Init(&options);
    if (status != NATS_OK) {
        return status;
    }
    options.Wait = wait_ms(deadline, CHECK_MS);
    *ret_code = 0;
    return js_GetStreamInfo(ret_info, log->js, log->config->nats_stream, &options, ret_code);
}

/* A server that has just started answers "not available" or nothing for a moment. */
static bool worth_repeating(struct fault fault)
{
    return fault.code == FAULT_LOG_UNAVAILABLE || fault.code == FAULT_DEADLINE;
}

static struct fault get_or_add(struct event_log *log, bool may_create, mono_ns deadline, jsStreamInfo **ret_info,
                               struct buf *why)
{
    for (;;) {
        jsErrCode code = 0;
        natsStatus status = stream_get(log, deadline, ret_info, &code);
        if (status != NATS_OK && (unsigned)code == JSStreamNotFoundErr) {
            if (!may_create) {
                IGNORE(buf_printf(why, "event log: stream %s is gone\n", log->config->nats_stream));
                return FAULT(LOG_UNTRUSTED);
            }
            code = 0;
            status = add_stream(log, deadline, ret_info, &code);
        }
        if (status == NATS_OK) {
            return OK;
        }
        struct fault fault = nats_fault(NULL, status, code, "looking at the stream");
        if (!worth_repeating(fault) || clock_mono() + RETRY_NS >= deadline) {
            IGNORE(buf_printf(why, "event log: stream %s: %s, JetStream error %u\n", log->config->nats_stream,
                              natsStatus_GetText(status), (unsigned)code));
            return fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault;
        }
        event_log_lock(log);
        event_log_wait(log, clock_mono() + RETRY_NS);
        event_log_unlock(log);
    }
}

/* A server that came back with less than it had acknowledged must not get the next message at a number that is taken.
 */
static struct fault check_end(struct event_log *log, const jsStreamInfo *info, struct buf *why)
{
    uint64_t seen = atomic_load(&log->seen);
    if (info->State.LastSeq < seen) {
        IGNORE(buf_printf(why, "event log: stream %s ends at message %llu, and message %llu was acknowledged\n",
                          log->config->nats_stream, (unsigned long long)info->State.LastSeq, (unsigned long long)seen));
        return FAULT(LOG_UNAVAILABLE); /* a new leader of a cluster may be reading still; the projector's look tells */
    }
    event_log_saw(log, info->State.LastSeq);
    return OK;
}

/* A stream that was made with fewer replicas than are configured now gets them; never fewer than it has. Messages are
 * copied to the new ones meanwhile: readiness tells until they are current. */
static struct fault grow(struct event_log *log, const jsStreamConfig *have, mono_ns deadline, struct buf *why)
{
    jsOptions options;
    jsErrCode code = 0;
    jsStreamConfig wanted = *have;
    if (have->Replicas >= log->config->nats_replicas) {
        return OK;
    }
    natsStatus status = jsOptions_Init(&options);
    if (status == NATS_OK) {
        wanted.Replicas = log->config->nats_replicas;
        options.Wait = wait_ms(deadline, GROW_MS);
        status = js_UpdateStream(NULL, log->js, &wanted, &options, &code);
    }
    if (status == NATS_OK) {
        log_write(INFO, "event_log_replicas_raised", LOG_TEXT("stream", have->Name), LOG_INT("from", have->Replicas),
                  LOG_INT("to", wanted.Replicas));
        return OK;
    }
    struct fault fault = nats_fault(NULL, status, code, "giving a stream more replicas");
    IGNORE(buf_printf(
        why,
        "event log: stream %s has %lld replicas and cannot be given the %lld of nats.replicas: %s, JetStream "
        "error %u; a cluster of so many servers with JetStream and room on disk has to be there\n",
        have->Name, (long long)have->Replicas, (long long)wanted.Replicas, natsStatus_GetText(status), (unsigned)code));
    return worth_repeating(fault) ? FAULT(LOG_UNAVAILABLE) : FAULT(LOG_UNSAFE);
}

static struct fault grow_history(struct event_log *log, mono_ns deadline, struct buf *why)
{
    char name[HISTORY_SUBJECT_MAX];
    jsOptions options;
    jsErrCode code = 0;
    jsStreamInfo *info = NULL;
    history_name(log, name);
    REQUIRE(jsOptions_Init(&options) == NATS_OK, INTERNAL);
    options.Wait = wait_ms(deadline, CHECK_MS);
    if (js_GetStreamInfo(&info, log->js, name, &options, &code) != NATS_OK) {
        return OK; /* none, as a rule; whoever needs it looks again */
    }
    struct fault fault = grow(log, info->Config, deadline, why);
    jsStreamInfo_Destroy(info);
    return fault;
}

struct fault stream_grow(struct event_log *log, mono_ns deadline, struct buf *why)
{
    jsStreamInfo *info = NULL;
    if (log->config->nats_replicas == 1) {
        return OK;
    }
    TRY(get_or_add(log, true, deadline, &info, why));
    struct fault fault = grow(log, info->Config, deadline, why);
    jsStreamInfo_Destroy(info);
    return FAULTED(fault) ? fault : grow_history(log, deadline, why);
}

struct fault stream_accept(struct event_log *log, bool may_create, mono_ns deadline, struct buf *why)
{
    jsStreamInfo *info = NULL;
    TRY(get_or_add(log, may_create, deadline, &info, why));
    BUG_IF(info == NULL);
    struct fault fault = stream_config_check(info->Config, log->config, why);
    if (!FAULTED(fault)) {
        fault = servers_check(log, info, deadline, why);
    }
    if (!FAULTED(fault)) {
        fault = check_end(log, info, why);
    }
    jsStreamInfo_Destroy(info);
    return fault;
}
