#include "api/tsa/verify_internal.h"

#include "appliance/base/crypto.h"
#include "appliance/base/der.h"

#define SERIAL_MAX 64

static struct fault malformed(struct op *op, const char *what)
{
    return tst_refuse(op, "not an RFC 3161 time stamp: %s", what);
}

/* PKIStatusInfo ::= SEQUENCE { status INTEGER, statusString SEQUENCE OF UTF8String OPTIONAL, failInfo OPTIONAL } */
static struct fault check_status(struct op *op, struct span body)
{
    struct der_element status;
    struct der_element texts;
    struct der_element text = { 0 };
    uint64_t number = 0;
    if (FAULTED(der_take(&body, DER_INTEGER, &status)) || FAULTED(der_uint(status.body, &number))) {
        return malformed(op, "its status does not decode");
    }
    if (number <= 1) { /* granted, grantedWithMods */
        return OK;
    }
    if (der_at(body, DER_SEQUENCE) && !FAULTED(der_take(&body, DER_SEQUENCE, &texts))) {
        IGNORE(der_take(&texts.body, DER_UTF8_STRING, &text));
    }
    return tst_refuse(op, "the authority refused (status %llu): %.*s", (unsigned long long)number,
                      (int)(text.body.len < 160 ? text.body.len : 160), (const char *)text.body.at);
}

struct fault tst_token_of(struct op *op, struct span der, struct span *ret_token)
{
    struct der_element whole;
    struct der_element first;
    if (FAULTED(der_take(&der, DER_SEQUENCE, &whole)) || FAULTED(der_end(der))) {
        return malformed(op, "no DER SEQUENCE, or bytes behind it");
    }
    struct span rest = whole.body;
    if (der_at(rest, DER_OID)) {
        *ret_token = whole.whole;
        return OK;
    }
    if (FAULTED(der_take(&rest, DER_SEQUENCE, &first))) {
        return malformed(op, "neither a response nor a token");
    }
    TRY(check_status(op, first.body));
    if (FAULTED(der_take(&rest, DER_SEQUENCE, &first)) || FAULTED(der_end(rest))) {
        return malformed(op, "a granted response without a token");
    }
    *ret_token = first.whole;
    return OK;
}

static struct fault parse_imprint(struct op *op, struct span *rest, struct tst_info *info)
{
    struct der_element imprint;
    struct der_element algorithm;
    struct der_element oid;
    struct der_element digest;
    if (FAULTED(der_take(rest, DER_SEQUENCE, &imprint)) || FAULTED(der_take(&imprint.body, DER_SEQUENCE, &algorithm)) ||
        FAULTED(der_take(&algorithm.body, DER_OID, &oid)) ||
        FAULTED(der_take(&imprint.body, DER_OCTET_STRING, &digest)) || FAULTED(der_end(imprint.body))) {
        return malformed(op, "its message imprint does not decode");
    }
    const struct tst_hash *hash = tst_hash_by_oid(oid.body);
    if (hash == NULL || digest.body.len != hash->size) {
        return tst_refuse(op, "its imprint is not one of SHA-256, SHA-384 or SHA-512");
    }
    info->hash = hash->name;
    info->imprint = digest.body;
    return OK;
}

static struct fault print_serial(struct op *op, struct span body, const char **ret_text)
{
    static const char digits[] = "0123456789ABCDEF";
    if (FAULTED(der_integer_check(body)) || body.len > SERIAL_MAX) {
        return malformed(op, "its serial number does not decode");
    }
    if (body.len > 1 && body.at[0] == 0) {
        body = span_of(body.at + 1, body.len - 1);
    }
    char *text = NULL;
    TRY(arena_take(op->arena, 2 * body.len + 3, 1, &text));
    text[0] = '0';
    text[1] = 'x';
    for (size_t i = 0; i < body.len; i++) {
        text[2 + 2 * i] = digits[body.at[i] >> 4];
        text[3 + 2 * i] = digits[body.at[i] & 0x0f];
    }
    *ret_text = text;
    return OK;
}

