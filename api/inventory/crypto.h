/*
 * What the files of this folder that are about cryptography share.
 *
 * An asset is a live key of the tenant, a certificate that was recorded for it, or the appliance's HTTPS listener. One
 * walk (crypto_walk) gives all of them in canonical order, and whoever shows or counts assets goes by it: the bill of
 * materials, the readiness dataset, and the counts of packs cannot differ in what there is.
 *
 * Live keys are those that can sign or seal: prepared, active or retiring, and not past their not_after (KEY_LIVES of
 * credentials.h, for all). What is left out is counted with its reason.
 */
#ifndef API_INVENTORY_CRYPTO_H
#define API_INVENTORY_CRYPTO_H

#include "api/inventory/inventory.h"
#include "api/server/request.h"

#include <openssl/types.h>

#define CRYPTO_LANE         "inventory"
#define CRYPTO_LISTENER     "listener:https"
#define CRYPTO_OBJECT_MAX   96
#define STATEMENT_MAX       64
#define EVENT_ATTESTED      "inventory.attestation.recorded"
#define EVENT_WITHDRAWN     "inventory.attestation.withdrawn"
#define EVENT_ACTION        "inventory.readiness.action_recorded"
#define EVENT_DATASET_READ  "inventory.dataset.read"
#define DATASET_READ_LANE   "inventory-reads" /* of its own: readers are in nobody's way */
#define READINESS_FORMAT    "svc.crypto-readiness.v1"
#define READINESS_LISTED    20000              /* rows that one answer or pack lists; the digest is over all */
#define READINESS_BYTES_MAX ((size_t)48 << 20) /* of the rows of one answer */
#define READINESS_PACK_MAX  ((size_t)2 << 20)  /* of those that a pack lists */

/* ---- crypto_algorithms.c: pure ---- */

enum crypto_quantum { QUANTUM_VULNERABLE, QUANTUM_POST, QUANTUM_SYMMETRIC, QUANTUM_UNKNOWN, QUANTUM_COUNT };
enum crypto_posture { POSTURE_APPROVED, POSTURE_FENCED, POSTURE_UNLISTED, POSTURE_COUNT };
const char *crypto_quantum_text(enum crypto_quantum quantum); /* "quantum_vulnerable", "post_quantum", ... */
const char *crypto_posture_text(enum crypto_posture posture); /* "approved", "fenced", "unlisted" */

struct crypto_algorithm {
    const char *name;          /* as keys have it: "ec-p256" */
    const char *title;         /* "ECDSA P-256" */
    const char *primitive;     /* CycloneDX 1.6: "signature", "ae", "unknown" */
    const char *parameter_set; /* "P-256", "3072", "ML-DSA-65"; "" = not known */
    const char *curve, *mode;  /* NULL = has none */
    const char *oid;           /* NULL = not known */
    int64_t bits;              /* of the key as people name it; 0 = not known */
    int64_t classical_bits;    /* of strength; 0 = not known */
    int64_t nist_level;        /* category of post-quantum strength; 0 = none */
    enum crypto_quantum quantum;
    enum crypto_posture posture;
};
#define CRYPTO_ALGORITHMS 14
const struct crypto_algorithm *crypto_algorithm_at(size_t index); /* in the order of names; the last is "unknown" */
/* The one of that name; "unknown" for every other. Never NULL. */
const struct crypto_algorithm *crypto_algorithm_find(const char *name);
size_t crypto_algorithm_index(const struct crypto_algorithm *algorithm);
/* Of a public key (PKIX DER) of anybody's. Bytes that are none: "unknown". */
const struct crypto_algorithm *crypto_algorithm_of_spki(struct span spki);
/* The same, of bytes that crypto_read_spki does not take. */
const struct crypto_algorithm *crypto_algorithm_by_openssl(struct span spki);
const char *crypto_rsa_name(size_t bits);        /* of the modulus */
const char *crypto_name_of_oid(const char *oid); /* dotted; NULL = none has it */

/* ---- crypto_read.c, crypto_name.c: pure ---- */

/* What has its plain form is read without OpenSSL, with the same result; false: it is not plain. Bytes are judged as
 * far as they are read: a certificate's extensions and signature are not, they were when it was recorded. */
