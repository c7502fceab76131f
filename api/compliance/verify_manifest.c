/* The manifest as a whole: exactly its members, each what it must be. */
#include "api/compliance/verify_internal.h"

#define WINDOW_US ((utc_us)EVIDENCE_WINDOW_DAYS * 24 * 3600 * US_PER_S)
#define AT        AT_MANIFEST

struct manifest {
    const char *format, *tenant_id, *generated_at, *notice;
    struct span framework, evidence_window, verdicts, attestation_gaps, population, audit;
    struct span cbom, custody, adcs, crypto_readiness;
};
#define MANIFEST_RAW(member) JIN_RAW(struct manifest, member, JIN_REQUIRED, 2, EVIDENCE_MANIFEST_MAX)
static const struct jin_field manifest_fields[] = {
    JIN_TEXT(struct manifest, format, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct manifest, tenant_id, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct manifest, generated_at, JIN_REQUIRED, 1, RFC3339_MAX),
    JIN_TEXT(struct manifest, notice, JIN_REQUIRED, 0, TEXT_MAX),
    MANIFEST_RAW(framework),
    MANIFEST_RAW(evidence_window),
    MANIFEST_RAW(verdicts),
    MANIFEST_RAW(attestation_gaps),
    MANIFEST_RAW(population),
    MANIFEST_RAW(audit),
    MANIFEST_RAW(cbom),
    MANIFEST_RAW(custody),
    MANIFEST_RAW(adcs),
    MANIFEST_RAW(crypto_readiness),
};

static struct fault check_framework(struct check *check, struct span json, const char **ret_id)
{
    struct framework_texts {
        const char *id, *catalogue, *version;
    } framework = { 0 };
    static const struct jin_field fields[] = {
        JIN_TEXT(struct framework_texts, id, JIN_REQUIRED, 1, 64),
        JIN_TEXT(struct framework_texts, catalogue, JIN_REQUIRED, 1, 512),
        JIN_TEXT(struct framework_texts, version, JIN_REQUIRED, 1, 128),
    };
    TRY(take_object(check, PACK_FRAMEWORK, AT "/framework", json, fields, COUNT_OF(fields), &framework));
    if (!evidence_framework_known(framework.id)) {
        return refuse(check, PACK_FRAMEWORK, AT "/framework/id", "\"%s\" is none of the fifteen", framework.id);
    }
    *ret_id = framework.id;
    return OK;
}

struct fault verify_window(struct check *check, const char *at, struct span json, const char *generated_at)
{
    struct window_texts {
        const char *from, *to;
        int64_t days;
    } window = { 0 };
    static const struct jin_field fields[] = {
        JIN_TEXT(struct window_texts, from, JIN_REQUIRED, 1, RFC3339_MAX),
        JIN_TEXT(struct window_texts, to, JIN_REQUIRED, 1, RFC3339_MAX),
        JIN_INT(struct window_texts, days, JIN_REQUIRED, EVIDENCE_WINDOW_DAYS, EVIDENCE_WINDOW_DAYS),
    };
    TRY(take_time(check, AT, "generated_at", generated_at, &check->generated));
    TRY(take_object(check, PACK_WINDOW, at, json, fields, COUNT_OF(fields), &window));
    TRY(take_time(check, at, "from", window.from, &check->window.from));
    TRY(take_time(check, at, "to", window.to, &check->window.to));
    if (check->window.to - check->window.from != WINDOW_US) {
        return refuse(check, PACK_WINDOW, at, "from %s to %s are not %d days", window.from, window.to,
                      EVIDENCE_WINDOW_DAYS);
    }
    if (check->generated < check->window.to) {
        return refuse(check, PACK_TIME, AT "/generated_at", "it lies before the end of the evidence window, %s",
                      window.to);
    }
    return OK;
}

