/*
 * The offline verifier of audit exports, for svc-cli and for anyone who links it: pinned keys and the file are all it
 * takes. All five shapes (shape.h, statement.h), first-format bundles too. One pass over a source of any size in
 * constant memory: every hash is recomputed from each record's own bytes, every line of a record stream is made again
 * from its record and compared, and the first record that does not hold is named. Not thread-bound; no clock, no
 * network.
 *
 *     CLEANUP(op_freep) struct op *op = NULL;
 *     TRY(audit_verify_op(0, &op));
 *     struct audit_pins pins = { .keys = &keys, .tsa_roots = root };
 *     struct audit_verdict verdict;
 *     struct fault fault = audit_verify(op, &source, &pins, NULL, &verdict);
 *
 * What is refused, beside the faults of fips/jws.h (JWS_FORMAT, JWS_KEY, JWS_ALGORITHM, JWS_SIGNATURE):
 *   CHAIN_BROKEN         a record does not hash to its chain value, or is no audit record
 *   CHAIN_HEAD           count, range or head are not those of the records
 *   AUDIT_LINE           a line, or one of its columns or members, is not what its record makes
 *   AUDIT_STATEMENT      what is signed is no statement of an export
 *   AUDIT_TRUNCATED      it ends before its trailer or signature
 *   AUDIT_TRAILING       something stands behind its end
 *   AUDIT_ORDER          a later record stands where another one belongs: dropped, inserted or reordered
 *   AUDIT_REPEATED       an earlier one does
 *   AUDIT_ENCODING       a record in other bytes than its one canonical form
 *   AUDIT_TENANT         records, statement or segments of different tenants
 *   AUDIT_STREAM         a trailer that is of other bytes
 *   AUDIT_TREE           the stated Merkle root is not that of the records
 *   AUDIT_KEY_WINDOW     the key was not in use at exported_at
 *   AUDIT_SEGMENTS       not the continuation of the segment before
 *   AUDIT_PINS           what it takes to judge this artifact was not given
 *   AUDIT_UNANCHORED     it has no time stamp and must have one
 *   AUDIT_ANCHOR         a time stamp over something else than the chain head
 *   AUDIT_ANCHOR_TIME    stamped too long after the newest record, or before it
 *   TIMESTAMP_VALIDITY   stamped outside the validity of the authority's certificate
 *   TST_INVALID          a time stamp that is not believed for another reason
 */
#ifndef API_AUDIT_VERIFY_H
#define API_AUDIT_VERIFY_H

#include "api/audit/statement.h"
#include "api/projection/tree.h"
#include "appliance/base/op.h"
#include "fips/jws.h"

#define AUDIT_RECORD_MAX ((size_t)2 << 20)

/* Where the bytes come from. read: at most `size` of them; 0 = the end. progress: NULL, or called now and then. */
struct audit_source {
    struct fault (*read)(void *context, uint8_t *at, size_t size, size_t *ret_len);
    void (*progress)(void *context, int64_t bytes, int64_t records);
    void *context;
};
/* Bytes in memory as a source; `left` is what is still to be read and must outlive the source. */
struct audit_source audit_source_of(struct span *left);

/* What the export is judged by. */
struct audit_pins {
    const struct jwk_set *keys;  /* NULL = none: a record stream must then be anchored, a bundle is refused */
    struct span tsa_roots;       /* PEM; empty = none: an artifact with a time stamp is then refused */
    int64_t max_anchor_delay_us; /* from the newest record's time to genTime; 0 = any */
    bool unanchored_allowed;     /* with roots and keys: an export without time stamp is good all the same */
    bool anchor_ignored;         /* signature and chain alone, whatever stamp there is: for what never left here */
};

/* What was found so far of exports that continue one another: { 0 }, then handed to one audit_verify after another. */
struct audit_trail {
    int64_t segments;
    struct tenant_id tenant;
    int64_t generation, last_sequence;
    struct sha256 head;
    bool whole; /* from record 1 on, so that the tree is known */
    struct audit_frontier frontier;
};

