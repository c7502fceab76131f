#include "api/tsa/internal.h"

#include <stdio.h>

/*
 * A TimeStampReq, read member by member (RFC 3161 2.4.1). Nothing is left to a lenient decoder: what is not DER is
 * badDataFormat, so that what is stamped has one reading only.
 *
 *   TimeStampReq ::= SEQUENCE { version INTEGER, messageImprint SEQUENCE { AlgorithmIdentifier, OCTET STRING },
 *       reqPolicy OBJECT IDENTIFIER OPTIONAL, nonce INTEGER OPTIONAL, certReq BOOLEAN DEFAULT FALSE,
 *       extensions [0] IMPLICIT Extensions OPTIONAL }
 */

static struct fault bad_format(struct op *op, const char *what)
{
    return op_fail(op, FAULT(TSA_BAD_FORMAT), "the request is not a DER-encoded TimeStampReq: %s", what);
}

/* No arc in use comes near the limit; what is longer is nobody's policy or algorithm. */
static struct fault limit_oid(struct op *op, struct span body, const char *what)
{
    if (body.len > TSA_OID_MAX) {
        return op_fail(op, FAULT(TSA_BAD_REQUEST), "%s: an object identifier of %zu bytes, at most %d are accepted",
                       what, body.len, TSA_OID_MAX);
    }
    return OK;
}

static struct fault parse_version(struct op *op, struct span *rest)
{
    struct der_element version;
    uint64_t number = 0;
    if (FAULTED(der_take(rest, DER_INTEGER, &version)) || FAULTED(der_integer_check(version.body))) {
        return bad_format(op, "version");
    }
    if (FAULTED(der_uint(version.body, &number)) || number != 1) {
        return op_fail(op, FAULT(TSA_BAD_REQUEST), "the request's version is not 1 (RFC 3161 2.4.1)");
    }
    return OK;
}

static struct fault parse_imprint(struct op *op, struct span *rest, struct tsq *request)
{
    struct der_element imprint;
    struct der_element algorithm;
    struct der_element oid;
    struct der_element digest;
    if (FAULTED(der_take(rest, DER_SEQUENCE, &imprint)) || FAULTED(der_take(&imprint.body, DER_SEQUENCE, &algorithm)) ||
        FAULTED(der_take(&algorithm.body, DER_OID, &oid)) || FAULTED(der_oid_check(oid.body))) {
        return bad_format(op, "messageImprint.hashAlgorithm");
    }
    TRY(limit_oid(op, oid.body, "messageImprint.hashAlgorithm"));
    if (algorithm.body.len > 0) {
        struct der_element parameters;
        if (FAULTED(der_next(&algorithm.body, &parameters)) || FAULTED(der_end(algorithm.body))) {
            return bad_format(op, "messageImprint.hashAlgorithm.parameters");
        }
        request->hash_parameters = parameters.whole;
    }
    if (FAULTED(der_take(&imprint.body, DER_OCTET_STRING, &digest)) || FAULTED(der_end(imprint.body))) {
        return bad_format(op, "messageImprint.hashedMessage");
    }
    request->imprint = imprint.whole;
    request->hash_oid = oid.body;
    request->digest = digest.body;
    return OK;
}

static struct fault parse_nonce(struct op *op, struct span *rest, struct tsq *request)
{
    struct der_element nonce;
    if (FAULTED(der_take(rest, DER_INTEGER, &nonce)) || FAULTED(der_integer_check(nonce.body))) {
        return bad_format(op, "nonce");
    }
    size_t magnitude = nonce.body.at[0] == 0 ? nonce.body.len - 1 : nonce.body.len;
    if (magnitude > TSA_NONCE_MAX) {
        return op_fail(op, FAULT(TSA_BAD_REQUEST), "the nonce has %zu bytes, at most %d are accepted", magnitude,
                       TSA_NONCE_MAX);
    }
    request->nonce = nonce.whole;
    return OK;
}

/* Extension ::= SEQUENCE { extnID OID, critical BOOLEAN DEFAULT FALSE, extnValue OCTET STRING }: well-formed, no more.
 */
static struct fault parse_extensions(struct op *op, struct span *rest)
{
    struct der_element all;
    if (FAULTED(der_take(rest, DER_CONTEXT_CONSTRUCTED(0), &all)) || all.body.len == 0) {
        return bad_format(op, "extensions");
    }
    while (all.body.len > 0) {
        struct der_element extension;
        struct der_element part;
        bool critical = false;
        if (FAULTED(der_take(&all.body, DER_SEQUENCE, &extension)) ||
            FAULTED(der_take(&extension.body, DER_OID, &part)) || FAULTED(der_oid_check(part.body))) {
            return bad_format(op, "extensions");
        }
        TRY(limit_oid(op, part.body, "extensions"));
        if (der_at(extension.body, DER_BOOLEAN) &&
            (FAULTED(der_take(&extension.body, DER_BOOLEAN, &part)) || FAULTED(der_boolean(part.body, &critical)))) {
            return bad_format(op, "extensions.critical");
        }
        if (FAULTED(der_take(&extension.body, DER_OCTET_STRING, &part)) || FAULTED(der_end(extension.body))) {
            return bad_format(op, "extensions.extnValue");
        }
    }
    return OK;
}

