#include "appliance/supervisor/bootstrap.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/base/log.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/nats.h"
#include "appliance/stores/postgres.h"
#include "appliance/stores/process.h"
#include "appliance/supervisor/client_env.h"
#include "appliance/supervisor/http.h"
#include "appliance/supervisor/units.h"

#include <string.h>

#define TOKEN_S    (8760LL * 3600)
#define RENEW_US   (30 * 24 * 3600 * US_PER_S)
#define ANSWER_MAX ((size_t)64 << 10)
#define CHAIN_MAX  ((size_t)256 << 10)
#define CHAIN_PATH "/tsa/chain.pem"

bool bootstrap_applies(const struct config *config)
{
    return postgres_embedded(config) && nats_embedded(config);
}

/* ---- tokens ---- */

struct token_answer {
    const char *token, *token_id, *tenant_id, *subject;
    struct jin_texts roles;
    utc_us expires_at;
};
static const struct jin_field token_fields[] = {
    JIN_TEXT(struct token_answer, token, JIN_REQUIRED, 16, 1024),
    JIN_TEXT(struct token_answer, token_id, JIN_REQUIRED, 1, 128),
    JIN_TEXT(struct token_answer, tenant_id, JIN_REQUIRED, 1, 128),
    JIN_TEXT(struct token_answer, subject, JIN_REQUIRED, 1, 1024),
    JIN_TEXTS(struct token_answer, roles, JIN_REQUIRED, 1, 64),
    JIN_TIME(struct token_answer, expires_at, JIN_REQUIRED),
};

/* Made by svc-api as its own user: only it appends to the event log. Its log lines go to ours, its answer to us. */
static struct fault api_command(struct op *op, const struct appliance *appliance, const char *const *words,
                                struct buf *answer)
{
    const char *const *argv = NULL;
    TRY(unit_argv(op, appliance, "svc-api", words, &argv));
    return process_check(op, &(struct process_spec){ .argv = argv, .user = USER_API, .answer_only = true },
                         (struct span){ 0 }, answer);
}

static struct fault tenant_ensure(struct op *op, const struct appliance *appliance)
{
    const char *const words[] = { "tenant", "create", appliance->config->first_tenant, "--json", NULL };
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    return api_command(op, appliance, words, &answer);
}

static struct fault token_create(struct op *op, const struct appliance *appliance, const char *role,
                                 struct token_answer *ret_answer)
{
    bool bounded = strcmp(role, "auditor") == 0 && appliance->config->auditor_token_max < TOKEN_S * NS_PER_S;
    const char *ttl = NULL;
    TRY(arena_printf(op->arena, &ttl, "%llds",
                     (long long)(bounded ? appliance->config->auditor_token_max / NS_PER_S : TOKEN_S)));
    const char *const words[] = { "token",     "create", "--tenant", appliance->config->first_tenant,
                                  "--subject", role,     "--role",   role,
                                  "--ttl",     ttl,      "--json",   NULL };
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    TRY(api_command(op, appliance, words, &answer));
    return jin_decode(op, buf_span(&answer), token_fields, COUNT_OF(token_fields), ret_answer);
}

/* All there, of this tenant, and good for a while. */
static bool tokens_last(const struct client_env *env, const char *tenant)
{
    for (size_t i = 0; i < CLIENT_ROLE_COUNT; i++) {
        if (env->tokens[i][0] == '\0') {
            return false;
        }
    }
    return strcmp(env->tenant, tenant) == 0 && env->tokens_end > clock_utc() + RENEW_US;
}

/* Somebody else makes the tokens: the tenant alone, once, which a client.env of its name tells. */
static struct fault tenant_only(struct op *op, const struct appliance *appliance, struct client_env *env)
{
    bool made = strcmp(env->tenant, appliance->config->first_tenant) == 0;
    env->tenant = appliance->config->first_tenant;
    for (size_t i = 0; i < CLIENT_ROLE_COUNT; i++) {
        env->tokens[i] = "";
    }
    env->tokens_end = 0;
    return made ? OK : tenant_ensure(op, appliance);
}

static struct fault tokens_ensure(struct op *op, const struct appliance *appliance, struct client_env *env)
{
    if (!appliance->config->first_tokens) {
        return tenant_only(op, appliance, env);
    }
    if (tokens_last(env, appliance->config->first_tenant)) {
        return OK;
    }
    env->tenant = appliance->config->first_tenant;
    TRY(tenant_ensure(op, appliance));
    for (enum client_role role = 0; role < CLIENT_ROLE_COUNT; role++) {
        struct token_answer made = { 0 };
        TRY(token_create(op, appliance, client_role_text(role), &made));
        env->tokens[role] = made.token;
        env->tokens_end = role == 0 || made.expires_at < env->tokens_end ? made.expires_at : env->tokens_end;
    }
    log_write(INFO, "first_tokens_made", LOG_TEXT("tenant", appliance->config->first_tenant));
    return OK;
}

