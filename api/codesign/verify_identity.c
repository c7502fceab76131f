#include "api/codesign/verify.h"

#include "appliance/base/crypto.h"
#include "appliance/base/der.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

/* Fulcio's extensions and its otherName (its oid-info document). */
#define OID_ISSUER_V2  "1.3.6.1.4.1.57264.1.8"
#define OID_ISSUER_V1  "1.3.6.1.4.1.57264.1.1"
#define OID_OTHER_NAME "1.3.6.1.4.1.57264.1.7"

static inline void names_freep(GENERAL_NAMES **names)
{
    GENERAL_NAMES_free(TAKE(*names));
}
static inline void object_freep(ASN1_OBJECT **object)
{
    ASN1_OBJECT_free(TAKE(*object));
}

/* Text with a NUL inside would be read as something shorter by others: refused. */
static struct fault keep_text(struct op *op, struct span bytes, const char **ret_text)
{
    if (FAULTED(arena_text(op->arena, bytes, ret_text))) {
        return op_fail(op, FAULT(BUNDLE_INVALID), "a name in the certificate has a NUL inside");
    }
    return OK;
}

static struct span string_span(const ASN1_STRING *string)
{
    return span_of(ASN1_STRING_get0_data(string), (size_t)ASN1_STRING_length(string));
}

static struct fault is_oid(const ASN1_OBJECT *object, const char *dotted, bool *ret_is)
{
    CLEANUP(object_freep) ASN1_OBJECT *wanted = OBJ_txt2obj(dotted, 1);
    REQUIRE(wanted != NULL, NO_MEMORY);
    *ret_is = OBJ_cmp(object, wanted) == 0;
    return OK;
}

static struct fault name_text(struct op *op, const GENERAL_NAME *name, const char **ret_text)
{
    const char *text = NULL;
    bool fulcio = false;
    if (name->type == GEN_URI || name->type == GEN_EMAIL || name->type == GEN_DNS) {
        TRY(keep_text(op, string_span(name->d.ia5), &text));
    } else if (name->type == GEN_OTHERNAME) {
        const ASN1_TYPE *value = name->d.otherName->value;
        TRY(is_oid(name->d.otherName->type_id, OID_OTHER_NAME, &fulcio));
        if (fulcio && value->type == V_ASN1_UTF8STRING) {
            TRY(keep_text(op, string_span(value->value.utf8string), &text));
        }
    }
    *ret_text = text;
    return OK;
}

static struct fault read_names(struct op *op, X509 *certificate, struct identity *identity)
{
    int critical = 0;
    CLEANUP(names_freep) GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, &critical, NULL);
    if (names == NULL && critical != -1) { /* -1: there is none */
        return op_fail(op, FAULT(BUNDLE_INVALID), "the certificate's alternative names do not decode, or are doubled");
    }
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const char *text = NULL;
        TRY(name_text(op, sk_GENERAL_NAME_value(names, i), &text));
        if (text == NULL) {
            continue;
        }
        if (identity->name_count == IDENTITIES_MAX) {
            return op_fail(op, FAULT(BUNDLE_INVALID), "the certificate has more than %d names", IDENTITIES_MAX);
        }
        identity->names[identity->name_count++] = text;
    }
    return OK;
}

/* The value of the one extension of that OID; empty span = there is none. */
static struct fault find_extension(struct op *op, X509 *certificate, const char *oid, struct span *ret_value)
{
    CLEANUP(object_freep) ASN1_OBJECT *object = OBJ_txt2obj(oid, 1);
    REQUIRE(object != NULL, NO_MEMORY);
    int at = X509_get_ext_by_OBJ(certificate, object, -1);
    if (at >= 0 && X509_get_ext_by_OBJ(certificate, object, at) >= 0) {
        return op_fail(op, FAULT(BUNDLE_INVALID), "the certificate has extension %s twice", oid);
    }
    *ret_value = at < 0 ? (struct span){ 0 } : string_span(X509_EXTENSION_get_data(X509_get_ext(certificate, at)));
    return OK;
}

/* 1.8 is a DER UTF8String, the older 1.1 is bare text. */
static struct fault read_issuer(struct op *op, X509 *certificate, struct identity *identity)
{
    struct span value, rest;
    struct der_element text;
    TRY(find_extension(op, certificate, OID_ISSUER_V2, &value));
    if (value.len > 0) {
        rest = value;
        if (FAULTED(der_take(&rest, DER_UTF8_STRING, &text)) || FAULTED(der_end(rest))) {
            return op_fail(op, FAULT(BUNDLE_INVALID), "the certificate's identity issuer does not decode");
        }
        return keep_text(op, text.body, &identity->issuer);
    }
    TRY(find_extension(op, certificate, OID_ISSUER_V1, &value));
    return value.len > 0 ? keep_text(op, value, &identity->issuer) : OK;
}

/* One part of the subject, the first of its kind; NULL = there is none. */
static struct fault subject_part(struct op *op, X509 *certificate, int nid, const char **ret_text)
{
    const X509_NAME *name = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(name, nid, -1);
    unsigned char *utf8 = NULL;
    if (at < 0) {
        *ret_text = NULL;
        return OK;
    }
    int len = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
    if (len < 0) {
        return op_fail(op, FAULT(BUNDLE_INVALID), "the certificate's subject does not decode");
    }
    struct fault fault = keep_text(op, span_of(utf8, (size_t)len), ret_text);
    OPENSSL_free(utf8);
    return fault;
}

static struct fault read_subject(struct op *op, X509 *certificate, struct identity *identity)
{
    char text[512] = "";
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    REQUIRE(bio != NULL, NO_MEMORY);
    REQUIRE(X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0, CRYPTO);
    int len = BIO_read(bio, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    return arena_text(op->arena, span_text(text), &identity->subject);
}

static struct fault read_identity(struct op *op, struct span der, struct identity *identity)
{
    CLEANUP(X509_freep) X509 *certificate = NULL;
    TRY(certificate_parse(op, der, &certificate));
    TRY(read_names(op, certificate, identity));
    TRY(read_issuer(op, certificate, identity));
    TRY(read_subject(op, certificate, identity));
    TRY(subject_part(op, certificate, NID_commonName, &identity->common_name));
    return subject_part(op, certificate, NID_organizationName, &identity->organization);
}

struct fault certificate_identity(struct op *op, struct span der, struct identity *ret_identity)
{
    struct identity identity = { 0 };
    struct fault fault = read_identity(op, der, &identity);
    ERR_clear_error();
    TRY(fault);
    *ret_identity = identity;
    return OK;
}
