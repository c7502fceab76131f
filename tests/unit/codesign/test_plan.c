/* The fingerprints of preview: each part that execution must find unchanged changes them. */
#include "testlib.h"

#include "api/codesign/internal.h"

static uint8_t digest[SHA256_LEN] = { 1, 2, 3 };
static uint8_t other_digest[SHA256_LEN] = { 1, 2, 4 };
static const struct span digests[] = { { digest, sizeof(digest) } };
static const struct span other_digests[] = { { other_digest, sizeof(other_digest) } };
static uint8_t spki[91] = { 9 };
static uint8_t other_spki[91] = { 8 };
static uint8_t mac_key[32] = { 5 };
static uint8_t other_mac_key[32] = { 6 };

static struct codesign_plan usual(void)
{
    struct uuid id = { "01900000-0000-7000-8000-000000000001" };
    return (struct codesign_plan){
        .key = { .ref = { .tenant = { "acme" }, .purpose = KEY_PURPOSE_CODESIGN, .id = id },
                 .algorithm = KEY_ALGORITHM_EC_P256,
                 .name = "release",
                 .state = "active",
                 .spki = SPAN_ARRAY(spki) },
        .algorithm = KEY_ALGORITHM_EC_P256,
        .destination = "none",
        .governance = { .decision = { .outcome = POLICY_ALLOW, .rule = "r" } },
        .request = { .key_id = id,
                     .artifact_type = "binary",
                     .hash = HASH_SHA256,
                     .digests = digests,
                     .count = 1,
                     .scheme = SIGN_SCHEME_ECDSA,
                     .principal = "ci@acme" },
    };
}

static struct codesign_plan fingerprinted(struct codesign_plan plan, const char *tenant, struct span key)
{
    struct tenant_id id = { "" };
    assert_fault(tenant_id_parse(span_text(tenant), &id), NONE);
    assert_fault(codesign_fingerprints(id, key, &plan), NONE);
    assert_int_equal(strlen(plan.request_fingerprint), FINGERPRINT_LEN);
    assert_int_equal(strlen(plan.configuration_fingerprint), FINGERPRINT_LEN);
    return plan;
}

static void the_same_request_gives_the_same_fingerprints(void **state)
{
    (void)state;
    struct codesign_plan one = fingerprinted(usual(), "acme", SPAN_ARRAY(mac_key));
    struct codesign_plan two = fingerprinted(usual(), "acme", SPAN_ARRAY(mac_key));
    assert_string_equal(one.request_fingerprint, two.request_fingerprint);
    assert_string_equal(one.configuration_fingerprint, two.configuration_fingerprint);
}

static void tenant_and_mac_key_bind_the_request(void **state)
{
    (void)state;
    struct codesign_plan one = fingerprinted(usual(), "acme", SPAN_ARRAY(mac_key));
    assert_string_not_equal(one.request_fingerprint,
                            fingerprinted(usual(), "other", SPAN_ARRAY(mac_key)).request_fingerprint);
    assert_string_not_equal(one.request_fingerprint,
                            fingerprinted(usual(), "acme", SPAN_ARRAY(other_mac_key)).request_fingerprint);
}

static void every_part_of_the_request_binds_it(void **state)
{
    (void)state;
    struct codesign_plan changed[7];
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        changed[i] = usual();
    }
    changed[0].request.digests = other_digests;
    changed[1].request.artifact_type = "container";
    changed[2].request.principal = "ci@acmf";
    changed[3].request.key_id.text[35] = '2';
    changed[4].request.scheme = SIGN_SCHEME_RSA_PSS;
    changed[5].algorithm = KEY_ALGORITHM_EC_P384;
    changed[6].request.hash = HASH_SHA384;
    struct codesign_plan one = fingerprinted(usual(), "acme", SPAN_ARRAY(mac_key));
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        struct codesign_plan two = fingerprinted(changed[i], "acme", SPAN_ARRAY(mac_key));
        if (strcmp(one.request_fingerprint, two.request_fingerprint) == 0) {
            fail_msg("change %zu left the fingerprint as it was", i);
        }
    }
}