/* Accuracy ::= SEQUENCE { seconds INTEGER OPTIONAL, millis [0] INTEGER OPTIONAL, micros [1] INTEGER OPTIONAL } */
static struct fault parse_accuracy(struct op *op, struct span body, int64_t *ret_accuracy_us)
{
    static const struct {
        uint8_t tag;
        int64_t us;
        uint64_t max;
    } parts[] = { { DER_INTEGER, US_PER_S, 1000000 }, { DER_CONTEXT(0), 1000, 999 }, { DER_CONTEXT(1), 1, 999 } };
    int64_t sum = 0;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        struct der_element part;
        uint64_t value = 0;
        if (!der_at(body, parts[i].tag)) {
            continue;
        }
        if (FAULTED(der_take(&body, parts[i].tag, &part)) || FAULTED(der_uint(part.body, &value)) ||
            value > parts[i].max) {
            return malformed(op, "its accuracy does not decode");
        }
        sum += (int64_t)value * parts[i].us;
    }
    *ret_accuracy_us = sum;
    return FAULTED(der_end(body)) ? malformed(op, "its accuracy does not decode") : OK;
}

static struct fault parse_options(struct op *op, struct span *rest, struct tst_info *info)
{
    struct der_element element;
    bool ordering = false;
    if (der_at(*rest, DER_SEQUENCE)) {
        if (FAULTED(der_take(rest, DER_SEQUENCE, &element))) {
            return malformed(op, "its accuracy does not decode");
        }
        TRY(parse_accuracy(op, element.body, &info->accuracy_us));
    }
    if (der_at(*rest, DER_BOOLEAN) &&
        (FAULTED(der_take(rest, DER_BOOLEAN, &element)) || FAULTED(der_boolean(element.body, &ordering)))) {
        return malformed(op, "its ordering does not decode");
    }
    if (der_at(*rest, DER_INTEGER)) {
        if (FAULTED(der_take(rest, DER_INTEGER, &element)) || FAULTED(der_integer_check(element.body))) {
            return malformed(op, "its nonce does not decode");
        }
        info->nonce = element.body;
    }
    if (der_at(*rest, DER_CONTEXT_CONSTRUCTED(0)) && FAULTED(der_take(rest, DER_CONTEXT_CONSTRUCTED(0), &element))) {
        return malformed(op, "its tsa name does not decode");
    }
    if (der_at(*rest, DER_CONTEXT_CONSTRUCTED(1))) {
        return tst_refuse(op, "it has extensions, which are not understood here");
    }
    return FAULTED(der_end(*rest)) ? malformed(op, "bytes behind the last member of TSTInfo") : OK;
}

struct fault tst_info_parse(struct op *op, struct span der, struct tst_info *ret_info)
{
    struct tst_info info = { 0 };
    struct der_element whole;
    struct der_element element;
    uint64_t version = 0;
    if (FAULTED(der_take(&der, DER_SEQUENCE, &whole)) || FAULTED(der_end(der)) ||
        FAULTED(der_take(&whole.body, DER_INTEGER, &element)) || FAULTED(der_uint(element.body, &version)) ||
        version != 1) {
        return malformed(op, "its TSTInfo is not DER of version 1");
    }
    char policy[DER_OID_TEXT_MAX];
    if (FAULTED(der_take(&whole.body, DER_OID, &element)) || FAULTED(der_oid_print(element.body, policy))) {
        return malformed(op, "its policy does not decode");
    }
    TRY(arena_text(op->arena, span_text(policy), &info.policy));
    TRY(parse_imprint(op, &whole.body, &info));
    if (FAULTED(der_take(&whole.body, DER_INTEGER, &element))) {
        return malformed(op, "its serial number does not decode");
    }
    TRY(print_serial(op, element.body, &info.serial));
    if (FAULTED(der_take(&whole.body, DER_GENERALIZED_TIME, &element)) || FAULTED(der_time(element.body, &info.time))) {
        return malformed(op, "its time is not GeneralizedTime in GMT (RFC 3161 2.4.2)");
    }
    TRY(parse_options(op, &whole.body, &info));
    *ret_info = info;
    return OK;
}

