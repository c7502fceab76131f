#include "api/audit/verify.h"

#include "api/projection/chain.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#include <stdarg.h>
#include <stdio.h>

#define OP_LIMIT_MS (3600 * 1000)

struct fault audit_verify_op(size_t size, struct op **ret_op)
{
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(op_new("offline", (struct tenant_id){ 0 }, OP_LIMIT_MS, &op));
    struct arena *arena = NULL;
    TRY(arena_new(size * 2 + ARENA_DEFAULT_MAX, &arena));
    arena_free(op->arena);
    op->arena = arena;
    *ret_op = TAKE(op);
    return OK;
}

static struct fault PRINTF(3, 4) broken(struct audit_verdict *verdict, struct fault fault, const char *format, ...)
{
    if (verdict->reason[0] == 0) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(verdict->reason, sizeof(verdict->reason), format, args);
        va_end(args);
    }
    return fault;
}

/* ---- the fixed text of an export: canonical JSON leaves no choice, so it is read as it must stand ---- */

static bool take_text(struct reader *reader, const char *text)
{
    struct span bytes = { 0 };
    size_t len = strlen(text);
    if (reader->rest.len < len || memcmp(reader->rest.at, text, len) != 0) {
        return false;
    }
    return !FAULTED(reader_bytes(reader, len, &bytes));
}

static bool take_hash(struct reader *reader, struct sha256 *ret_hash)
{
    struct span hex = { 0 };
    uint8_t room[2 * SHA256_LEN];
    struct buf bytes = { .at = room, .cap = sizeof(room), .max = SHA256_LEN };
    if (!take_text(reader, "\"") || FAULTED(reader_bytes(reader, (size_t)2 * SHA256_LEN, &hex)) ||
        !take_text(reader, "\"") || FAULTED(hex_decode(hex, &bytes))) {
        return false;
    }
    memcpy(ret_hash->at, bytes.at, SHA256_LEN);
    return true;
}

/* Decimal without sign or leading zero, at most 18 digits. */
static bool take_count(struct reader *reader, int64_t *ret_number)
{
    int64_t number = 0;
    size_t digits = 0;
    while (digits < 18 && reader->rest.len > 0 && reader->rest.at[0] >= '0' && reader->rest.at[0] <= '9') {
        number = number * 10 + (reader->rest.at[0] - '0');
        reader->rest = span_of(reader->rest.at + 1, reader->rest.len - 1);
        digits++;
        if (number == 0) {
            break;
        }
    }
    *ret_number = number;
    return digits > 0;
}

/* A string that needs no unescaping: letters, digits and a few marks. */
static bool take_plain(struct reader *reader, char *out, size_t size)
{
    if (!take_text(reader, "\"")) {
        return false;
    }
    size_t len = 0;
    while (len < reader->rest.len && reader->rest.at[len] >= 0x20 && reader->rest.at[len] != '"' &&
           reader->rest.at[len] != '\\') {
        len++;
    }
    struct span text = { 0 };
    if (len + 1 > size || FAULTED(reader_bytes(reader, len, &text))) {
        return false;
    }
    memcpy(out, text.at, len);
    out[len] = 0;
    return take_text(reader, "\"");
}

/* The JSON object at the front, by its brackets. */
static bool take_object(struct reader *reader, struct span *ret_object)
{
    size_t depth = 0, len = 0;
    bool quoted = false;
    for (; len < reader->rest.len && len < AUDIT_RECORD_MAX; len++) {
        uint8_t c = reader->rest.at[len];
        if (quoted) {
            len += c == '\\';
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return !FAULTED(reader_bytes(reader, len + 1, ret_object));
        }
        if (depth == 0) {
            return false; /* it does not begin with a bracket */
        }
    }
    return false;
}

/* ---- one record ---- */

struct record {
    struct span actor, data;
    const char *event_id, *lane, *tenant_id, *time, *trace_id, *type;
    int64_t schema_version, sequence;
};
static const struct jin_field record_fields[] = {
    JIN_RAW(struct record, actor, JIN_REQUIRED, 2, 65536),
    JIN_RAW(struct record, data, JIN_REQUIRED, 2, AUDIT_RECORD_MAX),
    JIN_TEXT(struct record, event_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct record, lane, JIN_REQUIRED, 1, 64),
    JIN_INT(struct record, schema_version, JIN_REQUIRED, 1, INT32_MAX),
    JIN_INT(struct record, sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_TEXT(struct record, tenant_id, JIN_REQUIRED, 1, 63),
    JIN_TEXT(struct record, time, JIN_REQUIRED, 20, RFC3339_MAX),
    JIN_TEXT(struct record, trace_id, JIN_REQUIRED, 0, 64),
    JIN_TEXT(struct record, type, JIN_REQUIRED, 1, 128),
};

struct walk {
    struct op *scratch; /* its arena is emptied for every record */
    struct audit_verdict *verdict;
    struct buf canonical;
    struct sha256 chain;
    int64_t next; /* the sequence that comes now */
};

static struct fault decode_record(struct walk *walk, struct span bytes, struct record *ret_record)
{
    buf_clear(&walk->canonical);
    arena_clear(walk->scratch->arena);
    walk->scratch->note = (struct fault_note){ 0 };
    struct fault fault = json_canonical(bytes, &walk->canonical);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault) || !span_equal(buf_span(&walk->canonical), bytes)) {
        return broken(walk->verdict, FAULT(CHAIN_BROKEN), "record at sequence %lld is not canonical JSON",
                      (long long)walk->next);
    }
    fault = jin_decode(walk->scratch, bytes, record_fields, COUNT_OF(record_fields), ret_record);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return broken(walk->verdict, FAULT(CHAIN_BROKEN), "record at sequence %lld: %.100s", (long long)walk->next,
                      walk->scratch->note.detail);
    }
    return OK;
}