static void key_and_its_state_change_the_configuration_and_with_it_the_request(void **state)
{
    (void)state;
    struct codesign_plan rotated = usual(), destroyed = usual();
    rotated.key.spki = SPAN_ARRAY(other_spki);
    destroyed.key.state = "destroyed";
    struct codesign_plan one = fingerprinted(usual(), "acme", SPAN_ARRAY(mac_key));
    rotated = fingerprinted(rotated, "acme", SPAN_ARRAY(mac_key));
    destroyed = fingerprinted(destroyed, "acme", SPAN_ARRAY(mac_key));
    assert_string_not_equal(one.configuration_fingerprint, rotated.configuration_fingerprint);
    assert_string_not_equal(one.request_fingerprint, rotated.request_fingerprint);
    assert_string_not_equal(one.configuration_fingerprint, destroyed.configuration_fingerprint);
    assert_string_not_equal(one.request_fingerprint, destroyed.request_fingerprint);
}

static void policy_and_destination_are_configuration_and_an_approval_is_not(void **state)
{
    (void)state;
    struct codesign_plan changed[5], approved = usual();
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        changed[i] = usual();
    }
    changed[0].governance.decision.outcome = POLICY_APPROVE;
    changed[1].governance.decision.rule = "s";
    changed[2].policy_digest[0] = 'a';
    changed[3].logs_digest[0] = 'a';
    changed[4].destination = "rekor-v1:https://log.example";
    approved.governance.approval.state = APPROVAL_APPROVED;
    approved.governance.approval.approvals = 2;
    struct codesign_plan one = fingerprinted(usual(), "acme", SPAN_ARRAY(mac_key));
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        struct codesign_plan two = fingerprinted(changed[i], "acme", SPAN_ARRAY(mac_key));
        assert_string_not_equal(one.request_fingerprint, two.request_fingerprint);
    }
    approved = fingerprinted(approved, "acme", SPAN_ARRAY(mac_key));
    assert_string_equal(one.request_fingerprint, approved.request_fingerprint);
}

static void a_keyless_request_is_bound_to_its_proof_and_the_methods(void **state)
{
    (void)state;
    static const uint8_t proof[] = "a.b.c", other_proof[] = "a.b.d";
    struct codesign_plan plan = usual(), changed[5];
    plan.request.mode = CODESIGN_KEYLESS;
    plan.request.identity_method = "github-actions";
    plan.request.proof = SPAN_ARRAY(proof);
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        changed[i] = plan;
    }
    changed[0].request.proof = SPAN_ARRAY(other_proof);
    changed[1].request.identity_method = "gitlab";
    changed[2].request.expected_san = "https://x";
    changed[3].request.expected_issuer = "https://x";
    changed[4].methods_digest[0] = 'a';
    struct codesign_plan one = fingerprinted(plan, "acme", SPAN_ARRAY(mac_key));
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        struct codesign_plan two = fingerprinted(changed[i], "acme", SPAN_ARRAY(mac_key));
        assert_string_not_equal(one.request_fingerprint, two.request_fingerprint);
    }
}

static void a_difference_is_told_by_name(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    struct codesign_plan one = fingerprinted(usual(), "acme", SPAN_ARRAY(mac_key)), changed[4];
    static const char *const names[] = { "the caller: make", "digest, artifact type or scheme: make",
                                         "the key or identity proof: make", "the configuration (" };
    assert_fault(op_new("t", (struct tenant_id){ "acme" }, 1000, &op), NONE);
    assert_fault(codesign_plan_compare(op, &one, ""), PREVIEW_CHANGED);
    assert_non_null(strstr(op->note.detail, "no fingerprint"));
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        changed[i] = usual();
    }
    changed[0].request.principal = "x";
    changed[1].request.digests = other_digests;
    changed[2].request.key_id.text[35] = '2';
    changed[3].key.state = "destroyed";
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        struct codesign_plan two = fingerprinted(changed[i], "acme", SPAN_ARRAY(mac_key));
        op->note = (struct fault_note){ 0 };
        assert_fault(codesign_plan_compare(op, &two, one.request_fingerprint), PREVIEW_CHANGED);
        assert_int_equal(strncmp(op->note.detail, names[i], strlen(names[i])), 0);
    }
    op->note = (struct fault_note){ 0 };
    assert_fault(codesign_plan_compare(op, &one, one.request_fingerprint), NONE);
}

