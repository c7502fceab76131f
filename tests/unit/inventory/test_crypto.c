/* Algorithms, advice, the shapes of the crypto-readiness dataset, statements, editions: whatever needs no store. */
#include "api/inventory/crypto.h"
#include "api/keys/keys.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "fips/fips.h"
#include "testlib.h"

#include <openssl/rsa.h>

/* ---- algorithms ---- */

static void bytes_that_are_no_public_key_are_of_no_known_algorithm(void **state)
{
    (void)state;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(key, &der);
    assert_true(len > 0);
    for (int cut = 0; cut < len; cut++) {
        assert_string_equal(crypto_algorithm_of_spki(span_of(der, (size_t)cut))->name, "unknown");
    }
    assert_string_equal(crypto_algorithm_of_spki(span_text("not a key"))->name, "unknown");
    assert_string_equal(crypto_algorithm_of_spki(span_of(der, (size_t)len))->name, "ec-p256");
    CLEANUP(buf_free) struct buf longer = BUF_INIT(1024);
    assert_fault(buf_put(&longer, span_of(der, (size_t)len)), NONE);
    assert_fault(buf_u8(&longer, 0), NONE);
    assert_string_equal(crypto_algorithm_of_spki(buf_span(&longer))->name, "unknown");
    OPENSSL_free(der);
    assert_string_equal(crypto_algorithm_find("ec-p257")->name, "unknown");
    assert_string_equal(crypto_algorithm_find("")->name, "unknown");
}

static void public_keys_are_known_by_their_own_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *type, *group, *name;
        size_t bits;
    } rows[] = {
        { "EC", "P-384", "ec-p384", 0 },   { "EC", "P-521", "ec-p521", 0 },       { "EC", "secp256k1", "unknown", 0 },
        { "RSA", NULL, "rsa-2048", 2048 }, { "RSA", NULL, "rsa-other", 2056 },    { "ED25519", NULL, "ed25519", 0 },
        { "X25519", NULL, "unknown", 0 },  { "ML-DSA-65", NULL, "ml-dsa-65", 0 }, { "ML-DSA-44", NULL, "ml-dsa-44", 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CLEANUP(EVP_PKEY_freep)
        EVP_PKEY *key = rows[i].bits > 0        ? EVP_PKEY_Q_keygen(NULL, NULL, "RSA", rows[i].bits)
                        : rows[i].group != NULL ? EVP_PKEY_Q_keygen(NULL, NULL, "EC", rows[i].group)
                                                : EVP_PKEY_Q_keygen(NULL, NULL, rows[i].type);
        unsigned char *der = NULL;
        int len = i2d_PUBKEY(key, &der);
        assert_true(len > 0);
        assert_string_equal(crypto_algorithm_of_spki(span_of(der, (size_t)len))->name, rows[i].name);
        OPENSSL_free(der);
    }
}

/* What is called approved here is claimed by the gate, and what is fenced is so for everybody. */
static void the_table_of_algorithms_agrees_with_keys_and_with_the_gate(void **state)
{
    (void)state;
    for (enum key_algorithm known = KEY_ALGORITHM_EC_P256; known < KEY_ALGORITHM_COUNT; known++) {
        const struct crypto_algorithm *algorithm = crypto_algorithm_find(key_algorithm_text(known));
        assert_string_equal(algorithm->name, key_algorithm_text(known));
        assert_int_equal(algorithm->posture, keys_fenced(known) ? POSTURE_FENCED : POSTURE_APPROVED);
        assert_int_equal(algorithm->quantum == QUANTUM_POST, known == KEY_ALGORITHM_ML_DSA_65);
    }
    size_t approved = 0;
    for (size_t i = 0; i < CRYPTO_ALGORITHMS; i++) {
        const struct crypto_algorithm *algorithm = crypto_algorithm_at(i);
        assert_int_equal(crypto_algorithm_index(algorithm), i);
        assert_true(i == 0 || strcmp(crypto_algorithm_at(i - 1)->name, algorithm->name) < 0);
        assert_true(algorithm->quantum != QUANTUM_VULNERABLE || algorithm->nist_level == 0);
        approved += algorithm->posture == POSTURE_APPROVED ? 1 : 0;
    }
    assert_int_equal(approved, 5);
}

/* ---- advice ---- */

static const char *advised(const char *algorithm, enum crypto_kind kind, const char *purpose, int64_t uses)
{
    return crypto_advise(crypto_algorithm_find(algorithm), kind, purpose, uses).code;
}

