#include "api/compliance/manifest.h"

#define QUERY_MAX ((size_t)16 << 10)
/* Said in the signed bytes, so that nobody reads more into them. */
#define NOTICE                                                                                                      \
    "Controls and evidence only, of one tenant in one window as this service recorded it: what is evidenced, what " \
    "is missing, and no claim of compliance or certification."

static void put_window(struct jout *jout, struct evidence_window window)
{
    jout_object(jout);
    jout_key_time(jout, "from", window.from);
    jout_key_time(jout, "to", window.to);
    jout_object_end(jout);
}

static void put_reference(struct jout *jout, const struct evidence_reference *reference)
{
    jout_object(jout);
    if (reference->is_object) {
        jout_key_text(jout, "object", reference->object);
        jout_key_time(jout, "snapshot_at", reference->time);
    } else {
        jout_key_text(jout, "event_id", reference->event_id);
        jout_key_int(jout, "sequence", reference->sequence);
        jout_key_text(jout, "type", reference->type);
        jout_key_time(jout, "observed_at", reference->time);
        jout_key_hex(jout, "chain", SPAN_ARRAY(reference->chain.at));
    }
    if (reference->evidence_sha256 != NULL) {
        jout_key_text(jout, "evidence_sha256", reference->evidence_sha256);
    }
    jout_object_end(jout);
}

/* ---- what was asked, in words that a person can ask again ---- */

static struct fault put_list(struct buf *out, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        TRY(buf_printf(out, "%s%s", i > 0 ? ", " : "", texts[i]));
    }
    return OK;
}

static struct fault put_condition(struct buf *out, const struct framework_condition *condition)
{
    TRY(buf_text(out, ", where "));
    if (condition->of != NULL) {
        TRY(buf_printf(out, "of %s ", condition->of));
    }
    TRY(buf_text(out, condition->path));
    if (condition->differs_from != NULL) {
        return buf_printf(out, " differs from %s", condition->differs_from);
    }
    if (condition->present) {
        return buf_text(out, " is present");
    }
    bool except = condition->except_count > 0;
    TRY(buf_text(out, except ? " is not in (" : " is in ("));
    TRY(except ? put_list(out, condition->except, condition->except_count)
               : put_list(out, condition->values, condition->value_count));
    return buf_text(out, ")");
}

static struct fault put_query(struct buf *out, const struct framework_prerequisite *prerequisite)
{
    if (prerequisite->kind == PREREQUISITE_FACT) {
        return buf_printf(out, "objects of the fact %s in the snapshot", prerequisite->fact);
    }
    if (prerequisite->kind == PREREQUISITE_ATTESTATION) {
        return buf_printf(out, "attestations of the statement %s", prerequisite->statement);
    }
    TRY(buf_text(out, "audit records of the evidence window with type in ("));
    TRY(put_list(out, prerequisite->types, prerequisite->type_count));
    TRY(buf_text(out, ")"));
    for (size_t i = 0; i < prerequisite->where_count; i++) {
        TRY(put_condition(out, &prerequisite->where[i]));
    }
    if (prerequisite->max_age_days > 0) {
        TRY(buf_printf(out, ", not older than %lld days", (long long)prerequisite->max_age_days));
    }
    TRY(buf_printf(out, "; at least %lld", (long long)prerequisite->min));
    return prerequisite->distinct_actors > 0
               ? buf_printf(out, " of at least %lld different subjects", (long long)prerequisite->distinct_actors)
               : OK;
}

static void put_excluded(struct jout *jout, const char *reason, int64_t count)
{
    if (count == 0) {
        return;
    }
    jout_object(jout);
    jout_key_text(jout, "reason", reason);
    jout_key_int(jout, "count", count);
    jout_object_end(jout);
}

static struct fault put_population(struct jout *jout, const struct prerequisite_verdict *verdict)
{
    CLEANUP(buf_free) struct buf query = BUF_INIT(QUERY_MAX);
    const struct evidence_population *population = &verdict->population;
    TRY(put_query(&query, verdict->prerequisite));
    jout_key(jout, "population");
    jout_object(jout);
    jout_key(jout, "query");
    jout_span_text(jout, buf_span(&query));
    jout_key_int(jout, "total", population->total);
    jout_key_int(jout, "matched", population->matched);
    jout_key(jout, "excluded");
    jout_array(jout);
    put_excluded(jout, "condition", population->excluded_condition);
    put_excluded(jout, "malformed", population->excluded_malformed);
    put_excluded(jout, "stale", population->excluded_stale);
    put_excluded(jout, "foreign", population->excluded_foreign);
    put_excluded(jout, "archived", population->excluded_archived);
    jout_array_end(jout);
    jout_object_end(jout);
    return OK;
}

