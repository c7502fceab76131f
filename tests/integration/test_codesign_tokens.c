/* Tenants and tokens through the whole pipeline: run by with-stores from the top folder. */
#include "integration/flow_testlib.h"

#include "api/identity/cli.h"

static char admin_a[TOKEN_TEXT_MAX], ci_a[TOKEN_TEXT_MAX], admin_b[TOKEN_TEXT_MAX];

static struct answer *call(const char *method, const char *target, const char *token, const char *key, const char *body)
{
    static struct answer answer;
    flow_call(method, target, token, key, body, 20000, &answer);
    return &answer;
}

static int64_t number_of(const char *query)
{
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql sql = { "number_of", query, 0 };
    assert_ok(endpoint_new(test_config, "postgres", NULL, &endpoint));
    assert_ok(connection_open(op, endpoint, op->deadline, &connection));
    assert_ok(connection_run(op, connection, &sql, NULL, 0, op->deadline, &rows));
    return rows_int(rows, 0, 0);
}

static void what_is_no_valid_token_is_refused_without_saying_why(void **state)
{
    (void)state;
    char foreign[TOKEN_TEXT_MAX], altered[TOKEN_TEXT_MAX], first[4096];
    (void)snprintf(foreign, sizeof(foreign), "svc_tenant-b%s", strchr(ci_a + 4, '_')); /* a's secret, b's tenant */
    (void)snprintf(altered, sizeof(altered), "%s", ci_a);
    altered[20] = altered[20] == 'A' ? 'B' : 'A';
    const char *const bad[] = { NULL,    "",      "x",
                                foreign, altered, "svc_nobody_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const struct answer *answer = call("GET", "/api/v1/keys", bad[i], NULL, NULL);
        assert_problem(answer, 401, "unauthenticated");
        if (i == 0) {
            (void)snprintf(first, sizeof(first), "%s", flow_text(answer, "detail"));
        }
        assert_string_equal(flow_text(answer, "detail"), first);
    }
}

static void a_role_without_the_permission_is_forbidden(void **state)
{
    (void)state;
    assert_problem(call("GET", "/api/v1/tokens", ci_a, NULL, NULL), 403, "forbidden");
    assert_problem(call("POST", "/api/v1/tokens", ci_a, "f1", "{\"subject\":\"x\",\"roles\":[\"ci\"]}"), 403,
                   "forbidden");
}

static void a_bad_token_request_makes_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"roles\":[\"ci\"]}",
        "{\"subject\":\"x\",\"roles\":[]}",
        "{\"subject\":\"x\",\"roles\":[\"root\"]}",
        "{\"subject\":\"x\",\"roles\":[\"ci\",\"ci\"]}",
        "{\"subject\":\"a b\",\"roles\":[\"ci\"]}",
        "{\"subject\":\"system:cli\",\"roles\":[\"ci\"]}",
        "{\"subject\":\"svc-worker\",\"roles\":[\"ci\"]}",
        "{\"subject\":\"x\",\"roles\":[\"ci\"],\"ttl_seconds\":31622401}",
        "{\"subject\":\"x\",\"roles\":[\"ci\"],\"ttl_seconds\":0}",
        "{\"subject\":\"x\",\"roles\":[\"ci\"],\"tenant\":\"tenant-b\"}",
    };
    uint64_t before = flow_log_last();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "bad-%zu", i);
        assert_problem(call("POST", "/api/v1/tokens", admin_a, key, bad[i]), 400, "json_field");
    }
    assert_int_equal(flow_log_last(), before);
}

static void a_token_is_told_once_works_and_dies_with_its_revocation(void **state)
{
    (void)state;
    char token[TOKEN_TEXT_MAX], id[64], path[128];
    static const char body[] = "{\"subject\":\"build-7\",\"roles\":[\"ci\"],\"ttl_seconds\":3600}";
    const struct answer *answer = call("POST", "/api/v1/tokens", admin_a, "make-1", body);
    assert_status(answer, 201);
    (void)snprintf(token, sizeof(token), "%s", flow_text(answer, "token"));
    (void)snprintf(id, sizeof(id), "%s", flow_text(answer, "token_id"));
    assert_status(call("GET", "/api/v1/keys", token, NULL, NULL), 200);

    answer = call("POST", "/api/v1/tokens", admin_a, "make-1", body);
    assert_problem(answer, 409, "idempotency_indeterminate");
    assert_null(strstr(answer->body, token));

    (void)snprintf(path, sizeof(path), "/api/v1/tokens/%s/revocations", id);
    assert_problem(call("POST", path, admin_b, "revoke-b", "{\"reason\":\"mine\"}"), 404, "not_found");
    assert_status(call("GET", "/api/v1/keys", token, NULL, NULL), 200);
    answer = call("POST", path, admin_a, "revoke-1", "{\"reason\":\"left the team\"}");
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "state"), "revoked");
    assert_string_equal(flow_text(answer, "revoke_reason"), "left the team");
    assert_problem(call("GET", "/api/v1/keys", token, NULL, NULL), 401, "token_revoked");
    uint64_t before = flow_log_last();
    assert_status(call("POST", path, admin_a, "revoke-2", "{\"reason\":\"again\"}"), 200);
    assert_int_equal(flow_log_last(), before);
}

