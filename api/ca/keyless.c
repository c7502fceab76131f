#include "api/ca/keyless.h"

#include "api/ca/internal.h"
#include "appliance/base/der.h"
#include "appliance/base/utf8.h"

#include <stdio.h>

#define ROOT_DAYS    3652
#define ROOT_NAME    "svc keyless CA"
#define TEXT_MAX     1024
#define CLAIMS_MAX   32
#define ARC_MAX      255
#define ARC_ISSUER   1
#define ARC_ISSUER_2 8 /* the issuer again, and the first arc whose value is a DER UTF8String */

/* ---- what may stand in a certificate ---- */

static bool all_of(const char *text, size_t len, const char *others)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!alphanumeric && (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return len > 0;
}

static bool is_host(const char *text)
{
    size_t len = strlen(text);
    return len <= 253 && all_of(text, len, "-.") && text[0] != '.' && text[len - 1] != '.' &&
           strstr(text, "..") == NULL;
}

/* RFC 5280 4.2.1.6: an absolute URI, of the characters of RFC 3986. */
static bool is_uri(const char *text)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL || colon[1] == '\0' || !all_of(text, (size_t)(colon - text), "+-.") || text[0] < 'A' ||
        !all_of(text, strlen(text), "-._~:/?#[]@!$&'()*+,;=%")) {
        return false;
    }
    for (const char *at = strchr(text, '%'); at != NULL; at = strchr(at + 1, '%')) {
        if (strspn(at + 1, "0123456789abcdefABCDEF") < 2) {
            return false;
        }
    }
    return true;
}

static bool is_email(const char *text)
{
    const char *at = strchr(text, '@');
    return at != NULL && all_of(text, (size_t)(at - text), "!#$%&'*+-/=?^_`{|}~.") && is_host(at + 1);
}

static struct fault check_san(struct op *op, const struct keyless_subject *subject)
{
    bool fits = strlen(subject->san) <= TEXT_MAX;
    switch (subject->san_kind) {
    case KEYLESS_SAN_URI:
        fits = fits && is_uri(subject->san);
        break;
    case KEYLESS_SAN_EMAIL:
        fits = fits && is_email(subject->san);
        break;
    case KEYLESS_SAN_DNS:
        fits = fits && is_host(subject->san);
        break;
    default:
        fits = false;
    }
    if (!fits) {
        return op_fail(op, FAULT(PROOF_CLAIM),
                       "the identity cannot be the name of a certificate: it must be an absolute URI, an e-mail "
                       "address or a host name of at most %d printable ASCII characters",
                       TEXT_MAX);
    }
    return OK;
}

static bool is_printable(const char *text)
{
    struct reader reader = { span_text(text) };
    while (reader.rest.len > 0) {
        uint32_t point = 0;
        if (FAULTED(utf8_next(&reader, &point)) || point < 0x20 || (point >= 0x7f && point < 0xa0)) {
            return false;
        }
    }
    return true;
}

static struct fault check_claim(struct op *op, const struct keyless_subject *subject, const struct keyless_claim *claim)
{
    BUG_IF(claim->value == NULL || claim->arc < 1 || claim->arc > ARC_MAX);
    if (strlen(claim->value) > TEXT_MAX || !is_printable(claim->value)) {
        return op_fail(op, FAULT(PROOF_CLAIM),
                       "the value for " KEYLESS_ARC ".%u cannot stand in a certificate: it must be at most %d bytes of "
                       "printable UTF-8",
                       claim->arc, TEXT_MAX);
    }
    bool issuer = claim->arc == ARC_ISSUER || claim->arc == ARC_ISSUER_2;
    if (issuer && strcmp(claim->value, subject->issuer) != 0) {
        return op_fail(op, FAULT(PROOF_CLAIM), "the claims name another issuer than the identity proof's");
    }
    return OK;
}

static int by_arc(const void *a, const void *b)
{
    const struct keyless_claim *left = a, *right = b;
    return (left->arc > right->arc) - (left->arc < right->arc);
}

