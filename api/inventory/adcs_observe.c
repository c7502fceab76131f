/*
 * A collector hands in what it saw. One source goes forward in time only; of several sources the latest complete
 * observation counts, and an older one is history. The first complete observation behind another one brings the drift
 * between the two along, in the same message.
 */
#include "api/inventory/adcs.h"

#define TRIES 5

struct task {
    struct services *services;
    struct adcs_observation observation;
    struct buf *data; /* of the observed event */
    uint64_t lane;
    struct adcs_standing standing;
    bool ran; /* by an earlier run of the same command */
};

static struct fault read_standing(struct op *op, struct task *task)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    const struct adcs_body *head = &task->observation.head;
    struct adcs_row row;
    TRY(tx_begin(op, task->services->store, STORE_REQUEST, &tx));
    TRY(projection_lane_last(tx, op->tenant, ADCS_LANE, &task->lane));
    struct fault fault = adcs_row_get(op, tx, head->observation_id, &row);
    task->ran = !FAULTED(fault);
    if (fault.code != FAULT_NOT_FOUND) {
        return fault;
    }
    return adcs_standing_read(op, tx, head->domain, head->source_id, &task->standing);
}

/* Of a source speaks one subject, the first that used it; or one token could tell what another one's collector sees. */
static struct fault check_source(struct op *op, const struct task *task)
{
    const char *subject = task->standing.source_subject;
    if (subject == NULL || strcmp(subject, op->principal.subject) == 0) {
        return OK;
    }
    return op_fail_field(op, FAULT(ADCS_SOURCE), "/source_id",
                         "another subject has handed in observations of this source: choose a source_id of your own");
}

static struct fault check_domain(struct op *op, const struct task *task)
{
    if (task->standing.known || task->standing.domains < ADCS_DOMAINS_MAX) {
        return OK;
    }
    return op_fail_field(op, FAULT(ADCS_DOMAINS), "/domain",
                         "%d domains have been observed, and a tenant has no more: hand this one in for another tenant",
                         ADCS_DOMAINS_MAX);
}

static struct fault check_order(struct op *op, const struct task *task)
{
    const struct adcs_body *head = &task->observation.head;
    char last[RFC3339_MAX];
    if (head->observed_at > task->standing.source_last || task->standing.source_last == 0) {
        return OK;
    }
    rfc3339_print(task->standing.source_last, last);
    return op_fail_field(op, FAULT(ADCS_ORDER), "/observed_at",
                         "this source has observed %.100s at %s: what it hands in next has to be later", head->domain,
                         last);
}

/* What counts, and has one before it that counted. */
static bool drifts(const struct task *task)
{
    const struct adcs_body *head = &task->observation.head;
    return head->schema_version == 2 && head->complete && task->standing.found &&
           head->observed_at > task->standing.latest.observed;
}

static struct fault see(struct op *op, const struct task *task, struct span data, struct adcs_observation *observation,
                        struct adcs_findings *findings)
{
    TRY(adcs_read_stored(op, data, observation));
    return adcs_find(op, observation, &task->services->config->adcs_administrators, findings);
}

static struct fault print_drift(struct op *op, const struct task *task, struct buf *out)
{
    struct adcs_observation old, new;
    struct adcs_findings cleared, appeared;
    struct adcs_drift drift;
    TRY(see(op, task, task->standing.latest.data, &old, &cleared));
    TRY(see(op, task, buf_span(task->data), &new, &appeared));
    TRY(adcs_compare(op, &(struct adcs_seen){ &old, &cleared }, &(struct adcs_seen){ &new, &appeared }, &drift));
    return drift.total == 0 ? OK
                            : adcs_drift_print(&drift, &new, task->standing.latest.observation_id,
                                               task->standing.latest.observed, out);
}

/* `out` stays empty when nothing changed. What is stored and cannot be read any more (erased in part) is no ground to
 * refuse what is new: then there is no drift to tell. */
