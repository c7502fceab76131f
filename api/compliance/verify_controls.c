/* Verdicts: that each follows from its prerequisites, and each prerequisite from what stands under it. */
#include "api/compliance/verify_internal.h"

#include <string.h>

/* ---- populations ---- */

struct population {
    const char *query;
    int64_t total, matched;
    struct span excluded;
};
static const struct jin_field population_fields[] = {
    JIN_TEXT(struct population, query, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_INT(struct population, total, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct population, matched, JIN_REQUIRED, 0, INT64_MAX),
    JIN_RAW(struct population, excluded, JIN_REQUIRED, 2, TEXT_MAX),
};

struct exclusion {
    const char *reason;
    int64_t count;
};
static const struct jin_field exclusion_fields[] = {
    JIN_TEXT(struct exclusion, reason, JIN_REQUIRED, 1, 32),
    JIN_INT(struct exclusion, count, JIN_REQUIRED, INT64_MIN, INT64_MAX),
};

/* Reasons come in this order, each once and only where it excluded something. */
static struct fault check_excluded(struct check *check, const char *at, struct span json, int64_t *sum)
{
    static const char *const reasons[] = { "condition", "malformed", "stale", "foreign", "archived" };
    struct span *items = NULL;
    size_t count = 0, next = 0;
    TRY(take_array(check, PACK_POPULATION, at, json, COUNT_OF(reasons), &items, &count));
    for (size_t i = 0; i < count; i++) {
        char member[MEMBER_MAX];
        struct exclusion row = { 0 };
        member_at(at, i, member);
        TRY(take_object(check, PACK_POPULATION, member, items[i], exclusion_fields, COUNT_OF(exclusion_fields), &row));
        while (next < COUNT_OF(reasons) && strcmp(reasons[next], row.reason) != 0) {
            next++;
        }
        bool archived = strcmp(row.reason, "archived") == 0;
        if (next++ >= COUNT_OF(reasons) || row.count < 1 || (archived && row.count > check->archived_in_window)) {
            return refuse(check, PACK_POPULATION_REASON, member, "\"%s\", %lld", row.reason, (long long)row.count);
        }
        if (__builtin_add_overflow(*sum, row.count, sum)) {
            return refuse(check, PACK_POPULATION_SUM, member, "too many");
        }
    }
    return OK;
}

static struct fault check_population(struct check *check, const char *at, struct span json, int64_t *ret_matched)
{
    struct population population = { 0 };
    char member[MEMBER_MAX];
    TRY(take_object(check, PACK_POPULATION, at, json, population_fields, COUNT_OF(population_fields), &population));
    int64_t sum = population.matched;
    member_below(at, "excluded", member);
    TRY(check_excluded(check, member, population.excluded, &sum));
    if (sum != population.total) {
        return refuse_below(check, PACK_POPULATION_SUM, at, "total", "%lld, and matched and excluded make %lld",
                            (long long)population.total, (long long)sum);
    }
    *ret_matched = population.matched;
    return OK;
}

/* ---- prerequisites ---- */

struct prerequisite {
    const char *name, *title, *kind, *state, *why;
    struct span window, population, references;
};
static const struct jin_field prerequisite_fields[] = {
    JIN_TEXT(struct prerequisite, name, JIN_REQUIRED, 1, 128),
    JIN_TEXT(struct prerequisite, title, JIN_REQUIRED, 1, 1024),
    JIN_TEXT(struct prerequisite, kind, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct prerequisite, state, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct prerequisite, why, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_RAW(struct prerequisite, window, JIN_REQUIRED, 2, TEXT_MAX),
    JIN_RAW(struct prerequisite, population, JIN_REQUIRED, 2, 4 * TEXT_MAX),
    JIN_RAW(struct prerequisite, references, JIN_REQUIRED, 2, 4 * TEXT_MAX),
};
/* What its control needs of it. */
struct judged {
    const char *name, *state, *why;
    bool met;
};

static bool kind_of(const char *text, enum prerequisite_kind *ret_kind)
{
    static const char *const kinds[] = { "event", "fact", "attestation" };
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (strcmp(kinds[i], text) == 0) {
            *ret_kind = (enum prerequisite_kind)i;
            return true;
        }
    }
    return false;
}

/* It may be narrower than the evidence's, and never wider, whatever the kind. */
static struct fault check_own_window(struct check *check, const char *at, enum prerequisite_state state,
                                     struct span json, struct evidence_window *ret_window)
{
    char member[MEMBER_MAX];
    struct evidence_window window = { 0 };
    member_below(at, "window", member);
    TRY(take_window(check, PACK_PREREQUISITE, member, json, &window));
    if (window.from < check->window.from || window.to != check->window.to || window.from > window.to) {
        return refuse(check, PACK_PREREQUISITE_WINDOW, member, "it is not within the evidence window");
    }
    if (state == STATE_STALE) {
        window.from = INT64_MIN; /* what was found is named, though it is too old */
    }
    *ret_window = window;
    return OK;
}

static struct fault check_evidence(struct check *check, const char *at, enum prerequisite_kind kind,
                                   enum prerequisite_state state, int64_t matched, size_t references)
{
    bool counts = kind != PREREQUISITE_FACT; /* what a fact counts is not what it rests on */
    if (state == STATE_MET && (references == 0 || (counts && matched == 0))) {
        return refuse(check, PACK_MET_EMPTY, at, "it is met, with %lld matches and %zu references", (long long)matched,
                      references);
    }
    if (state != STATE_STALE && counts && (int64_t)references > matched) {
        return refuse(check, PACK_REFERENCE_COUNT, at, "%zu references of %lld matches", references,
                      (long long)matched);
    }
    return OK;
}

static struct fault check_prerequisite(struct check *check, const char *at, struct span json, struct judged *ret_judged)
{
    struct prerequisite made = { 0 };
    struct evidence_window window = { 0 };
    enum prerequisite_kind kind = PREREQUISITE_EVENT;
    enum prerequisite_state state = STATE_MISSING;
    char member[MEMBER_MAX];
    int64_t matched = 0;
    size_t references = 0;
    TRY(take_object(check, PACK_PREREQUISITE, at, json, prerequisite_fields, COUNT_OF(prerequisite_fields), &made));
    if (!kind_of(made.kind, &kind)) {
        return refuse_below(check, PACK_PREREQUISITE_KIND, at, "kind", "\"%s\"", made.kind);
    }
    if (!evidence_state(made.state, &state)) {
        return refuse_below(check, PACK_PREREQUISITE_STATE, at, "state", "\"%s\"", made.state);
    }
    TRY(check_own_window(check, at, state, made.window, &window));
    member_below(at, "population", member);
    TRY(check_population(check, member, made.population, &matched));
    member_below(at, "references", member);
    TRY(verify_references(check, member, made.references, kind, window, &references));
    TRY(check_evidence(check, at, kind, state, matched, references));
    *ret_judged = (struct judged){ made.name, made.state, made.why, state == STATE_MET };
    return OK;
}

/* ---- controls ---- */

struct control {
    const char *control, *title, *verdict;
    struct span window, prerequisites, missing_prerequisites;
};
static const struct jin_field control_fields[] = {
    JIN_TEXT(struct control, control, JIN_REQUIRED, 1, 128),
    JIN_TEXT(struct control, title, JIN_REQUIRED, 1, 1024),
    JIN_TEXT(struct control, verdict, JIN_REQUIRED, 1, 32),
    JIN_RAW(struct control, window, JIN_REQUIRED, 2, TEXT_MAX),
    JIN_RAW(struct control, prerequisites, JIN_REQUIRED, 2, EVIDENCE_MANIFEST_MAX),
    JIN_RAW(struct control, missing_prerequisites, JIN_REQUIRED, 2, EVIDENCE_MANIFEST_MAX),
};
struct missing {
    const char *name, *state, *why, *recovery;
};
static const struct jin_field missing_fields[] = {
    JIN_TEXT(struct missing, name, JIN_REQUIRED, 1, 128),
    JIN_TEXT(struct missing, state, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct missing, why, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TEXT(struct missing, recovery, JIN_REQUIRED, 1, TEXT_MAX),
};

static struct fault check_prerequisites(struct check *check, const char *at, struct span json,
                                        struct judged judged[FRAMEWORK_PREREQ_MAX], size_t *ret_count)
{
    struct span *items = NULL;
    size_t count = 0;
    TRY(take_array(check, PACK_VERDICT, at, json, FRAMEWORK_PREREQ_MAX, &items, &count));
    if (count == 0) {
        return refuse(check, PACK_PREREQUISITE_NONE, at, "a control without prerequisites is evidenced by nothing");
    }
    for (size_t i = 0; i < count; i++) {
        char member[MEMBER_MAX];
        member_at(at, i, member);
        struct judged one = { "", "", "", false };
        TRY(check_prerequisite(check, member, items[i], &one));
        judged[i] = one;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(judged[i].name, judged[j].name) == 0) {
                return refuse(check, PACK_PREREQUISITE_TWICE, member, "\"%s\"", judged[i].name);
            }
        }
    }
    *ret_count = count;
    return OK;
}

