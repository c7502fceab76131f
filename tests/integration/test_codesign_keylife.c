/* The life of a key from request to answer: run by with-stores from the top folder. */
#include "api/approvals/approvals.h"
#include "api/keys/internal.h"

#define FLOW_FEATURE_LIST &identity_feature, &keys_feature, &approvals_feature, &codesign_feature
#include "integration/flow_testlib.h"

#include <openssl/ec.h>
#include <poll.h>

static char operator_a[TOKEN_TEXT_MAX], ci_a[TOKEN_TEXT_MAX], second_a[TOKEN_TEXT_MAX], operator_b[TOKEN_TEXT_MAX],
    other_a[TOKEN_TEXT_MAX];

#define DIGEST_1 "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
#define DIGEST_2 "AgIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
#define DIGEST_3 "AwIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
#define LIMIT_NS (60 * NS_PER_S) /* bounds a hang */

struct id {
    char text[64];
};

static struct answer *call_as(struct answer *answer, const char *token, const char *method, const char *target,
                              const char *body)
{
    static atomic_uint number;
    char key[32];
    (void)snprintf(key, sizeof(key), "key-%u", atomic_fetch_add(&number, 1));
    flow_call(method, target, token, strcmp(method, "GET") != 0 ? key : NULL, body, 20000, answer);
    return answer;
}

static struct answer *call(const char *token, const char *method, const char *target, const char *body)
{
    static _Thread_local struct answer answer;
    return call_as(&answer, token, method, target, body);
}

static int64_t int_of(const struct answer *answer, const char *name)
{
    char wanted[64];
    (void)snprintf(wanted, sizeof(wanted), "\"%s\":", name);
    const char *at = strstr(answer->body, wanted);
    return at != NULL ? strtoll(at + strlen(wanted), NULL, 10) : -1;
}

static struct id id_in(const struct answer *answer)
{
    struct id id;
    (void)snprintf(id.text, sizeof(id.text), "%s", flow_text(answer, "key_id"));
    return id;
}

/* `more`: further members, beginning with a comma. */
static struct answer *create(const char *name, const char *more)
{
    char body[512];
    (void)snprintf(body, sizeof(body), "{\"name\":\"%s\",\"algorithm\":\"ec-p256\"%s}", name, more);
    return call(operator_a, "POST", "/api/v1/keys", body);
}

static struct id made(const char *name, const char *more)
{
    const struct answer *answer = create(name, more);
    assert_status(answer, 201);
    return id_in(answer);
}

static struct answer *get(struct id id)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/api/v1/keys/%s", id.text);
    struct answer *answer = call(operator_a, "GET", path, NULL);
    assert_status(answer, 200);
    return answer;
}

static void assert_state(struct id id, const char *state)
{
    assert_string_equal(flow_text(get(id), "state"), state);
}

static struct answer *move_as(const char *token, struct id id, const char *to, int64_t version, const char *more)
{
    char path[128], body[512];
    (void)snprintf(path, sizeof(path), "/api/v1/keys/%s/transitions", id.text);
    (void)snprintf(body, sizeof(body), "{\"to\":\"%s\",\"reason\":\"test\",\"expected_version\":%lld%s}", to,
                   (long long)version, more);
    return call(token, "POST", path, body);
}

static struct answer *move_to(struct id id, const char *to, const char *more)
{
    return move_as(operator_a, id, to, int_of(get(id), "version"), more);
}

static const char *sign_body(struct id id, const char *digest, const char *fingerprint)
{
    static _Thread_local char body[1024];
    (void)snprintf(body, sizeof(body), "{\"key_id\":\"%s\",\"artifact_type\":\"binary\",\"digest\":\"%s\"%s%s%s}",
                   id.text, digest, fingerprint != NULL ? ",\"preview_fingerprint\":\"" : "",
                   fingerprint != NULL ? fingerprint : "", fingerprint != NULL ? "\"" : "");
    return body;
}

static struct answer *preview(struct id id)
{
    return call(ci_a, "POST", "/api/v1/code-signing/preview", sign_body(id, DIGEST_1, NULL));
}

/* The preview's answer when that refuses. */
static struct answer *sign(struct id id)
{
    char fingerprint[80];
    struct answer *answer = preview(id);
    if (answer->status != 200) {
        return answer;
    }
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", flow_text(answer, "request_fingerprint"));
    return call(ci_a, "POST", "/api/v1/code-signing/sign", sign_body(id, DIGEST_1, fingerprint));
}

