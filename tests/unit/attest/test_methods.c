/* The file of identity methods: what is refused, with its line, and what a method is by default. */
#include "unit/attest/issuer.h"

static struct op *op;
static EVP_PKEY *key;
static char folder[] = "/tmp/svc-attest-XXXXXX";
static const char *jwks, *ca;
static struct buf why = BUF_INIT(2048);
static struct attest *attest;

#define BASE                                  \
    "attestors:\n"                            \
    "  - method: ci\n"                        \
    "    tenant: acme\n"                      \
    "    kind: generic\n"                     \
    "    issuer: https://ci.example\n"        \
    "    audience: [svc]\n"                   \
    "    jwks_url: https://ci.example/jwks\n" \
    "    san: 'https://ci.example/{sub}'\n"

static struct fault parse(const char *yaml)
{
    attest_free(TAKE(attest));
    buf_clear(&why);
    return attest_parse(span_text(yaml), "attestors.yaml", NULL, &why, &attest);
}

static const char *said(void)
{
    const char *text = NULL;
    assert_fault(buf_cstr(&why, &text), NONE);
    return text;
}

static void assert_refused(const char *yaml, const char *part)
{
    assert_fault(parse(yaml), CONFIG);
    assert_null(attest);
    if (strncmp(said(), "attestors.yaml:", 15) != 0 || strstr(said(), part) == NULL) {
        fail_msg("'%s' does not say '%s'", said(), part);
    }
}

/* BASE with one text in it replaced. */
static const char *with(const char *what, const char *by)
{
    const char *at = strstr(BASE, what), *text = NULL;
    assert_non_null(at);
    assert_fault(arena_printf(op->arena, &text, "%.*s%s%s", (int)(at - BASE), BASE, by, at + strlen(what)), NONE);
    return text;
}
static const char *plus(const char *more)
{
    const char *text = NULL;
    assert_fault(arena_printf(op->arena, &text, "%s%s", BASE, more), NONE);
    return text;
}

static void a_file_is_one_list_of_methods(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "attestors:\n",
                                       "attestors: []\n",
                                       "attestors: {}\n",
                                       "methods: []\n",
                                       "attestors: [x]\n",
                                       "other: 1\n" BASE,
                                       "[1]\n" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(bad[i], "");
    }
    assert_refused("attestors: [x\n", "");
    assert_refused("attestors: &a [x]\n", "");
}

