/* What changed between two complete observations of a domain, by meaning: both are in normal form, so two elements of
 * the same name are compared member by member as text. */
#include "api/inventory/adcs.h"

#define MEMBERS_MAX 32

struct element {
    const char *name; /* first: sorted by it */
    struct span json; /* {0}: known by its name alone (a finding) */
};
struct elements {
    struct element *at;
    size_t count;
};

/* ---- elements ---- */

static struct fault read_name(struct op *op, struct span json, const char *key, const char **ret_name)
{
    struct jin_member *members = NULL;
    size_t count = 0;
    TRY(jin_members(op, json, MEMBERS_MAX, &members, &count));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].name, key) == 0) {
            return arena_text(op->arena, members[i].value, ret_name);
        }
    }
    return FAULT(JSON_FIELD);
}

static void sort(struct elements *elements)
{
    if (elements->count > 1) {
        qsort(elements->at, elements->count, sizeof(*elements->at), adcs_text_order);
    }
}

static struct fault read_elements(struct op *op, struct span json, const char *key, struct elements *ret_elements)
{
    struct span *items = NULL;
    struct elements made = { 0 };
    if (json.at != NULL) {
        TRY(jin_array(op, json, ADCS_TEMPLATES_MAX, &items, &made.count));
    }
    TRY(arena_take(op->arena, made.count + 1, sizeof(*made.at), &made.at));
    for (size_t i = 0; items != NULL && i < made.count; i++) {
        made.at[i].json = items[i];
        TRY(read_name(op, items[i], key, &made.at[i].name));
    }
    sort(&made);
    *ret_elements = made;
    return OK;
}

static struct fault name_findings(struct op *op, const struct adcs_findings *findings, struct elements *ret_elements)
{
    struct elements made = { .count = findings->count };
    TRY(arena_take(op->arena, made.count + 1, sizeof(*made.at), &made.at));
    for (size_t i = 0; i < made.count; i++) {
        const struct adcs_finding *finding = &findings->at[i];
        TRY(arena_printf(op->arena, &made.at[i].name, "%s %s %s:%s", finding->rule->id,
                         adcs_severity_text(finding->severity), finding->kind, finding->name));
    }
    sort(&made);
    *ret_elements = made;
    return OK;
}

/* ---- changes ---- */

static void add(struct adcs_drift *drift, const struct adcs_change *change)
{
    if (drift->count < ADCS_CHANGES_MAX) {
        drift->at[drift->count++] = *change;
    }
    drift->total++;
}

/* Members that differ, by name; jin_members gives canonical JSON in canonical order. */
static struct fault differing(struct op *op, struct span before, struct span after, struct jin_texts *ret_members)
{
    struct jin_member *old = NULL, *new = NULL;
    size_t old_count = 0, new_count = 0, i = 0, j = 0;
    struct jin_texts made = { 0 };
    TRY(jin_members(op, before, MEMBERS_MAX, &old, &old_count));
    TRY(jin_members(op, after, MEMBERS_MAX, &new, &new_count));
    TRY(arena_take(op->arena, old_count + new_count + 1, sizeof(*made.at), &made.at));
    while (i < old_count || j < new_count) {
        int order = i == old_count ? 1 : j == new_count ? -1 : strcmp(old[i].name, new[j].name);
        bool same = order == 0 && old[i].type == new[j].type &&span_equal(old[i].value, new[j].value);
        if (!same) {
            made.at[made.count++] = order <= 0 ? old[i].name : new[j].name;
        }
        i += order <= 0;
        j += order >= 0;
    }
    *ret_members = made;
    return OK;
}

static struct fault merge(struct op *op, const char *object, const struct elements *before,
                          const struct elements *after, struct adcs_drift *drift)
{
    bool findings = strcmp(object, "finding") == 0;
    size_t i = 0, j = 0;
    while (i < before->count || j < after->count) {
        int order = i == before->count ? 1 : j == after->count ? -1 : strcmp(before->at[i].name, after->at[j].name);
        struct adcs_change change = { .object = object, .name = order <= 0 ? before->at[i].name : after->at[j].name };
        if (order < 0) {
            change.change = findings ? "cleared" : "removed";
        } else if (order > 0) {
            change.change = findings ? "appeared" : "added";
        } else if (!span_equal(before->at[i].json, after->at[j].json)) {
            change.change = "changed";
            TRY(differing(op, before->at[i].json, after->at[j].json, &change.members));
        }
        if (change.change != NULL) {
            add(drift, &change);
        }
        drift->cleared += findings && order < 0;
        drift->appeared += findings && order > 0;
        i += order <= 0;
        j += order >= 0;
    }
    return OK;
}

