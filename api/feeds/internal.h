/* What the files of api/feeds/ share. */
#ifndef API_FEEDS_INTERNAL_H
#define API_FEEDS_INTERNAL_H

#include "api/feeds/feeds.h"
#include "api/projection/chain.h"
#include "api/server/request.h"
#include "appliance/http/http.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define FEED_CONFIG_LANE    "feed-config"
#define FEED_LANE           "feeds"
#define FEED_OUTBOX         "audit.feed"
#define FEED_ID_MAX         63u
#define FEEDS_PER_TENANT    16
#define FEED_CONFIG_MAX     ((size_t)64 << 10)
#define FEED_REQUEST_ID_MAX 64u
#define FEED_RECEIPT_MAX    20u
#define FEED_TRAILER_MAX    ((size_t)4 << 10)
#define FEED_HOSTS_MAX      2u
#define FEED_SECRETS_MAX    2u

/* ---- errors.c: what an attempt may meet, as it is shown: closed codes, never a collector's own words ---- */

enum feed_error {
    FEED_FINE,
    FEED_UNREACHABLE,
    FEED_BUSY,
    FEED_FAULTY,
    FEED_ANSWER,
    FEED_UNACKNOWLEDGED,
    FEED_UNCLOSED,
    FEED_NOT_ALLOWED,
    FEED_NO_CREDENTIAL,
    FEED_NO_TOKEN,
    FEED_CREDENTIAL,
    FEED_NO_ACK,
    FEED_REJECTED,
    FEED_CHANGED,
    FEED_RENDERED,
    FEED_ERROR_COUNT
};
struct feed_error_row {
    const char *text;
    bool final; /* another attempt would meet the same */
    const char *advice;
};
const struct feed_error_row *feed_error_row(enum feed_error error);

/* ---- allow.c: where feeds may go ---- */

struct feed_host {
    char name[256]; /* lower case, without brackets */
    char port[6];
    bool plain; /* http:// */
};
struct feed_allowance; /* an entry of audit.feeds.allow */
struct feed_token;     /* azure_token.c */
struct feeds {
    struct feed_allowance *allowances;
    size_t allowance_count;
    pthread_mutex_t lock; /* guards the tokens */
    struct feed_token *tokens;
    size_t turn;        /* the worker's: whose turn it is */
    atomic_uint failed; /* feeds that stand still, as last seen by the leader */
};
/* CONFIG, and op's note says which entry and why. */
struct fault feeds_new(struct op *op, const struct config *config, struct feeds **ret_feeds);
void feeds_free(struct feeds *feeds);
DEFINE_FREEP(struct feeds, feeds_free)
/* "https://name:port/path": scheme must be `scheme`, or http for this machine where it is https. */
bool feed_url_read(const char *url, const char *scheme, const char *port, struct feed_host *ret_host);
/* "env:NAME" as the name; NULL when it is not of that form. */
const char *feed_credential_name(const char *reference);
/* May this tenant send these credentials (by name) to that host? */
bool feeds_allow(const struct feeds *feeds, struct tenant_id tenant, const struct feed_host *host,
                 const char *const *names, size_t count);
/* The variable's value. False: it is not set, or is empty or too long. */
bool feed_secret_read(const char *reference, struct secret **ret_secret);

/* ---- config.c: what a feed is told ---- */

struct feed_config {
    const char *kind, *url, *credential, *ca_pem;
    const char *index, *source, *sourcetype, *acknowledgement;    /* hec */
    const char *rule_id, *stream, *token_url, *client_id, *scope; /* azure-monitor */
    const char *source_host, *server_name;                        /* syslog */
    int64_t enterprise_number, message_max;
    bool client_certificate;
};
/* A request's body: the configuration's members stand first in both tables. */
struct feed_body {
    struct feed_config config;
    struct span enabled; /* true or false; missing = true */
    int64_t from_sequence;
};
#define FEED_BODY_FIELDS 20
extern const struct jin_field feed_body_fields[FEED_BODY_FIELDS];
/* Stored configuration, as configured events have it. */
struct fault feed_config_read(struct op *op, struct span json, struct feed_config *ret_config);
void feed_config_print(const struct feed_config *config, struct jout *jout);

