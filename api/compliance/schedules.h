/*
 * Report schedules, and the reports that come of them.
 *
 *     configured (enabled) --interval passes--> queued --generated--> the interval begins again
 *                                                    \--failed-----> the interval begins again
 *     configured (not enabled): nothing is due; what was queued and not generated is given up
 *
 * Every version of a schedule is an event of its own (compliance.schedule.configured) and none is ever changed. When a
 * report is due follows from events alone: the last configuration or the last end of a report, and the interval. After
 * a long downtime that is one report, not many. The id of a report follows from schedule, version and round, and both
 * of its ends share one message id: whoever queues or ends it a second time does nothing.
 *
 * The document itself is no part of the log, which holds its digest: it lies in svc.compliance_documents, which a
 * rebuild keeps, until so many newer ones are there as the event of its generation says.
 */
#ifndef API_COMPLIANCE_SCHEDULES_H
#define API_COMPLIANCE_SCHEDULES_H

#include "api/compliance/internal.h"

#define SCHEDULE_LANE "report-schedules"
#define REPORT_LANE   "reports"
#define REPORT_OUTBOX "compliance.report"

#define EVENT_SCHEDULE_CONFIGURED "compliance.schedule.configured"
#define EVENT_REPORT_QUEUED       "compliance.report.queued"
#define EVENT_REPORT_GENERATED    "compliance.report.generated"
#define EVENT_REPORT_FAILED       "compliance.report.failed"

#define SCHEDULES_PER_TENANT   64
#define SCHEDULE_INTERVAL_MIN  3600     /* seconds: one hour */
#define SCHEDULE_INTERVAL_MAX  31622400 /* 366 days */
#define SCHEDULE_NAME_MAX      128
#define SCHEDULE_RECIPIENT_MAX 256
#define SCHEDULE_DELIVERY      "audit_export"
#define SCHEDULE_REPORTS_MAX   1000 /* documents kept of one schedule, at most */
#define REPORT_DOCUMENT_MAX    ((size_t)16 << 20)

/* ---- schedules.c: pure ---- */

enum report_type {
    REPORT_EVIDENCE_PACK,
    REPORT_INVENTORY_SNAPSHOT,
    REPORT_CBOM_POSTURE,
    REPORT_AUDIT_SUMMARY,
    REPORT_TYPE_COUNT
};
const char *report_type_text(enum report_type type);
bool report_type_parse(const char *text, enum report_type *ret_type);

struct schedule_body {
    const char *framework, *name, *report_type, *delivery, *recipient_ref, *preview_fingerprint;
    int64_t interval_seconds;
    struct span enabled;
};
struct schedule_definition {
    const char *framework, *name, *recipient_ref;
    enum report_type type;
    int64_t interval_seconds;
    bool enabled;
};
/* As it is kept: the framework's id in lower case, no blanks around texts. JSON_FIELD with the pointer. */
struct fault schedule_normalise(struct op *op, const struct schedule_body *body,
                                struct schedule_definition *ret_definition);
/* As members of the object that is open. */
void schedule_definition_print(const struct schedule_definition *definition, struct jout *jout);
/* SHA-256 in hex over the canonical form of the definition, the tenant and how many documents are kept. */
struct fault schedule_fingerprint(struct tenant_id tenant, const struct schedule_definition *definition, int64_t keep,
                                  char ret_text[2 * SHA256_LEN + 1]);
/* When the next report is due, counted from an event's time. */
utc_us schedule_next(utc_us counted_from, int64_t interval_us);
/* Is it? Also when the clock was set back by more than an interval: otherwise nothing would come until it has caught up
 * with the event's time. */
bool schedule_is_due(utc_us counted_from, int64_t interval_us, utc_us now);

/* ---- schedules_query.c: results live in op's arena ---- */

struct schedule {
    struct tenant_id tenant;
    struct uuid id;
    struct schedule_definition definition;
    int64_t version, rounds, made; /* made: audit sequence of its first version */
    utc_us created, configured, counted_from;
    const char *created_by, *configured_by;
    const char *open_report;                /* "" = none is on its way */
    const char *last_report, *last_failure; /* NULL = none yet; last_failure: a code of fault.def */
    utc_us last_generated, last_failed;
};
struct fault schedule_get(struct op *op, struct services *services, struct uuid id, struct schedule *ret_schedule);
struct schedule_filter {
    const char *framework, *report_type; /* NULL = any */
    enum { SCHEDULE_ANY, SCHEDULE_ENABLED, SCHEDULE_PAUSED } enabled;
    int64_t before, limit;
};
struct fault schedule_list(struct op *op, struct tx *tx, const struct schedule_filter *filter,
                           struct schedule **ret_list, size_t *ret_count);
