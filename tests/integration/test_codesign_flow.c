/* Code signing from request to answer: run by with-stores from the top folder. */
#include "integration/flow_testlib.h"

#include "appliance/base/codec.h"

static char operator_a[TOKEN_TEXT_MAX], ci_a[TOKEN_TEXT_MAX], auditor_a[TOKEN_TEXT_MAX], operator_b[TOKEN_TEXT_MAX];
static char ec_key[64], rsa_key[64], spare_key[64];

#define DIGEST_1 "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
#define DIGEST_2 "AgIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

static struct answer *call(const char *method, const char *target, const char *token, const char *key, const char *body)
{
    static struct answer answer;
    flow_call(method, target, token, key, body, 20000, &answer);
    return &answer;
}

static const char *body_of(const char *key_id, const char *digest, const char *fingerprint)
{
    static _Thread_local char body[1024];
    (void)snprintf(body, sizeof(body), "{\"key_id\":\"%s\",\"artifact_type\":\"binary\",\"digest\":\"%s\"%s%s%s}",
                   key_id, digest, fingerprint != NULL ? ",\"preview_fingerprint\":\"" : "",
                   fingerprint != NULL ? fingerprint : "", fingerprint != NULL ? "\"" : "");
    return body;
}

static const char *previewed(const char *token, const char *key_id, const char *digest)
{
    const struct answer *answer =
        call("POST", "/api/v1/code-signing/preview", token, NULL, body_of(key_id, digest, NULL));
    assert_status(answer, 200);
    return flow_text(answer, "request_fingerprint");
}

static void make_key(const char *name, const char *algorithm, char out[64])
{
    char body[256];
    (void)snprintf(body, sizeof(body), "{\"name\":\"%s\",\"algorithm\":\"%s\",\"purpose\":\"codesign\"}", name,
                   algorithm);
    const struct answer *answer = call("POST", "/api/v1/keys", operator_a, name, body);
    assert_status(answer, 201);
    (void)snprintf(out, 64, "%s", flow_text(answer, "key_id"));
}

static bool verifies(const struct answer *answer, const char *digest64, bool pss)
{
    CLEANUP(buf_free) struct buf spki = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf digest = BUF_INIT(64);
    BUG_IF(FAULTED(base64_decode(span_text(flow_text(answer, "public_key_der")), &spki)) ||
           FAULTED(base64_decode(span_text(flow_text(answer, "signature")), &signature)) ||
           FAULTED(base64_decode(span_text(digest64), &digest)));
    const unsigned char *at = spki.at;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)spki.len);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    bool good = EVP_PKEY_verify_init(ctx) == 1 && EVP_PKEY_CTX_set_signature_md(ctx, EVP_sha256()) == 1 &&
                (!pss || (EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
                          EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
                EVP_PKEY_verify(ctx, signature.at, signature.len, digest.at, digest.len) == 1;
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(key);
    return good;
}

static void keys_of_other_purposes_and_unknown_algorithms_are_refused(void **state)
{
    (void)state;
    uint64_t before = flow_log_last();
    assert_problem(call("POST", "/api/v1/keys", operator_a, "k1",
                        "{\"name\":\"x\",\"algorithm\":\"ec-p256\",\"purpose\":\"tsa\"}"),
                   400, "json_field");
    assert_problem(call("POST", "/api/v1/keys", operator_a, "k2",
                        "{\"name\":\"x\",\"algorithm\":\"aes-256\",\"purpose\":\"codesign\"}"),
                   400, "json_field");
    assert_problem(
        call("POST", "/api/v1/keys", ci_a, "k3", "{\"name\":\"x\",\"algorithm\":\"ec-p256\",\"purpose\":\"codesign\"}"),
        403, "forbidden");
    assert_int_equal(flow_log_last(), before);
}

static void keys_are_made_and_shown(void **state)
{
    (void)state;
    make_key("release-ec", "ec-p256", ec_key);
    make_key("release-rsa", "rsa-3072", rsa_key);
    make_key("spare", "ec-p256", spare_key);
    char path[128];
    (void)snprintf(path, sizeof(path), "/api/v1/keys/%s", ec_key);
    const struct answer *answer = call("GET", path, ci_a, NULL, NULL);
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "state"), "active");
    assert_non_null(strstr(answer->body, "BEGIN PUBLIC KEY"));
}

