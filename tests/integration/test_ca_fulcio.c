/*
 * A real Fulcio (tests/peers/fulcio) certifies keys of a real svc-signer for identities of an OIDC issuer of this
 * test's own. The program is SVC_TEST_FULCIO, else /opt/peers/fulcio-server.
 */
#include "integration/signer.h"

#include "api/ca/internal.h"
#include "appliance/http/http.h"
#include "fips/fips.h"
#include "signer-pkcs11/provider/provider.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define SAN_PATH   "acme/app/.github/workflows/release.yml@refs/heads/main"
#define SUBJECT    "repo:acme/app:ref:refs/heads/main"
#define CLAIM_LIFE 600

static struct rig rig;
static struct bench {
    const char *program;
    char issuer[64], san[160], url[64], root[256], token[4096], mail_token[4096];
    pid_t issuer_pid, fulcio_pid;
    uint16_t issuer_port, fulcio_port;
    struct key_ref key;
    struct buf spki;
    struct config config;
} bench;

static uint16_t free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    for (;;) {
        uint16_t port = 0;
        assert_fault(random_bytes((uint8_t *)&port, sizeof(port)), NONE);
        port = (uint16_t)(20000 + port % 12000); /* below what outgoing connections take */
        address.sin_port = htons(port);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int taken = bind(fd, (struct sockaddr *)&address, sizeof(address));
        fd_close(fd);
        if (taken == 0) {
            return port;
        }
    }
}

static void wait_for_port(uint16_t port, pid_t pid)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons(port) };
    mono_ns limit = clock_mono() + RIG_LIMIT;
    for (;;) {
        int status = 0;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int answers = connect(fd, (struct sockaddr *)&address, sizeof(address));
        fd_close(fd);
        if (answers == 0) {
            return;
        }
        if (clock_mono() > limit || waitpid(pid, &status, WNOHANG) != 0) {
            rig_print_log(&rig);
            fail_msg("nobody listens on %u", (unsigned)port);
        }
        (void)poll(NULL, 0, 10); /* there is nothing to wait on before it listens */
    }
}

static pid_t spawn(const char *const *argv)
{
    pid_t pid = 0;
    (void)rig_run(&rig, (char *const *)argv, &pid);
    return pid;
}

static void stop(pid_t *pid)
{
    int status = 0;
    if (*pid > 0) {
        (void)kill(*pid, SIGKILL);
        (void)waitpid(*pid, &status, 0);
    }
    *pid = 0;
}

#define RUN(...)   rig_run(&rig, (char *const *)(const char *const[]){ __VA_ARGS__, NULL }, NULL)
#define PATH(name) path_in((char[160]){ 0 }, name)
static char *path_in(char *out, const char *name)
{
    (void)snprintf(out, 160, "%s/%s", rig.folder, name);
    return out;
}

/* ---- the issuer: two files over HTTP, and tokens signed by its key ---- */

static void make_token(const char *more, char *out, size_t size)
{
    char claims[2048];
    CLEANUP(buf_free) struct buf token = BUF_INIT(4096);
    int64_t now = clock_utc() / US_PER_S;
    (void)snprintf(claims, sizeof(claims), "{\"iss\":\"%s\",\"aud\":\"sigstore\",\"iat\":%lld,\"exp\":%lld,%s}",
                   bench.issuer, (long long)now, (long long)now + CLAIM_LIFE, more);
    rig_write(&rig, "claims.json", claims, 0600);
    assert_int_equal(RUN("jose", "jws", "sig", "-c", "-I", PATH("claims.json"), "-k", PATH("key.jwk"), "-s",
                         "{\"protected\":{\"alg\":\"ES256\",\"kid\":\"k1\"}}", "-o", PATH("token")),
                     0);
    assert_fault(file_read(rig_path(&rig, "token"), &token), NONE);
    while (token.len > 0 && token.at[token.len - 1] == '\n') {
        token.len--;
    }
    (void)snprintf(out, size, "%.*s", (int)token.len, (const char *)token.at);
}

