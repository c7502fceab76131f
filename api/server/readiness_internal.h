/* What readiness.c (the looks) and readiness_print.c (what is told of them) share. */
#ifndef API_SERVER_READINESS_INTERNAL_H
#define API_SERVER_READINESS_INTERNAL_H

#include "api/server/probes.h"
#include "api/server/readiness.h"

#include <pthread.h>

#define WORD_MAX 48

/* Rows of probe_metrics. */
enum probe_metric { SIGNER_UP, SIGNER_RESTARTS, REPLICAS_DESIRED, REPLICAS_ACTUAL, LAG, POOL, SHED, LEADER, AGE };

/* What a check found. */
struct outcome {
    char word[WORD_MAX]; /* "ok", or what is wrong */
    bool shed;           /* by load: not known, and taken for well for a while */
    bool part;           /* it works, with a part missing */
};

/* The first four are at these places of the table. */
enum check_kind { CHECK_DB, CHECK_NATS, CHECK_PROJECTION, CHECK_SIGNER, CHECK_FEATURE, CHECK_STATE_FILE };

struct check {
    enum check_kind kind;
    const char *name;                /* NULL: of no interest to /readyz */
    const struct readiness_row *row; /* of FEATURE */
    mono_ns shed_since;              /* 0: not shed. Only the look itself uses it */
    mono_ns ended;                   /* 0: never yet. Guarded, as is the outcome */
    struct outcome outcome;
};

struct readiness {
    struct services *services;
    pthread_mutex_t lock; /* guards what checks found; never held over I/O */
    struct event_log_state log;
    struct projector_state state;
    struct signer_health health;
    const char *signer; /* the signer's word as it is; constant text */
    size_t count;
    struct check checks[];
};

static inline void readiness_lock(struct readiness *readiness)
{
    BUG_IF(pthread_mutex_lock(&readiness->lock) != 0);
}

static inline void readiness_unlock(struct readiness *readiness)
{
    BUG_IF(pthread_mutex_unlock(&readiness->lock) != 0);
}

/* Without it the service is not ready; with the others it has a part missing. */
static inline bool check_is_needed(const struct check *check)
{
    return check->name != NULL && (check->row == NULL || !check->row->degrades);
}

#endif
