/* The keys of one identity method in the file, one function each. */
#include "api/attest/methods.h"

#include "appliance/base/clock.h"

#define LEEWAY_MAX_US   (300 * US_PER_S)
#define LIFETIME_MAX_US (24 * 3600 * US_PER_S)

/* ---- forms ---- */

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&()*+,;=%| "

/* Visible characters that need no quoting in YAML, JSON or a log line. */
static bool is_name(const char *text, size_t max)
{
    size_t len = strlen(text);
    return len > 0 && len <= max && strspn(text, NAME_CHARS) == len && text[0] != ' ' && text[len - 1] != ' ';
}

static bool is_url(const char *text)
{
    static const char scheme[] = "https://";
    size_t start = sizeof(scheme) - 1;
    if (strncmp(text, scheme, start) != 0 || !is_name(text, CONFIG_VALUE_MAX)) {
        return false;
    }
    size_t host = strcspn(text + start, "/?#");
    return host > 0 && memchr(text + start, '@', host) == NULL && strpbrk(text, " #|") == NULL;
}

/* Printable ASCII, and claims in braces: at least one, or everybody would have the same name. */
static bool is_template(const char *text)
{
    size_t claims = 0;
    for (const char *at = text; *at != '\0'; at++) {
        char name[CLAIM_NAME_MAX + 1] = "";
        if (*at <= ' ' || *at > '~' || *at == '}') {
            return false;
        }
        if (*at != '{') {
            continue;
        }
        size_t len = strcspn(at + 1, "{}");
        if (len == 0 || len > CLAIM_NAME_MAX || at[len + 1] != '}') {
            return false;
        }
        memcpy(name, at + 1, len);
        if (!is_name(name, CLAIM_NAME_MAX)) {
            return false;
        }
        claims++;
        at += len + 1;
    }
    return claims > 0;
}

/* ---- single values ---- */

static struct fault keep_as(struct reading *reading, const struct yaml_node *node, const char *key,
                            const char **ret_text)
{
    if (node->kind != YAML_KIND_SCALAR || node->text[0] == '\0' || strlen(node->text) > CONFIG_VALUE_MAX) {
        return refuse_at(reading, node->line, "%.80s: must be a text of 1 to %d bytes", key, CONFIG_VALUE_MAX);
    }
    return arena_text(reading->attest->arena, span_text(node->text), ret_text);
}
static struct fault keep(struct reading *reading, const struct yaml_node *node, const char **ret_text)
{
    return keep_as(reading, node, node->key, ret_text);
}

static struct fault take_method(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    struct tenant_id form; /* the same letters */
    TRY(keep(reading, node, &method->name));
    if (FAULTED(tenant_id_parse(span_text(method->name), &form))) {
        return refuse_at(reading, node->line, "method: '%.80s' must be 1 to 63 of a-z, 0-9 and '-'", method->name);
    }
    return OK;
}

static struct fault take_tenant(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    const char *text = NULL;
    TRY(keep(reading, node, &text));
    if (FAULTED(tenant_id_parse(span_text(text), &method->tenant))) {
        return refuse_at(reading, node->line, "tenant: '%.80s' must be 1 to 63 of a-z, 0-9 and '-'", text);
    }
    return OK;
}

static const char *const kind_texts[] = {
    [KIND_GITHUB_ACTIONS] = "github-actions",
    [KIND_GITLAB_CI] = "gitlab-ci",
    [KIND_GENERIC] = "generic",
};
static const char *const san_texts[] = { [SAN_URI] = "uri", [SAN_EMAIL] = "email", [SAN_DNS] = "dns" };

static bool find_text(const char *const *texts, size_t count, const char *text, size_t *ret_index)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(texts[i], text) == 0) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

static struct fault take_kind(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    const char *text = NULL;
    size_t index = 0;
    TRY(keep(reading, node, &text));
    if (!find_text(kind_texts, COUNT_OF(kind_texts), text, &index)) {
        return refuse_at(reading, node->line, "kind: '%.80s' must be github-actions, gitlab-ci or generic", text);
    }
    method->kind = (enum attest_kind)index;
    return OK;
}

static struct fault take_san_kind(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    const char *text = NULL;
    size_t index = 0;
    TRY(keep(reading, node, &text));
    if (!find_text(san_texts, COUNT_OF(san_texts), text, &index)) {
        return refuse_at(reading, node->line, "san_kind: '%.80s' must be uri, email or dns", text);
    }
    method->san_kind = (int)index;
    return OK;
}

static struct fault take_url(struct reading *reading, const struct yaml_node *node, const char **ret_text)
{
    TRY(keep(reading, node, ret_text));
    if (!is_url(*ret_text)) {
        return refuse_at(reading, node->line,
                         "%s: '%.200s' must be an address that begins with https:// and has no user, fragment, quotes, "
                         "braces or blanks",
                         node->key, *ret_text);
    }
    return OK;
}
static struct fault take_issuer(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    return take_url(reading, node, &method->issuer);
}
static struct fault take_jwks_url(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    return take_url(reading, node, &method->jwks_url);
}
static struct fault take_forge(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    TRY(take_url(reading, node, &method->url));
    if (method->url[strlen(method->url) - 1] == '/') {
        return refuse_at(reading, node->line, "url: must not end with '/'");
    }
    return OK;
}

