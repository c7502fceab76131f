/* What the log is like now: how far it goes, what is missing, whether it is there. */
#include "api/events/internal.h"

#define ASK_MS   2000
#define STALE_NS (60 * NS_PER_S)

static bool has_holes(const jsStreamInfo *info)
{
    return info->State.LastSeq >= info->State.FirstSeq &&
           info->State.Msgs != info->State.LastSeq - info->State.FirstSeq + 1;
}

static uint64_t holes_of(const jsStreamInfo *info)
{
    uint64_t there = info->State.LastSeq > 0 ? info->State.LastSeq : 0;
    return there - info->State.Msgs;
}

/* The first sequence of first..last that is not replaced either; 0 = none. */
static uint64_t first_lost(struct event_log *log, uint64_t first, uint64_t last)
{
    for (uint64_t seq = first; seq <= last; seq++) {
        if (!event_log_replaced(log, seq, NULL)) {
            return seq;
        }
    }
    return 0;
}

static void lose(struct event_log_state *state, uint64_t seq)
{
    if (seq != 0 && (state->first_missing == 0 || seq < state->first_missing)) {
        state->first_missing = seq;
    }
}

static struct fault look_for_holes(struct op *op, struct event_log *log, const jsStreamInfo *info,
                                   struct event_log_state *state)
{
    state->first_missing = 0;
    if (info->State.Msgs == 0) {
        lose(state, first_lost(log, 1, info->State.LastSeq));
        return OK;
    }
    lose(state, first_lost(log, 1, info->State.FirstSeq - 1));
    if (!has_holes(info)) {
        return OK;
    }
    jsStreamInfo *details = NULL;
    jsErrCode code = 0;
    jsOptions options;
    natsStatus status = jsOptions_Init(&options);
    if (status == NATS_OK) {
        options.Wait = wait_ms(op->deadline, ASK_MS);
        options.Stream.Info.DeletedDetails = true;
        status = js_GetStreamInfo(&details, log->js, log->config->nats_stream, &options, &code);
    }
    if (status != NATS_OK) {
        return nats_fault(op, status, code, "asking for missing messages");
    }
    for (int i = 0; i < details->State.DeletedLen; i++) {
        uint64_t seq = details->State.Deleted[i];
        lose(state, event_log_replaced(log, seq, NULL) ? 0 : seq);
    }
    jsStreamInfo_Destroy(details);
    return OK;
}

/* Nothing is deleted from this log but what is replaced, so the list of what is missing is asked for only when there is
 * something new in it. */
static struct fault find_hole(struct op *op, struct event_log *log, const jsStreamInfo *info,
                              struct event_log_state *state)
{
    uint64_t holes = holes_of(info);
    event_log_lock(log);
    bool known = holes == 0 || (log->good_holes == holes && log->good_first == info->State.FirstSeq);
    event_log_unlock(log);
    if (known) {
        return OK;
    }
    TRY(look_for_holes(op, log, info, state));
    if (state->first_missing != 0) {
        TRY(event_log_history_load(op, log)); /* replaced and erased since we last looked? */
        TRY(look_for_holes(op, log, info, state));
    }
    if (state->first_missing == 0) {
        event_log_lock(log);
        log->good_holes = holes;
        log->good_first = info->State.FirstSeq;
        event_log_unlock(log);
    }
    return OK;
}

/* A number for "these servers, in this state". */
static uint64_t keepers_of(const jsStreamInfo *info)
{
    uint64_t sum = 1469598103934665603u; /* FNV-1a over each name; order does not matter, so they are added up */
    for (int i = 0; info->Cluster != NULL && i < info->Cluster->ReplicasLen; i++) {
        const jsPeerInfo *peer = info->Cluster->Replicas[i];
        uint64_t hash = (peer->Offline ? 1u : 2u) + (peer->Current ? 4u : 8u);
        for (const char *c = peer->Name; c != NULL && *c != '\0'; c++) {
            hash = (hash ^ (uint8_t)*c) * 1099511628211u;
        }
        sum += hash;
    }
    return sum;
}

/* A server that came (back) to the stream has to say whether it syncs, before the next append; and all have to say it
 * again from time to time, since one that is back at once is not missed. (A single server that restarts breaks our
 * connection.) */
static void note_keepers(struct event_log *log, const jsStreamInfo *info)
{
    uint64_t keepers = keepers_of(info);
    bool several = info->Cluster != NULL && info->Cluster->ReplicasLen > 0;
    bool stale = several && clock_mono() - atomic_load(&log->accepted_at) > STALE_NS;
    event_log_lock(log);
    if (stale || (log->keepers != 0 && log->keepers != keepers)) {
        atomic_store(&log->accepted_connect, 0);
    }
    log->keepers = keepers;
    event_log_unlock(log);
}

static void copy_state(struct event_log *log, const jsStreamInfo *info, struct event_log_state *ret_state)
{
    struct event_log_state state = { .connected = true, .connects = atomic_load(&log->connects) };
    state.replicas_desired = (unsigned)log->config->nats_replicas;
    if (info != NULL) {
        state.first_seq = info->State.FirstSeq;
        state.last_seq = info->State.LastSeq;
        state.messages = info->State.Msgs;
        state.replicas_actual = 1;
        for (int i = 0; info->Cluster != NULL && i < info->Cluster->ReplicasLen; i++) {
            const jsPeerInfo *peer = info->Cluster->Replicas[i];
            state.replicas_actual += !peer->Offline && peer->Current ? 1 : 0;
        }
    }
    *ret_state = state;
}

struct fault event_log_state_now(struct op *op, struct event_log *log, struct event_log_state *ret_state)
{
    BUG_IF(op->tx_open != 0);
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus status = stream_get(log, op->deadline, &info, &code);
    if (status != NATS_OK && (unsigned)code != JSStreamNotFoundErr) {
        struct fault fault = nats_fault(op, status, code, "asking for the stream's state");
        return op_fail(op, fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault,
                       "the event log does not answer: try again later");
    }
    struct event_log_state state;
    copy_state(log, info, &state);
    if (info != NULL) {
        note_keepers(log, info);
    }
    struct fault holes = info != NULL ? find_hole(op, log, info, &state) : OK;
    jsStreamInfo_Destroy(info);
    TRY(holes);
    event_log_saw(log, state.last_seq);
    event_log_lock(log);
    log->state = state;
    log->state_at = clock_mono();
    event_log_unlock(log);
    *ret_state = state;
    return OK;
}

/* True when this caller is to ask; otherwise *ret_state is filled from what is known. */
static bool must_refresh(struct event_log *log, struct event_log_state *ret_state)
{
    bool connected = event_log_connected(log);
    event_log_lock(log);
    bool fresh = log->state_at != 0 && clock_mono() - log->state_at < NS_PER_S;
    bool mine = connected && !fresh && !log->refreshing;
    log->refreshing = log->refreshing || mine;
    *ret_state = log->state;
    ret_state->connected = connected;
    ret_state->closed = link_closed_locked(log);
    ret_state->connects = atomic_load(&log->connects);
    ret_state->replicas_desired = (unsigned)log->config->nats_replicas;
    event_log_unlock(log);
    return mine;
}

struct fault event_log_state(struct op *op, struct event_log *log, struct event_log_state *ret_state)
{
    struct event_log_state state;
    if (must_refresh(log, &state)) {
        struct fault fault = event_log_state_now(op, log, &state);
        event_log_lock(log);
        log->refreshing = false;
        event_log_unlock(log);
        TRY(fault);
    }
    *ret_state = state;
    return OK;
}