static void what_a_body_may_say(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    struct codesign_request request;
    struct codesign_body body = { .artifact_type = "t", .digest = SPAN_ARRAY(digest) };
    const char *texts[] = { "AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AQID", "?" };
    assert_fault(op_new("t", (struct tenant_id){ "acme" }, 1000, &op), NONE);
    body.digest_algorithm = "sha384";
    assert_fault(codesign_request_read(op, FORM_SIGN, &body, &request), DIGEST_LENGTH);
    body.digest_algorithm = "md5";
    op->note = (struct fault_note){ 0 };
    assert_fault(codesign_request_read(op, FORM_SIGN, &body, &request), JSON_FIELD);
    assert_string_equal(op->note.pointer, "/digest_algorithm");
    body.digest_algorithm = NULL;
    body.digests = (struct jin_texts){ texts, 3 };
    op->note = (struct fault_note){ 0 };
    assert_fault(codesign_request_read(op, FORM_BATCH, &body, &request), DIGEST_LENGTH);
    assert_string_equal(op->note.pointer, "/digests/1");
    texts[1] = texts[0];
    op->note = (struct fault_note){ 0 };
    assert_fault(codesign_request_read(op, FORM_BATCH, &body, &request), JSON_FIELD);
    assert_string_equal(op->note.pointer, "/digests/2");
    body.artifact_type = "a\nb";
    assert_fault(codesign_request_read(op, FORM_SIGN, &body, &request), JSON_FIELD);
    body.artifact_type = "t";
    assert_fault(codesign_request_read(op, FORM_SIGN, &body, &request), NONE);
    assert_int_equal(request.hash, HASH_SHA256);
    body.digests.count = 2;
    assert_fault(codesign_request_read(op, FORM_BATCH, &body, &request), NONE);
    assert_int_equal(request.count, 2);
    assert_true(span_equal(request.digests[1], SPAN_ARRAY(digest)));
}

static void the_artifact_type_cannot_move_into_another_field(void **state)
{
    (void)state;
    struct codesign_plan quoted = usual();
    quoted.request.artifact_type = "binary\",\"principal\":\"ci@acme";
    quoted.request.principal = "x";
    struct codesign_plan one = fingerprinted(usual(), "acme", SPAN_ARRAY(mac_key));
    quoted = fingerprinted(quoted, "acme", SPAN_ARRAY(mac_key));
    assert_string_not_equal(one.request_fingerprint, quoted.request_fingerprint);
}

static void a_scheme_must_fit_the_key(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    enum sign_scheme scheme = SIGN_SCHEME_NONE;
    assert_fault(op_new("t", (struct tenant_id){ "acme" }, 1000, &op), NONE);
    assert_fault(codesign_scheme_choose(op, "rsa-pss", KEY_ALGORITHM_EC_P256, &scheme), JSON_FIELD);
    assert_string_equal(op->note.pointer, "/signature_scheme");
    assert_fault(codesign_scheme_choose(op, "ecdsa", KEY_ALGORITHM_RSA_3072, &scheme), JSON_FIELD);
    assert_fault(codesign_scheme_choose(op, "RSA-PSS", KEY_ALGORITHM_RSA_3072, &scheme), JSON_FIELD);
    assert_fault(codesign_scheme_choose(op, "", KEY_ALGORITHM_RSA_3072, &scheme), JSON_FIELD);
    assert_fault(codesign_scheme_choose(op, NULL, KEY_ALGORITHM_AES_256, &scheme), KEY_STATE);
    assert_int_equal(scheme, SIGN_SCHEME_NONE);
    assert_fault(codesign_scheme_choose(op, NULL, KEY_ALGORITHM_EC_P384, &scheme), NONE);
    assert_int_equal(scheme, SIGN_SCHEME_ECDSA);
    assert_fault(codesign_scheme_choose(op, NULL, KEY_ALGORITHM_RSA_3072, &scheme), NONE);
    assert_int_equal(scheme, SIGN_SCHEME_RSA_PKCS1);
    assert_fault(codesign_scheme_choose(op, "rsa-pss", KEY_ALGORITHM_RSA_4096, &scheme), NONE);
    assert_int_equal(scheme, SIGN_SCHEME_RSA_PSS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_request_gives_the_same_fingerprints),
        cmocka_unit_test(tenant_and_mac_key_bind_the_request),
        cmocka_unit_test(every_part_of_the_request_binds_it),
        cmocka_unit_test(key_and_its_state_change_the_configuration_and_with_it_the_request),
        cmocka_unit_test(policy_and_destination_are_configuration_and_an_approval_is_not),
        cmocka_unit_test(a_keyless_request_is_bound_to_its_proof_and_the_methods),
        cmocka_unit_test(a_difference_is_told_by_name),
        cmocka_unit_test(what_a_body_may_say),
        cmocka_unit_test(the_artifact_type_cannot_move_into_another_field),
        cmocka_unit_test(a_scheme_must_fit_the_key),
    };
    return cmocka_run_group_tests_name("codesign_plan", tests, NULL, NULL);
}
