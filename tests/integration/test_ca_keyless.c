/* Keyless certificates from keys of a real svc-signer on SoftHSM, judged by programs of others: openssl and cosign. */
#include "integration/signer.h"

#include "api/ca/internal.h"
#include "appliance/base/codec.h"
#include "fips/fips.h"
#include "signer-pkcs11/provider/provider.h"

#define ISSUER "https://token.actions.githubusercontent.com"
#define SAN    "https://github.com/acme/app/.github/workflows/release.yml@refs/heads/main"
#define BLOB   "the bytes of a release"

static struct rig rig;
static struct made {
    struct key_ref ca, ephemeral;
    struct span ca_spki, spki;
    struct keyless_authority authority;
} made[2];                /* an ECDSA authority and an RSA one */
static struct op *keeper; /* whose arena holds what `made` points to */

static const struct keyless_claim claims[] = {
    { 1, ISSUER }, { 2, "push" }, { 8, ISSUER }, { 9, SAN }, { 11, "github-hosted" }, { 20, "push" },
};

static struct key_ref key_made(enum key_purpose purpose, enum key_algorithm algorithm, struct span *ret_spki)
{
    struct key_ref key = key_new(purpose);
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    assert_fault(signer_generate(keeper, rig.client, &key, algorithm, &spki), NONE);
    assert_fault(arena_copy(keeper->arena, buf_span(&spki), ret_spki), NONE);
    return key;
}

/* An operation belongs to one tenant, hence to one authority. */
static struct keyless_subject subject_of(const struct made *one, unsigned operation)
{
    static utc_us now; /* the same for every try of the same operation */
    now = now == 0 ? clock_utc() : now;
    struct keyless_subject subject = {
        .key = one->ephemeral,
        .spki = one->spki,
        .san = SAN,
        .san_kind = KEYLESS_SAN_URI,
        .issuer = ISSUER,
        .subject = "repo:acme/app:ref:refs/heads/main",
        .claims = claims,
        .claim_count = COUNT_OF(claims),
        .not_before = now,
    };
    (void)snprintf(subject.operation_id.text, sizeof(subject.operation_id.text),
                   "01900000-0000-7000-8000-00000000%02x%02x", (unsigned)(one - made), operation);
    return subject;
}

static struct fault issue(struct op *op, const struct made *one, unsigned operation, struct span **ret_chain)
{
    struct keyless_subject subject = subject_of(one, operation);
    size_t count = 0;
    TRY(keyless_issue(op, rig.config, rig.client, &one->authority, &subject, ret_chain, &count));
    assert_int_equal(count, 2);
    return OK;
}

static void write_pem(const char *name, struct span der)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(65536);
    assert_fault(ca_pem("CERTIFICATE", der, &pem), NONE);
    assert_fault(file_write(rig_path(&rig, name), buf_span(&pem), 0600), NONE);
}

/* Runs in the rig's folder's log; the arguments end with NULL. */
static int run(const char *const *argv)
{
    (void)unlink(rig.log_path);
    return rig_run(&rig, (char *const *)argv, NULL);
}

#define RUN(...) run((const char *const[]){ __VA_ARGS__, NULL })

static char paths[4][160];
static const char *path(unsigned slot, const char *name)
{
    (void)snprintf(paths[slot], sizeof(paths[slot]), "%s/%s", rig.folder, name);
    return paths[slot];
}

static void a_dead_signer_issues_nothing(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_within(3000);
    struct span *chain = NULL, root = { 0 };
    (void)rig_end(&rig, SIGKILL);
    assert_fault(issue(op, &made[0], 0xd0, &chain), SIGNER_UNAVAILABLE);
    assert_fault(keyless_root_issue(op, rig.client, &made[0].ca, made[0].ca_spki, clock_utc(), &root),
                 SIGNER_UNAVAILABLE);
    assert_null(chain);
    rig_start(&rig);
}

/* The serial number derives from the operation, and the journal keeps the signature: a second certificate of the same
 * operation cannot come to be, neither by repetition nor after the signer died. */
