/*
 * The dataset of a pack: the latest complete observation of each domain with its findings, and the drift of the window,
 * members in canonical order. Whatever collectors hand in it stays small, and what is left out of it is counted: a
 * domain whose listing has no room left is told of by reference, digest and counts.
 */
#include "api/inventory/adcs.h"

#define LISTING_BYTES ((size_t)2 << 20) /* of all domains: observations and findings */
#define DRIFT_BYTES   ((size_t)1 << 20) /* of all drift events */
/* Drift events, changes of one event, changes of all. */
#define DRIFT_SHOWN   1024
#define CHANGES_SHOWN 64
#define CHANGES_ALL   2048
#define STORED_MAX    32768 /* longer than what is taken: an erasure may have put longer words in place of others */

bool adcs_unreadable(struct fault fault)
{
    return fault.code == FAULT_JSON_FIELD || fault.code == FAULT_JSON_SYNTAX;
}

/* ---- domains ---- */

struct printing {
    const struct config *config;
    struct jout *out;
    size_t left; /* of LISTING_BYTES */
    int64_t domains, domains_left_out, findings_left_out;
};

/* The findings as JSON, and their counts; `out` stays empty where there is no room for them beside the observation. */
static struct fault list_findings(const struct adcs_findings *findings, const struct adcs_row *row, size_t left,
                                  struct buf *out)
{
    struct jout jout;
    if (row->data.len > left) {
        return OK;
    }
    *out = (struct buf)BUF_INIT(left - row->data.len);
    jout_init(&jout, out);
    adcs_findings_print(&jout, findings);
    struct fault fault = jout_end(&jout);
    if (fault.code == FAULT_TOO_LARGE) {
        buf_clear(out);
        return OK;
    }
    return fault;
}

static void print_reference(struct jout *out, const struct adcs_row *row)
{
    jout_key_time(out, "observed_at", row->observed);
    jout_key_time(out, "recorded_at", row->recorded);
    jout_key_text(out, "recorded_by", row->recorded_by);
    jout_key_text(out, "relay_id", row->relay_id);
    jout_key_text(out, "run_id", row->run_id);
    jout_key_int(out, "schema_version", row->schema_version);
    jout_key_int(out, "sequence", row->sequence);
    jout_key_text(out, "source_id", row->source_id);
    jout_key_text(out, "type", ADCS_OBSERVED);
}

/* `counts` is NULL where the observation cannot be read any more: its findings are unknown then, not none. */
static struct fault print_row(struct printing *printing, const struct adcs_row *row, const struct adcs_counts *counts,
                              struct span findings)
{
    struct jout *out = printing->out;
    struct sha256 digest;
    bool listed = findings.len > 0;
    TRY(sha256_of(row->data, &digest));
    jout_object(out);
    jout_key_hex(out, "chain", SPAN_ARRAY(row->chain.at));
    jout_key_text(out, "domain", row->domain);
    jout_key_text(out, "event_id", row->event_id);
    jout_key(out, "finding_counts");
    if (counts != NULL) {
        adcs_counts_print(out, counts);
    } else {
        jout_null(out);
    }
    if (listed) {
        jout_key_raw(out, "findings", findings);
    }
    jout_key_bool(out, "listed", listed);
    if (listed) {
        jout_key_raw(out, "observation", row->data);
    }
    jout_key_hex(out, "observation_sha256", SPAN_ARRAY(digest.at));
    print_reference(out, row);
    jout_object_end(out);
    return OK;
}

static struct fault print_domain(void *arg, struct op *op, const struct adcs_row *row)
{
    struct printing *printing = arg;
    CLEANUP(buf_free) struct buf list = BUF_INIT(1);
    struct adcs_observation observation;
    struct adcs_findings findings;
    struct adcs_counts counts;
    struct span shown = { 0 };
    struct fault fault = adcs_read_stored(op, row->data, &observation);
    bool readable = !adcs_unreadable(fault);
    if (readable) {
        TRY(fault);
        TRY(adcs_find(op, &observation, &printing->config->adcs_administrators, &findings));
        adcs_findings_count(&findings, &counts);
        TRY(list_findings(&findings, row, printing->left, &list));
        shown = buf_span(&list);
    } else {
        op->note = (struct fault_note){ 0 };
        shown = row->data.len + 4 <= printing->left ? span_text("null") : shown;
    }
    printing->domains++;
    if (shown.len > 0) {
        printing->left -= row->data.len + shown.len;
    } else {
        printing->domains_left_out++;
        printing->findings_left_out += readable ? (int64_t)findings.count : 0;
    }
    return print_row(printing, row, readable ? &counts : NULL, shown);
}

