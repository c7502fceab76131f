/* Prometheus text exposition, format 0.0.4. */
#include "api/telemetry/internal.h"

#include <math.h>
#include <stdio.h>

#define BOUND_TEXT 24

static struct fault put_escaped(struct buf *out, const char *text, bool quotes)
{
    for (const char *at = text; *at != 0; at++) {
        if (*at == '\\' || (quotes && *at == '"')) {
            TRY(buf_u8(out, '\\'));
            TRY(buf_u8(out, (uint8_t)*at));
        } else if (*at == '\n') {
            TRY(buf_text(out, "\\n"));
        } else {
            TRY(buf_u8(out, (uint8_t)*at));
        }
    }
    return OK;
}

static struct fault put_number(struct buf *out, double value)
{
    if (isnan(value)) {
        return buf_text(out, "NaN");
    }
    if (isinf(value)) {
        return buf_text(out, value > 0 ? "+Inf" : "-Inf");
    }
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value) {
        return buf_printf(out, "%lld", (long long)value);
    }
    return buf_printf(out, "%.17g", value);
}

/* name{label="value",...,le="bound"}; `le` NULL leaves it out. */
static struct fault put_series(struct buf *out, const struct family *family, const struct series *series,
                               const char *suffix, const char *le)
{
    TRY(buf_text(out, family->metric->name));
    TRY(buf_text(out, suffix));
    const char *separator = "{";
    for (size_t i = 0; i < family->label_count; i++) {
        TRY(buf_printf(out, "%s%s=\"", separator, family->metric->labels[i]));
        TRY(put_escaped(out, series->values[i], true));
        TRY(buf_text(out, "\""));
        separator = ",";
    }
    if (le != NULL) {
        TRY(buf_printf(out, "%sle=\"%s\"", separator, le));
        separator = ",";
    }
    return buf_text(out, *separator == '{' ? " " : "} ");
}

static struct fault put_histogram(struct buf *out, const struct family *family, const struct series *series)
{
    char bound[BOUND_TEXT];
    uint64_t total = 0;
    for (size_t i = 0; i <= METRICS_BOUNDS; i++) {
        total += atomic_load_explicit(&series->cells[i], memory_order_relaxed);
        if (i < METRICS_BOUNDS) {
            (void)snprintf(bound, sizeof(bound), "%g", metrics_bounds[i]);
        }
        TRY(put_series(out, family, series, "_bucket", i < METRICS_BOUNDS ? bound : "+Inf"));
        TRY(buf_printf(out, "%llu\n", (unsigned long long)total));
    }
    TRY(put_series(out, family, series, "_sum", NULL));
    TRY(put_number(out, atomic_load_explicit(&series->value, memory_order_relaxed)));
    TRY(buf_text(out, "\n"));
    TRY(put_series(out, family, series, "_count", NULL));
    return buf_printf(out, "%llu\n", (unsigned long long)total);
}

static struct fault put_family(struct buf *out, const struct family *family)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"
    };
    const struct metric *metric = family->metric;
    TRY(buf_printf(out, "# HELP %s ", metric->name));
    TRY(put_escaped(out, metric->help != NULL ? metric->help : "", false));
    TRY(buf_printf(out, "\n# TYPE %s %s\n", metric->name, kinds[metric->kind]));
    for (const struct series *series = family->first; series != NULL; series = series->later) {
        if (metric->kind == METRIC_HISTOGRAM) {
            TRY(put_histogram(out, family, series));
            continue;
        }
        TRY(put_series(out, family, series, "", NULL));
        TRY(put_number(out, atomic_load_explicit(&series->value, memory_order_relaxed)));
        TRY(buf_text(out, "\n"));
    }
    return OK;
}

struct fault metrics_print(struct metrics *metrics, struct buf *out)
{
    BUG_IF(pthread_mutex_lock(&metrics->lock) != 0);
    struct fault fault = OK;
    for (const struct family *family = metrics->first; family != NULL && !FAULTED(fault); family = family->later) {
        fault = put_family(out, family);
    }
    BUG_IF(pthread_mutex_unlock(&metrics->lock) != 0);
    return fault;
}
