/* Code signing beyond one SHA-256 digest: other digests, batches, approvals. Run by with-stores from the top folder. */
#include "api/approvals/approvals.h"
#define FLOW_FEATURE_LIST &identity_feature, &keys_feature, &approvals_feature, &codesign_feature
#include "integration/flow_testlib.h"

#include "appliance/base/codec.h"

static char operator_a[TOKEN_TEXT_MAX], ci_a[TOKEN_TEXT_MAX], approver_a[TOKEN_TEXT_MAX], both_a[TOKEN_TEXT_MAX],
    same_a[TOKEN_TEXT_MAX]; /* the subject of both_a as an approver */
static char ec_key[64], rsa_key[64];

#define SIGN    "/api/v1/code-signing/sign"
#define PREVIEW "/api/v1/code-signing/preview"
#define BATCH   "/api/v1/code-signing/batch"

static struct answer *call(const char *method, const char *target, const char *token, const char *key, const char *body)
{
    static struct answer answer;
    flow_call(method, target, token, key, body, 20000, &answer);
    return &answer;
}

static void make_key(const char *name, const char *algorithm, char out[64])
{
    char body[256];
    (void)snprintf(body, sizeof(body), "{\"name\":\"%s\",\"algorithm\":\"%s\"}", name, algorithm);
    const struct answer *answer = call("POST", "/api/v1/keys", operator_a, name, body);
    assert_status(answer, 201);
    (void)snprintf(out, 64, "%s", flow_text(answer, "key_id"));
}

/* `len` bytes of `fill`, as base64. */
static const char *digest_text(uint8_t fill, size_t len)
{
    static _Thread_local char texts[4][128];
    static _Thread_local unsigned turn;
    CLEANUP(buf_free) struct buf text = BUF_INIT(128);
    uint8_t bytes[64];
    memset(bytes, fill, sizeof(bytes));
    char *out = texts[turn++ % COUNT_OF(texts)];
    BUG_IF(FAULTED(base64_encode(span_of(bytes, len), &text)));
    (void)snprintf(out, 128, "%.*s", (int)text.len, (const char *)text.at);
    return out;
}

static const char *body_of(const char *key_id, const char *members, const char *fingerprint)
{
    static char body[32768];
    (void)snprintf(body, sizeof(body), "{\"key_id\":\"%s\",\"artifact_type\":\"t\",%s%s%s%s}", key_id, members,
                   fingerprint != NULL ? ",\"preview_fingerprint\":\"" : "", fingerprint != NULL ? fingerprint : "",
                   fingerprint != NULL ? "\"" : "");
    return body;
}

static const char *one_of(uint8_t fill)
{
    static char members[256];
    (void)snprintf(members, sizeof(members), "\"digest\":\"%s\"", digest_text(fill, 32));
    return members;
}

static const char *previewed(const char *route, const char *token, const char *key_id, const char *members)
{
    const struct answer *answer = call("POST", route, token, NULL, body_of(key_id, members, NULL));
    assert_status(answer, 200);
    return flow_text(answer, "request_fingerprint");
}

static struct answer *sign(const char *token, const char *key, const char *key_id, const char *members)
{
    char fingerprint[128];
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", previewed(PREVIEW, token, key_id, members));
    return call("POST", SIGN, token, key, body_of(key_id, members, fingerprint));
}

/* ---- digests ---- */

static void a_digest_of_another_size_than_its_algorithm_is_refused(void **state)
{
    (void)state;
    char members[512];
    uint64_t before = flow_log_last();
    static const struct {
        const char *algorithm;
        size_t len;
        const char *code;
    } rows[] = { { "sha256", 48, "digest_length" }, { "sha384", 32, "digest_length" },
                 { "sha512", 48, "digest_length" }, { "sha1", 32, "json_field" },
                 { "SHA256", 32, "json_field" },    { "", 32, "json_field" } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        (void)snprintf(members, sizeof(members), "\"digest_algorithm\":\"%s\",\"digest\":\"%s\"", rows[i].algorithm,
                       digest_text(1, rows[i].len));
        assert_problem(call("POST", PREVIEW, ci_a, NULL, body_of(ec_key, members, NULL)), 400, rows[i].code);
    }
    assert_int_equal(flow_log_last(), before);
}