static void what_preview_refuses_sign_refuses_too_and_nothing_is_appended(void **state)
{
    (void)state;
    static const char *const routes[] = { "/api/v1/code-signing/preview", "/api/v1/code-signing/sign" };
    static const char zero[] = "0000000000000000000000000000000000000000000000000000000000000000";
    uint64_t before = flow_log_last();
    char key[64];
    for (size_t i = 0; i < COUNT_OF(routes); i++) {
        const char *fingerprint = i == 0 ? NULL : zero;
        for (unsigned n = 0; n < 6; n++) {
            (void)snprintf(key, sizeof(key), "refused-%zu-%u", i, n);
            const char *token = n == 0 ? auditor_a : n == 1 ? operator_b : ci_a;
            const char *key_id = n == 2 ? "01900000-0000-7000-8000-000000000000" : n == 3 ? "nonsense" : ec_key;
            const char *digest = n == 4 ? "AQID" : n == 5 ? "" : DIGEST_1;
            const struct answer *answer = call("POST", routes[i], token, key, body_of(key_id, digest, fingerprint));
            static const struct {
                int status;
                const char *code;
            } wanted[] = { { 403, "forbidden" },     { 404, "key_not_found" }, { 404, "key_not_found" },
                           { 404, "key_not_found" }, { 400, "digest_length" }, { 400, "digest_length" } };
            assert_problem(answer, wanted[n].status, wanted[n].code);
        }
    }
    assert_int_equal(flow_log_last(), before);
    assert_int_equal(atomic_load(&signer_signed), 0);
}

static void a_key_of_another_purpose_is_no_key_here(void **state)
{
    (void)state;
    char seal[64];
    const struct answer *answer = call("GET", "/api/v1/keys?purpose=seal", operator_a, NULL, NULL);
    (void)snprintf(seal, sizeof(seal), "%s", flow_text(answer, "key_id"));
    assert_int_equal(strlen(seal), 36);
    assert_problem(call("POST", "/api/v1/code-signing/preview", ci_a, NULL, body_of(seal, DIGEST_1, NULL)), 404,
                   "key_not_found");
    (void)snprintf(seal, sizeof(seal), "%s", flow_text(call("GET", "/api/v1/keys", operator_b, NULL, NULL), "key_id"));
    assert_string_equal(seal, ""); /* tenant-b has none of its own */
}

static void a_preview_of_anything_else_is_no_preview(void **state)
{
    (void)state;
    char mine[128], other_digest[128], other_caller[128];
    (void)snprintf(mine, sizeof(mine), "%s", previewed(ci_a, ec_key, DIGEST_1));
    (void)snprintf(other_digest, sizeof(other_digest), "%s", previewed(ci_a, ec_key, DIGEST_2));
    (void)snprintf(other_caller, sizeof(other_caller), "%s", previewed(operator_a, ec_key, DIGEST_1));
    uint64_t before = flow_log_last();
    assert_problem(call("POST", "/api/v1/code-signing/sign", ci_a, "p1", body_of(ec_key, DIGEST_1, other_digest)), 409,
                   "preview_changed");
    assert_problem(call("POST", "/api/v1/code-signing/sign", ci_a, "p2", body_of(ec_key, DIGEST_1, other_caller)), 409,
                   "preview_changed");
    assert_problem(call("POST", "/api/v1/code-signing/sign", ci_a, "p3", body_of(spare_key, DIGEST_1, mine)), 409,
                   "preview_changed");
    assert_problem(call("POST", "/api/v1/code-signing/sign", ci_a, "p4", body_of(ec_key, DIGEST_1, "short")), 409,
                   "preview_changed");
    assert_problem(call("POST", "/api/v1/code-signing/sign", ci_a, NULL, body_of(ec_key, DIGEST_1, mine)), 400,
                   "idempotency_key_required");
    assert_int_equal(flow_log_last(), before);
    assert_int_equal(atomic_load(&signer_signed), 0);
}