static struct fault compare_part(struct op *op, const char *object, const char *key, struct span before,
                                 struct span after, struct adcs_drift *drift)
{
    struct elements old, new;
    TRY(read_elements(op, before, key, &old));
    TRY(read_elements(op, after, key, &new));
    return merge(op, object, &old, &new, drift);
}

struct fault adcs_compare(struct op *op, const struct adcs_seen *before, const struct adcs_seen *after,
                          struct adcs_drift *ret_drift)
{
    const struct adcs_body *old = &before->observation->head, *new = &after->observation->head;
    struct adcs_drift drift = { 0 };
    struct elements cleared, appeared;
    TRY(arena_take(op->arena, ADCS_CHANGES_MAX, sizeof(*drift.at), &drift.at));
    TRY(compare_part(op, "template", "name", old->templates, new->templates, &drift));
    TRY(compare_part(op, "service", "ca", old->enrollment_services, new->enrollment_services, &drift));
    TRY(compare_part(op, "endpoint", "url", old->iis_endpoints, new->iis_endpoints, &drift));
    TRY(compare_part(op, "restriction", "ca", old->ca_restrictions, new->ca_restrictions, &drift));
    TRY(name_findings(op, before->findings, &cleared));
    TRY(name_findings(op, after->findings, &appeared));
    TRY(merge(op, "finding", &cleared, &appeared, &drift));
    *ret_drift = drift;
    return OK;
}

/* ---- the data of inventory.adcs.drifted, with members in canonical order ---- */

static void print_change(struct jout *jout, const struct adcs_change *change)
{
    jout_object(jout);
    jout_key_text(jout, "change", change->change);
    if (change->members.count > 0) {
        jout_key(jout, "members");
        jout_array(jout);
        for (size_t i = 0; i < change->members.count; i++) {
            jout_text(jout, change->members.at[i]);
        }
        jout_array_end(jout);
    }
    jout_key_text(jout, "name", change->name);
    jout_key_text(jout, "object", change->object);
    jout_object_end(jout);
}

static struct fault print(const struct adcs_drift *drift, size_t shown, const struct adcs_observation *after,
                          const char *before_id, utc_us before_at, struct buf *out)
{
    const struct adcs_body *head = &after->head;
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key(&jout, "before");
    jout_object(&jout);
    jout_key_text(&jout, "observation_id", before_id);
    jout_key_time(&jout, "observed_at", before_at);
    jout_object_end(&jout);
    jout_key(&jout, "changes");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_change(&jout, &drift->at[i]);
    }
    jout_array_end(&jout);
    jout_key_int(&jout, "changes_left_out", drift->total - (int64_t)shown);
    jout_key_int(&jout, "changes_total", drift->total);
    jout_key_text(&jout, "domain", head->domain);
    jout_key_int(&jout, "findings_appeared", drift->appeared);
    jout_key_int(&jout, "findings_cleared", drift->cleared);
    jout_key_text(&jout, "observation_id", head->observation_id);
    jout_key_time(&jout, "observed_at", head->observed_at);
    jout_key_text(&jout, "relay_id", head->relay_id);
    jout_key_int(&jout, "rules_version", ADCS_RULES_VERSION);
    jout_key_text(&jout, "run_id", head->run_id);
    jout_key_text(&jout, "source_id", head->source_id);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* As many of the changes as the buffer takes: names may be long. */
struct fault adcs_drift_print(const struct adcs_drift *drift, const struct adcs_observation *after,
                              const char *before_id, utc_us before_at, struct buf *out)
{
    for (size_t shown = drift->count;; shown /= 2) {
        buf_clear(out);
        struct fault fault = print(drift, shown, after, before_id, before_at, out);
        if (fault.code != FAULT_TOO_LARGE || shown == 0) {
            return fault;
        }
    }
}
