/* What this process can take at once, how it refuses what it cannot, and which sizes were measured. */
#include "api/scale/internal.h"

#include <stdio.h>

#define ANSWER_MAX ((size_t)512 << 10)

/* Sizes of an inventory that somebody plans with. */
static const struct {
    int64_t credentials;
    const char *profile;
} bands[] = { { 100000, "100000" }, { 250000, "250000" }, { 1000000, "1000000" } };

static void print_bands(struct jout *out, const struct scale *scale)
{
    jout_key(out, "credential_bands");
    jout_array(out);
    for (size_t i = 0; i < COUNT_OF(bands); i++) {
        bool measured = scale_latest(scale, GATE_BAND, bands[i].profile) != NULL;
        jout_object(out);
        jout_key_int(out, "credentials", bands[i].credentials);
        jout_key_text(out, "status", measured ? "measured" : "not_measured");
        scale_print_latest(out, "last", scale, GATE_BAND, bands[i].profile);
        jout_object_end(out);
    }
    jout_array_end(out);
}

static void print_lane(struct jout *out, const char *lane, int64_t threads, const char *what)
{
    jout_object(out);
    jout_key_text(out, "lane", lane);
    jout_key_int(out, "threads", threads);
    jout_key_text(out, "runs", what);
    jout_object_end(out);
}

static void print_lanes(struct jout *out, const struct config *config)
{
    jout_key(out, "execution_lanes");
    jout_array(out);
    print_lane(out, "requests", config->http_threads, "one request each, inside its bulkhead");
    print_lane(out, "projector", 1, "applies the event log to the read model; one leader among all instances");
    print_lane(out, "outbox", config->codesign_workers, "effects that need this service alone, such as signing");
    print_lane(out, "outbound", config->tlog_in_flight, "effects that wait for services of others");
    print_lane(out, "signer", config->signer_sessions, "sessions of the token, in svc-signer");
    jout_array_end(out);
}

static void print_bulkhead(struct jout *out, struct request *request, enum bulkhead_name which)
{
    struct bulkhead_load load;
    bulkheads_load(request->services->bulkheads, which, &load);
    jout_object(out);
    jout_key_text(out, "control", "bulkhead");
    jout_key_text(out, "name", bulkhead_name_text(which));
    jout_key_int(out, "limit", load.limit);
    jout_key_int(out, "queue", load.queue);
    jout_key_text(out, "when_full", "503 bulkhead_saturated with Retry-After");
    jout_object_end(out);
}

static void print_control(struct jout *out, const char *control, const char *name, int64_t limit, const char *when_full)
{
    jout_object(out);
    jout_key_text(out, "control", control);
    jout_key_text(out, "name", name);
    jout_key_int(out, "limit", limit);
    jout_key_text(out, "when_full", when_full);
    jout_object_end(out);
}

static void print_controls(struct jout *out, struct request *request)
{
    static const char busy[] = "503 with Retry-After once the acquire window is over";
    const struct config *config = request->services->config;
    jout_key(out, "backpressure");
    jout_array(out);
    for (int i = BULKHEAD_NONE + 1; i < BULKHEAD_COUNT; i++) {
        print_bulkhead(out, request, (enum bulkhead_name)i);
    }
    if (config->rate_limit_enabled) {
        print_control(out, "rate limit", "tenant", config->rate_limit_requests, "429 rate_limited with Retry-After");
    }
    print_control(out, "pool", "request", config->postgres_max_conns, busy);
    print_control(out, "pool", "bookkeeping", config->postgres_bookkeeping_conns, busy);
    print_control(out, "queue", "signer", config->signer_queue, "503 with Retry-After; nothing is signed");
    jout_array_end(out);
}

static void print_gate(struct jout *out, const struct scale *scale, enum scale_gate gate, const char *profile,
                       const char *asks)
{
    char command[96];
    bool has_profile = profile[0] != '\0';
    (void)snprintf(command, sizeof(command), "scripts/perf %s%s%s", scale_gate_text(gate), has_profile ? " " : "",
                   profile);
    const struct scale_run *run = scale_latest(scale, gate, profile);
    jout_object(out);
    jout_key_text(out, "gate", scale_gate_text(gate));
    jout_key_text(out, "profile", profile);
    jout_key_text(out, "command", command);
    jout_key_text(out, "asks", asks);
    jout_key_text(out, "status", run != NULL ? "measured" : "not_measured");
    scale_print_latest(out, "last", scale, gate, profile);
    jout_object_end(out);
}

static void print_gates(struct jout *out, const struct scale *scale)
{
    static const char external[] = "a burst through external stores; refused without them";
    jout_key(out, "release_gates");
    jout_array(out);
    print_gate(out, scale, GATE_SMOKE, "", "every objective's surface answers within its latency, for a few seconds");
    print_gate(out, scale, GATE_LIVE, "", "objectives in a realistic and a peak phase, with lag and saturation");
    print_gate(out, scale, GATE_SOAK, "", "no slope of memory, threads or files over many mutations");
    print_gate(out, scale, GATE_BURST, "cap-small", "a burst of events through the embedded stores");
    print_gate(out, scale, GATE_BURST, "cap-medium", external);
    print_gate(out, scale, GATE_BURST, "cap-large", external);
    jout_array_end(out);
}

static void print_residuals(struct jout *out)
{
    static const char *const residuals[] = {
        "Figures are those of the machine that is named with them; another one has others.",
        "One projector applies the log of all tenants: read models of several instances do not add up.",
        "The token bounds signing: more instances do not make it faster.",
        "Not served, so not measured: issuance, secrets, enrolment, OCSP and CRL.",
    };
    jout_key(out, "residuals");
    jout_array(out);
    for (size_t i = 0; i < COUNT_OF(residuals); i++) {
        jout_text(out, residuals[i]);
    }
    jout_array_end(out);
}

struct fault route_scale_orchestration(struct request *request)
{
    const struct services *services = request->services;
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    print_bands(&jout, services->scale);
    print_lanes(&jout, services->config);
    print_controls(&jout, request);
    print_gates(&jout, services->scale);
    print_residuals(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}