/* ESSCertIDv2 ::= SEQUENCE { hashAlgorithm DEFAULT sha256, certHash OCTET STRING, issuerSerial OPTIONAL } */
struct fault tst_check_binding(struct op *op, struct span attribute, struct span certificate)
{
    struct der_element signing;
    struct der_element certs;
    struct der_element id;
    struct der_element element;
    if (FAULTED(der_take(&attribute, DER_SEQUENCE, &signing)) || FAULTED(der_end(attribute)) ||
        FAULTED(der_take(&signing.body, DER_SEQUENCE, &certs)) || FAULTED(der_take(&certs.body, DER_SEQUENCE, &id))) {
        return malformed(op, "its signingCertificateV2 does not decode");
    }
    if (FAULTED(der_end(certs.body))) {
        return tst_refuse(op, "it names more than one signing certificate; exactly one ESSCertIDv2 is accepted");
    }
    const struct tst_hash *hash = &tst_hashes[TST_SHA256];
    if (der_at(id.body, DER_SEQUENCE)) {
        struct der_element algorithm;
        if (FAULTED(der_take(&id.body, DER_SEQUENCE, &algorithm)) ||
            FAULTED(der_take(&algorithm.body, DER_OID, &element))) {
            return malformed(op, "its ESSCertIDv2 does not decode");
        }
        hash = tst_hash_by_oid(element.body);
    }
    if (hash == NULL || FAULTED(der_take(&id.body, DER_OCTET_STRING, &element))) {
        return malformed(op, "its ESSCertIDv2 does not decode");
    }
    uint8_t digest[EVP_MAX_MD_SIZE];
    size_t len = sizeof(digest);
    if (EVP_Q_digest(crypto_context(), hash->digest, NULL, certificate.at, certificate.len, digest, &len) != 1) {
        return crypto_fail(op, "the signer's certificate could not be hashed");
    }
    if (!span_equal(span_of(digest, len), element.body)) {
        return tst_refuse(op, "its ESSCertIDv2 names another certificate than the one that signed");
    }
    return OK;
}

struct fault tst_request(struct op *op, const char *hash_name, struct span digest, struct span nonce,
                         struct span *ret_der)
{
    const struct tst_hash *hash = tst_hash_by_name(hash_name);
    REQUIRE(hash != NULL && digest.len == hash->size && (nonce.len == 0 || !FAULTED(der_integer_check(nonce))),
            BAD_ARGUMENT);
    static const uint8_t yes[] = { 0xff };
    uint8_t room[512];
    struct der_writer writer;
    struct span der;
    der_writer_init(&writer, room, sizeof(room));
    der_write_element(&writer, DER_BOOLEAN, SPAN_ARRAY(yes));
    if (nonce.len > 0) {
        der_write_element(&writer, DER_INTEGER, nonce);
    }
    size_t imprint = der_mark(&writer);
    der_write_element(&writer, DER_OCTET_STRING, digest);
    size_t algorithm = der_mark(&writer);
    der_write_element(&writer, DER_NULL, (struct span){ 0 });
    der_write_element(&writer, DER_OID, hash->oid);
    der_wrap(&writer, DER_SEQUENCE, algorithm);
    der_wrap(&writer, DER_SEQUENCE, imprint);
    der_write_uint(&writer, DER_INTEGER, 1);
    der_wrap(&writer, DER_SEQUENCE, 0);
    TRY(der_written(&writer, &der));
    return arena_copy(op->arena, der, ret_der);
}
