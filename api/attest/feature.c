#include "api/attest/internal.h"

#include "appliance/base/log.h"
#include "appliance/http/http.h"

#define WHY_MAX 1024

const struct metric attest_metrics[ATTEST_METRIC_COUNT] = {
    [ATTEST_METRIC_VERIFICATIONS] = { "svc_attest_verifications_total",
                                      METRIC_COUNTER,
                                      "Identity proofs by method and result: verified, or the code of the refusal.",
                                      { "method", "result" } },
    [ATTEST_METRIC_FETCHES] = { "svc_attest_jwks_fetches_total",
                                METRIC_COUNTER,
                                "Fetches of an issuer's key set by result: ok, unavailable or malformed.",
                                { "result" } },
};

static const struct event_row events[] = {
    { "attestation.verified", 1, NULL,
      "An identity proof held: method, issuer, subject, san, the certificate's claims, key_id, issued_at, expires_at." },
};

struct fault attest_start(struct op *op, struct services *services)
{
    const struct config *config = services->config;
    CLEANUP(buf_free) struct buf why = BUF_INIT(WHY_MAX);
    if (!config->keyless_enabled) {
        return OK;
    }
    if (config->attestors_file[0] == '\0') {
        return op_fail_field(op, FAULT(CONFIG), "code_signing.keyless.attestors_file",
                             "code_signing.keyless.attestors_file: is needed with code_signing.keyless.enabled");
    }
    struct fault fault = attest_load(config->attestors_file, services->metrics, &why, &services->attest);
    if (fault.code == FAULT_CONFIG) {
        return op_fail_field(op, fault, "code_signing.keyless.attestors_file", "%.*s", (int)why.len,
                             why.len > 0 ? (const char *)why.at : "");
    }
    TRY(fault);
    log_write(INFO, "identity_methods_loaded", LOG_TEXT("file", config->attestors_file),
              LOG_INT("methods", services->attest->method_count));
    return OK;
}

void attest_stop(struct services *services)
{
    attest_free(TAKE(services->attest));
    http_forget();
}

const struct feature attest_feature = {
    .name = "attest",
    .events = events,
    .event_count = COUNT_OF(events),
    .metrics = attest_metrics,
    .metric_count = COUNT_OF(attest_metrics),
    .start = attest_start,
    .stop = attest_stop,
};
