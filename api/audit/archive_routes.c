#include "api/audit/archive.h"

#define LIST_MAX     500
#define LIST_DEFAULT 100

static struct fault list_limit(struct request *request, int64_t *ret_limit)
{
    const char *text = request_query(request, "limit");
    int64_t limit = 0;
    if (text == NULL) {
        *ret_limit = LIST_DEFAULT;
        return OK;
    }
    for (const char *at = text; *at >= '0' && *at <= '9' && limit <= LIST_MAX; at++) {
        limit = limit * 10 + (*at - '0');
    }
    if (text[strspn(text, "0123456789")] != '\0' || limit < 1 || limit > LIST_MAX) {
        return op_fail_field(request->op, FAULT(QUERY), "limit", "limit: must be a number from 1 to %d", LIST_MAX);
    }
    *ret_limit = limit;
    return OK;
}

static void print_checkpoint(struct jout *jout, const struct archive_checkpoint *checkpoint, const char *dir)
{
    jout_object(jout);
    jout_key_text(jout, "archive", checkpoint->locator);
    jout_key_int(jout, "archive_bytes", checkpoint->bytes);
    jout_key_hex(jout, "archive_sha256", SPAN_ARRAY(checkpoint->sha256.at));
    jout_key_time(jout, "archived_at", checkpoint->archived);
    jout_key_hex(jout, "chain_head", SPAN_ARRAY(checkpoint->head.at));
    jout_key_hex(jout, "chain_seed", SPAN_ARRAY(checkpoint->seed.at));
    jout_key_text(jout, "file", archive_file_state(dir, checkpoint->locator, checkpoint->bytes));
    jout_key_int(jout, "first_sequence", checkpoint->first_sequence);
    jout_key_int(jout, "generation", checkpoint->generation);
    jout_key_int(jout, "last_sequence", checkpoint->last_sequence);
    jout_key_int(jout, "number", checkpoint->number);
    jout_key_int(jout, "records", checkpoint->last_sequence - checkpoint->first_sequence + 1);
    jout_key_int(jout, "stream_sequence", (int64_t)checkpoint->stream_seq);
    jout_object_end(jout);
}

static struct fault print_list(struct request *request, const struct archive_checkpoint *list, size_t count,
                               int64_t limit, struct buf *out)
{
    size_t shown = count > (size_t)limit ? (size_t)limit : count;
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_checkpoint(&jout, &list[i], request->services->config->audit_archive_dir);
    }
    jout_array_end(&jout);
    if (shown < count) {
        const char *position = NULL, *cursor = NULL;
        TRY(arena_printf(request->op->arena, &position, "%lld", (long long)list[shown - 1].last_sequence));
        TRY(cursor_make(request, position, &cursor));
        jout_key_text(&jout, "next_cursor", cursor);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault route_archives(struct request *request)
{
    struct archive_checkpoint *list = NULL;
    size_t count = 0;
    int64_t limit = 0, before = INT64_MAX;
    const char *cursor = request_query(request, "cursor"), *position = NULL;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)4 << 20);
    TRY(list_limit(request, &limit));
    if (cursor != NULL) {
        TRY(cursor_read(request, cursor, &position));
        before = strtoll(position, NULL, 10);
    }
    TRY(tx_begin(request->op, request->services->store, STORE_REQUEST, &tx));
    TRY(archive_list(request->op, tx, before, limit + 1, &list, &count));
    tx_rollback(TAKE(tx));
    TRY(print_list(request, list, count, limit, &out));
    return response_json(request, 0, &out);
}

static struct fault route_run(struct request *request)
{
    struct archive_run run = { 0 };
    struct jout jout;
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    TRY(archive_run(request->op, request->services, &run));
    if (run.segments == 0) {
        op_changed_nothing(request->op);
    }
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_int(&jout, "first_sequence", run.first_sequence);
    jout_key_int(&jout, "last_sequence", run.last_sequence);
    jout_key_bool(&jout, "more", run.more);
    jout_key_int(&jout, "records", run.records);
    jout_key_int(&jout, "segments", run.segments);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

static struct fault route_preview(struct request *request)
{
    struct archive_plan plan;
    struct jout jout;
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    TRY(archive_plan(request->op, request->services, &plan));
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_int(&jout, "archived_through", plan.archived_through);
    jout_key_time(&jout, "before", plan.cutoff);
    jout_key_int(&jout, "first_sequence", plan.first_sequence);
    jout_key_int(&jout, "last_sequence", plan.last_sequence);
    jout_key(&jout, "oldest_served");
    plan.oldest != 0 ? jout_time(&jout, plan.oldest) : jout_null(&jout);
    jout_key_int(&jout, "records", plan.records);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

static const char *const list_query[] = { "limit", "cursor", NULL };

static const struct answer_field list_answer[] = {
    { "items", "array",
      "Checkpoints, newest first: archive (file, relative to the archive folder) with its size and "
      "SHA-256, first and last sequence, chain seed and head, stream_sequence, and whether the file is "
      "there (present, missing, size_differs, unknown)." },
    { "next_cursor", "string", "Present when there are more." },
};
static const struct answer_field run_answer[] = {
    { "segments", "integer", "How many archive files were written and verified." },
    { "records", "integer", "How many records they hold." },
    { "first_sequence", "integer", "Of them; 0 when nothing was due." },
    { "last_sequence", "integer", "Of them; the served view begins behind it." },
    { "more", "boolean", "The time was over first: run again, or leave the rest to the worker." },
};
static const struct answer_field preview_answer[] = {
    { "archived_through", "integer", "Last sequence that is archived already; 0 = none." },
    { "before", "string", "Records before this time are due." },
    { "first_sequence", "integer", "Of what a run would archive now; 0 = nothing." },
    { "last_sequence", "integer", "Likewise." },
    { "records", "integer", "Likewise." },
    { "oldest_served", "string", "Time of the oldest record that is served; null when there is none." },
};

const struct route archive_routes[ARCHIVE_ROUTES] = {
    {
        .name = "audit.archives",
        .method = ROUTE_GET,
        .path = "/api/v1/audit/archives",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .query = list_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_archives,
        .doc = "The tenant's archive files and the checkpoints that they stand for.",
    },
    {
        .name = "audit.archive.run",
        .method = ROUTE_POST,
        .path = "/api/v1/audit/archive/runs",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_HEAVY,
        .answer = run_answer,
        .answer_count = COUNT_OF(run_answer),
        .success_status = 200,
        .handler = route_run,
        .doc = "Archive now what is older than audit.retention, as the hourly run does.",
    },
    {
        .name = "audit.archive.preview",
        .method = ROUTE_POST,
        .path = "/api/v1/audit/archive/runs/preview",
        .permission = PERMISSION_AUDIT_READ,
        .flags = ROUTE_EFFECT_FREE,
        .bulkhead = BULKHEAD_API,
        .answer = preview_answer,
        .answer_count = COUNT_OF(preview_answer),
        .success_status = 200,
        .handler = route_preview,
        .doc = "What a run of the archive would archive now; changes nothing.",
    },
};
