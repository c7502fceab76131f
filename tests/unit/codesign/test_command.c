/* The sealed command's text, its context, and the digest by which a repeated request is known. */
#include "testlib.h"

#include "api/codesign/internal.h"

static uint8_t digest[SHA256_LEN] = { 0xaa, 0xbb };
static const struct span digests[] = { { digest, sizeof(digest) }, { digest, sizeof(digest) } };
static const char *const roles[] = { "ci" };
static struct op *op;

static struct codesign_command usual(void)
{
    return (struct codesign_command){
        .id = { "01900000-0000-8000-8000-0000000000aa" },
        .tenant = { "acme" },
        .destination = "none",
        .request = { .key_id = { "01900000-0000-7000-8000-000000000001" },
                     .artifact_type = "a \"b\" \xc3\xbc",
                     .hash = HASH_SHA256,
                     .digests = digests,
                     .count = 2,
                     .scheme = SIGN_SCHEME_RSA_PSS,
                     .principal = "ci",
                     .roles = roles,
                     .role_count = 1 },
    };
}

static void assert_refused(const char *text)
{
    struct codesign_command command;
    if (codesign_command_parse(op, span_text(text), &command).code != FAULT_UNSEAL) {
        fail_msg("accepted: %s", text);
    }
}

#define KEY_ID   "\"key_id\":\"01900000-0000-7000-8000-000000000001\""
#define KEYLESS  "\"identity_method\":\"m\",\"identity_payload\":\"AQID\""
#define A_DIGEST "\"qrsAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\""
#define REST(mode, hash, digests)                                                                                  \
    "\"artifact_type\":\"t\",\"command_id\":\"01900000-0000-8000-8000-0000000000aa\",\"digest_algorithm\":\"" hash \
    "\",\"digests\":[" digests "],\"mode\":\"" mode "\",\"principal\":\"ci\",\"roles\":[],"                        \
    "\"schema\":\"svc.codesign.command.v1\",\"tenant_id\":\"acme\",\"transparency_destination\":\"none\""
#define SCHEME "\"signature_scheme\":\"ecdsa\""

static void what_is_not_a_whole_command_is_refused(void **state)
{
    (void)state;
    struct codesign_command command;
    assert_refused("");
    assert_refused("{}");
    assert_refused("{" KEY_ID "," REST("key", "sha256", A_DIGEST) "}"); /* no scheme */
    assert_refused("{" KEY_ID "," REST("key", "sha256", A_DIGEST) ",\"signature_scheme\":\"none\"}");
    assert_refused("{" KEY_ID "," REST("key", "sha256", A_DIGEST) "," SCHEME ",\"more\":1}");
    assert_refused("{" KEY_ID "," REST("key", "sha384", A_DIGEST) "," SCHEME "}");
    assert_refused("{" KEY_ID "," REST("key", "sha256", "") "," SCHEME "}");
    assert_refused("{" KEY_ID "," REST("key", "sha256", "\"qrs=\"") "," SCHEME "}");
    assert_refused("{" KEY_ID "," REST("other", "sha256", A_DIGEST) "," SCHEME "}");
    assert_refused("{" REST("key", "sha256", A_DIGEST) "," SCHEME "}");
    assert_refused("{" KEY_ID "," KEYLESS "," REST("key", "sha256", A_DIGEST) "," SCHEME "}");
    assert_refused("{" KEY_ID "," KEYLESS "," REST("keyless", "sha256", A_DIGEST) "," SCHEME "}");
    assert_refused("{" KEYLESS "," REST("keyless", "sha256", A_DIGEST "," A_DIGEST) "," SCHEME "}");
    static const char key[] = "{" KEY_ID "," REST("key", "sha256", A_DIGEST) "," SCHEME "}";
    static const char keyless[] = "{" KEYLESS "," REST("keyless", "sha256", A_DIGEST) "," SCHEME "}";
    assert_fault(codesign_command_parse(op, span_text(key), &command), NONE);
    assert_fault(codesign_command_parse(op, span_text(keyless), &command), NONE);
    assert_true(span_equal_text(command.request.proof, "\x01\x02\x03"));
}

static void a_command_reads_back_as_it_was_printed(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT(4096);
    struct codesign_command in = usual(), out = { 0 };
    assert_fault(codesign_command_print(&in, &text), NONE);
    assert_fault(codesign_command_parse(op, buf_span(&text), &out), NONE);
    assert_string_equal(out.id.text, in.id.text);
    assert_string_equal(out.destination, in.destination);
    assert_string_equal(out.tenant.text, in.tenant.text);
    assert_string_equal(out.request.key_id.text, in.request.key_id.text);
    assert_string_equal(out.request.artifact_type, in.request.artifact_type);
    assert_string_equal(out.request.principal, in.request.principal);
    assert_int_equal(out.request.count, 2);
    assert_true(span_equal(out.request.digests[1], in.request.digests[1]));
    assert_int_equal(out.request.role_count, 1);
    assert_string_equal(out.request.roles[0], "ci");
    assert_int_equal(out.request.scheme, in.request.scheme);
}

static void the_context_names_tenant_and_operation(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf aad = BUF_INIT(4096);
    struct codesign_command command = usual();
    assert_fault(codesign_command_aad(command.tenant, command.id, &aad), NONE);
    assert_span_text(buf_span(&aad),
                     "{\"context\":\"codesign.command\","
                     "\"operation_id\":\"01900000-0000-8000-8000-0000000000aa\",\"tenant_id\":\"acme\"}");
}

static void the_command_fingerprint_sees_every_field(void **state)
{
    (void)state;
    static uint8_t key[32] = { 3 };
    static uint8_t other_digest[SHA256_LEN] = { 0xaa, 0xbc };
    static const struct span others[] = { { digest, sizeof(digest) }, { other_digest, sizeof(other_digest) } };
    struct codesign_command changed[9], same[2] = { usual(), usual() };
    char one[FINGERPRINT_LEN + 1], two[FINGERPRINT_LEN + 1];
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        changed[i] = usual();
    }
    changed[0].id.text[0] = '1';
    changed[1].tenant.text[0] = 'b';
    changed[2].request.key_id.text[0] = '1';
    changed[3].request.artifact_type = "b";
    changed[4].request.digests = others;
    changed[5].request.scheme = SIGN_SCHEME_RSA_PKCS1;
    changed[6].request.principal = "cj";
    changed[7].request.count = 1;
    changed[8].request.hash = HASH_SHA384;
    same[0].request.role_count = 0;
    same[1].destination = "rekor-v1:https://log.example";
    struct codesign_command command = usual();
    assert_fault(codesign_command_fingerprint(&command, SPAN_ARRAY(key), one), NONE);
    assert_fault(codesign_command_fingerprint(&command, SPAN_ARRAY(key), two), NONE);
    assert_string_equal(one, two);
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        assert_fault(codesign_command_fingerprint(&changed[i], SPAN_ARRAY(key), two), NONE);
        assert_string_not_equal(one, two);
    }
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        assert_fault(codesign_command_fingerprint(&same[i], SPAN_ARRAY(key), two), NONE);
        assert_string_equal(one, two);
    }
}

static int start(void **state)
{
    (void)state;
    return FAULTED(op_new("t", (struct tenant_id){ "acme" }, 60000, &op)) ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    op_free(op);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_a_whole_command_is_refused),
        cmocka_unit_test(a_command_reads_back_as_it_was_printed),
        cmocka_unit_test(the_context_names_tenant_and_operation),
        cmocka_unit_test(the_command_fingerprint_sees_every_field),
    };
    return cmocka_run_group_tests_name("codesign_command", tests, start, end);
}
