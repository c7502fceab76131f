#include "testlib.h"

#include "api/identity/internal.h"

static const char good[] = "svc_acme_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"; /* 43 characters of secret */

static void assert_no_token(const char *text)
{
    struct tenant_id tenant = { "" };
    struct sha256 hash;
    if (!FAULTED(token_text_parse(span_text(text), &tenant, &hash))) {
        fail_msg("accepted: %s", text);
    }
}

static void what_is_not_exactly_a_token_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "svc_",
        "svc_acme",
        "svc_acme_",
        "svc__AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",      /* no tenant */
        "svc_acmeAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", /* no separator */
        "SVC_acme_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",  /* prefix */
        "svc_Acme_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",  /* not a tenant id */
        "svc_ac/me_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "svc_acme_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",   /* 42 */
        "svc_acme_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", /* 44 */
        "svc_acme_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB",  /* trailing bits */
        "svc_acme_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",  /* padding */
        "svc_acme_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA+",  /* the other alphabet */
        " svc_acme_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_no_token(bad[i]);
    }
    char longer[400];
    memset(longer, 'a', sizeof(longer));
    memcpy(longer, "svc_", 4);
    longer[sizeof(longer) - 1] = '\0';
    longer[sizeof(longer) - 45] = '_';
    assert_no_token(longer);
}

static void a_made_token_parses_to_its_tenant_and_hash(void **state)
{
    (void)state;
    struct tenant_id longest = { "" };
    memset(longest.text, 'a', 63);
    const struct tenant_id tenants[] = { { "a" }, { "default" }, { "a-b-c" }, longest };
    for (size_t i = 0; i < COUNT_OF(tenants); i++) {
        char text[TOKEN_TEXT_MAX], other[TOKEN_TEXT_MAX];
        struct tenant_id tenant = { "" };
        struct sha256 made, parsed;
        assert_fault(token_text_make(tenants[i], text, &made), NONE);
        assert_fault(token_text_parse(span_text(text), &tenant, &parsed), NONE);
        assert_true(tenant_id_equal(tenant, tenants[i]));
        assert_memory_equal(made.at, parsed.at, SHA256_LEN);
        assert_fault(token_text_make(tenants[i], other, &made), NONE);
        assert_string_not_equal(text, other);
    }
}

static void the_hash_covers_the_tenant_too(void **state)
{
    (void)state;
    char other[sizeof(good)];
    struct tenant_id tenant;
    struct sha256 one, two;
    memcpy(other, good, sizeof(good));
    other[4] = 'b';
    assert_fault(token_text_parse(span_text(good), &tenant, &one), NONE);
    assert_fault(token_text_parse(span_text(other), &tenant, &two), NONE);
    assert_memory_not_equal(one.at, two.at, SHA256_LEN);
}

static void only_a_bearer_header_carries_a_token(void **state)
{
    (void)state;
    static const char *const bad[] = { NULL,          "",           "Bearer",   "Bearer ", "Basic abc",
                                       "Bearer  abc", "Bearer a b", "Bearerabc" };
    struct span token = { 0 };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(bearer_parse(bad[i], &token), UNAUTHENTICATED);
    }
    assert_fault(bearer_parse("Bearer abc", &token), NONE);
    assert_span_text(token, "abc");
    assert_fault(bearer_parse("bEARER abc", &token), NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_exactly_a_token_is_refused),
        cmocka_unit_test(a_made_token_parses_to_its_tenant_and_hash),
        cmocka_unit_test(the_hash_covers_the_tenant_too),
        cmocka_unit_test(only_a_bearer_header_carries_a_token),
    };
    return cmocka_run_group_tests_name("token_text", tests, NULL, NULL);
}