struct feed_kind;
/* The hosts that the feed speaks to, and the credentials that it has. */
struct feed_needs {
    struct feed_host hosts[FEED_HOSTS_MAX];
    size_t host_count;
    const char *names[FEED_SECRETS_MAX];
    size_t name_count;
};
/* Members, forms, and whether hosts and credentials are allowed. FEED_CONFIG, FEED_DESTINATION. */
struct fault feed_config_check(struct op *op, const struct feeds *feeds, const struct feed_config *config,
                               const struct feed_kind **ret_kind, struct feed_needs *ret_needs);
/* Without a note: is what was allowed once still allowed? */
bool feed_config_allowed(struct op *op, const struct feeds *feeds, const struct feed_config *config);

/* ---- range.c, records.c: records, and what pins them ---- */

struct feed_record {
    int64_t sequence;
    const char *event_id, *type, *actor;
    utc_us time;
    struct span record;
    struct sha256 chain;
};
struct feed_range {
    int64_t first, last;
    struct sha256 seed, head, ids;
};
/* Recomputes the chain from `seed` over the records, which must follow one another. FEED_RANGE: they do not, or their
 * chain is not theirs. */
struct fault feed_range_of(const struct feed_record *records, size_t count, const struct sha256 *seed,
                           struct feed_range *ret_range);
bool feed_range_equal(const struct feed_range *a, const struct feed_range *b);
struct fault feed_batch_id(struct tenant_id tenant, const char *feed_id, const struct feed_range *range,
                           struct uuid *ret_id);
/* Records from `first` to at most `last`, bounded in number and bytes; at least one if there is one. They borrow from
 * *ret_rows, and the list lives in op's arena. */
struct fault feed_records_read(struct op *op, struct tx *tx, int64_t first, int64_t last, int64_t limit, size_t bytes,
                               struct rows **ret_rows, struct feed_record **ret_records, size_t *ret_count);
/* Is there one from `first` on that is not of the audit.feed family? */
struct fault feed_records_due(struct op *op, struct tx *tx, int64_t first, bool *ret_due);
/* chain(sequence); NOT_FOUND when the record is not retained. */
struct fault feed_chain_at(struct op *op, struct tx *tx, int64_t sequence, struct sha256 *ret_chain);
/* The first and last record that are retained; 0 when there is none. */
struct fault feed_records_bounds(struct op *op, struct tx *tx, int64_t *ret_first, int64_t *ret_last);

/* ---- render.c: bytes of a batch, the same whenever it is rendered ---- */

struct feed_render {
    const struct feed_kind *kind;
    const struct feed_config *config;
    struct tenant_id tenant;
    const char *feed_id;
    struct uuid batch_id;
    struct feed_range range;
};
/* A record, or a piece of one. */
struct feed_item {
    const struct feed_record *record;
    struct span piece; /* of the record's text; empty when the record is larger than the collector takes */
    unsigned part, parts;
    bool oversize;
};
/* As many records as fit; *ret_count may be NULL. With ret_count NULL all have to (TOO_LARGE). */
struct fault feed_render(const struct feed_render *render, const struct feed_record *records, size_t count,
                         struct buf *out, size_t *ret_count);

/* ---- kinds.c: one row for each kind of collector ---- */

