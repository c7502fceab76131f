/*
 * AD CS (Windows' certificate services) as a collector saw it, shared by the adcs files. The way of an observation:
 *
 *     body -- adcs_read (strict) --> struct adcs_observation -- adcs_normalise --> one form for one meaning
 *          -- adcs_print --> the event's data, inventory.adcs.observed
 *     event's data -- adcs_read (as stored) --> struct adcs_observation -- adcs_find --> findings
 *
 * Findings are never taken from a collector and never stored: they follow from the event. Names are in lower case, as
 * Windows compares them; principals are their SIDs, the names of which stand in a table of their own and mean nothing.
 */
#ifndef API_INVENTORY_ADCS_H
#define API_INVENTORY_ADCS_H

#include "api/inventory/inventory.h"
#include "api/server/request.h"

#define ADCS_LANE     "inventory-adcs" /* of its own: a command decides from what the lane holds */
#define ADCS_OBSERVED "inventory.adcs.observed"
#define ADCS_DRIFTED  "inventory.adcs.drifted"

#define ADCS_BODY_MAX   ((size_t)384 << 10)
#define ADCS_NORMAL_MAX ((size_t)640 << 10) /* with a drift event beside it, it fits one message */
#define ADCS_DRIFT_MAX  ((size_t)96 << 10)
#define ADCS_NAME_MAX   255
#define ADCS_ID_MAX     128

#define ADCS_TEMPLATES_MAX    512
#define ADCS_SERVICES_MAX     64
#define ADCS_ENDPOINTS_MAX    256
#define ADCS_RESTRICTIONS_MAX 64
#define ADCS_PERMISSIONS_MAX  128
#define ADCS_PRINCIPALS_MAX   4096
#define ADCS_EKUS_MAX         64
#define ADCS_RULES_VERSION    1
#define ADCS_DOMAINS_MAX      64 /* of a tenant, ever observed: each is in every evidence pack */

/* ---- an observation ---- */

enum adcs_right {
    ADCS_ENROLL = 1 << 0,
    ADCS_AUTOENROLL = 1 << 1,
    ADCS_OWNER = 1 << 2,
    ADCS_FULL_CONTROL = 1 << 3,
    ADCS_WRITE_DACL = 1 << 4,
    ADCS_WRITE_OWNER = 1 << 5,
    ADCS_WRITE_PROPERTY = 1 << 6,
    ADCS_MANAGE_CA = 1 << 7,
    ADCS_MANAGE_CERTIFICATES = 1 << 8,
};
#define ADCS_TEMPLATE_RIGHTS                                                                               \
    (ADCS_ENROLL | ADCS_AUTOENROLL | ADCS_OWNER | ADCS_FULL_CONTROL | ADCS_WRITE_DACL | ADCS_WRITE_OWNER | \
     ADCS_WRITE_PROPERTY)
#define ADCS_CA_RIGHTS (ADCS_ENROLL | ADCS_MANAGE_CA | ADCS_MANAGE_CERTIFICATES)

struct adcs_permission {
    const char *sid, *name; /* name: "" = not said */
    struct jin_texts words;
    unsigned rights; /* enum adcs_right */
};
struct adcs_permissions {
    struct adcs_permission *at;
    size_t count;
};

/* Bits of the template's attributes and of the CA's registry (MS-CRTD 2.26 and 2.28, MS-WCCE 3.2.2.6.2.1.4). */
#define ADCS_NAME_SUBJECT_SUPPLIED    0x00000001
#define ADCS_NAME_ALT_SUPPLIED        0x00010000
#define ADCS_ENROLL_PEND_ALL          0x00000002
#define ADCS_EDIT_SUBJECT_ALT_NAME    0x00040000
#define ADCS_INTERFACE_ENCRYPT_ENROLL 0x00000200

struct adcs_template {
    const char *name, *oid;
    int64_t schema_version, authorized_signatures, validity_seconds, renewal_seconds;
    int64_t name_flags, enrollment_flags, private_key_flags;
    bool enrollee_supplies_subject, manager_approval;
    struct jin_texts ekus;
    struct span permissions_json;
    struct adcs_permissions permissions;
};
struct adcs_service {
    const char *ca, *host;
    struct span certificate_sha256;
    struct jin_texts templates;
};
struct adcs_endpoint {
    const char *url, *kind, *scheme, *channel_binding;
    bool ntlm;
    struct span certificate_sha256; /* empty: not said */
};
#define ADCS_UNKNOWN (-1)
struct adcs_restriction {
    const char *ca, *enrollment_agents, *officers;
    int64_t edit_flags, interface_flags; /* ADCS_UNKNOWN */
    struct span permissions_json;
    struct adcs_permissions permissions;
};
struct adcs_principal {
    const char *sid, *name;
};