/* Polls until the key's member is that. */
static void wait_for(struct id id, const char *name, const char *text)
{
    for (mono_ns end = clock_mono() + LIMIT_NS;; (void)poll(NULL, 0, 5)) {
        const struct answer *answer = get(id);
        if (strcmp(flow_text(answer, name), text) == 0) {
            return;
        }
        if (clock_mono() > end) {
            fail_msg("%s never became %s: %s", name, text, answer->body);
        }
    }
}

/* ---- refusals ---- */

static void what_a_key_cannot_be_made_of_is_refused(void **state)
{
    (void)state;
    uint64_t before = flow_log_last();
    assert_problem(create("r", ",\"token\":\"nowhere\""), 400, "json_field");
    assert_non_null(strstr(create("r", ",\"token\":\"nowhere\"")->body, "main, backup"));
    assert_problem(create("r", ",\"token\":\"No Name\""), 400, "json_field");
    assert_problem(create("r", ",\"max_uses\":0"), 400, "json_field");
    assert_problem(create("r", ",\"not_after\":\"2020-01-01T00:00:00Z\""), 400, "json_field");
    assert_problem(create("r", ",\"prepare\":\"yes\""), 400, "json_field");
    assert_problem(create("r", ",\"state\":\"retired\""), 400, "json_field");
    assert_int_equal(flow_log_last(), before);
    atomic_store(&signer_gone, true);
    assert_problem(create("r", ",\"token\":\"main\""), 503, "signer_unavailable");
    atomic_store(&signer_gone, false);
}

static void moves_that_are_none_are_refused(void **state)
{
    (void)state;
    struct id prepared = made("moves", ",\"prepare\":true"), active = made("moves", "");
    static const char *const targets[] = { "prepared", "retiring", "gone", "" };
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        assert_problem(move_to(active, targets[i], ""), 400, "json_field");
    }
    assert_problem(move_to(prepared, "retired", ""), 409, "key_not_active");
    assert_problem(move_to(active, "active", ""), 409, "key_not_active");
    assert_problem(move_as(operator_a, active, "retired", 7, ""), 409, "conflict");
    assert_problem(move_as(operator_b, active, "destroyed", 1, ""), 404, "key_not_found");
    assert_problem(move_as(ci_a, active, "retired", 1, ""), 403, "forbidden");
    assert_problem(move_to(active, "destroyed", ",\"overlap\":\"1h\""), 400, "json_field");
    assert_problem(move_to(active, "retired", ",\"overlap\":\"-1h\""), 400, "json_field");
    assert_problem(move_to(active, "retired", ",\"overlap\":\"9000h\""), 400, "json_field");
    assert_problem(move_to(active, "retired", ",\"max_uses\":5"), 400, "json_field");
    assert_problem(move_to(active, "retired", ",\"not_after\":\"2090-01-01T00:00:00Z\""), 400, "json_field");
    assert_problem(move_to(prepared, "active", ",\"not_after\":\"2020-01-01T00:00:00Z\""), 400, "json_field");
    assert_int_equal(int_of(get(active), "version"), 1);
    assert_int_equal(int_of(get(prepared), "version"), 1);
    struct id seal = id_in(call(operator_a, "GET", "/api/v1/keys?purpose=seal", NULL));
    assert_problem(move_to(seal, "retired", ""), 403, "forbidden");
}

static void a_name_has_one_active_and_one_prepared_key(void **state)
{
    (void)state;
    assert_problem(create("moves", ""), 409, "already_exists");
    assert_problem(create("moves", ",\"prepare\":true"), 409, "already_exists");
}

/* ---- the life ---- */

static void a_prepared_key_signs_nothing(void **state)
{
    (void)state;
    struct id next = made("first", ",\"prepare\":true");
    assert_state(next, "prepared");
    assert_problem(sign(next), 409, "key_not_active");
    /* Without a key to replace, activation is just that. */
    assert_status(move_to(next, "active", ""), 200);
    assert_status(sign(next), 200);
    assert_int_equal(int_of(get(next), "uses"), 1);
    assert_string_not_equal(flow_text(get(next), "last_used_at"), "");
}