struct audit_verdict {
    enum audit_shape shape;
    bool first_format;
    bool signature_good; /* by a pinned key, over exactly these bytes */
    bool chain_good;     /* every record hashes to its chain, in sequence, from seed to head */
    bool tree_good;      /* the Merkle root was recomputed; false also when there was nothing to recompute it from */
    bool anchor_good;    /* the time stamp over the head is believed */
    const char *kid;     /* of the key that verified; NULL when none did */
    struct tenant_id tenant;
    int64_t generation;
    int64_t first_sequence, last_sequence, count; /* as stated */
    int64_t checked;                              /* records that hashed well before the first that did not */
    int64_t broken_sequence; /* the first record that does not hold; 0 = none, or not known which it should be */
    int64_t broken_line;     /* of a record stream; 0 = none */
    struct sha256 seed;      /* as stated */
    struct sha256 head;      /* as recomputed up to `checked` */
    char exported_at[RFC3339_MAX];
    utc_us newest_at; /* time of the last record; 0 = no record */
    utc_us anchor_at; /* genTime; 0 = no time stamp, or none that was believed */
    int64_t anchor_accuracy_us;
    const char *anchor_signer; /* in op's arena */
    int64_t bytes;             /* read */
    char reason[320];          /* why not, in words; "" when all is good */
};

/* An operation whose arena has room for an artifact of `size` bytes (0 = for what a stream needs). */
struct fault audit_verify_op(size_t size, struct op **ret_op);

/* *ret_verdict is filled in any case, as far as the walk came. A bundle is read to its end also behind a broken record,
 * so that the verdict says whether it was signed so. OK only when everything holds. `trail` may be NULL; on success it
 * has grown by this export. */
struct fault audit_verify(struct op *op, const struct audit_source *source, const struct audit_pins *pins,
                          struct audit_trail *trail, struct audit_verdict *ret_verdict);

/* A bundle in memory, its signature and its chain; time stamps are not looked at. */
struct fault audit_verify_jws(struct op *op, struct span compact, const struct jwk_set *keys,
                              struct audit_verdict *ret_verdict);
/* The walk alone, over a bundle's payload. */
struct fault audit_verify_payload(struct op *op, struct span payload, struct audit_verdict *verdict);

/* ---- record by record, for whoever looks at two exports at once ---- */

struct audit_walk;
struct audit_entry {
    int64_t sequence;
    struct span record; /* until the next call */
    struct sha256 chain;
};
/* The source's beginning is read: its shape is known, or JWS_FORMAT. `pins` and `source` must outlive the walk. */
struct fault audit_walk_new(struct op *op, const struct audit_source *source, const struct audit_pins *pins,
                            const struct audit_trail *trail, struct audit_walk **ret_walk);
void audit_walk_free(struct audit_walk *walk);
DEFINE_FREEP(struct audit_walk, audit_walk_free)
/* The next record, checked; *ret_more is false behind the last one, and everything else then holds, too. After a fault
 * there is nothing more to ask but the verdict. The first entry of a record stream that starts above sequence 1 is
 * given out before its seed is known; it is judged at the end. */
struct fault audit_walk_next(struct audit_walk *walk, struct audit_entry *ret_entry, bool *ret_more);
const struct audit_verdict *audit_walk_verdict(const struct audit_walk *walk);

/* ---- verify_compare.c: two exports of one tenant ---- */

enum audit_relation {
    AUDIT_SAME,      /* the same range with the same head */
    AUDIT_EXTENDS,   /* they agree where they overlap, and one goes further (at either end) */
    AUDIT_CONTINUES, /* one begins where the other ends: head of one = seed of the other */
    AUDIT_GAP,       /* neither overlap nor touch: nothing can be told */
    AUDIT_PARTS      /* they tell different histories */
};
struct audit_comparison {
    enum audit_relation relation;
    struct audit_verdict verdicts[2];
    int64_t common_first, common_last; /* where they agree; 0 = nowhere */
    int64_t parts_at;                  /* the first sequence where they differ; 0 = none */
    struct sha256 chains[2];           /* there */
    bool earlier; /* both have the same record there, or no earlier one to look at: they part before parts_at */
    char explanation[400];
};
/* Each is verified by the pins; their own faults, with *ret_refused 0 or 1 saying whose. OK otherwise, also when they
 * part. AUDIT_TENANT when they are of different tenants. Filled in any case, as far as it came. */
struct fault audit_compare(struct op *op, const struct audit_source sources[2], const struct audit_pins *pins,
                           struct audit_comparison *ret_comparison, int *ret_refused);
const char *audit_relation_name(enum audit_relation relation); /* "same", "extends", ... */

#endif
