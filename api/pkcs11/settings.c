#include "api/pkcs11/settings.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/file.h"

#include <stdatomic.h>

#define CONFIG_MAX       ((size_t)64 << 10)
#define VALUE_MAX        1024
#define ARTIFACT_MAX     128
#define TIMEOUT_MAX_NS   (600 * NS_PER_S)
#define APPROVAL_MAX_NS  (24 * 3600 * NS_PER_S)
#define ARTIFACT_DEFAULT "pkcs11"
#define TIMEOUT_DEFAULT  "60s"
#define APPROVAL_DEFAULT "0s"

/* Texts as they were given; NULL = not given. */
struct given {
    const char *base_url, *ca_file, *token_file, *artifact_type, *keys, *log_file, *timeout, *approval_wait;
};
static const struct row {
    const char *name;
    size_t offset;
} rows[] = {
    { "SVC_BASE_URL", offsetof(struct given, base_url) },
    { "SVC_CA_FILE", offsetof(struct given, ca_file) },
    { "SVC_TOKEN_FILE", offsetof(struct given, token_file) },
    { "SVC_ARTIFACT_TYPE", offsetof(struct given, artifact_type) },
    { "SVC_PKCS11_KEYS", offsetof(struct given, keys) },
    { "SVC_PKCS11_LOG", offsetof(struct given, log_file) },
    { "SVC_PKCS11_TIMEOUT", offsetof(struct given, timeout) },
    { "SVC_PKCS11_APPROVAL_WAIT", offsetof(struct given, approval_wait) },
};

struct whole {
    struct settings settings; /* first: it is what the others see */
    struct arena *arena;
    struct secret *token; /* of SVC_TOKEN */
    atomic_uint refs;
};

static struct whole *whole_of(const struct settings *settings)
{
    return (struct whole *)settings;
}

static const char **slot_of(struct given *given, const struct row *row)
{
    return (const char **)((char *)given + row->offset);
}

static const struct row *find_row(struct span name)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (span_equal_text(name, rows[i].name)) {
            return &rows[i];
        }
    }
    return NULL;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct span trim(struct span text)
{
    while (text.len > 0 && is_blank(text.at[0])) {
        text = span_of(text.at + 1, text.len - 1);
    }
    while (text.len > 0 && is_blank(text.at[text.len - 1])) {
        text.len--;
    }
    return text;
}

static struct fault take_text(struct op *op, struct arena *arena, const char *name, struct span text,
                              const char **ret_text)
{
    if (text.len > VALUE_MAX) {
        return op_fail(op, FAULT(CONFIG), "%s is longer than %d bytes", name, VALUE_MAX);
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < ' ' || text.at[i] == 0x7f) {
            return op_fail(op, FAULT(CONFIG), "%s has control characters", name);
        }
    }
    return arena_text(arena, text, ret_text);
}

static struct fault read_line(struct op *op, struct arena *arena, const char *path, unsigned number, struct span line,
                              struct given *given)
{
    line = trim(line);
    if (line.len == 0 || line.at[0] == '#') {
        return OK;
    }
    const uint8_t *equals = memchr(line.at, '=', line.len);
    size_t name_len = equals != NULL ? (size_t)(equals - line.at) : line.len;
    const struct row *row = find_row(trim(span_of(line.at, name_len)));
    if (equals == NULL || row == NULL) {
        return op_fail(op, FAULT(CONFIG), "%s, line %u: not NAME=value with a name that this module knows", path,
                       number);
    }
    return take_text(op, arena, row->name, trim(span_of(equals + 1, line.len - name_len - 1)), slot_of(given, row));
}

static struct fault read_config(struct op *op, struct arena *arena, const char *path, struct given *given)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(CONFIG_MAX);
    if (FAULTED(file_read(path, &text))) {
        return op_fail(op, FAULT(CONFIG), "%s, which SVC_PKCS11_CONFIG names, cannot be read", path);
    }
    struct span rest = buf_span(&text);
    for (unsigned number = 1; rest.len > 0; number++) {
        const uint8_t *end = memchr(rest.at, '\n', rest.len);
        size_t len = end != NULL ? (size_t)(end - rest.at) : rest.len;
        TRY(read_line(op, arena, path, number, span_of(rest.at, len), given));
        size_t used = end != NULL ? len + 1 : len;
        rest = span_of(rest.at + used, rest.len - used);
    }
    return OK;
}

static struct fault read_given(struct op *op, struct arena *arena, struct given *given)
{
    const char *path = secure_getenv("SVC_PKCS11_CONFIG");
    if (path != NULL && path[0] != '\0') {
        TRY(read_config(op, arena, path, given));
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char **slot = slot_of(given, &rows[i]);
        const char *value = secure_getenv(rows[i].name);
        if (*slot == NULL && value != NULL) {
            TRY(take_text(op, arena, rows[i].name, span_text(value), slot));
        }
        if (*slot != NULL && (*slot)[0] == '\0') {
            *slot = NULL; /* set to nothing = not set */
        }
    }
    return OK;
}