static void every_key_is_due_known_and_of_its_form(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        { "method: ci", "method: CI", "2: method: 'CI'" },
        { "method: ci", "method: ''", "2: method: must be" },
        { "method: ci", "method: [ci]", "2: method: must be" },
        { "    tenant: acme\n", "", "2: tenant: is missing" },
        { "tenant: acme", "tenant: 'Acme Inc'", "3: tenant" },
        { "kind: generic", "kind: jenkins", "4: kind: 'jenkins'" },
        { "issuer: https://ci.example", "issuer: http://ci.example", "5: issuer" },
        { "issuer: https://ci.example", "issuer: ci.example", "5: issuer" },
        { "audience: [svc]", "audience: []", "6: audience: must be a list" },
        { "audience: [svc]", "audience: svc", "6: audience: must be a list" },
        { "audience: [svc]", "audience: [svc, svc]", "6: audience: 'svc' stands there twice" },
        { "audience: [svc]", "audience: ['']", "audience" },
        { "audience: [svc]", "audience: ['a{b}']", "characters" },
        { "jwks_url: https://ci.example/jwks", "jwks_url: http://ci.example/jwks", "7: jwks_url" },
        { "jwks_url: https://ci.example/jwks", "jwks_url: HTTPS://ci.example/jwks", "7: jwks_url" },
        { "jwks_url: https://ci.example/jwks", "jwks_url: https://u:p@ci.example/jwks", "7: jwks_url" },
        { "jwks_url: https://ci.example/jwks", "jwks_url: 'https://ci.example/jwks#x'", "7: jwks_url" },
        { "jwks_url: https://ci.example/jwks", "jwks_url: 'https:///jwks'", "7: jwks_url" },
        { "jwks_url: https://ci.example/jwks", "jwks_url: 'file:///etc/x'", "7: jwks_url" },
        { "    jwks_url: https://ci.example/jwks\n", "", "2: ci: give exactly one of jwks_url and jwks_file" },
        { "jwks_url: https://ci.example/jwks", "jwks_file: jwks.json",
          "7: jwks_file: 'jwks.json' must be an absolute" },
        { "san: 'https://ci.example/{sub}'", "san: 'https://ci.example/'", "8: san" },
        { "san: 'https://ci.example/{sub}'", "san: '{}'", "8: san" },
        { "san: 'https://ci.example/{sub}'", "san: '{sub'", "8: san" },
        { "san: 'https://ci.example/{sub}'", "san: 'sub}'", "8: san" },
        { "san: 'https://ci.example/{sub}'", "san: '{a{b}}'", "8: san" },
        { "san: 'https://ci.example/{sub}'", "san: '{a\"b}'", "8: san" },
        { "san: 'https://ci.example/{sub}'", "san: 'x y{sub}'", "8: san" },
        { "    san: 'https://ci.example/{sub}'\n", "", "2: ci: a generic method needs a san" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_refused(with(cases[i][0], cases[i][1]), cases[i][2]);
    }
    static const char *const more[][2] = {
        { "    jwk_url: x\n", "9: jwk_url: an identity method has no such key" },
        { "    tenant: acme\n", "" },
        { "    algorithms: [RS256, none]\n", "9: algorithms: 'none'" },
        { "    algorithms: [HS256]\n", "9: algorithms: 'HS256'" },
        { "    algorithms: [EdDSA]\n", "9: algorithms" },
        { "    algorithms: [ES512]\n", "9: algorithms" },
        { "    algorithms: []\n", "9: algorithms" },
        { "    algorithms: RS256\n", "9: algorithms" },
        { "    required_claims: [a]\n", "9: required_claims: must be a mapping" },
        { "    required_claims: {a: [b]}\n", "9: a: must be a text" },
        { "    required_claims: {a: ''}\n", "9: a: must be a text" },
        { "    required_claims: {'a\"b': c}\n", "9: required_claims" },
        { "    leeway: 6m\n", "9: leeway" },
        { "    leeway: -1s\n", "9: leeway" },
        { "    leeway: soon\n", "9: leeway" },
        { "    max_lifetime: 25h\n", "9: max_lifetime" },
        { "    max_lifetime: 0s\n", "9: max_lifetime" },
        { "    san_kind: uuid\n", "9: san_kind: 'uuid'" },
        { "    url: https://git.example\n", "2: ci: a generic method has no url" },
        { "    jwks_file: /nowhere/jwks.json\n", "2: ci: give exactly one" },
        { "    jwks_ca_file: /nowhere/ca.pem\n", "9: jwks_ca_file: /nowhere/ca.pem cannot be read" },
    };
    for (size_t i = 0; i < COUNT_OF(more); i++) {
        assert_refused(plus(more[i][0]), more[i][1]);
    }
    assert_refused(plus("    url: https://git.example/\n"), "url: must not end");
}

static void a_method_is_named_once_in_a_tenant(void **state)
{
    (void)state;
    static const char more[] =
        "  - {method: ci, tenant: %s, kind: gitlab-ci, issuer: https://x.example, audience: [svc], "
        "jwks_url: https://x.example/jwks}\n";
    const char *text = NULL;
    assert_fault(arena_printf(op->arena, &text, more, "acme"), NONE);
    assert_refused(plus(text), "9: method: 'ci' is there already for tenant acme");
    assert_fault(arena_printf(op->arena, &text, more, "other"), NONE);
    assert_fault(parse(plus(text)), NONE);
    assert_int_equal(attest->method_count, 2);
}

static const char *with_jwks(const char *path)
{
    const char *by = NULL;
    assert_fault(arena_printf(op->arena, &by, "jwks_file: %s", path), NONE);
    return with("jwks_url: https://ci.example/jwks", by);
}

static void a_pinned_key_set_must_be_there_and_good(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"keys\":{}}",
        "{\"keys\":[]}",
        "{\"keys\":[7]}",
        "{\"keys\":[{}]}",
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AA\"}]}",
        "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AA\",\"e\":\"AQAB\"}]}",
        "{\"keys\":[],\"keys\":[]}",
    };
    assert_refused(with_jwks("/nowhere/jwks.json"), "7: jwks_file: /nowhere/jwks.json cannot be read");
    assert_refused(with_jwks(folder), "7: jwks_file");
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(with_jwks(issuer_file(op, folder, "bad.json", bad[i])), "7: jwks_file");
    }
    const char *twice = NULL, *one = issuer_jwk(op, key, "a", "");
    assert_fault(arena_printf(op->arena, &twice, "{\"keys\":[%s,%s]}", one, one), NONE);
    assert_refused(with_jwks(issuer_file(op, folder, "bad.json", twice)), "one kid and type");
    assert_fault(parse(with_jwks(jwks)), NONE);
    assert_int_equal(attest->source_count, 1);
}