static void start_issuer(void)
{
    char text[1024], port[8];
    CLEANUP(buf_free) struct buf public = BUF_INIT(4096);
    bench.issuer_port = free_port();
    (void)snprintf(bench.issuer, sizeof(bench.issuer), "http://127.0.0.1:%u", (unsigned)bench.issuer_port);
    (void)snprintf(port, sizeof(port), "%u", (unsigned)bench.issuer_port);
    assert_fault(file_make_dirs(rig_path(&rig, "oidc/.well-known"), 0700), NONE);
    assert_int_equal(RUN("jose", "jwk", "gen", "-i", "{\"alg\":\"ES256\",\"kid\":\"k1\"}", "-o", PATH("key.jwk")), 0);
    assert_int_equal(RUN("jose", "jwk", "pub", "-s", "-i", PATH("key.jwk"), "-o", PATH("oidc/jwks")), 0);
    (void)snprintf(text, sizeof(text),
                   "{\"issuer\":\"%s\",\"jwks_uri\":\"%s/jwks\",\"authorization_endpoint\":\"%s/a\","
                   "\"response_types_supported\":[\"id_token\"],\"subject_types_supported\":[\"public\"],"
                   "\"id_token_signing_alg_values_supported\":[\"ES256\"]}",
                   bench.issuer, bench.issuer, bench.issuer);
    rig_write(&rig, "oidc/.well-known/openid-configuration", text, 0600);
    bench.issuer_pid = spawn((const char *const[]){ "python3", "-m", "http.server", "--bind", "127.0.0.1",
                                                    "--directory", PATH("oidc"), port, NULL });
    wait_for_port(bench.issuer_port, bench.issuer_pid);
    make_token("\"sub\":\"" SUBJECT "\",\"job_workflow_ref\":\"" SAN_PATH "\",\"sha\":\"abc\",\"event_name\":\"push\","
               "\"repository\":\"acme/app\",\"workflow\":\"release\",\"ref\":\"refs/heads/main\","
               "\"job_workflow_sha\":\"abc\",\"runner_environment\":\"github-hosted\",\"repository_id\":\"1\","
               "\"repository_owner\":\"acme\",\"repository_owner_id\":\"2\",\"repository_visibility\":\"private\","
               "\"workflow_ref\":\"" SAN_PATH "\",\"workflow_sha\":\"abc\",\"run_id\":\"3\",\"run_attempt\":\"1\"",
               bench.token, sizeof(bench.token));
}

static void start_fulcio(const char *type)
{
    char text[512], listen[32];
    (void)snprintf(text, sizeof(text),
                   "{\"OIDCIssuers\":{\"%s\":{\"IssuerURL\":\"%s\",\"ClientID\":\"sigstore\",\"Type\":\"%s\"}}}",
                   bench.issuer, bench.issuer, type);
    rig_write(&rig, "fulcio.json", text, 0600);
    bench.fulcio_port = free_port();
    (void)snprintf(listen, sizeof(listen), "127.0.0.1:%u", (unsigned)bench.fulcio_port);
    (void)snprintf(bench.url, sizeof(bench.url), "http://%s", listen);
    (void)snprintf(bench.root, sizeof(bench.root), "%s", rig_path(&rig, "fulcio-root.pem"));
    bench.fulcio_pid = spawn((const char *const[]){ bench.program, "-listen", listen, "-config", PATH("fulcio.json"),
                                                    "-root", bench.root, NULL });
    wait_for_port(bench.fulcio_port, bench.fulcio_pid);
    bench.config = *rig.config;
    bench.config.fulcio_url = bench.url;
    bench.config.fulcio_root = bench.root;
}

/* ---- the tests ---- */

static struct keyless_subject subject_of(void)
{
    struct keyless_subject subject = {
        .key = bench.key,
        .spki = buf_span(&bench.spki),
        .san = bench.san,
        .san_kind = KEYLESS_SAN_URI,
        .issuer = bench.issuer,
        .subject = SUBJECT,
        .proof = span_text(bench.token),
        .not_before = clock_utc(),
    };
    assert_fault(uuid_new(&subject.operation_id), NONE);
    return subject;
}

static struct fault ask(struct op *op, const struct keyless_subject *subject, struct span **ret_chain,
                        size_t *ret_count)
{
    return keyless_issue(op, &bench.config, rig.client, NULL, subject, ret_chain, ret_count);
}

static void needs_fulcio(void)
{
    if (access(bench.program, X_OK) != 0) {
        fail_msg("no %s: peers_ensure of scripts/lib/root.sh builds it", bench.program);
    }
}

static void a_proof_that_fulcio_does_not_believe_is_a_refusal(void **state)
{
    (void)state;
    needs_fulcio();
    CLEANUP(op_freep) struct op *op = op_within(30000);
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    size_t count = 0;
    bench.token[strlen(bench.token) - 3] ^= 1;
    assert_fault(ask(op, &subject, &chain, &count), FULCIO_REFUSED);
    assert_non_null(strstr(op->note.detail, "400"));
    bench.token[strlen(bench.token) - 3] ^= 1;
    op->note = (struct fault_note){ 0 };
    subject = subject_of();
    subject.subject = "repo:evil/app:ref:refs/heads/main"; /* proves possession for another principal */
    assert_fault(ask(op, &subject, &chain, &count), FULCIO_REFUSED);
    assert_non_null(strstr(op->note.detail, "400"));
    assert_null(chain);
}

static void what_fulcio_says_of_the_identity_must_be_what_was_verified(void **state)
{
    (void)state;
    needs_fulcio();
    CLEANUP(op_freep) struct op *op = op_within(30000);
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    size_t count = 0;
    subject.san = "https://github.com/acme/other/.github/workflows/release.yml@refs/heads/main";
    assert_fault(ask(op, &subject, &chain, &count), FULCIO_REFUSED);
    assert_non_null(strstr(op->note.detail, "another identity"));
    op->note = (struct fault_note){ 0 };
    subject = subject_of();
    subject.issuer = "https://token.actions.githubusercontent.com";
    assert_fault(ask(op, &subject, &chain, &count), FULCIO_REFUSED);
    assert_non_null(strstr(op->note.detail, "another issuer"));
    assert_null(chain);
}

