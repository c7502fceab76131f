#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/config.h"
#include "appliance/supervisor/listener_cert.h"
#include "fips/fips.h"

#include <string.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static const char *const names[] = { "localhost", "127.0.0.1", "::1", "box.example", NULL };

static struct listener_pem make(void)
{
    struct listener_pem pem = { BUF_INIT(LISTENER_PEM_MAX), BUF_INIT(LISTENER_PEM_MAX), BUF_INIT(LISTENER_PEM_MAX) };
    assert_fault(listener_cert_make(NULL, names, &pem), NONE);
    return pem;
}

static void clear(struct listener_pem *pem)
{
    buf_free(&pem->ca);
    buf_free(&pem->leaf);
    buf_free(&pem->key);
}

static bool good(const struct listener_pem *pem, const char *const *wanted, int days)
{
    return listener_cert_good(buf_span(&pem->ca), buf_span(&pem->leaf), buf_span(&pem->key), wanted, days);
}

static void parts_of_two_makings_do_not_go_together(void **state)
{
    (void)state;
    struct listener_pem one = make(), two = make();
    struct span ca = buf_span(&one.ca), leaf = buf_span(&one.leaf), key = buf_span(&one.key);
    assert_false(listener_cert_good(buf_span(&two.ca), leaf, key, names, 30));
    assert_false(listener_cert_good(ca, buf_span(&two.leaf), key, names, 30));
    assert_false(listener_cert_good(ca, leaf, buf_span(&two.key), names, 30));
    assert_false(listener_cert_good(leaf, leaf, key, names, 30)); /* a leaf is no authority */
    assert_false(listener_cert_good((struct span){ 0 }, leaf, key, names, 30));
    assert_false(listener_cert_good(span_text("rubbish"), leaf, key, names, 30));
    clear(&one);
    clear(&two);
}

static void a_name_that_is_not_covered_asks_for_a_new_one(void **state)
{
    (void)state;
    static const char *const other[] = { "localhost", "other.example", NULL }, *const address[] = { "10.0.0.1", NULL };
    struct listener_pem pem = make();
    assert_false(good(&pem, other, 30));
    assert_false(good(&pem, address, 30));
    clear(&pem);
}

static void the_end_of_its_time_asks_for_a_new_one(void **state)
{
    (void)state;
    struct listener_pem pem = make();
    assert_false(good(&pem, names, 731));
    clear(&pem);
}

static void what_was_just_made_is_good(void **state)
{
    (void)state;
    struct listener_pem pem = make();
    assert_true(good(&pem, names, 30));
    assert_true(good(&pem, names, 729));
    clear(&pem);
}

static int start_crypto(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(config_freep) struct config *config = NULL;
    if (FAULTED(config_load(NULL, &why, &config))) {
        return -1;
    }
    return FAULTED(fips_start(config, &why)) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_two_makings_do_not_go_together),
        cmocka_unit_test(a_name_that_is_not_covered_asks_for_a_new_one),
        cmocka_unit_test(the_end_of_its_time_asks_for_a_new_one),
        cmocka_unit_test(what_was_just_made_is_good),
    };
    return cmocka_run_group_tests_name("listener_cert", tests, start_crypto, NULL);
}
