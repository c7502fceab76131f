/* Identity proofs, judged by methods whose keys are pinned: what is refused, by which code, and what a good one gives.
 */
#include "unit/attest/issuer.h"

#define ISSUER_GH "https://token.actions.githubusercontent.com"
#define ISSUER_GL "https://gitlab.com"
#define ISSUER_CI "https://ci.example"
#define NOW       (INT64_C(1800000000) * US_PER_S)

#define METHODS                                                                                                       \
    "attestors:\n"                                                                                                    \
    "  - {method: github-actions, tenant: acme, kind: github-actions, issuer: " ISSUER_GH                             \
    ", audience: [svc, svc-too], jwks_file: %s, algorithms: [RS256, RS384, RS512, PS256, PS384, PS512, ES256, "       \
    "ES384],\n     required_claims: {repository_owner: acme, ref_protected: 'true', run_number: 7}}\n"                \
    "  - {method: gitlab-ci, tenant: acme, kind: gitlab-ci, issuer: " ISSUER_GL ", audience: [svc], jwks_file: %s}\n" \
    "  - {method: ci, tenant: acme, kind: generic, issuer: " ISSUER_CI                                                \
    ", audience: [svc], jwks_file: %s, san: '{sub}', leeway: 0s, max_lifetime: 10m}\n"                                \
    "  - {method: mail, tenant: acme, kind: generic, issuer: " ISSUER_CI                                              \
    ", audience: [svc], jwks_file: %s, san: '{email}', san_kind: email}\n"                                            \
    "  - {method: one, tenant: acme, kind: generic, issuer: " ISSUER_CI                                               \
    ", audience: [svc], jwks_file: %s, san: 'https://ci.example/{sub}'}\n"                                            \
    "  - {method: other, tenant: other, kind: generic, issuer: " ISSUER_CI                                            \
    ", audience: [svc], jwks_file: %s, san: '{sub}'}\n"

#define GITHUB_CLAIMS                                                                                              \
    "\"sub\":\"repo:acme/app:ref:refs/heads/main\",\"event_name\":\"push\",\"sha\":\"aaaa\",\"workflow\":"         \
    "\"Release \\u00e4\",\"repository\":\"acme/app\",\"ref\":\"refs/heads/main\",\"job_workflow_ref\":"            \
    "\"acme/flows/.github/workflows/sign.yml@refs/tags/v1\",\"job_workflow_sha\":\"bbbb\",\"runner_environment\":" \
    "\"github-hosted\",\"repository_id\":\"11\",\"repository_owner\":\"acme\",\"repository_owner_id\":\"22\","     \
    "\"workflow_ref\":\"acme/app/.github/workflows/release.yml@refs/heads/main\",\"workflow_sha\":\"cccc\","       \
    "\"run_id\":\"33\",\"run_attempt\":\"2\",\"repository_visibility\":\"private\",\"ref_protected\":true,"        \
    "\"run_number\":7,\"jti\":\"x\""
#define GITLAB_CLAIMS                                                                                           \
    "\"sub\":\"project_path:acme/app:ref_type:branch:ref:main\",\"ci_config_ref_uri\":"                         \
    "\"gitlab.com/acme/app//.gitlab-ci.yml@refs/heads/main\",\"runner_environment\":\"self-hosted\","           \
    "\"project_path\":\"acme/app\",\"sha\":\"aaaa\",\"ref\":\"main\",\"project_id\":\"11\",\"namespace_path\":" \
    "\"acme\",\"namespace_id\":\"22\",\"pipeline_source\":\"push\",\"job_id\":\"44\",\"project_visibility\":"   \
    "\"public\",\"runner_id\":9,\"user_access_level\":null"
#define TIMES_OK ",\"iat\":1799999990,\"nbf\":1799999990,\"exp\":1800000290"

static struct op *op;    /* texts that a test makes */
static struct op *judge; /* the operation that judged last: what it gave lives until the next */
static struct services services;
static EVP_PKEY *rsa, *rsa_too, *weak, *p256, *p384, *p521;
static char folder[] = "/tmp/svc-attest-XXXXXX";

static int fresh(void **state)
{
    (void)state;
    op_free(op);
    return FAULTED(op_new("test", (struct tenant_id){ "acme" }, 600000, &op)) ? -1 : 0;
}

static void clean(void)
{
    op_free(judge);
    assert_fault(op_new("judge", (struct tenant_id){ "acme" }, 600000, &judge), NONE);
}

static struct fault verify(const char *method, const char *token, struct attested *ret_attested)
{
    clean();
    struct fault fault = attest_verify(judge, &services, method, span_text(token), NOW, ret_attested);
    if (FAULTED(fault)) {
        assert_true(judge->note.set && judge->note.code == fault.code && judge->note.detail[0] != '\0');
    }
    return fault;
}

/* The fault, and that its words say `part`. */
static void assert_refused_as(enum fault_code code, const char *method, const char *token, const char *part)
{
    struct attested attested = { 0 };
    struct fault fault = verify(method, token, &attested);
    assert_string_equal(fault_row(fault.code)->text, fault_row(code)->text);
    assert_null(attested.san);
    assert_null(attested.claims);
    if (strstr(judge->note.detail, part) == NULL) {
        fail_msg("'%s' does not say '%s'", judge->note.detail, part);
    }
    /* Nothing of the proof travels: no run of its characters as long as a part would be. */
    for (size_t i = 0; strlen(token) > 40 && i + 24 < strlen(token); i++) {
        char piece[25] = "";
        memcpy(piece, token + i, 24);
        assert_null(strstr(judge->note.detail, piece));
        assert_null(strstr(judge->note.log_detail, piece));
    }
}
#define assert_refused(sym, method, token, part) assert_refused_as(FAULT_##sym, method, token, part)

