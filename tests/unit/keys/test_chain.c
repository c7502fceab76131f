/* Certificates that are brought for a key: whatever would not verify elsewhere is refused, and told by its place. */
#include "testlib.h"

#include "api/keys/internal.h"
#include "appliance/base/crypto.h"
#include "fips/fips.h"

#include <openssl/x509v3.h>

#define NOW_S INT64_C(1800000000)
#define DAY_S INT64_C(86400)

/* ---- certificates of every kind ---- */

struct spec {
    const char *name, *constraints, *usage, *extended_usage;
    EVP_PKEY *key;
    X509 *issuer;         /* NULL = self-signed */
    EVP_PKEY *issuer_key; /* NULL = `key` */
    int64_t from_s, until_s;
    const EVP_MD *digest; /* NULL = SHA-256 */
};

static struct bench {
    struct op *op;
    EVP_PKEY *root_key, *middle_key, *key, *other_key;
    X509 *root, *middle, *leaf;
    struct span spki;
} bench;

static X509 *made(const struct spec *spec)
{
    static long serial = 1;
    const struct {
        int nid;
        const char *value;
    } extensions[] = { { NID_basic_constraints, spec->constraints },
                       { NID_key_usage, spec->usage },
                       { NID_ext_key_usage, spec->extended_usage } };
    X509 *x = X509_new();
    BUG_IF(X509_set_version(x, X509_VERSION_3) != 1 || X509_set_pubkey(x, spec->key) != 1);
    BUG_IF(ASN1_INTEGER_set(X509_get_serialNumber(x), serial++) != 1);
    BUG_IF(X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8, (const unsigned char *)spec->name,
                                      -1, -1, 0) != 1);
    BUG_IF(X509_set_issuer_name(x, X509_get_subject_name(spec->issuer != NULL ? spec->issuer : x)) != 1);
    ASN1_TIME_set(X509_getm_notBefore(x), (time_t)(spec->from_s != 0 ? spec->from_s : NOW_S - DAY_S));
    ASN1_TIME_set(X509_getm_notAfter(x), (time_t)(spec->until_s != 0 ? spec->until_s : NOW_S + DAY_S));
    for (size_t i = 0; i < COUNT_OF(extensions); i++) {
        if (extensions[i].value != NULL) {
            X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, extensions[i].nid, extensions[i].value);
            BUG_IF(X509_add_ext(x, extension, -1) != 1);
            X509_EXTENSION_free(extension);
        }
    }
    BUG_IF(X509_sign(x, spec->issuer_key != NULL ? spec->issuer_key : spec->key,
                     spec->digest != NULL ? spec->digest : EVP_sha256()) <= 0);
    return x;
}

static struct spec leaf_spec(void)
{
    return (struct spec){ .name = "leaf",
                          .constraints = "critical,CA:FALSE",
                          .usage = "critical,digitalSignature",
                          .extended_usage = "codeSigning",
                          .key = bench.key,
                          .issuer = bench.middle,
                          .issuer_key = bench.middle_key };
}

static struct span der_of(X509 *x)
{
    uint8_t *der = NULL;
    int len = i2d_X509(x, NULL);
    BUG_IF(FAULTED(arena_take(bench.op->arena, (size_t)len, 1, &der)));
    struct span span = span_of(der, (size_t)len);
    BUG_IF(i2d_X509(x, &der) != len);
    return span;
}

static struct fault check(X509 *const *chain, size_t count)
{
    struct span ders[KEYS_CERTIFICATES_MAX];
    for (size_t i = 0; i < count; i++) {
        ders[i] = der_of(chain[i]);
    }
    bench.op->note = (struct fault_note){ 0 };
    return key_chain_check(bench.op, bench.spki, ders, count, NOW_S * US_PER_S);
}
#define CHECK(...) check((X509 *const[]){ __VA_ARGS__ }, sizeof((X509 *[]){ __VA_ARGS__ }) / sizeof(X509 *))

