/* One text at a time: is it what it is to be, and in which one form is it kept. */
#include "api/inventory/adcs.h"

#include <stdio.h>

#define DIGITS "0123456789"
#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

const char *const adcs_kinds[] = { "web-enrollment", "ces", "cep", "ndes", NULL };
const char *const adcs_schemes[] = { "http", "https", NULL };
const char *const adcs_bindings[] = { "none", "allowed", "required", NULL };
const char *const adcs_states[] = { "restricted", "unrestricted", "unknown", NULL };

static struct fault refuse(struct op *op, const char *pointer, const char *why)
{
    return op_fail_field(op, FAULT(JSON_FIELD), pointer, "%s", why);
}

/* ASCII only: what Windows folds beyond it differs from version to version. */
static struct fault lower(struct op *op, const char **text)
{
    struct span copy;
    size_t len = strlen(*text);
    TRY(arena_copy(op->arena, span_of(*text, len + 1), &copy));
    char *at = (char *)copy.at;
    for (size_t i = 0; i < len; i++) {
        at[i] = (char)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] + ('a' - 'A') : at[i]);
    }
    *text = at;
    return OK;
}

static bool is_domain(const char *text, size_t len)
{
    size_t label = 0;
    for (size_t i = 0; i < len; i++) {
        bool edge = label == 0 || i + 1 == len || text[i + 1] == '.';
        if (text[i] == '.') {
            if (label == 0) {
                return false;
            }
            label = 0;
            continue;
        }
        if (strchr(LOWER DIGITS "-_", text[i]) == NULL || ++label > 63 || (edge && text[i] == '-')) {
            return false;
        }
    }
    return len > 0 && len <= 253 && label > 0;
}

struct fault adcs_check_domain(struct op *op, const char *pointer, const char **text)
{
    const char *made = *text;
    size_t len = strlen(made);
    if (len > 1 && made[len - 1] == '.') {
        TRY(arena_printf(op->arena, &made, "%.*s", (int)--len, *text));
    }
    TRY(lower(op, &made));
    if (!is_domain(made, len)) {
        return refuse(op, pointer, "must be a DNS name, such as corp.example.com");
    }
    *text = made;
    return OK;
}

struct fault adcs_check_name(struct op *op, const char *pointer, const char **text)
{
    size_t len = strlen(*text);
    bool good = len > 0 && len <= ADCS_NAME_MAX && (*text)[0] != ' ' && (*text)[len - 1] != ' ';
    for (size_t i = 0; i < len && good; i++) {
        good = (unsigned char)(*text)[i] >= ' ' && (*text)[i] != 0x7f;
    }
    if (!good) {
        return refuse(op, pointer,
                      "must be a name of 1 to 255 bytes without control characters and blanks at its ends");
    }
    return lower(op, text);
}

struct fault adcs_check_id(struct op *op, const char *pointer, const char *text)
{
    size_t len = strlen(text);
    if (len == 0 || len > ADCS_ID_MAX || strspn(text, LOWER UPPER DIGITS "._:-") != len) {
        return refuse(op, pointer, "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -");
    }
    return OK;
}

/* A run of digits without a leading zero, at most `most` of them; 0 = it is none. */
static size_t number_len(const char *text, size_t most)
{
    size_t len = strspn(text, DIGITS);
    return len == 0 || len > most || (len > 1 && text[0] == '0') ? 0 : len;
}

struct fault adcs_check_oid(struct op *op, const char *pointer, const char *text)
{
    const char *at = text;
    size_t arcs = 0;
    while (true) {
        size_t len = number_len(at, 39); /* an arc of 128 bits, as templates' own have */
        if (len == 0) {
            break;
        }
        at += len;
        arcs++;
        if (*at != '.') {
            break;
        }
        at++;
    }
    if (*at != '\0' || arcs < 2 || arcs > 32 || at[-1] == '.' || text[0] > '2' || text[1] != '.') {
        return refuse(op, pointer, "must be an object identifier in dotted numbers, such as 1.3.6.1.5.5.7.3.2");
    }
    return OK;
}

