#include "api/store/internal.h"

#include "appliance/base/alloc.h"

#define ENDPOINT_KEYS_MAX 64u
#define VALUE_MAX         4096u

struct endpoint {
    size_t count;
    char *keys[ENDPOINT_KEYS_MAX + 1];
    char *values[ENDPOINT_KEYS_MAX + 1];
};

/* What every session gets: names resolve in svc only, the server notices a client that went away, and a forgotten
 * transaction does not hold its locks for ever. */
static const char session_options[] = "-c search_path=svc,pg_temp -c client_connection_check_interval=1000"
                                      " -c idle_in_transaction_session_timeout=60000 -c client_min_messages=error"
                                      " -c TimeZone=UTC -c bytea_output=hex -c standard_conforming_strings=on";

static struct fault endpoint_set(struct endpoint *endpoint, const char *key, const char *value)
{
    for (size_t i = 0; i < endpoint->count; i++) {
        if (strcmp(endpoint->keys[i], key) == 0) {
            char *copy = NULL;
            TRY(mem_dup_text(value, VALUE_MAX, &copy));
            mem_free(endpoint->values[i]);
            endpoint->values[i] = copy;
            return OK;
        }
    }
    REQUIRE(endpoint->count < ENDPOINT_KEYS_MAX, TOO_LARGE);
    size_t at = endpoint->count;
    TRY(mem_dup_text(key, VALUE_MAX, &endpoint->keys[at]));
    struct fault fault = mem_dup_text(value, VALUE_MAX, &endpoint->values[at]);
    if (FAULTED(fault)) {
        mem_free(TAKE(endpoint->keys[at]));
        return fault;
    }
    endpoint->count++;
    return OK;
}

static const char *endpoint_value(const struct endpoint *endpoint, const char *key)
{
    for (size_t i = 0; i < endpoint->count; i++) {
        if (strcmp(endpoint->keys[i], key) == 0) {
            return endpoint->values[i];
        }
    }
    return NULL;
}

static struct fault endpoint_from_url(struct endpoint *endpoint, const char *url, struct buf *why)
{
    char *message = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &message);
    if (options == NULL) {
        /* libpq's text may repeat the string, and with it a password: only the key is named. */
        PQfreemem(message);
        if (why != NULL) {
            IGNORE(buf_text(why, "postgres.url: not a libpq connection string (keyword=value pairs or a "
                                 "postgresql:// address)\n"));
        }
        return FAULT(CONFIG);
    }
    struct fault fault = OK;
    for (const PQconninfoOption *option = options; option->keyword != NULL && !FAULTED(fault); option++) {
        if (option->val != NULL) {
            fault = endpoint_set(endpoint, option->keyword, option->val);
        }
    }
    PQconninfoFree(options);
    return fault;
}

static struct fault endpoint_embedded(struct endpoint *endpoint, const struct config *config)
{
    CLEANUP(buf_free) struct buf host = BUF_INIT(VALUE_MAX);
    const char *text = NULL;
    TRY(buf_printf(&host, "%s/postgres", config->run_dir));
    TRY(buf_cstr(&host, &text));
    TRY(endpoint_set(endpoint, "host", text));
    TRY(endpoint_set(endpoint, "port", "5432"));
    TRY(endpoint_set(endpoint, "dbname", "svc"));
    return OK;
}

static struct fault endpoint_finish(struct endpoint *endpoint, const char *user)
{
    CLEANUP(buf_free) struct buf options = BUF_INIT(VALUE_MAX);
    const char *given = endpoint_value(endpoint, "options");
    const char *text = NULL;
    TRY(buf_printf(&options, "%s%s%s", given != NULL ? given : "", given != NULL ? " " : "", session_options));
    TRY(buf_cstr(&options, &text));
    TRY(endpoint_set(endpoint, "options", text));
    TRY(endpoint_set(endpoint, "user", user));
    TRY(endpoint_set(endpoint, "application_name", "svc"));
    TRY(endpoint_set(endpoint, "client_encoding", "UTF8"));
    /* Over TCP, a database that vanished is noticed within about 25 s even while we only wait. */
    TRY(endpoint_set(endpoint, "keepalives_idle", "10"));
    TRY(endpoint_set(endpoint, "keepalives_interval", "5"));
    TRY(endpoint_set(endpoint, "keepalives_count", "3"));
    TRY(endpoint_set(endpoint, "tcp_user_timeout", "25000"));
    return OK;
}

struct fault endpoint_new(const struct config *config, const char *user, struct buf *why,
                          struct endpoint **ret_endpoint)
{
    CLEANUP(endpoint_freep) struct endpoint *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    if (config->postgres_url != NULL && config->postgres_url[0] != '\0') {
        TRY(endpoint_from_url(made, config->postgres_url, why));
    } else {
        TRY(endpoint_embedded(made, config));
    }
    TRY(endpoint_finish(made, user));
    *ret_endpoint = TAKE(made);
    return OK;
}

void endpoint_free(struct endpoint *endpoint)
{
    if (endpoint == NULL) {
        return;
    }
    for (size_t i = 0; i < endpoint->count; i++) {
        mem_free(endpoint->keys[i]);
        mem_free(endpoint->values[i]);
    }
    mem_free(endpoint);
}

const char *const *endpoint_keys(const struct endpoint *endpoint)
{
    return (const char *const *)endpoint->keys;
}

const char *const *endpoint_values(const struct endpoint *endpoint)
{
    return (const char *const *)endpoint->values;
}
