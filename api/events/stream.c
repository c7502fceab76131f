/* The stream: what it must be, and whether its servers acknowledge only what is on disk. */
#include "api/events/internal.h"

#include <stdio.h>

#define CHECK_MS    2000
#define RETRY_NS    (200 * NS_PER_MS)
#define PEERS_MAX   8
#define PEER_MAX    128
#define ANSWERS_MAX 64

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
        { stream->DenyDelete && stream->DenyPurge && !stream->AllowRollup, "must deny delete, purge and rollup" },
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
    wanted.DenyDelete = true;
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

/* ---- do the servers sync? ---- */

/* In JSON these bytes can only be a member: inside a text the quotes would have a backslash before them. The server
 * leaves the member out when it is false. */
bool server_answer_synced(struct span answer)
{
    static const char member[] = "\"sync_always\":true";
    return memmem(answer.at, answer.len, member, sizeof(member) - 1) != NULL;
}

struct span server_answer_text(struct span answer, const char *quoted_name)
{
    const uint8_t *at = memmem(answer.at, answer.len, quoted_name, strlen(quoted_name));
    if (at == NULL) {
        return (struct span){ 0 };
    }
    at += strlen(quoted_name);
    size_t left = answer.len - (size_t)(at - answer.at);
    if (left < 3 || at[0] != ':' || at[1] != '"') {
        return (struct span){ 0 };
    }
    const uint8_t *end = memchr(at + 2, '"', left - 2);
    return end != NULL ? span_of(at + 2, (size_t)(end - at) - 2) : (struct span){ 0 };
}

/* The servers that keep the stream, by name; when it is not in a cluster, the one that we talk to, by id. */
struct peers {
    char name[PEERS_MAX][PEER_MAX];
    bool answered[PEERS_MAX], synced[PEERS_MAX];
    size_t count;
    bool by_id;
};

static void add_peer(struct peers *peers, const char *name)
{
    if (name != NULL && peers->count < PEERS_MAX) {
        (void)snprintf(peers->name[peers->count++], PEER_MAX, "%s", name);
    }
}

static struct fault list_peers(struct event_log *log, const jsStreamInfo *info, struct peers *ret_peers)
{
    *ret_peers = (struct peers){ 0 };
    if (info->Cluster != NULL && info->Cluster->Name != NULL && info->Cluster->Name[0] != '\0') {
        if (info->Cluster->Leader == NULL || info->Cluster->Leader[0] == '\0') {
            return FAULT(LOG_UNAVAILABLE); /* between two leaders */
        }
        add_peer(ret_peers, info->Cluster->Leader);
        for (int i = 0; i < info->Cluster->ReplicasLen; i++) {
            add_peer(ret_peers, info->Cluster->Replicas[i]->Name);
        }
        return OK;
    }
    ret_peers->by_id = true;
    ret_peers->count = 1;
    natsStatus status = natsConnection_GetConnectedServerId(log->connection, ret_peers->name[0], PEER_MAX);
    return status == NATS_OK ? OK : nats_fault(NULL, status, 0, "asking for the server's id");
}

static bool all_answered(const struct peers *peers)
{
    for (size_t i = 0; i < peers->count; i++) {
        if (!peers->answered[i]) {
            return false;
        }
    }
    return true;
}

static size_t unsynced(const struct peers *peers)
{
    size_t first = 0;
    while (first < peers->count && peers->synced[first]) {
        first++;
    }
    return first;
}

static void note_answer(struct peers *peers, struct span answer)
{
    struct span who = server_answer_text(answer, peers->by_id ? "\"server_id\"" : "\"server_name\"");
    for (size_t i = 0; i < peers->count; i++) {
        if (span_equal_text(who, peers->name[i])) {
            peers->answered[i] = true;
            peers->synced[i] = server_answer_synced(answer);
        }
    }
}

static natsStatus collect_answers(struct event_log *log, struct peers *peers, mono_ns deadline)
{
    natsInbox *inbox = NULL;
    natsSubscription *subscription = NULL;
    natsStatus status = natsInbox_Create(&inbox);
    if (status == NATS_OK) {
        status = natsConnection_SubscribeSync(&subscription, log->connection, inbox);
    }
    if (status == NATS_OK) {
        status = natsConnection_PublishRequestString(log->connection, EVENTS_SERVER_CHECK, inbox, "");
    }
    for (int i = 0; status == NATS_OK && i < ANSWERS_MAX && !all_answered(peers); i++) {
        natsMsg *message = NULL;
        status = natsSubscription_NextMsg(&message, subscription, wait_ms(deadline, CHECK_MS));
        if (status == NATS_OK) {
            note_answer(peers, message_span(message));
        }
        natsMsg_Destroy(message);
    }
    natsSubscription_Destroy(subscription);
    natsInbox_Destroy(inbox);
    return status;
}

static struct fault check_synced(struct event_log *log, const jsStreamInfo *info, mono_ns deadline, struct buf *why)
{
    if (log->config->nats_allow_unsynced && info->Config->Replicas >= 3) {
        return OK;
    }
    struct peers peers;
    struct fault listed = list_peers(log, info, &peers);
    if (FAULTED(listed)) {
        IGNORE(buf_text(why, "event log: it is not known which servers keep the stream: no leader now\n"));
        return listed;
    }
    natsStatus status = collect_answers(log, &peers, deadline);
    size_t first = unsynced(&peers);
    if (first == peers.count) {
        return OK;
    }
    if (!event_log_connected(log)) {
        IGNORE(buf_printf(why, "event log: the connection broke while the servers were asked (%s)\n",
                          natsStatus_GetText(status)));
        return FAULT(LOG_UNAVAILABLE);
    }
    IGNORE(buf_printf(
        why,
        "event log: server %s %s: set sync_interval: always in its jetstream block and import " EVENTS_SERVER_CHECK
        " into the account, or set nats.allow_unsynced with 3 replicas or more\n",
        peers.name[first],
        peers.answered[first] ? "acknowledges before data is on disk" : "does not say whether it syncs every write"));
    return FAULT(LOG_UNSAFE);
}

struct fault stream_accept(struct event_log *log, bool may_create, mono_ns deadline, struct buf *why)
{
    jsStreamInfo *info = NULL;
    TRY(get_or_add(log, may_create, deadline, &info, why));
    struct fault fault = stream_config_check(info->Config, log->config, why);
    if (!FAULTED(fault)) {
        fault = check_synced(log, info, deadline, why);
    }
    if (!FAULTED(fault)) {
        event_log_saw(log, info->State.LastSeq);
    }
    jsStreamInfo_Destroy(info);
    return fault;
}