/* A run that died after its event: the retry must not hand out a text that opens nothing, nor make a second token. */
static void a_repeated_command_never_makes_a_second_token(void **state)
{
    (void)state;
    static const char body[] = "{\"subject\":\"build-8\",\"roles\":[\"ci\"]}";
    assert_status(call("POST", "/api/v1/tokens", admin_a, "make-2", body), 201);
    assert_ok(as_superuser("DELETE FROM svc.idempotency_keys WHERE key = 'make-2'"));
    uint64_t before = flow_log_last();
    assert_problem(call("POST", "/api/v1/tokens", admin_a, "make-2", body), 409, "idempotency_indeterminate");
    assert_int_equal(flow_log_last(), before);
    assert_int_equal(number_of("SELECT count(*) FROM svc.tokens WHERE subject = 'build-8'"), 1);
}

static void no_table_holds_a_tokens_text(void **state)
{
    (void)state;
    const char *secret = strchr(ci_a + 4, '_') + 1;
    char query[512];
    static const char *const places[] = { "svc.tokens t WHERE t::text LIKE",
                                          "svc.event_envelopes t WHERE convert_from(t.body, 'UTF8') LIKE",
                                          "svc.audit_records t WHERE t::text LIKE",
                                          "svc.idempotency_keys t WHERE t::text LIKE" };
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        (void)snprintf(query, sizeof(query), "SELECT count(*) FROM %s '%%%s%%'", places[i], secret);
        assert_int_equal(number_of(query), 0);
    }
}

static void an_expired_token_is_refused(void **state)
{
    (void)state;
    char token[TOKEN_TEXT_MAX];
    flow_token("tenant-a", "short", "ci", token);
    assert_status(call("GET", "/api/v1/keys", token, NULL, NULL), 200);
    assert_ok(as_superuser("UPDATE svc.tokens SET expires_us = 1 WHERE subject = 'short'"));
    token_cache_forget();
    assert_problem(call("GET", "/api/v1/keys", token, NULL, NULL), 401, "token_expired");
}

static void a_token_that_expires_while_cached_is_refused(void **state)
{
    (void)state;
    char token[TOKEN_TEXT_MAX];
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 20000);
    const char *role = "ci";
    struct token_issued issued;
    const struct token_request wanted = { .subject = "second", .roles = &role, .role_count = 1, .ttl_s = 1 };
    assert_ok(identity_token_issue(op, &flow_services, &wanted, &issued));
    (void)snprintf(token, sizeof(token), "%s", issued.text);
    for (;;) { /* good until its second is over, then never again */
        utc_us asked = clock_utc();
        const struct answer *answer = call("GET", "/api/v1/keys", token, NULL, NULL);
        if (answer->status != 200) {
            assert_problem(answer, 401, "token_expired");
            assert_true(clock_utc() >= issued.expires);
            break;
        }
        assert_true(asked < issued.expires);
    }
}

static void lists_are_of_the_tenant_filtered_and_in_pages(void **state)
{
    (void)state;
    const struct answer *answer = call("GET", "/api/v1/tokens", admin_b, NULL, NULL);
    assert_status(answer, 200);
    assert_null(strstr(answer->body, "build-7"));
    assert_non_null(strstr(answer->body, "\"subject\":\"admin\""));
    answer = call("GET", "/api/v1/tokens?subject=build-7", admin_a, NULL, NULL);
    assert_string_equal(flow_text(answer, "state"), "revoked");
    assert_null(strstr(answer->body, "token_hash"));
    assert_string_equal(call("GET", "/api/v1/tokens?subject=build-7&active=true", admin_a, NULL, NULL)->body,
                        "{\"items\":[]}");
    answer = call("GET", "/api/v1/tokens?active=false", admin_a, NULL, NULL);
    assert_non_null(strstr(answer->body, "build-7"));
    assert_null(strstr(answer->body, "build-8"));
    assert_problem(call("GET", "/api/v1/tokens?active=maybe", admin_a, NULL, NULL), 400, "query_parameter");
    char cursor[1024], path[1100];
    (void)snprintf(cursor, sizeof(cursor), "%s",
                   flow_text(call("GET", "/api/v1/tokens?limit=1", admin_a, NULL, NULL), "next_cursor"));
    (void)snprintf(path, sizeof(path), "/api/v1/tokens?limit=1&cursor=%s", cursor);
    assert_status(call("GET", path, admin_a, NULL, NULL), 200);
    assert_problem(call("GET", path, admin_b, NULL, NULL), 400, "cursor_malformed"); /* a cursor of another tenant */
}

