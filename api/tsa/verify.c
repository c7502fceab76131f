#include "api/tsa/verify_internal.h"

#include "appliance/base/crypto.h"

#include <openssl/cms.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

/*
 * OpenSSL checks the signature, the message digest and the path; what it would let pass is checked here: any
 * certificate of the bag as signer, today instead of the stated time, lax DER in TSTInfo.
 */

#define CERTIFICATES_MAX 32

DEFINE_FREEP(CMS_ContentInfo, CMS_ContentInfo_free)
static inline void stack_freep(STACK_OF(X509) * *stack)
{
    sk_X509_pop_free(TAKE(*stack), X509_free);
}
static inline void signers_freep(STACK_OF(X509) * *stack)
{
    sk_X509_free(TAKE(*stack));
}

static struct fault refuse_openssl(struct op *op, const char *what)
{
    char reason[256];
    crypto_last_error(reason, sizeof(reason));
    struct fault fault = tst_refuse(op, "%s", what);
    op_note_log(op, "OpenSSL: %s", reason);
    return fault;
}

static struct fault decode(struct op *op, struct span der, CMS_ContentInfo **ret_cms)
{
    const unsigned char *at = der.at;
    CLEANUP(CMS_ContentInfo_freep) CMS_ContentInfo *cms = CMS_ContentInfo_new_ex(crypto_context(), NULL);
    REQUIRE(cms != NULL, NO_MEMORY);
    CMS_ContentInfo *into = cms;
    if (d2i_CMS_ContentInfo(&into, &at, (long)der.len) == NULL) {
        (void)TAKE(cms); /* d2i has freed it */
        return refuse_openssl(op, "its CMS does not decode");
    }
    const ASN1_OBJECT *type = CMS_get0_type(cms);
    const ASN1_OBJECT *content = OBJ_obj2nid(type) == NID_pkcs7_signed ? CMS_get0_eContentType(cms) : NULL;
    ASN1_OCTET_STRING **bytes = content != NULL ? CMS_get0_content(cms) : NULL;
    if (content == NULL || OBJ_obj2nid(content) != NID_id_smime_ct_TSTInfo || bytes == NULL || *bytes == NULL) {
        return tst_refuse(op, "it is no CMS SignedData over a TSTInfo");
    }
    *ret_cms = TAKE(cms);
    return OK;
}

static struct fault parse_content(struct op *op, CMS_ContentInfo *cms, struct tst_info *ret_info)
{
    const ASN1_OCTET_STRING *content = *CMS_get0_content(cms);
    struct span kept;
    TRY(arena_copy(op->arena, span_of(ASN1_STRING_get0_data(content), (size_t)ASN1_STRING_length(content)), &kept));
    return tst_info_parse(op, kept, ret_info);
}

static struct fault encode(struct op *op, X509 *certificate, struct span *ret_der)
{
    int len = i2d_X509(certificate, NULL);
    REQUIRE(len > 0, CRYPTO);
    uint8_t *der = NULL;
    TRY(arena_take(op->arena, (size_t)len, 1, &der));
    uint8_t *at = der;
    REQUIRE(i2d_X509(certificate, &at) == len, CRYPTO);
    *ret_der = span_of(der, (size_t)len);
    return OK;
}

