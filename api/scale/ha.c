/* What keeps several instances one service, what has to hold before a failover counts, and what was measured of it. */
#include "api/scale/internal.h"

#define ANSWER_MAX    ((size_t)256 << 10)
#define RPO_SECONDS   5
#define RTO_SECONDS   30
#define PING_MS       500
#define REPLICAS_SAFE 3 /* fewer lose acknowledged events with one server */

static void print_lanes(struct jout *out, struct request *request)
{
    const struct config *config = request->services->config;
    struct projector_state state;
    projector_state(request->services->projector, &state);
    jout_key(out, "ingress_lanes");
    jout_array(out);
    jout_object(out);
    jout_key_text(out, "instance", request->services->instance.text);
    jout_key_text(out, "base_url", request_base_url(request));
    jout_key_text(out, "listen", config->http_listen);
    jout_key_text(out, "state", "active");
    jout_key_bool(out, "leads_projection", state.leader);
    jout_object_end(out);
    jout_array_end(out);
    jout_key_text(out, "ingress_lanes_known", "this instance alone: the load balancer in front knows the others");
}

static void print_fence(struct jout *out, const char *fence, const char *how)
{
    jout_object(out);
    jout_key_text(out, "fence", fence);
    jout_key_text(out, "how", how);
    jout_object_end(out);
}

static void print_fences(struct jout *out)
{
    jout_key(out, "tenant_write_fences");
    jout_array(out);
    print_fence(out, "one leader projects", "a lock of the database; the checkpoint moves by compare-and-set");
    print_fence(out, "one command, one effect",
                "ids derived from tenant, caller and Idempotency-Key; the log stores a message id once");
    print_fence(out, "decisions on what was read", "an append names the lane's last sequence; a miss decides again");
    print_fence(out, "tenants apart", "row-level security, forced on every table of tenants");
    jout_array_end(out);
}

static void print_gate(struct jout *out, const char *gate, bool met, const char *state, const char *recovery)
{
    jout_object(out);
    jout_key_text(out, "gate", gate);
    jout_key_text(out, "state", met ? "met" : state);
    jout_key_text(out, "recovery", met ? NULL : recovery);
    jout_object_end(out);
}

static bool writer_answers(struct op *op, struct store *store)
{
    struct fault_note note = op->note;
    bool answers = !FAULTED(store_ping(op, store, PING_MS));
    op->note = note;
    return answers;
}

static void print_gates(struct jout *out, struct request *request)
{
    struct services *services = request->services;
    const struct config *config = services->config;
    struct event_log_state log = { 0 };
    struct fault_note note = request->op->note;
    bool known = !FAULTED(event_log_state(request->op, services->log, &log));
    request->op->note = note;
    bool replicated = known && log.replicas_desired >= REPLICAS_SAFE && log.replicas_actual >= log.replicas_desired;
    const struct scale_run *failover = scale_latest(services->scale, GATE_FAILOVER, NULL);
    jout_key(out, "failover_gates");
    jout_array(out);
    print_gate(out, "datastore of its own", config->postgres_url[0] != '\0', "unmet",
               "set postgres.url to a database that a second host reaches");
    print_gate(out, "datastore writer answers", writer_answers(request->op, services->store), "unmet",
               "promote a standby, or bring the writer back");
    print_gate(out, "event log replicated", replicated, "unmet",
               "run three nats-servers, set nats.replicas to 3 and wait until all are current");
    print_gate(out, "signer on a host of its own", config->signer_address[0] != '\0', "unmet",
               "set signer.address: svc-signer beside the HSM, reached over mutual TLS");
    print_gate(out, "regional smoke", failover != NULL, "not_measured",
               "run scripts/perf failover --record on such a machine");
    jout_array_end(out);
}

static void print_targets(struct jout *out, const struct scale *scale)
{
    jout_key(out, "targets");
    jout_object(out);
    jout_key_int(out, "rpo_seconds", RPO_SECONDS);
    jout_key_int(out, "rto_seconds", RTO_SECONDS);
    jout_key_text(out, "assumes",
                  "a healthy shared or promoted writer, a replicated event log, an isolated signer and a green "
                  "regional smoke");
    jout_key_text(out, "unsupported", "independent writers that do not share one event log and one datastore");
    jout_object_end(out);
    jout_key_text(out, "status", scale_latest(scale, GATE_FAILOVER, NULL) != NULL ? "measured" : "not_measured");
    scale_print_latest(out, "last", scale, GATE_FAILOVER, NULL);
}

struct fault route_scale_ha_issuance(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    print_lanes(&jout, request);
    print_fences(&jout);
    print_gates(&jout, request);
    print_targets(&jout, request->services->scale);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}
