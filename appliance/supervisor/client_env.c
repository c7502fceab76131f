#include "appliance/supervisor/client_env.h"

#include <string.h>

static const struct {
    const char *text, *variable;
} roles[CLIENT_ROLE_COUNT] = {
    [CLIENT_ADMIN] = { "admin", "SVC_TOKEN_ADMIN" },          [CLIENT_OPERATOR] = { "operator", "SVC_TOKEN_OPERATOR" },
    [CLIENT_APPROVER] = { "approver", "SVC_TOKEN_APPROVER" }, [CLIENT_CI] = { "ci", "SVC_TOKEN_CI" },
    [CLIENT_AUDITOR] = { "auditor", "SVC_TOKEN_AUDITOR" },
};

const char *client_role_text(enum client_role role)
{
    return roles[role].text;
}

/* Single quotes keep everything from the shell but a single quote. */
static struct fault put(struct buf *out, const char *name, const char *value)
{
    TRY(buf_printf(out, "%s='", name));
    for (; *value != '\0'; value++) {
        TRY(*value == '\'' ? buf_text(out, "'\\''") : buf_put(out, span_of(value, 1)));
    }
    return buf_text(out, "'\n");
}

struct fault client_env_print(const struct client_env *env, struct buf *out)
{
    TRY(buf_text(out, "# How to reach this appliance, for svc-cli and a shell. Holds tokens: keep it private.\n"
                      "# SVC_TOKEN is the operator's.\n"));
    TRY(put(out, "SVC_BASE_URL", env->base_url));
    TRY(put(out, "SVC_CA_FILE", env->ca_file));
    TRY(put(out, "SVC_TENANT", env->tenant));
    TRY(put(out, "SVC_TOKEN", env->tokens[CLIENT_OPERATOR]));
    for (size_t i = 0; i < CLIENT_ROLE_COUNT; i++) {
        TRY(put(out, roles[i].variable, env->tokens[i]));
    }
    char end[RFC3339_MAX];
    rfc3339_print(env->tokens_end, end);
    TRY(put(out, "SVC_TOKENS_EXPIRE", end));
    TRY(put(out, "SVC_TSA_URL", env->tsa_url));
    return put(out, "SVC_TSA_ROOT", env->tsa_root);
}

/* The value of a line "name='value'" without quotes inside; empty when the line is another. */
static struct span value_of(struct span line, const char *name)
{
    size_t len = strlen(name);
    if (line.len < len + 3 || memcmp(line.at, name, len) != 0 || line.at[len] != '=' || line.at[len + 1] != '\'' ||
        line.at[line.len - 1] != '\'') {
        return (struct span){ 0 };
    }
    struct span value = span_of(line.at + len + 2, line.len - len - 3);
    return memchr(value.at, '\'', value.len) == NULL ? value : (struct span){ 0 };
}

static struct fault take_line(struct op *op, struct span line, struct client_env *env)
{
    for (size_t i = 0; i < CLIENT_ROLE_COUNT; i++) {
        struct span token = value_of(line, roles[i].variable);
        if (token.len > 0) {
            TRY(arena_text(op->arena, token, &env->tokens[i]));
        }
    }
    struct span tenant = value_of(line, "SVC_TENANT"), end = value_of(line, "SVC_TOKENS_EXPIRE");
    if (tenant.len > 0) {
        TRY(arena_text(op->arena, tenant, &env->tenant));
    }
    if (end.len > 0) {
        IGNORE(rfc3339_parse(end, &env->tokens_end)); /* unreadable = unknown, as documented */
    }
    return OK;
}

struct fault client_env_parse_tokens(struct op *op, struct span text, struct client_env *env)
{
    while (text.len > 0) {
        const uint8_t *end = memchr(text.at, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.at) : text.len;
        TRY(take_line(op, span_of(text.at, len), env));
        size_t used = end != NULL ? len + 1 : len;
        text = span_of(text.at + used, text.len - used);
    }
    return OK;
}
