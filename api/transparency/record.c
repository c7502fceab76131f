/* What came of a publication, as events. Their ids are the operation's, so a second try records nothing twice. */
#include "api/transparency/internal.h"

#include <stdio.h>

/* `round` "" = of whatever round: the first one counts for ever. */
static struct fault append(struct op *op, struct services *services, const char *type, const char *operation_id,
                           const char *round, const struct buf *data)
{
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    const struct span parts[] = { span_text(op->tenant.text), span_text(operation_id), span_text(round) };
    struct event_append message = { .lane = TRANSPARENCY_LANE, .events = &event, .count = 1 };
    uint64_t seq = 0;
    TRY(uuid_derive(type, parts, round[0] != '\0' ? COUNT_OF(parts) : COUNT_OF(parts) - 1, &message.message_id));
    return events_append(op, services->log, &message, &seq);
}

static void print_proof(struct jout *jout, const struct tlog_entry *entry)
{
    jout_key(jout, "proof");
    jout_object(jout);
    jout_key_text(jout, "checkpoint", entry->checkpoint);
    jout_key(jout, "hashes");
    jout_array(jout);
    for (size_t i = 0; i < entry->hash_count; i++) {
        jout_hex(jout, entry->hashes[i]);
    }
    jout_array_end(jout);
    jout_key_int(jout, "log_index", entry->proof_index);
    jout_key_hex(jout, "root_hash", entry->root_hash);
    jout_key_int(jout, "tree_size", entry->tree_size);
    jout_object_end(jout);
}

struct fault record_published(struct op *op, struct services *services, const struct submission *submission,
                              const struct tlog_entry *entry, const char *entry_id)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(TLOG_EVENT_MAX);
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_base64(&jout, "body", entry->body);
    jout_key_text(&jout, "entry_id", entry_id);
    if (entry->integrated_time > 0) { /* Rekor v2 states none */
        jout_key_int(&jout, "integrated_time", entry->integrated_time);
    }
    jout_key_text(&jout, "kind", entry->kind);
    jout_key_text(&jout, "log", submission->destination);
    jout_key_hex(&jout, "log_id", entry->log_id);
    jout_key_int(&jout, "log_index", entry->log_index);
    jout_key_text(&jout, "operation_id", submission->operation_id);
    print_proof(&jout, entry);
    if (entry->set.len > 0) {
        jout_key_base64(&jout, "set", entry->set);
    }
    jout_key_text(&jout, "version", entry->version);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return append(op, services, "transparency.published", submission->operation_id, "", &data);
}

struct fault record_failed(struct op *op, struct services *services, const struct submission *submission, int64_t round,
                           struct fault why)
{
    char number[24] = "";
    CLEANUP(buf_free) struct buf data = BUF_INIT(TLOG_EVENT_MAX);
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "code", fault_row(why.code)->text);
    jout_key_text(&jout, "log", submission->destination);
    jout_key_text(&jout, "operation_id", submission->operation_id);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    if (round > 0) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)round);
    }
    return append(op, services, "transparency.failed", submission->operation_id, number, &data);
}