static const char *payload_of(const char *issuer, const char *aud, const char *claims, const char *times)
{
    const char *text = NULL;
    assert_fault(arena_printf(op->arena, &text, "{\"iss\":\"%s\",\"aud\":%s,%s%s}", issuer, aud, claims, times), NONE);
    return text;
}
static const char *github_payload(void)
{
    return payload_of(ISSUER_GH, "\"svc\"", GITHUB_CLAIMS, TIMES_OK);
}
static const char *ci_payload(const char *claims)
{
    return payload_of(ISSUER_CI, "\"svc\"", claims, TIMES_OK);
}
#define RS256_HEADER "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"typ\":\"JWT\",\"x5t\":\"abc\"}"
static const char *rs256(const char *payload)
{
    return issuer_token(op, rsa, "RS256", RS256_HEADER, payload);
}
static const char *with_header(const char *header)
{
    return issuer_token(op, rsa, "RS256", header, github_payload());
}

/* ---- form ---- */

static void what_is_no_compact_jws_is_malformed(void **state)
{
    (void)state;
    const char *good = rs256(github_payload());
    char text[8192];
    static const char *const bad[] = {
        "", ".", "..", "...", "a.b.c", "a.b", "{}.{}.", "e30.e30.", "e30.e30.AA==", " "
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(PROOF_MALFORMED, "github-actions", bad[i], "");
    }
    (void)snprintf(text, sizeof(text), "%s.e30", good);
    assert_refused(PROOF_MALFORMED, "github-actions", text, "three parts");
    (void)snprintf(text, sizeof(text), "%s=", good);
    assert_refused(PROOF_MALFORMED, "github-actions", text, "base64url");
    (void)snprintf(text, sizeof(text), "%s\n", good);
    assert_refused(PROOF_MALFORMED, "github-actions", text, "base64url");
    /* Cut anywhere: malformed while a part is missing or broken, a false signature at best. */
    for (size_t len = 0; len < strlen(good); len += 7) {
        (void)snprintf(text, sizeof(text), "%.*s", (int)len, good);
        struct attested attested;
        struct fault fault = verify("github-actions", text, &attested);
        assert_true(fault.code == FAULT_PROOF_MALFORMED || fault.code == FAULT_PROOF_SIGNATURE);
    }
}

static void an_oversized_proof_is_refused_before_it_is_read(void **state)
{
    (void)state;
    static char text[PROOF_MAX + 2];
    memset(text, 'A', sizeof(text) - 1);
    assert_refused(TOO_LARGE, "github-actions", text, "at most");
    clean();
    assert_fault(attest_inspect(judge, &services, "github-actions", span_text(text)), TOO_LARGE);
    text[PROOF_MAX] = '\0';
    assert_refused(PROOF_MALFORMED, "github-actions", text, "three parts");
}

static void headers_that_ask_for_more_are_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"crit\":[\"exp\"],\"exp\":1}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"b64\":false}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"jku\":\"https://ci.example/jwks\"}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"x5u\":\"https://ci.example/x\"}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"x5c\":[]}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"enc\":\"A128GCM\"}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"kid\":\"rsa\"}",
        "{\"alg\":\"RS256\",\"alg\":\"RS256\",\"kid\":\"rsa\"}",
        "{\"alg\":\"RS256\",\"\\u0061lg\":\"RS256\",\"kid\":\"rsa\"}",
        "{\"alg\":\"RS256\",\"kid\":7}",
        "{\"alg\":\"RS256\",\"kid\":\"\"}",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\\u0000\"}",
        "{\"alg\":null,\"kid\":\"rsa\"}",
        "{\"alg\":[\"RS256\"],\"kid\":\"rsa\"}",
        "{\"kid\":\"rsa\"}",
        "[]",
        "7",
        "",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\"",
        "{\"alg\":\"RS256\",\"kid\":\"rsa\"}{}",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(PROOF_MALFORMED, "github-actions", with_header(bad[i]), "");
    }
}

static void a_key_that_comes_with_the_proof_is_refused(void **state)
{
    (void)state;
    const char *header = NULL;
    assert_fault(arena_printf(op->arena, &header, "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"jwk\":%s}",
                              issuer_jwk(op, rsa_too, "rsa", "")),
                 NONE);
    assert_refused(PROOF_MALFORMED, "github-actions", issuer_token(op, rsa_too, "RS256", header, github_payload()),
                   "\"jwk\"");
}

static void claims_that_are_no_object_of_single_names_are_malformed(void **state)
{
    (void)state;
    const char *doubled = payload_of(ISSUER_GH, "\"svc\"", GITHUB_CLAIMS ",\"sha\":\"dddd\"", TIMES_OK);
    const char *hidden = payload_of(ISSUER_GH, "\"svc\"", GITHUB_CLAIMS ",\"sh\\u0061\":\"dddd\"", TIMES_OK);
    const char *audience = payload_of(ISSUER_GH, "\"svc\"", "\"aud\":\"x\"," GITHUB_CLAIMS, TIMES_OK);
    const char *bad[] = { doubled, hidden, audience, "", "[]", "7", "\"x\"", "{", "{} {}", "{\"a\":\"\xff\"}", "nul" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(PROOF_MALFORMED, "github-actions", rs256(bad[i]), "payload");
        clean();
        assert_fault(attest_inspect(judge, &services, "github-actions", span_text(rs256(bad[i]))), PROOF_MALFORMED);
    }
}