/* RFC 2253 form: bounded, and escaped by OpenSSL. */
static struct fault describe_signer(struct op *op, X509 *signer, struct tst_info *info)
{
    char text[256] = "";
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    REQUIRE(bio != NULL, NO_MEMORY);
    if (X509_NAME_print_ex(bio, X509_get_subject_name(signer), 0, XN_FLAG_RFC2253) < 0) {
        return refuse_openssl(op, "the signer's name does not print");
    }
    int len = BIO_read(bio, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    TRY(arena_text(op->arena, span_text(text), &info->signer));
    return encode(op, signer, &info->certificate);
}

/* Exactly one SignerInfo (RFC 3161 2.4.2); its certificate where the bag (or `extra`) has it. */
static struct fault find_signer(struct op *op, CMS_ContentInfo *cms, STACK_OF(X509) * extra, CMS_SignerInfo **ret_info,
                                X509 **ret_signer)
{
    STACK_OF(CMS_SignerInfo) *infos = CMS_get0_SignerInfos(cms);
    if (sk_CMS_SignerInfo_num(infos) != 1) {
        return tst_refuse(op, "it has %d signers; a time stamp has one", sk_CMS_SignerInfo_num(infos));
    }
    CMS_SignerInfo *info = sk_CMS_SignerInfo_value(infos, 0);
    (void)CMS_set1_signers_certs(cms, extra, 0);
    X509 *signer = NULL;
    CMS_SignerInfo_get0_algs(info, NULL, &signer, NULL, NULL);
    *ret_info = info;
    *ret_signer = signer;
    return OK;
}

struct fault tst_inspect(struct op *op, struct span der, struct tst_info *ret_info)
{
    CLEANUP(CMS_ContentInfo_freep) CMS_ContentInfo *cms = NULL;
    struct span token;
    struct tst_info info;
    CMS_SignerInfo *signer_info = NULL;
    X509 *signer = NULL;
    TRY(tst_token_of(op, der, &token));
    TRY(decode(op, token, &cms));
    TRY(parse_content(op, cms, &info));
    TRY(find_signer(op, cms, NULL, &signer_info, &signer));
    if (signer != NULL) {
        TRY(describe_signer(op, signer, &info));
    }
    *ret_info = info;
    return OK;
}

static struct fault read_pem(struct op *op, struct span pem, const char *what, STACK_OF(X509) * *ret_stack)
{
    CLEANUP(stack_freep) STACK_OF(X509) *stack = sk_X509_new_null();
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.len > 0 ? (const void *)pem.at : "", (int)pem.len);
    REQUIRE(stack != NULL && bio != NULL, NO_MEMORY);
    for (;;) {
        X509 *read = X509_new_ex(crypto_context(), NULL);
        REQUIRE(read != NULL, NO_MEMORY);
        if (PEM_read_bio_X509(bio, &read, NULL, NULL) == NULL) {
            X509_free(read);
            break;
        }
        if (sk_X509_push(stack, read) <= 0) {
            X509_free(read);
            return FAULT(NO_MEMORY);
        }
        if (sk_X509_num(stack) > CERTIFICATES_MAX) {
            return tst_refuse(op, "%s: more than %d certificates", what, CERTIFICATES_MAX);
        }
    }
    char reason[256];
    crypto_last_error(reason, sizeof(reason)); /* "no start line" is how PEM ends */
    if (pem.len > 0 && sk_X509_num(stack) == 0) {
        return tst_refuse(op, "%s: no PEM certificate in it", what);
    }
    *ret_stack = TAKE(stack);
    return OK;
}

/* The signed attributes: content type, and the binding to the signer. */
static struct fault check_attributes(struct op *op, CMS_SignerInfo *info, struct span certificate)
{
    /* -3: exactly one such attribute, with exactly one value */
    ASN1_OBJECT *type = CMS_signed_get0_data_by_OBJ(info, OBJ_nid2obj(NID_pkcs9_contentType), -3, V_ASN1_OBJECT);
    if (type == NULL || OBJ_obj2nid(type) != NID_id_smime_ct_TSTInfo) {
        return refuse_openssl(op, "its signed contentType is not TSTInfo");
    }
    const ASN1_STRING *binding =
        CMS_signed_get0_data_by_OBJ(info, OBJ_nid2obj(NID_id_smime_aa_signingCertificateV2), -3, V_ASN1_SEQUENCE);
    if (binding == NULL) {
        return refuse_openssl(op, "it has no signed signingCertificateV2 attribute (RFC 5816), or several");
    }
    return tst_check_binding(op, span_of(ASN1_STRING_get0_data(binding), (size_t)ASN1_STRING_length(binding)),
                             certificate);
}

