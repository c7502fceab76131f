/* The page's text: escaped, and true whatever the state. */
#include "tests/testlib.h"

#include "api/tsa/page.h"

#include <stdio.h>

static struct op *op;
static struct tsa_rules rules;
static struct buf page;

static const char *text_of(const struct page_facts *facts)
{
    buf_clear(&page);
    assert_fault(page_print(facts, &page), NONE);
    assert_fault(buf_put(&page, span_of((const uint8_t *)"", 1)), NONE);
    return (const char *)page.at;
}

static void what_stands_in_the_facts_is_escaped(void **state)
{
    (void)state;
    const struct page_facts facts = { .url = "https://x/<script>\"'&", .rules = &rules };
    const char *text = text_of(&facts);
    assert_null(strstr(text, "<script"));
    assert_non_null(strstr(text, "https://x/&lt;script&gt;&quot;&#39;&amp;"));
    assert_null(strstr(text, "x/<"));
}

static void each_state_of_the_clock_is_told(void **state)
{
    (void)state;
    for (int reason = 0; reason < CLOCK_REASON_COUNT; reason++) {
        const struct page_facts facts = { .url = "u", .rules = &rules, .clock = (enum clock_reason)reason };
        const char *text = text_of(&facts);
        assert_int_equal(strstr(text, "Not trusted.") == NULL, reason == CLOCK_TRUSTED);
        assert_int_equal(strstr(text, ">Trusted.") != NULL, reason == CLOCK_TRUSTED);
    }
    const struct page_facts host = { .url = "u", .rules = &rules, .trusts_host = true };
    assert_non_null(strstr(text_of(&host), "host alone vouches"));
}

static void without_a_unit_or_a_plain_address_the_page_says_so(void **state)
{
    (void)state;
    struct page_facts facts = { .url = "https://tsa.example/tsa", .rules = &rules };
    assert_non_null(strstr(text_of(&facts), "No certified unit is in place"));
    assert_non_null(strstr(text_of(&facts), "take no https"));
    assert_non_null(strstr(text_of(&facts), "1.3.6.1.4.1.57264.2.1.1</code> (default)"));
    assert_non_null(strstr(text_of(&facts), "<dd>sha256, sha512</dd>"));
    facts.plain_url = "http://tsa.example:81/tsa";
    assert_non_null(strstr(text_of(&facts), "/tr http://tsa.example:81/tsa program.exe"));
}

static void the_plain_address_has_the_public_host_and_its_own_port(void **state)
{
    (void)state;
    static const struct {
        const char *base, *listen, *expected;
    } rows[] = {
        { "https://tsa.example", "0.0.0.0:8080", "http://tsa.example:8080/tsa" },
        { "https://tsa.example:8443", "127.0.0.1:80", "http://tsa.example/tsa" },
        { "https://tsa.example/svc", "[::]:8080", "http://tsa.example:8080/tsa" },
        { "https://[2001:db8::1]:8443", "[::]:8080", "http://[2001:db8::1]:8080/tsa" },
        { "https://[2001:db8::1]", ":8080", "http://[2001:db8::1]:8080/tsa" },
        { "https://[broken", "0.0.0.0:8080", NULL },
        { "https://", "0.0.0.0:8080", NULL },
        { "https://tsa.example", "8080", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *url = "unset";
        assert_fault(page_plain_url(op, rows[i].base, rows[i].listen, "/tsa", &url), NONE);
        if (rows[i].expected == NULL) {
            assert_null(url);
        } else {
            assert_string_equal(url, rows[i].expected);
        }
    }
}

static int setup(void **state)
{
    (void)state;
    static const char *hashes[] = { "sha256", "sha512" };
    const struct config config = { .tsa_policy = "1.3.6.1.4.1.57264.2.1.1", .tsa_hashes = { hashes, 2 } };
    page = (struct buf)BUF_INIT(65536);
    BUG_IF(FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)));
    return FAULTED(tsa_rules_init(op, &config, &rules)) ? -1 : 0;
}
static int teardown(void **state)
{
    (void)state;
    tsa_rules_clear(&rules);
    buf_free(&page);
    op_free(TAKE(op));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stands_in_the_facts_is_escaped),
        cmocka_unit_test(each_state_of_the_clock_is_told),
        cmocka_unit_test(without_a_unit_or_a_plain_address_the_page_says_so),
        cmocka_unit_test(the_plain_address_has_the_public_host_and_its_own_port),
    };
    return cmocka_run_group_tests_name("page", tests, setup, teardown);
}