#define assert_refused(expr, at, because)                                       \
    do {                                                                        \
        assert_fault((expr), CERTIFICATE_REFUSED);                              \
        assert_string_equal(bench.op->note.pointer, "/certificate_chain/" #at); \
        if (strstr(bench.op->note.detail, because) == NULL) {                   \
            fail_msg("wanted '%s', got '%s'", because, bench.op->note.detail);  \
        }                                                                       \
    } while (0)

static void refused_leaf(const struct spec *spec, const char *because)
{
    X509 *leaf = made(spec);
    assert_refused(CHECK(leaf, bench.middle, bench.root), 0, because);
    assert_refused(CHECK(leaf), 0, because);
    X509_free(leaf);
}

static void bytes_that_are_no_certificate_are_refused(void **state)
{
    (void)state;
    struct span leaf = der_of(bench.leaf), bad[3];
    uint8_t more[4096];
    memcpy(more, leaf.at, leaf.len);
    more[leaf.len] = 0;
    bad[0] = span_text("rubbish");
    assert_refused(key_chain_check(bench.op, bench.spki, bad, 1, NOW_S * US_PER_S), 0, "no DER");
    bench.op->note = (struct fault_note){ 0 };
    bad[0] = span_of(leaf.at, leaf.len - 1);
    assert_refused(key_chain_check(bench.op, bench.spki, bad, 1, NOW_S * US_PER_S), 0, "no DER");
    bench.op->note = (struct fault_note){ 0 };
    bad[0] = span_of(more, leaf.len + 1);
    assert_refused(key_chain_check(bench.op, bench.spki, bad, 1, NOW_S * US_PER_S), 0, "bytes follow");
    bench.op->note = (struct fault_note){ 0 };
    bad[0] = leaf;
    bad[1] = span_text("rubbish");
    assert_refused(key_chain_check(bench.op, bench.spki, bad, 2, NOW_S * US_PER_S), 1, "no DER");
}

static void another_keys_certificate_is_refused(void **state)
{
    (void)state;
    struct spec spec = leaf_spec();
    spec.key = bench.other_key;
    refused_leaf(&spec, "another key");
    spec.key = bench.root_key; /* P-384 instead of P-256 */
    refused_leaf(&spec, "another key");
}

static void an_authoritys_certificate_is_refused(void **state)
{
    (void)state;
    struct spec spec = leaf_spec();
    spec.constraints = "critical,CA:TRUE";
    spec.usage = "critical,digitalSignature,keyCertSign";
    refused_leaf(&spec, "authority");
    spec.constraints = NULL;
    spec.usage = "critical,keyCertSign,digitalSignature";
    refused_leaf(&spec, "authority");
}

static void a_certificate_for_another_use_is_refused(void **state)
{
    (void)state;
    struct spec spec = leaf_spec();
    spec.usage = "critical,keyEncipherment";
    refused_leaf(&spec, "digitalSignature");
    spec.usage = "critical,nonRepudiation";
    refused_leaf(&spec, "digitalSignature");
    spec = leaf_spec();
    spec.extended_usage = "serverAuth,clientAuth";
    refused_leaf(&spec, "codeSigning");
    spec.extended_usage = "timeStamping";
    refused_leaf(&spec, "codeSigning");
}

static void what_is_not_valid_now_is_refused_wherever_it_stands(void **state)
{
    (void)state;
    struct spec spec = leaf_spec();
    spec.until_s = NOW_S;
    refused_leaf(&spec, "expired");
    spec = leaf_spec();
    spec.from_s = NOW_S + 301;
    refused_leaf(&spec, "not valid yet");
    struct spec middle = { .name = "middle",
                           .constraints = "critical,CA:TRUE",
                           .key = bench.middle_key,
                           .issuer = bench.root,
                           .issuer_key = bench.root_key,
                           .until_s = NOW_S - 1 };
    X509 *old = made(&middle);
    assert_refused(CHECK(bench.leaf, old, bench.root), 1, "expired");
    X509_free(old);
}

static void a_wrong_order_is_refused(void **state)
{
    (void)state;
    assert_refused(CHECK(bench.leaf, bench.root, bench.middle), 1, "did not issue");
    assert_refused(CHECK(bench.middle, bench.leaf, bench.root), 0, "another key");
    assert_refused(CHECK(bench.leaf, bench.root), 1, "did not issue");
    assert_refused(CHECK(bench.leaf, bench.leaf), 1, "did not issue");
    assert_refused(CHECK(bench.leaf, bench.middle, bench.root, bench.root), 3, "behind a self-signed");
}

/* Right names, wrong key: what an order of names alone would let through. */
static void a_signature_of_somebody_else_is_refused(void **state)
{
    (void)state;
    struct spec spec = leaf_spec();
    EVP_PKEY *forger = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
    spec.issuer_key = forger;
    X509 *forged = made(&spec);
    assert_refused(CHECK(forged, bench.middle, bench.root), 0, "does not verify");
    X509_free(forged);
    EVP_PKEY_free(forger);
    struct spec root = {
        .name = "root", .constraints = "critical,CA:TRUE", .key = bench.root_key, .issuer_key = bench.other_key
    };
    forged = made(&root);
    assert_refused(CHECK(bench.leaf, bench.middle, forged), 2, "does not verify");
    X509_free(forged);
}

static void an_issuer_that_may_not_issue_is_refused(void **state)
{
    (void)state;
    struct spec middle = { .name = "middle",
                           .constraints = "critical,CA:FALSE",
                           .key = bench.middle_key,
                           .issuer = bench.root,
                           .issuer_key = bench.root_key };
    X509 *bad = made(&middle);
    assert_refused(CHECK(bench.leaf, bad, bench.root), 1, "no authority");
    X509_free(bad);
    middle.constraints = NULL;
    bad = made(&middle);
    assert_refused(CHECK(bench.leaf, bad), 1, "no authority");
    X509_free(bad);
    middle.constraints = "critical,CA:TRUE";
    middle.usage = "critical,cRLSign";
    bad = made(&middle);
    assert_refused(CHECK(bench.leaf, bad), 1, "did not issue");
    X509_free(bad);
    struct spec root = { .name = "root", .constraints = "critical,CA:TRUE,pathlen:0", .key = bench.root_key };
    bad = made(&root);
    assert_refused(CHECK(bench.leaf, bench.middle, bad), 2, "fewer authorities");
    X509_free(bad);
}

static void weak_signatures_are_refused(void **state)
{
    (void)state;
    struct spec spec = leaf_spec();
    spec.digest = EVP_sha1();
    X509 *weak = made(&spec);
    assert_refused(CHECK(weak, bench.middle, bench.root), 0, "too weak");
    X509_free(weak);
    EVP_PKEY *short_key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)1024);
    struct spec middle = { .name = "middle", .constraints = "critical,CA:TRUE", .key = short_key };
    X509 *issuer = made(&middle);
    spec = leaf_spec();
    spec.issuer = issuer;
    spec.issuer_key = short_key;
    weak = made(&spec);
    assert_refused(CHECK(weak, issuer), 0, "too weak");
    X509_free(weak);
    X509_free(issuer);
    EVP_PKEY_free(short_key);
}

