#include "api/audit/archive.h"

static const struct event_row events[] = {
    { ARCHIVE_EVENT, ARCHIVE_VERSION, project_audit_archived,
      "Records were archived, the file was verified, and the served view begins behind them; their events are kept." },
};

/* Each minute it is looked whether the hour is over; a failed run is repeated then. */
static const struct worker_row workers[] = {
    { .name = "audit-archive", .period_ms = 60000, .leader_only = true, .run = archive_work },
};

static const struct readiness_row readiness[] = {
    { .name = "audit_archive", .check = archive_ready, .degrades = true },
};

const struct feature audit_archive_feature = {
    .name = "audit-archive",
    .routes = archive_routes,
    .route_count = ARCHIVE_ROUTES,
    .events = events,
    .event_count = COUNT_OF(events),
    .workers = workers,
    .worker_count = COUNT_OF(workers),
    .readiness = readiness,
    .readiness_count = COUNT_OF(readiness),
    .metrics = archive_metrics,
    .metric_count = ARCHIVE_METRICS,
    .start = archive_start,
};