static void longer_digests_are_signed_as_they_are(void **state)
{
    (void)state;
    char members[512], key[64];
    for (unsigned i = 0; i < 4; i++) {
        bool long_one = i % 2 != 0;
        (void)snprintf(members, sizeof(members), "\"digest_algorithm\":\"%s\",\"digest\":\"%s\"",
                       long_one ? "sha512" : "sha384", digest_text((uint8_t)i, long_one ? 64 : 48));
        (void)snprintf(key, sizeof(key), "long-%u", i);
        const struct answer *answer = sign(ci_a, key, i < 2 ? ec_key : rsa_key, members);
        assert_status(answer, 200);
        assert_string_equal(flow_text(answer, "digest_algorithm"), long_one ? "sha512" : "sha384");
    }
}

/* ---- batches ---- */

static const char *digests_of(const size_t *lens, size_t count)
{
    static char members[16384];
    size_t len = (size_t)snprintf(members, sizeof(members), "\"digests\":[");
    for (size_t i = 0; i < count; i++) {
        len += (size_t)snprintf(members + len, sizeof(members) - len, "%s\"%s\"", i > 0 ? "," : "",
                                digest_text((uint8_t)(i + 1), lens != NULL ? lens[i] : 32));
    }
    (void)snprintf(members + len, sizeof(members) - len, "]");
    return members;
}

static void a_batch_is_refused_whole(void **state)
{
    (void)state;
    static const size_t mixed[] = { 32, 32, 31 };
    uint64_t before = flow_log_last();
    unsigned signed_before = atomic_load(&signer_signed);
    assert_problem(call("POST", BATCH "/preview", ci_a, NULL, body_of(ec_key, digests_of(NULL, 0), NULL)), 400,
                   "json_field");
    assert_problem(call("POST", BATCH "/preview", ci_a, NULL, body_of(ec_key, digests_of(NULL, 65), NULL)), 400,
                   "json_field");
    struct answer *answer = call("POST", BATCH "/preview", ci_a, NULL, body_of(ec_key, digests_of(mixed, 3), NULL));
    assert_problem(answer, 400, "digest_length");
    assert_string_equal(flow_text(answer, "pointer"), "/digests/2");
    const char *fingerprint = previewed(BATCH "/preview", ci_a, ec_key, digests_of(NULL, 3));
    assert_problem(call("POST", BATCH, ci_a, "b0", body_of(ec_key, digests_of(NULL, 4), fingerprint)), 409,
                   "preview_changed");
    assert_int_equal(flow_log_last(), before);
    assert_int_equal(atomic_load(&signer_signed), signed_before);
}

static size_t occurrences(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++) {
        count++;
    }
    return count;
}

static void a_batch_signs_each_digest_and_replays(void **state)
{
    (void)state;
    static char first[65536];
    char fingerprint[128];
    unsigned signed_before = atomic_load(&signer_signed);
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s",
                   previewed(BATCH "/preview", ci_a, ec_key, digests_of(NULL, 64)));
    struct answer *answer = call("POST", BATCH, ci_a, "b1", body_of(ec_key, digests_of(NULL, 64), fingerprint));
    assert_status(answer, 200);
    assert_int_equal(occurrences(answer->body, "\"signature\":"), 64);
    assert_int_equal(atomic_load(&signer_signed), signed_before + 64);
    memcpy(first, answer->body, sizeof(first));
    answer = call("POST", BATCH, ci_a, "b1", body_of(ec_key, digests_of(NULL, 64), fingerprint));
    assert_true(answer->replayed);
    assert_string_equal(answer->body, first);
    answer = call("GET", "/api/v1/code-signing/operations?state=completed&limit=200", ci_a, NULL, NULL);
    assert_int_equal(occurrences(answer->body, flow_text(answer, "command_id")), 65); /* the first has it as its id */
    assert_int_equal(atomic_load(&signer_signed), signed_before + 64);
}

/* ---- approvals ---- */

static struct answer *approve(const char *resource, const char *token, const char *key)
{
    char target[256];
    (void)snprintf(target, sizeof(target), "/api/v1/identities/%s/approvals", resource);
    return call("POST", target, token, key, "{\"action\":\"sign\"}");
}