struct feed_result {
    enum feed_error error;
    char request_id[FEED_REQUEST_ID_MAX + 1];
    char receipt[FEED_RECEIPT_MAX + 1]; /* the collector has it and will confirm it under this number */
    int64_t retry_after_s;
    bool old_token; /* it was sent with a token from before, which may be good no more */
};
struct feed_send {
    struct services *services;
    const struct feed_kind *kind;
    const struct feed_config *config;
    const char *feed_id;
    int64_t version;
    struct uuid batch_id;
    struct span body;
    const char *receipt; /* of an attempt before; "" = none */
    const atomic_bool *stopping;
    mono_ns deadline;
};
struct feed_kind {
    const char *name, *doc;
    const char *scheme, *port;                  /* of its url; the port that goes without saying */
    const char *const *required, *const *takes; /* members of the configuration, NULL-terminated */
    struct fault (*check)(struct op *op, const struct feed_config *config); /* beyond those; may be NULL */
    /* HTTP: where a batch is sent to, and as what. */
    struct fault (*endpoint)(struct op *op, const struct feed_send *send, const char **ret_url);
    const char *content_type;
    const char *request_id; /* the header of its answer that names the request, "x-ms-request-id:" */
    /* Body: open, items with `between`, trailer, close. */
    const char *open, *between, *close;
    struct fault (*item)(const struct feed_render *render, const struct feed_item *item, struct buf *out);
    struct fault (*trailer)(const struct feed_render *render, const struct feed_record *last, struct buf *out);
    /* Authentication: the token and its scheme, and further headers. */
    struct fault (*authenticate)(struct op *op, const struct feed_send *send, struct http_request *request,
                                 struct secret **ret_token, struct feed_result *result);
    /* Acknowledgement: what the answer means. */
    void (*acknowledge)(struct op *op, const struct feed_send *send, const struct http_answer *answer,
                        struct feed_result *result);
    /* Asks again about a batch that was taken and not confirmed; NULL = the collector confirms at once. */
    void (*confirm)(struct op *op, const struct feed_send *send, const char *receipt, struct feed_result *result);
    void (*transport)(struct op *op, const struct feed_send *send, struct feed_result *result);
    /* Batch limits. */
    int64_t records_max;
    size_t bytes_max;
    size_t (*piece_max)(const struct feed_config *config); /* NULL = records go whole */
    const char *proof;                                     /* what "delivered" rests on, for people */
};
extern const struct feed_kind feed_hec, feed_azure, feed_syslog;
const struct feed_kind *feed_kind_find(const char *name); /* NULL */
/* "hec, azure-monitor or syslog" */
const char *feed_kind_names(void);

/* ---- send_http.c, send_tls.c ---- */

void feed_send_http(struct op *op, const struct feed_send *send, struct feed_result *result);
void feed_send_tls(struct op *op, const struct feed_send *send, struct feed_result *result);
/* One exchange with a collector or token issuer: what every kind has in common. `unreachable` is the error of none. */
struct fault feed_exchange(struct op *op, const struct feed_send *send, struct http_request *request,
                           struct http_answer *answer, enum feed_error unreachable, struct feed_result *result);
/* What a status means that is not the kind's own business. */
enum feed_error feed_status_error(long status);
/* Printable, bounded; anything else becomes "". */
void feed_request_id_take(struct feed_result *result, const char *text);

/* ---- answers of collectors: outside bytes ---- */

struct hec_answer {
    int64_t code, ack_id; /* -1 = not there */
};
struct fault hec_answer_read(struct op *op, struct span body, struct hec_answer *ret_answer);
/* {"acks":{"<id>":true}} */
struct fault hec_ack_read(struct op *op, struct span body, const char *ack_id, bool *ret_indexed);
struct azure_token_answer {
    struct span token;
    int64_t expires_s;
};
struct fault azure_token_read(struct op *op, struct span body, struct azure_token_answer *ret_answer);

/* azure_token.c: kept until shortly before its end. FEED_FINE, or why there is none. *ret_cached: it was not made now.
 */
enum feed_error azure_token_get(struct op *op, const struct feed_send *send, struct secret **ret_token,
                                bool *ret_cached, struct feed_result *result);
void azure_token_forget(struct op *op, const struct feed_send *send);
void azure_tokens_free(struct feeds *feeds);

/* ---- store.c: a feed as it stands ---- */

