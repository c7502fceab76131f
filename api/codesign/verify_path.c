#include "api/codesign/verify.h"

#include "appliance/base/crypto.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#define STRENGTH 2 /* OpenSSL's level: 112 bits and no SHA-1, all along the path */

#define refuse(op, ...) op_fail((op), FAULT(BUNDLE_INVALID), __VA_ARGS__)

static inline void stack_freep(STACK_OF(X509) * *stack)
{
    sk_X509_pop_free(TAKE(*stack), X509_free);
}

static struct fault push(struct op *op, STACK_OF(X509) * stack, struct span der)
{
    CLEANUP(X509_freep) X509 *certificate = NULL;
    TRY(certificate_parse(op, der, &certificate));
    REQUIRE(sk_X509_push(stack, certificate) > 0, NO_MEMORY);
    (void)TAKE(certificate);
    return OK;
}

static struct fault check_window(struct op *op, struct span leaf, utc_us time)
{
    utc_us from = 0, until = 0;
    char at[RFC3339_MAX], first[RFC3339_MAX], last[RFC3339_MAX];
    TRY(certificate_validity(op, leaf, &from, &until));
    if (time < from || time >= until) { /* OpenSSL, too, counts the last second as over */
        rfc3339_print(time, at);
        rfc3339_print(from, first);
        rfc3339_print(until, last);
        return op_fail(op, FAULT(TIMESTAMP_VALIDITY), "the certificate was valid from %s to %s, and not at %s", first,
                       last, at);
    }
    return OK;
}

static bool allows_code_signing(X509 *certificate, bool *ret_says)
{
    bool says = (X509_get_extension_flags(certificate) & EXFLAG_XKUSAGE) != 0;
    *ret_says = says;
    return !says || (X509_get_extended_key_usage(certificate) & (XKU_CODE_SIGN | XKU_ANYEKU)) != 0;
}

static struct fault check_leaf(struct op *op, X509 *leaf, enum signer_use use)
{
    uint32_t flags = X509_get_extension_flags(leaf);
    bool says = false, allows = allows_code_signing(leaf, &says);
    if ((flags & EXFLAG_INVALID) != 0) {
        return refuse(op, "the certificate's extensions are malformed");
    }
    if ((flags & EXFLAG_CA) != 0) { /* whatever its key usage allows */
        return refuse(op, "the signer's certificate is an authority's");
    }
    if ((flags & EXFLAG_KUSAGE) != 0 && (X509_get_key_usage(leaf) & KU_DIGITAL_SIGNATURE) == 0) {
        return refuse(op, "the certificate is not for digital signatures (key usage)");
    }
    if (!allows || (use == SIGNER_CODE_SIGNING && !says)) {
        return refuse(op, "the certificate is not for code signing (extended key usage)");
    }
    return OK;
}

/* An authority that is limited to other uses cannot pass on what it does not have. */
static struct fault check_authorities(struct op *op, X509_STORE_CTX *ctx)
{
    STACK_OF(X509) *path = X509_STORE_CTX_get0_chain(ctx);
    bool says = false;
    for (int i = 1; i < sk_X509_num(path); i++) {
        if (!allows_code_signing(sk_X509_value(path, i), &says)) {
            return refuse(op, "an authority in the certificate's path is limited to other uses than code signing");
        }
    }
    return OK;
}

static struct fault find_path(struct op *op, X509 *leaf, STACK_OF(X509) * others, X509 *root, utc_us time)
{
    CLEANUP(X509_STORE_freep) X509_STORE *store = X509_STORE_new();
    CLEANUP(X509_STORE_CTX_freep) X509_STORE_CTX *ctx = X509_STORE_CTX_new_ex(crypto_context(), NULL);
    REQUIRE(store != NULL && ctx != NULL, NO_MEMORY);
    REQUIRE(X509_STORE_add_cert(store, root) == 1, NO_MEMORY);
    REQUIRE(X509_STORE_CTX_init(ctx, store, leaf, others) == 1, CRYPTO);
    X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
    X509_VERIFY_PARAM_set_time(param, (time_t)(time / US_PER_S));
    X509_VERIFY_PARAM_set_auth_level(param, STRENGTH);
    if (X509_verify_cert(ctx) != 1) {
        int error = X509_STORE_CTX_get_error(ctx);
        return refuse(op, "the certificate has no good path to the pinned root at the time of signing: %s",
                      X509_verify_cert_error_string(error));
    }
    return check_authorities(op, ctx);
}

static struct fault verify(struct op *op, const struct chain *signer, const struct chain *authority, utc_us time,
                           enum signer_use use)
{
    CLEANUP(X509_freep) X509 *leaf = NULL;
    CLEANUP(X509_freep) X509 *root = NULL;
    CLEANUP(stack_freep) STACK_OF(X509) *others = sk_X509_new_null();
    BUG_IF(signer->count == 0 || authority->count == 0);
    REQUIRE(others != NULL, NO_MEMORY);
    TRY(certificate_parse(op, signer->at[0], &leaf));
    TRY(certificate_parse(op, authority->at[authority->count - 1], &root));
    for (size_t i = 1; i < signer->count; i++) {
        TRY(push(op, others, signer->at[i]));
    }
    for (size_t i = 0; i + 1 < authority->count; i++) {
        TRY(push(op, others, authority->at[i]));
    }
    TRY(check_window(op, signer->at[0], time));
    TRY(check_leaf(op, leaf, use));
    return find_path(op, leaf, others, root, time);
}

struct fault chain_verify(struct op *op, const struct chain *signer, const struct chain *authority, utc_us time,
                          enum signer_use use)
{
    struct fault fault = verify(op, signer, authority, time, use);
    ERR_clear_error(); /* even a path that was found leaves the ends of others */
    return fault;
}