static void a_signing_verifies_and_replays_byte_for_byte(void **state)
{
    (void)state;
    char fingerprint[128];
    static char first[65536];
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", previewed(ci_a, ec_key, DIGEST_1));
    const char *body = body_of(ec_key, DIGEST_1, fingerprint);
    struct answer *answer = call("POST", "/api/v1/code-signing/sign", ci_a, "s1", body);
    assert_status(answer, 200);
    assert_false(answer->replayed);
    assert_true(verifies(answer, DIGEST_1, false));
    assert_false(verifies(answer, DIGEST_2, false));
    assert_string_equal(flow_text(answer, "signature_encoding"), "ecdsa-der");
    assert_string_equal(flow_text(answer, "transparency_destination"), "none");
    assert_string_equal(flow_text(answer, "key_id"), ec_key);
    memcpy(first, answer->body, sizeof(first));
    uint64_t before = flow_log_last();
    answer = call("POST", "/api/v1/code-signing/sign", ci_a, "s1", body);
    assert_status(answer, 200);
    assert_true(answer->replayed);
    assert_string_equal(answer->body, first);
    assert_problem(call("POST", "/api/v1/code-signing/sign", ci_a, "s1", body_of(ec_key, DIGEST_2, fingerprint)), 409,
                   "idempotency_key_reused");
    assert_int_equal(flow_log_last(), before);
    assert_int_equal(atomic_load(&signer_signed), 1);
}

static void rsa_signs_in_both_schemes(void **state)
{
    (void)state;
    char body[1024];
    struct answer *answer = call("POST", "/api/v1/code-signing/sign", ci_a, "r1",
                                 body_of(rsa_key, DIGEST_1, previewed(ci_a, rsa_key, DIGEST_1)));
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "signature_encoding"), "rsa-pkcs1v15");
    assert_true(verifies(answer, DIGEST_1, false));
    static const char pss[] = "{\"key_id\":\"%s\",\"artifact_type\":\"binary\",\"digest\":\"" DIGEST_1
                              "\",\"signature_scheme\":\"rsa-pss\"%s%s%s}";
    (void)snprintf(body, sizeof(body), pss, rsa_key, "", "", "");
    answer = call("POST", "/api/v1/code-signing/preview", ci_a, NULL, body);
    assert_status(answer, 200);
    (void)snprintf(body, sizeof(body), pss, rsa_key, ",\"preview_fingerprint\":\"",
                   flow_text(answer, "request_fingerprint"), "\"");
    answer = call("POST", "/api/v1/code-signing/sign", ci_a, "r2", body);
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "signature_encoding"), "rsa-pss");
    assert_true(verifies(answer, DIGEST_1, true));
}

static void without_the_signer_it_fails_closed_and_the_same_request_ends_it_later(void **state)
{
    (void)state;
    char fingerprint[128];
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", previewed(ci_a, ec_key, DIGEST_2));
    test_config->codesign_deadline = 300 * NS_PER_MS;
    atomic_store(&signer_gone, true);
    unsigned signed_before = atomic_load(&signer_signed);
    struct answer *answer =
        call("POST", "/api/v1/code-signing/sign", ci_a, "d1", body_of(ec_key, DIGEST_2, fingerprint));
    assert_problem(answer, 503, "signer_unavailable");
    assert_string_not_equal(answer->retry_after, "");
    /* The same key with another digest is another command, also while the first is open. */
    assert_problem(call("POST", "/api/v1/code-signing/sign", ci_a, "d1", body_of(ec_key, DIGEST_1, fingerprint)), 409,
                   "idempotency_key_reused");
    atomic_store(&signer_gone, false);
    test_config->codesign_deadline = 15 * NS_PER_S;
    /* That refusal is kept for its own command: a third body under the key. */
    answer = call("POST", "/api/v1/code-signing/sign", ci_a, "d2", body_of(ec_key, DIGEST_2, fingerprint));
    assert_status(answer, 200);
    assert_true(verifies(answer, DIGEST_2, false));
    assert_true(atomic_load(&signer_signed) >= signed_before + 1);
}

