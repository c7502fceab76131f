/* What this client writes is taken by cosign, and what cosign writes is taken here: with plain keys, offline. */
#include "tests/unit/cli/sigstore.h"

#include "appliance/base/file.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static struct world world;
static char folder[] = "/tmp/svc-cosign-XXXXXX";

static const char *in(const char *name)
{
    const char *path = NULL;
    assert_fault(arena_printf(world.op->arena, &path, "%s/%s", folder, name), NONE);
    return path;
}

static void put(const char *name, struct span bytes)
{
    assert_fault(file_write(in(name), bytes, 0600), NONE);
}

/* The exit code; what it says goes to the test's own output. */
static int run(const char *const *words)
{
    pid_t pid = 0;
    int status = 0;
    assert_int_equal(posix_spawnp(&pid, words[0], NULL, NULL, (char *const *)(uintptr_t)words, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#define RUN(...) run((const char *const[]){ __VA_ARGS__, NULL })

static int begin(void **state)
{
    (void)state;
    static const char root[] = "{\"mediaType\":\"application/vnd.dev.sigstore.trustedroot+json;version=0.1\"}";
    world = world_made();
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("HOME", folder, 1), 0);
    assert_int_equal(setenv("COSIGN_PASSWORD", "", 1), 0);
    put("artifact", span_text(ARTIFACT));
    put("root.json", span_text(root)); /* so that cosign asks no update server */
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)RUN("rm", "-rf", folder);
    world_clear(&world);
    return 0;
}

static int cosign_verifies(const char *bundle, const char *key, const char *artifact)
{
    return RUN("cosign", "verify-blob", "--key", key, "--bundle", bundle, "--new-bundle-format",
               "--insecure-ignore-tlog", "--trusted-root", in("root.json"), artifact);
}

static void read_bundle(const char *path, struct bundle *ret_bundle)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(BUNDLE_MAX);
    assert_fault(file_read(path, &bytes), NONE);
    assert_fault(bundle_parse(world.op, buf_span(&bytes), ret_bundle), NONE);
}

static struct span key_of_pem(const char *path)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(ROOM);
    assert_fault(file_read(path, &bytes), NONE);
    BIO *bio = BIO_new_mem_buf(bytes.at, (int)bytes.len);
    EVP_PKEY *key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    assert_non_null(key);
    struct span spki = spki_of(world.op, key);
    EVP_PKEY_free(key);
    BIO_free(bio);
    return spki;
}

static void write_bundle(const char *name, struct span spki, struct span signature)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(BUNDLE_MAX);
    struct bundle bundle = { .hash = "sha256", .digest = world.digest, .signature = signature };
    assert_fault(bundle_hint(world.op, spki, &bundle.hint), NONE);
    assert_fault(bundle_print(&bundle, &out), NONE);
    put(name, buf_span(&out));
}

/* Key and signature by the openssl program, bundle by us, verdict by cosign. */
static void cosign_takes_our_bundle(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(ROOM);
    assert_int_equal(
        RUN("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", in("key.pem")), 0);
    assert_int_equal(RUN("openssl", "pkey", "-in", in("key.pem"), "-pubout", "-out", in("pub.pem")), 0);
    assert_int_equal(RUN("openssl", "dgst", "-sha256", "-sign", in("key.pem"), "-out", in("signature"), in("artifact")),
                     0);
    assert_fault(file_read(in("signature"), &signature), NONE);
    write_bundle("ours.json", key_of_pem(in("pub.pem")), buf_span(&signature));
    put("altered", span_text("hellO\n"));
    assert_int_not_equal(cosign_verifies(in("ours.json"), in("pub.pem"), in("altered")), 0);
    assert_int_equal(cosign_verifies(in("ours.json"), in("pub.pem"), in("artifact")), 0);
}

static void cosign_takes_our_bundle_of_an_rsa_key(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(ROOM);
    assert_int_equal(
        RUN("openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072", "-out", in("rsa.pem")), 0);
    assert_int_equal(RUN("openssl", "pkey", "-in", in("rsa.pem"), "-pubout", "-out", in("rsa.pub")), 0);
    assert_int_equal(RUN("openssl", "dgst", "-sha256", "-sign", in("rsa.pem"), "-out", in("rsa.sig"), in("artifact")),
                     0);
    assert_fault(file_read(in("rsa.sig"), &signature), NONE);
    write_bundle("rsa.json", key_of_pem(in("rsa.pub")), buf_span(&signature));
    assert_int_equal(cosign_verifies(in("rsa.json"), in("rsa.pub"), in("artifact")), 0);
}

