/* OSCAL 1.1 assessment results: a finding for each control, observations (render_oscal_observations.c) that it rests
 * on. */
#include "api/compliance/render_oscal.h"

#include "appliance/base/codec.h"

#define PLAN "framework"

/* ---- findings ---- */

static struct fault put_missing(struct writing *w, struct view control)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT((size_t)1 << 20);
    struct view missing = view_get(control, "missing_prerequisites"), row;
    while (view_next(&missing, &row)) {
        TRY(buf_printf(&text, "%s%s (%s): %s %s", text.len > 0 ? "\n" : "", view_member(w->op, row, "name"),
                       view_member(w->op, row, "state"), view_member(w->op, row, "why"),
                       view_member(w->op, row, "recovery")));
    }
    if (text.len > 0) {
        jout_key(w->jout, "remarks");
        jout_span_text(w->jout, buf_span(&text));
    }
    return OK;
}

static struct fault put_target(struct writing *w, struct view control, bool evidenced)
{
    char token[TOKEN_MAX];
    oscal_token(view_member(w->op, control, "control"), token);
    jout_key(w->jout, "target");
    jout_object(w->jout);
    jout_key_text(w->jout, "type", "objective-id");
    jout_key_text(w->jout, "target-id", token);
    jout_key(w->jout, "status");
    jout_object(w->jout);
    jout_key_text(w->jout, "state", evidenced ? "satisfied" : "not-satisfied");
    if (!evidenced) {
        jout_key_text(w->jout, "reason", "other"); /* and never "pass": that is the assessor's word */
    }
    jout_key_text(w->jout, "remarks",
                  evidenced
                      ? "Every prerequisite resolved inside the evidence window; whether that suffices is the "
                        "assessor's decision."
                      : "Not evidenced: prerequisites are missing, which is no statement that the control fails.");
    jout_object_end(w->jout);
    jout_object_end(w->jout);
    return OK;
}

static struct fault put_finding(struct writing *w, struct view control, size_t i)
{
    struct view prerequisites = view_get(control, "prerequisites"), prerequisite;
    const char *name = NULL, *id = view_member(w->op, control, "control");
    bool evidenced = span_equal_text(view_get(control, "verdict").json, "\"evidenced\"");
    jout_object(w->jout);
    TRY(arena_printf(w->op->arena, &name, "finding/%zu", i));
    TRY(oscal_uuid(w, "uuid", name));
    TRY(arena_printf(w->op->arena, &name, "%s: %s", id, evidenced ? "evidenced" : "gap"));
    oscal_line(w, "title", name);
    oscal_member(w, "description", control, "title");
    oscal_list(w, "props");
    oscal_property(w, "control", id);
    oscal_property_of(w, "verdict", control, "verdict");
    jout_array_end(w->jout);
    TRY(put_target(w, control, evidenced));
    oscal_list(w, "related-observations");
    for (size_t j = 0; view_next(&prerequisites, &prerequisite); j++) {
        TRY(oscal_numbered(w, &name, "observation", i, j));
        jout_object(w->jout);
        TRY(oscal_uuid(w, "observation-uuid", name));
        jout_object_end(w->jout);
    }
    jout_array_end(w->jout);
    TRY(put_missing(w, control));
    jout_object_end(w->jout);
    return OK;
}

static struct fault put_findings(struct writing *w)
{
    struct view controls = view_get(w->manifest, "verdicts"), control;
    oscal_list(w, "findings");
    for (size_t i = 0; view_next(&controls, &control); i++) {
        TRY(put_finding(w, control, i));
    }
    jout_array_end(w->jout);
    return OK;
}

static void put_reviewed(struct writing *w)
{
    struct view controls = view_get(w->manifest, "verdicts"), control;
    char token[TOKEN_MAX];
    jout_key(w->jout, "reviewed-controls");
    jout_object(w->jout);
    oscal_list(w, "control-selections");
    jout_object(w->jout);
    oscal_list(w, "include-controls");
    while (view_next(&controls, &control)) {
        jout_object(w->jout);
        oscal_token(view_member(w->op, control, "control"), token);
        jout_key_text(w->jout, "control-id", token);
        jout_object_end(w->jout);
    }
    jout_array_end(w->jout);
    jout_object_end(w->jout);
    jout_array_end(w->jout);
    jout_object_end(w->jout);
}

/* ---- the document ---- */

