/* The registry as a page of the manual. */
#include "api/telemetry/internal.h"

#include "appliance/base/alloc.h"

#include <stdlib.h>

static int by_name(const void *a, const void *b)
{
    const struct family *const *left = a, *const *right = b;
    return strcmp((*left)->metric->name, (*right)->metric->name);
}

static struct fault put_row(struct buf *out, const struct family *family)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"
    };
    const struct metric *metric = family->metric;
    TRY(buf_printf(out, "| `%s` | %s | ", metric->name, kinds[metric->kind]));
    for (size_t i = 0; i < family->label_count; i++) {
        TRY(buf_printf(out, "%s`%s`", i > 0 ? ", " : "", metric->labels[i]));
    }
    return buf_printf(out, " | %s |\n", metric->help);
}

static struct fault put_all(struct buf *out, struct family **families, size_t count)
{
    qsort(families, count, sizeof(struct family *), by_name);
    TRY(buf_text(out, "| name | type | labels | meaning |\n|---|---|---|---|\n"));
    for (size_t i = 0; i < count; i++) {
        TRY(put_row(out, families[i]));
    }
    return OK;
}

struct fault metrics_describe(struct metrics *metrics, struct buf *out)
{
    struct family **families = NULL;
    size_t count = 0;
    BUG_IF(pthread_mutex_lock(&metrics->lock) != 0);
    for (struct family *family = metrics->first; family != NULL; family = family->later) {
        count++;
    }
    struct fault fault = mem_new(count + 1, sizeof(struct family *), &families);
    count = 0;
    for (struct family *family = metrics->first; !FAULTED(fault) && family != NULL; family = family->later) {
        families[count++] = family;
    }
    BUG_IF(pthread_mutex_unlock(&metrics->lock) != 0);
    if (!FAULTED(fault)) {
        fault = put_all(out, families, count);
    }
    mem_free(families);
    return fault;
}
