/* What the files of api/attest/ share. */
#ifndef API_ATTEST_INTERNAL_H
#define API_ATTEST_INTERNAL_H

#include "api/attest/attest.h"
#include "fips/jws.h"

/* ---- keys.c: the keys of one issuer ---- */

#define JWKS_MAX        ((size_t)256 << 10)
#define KEYS_FRESH_NS   (600 * NS_PER_S)
#define KEYS_GRACE_NS   (24 * 3600 * NS_PER_S)
#define KEYS_AGAIN_NS   (30 * NS_PER_S) /* between two fetches, while there are keys */
#define KEYS_RETRY_NS   (5 * NS_PER_S)  /* and while there are none */
#define KEYS_TIMEOUT_NS (5 * NS_PER_S)  /* of one fetch */

/* Keys of an issuer as read once; never changed, freed when the last one has let go of it. */
struct key_set {
    struct jwk_set jwks;
    size_t left_out; /* keys of the issuer that cannot verify here */
    unsigned users;  /* atomic */
};
struct fault key_set_parse(struct op *op, struct span json, struct key_set **ret_set);
void key_set_unref(struct key_set *set);
DEFINE_FREEP(struct key_set, key_set_unref)

/* Where keys come from, and the clock that they grow old by. fetch: PROOF-independent bytes of the JWKS, in `body`;
 * IO with a line in op's note when there is no answer of use. Runs outside every lock. */
struct keys_source {
    const char *url, *ca_file; /* borrowed; ca_file may be NULL */
    struct fault (*fetch)(struct op *op, const struct keys_source *source, int64_t timeout_ns, struct buf *body);
    mono_ns (*now)(void);
    struct metrics *metrics; /* may be NULL */
};
struct issuer_keys;
struct fault issuer_keys_new(const struct keys_source *source, struct issuer_keys **ret_keys);
/* Keys that never change. `set` is taken. */
struct fault issuer_keys_new_pinned(struct key_set *set, struct issuer_keys **ret_keys);
void issuer_keys_free(struct issuer_keys *keys);
DEFINE_FREEP(struct issuer_keys, issuer_keys_free)
/* A set in which `kid` is to be looked for (NULL: any), as new as the rules want it; the caller lets go of it. May
 * fetch, or wait for who fetches, bounded by op's deadline. JWKS_UNAVAILABLE. */
struct fault issuer_keys_get(struct op *op, struct issuer_keys *keys, const char *kid, struct key_set **ret_set);

/* fetch.c: by HTTPS. */
struct fault keys_fetch_https(struct op *op, const struct keys_source *source, int64_t timeout_ns, struct buf *body);

/* ---- methods.c: the file of methods ---- */

#define METHODS_MAX      256
#define AUDIENCES_MAX    16
#define ALGORITHMS_MAX   8
#define REQUIRED_MAX     32
#define CLAIM_NAME_MAX   128
#define CONFIG_VALUE_MAX 512

enum attest_kind { KIND_GITHUB_ACTIONS, KIND_GITLAB_CI, KIND_GENERIC };
struct required_claim {
    const char *name, *value;
};
struct method {
    struct tenant_id tenant;
    const char *name, *issuer, *url, *san;
    enum attest_kind kind;
    const char *audiences[AUDIENCES_MAX], *algorithms[ALGORITHMS_MAX];
    size_t audience_count, algorithm_count, required_count;
    struct required_claim required[REQUIRED_MAX];
    int san_kind; /* enum san_kind, or -1: any */
    utc_us leeway_us, max_lifetime_us;
    const char *jwks_url, *jwks_file, *ca_file; /* url or file; NULL = not given */
    struct sha256 pinned;                       /* of the two files' contents */
    struct issuer_keys *keys;                   /* shared by methods of one source */
};
struct attest {
    struct arena *arena; /* all texts of the methods */
    struct method *methods;
    size_t method_count;
    struct issuer_keys *sources[METHODS_MAX];
    size_t source_count;
    struct metrics *metrics; /* may be NULL */
};
/* Reads the methods and the files that they pin. CONFIG, and `why` gets "FILE:LINE: what". */
struct fault attest_parse(struct span yaml, const char *file, struct metrics *metrics, struct buf *why,
                          struct attest **ret_attest);
struct fault attest_load(const char *path, struct metrics *metrics, struct buf *why, struct attest **ret_attest);
void attest_free(struct attest *attest);
DEFINE_FREEP(struct attest, attest_free)

/* ---- claims.c: what an ID token says ---- */

#define CLAIMS_MAX 128
struct claims {
    struct jin_member *at;
    size_t count;
};
/* The payload as claims. PROOF_MALFORMED. */
struct fault claims_parse(struct op *op, struct span payload, struct claims *ret_claims);
const struct jin_member *claims_find(const struct claims *claims, const char *name); /* NULL; a null is none */
/* A text of 1 to ATTEST_TEXT_MAX bytes without control characters. PROOF_CLAIM. */
struct fault claims_text(struct op *op, const struct claims *claims, const char *name, const char **ret_text);
/* Issuer, audience, times and required claims, as of `at`. PROOF_CLAIM, PROOF_EXPIRED, PROOF_NOT_YET. */
struct fault claims_check(struct op *op, const struct method *method, const struct claims *claims, utc_us at,
                          struct attested *attested);

/* ---- identity.c: what the claims make of a certificate ---- */

/* SAN, its kind, and the certificate's claims. PROOF_CLAIM. */
struct fault identity_of(struct op *op, const struct method *method, const struct claims *claims,
                         struct attested *attested);
/* template.c: each {claim} by its text, and $ at the start by `url`. PROOF_CLAIM. */
struct fault template_fill(struct op *op, const char *text, const char *url, const struct claims *claims,
                           const char **ret_text);
/* san.c: by form. False: none of the three. */
bool san_kind_of(const char *san, enum san_kind *ret_kind);

/* Notes the refusal of a proof in our words: nothing that a parser said about its bytes reaches the caller. */
#define proof_fail(op, sym, ...) \
    ((op)->note = (struct fault_note){ 0 }, (void)op_fail((op), FAULT(sym), __VA_ARGS__).code, FAULT(sym))

struct fault attest_start(struct op *op, struct services *services);
void attest_stop(struct services *services);
extern const struct metric attest_metrics[];
enum { ATTEST_METRIC_VERIFICATIONS, ATTEST_METRIC_FETCHES, ATTEST_METRIC_COUNT };

#endif
