/* What the files of the verifier share. */
#ifndef API_COMPLIANCE_VERIFY_INTERNAL_H
#define API_COMPLIANCE_VERIFY_INTERNAL_H

#include "api/compliance/evaluate.h"
#include "api/compliance/verify.h"

#define MEMBER_MAX     sizeof(((struct evidence_verdict *)0)->member)
#define TEXT_MAX       8192 /* of one text in the manifest: a query with all its conditions */
#define BY_TYPE_MAX    4096
#define GAPS_MAX       64
#define TYPE_TEXT_MAX  63
#define DIGEST_HEX_LEN (2 * SHA256_LEN)

struct check {
    struct op *op;
    const struct evidence_pins *pins;
    struct evidence_verdict *verdict;
    /* of the manifest, as they are known */
    struct evidence_window window;
    int64_t head, archived_through, archived_in_window;
    utc_us generated;
};

/* Writes reason, member and words (the first ones stay). Gives EVIDENCE_REFUSED. */
struct fault refuse(struct check *check, enum evidence_reason reason, const char *member, const char *format, ...)
    PRINTF(4, 5);
/* The same where the member is `at` and a name below it. */
struct fault refuse_below(struct check *check, enum evidence_reason reason, const char *at, const char *name,
                          const char *format, ...) PRINTF(5, 6);

/* An object (canonical JSON) by its table: exactly its members, null counting as one; `reason` otherwise. */
struct fault take_object(struct check *check, enum evidence_reason reason, const char *at, struct span json,
                         const struct jin_field *fields, size_t count, void *ret_struct);
/* The objects of an array, at most `max`. */
struct fault take_array(struct check *check, enum evidence_reason reason, const char *at, struct span json, size_t max,
                        struct span **ret_items, size_t *ret_count);
/* A time in the form that is signed (clock.h); TIME otherwise. */
struct fault take_time(struct check *check, const char *at, const char *name, const char *text, utc_us *ret_time);
struct fault take_window(struct check *check, enum evidence_reason reason, const char *at, struct span json,
                         struct evidence_window *ret_window);
/* "<at>/<name>" and "<at>/<index>" */
void member_below(const char *at, const char *name, char out[MEMBER_MAX]);
void member_at(const char *at, size_t index, char out[MEMBER_MAX]);

/* Is it among the first `count`? */
bool listed(const char *const *texts, size_t count, const char *text);

bool evidence_framework_known(const char *id);
/* A state by its text; false for none. */
bool evidence_state(const char *text, enum prerequisite_state *ret_state);

/* verify_manifest.c: the canonical manifest, whole. */
struct evidence_datasets {
    const char *framework;
    struct span custody, adcs, readiness;
};
struct fault verify_manifest(struct check *check, struct span manifest, struct evidence_datasets *ret_datasets);
/* verify_controls.c */
struct fault verify_verdicts(struct check *check, const char *at, struct span verdicts);
struct fault verify_gaps(struct check *check, const char *at, struct span gaps);
/* verify_reference.c: references of a prerequisite or gap, within `window`. */
struct fault verify_references(struct check *check, const char *at, struct span references, enum prerequisite_kind kind,
                               struct evidence_window window, size_t *ret_count);
/* The 90 days, and the time at which they were looked at; check->window is set. */
struct fault verify_window(struct check *check, const char *at, struct span json, const char *generated_at);
/* The audit trail's end (check->head is set), and the window's population. */
struct fault verify_trail(struct check *check, const char *at, struct span json);
struct fault verify_totals(struct check *check, const char *at, struct span json);
/* verify_datasets.c */
struct fault verify_custody(struct check *check, const char *at, struct span custody);
struct fault verify_readiness(struct check *check, const char *at, struct span readiness);
/* An object that is not empty. */
struct fault verify_dataset(struct check *check, const char *at, struct span dataset);
/* verify_stamp.c: over verdict->digest; empty = there is none. */
struct fault verify_stamp(struct check *check, struct span token);
/* verify_report.c */
struct fault verify_report(struct check *check, struct span bytes);

/* ---- verify_envelope.c ---- */

#define AT_MANIFEST "/signed_export/manifest"
#define KEY_DER_MAX 8192
#define STAMP_MAX   ((size_t)128 << 10)

struct envelope {
    struct span manifest, manifest_sha256, timestamp;
    const char *algorithm, *key_id, *jws;
};
#define ENVELOPE_FIELDS                                                                  \
    JIN_RAW(struct envelope, manifest, JIN_REQUIRED, 2, EVIDENCE_MANIFEST_MAX),          \
        JIN_HEX(struct envelope, manifest_sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN), \
        JIN_TEXT(struct envelope, algorithm, JIN_REQUIRED, 1, 16),                       \
        JIN_TEXT(struct envelope, key_id, JIN_REQUIRED, 1, 64),                          \
        JIN_TEXT(struct envelope, jws, JIN_REQUIRED, 1, EVIDENCE_JWS_MAX)
/* The whole file by its table; what the decoder refused, as ours. */
struct fault take_file(struct check *check, struct span bytes, const struct jin_field *fields, size_t count,
                       void *ret_struct);
/* The JWS under the pinned key that public_key_der is; its payload canonical, and the manifest copy. verdict->kid,
 * payload and digest are set. */
struct fault verify_envelope(struct check *check, const struct envelope *envelope, struct span public_key_der,
                             const char *typ, const struct jwk **ret_key);
/* Did that key sign at that time? */
struct fault verify_key_window(struct check *check, const struct jwk *key, utc_us at);

#endif
