/* The three forms of a SAN that a verifier can compare: a URI (RFC 3986), an e-mail address (RFC 5321, without quotes),
 * a DNS name. Characters that would have to be escaped are refused, not escaped: two names must never become one. */
#include "api/attest/internal.h"

#define DIGITS      "0123456789"
#define LOWER       "abcdefghijklmnopqrstuvwxyz"
#define UPPER       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define ALNUM       DIGITS LOWER UPPER
#define URI_CHARS   ALNUM "-._~:/?#[]@!$&'()*+,;=%"
#define LOCAL_CHARS ALNUM "!#$%&'*+-/=?^_`{|}~."
#define LABEL_MAX   63
#define DNS_MAX     253
#define LOCAL_MAX   64

static bool is_hex(char c)
{
    return c != '\0' && strchr(DIGITS "abcdefABCDEF", c) != NULL;
}

static bool is_uri(const char *text)
{
    size_t scheme = strspn(text, ALNUM "+-.");
    if (scheme == 0 || strchr(LOWER UPPER, text[0]) == NULL || strncmp(text + scheme, "://", 3) != 0) {
        return false;
    }
    const char *rest = text + scheme + 3;
    if (*rest == '\0' || *rest == '/' || rest[strspn(rest, URI_CHARS)] != '\0') {
        return false;
    }
    for (const char *at = strchr(rest, '%'); at != NULL; at = strchr(at + 1, '%')) {
        if (!is_hex(at[1]) || !is_hex(at[2])) {
            return false;
        }
    }
    return true;
}

/* At least two labels, the last one no number: what has one label, or looks like an address, names no host. */
static bool is_dns(const char *text)
{
    const char *label = text;
    size_t labels = 0;
    if (strlen(text) > DNS_MAX) {
        return false;
    }
    for (;;) {
        size_t len = strspn(label, ALNUM "-");
        if (len == 0 || len > LABEL_MAX || label[0] == '-' || label[len - 1] == '-') {
            return false;
        }
        labels++;
        if (label[len] == '\0') {
            return labels > 1 && strspn(label, DIGITS) != len;
        }
        if (label[len] != '.') {
            return false;
        }
        label += len + 1;
    }
}

static bool is_email(const char *text)
{
    size_t local = strspn(text, LOCAL_CHARS);
    if (local == 0 || local > LOCAL_MAX || text[local] != '@' || text[0] == '.' || text[local - 1] == '.') {
        return false;
    }
    for (size_t i = 1; i < local; i++) {
        if (text[i] == '.' && text[i - 1] == '.') {
            return false;
        }
    }
    return is_dns(text + local + 1);
}

bool san_kind_of(const char *san, enum san_kind *ret_kind)
{
    if (is_uri(san)) {
        *ret_kind = SAN_URI;
        return true;
    }
    if (is_email(san)) {
        *ret_kind = SAN_EMAIL;
        return true;
    }
    if (is_dns(san)) {
        *ret_kind = SAN_DNS;
        return true;
    }
    return false;
}
