#include "api/audit/shape.h"

#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"

#include <sys/stat.h>
#include <unistd.h>

#define PATH_EXPORT   "/api/v1/audit/export"
#define PATH_RECORDS  "/api/v1/audit/records"
#define PROGRESS_STEP ((int64_t)4 << 20)
#define SPLIT_MAX     1000000000LL
#define FILE_MODE     0644

/* ---- one artifact ---- */

struct taking {
    struct op *op;
    const char *what; /* for the progress line */
    struct file_stream *stream;
    int64_t bytes, told;
    bool shows;
};

static struct fault take(void *arg, struct span bytes)
{
    struct taking *taking = arg;
    taking->bytes += (int64_t)bytes.len;
    if (taking->shows && taking->bytes - taking->told >= PROGRESS_STEP) {
        taking->told = taking->bytes;
        (void)fprintf(stderr, "\r  %s: %lld MiB", taking->what, (long long)(taking->bytes >> 20));
    }
    return files_stream_put(taking->op, taking->stream, bytes);
}

/* "-" is stdout. An answer that ends before its end is an error of the transfer, and leaves no file. */
static struct fault fetch(struct cli *cli, const char *query, const char *path, int64_t *ret_bytes)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(files_stream_freep) struct file_stream *stream = NULL;
    TRY(files_stream_new(cli->op, path, FILE_MODE, &stream));
    struct taking taking = {
        .op = cli->op, .what = path, .stream = stream, .shows = strcmp(path, "-") != 0 && isatty(STDERR_FILENO) == 1
    };
    const struct http_sink sink = { take, &taking };
    const struct api_call call = { .route = api_route(cli, PATH_EXPORT), .query = query, .sink = &sink };
    struct fault fault = api_send(cli, &call, &answer);
    if (taking.told > 0) {
        (void)fprintf(stderr, "\r\033[K");
    }
    TRY(fault);
    *ret_bytes = taking.bytes;
    return files_stream_keep(cli->op, stream);
}

static struct fault make_query(struct cli *cli, const char *from_sequence, const char *to_sequence, bool times,
                               const char **ret_query)
{
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    TRY(query_add(&query, "shape", cli_flag(cli, "shape")));
    TRY(query_add(&query, "from_sequence", from_sequence));
    TRY(query_add(&query, "to_sequence", to_sequence));
    if (times) {
        TRY(query_add(&query, "from", cli_flag(cli, "from")));
        TRY(query_add(&query, "to", cli_flag(cli, "to")));
    }
    TRY(buf_cstr(&query, &text));
    return arena_text(cli->op->arena, span_text(text), ret_query);
}

static struct fault read_shape(struct cli *cli, enum audit_shape *ret_shape)
{
    const char *name = cli_flag(cli, "shape");
    *ret_shape = AUDIT_JWS;
    if (name != NULL && !audit_shape_named(name, ret_shape)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--shape: jws, ndjson, csv, cef or ocsf");
    }
    return OK;
}

static struct fault export_one(struct cli *cli, enum audit_shape shape)
{
    const char *out = cli_flag(cli, "output"), *query = NULL;
    int64_t bytes = 0;
    bool to_file = out != NULL && strcmp(out, "-") != 0;
    TRY(make_query(cli, cli_flag(cli, "from-sequence"), cli_flag(cli, "to-sequence"), true, &query));
    TRY(fetch(cli, query, to_file ? out : "-", &bytes));
    if (!to_file) {
        if (shape == AUDIT_JWS) {
            (void)fputc('\n', stdout);
        }
        return OK;
    }
    if (cli->json) {
        CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
        struct jout jout;
        jout_init(&jout, &json);
        jout_object(&jout);
        jout_key_text(&jout, "file", out);
        jout_key_int(&jout, "bytes", bytes);
        jout_object_end(&jout);
        TRY(jout_end(&jout));
        print_json(buf_span(&json));
        return OK;
    }
    (void)printf("exported: %s, %lld bytes\n", out, (long long)bytes);
    hint("check it anywhere: svc-cli audit verify --artifact FILE --audit-jwks KEYS --tsa-root ROOT");
    return OK;
}

/* ---- many files of equal range ---- */

struct splitting {
    struct cli *cli;
    enum audit_shape shape;
    const char *dir;
    int64_t each, first, last, next;
    struct buf json;
    struct jout jout;
};

static bool read_number(const char *text, int64_t max, int64_t *ret_number)
{
    int64_t value = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || value > max) {
            return false;
        }
        value = value * 10 + (*at - '0');
    }
    *ret_number = value;
    return text[0] != '\0' && value >= 1 && value <= max;
}

static struct fault number_flag(struct cli *cli, const char *name, int64_t max, int64_t *ret_number)
{
    const char *text = cli_flag(cli, name);
    if (text != NULL && !read_number(text, max, ret_number)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--%s: a number from 1 to %lld", name, (long long)max);
    }
    return OK;
}

