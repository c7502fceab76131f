/* What a time stamp's files say beside the token: their kind, a response's status, a query. */
#include "api/tsa/internal.h"
#include "api/tsa/verify_internal.h"

const char *tst_reason_text(enum tst_reason reason)
{
    static const char *const texts[TST_REASON_COUNT] = {
        [TST_HOLDS] = "holds",     [TST_MALFORMED] = "malformed", [TST_NOT_GRANTED] = "not_granted",
        [TST_NO_ROOT] = "no_root", [TST_SIGNER] = "signer",       [TST_ALGORITHM] = "algorithm",
        [TST_BINDING] = "binding", [TST_SIGNATURE] = "signature", [TST_CERTIFICATE] = "certificate",
        [TST_DIGEST] = "digest",   [TST_NONCE] = "nonce",
    };
    BUG_IF(reason >= TST_REASON_COUNT);
    return texts[reason];
}

enum tst_kind tst_kind_of(struct span der)
{
    struct der_element whole;
    if (FAULTED(der_take(&der, DER_SEQUENCE, &whole))) {
        return TST_KIND_NONE;
    }
    if (der_at(whole.body, DER_INTEGER)) {
        return TST_KIND_QUERY;
    }
    if (der_at(whole.body, DER_OID)) {
        return TST_KIND_TOKEN;
    }
    return der_at(whole.body, DER_SEQUENCE) ? TST_KIND_REPLY : TST_KIND_NONE;
}

/* The first bit that is set, which is the failure's number (RFC 3161 2.4.2). */
static const char *failure_text(struct span bits)
{
    static const struct {
        size_t bit;
        const char *name;
    } names[] = {
        { 0, "badAlg" },
        { 2, "badRequest" },
        { 5, "badDataFormat" },
        { 14, "timeNotAvailable" },
        { 15, "unacceptedPolicy" },
        { 16, "unacceptedExtension" },
        { 17, "addInfoNotAvailable" },
        { 25, "systemFailure" },
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t at = 1 + names[i].bit / 8;
        if (at < bits.len && (bits.at[at] & (0x80 >> names[i].bit % 8)) != 0) {
            return names[i].name;
        }
    }
    return "unknown";
}

static struct fault parse_status(struct op *op, struct span body, struct tst_status *ret_status)
{
    struct tst_status status = { 0 };
    struct der_element element, text;
    TRY(der_take(&body, DER_INTEGER, &element));
    TRY(der_uint(element.body, &status.status));
    if (der_at(body, DER_SEQUENCE)) {
        TRY(der_take(&body, DER_SEQUENCE, &element));
        TRY(der_take(&element.body, DER_UTF8_STRING, &text));
        TRY(arena_text(op->arena, text.body, &status.text));
    }
    if (der_at(body, DER_BIT_STRING)) {
        TRY(der_take(&body, DER_BIT_STRING, &element));
        status.failure = failure_text(element.body);
    }
    TRY(der_end(body));
    *ret_status = status;
    return OK;
}

static struct fault status_body(struct span der, struct span *ret_body)
{
    struct der_element whole, first;
    TRY(der_take(&der, DER_SEQUENCE, &whole));
    TRY(der_end(der));
    TRY(der_take(&whole.body, DER_SEQUENCE, &first));
    *ret_body = first.body;
    return OK;
}

bool tst_refused(struct span der)
{
    struct span body;
    struct der_element element;
    uint64_t status = 0;
    return !FAULTED(status_body(der, &body)) && !FAULTED(der_take(&body, DER_INTEGER, &element)) &&
           !FAULTED(der_uint(element.body, &status)) && status > 1;
}

struct fault tst_status_of(struct op *op, struct span der, struct tst_status *ret_status)
{
    struct span body;
    if (FAULTED(status_body(der, &body)) || FAULTED(parse_status(op, body, ret_status))) {
        return tst_refuse(op, "not an RFC 3161 time stamp: its status does not decode");
    }
    return OK;
}

static struct fault print_oid(struct op *op, struct span body, const char **ret_text)
{
    char text[DER_OID_TEXT_MAX];
    TRY(der_oid_print(body, text));
    return arena_text(op->arena, span_text(text), ret_text);
}

struct fault tst_query_of(struct op *op, struct span der, struct tst_query *ret_query)
{
    struct tsq request;
    struct der_element nonce = { 0 };
    TRY(tsq_parse(op, der, &request));
    struct tst_query query = { .imprint = request.digest,
                               .certificate_wanted = request.certificate_wanted,
                               .extensions = request.extensions };
    const struct tst_hash *hash = tst_hash_by_oid(request.hash_oid);
    if (hash != NULL) {
        query.hash = hash->name;
    } else {
        TRY(print_oid(op, request.hash_oid, &query.hash));
    }
    if (request.policy.len > 0) {
        TRY(print_oid(op, request.policy, &query.policy));
    }
    if (request.nonce.len > 0) {
        TRY(der_take(&request.nonce, DER_INTEGER, &nonce));
        query.nonce = nonce.body;
    }
    *ret_query = query;
    return OK;
}
