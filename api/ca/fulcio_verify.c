/*
 * What Fulcio sent is believed only as far as it can be checked: the chain up to a pinned root at the time when the
 * leaf begins to be valid, and that the leaf is for this key and this identity, for code signing, and valid now.
 */
#include "api/ca/internal.h"
#include "appliance/base/der.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#define CLOCKS_APART_US (60 * US_PER_S) /* of Fulcio's clock and ours */
#define OID_ISSUER      KEYLESS_ARC ".1"
#define OID_ISSUER_2    KEYLESS_ARC ".8"

static void certificates_free(STACK_OF(X509) * certificates)
{
    sk_X509_pop_free(certificates, X509_free);
}
DEFINE_FREEP(STACK_OF(X509), certificates_free)

static struct fault refused(struct op *op, const char *what)
{
    ERR_clear_error();
    return op_fail(op, FAULT(FULCIO_REFUSED), "Fulcio's certificate is not acceptable: %s", what);
}

/* ---- the chain ---- */

static struct fault load_roots(struct op *op, struct span pem, X509_STORE **ret_store)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    CLEANUP(X509_STORE_freep) X509_STORE *store = X509_STORE_new();
    REQUIRE(bio != NULL && store != NULL, NO_MEMORY);
    size_t count = 0;
    for (;; count++) {
        CLEANUP(X509_freep) X509 *root = X509_new_ex(crypto_context(), NULL);
        REQUIRE(root != NULL, NO_MEMORY);
        X509 *into = root;
        if (PEM_read_bio_X509(bio, &into, NULL, NULL) == NULL) {
            if (into == NULL) {
                (void)TAKE(root); /* freed by what failed */
            }
            break;
        }
        REQUIRE(X509_STORE_add_cert(store, root) == 1, CRYPTO);
    }
    bool end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    if (count == 0 || !end) {
        return op_fail(op, FAULT(FULCIO_REFUSED),
                       "code_signing.keyless.fulcio_root_file must hold the PEM certificates of Fulcio's roots");
    }
    *ret_store = TAKE(store);
    return OK;
}

static struct fault load_chain(struct op *op, const struct span *sent, size_t count, STACK_OF(X509) * *ret_chain)
{
    CLEANUP(certificates_freep) STACK_OF(X509) *chain = sk_X509_new_null();
    REQUIRE(chain != NULL, NO_MEMORY);
    for (size_t i = 0; i < count; i++) {
        CLEANUP(X509_freep) X509 *certificate = NULL;
        if (FAULTED(ca_certificate(NULL, sent[i], &certificate))) {
            return refused(op, "a certificate of its chain does not decode");
        }
        REQUIRE(sk_X509_push(chain, certificate) > 0, NO_MEMORY);
        (void)TAKE(certificate);
    }
    *ret_chain = TAKE(chain);
    return OK;
}

static bool seconds_of(const ASN1_TIME *time, int64_t *ret_seconds)
{
    struct tm parts;
    if (ASN1_TIME_to_tm(time, &parts) != 1) {
        return false;
    }
    *ret_seconds = (int64_t)timegm(&parts);
    return true;
}

static struct fault verify_chain(struct op *op, X509_STORE *roots, STACK_OF(X509) * sent, int64_t at_s,
                                 STACK_OF(X509) * *ret_verified)
{
    CLEANUP(X509_STORE_CTX_freep) X509_STORE_CTX *ctx = X509_STORE_CTX_new_ex(crypto_context(), NULL);
    REQUIRE(ctx != NULL && X509_STORE_CTX_init(ctx, roots, sk_X509_value(sent, 0), sent) == 1, NO_MEMORY);
    X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(ctx), (time_t)at_s);
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(ctx), 2); /* 112 bits: no SHA-1, no short RSA */
    if (X509_verify_cert(ctx) != 1) {
        op_note_log(op, "fulcio: %s", X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
        return refused(op, "its chain does not lead to a root of code_signing.keyless.fulcio_root_file");
    }
    STACK_OF(X509) *verified = X509_STORE_CTX_get1_chain(ctx);
    REQUIRE(verified != NULL, NO_MEMORY);
    *ret_verified = verified;
    return OK;
}

/* ---- the leaf ---- */

static struct fault check_key(struct op *op, X509 *leaf, struct span spki)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *ephemeral = NULL;
    TRY(ca_public_key(op, spki, &ephemeral));
    const EVP_PKEY *certified = X509_get0_pubkey(leaf);
    if (certified == NULL || EVP_PKEY_eq(certified, ephemeral) != 1) {
        return refused(op, "it is for another key than the one that was sent");
    }
    return OK;
}

static struct fault check_san(struct op *op, const X509 *leaf, const struct keyless_subject *subject)
{
    static const int types[] = {
        [KEYLESS_SAN_URI] = GEN_URI, [KEYLESS_SAN_EMAIL] = GEN_EMAIL, [KEYLESS_SAN_DNS] = GEN_DNS
    };
    int critical = 0, type = 0;
    CLEANUP(GENERAL_NAMES_freep)
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, &critical, NULL);
    if (names == NULL || sk_GENERAL_NAME_num(names) != 1) {
        return refused(op, "it does not name exactly one identity");
    }
    const ASN1_STRING *text = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, 0), &type);
    if (type != types[subject->san_kind] ||
        !span_equal_text(span_of(ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text)), subject->san)) {
        return refused(op, "it names another identity than the verified one");
    }
    return OK;
}

