/*
 * One try at one publication. A crash anywhere is made good by the next try: before the request nothing happened; after
 * it the log answers that it has the entry, and the same entry is verified and recorded; after the record the event's
 * id is the same, so it counts once.
 */
#include "api/transparency/internal.h"

#include "appliance/base/failpoint.h"

static const struct jin_field submission_fields[] = {
    JIN_BASE64(struct submission, certificate, JIN_OPTIONAL, 1, 32768),
    JIN_TEXT(struct submission, destination, JIN_REQUIRED, 1, 600),
    JIN_BASE64(struct submission, digest, JIN_REQUIRED, 32, 64),
    JIN_TEXT(struct submission, digest_algorithm, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct submission, operation_id, JIN_REQUIRED, 36, 36),
    JIN_BASE64(struct submission, public_key, JIN_REQUIRED, 1, SPKI_MAX),
    JIN_BASE64(struct submission, signature, JIN_REQUIRED, 1, SIGNATURE_MAX),
    JIN_TEXT(struct submission, signature_scheme, JIN_REQUIRED, 1, 32),
};

static struct fault verify(struct op *op, const struct tlog *log, const struct submission *submission,
                           const struct tlog_entry *entry)
{
    const struct tlog_trust trust = { .keys = log->keys, .key_count = log->key_count, .origin = log->origin };
    const struct tlog_expect expect = {
        .hash = submission->digest_algorithm,
        .digest = submission->digest,
        .signature = submission->signature,
        .spki = submission->public_key,
        .certificate = submission->certificate,
        .at = clock_utc(),
    };
    if (log->kind == TLOG_REKOR_V1 && entry->set.len == 0) {
        return tlog_refuse(op, "the log's answer has no signed entry timestamp");
    }
    if (entry->checkpoint == NULL) {
        return tlog_refuse(op, "the log's answer has no inclusion proof with a checkpoint");
    }
    return tlog_entry_verify(op, entry, &trust, &expect);
}

static struct fault submit(struct op *op, struct submit *submit, struct tlog_entry *ret_entry,
                           const char **ret_entry_id)
{
    FAILPOINT("transparency.before_submit");
    struct fault fault = submit->log->kind == TLOG_REKOR_V1 ? rekor_v1_submit(op, submit, ret_entry, ret_entry_id)
                                                            : rekor_v2_submit(op, submit, ret_entry, ret_entry_id);
    FAILPOINT("transparency.after_submit");
    return fault;
}

static const char *result_of(struct fault fault)
{
    switch ((int)fault.code) {
    case FAULT_NONE:
        return "published";
    case FAULT_TLOG_UNAVAILABLE:
        return "unavailable";
    case FAULT_TLOG_REFUSED:
        return "refused";
    case FAULT_TLOG_UNVERIFIED:
        return "unverified";
    default:
        return "failed";
    }
}

static void count(struct services *services, const struct tlog *log, mono_ns started, struct fault fault)
{
    metrics_add(services->metrics, TRANSPARENCY_SUBMISSIONS_TOTAL, 1,
                (const char *const[]){ log->name, result_of(fault) });
    metrics_observe(services->metrics, TRANSPARENCY_SUBMIT_SECONDS, (double)(clock_mono() - started) / (double)NS_PER_S,
                    (const char *const[]){ log->name });
}

static struct fault not_now(struct op *op, const struct tlog *log)
{
    return op_fail(op, FAULT(TLOG_UNAVAILABLE), "the log %s did not answer a moment ago; it is asked again", log->name);
}

static struct fault ask(struct op *op, struct services *services, struct tlog *log, struct submit *request,
                        struct tlog_entry *ret_entry, const char **ret_entry_id)
{
    mono_ns started = clock_mono();
    if (!tlog_gate_enter(log, started)) {
        return not_now(op, log);
    }
    struct fault fault = submit(op, request, ret_entry, ret_entry_id);
    tlog_gate_tell(log, fault.code != FAULT_TLOG_UNAVAILABLE, request->retry_after_s, clock_mono());
    if (!FAULTED(fault)) {
        fault = verify(op, log, request->submission, ret_entry);
    }
    count(services, log, started, fault);
    return fault;
}

/* Recorded by a try whose process then died, or whose outcome did not get through. */
static struct fault is_settled(struct op *op, struct services *services, const struct outbox_item *item,
                               const struct submission *submission, bool *ret_settled)
{
    struct evidence evidence;
    struct uuid id;
    *ret_settled = false;
    if (item->attempt <= 1) {
        return OK;
    }
    TRY(uuid_parse(span_text(submission->operation_id), &id));
    TRY(evidence_get(op, services, id, &evidence));
    *ret_settled = strcmp(evidence.state, "pending") != 0;
    return OK;
}

static struct fault publish(struct op *op, struct services *services, const struct outbox_item *item,
                            const struct submission *submission)
{
    struct tlog *log = tlogs_find(services->transparency, op->tenant, submission->destination);
    struct submit request = { .log = log, .submission = submission, .stopping = item->stopping };
    struct tlog_entry entry = { 0 };
    const char *entry_id = NULL;
    if (log == NULL) {
        return op_fail(op, FAULT(TLOG_UNAVAILABLE),
                       "%.180s is not among the tenant's logs any more: put it back into the logs file",
                       submission->destination);
    }
    TRY(ask(op, services, log, &request, &entry, &entry_id));
    TRY(record_published(op, services, submission, &entry, entry_id));
    FAILPOINT("transparency.after_append");
    return OK;
}

/* While a log is down, thousands may wait for it: they are turned away before they cost the database anything. */
static bool turned_away(struct op *op, struct services *services, const struct outbox_item *item,
                        const struct submission *submission, struct fault *ret_fault)
{
    struct tlog *log = tlogs_find(services->transparency, op->tenant, submission->destination);
    bool away = log != NULL && !item->last_attempt && tlog_gate_shut(log, clock_mono());
    *ret_fault = away ? not_now(op, log) : OK;
    return away;
}

static struct fault fail(struct op *op, struct services *services, const struct submission *submission,
                         struct fault why)
{
    struct fault_note note = op->note;
    struct evidence evidence;
    struct uuid id;
    TRY(uuid_parse(span_text(submission->operation_id), &id));
    TRY(evidence_get(op, services, id, &evidence));
    TRY(record_failed(op, services, submission, evidence.round, why));
    op->note = note;
    return OK;
}

struct fault transparency_publish(struct op *op, struct services *services, const struct outbox_item *item)
{
    struct submission submission = { 0 };
    struct fault fault = OK;
    bool settled = false;
    TRY(jin_decode(op, item->payload, submission_fields, COUNT_OF(submission_fields), &submission));
    if (turned_away(op, services, item, &submission, &fault)) {
        return fault;
    }
    TRY(is_settled(op, services, item, &submission, &settled));
    if (settled) {
        return OK;
    }
    fault = publish(op, services, item, &submission);
    if (FAULTED(fault) && (fault_row(fault.code)->retry == FAULT_RETRY_NO || item->last_attempt)) {
        TRY(fail(op, services, &submission, fault));
    }
    return fault;
}
