/*
 * The JWS bundle, of any size: the payload is decoded as its bytes go by, hashed for the signature and walked record by
 * record. Canonical JSON leaves no choice, so all but the records is read as it must stand.
 */
#include "api/audit/verify_internal.h"

#include "appliance/base/codec.h"

#include <stdio.h>

#define HEADER_TEXT    2048
#define HEAD_MAX       4096
#define TAIL_MAX       ((size_t)192 << 10)
#define SIGNATURE_TEXT 1024

static const char records_mark[] = "\"records\":[";

/* What the signature's own checks say: kept until the records have been looked at. */
static void note_signature(struct audit_walk *walk, struct fault fault)
{
    if (FAULTED(fault) && !FAULTED(walk->signature_fault)) {
        walk->signature_fault = fault;
        const char *words = walk->op->note.detail[0] != '\0' ? walk->op->note.detail : fault_row(fault.code)->title;
        (void)snprintf(walk->signature_reason, sizeof(walk->signature_reason), "%s", words);
    }
    walk->op->note = (struct fault_note){ 0 };
}

static bool is_base64url(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

/* ---- the payload as a source of bytes ---- */

/* Encoded bytes that can be decoded now: whole groups of four, or all up to the dot. */
static struct fault next_encoded(struct audit_walk *walk, size_t most, struct span *ret_encoded)
{
    for (bool more = true;;) {
        struct span rest = window_rest(&walk->input);
        const uint8_t *dot = rest.len > 0 ? memchr(rest.at, '.', rest.len) : NULL;
        size_t len = dot != NULL ? (size_t)(dot - rest.at) : rest.len;
        if (len > most) {
            len = most;
        } else if (dot != NULL || !more) {
            walk->payload_ended = true;
            walk->payload_cut = dot == NULL;
            *ret_encoded = span_of(rest.at, dot != NULL ? len : len - len % 4); /* what was cut off is no group */
            return OK;
        }
        len -= len % 4;
        if (len > 0) {
            *ret_encoded = span_of(rest.at, len);
            return OK;
        }
        TRY(window_more(&walk->input, &more));
    }
}

/* The whole groups before the first character that is no base64url: what stands there is still to be looked at. */
static struct span good_groups(struct span encoded)
{
    size_t len = 0;
    while (len < encoded.len && is_base64url(encoded.at[len])) {
        len++;
    }
    return span_of(encoded.at, len - len % 4);
}

static struct fault read_payload(void *context, uint8_t *at, size_t size, size_t *ret_len)
{
    struct audit_walk *walk = context;
    struct buf out = { .at = at, .cap = size, .max = size - 1 };
    while (!walk->payload_ended && out.len == 0) {
        struct span encoded = { 0 };
        if (walk->payload_bad) {
            return walk_refuse(walk, FAULT(JWS_FORMAT), "the payload is not base64url");
        }
        TRY(next_encoded(walk, (size - 8) / 3 * 4, &encoded));
        if (walk->signature != NULL) {
            TRY(jws_stream_payload(walk->signature, encoded));
        }
        if (FAULTED(base64url_decode(encoded, &out))) {
            walk->payload_bad = true;
            walk->payload_ended = walk->payload_cut = false;
            encoded = good_groups(encoded);
            TRY(base64url_decode(encoded, &out));
        }
        window_take(&walk->input, encoded.len + (walk->payload_ended && !walk->payload_cut ? 1 : 0));
    }
    *ret_len = out.len;
    return OK;
}

static struct fault payload_more(struct audit_walk *walk, bool *ret_more)
{
    struct fault fault = window_more(&walk->payload, ret_more);
    return fault.code == FAULT_TOO_LARGE
               ? walk_break(walk, FAULT(CHAIN_BROKEN), "a record is longer than %zu bytes", AUDIT_RECORD_MAX)
               : fault;
}

/* ---- its beginning ---- */

static struct fault read_head(struct audit_walk *walk)
{
    struct audit_statement statement;
    CLEANUP(buf_free) struct buf json = BUF_INIT(HEAD_MAX + 8);
    const uint8_t *mark = NULL;
    struct span rest = { 0 };
    for (bool more = true; mark == NULL && more && rest.len < HEAD_MAX;) {
        rest = window_rest(&walk->payload);
        rest.len = rest.len < HEAD_MAX ? rest.len : HEAD_MAX;
        mark = rest.len > 0 ? memmem(rest.at, rest.len, records_mark, sizeof(records_mark) - 1) : NULL;
        if (mark == NULL) {
            TRY(payload_more(walk, &more));
        }
    }
    if (mark == NULL) {
        return rest.len < HEAD_MAX && walk->payload_cut
                   ? walk_refuse(walk, FAULT(AUDIT_TRUNCATED), "the bundle ends before its records begin")
                   : walk_refuse(walk, FAULT(AUDIT_STATEMENT), "the payload is no audit export: it has no records");
    }
    size_t len = (size_t)(mark - rest.at) + sizeof(records_mark) - 1;
    TRY(buf_put(&walk->head, span_of(rest.at, len)));
    TRY(buf_put(&json, buf_span(&walk->head)));
    TRY(buf_text(&json, "]}"));
    struct fault fault = audit_statement_read_bundle(walk->scratch, buf_span(&json), false, &statement);
    if (fault.code == FAULT_AUDIT_STATEMENT) {
        return walk_refuse(walk, fault, "%s", walk->scratch->note.detail);
    }
    TRY(fault);
    window_take(&walk->payload, len);
    walk->verdict.first_format = statement.first_format;
    walk->verdict.generation = statement.generation;
    walk->verdict.count = statement.count;
    walk->verdict.first_sequence = statement.first_sequence;
    walk->verdict.last_sequence = statement.last_sequence;
    walk->verdict.seed = statement.seed;
    memcpy(walk->verdict.exported_at, statement.exported_at, sizeof(statement.exported_at));
    walk->chain = statement.seed;
    walk->chain_known = true;
    walk->next = statement.count > 0 ? statement.first_sequence : 1;
    return walk_begin_at(walk, statement.first_sequence, &statement.seed);
}

static struct fault read_header(struct audit_walk *walk)
{
    const uint8_t *dot = NULL;
    struct span rest = { 0 };
    for (bool more = true; dot == NULL && more && rest.len < HEADER_TEXT;) {
        rest = window_rest(&walk->input);
        dot = memchr(rest.at, '.', rest.len < HEADER_TEXT ? rest.len : HEADER_TEXT);
        if (dot == NULL) {
            TRY(window_more(&walk->input, &more));
        }
    }
    if (dot == NULL) {
        return rest.len < HEADER_TEXT
                   ? walk_refuse(walk, FAULT(AUDIT_TRUNCATED), "the JWS ends within its header")
                   : walk_refuse(walk, FAULT(JWS_FORMAT), "a compact JWS has three parts with a dot between them");
    }
    struct span header = span_of(rest.at, (size_t)(dot - rest.at));
    struct fault fault = jws_stream_new(walk->op, header, AUDIT_EXPORT_TYP, walk->pins->keys, &walk->signature);
    TRY(fault_row(fault.code)->http >= 500 ? fault : OK);
    note_signature(walk, fault);
    window_take(&walk->input, header.len + 1);
    return OK;
}

struct fault bundle_begin(struct audit_walk *walk)
{
    TRY(read_header(walk));
    walk->payload = (struct window){ .max = AUDIT_RECORD_MAX + WINDOW_FIRST, .read = read_payload, .context = walk };
    return read_head(walk);
}

static struct fault read_bare(void *context, uint8_t *at, size_t size, size_t *ret_len)
{
    struct audit_walk *walk = context;
    return walk->source.read(walk->source.context, at, size, ret_len);
}

struct fault bundle_payload_begin(struct audit_walk *walk)
{
    walk->bare = walk->payload_ended = walk->signature_read = true;
    walk->payload = (struct window){ .max = AUDIT_RECORD_MAX + WINDOW_FIRST, .read = read_bare, .context = walk };
    return read_head(walk);
}

/* ---- the signature, behind the payload ---- */

static bool is_line_end(struct span text)
{
    return text.len == 0 || span_equal_text(text, "\n") || span_equal_text(text, "\r\n");
}

/* To the end of the source; one line end may stand there, as text files have it. */
static struct fault read_signature(struct audit_walk *walk)
{
    struct span rest = window_rest(&walk->input);
    bool more = true;
    walk->signature_read = true;
    if (walk->payload_cut) {
        return walk_refuse(walk, FAULT(AUDIT_TRUNCATED), "the JWS ends within its payload: there is no signature");
    }
    while (more && rest.len <= SIGNATURE_TEXT) {
        TRY(window_more(&walk->input, &more));
        rest = window_rest(&walk->input);
    }
    size_t len = 0;
    while (len < rest.len && is_base64url(rest.at[len])) {
        len++;
    }
    if (len == 0 && is_line_end(rest)) {
        return walk_refuse(walk, FAULT(AUDIT_TRUNCATED), "the JWS ends before its signature");
    }
    if (walk->signature != NULL && !FAULTED(walk->signature_fault)) {
        struct fault fault = jws_stream_end(walk->op, walk->signature, span_of(rest.at, len), &walk->key);
        TRY(fault_row(fault.code)->http >= 500 ? fault : OK);
        note_signature(walk, fault);
    }
    if (!is_line_end(span_of(rest.at + len, rest.len - len))) {
        walk->key = NULL;
        return walk_refuse(walk, FAULT(AUDIT_TRAILING), "something stands behind the signature");
    }
    return OK;
}

static void tell_signature(struct audit_walk *walk)
{
    walk->verdict.signature_good = walk->key != NULL;
    walk->verdict.kid = walk->key != NULL ? walk->key->kid : NULL;
}

void bundle_drain(struct audit_walk *walk)
{
    struct fault fault = OK;
    if (walk->bare) {
        return;
    }
    while (!FAULTED(fault) && !walk->payload_ended && walk->payload.cap > 0) {
        size_t len;
        fault = read_payload(walk, walk->payload.at, walk->payload.cap, &len);
    }
    if (!FAULTED(fault) && walk->payload_ended && !walk->signature_read) {
        IGNORE(read_signature(walk));
    }
    tell_signature(walk);
}

/* ---- the records ---- */

/* The entry at the front; *ret_len 0 = its end is not here yet. */
static bool take_plain(struct span rest, struct span *ret_record, struct sha256 *ret_chain,
                       struct record_view *ret_view, size_t *ret_len, bool *ret_odd)
{
    static const char chain[] = "{\"chain\":\"", record[] = "\",\"record\":";
    uint8_t room[2 * SHA256_LEN];
    struct buf hash = { .at = room, .cap = sizeof(room), .max = SHA256_LEN };
    size_t before = sizeof(chain) - 1 + sizeof(room), from = before + sizeof(record) - 1, len = 0;
    *ret_len = 0;
    if (rest.len <= from) {
        return true;
    }
    if (memcmp(rest.at, chain, sizeof(chain) - 1) != 0 || memcmp(rest.at + before, record, sizeof(record) - 1) != 0 ||
        FAULTED(hex_decode(span_of(rest.at + sizeof(chain) - 1, sizeof(room)), &hash))) {
        return false;
    }
    enum scan scan = record_scan(span_of(rest.at + from, rest.len - from), ret_view, &len);
    if (scan == SCAN_MORE) {
        return true;
    }
    *ret_odd = scan == SCAN_ODD;
    memcpy(ret_chain->at, room, SHA256_LEN);
    *ret_record = span_of(rest.at + from, len);
    *ret_len = from + len;
    return true;
}

/* The JSON object at the front by its brackets, for a record that takes the long way. 0 = its end is not here. */
static size_t object_len(struct span text)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t len = 0; len < text.len; len++) {
        uint8_t c = text.at[len];
        if (quoted) {
            len += c == '\\';
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return len + 1;
        }
        if (depth == 0) {
            return SIZE_MAX; /* it does not begin with a bracket */
        }
    }
    return 0;
}