/* The sequence at one end of what the time flags select; 0 when there is none. */
static struct fault ask_end(struct cli *cli, const char *order, int64_t *ret_sequence)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page, item;
    TRY(query_add(&query, "limit", "1"));
    TRY(query_add(&query, "order", order));
    TRY(query_add(&query, "from", cli_flag(cli, "from")));
    TRY(query_add(&query, "to", cli_flag(cli, "to")));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .route = api_route(cli, PATH_RECORDS), .query = text }, &answer, &page));
    struct view rest = view_get(page, "records");
    *ret_sequence = 0;
    return view_next(&rest, &item) ? view_int(view_get(item, "record.sequence"), ret_sequence) : OK;
}

static struct fault find_ends(struct splitting *splitting)
{
    struct cli *cli = splitting->cli;
    int64_t oldest = 0, newest = 0, first = 0, last = 0;
    TRY(number_flag(cli, "from-sequence", INT64_MAX / 16, &first));
    TRY(number_flag(cli, "to-sequence", INT64_MAX / 16, &last));
    TRY(ask_end(cli, "asc", &oldest));
    TRY(ask_end(cli, "desc", &newest));
    splitting->first = first > oldest ? first : oldest;
    splitting->last = last != 0 && last < newest ? last : newest;
    if (oldest == 0 || splitting->first > splitting->last) {
        return op_fail(cli->op, FAULT(NOT_FOUND), "no record lies in this range");
    }
    return OK;
}

static struct fault told(struct splitting *splitting, const char *path, int64_t last, int64_t bytes, bool skipped)
{
    if (!splitting->cli->json) {
        (void)printf("%s: %s, %lld bytes\n", skipped ? "there already" : "exported", path, (long long)bytes);
        return OK;
    }
    struct jout *jout = &splitting->jout;
    jout_object(jout);
    jout_key_text(jout, "file", path);
    jout_key_int(jout, "bytes", bytes);
    jout_key_int(jout, "first_sequence", splitting->next);
    jout_key_int(jout, "last_sequence", last);
    jout_key_bool(jout, "skipped", skipped);
    jout_object_end(jout);
    return OK;
}

/* A file of that name was renamed to it when it was whole: it is not fetched again. */
static struct fault export_segment(struct splitting *splitting, int64_t last)
{
    struct cli *cli = splitting->cli;
    const char *path = NULL, *from = NULL, *to = NULL, *query = NULL;
    struct stat info;
    int64_t bytes = 0;
    TRY(arena_printf(cli->op->arena, &path, "%s/audit-%lld-%lld.%s", splitting->dir, (long long)splitting->next,
                     (long long)last, audit_shape_suffix(splitting->shape)));
    bool skipped = stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    if (skipped) {
        return told(splitting, path, last, (int64_t)info.st_size, true);
    }
    TRY(arena_printf(cli->op->arena, &from, "%lld", (long long)splitting->next));
    TRY(arena_printf(cli->op->arena, &to, "%lld", (long long)last));
    TRY(make_query(cli, from, to, false, &query));
    TRY(fetch(cli, query, path, &bytes));
    return told(splitting, path, last, bytes, false);
}

/* Segments end at multiples of N, so that a later export finds the whole ones of an earlier one. */
static struct fault export_segments(struct splitting *splitting)
{
    for (splitting->next = splitting->first; splitting->next <= splitting->last;) {
        int64_t end = ((splitting->next - 1) / splitting->each + 1) * splitting->each;
        int64_t last = end < splitting->last ? end : splitting->last;
        TRY(export_segment(splitting, last));
        splitting->next = last + 1;
    }
    return OK;
}

static struct fault run_split(struct splitting *splitting)
{
    struct jout *jout = &splitting->jout;
    TRY(find_ends(splitting));
    if (FAULTED(file_make_dirs(splitting->dir, 0755))) {
        return op_fail(splitting->cli->op, FAULT(IO), "%s: the folder cannot be made", splitting->dir);
    }
    jout_init(jout, &splitting->json);
    jout_object(jout);
    jout_key(jout, "files");
    jout_array(jout);
    TRY(export_segments(splitting));
    jout_array_end(jout);
    jout_object_end(jout);
    TRY(jout_end(jout));
    if (splitting->cli->json) {
        print_json(buf_span(&splitting->json));
    } else {
        hint("check them anywhere: svc-cli audit verify --artifact FILE --audit-jwks KEYS");
    }
    return OK;
}

static struct fault export_split(struct cli *cli, enum audit_shape shape)
{
    struct splitting splitting = {
        .cli = cli, .shape = shape, .dir = cli_flag(cli, "output-dir"), .json = BUF_INIT((size_t)64 << 20)
    };
    if (splitting.dir == NULL || cli_flag(cli, "output") != NULL || cli_flag(cli, "split") == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--split N and --output-dir DIR go together, without --output");
    }
    TRY(number_flag(cli, "split", SPLIT_MAX, &splitting.each));
    struct fault fault = run_split(&splitting);
    buf_free(&splitting.json);
    return fault;
}

struct fault run_audit_export(struct cli *cli)
{
    enum audit_shape shape = AUDIT_JWS;
    TRY(read_shape(cli, &shape));
    bool split = cli_flag(cli, "split") != NULL || cli_flag(cli, "output-dir") != NULL;
    return split ? export_split(cli, shape) : export_one(cli, shape);
}
