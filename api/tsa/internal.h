/* Shared by the files of the TSA and its tests. One request's way: request.c (bytes to struct tsq, and the rules it is
 * judged by) -> press.c (who makes it, together with whom) -> stamp.c (serial.c, token.c, record.c) -> reply.c; issue.c
 * begins and ends it. */
#ifndef API_TSA_INTERNAL_H
#define API_TSA_INTERNAL_H

#include "api/services.h"
#include "api/tsa/clock_watch.h"
#include "api/tsa/current.h"
#include "api/tsa/limits.h"
#include "api/tsa/oid.h"
#include "api/tsa/tenants.h"
#include "appliance/base/der.h"
#include "signer-pkcs11/protocol/key.h"

#include <openssl/evp.h>
#include <pthread.h>

#define TSA_REQUEST_MAX  65536
#define TSA_NONCE_MAX    64 /* bytes of magnitude; clients send 8 to 20 */
#define TSA_OID_MAX      64 /* bytes of an object identifier's body */
#define TSA_POLICIES_MAX 32
#define TSA_TOKEN_MAX    16384
#define TSA_REPLY_MAX    (TSA_TOKEN_MAX + 512)

/* A TimeStampReq (RFC 3161 2.4.1) that is well-formed. All spans borrow the request's bytes. */
struct tsq {
    struct span imprint;                   /* the whole messageImprint, which the token repeats as it stands */
    struct span hash_oid, hash_parameters; /* OID body; whole parameters element, empty = absent */
    struct span digest;
    struct span policy; /* OID body; empty = none named */
    struct span nonce;  /* the whole INTEGER; empty = none */
    bool certificate_wanted, extensions;
};

/* What is accepted; from the configuration, fixed at start. */
struct tsa_rules {
    bool hashes[TST_HASH_COUNT];
    struct span policies[TSA_POLICIES_MAX]; /* OID bodies; the first is the default */
    size_t policy_count;
    struct buf policy_bytes; /* what `policies` borrows */
};
/* CONFIG and a note that names the key of the configuration. */
struct fault tsa_rules_init(struct op *op, const struct config *config, struct tsa_rules *ret_rules);
void tsa_rules_clear(struct tsa_rules *rules);

/* TSA_BAD_FORMAT: not DER or not a TimeStampReq. TSA_BAD_REQUEST: version, nonce or object identifier too large. */
struct fault tsq_parse(struct op *op, struct span der, struct tsq *ret_request);
/* TSA_BAD_ALG, TSA_POLICY, TSA_EXTENSION. *ret_policy: the OID body that the token states. */
struct fault tsq_judge(struct op *op, const struct tsa_rules *rules, const struct tsq *request,
                       const struct tst_hash **ret_hash, struct span *ret_policy);

/* The time-stamping unit: its key and the parts of a token that never change, as DER. Immutable after tsa_unit_new. */
struct tsa_unit {
    struct key_ref ref;
    enum key_algorithm algorithm;
    EVP_PKEY *key;
    const struct tst_hash *hash; /* of the signature */
    utc_us not_before, not_after;
    utc_us usage_end;                 /* the key stamps until here: before not_after */
    struct buf leaf, root;            /* certificates */
    struct buf issuer;                /* of the leaf: the root, or an authority below it */
    struct buf certificates;          /* for tokens: leaf and authorities, without root, as members of a SET */
    struct buf sid;                   /* issuerAndSerialNumber */
    struct buf certificate_attribute; /* signingCertificateV2, the whole Attribute */
    struct buf accuracy;              /* Accuracy, the whole element */
    struct buf name;                  /* tsa [0] GeneralName of the leaf's subject, the whole element */
    struct buf root_pem, below_pem;   /* for the check before a token leaves: what it is verified by */
};
/* `chain`: leaf, root. CRYPTO when the leaf does not belong to `spki`. */
struct fault tsa_unit_new(struct op *op, const struct key_ref *ref, enum key_algorithm algorithm, struct span spki,
                          const struct span chain[2], int64_t accuracy_ms, struct tsa_unit **ret_unit);
#define TSA_CHAIN_MAX 8
/* The same for a chain with authorities between leaf and root. */
struct fault tsa_unit_of_chain(struct op *op, const struct key_ref *ref, enum key_algorithm algorithm, struct span spki,
                               const struct span *chain, size_t count, int64_t accuracy_ms, struct tsa_unit **ret_unit);
