/* Not a test of right and wrong: how many publications a real Rekor v1 takes with so many in flight, on this machine,
 * now. Printed, never compared. */
#include "transparency_testlib.h"

static struct rekor rekor;

static void run(unsigned threads, int count, const char *const *tenants, size_t tenant_count)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    struct signed_thing *things = NULL;
    assert_ok(mem_new((size_t)count, sizeof(*things), &things));
    for (int i = 0; i < count; i++) {
        sign_thing(&things[i], key, "sha256");
        complete(tenants[(size_t)i % tenant_count], &things[i]);
    }
    wait_state(tenants[(size_t)(count - 1) % tenant_count], &things[count - 1], "pending");
    mono_ns begun = clock_mono();
    outbound_start(threads);
    for (int i = 0; i < count; i++) {
        wait_state(tenants[(size_t)i % tenant_count], &things[i], "published");
    }
    double seconds = (double)(clock_mono() - begun) / 1e9;
    print_message("%2u in flight, %zu tenant(s): %4d published in %6.2f s, %6.1f/s\n", threads, tenant_count, count,
                  seconds, (double)count / seconds);
    outbound_stop();
    mem_free(things);
    EVP_PKEY_free(key);
}

static void figures(void **state)
{
    (void)state;
    static const char *const tenants[] = { "default", "umbrella" };
    run(1, 30, tenants, 1);
    run(16, 400, tenants, 1);
    run(64, 2000, tenants, 1);
    run(64, 2000, tenants, 2);
}

static int set_up(void **state)
{
    (void)state;
    char logs[512];
    assert_non_null(mkdtemp(folder));
    write_keys("log", EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"));
    rekor_start(&rekor, path_of("log.key"));
    (void)snprintf(logs, sizeof(logs),
                   "logs:\n  - name: rekor\n    kind: rekor-v1\n    url: http://127.0.0.1:%d\n    keys:\n"
                   "      - file: %s\n",
                   rekor.port, path_of("log.pub"));
    services_open(logs);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    services_close();
    rekor_stop(&rekor);
    const char *argv[] = { "rm", "-rf", folder, NULL };
    return run_program("rm", argv) == 0 ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(figures) };
    return cmocka_run_group_tests_name("transparency/speed", tests, set_up, tear_down);
}
