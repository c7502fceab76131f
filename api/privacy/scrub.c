/* After an activation: what is superseded is overwritten in the log, and what answers kept of the subject is blanked.
 */
#include "api/privacy/internal.h"

#include "api/snapshot/snapshot.h"
#include "appliance/base/failpoint.h"

#define EVENT_MAX 4096
#define LANES_MAX 512

static const struct sql SQL_LANES = {
    "privacy_lanes",
    "SELECT lane, max(stream_seq) FROM svc.event_envelopes WHERE tenant_id = $1 GROUP BY lane ORDER BY lane",
    1,
};
/* A replay of a blanked answer is told that it is not kept any more. */
static const struct sql SQL_BLANK = {
    "privacy_blank_answers",
    "UPDATE svc.idempotency_keys SET body = NULL, headers = '' WHERE tenant_id = $1 AND state = 'done'"
    " AND (position($2 IN body) > 0 OR position($3 IN body) > 0 OR position($4 IN headers) > 0)",
    4,
};
static const struct sql SQL_DROP = {
    "privacy_drop_keys",
    "DELETE FROM svc.idempotency_keys WHERE tenant_id = $1 AND (position($2 IN key) > 0 OR position($2 IN route) > 0)",
    2,
};
/* A generated report that holds the subject: it is signed, so it goes as a whole. Its digest stays in the trail. */
static const struct sql SQL_DOCUMENTS = {
    "privacy_drop_documents",
    "DELETE FROM svc.compliance_documents WHERE tenant_id = $1 AND (position($2 IN body) > 0 OR position($3 IN body) > 0)",
    3,
};

/* ---- the log ---- */

struct lane_list {
    const char *at[LANES_MAX];
    size_t count;
};

/* The lanes whose last message is to be overwritten. */
static struct fault read_lanes(struct op *op, struct services *services, struct lane_list *lanes)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_LANES, (struct sql_arg[]){ SQL_TEXT(op->tenant.text) }, 1, &rows));
    for (size_t row = 0; row < rows_count(rows); row++) {
        if (event_log_replaced(services->log, (uint64_t)rows_int(rows, row, 1), NULL)) {
            REQUIRE(lanes->count < LANES_MAX, TOO_LARGE);
            TRY(arena_text(op->arena, span_text(rows_text(rows, row, 0)), &lanes->at[lanes->count++]));
        }
    }
    return OK;
}

static struct fault mark_lanes(struct op *op, struct services *services, const struct erasure *erasure)
{
    struct lane_list lanes = { .count = 0 };
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct jout jout;
    uint64_t seq = 0;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "erasure_id", erasure->id.text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(read_lanes(op, services, &lanes));
    for (size_t i = 0; i < lanes.count; i++) {
        TRY(privacy_append(op, services, lanes.at[i], EVENT_MARKED, erasure->id, "marked", &data, NULL, &seq));
    }
    return lanes.count > 0 ? projector_wait(op, services->projector, seq) : OK;
}

static struct fault erase_superseded(struct op *op, struct services *services, const struct erasure *erasure,
                                     int64_t *ret_count)
{
    struct event_replacement *entries = NULL;
    size_t count = 0;
    *ret_count = 0;
    TRY(event_log_replacements(op, services->log, op->tenant, UINT64_MAX, &entries, &count));
    for (size_t i = 0; i < count; i++) {
        if (entries[i].generation == erasure->generation) {
            TRY(event_log_erase(op, services->log, &entries[i]));
            FAILPOINT("privacy.after_erase");
            (*ret_count)++;
        }
    }
    return OK;
}

/* ---- answers ---- */

static struct fault blank_answers(struct op *op, struct services *services, const struct privacy_subject *subject,
                                  int64_t *ret_rows)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    const struct sql_arg drop[] = { SQL_TEXT(op->tenant.text), SQL_SPAN(subject->text) };
    const struct sql_arg blank[] = { SQL_TEXT(op->tenant.text), SQL_BYTES(subject->needles[0]),
                                     SQL_BYTES(subject->text), SQL_SPAN(subject->text) };
    int64_t dropped = 0, blanked = 0, documents = 0;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_exec(tx, &SQL_DROP, drop, COUNT_OF(drop), &dropped));
    TRY(tx_exec(tx, &SQL_BLANK, blank, COUNT_OF(blank), &blanked));
    TRY(tx_exec(tx, &SQL_DOCUMENTS, blank, 3, &documents));
    TRY(tx_commit(&tx));
    *ret_rows = dropped + blanked + documents;
    return OK;
}

struct fault erasure_scrub(struct op *op, struct services *services, const struct erasure *erasure,
                           const struct privacy_subject *subject)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct standing standing = { 0 };
    struct finding finding = { 0 };
    int64_t messages = 0, rows = 0;
    uint64_t seq = 0;
    unsigned snapshots = 0;
    struct jout jout;
    TRY(mark_lanes(op, services, erasure));
    TRY(erase_superseded(op, services, erasure, &messages));
    TRY(snapshot_forget(op, services->config, services->log, &snapshots));
    TRY(blank_answers(op, services, subject, &rows));
    TRY(privacy_standing(op, services, subject->text, &standing));
    TRY(privacy_find(op, services, subject, erasure->requested_seq + 1, standing.checkpoint, &finding));
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "erasure_id", erasure->id.text);
    jout_key_int(&jout, "later", finding.messages);
    jout_key_int(&jout, "messages", messages);
    jout_key_int(&jout, "rows_blanked", rows);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(privacy_append(op, services, EVENTS_PRIVACY_LANE, EVENT_SCRUBBED, erasure->id, "scrubbed", &data, NULL, &seq));
    FAILPOINT("privacy.after_scrub");
    return projector_wait(op, services->projector, seq);
}