static struct fault read_duration(struct op *op, const char *name, const char *text, int64_t min, int64_t max,
                                  int64_t *ret_ns)
{
    int64_t ns = 0;
    if (FAULTED(duration_parse(span_text(text), &ns)) || ns < min || ns > max) {
        return op_fail(op, FAULT(CONFIG), "%s: must be a duration like 30s or 5m, from %lld s to %lld s", name,
                       (long long)(min / NS_PER_S), (long long)(max / NS_PER_S));
    }
    *ret_ns = ns;
    return OK;
}

static struct fault read_url(struct op *op, struct arena *arena, const char *url, struct settings *settings)
{
    struct sha256 digest;
    if (url == NULL) {
        return op_fail(op, FAULT(CONFIG),
                       "no address of the appliance: set SVC_BASE_URL, or name a configuration file in "
                       "SVC_PKCS11_CONFIG");
    }
    struct span text = span_text(url);
    while (text.len > 0 && text.at[text.len - 1] == '/') {
        text.len--;
    }
    if (strncmp(url, "https://", 8) != 0 || text.len <= 8) {
        return op_fail(op, FAULT(CONFIG), "SVC_BASE_URL must start with https:// and name a host");
    }
    TRY(sha256_of(text, &digest));
    hex_text(span_of(digest.at, 8), settings->serial, sizeof(settings->serial));
    return arena_text(arena, text, &settings->base_url);
}

/* A token in the environment is kept, in locked memory; one in a file is not. */
static struct fault keep_token(struct op *op, struct whole *whole)
{
    const char *token = secure_getenv("SVC_TOKEN");
    if (whole->settings.token_file != NULL || token == NULL || token[0] == '\0') {
        return OK;
    }
    if (FAULTED(secret_new(span_text(token), &whole->token))) {
        return op_fail(op, FAULT(CONFIG), "SVC_TOKEN is too long, or there is no memory for it");
    }
    return OK;
}

static struct fault fill(struct op *op, struct whole *whole)
{
    struct settings *settings = &whole->settings;
    struct given given = { .artifact_type = NULL };
    TRY(read_given(op, whole->arena, &given));
    TRY(read_url(op, whole->arena, given.base_url, settings));
    settings->log_file = given.log_file;
    settings->ca_file = given.ca_file;
    settings->token_file = given.token_file;
    settings->keys = given.keys;
    settings->artifact_type = given.artifact_type != NULL ? given.artifact_type : ARTIFACT_DEFAULT;
    if (strlen(settings->artifact_type) > ARTIFACT_MAX) {
        return op_fail(op, FAULT(CONFIG), "SVC_ARTIFACT_TYPE is longer than %d bytes", ARTIFACT_MAX);
    }
    TRY(read_duration(op, "SVC_PKCS11_TIMEOUT", given.timeout != NULL ? given.timeout : TIMEOUT_DEFAULT, NS_PER_S,
                      TIMEOUT_MAX_NS, &settings->timeout_ns));
    TRY(read_duration(op, "SVC_PKCS11_APPROVAL_WAIT",
                      given.approval_wait != NULL ? given.approval_wait : APPROVAL_DEFAULT, 0, APPROVAL_MAX_NS,
                      &settings->approval_wait_ns));
    return keep_token(op, whole);
}

struct fault settings_read(struct op *op, struct settings **ret_settings)
{
    struct whole *whole = NULL;
    TRY(mem_new(1, sizeof(*whole), &whole));
    atomic_init(&whole->refs, 1);
    struct fault fault = arena_new((size_t)1 << 20, &whole->arena);
    if (!FAULTED(fault)) {
        fault = fill(op, whole);
    }
    if (FAULTED(fault)) {
        settings_unref(&whole->settings);
        return fault;
    }
    *ret_settings = &whole->settings;
    return OK;
}

struct settings *settings_ref(struct settings *settings)
{
    (void)atomic_fetch_add(&whole_of(settings)->refs, 1);
    return settings;
}

void settings_unref(struct settings *settings)
{
    if (settings == NULL) {
        return;
    }
    struct whole *whole = whole_of(settings);
    if (atomic_fetch_sub(&whole->refs, 1) == 1) {
        secret_free(whole->token);
        arena_free(whole->arena);
        mem_free(whole);
    }
}

struct fault settings_token(const struct settings *settings, struct op *op, struct secret **ret_token)
{
    const struct whole *whole = whole_of(settings);
    if (settings->token_file != NULL) {
        if (FAULTED(secret_from_file(settings->token_file, ret_token))) {
            return op_fail(op, FAULT(CONFIG),
                           "SVC_TOKEN_FILE %s: must be a regular file of yours with the bearer token in it, "
                           "readable by nobody else (chmod 0600)",
                           settings->token_file);
        }
        return OK;
    }
    if (whole->token == NULL) {
        return op_fail(op, FAULT(UNAUTHENTICATED), "no bearer token: set SVC_TOKEN_FILE (mode 0600) or SVC_TOKEN");
    }
    return secret_new(secret_span(whole->token), ret_token);
}

bool settings_show(const struct settings *settings, const char *id, const char *name)
{
    const char *at = settings->keys;
    if (at == NULL) {
        return true;
    }
    for (;;) {
        size_t len = strcspn(at, ",");
        struct span entry = trim(span_of(at, len));
        if (span_equal_text(entry, id) || span_equal_text(entry, name)) {
            return true;
        }
        if (at[len] == '\0') {
            return false;
        }
        at += len + 1;
    }
}
