#include "api/ca/certificate.h"
#include "api/keys/keys.h"
#include "api/tsa/internal.h"
#include "api/tsa/tsa.h"
#include "appliance/base/crypto.h"

#define ROOT_DAYS       3652            /* ten years */
#define LEAF_DAYS       1826            /* five years */
#define LEAF_RENEW_DAYS 365             /* at start, a leaf with less left gets a successor over the same key */
#define BACKDATE_US     (60 * US_PER_S) /* so that a stamp of this second lies inside the validity */
#define LOCK_KEY        INT64_C(0x7376635f747361) /* "svc_tsa": who certifies, over all instances */
#define LOCK_RETRY_NS   (200 * NS_PER_MS)

DEFINE_FREEP(ASN1_TIME, ASN1_TIME_free)

struct tsa_keys {
    struct managed_key root, unit;
};

static struct fault decode(struct op *op, struct span der, X509 **ret_certificate)
{
    const unsigned char *at = der.at;
    CLEANUP(X509_freep) X509 *made = X509_new_ex(crypto_context(), NULL);
    REQUIRE(made != NULL, NO_MEMORY);
    X509 *into = made;
    if (d2i_X509(&into, &at, (long)der.len) == NULL) {
        (void)TAKE(made); /* d2i has freed it */
        return crypto_fail(op, "a certificate recorded for a TSA key does not decode");
    }
    *ret_certificate = TAKE(made);
    return OK;
}

static struct fault days_left(struct op *op, struct span der, int *ret_days)
{
    CLEANUP(X509_freep) X509 *certificate = NULL;
    int days = 0;
    int seconds = 0;
    TRY(decode(op, der, &certificate));
    if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)) != 1) {
        return crypto_fail(op, "the validity of a TSA certificate does not decode");
    }
    *ret_days = days;
    return OK;
}

/* Is the chain complete, does the leaf stand under this root, and is there enough time left? */
static struct fault is_certified(struct op *op, const struct tsa_keys *keys, bool *ret_certified)
{
    const struct managed_key *unit = &keys->unit;
    bool certified =
        keys->root.chain_count == 1 && unit->chain_count == 2 && span_equal(unit->chain[1], keys->root.chain[0]);
    if (certified) {
        int days = 0;
        TRY(days_left(op, unit->chain[0], &days));
        certified = days >= LEAF_RENEW_DAYS;
    }
    *ret_certified = certified;
    return OK;
}

/* The configured algorithm may have changed since the first key was made: then it gets one of its own name. */
static struct fault ensure_unit(struct op *op, struct services *services, struct managed_key *ret_key)
{
    enum key_algorithm wanted = KEY_ALGORITHM_NONE;
    const char *text = services->config->tsa_algorithm;
    if (FAULTED(key_algorithm_parse(span_text(text), &wanted)) ||
        (wanted != KEY_ALGORITHM_EC_P256 && wanted != KEY_ALGORITHM_EC_P384 && wanted != KEY_ALGORITHM_RSA_3072)) {
        return op_fail_field(op, FAULT(CONFIG), "protocols.tsa.key_algorithm",
                             "protocols.tsa.key_algorithm: \"%s\" is none of ec-p256, ec-p384, rsa-3072", text);
    }
    TRY(keys_ensure(op, services, KEY_PURPOSE_TSA, wanted, "tsu", ret_key));
    if (ret_key->algorithm == wanted) {
        return OK;
    }
    const char *name = NULL;
    TRY(arena_printf(op->arena, &name, "tsu-%s", key_algorithm_text(wanted)));
    return keys_ensure(op, services, KEY_PURPOSE_TSA, wanted, name, ret_key);
}

static struct fault issue_root(struct op *op, struct services *services, const struct managed_key *root)
{
    const char *name = NULL;
    struct span certificate;
    TRY(arena_printf(op->arena, &name, "Time Stamping Root (%s)", op->tenant.text));
    struct certificate_issuer self = { .key = root->ref, .spki = root->spki };
    struct certificate_profile profile = {
        .common_name = name,
        .authority = true,
        .valid_days = ROOT_DAYS,
        .not_before = clock_utc() - BACKDATE_US,
    };
    TRY(certificate_issue(op, services->signer, &self, root->spki, &profile, &certificate));
    return keys_set_chain(op, services, root, &certificate, 1);
}

static struct fault issue_leaf(struct op *op, struct services *services, const struct tsa_keys *keys)
{
    const char *name = NULL;
    struct span chain[2] = { { 0 }, keys->root.chain[0] };
    TRY(arena_printf(op->arena, &name, "Time Stamping Unit %.8s (%s)", keys->unit.ref.id.text, op->tenant.text));
    struct certificate_issuer issuer = {
        .key = keys->root.ref,
        .spki = keys->root.spki,
        .certificate = keys->root.chain[0],
    };
    struct certificate_profile profile = {
        .common_name = name,
        .extended_usage = "critical,timeStamping",
        .valid_days = LEAF_DAYS,
        .not_before = clock_utc() - BACKDATE_US,
    };
    TRY(certificate_issue(op, services->signer, &issuer, keys->unit.spki, &profile, &chain[0]));
    return keys_set_chain(op, services, &keys->unit, chain, 2);
}