static void a_replaced_key_signs_until_its_overlap_ends(void **state)
{
    (void)state;
    char fingerprint[80];
    struct id old = made("turn", ""), next = made("turn", ",\"prepare\":true");
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", flow_text(preview(old), "request_fingerprint"));
    const struct answer *answer = move_to(next, "active", ",\"overlap\":\"2s\"");
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "state"), "active");
    assert_string_equal(flow_text(get(old), "replaced_by"), next.text);
    assert_status(sign(next), 200);
    /* What was previewed before is signed: nobody has to begin again. */
    if (strcmp(flow_text(get(old), "state"), "retiring") == 0) {
        answer = call(ci_a, "POST", "/api/v1/code-signing/sign", sign_body(old, DIGEST_1, fingerprint));
        assert_true(answer->status == 200 || strcmp(flow_text(answer, "code"), "key_not_active") == 0);
    }
    wait_for(old, "state", "retired");
    answer = sign(old);
    assert_problem(answer, 409, "key_not_active");
    assert_non_null(strstr(answer->body, next.text)); /* it says where to go */
    assert_status(move_to(old, "destroyed", ""), 200);
    assert_state(old, "destroyed");
    assert_state(next, "active");
}

static void an_overlap_of_nothing_ends_at_once(void **state)
{
    (void)state;
    struct id old = made("sharp", ""), next = made("sharp", ",\"prepare\":true");
    assert_status(move_to(next, "active", ",\"overlap\":\"0s\""), 200);
    assert_state(old, "retired");
    assert_problem(sign(old), 409, "key_not_active");
    /* Its name is free for the next one; what it signed verifies for ever. */
    struct id third = made("sharp", ",\"prepare\":true");
    assert_status(move_to(third, "active", ",\"overlap\":\"1h\""), 200);
    assert_state(next, "retiring");
    assert_status(sign(next), 200);
    assert_problem(move_to(next, "retired", ",\"overlap\":\"1h\""), 409, "key_not_active");
    assert_status(move_to(next, "retired", ""), 200);
    assert_problem(sign(next), 409, "key_not_active");
}

static void a_key_is_wound_down_without_a_successor(void **state)
{
    (void)state;
    struct id key = made("last", "");
    assert_status(move_to(key, "retired", ",\"overlap\":\"1h\""), 200);
    assert_state(key, "retiring");
    assert_status(sign(key), 200);
    assert_status(move_to(key, "destroyed", ""), 200);
    assert_problem(sign(key), 409, "key_not_active");
}

static void a_repeated_move_is_no_second_one(void **state)
{
    (void)state;
    struct id next = made("again", ",\"prepare\":true");
    char path[128];
    (void)snprintf(path, sizeof(path), "/api/v1/keys/%s/transitions", next.text);
    static const char body[] = "{\"to\":\"active\",\"reason\":\"test\",\"expected_version\":1}";
    struct answer first, second;
    flow_call("POST", path, operator_a, "again-1", body, 20000, &first);
    assert_status(&first, 200);
    /* As after a crash between the append and the answer: the same command, not known to have been answered. */
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    struct managed_key key;
    struct uuid id;
    const struct key_move move = { .to = KEY_ACTIVE, .reason = "test", .expected_version = 1, .overlap_us = -1 };
    const char *command = NULL;
    assert_ok(uuid_parse(span_text(next.text), &id));
    assert_ok(key_move_command(op, &flow_services, id, &command));
    assert_ok(uuid_parse(span_text(command), &op->command_id));
    assert_ok(key_transition(op, &flow_services, id, &move, &key));
    assert_int_equal(key.version, 2);
    flow_call("POST", path, operator_a, "again-1", body, 20000, &second);
    assert_true(second.replayed);
    assert_string_equal(first.body, second.body);
    assert_problem(move_as(operator_a, next, "active", 2, ""), 409, "key_not_active");
}

/* ---- limits ---- */

struct crowd {
    struct id key;
    char fingerprint[80];
    atomic_uint signed_, exhausted, else_;
};

