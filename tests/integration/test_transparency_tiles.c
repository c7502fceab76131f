/*
 * Publication in a log of Rekor v2's protocol. There is no such server among Debian's packages: what answers here is
 * tests/transparency/tiles_log.py, which keeps a real tree and signs real checkpoints, but is nobody else's program.
 * Its sight of the protocol is ours; a real Rekor v2 was not met.
 */
#include "transparency_testlib.h"

static struct tiles_log ed25519, ecdsa;
static EVP_PKEY *p256, *p384;

static int set_up(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf logs = BUF_INIT(65536);
    const char *text = NULL;
    assert_non_null(mkdtemp(folder));
    p256 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    p384 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
    write_keys("ed25519", EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"));
    write_keys("ecdsa", EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"));
    tiles_start(&ed25519, path_of("ed25519.key"), "log2026-1.rekor.example.com");
    tiles_start(&ecdsa, path_of("ecdsa.key"), "log2026-2.rekor.example.com");
    static const struct {
        const char *name, *tenant, *origin;
        const struct tiles_log *log;
    } rows[] = {
        { "ed25519", "default", "log2026-1.rekor.example.com", &ed25519 },
        { "ecdsa", "umbrella", "log2026-2.rekor.example.com", &ecdsa },
        { "ecdsa-elsewhere", "wrong", "log2026-3.rekor.example.com", &ecdsa },
    };
    assert_ok(buf_text(&logs, "logs:\n"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *key = rows[i].log == &ed25519 ? "ed25519" : "ecdsa";
        assert_ok(buf_printf(&logs,
                             "  - name: %s\n    kind: rekor-v2\n    tenants: [%s]\n    url: http://127.0.0.1:%d\n"
                             "    origin: %s\n    keys:\n      - file: %s/%s.pub\n        valid_from: "
                             "2020-01-01T00:00:00Z\n",
                             rows[i].name, rows[i].tenant, rows[i].log->port, rows[i].origin, folder, key));
    }
    assert_ok(buf_cstr(&logs, &text));
    services_open(text);
    outbound_start(8);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    services_close();
    tiles_stop(&ed25519);
    tiles_stop(&ecdsa);
    EVP_PKEY_free(p256);
    EVP_PKEY_free(p384);
    const char *argv[] = { "rm", "-rf", folder, NULL };
    return run_program("rm", argv) == 0 ? 0 : 1;
}

static void a_signature_that_does_not_verify_is_refused_for_good(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    thing.digest[5] ^= 1;
    complete("default", &thing);
    assert_failed_with("default", &thing, "transparency_log_refused");
}

static void a_log_of_another_origin_is_not_believed(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    complete("wrong", &thing);
    assert_failed_with("wrong", &thing, "transparency_entry_unverified");
    assert_int_equal(events_about(&thing, "transparency.published"), 0);
}

static void an_answer_without_proof_is_not_believed(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    tiles_mode(&ecdsa, "unproven");
    complete("umbrella", &thing);
    assert_failed_with("umbrella", &thing, "transparency_entry_unverified");
    tiles_mode(&ecdsa, "");
}

static void publish(const char *tenant_text, const struct signed_thing *thing)
{
    complete(tenant_text, thing);
    wait_state(tenant_text, thing, "published");
    assert_evidence_verifies(tenant_text, thing, false); /* the log states a time, but nobody signs it */
    assert_int_equal(events_about(thing, "transparency.published"), 1);
}

static void signings_are_published_by_logs_of_either_key(void **state)
{
    (void)state;
    static const char *const tenants[] = { "default", "umbrella" };
    for (size_t i = 0; i < COUNT_OF(tenants); i++) {
        struct signed_thing plain, certified, longer;
        sign_thing(&plain, p256, "sha256");
        sign_thing(&certified, p256, "sha256");
        certify_thing(&certified, p256);
        sign_thing(&longer, p384, "sha384");
        publish(tenants[i], &plain);
        publish(tenants[i], &certified);
        publish(tenants[i], &longer);
    }
}

/* The log's only word is 409 and a number: the proof is put together from its tiles. */
static void publish_again(const char *tenant_text, const struct tiles_log *log, const struct signed_thing *thing)
{
    struct signed_thing again = *thing;
    assert_ok(uuid_new(&again.id));
    int64_t size = tiles_number(log, "/test/size");
    publish(tenant_text, &again);
    assert_int_equal(log_index_of(tenant_text, &again), log_index_of(tenant_text, thing));
    assert_int_equal(tiles_number(log, "/test/size"), size);
}

static void the_same_again_is_proven_from_tiles(void **state)
{
    (void)state;
    static const int more[] = { 0, 1, 240, 10, 3, 255, 1, 300, 1000, 64000, 1535, 2000 };
    struct signed_thing first, thing;
    sign_thing(&first, p256, "sha256");
    publish("default", &first);
    for (size_t i = 0; i < COUNT_OF(more); i++) {
        tiles_fill(&ed25519, more[i]);
        sign_thing(&thing, p256, "sha256");
        publish("default", &thing);
        publish_again("default", &ed25519, &thing);
        publish_again("default", &ed25519, &first);
    }
}

static void the_index_is_found_in_the_message_where_the_header_was_lost(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    publish("umbrella", &thing);
    tiles_mode(&ecdsa, "quiet");
    publish_again("umbrella", &ecdsa, &thing);
    tiles_mode(&ecdsa, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_that_does_not_verify_is_refused_for_good),
        cmocka_unit_test(a_log_of_another_origin_is_not_believed),
        cmocka_unit_test(an_answer_without_proof_is_not_believed),
        cmocka_unit_test(signings_are_published_by_logs_of_either_key),
        cmocka_unit_test(the_same_again_is_proven_from_tiles),
        cmocka_unit_test(the_index_is_found_in_the_message_where_the_header_was_lost),
    };
    return cmocka_run_group_tests_name("transparency/tiles", tests, set_up, tear_down);
}
