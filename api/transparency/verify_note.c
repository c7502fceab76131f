/*
 * Checkpoints: signed notes (C2SP signed-note, tlog-checkpoint).
 *
 *     rekor.example.com - 123        origin
 *     42                             tree size
 *     pBr...=                        root hash
 *     (lines that are signed too and mean nothing here)
 *                                    an empty line
 *     — rekor.example.com wNI9a...   signature: base64 of 4 bytes of the key's id, then the signature
 */
#include "api/transparency/verify_internal.h"

#include "appliance/base/codec.h"
#include "appliance/base/utf8.h"

static const char dash[] = "\xe2\x80\x94 ";
#define DASH_LEN (sizeof(dash) - 1)

/* Takes the line in front, without its newline. False when there is none. */
static bool take_line(struct span *rest, struct span *ret_line)
{
    const uint8_t *end = rest->len > 0 ? memchr(rest->at, '\n', rest->len) : NULL;
    if (end == NULL) {
        return false;
    }
    size_t len = (size_t)(end - rest->at);
    *ret_line = span_of(rest->at, len);
    *rest = span_of(end + 1, rest->len - len - 1);
    return true;
}

static struct fault read_size(struct op *op, struct span line, uint64_t *ret_size)
{
    uint64_t size = 0;
    bool good = line.len > 0 && line.len <= 16 && (line.len == 1 || line.at[0] != '0');
    for (size_t i = 0; good && i < line.len; i++) {
        good = line.at[i] >= '0' && line.at[i] <= '9';
        size = size * 10 + (good ? line.at[i] - (uint64_t)'0' : 0);
    }
    if (!good || size > (uint64_t)TLOG_NUMBER_MAX) {
        return tlog_refuse(op, "the checkpoint's second line is no tree size");
    }
    *ret_size = size;
    return OK;
}

static struct fault read_root(struct op *op, struct span line, struct sha256 *ret_root)
{
    CLEANUP(buf_free) struct buf root = BUF_INIT(128);
    struct fault fault = base64_decode(line, &root);
    if (tlog_is_refusal(fault) || (!FAULTED(fault) && root.len != SHA256_LEN)) {
        return tlog_refuse(op, "the checkpoint's third line is no root hash");
    }
    TRY(fault);
    memcpy(ret_root->at, root.at, SHA256_LEN);
    return OK;
}

static struct fault read_signature(struct op *op, struct span line, struct note_signature *ret_signature)
{
    if (line.len <= DASH_LEN || memcmp(line.at, dash, DASH_LEN) != 0) {
        return tlog_refuse(op, "a signature line of the checkpoint does not begin with a dash");
    }
    struct span rest = span_of(line.at + DASH_LEN, line.len - DASH_LEN);
    const uint8_t *blank = memchr(rest.at, ' ', rest.len);
    if (blank == NULL || blank == rest.at) {
        return tlog_refuse(op, "a signature line of the checkpoint has no name");
    }
    size_t name_len = (size_t)(blank - rest.at);
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(4096);
    struct fault fault = base64_decode(span_of(blank + 1, rest.len - name_len - 1), &bytes);
    if (tlog_is_refusal(fault) || (!FAULTED(fault) && bytes.len <= sizeof(ret_signature->hint))) {
        return tlog_refuse(op, "a signature of the checkpoint is not base64 of a key id and a signature");
    }
    TRY(fault);
    ret_signature->name = span_of(rest.at, name_len);
    memcpy(ret_signature->hint, bytes.at, sizeof(ret_signature->hint));
    return arena_copy(op->arena, span_of(bytes.at + 4, bytes.len - 4), &ret_signature->signature);
}

static struct fault read_signatures(struct op *op, struct span lines, struct note *note)
{
    struct span line;
    while (lines.len > 0) {
        if (!take_line(&lines, &line)) {
            return tlog_refuse(op, "the checkpoint does not end with a newline");
        }
        if (note->signature_count == NOTE_SIGNATURES_MAX) {
            return tlog_refuse(op, "the checkpoint has more than %d signatures", NOTE_SIGNATURES_MAX);
        }
        TRY(read_signature(op, line, &note->signatures[note->signature_count]));
        note->signature_count++;
    }
    return note->signature_count > 0 ? OK : tlog_refuse(op, "the checkpoint is not signed");
}