/* ---- algorithms and keys ---- */

static void an_unsigned_proof_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = { "none", "None", "NONE", "nOnE" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char header[64];
        (void)snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"rsa\"}", names[i]);
        const char *input = issuer_input(op, header, github_payload());
        assert_refused(PROOF_ALGORITHM, "github-actions", issuer_join(op, input, span_text("")), "alg");
        assert_refused(PROOF_ALGORITHM, "github-actions", issuer_join(op, input, span_text("x")), "alg");
        clean();
        assert_fault(
            attest_inspect(judge, &services, "github-actions", span_text(issuer_join(op, input, span_text("")))),
            PROOF_ALGORITHM);
    }
}

/* The attack of RFC 8725 2.1: an HMAC whose secret is the issuer's public key, in every form that it is published. */
static void a_public_key_is_never_an_hmac_secret(void **state)
{
    (void)state;
    unsigned char *der = NULL;
    int der_len = i2d_PUBKEY(rsa, &der);
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    char *pem = NULL;
    assert_true(der_len > 0 && PEM_write_bio_PUBKEY(bio, rsa) == 1);
    long pem_len = BIO_get_mem_data(bio, &pem);
    const char *jwk = issuer_jwk(op, rsa, "rsa", "");
    const struct span secrets[] = { span_of(der, (size_t)der_len), span_of(pem, (size_t)pem_len), span_text(jwk),
                                    span_text("") };
    static const char *const headers[] = { "{\"alg\":\"HS256\",\"kid\":\"rsa\"}",
                                           "{\"alg\":\"RS256\",\"kid\":\"rsa\"}" };
    for (size_t i = 0; i < COUNT_OF(secrets); i++) {
        for (size_t j = 0; j < COUNT_OF(headers); j++) {
            const char *input = issuer_input(op, headers[j], github_payload());
            const char *token = issuer_join(op, input, issuer_hmac(op, secrets[i], span_text(input)));
            assert_refused_as(j == 0 ? FAULT_PROOF_ALGORITHM : FAULT_PROOF_SIGNATURE, "github-actions", token, "");
        }
    }
    OPENSSL_free(der);
}

static void an_alg_goes_with_its_key_or_not_at_all(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        { "ES256", "rsa" },  { "ES384", "rsa" },  { "RS256", "p256" },      { "PS256", "p256" },
        { "ES384", "p256" }, { "ES256", "p384" }, { "PS256", "rsa-rs256" }, { "RS384", "rsa-rs256" },
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        char header[64];
        (void)snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"%s\"}", pairs[i][0], pairs[i][1]);
        assert_refused(PROOF_ALGORITHM, "github-actions", with_header(header), "does not go with the key");
    }
    static const char *const unknown[] = { "ES512", "EdDSA", "HS384", "rs256", "RS1", "ES256K", "RSA-OAEP" };
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        char header[64];
        (void)snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"rsa\"}", unknown[i]);
        assert_refused(PROOF_ALGORITHM, "github-actions", with_header(header), "method's algorithms");
    }
}

static void a_method_takes_its_algorithms_alone(void **state)
{
    (void)state;
    const char *payload = payload_of(ISSUER_GL, "\"svc\"", GITLAB_CLAIMS ",\"ref_type\":\"tag\"", TIMES_OK);
    assert_refused(PROOF_ALGORITHM, "gitlab-ci",
                   issuer_token(op, rsa, "PS256", "{\"alg\":\"PS256\",\"kid\":\"rsa\"}", payload), "alg");
    struct attested attested;
    assert_fault(verify("gitlab-ci", rs256(payload), &attested), NONE);
}

static void a_kid_names_one_of_the_issuers_usable_keys(void **state)
{
    (void)state;
    struct attested attested;
    assert_refused(PROOF_SIGNATURE, "github-actions", with_header("{\"alg\":\"RS256\",\"kid\":\"nobody\"}"), "kid");
    assert_refused(PROOF_SIGNATURE, "github-actions", with_header("{\"alg\":\"RS256\"}"), "no kid");
    /* There, but of no use: too short, for encryption, symmetric, private, of a curve that is not approved. */
    static const char *const useless[] = { "weak", "rsa-enc", "oct", "rsa-private", "rsa-ops" };
    for (size_t i = 0; i < COUNT_OF(useless); i++) {
        char header[64];
        (void)snprintf(header, sizeof(header), "{\"alg\":\"RS256\",\"kid\":\"%s\"}", useless[i]);
        const char *token =
            issuer_token(op, strcmp(useless[i], "weak") == 0 ? weak : rsa, "RS256", header, github_payload());
        assert_refused(PROOF_SIGNATURE, "github-actions", token, "kid names none");
    }
    /* The right kid and another key. */
    assert_refused(PROOF_SIGNATURE, "github-actions",
                   issuer_token(op, rsa_too, "RS256", RS256_HEADER, github_payload()), "not signed by the key");
    /* Without a kid only where there is one key to mean. */
    assert_fault(
        verify("one", issuer_token(op, rsa, "RS256", "{\"alg\":\"RS256\"}", ci_payload("\"sub\":\"job\"")), &attested),
        NONE);
    assert_string_equal(attested.key_id, "only");
}