struct fault adcs_check_sid(struct op *op, const char *pointer, const char **text)
{
    const char *made = *text;
    size_t arcs = 0;
    TRY(lower(op, &made));
    bool good = strncmp(made, "s-1-", 4) == 0;
    for (const char *at = made + (good ? 4 : 0); good; at++) {
        size_t len = number_len(at, 15); /* the authority has 48 bits, what follows 32 */
        at += len;
        good = len > 0 && ++arcs <= 16;
        if (*at != '-') {
            good = good && *at == '\0';
            break;
        }
    }
    if (!good || arcs < 2) {
        return refuse(op, pointer, "must be a security identifier, such as S-1-5-21-1-2-3-513");
    }
    return arena_printf(op->arena, text, "S%s", made + 1);
}

static bool is_port(const char *text, size_t len)
{
    int64_t port = 0;
    for (size_t i = 0; i < len; i++) {
        port = port * 10 + (text[i] - '0');
    }
    return number_len(text, 5) == len && port > 0 && port < 65536;
}

/* scheme://host[:port][/path], in lower case (the paths of IIS are of either), without the scheme's own port and
 * without a slash at the end. */
struct fault adcs_check_url(struct op *op, const char *pointer, const char *scheme, const char **text)
{
    const char *made = *text;
    size_t len = strlen(scheme);
    TRY(lower(op, &made));
    bool good = strlen(made) <= 1024 && strncmp(made, scheme, len) == 0 && strncmp(made + len, "://", 3) == 0 &&
                strspn(made, LOWER DIGITS "-._~:/%()+,!$&'*;=@") == strlen(made) && strchr(made, '@') == NULL;
    if (!good) {
        return refuse(op, pointer, "must be a URL of the endpoint's scheme, without user, query and fragment");
    }
    const char *host = made + len + 3;
    size_t host_len = strcspn(host, ":/");
    const char *port = host + host_len;
    size_t port_len = *port == ':' ? strcspn(port + 1, "/") : 0;
    const char *path = *port == ':' ? port + 1 + port_len : port;
    size_t path_len = strlen(path);
    if (!is_domain(host, host_len) || (*port == ':' && !is_port(port + 1, port_len))) {
        return refuse(op, pointer, "must name its host by DNS name or IPv4 address, and a port from 1 to 65535");
    }
    while (path_len > 0 && path[path_len - 1] == '/') {
        path_len--;
    }
    const char *usual = strcmp(scheme, "https") == 0 ? "443" : "80";
    bool shown = port_len > 0 && !(port_len == strlen(usual) && strncmp(port + 1, usual, port_len) == 0);
    return arena_printf(op->arena, text, "%s://%.*s%s%.*s%.*s", scheme, (int)host_len, host, shown ? ":" : "",
                        shown ? (int)port_len : 0, port + (shown ? 1 : 0), (int)path_len, path);
}

struct fault adcs_check_word(struct op *op, const char *pointer, const char *text, const char *const *words)
{
    char all[128] = "";
    size_t used = 0;
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            return OK;
        }
        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i > 0 ? ", " : "", words[i]);
        BUG_IF(used >= sizeof(all));
    }
    return op_fail_field(op, FAULT(JSON_FIELD), pointer, "must be one of %s", all);
}

/* In the order of their bits. */
static const char *const rights[] = { "enroll",      "autoenroll",     "owner",     "full-control",       "write-dacl",
                                      "write-owner", "write-property", "manage-ca", "manage-certificates" };

unsigned adcs_right_of(const char *word)
{
    for (unsigned i = 0; i < COUNT_OF(rights); i++) {
        if (strcmp(rights[i], word) == 0) {
            return 1U << i;
        }
    }
    return 0;
}

void adcs_rights_print(struct jout *jout, unsigned bits)
{
    jout_array(jout);
    for (unsigned i = 0; i < COUNT_OF(rights); i++) {
        if ((bits & 1U << i) != 0) {
            jout_text(jout, rights[i]);
        }
    }
    jout_array_end(jout);
}

int adcs_text_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