/* The claims that are written, in the order of their arcs: the issuer always, nothing empty, each arc once. */
static struct fault sort_claims(struct op *op, const struct keyless_subject *subject, struct keyless_claim *sorted,
                                size_t *ret_count)
{
    size_t count = 0;
    if (subject->claim_count > CLAIMS_MAX || subject->issuer[0] == '\0') {
        return op_fail(op, FAULT(PROOF_CLAIM), "the identity has no issuer, or more than %d claims", CLAIMS_MAX);
    }
    sorted[count++] = (struct keyless_claim){ ARC_ISSUER, subject->issuer };
    sorted[count++] = (struct keyless_claim){ ARC_ISSUER_2, subject->issuer };
    TRY(check_claim(op, subject, &sorted[0]));
    for (size_t i = 0; i < subject->claim_count; i++) {
        const struct keyless_claim *claim = &subject->claims[i];
        TRY(check_claim(op, subject, claim));
        if (claim->value[0] != '\0' && claim->arc != ARC_ISSUER && claim->arc != ARC_ISSUER_2) {
            sorted[count++] = *claim;
        }
    }
    qsort(sorted, count, sizeof(*sorted), by_arc);
    for (size_t i = 1; i < count; i++) {
        if (sorted[i].arc == sorted[i - 1].arc) {
            return op_fail(op, FAULT(PROOF_CLAIM), "two claims for " KEYLESS_ARC ".%u", sorted[i].arc);
        }
    }
    *ret_count = count;
    return OK;
}

/* ---- the leaf ---- */

static struct fault add_san(const struct issuance *in, const struct keyless_subject *subject)
{
    static const int types[] = {
        [KEYLESS_SAN_URI] = GEN_URI, [KEYLESS_SAN_EMAIL] = GEN_EMAIL, [KEYLESS_SAN_DNS] = GEN_DNS
    };
    CLEANUP(GENERAL_NAMES_freep) GENERAL_NAMES *names = GENERAL_NAMES_new();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    if (names == NULL || name == NULL || text == NULL || sk_GENERAL_NAME_push(names, name) == 0) {
        GENERAL_NAME_free(name);
        ASN1_IA5STRING_free(text);
        return FAULT(NO_MEMORY);
    }
    GENERAL_NAME_set0_value(name, types[subject->san_kind], text);
    if (ASN1_STRING_set(text, subject->san, -1) != 1 ||
        X509_add1_ext_i2d(in->made, NID_subject_alt_name, names, 1, X509V3_ADD_DEFAULT) != 1) {
        return crypto_fail(in->op, "the certificate's alternative name could not be added");
    }
    return OK;
}

static struct fault add_claim(const struct issuance *in, const struct keyless_claim *claim)
{
    uint8_t room[TEXT_MAX + 8];
    char oid[sizeof(KEYLESS_ARC) + 8];
    struct der_writer writer;
    struct span value = span_text(claim->value);
    (void)snprintf(oid, sizeof(oid), KEYLESS_ARC ".%u", claim->arc);
    if (claim->arc >= ARC_ISSUER_2) {
        der_writer_init(&writer, room, sizeof(room));
        der_write_element(&writer, DER_UTF8_STRING, value);
        TRY(der_written(&writer, &value));
    }
    return issuance_extension_bytes(in, oid, value);
}

static struct fault add_extensions(const struct issuance *in, const struct keyless_subject *subject)
{
    struct keyless_claim claims[CLAIMS_MAX + 2];
    size_t count = 0;
    TRY(sort_claims(in->op, subject, claims, &count));
    TRY(issuance_extension(in, NID_key_usage, "critical,digitalSignature"));
    TRY(issuance_extension(in, NID_ext_key_usage, "codeSigning"));
    TRY(issuance_key_ids(in));
    TRY(add_san(in, subject));
    for (size_t i = 0; i < count; i++) {
        TRY(add_claim(in, &claims[i]));
    }
    return OK;
}

static struct fault check_root_stands(const struct issuance *in, int64_t from)
{
    if (ASN1_TIME_cmp_time_t(X509_get0_notBefore(in->issuer), (time_t)from) > 0 ||
        ASN1_TIME_cmp_time_t(X509_get0_notAfter(in->issuer), (time_t)from) <= 0) {
        return op_fail(in->op, FAULT(KEY_STATE),
                       "the certificate of the keyless CA is not valid at that time: the CA has to be renewed");
    }
    return OK;
}