/* usage_end: of privateKeyUsagePeriod (2.5.29.16), else not_after. CRYPTO. */
struct tsa_times {
    utc_us not_before, not_after, usage_end;
};
struct fault tsa_certificate_times(struct op *op, struct span der, struct tsa_times *ret_times);
void tsa_unit_free(struct tsa_unit *unit);
DEFINE_FREEP(struct tsa_unit, tsa_unit_free)

/* What a token says. */
struct tsa_statement {
    const struct tsq *request;
    struct span policy;
    uint64_t serial;
    utc_us time;
    unsigned digits; /* of a second, 0 to 6; the rest of `time` is cut off */
    bool name;       /* state the unit's */
};
/* A TimeStampToken on its way, whose spans borrow its rooms: it may not be moved. */
#define TSA_TST_INFO_MAX 1024
#define TSA_MEMBERS_MAX  1024
#define TSA_BATCH_MAX    32 /* drafts that are signed in one exchange, and recorded by one caller */
struct tsa_draft {
    struct span tst_info, members;
    uint8_t digest[EVP_MAX_MD_SIZE];
    uint8_t tst_info_room[TSA_TST_INFO_MAX], members_room[TSA_MEMBERS_MAX];
};
struct fault tsa_draft(const struct tsa_unit *unit, const struct tsa_statement *statement, struct tsa_draft *ret_draft);
/* Their signatures, in their order; the spans borrow `room`. All or none: the signer's own fault when it cannot sign.
 */
struct fault tsa_drafts_sign(struct op *op, struct signer_client *signer, const struct tsa_unit *unit,
                             const struct tsa_draft *const *drafts, size_t count, struct buf *room,
                             struct span *ret_signatures);
/* The whole, in op's arena. */
struct fault tsa_draft_finish(struct op *op, const struct tsa_unit *unit, const struct tsa_statement *statement,
                              const struct tsa_draft *draft, struct span signature, struct span *ret_token);

/* Reads a token back as a stranger would, with the unit's own certificates and root: signature, binding, that it says
 * what it was to say and, with `path`, the certificates' path at the stated time. CRYPTO, and the log's note says what
 * failed. */
struct fault tsa_check(struct op *op, const struct tsa_unit *unit, const struct tsa_statement *statement,
                       struct span token, bool path);
/* The accuracy that tokens state: what the clock is held to, and what their time leaves out. */
int64_t tsa_accuracy_stated_ms(const struct config *config);
/* What a time of that many digits leaves out at most, and a microsecond. */
utc_us tsa_time_step(unsigned digits);

/* Serial numbers: lease << 20 | n, where a lease is the stream sequence of an event, so that no two instances and no
 * two starts ever share one. */
struct tsa_serials;
struct fault tsa_serials_new(struct tsa_serials **ret_serials);
void tsa_serials_free(struct tsa_serials *serials);
DEFINE_FREEP(struct tsa_serials, tsa_serials_free)
/* Takes a new lease when the present one is used up (or there is none yet): the event log's faults, DEADLINE. */
struct fault tsa_serial_next(struct op *op, const struct services *services, struct tsa_serials *serials,
                             uint64_t *ret_serial);

/* Group commit of `tsa.timestamp.issued`: what waits while one append is under way goes as one message after it. */
struct tsa_recorder;
struct fault tsa_recorder_new(struct tsa_recorder **ret_recorder);
void tsa_recorder_free(struct tsa_recorder *recorder); /* callers still inside are a bug */
DEFINE_FREEP(struct tsa_recorder, tsa_recorder_free)
/* A caller is on its way to tsa_record, and has arrived there or given up: what a leader's patience goes by.
 * `begun`: what the first one returned. */
mono_ns tsa_record_expect(struct tsa_recorder *recorder);
void tsa_record_arrived(struct tsa_recorder *recorder, mono_ns begun);
/* 1 to TSA_BATCH_MAX events, in one message with perhaps others. Durable when OK, in the message *ret_sequence. After a
 * fault they may or may not be in the log; the tokens must not leave. */
struct fault tsa_record(struct op *op, struct event_log *log, struct tsa_recorder *recorder, const struct span *events,
                        size_t count, uint64_t *ret_sequence);

/* press.c: stamps that come together are made together. */
struct tsa_press;
struct fault tsa_press_new(struct tsa_press **ret_press);
void tsa_press_free(struct tsa_press *press); /* callers still inside are a bug */
DEFINE_FREEP(struct tsa_press, tsa_press_free)

