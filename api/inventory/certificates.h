/*
 * Certificates of a tenant and who keeps their keys. Those of managed keys and time-stamping units come in with the
 * keys' own events (api/keys), and what the product knows of their custody follows from the key's row; all others are
 * recorded by users, with the custody facts that they state. A fact that nobody stated is missing, never guessed.
 */
#ifndef API_INVENTORY_CERTIFICATES_H
#define API_INVENTORY_CERTIFICATES_H

#include "api/inventory/inventory.h"
#include "api/projection/projection.h"
#include "api/server/request.h"

#define CERTIFICATE_DER_MAX ((size_t)64 << 10)
#define CERTIFICATE_PEM_MAX ((size_t)96 << 10)
#define CUSTODY_TEXT_MAX    256
#define CUSTODY_LANE        "inventory-custody"
#define INVENTORY_LANE      "inventory"

#define EVENT_CERTIFICATE "inventory.certificate.recorded"
#define EVENT_CUSTODY     "inventory.certificate.custody_recorded"

/* ---- certificate.c: pure ---- */

struct certificate_facts {
    const char *subject, *issuer; /* RFC 4514, ASCII */
    const char *serial;           /* lower-case hex */
    utc_us not_before, not_after;
};
/* One certificate in strict DER, nothing behind it, at most CERTIFICATE_DER_MAX. JSON_FIELD, with `pointer` and why.
 * Texts in op's arena. */
struct fault certificate_read(struct op *op, struct span der, const char *pointer, struct certificate_facts *ret_facts);
/* The DER of one block "CERTIFICATE" (RFC 7468 3, strict) with nothing but blank space around it; in op's arena. */
struct fault certificate_unwrap(struct op *op, const char *pem, const char *pointer, struct span *ret_der);
/* Of one that is kept already: what can be read of it; "" and 0 for the rest. */
void certificate_describe(struct op *op, struct span der, struct certificate_facts *ret_facts);

/* ---- custody.c ---- */

/* NULL = not stated. */
struct custody {
    const char *origin, *storage_class, *exportability, *holder, *locus;
};
/* The closed lists, NULL-terminated, in order of the alphabet. */
extern const char *const custody_origins[], *const custody_storage_classes[], *const custody_exportabilities[];
/* Origins that follow from the product's own keys, and that nobody may state. */
bool custody_origin_is_own(const char *origin);
/* Words of the closed lists, and texts in their bounds. JSON_FIELD with a pointer below `pointer`. */
struct fault custody_check(struct op *op, const struct custody *custody, const char *pointer);
bool custody_is_empty(const struct custody *custody);
/* Names of what is missing, in order; at most CUSTODY_FACTS. */
#define CUSTODY_FACTS 5
size_t custody_missing(const struct custody *custody, const char *ret_names[CUSTODY_FACTS]);
/* Members of the open object; only what is stated. */
void custody_print_facts(struct jout *jout, const struct custody *custody);
extern const struct jin_field custody_fields[];
extern const size_t custody_field_count;
extern const struct jin_field custody_stored_fields[CUSTODY_FACTS]; /* of events */

/* ---- certificates_query.c ---- */

struct certificate_row {
    struct uuid id;
    struct sha256 fingerprint;
    struct span der;                /* not of certificate_list */
    struct certificate_facts facts; /* not of certificate_walk */
    const char *key_id, *key_state; /* NULL: not of a managed key */
    struct custody custody;
    utc_us recorded, custody_recorded, not_after; /* the last one of certificate_walk alone; 0 = it does not decode */
    const char *recorded_by, *custody_by;         /* "" and NULL: nobody */
    int64_t version;
    const char *custody_command;
};
struct certificate_filter {
    const char *origin;     /* NULL = any */
    const char *custody;    /* "recorded", "unrecorded"; NULL = any */
    utc_us expiring_before; /* INT64_MAX = any */
    int64_t before_us;
    const char *before_id;
    int64_t limit;
};
/* Rows and texts in op's arena. NOT_FOUND. */
struct fault certificate_get(struct op *op, struct store *store, const char *id, struct certificate_row *ret_row);
struct fault certificate_list(struct op *op, struct store *store, const struct certificate_filter *filter,
                              struct certificate_row **ret_rows, size_t *ret_count);
/* All of op's tenant, in order of ids. In constant memory: a row and its texts last until the call returns, and so does
 * what is taken from the arena of `scratch`. */
typedef struct fault (*certificate_visit)(struct op *scratch, void *arg, const struct certificate_row *row);
struct fault certificate_walk(struct op *op, struct tx *tx, certificate_visit visit, void *arg);

/* ---- custody_print.c ---- */

struct custody_counts {
    int64_t total, recorded, not_exportable, exportable;
};
struct fault custody_count(struct op *op, struct tx *tx, struct custody_counts *ret_counts);
/* The summary of all certificates that are added, in order of their ids; what it lists takes at most `bytes_max`. */
struct custody_summary;
struct fault custody_summary_new(size_t bytes_max, struct custody_summary **ret_summary);
void custody_summary_freep(struct custody_summary **summary);
struct fault custody_summary_add(struct op *scratch, struct custody_summary *summary,
                                 const struct certificate_row *row);
struct fault custody_summary_print(struct custody_summary *summary, struct tx *tx, struct jout *out);

/* ---- certificates.c, certificates_project.c, certificates_routes.c ---- */

struct certificate_body {
    struct span certificate_der;
    const char *certificate_pem;
    struct custody custody;
};
struct custody_body {
    struct custody custody;
    int64_t expected_version;
};
struct fault certificate_record(struct op *op, struct services *services, const struct certificate_body *body,
                                struct certificate_row *ret_row, bool *ret_made);
struct fault certificate_custody(struct op *op, struct services *services, const char *id,
                                 const struct custody_body *body, struct certificate_row *ret_row);
struct fault project_certificate_recorded(struct projection *projection, const struct event_view *event);
struct fault project_custody_recorded(struct projection *projection, const struct event_view *event);
struct fault route_certificate_list(struct request *request);
struct fault route_certificate_get(struct request *request);
struct fault route_certificate_record(struct request *request);
struct fault route_certificate_custody(struct request *request);
extern const struct jin_field certificate_body_fields[], custody_body_fields[];
extern const size_t certificate_body_count, custody_body_count;

/* One event of the lane under an id made of `seed` and the type; waits until it is projected. `expected` NULL: whatever
 * the lane's last is. LOG_CONFLICT: caught up with, decide again. */
struct fault inventory_append(struct op *op, struct services *services, const char *lane, const char *type,
                              const char *seed, const struct buf *data, const uint64_t *expected);
struct fault inventory_lane_last(struct op *op, struct services *services, const char *lane, uint64_t *ret_seq);
#define INVENTORY_DECIDE_AGAIN 8 /* how often a lane that moved on is read again */
#define INVENTORY_EVENT_MAX    ((size_t)900 << 10)

#endif