static void without_an_approval_nothing_is_signed(void **state)
{
    (void)state;
    char resource[128], other[128];
    unsigned signed_before = atomic_load(&signer_signed);
    test_config->policy_approval = true;
    struct answer *answer = sign(both_a, "a1", ec_key, one_of(0x41));
    assert_problem(answer, 403, "approval_required");
    (void)snprintf(resource, sizeof(resource), "%s", flow_text(answer, "resource"));
    assert_int_equal(strncmp(resource, APPROVAL_CODESIGN, strlen(APPROVAL_CODESIGN)), 0);
    assert_int_equal(strlen(resource), strlen(APPROVAL_CODESIGN) + 64);
    /* The same again is the same resource; another digest, key or caller another one. */
    assert_string_equal(flow_text(sign(both_a, "a2", ec_key, one_of(0x41)), "resource"), resource);
    static const struct {
        const char *token;
        const char *key_id;
        uint8_t fill;
    } others[] = { { both_a, ec_key, 0x42 }, { both_a, rsa_key, 0x41 }, { ci_a, ec_key, 0x41 } };
    char key[64];
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        (void)snprintf(key, sizeof(key), "other-%zu", i);
        answer = sign(others[i].token, key, others[i].key_id, one_of(others[i].fill));
        assert_problem(answer, 403, "approval_required");
        (void)snprintf(other, sizeof(other), "%s", flow_text(answer, "resource"));
        assert_string_not_equal(other, resource);
    }
    assert_problem(approve(resource, same_a, "self"), 403, "approver_is_requester");
    assert_problem(approve(resource, ci_a, "ci"), 403, "forbidden");
    assert_problem(sign(both_a, "a3", ec_key, one_of(0x41)), 403, "approval_required");
    assert_int_equal(atomic_load(&signer_signed), signed_before);
    test_config->policy_approval = false;
}

static void an_approval_lets_exactly_its_own_signing_pass(void **state)
{
    (void)state;
    char resource[128], fingerprint[128];
    test_config->policy_approval = true;
    (void)snprintf(fingerprint, sizeof(fingerprint), "%s", previewed(PREVIEW, both_a, ec_key, one_of(0x51)));
    struct answer *answer = call("POST", SIGN, both_a, "p1", body_of(ec_key, one_of(0x51), fingerprint));
    assert_problem(answer, 403, "approval_required");
    (void)snprintf(resource, sizeof(resource), "%s", flow_text(answer, "resource"));
    answer = approve(resource, approver_a, "ok");
    assert_true(answer->status / 100 == 2);
    /* The old answer stands under its own key; with a new key and the same preview it is signed. */
    assert_problem(call("POST", SIGN, both_a, "p1", body_of(ec_key, one_of(0x51), fingerprint)), 403,
                   "approval_required");
    assert_status(call("POST", SIGN, both_a, "p2", body_of(ec_key, one_of(0x51), fingerprint)), 200);
    assert_problem(sign(both_a, "p3", ec_key, one_of(0x52)), 403, "approval_required");
    assert_problem(sign(both_a, "p4", rsa_key, one_of(0x51)), 403, "approval_required");
    answer = call("GET", "/api/v1/code-signing/operations?state=refused&limit=1", ci_a, NULL, NULL);
    assert_string_equal(flow_text(answer, "failure_code"), "approval_required");
    test_config->policy_approval = false;
}

static void a_rebuild_gives_the_same_answers(void **state)
{
    (void)state;
    static char before[262144];
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    uint64_t messages = 0;
    const struct answer *answer = call("GET", "/api/v1/code-signing/operations?limit=200", ci_a, NULL, NULL);
    (void)snprintf(before, sizeof(before), "%s", answer->body);
    flow_pause();
    assert_ok(store_empty_projections(test_config, NULL));
    assert_ok(projection_rebuild(op, flow_projector_config(), &messages));
    flow_resume();
    answer = call("GET", "/api/v1/code-signing/operations?limit=200", ci_a, NULL, NULL);
    assert_string_equal(answer->body, before);
}

static int start(void **state)
{
    (void)state;
    flow_start();
    flow_token("tenant-a", "operator", "operator", operator_a);
    flow_token("tenant-a", "ci", "ci", ci_a);
    flow_token("tenant-a", "approver", "approver", approver_a);
    flow_token("tenant-a", "both", "operator", both_a);
    flow_token("tenant-a", "both", "approver", same_a);
    make_key("release-ec", "ec-p256", ec_key);
    make_key("release-rsa", "rsa-3072", rsa_key);
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
        cmocka_unit_test(a_digest_of_another_size_than_its_algorithm_is_refused),
        cmocka_unit_test(longer_digests_are_signed_as_they_are),
        cmocka_unit_test(a_batch_is_refused_whole),
        cmocka_unit_test(a_batch_signs_each_digest_and_replays),
        cmocka_unit_test(without_an_approval_nothing_is_signed),
        cmocka_unit_test(an_approval_lets_exactly_its_own_signing_pass),
        cmocka_unit_test(a_rebuild_gives_the_same_answers),
    };
    return cmocka_run_group_tests_name("codesign_modes", tests, start, end);
}