static void an_authority_file_must_hold_a_certificate(void **state)
{
    (void)state;
    const char *text = NULL;
    assert_fault(arena_printf(op->arena, &text, "    jwks_ca_file: %s\n", jwks), NONE);
    assert_refused(plus(text), "9: jwks_ca_file");
    assert_fault(arena_printf(op->arena, &text, "    jwks_ca_file: %s\n", ca), NONE);
    assert_fault(parse(plus(text)), NONE);
    assert_fault(parse(with("    jwks_url: https://ci.example/jwks\n", "")), CONFIG);
}

static void a_file_that_is_missing_stops_the_start(void **state)
{
    (void)state;
    struct config config = { .keyless_enabled = true, .attestors_file = "" };
    struct services services = { .config = &config };
    op->note = (struct fault_note){ 0 };
    assert_fault(attest_start(op, &services), CONFIG);
    assert_non_null(strstr(op->note.detail, "code_signing.keyless.attestors_file"));
    config.attestors_file = "/nowhere/attestors.yaml";
    op->note = (struct fault_note){ 0 };
    assert_fault(attest_start(op, &services), CONFIG);
    assert_non_null(strstr(op->note.detail, "/nowhere/attestors.yaml"));
    config.attestors_file = issuer_file(op, folder, "attestors.yaml", with_jwks("/nowhere/jwks.json"));
    op->note = (struct fault_note){ 0 };
    assert_fault(attest_start(op, &services), CONFIG);
    assert_non_null(strstr(op->note.detail, "attestors.yaml:7: jwks_file"));
    assert_null(services.attest);
    config.attestors_file = issuer_file(op, folder, "attestors.yaml", with_jwks(jwks));
    assert_fault(attest_start(op, &services), NONE);
    assert_non_null(services.attest);
    attest_stop(&services);
    assert_null(services.attest);
    config.keyless_enabled = false;
    config.attestors_file = "";
    assert_fault(attest_start(op, &services), NONE);
    assert_null(services.attest);
}

static void defaults_are_those_of_the_kind(void **state)
{
    (void)state;
    static const char methods[] =
        "attestors:\n"
        "  - {method: gh, tenant: acme, kind: github-actions, issuer: https://a.example, audience: [svc], jwks_url: "
        "https://a.example/jwks}\n"
        "  - {method: ghes, tenant: acme, kind: github-actions, issuer: https://a.example, audience: [svc], jwks_url: "
        "https://a.example/jwks, url: https://git.example, leeway: 1m, max_lifetime: 5m, algorithms: [PS384]}\n"
        "  - {method: gl, tenant: acme, kind: gitlab-ci, issuer: https://b.example, audience: [svc], jwks_url: "
        "https://b.example/jwks}\n";
    assert_fault(parse(methods), NONE);
    const struct method *gh = &attest->methods[0], *ghes = &attest->methods[1], *gl = &attest->methods[2];
    assert_string_equal(gh->san, "https://github.com/{job_workflow_ref}");
    assert_string_equal(ghes->san, "https://git.example/{job_workflow_ref}");
    assert_string_equal(gl->san, "https://{ci_config_ref_uri}");
    assert_string_equal(gl->url, "https://gitlab.com");
    assert_int_equal(gh->algorithm_count, 2);
    assert_string_equal(ghes->algorithms[0], "PS384");
    assert_int_equal(gh->leeway_us, 30 * US_PER_S);
    assert_int_equal(gh->max_lifetime_us, 3600 * US_PER_S);
    assert_int_equal(ghes->leeway_us, 60 * US_PER_S);
    assert_ptr_equal(gh->keys, ghes->keys); /* one source, fetched once for both */
    assert_ptr_not_equal(gh->keys, gl->keys);
    assert_int_equal(attest->source_count, 2);
}

static void digest_of(const char *yaml, const char *tenant, char ret_text[65])
{
    struct services services = { 0 };
    assert_fault(parse(yaml), NONE);
    services.attest = attest;
    assert_fault(tenant_id_parse(span_text(tenant), &op->tenant), NONE);
    assert_fault(attest_digest(op, &services, ret_text), NONE);
}

