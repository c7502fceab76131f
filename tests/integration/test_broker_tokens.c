/*
 * Several tokens in one svc-signer, described by token.tokens_file: the rig's own (SoftHSM, or with SVC_TEST_TOKEN=nss
 * NSS softokn) and a second one of SoftHSM.
 */
#include "integration/signer.h"

static struct rig rig;

static void second_token(void)
{
    char *argv[] = {
        (char *)"softhsm2-util", (char *)"--init-token", (char *)"--free",   (char *)"--label",     (char *)"second",
        (char *)"--pin",         (char *)"5678-other",   (char *)"--so-pin", (char *)"so-pin-1234", NULL
    };
    if (test_token_is_nss()) {
        rig_softhsm(&rig);
    }
    assert_int_equal(rig_run(&rig, argv, NULL), 0);
    rig_write(&rig, "data/signer/second-pin", "5678-other\n", 0600);
}

static void write_file(const char *second_name)
{
    char args[512] = "", text[2048];
    if (test_token_is_nss()) {
        char folder[128];
        (void)snprintf(folder, sizeof(folder), "%s/data/nss", rig.folder);
        nss_init_args(folder, "svc", args, sizeof(args));
    }
    (void)snprintf(text, sizeof(text),
                   "tokens:\n"
                   "  - name: first\n"
                   "    module: %s\n"
                   "    label: svc\n"
                   "    pin_file: %s/data/signer/pin\n"
                   "%s%s%s"
                   "  - name: %s\n"
                   "    module: /usr/lib/softhsm/libsofthsm2.so\n"
                   "    label: second\n"
                   "    pin_file: %s/data/signer/second-pin\n"
                   "    sessions: 3\n",
                   test_token_is_nss() ? NSS_MODULE : "/usr/lib/softhsm/libsofthsm2.so", rig.folder,
                   args[0] != '\0' ? "    init_args: \"" : "", args, args[0] != '\0' ? "\"\n" : "", second_name,
                   rig.folder);
    rig_write(&rig, "tokens.yaml", text, 0600);
}

static int rig_for_all(void **state)
{
    char more[320];
    (void)state;
    rig_new(&rig, "");
    second_token();
    write_file("second");
    (void)snprintf(more, sizeof(more), "token: {tokens_file: \"%s\"}\n", rig_path(&rig, "tokens.yaml"));
    rig_configure(&rig, more);
    return 0;
}

static int no_rig_for_all(void **state)
{
    (void)state;
    rig_free(&rig);
    return 0;
}

static void two_tokens_of_one_name_refuse_the_start(void **state)
{
    (void)state;
    write_file("first");
    assert_int_equal(rig_signer_ends(&rig), 2);
    assert_true(rig_log_has(&rig, "token first.name: two tokens have this name"));
    write_file("second");
}

static void a_token_that_cannot_be_opened_is_named(void **state)
{
    (void)state;
    rig_write(&rig, "data/signer/second-pin", "5678-wrong\n", 0600);
    assert_int_equal(rig_signer_ends(&rig), 1);
    assert_true(rig_log_has(&rig, "token second: "));
    rig_write(&rig, "data/signer/second-pin", "5678-other\n", 0600); /* which makes the note of it void */
}

static void keys_live_in_the_token_that_was_named(void **state)
{
    (void)state;
    static const char *const names[] = { "first", "second", "" };
    struct key_ref keys[COUNT_OF(names)];
    rig_start(&rig);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        CLEANUP(op_freep) struct op *op = op_within(30000);
        CLEANUP(buf_free) struct buf out = BUF_INIT(WIRE_OUT);
        keys[i] = key_new(KEY_PURPOSE_CODESIGN);
        (void)snprintf(keys[i].token.text, sizeof(keys[i].token.text), "%s", names[i]);
        assert_fault(signer_generate(op, rig.client, &keys[i], KEY_ALGORITHM_EC_P256, &out), NONE);
    }
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        for (size_t k = 0; k < COUNT_OF(names); k++) {
            CLEANUP(op_freep) struct op *op = op_within(30000);
            CLEANUP(buf_free) struct buf signature = BUF_INIT(WIRE_OUT);
            struct sign_request request = request_for(keys[i], KEY_ALGORITHM_EC_P256);
            request.key.token = keys[k].token;
            bool there = (i == 1) == (k == 1); /* "" is the first */
            assert_int_equal(signer_sign(op, rig.client, &request, &signature).code,
                             there ? FAULT_NONE : FAULT_KEY_NOT_FOUND);
            if (there) {
                assert_fault(signer_verify(op, rig.client, &request, buf_span(&signature)), NONE);
            }
        }
    }
    CLEANUP(op_freep) struct op *op = op_within(30000);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(WIRE_OUT);
    struct sign_request request = request_for(keys[0], KEY_ALGORITHM_EC_P256);
    request.key.token = (struct token_name){ "third" };
    assert_fault(signer_sign(op, rig.client, &request, &signature), KEY_NOT_FOUND);
}

static void health_tells_each_token(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_within(20000);
    struct signer_health health = { 0 };
    assert_fault(signer_health(op, rig.client, &health), NONE);
    assert_int_equal(health.state, SIGNER_OK);
    assert_int_equal(health.token_count, 2);
    assert_string_equal(health.tokens[0].name.text, "first");
    assert_string_equal(health.tokens[0].label, "svc");
    assert_string_equal(health.tokens[1].name.text, "second");
    assert_string_equal(health.tokens[1].label, "second");
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_tokens_of_one_name_refuse_the_start),
        cmocka_unit_test(a_token_that_cannot_be_opened_is_named),
        cmocka_unit_test(keys_live_in_the_token_that_was_named),
        cmocka_unit_test(health_tells_each_token),
    };
    return cmocka_run_group_tests_name("tokens", tests, rig_for_all, no_rig_for_all);
}