struct crypto_plain {
    utc_us not_before, not_after;
    struct span serial;                /* without a sign, which it has not, and leading zeros */
    struct span subject, issuer, spki; /* DER, within the certificate */
};
bool crypto_read_certificate(struct span der, struct crypto_plain *ret_plain);
bool crypto_read_spki(struct span spki, const struct crypto_algorithm **ret_algorithm);
/* RFC 4514; "" on false. */
bool crypto_read_name(struct span name, char *out, size_t size);

/* ---- readiness_advice.c: pure ---- */

enum crypto_kind { CRYPTO_CERTIFICATE, CRYPTO_KEY, CRYPTO_HTTPS, CRYPTO_KINDS };
const char *crypto_kind_text(enum crypto_kind kind); /* "certificate", "key", "listener" */
struct crypto_advice {
    const char *code, *text;
};
/* What to do about an asset: by algorithm and use alone. purpose: of a key; "" otherwise. */
struct crypto_advice crypto_advise(const struct crypto_algorithm *algorithm, enum crypto_kind kind, const char *purpose,
                                   int64_t uses);

/* ---- crypto_walk.c ---- */

struct crypto_asset {
    char object[CRYPTO_OBJECT_MAX];
    enum crypto_kind kind;
    const struct crypto_algorithm *algorithm;
    const char *name, *purpose, *state;               /* "" = has none */
    const char *token;                                /* of a key: the token that holds it; "" = the first one */
    const char *subject, *issuer;                     /* of a certificate; "" = not known */
    bool system;                                      /* made by a feature, not by a user */
    int64_t version;                                  /* of the object */
    utc_us created, activated, not_before, not_after; /* 0 = none */
    int64_t signing_operations, certificates, rules;  /* dependents that were observed */
    utc_us last_observed;                             /* 0 = never */
    const char *key_object;                           /* of a certificate: the managed key that it is for; "" = none */
};
/* Texts last until the call returns. */
typedef struct fault (*crypto_visit)(void *arg, const struct crypto_asset *asset);
/* All of op's tenant, ordered by object, byte by byte. In constant memory: pages within `tx`. `custody` gets the
 * certificates on the way; NULL = nobody asks. */
struct custody_summary;
struct fault crypto_walk(struct op *op, struct services *services, struct tx *tx, utc_us now,
                         struct custody_summary *custody, crypto_visit visit, void *arg);
/* JSON_FIELD at /object: no asset has that name. */
struct fault crypto_object_check(struct op *op, struct tx *tx, const char *object);

/* ---- crypto_certificates.c: the part of the walk that reads certificates ---- */

utc_us crypto_time(const ASN1_TIME *time); /* 0 = it does not decode */
struct fault crypto_walk_certificates(struct op *op, struct tx *tx, struct custody_summary *custody, crypto_visit visit,
                                      void *arg);
#define CRYPTO_SUBJECT_MAX 2048 /* what is longer is cut */
struct crypto_parsed {
    const struct crypto_algorithm *algorithm;
    utc_us not_before;                                            /* 0 = it does not decode */
    char subject[CRYPTO_SUBJECT_MAX], issuer[CRYPTO_SUBJECT_MAX]; /* RFC 4514, ASCII; "" = not known */
};
void crypto_parse(struct span der, struct crypto_parsed *ret_parsed);
void crypto_parse_by_openssl(struct span der, struct crypto_parsed *ret_parsed); /* the same, of what is not plain */

/* ---- crypto_count.c ---- */

struct crypto_counts {
    int64_t total, kinds[CRYPTO_KINDS], algorithms[CRYPTO_ALGORITHMS], quantum[QUANTUM_COUNT], posture[POSTURE_COUNT];
    /* of keys alone */
    int64_t keys, key_quantum[QUANTUM_COUNT], key_posture[POSTURE_COUNT];
    /* left out */
    int64_t retired, destroyed, ephemeral, expired;
};
void crypto_count_asset(struct crypto_counts *counts, const struct crypto_asset *asset);
struct fault crypto_count_left_out(struct tx *tx, utc_us now, struct crypto_counts *counts);
/* As members of the open object, in alphabetical order of their names. */
void crypto_counts_print(const struct crypto_counts *counts, struct jout *out);

/* ---- crypto_listener.c: the HTTPS listener's certificate, read once at start ---- */

struct crypto_listener {
    const struct crypto_algorithm *algorithm; /* NULL = was not read */
    char fingerprint[65];
    utc_us not_before, not_after;
};
void crypto_listener_start(const struct config *config);
const struct crypto_listener *crypto_listener(void);