static void a_changed_bit_anywhere_is_noticed(void **state)
{
    (void)state;
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *good[] = { rs256(github_payload()),
                           issuer_token(op, p256, "ES256", "{\"alg\":\"ES256\",\"kid\":\"p256\"}", github_payload()) };
    for (size_t g = 0; g < COUNT_OF(good); g++) {
        char text[8192];
        struct attested attested;
        assert_fault(verify("github-actions", good[g], &attested), NONE);
        for (size_t i = 0; i < strlen(good[g]); i++) {
            (void)snprintf(text, sizeof(text), "%s", good[g]);
            const char *letter = strchr(alphabet, text[i]);
            if (text[i] == '.') {
                continue;
            }
            for (unsigned bit = 0; bit < 6; bit += 5) { /* the lowest: the unused ones of a last letter among them */
                text[i] = alphabet[(size_t)(letter - alphabet) ^ (1U << bit)];
                assert_true(FAULTED(verify("github-actions", text, &attested)));
            }
        }
    }
}

static void ecdsa_signatures_are_raw_and_of_full_length(void **state)
{
    (void)state;
    const char *input = issuer_input(op, "{\"alg\":\"ES256\",\"kid\":\"p256\"}", github_payload());
    struct span raw = issuer_sign(op, p256, "ES256", span_text(input));
    static const uint8_t zero[64];
    assert_refused(PROOF_SIGNATURE, "github-actions", issuer_join(op, input, span_of(raw.at, 63)), "not signed");
    assert_refused(PROOF_SIGNATURE, "github-actions", issuer_join(op, input, SPAN_ARRAY(zero)), "not signed");
    uint8_t der[80];
    size_t len = sizeof(der);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, p256), 1);
    assert_int_equal(EVP_DigestSign(ctx, der, &len, (const uint8_t *)input, strlen(input)), 1);
    EVP_MD_CTX_free(ctx);
    assert_refused(PROOF_SIGNATURE, "github-actions", issuer_join(op, input, span_of(der, len)), "not signed");
}

static void every_algorithm_of_the_list_verifies(void **state)
{
    (void)state;
    static const char *const algs[] = { "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384" };
    for (size_t i = 0; i < COUNT_OF(algs); i++) {
        char header[64];
        struct attested attested;
        bool ec = algs[i][0] == 'E';
        EVP_PKEY *key = !ec ? rsa : algs[i][2] == '2' ? p256 : p384;
        (void)snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"%s\"}", algs[i],
                       !ec           ? "rsa"
                       : key == p256 ? "p256"
                                     : "p384");
        assert_fault(verify("github-actions", issuer_token(op, key, algs[i], header, github_payload()), &attested),
                     NONE);
    }
}

/* ---- claims ---- */

static void an_issuer_is_matched_exactly(void **state)
{
    (void)state;
    static const char *const others[] = { ISSUER_GH "/", ISSUER_GH "/acme",
                                          "https://TOKEN.actions.githubusercontent.com",
                                          "http://token.actions.githubusercontent.com", "" };
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_refused(PROOF_CLAIM, "github-actions", rs256(payload_of(others[i], "\"svc\"", GITHUB_CLAIMS, TIMES_OK)),
                       "iss");
    }
    assert_refused(PROOF_CLAIM, "github-actions", rs256("{\"aud\":\"svc\"}"), "iss");
    assert_refused(PROOF_CLAIM, "github-actions", rs256("{\"iss\":[\"" ISSUER_GH "\"]}"), "iss");
}

static void an_audience_must_be_among_the_methods(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\"other\"",   "\"\"", "[]",   "[\"a\",\"b\"]", "7",       "{\"svc\":1}",   "[[\"svc\"]]",
        "[\"svc\",7]", "true", "null", "\"svc \"",      "\"SVC\"", "\"svc\\u0000\""
    };
    static const char *const good[] = { "\"svc\"", "\"svc-too\"", "[\"svc\"]", "[\"a\",\"svc-too\"]" };
    struct attested attested;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(PROOF_CLAIM, "github-actions", rs256(payload_of(ISSUER_GH, bad[i], GITHUB_CLAIMS, TIMES_OK)),
                       "aud");
    }
    assert_refused(PROOF_CLAIM, "github-actions", rs256("{\"iss\":\"" ISSUER_GH "\"}"), "no claim aud");
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_fault(
            verify("github-actions", rs256(payload_of(ISSUER_GH, good[i], GITHUB_CLAIMS, TIMES_OK)), &attested), NONE);
    }
}

struct times_case {
    const char *times;
    enum fault_code code;
};

static void assert_times(const char *method, const char *issuer, const char *claims, const struct times_case *at)
{
    struct attested attested;
    struct fault fault = verify(method, rs256(payload_of(issuer, "\"svc\"", claims, at->times)), &attested);
    if (fault.code != at->code) {
        fail_msg("%s: %s instead of %s", at->times, fault_row(fault.code)->text, fault_row(at->code)->text);
    }
}

