/* What observations of AD CS say for evidence: two facts, and the dataset of a pack. Findings are made anew from the
 * events each time. */
#include "api/inventory/adcs.h"

/* A pack's dataset has to stay small whatever happened: events, changes of one event, changes of all. */
#define DRIFT_SHOWN   1024
#define CHANGES_SHOWN 64
#define CHANGES_ALL   2048

static bool unreadable(struct fault fault)
{
    return fault.code == FAULT_JSON_FIELD || fault.code == FAULT_JSON_SYNTAX;
}

/* ---- facts ---- */

struct survey {
    const struct config *config;
    utc_us now;
    int64_t domains, fresh, clean, findings, broken;
};

static struct fault survey_domain(void *arg, struct op *op, const struct adcs_row *row)
{
    struct survey *survey = arg;
    struct adcs_observation observation;
    struct adcs_findings findings;
    int64_t max_age = survey->config->adcs_max_age / 1000; /* nanoseconds to microseconds */
    survey->domains++;
    survey->fresh += row->observed >= survey->now - max_age;
    struct fault fault = adcs_read_stored(op, row->data, &observation);
    if (unreadable(fault)) {
        op->note = (struct fault_note){ 0 };
        survey->broken++;
        return OK;
    }
    TRY(fault);
    TRY(adcs_find(op, &observation, &survey->config->adcs_administrators, &findings));
    survey->findings += (int64_t)findings.count;
    survey->clean += findings.count == 0;
    return OK;
}

static enum inventory_fact_state state_of(const struct survey *survey, bool holds)
{
    return survey->broken > 0 ? INVENTORY_MALFORMED : holds ? INVENTORY_HOLDS : INVENTORY_FAILS;
}

struct fault inventory_adcs_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                                  struct inventory_statement *statements)
{
    struct survey survey = { .config = services->config, .now = now };
    struct inventory_statement *observed = &statements[INVENTORY_FACT_ADCS_OBSERVED];
    struct inventory_statement *clean = &statements[INVENTORY_FACT_ADCS_CLEAN];
    struct jin_texts without = { 0 };
    const char *object = NULL;
    TRY(arena_printf(op->arena, &object, "adcs-observations:%s", op->tenant.text));
    TRY(adcs_unobserved(op, tx, &without));
    TRY(adcs_latest_each(op, tx, survey_domain, &survey));
    int64_t total = survey.domains + (int64_t)without.count;
    *observed = (struct inventory_statement){ .object = object, .total = total, .matched = survey.fresh };
    *clean = (struct inventory_statement){ .object = object, .total = total, .matched = survey.clean };
    if (total == 0) {
        observed->state = INVENTORY_ABSENT;
        clean->state = INVENTORY_ABSENT;
        observed->why = "No AD CS domain has ever been observed.";
        clean->why = observed->why;
        return OK;
    }
    observed->state = state_of(&survey, survey.fresh == total);
    clean->state = state_of(&survey, survey.clean == total);
    TRY(arena_printf(op->arena, &observed->why,
                     "%lld of %lld AD CS domains have a complete v2 observation that is not older than %lld hours.",
                     (long long)survey.fresh, (long long)total,
                     (long long)(services->config->adcs_max_age / (3600 * NS_PER_S))));
    return arena_printf(op->arena, &clean->why,
                        "The latest complete observations of %lld of %lld AD CS domains are without findings;"
                        " there are %lld findings and %lld unreadable observations.",
                        (long long)survey.clean, (long long)total, (long long)survey.findings,
                        (long long)survey.broken);
}

/* ---- the dataset, with members in canonical order ---- */

struct printing {
    const struct config *config;
    struct jout *out;
};

static struct fault print_domain(void *arg, struct op *op, const struct adcs_row *row)
{
    const struct printing *printing = arg;
    struct jout *out = printing->out;
    struct adcs_observation observation;
    struct adcs_findings findings;
    struct fault fault = adcs_read_stored(op, row->data, &observation);
    jout_object(out);
    jout_key_hex(out, "chain", SPAN_ARRAY(row->chain.at));
    jout_key_text(out, "domain", row->domain);
    jout_key_text(out, "event_id", row->event_id);
    jout_key(out, "findings");
    if (unreadable(fault)) {
        op->note = (struct fault_note){ 0 };
        jout_null(out);
    } else {
        TRY(fault);
        TRY(adcs_find(op, &observation, &printing->config->adcs_administrators, &findings));
        adcs_findings_print(out, &findings);
    }
    jout_key_raw(out, "observation", row->data);
    jout_key_time(out, "observed_at", row->observed);
    jout_key_time(out, "recorded_at", row->recorded);
    jout_key_text(out, "relay_id", row->relay_id);
    jout_key_text(out, "run_id", row->run_id);
    jout_key_int(out, "schema_version", row->schema_version);
    jout_key_int(out, "sequence", row->sequence);
    jout_key_text(out, "source_id", row->source_id);
    jout_key_text(out, "type", ADCS_OBSERVED);
    jout_object_end(out);
    return OK;
}