/* ---- expiry.c: when certificates end, as gauges ---- */
#define EXPIRY_METRICS 3
extern const struct metric expiry_metrics[EXPIRY_METRICS];
struct fault inventory_expiry(struct op *op, struct services *services); /* a worker */

/* ---- crypto_append.c ---- */

/* EVENT_DATASET_READ: who was given which dataset, and its digest; durable when it returns OK. A HEAD request is given
 * none, so nothing is recorded. */
struct fault crypto_record_read(struct request *request, const char *artifact, const struct sha256 *digest);

/* One event in CRYPTO_LANE under an id that follows from its type, op's tenant and `seed`, projected on return. */
struct fault crypto_append(struct op *op, struct services *services, const char *type, const char *seed,
                           const struct buf *data);

/* ---- cbom.c ---- */

/* CycloneDX 1.6, canonical JSON. The serial number follows from tenant and contents. */
struct fault cbom_print(struct op *op, struct services *services, struct tx *tx, utc_us now, struct buf *out);
struct fault route_cbom(struct request *request);

/* ---- readiness_rows.c: the dataset, for every consumer ---- */

struct graph {
    struct buf rows; /* those listed: canonical JSON, one a line, each ended by LF */
    int64_t listed, total;
    int64_t unbound;             /* actions whose object is not in the dataset any more */
    struct crypto_counts counts; /* of all rows; what is left out of them is not counted */
    struct sha256 digest;        /* over all rows as such lines, listed or not */
};
/* Lists rows up to READINESS_LISTED and `bytes_max`. `custody`: as crypto_walk has it. */
struct fault graph_load(struct op *op, struct services *services, struct tx *tx, utc_us now,
                        struct custody_summary *custody, size_t bytes_max, struct graph *ret_graph);
void graph_clear(struct graph *graph); /* the form that CLEANUP wants */
extern const char graph_coverage[];
/* The dataset as one object, in alphabetical order of its members; and what stands before and behind its "rows". */
void graph_print(const struct graph *graph, struct jout *out);
void graph_print_head(const struct graph *graph, struct jout *out);
void graph_print_tail(const struct graph *graph, struct jout *out);
/* The listed rows one after another: `rest` starts as graph->rows. */
bool graph_next(struct span *rest, struct span *ret_row);

/* ---- readiness_shapes.c: the same rows as text for tools; pieces for a stream ---- */

typedef struct fault (*graph_put)(void *arg, struct span bytes);
struct fault graph_csv(struct op *op, const struct graph *graph, graph_put put, void *arg);
struct fault graph_ndjson(const struct graph *graph, graph_put put, void *arg);
struct fault graph_json(const struct graph *graph, graph_put put, void *arg);

/* ---- readiness_actions.c ---- */

struct action_body {
    const char *object, *action, *note, *state;
    utc_us due;
};
struct fault route_readiness(struct request *request); /* readiness_route.c */
struct fault route_readiness_action(struct request *request);
struct fault project_readiness_action(struct projection *projection, const struct event_view *event);

/* ---- attest.c, attest_read.c, attest_project.c ---- */

struct attest_body {
    const char *statement, *title, *note;
    struct attest_evidence {
        const char *locator, *media_type;
        struct span sha256;
    } evidence;
    utc_us valid_from, expires_at;
};
struct withdraw_body {
    const char *reason;
};
bool attest_statement_fits(const char *text); /* a slug: a-z 0-9 and -, which neither begins nor ends it */
struct attested {
    const char *attestation_id, *event_id, *statement, *title, *note, *locator, *media_type, *attested_by;
    const char *withdrawn_by, *withdraw_reason, *withdraw_command; /* NULL while it is not */
    struct span sha256;
    int64_t sequence;
    utc_us valid_from, expires, made, withdrawn; /* 0 = not */
};
/* NOT_FOUND. */
struct fault attested_get(struct op *op, struct services *services, struct uuid id, struct attested *ret_attested);
void attested_print(const struct attested *attested, utc_us now, struct jout *out);
struct fault route_attest(struct request *request);
struct fault route_attest_withdraw(struct request *request);
struct fault route_attest_list(struct request *request);
struct fault project_attested(struct projection *projection, const struct event_view *event);
struct fault project_attestation_withdrawn(struct projection *projection, const struct event_view *event);

/* ---- editions.c ---- */

struct fault editions_print(const struct config *config, struct buf *out);
struct fault route_editions(struct request *request);

#endif