struct fault verify_trail(struct check *check, const char *at, struct span json)
{
    struct trail {
        int64_t head_sequence, generation, archived_through;
        struct span chain_head;
    } trail = { 0 };
    static const struct jin_field fields[] = {
        JIN_INT(struct trail, head_sequence, JIN_REQUIRED, 0, INT64_MAX),
        JIN_INT(struct trail, generation, JIN_REQUIRED, 1, INT64_MAX),
        JIN_INT(struct trail, archived_through, JIN_REQUIRED, 0, INT64_MAX),
        JIN_HEX(struct trail, chain_head, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    };
    TRY(take_object(check, PACK_TRAIL, at, json, fields, COUNT_OF(fields), &trail));
    if (trail.archived_through > trail.head_sequence) {
        return refuse_below(check, PACK_TRAIL, at, "archived_through", "%lld records are archived of %lld",
                            (long long)trail.archived_through, (long long)trail.head_sequence);
    }
    check->head = trail.head_sequence;
    check->archived_through = trail.archived_through;
    return OK;
}

/* ---- the window's population ---- */

struct totals {
    const char *query;
    int64_t first_sequence, last_sequence, total, outside_window, archived_in_window;
    struct span by_type;
};
static const struct jin_field totals_fields[] = {
    JIN_TEXT(struct totals, query, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_INT(struct totals, first_sequence, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct totals, last_sequence, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct totals, total, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct totals, outside_window, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct totals, archived_in_window, JIN_REQUIRED, 0, INT64_MAX),
    JIN_RAW(struct totals, by_type, JIN_REQUIRED, 2, EVIDENCE_MANIFEST_MAX),
};

static struct fault check_types(struct check *check, const char *above, const struct totals *totals)
{
    struct type_count {
        const char *type;
        int64_t count;
    };
    static const struct jin_field fields[] = {
        JIN_TEXT(struct type_count, type, JIN_REQUIRED, 1, TYPE_TEXT_MAX),
        JIN_INT(struct type_count, count, JIN_REQUIRED, 1, INT64_MAX),
    };
    const char *before = "";
    char at[MEMBER_MAX];
    struct span *items = NULL;
    size_t count = 0;
    int64_t sum = 0;
    member_below(above, "by_type", at);
    TRY(take_array(check, PACK_TOTALS, at, totals->by_type, BY_TYPE_MAX, &items, &count));
    for (size_t i = 0; i < count; i++) {
        char member[MEMBER_MAX];
        struct type_count row = { 0 };
        member_at(at, i, member);
        TRY(take_object(check, PACK_TOTALS, member, items[i], fields, COUNT_OF(fields), &row));
        if (strcmp(before, row.type) == 0 || __builtin_add_overflow(sum, row.count, &sum)) {
            return refuse(check, PACK_TOTALS, member, "the type stands there twice, or there are too many");
        }
        before = row.type;
    }
    if (sum != totals->total) {
        return refuse_below(check, PACK_TOTALS, above, "total", "%lld, and the types make %lld",
                            (long long)totals->total, (long long)sum);
    }
    return OK;
}

/* Every record of the trail is one of three: served and in the window, served and outside of it, archived. Those that
 * are archived and in the window are among the archived ones, and nothing else. */
static struct fault check_whole(struct check *check, const char *at, const struct totals *totals)
{
    int64_t served = 0, all = 0;
    bool over = __builtin_add_overflow(totals->total, totals->outside_window, &served) ||
                __builtin_add_overflow(served, check->archived_through, &all);
    if (over || all != check->head) {
        return refuse(check, PACK_TOTALS, at,
                      "%lld in the window, %lld outside of it and %lld archived are not the %lld of the audit trail",
                      (long long)totals->total, (long long)totals->outside_window, (long long)check->archived_through,
                      (long long)check->head);
    }
    if (totals->archived_in_window > check->archived_through) {
        return refuse_below(check, PACK_TOTALS, at, "archived_in_window", "%lld, and %lld are archived at all",
                            (long long)totals->archived_in_window, (long long)check->archived_through);
    }
    check->archived_in_window = totals->archived_in_window;
    return OK;
}

struct fault verify_totals(struct check *check, const char *at, struct span json)
{
    struct totals totals = { 0 };
    TRY(take_object(check, PACK_TOTALS, at, json, totals_fields, COUNT_OF(totals_fields), &totals));
    int64_t first = totals.first_sequence, last = totals.last_sequence;
    bool none = totals.total == 0;
    bool served = first > check->archived_through && last <= check->head;
    if (none ? first != 0 || last != 0 : !served || last < first || totals.total > last - first + 1) {
        return refuse(check, PACK_TOTALS, at, "%lld records cannot be those from %lld to %lld", (long long)totals.total,
                      (long long)first, (long long)last);
    }
    TRY(check_whole(check, at, &totals));
    return check_types(check, at, &totals);
}

/* ---- all of it ---- */

static struct fault check_heading(struct check *check, const struct manifest *manifest)
{
    struct tenant_id tenant;
    if (strcmp(manifest->format, EVIDENCE_MANIFEST_FORMAT) != 0) {
        return refuse(check, PACK_MANIFEST_FORMAT, AT "/format", "\"%s\", where %s is wanted", manifest->format,
                      EVIDENCE_MANIFEST_FORMAT);
    }
    if (FAULTED(tenant_id_parse(span_text(manifest->tenant_id), &tenant))) {
        return refuse(check, PACK_TENANT, AT "/tenant_id", "\"%s\" is no tenant's id", manifest->tenant_id);
    }
    if (strstr(manifest->notice, "no claim") == NULL) {
        return refuse(check, PACK_NOTICE, AT "/notice", "it has to say what the pack does not claim");
    }
    check->verdict->tenant = manifest->tenant_id;
    check->verdict->generated_at = manifest->generated_at;
    return OK;
}

struct fault verify_manifest(struct check *check, struct span manifest, struct evidence_datasets *ret_datasets)
{
    struct manifest made = { 0 };
    struct evidence_datasets datasets = { 0 };
    TRY(take_object(check, PACK_MANIFEST, AT, manifest, manifest_fields, COUNT_OF(manifest_fields), &made));
    TRY(check_heading(check, &made));
    TRY(check_framework(check, made.framework, &datasets.framework));
    check->verdict->framework = datasets.framework;
    TRY(verify_window(check, AT "/evidence_window", made.evidence_window, made.generated_at));
    TRY(verify_trail(check, AT "/audit", made.audit));
    TRY(verify_totals(check, AT "/population", made.population));
    TRY(verify_verdicts(check, AT "/verdicts", made.verdicts));
    TRY(verify_gaps(check, AT "/attestation_gaps", made.attestation_gaps));
    TRY(verify_custody(check, AT "/custody", made.custody));
    TRY(verify_readiness(check, AT "/crypto_readiness", made.crypto_readiness));
    TRY(verify_dataset(check, AT "/adcs", made.adcs));
    TRY(verify_dataset(check, AT "/cbom", made.cbom));
    datasets.custody = made.custody;
    datasets.adcs = made.adcs;
    datasets.readiness = made.crypto_readiness;
    *ret_datasets = datasets;
    return OK;
}
