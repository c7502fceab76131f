/* The inventory report: what this installation covers, told mechanically from its own tables. */
#include "api/compliance/schedules.h"

#include "api/audit/floor.h"
#include "api/page.h"

#include <stdlib.h>

#define ANSWER_MAX ((size_t)4 << 20)
#define TYPES_MAX  ((size_t)1024)

static const struct sql SQL_NEWEST = {
    "inventory_report_newest",
    "SELECT r.event_id, r.sequence, r.type, r.time_us, r.chain FROM unnest(string_to_array($1, ',')) AS t(type)"
    " CROSS JOIN LATERAL (SELECT event_id, sequence, type, time_us, chain FROM svc.audit_records"
    " WHERE type = t.type AND sequence > $2 ORDER BY sequence DESC LIMIT 1) r ORDER BY r.type",
    2,
};
static const struct sql SQL_HEAD = {
    "inventory_report_head",
    "SELECT h.sequence, h.chain, (SELECT coalesce(max(generation), 1) FROM svc.audit_generations)"
    " FROM svc.audit_heads h",
    0,
};

/* ---- frameworks, report types, routes ---- */

static void put_frameworks(struct jout *jout)
{
    const struct frameworks *all = compliance_frameworks();
    jout_key(jout, "frameworks");
    jout_array(jout);
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        const struct framework *framework = all != NULL ? frameworks_get(all, framework_id(i)) : NULL;
        jout_object(jout);
        jout_key_text(jout, "id", framework_id(i));
        if (framework != NULL) {
            jout_key_text(jout, "catalogue", framework->catalogue);
            jout_key_text(jout, "version", framework->version);
            jout_key_int(jout, "controls", (int64_t)framework->control_count);
            jout_key_int(jout, "gaps", (int64_t)framework->gap_count);
        }
        jout_object_end(jout);
    }
    jout_array_end(jout);
    jout_key(jout, "report_types");
    jout_array(jout);
    for (enum report_type type = 0; type < REPORT_TYPE_COUNT; type++) {
        jout_text(jout, report_type_text(type));
    }
    jout_array_end(jout);
}

static void put_routes(struct jout *jout)
{
    static const char *const methods[] = {
        [ROUTE_GET] = "GET", [ROUTE_POST] = "POST", [ROUTE_PUT] = "PUT", [ROUTE_DELETE] = "DELETE"
    };
    size_t count = 0;
    const struct feature *const *features = features_all(&count);
    jout_key(jout, "served_routes");
    jout_array(jout);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < features[i]->route_count; j++) {
            const struct route *route = &features[i]->routes[j];
            bool open = route->permission == PERMISSION_NONE || route->permission == PERMISSION_PUBLIC;
            jout_object(jout);
            jout_key_text(jout, "method", methods[route->method]);
            jout_key_text(jout, "path", route->path);
            jout_key_text(jout, "permission", open ? NULL : permission_text(route->permission));
            jout_object_end(jout);
        }
    }
    jout_array_end(jout);
}

/* ---- evidence references: the newest record of each type that a framework asks for ---- */

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static size_t collect_of(const struct framework *framework, const char **types, size_t count)
{
    for (size_t i = 0; i < framework->control_count; i++) {
        const struct framework_control *control = &framework->controls[i];
        for (size_t j = 0; j < control->prerequisite_count; j++) {
            const struct framework_prerequisite *prerequisite = &control->prerequisites[j];
            for (size_t k = 0; k < prerequisite->type_count && count < TYPES_MAX; k++) {
                types[count++] = prerequisite->types[k];
            }
        }
    }
    return count;
}

/* With commas between, each once. */
static struct fault relevant_types(struct op *op, struct buf *out)
{
    const struct frameworks *all = compliance_frameworks();
    const char **types = NULL;
    size_t count = 0;
    TRY(arena_take(op->arena, TYPES_MAX, sizeof(*types), &types));
    for (size_t i = 0; i < FRAMEWORKS && all != NULL; i++) {
        const struct framework *framework = frameworks_get(all, framework_id(i));
        count = framework != NULL ? collect_of(framework, types, count) : count;
    }
    qsort(types, count, sizeof(*types), compare_texts);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(types[i], types[i - 1]) != 0) {
            TRY(buf_printf(out, "%s%s", out->len > 0 ? "," : "", types[i]));
        }
    }
    return OK;
}