/* ---- verdicts ---- */

static struct fault put_prerequisite(struct jout *jout, const struct prerequisite_verdict *verdict)
{
    static const char *const kinds[] = { "event", "fact", "attestation" };
    const struct framework_prerequisite *prerequisite = verdict->prerequisite;
    BUG_IF((size_t)prerequisite->kind >= COUNT_OF(kinds));
    jout_object(jout);
    jout_key_text(jout, "name", prerequisite->name);
    jout_key_text(jout, "title", prerequisite->title);
    jout_key_text(jout, "kind", kinds[prerequisite->kind]);
    jout_key_text(jout, "state", prerequisite_state_text(verdict->state));
    jout_key_text(jout, "why", verdict->why);
    jout_key(jout, "window");
    put_window(jout, verdict->window);
    TRY(put_population(jout, verdict));
    jout_key(jout, "references");
    jout_array(jout);
    for (size_t i = 0; i < verdict->reference_count; i++) {
        put_reference(jout, &verdict->references[i]);
    }
    jout_array_end(jout);
    jout_object_end(jout);
    return OK;
}

static void put_missing(struct jout *jout, const struct prerequisite_verdict *verdict)
{
    jout_object(jout);
    jout_key_text(jout, "name", verdict->prerequisite->name);
    jout_key_text(jout, "state", prerequisite_state_text(verdict->state));
    jout_key_text(jout, "why", verdict->why);
    jout_key_text(jout, "recovery", verdict->prerequisite->recovery);
    jout_object_end(jout);
}

static struct fault put_control(struct jout *jout, const struct control_verdict *verdict, struct evidence_window window)
{
    const struct framework_control *control = verdict->control;
    jout_object(jout);
    jout_key_text(jout, "control", control->id);
    jout_key_text(jout, "title", control->title);
    jout_key_text(jout, "verdict", verdict->evidenced ? "evidenced" : "gap");
    jout_key(jout, "window");
    put_window(jout, window);
    jout_key(jout, "prerequisites");
    jout_array(jout);
    for (size_t i = 0; i < control->prerequisite_count; i++) {
        TRY(put_prerequisite(jout, &verdict->prerequisites[i]));
    }
    jout_array_end(jout);
    jout_key(jout, "missing_prerequisites");
    jout_array(jout);
    for (size_t i = 0; i < control->prerequisite_count; i++) {
        if (verdict->prerequisites[i].state != STATE_MET) {
            put_missing(jout, &verdict->prerequisites[i]);
        }
    }
    jout_array_end(jout);
    jout_object_end(jout);
    return OK;
}

static void put_gap(struct jout *jout, const struct gap_verdict *verdict)
{
    const struct framework_gap *gap = verdict->gap;
    const struct evidence_attestation *attested = verdict->attested;
    jout_object(jout);
    jout_key_text(jout, "id", gap->id);
    jout_key_text(jout, "title", gap->title);
    jout_key_text(jout, "owner", gap->owner == GAP_OPERATOR ? "operator" : "auditor");
    jout_key_text(jout, "statement", gap->statement);
    jout_key_text(jout, "state", prerequisite_state_text(verdict->state));
    jout_key(jout, "attestation");
    if (attested == NULL) {
        jout_null(jout);
    } else {
        struct evidence_reference reference = attested->event;
        reference.evidence_sha256 = attested->evidence_sha256;
        jout_object(jout);
        jout_key(jout, "reference");
        put_reference(jout, &reference);
        jout_key(jout, "expires_at");
        if (attested->expires == 0) {
            jout_null(jout);
        } else {
            jout_time(jout, attested->expires);
        }
        jout_object_end(jout);
    }
    jout_object_end(jout);
}

