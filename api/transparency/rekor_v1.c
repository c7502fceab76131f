/* Rekor v1: POST /api/v1/log/entries with a hashedrekord 0.0.1. */
#include "api/transparency/internal.h"

#include "appliance/base/codec.h"

#define ENTRIES     "/api/v1/log/entries"
#define REQUEST_MAX ((size_t)128 << 10)
#define PEM_MAX     ((size_t)48 << 10)
#define PEM_LINE    64u

static struct fault print_pem(const char *label, struct span der, struct buf *out)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(PEM_MAX);
    TRY(base64_encode(der, &text));
    TRY(buf_printf(out, "-----BEGIN %s-----\n", label));
    for (size_t at = 0; at < text.len; at += PEM_LINE) {
        size_t len = text.len - at < PEM_LINE ? text.len - at : PEM_LINE;
        TRY(buf_put(out, span_of(text.at + at, len)));
        TRY(buf_u8(out, '\n'));
    }
    return buf_printf(out, "-----END %s-----\n", label);
}

static void print_spec(struct jout *jout, const struct submission *submission, struct span pem)
{
    jout_key(jout, "data");
    jout_object(jout);
    jout_key(jout, "hash");
    jout_object(jout);
    jout_key_text(jout, "algorithm", submission->digest_algorithm);
    jout_key_hex(jout, "value", submission->digest);
    jout_object_end(jout);
    jout_object_end(jout);
    jout_key(jout, "signature");
    jout_object(jout);
    jout_key_base64(jout, "content", submission->signature);
    jout_key(jout, "publicKey");
    jout_object(jout);
    jout_key_base64(jout, "content", pem);
    jout_object_end(jout);
    jout_object_end(jout);
}

static struct fault print_request(const struct submission *submission, struct buf *out)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(PEM_MAX);
    bool certified = submission->certificate.len > 0;
    TRY(print_pem(certified ? "CERTIFICATE" : "PUBLIC KEY",
                  certified ? submission->certificate : submission->public_key, &pem));
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "apiVersion", "0.0.1");
    jout_key_text(&jout, "kind", "hashedrekord");
    jout_key(&jout, "spec");
    jout_object(&jout);
    print_spec(&jout, submission, buf_span(&pem));
    jout_object_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* {"<id>": {...}}, one member. */
static bool only_member(struct op *op, struct view object, const char **ret_name, struct view *ret_value)
{
    struct span json = object.json;
    const uint8_t *end = json.len > 4 && json.at[1] == '"' ? memchr(json.at + 2, '"', json.len - 2) : NULL;
    if (json.len < 4 || json.at[0] != '{' || end == NULL) {
        return false;
    }
    struct span name = span_of(json.at + 2, (size_t)(end - json.at) - 2);
    for (size_t i = 0; i < name.len; i++) {
        bool hex = (name.at[i] >= '0' && name.at[i] <= '9') || (name.at[i] >= 'a' && name.at[i] <= 'f');
        if (!hex) {
            return false;
        }
    }
    if (FAULTED(arena_text(op->arena, name, ret_name))) {
        return false;
    }
    *ret_value = view_get(object, *ret_name);
    return ret_value->json.len > 0 && ret_value->json.at + ret_value->json.len + 1 == json.at + json.len;
}

static struct fault read_hex(struct op *op, struct view object, const char *path, struct span *ret_bytes)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(64);
    const char *text = view_member(op, object, path);
    REQUIRE(text != NULL, JSON_FIELD);
    TRY(hex_decode(span_text(text), &bytes));
    return arena_copy(op->arena, buf_span(&bytes), ret_bytes);
}