static void *sign_in_crowd(void *arg)
{
    struct crowd *crowd = arg;
    const struct answer *answer =
        call(ci_a, "POST", "/api/v1/code-signing/sign", sign_body(crowd->key, DIGEST_1, crowd->fingerprint));
    bool exhausted = answer->status == 409 && strcmp(flow_text(answer, "code"), "key_exhausted") == 0;
    atomic_fetch_add(answer->status == 200 ? &crowd->signed_ : exhausted ? &crowd->exhausted : &crowd->else_, 1);
    if (answer->status != 200 && !exhausted) {
        print_error("%d %s\n", answer->status, answer->body);
    }
    return NULL;
}

static void sixty_four_at_once_get_exactly_the_ten_uses_of_a_key(void **state)
{
    (void)state;
    enum { CALLERS = 64, LIMIT = 10 };
    static struct crowd crowd;
    pthread_t threads[CALLERS];
    crowd.key = made("ten", ",\"max_uses\":10");
    (void)snprintf(crowd.fingerprint, sizeof(crowd.fingerprint), "%s",
                   flow_text(preview(crowd.key), "request_fingerprint"));
    unsigned before = atomic_load(&signer_signed);
    for (size_t i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sign_in_crowd, &crowd), 0);
    }
    for (size_t i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&crowd.else_), 0);
    assert_int_equal(atomic_load(&crowd.signed_), LIMIT);
    assert_int_equal(atomic_load(&crowd.exhausted), CALLERS - LIMIT);
    assert_int_equal(atomic_load(&signer_signed) - before, LIMIT);
    const struct answer *answer = get(crowd.key);
    assert_int_equal(int_of(answer, "uses"), LIMIT);
    assert_int_equal(int_of(answer, "uses_left"), 0);
    assert_string_equal(flow_text(answer, "state"), "active");
    assert_problem(preview(crowd.key), 409, "key_exhausted");
}

static struct answer *sign_batch(struct id id, const char *digests)
{
    char body[1024], fingerprint[80];
    (void)snprintf(body, sizeof(body), "{\"key_id\":\"%s\",\"artifact_type\":\"binary\",\"digests\":[%s]}", id.text,
                   digests);
    struct answer *answer = call(ci_a, "POST", "/api/v1/code-signing/batch/preview", body);
    if (answer->status != 200) {
        return answer;
    }
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", flow_text(answer, "request_fingerprint"));
    (void)snprintf(body, sizeof(body),
                   "{\"key_id\":\"%s\",\"artifact_type\":\"binary\",\"digests\":[%s],\"preview_fingerprint\":\"%s\"}",
                   id.text, digests, fingerprint);
    return call(ci_a, "POST", "/api/v1/code-signing/batch", body);
}

static void a_batch_counts_each_digest_and_gets_all_or_nothing(void **state)
{
    (void)state;
    static const char three[] = "\"" DIGEST_1 "\",\"" DIGEST_2 "\",\"" DIGEST_3 "\"";
    struct id key = made("batch", ",\"prepare\":true");
    assert_status(move_to(key, "active", ",\"max_uses\":4"), 200);
    assert_status(sign_batch(key, three), 200);
    assert_int_equal(int_of(get(key), "uses"), 3);
    unsigned before = atomic_load(&signer_signed);
    assert_problem(sign_batch(key, three), 409, "key_exhausted");
    assert_int_equal(atomic_load(&signer_signed), before);
    assert_status(sign(key), 200);
    assert_problem(sign(key), 409, "key_exhausted");
    assert_int_equal(int_of(get(key), "uses"), 4);
}

static void what_was_not_signed_is_given_back(void **state)
{
    (void)state;
    struct id key = made("back", ",\"max_uses\":1");
    atomic_store(&signer_lies, true);
    const struct answer *answer = sign(key);
    atomic_store(&signer_lies, false);
    assert_problem(answer, 500, "code_signing_failed");
    assert_int_equal(int_of(get(key), "uses_left"), 1);
    assert_status(sign(key), 200);
    assert_int_equal(int_of(get(key), "uses_left"), 0);
    assert_problem(sign(key), 409, "key_exhausted");
}

/* The preview sees the read model; only the log's order decides, so the worker has to ask. */
static void the_worker_refuses_what_the_preview_let_pass(void **state)
{
    (void)state;
    struct id key = made("late", ",\"max_uses\":1");
    char fingerprint[80], body[1024];
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", flow_text(preview(key), "request_fingerprint"));
    (void)snprintf(body, sizeof(body), "%s", sign_body(key, DIGEST_1, fingerprint));
    assert_status(call(ci_a, "POST", "/api/v1/code-signing/sign", body), 200);
    const struct answer *answer = call(ci_a, "POST", "/api/v1/code-signing/sign", body);
    assert_problem(answer, 409, "key_exhausted");
}