/* Exactly those that are not met, in their order, with the same words. */
static struct fault check_missing(struct check *check, const char *at, struct span json, const struct judged *judged,
                                  size_t judged_count)
{
    struct span *items = NULL;
    size_t count = 0, next = 0;
    TRY(take_array(check, PACK_VERDICT, at, json, FRAMEWORK_PREREQ_MAX, &items, &count));
    for (size_t i = 0; i < judged_count; i++) {
        char member[MEMBER_MAX];
        struct missing row = { 0 };
        if (judged[i].met) {
            continue;
        }
        if (next >= count) {
            return refuse(check, PACK_VERDICT_MISSING, at, "\"%s\" is not met and not listed", judged[i].name);
        }
        member_at(at, next, member);
        TRY(take_object(check, PACK_VERDICT, member, items[next], missing_fields, COUNT_OF(missing_fields), &row));
        if (strcmp(row.name, judged[i].name) != 0 || strcmp(row.state, judged[i].state) != 0 ||
            strcmp(row.why, judged[i].why) != 0) {
            return refuse(check, PACK_VERDICT_MISSING, member, "\"%s\" stands where \"%s\" is not met", row.name,
                          judged[i].name);
        }
        next++;
    }
    if (next < count) {
        return refuse(check, PACK_VERDICT_MISSING, at, "%zu are listed, %zu are not met", count, next);
    }
    return OK;
}