/* ---- drift ---- */

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
    JIN_TEXT(struct drift_data, domain, JIN_REQUIRED, 1, STORED_MAX),
    JIN_INT(struct drift_data, findings_appeared, JIN_REQUIRED, 0, INT32_MAX),
    JIN_INT(struct drift_data, findings_cleared, JIN_REQUIRED, 0, INT32_MAX),
    JIN_TEXT(struct drift_data, observation_id, JIN_REQUIRED, 1, STORED_MAX),
    JIN_TIME(struct drift_data, observed_at, JIN_REQUIRED),
    JIN_TEXT(struct drift_data, relay_id, JIN_REQUIRED, 1, STORED_MAX),
    JIN_INT(struct drift_data, rules_version, JIN_REQUIRED, 1, INT32_MAX),
    JIN_TEXT(struct drift_data, run_id, JIN_REQUIRED, 1, STORED_MAX),
    JIN_TEXT(struct drift_data, source_id, JIN_REQUIRED, 1, STORED_MAX),
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
    jout_key_text(out, "recorded_by", row->recorded_by);
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

/* From the newest backwards, as many as fit; in the arena of op. *ret_first is the first row that is in. */
static struct fault list_drift(struct op *op, struct tx *tx, const struct adcs_drift_row *rows, size_t count,
                               struct span *ret_texts, size_t *ret_first)
{
    size_t *shares = NULL, left = DRIFT_BYTES, first = count;
    TRY(share(op, rows, count, &shares));
    while (first > 0) {
        CLEANUP(adcs_scratch_clear) struct op one = { 0 };
        CLEANUP(buf_free) struct buf text = BUF_INIT(left);
        struct jout jout;
        TRY(adcs_scratch_new(op, &one));
        jout_init(&jout, &text);
        TRY(print_drift(&one, tx, &rows[first - 1], shares[first - 1], &jout));
        struct fault fault = jout_end(&jout);
        if (fault.code == FAULT_TOO_LARGE) {
            break;
        }
        TRY(fault);
        TRY(arena_copy(op->arena, buf_span(&text), &ret_texts[--first]));
        left -= text.len;
    }
    *ret_first = first;
    return OK;
}

static struct fault print_window(struct op *op, struct tx *tx, utc_us from, utc_us to, struct jout *out)
{
    CLEANUP(adcs_scratch_clear) struct op scratch = { 0 };
    struct adcs_drift_row *rows = NULL;
    struct span *texts = NULL;
    size_t count = 0, first = 0;
    int64_t total = 0;
    TRY(adcs_scratch_new(op, &scratch));
    TRY(adcs_drift_window(&scratch, tx, from, to, DRIFT_SHOWN, &rows, &count, &total));
    TRY(arena_take(scratch.arena, count + 1, sizeof(*texts), &texts));
    TRY(list_drift(&scratch, tx, rows, count, texts, &first));
    jout_key(out, "drift");
    jout_array(out);
    for (size_t i = first; i < count; i++) {
        jout_raw(out, texts[i]);
    }
    jout_array_end(out);
    jout_key_int(out, "drift_left_out", total - (int64_t)(count - first));
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
    struct printing printing = { .config = services->config, .out = out, .left = LISTING_BYTES };
    struct jin_texts without = { 0 };
    TRY(adcs_unobserved(op, tx, &without));
    jout_object(out);
    print_texts(out, "administrators", administrators->at, administrators->count);
    jout_key(out, "domains");
    jout_array(out);
    TRY(adcs_latest_each(op, tx, print_domain, &printing));
    jout_array_end(out);
    jout_key_int(out, "domains_left_out", printing.domains_left_out);
    jout_key_int(out, "domains_total", printing.domains);
    print_texts(out, "domains_without_complete_observation", without.at, without.count);
    TRY(print_window(op, tx, from, to, out));
    jout_key_int(out, "findings_left_out", printing.findings_left_out);
    jout_key_int(out, "rules_version", ADCS_RULES_VERSION);
    jout_object_end(out);
    return out->first;
}