static void a_key_past_its_end_signs_nothing(void **state)
{
    (void)state;
    char more[96], end_text[RFC3339_MAX];
    rfc3339_print(clock_utc() + 2 * US_PER_S, end_text);
    (void)snprintf(more, sizeof(more), ",\"not_after\":\"%s\"", end_text);
    struct id key = made("ends", more);
    for (mono_ns end = clock_mono() + LIMIT_NS;; (void)poll(NULL, 0, 5)) {
        const struct answer *answer = sign(key);
        if (answer->status != 200) {
            assert_problem(answer, 409, "key_expired");
            break;
        }
        assert_true(clock_mono() < end);
    }
}

/* ---- two persons ---- */

static void a_destruction_waits_for_a_second_person(void **state)
{
    (void)state;
    char resource[128], path[256];
    struct id key = made("two", "");
    test_config->keys_destroy_approval = true;
    const struct answer *answer = move_to(key, "destroyed", "");
    assert_problem(answer, 403, "approval_required");
    (void)snprintf(resource, sizeof(resource), "%s", flow_text(answer, "resource"));
    assert_memory_equal(resource, APPROVAL_KEY_DESTROY, strlen(APPROVAL_KEY_DESTROY));
    assert_problem(move_to(key, "destroyed", ""), 403, "approval_required"); /* it is still asked for, once */
    assert_state(key, "active");
    assert_status(sign(key), 200);

    (void)snprintf(path, sizeof(path), "/api/v1/identities/%s/approvals", resource);
    assert_problem(call(operator_a, "POST", path, "{\"action\":\"destroy\"}"), 403, "forbidden");
    assert_problem(call(second_a, "POST", path, "{\"action\":\"sign\"}"), 400, "json_field");
    answer = call(second_a, "GET", "/api/v1/approval-requests?waiting_for_me=true", NULL);
    assert_non_null(strstr(answer->body, resource));
    assert_non_null(strstr(answer->body, key.text));
    assert_status(call(second_a, "POST", path, "{\"action\":\"destroy\"}"), 200);
    /* The approval is of this requester and of the key as it was. */
    assert_problem(move_as(other_a, key, "destroyed", 1, ""), 403, "approval_required");
    assert_status(move_to(key, "destroyed", ""), 200);
    test_config->keys_destroy_approval = false;
    assert_state(key, "destroyed");
}

static void a_denied_destruction_and_one_of_a_changed_key_do_not_happen(void **state)
{
    (void)state;
    char path[256];
    struct id key = made("denied", "");
    test_config->keys_destroy_approval = true;
    const struct answer *answer = move_to(key, "destroyed", "");
    (void)snprintf(path, sizeof(path), "/api/v1/identities/%s/approvals", flow_text(answer, "resource"));
    assert_status(call(second_a, "POST", path, "{\"action\":\"destroy\"}"), 200);
    assert_status(move_to(key, "retired", ""), 200); /* not the key any more that was approved of */
    assert_problem(move_to(key, "destroyed", ""), 403, "approval_required");
    answer = call(second_a, "GET", "/api/v1/approval-requests?state=pending", NULL);
    (void)snprintf(path, sizeof(path), "/api/v1/approval-requests/%s/denials", flow_text(answer, "request_id"));
    assert_status(call(second_a, "POST", path, "{\"reason\":\"no\"}"), 200);
    assert_problem(move_to(key, "destroyed", ""), 403, "approval_denied");
    test_config->keys_destroy_approval = false;
    assert_state(key, "retired");
}

/* ---- tokens, lists, probes ---- */

static void a_key_lives_in_the_token_that_was_named(void **state)
{
    (void)state;
    struct id key = made("elsewhere", ",\"token\":\"backup\"");
    assert_string_equal(flow_text(get(key), "token"), "backup");
    assert_status(sign(key), 200); /* the signer of this test finds no key in another token than its own */
    assert_status(move_to(key, "destroyed", ""), 200);
    for (mono_ns end = clock_mono() + LIMIT_NS;; (void)poll(NULL, 0, 5)) {
        struct key_ref ref = { .tenant = tenant("tenant-a"), .purpose = KEY_PURPOSE_CODESIGN, .token = { "backup" } };
        assert_ok(uuid_parse(span_text(key.text), &ref.id));
        if (fake_find(&ref) == NULL) {
            break;
        }
        assert_true(clock_mono() < end);
    }
}