static struct fault take_path(struct reading *reading, const struct yaml_node *node, const char **ret_text)
{
    TRY(keep(reading, node, ret_text));
    if ((*ret_text)[0] != '/') {
        return refuse_at(reading, node->line, "%s: '%.200s' must be an absolute path", node->key, *ret_text);
    }
    return OK;
}
static struct fault take_jwks_file(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    return take_path(reading, node, &method->jwks_file);
}
static struct fault take_ca_file(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    return take_path(reading, node, &method->ca_file);
}

static struct fault take_san(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    TRY(keep(reading, node, &method->san));
    if (!is_template(method->san)) {
        return refuse_at(reading, node->line,
                         "san: '%.200s' must name at least one claim in braces, as in \"https://ci.example/{project}\"",
                         method->san);
    }
    return OK;
}

static struct fault take_time(struct reading *reading, const struct yaml_node *node, int64_t max_us, int64_t *ret_us)
{
    const char *text = NULL;
    int64_t ns = 0;
    TRY(keep(reading, node, &text));
    if (FAULTED(duration_parse(span_text(text), &ns)) || ns / 1000 > max_us) {
        return refuse_at(reading, node->line, "%s: '%.80s' must be a time of at most %lld s, such as 90s or 5m",
                         node->key, text, (long long)(max_us / US_PER_S));
    }
    *ret_us = ns / 1000;
    return OK;
}
static struct fault take_leeway(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    return take_time(reading, node, LEEWAY_MAX_US, &method->leeway_us);
}
static struct fault take_lifetime(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    TRY(take_time(reading, node, LIFETIME_MAX_US, &method->max_lifetime_us));
    return method->max_lifetime_us > 0 ? OK : refuse_at(reading, node->line, "max_lifetime: must be more than nothing");
}

/* ---- lists and mappings ---- */

static struct fault take_list(struct reading *reading, const struct yaml_node *node, size_t max, const char **texts,
                              size_t *ret_count)
{
    size_t count = 0, again = 0;
    if (node->kind != YAML_KIND_LIST || node->count == 0 || node->count > max) {
        return refuse_at(reading, node->line, "%s: must be a list of 1 to %zu texts", node->key, max);
    }
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        TRY(keep_as(reading, item, node->key, &texts[count]));
        if (find_text(texts, count, texts[count], &again)) {
            return refuse_at(reading, item->line, "%s: '%.80s' stands there twice", node->key, texts[count]);
        }
        count++;
    }
    *ret_count = count;
    return OK;
}

static struct fault take_audience(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    TRY(take_list(reading, node, AUDIENCES_MAX, method->audiences, &method->audience_count));
    for (size_t i = 0; i < method->audience_count; i++) {
        if (!is_name(method->audiences[i], CONFIG_VALUE_MAX)) {
            return refuse_at(reading, node->line, "audience: '%.80s' has characters that an audience may not have",
                             method->audiences[i]);
        }
    }
    return OK;
}

static struct fault take_algorithms(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    TRY(take_list(reading, node, ALGORITHMS_MAX, method->algorithms, &method->algorithm_count));
    for (size_t i = 0; i < method->algorithm_count; i++) {
        if (!jws_alg_known(method->algorithms[i])) {
            return refuse_at(reading, node->line,
                             "algorithms: '%.80s' must be one of RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384",
                             method->algorithms[i]);
        }
    }
    return OK;
}

static struct fault take_required(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    if (node->kind != YAML_KIND_MAP || node->count > REQUIRED_MAX) {
        return refuse_at(reading, node->line, "required_claims: must be a mapping of at most %d claims to their texts",
                         REQUIRED_MAX);
    }
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        struct required_claim *claim = &method->required[method->required_count++];
        if (!is_name(item->key, CLAIM_NAME_MAX)) {
            return refuse_at(reading, item->line, "required_claims: '%.80s' is no name of a claim", item->key);
        }
        TRY(arena_text(reading->attest->arena, span_text(item->key), &claim->name));
        TRY(keep(reading, item, &claim->value));
    }
    return OK;
}

/* ---- a method ---- */

static const struct member {
    const char *key;
    bool required;
    struct fault (*take)(struct reading *reading, const struct yaml_node *node, struct method *method);
} members[] = {
    { "method", true, take_method },
    { "tenant", true, take_tenant },
    { "kind", true, take_kind },
    { "issuer", true, take_issuer },
    { "audience", true, take_audience },
    { "jwks_url", false, take_jwks_url },
    { "jwks_file", false, take_jwks_file },
    { "jwks_ca_file", false, take_ca_file },
    { "algorithms", false, take_algorithms },
    { "required_claims", false, take_required },
    { "url", false, take_forge },
    { "san", false, take_san },
    { "san_kind", false, take_san_kind },
    { "leeway", false, take_leeway },
    { "max_lifetime", false, take_lifetime },
};

struct fault method_take_members(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t i = 0;
        while (i < COUNT_OF(members) && strcmp(members[i].key, child->key) != 0) {
            i++;
        }
        if (i == COUNT_OF(members)) {
            return refuse_at(reading, child->line, "%.80s: an identity method has no such key", child->key);
        }
        TRY(members[i].take(reading, child, method));
    }
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        if (members[i].required && yaml_tree_get(node, members[i].key) == NULL) {
            return refuse_at(reading, node->line, "%s: is missing", members[i].key);
        }
    }
    return OK;
}