static void a_chain_in_order_is_taken_to_any_depth(void **state)
{
    (void)state;
    assert_fault(CHECK(bench.leaf), NONE);
    assert_fault(CHECK(bench.leaf, bench.middle), NONE);
    assert_fault(CHECK(bench.leaf, bench.middle, bench.root), NONE);
    struct spec spec = leaf_spec();
    spec.constraints = spec.usage = spec.extended_usage = NULL; /* says nothing: forbids nothing */
    X509 *bare = made(&spec);
    assert_fault(CHECK(bare, bench.middle, bench.root), NONE);
    X509_free(bare);
    spec = leaf_spec();
    spec.extended_usage = "anyExtendedKeyUsage";
    X509 *any = made(&spec);
    assert_fault(CHECK(any, bench.middle), NONE);
    X509_free(any);
}

static int new_op(void **state)
{
    (void)state;
    if (FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &bench.op))) {
        return -1;
    }
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(bench.key, &der);
    BUG_IF(FAULTED(arena_copy(bench.op->arena, span_of(der, (size_t)len), &bench.spki)));
    OPENSSL_free(der);
    return 0;
}
static int free_op(void **state)
{
    (void)state;
    op_free(TAKE(bench.op));
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, new_op, free_op)

static int setup(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf detail = BUF_INIT(2048);
    struct config config = { .fips_required = true, .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so" };
    BUG_IF(FAULTED(fips_start(&config, &detail)));
    bench.root_key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
    bench.middle_key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
    bench.key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    bench.other_key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    struct spec root = { .name = "root", .constraints = "critical,CA:TRUE", .key = bench.root_key };
    bench.root = made(&root);
    struct spec middle = { .name = "middle",
                           .constraints = "critical,CA:TRUE,pathlen:0",
                           .usage = "critical,keyCertSign",
                           .key = bench.middle_key,
                           .issuer = bench.root,
                           .issuer_key = bench.root_key };
    bench.middle = made(&middle);
    struct spec leaf = leaf_spec();
    bench.leaf = made(&leaf);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    X509_free(bench.root);
    X509_free(bench.middle);
    X509_free(bench.leaf);
    EVP_PKEY_free(bench.root_key);
    EVP_PKEY_free(bench.middle_key);
    EVP_PKEY_free(bench.key);
    EVP_PKEY_free(bench.other_key);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_that_are_no_certificate_are_refused),
        TEST(another_keys_certificate_is_refused),
        TEST(an_authoritys_certificate_is_refused),
        TEST(a_certificate_for_another_use_is_refused),
        TEST(what_is_not_valid_now_is_refused_wherever_it_stands),
        TEST(a_wrong_order_is_refused),
        TEST(a_signature_of_somebody_else_is_refused),
        TEST(an_issuer_that_may_not_issue_is_refused),
        TEST(weak_signatures_are_refused),
        TEST(a_chain_in_order_is_taken_to_any_depth),
    };
    return cmocka_run_group_tests_name("chain", tests, setup, teardown);
}
