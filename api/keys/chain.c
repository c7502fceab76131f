/*
 * May this chain stand for this key? Whether its root is to be trusted is not asked: that is for those who verify. What
 * would never verify anywhere is refused here, where somebody can still do something about it.
 */
#include "appliance/base/crypto.h"

#include "api/keys/internal.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#define SECURITY_BITS_MIN 112 /* NIST SP 800-131A: no SHA-1, no RSA below 2048 */
#define CLOCKS_APART_S    300 /* of the authority's clock and ours */

DEFINE_FREEP(EXTENDED_KEY_USAGE, EXTENDED_KEY_USAGE_free)

enum leaf_use { LEAF_SIGNS_CODE, LEAF_STAMPS };

struct chain {
    struct op *op;
    X509 *at[KEYS_CERTIFICATES_MAX];
    size_t count;
};
static void chain_clear(struct chain *chain)
{
    while (chain->count > 0) {
        X509_free(chain->at[--chain->count]);
    }
}

static struct fault refused(const struct chain *chain, size_t index, const char *what)
{
    char pointer[40];
    char cause[160];
    crypto_last_error(cause, sizeof(cause));
    op_note_log(chain->op, "certificate chain: %s", cause);
    (void)snprintf(pointer, sizeof(pointer), "/certificate_chain/%zu", index);
    return op_fail_field(chain->op, FAULT(CERTIFICATE_REFUSED), pointer, "%s: %s", pointer, what);
}

static struct fault decode(struct chain *chain, struct span der)
{
    const unsigned char *at = der.at;
    X509 *made = X509_new_ex(crypto_context(), NULL);
    REQUIRE(made != NULL, NO_MEMORY);
    if (d2i_X509(&made, &at, (long)der.len) == NULL) { /* which has freed it */
        return refused(chain, chain->count, "is no DER certificate");
    }
    chain->at[chain->count++] = made;
    if (at != der.at + der.len) {
        return refused(chain, chain->count - 1, "bytes follow behind the certificate");
    }
    if ((X509_get_extension_flags(made) & EXFLAG_INVALID) != 0) {
        return refused(chain, chain->count - 1, "its extensions are malformed");
    }
    return OK;
}

static struct fault check_times(const struct chain *chain, utc_us now)
{
    time_t now_s = (time_t)(now / US_PER_S);
    for (size_t i = 0; i < chain->count; i++) {
        if (ASN1_TIME_cmp_time_t(X509_get0_notAfter(chain->at[i]), now_s) <= 0) {
            return refused(chain, i, "has expired");
        }
        if (ASN1_TIME_cmp_time_t(X509_get0_notBefore(chain->at[i]), now_s + CLOCKS_APART_S) > 0) {
            return refused(chain, i, "is not valid yet");
        }
    }
    return OK;
}

/* RFC 3161 2.3 and ETSI EN 319 422: one extended key usage, critical, timeStamping; no key usage but signing. */
static bool for_stamping_only(X509 *leaf)
{
    int critical = 0;
    CLEANUP(EXTENDED_KEY_USAGE_freep)
    EXTENDED_KEY_USAGE *extended = X509_get_ext_d2i(leaf, NID_ext_key_usage, &critical, NULL);
    const uint32_t allowed = KU_DIGITAL_SIGNATURE | KU_NON_REPUDIATION;
    uint32_t usage = X509_get_key_usage(leaf);
    return extended != NULL && critical == 1 && sk_ASN1_OBJECT_num(extended) == 1 &&
           OBJ_obj2nid(sk_ASN1_OBJECT_value(extended, 0)) == NID_time_stamp && (usage & allowed) != 0 &&
           (usage & ~allowed) == 0; /* without a key usage all bits are set */
}

static struct fault check_usage(const struct chain *chain, enum leaf_use use)
{
    X509 *leaf = chain->at[0];
    uint32_t flags = X509_get_extension_flags(leaf);
    if (use == LEAF_STAMPS) {
        return for_stamping_only(leaf)
                   ? OK
                   : refused(chain, 0,
                             "is not for time stamping alone: extended key usage timeStamping, critical and no other; "
                             "key usage digitalSignature or nonRepudiation");
    }
    if ((flags & EXFLAG_KUSAGE) != 0 && (X509_get_key_usage(leaf) & KU_DIGITAL_SIGNATURE) == 0) {
        return refused(chain, 0, "its key usage does not allow digitalSignature");
    }
    if ((flags & EXFLAG_XKUSAGE) != 0 && (X509_get_extended_key_usage(leaf) & (XKU_CODE_SIGN | XKU_ANYEKU)) == 0) {
        return refused(chain, 0, "its extended key usage does not allow codeSigning");
    }
    return OK;
}