static struct fault put_verdicts(struct jout *jout, const struct framework_verdict *verdict,
                                 struct evidence_window window)
{
    jout_key(jout, "verdicts");
    jout_array(jout);
    for (size_t i = 0; i < verdict->framework->control_count; i++) {
        TRY(put_control(jout, &verdict->controls[i], window));
    }
    jout_array_end(jout);
    jout_key(jout, "attestation_gaps");
    jout_array(jout);
    for (size_t i = 0; i < verdict->framework->gap_count; i++) {
        put_gap(jout, &verdict->gaps[i]);
    }
    jout_array_end(jout);
    return OK;
}

/* ---- the rest ---- */

static void put_heading(struct jout *jout, const struct evidence *evidence, const struct framework *framework,
                        utc_us generated_at)
{
    struct evidence_window window = evidence->facts.window;
    jout_key_text(jout, "format", EVIDENCE_MANIFEST_FORMAT);
    jout_key_text(jout, "tenant_id", evidence->facts.tenant.text);
    jout_key_time(jout, "generated_at", generated_at);
    jout_key(jout, "framework");
    jout_object(jout);
    jout_key_text(jout, "id", framework->id);
    jout_key_text(jout, "catalogue", framework->catalogue);
    jout_key_text(jout, "version", framework->version);
    jout_object_end(jout);
    jout_key(jout, "evidence_window");
    jout_object(jout);
    jout_key_time(jout, "from", window.from);
    jout_key_time(jout, "to", window.to);
    jout_key_int(jout, "days", EVIDENCE_WINDOW_DAYS);
    jout_object_end(jout);
    jout_key_text(jout, "notice", NOTICE);
}

static void put_trail(struct jout *jout, const struct evidence *evidence)
{
    jout_key(jout, "population");
    jout_object(jout);
    jout_key_text(jout, "query",
                  "all records of the served trail of this tenant in the evidence window, both ends included");
    jout_key_int(jout, "first_sequence", evidence->window_first);
    jout_key_int(jout, "last_sequence", evidence->window_last);
    jout_key_int(jout, "total", evidence->window_total);
    jout_key_int(jout, "outside_window", evidence->outside_total);
    jout_key_int(jout, "archived_in_window", evidence->archived_total);
    jout_key(jout, "by_type");
    jout_array(jout);
    for (size_t i = 0; i < evidence->type_count; i++) {
        jout_object(jout);
        jout_key_text(jout, "type", evidence->types[i].type);
        jout_key_int(jout, "count", evidence->types[i].count);
        jout_object_end(jout);
    }
    jout_array_end(jout);
    jout_object_end(jout);
    jout_key(jout, "audit");
    jout_object(jout);
    jout_key_int(jout, "head_sequence", evidence->head_sequence);
    jout_key_hex(jout, "chain_head", SPAN_ARRAY(evidence->chain_head.at));
    jout_key_int(jout, "generation", evidence->generation);
    jout_key_int(jout, "archived_through", evidence->archived_through);
    jout_object_end(jout);
}

static struct fault print_plain(const struct evidence *evidence, const struct framework_verdict *verdict,
                                utc_us generated_at, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    put_heading(&jout, evidence, verdict->framework, generated_at);
    TRY(put_verdicts(&jout, verdict, evidence->facts.window));
    put_trail(&jout, evidence);
    jout_key_raw(&jout, "cbom", evidence->cbom);
    jout_key_raw(&jout, "custody", evidence->custody);
    jout_key_raw(&jout, "adcs", evidence->adcs);
    jout_key_raw(&jout, "crypto_readiness", evidence->readiness);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault manifest_print(struct op *op, const struct evidence *evidence, const struct framework_verdict *verdict,
                            utc_us generated_at, struct buf *out)
{
    CLEANUP(buf_free) struct buf plain = BUF_INIT(EVIDENCE_MANIFEST_MAX);
    struct fault fault = print_plain(evidence, verdict, generated_at, &plain);
    if (!FAULTED(fault)) {
        fault = json_canonical(buf_span(&plain), out);
    }
    if (fault.code == FAULT_TOO_LARGE) {
        return op_fail(op, FAULT(EVIDENCE_SIZE), "the manifest would be larger than %zu MiB",
                       EVIDENCE_MANIFEST_MAX >> 20);
    }
    return fault;
}