static void times_are_judged_as_of_the_command(void **state)
{
    (void)state;
    /* leeway 30 s, at most 1 h */
    static const struct times_case cases[] = {
        { ",\"iat\":1799999000,\"exp\":1799999970", FAULT_PROOF_EXPIRED },
        { ",\"iat\":1799999000,\"exp\":1799999971", FAULT_NONE },
        { ",\"iat\":1800000030,\"exp\":1800000300", FAULT_NONE },
        { ",\"iat\":1800000031,\"exp\":1800000300", FAULT_PROOF_NOT_YET },
        { ",\"iat\":1799999990,\"nbf\":1800000030,\"exp\":1800000300", FAULT_NONE },
        { ",\"iat\":1799999990,\"nbf\":1800000031,\"exp\":1800000300", FAULT_PROOF_NOT_YET },
        { ",\"iat\":1799999990,\"nbf\":null,\"exp\":1800000300", FAULT_NONE },
        { ",\"iat\":1799999990,\"nbf\":\"1799999990\",\"exp\":1800000300", FAULT_PROOF_CLAIM },
        { ",\"iat\":1799999990.5,\"exp\":1800000300.75", FAULT_NONE },
        { ",\"iat\":1799999990,\"exp\":1.8000003e9", FAULT_NONE },
        { ",\"iat\":1799999000,\"exp\":1800002600", FAULT_NONE },
        { ",\"iat\":1799999000,\"exp\":1800002601", FAULT_PROOF_CLAIM },
        { ",\"iat\":1800000020,\"exp\":1800000020", FAULT_PROOF_CLAIM },
        { ",\"exp\":1800000300", FAULT_PROOF_CLAIM },
        { ",\"iat\":1799999990", FAULT_PROOF_CLAIM },
        { ",\"iat\":1799999990,\"exp\":null", FAULT_PROOF_CLAIM },
        { ",\"iat\":1799999990,\"exp\":\"1800000300\"", FAULT_PROOF_CLAIM },
        { ",\"iat\":1799999990,\"exp\":true", FAULT_PROOF_CLAIM },
        { ",\"iat\":-1,\"exp\":1800000300", FAULT_PROOF_CLAIM },
        { ",\"iat\":1799999990,\"exp\":9223372036854775807", FAULT_PROOF_CLAIM },
        { ",\"iat\":1799999990,\"exp\":1e300", FAULT_PROOF_CLAIM },
        { ",\"iat\":1799999990,\"exp\":1e999", FAULT_PROOF_MALFORMED },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_times("github-actions", ISSUER_GH, GITHUB_CLAIMS, &cases[i]);
    }
    /* leeway 0, at most 10 min */
    static const struct times_case strict[] = {
        { ",\"iat\":1799999700,\"exp\":1800000000", FAULT_PROOF_EXPIRED },
        { ",\"iat\":1799999700,\"exp\":1800000000.000001", FAULT_NONE },
        { ",\"iat\":1800000000,\"exp\":1800000600", FAULT_NONE },
        { ",\"iat\":1800000000.000001,\"exp\":1800000600", FAULT_PROOF_NOT_YET },
        { ",\"iat\":1799999990,\"exp\":1800000591", FAULT_PROOF_CLAIM },
    };
    for (size_t i = 0; i < COUNT_OF(strict); i++) {
        assert_times("ci", ISSUER_CI, "\"sub\":\"job.ci.example\"", &strict[i]);
    }
}

/* What a claim must be, changed in the claims of a good proof. */
static const char *replaced(const char *claims, const char *what, const char *by)
{
    const char *at = strstr(claims, what), *text = NULL;
    assert_non_null(at);
    assert_fault(arena_printf(op->arena, &text, "%.*s%s%s", (int)(at - claims), claims, by, at + strlen(what)), NONE);
    return text;
}

static void required_claims_are_compared_as_texts(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "\"repository_owner\":\"acme\"", "\"repository_owner\":\"Acme\"" },
        { "\"repository_owner\":\"acme\"", "\"repository_owner\":\"acme2\"" },
        { "\"repository_owner\":\"acme\"", "\"repository_owner\":\"acme\\u0000\"" },
        { "\"repository_owner\":\"acme\"", "\"repository_owner\":null" },
        { "\"repository_owner\":\"acme\"", "\"repository_owner\":[\"acme\"]" },
        { "\"ref_protected\":true", "\"ref_protected\":false" },
        { "\"ref_protected\":true", "\"ref_protected\":1" },
        { "\"run_number\":7", "\"run_number\":7.5" },
        { "\"run_number\":7", "\"x\":7" },
    };
    struct attested attested;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *claims = replaced(GITHUB_CLAIMS, bad[i][0], bad[i][1]);
        assert_refused(PROOF_CLAIM, "github-actions", rs256(payload_of(ISSUER_GH, "\"svc\"", claims, TIMES_OK)),
                       "method requires");
    }
    const char *texts = replaced(replaced(GITHUB_CLAIMS, "\"ref_protected\":true", "\"ref_protected\":\"true\""),
                                 "\"run_number\":7", "\"run_number\":\"7\"");
    assert_fault(verify("github-actions", rs256(payload_of(ISSUER_GH, "\"svc\"", texts, TIMES_OK)), &attested), NONE);
}

static void claims_of_the_certificate_are_clean_texts(void **state)
{
    (void)state;
    static const char *const bad[] = { "\"sha\":7",
                                       "\"sha\":null",
                                       "\"sha\":\"\"",
                                       "\"sha\":\"a\\nb\"",
                                       "\"sha\":\"a\\u0000b\"",
                                       "\"sha\":\"a\\u009bb\"",
                                       "\"sha\":\"\\u202eb\"",
                                       "\"sha\":\"\\u2028\"",
                                       "\"sha\":{}",
                                       "\"x\":1",
                                       "\"sha\":true" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *claims = replaced(GITHUB_CLAIMS, "\"sha\":\"aaaa\"", bad[i]);
        assert_refused(PROOF_CLAIM, "github-actions", rs256(payload_of(ISSUER_GH, "\"svc\"", claims, TIMES_OK)), "sha");
    }
    char longest[ATTEST_TEXT_MAX + 2], claim[2 * ATTEST_TEXT_MAX];
    memset(longest, 'a', sizeof(longest));
    longest[ATTEST_TEXT_MAX] = '\0';
    (void)snprintf(claim, sizeof(claim), "\"sha\":\"%s\"", longest);
    struct attested attested;
    assert_fault(
        verify("github-actions",
               rs256(payload_of(ISSUER_GH, "\"svc\"", replaced(GITHUB_CLAIMS, "\"sha\":\"aaaa\"", claim), TIMES_OK)),
               &attested),
        NONE);
    (void)snprintf(claim, sizeof(claim), "\"repository\":\"%s\"",
                   longest); /* fits alone, not with the rest of its URL */
    assert_refused(PROOF_CLAIM, "github-actions",
                   rs256(payload_of(ISSUER_GH, "\"svc\"", replaced(GITHUB_CLAIMS, "\"repository\":\"acme/app\"", claim),
                                    TIMES_OK)),
                   "longer than");
    (void)snprintf(claim, sizeof(claim), "\"sha\":\"a%s\"", longest);
    assert_refused(
        PROOF_CLAIM, "github-actions",
        rs256(payload_of(ISSUER_GH, "\"svc\"", replaced(GITHUB_CLAIMS, "\"sha\":\"aaaa\"", claim), TIMES_OK)), "sha");
    assert_refused(PROOF_CLAIM, "ci", rs256(ci_payload("\"x\":1")), "no claim sub");
}

