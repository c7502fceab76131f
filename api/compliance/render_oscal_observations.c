/* Observations: one for each prerequisite, and one for each point that is left to operator or auditor. */
#include "api/compliance/render_oscal.h"

static struct fault put_evidence(struct writing *w, struct view reference)
{
    const char *event = view_member(w->op, reference, "event_id"), *href = NULL, *text = NULL;
    const char *digest = view_member(w->op, reference, "evidence_sha256");
    if (event != NULL) {
        TRY(arena_printf(w->op->arena, &href, "urn:uuid:%s", event));
        TRY(arena_printf(w->op->arena, &text, "Audit record %s, %s, observed at %s, chain %s%s%s",
                         view_member(w->op, reference, "sequence"), view_member(w->op, reference, "type"),
                         view_member(w->op, reference, "observed_at"), view_member(w->op, reference, "chain"),
                         digest != NULL ? "; SHA-256 of the attested evidence " : "", digest != NULL ? digest : ""));
    } else {
        TRY(arena_printf(w->op->arena, &text, "Inventory object %s as of %s", view_member(w->op, reference, "object"),
                         view_member(w->op, reference, "snapshot_at")));
    }
    jout_object(w->jout);
    if (href != NULL) {
        jout_key_text(w->jout, "href", href);
    }
    oscal_line(w, "description", text);
    jout_object_end(w->jout);
    return OK;
}

/* OSCAL has no empty arrays. */
static struct fault put_references(struct writing *w, struct view references)
{
    struct view reference;
    bool any = false;
    while (view_next(&references, &reference)) {
        if (!any) {
            oscal_list(w, "relevant-evidence");
            any = true;
        }
        TRY(put_evidence(w, reference));
    }
    if (any) {
        jout_array_end(w->jout);
    }
    return OK;
}

static void put_method(struct writing *w, const char *method)
{
    oscal_list(w, "methods");
    jout_text(w->jout, method);
    jout_array_end(w->jout);
}

static struct fault put_prerequisite(struct writing *w, struct view control, struct view prerequisite, size_t i,
                                     size_t j)
{
    const char *name = NULL, *kind = view_member(w->op, prerequisite, "kind");
    TRY(oscal_numbered(w, &name, "observation", i, j));
    jout_object(w->jout);
    TRY(oscal_uuid(w, "uuid", name));
    oscal_member(w, "title", prerequisite, "title");
    oscal_member(w, "description", prerequisite, "why");
    oscal_list(w, "props");
    oscal_property_of(w, "control", control, "control");
    oscal_property_of(w, "prerequisite", prerequisite, "name");
    oscal_property(w, "kind", kind);
    oscal_property_of(w, "state", prerequisite, "state");
    oscal_property_of(w, "population-total", prerequisite, "population.total");
    oscal_property_of(w, "population-matched", prerequisite, "population.matched");
    jout_array_end(w->jout);
    put_method(w, kind != NULL && strcmp(kind, "fact") == 0 ? "TEST" : "EXAMINE");
    oscal_list(w, "types");
    jout_text(w->jout, "control-objective");
    jout_array_end(w->jout);
    TRY(put_references(w, view_get(prerequisite, "references")));
    jout_key_text(w->jout, "collected", w->to);
    oscal_member(w, "remarks", prerequisite, "population.query");
    jout_object_end(w->jout);
    return OK;
}

static struct fault put_gap(struct writing *w, struct view gap, size_t i)
{
    const char *name = NULL, *text = NULL, *owner = view_member(w->op, gap, "owner");
    struct view reference = view_get(gap, "attestation.reference");
    bool attested = view_is_there(reference);
    TRY(arena_printf(w->op->arena, &name, "gap/%zu", i));
    TRY(arena_printf(w->op->arena, &text, "Left to the %s: %s.", owner != NULL ? owner : "operator",
                     attested ? "attested, with the evidence that is named" : "open"));
    jout_object(w->jout);
    TRY(oscal_uuid(w, "uuid", name));
    oscal_member(w, "title", gap, "title");
    oscal_line(w, "description", text);
    oscal_list(w, "props");
    oscal_property_of(w, "gap", gap, "id");
    oscal_property(w, "owner", owner);
    oscal_property_of(w, "state", gap, "state");
    jout_array_end(w->jout);
    put_method(w, attested ? "EXAMINE" : "UNKNOWN");
    if (attested) {
        oscal_list(w, "relevant-evidence");
        TRY(put_evidence(w, reference));
        jout_array_end(w->jout);
    }
    jout_key_text(w->jout, "collected", w->to);
    jout_object_end(w->jout);
    return OK;
}

struct fault oscal_observations(struct writing *w)
{
    struct view controls = view_get(w->manifest, "verdicts"), control, prerequisites, prerequisite;
    struct view gaps = view_get(w->manifest, "attestation_gaps"), gap;
    oscal_list(w, "observations");
    for (size_t i = 0; view_next(&controls, &control); i++) {
        prerequisites = view_get(control, "prerequisites");
        for (size_t j = 0; view_next(&prerequisites, &prerequisite); j++) {
            TRY(put_prerequisite(w, control, prerequisite, i, j));
        }
    }
    for (size_t i = 0; view_next(&gaps, &gap); i++) {
        TRY(put_gap(w, gap, i));
    }
    jout_array_end(w->jout);
    return OK;
}