static struct fault refuse_entry(struct audit_walk *walk, bool at_end)
{
    return at_end && walk->payload_cut
               ? walk_break(walk, FAULT(AUDIT_TRUNCATED), "the bundle ends within the record of sequence %lld",
                            (long long)walk->next)
               : walk_break(walk, FAULT(CHAIN_BROKEN), "the entry of sequence %lld is not well-formed",
                            (long long)walk->next);
}

static struct fault take_entry(struct audit_walk *walk, struct audit_entry *ret_entry)
{
    struct record_view view = { 0 };
    struct sha256 chain;
    struct span record = { 0 };
    for (bool more = true;;) {
        struct span rest = window_rest(&walk->payload);
        size_t len = 0;
        bool odd = false;
        if (!take_plain(rest, &record, &chain, &view, &len, &odd)) {
            return refuse_entry(walk, false);
        }
        if (len > 0 && odd) {
            size_t object = object_len(span_of(record.at, rest.len - (size_t)(record.at - rest.at)));
            if (object == SIZE_MAX) {
                return refuse_entry(walk, false);
            }
            record.len = object;
            len = object > 0 ? len + object : 0;
        }
        if (len > 0 && len < rest.len) {
            if (rest.at[len] != '}') {
                return refuse_entry(walk, false);
            }
            TRY(walk_record(walk, record, odd ? NULL : &view, &chain));
            window_take(&walk->payload, len + 1);
            *ret_entry = (struct audit_entry){ walk->next - 1, record, chain };
            return OK;
        }
        if (!more) {
            return refuse_entry(walk, true);
        }
        TRY(payload_more(walk, &more));
    }
}