static void lists_are_filtered(void **state)
{
    (void)state;
    static const char *const wrong[] = { "state=next", "purpose=x", "algorithm=x", "expires_before=soon" };
    char path[160];
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        (void)snprintf(path, sizeof(path), "/api/v1/keys?%s", wrong[i]);
        assert_problem(call(operator_a, "GET", path, NULL), 400, "query_parameter");
    }
    struct id rsa = id_in(call(operator_a, "POST", "/api/v1/keys",
                               "{\"name\":\"listed\",\"algorithm\":\"rsa-3072\",\"prepare\":true,"
                               "\"not_after\":\"2031-05-01T00:00:00Z\"}"));
    static const char *const finding[] = { "algorithm=rsa-3072", "name=listed", "state=prepared&name=listed",
                                           "expires_before=2031-06-01T00:00:00Z&purpose=codesign" };
    for (size_t i = 0; i < COUNT_OF(finding); i++) {
        (void)snprintf(path, sizeof(path), "/api/v1/keys?limit=1&%s", finding[i]);
        const struct answer *answer = call(operator_a, "GET", path, NULL);
        assert_status(answer, 200);
        assert_string_equal(id_in(answer).text, rsa.text);
    }
    assert_string_equal(call(operator_a, "GET", "/api/v1/keys?name=listed&state=active", NULL)->body, "{\"items\":[]}");
    assert_string_equal(call(operator_a, "GET", "/api/v1/keys?expires_before=2021-01-01T00:00:00Z", NULL)->body,
                        "{\"items\":[]}");
}

static void probe_all(void)
{
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    assert_ok(key_probe_some(op, &flow_services));
}

static struct fault probes_well(void)
{
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    return key_probes_well(op, &flow_services);
}

static uint64_t probe_events(struct id id)
{
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    static const struct sql sql = {
        "probe_events",
        "SELECT count(*) FROM svc.audit_records WHERE type LIKE 'key.probe\\_%'"
        " AND convert_from(record, 'UTF8') LIKE '%' || $1 || '%'",
        1,
    };
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(tx_query(tx, &sql, (struct sql_arg[]){ SQL_TEXT(id.text) }, 1, &rows));
    return (uint64_t)rows_int(rows, 0, 0);
}

static void a_key_that_signs_as_another_is_found_and_its_recovery_too(void **state)
{
    (void)state;
    struct id key = made("probed", ",\"max_uses\":5");
    unsigned before = atomic_load(&signer_probed);
    test_config->keys_probe_interval = 1; /* every call is a whole round */
    probe_all();
    assert_true(atomic_load(&signer_probed) > before);
    assert_ok(probes_well());
    assert_non_null(strstr(get(key)->body, "\"probe\":{\"ok\":true"));
    assert_int_equal(int_of(get(key), "uses"), 0);
    assert_int_equal(int_of(get(key), "uses_left"), 5);

    /* An outage is no news about a key. */
    atomic_store(&signer_gone, true);
    probe_all();
    atomic_store(&signer_gone, false);
    assert_int_equal(probes_well().code, FAULT_SIGNER_UNAVAILABLE);
    assert_int_equal(probe_events((struct id){ "" }), 0); /* of any key */

    struct key_ref ref = { .tenant = tenant("tenant-a"), .purpose = KEY_PURPOSE_CODESIGN };
    assert_ok(uuid_parse(span_text(key.text), &ref.id));
    struct fake_key *fake = fake_find(&ref);
    EVP_PKEY *own = fake->key;
    fake->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    probe_all();
    probe_all();
    assert_non_null(strstr(get(key)->body, "\"probe\":{\"ok\":false"));
    assert_non_null(strstr(get(key)->body, "\"code\":\"signature_invalid\""));
    assert_int_equal(probes_well().code, FAULT_SIGNATURE_INVALID);
    assert_int_equal(probe_events(key), 1); /* told once */
    key_probes_forget();                    /* another process does not know when, but that */
    assert_non_null(strstr(get(key)->body, "\"code\":\"signature_invalid\""));
    EVP_PKEY_free(fake->key);
    fake->key = own;
    probe_all();
    probe_all();
    assert_non_null(strstr(get(key)->body, "\"probe\":{\"ok\":true"));
    assert_int_equal(probe_events(key), 2);
    assert_ok(probes_well());

    CLEANUP(buf_free) struct buf text = BUF_INIT(1 << 20);
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    const char *metrics = NULL;
    assert_ok(key_census(op, &flow_services));
    assert_ok(metrics_print(flow_services.metrics, &text));
    assert_ok(buf_cstr(&text, &metrics));
    static const char *const shown[] = { "svc_signer_probes_total{purpose=\"codesign\",result=\"failed\"} 2",
                                         "svc_signer_probe_failing_keys{purpose=\"codesign\"} 0",
                                         "svc_signer_probe_failing_keys{purpose=\"seal\"} 0",
                                         "svc_signer_probe_last_success_timestamp_seconds{purpose=\"seal\"} 1",
                                         "svc_signer_keys{purpose=\"codesign\",state=\"prepared\"} 2",
                                         "svc_signer_keys{purpose=\"seal\",state=\"active\"} 1" };
    for (size_t i = 0; i < COUNT_OF(shown); i++) {
        if (strstr(metrics, shown[i]) == NULL) {
            fail_msg("%s is not in %s", shown[i], strstr(metrics, "svc_signer"));
        }
    }
    test_config->keys_probe_interval = 0; /* switched off, nothing is known, and nothing is signed */
    before = atomic_load(&signer_probed);
    probe_all();
    assert_int_equal(atomic_load(&signer_probed), before);
    assert_ok(probes_well());
}

