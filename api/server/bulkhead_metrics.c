#include "api/server/bulkhead_metrics.h"

enum { IN_USE, LIMIT, WAITING, QUEUE_LIMIT, REJECTIONS, SHARES };

const struct metric bulkhead_metrics[] = {
    [IN_USE] = { "svc_bulkhead_in_use", METRIC_GAUGE, "Places of a bulkhead that are taken.", { "bulkhead" } },
    [LIMIT] = { "svc_bulkhead_limit", METRIC_GAUGE, "Places of a bulkhead.", { "bulkhead" } },
    [WAITING] = { "svc_bulkhead_waiting",
                  METRIC_GAUGE,
                  "Who waits for a place; for projection: messages.",
                  { "bulkhead" } },
    [QUEUE_LIMIT] = { "svc_bulkhead_queue_limit", METRIC_GAUGE, "How many may wait.", { "bulkhead" } },
    [REJECTIONS] = { "svc_bulkhead_rejections_total",
                     METRIC_COUNTER,
                     "Who was sent away: the queue was full, the wait too long, or the tenant had its share.",
                     { "bulkhead" } },
    [SHARES] = { "svc_bulkhead_share_rejections_total",
                 METRIC_COUNTER,
                 "Of them, those whose tenant had its share.",
                 { "bulkhead" } },
};
const size_t bulkhead_metric_count = COUNT_OF(bulkhead_metrics);

void bulkhead_gauges(struct services *services)
{
    if (services->bulkheads == NULL) {
        return;
    }
    for (enum bulkhead_name name = BULKHEAD_NONE + 1; name < BULKHEAD_COUNT; name++) {
        struct bulkhead_load load;
        bulkheads_load(services->bulkheads, name, &load);
        const double values[] = { load.in_use,           load.limit,         load.waiting, load.queue,
                                  (double)load.rejected, (double)load.shares };
        for (size_t i = 0; i < COUNT_OF(values); i++) {
            metrics_set(services->metrics, &bulkhead_metrics[i], values[i],
                        (const char *const[]){ bulkhead_name_text(name) });
        }
    }
}