/* The first 160 bits of a digest over what the certificate is for: the same again is the same number. */
static struct fault set_serial(const struct issuance *in, const char *domain, const char *of, const char *more)
{
    struct sha256 digest;
    const struct span parts[] = { span_text(domain), SPAN_ARRAY("\0"), span_text(of), SPAN_ARRAY("\0"),
                                  span_text(more) };
    TRY(sha256_of_parts(parts, COUNT_OF(parts), &digest));
    return issuance_serial(in, digest.at);
}

static struct fault issue_leaf(struct op *op, const struct config *config, const struct keyless_authority *authority,
                               const struct keyless_subject *subject, struct span *ret_der)
{
    CLEANUP(issuance_clear) struct issuance in = { 0 };
    struct uuid journal_id;
    const struct span parts[] = { span_text(subject->operation_id.text) };
    int64_t from = subject->not_before / US_PER_S;
    TRY(uuid_derive("keyless.certificate", parts, COUNT_OF(parts), &journal_id));
    TRY(issuance_init(&in, op, authority->certificate, subject->spki));
    TRY(check_root_stands(&in, from));
    TRY(set_serial(&in, "keyless.serial", subject->operation_id.text, authority->key.id.text));
    TRY(issuance_names(&in, NULL, NULL));
    TRY(issuance_validity(&in, from, from + config->keyless_ttl / NS_PER_S));
    TRY(add_extensions(&in, subject));
    TRY(issuance_sign(&in, &authority->key, authority->spki, journal_id));
    return issuance_der(&in, ret_der);
}

struct fault keyless_issue(struct op *op, const struct config *config, struct signer_client *signer,
                           const struct keyless_authority *authority, const struct keyless_subject *subject,
                           struct span **ret_chain, size_t *ret_count)
{
    BUG_IF(op->tx_open != 0 || subject->not_before <= 0 || subject->san == NULL || subject->issuer == NULL ||
           subject->operation_id.text[0] == '\0');
    TRY(check_san(op, subject));
    if (config->fulcio_url[0] != '\0') {
        return fulcio_issue(op, config, signer, subject, ret_chain, ret_count);
    }
    BUG_IF(authority == NULL || authority->certificate.len == 0);
    struct span *chain = NULL;
    TRY(arena_take(op->arena, 2, sizeof(*chain), &chain));
    TRY(issue_leaf(op, config, authority, subject, &chain[0]));
    TRY(arena_copy(op->arena, authority->certificate, &chain[1]));
    *ret_chain = chain;
    *ret_count = 2;
    return OK;
}

/* ---- the root ---- */

struct fault keyless_root_issue(struct op *op, struct signer_client *signer, const struct key_ref *key,
                                struct span spki, utc_us not_before, struct span *ret_der)
{
    BUG_IF(signer == NULL || op->tx_open != 0 || not_before <= 0 || key->purpose != KEY_PURPOSE_CA);
    CLEANUP(issuance_clear) struct issuance in = { 0 };
    struct uuid journal_id;
    char from_text[24];
    int64_t from = not_before / US_PER_S;
    (void)snprintf(from_text, sizeof(from_text), "%lld", (long long)from);
    const struct span parts[] = { span_text(key->tenant.text), span_text(key->id.text), span_text(from_text) };
    TRY(uuid_derive("keyless.root", parts, COUNT_OF(parts), &journal_id));
    TRY(issuance_init(&in, op, (struct span){ 0 }, spki));
    TRY(set_serial(&in, "keyless.root.serial", key->id.text, from_text));
    TRY(issuance_names(&in, key->tenant.text, ROOT_NAME));
    TRY(issuance_validity(&in, from, from + (int64_t)ROOT_DAYS * SECONDS_PER_DAY - 1));
    TRY(issuance_extension(&in, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
    TRY(issuance_extension(&in, NID_key_usage, "critical,keyCertSign"));
    TRY(issuance_extension(&in, NID_ext_key_usage, "codeSigning"));
    TRY(issuance_key_ids(&in));
    TRY(issuance_sign(&in, key, spki, journal_id));
    return issuance_der(&in, ret_der);
}