struct fault schedule_counts(struct tx *tx, int64_t *ret_all, int64_t *ret_enabled);
/* Did this command make that version? */
struct fault schedule_made_by(struct op *op, struct services *services, struct uuid id, int64_t version,
                              bool *ret_made);
/* Of all tenants: those whose report is due, and those whose open report nobody works on any more. */
struct fault schedules_due(struct op *op, struct services *services, utc_us now, struct schedule **ret_list,
                           size_t *ret_count);
struct fault schedules_stuck(struct op *op, struct services *services, utc_us now, struct schedule **ret_list,
                             size_t *ret_count);

struct report {
    struct uuid id, schedule_id;
    int64_t version, size, sequence;                       /* sequence: audit sequence of its end */
    const char *report_type, *framework, *state, *failure; /* failure: NULL = generated */
    struct span digest;                                    /* empty when it failed */
    utc_us queued, ended, window_from, window_to;
};
struct report_filter {
    const char *schedule_id, *report_type, *state; /* NULL = any */
    int64_t before, limit;
};
struct fault report_get(struct op *op, struct services *services, struct uuid id, struct report *ret_report);
struct fault report_list(struct op *op, struct services *services, const struct report_filter *filter,
                         struct report **ret_list, size_t *ret_count);

/* ---- schedules_configure.c: mutations; the schedule as it stands afterwards ---- */

/* PREVIEW_CHANGED, CONFLICT. */
struct fault schedule_create(struct op *op, struct services *services, const struct schedule_body *body,
                             struct schedule *ret_schedule);
/* Another version, enabled or not. NOT_FOUND, CONFLICT when it is at another version than `expected`. */
struct fault schedule_switch(struct op *op, struct services *services, struct uuid id, int64_t expected, bool enabled,
                             struct schedule *ret_schedule);

/* ---- schedules_projection.c ---- */

struct fault project_schedule_configured(struct projection *projection, const struct event_view *event);
struct fault project_report_queued(struct projection *projection, const struct event_view *event);
struct fault project_report_generated(struct projection *projection, const struct event_view *event);
struct fault project_report_failed(struct projection *projection, const struct event_view *event);

/* ---- report_document.c: what a report is ---- */

struct report_window {
    utc_us from, to;
};
/* The signed document. TOO_LARGE. */
struct fault report_document_make(struct op *op, struct services *services, const struct schedule *schedule,
                                  struct buf *document, struct report_window *ret_window);

/* ---- report_store.c: documents, beside the read model ---- */

struct report_document {
    struct sha256 digest;
    struct report_window window;
    int64_t size;
};
/* Keeps it, unless one is kept under this report's id already; then that one counts. */
struct fault report_document_keep(struct op *op, struct services *services, struct uuid report_id,
                                  struct uuid schedule_id, struct span document, struct report_window window);
/* What is kept under that id; NOT_FOUND. `document` may be NULL. */
struct fault report_document_find(struct op *op, struct services *services, struct uuid report_id, struct buf *document,
                                  struct report_document *ret_document);
/* Takes away the schedule's documents that no report stands for any more, but for `except`. */
struct fault report_documents_prune(struct op *op, struct services *services, struct uuid schedule_id,
                                    struct uuid except);

/* ---- report_work.c ---- */

/* The worker: queues what is due, ends what was abandoned. */
struct fault reports_work(struct op *op, struct services *services);
/* The outbox handler: one attempt at one report. */
struct fault report_generate(struct op *op, struct services *services, const struct outbox_item *item);

extern const struct metric schedules_metrics[1];
#define REPORTS_TOTAL (&schedules_metrics[0]) /* {report_type, outcome} */

/* ---- routes ---- */

struct schedule_switch_body {
    int64_t expected_version;
};
struct fault route_schedule_get(struct request *request);
/* One schedule as an object. */
void schedule_print(struct jout *jout, const struct schedule *schedule);

#endif