struct drift_data {
    struct span before, changes;
    const char *domain, *observation_id, *relay_id, *run_id, *source_id;
    utc_us observed_at;
    int64_t changes_left_out, changes_total, findings_appeared, findings_cleared, rules_version;
};
static const struct jin_field drift_fields[] = {
    JIN_RAW(struct drift_data, before, JIN_REQUIRED, 2, 1 << 20),
    JIN_RAW(struct drift_data, changes, JIN_REQUIRED, 2, 1 << 20),
    JIN_INT(struct drift_data, changes_left_out, JIN_REQUIRED, 0, INT32_MAX),
    JIN_INT(struct drift_data, changes_total, JIN_REQUIRED, 1, INT32_MAX),
    JIN_TEXT(struct drift_data, domain, JIN_REQUIRED, 1, 4096),
    JIN_INT(struct drift_data, findings_appeared, JIN_REQUIRED, 0, INT32_MAX),
    JIN_INT(struct drift_data, findings_cleared, JIN_REQUIRED, 0, INT32_MAX),
    JIN_TEXT(struct drift_data, observation_id, JIN_REQUIRED, 1, 4096),
    JIN_TIME(struct drift_data, observed_at, JIN_REQUIRED),
    JIN_TEXT(struct drift_data, relay_id, JIN_REQUIRED, 1, 4096),
    JIN_INT(struct drift_data, rules_version, JIN_REQUIRED, 1, INT32_MAX),
    JIN_TEXT(struct drift_data, run_id, JIN_REQUIRED, 1, 4096),
    JIN_TEXT(struct drift_data, source_id, JIN_REQUIRED, 1, 4096),
};

static struct fault print_drift(struct op *op, struct tx *tx, const struct adcs_drift_row *row, size_t most,
                                struct jout *out)
{
    struct span json;
    struct drift_data data = { 0 };
    struct span *changes = NULL;
    size_t count = 0;
    TRY(adcs_drift_data(op, tx, row->sequence, &json));
    TRY(jin_decode(op, json, drift_fields, COUNT_OF(drift_fields), &data));
    TRY(jin_array(op, data.changes, ADCS_CHANGES_MAX, &changes, &count));
    size_t shown = count < most ? count : most;
    jout_object(out);
    jout_key_raw(out, "before", data.before);
    jout_key(out, "chain");
    jout_hex(out, SPAN_ARRAY(row->chain.at));
    jout_key(out, "changes");
    jout_array(out);
    for (size_t i = 0; i < shown; i++) {
        jout_raw(out, changes[i]);
    }
    jout_array_end(out);
    jout_key_int(out, "changes_left_out", data.changes_total - (int64_t)shown);
    jout_key_int(out, "changes_total", data.changes_total);
    jout_key_text(out, "domain", row->domain);
    jout_key_text(out, "event_id", row->event_id);
    jout_key_int(out, "findings_appeared", data.findings_appeared);
    jout_key_int(out, "findings_cleared", data.findings_cleared);
    jout_key_text(out, "observation_id", row->observation_id);
    jout_key_time(out, "observed_at", row->observed);
    jout_key_time(out, "recorded_at", row->recorded);
    jout_key_text(out, "relay_id", row->relay_id);
    jout_key_int(out, "rules_version", data.rules_version);
    jout_key_text(out, "run_id", row->run_id);
    jout_key_int(out, "schema_version", 2);
    jout_key_int(out, "sequence", row->sequence);
    jout_key_text(out, "source_id", row->source_id);
    jout_key_text(out, "type", ADCS_DRIFTED);
    jout_object_end(out);
    return OK;
}

/* How many changes of each event are shown: the newest events take theirs first. */
static struct fault share(struct op *op, const struct adcs_drift_row *rows, size_t count, size_t **ret_shares)
{
    size_t *shares = NULL, left = CHANGES_ALL;
    TRY(arena_take(op->arena, count + 1, sizeof(*shares), &shares));
    for (size_t i = count; i-- > 0;) {
        size_t wanted = rows[i].changes < CHANGES_SHOWN ? (size_t)rows[i].changes : CHANGES_SHOWN;
        shares[i] = wanted < left ? wanted : left;
        left -= shares[i];
    }
    *ret_shares = shares;
    return OK;
}

static struct fault print_window(struct op *op, struct tx *tx, utc_us from, utc_us to, struct jout *out)
{
    CLEANUP(adcs_scratch_clear) struct op scratch = { 0 };
    struct adcs_drift_row *rows = NULL;
    size_t count = 0, *shares = NULL;
    int64_t total = 0;
    TRY(adcs_scratch_new(op, &scratch));
    TRY(adcs_drift_window(&scratch, tx, from, to, DRIFT_SHOWN, &rows, &count, &total));
    TRY(share(&scratch, rows, count, &shares));
    jout_key(out, "drift");
    jout_array(out);
    for (size_t i = 0; i < count; i++) {
        CLEANUP(adcs_scratch_clear) struct op one = { 0 };
        TRY(adcs_scratch_new(op, &one));
        TRY(print_drift(&one, tx, &rows[i], shares[i], out));
    }
    jout_array_end(out);
    jout_key_int(out, "drift_left_out", total - (int64_t)count);
    jout_key_int(out, "drift_total", total);
    return OK;
}

static void print_texts(struct jout *out, const char *key, const char *const *texts, size_t count)
{
    jout_key(out, key);
    jout_array(out);
    for (size_t i = 0; i < count; i++) {
        jout_text(out, texts[i]);
    }
    jout_array_end(out);
}

struct fault inventory_adcs_print(struct op *op, struct services *services, struct tx *tx, utc_us from, utc_us to,
                                  struct jout *out)
{
    const struct config_list *administrators = &services->config->adcs_administrators;
    struct printing printing = { .config = services->config, .out = out };
    struct jin_texts without = { 0 };
    TRY(adcs_unobserved(op, tx, &without));
    jout_object(out);
    print_texts(out, "administrators", administrators->at, administrators->count);
    jout_key(out, "domains");
    jout_array(out);
    TRY(adcs_latest_each(op, tx, print_domain, &printing));
    jout_array_end(out);
    print_texts(out, "domains_without_complete_observation", without.at, without.count);
    TRY(print_window(op, tx, from, to, out));
    jout_key_int(out, "rules_version", ADCS_RULES_VERSION);
    jout_object_end(out);
    return out->first;
}