static struct fault put_metadata(struct writing *w)
{
    char hex[2 * SHA256_LEN + 1];
    const char *title = NULL;
    hex_text(SPAN_ARRAY(w->verdict->digest.at), hex, sizeof(hex));
    TRY(arena_printf(w->op->arena, &title, "Evidence for %s", w->verdict->framework));
    jout_key(w->jout, "metadata");
    jout_object(w->jout);
    oscal_line(w, "title", title);
    jout_key_text(w->jout, "last-modified", w->verdict->generated_at);
    jout_key_text(w->jout, "version", hex);
    jout_key_text(w->jout, "oscal-version", RENDER_OSCAL_VERSION);
    oscal_list(w, "props");
    oscal_digest(w);
    oscal_property(w, "signing-key", w->verdict->kid);
    oscal_property(w, "tenant", w->verdict->tenant);
    jout_array_end(w->jout);
    oscal_member(w, "remarks", w->manifest, "notice");
    jout_object_end(w->jout);
    return OK;
}

static struct fault put_plan(struct writing *w)
{
    struct uuid uuid;
    const char *href = NULL;
    TRY(render_uuid(&w->verdict->digest, PLAN, &uuid));
    TRY(arena_printf(w->op->arena, &href, "#%s", uuid.text));
    jout_key(w->jout, "import-ap");
    jout_object(w->jout);
    jout_key_text(w->jout, "href", href);
    jout_key_text(w->jout, "remarks",
                  "There is no separate assessment plan: the framework's prerequisites are what was looked at.");
    jout_object_end(w->jout);
    return OK;
}

static struct fault put_result(struct writing *w)
{
    const char *text = NULL;
    oscal_list(w, "results");
    jout_object(w->jout);
    TRY(oscal_uuid(w, "uuid", "result"));
    TRY(arena_printf(w->op->arena, &text, "%lld of %lld controls evidenced", (long long)w->verdict->evidenced,
                     (long long)w->verdict->controls));
    oscal_line(w, "title", text);
    TRY(arena_printf(w->op->arena, &text, "Audit records and inventory of the tenant %s from %s to %s.",
                     w->verdict->tenant, w->from, w->to));
    oscal_line(w, "description", text);
    jout_key_text(w->jout, "start", w->from);
    jout_key_text(w->jout, "end", w->to);
    oscal_list(w, "props");
    oscal_property_of(w, "audit-head-sequence", w->manifest, "audit.head_sequence");
    oscal_property_of(w, "audit-chain-head", w->manifest, "audit.chain_head");
    oscal_property_of(w, "population-total", w->manifest, "population.total");
    jout_array_end(w->jout);
    put_reviewed(w);
    TRY(oscal_observations(w));
    TRY(put_findings(w));
    jout_object_end(w->jout);
    jout_array_end(w->jout);
    return OK;
}

static struct fault put_resources(struct writing *w)
{
    jout_key(w->jout, "back-matter");
    jout_object(w->jout);
    oscal_list(w, "resources");
    jout_object(w->jout);
    TRY(oscal_uuid(w, "uuid", PLAN));
    oscal_member(w, "title", w->manifest, "framework.catalogue");
    oscal_list(w, "props");
    oscal_property_of(w, "framework", w->manifest, "framework.id");
    oscal_property_of(w, "version", w->manifest, "framework.version");
    jout_array_end(w->jout);
    jout_object_end(w->jout);
    jout_object(w->jout);
    TRY(oscal_uuid(w, "uuid", "manifest"));
    jout_key_text(w->jout, "title", "Signed manifest");
    jout_key_text(w->jout, "description",
                  "What this document was made from: the payload of the evidence pack's JWS. The pack is what is "
                  "signed; this document is not.");
    oscal_list(w, "props");
    oscal_digest(w);
    jout_array_end(w->jout);
    jout_object_end(w->jout);
    jout_array_end(w->jout);
    jout_object_end(w->jout);
    return OK;
}

static struct fault put_document(struct writing *w)
{
    jout_object(w->jout);
    jout_key(w->jout, "assessment-results");
    jout_object(w->jout);
    TRY(oscal_uuid(w, "uuid", "assessment-results"));
    TRY(put_metadata(w));
    TRY(put_plan(w));
    TRY(put_result(w));
    TRY(put_resources(w));
    jout_object_end(w->jout);
    jout_object_end(w->jout);
    return OK;
}

struct fault render_oscal(struct op *op, const struct evidence_verdict *verdict, struct buf *out)
{
    struct jout jout;
    struct writing w = { .op = op, .jout = &jout, .verdict = verdict, .manifest = { verdict->payload } };
    if (verdict->reason != PACK_HOLDS || verdict->kind != EVIDENCE_KIND_PACK || verdict->payload.len == 0) {
        return op_fail(op, FAULT(UNSUPPORTED), "only a verified evidence pack has this rendering");
    }
    w.from = view_member(op, w.manifest, "evidence_window.from");
    w.to = view_member(op, w.manifest, "evidence_window.to");
    jout_init(&jout, out);
    TRY(put_document(&w));
    return jout_end(&jout);
}
