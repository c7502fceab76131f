/* Sigstore's TransparencyLogEntry: protobuf's JSON, so 64-bit numbers are texts and bytes are base64. */
#include "api/transparency/verify_internal.h"

#include <stdio.h>

/* A number, or its digits as text; absent is 0. */
static struct fault read_number(struct op *op, struct view object, const char *path, int64_t *ret_number)
{
    const char *text = view_member(op, object, path);
    int64_t number = 0;
    bool good = text == NULL || (text[0] != '\0' && strlen(text) <= 18);
    for (const char *at = text; good && at != NULL && *at != '\0'; at++) {
        good = *at >= '0' && *at <= '9';
        number = number * 10 + (good ? *at - '0' : 0);
    }
    if (!good || number > TLOG_NUMBER_MAX) {
        return tlog_refuse(op, "the log entry's %s is no number of its range", path);
    }
    *ret_number = number;
    return OK;
}

/* Absent is empty. */
static struct fault read_bytes(struct op *op, struct view object, const char *path, struct span *ret_bytes)
{
    struct view member = view_get(object, path);
    struct span bytes = { 0 };
    if (view_is_there(member)) {
        struct fault fault = view_base64(op, member, &bytes);
        if (tlog_is_refusal(fault)) {
            return tlog_refuse(op, "the log entry's %s is not base64", path);
        }
        TRY(fault);
    }
    *ret_bytes = bytes;
    return OK;
}

static struct fault read_hashes(struct op *op, struct view list, struct tlog_entry *entry)
{
    struct view item;
    TRY(arena_take(op->arena, TLOG_HASHES_MAX, sizeof(*entry->hashes), &entry->hashes));
    while (view_next(&list, &item)) {
        struct span *hash = &entry->hashes[entry->hash_count];
        if (entry->hash_count == TLOG_HASHES_MAX || FAULTED(view_base64(op, item, hash)) || hash->len != SHA256_LEN) {
            return tlog_refuse(op, "the log entry's inclusion proof has more than %u hashes, or one that is none",
                               TLOG_HASHES_MAX);
        }
        entry->hash_count++;
    }
    return OK;
}

static struct fault read_proof(struct op *op, struct view object, struct tlog_entry *entry)
{
    TRY(read_number(op, object, "inclusionProof.logIndex", &entry->proof_index));
    TRY(read_number(op, object, "inclusionProof.treeSize", &entry->tree_size));
    TRY(read_bytes(op, object, "inclusionProof.rootHash", &entry->root_hash));
    TRY(read_hashes(op, view_get(object, "inclusionProof.hashes"), entry));
    entry->checkpoint = view_member(op, object, "inclusionProof.checkpoint.envelope");
    return OK;
}

struct fault tlog_view(struct op *op, struct span json, struct view *ret_object)
{
    static const char nul[] = "\\u0000"; /* a text of ours would end there */
    struct view object = { 0 };
    struct fault fault = view_of(op, json, &object);
    if (tlog_is_refusal(fault) ||
        (!FAULTED(fault) &&
         (object.json.at[0] != '{' || memmem(object.json.at, object.json.len, nul, sizeof(nul) - 1) != NULL))) {
        return tlog_refuse(op, "what the log says is no JSON object, or has a NUL in it");
    }
    TRY(fault);
    *ret_object = object;
    return OK;
}

struct fault tlog_entry_read(struct op *op, struct span json, struct tlog_entry *ret_entry)
{
    struct tlog_entry entry = { 0 };
    struct view object = { 0 };
    TRY(tlog_view(op, json, &object));
    entry.kind = view_member(op, object, "kindVersion.kind");
    entry.version = view_member(op, object, "kindVersion.version");
    TRY(read_bytes(op, object, "logId.keyId", &entry.log_id));
    TRY(read_number(op, object, "logIndex", &entry.log_index));
    TRY(read_number(op, object, "integratedTime", &entry.integrated_time));
    TRY(read_bytes(op, object, "inclusionPromise.signedEntryTimestamp", &entry.set));
    TRY(read_bytes(op, object, "canonicalizedBody", &entry.body));
    TRY(read_proof(op, object, &entry));
    *ret_entry = entry;
    return OK;
}

static void print_number(struct jout *jout, const char *key, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    jout_key_text(jout, key, text);
}

static void print_proof(struct jout *jout, const struct tlog_entry *entry)
{
    jout_key(jout, "inclusionProof");
    jout_object(jout);
    print_number(jout, "logIndex", entry->proof_index);
    jout_key_base64(jout, "rootHash", entry->root_hash);
    print_number(jout, "treeSize", entry->tree_size);
    jout_key(jout, "hashes");
    jout_array(jout);
    for (size_t i = 0; i < entry->hash_count; i++) {
        jout_base64(jout, entry->hashes[i]);
    }
    jout_array_end(jout);
    jout_key(jout, "checkpoint");
    jout_object(jout);
    jout_key_text(jout, "envelope", entry->checkpoint);
    jout_object_end(jout);
    jout_object_end(jout);
}

void tlog_entry_print(struct jout *jout, const struct tlog_entry *entry)
{
    jout_object(jout);
    print_number(jout, "logIndex", entry->log_index);
    jout_key(jout, "logId");
    jout_object(jout);
    jout_key_base64(jout, "keyId", entry->log_id);
    jout_object_end(jout);
    jout_key(jout, "kindVersion");
    jout_object(jout);
    jout_key_text(jout, "kind", entry->kind);
    jout_key_text(jout, "version", entry->version);
    jout_object_end(jout);
    if (entry->integrated_time > 0) {
        print_number(jout, "integratedTime", entry->integrated_time);
    }
    if (entry->set.len > 0) {
        jout_key(jout, "inclusionPromise");
        jout_object(jout);
        jout_key_base64(jout, "signedEntryTimestamp", entry->set);
        jout_object_end(jout);
    }
    if (entry->checkpoint != NULL) {
        print_proof(jout, entry);
    }
    jout_key_base64(jout, "canonicalizedBody", entry->body);
    jout_object_end(jout);
}
