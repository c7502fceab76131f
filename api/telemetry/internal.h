/*
 * The registry's shape, for metrics.c (samples) and print.c (exposition). Readers walk without the lock: an alias and a
 * series are complete before their bucket points at them, and neither goes away before the registry does.
 */
#ifndef API_TELEMETRY_INTERNAL_H
#define API_TELEMETRY_INTERNAL_H

#include "api/telemetry/metrics.h"

#include <pthread.h>
#include <stdatomic.h>

#define METRICS_SERIES_MAX 1024
#define METRICS_LABEL_SIZE 128
#define METRICS_BUCKETS    64
#define METRICS_ALIASES    128
#define METRICS_BOUNDS     18

extern const double metrics_bounds[METRICS_BOUNDS];

struct series {
    struct series *next;  /* of the bucket */
    struct series *later; /* in order of first sight; guarded by the lock */
    char values[METRIC_LABELS_MAX][METRICS_LABEL_SIZE];
    _Atomic(double) value;     /* of a histogram: the sum */
    _Atomic(uint64_t) cells[]; /* of a histogram: observations per bucket, not cumulative; the last is +Inf */
};

struct family {
    const struct metric *metric;
    size_t label_count;
    _Atomic(struct series *) buckets[METRICS_BUCKETS];
    struct series *first, **last; /* guarded by the lock, with series_count */
    size_t series_count;
    struct family *later;
};

/* Rows are found by their address; several rows of one name share a family. */
struct alias {
    const struct metric *metric;
    struct family *family;
    struct alias *next;
};

struct metrics {
    pthread_mutex_t lock;
    _Atomic(struct alias *) aliases[METRICS_ALIASES];
    struct family *first, **last; /* guarded by lock */
};

#endif