/* Where the signed text ends: behind the first newline of the last "\n\n". */
static struct fault split(struct op *op, struct span envelope, struct span *ret_text, struct span *ret_lines)
{
    for (size_t at = envelope.len; at >= 2; at--) {
        if (envelope.at[at - 1] == '\n' && envelope.at[at - 2] == '\n') {
            *ret_text = span_of(envelope.at, at - 1);
            *ret_lines = span_of(envelope.at + at, envelope.len - at);
            return OK;
        }
    }
    return tlog_refuse(op, "the checkpoint has no empty line before its signatures");
}

struct fault note_parse(struct op *op, struct span envelope, struct note *ret_note)
{
    struct note note = { 0 };
    struct span lines = { 0 }, size = { 0 }, root = { 0 };
    if (envelope.len > NOTE_MAX || FAULTED(utf8_check(envelope))) {
        return tlog_refuse(op, "the checkpoint is longer than %zu bytes, or not UTF-8", NOTE_MAX);
    }
    TRY(split(op, envelope, &note.text, &lines));
    struct span rest = note.text;
    if (!take_line(&rest, &note.origin) || note.origin.len == 0 || !take_line(&rest, &size) ||
        !take_line(&rest, &root)) {
        return tlog_refuse(op, "the checkpoint lacks its origin, tree size or root hash");
    }
    TRY(read_size(op, size, &note.size));
    TRY(read_root(op, root, &note.root));
    TRY(read_signatures(op, lines, &note));
    *ret_note = note;
    return OK;
}

/* Does this line name this key? By its note id; Rekor v1 calls an Ed25519 key by its SPKI, too. */
static struct fault names_key(const struct note_signature *line, const struct tlog_key *key, bool *ret_named,
                              struct sha256 *ret_id)
{
    struct sha256 plain;
    TRY(tlog_note_key_id(key->spki, line->name, ret_id));
    TRY(tlog_key_id(key->spki, &plain));
    *ret_named = memcmp(ret_id->at, line->hint, sizeof(line->hint)) == 0;
    if (!*ret_named && memcmp(plain.at, line->hint, sizeof(line->hint)) == 0) {
        *ret_named = true;
        *ret_id = plain;
    }
    return OK;
}

static bool reaches(const struct tlog_key *key, utc_us at)
{
    return key->valid_until == 0 || (at != 0 && at < key->valid_until);
}

/* What one signature line and one key have to do with each other. */
struct finding {
    const struct tlog_key *key; /* signed, and had not ended */
    struct sha256 id;
    bool ended; /* one signed, but had ended */
};

static struct fault check_line(struct op *op, const struct note *note, const struct note_signature *line,
                               const struct tlog_key *key, utc_us at, struct finding *finding)
{
    struct sha256 id;
    bool named = false;
    TRY(names_key(line, key, &named, &id));
    if (!named) {
        return OK;
    }
    if (!tlog_signature_good(key->spki, note->text, line->signature)) {
        return tlog_refuse(op, "the checkpoint's signature does not verify under the pinned key");
    }
    if (!reaches(key, at)) {
        finding->ended = true;
    } else if (finding->key == NULL) {
        finding->key = key;
        finding->id = id;
    }
    return OK;
}

struct fault note_check(struct op *op, const struct note *note, const struct tlog_trust *trust, utc_us at,
                        const struct tlog_key **ret_key, struct sha256 *ret_id)
{
    struct finding finding = { 0 };
    if (trust->origin != NULL && !span_equal_text(note->origin, trust->origin)) {
        return tlog_refuse(op, "the checkpoint is of another origin than \"%s\"", trust->origin);
    }
    for (size_t i = 0; i < note->signature_count; i++) {
        for (size_t j = 0; j < trust->key_count; j++) {
            TRY(check_line(op, note, &note->signatures[i], &trust->keys[j], at, &finding));
        }
    }
    if (finding.key == NULL) {
        return finding.ended ? tlog_refuse(op, "the key that signed the checkpoint had ended when the entry was made")
                             : tlog_refuse(op, "no pinned key signed the checkpoint");
    }
    *ret_key = finding.key;
    *ret_id = finding.id;
    return OK;
}