static void *ensure_tenant(void *arg)
{
    (void)arg;
    CLEANUP(op_freep) struct op *op = NULL;
    return (void *)(uintptr_t)(FAULTED(op_new("t", (struct tenant_id){ "" }, 20000, &op)) ||
                               FAULTED(identity_tenant_ensure(op, &flow_services, tenant("crowd"))));
}

static void a_tenant_is_created_once_however_many_ask(void **state)
{
    (void)state;
    pthread_t threads[6];
    uint64_t before = flow_log_last();
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ensure_tenant, NULL), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(flow_log_last(), before + 1);
    CLEANUP(op_freep) struct op *op = test_op("", 20000);
    struct tenant_id *tenants = NULL;
    size_t count = 0;
    assert_ok(identity_tenants(op, flow_services.store, &tenants, &count));
    assert_int_equal(count, 3);
    assert_string_equal(tenants[0].text, "crowd");
    assert_string_equal(tenants[2].text, "tenant-b");
}

/* The command line split at its blanks. */
static int run(int (*command)(int argc, char **argv, struct services *services), const char *line)
{
    char words[256], *argv[16];
    int argc = 0;
    (void)snprintf(words, sizeof(words), "%s", line);
    for (char *at = words; *at != '\0';) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at == ' ') {
            *at++ = '\0';
        }
    }
    return command(argc, argv, &flow_services);
}

static void the_local_commands_refuse_and_work(void **state)
{
    (void)state;
    assert_int_equal(run(identity_command_token, "token"), 2);
    assert_int_equal(run(identity_command_token, "token make"), 2);
    assert_int_equal(run(identity_command_token, "token create --subject s --role ci --tenant nobody"), 2);
    assert_int_equal(run(identity_command_token, "token create --subject s --role root --tenant tenant-a"), 2);
    assert_int_equal(run(identity_command_token, "token create --subject s --role ci --tenant tenant-a --ttl soon"), 2);
    assert_int_equal(run(identity_command_token, "token create --role ci --tenant tenant-a"), 2);
    assert_int_equal(run(identity_command_token, "token create --subject"), 2);
    assert_int_equal(run(identity_command_token, "token create more --subject s --role ci --tenant tenant-a"), 2);
    assert_int_equal(run(identity_command_token, "token revoke x --tenant tenant-a"), 2);
    assert_int_equal(run(identity_command_tenant, "tenant create Not_a_Tenant"), 2);
    assert_int_equal(run(identity_command_tenant, "tenant create"), 2);
    assert_int_equal(run(identity_command_tenant, "tenant drop x"), 2);
    assert_int_equal(run(identity_command_token, "token create --subject s --role ci --role auditor --tenant tenant-a "
                                                 "--ttl 1h --json"),
                     0);
    assert_int_equal(number_of("SELECT count(*) FROM svc.tokens WHERE roles = 'ci auditor'"), 1);
    assert_int_equal(run(identity_command_token, "token list --tenant tenant-a"), 0);
    assert_int_equal(run(identity_command_token, "token list --tenant tenant-a --json"), 0);
    assert_int_equal(run(identity_command_tenant, "tenant create tenant-c"), 0);
    assert_int_equal(run(identity_command_tenant, "tenant list --json"), 0);
}

static int start(void **state)
{
    (void)state;
    flow_start();
    flow_token("tenant-a", "admin", "admin", admin_a);
    flow_token("tenant-a", "ci", "ci", ci_a);
    flow_token("tenant-b", "admin", "admin", admin_b);
    return 0;
}

static int end(void **state)
{
    (void)state;
    flow_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_valid_token_is_refused_without_saying_why),
        cmocka_unit_test(a_role_without_the_permission_is_forbidden),
        cmocka_unit_test(a_bad_token_request_makes_nothing),
        cmocka_unit_test(a_token_is_told_once_works_and_dies_with_its_revocation),
        cmocka_unit_test(a_repeated_command_never_makes_a_second_token),
        cmocka_unit_test(no_table_holds_a_tokens_text),
        cmocka_unit_test(an_expired_token_is_refused),
        cmocka_unit_test(a_token_that_expires_while_cached_is_refused),
        cmocka_unit_test(lists_are_of_the_tenant_filtered_and_in_pages),
        cmocka_unit_test(a_tenant_is_created_once_however_many_ask),
        cmocka_unit_test(the_local_commands_refuse_and_work),
    };
    return cmocka_run_group_tests_name("tokens", tests, start, end);
}