/* What a request is answered with, for op's tenant and principal: judged, stamped, checked and recorded; the token is
 * in op's arena. */
struct fault tsa_grant(struct op *op, const struct services *services, struct tsa *tsa, struct span request,
                       struct span *ret_token);
/* TimeStampResp (RFC 3161 2.4.2), in op's arena. */
struct fault tsa_reply_granted(struct op *op, struct span token, struct span *ret_reply);
/* Status rejection; `text` becomes the status string. */
struct fault tsa_reply_refused(struct op *op, struct fault fault, const char *text, struct span *ret_reply);
/* "granted", "bad_alg", ... : the label of svc_tsa_timestamps_total. */
const char *tsa_result_text(struct fault fault);

/* The authority of one tenant: services->tsa is the one of protocols.tsa.tenant_id, and the first of all. Immutable
 * after the start but for what says otherwise. */
struct tsa {
    struct tsa_rules rules;
    struct tsa_serials *serials;
    struct tsa_recorder *recorder;
    struct tsa_press *press;
    struct clock_watch *clock;    /* of the host; one for all */
    struct tsa_settings settings; /* tenants.h */
    struct tsa_current current;   /* current.h: the unit that stamps; changes while requests are under way */
    struct tsa_limits limits;     /* limits.h */
    _Atomic uint64_t made;        /* tokens, to tell which are checked */
    _Atomic(utc_us) mark;         /* of its own log; 0 for the first one, whose mark the clock's gate has */
    atomic_bool known;            /* the tenant is there: until then there is no authority at its address */
    pthread_mutex_t follow_lock;  /* guards what follows: whoever follows the record of units (follow.c) */
    uint64_t followed;            /* the lane's sequence that `current` shows; 0 = none yet */
    mono_ns followed_at, marked_at;
    bool leased; /* serial numbers are there */
    struct tsa *next;
};
/* The endpoint of an authority belongs to one tenant: what it does is done for that tenant by nobody in particular. */
void tsa_enter_as(struct op *op, const struct tsa *tsa);
struct fault tsa_start(struct op *op, struct services *services);
void tsa_stop(struct services *services);
/* One authority, which shows no unit yet. */
struct fault tsa_new(struct op *op, const struct tsa_settings *settings, struct tsa **ret_tsa);
void tsa_free(struct tsa *tsa); /* requests still inside are a bug */
DEFINE_FREEP(struct tsa, tsa_free)

/* follow.c: shows what the record of units says by now, for op's tenant, which is tsa's. */
struct fault tsa_follow(struct op *op, struct services *services, struct tsa *tsa);
/* The same for all authorities, and what is due for their units (by who leads). Workers. */
struct fault tsa_follow_all(struct op *op, struct services *services);
struct fault tsa_keep_all(struct op *op, struct services *services);
/* A readiness check: has every authority a unit, and its successor in time? */
struct fault tsa_units_ready(struct op *op, struct services *services);

/* The authority of a tenant; NULL when it has none. */
struct tsa *tsa_of_tenant(const struct services *services, struct tenant_id tenant);

/* One request to one reply; a fault only when not even a rejection can be made. */
struct fault tsa_answer(struct op *op, const struct services *services, struct tsa *tsa, struct span request,
                        struct span *ret_reply);
/* PEM of the certificates that verifiers need, from a record of units. */
struct units;
struct fault tsa_chain_print(const struct units *units, utc_us now, struct buf *out);
extern const struct metric tsa_metrics[];
enum tsa_metric {
    TSA_METRIC_TIMESTAMPS,
    TSA_METRIC_SECONDS,
    TSA_METRIC_CLOCK_SYNCHRONISED,
    TSA_METRIC_CLOCK_ERROR,
    TSA_METRIC_CLOCK_OFFSET,
    TSA_METRIC_CLOCK_STATE,
    TSA_METRIC_CLOCK_JUMPS,
    TSA_METRIC_CLOCK_REFUSALS,
    TSA_METRIC_UNIT_CERTIFICATE_END,
    TSA_METRIC_UNIT_USAGE_END,
    TSA_METRIC_UNIT_SUCCESSOR,
    TSA_METRIC_LIMITED,
    TSA_METRIC_CHECKS,
    TSA_METRIC_COUNT
};

#endif