/* Digest and signature algorithm: of the table, and fitting each other. OpenSSL takes the latter from the key alone. */
static struct fault check_algorithms(struct op *op, CMS_SignerInfo *info)
{
    X509_ALGOR *digest = NULL;
    X509_ALGOR *signature = NULL;
    const ASN1_OBJECT *digest_oid = NULL;
    const ASN1_OBJECT *signature_oid = NULL;
    CMS_SignerInfo_get0_algs(info, NULL, NULL, &digest, &signature);
    X509_ALGOR_get0(&digest_oid, NULL, NULL, digest);
    X509_ALGOR_get0(&signature_oid, NULL, NULL, signature);
    if (tst_hash_by_oid(span_of(OBJ_get0_data(digest_oid), OBJ_length(digest_oid))) == NULL) {
        return tst_refuse(op, "it is signed over a digest other than SHA-256, SHA-384 or SHA-512");
    }
    int nid = OBJ_obj2nid(signature_oid);
    int digest_nid = NID_undef;
    if (nid == NID_rsaEncryption || nid == NID_rsassaPss) {
        return OK; /* names no digest of its own, or checks it when verifying */
    }
    if (OBJ_find_sigid_algs(nid, &digest_nid, NULL) != 1 || digest_nid != OBJ_obj2nid(digest_oid)) {
        return tst_refuse(op, "its signature algorithm does not go with its digest algorithm");
    }
    return OK;
}

static struct fault check_signature(struct op *op, CMS_ContentInfo *cms, STACK_OF(X509) * extra)
{
    if (CMS_verify(cms, extra, NULL, NULL, NULL, CMS_NO_SIGNER_CERT_VERIFY | CMS_BINARY) != 1) {
        return refuse_openssl(op, "its signature does not verify: the token was altered, or is of another key");
    }
    CLEANUP(signers_freep) STACK_OF(X509) *signers = CMS_get0_signers(cms);
    REQUIRE(sk_X509_num(signers) == 1, TST_INVALID);
    return OK;
}

/* The path to a pinned root, for time stamping, at that time. */
static struct fault check_path(struct op *op, X509 *signer, STACK_OF(X509) * untrusted, STACK_OF(X509) * roots,
                               utc_us time, const char *which)
{
    CLEANUP(X509_STORE_freep) X509_STORE *store = X509_STORE_new();
    CLEANUP(X509_STORE_CTX_freep) X509_STORE_CTX *ctx = X509_STORE_CTX_new_ex(crypto_context(), NULL);
    REQUIRE(store != NULL && ctx != NULL, NO_MEMORY);
    for (int i = 0; i < sk_X509_num(roots); i++) {
        REQUIRE(X509_STORE_add_cert(store, sk_X509_value(roots, i)) == 1, NO_MEMORY);
    }
    if (X509_STORE_CTX_init(ctx, store, signer, untrusted) != 1 ||
        X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_TIMESTAMP_SIGN) != 1) {
        return refuse_openssl(op, "the path of its certificate could not be checked");
    }
    X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(ctx), (time_t)(time / US_PER_S));
    if (X509_verify_cert(ctx) != 1) {
        int error = X509_STORE_CTX_get_error(ctx);
        ERR_clear_error();
        return tst_refuse(op, "its certificate is not good for time stamping under a pinned root at the %s time: %s",
                          which, X509_verify_cert_error_string(error));
    }
    return OK;
}

static struct fault check_expected(struct op *op, const struct tst_expect *expect, const struct tst_info *info,
                                   enum tst_reason *reason)
{
    *reason = TST_DIGEST;
    if (strcmp(expect->hash, info->hash) != 0 || !span_equal(expect->digest, info->imprint)) {
        return tst_refuse(op, "it stamps another %s digest than the one expected (%s)", info->hash, expect->hash);
    }
    *reason = TST_NONCE;
    if (expect->nonce.len > 0 && !span_equal(expect->nonce, info->nonce)) {
        return tst_refuse(op, "its nonce is not the one that was sent: it answers another request");
    }
    *reason = TST_HOLDS;
    return OK;
}

