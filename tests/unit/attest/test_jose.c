/* Tokens and key sets made by another implementation, the `jose` tool: every algorithm of the list verifies here. */
#include "unit/attest/issuer.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static struct op *op;
static char folder[] = "/tmp/svc-attest-XXXXXX";

static const char *in_folder(const char *name)
{
    const char *path = NULL;
    assert_fault(arena_printf(op->arena, &path, "%s/%s", folder, name), NONE);
    return path;
}

static void run(const char *const *argv)
{
    pid_t pid = 0;
    int status = -1;
    assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}
#define RUN(...) run((const char *const[]){ __VA_ARGS__, NULL })

static struct span file_of(const char *path)
{
    struct buf bytes = BUF_INIT(ISSUER_TEXT_MAX);
    struct span kept;
    assert_fault(file_read(path, &bytes), NONE);
    assert_fault(arena_copy(op->arena, buf_span(&bytes), &kept), NONE);
    buf_free(&bytes);
    return kept;
}

static struct fault verify(const char *alg, struct span token, struct attested *ret_attested)
{
    const char *yaml = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    CLEANUP(attest_freep) struct attest *attest = NULL;
    assert_fault(arena_printf(op->arena, &yaml,
                              "attestors:\n  - {method: ci, tenant: acme, kind: generic, issuer: https://ci.example, "
                              "audience: [svc], jwks_file: %s, san: '{sub}', algorithms: [%s]}\n",
                              in_folder("jwks.json"), alg),
                 NONE);
    assert_fault(attest_parse(span_text(yaml), "attestors.yaml", NULL, &why, &attest), NONE);
    struct services services = { .attest = attest };
    op->note = (struct fault_note){ 0 };
    return attest_verify(op, &services, "ci", token, INT64_C(1800000000) * US_PER_S, ret_attested);
}

static struct span token_by_jose(const char *alg)
{
    const char *template = NULL, *key = in_folder("key.json"), *token = in_folder("token");
    assert_fault(arena_printf(op->arena, &template, "{\"alg\":\"%s\",\"kid\":\"k-%s\"}", alg, alg), NONE);
    RUN("jose", "jwk", "gen", "-i", template, "-o", key);
    RUN("jose", "jwk", "pub", "-s", "-i", key, "-o", in_folder("jwks.json"));
    assert_fault(arena_printf(op->arena, &template, "{\"protected\":{\"alg\":\"%s\",\"kid\":\"k-%s\",\"typ\":\"JWT\"}}",
                              alg, alg),
                 NONE);
    RUN("jose", "jws", "sig", "-c", "-I", in_folder("claims"), "-s", template, "-k", key, "-o", token);
    return file_of(token);
}

static void tokens_of_jose_verify_in_every_algorithm(void **state)
{
    (void)state;
    static const char *const algs[] = { "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384" };
    for (size_t i = 0; i < COUNT_OF(algs); i++) {
        struct attested attested;
        struct span token = token_by_jose(algs[i]);
        if (FAULTED(verify(algs[i], token, &attested))) {
            fail_msg("%s: %s", algs[i], op->note.detail);
        }
        assert_string_equal(attested.san, "https://ci.example/job/7");
        assert_string_equal(attested.key_id + 2, algs[i]);
    }
}

static void a_token_of_jose_with_an_hmac_is_refused(void **state)
{
    (void)state;
    struct attested attested;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = EVP_RSA_gen(2048);
    const char *set = NULL;
    struct span token = token_by_jose("HS256");
    assert_fault(arena_printf(op->arena, &set, "{\"keys\":[%s]}", issuer_jwk(op, key, "k-HS256", "")), NONE);
    (void)issuer_file(op, folder, "jwks.json", set);
    assert_fault(verify("RS256", token, &attested), PROOF_ALGORITHM);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_fault(op_new("test", (struct tenant_id){ "acme" }, 600000, &op), NONE);
    (void)issuer_file(op, folder, "claims",
                      "{\"iss\":\"https://ci.example\",\"aud\":[\"x\",\"svc\"],\"sub\":\"https://ci.example/job/7\","
                      "\"iat\":1799999990,\"exp\":1800000290}");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const files[] = { "claims", "key.json", "jwks.json", "token" };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        (void)unlink(in_folder(files[i]));
    }
    op_free(op);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_of_jose_verify_in_every_algorithm),
        cmocka_unit_test(a_token_of_jose_with_an_hmac_is_refused),
    };
    return cmocka_run_group_tests_name("jose", tests, set_up, tear_down);
}