static struct fault make_drift(struct op *op, const struct task *task, struct buf *out)
{
    CLEANUP(adcs_scratch_clear) struct op scratch = { 0 };
    if (!drifts(task)) {
        return OK;
    }
    TRY(adcs_scratch_new(op, &scratch));
    struct fault fault = print_drift(&scratch, task, out);
    if (fault.code == FAULT_JSON_FIELD || fault.code == FAULT_JSON_SYNTAX) {
        buf_clear(out);
        return OK;
    }
    return fault;
}

static struct fault observe_once(struct op *op, struct task *task)
{
    CLEANUP(buf_free) struct buf drift = BUF_INIT(ADCS_DRIFT_MAX);
    const struct span parts[] = { span_text(task->observation.head.observation_id) };
    uint64_t seq = 0;
    TRY(read_standing(op, task));
    if (task->ran) {
        op_was_recorded(op);
        return OK;
    }
    TRY(check_source(op, task));
    TRY(check_domain(op, task));
    TRY(check_order(op, task));
    TRY(make_drift(op, task, &drift));
    const struct event events[] = {
        { ADCS_OBSERVED, task->observation.head.schema_version, buf_span(task->data) },
        { ADCS_DRIFTED, 2, buf_span(&drift) },
    };
    struct event_append message = {
        .lane = ADCS_LANE, .events = events, .count = drift.len > 0 ? 2 : 1, .expect = true, .expected = task->lane
    };
    TRY(uuid_derive(ADCS_OBSERVED, parts, COUNT_OF(parts), &message.message_id));
    struct fault fault = events_append(op, task->services->log, &message, &seq);
    if (fault.code == FAULT_LOG_CONFLICT) {
        TRY(projector_catch_up(op, task->services->projector)); /* the next try would only meet the same otherwise */
        return fault;
    }
    TRY(fault);
    return projector_wait(op, task->services->projector, seq);
}

static struct fault observe(struct op *op, struct task *task)
{
    struct fault fault = OK;
    for (int i = 0; i < TRIES; i++) {
        fault = observe_once(op, task);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    return fault;
}

static struct fault prepare(struct op *op, const struct adcs_body *body, struct task *task)
{
    struct uuid id;
    const struct span parts[] = { span_text(op->command_id.text) };
    TRY(uuid_derive("adcs.observation", parts, COUNT_OF(parts), &id));
    if (body->observed_at > clock_utc()) {
        return op_fail_field(op, FAULT(ADCS_TIME), "/observed_at",
                             "lies in the future: check the clocks of the collector and of this appliance");
    }
    TRY(adcs_read_body(op, body, &task->observation));
    TRY(arena_text(op->arena, span_text(id.text), &task->observation.head.observation_id));
    TRY(adcs_normalise(op, &task->observation));
    return adcs_print(&task->observation, task->data);
}

static struct fault answer(struct request *request, const struct task *task)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)64 << 10);
    struct op *op = request->op;
    struct adcs_row row;
    struct adcs_drift_row *drift = NULL;
    size_t count = 0;
    TRY(tx_begin(op, request->services->store, STORE_REQUEST, &tx));
    TRY(adcs_row_get(op, tx, task->observation.head.observation_id, &row));
    /* The drift stands behind its observation, in the same message. */
    const struct adcs_wanted wanted = { .domain = row.domain, .before = row.sequence + 2, .limit = 1 };
    TRY(adcs_drift_list(op, tx, &wanted, &drift, &count));
    bool drifted = count == 1 && strcmp(drift->observation_id, row.observation_id) == 0;
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "observation_id", row.observation_id);
    jout_key_text(&jout, "domain", row.domain);
    jout_key_time(&jout, "observed_at", row.observed);
    jout_key_int(&jout, "schema_version", row.schema_version);
    jout_key_bool(&jout, "complete", row.complete);
    jout_key_bool(&jout, "latest", row.latest);
    jout_key_int(&jout, "sequence", row.sequence);
    jout_key_int(&jout, "changes", drifted ? drift->changes : 0);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

struct fault route_adcs_observe(struct request *request)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(ADCS_NORMAL_MAX);
    struct task task = { .services = request->services, .data = &data };
    TRY(prepare(request->op, request->body, &task));
    TRY(observe(request->op, &task));
    return answer(request, &task);
}
