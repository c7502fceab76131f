/* The metrics registry: Prometheus text exposition. A metric is a constant row; label values are bounded by the caller
 * (routes normalised, closed codes) and by a cap of 1024 series a metric: what comes after is counted together in one
 * series whose labels are all "other", and a value that is set is left out: of others' it would say nothing.
 * Thread-safe, no allocation and no lock on the hot path after a series was first seen. A row is known by its name: two
 * rows of one name and kind are one metric. Label values are cut at 127 bytes. */
#ifndef API_TELEMETRY_METRICS_H
#define API_TELEMETRY_METRICS_H

#include "appliance/base/bytes.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
#define METRIC_LABELS_MAX 4
struct metric {
    const char *name;
    enum metric_kind kind;
    const char *help;
    const char *labels[METRIC_LABELS_MAX]; /* NULL-terminated when fewer */
};

struct metrics;
struct fault metrics_new(struct metrics **ret_metrics);
void metrics_free(struct metrics *metrics);
DEFINE_FREEP(struct metrics, metrics_free)
/* So that a metric shows (0, or without series) before its first use. BAD_ARGUMENT: not a Prometheus name, or a name
 * that is registered with another kind or other labels. */
struct fault metrics_register(struct metrics *metrics, const struct metric *rows, size_t count);
/* Values of labels in order of the row; missing trailing ones are NULL. */
void metrics_add(struct metrics *metrics, const struct metric *metric, double by, const char *const *labels);
void metrics_set(struct metrics *metrics, const struct metric *metric, double value, const char *const *labels);
/* Every series that the metric has by now. */
void metrics_set_all(struct metrics *metrics, const struct metric *metric, double value);
/* One sample of a histogram; the buckets are those of request latencies, 1 ms to 30 s, and hold every latency that is
 * promised. */
void metrics_observe(struct metrics *metrics, const struct metric *metric, double seconds, const char *const *labels);
/* Appends the whole exposition, families in order of registration. TOO_LARGE beyond out's bound. */
struct fault metrics_print(struct metrics *metrics, struct buf *out);
/* Appends a Markdown table of what is registered, by name: for docs/metrics.md. */
struct fault metrics_describe(struct metrics *metrics, struct buf *out);

#endif
