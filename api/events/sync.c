/*
 * Do the servers acknowledge only what is on disk? Each tells about itself. In a cluster a message is acknowledged when
 * a majority of the stream's servers has it; so it is enough that a majority says that it syncs: whichever servers
 * acknowledge, one of them has it on disk. One that says that it does not is refused all the same; one that is away
 * cannot be asked, and is asked when it is back (event_log_state_now notices).
 */
#include "api/events/internal.h"

#include <stdio.h>

#define ANSWER_MS   2000
#define LAST_MS     250 /* for those that are perhaps away, once a majority has answered */
#define PEERS_MAX   8
#define PEER_MAX    128
#define ANSWERS_MAX 64

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

static size_t count_answered(const struct peers *peers)
{
    size_t answered = 0;
    for (size_t i = 0; i < peers->count; i++) {
        answered += peers->answered[i] ? 1 : 0;
    }
    return answered;
}

static bool majority(const struct peers *peers)
{
    return 2 * count_answered(peers) > peers->count;
}

/* The first that says it does not sync, else the first that says nothing, else NULL. */
static const char *culprit(const struct peers *peers)
{
    const char *silent = NULL;
    for (size_t i = 0; i < peers->count; i++) {
        if (peers->answered[i] && !peers->synced[i]) {
            return peers->name[i];
        }
        silent = silent == NULL && !peers->answered[i] ? peers->name[i] : silent;
    }
    return silent;
}

static bool any_unsynced(const struct peers *peers)
{
    for (size_t i = 0; i < peers->count; i++) {
        if (peers->answered[i] && !peers->synced[i]) {
            return true;
        }
    }
    return false;
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
    for (int i = 0; status == NATS_OK && i < ANSWERS_MAX && count_answered(peers) < peers->count; i++) {
        natsMsg *message = NULL;
        status =
            natsSubscription_NextMsg(&message, subscription, wait_ms(deadline, majority(peers) ? LAST_MS : ANSWER_MS));
        if (status == NATS_OK) {
            note_answer(peers, message_span(message));
        }
        natsMsg_Destroy(message);
    }
    natsSubscription_Destroy(subscription);
    natsInbox_Destroy(inbox);
    return status;
}

static struct fault judge(struct event_log *log, const struct peers *peers, natsStatus status, struct buf *why)
{
    if (any_unsynced(peers)) {
        IGNORE(buf_printf(why,
                          "event log: server %s acknowledges before data is on disk: set sync_interval: always in its "
                          "jetstream block, or set nats.allow_unsynced with 3 replicas or more\n",
                          culprit(peers)));
        return FAULT(LOG_UNSAFE);
    }
    if (majority(peers)) {
        return OK;
    }
    if (status == NATS_NO_RESPONDERS && event_log_connected(log)) {
        IGNORE(buf_printf(why,
                          "event log: server %s does not say whether it syncs every write: import " EVENTS_SERVER_CHECK
                          " from the system account into the log's account, or set nats.allow_unsynced with 3 replicas "
                          "or more\n",
                          culprit(peers)));
        return FAULT(LOG_UNSAFE);
    }
    IGNORE(buf_printf(why, "event log: server %s did not answer whether it syncs every write: %s\n", culprit(peers),
                      natsStatus_GetText(status)));
    return FAULT(LOG_UNAVAILABLE);
}

struct fault servers_check(struct event_log *log, const jsStreamInfo *info, mono_ns deadline, struct buf *why)
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
    return judge(log, &peers, status, why);
}
