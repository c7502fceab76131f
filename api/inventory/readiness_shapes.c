/* The dataset's rows for tools, piece by piece. The last column of CSV is the row itself: what the digest is over. */
#include "api/inventory/crypto.h"

#include "appliance/base/codec.h"
#include "appliance/base/json_view.h"

#define PIECE_MAX ((size_t)256 << 10)

static struct fault send(struct buf *piece, graph_put put, void *arg)
{
    TRY(put(arg, buf_span(piece)));
    buf_clear(piece);
    return OK;
}

/* ---- JSON ---- */

struct fault graph_json(const struct graph *graph, graph_put put, void *arg)
{
    CLEANUP(buf_free) struct buf head = BUF_INIT(PIECE_MAX), tail = BUF_INIT(PIECE_MAX);
    struct jout jout;
    struct span rest = buf_span(&graph->rows), row;
    jout_init(&jout, &head);
    jout_object(&jout);
    graph_print_head(graph, &jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    jout_init(&jout, &tail);
    jout_object(&jout);
    graph_print_tail(graph, &jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(put(arg, span_of(head.at, head.len - 1))); /* without its closing brace */
    TRY(put(arg, span_text(",\"rows\":[")));
    for (bool first = true; graph_next(&rest, &row); first = false) {
        TRY(first ? OK : put(arg, span_text(",")));
        TRY(put(arg, row));
    }
    TRY(put(arg, span_text("],")));
    return put(arg, span_of(tail.at + 1, tail.len - 1));
}

/* ---- NDJSON: the rows as they are, and a last line that has no "object" ---- */

struct fault graph_ndjson(const struct graph *graph, graph_put put, void *arg)
{
    CLEANUP(buf_free) struct buf piece = BUF_INIT(PIECE_MAX);
    struct jout jout;
    if (graph->rows.len > 0) {
        TRY(put(arg, buf_span(&graph->rows)));
    }
    jout_init(&jout, &piece);
    jout_object(&jout);
    graph_print_head(graph, &jout);
    graph_print_tail(graph, &jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(buf_u8(&piece, '\n'));
    return send(&piece, put, arg);
}

/* ---- CSV (RFC 4180) ---- */

static const struct {
    const char *title, *path;
} columns[] = {
    { "object", "object" },
    { "kind", "kind" },
    { "name", "name" },
    { "purpose", "purpose" },
    { "state", "state" },
    { "algorithm", "algorithm.name" },
    { "posture", "posture" },
    { "quantum", "quantum" },
    { "certificates", "dependents.certificates" },
    { "rules", "dependents.rules" },
    { "signing_operations", "dependents.signing_operations" },
    { "last_observed_at", "dependents.last_observed_at" },
    { "recommendation", "recommendation.code" },
};

/* In quotes, quotes doubled; what a spreadsheet would take for a formula gets an apostrophe in front. */
static struct fault put_cell(struct span text, struct buf *out)
{
    TRY(buf_u8(out, '"'));
    TRY(text.len > 0 && memchr("=+-@\t\r", text.at[0], 6) != NULL ? buf_u8(out, '\'') : OK);
    for (const uint8_t *quote; (quote = text.len > 0 ? memchr(text.at, '"', text.len) : NULL) != NULL;) {
        size_t upto = (size_t)(quote - text.at) + 1;
        TRY(buf_put(out, span_of(text.at, upto)));
        TRY(buf_u8(out, '"'));
        text = span_of(text.at + upto, text.len - upto);
    }
    TRY(buf_put(out, text));
    return buf_u8(out, '"');
}

static struct fault put_line(struct op *op, struct span row, struct buf *out)
{
    const struct view view = { .json = row };
    for (size_t i = 0; i < COUNT_OF(columns); i++) {
        const char *cell = view_member(op, view, columns[i].path);
        TRY(put_cell(span_text(cell != NULL ? cell : ""), out));
        TRY(buf_u8(out, ','));
    }
    TRY(put_cell(row, out));
    return buf_text(out, "\r\n");
}

struct fault graph_csv(struct op *op, const struct graph *graph, graph_put put, void *arg)
{
    CLEANUP(buf_free) struct buf piece = BUF_INIT(PIECE_MAX);
    CLEANUP(op_freep) struct op *scratch = NULL;
    struct span rest = buf_span(&graph->rows), row;
    char digest[2 * SHA256_LEN + 1];
    TRY(op_new("crypto-readiness", op->tenant, clock_ms_left(op->deadline), &scratch));
    for (size_t i = 0; i < COUNT_OF(columns); i++) {
        TRY(buf_printf(&piece, "%s,", columns[i].title));
    }
    TRY(buf_text(&piece, "row\r\n"));
    while (graph_next(&rest, &row)) {
        TRY(put_line(scratch, row, &piece));
        TRY(send(&piece, put, arg));
        arena_clear(scratch->arena);
    }
    hex_text(SPAN_ARRAY(graph->digest.at), digest, sizeof(digest));
    TRY(buf_printf(&piece, "# dataset_digest=%s listed=%lld total=%lld unbound_actions=%lld\r\n", digest,
                   (long long)graph->listed, (long long)graph->total, (long long)graph->unbound));
    return send(&piece, put, arg);
}
