/*
 * OTLP over HTTP, protobuf: spans to {endpoint}/v1/traces, audit log records to {endpoint}/v1/logs. Nothing here may
 * hold anybody up: a span goes into a bounded queue or is dropped and counted, and one thread empties it in batches.
 *
 *     CLEANUP(otlp_freep) struct otlp *otlp = NULL;
 *     TRY(otlp_new(&settings, metrics, why, &otlp));     -- from here on spans are recorded (tracing.h)
 *     ...
 *     otlp_stop(otlp);                                   -- what is queued is sent, for up to OTLP_FLUSH_NS
 *
 * An answer of 429, 502, 503 or 504, or none, means later: as late as Retry-After says, otherwise after a second, two,
 * four ... up to a minute. Any other refusal is told once and not repeated. The bearer token is read from its file,
 * again when that changes, sent over TLS only, and never logged.
 */
#ifndef API_TELEMETRY_OTLP_H
#define API_TELEMETRY_OTLP_H

#include "api/telemetry/metrics.h"
#include "appliance/base/tracing.h"

#include <stdatomic.h>

#define OTLP_FLUSH_NS      (3 * NS_PER_S)
#define OTLP_RETRY_MOST_NS (60 * NS_PER_S)
#define OTLP_ANSWER_MAX    ((size_t)64 << 10)
#define OTLP_BODY_MAX      ((size_t)8 << 20)

/* Texts are borrowed for the life of what is made from them. */
struct otlp_settings {
    const char *endpoint;   /* "https://collector.example:4318", with or without a path */
    const char *token_file; /* "" = no token */
    const char *ca_file;    /* "" = the machine's authorities */
    bool plain_too;         /* http:// is acceptable; then no token is sent */
    int64_t timeout_ns;     /* of one exchange */
    int64_t interval_ns;    /* how long spans are gathered at most */
    size_t queue;           /* spans that may wait */
    unsigned sample_ppm;
    const char *instance; /* service.instance.id */
};

/* ---- one exchange ---- */

enum otlp_outcome { OTLP_ACCEPTED, OTLP_LATER, OTLP_REFUSED };
struct otlp_reply {
    enum otlp_outcome outcome;
    long status;      /* 0 = there was no answer */
    int64_t wait_ns;  /* as Retry-After says; 0 = nothing */
    int64_t rejected; /* of what was accepted: so many the receiver did not take, for good (partial_success) */
    char why[256];    /* unless accepted whole: for the log, as one line of printable characters */
};
struct otlp_sender;
/* `path` is a constant ("/v1/traces"). CONFIG, with a line in `why` (may be NULL), when the token cannot be read. */
struct fault otlp_sender_new(const struct otlp_settings *settings, const char *path, struct buf *why,
                             struct otlp_sender **ret_sender);
void otlp_sender_free(struct otlp_sender *sender);
DEFINE_FREEP(struct otlp_sender, otlp_sender_free)
/* One thread at a time. Within settings' timeout or `most_ns`, whichever is less; given up once *stopping is true. */
void otlp_send(struct otlp_sender *sender, struct span body, int64_t most_ns, const atomic_bool *stopping,
               struct otlp_reply *ret_reply);
/* Until the next attempt, after so many failures in a row: the reply's wait, or doubled each time, spread by chance. */
int64_t otlp_wait_ns(const struct otlp_reply *reply, unsigned failures);
/* Seconds, or an HTTP date; at most ten minutes. 0: neither. */
int64_t otlp_retry_after_ns(const char *text, utc_us now);

/* ---- bodies ---- */

/* ExportTraceServiceRequest, appended to `out`. NO_MEMORY, TOO_LARGE. */
struct fault otlp_encode_spans(const struct otlp_settings *settings, const struct trace_record *records, size_t count,
                               struct buf *out);

/* An audit record, without what it says: never its payload. Texts are borrowed. */
struct otlp_audit {
    struct span type, id, tenant, subject, trace_id;
    const struct span *roles;
    size_t role_count;
    int64_t sequence, schema_version, payload_bytes;
    uint64_t stream_seq;
    utc_us time;
};
/* ExportLogsServiceRequest, appended to `out`. */
struct fault otlp_encode_audit(const struct otlp_settings *settings, const struct otlp_audit *records, size_t count,
                               utc_us now, struct buf *out);
/* What partial_success of an answer says; 0 and "" when it says nothing, or is none. Outside bytes. */
void otlp_decode_answer(struct span body, bool logs, int64_t *ret_rejected, char *why, size_t why_size);

/* ---- spans ---- */

extern const struct metric otlp_metrics[];
extern const size_t otlp_metric_count;
extern const struct metric otlp_export_failures; /* {signal} */

struct otlp;
/* One of a process. `metrics` outlives it. */
struct fault otlp_new(const struct otlp_settings *settings, struct metrics *metrics, struct buf *why,
                      struct otlp **ret_otlp);
void otlp_stop(struct otlp *otlp);
void otlp_free(struct otlp *otlp); /* stops it if need be; NULL is fine */
DEFINE_FREEP(struct otlp, otlp_free)

#endif