/* The body of POST /api/v1/adcs/observations; the event's data has two members more. */
struct adcs_body {
    const char *domain, *source_id, *run_id, *relay_id;
    utc_us observed_at;
    int64_t schema_version;
    bool complete;
    struct span templates, enrollment_services, iis_endpoints, ca_restrictions;
    const char *observation_id; /* of the event */
    struct span principals;     /* of the event */
};
#define ADCS_BODY_FIELDS 11 /* without those of the event, which stand last */
extern const struct jin_field adcs_body_fields[ADCS_BODY_FIELDS + 2];

struct adcs_observation {
    struct adcs_body head; /* its spans are what was read */
    struct adcs_template *templates;
    struct adcs_service *services;
    struct adcs_endpoint *endpoints;
    struct adcs_restriction *restrictions;
    struct adcs_principal *principals;
    size_t template_count, service_count, endpoint_count, restriction_count, principal_count;
};

/* ---- adcs_read.c, adcs_check.c, adcs_normal.c, adcs_print.c: pure; everything lives in op's arena ---- */

/* A decoded body, its parts read and checked: JSON_FIELD with the pointer, ADCS_OBSERVATION. */
struct fault adcs_read_body(struct op *op, const struct adcs_body *body, struct adcs_observation *ret_observation);
/* The data of an event: structure only. What erasure has put in its place is still an observation. */
struct fault adcs_read_stored(struct op *op, struct span data, struct adcs_observation *ret_observation);
/* Order, case, doubles; then whether it fits together. ADCS_OBSERVATION. */
struct fault adcs_normalise(struct op *op, struct adcs_observation *observation);
struct fault adcs_print(const struct adcs_observation *observation, struct buf *out);
/* JSON_FIELD below `pointer`; the forms that one text has. In place: *text becomes the normal form. */
struct fault adcs_check_domain(struct op *op, const char *pointer, const char **text);
struct fault adcs_check_name(struct op *op, const char *pointer, const char **text);
struct fault adcs_check_id(struct op *op, const char *pointer, const char *text);
struct fault adcs_check_oid(struct op *op, const char *pointer, const char *text);
struct fault adcs_check_sid(struct op *op, const char *pointer, const char **text);
struct fault adcs_check_url(struct op *op, const char *pointer, const char *scheme, const char **text);
struct fault adcs_check_word(struct op *op, const char *pointer, const char *text, const char *const *words);
extern const char *const adcs_kinds[], *const adcs_schemes[], *const adcs_bindings[], *const adcs_states[];
/* 0 = no such word. */
unsigned adcs_right_of(const char *word);
void adcs_rights_print(struct jout *jout, unsigned rights);
int adcs_text_order(const void *a, const void *b); /* of const char *, for qsort */

/* ---- adcs_rules.c: pure ---- */

enum adcs_severity { ADCS_MEDIUM, ADCS_HIGH, ADCS_CRITICAL };
struct adcs_rule {
    const char *id; /* "ESC1": closed */
    const char *title;
    const char *const *rests_on; /* NULL-terminated names of members */
};
struct adcs_finding {
    const struct adcs_rule *rule;
    enum adcs_severity severity;
    const char *kind, *name; /* "template", "ca", "endpoint" */
    const char **sids;       /* whose rights it rests on */
    size_t sid_count;
};
struct adcs_findings {
    struct adcs_finding *at; /* by rule, then by name */
    size_t count;
};
const char *adcs_severity_text(enum adcs_severity severity);
/* Neither one that Windows makes for administering, nor in `more`. */
bool adcs_administers(const char *sid, const struct config_list *more);
struct fault adcs_find(struct op *op, const struct adcs_observation *observation,
                       const struct config_list *administrators, struct adcs_findings *ret_findings);
struct adcs_counts {
    int64_t of[ADCS_CRITICAL + 1]; /* enum adcs_severity */
};
void adcs_findings_count(const struct adcs_findings *findings, struct adcs_counts *ret_counts);
/* One JSON object, in canonical order. */
void adcs_counts_print(struct jout *jout, const struct adcs_counts *counts);
/* One JSON array. */
void adcs_findings_print(struct jout *jout, const struct adcs_findings *findings);