/* ---- names ---- */

static void a_san_has_one_of_three_forms(void **state)
{
    (void)state;
    static const char *const uris[] = { "https://a/b", "spiffe://trust.example/ns/x", "https://h/a%2Fb?x=1#y",
                                        "https://github.com/a/b/.github/workflows/c.yml@refs/heads/d" };
    static const char *const mails[] = { "a@b.example", "a.b+c@b.example" };
    static const char *const names[] = { "job.ci.example", "a-b.c1" };
    static const char *const bad[] = { "job",
                                       "10.0.0.1",
                                       "a b",
                                       "https://",
                                       "https:///x",
                                       "https://a/b c",
                                       "1ttp://a",
                                       "https://a/%2",
                                       "https://a/%zz",
                                       "https://a/\\u00e4",
                                       "https://a/<x>",
                                       "a@b",
                                       "a@@b.example",
                                       ".a@b.example",
                                       "a..b@b.example",
                                       "a.@b.example",
                                       "@b.example",
                                       "-a.example",
                                       "a-.example",
                                       "a..example",
                                       "a.example.",
                                       "*.a.example",
                                       "a_b.c",
                                       "repo:acme/app:ref:x",
                                       "a@b.example/c",
                                       "mailto:a@b.example" };
    struct attested attested;
    char claims[512];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        (void)snprintf(claims, sizeof(claims), "\"sub\":\"%s\"", bad[i]);
        assert_refused(PROOF_CLAIM, "ci", rs256(ci_payload(claims)), "neither a URI");
    }
    const struct {
        const char *const *texts;
        size_t count;
        enum san_kind kind;
    } good[] = { { uris, COUNT_OF(uris), SAN_URI },
                 { mails, COUNT_OF(mails), SAN_EMAIL },
                 { names, COUNT_OF(names), SAN_DNS } };
    for (size_t g = 0; g < COUNT_OF(good); g++) {
        for (size_t i = 0; i < good[g].count; i++) {
            (void)snprintf(claims, sizeof(claims), "\"sub\":\"%s\"", good[g].texts[i]);
            assert_fault(verify("ci", rs256(ci_payload(claims)), &attested), NONE);
            assert_string_equal(attested.san, good[g].texts[i]);
            assert_int_equal(attested.san_kind, good[g].kind);
        }
    }
}

static void an_email_counts_when_it_is_verified_and_nothing_else_passes_for_one(void **state)
{
    (void)state;
    struct attested attested;
    assert_refused(PROOF_CLAIM, "mail", rs256(ci_payload("\"sub\":\"7\",\"email\":\"a@b.example\"")), "email_verified");
    assert_refused(PROOF_CLAIM, "mail",
                   rs256(ci_payload("\"sub\":\"7\",\"email\":\"a@b.example\",\"email_verified\":false")),
                   "email_verified");
    assert_refused(PROOF_CLAIM, "mail",
                   rs256(ci_payload("\"sub\":\"7\",\"email\":\"https://github.com/a\",\"email_verified\":true")),
                   "san_kind");
    assert_fault(
        verify("mail", rs256(ci_payload("\"sub\":\"7\",\"email\":\"a@b.example\",\"email_verified\":true")), &attested),
        NONE);
    assert_int_equal(attested.san_kind, SAN_EMAIL);
    assert_string_equal(attested.subject, "7");
}

static void a_method_belongs_to_its_tenant(void **state)
{
    (void)state;
    const char *token = rs256(ci_payload("\"sub\":\"job.ci.example\""));
    assert_refused(IDENTITY_METHOD, "other", token, "no identity method");
    assert_refused(IDENTITY_METHOD, "nobody", token, "no identity method");
    assert_refused(IDENTITY_METHOD, "", token, "no identity method");
    clean();
    assert_fault(attest_inspect(judge, &services, "other", span_text(token)), IDENTITY_METHOD);
    const struct services disabled = { 0 };
    char digest[65];
    struct attested attested;
    assert_fault(attest_inspect(judge, (struct services *)&disabled, "ci", span_text(token)), KEYLESS_DISABLED);
    assert_fault(attest_verify(judge, (struct services *)&disabled, "ci", span_text(token), NOW, &attested),
                 KEYLESS_DISABLED);
    assert_fault(attest_digest(judge, (struct services *)&disabled, digest), KEYLESS_DISABLED);
}

static void inspection_believes_nothing_and_asks_for_form_alone(void **state)
{
    (void)state;
    clean();
    const char *input = issuer_input(op, "{\"alg\":\"RS256\",\"kid\":\"nobody\"}", "{\"exp\":1}");
    assert_fault(attest_inspect(judge, &services, "github-actions", span_text(issuer_join(op, input, span_text("x")))),
                 NONE);
    assert_fault(attest_inspect(judge, &services, "github-actions", span_text(rs256(github_payload()))), NONE);
}

