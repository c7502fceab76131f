/* What the hot path asks of the allocator: nothing. Client, broker, journal and token room in one process, on a real
 * token; after warming up, the next allocation that any of our code makes would fail, and its signature with it. */
#include "signer-pkcs11/broker/broker.h"
#include "signer-pkcs11/client/client.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include "tests/unit/token/softhsm.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WARM  100
#define TIMES 500

struct bench {
    struct softhsm hsm;
    struct secret *pin;
    struct config *config;
    struct tokens_settings settings;
    struct tokens *tokens;
    struct journal *journal;
    struct listeners listeners;
    struct broker *broker;
    struct signer_client *client;
    int stop;
    pthread_t thread;
};

static void *serve(void *arg)
{
    struct bench *bench = arg;
    (void)broker_serve(bench->broker, bench->stop);
    return NULL;
}

static void configure(struct bench *bench)
{
    char path[160], text[512];
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    (void)snprintf(path, sizeof(path), "%s/svc.yaml", bench->hsm.folder);
    (void)snprintf(text, sizeof(text), "data_dir: \"%s/data\"\nrun_dir: \"%s/run\"\n", bench->hsm.folder,
                   bench->hsm.folder);
    assert_ok(file_write(path, span_text(text), 0600));
    assert_ok(config_load(path, &why, &bench->config));
    assert_ok(file_make_dirs(bench->config->signer_journal, 0700));
}

static void open_up(struct bench *bench)
{
    uint64_t cut = 0;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    bench->settings = (struct tokens_settings){ .config = bench->config, .count = 1 };
    bench->settings.at[0] = softhsm_settings(TEST_MODULE, bench->pin);
    assert_ok(tokens_open(&bench->settings, &why, &bench->tokens));
    assert_ok(journal_open(bench->config->signer_journal, bench->config->signer_journal_retention, &why, &cut,
                           &bench->journal));
    assert_ok(listeners_open(bench->config, &why, &bench->listeners));
    const struct broker_parts parts = { .config = bench->config,
                                        .tokens = bench->tokens,
                                        .journal = bench->journal,
                                        .listeners = &bench->listeners,
                                        .askers = { .own = geteuid(), .own_is_all = true } };
    assert_ok(broker_new(&parts, &bench->broker));
    assert_ok(listeners_begin(&bench->listeners, &why));
    bench->stop = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&bench->thread, NULL, serve, bench), 0);
    assert_ok(signer_client_new(bench->config, &bench->client));
}

static int setup(void **state)
{
    static struct bench bench;
    softhsm_new(&bench.hsm);
    assert_ok(secret_new(span_text(SOFTHSM_PIN), &bench.pin));
    configure(&bench);
    open_up(&bench);
    *state = &bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    const uint64_t one = 1;
    mem_fail_after(-1);
    assert_int_equal(write(bench->stop, &one, sizeof(one)), sizeof(one));
    assert_int_equal(pthread_join(bench->thread, NULL), 0);
    signer_client_free(bench->client);
    assert_true(broker_drain(bench->broker, clock_mono() + 30 * NS_PER_S));
    broker_free(bench->broker);
    listeners_close(&bench->listeners, bench->config);
    journal_close(bench->journal);
    tokens_close(bench->tokens);
    secret_free(bench->pin);
    config_free(bench->config);
    (void)close(bench->stop);
    softhsm_free(&bench->hsm);
    return 0;
}

static void sign_many(struct bench *bench, enum key_algorithm algorithm, bool journalled)
{
    static const uint8_t digest[32] = { 1, 2, 3 };
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    CLEANUP(op_freep) struct op *op = NULL;
    struct sign_request request = { .key = { .tenant = { "acme" }, .purpose = KEY_PURPOSE_CODESIGN },
                                    .scheme = key_default_scheme(algorithm),
                                    .hash = HASH_SHA256,
                                    .digest = SPAN_ARRAY(digest) };
    assert_ok(op_new("test", (struct tenant_id){ "acme" }, 60000, &op));
    assert_ok(uuid_new(&request.key.id));
    assert_ok(signer_generate(op, bench->client, &request.key, algorithm, &spki));
    for (int i = 0; i < WARM + TIMES; i++) {
        if (i == WARM) {
            mem_fail_after(0);
        }
        buf_clear(&signature);
        op->deadline = clock_mono() + 60 * NS_PER_S;
        if (journalled) {
            assert_ok(uuid_new(&request.op_id));
        }
        assert_ok(signer_sign(op, bench->client, &request, &signature));
    }
    void *made = NULL;
    assert_fault(mem_new(1, 1, &made), NO_MEMORY); /* the trap was armed all the time, and nobody stepped on it */
    mem_fail_after(-1);
}

static void a_signature_with_an_elliptic_curve_key_allocates_nothing(void **state)
{
    sign_many(*state, KEY_ALGORITHM_EC_P256, false);
}

static void a_signature_with_an_rsa_key_allocates_nothing(void **state)
{
    sign_many(*state, KEY_ALGORITHM_RSA_3072, false);
}

static void a_journalled_signature_allocates_nothing(void **state)
{
    sign_many(*state, KEY_ALGORITHM_EC_P256, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_with_an_elliptic_curve_key_allocates_nothing),
        cmocka_unit_test(a_signature_with_an_rsa_key_allocates_nothing),
        cmocka_unit_test(a_journalled_signature_allocates_nothing),
    };
    return cmocka_run_group_tests_name("allocation", tests, setup, teardown);
}
