/* The record streams: a line for each record, which must be the line that its record makes, and the trailer. */
#include "api/audit/verify_internal.h"

#include "api/audit/shape_lines.h"
#include "appliance/base/crypto.h"

static struct fault refuse_line(struct audit_walk *walk, struct fault fault, const char *what)
{
    return walk->next > 0 ? walk_break(walk, fault, "line %lld, where sequence %lld belongs: %s", (long long)walk->line,
                                       (long long)walk->next, what)
                          : walk_break(walk, fault, "line %lld: %s", (long long)walk->line, what);
}

/* ---- lines ---- */

static struct fault hash_line(struct audit_walk *walk, size_t len)
{
    REQUIRE(EVP_DigestUpdate(walk->stream_md, walk->input.at + walk->input.from, len) == 1, CRYPTO);
    return OK;
}

/* The line at the front without its end; *ret_len with it. Every shape's lines end with LF, which stands nowhere else.
 * An empty span and 0 at the end of the source. */
static struct fault peek_line(struct audit_walk *walk, struct span *ret_line, size_t *ret_len)
{
    bool crlf = walk->shape == AUDIT_CSV;
    size_t seen = 0;
    for (bool more = true;;) {
        struct span rest = window_rest(&walk->input);
        const uint8_t *end = rest.len > seen ? memchr(rest.at + seen, '\n', rest.len - seen) : NULL;
        if (end != NULL) {
            size_t len = (size_t)(end - rest.at);
            if (crlf && (len == 0 || rest.at[len - 1] != '\r')) {
                return refuse_line(walk, FAULT(AUDIT_LINE), "it does not end with CR LF");
            }
            *ret_line = span_of(rest.at, len - crlf);
            *ret_len = len + 1;
            return OK;
        }
        if (!more) {
            *ret_line = rest;
            *ret_len = 0;
            return OK;
        }
        seen = rest.len;
        struct fault fault = window_more(&walk->input, &more);
        if (fault.code == FAULT_TOO_LARGE) {
            return refuse_line(walk, FAULT(AUDIT_LINE), "it is longer than any line of an export");
        }
        TRY(fault);
    }
}

struct fault stream_begin(struct audit_walk *walk)
{
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), "SHA256", NULL);
    walk->stream_md = EVP_MD_CTX_new();
    REQUIRE(walk->stream_md != NULL, NO_MEMORY);
    REQUIRE(md != NULL && EVP_DigestInit_ex2(walk->stream_md, md, NULL) == 1, CRYPTO);
    CLEANUP(buf_free) struct buf head = BUF_INIT(4096);
    TRY(audit_shape_begin(walk->shape, &head));
    walk->line = 1;
    if (head.len == 0) {
        return OK;
    }
    struct span line = { 0 };
    size_t len = 0;
    TRY(peek_line(walk, &line, &len));
    if (len != head.len || memcmp(line.at, head.at, len) != 0) {
        return refuse_line(walk, FAULT(AUDIT_LINE), "the header line is not that of an export");
    }
    TRY(hash_line(walk, len));
    window_take(&walk->input, len);
    walk->line++;
    return OK;
}

/* ---- a record's line ---- */

static struct fault compare_line(struct audit_walk *walk, struct span line, size_t len, const struct audit_line *taken)
{
    char what[256];
    if (walk->shape == AUDIT_NDJSON) {
        return OK; /* taken as it must stand: nothing is left that could differ */
    }
    walk->rendered.len = 0;
    struct fault fault = audit_shape_record(walk->scratch, walk->shape, taken->record, &taken->chain, &walk->rendered);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return refuse_line(walk, FAULT(AUDIT_LINE), walk->scratch->note.detail);
    }
    if (walk->rendered.len == len && memcmp(walk->rendered.at, line.at, len) == 0) {
        return OK;
    }
    size_t ending = len - line.len;
    line_differs(walk->shape, line, span_of(walk->rendered.at, walk->rendered.len - ending), what, sizeof(what));
    return refuse_line(walk, FAULT(AUDIT_LINE), what);
}

static struct fault take_record(struct audit_walk *walk, struct span line, size_t len, const struct audit_line *taken,
                                struct audit_entry *ret_entry)
{
    struct record_view view = { 0 };
    size_t scanned = 0;
    if (taken->record.len > AUDIT_RECORD_MAX) {
        return refuse_line(walk, FAULT(AUDIT_LINE), "its record is longer than any");
    }
    bool plain = record_scan(taken->record, &view, &scanned) == SCAN_GOOD && scanned == taken->record.len;
    TRY(walk_record(walk, taken->record, plain ? &view : NULL, &taken->chain));
    walk->next--; /* the record is as it was hashed; is the line around it, too? */
    walk->verdict.checked--;
    TRY(compare_line(walk, line, len, taken));
    walk->next++;
    walk->verdict.checked++;
    *ret_entry = (struct audit_entry){ walk->next - 1, taken->record, taken->chain };
    return OK;
}

/* ---- the trailer ---- */