/* ---- rebuild ---- */

static void rows_digest(char out[64])
{
    static const struct sql sql = {
        "rows_digest",
        "SELECT md5(string_agg(t, '|' ORDER BY t)) FROM (SELECT 'k' || k::text AS t FROM svc.managed_keys k"
        " UNION ALL SELECT 'u' || u::text FROM svc.key_uses u UNION ALL SELECT 'c' || c::text FROM svc.key_claims c"
        " UNION ALL SELECT 'a' || a::text FROM svc.approval_requests a"
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
    assert_ok(projection_rebuild(op, flow_projector_config(), &messages));
    assert_true(messages > 100);
    rows_digest(after);
    assert_string_equal(before, after);
    flow_resume();
}

static int start(void **state)
{
    (void)state;
    flow_start();
    flow_token("tenant-a", "operator", "operator", operator_a);
    flow_token("tenant-a", "other", "operator", other_a);
    flow_token("tenant-a", "ci", "ci", ci_a);
    flow_token("tenant-a", "second", "approver", second_a);
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
        cmocka_unit_test(what_a_key_cannot_be_made_of_is_refused),
        cmocka_unit_test(moves_that_are_none_are_refused),
        cmocka_unit_test(a_name_has_one_active_and_one_prepared_key),
        cmocka_unit_test(a_prepared_key_signs_nothing),
        cmocka_unit_test(a_replaced_key_signs_until_its_overlap_ends),
        cmocka_unit_test(an_overlap_of_nothing_ends_at_once),
        cmocka_unit_test(a_key_is_wound_down_without_a_successor),
        cmocka_unit_test(a_repeated_move_is_no_second_one),
        cmocka_unit_test(sixty_four_at_once_get_exactly_the_ten_uses_of_a_key),
        cmocka_unit_test(a_batch_counts_each_digest_and_gets_all_or_nothing),
        cmocka_unit_test(what_was_not_signed_is_given_back),
        cmocka_unit_test(the_worker_refuses_what_the_preview_let_pass),
        cmocka_unit_test(a_key_past_its_end_signs_nothing),
        cmocka_unit_test(a_destruction_waits_for_a_second_person),
        cmocka_unit_test(a_denied_destruction_and_one_of_a_changed_key_do_not_happen),
        cmocka_unit_test(a_key_lives_in_the_token_that_was_named),
        cmocka_unit_test(lists_are_filtered),
        cmocka_unit_test(a_key_that_signs_as_another_is_found_and_its_recovery_too),
        cmocka_unit_test(a_rebuild_gives_the_same_rows),
    };
    return cmocka_run_group_tests_name("codesign_keylife", tests, start, end);
}
