#include "api/snapshot/internal.h"

/* On every instance: a folder of this host's may hold what another host's erasure took away. */
static const struct worker_row workers[] = {
    { .name = "read-model-snapshot-sweep", .period_ms = 1000, .run = snapshot_sweep },
};

static const struct readiness_row readiness[] = {
    { .name = "read_model_snapshots", .check = snapshot_ready, .degrades = true },
};

const struct feature snapshot_feature = {
    .name = "snapshot",
    .workers = workers,
    .worker_count = COUNT_OF(workers),
    .readiness = readiness,
    .readiness_count = COUNT_OF(readiness),
    .metrics = snapshot_metrics,
    .metric_count = COUNT_OF(snapshot_metrics),
    .start = snapshot_start,
    .stop = snapshot_stop,
};
