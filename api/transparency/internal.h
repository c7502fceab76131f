/* What the files of api/transparency/ share. */
#ifndef API_TRANSPARENCY_INTERNAL_H
#define API_TRANSPARENCY_INTERNAL_H

#include "api/server/request.h"
#include "api/transparency/transparency.h"
#include "api/transparency/verify_internal.h"
#include "appliance/http/http.h"

#include <pthread.h>

#define TRANSPARENCY_LANE   "transparency"
#define TLOG_DIGEST_TEXT    65
#define TLOG_PAYLOAD_MAX    ((size_t)128 << 10)
#define TLOG_EVENT_MAX      ((size_t)256 << 10)
#define TLOG_CHECKPOINT_MAX NOTE_MAX

extern const struct metric transparency_metrics[2];
#define TRANSPARENCY_SUBMISSIONS_TOTAL (&transparency_metrics[0]) /* {log, result} */
#define TRANSPARENCY_SUBMIT_SECONDS    (&transparency_metrics[1]) /* {log} */

/* ---- logs.c, logs_read.c: what is configured ---- */

enum tlog_kind { TLOG_REKOR_V1, TLOG_REKOR_V2 };

struct tlog {
    const char *name, *url, *ca_file, *origin; /* url without a slash at its end; ca_file, origin may be NULL */
    const char *destination;                   /* "rekor-v1:https://rekor.example.com" */
    enum tlog_kind kind;
    bool plain; /* http:// of this machine */
    struct tenant_id *tenants;
    size_t tenant_count; /* 0 = every tenant */
    struct tlog_key *keys;
    size_t key_count;
    utc_us from, until; /* of new entries; 0 = open */

    /* gate.c: whether it is worth asking. */
    pthread_mutex_t lock; /* guards the rest */
    unsigned failed;      /* tries in a row without an answer, as far as they count */
    bool probing;         /* one asks for all */
    mono_ns closed_until;
};
struct transparency {
    struct arena *arena;
    struct tlog *logs;
    size_t count;
};
/* The file's text as logs; `file` names it in what goes wrong. Key files are read. CONFIG: `why` says where and what.
 */
struct fault tlogs_read(struct span yaml, const char *file, struct buf *why, struct transparency **ret_transparency);
void tlogs_free(struct transparency *transparency); /* NULL is fine */
DEFINE_FREEP(struct transparency, tlogs_free)
bool tlog_serves(const struct tlog *log, struct tenant_id tenant);
/* Where new entries of the tenant go; NULL = nowhere. */
struct tlog *tlogs_open_at(struct transparency *transparency, struct tenant_id tenant, utc_us now);
/* By the text that was planned; NULL when it is not configured for this tenant any more. */
struct tlog *tlogs_find(struct transparency *transparency, struct tenant_id tenant, const char *destination);
/* Does the log take such a signature? */
bool tlog_takes(enum tlog_kind kind, enum key_algorithm algorithm, enum sign_scheme scheme, enum hash_algorithm hash);
/* Sigstore's PublicKeyDetails of a signer's key, from its SPKI and hash; NULL when Rekor v2 has none. */
const char *tlog_signer_details(struct span spki, const char *hash);

/* ---- gate.c: a log that does not answer is asked once in a while, not by everybody who waits ---- */

/* Would tlog_gate_enter say no? For what need not be done then. */
bool tlog_gate_shut(struct tlog *log, mono_ns now);
/* False: not now. True: ask, and by all means tell what came of it. */
bool tlog_gate_enter(struct tlog *log, mono_ns now);
void tlog_gate_tell(struct tlog *log, bool answered, int64_t retry_after_s, mono_ns now);

/* ---- the drivers ---- */

/* One publication: the payload of its outbox row. Named as in the JSON. */
struct submission {
    const char *operation_id, *destination, *digest_algorithm, *signature_scheme;
    struct span digest, signature, public_key, certificate; /* certificate: DER, may be empty */
};
struct submit {
    const struct tlog *log;
    const struct submission *submission;
    const atomic_bool *stopping; /* may be NULL */
    int64_t retry_after_s;       /* what the log asked for; 0 = nothing */
};
/* Submits, or finds what was submitted before. Nothing of *ret_entry is verified yet; its texts live in op's arena.
 * TLOG_UNAVAILABLE (try again), TLOG_REFUSED (never), TLOG_UNVERIFIED (the answer is no log's answer). */
struct fault rekor_v1_submit(struct op *op, struct submit *submit, struct tlog_entry *ret_entry,
                             const char **ret_entry_id);
/* Its answer, 201 or 200: {"<id>": {...}}. TLOG_UNVERIFIED. */
struct fault rekor_v1_read(struct op *op, struct span body, struct tlog_entry *ret_entry, const char **ret_entry_id);
struct fault rekor_v2_submit(struct op *op, struct submit *submit, struct tlog_entry *ret_entry,
                             const char **ret_entry_id);

/* exchange.c: one request to a log. The body is the caller's to clear. A status that calls for another try or for none
 * is a fault already: what comes back is 200, 201, 409 (POST) or 404 (GET). */
struct fault tlog_post(struct op *op, struct submit *submit, const char *path, struct span body,
                       struct http_answer *answer);
struct fault tlog_get(struct op *op, struct submit *submit, const char *path, struct http_answer *answer);

/* location.c: the path of a 409's Location within the log: "/api/v1/log/entries/<64 or 80 hex>", behind the log's URL.
 * Relative or absolute; TLOG_UNVERIFIED when it leads to another origin or to anything but an entry. */
struct fault tlog_location(struct op *op, const char *url, const char *location, const char **ret_path);

/* tiles.c: an entry that a Rekor v2 has already, put together from its checkpoint and tiles. */
struct fault tiles_entry(struct op *op, struct submit *submit, int64_t index, struct tlog_entry *ret_entry);

/* worker.c: drivers, verification, record */
struct fault transparency_publish(struct op *op, struct services *services, const struct outbox_item *item);
/* record.c */
struct fault record_published(struct op *op, struct services *services, const struct submission *submission,
                              const struct tlog_entry *entry, const char *entry_id);
/* `round`: of the evidence; each round may fail once. */
struct fault record_failed(struct op *op, struct services *services, const struct submission *submission, int64_t round,
                           struct fault why);

/* projection.c */
struct fault project_published(struct projection *projection, const struct event_view *event);
struct fault project_failed(struct projection *projection, const struct event_view *event);

/* queries.c */
struct evidence {
    const char *operation_id, *log, *state, *failure_code, *entry_id;
    struct tlog_entry entry; /* when published */
    utc_us queued, ended;    /* ended 0 = not yet */
    int64_t sequence;
    int64_t round; /* how often it was taken up again after a failure */
};
struct evidence_filter {
    const char *state, *log; /* NULL = any */
    int64_t before_sequence;
    const char *before_id;
    int64_t limit;
};
/* Results live in op's arena. NOT_FOUND. */
struct fault evidence_get(struct op *op, struct services *services, struct uuid operation_id,
                          struct evidence *ret_evidence);
struct fault evidence_list(struct op *op, struct services *services, const struct evidence_filter *filter,
                           struct evidence **ret_evidence, size_t *ret_count);
/* The members of an answer, within an object that the caller opened. */
void evidence_print(struct jout *jout, const struct evidence *evidence);

/* routes.c */
struct fault route_transparency_list(struct request *request);

/* upkeep.c */
extern const struct outbox_upkeep transparency_upkeep;

#endif