/* ---- adcs_drift.c: pure ---- */

#define ADCS_CHANGES_MAX 512
struct adcs_change {
    const char *object; /* "template", "service", "endpoint", "restriction", "finding" */
    const char *change; /* "added", "removed", "changed"; "appeared", "cleared" */
    const char *name;   /* a finding's: "ESC1 critical template:user" */
    struct jin_texts members;
};
struct adcs_drift {
    struct adcs_change *at; /* the first ADCS_CHANGES_MAX */
    size_t count;
    int64_t total, appeared, cleared;
};
struct adcs_seen {
    const struct adcs_observation *observation; /* as stored */
    const struct adcs_findings *findings;
};
struct fault adcs_compare(struct op *op, const struct adcs_seen *before, const struct adcs_seen *after,
                          struct adcs_drift *ret_drift);
struct fault adcs_drift_print(const struct adcs_drift *drift, const struct adcs_observation *after,
                              const char *before_id, utc_us before_at, struct buf *out);

/* ---- adcs_store.c ---- */

struct adcs_row {
    const char *observation_id, *domain, *source_id, *run_id, *relay_id, *event_id, *recorded_by;
    int64_t schema_version, sequence;
    bool complete, latest;
    utc_us observed, recorded;
    struct sha256 chain;
    struct span data; /* {0} where it was not asked for */
};
/* What a new observation is judged by: whose the source is (NULL = nobody's yet) and its last time there (0 = none),
 * how many domains there are and whether this is one of them, and the domain's latest complete one. */
struct adcs_standing {
    const char *source_subject;
    utc_us source_last;
    int64_t domains;
    bool known;
    bool found;
    struct adcs_row latest;
};
struct fault adcs_standing_read(struct op *op, struct tx *tx, const char *domain, const char *source_id,
                                struct adcs_standing *ret_standing);
/* NOT_FOUND. */
struct fault adcs_row_get(struct op *op, struct tx *tx, const char *observation_id, struct adcs_row *ret_row);
typedef struct fault (*adcs_row_fn)(void *arg, struct op *op, const struct adcs_row *row);
/* The latest complete observation of each domain, with its data, by domain. `visit` gets an operation whose arena is
 * forgotten after each row. */
struct fault adcs_latest_each(struct op *op, struct tx *tx, adcs_row_fn visit, void *arg);
/* Domains of which there is an observation and no complete one; their number, and the first of them by name. */
struct fault adcs_unobserved(struct op *op, struct tx *tx, struct jin_texts *ret_domains);
/* Newest first, those before `sequence`; domain may be NULL; latest: only what counts as a domain's latest. */
struct adcs_wanted {
    const char *domain;
    bool latest;
    int64_t before, limit;
};
struct fault adcs_rows_list(struct op *op, struct tx *tx, const struct adcs_wanted *wanted, struct adcs_row **ret_rows,
                            size_t *ret_count);
struct adcs_drift_row {
    const char *event_id, *domain, *observation_id, *source_id, *run_id, *relay_id, *recorded_by;
    int64_t sequence, changes;
    utc_us observed, recorded;
    struct sha256 chain;
    struct span data;
};
struct fault adcs_drift_list(struct op *op, struct tx *tx, const struct adcs_wanted *wanted,
                             struct adcs_drift_row **ret_rows, size_t *ret_count);
/* Those recorded from..to, without their data: oldest first of the newest `limit`; *ret_total counts all of them. */
struct fault adcs_drift_window(struct op *op, struct tx *tx, utc_us from, utc_us to, int64_t limit,
                               struct adcs_drift_row **ret_rows, size_t *ret_count, int64_t *ret_total);
struct fault adcs_drift_data(struct op *op, struct tx *tx, int64_t sequence, struct span *ret_data);

/* ---- the rest ---- */

struct fault adcs_project_observed(struct projection *projection, const struct event_view *event);
struct fault adcs_project_drifted(struct projection *projection, const struct event_view *event);
/* Of adcs_read_stored: the event's data is no observation any more, since an erasure took too much of it. */
bool adcs_unreadable(struct fault fault);
/* An operation like op with an arena of its own, for what a megabyte of JSON unfolds to. */
struct fault adcs_scratch_new(struct op *op, struct op *ret_scratch);
void adcs_scratch_clear(struct op *scratch);
struct fault route_adcs_observe(struct request *request);
struct fault route_adcs_list(struct request *request);
struct fault route_adcs_get(struct request *request);
struct fault route_adcs_drift(struct request *request);

#endif