static struct fault check_verdict(struct check *check, const char *at, const struct control *control,
                                  const struct judged *judged, size_t count)
{
    bool all = true, says = strcmp(control->verdict, "evidenced") == 0;
    if (!says && strcmp(control->verdict, "gap") != 0) {
        return refuse_below(check, PACK_VERDICT_WORD, at, "verdict", "\"%s\"", control->verdict);
    }
    for (size_t i = 0; i < count; i++) {
        all = all && judged[i].met;
    }
    if (all != says) {
        return refuse_below(check, PACK_VERDICT_STATE, at, "verdict", "%s, and %s", control->verdict,
                            all ? "every prerequisite is met" : "a prerequisite is not met");
    }
    check->verdict->evidenced += says;
    return OK;
}

static struct fault check_control(struct check *check, const char *at, struct span json, const char **ret_id)
{
    struct judged judged[FRAMEWORK_PREREQ_MAX] = { 0 };
    struct control control = { 0 };
    struct evidence_window window = { 0 };
    char member[MEMBER_MAX];
    size_t count = 0;
    TRY(take_object(check, PACK_VERDICT, at, json, control_fields, COUNT_OF(control_fields), &control));
    member_below(at, "window", member);
    TRY(take_window(check, PACK_VERDICT, member, control.window, &window));
    if (window.from != check->window.from || window.to != check->window.to) {
        return refuse(check, PACK_VERDICT_WINDOW, member, "it is not the evidence window");
    }
    member_below(at, "prerequisites", member);
    TRY(check_prerequisites(check, member, control.prerequisites, judged, &count));
    TRY(check_verdict(check, at, &control, judged, count));
    member_below(at, "missing_prerequisites", member);
    TRY(check_missing(check, member, control.missing_prerequisites, judged, count));
    *ret_id = control.control;
    return OK;
}

struct fault verify_verdicts(struct check *check, const char *at, struct span verdicts)
{
    const char *ids[FRAMEWORK_CONTROLS_MAX] = { NULL };
    struct span *items = NULL;
    size_t count = 0;
    TRY(take_array(check, PACK_MANIFEST, at, verdicts, FRAMEWORK_CONTROLS_MAX, &items, &count));
    if (count == 0) {
        return refuse(check, PACK_VERDICT_NONE, at, "there is no verdict");
    }
    for (size_t i = 0; i < count; i++) {
        char member[MEMBER_MAX];
        member_at(at, i, member);
        const char *id = "";
        TRY(check_control(check, member, items[i], &id));
        if (listed(ids, i, id)) {
            return refuse(check, PACK_VERDICT_TWICE, member, "\"%s\"", id);
        }
        ids[i] = id;
    }
    check->verdict->controls = (int64_t)count;
    return OK;
}
