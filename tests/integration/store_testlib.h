/* What the store's integration tests share: configuration from with-postgres, a superuser's script, a test table. */
#ifndef TESTS_INTEGRATION_STORE_TESTLIB_H
#define TESTS_INTEGRATION_STORE_TESTLIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/store/internal.h"

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)
#define assert_ok(expr)         assert_int_equal((expr).code, FAULT_NONE)

static struct config *test_config;

static inline struct tenant_id tenant(const char *text)
{
    struct tenant_id id = { "" };
    (void)snprintf(id.text, sizeof(id.text), "%s", text);
    return id;
}

static inline struct op *test_op(const char *tenant_text, int timeout_ms)
{
    struct op *op = NULL;
    assert_ok(op_new("test", tenant(tenant_text), timeout_ms, &op));
    return op;
}

/* Runs trusted text as the superuser; the fault is returned so that a test may expect one. */
static inline struct fault as_superuser(const char *script)
{
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    assert_ok(endpoint_new(test_config, "postgres", NULL, &endpoint));
    assert_ok(connection_open(op, endpoint, op->deadline, &connection));
    return connection_script(op, connection, script, op->deadline);
}

static inline void migrate(void)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct fault fault = store_migrate(test_config, &why);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%.*s", (int)why.len, (const char *)why.at);
    }
    assert_ok(fault);
}

/* config.def's defaults, and the database that with-postgres made. */
static inline void use_config(void)
{
    static struct config config = {
#define CONFIG_TEXT(member, key, env, fallback, doc)           .member = (fallback),
#define CONFIG_INT(member, key, env, fallback, min, max, doc)  .member = (fallback),
#define CONFIG_BOOL(member, key, env, fallback, doc)           .member = (fallback),
#define CONFIG_TIME(member, key, env, fallback, min, max, doc) .member = (fallback),
#define CONFIG_LIST(member, key, env, fallback, doc)           .member = { NULL, 0 },
#include "appliance/base/config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TIME
#undef CONFIG_LIST
    };
    config.postgres_url = getenv("SVC_POSTGRES_URL");
    assert_non_null(config.postgres_url);
    test_config = &config;
}

static inline bool said(const struct buf *why, const char *part)
{
    return why->at != NULL && memmem(why->at, why->len, part, strlen(part)) != NULL;
}

#endif