static void the_same_operation_is_the_same_certificate_for_ever(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(made); i++) {
        CLEANUP(op_freep) struct op *op = op_within(30000);
        struct span *first = NULL, *again = NULL, *later = NULL, *other = NULL;
        assert_fault(issue(op, &made[i], 1, &first), NONE);
        assert_fault(issue(op, &made[i], 1, &again), NONE);
        assert_true(span_equal(first[0], again[0]));
        (void)rig_end(&rig, SIGKILL);
        rig_start(&rig);
        assert_fault(issue(op, &made[i], 1, &later), NONE);
        assert_true(span_equal(first[0], later[0]));
        assert_fault(issue(op, &made[i], 2, &other), NONE);
        assert_false(span_equal(first[0], other[0]));
        /* the root as well: of one key and one time there is one */
        struct span root;
        utc_us from = clock_utc() - 60 * US_PER_S;
        assert_fault(keyless_root_issue(op, rig.client, &made[i].ca, made[i].ca_spki, from, &root), NONE);
        struct span same;
        assert_fault(keyless_root_issue(op, rig.client, &made[i].ca, made[i].ca_spki, from, &same), NONE);
        assert_true(span_equal(root, same));
    }
}

/* Another leaf under the id of an operation that has one already is refused by the journal. */
static void another_certificate_for_the_same_operation_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_within(30000);
    struct keyless_subject subject = subject_of(&made[0], 3);
    struct span *chain = NULL;
    size_t count = 0;
    assert_fault(issue(op, &made[0], 3, &chain), NONE);
    chain = NULL;
    subject.san = "https://github.com/evil/app/.github/workflows/release.yml@refs/heads/main";
    assert_fault(keyless_issue(op, rig.config, rig.client, &made[0].authority, &subject, &chain, &count),
                 SIGNER_OP_MISMATCH);
    assert_null(chain);
}

static void openssl_takes_the_chain(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "Version: 3",
        "Subject: \n",
        "X509v3 Subject Alternative Name: critical",
        ("URI:" SAN),
        "X509v3 Key Usage: critical",
        "Digital Signature\n",
        "Code Signing\n",
        "1.3.6.1.4.1.57264.1.1",
        "1.3.6.1.4.1.57264.1.20",
        "X509v3 Authority Key Identifier",
        "Not Before",
    };
    for (size_t i = 0; i < COUNT_OF(made); i++) {
        CLEANUP(op_freep) struct op *op = op_within(30000);
        struct span *chain = NULL;
        assert_fault(issue(op, &made[i], 4, &chain), NONE);
        write_pem("leaf.pem", chain[0]);
        write_pem("root.pem", chain[1]);
        assert_int_equal(RUN("openssl", "verify", "-x509_strict", "-purpose", "codesign", "-CAfile",
                             path(0, "root.pem"), path(1, "leaf.pem")),
                         0);
        assert_int_equal(RUN("openssl", "x509", "-in", path(1, "leaf.pem"), "-noout", "-text"), 0);
        for (size_t n = 0; n < COUNT_OF(wanted); n++) {
            if (!rig_log_has(&rig, wanted[n])) {
                rig_print_log(&rig);
                fail_msg("'%s' is not in it", wanted[n]);
            }
        }
        /* not for anything else, and not under another root */
        assert_int_not_equal(
            RUN("openssl", "verify", "-purpose", "sslserver", "-CAfile", path(0, "root.pem"), path(1, "leaf.pem")), 0);
        write_pem("root.pem", made[1 - i].authority.certificate);
        assert_int_not_equal(RUN("openssl", "verify", "-CAfile", path(0, "root.pem"), path(1, "leaf.pem")), 0);
    }
}