static void a_repeated_request_gets_the_operation_that_it_began(void **state)
{
    (void)state;
    char fingerprint[128], operation[64];
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", previewed(ci_a, spare_key, DIGEST_2));
    test_config->codesign_deadline = 200 * NS_PER_MS;
    atomic_store(&signer_gone, true);
    struct answer *answer =
        call("POST", "/api/v1/code-signing/sign", ci_a, "d3", body_of(spare_key, DIGEST_2, fingerprint));
    assert_problem(answer, 503, "signer_unavailable");
    uint64_t commanded = flow_log_last();
    atomic_store(&signer_gone, false);
    test_config->codesign_deadline = 15 * NS_PER_S;
    answer = call("POST", "/api/v1/code-signing/sign", ci_a, "d3", body_of(spare_key, DIGEST_2, fingerprint));
    assert_status(answer, 200);
    assert_false(answer->replayed);
    (void)snprintf(operation, sizeof(operation), "%s", flow_text(answer, "operation_id"));
    answer = call("GET", "/api/v1/code-signing/operations?state=completed&limit=1", ci_a, NULL, NULL);
    assert_string_equal(flow_text(answer, "operation_id"), operation);
    assert_true(flow_log_last() > commanded);
}

static void a_signature_that_does_not_verify_is_never_given_out(void **state)
{
    (void)state;
    const char *fingerprint = previewed(ci_a, ec_key, DIGEST_1);
    atomic_store(&signer_lies, true);
    struct answer *answer =
        call("POST", "/api/v1/code-signing/sign", ci_a, "lie", body_of(ec_key, DIGEST_1, fingerprint));
    atomic_store(&signer_lies, false);
    assert_problem(answer, 500, "code_signing_failed");
    assert_non_null(strstr(answer->body, "signature_invalid"));
    answer = call("GET", "/api/v1/code-signing/operations?state=failed", ci_a, NULL, NULL);
    assert_string_equal(flow_text(answer, "failure_code"), "signature_invalid");
    assert_null(strstr(answer->body, "\"signature\""));
    assert_null(strstr(answer->body, DIGEST_1)); /* what was not signed stays sealed */
}

static void another_tenant_sees_no_keys_and_no_operations(void **state)
{
    (void)state;
    char path[128];
    assert_string_equal(call("GET", "/api/v1/code-signing/operations", operator_b, NULL, NULL)->body, "{\"items\":[]}");
    assert_null(strstr(call("GET", "/api/v1/keys", operator_b, NULL, NULL)->body, "release-ec"));
    (void)snprintf(path, sizeof(path), "/api/v1/keys/%s", ec_key);
    assert_problem(call("GET", path, operator_b, NULL, NULL), 404, "key_not_found");
    const struct answer *mine = call("GET", "/api/v1/code-signing/operations", operator_a, NULL, NULL);
    (void)snprintf(path, sizeof(path), "/api/v1/code-signing/operations/%s", flow_text(mine, "operation_id"));
    assert_status(call("GET", path, operator_a, NULL, NULL), 200);
    assert_problem(call("GET", path, operator_b, NULL, NULL), 404, "not_found");
    assert_problem(call("GET", "/api/v1/code-signing/operations/x", operator_a, NULL, NULL), 404, "not_found");
}

