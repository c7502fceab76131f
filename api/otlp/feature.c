#include "api/otlp/internal.h"
#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

static void free_export(struct otlp_export *export)
{
    if (export == NULL) {
        return;
    }
    audit_stop(export);
    otlp_free(export->spans);
    otlp_sender_free(export->logs);
    buf_free(&export->body);
    BUG_IF(pthread_cond_destroy(&export->changed) != 0 || pthread_mutex_destroy(&export->lock) != 0);
    mem_free(export);
}
DEFINE_FREEP(struct otlp_export, free_export)

static struct fault settings_of(const struct services *services, struct otlp_settings *ret_settings)
{
    const struct config *config = services->config;
    struct otlp_settings settings = {
        .endpoint = config->otlp_endpoint,
        .token_file = config->otlp_token_file,
        .ca_file = config->otlp_ca_file,
        .plain_too = config->otlp_insecure,
        .timeout_ns = config->otlp_timeout,
        .interval_ns = config->otlp_interval,
        .queue = (size_t)config->otlp_queue,
        .instance = services->instance.text,
    };
    REQUIRE(trace_ratio_parse(config->otlp_sample, &settings.sample_ppm), CONFIG);
    *ret_settings = settings;
    return OK;
}

static struct fault begin(struct otlp_export *export, struct buf *why)
{
    struct services *services = export->services;
    TRY(settings_of(services, &export->settings));
    TRY(otlp_sender_new(&export->settings, "/v1/logs", why, &export->logs));
    TRY(otlp_new(&export->settings, services->metrics, why, &export->spans));
    return audit_start(export);
}

static struct fault start(struct op *op, struct services *services)
{
    CLEANUP(free_exportp) struct otlp_export *export = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    const struct config *config = services->config;
    if (!config->otlp_enabled || config->otlp_endpoint[0] == '\0') {
        return OK;
    }
    TRY(mem_new(1, sizeof(*export), &export));
    BUG_IF(pthread_mutex_init(&export->lock, NULL) != 0 || pthread_cond_init(&export->changed, NULL) != 0);
    export->services = services;
    export->body = (struct buf)BUF_INIT(OTLP_BODY_MAX);
    struct fault fault = begin(export, &why);
    if (FAULTED(fault)) {
        return op_fail(op, fault, "%.*s", (int)why.len, why.len > 0 ? (const char *)why.at : "");
    }
    log_write(INFO, "otlp_export", LOG_TEXT("endpoint", config->otlp_endpoint),
              LOG_TEXT("sample_ratio", config->otlp_sample));
    services->otlp = TAKE(export);
    return OK;
}

static void stop(struct services *services)
{
    free_export(TAKE(services->otlp));
}

static struct fault register_metrics(struct metrics *metrics)
{
    TRY(metrics_register(metrics, otlp_metrics, otlp_metric_count));
    TRY(metrics_register(metrics, audit_metrics, audit_metric_count));
    return metrics_register(metrics, &otlp_export_failures, 1);
}

const struct feature otlp_feature = {
    .name = "otlp",
    .register_metrics = register_metrics,
    .start = start,
    .stop = stop,
};