static void advice_follows_from_algorithm_and_use_alone(void **state)
{
    (void)state;
    assert_string_equal(advised("odd", CRYPTO_KEY, "codesign", 5), "identify");
    assert_string_equal(advised("rsa-2048", CRYPTO_CERTIFICATE, "", 0), "replace");
    assert_string_equal(advised("ed25519", CRYPTO_CERTIFICATE, "", 0), "replace_for_approved_mode");
    assert_string_equal(advised("ml-dsa-65", CRYPTO_KEY, "codesign", 0), "keep_fenced");
    assert_string_equal(advised("aes-256", CRYPTO_KEY, "seal", 0), "keep");
    assert_string_equal(advised("ec-p256", CRYPTO_KEY, "codesign", 0), "investigate_use");
    assert_string_equal(advised("ec-p256", CRYPTO_KEY, "codesign", 1), "plan_second_signature");
    assert_string_equal(advised("ec-p256", CRYPTO_KEY, "tsa", 9), "plan_restamping");
    assert_string_equal(advised("ec-p384", CRYPTO_KEY, "evidence-pack", 0), "plan_evidence_renewal");
    assert_string_equal(advised("rsa-4096", CRYPTO_KEY, "ca", 0), "plan_authority_migration");
    assert_string_equal(advised("rsa-3072", CRYPTO_KEY, "jwt", 0), "plan_migration");
    assert_string_equal(advised("ec-p256", CRYPTO_CERTIFICATE, "", 0), "replace_at_renewal");
    assert_string_equal(advised("ec-p256", CRYPTO_HTTPS, "tls-server", 0), "plan_key_agreement");
}

static void nothing_that_is_said_promises_safety(void **state)
{
    (void)state;
    assert_non_null(strstr(graph_coverage, "does not mean that there is none"));
    static const char *const promised[] = { "compliant", "certified", "guarantee", "is safe" };
    for (size_t i = 0; i < CRYPTO_ALGORITHMS; i++) {
        for (enum crypto_kind kind = 0; kind < CRYPTO_KINDS; kind++) {
            const char *text = crypto_advise(crypto_algorithm_at(i), kind, "codesign", 0).text;
            for (size_t j = 0; j < COUNT_OF(promised); j++) {
                assert_null(strstr(text, promised[j]));
            }
        }
    }
}

/* ---- statements ---- */

static void a_statement_is_a_slug(void **state)
{
    (void)state;
    char longest[STATEMENT_MAX + 2];
    static const char *const refused[] = { "", "-a", "a-", "A", "a b", "a_b", "\xc3\xa4", "a.b" };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_false(attest_statement_fits(refused[i]));
    }
    memset(longest, 'a', sizeof(longest));
    longest[STATEMENT_MAX + 1] = '\0';
    assert_false(attest_statement_fits(longest));
    longest[STATEMENT_MAX] = '\0';
    assert_true(attest_statement_fits(longest));
    assert_true(attest_statement_fits("cmvp-certificate-2"));
}

/* ---- shapes ---- */

#define ROW_1                                                                                                    \
    "{\"algorithm\":{\"name\":\"ec-p256\"},\"dependents\":{\"certificates\":0,\"last_observed_at\":null},"       \
    "\"kind\":\"key\",\"name\":\"=cmd\",\"object\":\"key:1\",\"posture\":\"approved\",\"purpose\":\"codesign\"," \
    "\"quantum\":\"quantum_vulnerable\",\"recommendation\":{\"code\":\"x\"},\"state\":\"active\"}"
#define ROW_2 "{\"kind\":\"key\",\"name\":\"a \\\"b\\\"\",\"object\":\"key:2\"}"

static struct fault collect(void *arg, struct span bytes)
{
    return buf_put(arg, bytes);
}

static void make_graph(struct graph *graph)
{
    assert_fault(buf_text(&graph->rows, ROW_1 "\n" ROW_2 "\n"), NONE);
    graph->listed = graph->total = 2;
    graph->unbound = 1;
    assert_fault(sha256_of(buf_span(&graph->rows), &graph->digest), NONE);
}