static void lists_come_in_pages(void **state)
{
    (void)state;
    char path[1024];
    size_t seen = 0;
    (void)snprintf(path, sizeof(path), "/api/v1/code-signing/operations?limit=2");
    for (;;) {
        const struct answer *answer = call("GET", path, operator_a, NULL, NULL);
        assert_status(answer, 200);
        for (const char *at = answer->body; (at = strstr(at, "\"operation_id\"")) != NULL; at++) {
            seen++;
        }
        const char *cursor = flow_text(answer, "next_cursor");
        if (cursor[0] == '\0') {
            break;
        }
        (void)snprintf(path, sizeof(path), "/api/v1/code-signing/operations?limit=2&cursor=%s", cursor);
    }
    assert_int_equal(seen, 7);
    assert_problem(call("GET", "/api/v1/code-signing/operations?limit=0", operator_a, NULL, NULL), 400,
                   "query_parameter");
    assert_problem(call("GET", "/api/v1/code-signing/operations?limit=9999999999999999999999", operator_a, NULL, NULL),
                   400, "query_parameter");
    assert_problem(call("GET", "/api/v1/code-signing/operations?state=x", operator_a, NULL, NULL), 400,
                   "query_parameter");
    assert_problem(call("GET", "/api/v1/code-signing/operations?cursor=x", operator_a, NULL, NULL), 400,
                   "cursor_malformed");
}

#define THREADS 8
#define EACH    10
static void *sign_many(void *arg)
{
    static _Thread_local struct answer answer;
    uintptr_t number = (uintptr_t)arg;
    for (unsigned i = 0; i < EACH; i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(128);
        uint8_t digest[SHA256_LEN];
        char key[32], fingerprint[128], digest64[64];
        if (FAULTED(random_bytes(digest, sizeof(digest))) || FAULTED(base64_encode(SPAN_ARRAY(digest), &text))) {
            return (void *)1;
        }
        (void)snprintf(digest64, sizeof(digest64), "%.*s", (int)text.len, (const char *)text.at);
        (void)snprintf(key, sizeof(key), "many-%zu-%u", (size_t)number, i);
        flow_call("POST", "/api/v1/code-signing/preview", ci_a, NULL, body_of(ec_key, digest64, NULL), 20000, &answer);
        (void)snprintf(fingerprint, sizeof(fingerprint), "%s", flow_text(&answer, "request_fingerprint"));
        flow_call("POST", "/api/v1/code-signing/sign", ci_a, key, body_of(ec_key, digest64, fingerprint), 20000,
                  &answer);
        if (answer.status != 200 || !verifies(&answer, digest64, false)) {
            (void)fprintf(stderr, "%d %s\n", answer.status, answer.body);
            return (void *)1;
        }
    }
    return NULL;
}

static void many_at_once_all_verify_and_each_is_signed_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    unsigned before = atomic_load(&signer_signed);
    mono_ns started = clock_mono();
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sign_many, (void *)i), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(atomic_load(&signer_signed) - before, THREADS * EACH);
    print_message("%d signings by %d threads: %.1f ms each\n", THREADS * EACH, THREADS,
                  (double)(clock_mono() - started) / (double)NS_PER_MS / (THREADS * EACH));
}

static void a_destroyed_key_signs_nothing_and_its_old_signings_stay(void **state)
{
    (void)state;
    char path[128], fingerprint[128], operations[256];
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", previewed(ci_a, spare_key, DIGEST_1));
    (void)snprintf(path, sizeof(path), "/api/v1/keys/%s/transitions", spare_key);
    assert_problem(
        call("POST", path, operator_a, "t1", "{\"to\":\"prepared\",\"reason\":\"r\",\"expected_version\":1}"), 400,
        "json_field");
    assert_problem(
        call("POST", path, operator_a, "t2", "{\"to\":\"destroyed\",\"reason\":\"r\",\"expected_version\":9}"), 409,
        "conflict");
    assert_problem(
        call("POST", path, operator_b, "t3", "{\"to\":\"destroyed\",\"reason\":\"r\",\"expected_version\":1}"), 404,
        "key_not_found");
    assert_status(
        call("POST", path, operator_a, "t4", "{\"to\":\"destroyed\",\"reason\":\"r\",\"expected_version\":1}"), 200);
    assert_problem(call("POST", "/api/v1/code-signing/preview", ci_a, NULL, body_of(spare_key, DIGEST_1, NULL)), 409,
                   "key_not_active");
    assert_problem(call("POST", "/api/v1/code-signing/sign", ci_a, "t5", body_of(spare_key, DIGEST_1, fingerprint)),
                   409, "key_not_active");
    (void)snprintf(operations, sizeof(operations), "/api/v1/code-signing/operations?key_id=%s", spare_key);
    assert_string_equal(flow_text(call("GET", operations, ci_a, NULL, NULL), "state"), "completed");
}

