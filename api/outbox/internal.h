/* What the files of api/outbox/ share. */
#ifndef API_OUTBOX_INTERNAL_H
#define API_OUTBOX_INTERNAL_H

#include "api/outbox/outbox.h"

#include <pthread.h>

#define OUTBOX_THREADS_MAX 64u
#define OUTBOX_PAIRS_MAX   256u
#define DESTINATIONS_MAX   64u
#define LEASE_GRACE_US     (10 * US_PER_S)
#define GATHER_NS          (20 * NS_PER_MS) /* outbound: between two leases that a wake asks for */

/* A leased row. Owned by the outbox from lease to outcome. */
struct job {
    int64_t id, attempt;
    bool failed_before; /* something is noted of it */
    struct tenant_id tenant;
    const struct outbox_row *row;
    char *key;
    char trace_id[33];
    struct buf payload;
    struct job *next;
};
void job_free(struct job *job);
DEFINE_FREEP(struct job, job_free)

/* Destination and tenant: what dispatch rotates over. */
struct pair {
    const struct outbox_row *row;
    struct tenant_id tenant;
    unsigned count; /* how many to lease */
};

enum outcome { OUTCOME_DELIVERED, OUTCOME_RETRY, OUTCOME_DEAD, OUTCOME_GIVE_BACK };

struct outbox {
    struct outbox_config config;
    const struct outbox_row *rows[DESTINATIONS_MAX]; /* of this outbox alone */
    size_t row_count;
    struct buf destinations;                /* theirs, with commas between */
    struct buf awaited;                     /* those of them that requests wait for */
    atomic_bool narrow;                     /* only these */
    unsigned tenant_most, destination_most; /* in flight for one, whatever its rows allow; 0 = all */
    bool lone_takes_all;                    /* tenant_most only while another tenant has rows, too */
    struct uuid worker_id;                  /* of this outbox in this process */
    atomic_bool stop_told;                  /* the same as `stopping`, for handlers */
    pthread_t threads[OUTBOX_THREADS_MAX];
    unsigned thread_count;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool stopping, wake, leasing;
    unsigned idle;
    struct job *ready, **ready_end; /* leased, not begun */
    unsigned ready_count;
    struct pair flights[OUTBOX_THREADS_MAX]; /* leased: destination, tenant, how many */
    struct pair cursor;                      /* the pair that was served last */
    mono_ns poll_due, sweep_due;
    mono_ns leased; /* when the last lease began */
};

/* lease.c: everything that is SQL. */
/* Pairs with pending rows, in rotation: those behind `cursor` first. At most OUTBOX_PAIRS_MAX. */
struct fault lease_pairs(struct tx *tx, const struct outbox *outbox, const struct pair *cursor, struct pair *ret_pairs,
                         size_t *ret_count);
/* Leases rows that are due, up to each pair's count. The list is the caller's. */
struct fault lease_take(struct tx *tx, const struct outbox *outbox, const struct pair *pairs, size_t count,
                        struct job **ret_jobs, unsigned *ret_count);
struct fault lease_sweep(struct tx *tx);                                                  /* leases that ran out */
struct fault lease_return(struct tx *tx, const struct outbox *outbox, int64_t *ret_rows); /* ours, too */
struct fault lease_async(struct tx *tx); /* this transaction need not wait for the disk */
/* `code`: what a failed attempt met. */
struct fault lease_outcome(struct op *op, const struct outbox *outbox, const struct job *job, enum outcome outcome,
                           int64_t delay_us, const char *code);

/* share.c: who gets how many, without I/O. Keeps the pairs that get some, in order, and sets their `count`. */
void share_out(const struct outbox *outbox, unsigned capacity, struct pair *pairs, size_t *count);
/* What `share_out` bounds a tenant and a destination by. */
void share_caps(struct outbox *outbox);
int64_t retry_delay_us(int64_t attempt);
struct pair *flight_of(struct outbox *outbox, const struct outbox_row *row, struct tenant_id tenant);

void *outbox_run(void *outbox); /* worker.c */

/* traced.c: the operation goes on with the trace of the event that queued the row. */
void outbox_trace_begin(struct op *op, const struct job *job);
void outbox_trace_end(const struct op *op, const struct job *job, struct fault fault, mono_ns began);

#endif
