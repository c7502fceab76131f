#include "api/server/probes.h"

#include "api/server/bulkhead_metrics.h"
#include "api/server/readiness.h"
#include "api/server/sampler.h"
#include "api/server/spine_metrics.h"
#include "api/telemetry/host.h"
#include "appliance/base/alloc.h"

#define TEXT_MAX 8192

struct probes {
    struct services *services;
    const atomic_bool *draining;
    struct readiness *readiness;
    struct sampler *sampler; /* NULL until probes_watch */
};

struct fault probes_new(struct services *services, const struct feature *const *features, size_t count,
                        const atomic_bool *draining, struct probes **ret_probes)
{
    CLEANUP(probes_freep) struct probes *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->services = services;
    made->draining = draining;
    TRY(readiness_new(services, features, count, &made->readiness));
    *ret_probes = TAKE(made);
    return OK;
}

struct fault probes_watch(struct probes *probes)
{
    for (size_t i = 0; i < readiness_looks(probes->readiness); i++) {
        readiness_look(probes->readiness, i);
    }
    return sampler_start(readiness_looks(probes->readiness), readiness_look, probes->readiness, &probes->sampler);
}

void probes_free(struct probes *probes)
{
    if (probes == NULL) {
        return;
    }
    sampler_stop(probes->sampler);
    readiness_free(probes->readiness);
    mem_free(probes);
}

struct fault probes_health(struct op *op, struct probes *probes, struct span *ret_json, bool *ret_well)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(TEXT_MAX);
    TRY(readiness_print_health(probes->readiness, clock_mono(), &json, ret_well));
    return arena_copy(op->arena, buf_span(&json), ret_json);
}

struct fault probes_readiness(struct op *op, struct probes *probes, struct span *ret_json, bool *ret_well)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(TEXT_MAX);
    TRY(readiness_print(probes->readiness, atomic_load(probes->draining), clock_mono(), &json, ret_well));
    return arena_copy(op->arena, buf_span(&json), ret_json);
}

struct fault probes_metrics(struct probes *probes, struct buf *out)
{
    struct services *services = probes->services;
    readiness_gauges(probes->readiness, clock_mono());
    bulkhead_gauges(services);
    spine_sample(services);
    host_sample_process(services->metrics);
    return metrics_print(services->metrics, out);
}