static struct fault put_references(struct op *op, struct tx *tx, int64_t floor, struct jout *jout)
{
    CLEANUP(buf_free) struct buf types = BUF_INIT(TYPES_MAX * (EVENT_TYPE_MAX + 1));
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(relevant_types(op, &types));
    TRY(tx_query(tx, &SQL_NEWEST, (struct sql_arg[]){ SQL_SPAN(buf_span(&types)), SQL_INT(floor) }, 2, &rows));
    jout_key(jout, "evidence_references");
    jout_array(jout);
    for (size_t row = 0; row < rows_count(rows); row++) {
        jout_object(jout);
        jout_key_text(jout, "event_id", rows_text(rows, row, 0));
        jout_key_int(jout, "sequence", rows_int(rows, row, 1));
        jout_key_text(jout, "type", rows_text(rows, row, 2));
        jout_key_time(jout, "observed_at", rows_int(rows, row, 3));
        jout_key_hex(jout, "chain", rows_bytes(rows, row, 4));
        jout_object_end(jout);
    }
    jout_array_end(jout);
    return OK;
}

/* ---- the tenant's own ---- */

static struct fault put_schedules(struct op *op, struct tx *tx, struct jout *jout)
{
    const struct schedule_filter filter = { .before = INT64_MAX, .limit = PAGE_LIMIT_DEFAULT + 1 };
    struct schedule *list = NULL;
    size_t count = 0;
    int64_t total = 0, enabled = 0;
    TRY(schedule_list(op, tx, &filter, &list, &count));
    TRY(schedule_counts(tx, &total, &enabled));
    jout_key(jout, "report_schedules");
    jout_array(jout);
    for (size_t i = 0; i < count && i < PAGE_LIMIT_DEFAULT; i++) {
        schedule_print(jout, &list[i]);
    }
    jout_array_end(jout);
    jout_key_bool(jout, "more_report_schedules", count > PAGE_LIMIT_DEFAULT);
    jout_key_int(jout, "report_schedule_count", total);
    jout_key_int(jout, "enabled_report_schedule_count", enabled);
    return OK;
}

static struct fault put_head(struct tx *tx, int64_t floor, struct jout *jout)
{
    static const struct sha256 none = { { 0 } };
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_HEAD, NULL, 0, &rows));
    bool any = rows_count(rows) == 1;
    jout_key(jout, "audit");
    jout_object(jout);
    jout_key_int(jout, "head_sequence", any ? rows_int(rows, 0, 0) : 0);
    jout_key_hex(jout, "chain_head", any ? rows_bytes(rows, 0, 1) : SPAN_ARRAY(none.at));
    jout_key_int(jout, "generation", any ? rows_int(rows, 0, 2) : 1);
    jout_key_int(jout, "archived_through", floor);
    jout_object_end(jout);
    return OK;
}

static struct fault put_tenant(struct op *op, struct services *services, struct jout *jout)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    int64_t floor = 0;
    TRY(tx_begin_snapshot(op, services->store, STORE_REQUEST, &tx));
    TRY(audit_floor(op, tx, &floor));
    TRY(put_references(op, tx, floor, jout));
    jout_key(jout, "inventory_counts");
    jout_object(jout);
    TRY(inventory_counts_print(op, services, tx, jout));
    jout_object_end(jout);
    TRY(put_schedules(op, tx, jout));
    return put_head(tx, floor, jout);
}

static struct fault print_report(struct op *op, struct services *services, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "format", "svc.compliance.inventory-report.v1");
    jout_key_text(&jout, "tenant_id", op->tenant.text);
    jout_key_time(&jout, "generated_at", clock_utc());
    put_frameworks(&jout);
    put_routes(&jout);
    TRY(put_tenant(op, services, &jout));
    jout_key_text(&jout, "notice",
                  "Mechanical coverage: what is served and recorded. No claim of compliance or certification.");
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* The event is in the log before the first byte leaves. */
struct fault route_inventory_report(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct sha256 digest;
    if (!response_stream_wanted(request)) {
        return response_stream_begin(request, 0, "application/json"); /* the head alone: nothing is made */
    }
    TRY(print_report(request->op, request->services, &out));
    TRY(sha256_of(buf_span(&out), &digest));
    TRY(pack_record_read(request->op, request->services, "inventory-report", NULL, &digest));
    return response_json(request, 0, &out);
}