static void another_root_than_the_pinned_one_is_refused(void **state)
{
    (void)state;
    needs_fulcio();
    CLEANUP(op_freep) struct op *op = op_within(30000);
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    size_t count = 0;
    assert_int_equal(RUN("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes",
                         "-keyout", PATH("evil.key"), "-out", PATH("evil.pem"), "-subj", "/O=fulcio for tests/CN=root"),
                     0);
    bench.config.fulcio_root = PATH("evil.pem");
    assert_fault(ask(op, &subject, &chain, &count), FULCIO_REFUSED);
    assert_non_null(strstr(op->note.detail, "does not lead to a root"));
    bench.config.fulcio_root = bench.root;
    assert_null(chain);
}

static void a_real_fulcio_certifies_the_key_and_the_identity(void **state)
{
    (void)state;
    needs_fulcio();
    CLEANUP(op_freep) struct op *op = op_within(30000);
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    size_t count = 0;
    struct fault fault = ask(op, &subject, &chain, &count);
    if (FAULTED(fault)) {
        fail_msg("%s / %s", op->note.detail, op->note.log_detail);
    }
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        static const char *const names[] = { "leaf.pem", "middle.pem", "top.pem" };
        CLEANUP(buf_free) struct buf pem = BUF_INIT(65536);
        assert_fault(ca_pem("CERTIFICATE", chain[i], &pem), NONE);
        assert_fault(file_write(rig_path(&rig, names[i]), buf_span(&pem), 0600), NONE);
    }
    assert_int_equal(RUN("openssl", "verify", "-x509_strict", "-purpose", "codesign", "-CAfile", PATH("top.pem"),
                         "-untrusted", PATH("middle.pem"), PATH("leaf.pem")),
                     0);
}

static void a_fulcio_that_is_gone_is_an_outage(void **state)
{
    (void)state;
    needs_fulcio();
    CLEANUP(op_freep) struct op *op = op_within(30000);
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    size_t count = 0;
    stop(&bench.fulcio_pid);
    assert_fault(ask(op, &subject, &chain, &count), FULCIO_UNAVAILABLE);
    assert_null(chain);
}

static void an_address_is_proved_by_the_address(void **state)
{
    (void)state;
    needs_fulcio();
    CLEANUP(op_freep) struct op *op = op_within(30000);
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    size_t count = 0;
    make_token("\"sub\":\"12345\",\"email\":\"release@acme.example\",\"email_verified\":true", bench.mail_token,
               sizeof(bench.mail_token));
    start_fulcio("email");
    subject.san = "release@acme.example";
    subject.san_kind = KEYLESS_SAN_EMAIL;
    subject.subject = "12345";
    subject.proof = span_text(bench.mail_token);
    assert_fault(ask(op, &subject, &chain, &count), NONE);
    assert_int_equal(count, 3);
    stop(&bench.fulcio_pid);
}

static int setup(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf detail = BUF_INIT(2048);
    bench.program = getenv("SVC_TEST_FULCIO");
    bench.program = bench.program != NULL ? bench.program : "/opt/peers/fulcio-server";
    bench.spki = (struct buf)BUF_INIT(SPKI_MAX);
    rig_new(&rig, "");
    assert_fault(fips_start(rig.config, &detail), NONE);
    rig_start(&rig);
    assert_fault(svc_provider_load(fips_libctx(), rig.client), NONE);
    CLEANUP(op_freep) struct op *op = op_within(30000);
    bench.key = key_new(KEY_PURPOSE_CODESIGN_EPHEMERAL);
    assert_fault(signer_generate(op, rig.client, &bench.key, KEY_ALGORITHM_EC_P256, &bench.spki), NONE);
    (void)snprintf(bench.san, sizeof(bench.san), "https://github.com/" SAN_PATH);
    if (access(bench.program, X_OK) == 0) {
        start_issuer();
        start_fulcio("github-workflow");
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_forget();
    stop(&bench.fulcio_pid);
    stop(&bench.issuer_pid);
    buf_free(&bench.spki);
    rig_free(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_that_fulcio_does_not_believe_is_a_refusal),
        cmocka_unit_test(what_fulcio_says_of_the_identity_must_be_what_was_verified),
        cmocka_unit_test(another_root_than_the_pinned_one_is_refused),
        cmocka_unit_test(a_real_fulcio_certifies_the_key_and_the_identity),
        cmocka_unit_test(a_fulcio_that_is_gone_is_an_outage),
        cmocka_unit_test(an_address_is_proved_by_the_address),
    };
    return cmocka_run_group_tests_name("fulcio", tests, setup, teardown);
}