static struct fault parse_options(struct op *op, struct span *rest, struct tsq *request)
{
    struct der_element element;
    if (der_at(*rest, DER_OID)) {
        if (FAULTED(der_take(rest, DER_OID, &element)) || FAULTED(der_oid_check(element.body))) {
            return bad_format(op, "reqPolicy");
        }
        TRY(limit_oid(op, element.body, "reqPolicy"));
        request->policy = element.body;
    }
    if (der_at(*rest, DER_INTEGER)) {
        TRY(parse_nonce(op, rest, request));
    }
    /* An explicit FALSE is not DER (X.690 11.5), but some clients send it and nothing is signed over it. */
    if (der_at(*rest, DER_BOOLEAN) && (FAULTED(der_take(rest, DER_BOOLEAN, &element)) ||
                                       FAULTED(der_boolean(element.body, &request->certificate_wanted)))) {
        return bad_format(op, "certReq");
    }
    if (der_at(*rest, DER_CONTEXT_CONSTRUCTED(0))) {
        TRY(parse_extensions(op, rest));
        request->extensions = true;
    }
    return FAULTED(der_end(*rest)) ? bad_format(op, "bytes that do not belong behind its last member") : OK;
}

struct fault tsq_parse(struct op *op, struct span der, struct tsq *ret_request)
{
    struct tsq request = { 0 };
    struct der_element whole;
    if (der.len == 0) {
        return bad_format(op, "the body is empty");
    }
    if (FAULTED(der_take(&der, DER_SEQUENCE, &whole))) {
        return bad_format(op, "no SEQUENCE of definite, minimal length");
    }
    if (FAULTED(der_end(der))) {
        return bad_format(op, "bytes follow its end");
    }
    TRY(parse_version(op, &whole.body));
    TRY(parse_imprint(op, &whole.body, &request));
    TRY(parse_options(op, &whole.body, &request));
    *ret_request = request;
    return OK;
}

static struct fault judge_hash(struct op *op, const struct tsa_rules *rules, const struct tsq *request,
                               const struct tst_hash **ret_hash)
{
    const struct tst_hash *hash = tst_hash_by_oid(request->hash_oid);
    char oid[DER_OID_TEXT_MAX];
    if (hash == NULL || !rules->hashes[hash->id]) {
        const char *name = FAULTED(der_oid_print(request->hash_oid, oid)) ? "that was named" : oid;
        return op_fail(op, FAULT(TSA_BAD_ALG), "the hash algorithm %s is not accepted; use sha256, sha384 or sha512",
                       hash != NULL ? hash->name : name);
    }
    static const uint8_t null[] = { DER_NULL, 0 };
    if (request->hash_parameters.len > 0 && !span_equal(request->hash_parameters, SPAN_ARRAY(null))) {
        return op_fail(op, FAULT(TSA_BAD_ALG), "%s takes no parameters (RFC 5754 2)", hash->name);
    }
    if (request->digest.len != hash->size) {
        return op_fail(op, FAULT(TSA_BAD_ALG), "a %s imprint has %zu bytes, this one has %zu", hash->name, hash->size,
                       request->digest.len);
    }
    *ret_hash = hash;
    return OK;
}

static struct fault judge_policy(struct op *op, const struct tsa_rules *rules, const struct tsq *request,
                                 struct span *ret_policy)
{
    for (size_t i = 0; i < rules->policy_count; i++) {
        if (request->policy.len == 0 || span_equal(rules->policies[i], request->policy)) {
            *ret_policy = rules->policies[i];
            return OK;
        }
    }
    char oid[DER_OID_TEXT_MAX];
    return op_fail(op, FAULT(TSA_POLICY), "policy %s is not offered here; leave it out for the default one",
                   FAULTED(der_oid_print(request->policy, oid)) ? "(too long to print)" : oid);
}

struct fault tsq_judge(struct op *op, const struct tsa_rules *rules, const struct tsq *request,
                       const struct tst_hash **ret_hash, struct span *ret_policy)
{
    const struct tst_hash *hash = NULL;
    struct span policy = { 0 };
    TRY(judge_hash(op, rules, request, &hash));
    TRY(judge_policy(op, rules, request, &policy));
    if (request->extensions) { /* RFC 3161 2.4.1: critical or not, what is not recognised is refused */
        return op_fail(op, FAULT(TSA_EXTENSION), "no extension of a request is supported; leave them out");
    }
    *ret_hash = hash;
    *ret_policy = policy;
    return OK;
}
