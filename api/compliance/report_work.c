/*
 * From a due schedule to its report. Queueing is the leader's and costs one event; the generation is an outbox row of
 * its own destination on threads that sign nothing. A crash anywhere is made good by the next attempt: a document that
 * was kept is not made again, so whatever was said about it before stays true.
 */
#include "api/compliance/schedules.h"

#include "appliance/base/failpoint.h"
#include "appliance/base/log.h"

#include <stdio.h>

#define EVENT_MAX 2048
#define QUEUE_MS  15000
#define PRUNE_NS  (2 * NS_PER_S) /* kept back for the record */

struct payload {
    const char *report_id, *schedule_id;
};
static const struct jin_field payload_fields[] = {
    JIN_TEXT(struct payload, report_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct payload, schedule_id, JIN_REQUIRED, 36, 36),
};

/* ---- events ---- */

static void put_report(struct jout *jout, const struct schedule *schedule, const char *report_id)
{
    jout_key_text(jout, "framework", schedule->definition.framework);
    jout_key_text(jout, "report_id", report_id);
    jout_key_text(jout, "report_type", report_type_text(schedule->definition.type));
    jout_key_text(jout, "schedule_id", schedule->id.text);
    jout_key_int(jout, "version", schedule->version);
}

static struct fault append(struct op *op, struct services *services, const char *type, struct uuid message_id,
                           const struct buf *data, uint64_t *ret_seq)
{
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    const struct event_append message = { .lane = REPORT_LANE, .message_id = message_id, .events = &event, .count = 1 };
    return events_append(op, services->log, &message, ret_seq);
}

/* Both ends of a report share one id: the first one is the end. */
static struct fault append_end(struct op *op, struct services *services, const char *type, const char *report_id,
                               const struct buf *data)
{
    const struct span parts[] = { span_text(op->tenant.text), span_text(report_id) };
    struct uuid id;
    uint64_t seq = 0;
    TRY(uuid_derive("compliance.report.end", parts, COUNT_OF(parts), &id));
    TRY(append(op, services, type, id, data, &seq));
    FAILPOINT("compliance.after_end");
    return projector_wait(op, services->projector, seq);
}

static void count(struct services *services, const struct schedule *schedule, const char *outcome)
{
    metrics_add(services->metrics, REPORTS_TOTAL, 1,
                (const char *const[]){ report_type_text(schedule->definition.type), outcome });
}

static struct fault record_failed(struct op *op, struct services *services, const struct schedule *schedule,
                                  const char *report_id, struct fault why)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "code", fault_row(why.code)->text);
    jout_key_int(&jout, "keep", services->config->reports_kept);
    put_report(&jout, schedule, report_id);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(append_end(op, services, EVENT_REPORT_FAILED, report_id, &data));
    count(services, schedule, fault_row(why.code)->text);
    return OK;
}

static struct fault record_generated(struct op *op, struct services *services, const struct schedule *schedule,
                                     const char *report_id, const struct report_document *document)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_hex(&jout, "digest", SPAN_ARRAY(document->digest.at));
    jout_key_int(&jout, "keep", services->config->reports_kept);
    put_report(&jout, schedule, report_id);
    jout_key_int(&jout, "size", document->size);
    jout_key_time(&jout, "window_from", document->window.from);
    jout_key_time(&jout, "window_to", document->window.to);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(append_end(op, services, EVENT_REPORT_GENERATED, report_id, &data));
    count(services, schedule, "generated");
    return OK;
}

/* ---- the worker ---- */

static struct fault queue_report(struct op *op, struct services *services, const struct schedule *schedule)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    char version[24], round[24];
    uint64_t seq = 0;
    struct uuid id;
    struct jout jout;
    (void)snprintf(version, sizeof(version), "%lld", (long long)schedule->version);
    (void)snprintf(round, sizeof(round), "%lld", (long long)schedule->rounds + 1);
    const struct span parts[] = { span_text(op->tenant.text), span_text(schedule->id.text), span_text(version),
                                  span_text(round) };
    TRY(uuid_derive("compliance.report", parts, COUNT_OF(parts), &id));
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_time(&jout, "due_at",
                  schedule_next(schedule->counted_from, schedule->definition.interval_seconds * US_PER_S));
    put_report(&jout, schedule, id.text);
    jout_key_int(&jout, "round", schedule->rounds + 1);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(append(op, services, EVENT_REPORT_QUEUED, id, &data, &seq));
    FAILPOINT("compliance.after_queue");
    return projector_wait(op, services->projector, seq);
}

