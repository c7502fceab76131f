#include "api/audit/internal.h"

#include "api/audit/floor.h"
#include "fips/jws.h"

static struct fault refuse(struct request *request, const char *name, const char *what)
{
    return op_fail_field(request->op, FAULT(QUERY), name, "%s: %s", name, what);
}

/* A decimal parameter within min..max; `fallback` when absent. */
static struct fault number(struct request *request, const char *name, int64_t min, int64_t max, int64_t fallback,
                           int64_t *ret_number)
{
    const char *text = request_query(request, name);
    *ret_number = fallback;
    if (text == NULL) {
        return OK;
    }
    int64_t value = 0;
    size_t len = strlen(text);
    bool good = len > 0 && len <= 18;
    for (size_t i = 0; good && i < len; i++) {
        good = text[i] >= '0' && text[i] <= '9';
        value = good ? value * 10 + (text[i] - '0') : 0;
    }
    if (!good || value < min || value > max) {
        return op_fail_field(request->op, FAULT(QUERY), name, "%s: must be a number from %lld to %lld", name,
                             (long long)min, (long long)max);
    }
    *ret_number = value;
    return OK;
}

static struct fault time_of(struct request *request, const char *name, utc_us fallback, utc_us *ret_time)
{
    const char *text = request_query(request, name);
    *ret_time = fallback;
    if (text != NULL && FAULTED(rfc3339_parse(span_text(text), ret_time))) {
        return refuse(request, name, "must be an RFC 3339 time such as 2026-01-31T12:00:00Z");
    }
    return OK;
}

static struct fault read_filter(struct request *request, struct record_filter *filter)
{
    const char *order = request_query(request, "order");
    const char *cursor = request_query(request, "cursor");
    if (order != NULL && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) {
        return refuse(request, "order", "must be asc or desc");
    }
    filter->ascending = order != NULL && strcmp(order, "asc") == 0;
    filter->actor = request_query(request, "actor");
    filter->type = request_query(request, "type");
    TRY(time_of(request, "from", INT64_MIN, &filter->from));
    TRY(time_of(request, "to", INT64_MAX, &filter->to));
    TRY(number(request, "limit", 1, AUDIT_PAGE_MAX, AUDIT_PAGE_DEFAULT, &filter->limit));
    filter->beyond = filter->ascending ? 0 : INT64_MAX;
    if (cursor != NULL) {
        const char *position = NULL;
        TRY(cursor_read(request, cursor, &position));
        /* "a:12": a cursor of one order means nothing in the other */
        REQUIRE(position[0] == (filter->ascending ? 'a' : 'd') && position[1] == ':', CURSOR);
        filter->beyond = strtoll(position + 2, NULL, 10);
    }
    return OK;
}

static struct fault print_page(struct request *request, const struct record_filter *filter, const struct rows *rows,
                               int64_t limit, int64_t archived, struct buf *out)
{
    size_t shown = rows_count(rows) > (size_t)limit ? (size_t)limit : rows_count(rows);
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    if (archived > 0) {
        jout_key_int(&jout, "archived_through", archived);
    }
    jout_key(&jout, "records");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        jout_object(&jout);
        jout_key_hex(&jout, "chain", rows_bytes(rows, i, 2));
        jout_key_raw(&jout, "record", rows_bytes(rows, i, 1));
        jout_object_end(&jout);
    }
    jout_array_end(&jout);
    if (shown < rows_count(rows)) {
        const char *position = NULL, *cursor = NULL;
        TRY(arena_printf(request->op->arena, &position, "%c:%lld", filter->ascending ? 'a' : 'd',
                         (long long)rows_int(rows, shown - 1, 0)));
        TRY(cursor_make(request, position, &cursor));
        jout_key_text(&jout, "next_cursor", cursor);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault route_audit_records(struct request *request)
{
    struct record_filter filter = { 0 };
    TRY(read_filter(request, &filter));
    int64_t limit = filter.limit++; /* one more tells whether there is a next page */
    int64_t archived = 0;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)128 << 20);
    TRY(tx_begin(request->op, request->services->store, STORE_REQUEST, &tx));
    TRY(record_page(tx, &filter, &rows));
    TRY(audit_floor(request->op, tx, &archived));
    TRY(print_page(request, &filter, rows, limit, archived, &out));
    return response_json(request, 0, &out);
}

static struct fault read_wish(struct request *request, struct export_wish *wish)
{
    const char *shape = request_query(request, "shape");
    *wish = (struct export_wish){ .shape = AUDIT_JWS };
    if (shape != NULL && !audit_shape_named(shape, &wish->shape)) {
        return refuse(request, "shape", "must be jws, ndjson, csv, cef or ocsf");
    }
    TRY(number(request, "from_sequence", 1, INT64_MAX, 0, &wish->first));
    TRY(number(request, "to_sequence", 1, INT64_MAX, 0, &wish->last));
    TRY(time_of(request, "from", INT64_MIN, &wish->from));
    TRY(time_of(request, "to", INT64_MAX, &wish->to));
    if (wish->from >= wish->to) {
        return refuse(request, "to", "must be later than from");
    }
    return OK;
}

static struct fault name_file(struct request *request, const struct audit_statement *statement)
{
    const char *value = NULL;
    TRY(arena_printf(request->op->arena, &value, "attachment; filename=\"audit-%lld-%lld.%s\"",
                     (long long)statement->first_sequence, (long long)statement->last_sequence,
                     audit_shape_suffix(statement->shape)));
    return response_header(request, "Content-Disposition", value);
}

static struct fault into_answer(void *arg, struct span bytes)
{
    return response_stream_write(arg, bytes);
}

/* The event is in the log before the first byte leaves; what it is about, the time stamp included, is fixed before. */
struct fault route_audit_export(struct request *request)
{
    struct export_wish wish;
    struct export_plan plan;
    struct op *op = request->op;
    TRY(read_wish(request, &wish));
    if (!response_stream_wanted(request)) {
        return response_stream_begin(request, 0, audit_shape_media_type(wish.shape));
    }
    TRY(export_prepare(op, request->services, &wish, &plan));
    TRY(export_record_read(op, request->services, "export", &plan.statement));
    TRY(name_file(request, &plan.statement));
    op->deadline = clock_mono() + request->services->config->audit_export_timeout; /* up to here a request's own */
    TRY(response_stream_begin(request, 0, audit_shape_media_type(wish.shape)));
    return export_write(op, request->services, &plan, &(struct export_sink){ into_answer, request });
}

struct fault route_audit_keys(struct request *request)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT((size_t)1 << 20);
    TRY(export_keys(request->op, request->services, &json));
    return response_json(request, 0, &json);
}

struct fault route_audit_key_rotate(struct request *request)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(16384);
    CLEANUP(buf_free) struct buf jwk = BUF_INIT(8192);
    struct managed_key key;
    struct jout jout;
    TRY(export_key_rotate(request->op, request->services, &key));
    TRY(jwk_print_window(key.spki, key.activated, 0, &jwk));
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", key.ref.id.text);
    jout_key_raw(&jout, "jwk", buf_span(&jwk));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &json);
}