static struct fault check_leaf(const struct chain *chain, struct span spki, enum leaf_use use)
{
    X509 *leaf = chain->at[0];
    uint32_t flags = X509_get_extension_flags(leaf);
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    const EVP_PKEY *certified = X509_get0_pubkey(leaf);
    if (key == NULL || certified == NULL || EVP_PKEY_eq(certified, key) != 1) {
        return refused(chain, 0, "is for another key: the first certificate must be this key's");
    }
    if ((flags & EXFLAG_CA) != 0 || X509_check_ca(leaf) != 0) {
        return refused(chain, 0, "is an authority's: a signing key needs an end-entity certificate");
    }
    return check_usage(chain, use);
}

static bool is_strong(X509 *certificate, const EVP_PKEY *issuer)
{
    int bits = 0;
    return X509_get_signature_info(certificate, NULL, NULL, &bits, NULL) == 1 && bits >= SECURITY_BITS_MIN &&
           EVP_PKEY_get_security_bits(issuer) >= SECURITY_BITS_MIN;
}

/* `index` is signed by the one at `by`. */
static struct fault check_signature(const struct chain *chain, size_t index, size_t by)
{
    X509 *certificate = chain->at[index];
    EVP_PKEY *issuer = X509_get0_pubkey(chain->at[by]);
    if (issuer == NULL || !is_strong(certificate, issuer)) {
        return refused(chain, index, "its signature is by an algorithm or key that is too weak");
    }
    if (X509_verify(certificate, issuer) != 1) {
        return refused(chain, index, "its signature does not verify with the key of the next certificate");
    }
    return OK;
}

static struct fault check_link(const struct chain *chain, size_t index)
{
    X509 *certificate = chain->at[index], *issuer = chain->at[index + 1];
    if (X509_self_signed(certificate, 0) == 1) {
        return refused(chain, index + 1, "stands behind a self-signed certificate, where the chain ends");
    }
    if (X509_check_issued(issuer, certificate) != X509_V_OK) {
        return refused(chain, index + 1,
                       "did not issue the certificate before it: the order is leaf first, then each one's issuer");
    }
    if (X509_check_ca(issuer) != 1) {
        return refused(chain, index + 1, "is no authority's certificate");
    }
    long pathlen = X509_get_pathlen(issuer);
    if (pathlen >= 0 && (size_t)pathlen < index) {
        return refused(chain, index + 1, "allows fewer authorities below it than there are");
    }
    return check_signature(chain, index, index + 1);
}

static struct fault check(struct op *op, struct span spki, const struct span *certificates, size_t count, utc_us now,
                          enum leaf_use use)
{
    CLEANUP(chain_clear) struct chain chain = { .op = op };
    BUG_IF(count < 1 || count > KEYS_CERTIFICATES_MAX);
    for (size_t i = 0; i < count; i++) {
        TRY(decode(&chain, certificates[i]));
    }
    TRY(check_leaf(&chain, spki, use));
    TRY(check_times(&chain, now));
    for (size_t i = 0; i + 1 < count; i++) {
        TRY(check_link(&chain, i));
    }
    if (X509_self_signed(chain.at[count - 1], 0) == 1) {
        return check_signature(&chain, count - 1, count - 1);
    }
    return use == LEAF_STAMPS
               ? refused(&chain, count - 1, "is not a root: the whole chain is published, up to the self-signed end")
               : OK;
}

struct fault key_chain_check(struct op *op, struct span spki, const struct span *certificates, size_t count, utc_us now)
{
    return check(op, spki, certificates, count, now, LEAF_SIGNS_CODE);
}

struct fault keys_check_stamping(struct op *op, struct span spki, const struct span *certificates, size_t count,
                                 utc_us now)
{
    return check(op, spki, certificates, count, now, LEAF_STAMPS);
}