/* ---- good ones ---- */

static void assert_claims(const struct attested *attested, const struct attest_claim *want, size_t count)
{
    assert_int_equal(attested->claim_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(attested->claims[i].arc, want[i].arc);
        assert_string_equal(attested->claims[i].value, want[i].value);
    }
}

static void github_actions_give_fulcios_claims(void **state)
{
    (void)state;
    static const struct attest_claim want[] = {
        { 1, ISSUER_GH },
        { 2, "push" },
        { 3, "aaaa" },
        { 4, "Release \xc3\xa4" },
        { 5, "acme/app" },
        { 6, "refs/heads/main" },
        { 8, ISSUER_GH },
        { 9, "https://github.com/acme/flows/.github/workflows/sign.yml@refs/tags/v1" },
        { 10, "bbbb" },
        { 11, "github-hosted" },
        { 12, "https://github.com/acme/app" },
        { 13, "aaaa" },
        { 14, "refs/heads/main" },
        { 15, "11" },
        { 16, "https://github.com/acme" },
        { 17, "22" },
        { 18, "https://github.com/acme/app/.github/workflows/release.yml@refs/heads/main" },
        { 19, "cccc" },
        { 20, "push" },
        { 21, "https://github.com/acme/app/actions/runs/33/attempts/2" },
        { 22, "private" },
        { 23, "production" },
    };
    struct attested attested;
    assert_fault(verify("github-actions", rs256(github_payload()), &attested), NONE);
    assert_string_equal(attested.method, "github-actions");
    assert_string_equal(attested.issuer, ISSUER_GH);
    assert_string_equal(attested.subject, "repo:acme/app:ref:refs/heads/main");
    assert_string_equal(attested.san, want[7].value);
    assert_int_equal(attested.san_kind, SAN_URI);
    assert_string_equal(attested.key_id, "rsa");
    assert_int_equal(attested.issued, INT64_C(1799999990) * US_PER_S);
    assert_int_equal(attested.expires, INT64_C(1800000290) * US_PER_S);
    assert_claims(&attested, want, COUNT_OF(want) - 1);
    const char *deployed = payload_of(ISSUER_GH, "\"svc\"", GITHUB_CLAIMS ",\"environment\":\"production\"", TIMES_OK);
    assert_fault(verify("github-actions", rs256(deployed), &attested), NONE);
    assert_claims(&attested, want, COUNT_OF(want));
}

static void gitlab_ci_gives_fulcios_claims(void **state)
{
    (void)state;
    static const struct attest_claim want[] = {
        { 1, ISSUER_GL },
        { 8, ISSUER_GL },
        { 9, "https://gitlab.com/acme/app//.gitlab-ci.yml@refs/heads/main" },
        { 10, "bbbb" },
        { 11, "self-hosted" },
        { 12, "https://gitlab.com/acme/app" },
        { 13, "aaaa" },
        { 14, "refs/heads/main" },
        { 15, "11" },
        { 16, "https://gitlab.com/acme" },
        { 17, "22" },
        { 18, "https://gitlab.com/acme/app//.gitlab-ci.yml@refs/heads/main" },
        { 19, "bbbb" },
        { 20, "push" },
        { 21, "https://gitlab.com/acme/app/-/jobs/44" },
        { 22, "public" },
    };
    struct attested attested;
    const char *branch = GITLAB_CLAIMS ",\"ref_type\":\"branch\",\"ci_config_sha\":\"bbbb\"";
    assert_fault(verify("gitlab-ci", rs256(payload_of(ISSUER_GL, "\"svc\"", branch, TIMES_OK)), &attested), NONE);
    assert_claims(&attested, want, COUNT_OF(want));
    assert_string_equal(attested.san, want[2].value);
    /* A tag, and a pipeline definition from elsewhere: no digest of it. */
    const char *tag = GITLAB_CLAIMS ",\"ref_type\":\"tag\",\"ci_config_sha\":null";
    assert_fault(verify("gitlab-ci", rs256(payload_of(ISSUER_GL, "\"svc\"", tag, TIMES_OK)), &attested), NONE);
    assert_int_equal(attested.claim_count, COUNT_OF(want) - 2);
    assert_int_equal(attested.claims[6].arc, 14);
    assert_string_equal(attested.claims[6].value, "refs/tags/main");
    static const char *const bad[] = { ",\"ref_type\":\"merge\"", ",\"ref_type\":7", ",\"x\":1" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *claims = NULL;
        assert_fault(arena_printf(op->arena, &claims, "%s%s", GITLAB_CLAIMS, bad[i]), NONE);
        assert_refused(PROOF_CLAIM, "gitlab-ci", rs256(payload_of(ISSUER_GL, "\"svc\"", claims, TIMES_OK)), "ref_type");
    }
}

static void a_generic_method_gives_the_issuer_alone(void **state)
{
    (void)state;
    static const struct attest_claim want[] = { { 1, ISSUER_CI }, { 8, ISSUER_CI } };
    struct attested attested;
    assert_fault(verify("one",
                        issuer_token(op, rsa, "RS256", "{\"alg\":\"RS256\",\"kid\":\"only\",\"typ\":\"jwt\"}",
                                     ci_payload("\"sub\":\"team/job\"")),
                        &attested),
                 NONE);
    assert_string_equal(attested.san, "https://ci.example/team/job");
    assert_claims(&attested, want, COUNT_OF(want));
}