/* ---- the root of time stamps ---- */

static struct fault last_certificate(struct op *op, struct span pem, struct span *ret_last)
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----", end[] = "-----END CERTIFICATE-----\n";
    const uint8_t *last = NULL, *limit = pem.at + pem.len, *at = pem.at;
    while (at < limit && (at = memmem(at, (size_t)(limit - at), begin, sizeof(begin) - 1)) != NULL) {
        last = at++;
    }
    const uint8_t *stop = last != NULL ? memmem(last, (size_t)(limit - last), end, sizeof(end) - 1) : NULL;
    if (stop == NULL) {
        return op_fail(op, FAULT(IO), CHAIN_PATH " holds no certificate");
    }
    *ret_last = span_of(last, (size_t)(stop - last) + sizeof(end) - 1);
    return OK;
}

static struct fault save_tsa_root(struct op *op, const struct config *config)
{
    const char *root = NULL;
    struct http_fetch fetch = { .address = config->http_listen, .path = CHAIN_PATH };
    CLEANUP(buf_free) struct buf chain = BUF_INIT(CHAIN_MAX);
    struct span last = { 0 };
    TRY(folder_path(op, config->data_dir, "ca.pem", &fetch.ca_file));
    TRY(folder_path(op, config->data_dir, "tsa-root.pem", &root));
    TRY(process_as(op, USER_API, http_fetch_work, &fetch, &chain));
    TRY(last_certificate(op, buf_span(&chain), &last));
    return file_write(root, last, 0644);
}

/* ---- client.env ---- */

/* The folder as readers of client.env see it: a chroot or a container may hide its real name from us. */
static const char *client_dir(const struct config *config)
{
    return config->client_dir[0] != '\0' ? config->client_dir : config->data_dir;
}

/* A listener on every address is reached by loopback from here. */
static struct fault own_url(struct op *op, const char *url, const char **ret_url)
{
    static const struct {
        const char *wildcard, *own;
    } hosts[] = { { "https://0.0.0.0:", "https://127.0.0.1:" }, { "https://[::]:", "https://[::1]:" } };
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        size_t len = strlen(hosts[i].wildcard);
        if (strncmp(url, hosts[i].wildcard, len) == 0) {
            return arena_printf(op->arena, ret_url, "%s%s", hosts[i].own, url + len);
        }
    }
    return arena_text(op->arena, span_text(url), ret_url);
}

static struct fault fill(struct op *op, const struct config *config, struct client_env *env)
{
    TRY(arena_printf(op->arena, &env->ca_file, "%s/ca.pem", client_dir(config)));
    TRY(own_url(op, config->http_base_url, &env->base_url));
    env->tsa_url = env->tsa_root = "";
    if (config->tsa_enabled) {
        TRY(arena_printf(op->arena, &env->tsa_url, "%s/tsa", env->base_url));
        TRY(arena_printf(op->arena, &env->tsa_root, "%s/tsa-root.pem", client_dir(config)));
    }
    return OK;
}

struct fault bootstrap_run(struct op *op, const struct appliance *appliance)
{
    const struct config *config = appliance->config;
    const char *path = config->client_env;
    if (path[0] == '\0') {
        TRY(folder_path(op, config->data_dir, "client.env", &path));
    }
    struct client_env env = { .tenant = "", .tokens = { "", "", "", "", "" } };
    CLEANUP(buf_free) struct buf old = BUF_INIT(CLIENT_ENV_MAX), text = BUF_INIT(CLIENT_ENV_MAX);
    struct fault got = file_read(path, &old);
    if (!FAULTED(got)) {
        TRY(client_env_parse_tokens(op, buf_span(&old), &env));
    } else if (got.code != FAULT_NOT_FOUND) {
        return op_fail(op, got, "cannot read %s", path);
    }
    TRY(fill(op, config, &env));
    /* Before client.env, whose appearance tells that all it names is there; but without the root the tokens are still
     * of use, so a failure is reported last. */
    struct fault root = config->tsa_enabled ? save_tsa_root(op, config) : OK;
    TRY(tokens_ensure(op, appliance, &env));
    TRY(client_env_print(&env, &text));
    struct fault written = file_write(path, buf_span(&text), 0600);
    return FAULTED(written) ? op_fail(op, written, "cannot write %s", path) : root;
}