static struct fault read_again(struct op *op, struct services *services, struct tsa_keys *keys)
{
    struct uuid root = keys->root.ref.id;
    struct uuid unit = keys->unit.ref.id;
    TRY(keys_get(op, services, root, &keys->root));
    return keys_get(op, services, unit, &keys->unit);
}

/* Under the lock: what another instance has certified meanwhile is taken as it is. */
static struct fault certify_locked(struct op *op, struct services *services, struct tsa_keys *keys)
{
    bool certified = false;
    TRY(projector_catch_up(op, services->projector));
    TRY(read_again(op, services, keys));
    TRY(is_certified(op, keys, &certified));
    if (certified) {
        return OK;
    }
    if (keys->root.chain_count == 0) {
        TRY(issue_root(op, services, &keys->root));
        TRY(read_again(op, services, keys));
        REQUIRE(keys->root.chain_count == 1, INTERNAL);
    }
    TRY(issue_leaf(op, services, keys));
    TRY(read_again(op, services, keys));
    TRY(is_certified(op, keys, &certified));
    REQUIRE(certified, INTERNAL);
    return OK;
}

/* One instance certifies at a time. Who waits looks again whenever something was projected. */
static struct fault certify(struct op *op, struct services *services, struct tsa_keys *keys)
{
    uint64_t seen = 0;
    for (;;) {
        CLEANUP(store_lock_freep) struct store_lock *lock = NULL;
        bool held = false;
        TRY(store_lock_try(op, services->store, LOCK_KEY, &lock, &held));
        if (held) {
            return certify_locked(op, services, keys);
        }
        if (op_expired(op)) {
            return op_fail(op, FAULT(DEADLINE), "another instance is certifying the TSA keys and does not finish");
        }
        IGNORE(projector_changed(op, services->projector, &seen, clock_mono() + LOCK_RETRY_NS));
    }
}

struct fault tsa_unit_load(struct op *op, struct services *services, struct tsa_unit **ret_unit)
{
    struct tsa_keys keys = { 0 };
    bool certified = false;
    TRY(keys_ensure(op, services, KEY_PURPOSE_CA, KEY_ALGORITHM_EC_P384, "tsa-root", &keys.root));
    TRY(ensure_unit(op, services, &keys.unit));
    TRY(is_certified(op, &keys, &certified));
    if (!certified) {
        TRY(certify(op, services, &keys));
    }
    struct span chain[2] = { keys.unit.chain[0], keys.unit.chain[1] };
    return tsa_unit_new(op, &keys.unit.ref, keys.unit.algorithm, keys.unit.spki, chain,
                        services->config->tsa_accuracy_ms, ret_unit);
}

/* Was the unit certified more than once? A first certificate is made together with its key. */
static struct fault is_renewed(struct op *op, const struct managed_key *key, bool *ret_renewed)
{
    CLEANUP(X509_freep) X509 *leaf = NULL;
    int days = 0;
    int seconds = 0;
    CLEANUP(ASN1_TIME_freep) ASN1_TIME *made = ASN1_TIME_set(NULL, (time_t)(key->created / US_PER_S));
    TRY(decode(op, key->chain[0], &leaf));
    if (made == NULL || ASN1_TIME_diff(&days, &seconds, made, X509_get0_notBefore(leaf)) != 1) {
        return crypto_fail(op, "the validity of a TSA certificate does not decode");
    }
    *ret_renewed = days >= 1;
    return OK;
}

static struct fault history(struct op *op, struct services *services, struct tsa_chain **ret_chains, size_t *ret_count)
{
    struct managed_key *keys = NULL;
    struct tsa_chain *chains = NULL;
    size_t count = 0, made = 0;
    TRY(keys_history(op, services, KEY_PURPOSE_TSA, &keys, &count));
    TRY(arena_take(op->arena, 2 * count + 1, sizeof(*chains), &chains));
    for (size_t i = count; i > 0; i--) {
        const struct managed_key *key = &keys[i - 1];
        bool renewed = false;
        if (key->chain_count == 2) {
            chains[made++] = (struct tsa_chain){ .leaf = key->chain[0], .root = key->chain[1] };
            TRY(is_renewed(op, key, &renewed));
        }
        if (renewed) {
            chains[made++] = (struct tsa_chain){ .root = key->chain[1] };
        }
    }
    *ret_chains = chains;
    *ret_count = made;
    return OK;
}

struct fault tsa_history(struct op *op, struct services *services, struct tsa_chain **ret_chains, size_t *ret_count)
{
    struct tenant_id before = op->tenant;
    if (FAULTED(tenant_id_parse(span_text(services->config->tsa_tenant), &op->tenant))) {
        op->tenant = before;
        *ret_count = 0; /* no authority can have been started for it */
        return OK;
    }
    struct fault fault = history(op, services, ret_chains, ret_count);
    op->tenant = before;
    return fault;
}
