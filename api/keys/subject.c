/*
 * The subject of a certificate request as RFC 4514 writes a distinguished name, most particular first. Less is taken
 * than the RFC allows: the attributes below, one to an RDN, no hexadecimal BER; so what is taken means one thing.
 * Blanks after a comma are passed over.
 */
#include "api/keys/internal.h"
#include "appliance/base/utf8.h"

#include <openssl/obj_mac.h>

#define OU_MAX    4
#define POINTER   "/subject"
#define NAMES     "CN, O, OU, C, ST, L, emailAddress"
#define MAIL_SIGN '@'

/* max: characters, the upper bounds of RFC 5280 appendix A.1 */
static const struct attribute {
    const char *name;
    int nid;
    size_t max, often;
} attributes[] = {
    { "CN", NID_commonName, 64, 1 },
    { "O", NID_organizationName, 64, 1 },
    { "OU", NID_organizationalUnitName, 64, OU_MAX },
    { "C", NID_countryName, 2, 1 },
    { "ST", NID_stateOrProvinceName, 128, 1 },
    { "L", NID_localityName, 128, 1 },
    { "emailAddress", NID_pkcs9_emailAddress, 128, 1 },
};

static const struct attribute *find(const char *name, size_t len)
{
    for (size_t i = 0; i < COUNT_OF(attributes); i++) {
        if (strlen(attributes[i].name) == len && strncasecmp(attributes[i].name, name, len) == 0) {
            return &attributes[i];
        }
    }
    return NULL;
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* RFC 4514 2.4: a backslash makes a special character plain, or gives a byte by two hex digits. */
static bool unescape(const char **at, char *ret_byte)
{
    const char *text = *at + 1;
    if (text[0] == '\0') {
        return false;
    }
    if (strchr("\"+,;<>\\ #=", text[0]) != NULL) {
        *ret_byte = text[0];
        *at += 2;
        return true;
    }
    int high = nibble(text[0]), low = high >= 0 ? nibble(text[1]) : -1;
    if (low < 0 || (high == 0 && low == 0)) {
        return false;
    }
    *ret_byte = (char)(unsigned char)(high << 4 | low);
    *at += 3;
    return true;
}

static const char *wrong_syntax = POINTER ": must be as in RFC 4514, for example CN=Release,O=Acme,C=DE";

/* Reads up to an unescaped comma or the end. `out` has room for the rest of the text. */
static struct fault read_value(struct op *op, const char **at, char *out)
{
    size_t len = 0;
    bool plain_blank = false; /* is the last one an unescaped blank? */
    bool bad = **at == ' ' || **at == '#';
    while (**at != '\0' && **at != ',' && !bad) {
        plain_blank = **at == ' ';
        if (**at == '\\') {
            bad = !unescape(at, &out[len++]);
        } else {
            bad = strchr("\"+;<>", **at) != NULL;
            out[len++] = *(*at)++;
        }
    }
    if (bad || plain_blank || len == 0) {
        return op_fail_field(op, FAULT(JSON_FIELD), POINTER, "%s", wrong_syntax);
    }
    out[len] = '\0';
    return OK;
}

/* Counts characters; false when one of them cannot be printed. */
static bool is_printable(const char *text, size_t *ret_count)
{
    struct reader reader = { span_text(text) };
    for (*ret_count = 0; reader.rest.len > 0; (*ret_count)++) {
        uint32_t point = 0;
        if (FAULTED(utf8_next(&reader, &point)) || point < 0x20 || (point >= 0x7f && point < 0xa0)) {
            return false;
        }
    }
    return true;
}

bool key_email_fits(const char *text)
{
    const char *sign = strchr(text, MAIL_SIGN);
    if (sign == NULL || sign == text || sign[1] == '\0' || strchr(sign + 1, MAIL_SIGN) != NULL) {
        return false;
    }
    for (const char *at = text; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~' || strchr("\"(),:;<>[]\\", *at) != NULL) {
            return false;
        }
    }
    return true;
}

static struct fault check_value(struct op *op, const struct attribute *attribute, const char *value)
{
    size_t count = 0;
    if (!is_printable(value, &count) || count > attribute->max) {
        return op_fail_field(op, FAULT(JSON_FIELD), POINTER,
                             POINTER ": %s must be at most %zu printable characters of UTF-8", attribute->name,
                             attribute->max);
    }
    if (attribute->nid == NID_countryName &&
        (count != 2 || strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(value))) {
        return op_fail_field(op, FAULT(JSON_FIELD), POINTER, POINTER ": C must be two letters A to Z (ISO 3166)");
    }
    if (attribute->nid == NID_pkcs9_emailAddress && !key_email_fits(value)) {
        return op_fail_field(op, FAULT(JSON_FIELD), POINTER, POINTER ": emailAddress must be an address of ASCII");
    }
    return OK;
}

static struct fault read_attribute(struct op *op, const char **at, struct key_subject *subject)
{
    size_t len = strspn(*at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (len == 0 || (*at)[len] != '=') {
        return op_fail_field(op, FAULT(JSON_FIELD), POINTER, "%s", wrong_syntax);
    }
    const struct attribute *attribute = find(*at, len);
    size_t before = 0;
    for (size_t i = 0; attribute != NULL && i < subject->count; i++) {
        before += subject->at[i].nid == attribute->nid;
    }
    if (attribute == NULL || before >= attribute->often) {
        return op_fail_field(op, FAULT(JSON_FIELD), POINTER,
                             POINTER ": '%.*s' is %s; known are " NAMES ", each once and OU up to %d times",
                             len < 32 ? (int)len : 32, *at, attribute == NULL ? "not known here" : "there too often",
                             OU_MAX);
    }
    char *value = NULL;
    *at += len + 1;
    TRY(arena_take(op->arena, strlen(*at) + 1, 1, &value));
    TRY(read_value(op, at, value));
    TRY(check_value(op, attribute, value));
    BUG_IF(subject->count == KEY_SUBJECT_ATTRIBUTES);
    subject->at[subject->count].nid = attribute->nid;
    subject->at[subject->count++].value = value;
    return OK;
}

struct fault key_subject_parse(struct op *op, const char *text, struct key_subject *ret_subject)
{
    struct key_subject subject = { 0 };
    const char *at = text;
    for (;;) {
        TRY(read_attribute(op, &at, &subject));
        if (*at == '\0') {
            break;
        }
        at++; /* the comma */
        at += strspn(at, " ");
    }
    for (size_t i = 0; i < subject.count; i++) {
        if (subject.at[i].nid == NID_commonName) {
            *ret_subject = subject;
            return OK;
        }
    }
    return op_fail_field(op, FAULT(JSON_FIELD), POINTER, POINTER ": CN is missing");
}