static void all_shapes_tell_the_same_rows_and_the_same_digest(void **state)
{
    (void)state;
    CLEANUP(graph_clear) struct graph graph = { .rows = BUF_INIT(65536) };
    CLEANUP(buf_free) struct buf json = BUF_INIT(65536), lines = BUF_INIT(65536), csv = BUF_INIT(65536);
    CLEANUP(buf_free) struct buf printed = BUF_INIT(65536), canonical = BUF_INIT(65536);
    CLEANUP(op_freep) struct op *op = NULL;
    char digest[2 * SHA256_LEN + 1];
    const char *text = NULL;
    struct jout jout;
    make_graph(&graph);
    hex_text(SPAN_ARRAY(graph.digest.at), digest, sizeof(digest));
    assert_fault(op_new("tester", (struct tenant_id){ "acme" }, 10000, &op), NONE);

    assert_fault(graph_json(&graph, collect, &json), NONE);
    jout_init(&jout, &printed);
    graph_print(&graph, &jout);
    assert_fault(jout_end(&jout), NONE);
    assert_true(span_equal(buf_span(&json), buf_span(&printed)));
    assert_fault(json_canonical(buf_span(&json), &canonical), NONE);
    assert_true(span_equal(buf_span(&json), buf_span(&canonical)));
    assert_fault(buf_cstr(&json, &text), NONE);
    assert_non_null(strstr(text, digest));
    assert_non_null(strstr(text, "\"rows\":[" ROW_1 "," ROW_2 "],\"total\":2,\"unbound_actions\":1}"));

    assert_fault(graph_ndjson(&graph, collect, &lines), NONE);
    assert_fault(buf_cstr(&lines, &text), NONE);
    assert_memory_equal(text, ROW_1 "\n" ROW_2 "\n{\"complete\":true,", sizeof(ROW_1 ROW_2) + 1 + 17);
    assert_non_null(strstr(text, digest));

    assert_fault(graph_csv(op, &graph, collect, &csv), NONE);
    assert_fault(buf_cstr(&csv, &text), NONE);
    assert_non_null(strstr(text, "object,kind,name,"));
    assert_non_null(strstr(text, "\"key:1\",\"key\",\"'=cmd\",\"codesign\","));
    assert_non_null(strstr(text, "\"key:2\",\"key\",\"a \"\"b\"\"\",\"\","));
    assert_non_null(strstr(text, "\"{\"\"kind\"\":\"\"key\"\",\"\"name\"\":\"\"a \\\"\"b\\\"\"\"\""));
    assert_non_null(strstr(text, "# dataset_digest="));
    assert_non_null(strstr(text, digest));
}

static void a_dataset_that_is_not_listed_whole_says_so(void **state)
{
    (void)state;
    CLEANUP(graph_clear) struct graph graph = { .rows = BUF_INIT(65536) };
    CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
    const char *text = NULL;
    make_graph(&graph);
    graph.total = 3;
    assert_fault(graph_json(&graph, collect, &json), NONE);
    assert_fault(buf_cstr(&json, &text), NONE);
    assert_non_null(strstr(text, "\"complete\":false"));
    assert_non_null(strstr(text, "\"listed\":2"));
}

/* ---- editions ---- */

static void editions_claim_nothing_that_the_process_does_not_know(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    struct config config = { .fips_module = "/nowhere/fips.so" };
    const char *text = NULL;
    assert_fault(editions_print(&config, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    static const char *const said[] = {
        "\"edition\":\"community\"",
        "\"production_units_consumed\":null",
        "\"module_active\":false",
        "\"self_test_passed\":false",
        "\"module\":null",
        "\"go_fips_module_selector\":null",
        "\"hsm_kms_validation_certificates\":[]",
        "\"AES-256-GCM\"",
        "\"ML-KEM\"",
    };
    for (size_t i = 0; i < COUNT_OF(said); i++) {
        assert_non_null(strstr(text, said[i]));
    }
    assert_non_null(strstr(text, fips_module_pin()));
    const char *references[] = { "CMVP #4282 (token main)" };
    config.custody_certificates = (struct config_list){ references, 1 };
    out.len = 0;
    assert_fault(editions_print(&config, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    assert_non_null(strstr(text, "\"hsm_kms_validation_certificates\":[\"CMVP #4282 (token main)\"]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_no_public_key_are_of_no_known_algorithm),
        cmocka_unit_test(public_keys_are_known_by_their_own_bytes),
        cmocka_unit_test(the_table_of_algorithms_agrees_with_keys_and_with_the_gate),
        cmocka_unit_test(advice_follows_from_algorithm_and_use_alone),
        cmocka_unit_test(nothing_that_is_said_promises_safety),
        cmocka_unit_test(a_statement_is_a_slug),
        cmocka_unit_test(all_shapes_tell_the_same_rows_and_the_same_digest),
        cmocka_unit_test(a_dataset_that_is_not_listed_whole_says_so),
        cmocka_unit_test(editions_claim_nothing_that_the_process_does_not_know),
    };
    return cmocka_run_group_tests_name("crypto", tests, NULL, NULL);
}