static struct fault check_paths(struct op *op, CMS_ContentInfo *cms, X509 *signer, STACK_OF(X509) * extra,
                                STACK_OF(X509) * roots, const struct tst_expect *expect, utc_us time)
{
    CLEANUP(stack_freep) STACK_OF(X509) *bag = CMS_get1_certs(cms);
    STACK_OF(X509) *untrusted = bag != NULL ? bag : extra;
    TRY(check_path(op, signer, untrusted, roots, time, "stated"));
    return expect->at != 0 ? check_path(op, signer, untrusted, roots, expect->at, "given") : OK;
}

static struct fault verify_cms(struct op *op, CMS_ContentInfo *cms, const struct tst_expect *expect, bool path,
                               struct tst_info *info, enum tst_reason *reason)
{
    CLEANUP(stack_freep) STACK_OF(X509) *roots = NULL;
    CLEANUP(stack_freep) STACK_OF(X509) *extra = NULL;
    CMS_SignerInfo *signer_info = NULL;
    X509 *signer = NULL;
    *reason = TST_NO_ROOT;
    if (path) {
        TRY(read_pem(op, expect->roots_pem, "the pinned roots", &roots));
    }
    *reason = TST_SIGNER;
    TRY(read_pem(op, expect->extra_pem, "the further certificates", &extra));
    TRY(find_signer(op, cms, extra, &signer_info, &signer));
    if (signer == NULL) {
        return tst_refuse(op, "the certificate of its signer is neither in it nor among those given");
    }
    TRY(describe_signer(op, signer, info));
    *reason = TST_ALGORITHM;
    TRY(check_algorithms(op, signer_info));
    *reason = TST_BINDING;
    TRY(check_attributes(op, signer_info, info->certificate));
    *reason = TST_SIGNATURE;
    TRY(check_signature(op, cms, extra));
    *reason = TST_CERTIFICATE;
    if (path) {
        TRY(check_paths(op, cms, signer, extra, roots, expect, info->time));
    }
    return check_expected(op, expect, info, reason);
}

static struct fault judge(struct op *op, struct span der, const struct tst_expect *expect, bool path,
                          struct tst_info *ret_info, enum tst_reason *reason)
{
    BUG_IF(expect->hash == NULL);
    CLEANUP(CMS_ContentInfo_freep) CMS_ContentInfo *cms = NULL;
    struct span token;
    struct tst_info info;
    *reason = tst_refused(der) ? TST_NOT_GRANTED : TST_MALFORMED;
    TRY(tst_token_of(op, der, &token));
    TRY(decode(op, token, &cms));
    TRY(parse_content(op, cms, &info));
    TRY(verify_cms(op, cms, expect, path, &info, reason));
    *ret_info = info;
    return OK;
}

struct fault tst_judge(struct op *op, struct span der, const struct tst_expect *expect, struct tst_info *ret_info,
                       enum tst_reason *reason)
{
    *reason = TST_NO_ROOT;
    if (expect->roots_pem.len == 0) {
        return tst_refuse(op, "no pinned root was given, so nothing can be trusted");
    }
    return judge(op, der, expect, true, ret_info, reason);
}

struct fault tst_verify(struct op *op, struct span der, const struct tst_expect *expect, struct tst_info *ret_info)
{
    enum tst_reason reason = TST_HOLDS;
    return tst_judge(op, der, expect, ret_info, &reason);
}

struct fault tst_verify_but_path(struct op *op, struct span der, const struct tst_expect *expect,
                                 struct tst_info *ret_info)
{
    enum tst_reason reason = TST_HOLDS;
    return judge(op, der, expect, false, ret_info, &reason);
}