/* The OCTET STRING of an extension by its OID; empty when there is none. Two of them: neither is believed. */
static struct span extension_of(const X509 *leaf, const char *oid, bool *ret_doubled)
{
    CLEANUP(ASN1_OBJECT_freep) ASN1_OBJECT *object = OBJ_txt2obj(oid, 1);
    int at = object != NULL ? X509_get_ext_by_OBJ(leaf, object, -1) : -1;
    if (at < 0) {
        return (struct span){ 0 };
    }
    *ret_doubled = *ret_doubled || X509_get_ext_by_OBJ(leaf, object, at) >= 0;
    const ASN1_OCTET_STRING *value = X509_EXTENSION_get_data(X509_get_ext(leaf, at));
    return span_of(ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value));
}

static struct fault check_issuer(struct op *op, const X509 *leaf, const char *issuer)
{
    bool doubled = false;
    struct span old = extension_of(leaf, OID_ISSUER, &doubled);
    struct span new = extension_of(leaf, OID_ISSUER_2, &doubled);
    struct der_element text = { 0 };
    bool there = old.len > 0 || new.len > 0;
    bool same = old.len == 0 || span_equal_text(old, issuer);
    if (new.len > 0) {
        same = same && !FAULTED(der_take(&new, DER_UTF8_STRING, &text)) && new.len == 0 &&
               span_equal_text(text.body, issuer);
    }
    if (!there || !same || doubled) {
        return refused(op, "it names another issuer than the verified one, or none");
    }
    return OK;
}

static struct fault check_use(struct op *op, X509 *leaf)
{
    uint32_t flags = X509_get_extension_flags(leaf);
    if ((flags & (EXFLAG_INVALID | EXFLAG_CA)) != 0 || X509_get_version(leaf) != X509_VERSION_3) {
        return refused(op, "it is malformed, or an authority's");
    }
    if ((flags & EXFLAG_KUSAGE) == 0 || X509_get_key_usage(leaf) != KU_DIGITAL_SIGNATURE ||
        (flags & EXFLAG_XKUSAGE) == 0 || X509_get_extended_key_usage(leaf) != XKU_CODE_SIGN) {
        return refused(op, "it is not for code signing alone");
    }
    return OK;
}

static struct fault check_time(struct op *op, int64_t from_s, int64_t until_s, utc_us now)
{
    if (from_s > (now + CLOCKS_APART_US) / US_PER_S || until_s <= now / US_PER_S) {
        return refused(op, "it is not valid now: compare Fulcio's clock with this machine's");
    }
    return OK;
}

static struct fault check_leaf(struct op *op, X509 *leaf, const struct keyless_subject *subject)
{
    TRY(check_use(op, leaf));
    TRY(check_key(op, leaf, subject->spki));
    TRY(check_san(op, leaf, subject));
    return check_issuer(op, leaf, subject->issuer);
}

static struct fault copy_out(struct op *op, STACK_OF(X509) * verified, struct span **ret_chain, size_t *ret_count)
{
    struct span *chain = NULL;
    int count = sk_X509_num(verified);
    TRY(arena_take(op->arena, (size_t)count, sizeof(*chain), &chain));
    for (int i = 0; i < count; i++) {
        uint8_t *der = NULL;
        int len = i2d_X509(sk_X509_value(verified, i), NULL);
        REQUIRE(len > 0, CRYPTO);
        TRY(arena_take(op->arena, (size_t)len, 1, &der));
        chain[i] = span_of(der, (size_t)len);
        REQUIRE(i2d_X509(sk_X509_value(verified, i), &der) == len, CRYPTO);
    }
    *ret_chain = chain;
    *ret_count = (size_t)count;
    return OK;
}

struct fault fulcio_verify(struct op *op, struct span roots, const struct keyless_subject *subject,
                           const struct span *sent, size_t sent_count, utc_us now, struct span **ret_chain,
                           size_t *ret_count)
{
    CLEANUP(X509_STORE_freep) X509_STORE *store = NULL;
    CLEANUP(certificates_freep) STACK_OF(X509) *chain = NULL;
    CLEANUP(certificates_freep) STACK_OF(X509) *verified = NULL;
    int64_t from_s = 0, until_s = 0;
    BUG_IF(sent_count == 0);
    TRY(load_roots(op, roots, &store));
    TRY(load_chain(op, sent, sent_count, &chain));
    X509 *leaf = sk_X509_value(chain, 0);
    if (!seconds_of(X509_get0_notBefore(leaf), &from_s) || !seconds_of(X509_get0_notAfter(leaf), &until_s)) {
        return refused(op, "its validity cannot be read");
    }
    TRY(check_time(op, from_s, until_s, now));
    TRY(verify_chain(op, store, chain, from_s, &verified));
    TRY(check_leaf(op, leaf, subject));
    return copy_out(op, verified, ret_chain, ret_count);
}
