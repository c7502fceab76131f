/* With a log that is down, each waiting publication would wait out its own time limit, and the threads with it. After
 * three failures the gate closes, for longer each time; when it opens, one asks for all. */
#include "api/transparency/internal.h"

#define FAILURES_FREE 3
#define CLOSED_FIRST  NS_PER_S
#define CLOSED_MOST   (15 * NS_PER_S)
#define ASKED_MOST_S  60

static void lock(struct tlog *log)
{
    BUG_IF(pthread_mutex_lock(&log->lock) != 0);
}

static void unlock(struct tlog *log)
{
    BUG_IF(pthread_mutex_unlock(&log->lock) != 0);
}

static mono_ns closed_for(unsigned failed)
{
    mono_ns closed = CLOSED_FIRST;
    for (unsigned i = FAILURES_FREE; i < failed && closed < CLOSED_MOST; i++) {
        closed *= 2;
    }
    return closed < CLOSED_MOST ? closed : CLOSED_MOST;
}

static void close_until(struct tlog *log, mono_ns until)
{
    log->closed_until = until > log->closed_until ? until : log->closed_until;
}

bool tlog_gate_shut(struct tlog *log, mono_ns now)
{
    lock(log);
    bool shut = now < log->closed_until || log->probing;
    unlock(log);
    return shut;
}

bool tlog_gate_enter(struct tlog *log, mono_ns now)
{
    lock(log);
    bool enter = now >= log->closed_until && !log->probing;
    log->probing = log->probing || (enter && log->failed >= FAILURES_FREE);
    unlock(log);
    return enter;
}

/* Many fail together when a log goes down: those that come in after the gate closed are of the same failure. */
static void count_failure(struct tlog *log, mono_ns now)
{
    if (log->failed < FAILURES_FREE || log->probing) {
        log->failed += log->failed < 64 ? 1 : 0;
    }
    log->probing = false;
    if (log->failed >= FAILURES_FREE) {
        close_until(log, now + closed_for(log->failed));
    }
}

void tlog_gate_tell(struct tlog *log, bool answered, int64_t retry_after_s, mono_ns now)
{
    lock(log);
    if (answered) {
        log->failed = 0;
        log->probing = false;
        log->closed_until = 0;
    } else {
        count_failure(log, now);
        close_until(log, now + (retry_after_s < ASKED_MOST_S ? retry_after_s : ASKED_MOST_S) * NS_PER_S);
    }
    unlock(log);
}