static void sign_blob(struct op *op, const struct made *one)
{
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    CLEANUP(buf_free) struct buf text = BUF_INIT((size_t)SIGNATURE_MAX * 2);
    struct sha256 digest;
    assert_fault(sha256_of(span_text(BLOB), &digest), NONE);
    struct sign_request request = {
        .key = one->ephemeral, .scheme = SIGN_SCHEME_ECDSA, .hash = HASH_SHA256, .digest = SPAN_ARRAY(digest.at)
    };
    assert_fault(uuid_new(&request.op_id), NONE);
    assert_fault(signer_sign(op, rig.client, &request, &signature), NONE);
    assert_fault(base64_encode(buf_span(&signature), &text), NONE);
    rig_write(&rig, "blob", BLOB, 0600);
    assert_fault(file_write(rig_path(&rig, "blob.sig"), buf_span(&text), 0600), NONE);
}

static int cosign_judges(const char *san, const char *issuer)
{
    return RUN("cosign", "verify-blob", "--certificate", path(0, "leaf.pem"), "--certificate-chain",
               path(1, "root.pem"), "--signature", path(2, "blob.sig"), "--certificate-identity", san,
               "--certificate-oidc-issuer", issuer, "--insecure-ignore-sct", "--insecure-ignore-tlog=true",
               "--certificate-github-workflow-trigger", "push", path(3, "blob"));
}

static void cosign_takes_what_the_ephemeral_key_signed(void **state)
{
    (void)state;
    assert_int_equal(setenv("HOME", rig.folder, 1), 0);
    for (size_t i = 0; i < COUNT_OF(made); i++) {
        CLEANUP(op_freep) struct op *op = op_within(30000);
        struct span *chain = NULL;
        assert_fault(issue(op, &made[i], 5, &chain), NONE);
        write_pem("leaf.pem", chain[0]);
        write_pem("root.pem", chain[1]);
        sign_blob(op, &made[i]);
        int verdict = cosign_judges(SAN, ISSUER);
        if (verdict != 0) {
            rig_print_log(&rig);
        }
        assert_int_equal(verdict, 0);
        assert_true(rig_log_has(&rig, "Verified OK"));
        assert_int_not_equal(cosign_judges("https://github.com/evil/app", ISSUER), 0);
        assert_int_not_equal(cosign_judges(SAN, "https://accounts.example"), 0);
        rig_write(&rig, "blob", BLOB "!", 0600);
        assert_int_not_equal(cosign_judges(SAN, ISSUER), 0);
    }
}

static int setup(void **state)
{
    (void)state;
    static const enum key_algorithm algorithms[] = { KEY_ALGORITHM_EC_P384, KEY_ALGORITHM_RSA_3072 };
    CLEANUP(buf_free) struct buf detail = BUF_INIT(2048);
    rig_new(&rig, "");
    assert_fault(fips_start(rig.config, &detail), NONE);
    rig_start(&rig);
    assert_fault(svc_provider_load(fips_libctx(), rig.client), NONE);
    keeper = op_within(120000);
    for (size_t i = 0; i < COUNT_OF(made); i++) {
        made[i].ca = key_made(KEY_PURPOSE_CA, algorithms[i], &made[i].ca_spki);
        made[i].ephemeral = key_made(KEY_PURPOSE_CODESIGN_EPHEMERAL, KEY_ALGORITHM_EC_P256, &made[i].spki);
        made[i].authority = (struct keyless_authority){ .key = made[i].ca, .spki = made[i].ca_spki };
        assert_fault(keyless_root_issue(keeper, rig.client, &made[i].ca, made[i].ca_spki, clock_utc() - 60 * US_PER_S,
                                        &made[i].authority.certificate),
                     NONE);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    op_free(TAKE(keeper));
    rig_free(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_signer_issues_nothing),
        cmocka_unit_test(another_certificate_for_the_same_operation_is_refused),
        cmocka_unit_test(the_same_operation_is_the_same_certificate_for_ever),
        cmocka_unit_test(openssl_takes_the_chain),
        cmocka_unit_test(cosign_takes_what_the_ephemeral_key_signed),
    };
    return cmocka_run_group_tests_name("keyless certificates", tests, setup, teardown);
}