static struct fault check_record(struct walk *walk, struct span bytes, const struct sha256 *stated)
{
    struct record record = { 0 };
    struct sha256 chain;
    TRY(audit_chain_next(&walk->chain, bytes, &chain));
    if (memcmp(chain.at, stated->at, SHA256_LEN) != 0) {
        return broken(
            walk->verdict, FAULT(CHAIN_BROKEN),
            "record at sequence %lld does not hash to its chain value: it, or what stands before it, was altered, "
            "dropped, inserted or reordered",
            (long long)walk->next);
    }
    TRY(decode_record(walk, bytes, &record));
    if (record.sequence != walk->next) {
        return broken(walk->verdict, FAULT(CHAIN_BROKEN), "sequence %lld is expected and the record says %lld",
                      (long long)walk->next, (long long)record.sequence);
    }
    if (strcmp(record.tenant_id, walk->verdict->tenant.text) != 0) {
        return broken(walk->verdict, FAULT(CHAIN_BROKEN), "record at sequence %lld belongs to another tenant",
                      (long long)walk->next);
    }
    walk->chain = chain;
    return OK;
}

static struct fault walk_records(struct walk *walk, struct reader *reader)
{
    struct audit_verdict *verdict = walk->verdict;
    if (take_text(reader, "]")) {
        return OK;
    }
    for (;;) {
        struct sha256 stated;
        struct span bytes = { 0 };
        verdict->broken_sequence = walk->next;
        if (!take_text(reader, "{\"chain\":") || !take_hash(reader, &stated) || !take_text(reader, ",\"record\":") ||
            !take_object(reader, &bytes) || !take_text(reader, "}")) {
            return broken(verdict, FAULT(CHAIN_BROKEN), "the entry of sequence %lld is not well-formed",
                          (long long)walk->next);
        }
        struct fault fault = check_record(walk, bytes, &stated);
        if (!FAULTED(fault) || fault.code == FAULT_NO_MEMORY) {
            verdict->broken_sequence = 0; /* want of memory accuses no record */
        }
        TRY(fault);
        verdict->checked++;
        walk->next++;
        if (take_text(reader, "]")) {
            return OK;
        }
        if (!take_text(reader, ",")) {
            return broken(verdict, FAULT(CHAIN_BROKEN), "after sequence %lld the list is not well-formed",
                          (long long)walk->next - 1);
        }
    }
}

/* ---- the whole payload ---- */

static bool take_head(struct reader *reader, struct audit_verdict *verdict, struct sha256 *ret_head,
                      struct sha256 *ret_seed)
{
    return take_text(reader, "{\"chain_head\":") && take_hash(reader, ret_head) &&
           take_text(reader, ",\"chain_seed\":") && take_hash(reader, ret_seed) && take_text(reader, ",\"count\":") &&
           take_count(reader, &verdict->count) && take_text(reader, ",\"exported_at\":") &&
           take_plain(reader, verdict->exported_at, sizeof(verdict->exported_at)) &&
           take_text(reader, ",\"first_sequence\":") && take_count(reader, &verdict->first_sequence) &&
           take_text(reader, ",\"format\":\"" AUDIT_EXPORT_FORMAT "\",\"last_sequence\":") &&
           take_count(reader, &verdict->last_sequence) && take_text(reader, ",\"records\":[");
}

/* canonical JSON puts tenant_id behind the records; it is looked up first, since every record must name it */
static bool find_tenant(struct span payload, struct audit_verdict *verdict)
{
    static const char mark[] = "],\"tenant_id\":\"";
    size_t len = sizeof(mark) - 1, longest = len + sizeof(verdict->tenant.text) + 2;
    size_t from = payload.len > longest ? payload.len - longest : 0;
    for (size_t i = payload.len; i-- > from;) {
        if (payload.len - i >= len && memcmp(payload.at + i, mark, len) == 0) {
            const uint8_t *at = payload.at + i + len;
            const uint8_t *end = memchr(at, '"', payload.len - i - len);
            return end != NULL && payload.at + payload.len - end == 2 && end[1] == '}' &&
                   !FAULTED(tenant_id_parse(span_of(at, (size_t)(end - at)), &verdict->tenant));
        }
    }
    return false;
}