static void verifications_are_counted_by_method_and_result(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT((size_t)1 << 20);
    struct attested attested;
    const char *shown = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    services.attest->metrics = metrics;
    assert_fault(verify("github-actions", rs256(github_payload()), &attested), NONE);
    assert_refused(PROOF_CLAIM, "ci", rs256(ci_payload("\"x\":1")), "sub");
    assert_refused(IDENTITY_METHOD, "somebody's word", "x", "");
    services.attest->metrics = NULL;
    assert_fault(metrics_print(metrics, &text), NONE);
    assert_fault(buf_cstr(&text, &shown), NONE);
    assert_non_null(strstr(shown, "svc_attest_verifications_total{method=\"github-actions\",result=\"verified\"} 1"));
    assert_non_null(strstr(shown, "svc_attest_verifications_total{method=\"ci\",result=\"identity_proof_claim\"} 1"));
    assert_null(strstr(shown, "somebody"));
}

/* ---- the bench ---- */

static const char *key_file(void)
{
    const char *text = NULL;
    assert_fault(
        arena_printf(
            op->arena, &text,
            "{\"version\":1,\"keys\":[%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,"
            "{\"kty\":\"oct\",\"kid\":\"oct\",\"k\":\"AAAA\"},{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AA\"}]}",
            issuer_jwk(op, rsa, "rsa", ",\"use\":\"sig\",\"x5c\":[\"MIIB\"],\"x5t\":\"q\",\"new\":{\"a\":[1]}"),
            issuer_jwk(op, rsa_too, "rsa-rs256", ",\"alg\":\"RS256\",\"key_ops\":[\"verify\"]"),
            issuer_jwk(op, weak, "weak", ",\"use\":\"sig\""), issuer_jwk(op, rsa, "rsa-enc", ",\"use\":\"enc\""),
            issuer_jwk(op, rsa, "rsa-private", ",\"d\":\"AQAB\""),
            issuer_jwk(op, rsa, "rsa-ops", ",\"key_ops\":[\"encrypt\",\"not\\\"verify\\\"\"]"),
            issuer_jwk(op, p256, "p256", ",\"alg\":\"ES256\""), issuer_jwk(op, p384, "p384", ""),
            issuer_jwk(op, p521, "p521", ""), issuer_jwk(op, rsa, "rsa-oaep", ",\"alg\":\"RSA-OAEP\"")),
        NONE);
    return issuer_file(op, folder, "jwks.json", text);
}

static const char *one_key_file(void)
{
    const char *text = NULL;
    assert_fault(arena_printf(op->arena, &text, "{\"keys\":[%s]}", issuer_jwk(op, rsa, "only", "")), NONE);
    return issuer_file(op, folder, "one.json", text);
}

static int set_up(void **state)
{
    assert_non_null(mkdtemp(folder));
    assert_int_equal(fresh(state), 0);
    rsa = EVP_RSA_gen(2048);
    rsa_too = EVP_RSA_gen(3072);
    weak = EVP_RSA_gen(1024);
    p256 = EVP_EC_gen("P-256");
    p384 = EVP_EC_gen("P-384");
    p521 = EVP_EC_gen("P-521");
    const char *keys = key_file(), *one = one_key_file(), *yaml = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    assert_fault(arena_printf(op->arena, &yaml, METHODS, keys, keys, keys, keys, one, keys), NONE);
    struct fault fault = attest_parse(span_text(yaml), "attestors.yaml", NULL, &why, &services.attest);
    if (FAULTED(fault)) {
        fail_msg("%.*s", (int)why.len, (const char *)why.at);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char path[256];
    attest_stop(&services);
    op_free(op);
    op_free(judge);
    EVP_PKEY *const keys[] = { rsa, rsa_too, weak, p256, p384, p521 };
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        EVP_PKEY_free(keys[i]);
    }
    static const char *const files[] = { "jwks.json", "one.json" };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_no_compact_jws_is_malformed),
        TEST(an_oversized_proof_is_refused_before_it_is_read),
        TEST(headers_that_ask_for_more_are_malformed),
        TEST(a_key_that_comes_with_the_proof_is_refused),
        TEST(claims_that_are_no_object_of_single_names_are_malformed),
        TEST(an_unsigned_proof_is_refused),
        TEST(a_public_key_is_never_an_hmac_secret),
        TEST(an_alg_goes_with_its_key_or_not_at_all),
        TEST(a_method_takes_its_algorithms_alone),
        TEST(a_kid_names_one_of_the_issuers_usable_keys),
        TEST(a_changed_bit_anywhere_is_noticed),
        TEST(ecdsa_signatures_are_raw_and_of_full_length),
        TEST(every_algorithm_of_the_list_verifies),
        TEST(an_issuer_is_matched_exactly),
        TEST(an_audience_must_be_among_the_methods),
        TEST(times_are_judged_as_of_the_command),
        TEST(required_claims_are_compared_as_texts),
        TEST(claims_of_the_certificate_are_clean_texts),
        TEST(a_san_has_one_of_three_forms),
        TEST(an_email_counts_when_it_is_verified_and_nothing_else_passes_for_one),
        TEST(a_method_belongs_to_its_tenant),
        TEST(inspection_believes_nothing_and_asks_for_form_alone),
        TEST(github_actions_give_fulcios_claims),
        TEST(gitlab_ci_gives_fulcios_claims),
        TEST(a_generic_method_gives_the_issuer_alone),
        TEST(verifications_are_counted_by_method_and_result),
    };
    return cmocka_run_group_tests_name("proof", tests, set_up, tear_down);
}