static struct fault read_proof(struct op *op, struct view proof, struct tlog_entry *entry)
{
    struct view list = view_get(proof, "hashes"), item;
    TRY(view_int(view_get(proof, "logIndex"), &entry->proof_index));
    TRY(view_int(view_get(proof, "treeSize"), &entry->tree_size));
    TRY(read_hex(op, proof, "rootHash", &entry->root_hash));
    TRY(arena_take(op->arena, TLOG_HASHES_MAX, sizeof(*entry->hashes), &entry->hashes));
    while (view_next(&list, &item)) {
        CLEANUP(buf_free) struct buf bytes = BUF_INIT(64);
        const char *text = view_text(op, item);
        REQUIRE(entry->hash_count < TLOG_HASHES_MAX && text != NULL, JSON_FIELD);
        TRY(hex_decode(span_text(text), &bytes));
        TRY(arena_copy(op->arena, buf_span(&bytes), &entry->hashes[entry->hash_count]));
        entry->hash_count++;
    }
    entry->checkpoint = view_member(op, proof, "checkpoint");
    REQUIRE(entry->checkpoint != NULL, JSON_FIELD);
    return OK;
}

static struct fault read_entry(struct op *op, struct view object, struct tlog_entry *entry)
{
    TRY(view_base64(op, view_get(object, "body"), &entry->body));
    TRY(view_int(view_get(object, "integratedTime"), &entry->integrated_time));
    TRY(read_hex(op, object, "logID", &entry->log_id));
    TRY(view_int(view_get(object, "logIndex"), &entry->log_index));
    TRY(view_base64(op, view_get(object, "verification.signedEntryTimestamp"), &entry->set));
    REQUIRE(entry->set.len > 0, JSON_FIELD);
    return read_proof(op, view_get(object, "verification.inclusionProof"), entry);
}

/* The id ends with the hash of the leaf: it names this body and no other. */
static bool id_fits(const char *id, struct span body)
{
    struct sha256 leaf;
    char text[2 * SHA256_LEN + 1];
    size_t len = strlen(id);
    if ((len != 64 && len != 80) || FAULTED(tlog_leaf_hash(body, &leaf))) {
        return false;
    }
    hex_text(SPAN_ARRAY(leaf.at), text, sizeof(text));
    return strcmp(id + len - 64, text) == 0;
}

struct fault rekor_v1_read(struct op *op, struct span body, struct tlog_entry *ret_entry, const char **ret_entry_id)
{
    struct tlog_entry entry = { .kind = "hashedrekord", .version = "0.0.1" };
    struct view answer, object;
    const char *id = NULL;
    TRY(tlog_view(op, body, &answer));
    struct fault fault = only_member(op, answer, &id, &object) ? read_entry(op, object, &entry) : FAULT(JSON_FIELD);
    if (tlog_is_refusal(fault) || (!FAULTED(fault) && !id_fits(id, entry.body))) {
        return tlog_refuse(op, "the log's answer is no entry with timestamp and inclusion proof, or its id is wrong");
    }
    TRY(fault);
    *ret_entry = entry;
    *ret_entry_id = id;
    return OK;
}

/* The log has it already: from an earlier try whose answer did not arrive, or from somebody else. */
static struct fault fetch(struct op *op, struct submit *submit, const char *location, struct tlog_entry *ret_entry,
                          const char **ret_entry_id)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const char *path = NULL;
    TRY(tlog_location(op, submit->log->url, location, &path));
    TRY(tlog_get(op, submit, path, &answer));
    if (answer.status == 404) {
        return op_fail(op, FAULT(TLOG_UNAVAILABLE), "the log %s does not show the entry yet; it is asked again",
                       submit->log->name);
    }
    return rekor_v1_read(op, buf_span(&answer.body), ret_entry, ret_entry_id);
}

struct fault rekor_v1_submit(struct op *op, struct submit *submit, struct tlog_entry *ret_entry,
                             const char **ret_entry_id)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf request = BUF_INIT(REQUEST_MAX);
    TRY(print_request(submit->submission, &request));
    TRY(tlog_post(op, submit, ENTRIES, buf_span(&request), &answer));
    if (answer.status == 409) {
        return fetch(op, submit, answer.location, ret_entry, ret_entry_id);
    }
    return rekor_v1_read(op, buf_span(&answer.body), ret_entry, ret_entry_id);
}