static void we_take_cosigns_bundle(void **state)
{
    (void)state;
    struct bundle bundle;
    struct bundle_verdict verdict;
    assert_int_equal(RUN("cosign", "generate-key-pair", "--output-key-prefix", in("cosign")), 0);
    assert_int_equal(RUN("cosign", "sign-blob", "--yes", "--key", in("cosign.key"), "--new-bundle-format", "--bundle",
                         in("theirs.json"), "--tlog-upload=false", in("artifact")),
                     0);
    read_bundle(in("theirs.json"), &bundle);
    struct bundle_expect expect = { .digest = world.digest, .key = world.leaf.spki };
    assert_fault(bundle_verify(world.op, &bundle, &expect, &verdict), SIGNATURE_INVALID);
    world.op->note = (struct fault_note){ 0 };
    expect.key = key_of_pem(in("cosign.pub"));
    assert_fault(bundle_verify(world.op, &bundle, &expect, &verdict), NONE);
    assert_string_equal(verdict.scheme, "ecdsa");
    const char *hint = NULL;
    assert_fault(bundle_hint(world.op, expect.key, &hint), NONE);
    assert_string_equal(bundle.hint, hint);
}

static int cosign_verifies_identity(const char *bundle, const char *identity, const char *more)
{
    return RUN("cosign", "verify-blob", "--bundle", bundle, "--new-bundle-format", "--trusted-root", in("world.json"),
               "--certificate-identity", identity, "--certificate-oidc-issuer", ISSUER, "--insecure-ignore-sct",
               in("artifact"), more);
}

static void put_bundle(const char *name, const struct bundle *bundle)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(BUNDLE_MAX);
    assert_fault(bundle_print(bundle, &out), NONE);
    put(name, buf_span(&out));
}

/* Certificate, log entry with its proof, time stamp: cosign checks all of them against the same trusted root. */
static void cosign_takes_our_keyless_bundle(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT), bad;
    bundle.stamps[0] = stamp_made(&world, world.signature, SIGNED_AT + 1);
    bundle.stamp_count = 1;
    put("world.json", span_text(root_json(&world)));
    put_bundle("keyless.json", &bundle);
    assert_int_equal(cosign_verifies_identity(in("keyless.json"), IDENTITY, NULL), 0);
    assert_int_equal(cosign_verifies_identity(in("keyless.json"), IDENTITY, "--use-signed-timestamps"), 0);
    assert_int_not_equal(cosign_verifies_identity(in("keyless.json"), IDENTITY "x", NULL), 0);
    bad = bundle;
    bad.entries[0].integrated_time++;
    put_bundle("bad.json", &bad);
    assert_int_not_equal(cosign_verifies_identity(in("bad.json"), IDENTITY, NULL), 0);
}

/* A governed key without a certificate: its entry names the key. */
static void cosign_takes_our_bundle_of_a_key_with_its_entry(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, (struct span){ 0 }, SIGNED_AT);
    put("world.json", span_text(root_json(&world)));
    put("world.pub", pem_of(world.op, "PUBLIC KEY", world.leaf.spki));
    assert_fault(bundle_hint(world.op, world.leaf.spki, &bundle.hint), NONE);
    put_bundle("keyed.json", &bundle);
    assert_int_equal(RUN("cosign", "verify-blob", "--bundle", in("keyed.json"), "--new-bundle-format", "--trusted-root",
                         in("world.json"), "--key", in("world.pub"), in("artifact")),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cosign_takes_our_bundle),
        cmocka_unit_test(cosign_takes_our_bundle_of_an_rsa_key),
        cmocka_unit_test(we_take_cosigns_bundle),
        cmocka_unit_test(cosign_takes_our_keyless_bundle),
        cmocka_unit_test(cosign_takes_our_bundle_of_a_key_with_its_entry),
    };
    return cmocka_run_group_tests_name("cosign", tests, begin, end);
}
