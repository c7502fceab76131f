/* What was observed, and how it drifted, for whoever reads evidence. */
#include "api/inventory/adcs.h"

#include "api/page.h"

#define ANSWER_MAX ((size_t)16 << 20)

static void print_reference(struct jout *jout, const struct adcs_row *row)
{
    jout_key_text(jout, "observation_id", row->observation_id);
    jout_key_text(jout, "domain", row->domain);
    jout_key_time(jout, "observed_at", row->observed);
    jout_key_time(jout, "recorded_at", row->recorded);
    jout_key_text(jout, "recorded_by", row->recorded_by);
    jout_key_text(jout, "source_id", row->source_id);
    jout_key_text(jout, "run_id", row->run_id);
    jout_key_text(jout, "relay_id", row->relay_id);
    jout_key_int(jout, "schema_version", row->schema_version);
    jout_key_bool(jout, "complete", row->complete);
    jout_key_bool(jout, "latest", row->latest);
    jout_key_text(jout, "event_id", row->event_id);
    jout_key_int(jout, "sequence", row->sequence);
    jout_key_hex(jout, "chain", SPAN_ARRAY(row->chain.at));
}

static struct fault read_bool(struct request *request, const char *name, bool *ret_value)
{
    const char *text = request_query(request, name);
    *ret_value = text != NULL && strcmp(text, "true") == 0;
    if (text != NULL && !*ret_value && strcmp(text, "false") != 0) {
        return op_fail_field(request->op, FAULT(QUERY), name, "%s must be true or false", name);
    }
    return OK;
}

static struct fault read_wanted(struct request *request, struct page *ret_page, struct adcs_wanted *ret_wanted)
{
    struct adcs_wanted wanted = { .domain = request_query(request, "domain") };
    TRY(page_read(request, ret_page));
    if (wanted.domain != NULL && FAULTED(adcs_check_domain(request->op, "domain", &wanted.domain))) {
        return op_fail_field(request->op, FAULT(QUERY), "domain", "domain must be a DNS name");
    }
    wanted.before = ret_page->number;
    wanted.limit = ret_page->limit + 1;
    *ret_wanted = wanted;
    return OK;
}

/* How many findings of each severity; null where the stored observation cannot be read any more. */
static struct fault print_counts(struct request *request, struct tx *tx, struct jout *jout, const struct adcs_row *row)
{
    CLEANUP(adcs_scratch_clear) struct op scratch = { 0 };
    struct adcs_row whole;
    struct adcs_observation observation;
    struct adcs_findings findings;
    struct adcs_counts counts;
    TRY(adcs_scratch_new(request->op, &scratch));
    TRY(adcs_row_get(&scratch, tx, row->observation_id, &whole));
    jout_key(jout, "findings");
    struct fault fault = adcs_read_stored(&scratch, whole.data, &observation);
    if (fault.code == FAULT_JSON_FIELD || fault.code == FAULT_JSON_SYNTAX) {
        jout_null(jout);
        return OK;
    }
    TRY(fault);
    TRY(adcs_find(&scratch, &observation, &request->services->config->adcs_administrators, &findings));
    adcs_findings_count(&findings, &counts);
    adcs_counts_print(jout, &counts);
    return OK;
}

struct fault route_adcs_list(struct request *request)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct page page;
    struct adcs_wanted wanted;
    struct adcs_row *rows = NULL;
    bool history = false;
    size_t count = 0;
    TRY(read_wanted(request, &page, &wanted));
    TRY(read_bool(request, "history", &history));
    wanted.latest = !history;
    TRY(tx_begin(request->op, request->services->store, STORE_REQUEST, &tx));
    TRY(adcs_rows_list(request->op, tx, &wanted, &rows, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        jout_object(&jout);
        print_reference(&jout, &rows[i]);
        if (!history) {
            TRY(print_counts(request, tx, &jout, &rows[i]));
        }
        jout_object_end(&jout);
    }
    tx_rollback(TAKE(tx));
    TRY(page_end(request, &jout, more, more ? rows[shown - 1].sequence : 0, ""));
    return response_json(request, 0, &out);
}

static struct fault print_whole(struct op *op, struct services *services, const struct adcs_row *row, struct jout *jout)
{
    struct adcs_observation observation;
    struct adcs_findings findings;
    jout_object(jout);
    print_reference(jout, row);
    jout_key_raw(jout, "observation", row->data);
    jout_key(jout, "findings");
    struct fault fault = adcs_read_stored(op, row->data, &observation);
    if (fault.code == FAULT_JSON_FIELD || fault.code == FAULT_JSON_SYNTAX) {
        jout_null(jout);
    } else {
        TRY(fault);
        TRY(adcs_find(op, &observation, &services->config->adcs_administrators, &findings));
        adcs_findings_print(jout, &findings);
    }
    jout_object_end(jout);
    return jout_end(jout);
}

struct fault route_adcs_get(struct request *request)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(adcs_scratch_clear) struct op scratch = { 0 };
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct adcs_row row;
    struct jout jout;
    TRY(adcs_scratch_new(request->op, &scratch));
    TRY(tx_begin(request->op, request->services->store, STORE_REQUEST, &tx));
    struct fault fault = adcs_row_get(&scratch, tx, request_path(request, "id"), &row);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(request->op, fault, "no such observation: list them with GET /api/v1/adcs/observations");
    }
    TRY(fault);
    jout_init(&jout, &out);
    TRY(print_whole(&scratch, request->services, &row, &jout));
    tx_rollback(TAKE(tx));
    return response_json(request, 0, &out);
}

static void print_drift(struct jout *jout, const struct adcs_drift_row *row)
{
    jout_object(jout);
    jout_key_text(jout, "event_id", row->event_id);
    jout_key_int(jout, "sequence", row->sequence);
    jout_key_hex(jout, "chain", SPAN_ARRAY(row->chain.at));
    jout_key_text(jout, "domain", row->domain);
    jout_key_time(jout, "observed_at", row->observed);
    jout_key_time(jout, "recorded_at", row->recorded);
    jout_key_text(jout, "recorded_by", row->recorded_by);
    jout_key_text(jout, "observation_id", row->observation_id);
    jout_key_text(jout, "source_id", row->source_id);
    jout_key_text(jout, "run_id", row->run_id);
    jout_key_text(jout, "relay_id", row->relay_id);
    jout_key_int(jout, "changes", row->changes);
    jout_key_raw(jout, "drift", row->data);
    jout_object_end(jout);
}

/* A page is `limit` rows or 8 MiB, whichever comes first. */
#define PAGE_BYTES ((size_t)8 << 20)

struct fault route_adcs_drift(struct request *request)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(adcs_scratch_clear) struct op scratch = { 0 };
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct page page;
    struct adcs_wanted wanted;
    struct adcs_drift_row *rows = NULL;
    size_t count = 0, shown = 0;
    struct jout jout;
    TRY(read_wanted(request, &page, &wanted));
    TRY(adcs_scratch_new(request->op, &scratch));
    TRY(tx_begin(request->op, request->services->store, STORE_REQUEST, &tx));
    TRY(adcs_drift_list(&scratch, tx, &wanted, &rows, &count));
    tx_rollback(TAKE(tx));
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    while (shown < count && shown < (size_t)page.limit && out.len < PAGE_BYTES) {
        print_drift(&jout, &rows[shown++]);
    }
    TRY(page_end(request, &jout, shown < count, shown < count ? rows[shown - 1].sequence : 0, ""));
    return response_json(request, 0, &out);
}