struct feed {
    const char *id, *kind, *host, *credential, *saved_by, *state, *error_code, *request_id, *delivered_request_id;
    struct span config;
    int64_t version, next, delivered, failed_attempts, round;
    struct span next_seed;
    bool enabled;
    utc_us saved_at, delivered_at, failed_at;
    const char *batch_id; /* "" = none is open */
    struct feed_range range;
    struct sha256 body;
    /* of this installation: the attempts at the open batch */
    int64_t attempts;
    utc_us due_at, attempted_at, not_before, receipt_at;
    const char *outbox_state, *attempt_error, *attempt_request_id, *receipt;
};
/* By id, or all of op's tenant (id NULL). Results live in op's arena. */
struct fault feeds_load(struct op *op, struct tx *tx, const char *id, struct feed **ret_feeds, size_t *ret_count);
/* NOT_FOUND. */
struct fault feed_load(struct op *op, struct services *services, const char *id, struct feed *ret_feed);
/* Tenant and id of every feed that is enabled and not failed, for workers: "tenant" in .saved_by. */
struct feed_name {
    struct tenant_id tenant;
    char id[FEED_ID_MAX + 1];
};
struct fault feeds_names(struct op *op, struct services *services, struct feed_name **ret_names, size_t *ret_count);
struct fault feed_attempt_record(struct op *op, struct services *services, const struct feed *feed,
                                 const struct feed_result *result, bool keep_receipt);
struct fault feed_outbox_key(struct op *op, const char *feed_id, const char *batch_id, int64_t version, int64_t round,
                             const char **ret_key);
bool feed_id_fits(const char *id);

/* ---- configure.c, preview.c, routes.c ---- */

struct feed_plan {
    const struct feed_kind *kind;
    struct feed_needs needs;
    int64_t version, from;
    uint64_t lane;
    bool enabled;
    bool found; /* there is a version before */
    struct feed before;
};
struct fault feed_plan(struct op *op, struct services *services, const char *id, const struct feed_body *body,
                       struct feed_plan *ret_plan);
struct fault feed_configure(struct op *op, struct services *services, const char *id, const struct feed_body *body);
struct fault feed_switch(struct op *op, struct services *services, const char *id, bool enabled);
struct fault feed_print(struct op *op, const struct feed *feed, struct jout *jout);
struct fault route_feeds_list(struct request *request);
struct fault route_feed_put(struct request *request);
struct fault route_feed_preview(struct request *request);
struct fault route_feed_pause(struct request *request);
struct fault route_feed_resume(struct request *request);

/* ---- batch.c, deliver.c, work.c ---- */

/* Makes the next batch, when one is due and none is open. */
struct fault feed_batch_next(struct op *op, struct services *services, const char *id);
/* The records of the open batch, read again, compared and rendered. FEED_RANGE. */
struct fault feed_batch_again(struct op *op, struct services *services, const struct feed *feed,
                              const struct feed_config *config, const struct feed_kind *kind, struct buf *body);
struct fault feed_deliver(struct op *op, struct services *services, const struct outbox_item *item);
struct fault feed_append(struct op *op, struct services *services, const char *type, const char *lane,
                         const struct span *parts, size_t count, const struct buf *data, uint64_t *ret_seq);
struct fault feed_record_failed(struct op *op, struct services *services, const struct feed *feed,
                                enum feed_error error, const char *request_id, int64_t attempts);
struct fault feeds_work(struct op *op, struct services *services);
struct fault feeds_reconcile(struct op *op, struct services *services);
struct fault feeds_well(struct op *op, struct services *services);

/* projection.c */
struct fault feed_project_configured(struct projection *projection, const struct event_view *event);
struct fault feed_project_batched(struct projection *projection, const struct event_view *event);
struct fault feed_project_requeued(struct projection *projection, const struct event_view *event);
struct fault feed_project_delivered(struct projection *projection, const struct event_view *event);
struct fault feed_project_failed(struct projection *projection, const struct event_view *event);

extern const struct metric feed_metrics[5];
#define FEED_STATE         (&feed_metrics[0]) /* {feed, state} */
#define FEED_LAG           (&feed_metrics[1]) /* {feed} */
#define FEED_ATTEMPTS      (&feed_metrics[2]) /* {kind, result} */
#define FEED_RECORDS_TOTAL (&feed_metrics[3]) /* {kind} */
#define FEED_LAST_SUCCESS  (&feed_metrics[4]) /* {feed} */

#endif