/* By a pinned key; without keys, the form alone, and the time stamp has to do. */
static struct fault open_trailer(struct audit_walk *walk, struct span compact, struct span *ret_payload)
{
    const uint8_t *end = compact.at + compact.len;
    const uint8_t *first = compact.len > 0 ? memchr(compact.at, '.', compact.len) : NULL;
    const uint8_t *second = first != NULL ? memchr(first + 1, '.', (size_t)(end - first) - 1) : NULL;
    if (walk->pins->keys == NULL) {
        struct jws_opened opened = { 0 };
        TRY(jws_open(walk->op, compact, &opened));
        if (opened.typ == NULL || strcmp(opened.typ, AUDIT_TRAILER_TYP) != 0) {
            return op_fail(walk->op, FAULT(JWS_FORMAT), "the trailer's typ is not " AUDIT_TRAILER_TYP);
        }
        *ret_payload = opened.payload;
        return OK;
    }
    if (second == NULL) {
        return op_fail(walk->op, FAULT(JWS_FORMAT), "a compact JWS has three parts with a dot between them");
    }
    TRY(jws_stream_new(walk->op, span_of(compact.at, (size_t)(first - compact.at)), AUDIT_TRAILER_TYP, walk->pins->keys,
                       &walk->signature));
    return jws_verify(walk->op, compact, AUDIT_TRAILER_TYP, walk->pins->keys, ret_payload, &walk->verdict.kid);
}

static void find_key(struct audit_walk *walk)
{
    const struct jwk_set *keys = walk->pins->keys;
    for (size_t i = 0; keys != NULL && i < keys->count; i++) {
        if (keys->at[i].kid == walk->verdict.kid) {
            walk->key = &keys->at[i];
        }
    }
    walk->verdict.signature_good = walk->key != NULL;
}

static struct fault check_stream(struct audit_walk *walk)
{
    struct sha256 digest;
    const struct audit_statement *statement = &walk->statement;
    REQUIRE(EVP_DigestFinal_ex(walk->stream_md, digest.at, NULL) == 1, CRYPTO);
    if (statement->shape != walk->shape) {
        return walk_refuse(walk, FAULT(AUDIT_STREAM), "the trailer is of a %s stream, this is %s",
                           audit_shape_name(statement->shape), audit_shape_name(walk->shape));
    }
    if (memcmp(digest.at, statement->stream_sha256.at, SHA256_LEN) != 0) {
        return walk_refuse(walk, FAULT(AUDIT_STREAM),
                           "the trailer is of other bytes than stand before it: %lld records, sequence %lld to %lld, "
                           "are here, and it states %lld, %lld to %lld",
                           (long long)walk->verdict.checked, (long long)walk->first,
                           (long long)(walk->started ? walk->next - 1 : 0), (long long)statement->count,
                           (long long)statement->first_sequence, (long long)statement->last_sequence);
    }
    return OK;
}

static struct fault check_end(struct audit_walk *walk, struct span line, size_t len, struct span compact)
{
    bool more = true;
    walk->rendered.len = 0;
    struct fault fault = audit_shape_trailer(walk->shape, compact, &walk->rendered);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return refuse_line(walk, FAULT(AUDIT_LINE), "the trailer holds no signed statement");
    }
    if (walk->rendered.len != len || memcmp(walk->rendered.at, line.at, len) != 0) {
        char what[256];
        line_differs(walk->shape, line, span_of(walk->rendered.at, walk->rendered.len - (len - line.len)), what,
                     sizeof(what));
        return refuse_line(walk, FAULT(AUDIT_LINE), what);
    }
    window_take(&walk->input, len);
    while (more && window_rest(&walk->input).len == 0) {
        TRY(window_more(&walk->input, &more));
    }
    return window_rest(&walk->input).len == 0
               ? OK
               : walk_refuse(walk, FAULT(AUDIT_TRAILING), "something stands behind the trailer of line %lld",
                             (long long)walk->line);
}

static struct fault take_trailer(struct audit_walk *walk, struct span line, size_t len, struct span trailer)
{
    struct span payload = { 0 }, compact = { 0 };
    TRY(arena_copy(walk->op->arena, trailer, &compact)); /* the window moves */
    walk->next = walk->started ? walk->next : 0;
    TRY(check_end(walk, line, len, compact));
    struct fault fault = open_trailer(walk, compact, &payload);
    if (FAULTED(fault) && fault_row(fault.code)->http < 500) {
        return walk_refuse(walk, fault, "the trailer: %s", walk->op->note.detail);
    }
    TRY(fault);
    find_key(walk);
    fault = audit_statement_read(walk->op, payload, &walk->statement);
    if (fault.code == FAULT_AUDIT_STATEMENT) {
        return walk_refuse(walk, fault, "the trailer: %s", walk->op->note.detail);
    }
    TRY(fault);
    TRY(check_stream(walk));
    return walk_end(walk);
}

struct fault stream_next(struct audit_walk *walk, struct audit_entry *ret_entry, bool *ret_more)
{
    struct span line = { 0 };
    size_t len = 0;
    struct audit_line taken = { 0 };
    TRY(peek_line(walk, &line, &len));
    if (len == 0) {
        const char *what = line.len > 0 ? "it ends within this line" : "it ends here, without its signed trailer";
        return refuse_line(walk, FAULT(AUDIT_TRUNCATED), what);
    }
    walk->scratch->note = (struct fault_note){ 0 };
    struct fault fault = audit_shape_take(walk->scratch, walk->shape, line, &taken);
    if (fault.code == FAULT_AUDIT_LINE) {
        return refuse_line(walk, fault, walk->scratch->note.detail);
    }
    TRY(fault);
    if (taken.is_trailer) {
        *ret_more = false;
        return take_trailer(walk, line, len, taken.trailer);
    }
    TRY(take_record(walk, line, len, &taken, ret_entry));
    TRY(hash_line(walk, len));
    window_take(&walk->input, len);
    walk->line++;
    return OK;
}