static void switched_off_it_answers_501(void **state)
{
    (void)state;
    test_config->codesign_enabled = false;
    assert_problem(call("POST", "/api/v1/code-signing/preview", ci_a, NULL, body_of(ec_key, DIGEST_1, NULL)), 501,
                   "code_signing_disabled");
    assert_problem(call("POST", "/api/v1/code-signing/sign", ci_a, "off", body_of(ec_key, DIGEST_1, "x")), 501,
                   "code_signing_disabled");
    test_config->codesign_enabled = true;
}

/* A digest over all rows of the tables that this test fills. */
static void rows_digest(char out[64])
{
    static const struct sql sql = {
        "rows_digest",
        "SELECT md5(string_agg(t, '|' ORDER BY t)) FROM (SELECT 'o' || o::text AS t FROM svc.codesign_operations o"
        " UNION ALL SELECT 'k' || k::text FROM svc.managed_keys k UNION ALL SELECT 't' || x::text FROM svc.tokens x"
        " UNION ALL SELECT 'n' || n::text FROM svc.tenants n"
        " UNION ALL SELECT 'b' || concat(b.tenant_id, b.destination, b.key, b.state) FROM svc.outbox b) all_rows",
        0,
    };
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(endpoint_new(test_config, "postgres", NULL, &endpoint));
    assert_ok(connection_open(op, endpoint, op->deadline, &connection));
    assert_ok(connection_run(op, connection, &sql, NULL, 0, op->deadline, &rows));
    (void)snprintf(out, 64, "%s", rows_text(rows, 0, 0));
}

static void a_rebuild_gives_the_same_rows(void **state)
{
    (void)state;
    char before[64], after[64];
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    uint64_t messages = 0;
    flow_pause();
    rows_digest(before);
    assert_ok(store_empty_projections(test_config, NULL));
    rows_digest(after);
    assert_string_not_equal(before, after);
    assert_ok(projection_rebuild(op, flow_projector_config(), &messages));
    assert_true(messages > 100);
    rows_digest(after);
    assert_string_equal(before, after);
    flow_resume();
    assert_status(call("GET", "/api/v1/keys", ci_a, NULL, NULL), 200);
}

static int start(void **state)
{
    (void)state;
    flow_start();
    flow_token("tenant-a", "operator", "operator", operator_a);
    flow_token("tenant-a", "ci", "ci", ci_a);
    flow_token("tenant-a", "auditor", "auditor", auditor_a);
    flow_token("tenant-b", "operator", "operator", operator_b);
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
        cmocka_unit_test(keys_of_other_purposes_and_unknown_algorithms_are_refused),
        cmocka_unit_test(keys_are_made_and_shown),
        cmocka_unit_test(what_preview_refuses_sign_refuses_too_and_nothing_is_appended),
        cmocka_unit_test(a_key_of_another_purpose_is_no_key_here),
        cmocka_unit_test(a_preview_of_anything_else_is_no_preview),
        cmocka_unit_test(a_signing_verifies_and_replays_byte_for_byte),
        cmocka_unit_test(rsa_signs_in_both_schemes),
        cmocka_unit_test(without_the_signer_it_fails_closed_and_the_same_request_ends_it_later),
        cmocka_unit_test(a_repeated_request_gets_the_operation_that_it_began),
        cmocka_unit_test(a_signature_that_does_not_verify_is_never_given_out),
        cmocka_unit_test(another_tenant_sees_no_keys_and_no_operations),
        cmocka_unit_test(lists_come_in_pages),
        cmocka_unit_test(many_at_once_all_verify_and_each_is_signed_once),
        cmocka_unit_test(a_destroyed_key_signs_nothing_and_its_old_signings_stay),
        cmocka_unit_test(switched_off_it_answers_501),
        cmocka_unit_test(a_rebuild_gives_the_same_rows),
    };
    return cmocka_run_group_tests_name("codesign_flow", tests, start, end);
}