static struct fault check_totals(const struct walk *walk, const struct sha256 *head)
{
    struct audit_verdict *verdict = walk->verdict;
    int64_t covered = verdict->count == 0 ? 0 : verdict->last_sequence - verdict->first_sequence + 1;
    if (verdict->count == 0 && (verdict->first_sequence != 0 || verdict->last_sequence != 0)) {
        return broken(verdict, FAULT(CHAIN_HEAD), "no record is stated, and yet the sequences %lld to %lld",
                      (long long)verdict->first_sequence, (long long)verdict->last_sequence);
    }
    if (verdict->checked != verdict->count || covered != verdict->count) {
        return broken(verdict, FAULT(CHAIN_HEAD), "%lld records are here, %lld are stated: the export is incomplete",
                      (long long)verdict->checked, (long long)verdict->count);
    }
    if (memcmp(head->at, walk->chain.at, SHA256_LEN) != 0) {
        return broken(verdict, FAULT(CHAIN_HEAD), "the stated chain head is not the hash of the last record");
    }
    return OK;
}

static struct fault walk_payload(struct walk *walk, struct span payload)
{
    struct audit_verdict *verdict = walk->verdict;
    struct reader reader = { payload };
    struct sha256 head, zero = { 0 };
    if (!take_head(&reader, verdict, &head, &walk->chain) || !find_tenant(payload, verdict)) {
        return broken(verdict, FAULT(JWS_FORMAT), "the payload is not an audit export of format " AUDIT_EXPORT_FORMAT);
    }
    if (verdict->first_sequence < 1 && verdict->count > 0) {
        return broken(verdict, FAULT(JWS_FORMAT), "the first sequence must be 1 or more");
    }
    walk->next = verdict->count == 0 ? 1 : verdict->first_sequence;
    if (verdict->first_sequence == 1 && memcmp(walk->chain.at, zero.at, SHA256_LEN) != 0) {
        verdict->broken_sequence = 1;
        return broken(verdict, FAULT(CHAIN_BROKEN), "the chain before sequence 1 must be all zero");
    }
    TRY(walk_records(walk, &reader));
    if (!take_text(&reader, ",\"tenant_id\":\"") || !take_text(&reader, verdict->tenant.text) ||
        !take_text(&reader, "\"}") || reader.rest.len != 0) {
        return broken(verdict, FAULT(JWS_FORMAT), "after sequence %lld the payload is not well-formed",
                      (long long)walk->next - 1);
    }
    return check_totals(walk, &head);
}

struct fault audit_verify_payload(struct op *op, struct span payload, struct audit_verdict *verdict)
{
    (void)op;
    CLEANUP(op_freep) struct op *scratch = NULL;
    TRY(op_new("offline", (struct tenant_id){ 0 }, OP_LIMIT_MS, &scratch));
    struct walk walk = { .scratch = scratch, .verdict = verdict, .canonical = BUF_INIT(AUDIT_RECORD_MAX + 1024) };
    struct fault fault = walk_payload(&walk, payload);
    verdict->head = walk.chain;
    verdict->chain_good = !FAULTED(fault);
    buf_free(&walk.canonical);
    return fault;
}

/* What stands between the dots, unverified: to say which record was altered when the signature no longer fits. */
static struct fault unverified_payload(struct op *op, struct span compact, struct span *ret_payload)
{
    const uint8_t *first = memchr(compact.at, '.', compact.len);
    REQUIRE(first != NULL, JWS_FORMAT);
    size_t rest = compact.len - (size_t)(first + 1 - compact.at);
    const uint8_t *second = memchr(first + 1, '.', rest);
    REQUIRE(second != NULL, JWS_FORMAT);
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(compact.len);
    REQUIRE(!FAULTED(base64url_decode(span_of(first + 1, (size_t)(second - first - 1)), &bytes)), JWS_FORMAT);
    return arena_copy(op->arena, buf_span(&bytes), ret_payload);
}

struct fault audit_verify_jws(struct op *op, struct span compact, const struct jwk_set *keys,
                              struct audit_verdict *ret_verdict)
{
    struct audit_verdict verdict = { 0 };
    struct span payload = { 0 };
    struct fault signature = jws_verify(op, compact, AUDIT_EXPORT_TYP, keys, &payload, &verdict.kid);
    verdict.signature_good = !FAULTED(signature);
    if (signature.code == FAULT_NO_MEMORY) {
        *ret_verdict = verdict; /* neither good nor bad */
        return signature;
    }
    struct fault walked = verdict.signature_good ? OK : unverified_payload(op, compact, &payload);
    if (!FAULTED(walked)) {
        walked = audit_verify_payload(op, payload, &verdict);
    }
    if (!verdict.signature_good && verdict.reason[0] == 0) {
        IGNORE(broken(&verdict, signature, "%s",
                      signature.code == FAULT_JWS_KEY ? "no pinned key matches the signature's key id"
                      : verdict.chain_good ? "all records hash well: the header or the signature was altered, or "
                                             "it was signed by another key"
                                           : "this is not a compact JWS of an audit export"));
    }
    *ret_verdict = verdict;
    return FAULTED(signature) ? signature : walked;
}
