/* What the files of api/privacy/ share. */
#ifndef API_PRIVACY_INTERNAL_H
#define API_PRIVACY_INTERNAL_H

#include "api/privacy/privacy.h"
#include "api/server/request.h"

#define SUBJECT_LEAST     4
#define REASON_MAX        512
#define NEEDLES           8
#define PLACEHOLDER_MAX   31
#define GENERATION_FORMAT "svc.audit.generation.v1"
#define GENERATION_TYP    "svc-audit-generation+jws"
#define EVENT_REQUESTED   "privacy.erasure.requested"
#define EVENT_FAILED      "privacy.erasure.failed"
#define EVENT_SCRUBBED    "privacy.scrub.completed"
#define EVENT_ATTESTED    "privacy.archive.attested"
#define EVENT_MARKED      "privacy.lane.marked"

/* ---- transform.c: pure ---- */

struct privacy_subject {
    struct span text;
    struct span needles[NEEDLES]; /* how it looks in JSON text; then in base64, base64url and hex */
    char placeholder[PLACEHOLDER_MAX + 1];
};
/* Trims, checks form (PRIVACY_SUBJECT, with the reason) and makes the needles, in op's arena. */
struct fault privacy_subject_make(struct op *op, const char *text, struct uuid erasure_id,
                                  struct privacy_subject *ret_subject);
struct transformed {
    bool changed;  /* `out` holds the message's new body */
    bool residual; /* the subject may stand in encoded form (base64, hex) in what is left as it was */
};
/* PRIVACY_SUBJECT when the subject is a word of the message's structure. */
struct fault privacy_transform(struct op *op, const struct event_message *message,
                               const struct privacy_subject *subject, struct buf *out, struct transformed *ret_made);

/* ---- scan.c: the tenant's messages that hold a subject ---- */

typedef struct fault (*scan_fn)(void *arg, struct op *op, const struct event_message *message);
/* Calls `visit` for the tenant's copies from <= sequence <= to that hold one of the needles, in order; outside of any
 * transaction. The op that visit gets has an arena that is forgotten after each page. */
struct fault privacy_scan(struct op *op, struct services *services, const struct privacy_subject *subject,
                          uint64_t from, uint64_t to, scan_fn visit, void *arg);
struct fault privacy_scratch_new(struct op *op, struct op **ret_scratch);

#define TYPES_MAX 128
struct finding_type {
    char type[EVENT_TYPE_MAX + 1];
    int64_t messages, residual;
};
struct finding {
    int64_t messages, residual;
    uint64_t first_seq, last_seq;
    struct finding_type types[TYPES_MAX];
    size_t type_count;
};
struct fault privacy_find(struct op *op, struct services *services, const struct privacy_subject *subject,
                          uint64_t from, uint64_t to, struct finding *ret_finding);

/* ---- queries.c ---- */

struct erasure {
    struct tenant_id tenant;
    struct uuid id;
    const char *state, *requested_by, *reason, *failure_code, *failure;
    utc_us requested, activated, ended;
    uint64_t requested_seq;
    int64_t generation, replaced, rows_blanked, later;
    struct span sealed;
};
struct fault erasure_get(struct op *op, struct services *services, struct uuid id, struct erasure *ret_erasure);
struct fault erasure_list(struct op *op, struct services *services, int64_t before, int64_t limit,
                          struct erasure **ret_list, size_t *ret_count);
/* Of whatever tenant, the first that is neither completed nor failed; found=false: none. */
struct fault erasure_next(struct op *op, struct services *services, bool *ret_found, struct erasure *ret_erasure);
/* What a request rests on. */
struct standing {
    uint64_t lane, checkpoint;
    int64_t generation; /* the next one */
    bool open;          /* an erasure is on its way */
    int64_t credentials, role_names;
    int64_t archives; /* segments that were archived so far */
};
struct fault privacy_standing(struct op *op, struct services *services, struct span subject,
                              struct standing *ret_standing);
struct generation_row {
    int64_t generation, boundary_sequence, replaced;
    const char *erasure_id, *statement;
    struct sha256 superseded_head, new_head, digest;
    utc_us activated;
};
struct fault generation_list(struct op *op, struct services *services, struct generation_row **ret_rows,
                             size_t *ret_count);
struct attestation {
    const char *attestation_id, *erasure_id, *archive_locator, *action, *note, *performed_by, *attested_by;
    struct span archive_sha256;
    utc_us performed_at, attested;
    int64_t sequence;
};
struct fault attestation_list(struct op *op, struct services *services, int64_t before, int64_t limit,
                              struct attestation **ret_list, size_t *ret_count);

/* ---- erase.c: a request ---- */

struct fault privacy_fingerprint(struct op *op, struct services *services, const struct privacy_subject *subject,
                                 const struct standing *standing, const struct finding *finding,
                                 char ret_text[2 * SHA256_LEN + 1]);
struct fault privacy_look(struct op *op, struct services *services, const char *text, struct uuid erasure_id,
                          struct privacy_subject *ret_subject, struct standing *ret_standing,
                          struct finding *ret_finding);
struct fault erasure_request(struct op *op, struct services *services, const char *text, const char *fingerprint,
                             const char *reason, struct uuid *ret_id);
/* One event of an erasure under an id that follows from it and `step`; *ret_seq its stream sequence. */
struct fault privacy_append(struct op *op, struct services *services, const char *lane, const char *type,
                            struct uuid erasure_id, const char *step, const struct buf *data, const uint64_t *expected,
                            uint64_t *ret_seq);

/* ---- rewrite.c, scrub.c, worker.c ---- */

struct fault erasure_rewrite(struct op *op, struct services *services, const struct erasure *erasure,
                             const struct privacy_subject *subject);
struct fault erasure_scrub(struct op *op, struct services *services, const struct erasure *erasure,
                           const struct privacy_subject *subject);
struct fault privacy_work(struct op *op, struct services *services);

/* ---- projection.c ---- */

struct attest_body {
    const char *erasure_id, *archive_locator, *action, *note, *performed_by;
    struct span archive_sha256;
    utc_us performed_at;
};
struct fault project_erasure_requested(struct projection *projection, const struct event_view *event);
struct fault project_erasure_failed(struct projection *projection, const struct event_view *event);
struct fault project_generation_activated(struct projection *projection, const struct event_view *event);
struct fault project_scrub_completed(struct projection *projection, const struct event_view *event);
struct fault project_archive_attested(struct projection *projection, const struct event_view *event);

/* ---- routes.c ---- */

struct preview_body {
    const char *subject;
};
struct erase_body {
    const char *subject, *preview_fingerprint, *reason;
};
struct fault route_privacy_preview(struct request *request);
struct fault route_privacy_erase(struct request *request);
struct fault route_privacy_list(struct request *request);
struct fault route_privacy_get(struct request *request);
struct fault route_privacy_attest(struct request *request);
struct fault route_privacy_attestations(struct request *request);
struct fault route_audit_history(struct request *request);

#endif