/* ---- its end ---- */

static struct fault read_tail(struct audit_walk *walk)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(HEAD_MAX + TAIL_MAX);
    bool more = true;
    while (more && window_rest(&walk->payload).len <= TAIL_MAX) {
        TRY(payload_more(walk, &more));
    }
    if (!more && walk->payload_cut) {
        return walk_refuse(walk, FAULT(AUDIT_TRUNCATED), "the bundle ends behind sequence %lld, before its own end",
                           (long long)walk->next - 1);
    }
    TRY(buf_put(&json, buf_span(&walk->head)));
    struct fault fault = buf_put(&json, window_rest(&walk->payload));
    if (!FAULTED(fault)) {
        fault = audit_statement_read_bundle(walk->op, buf_span(&json), true, &walk->statement);
    }
    if (fault.code == FAULT_AUDIT_STATEMENT || fault.code == FAULT_TOO_LARGE) {
        return walk_refuse(walk, FAULT(AUDIT_STATEMENT), "behind sequence %lld the payload is not as it must be: %s",
                           (long long)walk->next - 1, walk->op->note.detail);
    }
    return fault;
}

static struct fault end(struct audit_walk *walk)
{
    TRY(read_tail(walk));
    struct fault fault = walk->bare ? OK : read_signature(walk);
    tell_signature(walk);
    TRY(fault);
    return walk_end(walk);
}

struct fault bundle_next(struct audit_walk *walk, struct audit_entry *ret_entry, bool *ret_more)
{
    bool more = true;
    while (more && window_rest(&walk->payload).len < 2) {
        TRY(payload_more(walk, &more));
    }
    struct span rest = window_rest(&walk->payload);
    uint8_t c = rest.len > 0 ? rest.at[0] : 0;
    if (c == ']') {
        *ret_more = false;
        return end(walk);
    }
    if (walk->any_entry) {
        if (c != ',') {
            return rest.len == 0
                       ? refuse_entry(walk, true)
                       : walk_break(walk, FAULT(CHAIN_BROKEN), "behind sequence %lld the list is not well-formed",
                                    (long long)walk->next - 1);
        }
        window_take(&walk->payload, 1);
    }
    walk->any_entry = true;
    return take_entry(walk, ret_entry);
}