static void the_digest_changes_with_whatever_is_configured_for_the_tenant(void **state)
{
    (void)state;
    char base[65], other[65], again[65];
    digest_of(BASE, "acme", base);
    assert_int_equal(strlen(base), 64);
    digest_of(BASE, "acme", again);
    assert_string_equal(base, again);
    static const char *const changes[][2] = {
        { "method: ci", "method: cj" },
        { "issuer: https://ci.example", "issuer: https://cj.example" },
        { "audience: [svc]", "audience: [svc, b]" },
        { "/jwks\n", "/jwks2\n" },
        { "{sub}", "{x}" },
        { "    san:", "    san_kind: uri\n    san:" },
        { "    san:", "    leeway: 31s\n    san:" },
        { "    san:", "    max_lifetime: 2h\n    san:" },
        { "    san:", "    algorithms: [RS256]\n    san:" },
        { "    san:", "    required_claims: {a: b}\n    san:" },
    };
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        digest_of(with(changes[i][0], changes[i][1]), "acme", other);
        assert_string_not_equal(base, other);
    }
    /* The bytes of a pinned file count; another tenant's methods do not. */
    const char *pinned = with_jwks(jwks);
    digest_of(pinned, "acme", base);
    const char *text = NULL;
    assert_fault(arena_printf(op->arena, &text, "{\"keys\":[%s]}", issuer_jwk(op, key, "b", "")), NONE);
    digest_of(with_jwks(issuer_file(op, folder, "bad.json", text)), "acme", other);
    assert_string_not_equal(base, other);
    digest_of(
        plus("  - {method: x, tenant: other, kind: gitlab-ci, issuer: https://x.example, audience: [svc], jwks_url: "
             "https://x.example/jwks}\n"),
        "acme", again);
    digest_of(BASE, "acme", base);
    assert_string_equal(base, again);
    op->tenant = (struct tenant_id){ "acme" };
}

static const char *pinned_twice;

static struct fault parse_pinned(void)
{
    struct attest *made = NULL;
    CLEANUP(buf_free) struct buf words = BUF_INIT(2048);
    TRY(attest_parse(span_text(pinned_twice), "a.yaml", NULL, &words, &made));
    attest_free(made);
    return OK;
}

static void no_failing_allocation_leaves_anything_behind(void **state)
{
    (void)state;
    pinned_twice = with_jwks(jwks);
    assert_true(fail_each_allocation(parse_pinned) > 10);
}

/* ---- the bench ---- */

static const char *make_ca(void)
{
    X509 *certificate = X509_new();
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    char *pem = NULL;
    const char *text = NULL;
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), 0));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), 3600));
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_bio_X509(bio, certificate), 1);
    long len = BIO_get_mem_data(bio, &pem);
    assert_fault(arena_text(op->arena, span_of(pem, (size_t)len), &text), NONE);
    X509_free(certificate);
    return issuer_file(op, folder, "ca.pem", text);
}

static int set_up(void **state)
{
    (void)state;
    const char *text = NULL;
    assert_non_null(mkdtemp(folder));
    assert_fault(op_new("test", (struct tenant_id){ "acme" }, 600000, &op), NONE);
    key = EVP_EC_gen("P-256");
    assert_fault(arena_printf(op->arena, &text, "{\"keys\":[%s]}", issuer_jwk(op, key, "a", "")), NONE);
    jwks = issuer_file(op, folder, "jwks.json", text);
    ca = make_ca();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const files[] = { "jwks.json", "bad.json", "attestors.yaml", "ca.pem" };
    char path[256];
    attest_free(TAKE(attest));
    buf_free(&why);
    op_free(op);
    EVP_PKEY_free(key);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_one_list_of_methods),
        cmocka_unit_test(every_key_is_due_known_and_of_its_form),
        cmocka_unit_test(a_method_is_named_once_in_a_tenant),
        cmocka_unit_test(a_pinned_key_set_must_be_there_and_good),
        cmocka_unit_test(an_authority_file_must_hold_a_certificate),
        cmocka_unit_test(a_file_that_is_missing_stops_the_start),
        cmocka_unit_test(defaults_are_those_of_the_kind),
        cmocka_unit_test(the_digest_changes_with_whatever_is_configured_for_the_tenant),
        cmocka_unit_test(no_failing_allocation_leaves_anything_behind),
    };
    return cmocka_run_group_tests_name("methods", tests, set_up, tear_down);
}