static struct fault end_abandoned(struct op *op, struct services *services, const struct schedule *schedule)
{
    return record_failed(op, services, schedule, schedule->open_report, FAULT(REPORT_ABANDONED));
}

/* One schedule that cannot be worked on holds up no other; what is left over is the next round's. */
static void for_each(struct op *op, struct services *services, const struct schedule *list, size_t count,
                     struct fault (*work)(struct op *, struct services *, const struct schedule *))
{
    for (size_t i = 0; i < count && !op_expired(op); i++) {
        CLEANUP(op_freep) struct op *own = NULL;
        struct fault fault = op_new("system:report-schedules", list[i].tenant, QUEUE_MS, &own);
        if (!FAULTED(fault)) {
            own->deadline = own->deadline < op->deadline ? own->deadline : op->deadline;
            fault = work(own, services, &list[i]);
        }
        if (FAULTED(fault)) {
            log_fault(LOG_LEVEL_WARN, "report_schedule_not_worked_on", own, fault);
        }
    }
}

struct fault reports_work(struct op *op, struct services *services)
{
    struct schedule *list = NULL;
    size_t count = 0;
    utc_us now = clock_utc();
    TRY(schedules_due(op, services, now, &list, &count));
    for_each(op, services, list, count, queue_report);
    TRY(schedules_stuck(op, services, now, &list, &count));
    for_each(op, services, list, count, end_abandoned);
    return OK;
}

/* ---- one attempt ---- */

/* What was kept at an earlier attempt, or a new one. */
static struct fault have_document(struct op *op, struct services *services, const struct schedule *schedule,
                                  struct uuid report_id, struct report_document *ret_document)
{
    CLEANUP(buf_free) struct buf document = BUF_INIT(REPORT_DOCUMENT_MAX);
    struct report_window window = { 0 };
    struct fault fault = report_document_find(op, services, report_id, NULL, ret_document);
    if (fault.code != FAULT_NOT_FOUND) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    TRY(report_document_make(op, services, schedule, &document, &window));
    FAILPOINT("compliance.before_keep");
    TRY(report_document_keep(op, services, report_id, schedule->id, buf_span(&document), window));
    FAILPOINT("compliance.after_keep");
    return report_document_find(op, services, report_id, NULL, ret_document);
}

static bool is_final(const struct outbox_item *item, struct fault fault)
{
    bool later = fault_row(fault.code)->retry == FAULT_RETRY_LATER || fault.code == FAULT_DEADLINE;
    return !later || item->last_attempt;
}

static struct fault attempt(struct op *op, struct services *services, const struct outbox_item *item,
                            const struct schedule *schedule, struct uuid report_id)
{
    struct report_document document;
    mono_ns deadline = op->deadline;
    op->deadline -= PRUNE_NS;
    struct fault fault = have_document(op, services, schedule, report_id, &document);
    op->deadline = deadline;
    if (FAULTED(fault) && is_final(item, fault)) {
        struct fault_note note = op->note;
        op->note = (struct fault_note){ 0 };
        TRY(record_failed(op, services, schedule, report_id.text, fault));
        op->note = note;
    }
    TRY(fault);
    return record_generated(op, services, schedule, report_id.text, &document);
}

struct fault report_generate(struct op *op, struct services *services, const struct outbox_item *item)
{
    struct payload payload = { 0 };
    struct schedule schedule;
    struct uuid report_id, schedule_id;
    TRY(jin_decode(op, item->payload, payload_fields, COUNT_OF(payload_fields), &payload));
    TRY(uuid_parse(span_text(payload.report_id), &report_id));
    TRY(uuid_parse(span_text(payload.schedule_id), &schedule_id));
    struct fault fault = schedule_get(op, services, schedule_id, &schedule);
    if (fault.code == FAULT_NOT_FOUND || (!FAULTED(fault) && strcmp(schedule.open_report, report_id.text) != 0)) {
        return OK; /* it was paused meanwhile, or its end is recorded */
    }
    TRY(fault);
    TRY(attempt(op, services, item, &schedule, report_id));
    fault = report_documents_prune(op, services, schedule.id, report_id);
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_WARN, "report_documents_not_pruned", op, fault); /* the next report makes it good */
    }
    return OK;
}
