#include "api/audit/verify_proof.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

/* ---- printing: members in RFC 8785 order ---- */

struct fault audit_head_print(const struct audit_head *head, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_hex(&jout, "chain_head", SPAN_ARRAY(head->chain_head.at));
    jout_key_text(&jout, "format", AUDIT_HEAD_FORMAT);
    jout_key_int(&jout, "generation", head->generation);
    jout_key_int(&jout, "sequence", head->tree_size);
    jout_key_text(&jout, "tenant_id", head->tenant.text);
    jout_key_text(&jout, "time", head->time);
    if (head->timestamp.len > 0) {
        jout_key_base64(&jout, "timestamp", head->timestamp);
    }
    jout_key_hex(&jout, "tree_root", SPAN_ARRAY(head->tree_root.at));
    jout_key_int(&jout, "tree_size", head->tree_size);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static void put_nodes(struct jout *jout, const struct audit_nodes *nodes)
{
    jout_key(jout, "proof");
    jout_array(jout);
    for (size_t i = 0; i < nodes->count; i++) {
        jout_hex(jout, SPAN_ARRAY(nodes->at[i].at));
    }
    jout_array_end(jout);
}

static void put_span(struct jout *jout, const char *key, struct span text)
{
    jout_key(jout, key);
    jout_span_text(jout, text);
}

struct fault audit_inclusion_print(const struct audit_inclusion *inclusion, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_hex(&jout, "chain", SPAN_ARRAY(inclusion->chain.at));
    jout_key_hex(&jout, "chain_seed", SPAN_ARRAY(inclusion->seed.at));
    jout_key_text(&jout, "format", AUDIT_INCLUSION_FORMAT);
    put_span(&jout, "head", inclusion->head);
    jout_key_int(&jout, "index", inclusion->sequence - 1);
    put_nodes(&jout, &inclusion->proof);
    jout_key_raw(&jout, "record", inclusion->record);
    jout_key_int(&jout, "sequence", inclusion->sequence);
    jout_key_int(&jout, "tree_size", inclusion->tree_size);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault audit_consistency_print(const struct audit_consistency *consistency, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_int(&jout, "first", consistency->first);
    jout_key_hex(&jout, "first_root", SPAN_ARRAY(consistency->first_root.at));
    jout_key_text(&jout, "format", AUDIT_CONSISTENCY_FORMAT);
    put_span(&jout, "head", consistency->head);
    put_nodes(&jout, &consistency->proof);
    jout_key_int(&jout, "second", consistency->second);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* ---- reading: by table, then printed again and compared, so that there is one way to write each ---- */

#define NUMBER_MAX ((int64_t)1 << 53)

struct form {
    const char *what, *format;
    enum fault_code code;
};

/* The note of the table's reader becomes the one of ours. */
static struct fault read_fields(struct op *op, const struct form *form, struct span bytes,
                                const struct jin_field *fields, size_t count, void *ret_struct)
{
    struct fault fault = jin_decode(op, bytes, fields, count, ret_struct);
    if (!FAULTED(fault) || fault.code == FAULT_NO_MEMORY) {
        return fault;
    }
    struct fault_note note = op->note;
    op->note = (struct fault_note){ 0 };
    return op_fail(op, (struct fault){ form->code }, "this is no %s of format %s: %s: %s", form->what, form->format,
                   note.pointer[0] != '\0' ? note.pointer : "/",
                   note.detail[0] != '\0' ? note.detail : fault_row(fault.code)->title);
}

static struct fault other_bytes(struct op *op, const struct form *form)
{
    return op_fail(op, (struct fault){ form->code },
                   "this %s is not the canonical form of what it says: it was written again by another program",
                   form->what);
}

static struct sha256 hash_of(struct span bytes) /* the table has seen to its length */
{
    struct sha256 hash;
    BUG_IF(bytes.len != SHA256_LEN);
    memcpy(hash.at, bytes.at, SHA256_LEN);
    return hash;
}

static struct fault read_nodes(struct op *op, const struct form *form, const struct jin_texts *texts,
                               struct audit_nodes *nodes)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(SHA256_LEN);
    for (size_t i = 0; i < texts->count; i++) {
        buf_clear(&bytes);
        struct fault fault = strlen(texts->at[i]) == 2 * SHA256_LEN ? hex_decode(span_text(texts->at[i]), &bytes)
                                                                    : (struct fault){ form->code };
        if (fault.code == FAULT_NO_MEMORY) {
            return fault;
        }
        if (FAULTED(fault)) {
            return op_fail(op, (struct fault){ form->code }, "node %zu of the proof is not a SHA-256 value in hex", i);
        }
        nodes->at[i] = hash_of(buf_span(&bytes));
    }
    nodes->count = texts->count;
    return OK;
}

struct head_json {
    struct span chain_head, timestamp, tree_root;
    const char *format, *tenant_id, *time;
    int64_t generation, sequence, tree_size;
};
static const struct jin_field head_fields[] = {
    JIN_HEX(struct head_json, chain_head, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct head_json, format, JIN_REQUIRED, 1, 64),
    JIN_INT(struct head_json, generation, JIN_REQUIRED, 1, NUMBER_MAX),
    JIN_INT(struct head_json, sequence, JIN_REQUIRED, 0, NUMBER_MAX),
    JIN_TEXT(struct head_json, tenant_id, JIN_REQUIRED, 1, 63),
    JIN_TEXT(struct head_json, time, JIN_REQUIRED, 1, RFC3339_MAX - 1),
    JIN_BASE64(struct head_json, timestamp, JIN_OPTIONAL, 1, AUDIT_TIMESTAMP_MAX),
    JIN_HEX(struct head_json, tree_root, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct head_json, tree_size, JIN_REQUIRED, 0, NUMBER_MAX),
};

struct fault audit_head_read(struct op *op, struct span payload, struct audit_head *ret_head)
{
    static const struct form form = { "signed head", AUDIT_HEAD_FORMAT, FAULT_AUDIT_STATEMENT };
    CLEANUP(buf_free) struct buf again = BUF_INIT(AUDIT_HEAD_MAX);
    struct head_json json = { 0 };
    utc_us time = 0;
    TRY(read_fields(op, &form, payload, head_fields, COUNT_OF(head_fields), &json));
    struct audit_head head = { .generation = json.generation,
                               .tree_size = json.tree_size,
                               .chain_head = hash_of(json.chain_head),
                               .tree_root = hash_of(json.tree_root),
                               .timestamp = json.timestamp };
    if (FAULTED(tenant_id_parse(span_text(json.tenant_id), &head.tenant)) ||
        FAULTED(rfc3339_parse(span_text(json.time), &time))) {
        return op_fail(op, FAULT(AUDIT_STATEMENT), "the signed head's tenant_id or time is malformed");
    }
    rfc3339_print(time, head.time);
    if (json.sequence != json.tree_size) {
        return op_fail(op, FAULT(AUDIT_STATEMENT), "the signed head is over %lld records and names %lld as the newest",
                       (long long)json.tree_size, (long long)json.sequence);
    }
    TRY(audit_head_print(&head, &again));
    if (strcmp(json.format, AUDIT_HEAD_FORMAT) != 0 || !span_equal(buf_span(&again), payload)) {
        return other_bytes(op, &form);
    }
    *ret_head = head;
    return OK;
}

struct inclusion_json {
    struct span chain, chain_seed, record;
    const char *format, *head;
    int64_t index, sequence, tree_size;
    struct jin_texts proof;
};
static const struct jin_field inclusion_fields[] = {
    JIN_HEX(struct inclusion_json, chain, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_HEX(struct inclusion_json, chain_seed, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct inclusion_json, format, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct inclusion_json, head, JIN_REQUIRED, 1, AUDIT_HEAD_MAX),
    JIN_INT(struct inclusion_json, index, JIN_REQUIRED, 0, NUMBER_MAX),
    JIN_TEXTS(struct inclusion_json, proof, JIN_REQUIRED, 0, AUDIT_PROOF_MAX),
    JIN_RAW(struct inclusion_json, record, JIN_REQUIRED, 2, AUDIT_RECORD_MAX),
    JIN_INT(struct inclusion_json, sequence, JIN_REQUIRED, 1, NUMBER_MAX),
    JIN_INT(struct inclusion_json, tree_size, JIN_REQUIRED, 1, NUMBER_MAX),
};

struct fault audit_inclusion_read(struct op *op, struct span bytes, struct audit_inclusion *ret_inclusion)
{
    static const struct form form = { "proof of inclusion", AUDIT_INCLUSION_FORMAT, FAULT_AUDIT_PROOF };
    CLEANUP(buf_free) struct buf again = BUF_INIT(AUDIT_PROOF_FILE_MAX);
    struct inclusion_json json = { 0 };
    TRY(read_fields(op, &form, bytes, inclusion_fields, COUNT_OF(inclusion_fields), &json));
    struct audit_inclusion inclusion = { .sequence = json.sequence,
                                         .tree_size = json.tree_size,
                                         .seed = hash_of(json.chain_seed),
                                         .chain = hash_of(json.chain),
                                         .record = json.record,
                                         .head = span_text(json.head) };
    TRY(read_nodes(op, &form, &json.proof, &inclusion.proof));
    if (json.index != json.sequence - 1 || json.sequence > json.tree_size) {
        return op_fail(op, FAULT(AUDIT_PROOF), "record %lld cannot stand at index %lld of %lld",
                       (long long)json.sequence, (long long)json.index, (long long)json.tree_size);
    }
    TRY(audit_inclusion_print(&inclusion, &again));
    if (strcmp(json.format, AUDIT_INCLUSION_FORMAT) != 0 || !span_equal(buf_span(&again), bytes)) {
        return other_bytes(op, &form);
    }
    *ret_inclusion = inclusion;
    return OK;
}

struct consistency_json {
    int64_t first, second;
    struct span first_root;
    const char *format, *head;
    struct jin_texts proof;
};
static const struct jin_field consistency_fields[] = {
    JIN_INT(struct consistency_json, first, JIN_REQUIRED, 0, NUMBER_MAX),
    JIN_HEX(struct consistency_json, first_root, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct consistency_json, format, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct consistency_json, head, JIN_REQUIRED, 1, AUDIT_HEAD_MAX),
    JIN_TEXTS(struct consistency_json, proof, JIN_REQUIRED, 0, AUDIT_PROOF_MAX),
    JIN_INT(struct consistency_json, second, JIN_REQUIRED, 0, NUMBER_MAX),
};

struct fault audit_consistency_read(struct op *op, struct span bytes, struct audit_consistency *ret_consistency)
{
    static const struct form form = { "proof of consistency", AUDIT_CONSISTENCY_FORMAT, FAULT_AUDIT_PROOF };
    CLEANUP(buf_free) struct buf again = BUF_INIT(AUDIT_PROOF_FILE_MAX);
    struct consistency_json json = { 0 };
    TRY(read_fields(op, &form, bytes, consistency_fields, COUNT_OF(consistency_fields), &json));
    struct audit_consistency consistency = {
        .first = json.first, .second = json.second, .first_root = hash_of(json.first_root), .head = span_text(json.head)
    };
    TRY(read_nodes(op, &form, &json.proof, &consistency.proof));
    if (json.first > json.second) {
        return op_fail(op, FAULT(AUDIT_PROOF), "%lld records cannot be the beginning of %lld", (long long)json.first,
                       (long long)json.second);
    }
    TRY(audit_consistency_print(&consistency, &again));
    if (strcmp(json.format, AUDIT_CONSISTENCY_FORMAT) != 0 || !span_equal(buf_span(&again), bytes)) {
        return other_bytes(op, &form);
    }
    *ret_consistency = consistency;
    return OK;
}
