#include "api/transparency/verify_internal.h"

bool tlog_is_refusal(struct fault fault)
{
    return FAULTED(fault) && fault_row(fault.code)->retry == FAULT_RETRY_NO && fault.code != FAULT_INTERNAL &&
           fault.code != FAULT_CRYPTO;
}

static bool covers(const struct tlog_key *key, utc_us at)
{
    return at >= key->valid_from && (key->valid_until == 0 || at < key->valid_until);
}

/* What a SET signs: canonical JSON, so these members in this order. */
static struct fault print_promise(const struct tlog_entry *entry, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_base64(&jout, "body", entry->body);
    jout_key_int(&jout, "integratedTime", entry->integrated_time);
    jout_key_hex(&jout, "logID", entry->log_id);
    jout_key_int(&jout, "logIndex", entry->log_index);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault check_promise(struct op *op, const struct tlog_entry *entry, const struct tlog_trust *trust)
{
    CLEANUP(buf_free) struct buf promise = BUF_INIT((size_t)256 << 10);
    if (entry->integrated_time <= 0 || entry->integrated_time > INT64_MAX / US_PER_S) {
        return tlog_refuse(op, "the signed entry timestamp is of an entry without a time");
    }
    TRY(print_promise(entry, &promise));
    bool named = false, valid = false;
    for (size_t i = 0; i < trust->key_count; i++) {
        const struct tlog_key *key = &trust->keys[i];
        struct sha256 id;
        TRY(tlog_key_id(key->spki, &id));
        if (!span_equal(entry->log_id, SPAN_ARRAY(id.at))) {
            continue;
        }
        named = true;
        if (covers(key, entry->integrated_time * US_PER_S)) {
            valid = true;
            if (tlog_signature_good(key->spki, buf_span(&promise), entry->set)) {
                return OK;
            }
        }
    }
    if (!named) {
        return tlog_refuse(op, "the entry's log id is not that of a pinned key");
    }
    return valid ? tlog_refuse(op, "the signed entry timestamp does not verify under the pinned key")
                 : tlog_refuse(op, "the pinned key was not valid at the entry's time");
}

/* An entry without SET is named after the key of its checkpoint, whole or by its first four bytes. */
static bool named_after(struct span log_id, const struct sha256 *id)
{
    return (log_id.len == SHA256_LEN || log_id.len == 4) && memcmp(log_id.at, id->at, log_id.len) == 0;
}

static struct fault check_checkpoint(struct op *op, const struct tlog_entry *entry, const struct tlog_trust *trust,
                                     utc_us at, const struct note *note)
{
    const struct tlog_key *key = NULL;
    struct sha256 id, plain;
    TRY(note_check(op, note, trust, at, &key, &id));
    if (entry->set.len > 0) {
        return OK; /* named by its SET's key, which was looked up by that name */
    }
    TRY(tlog_key_id(key->spki, &plain));
    if (!named_after(entry->log_id, &id) && !named_after(entry->log_id, &plain)) {
        return tlog_refuse(op, "the entry's log id is not that of the key that signed its checkpoint");
    }
    bool open = at != 0 ? covers(key, at) : key->valid_from == 0;
    return open ? OK : tlog_refuse(op, "the pinned key was not valid at the entry's time");
}

/* The entry's numbers are those of the checkpoint that was signed. */
static struct fault check_numbers(struct op *op, const struct tlog_entry *entry, const struct note *note)
{
    if (note->size != (uint64_t)entry->tree_size) {
        return tlog_refuse(op, "the inclusion proof is of another tree size than the checkpoint");
    }
    if (!span_equal(entry->root_hash, SPAN_ARRAY(note->root.at))) {
        return tlog_refuse(op, "the inclusion proof is of another root than the checkpoint");
    }
    return OK;
}

static struct fault check_proof(struct op *op, const struct tlog_entry *entry, const struct tlog_trust *trust,
                                utc_us at)
{
    struct note note;
    struct sha256 leaf, root;
    if (entry->checkpoint == NULL) {
        return tlog_refuse(op, "the inclusion proof has no checkpoint, so nobody signed its root");
    }
    if (entry->proof_index < 0 || entry->tree_size <= 0 || entry->tree_size > TLOG_NUMBER_MAX) {
        return tlog_refuse(op, "the inclusion proof's numbers are out of range");
    }
    TRY(note_parse(op, span_text(entry->checkpoint), &note));
    TRY(check_checkpoint(op, entry, trust, at, &note));
    TRY(check_numbers(op, entry, &note));
    TRY(tlog_leaf_hash(entry->body, &leaf));
    struct fault fault = tlog_root_of((uint64_t)entry->proof_index, (uint64_t)entry->tree_size, &leaf, entry->hashes,
                                      entry->hash_count, &root);
    if (tlog_is_refusal(fault) || (!FAULTED(fault) && memcmp(root.at, note.root.at, SHA256_LEN) != 0)) {
        return tlog_refuse(op, "the inclusion proof does not lead from the entry to the checkpoint's root");
    }
    return fault;
}

struct fault tlog_entry_verify(struct op *op, const struct tlog_entry *entry, const struct tlog_trust *trust,
                               const struct tlog_expect *expect)
{
    bool proven =
        entry->checkpoint != NULL || entry->root_hash.len > 0 || entry->hash_count > 0 || entry->tree_size != 0;
    bool promised = entry->set.len > 0;
    if (!proven && !promised) {
        return tlog_refuse(op, "the entry has neither a signed entry timestamp nor an inclusion proof");
    }
    if (entry->log_index < 0 || entry->log_index > TLOG_NUMBER_MAX) {
        return tlog_refuse(op, "the entry's log index is out of range");
    }
    TRY(tlog_body_check(op, entry, expect));
    if (promised) {
        TRY(check_promise(op, entry, trust));
    }
    return proven ? check_proof(op, entry, trust, promised ? entry->integrated_time * US_PER_S : expect->at) : OK;
}
