/* A signer on another host, here by loopback: who is not let in, and what a connection survives. */
#include "signer.h"

#include <openssl/ssl.h>

static struct rig rig;

static int raw_connection(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)rig.port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Returns when the signer has written it. */
static void await_log(const char *text)
{
    mono_ns limit = clock_mono() + RIG_LIMIT;
    while (!rig_log_has(&rig, text)) {
        if (clock_mono() > limit) {
            rig_print_log(&rig);
            fail_msg("the log does not say %s", text);
        }
        (void)poll(NULL, 0, 5); /* a file cannot be waited for */
    }
}

static struct fault ask_with(struct signer_client *client)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    struct signer_health health;
    return signer_health(op, client, &health);
}

/* Asks with another certificate for the client's end: that of `folder`/tls/<side>. */
static struct fault ask_as(const char *side)
{
    struct config config = *rig.config;
    struct signer_client *client = NULL;
    char name[64], certificate[256], key[256];
    (void)snprintf(name, sizeof(name), "tls/%s.pem", side);
    (void)snprintf(certificate, sizeof(certificate), "%s", rig_path(&rig, name));
    (void)snprintf(name, sizeof(name), "tls/%s.key", side);
    (void)snprintf(key, sizeof(key), "%s", rig_path(&rig, name));
    config.signer_tls_certificate = certificate;
    config.signer_tls_key = key;
    assert_fault(signer_client_new(&config, &client), NONE);
    struct fault fault = ask_with(client);
    signer_client_free(client);
    return fault;
}

static void who_is_not_the_pinned_api_is_not_heard(void **state)
{
    (void)state;
    struct issued other = certs_issue(&(struct certs_wanted){ .name = "rig authority", .authority = true });
    const struct {
        struct certs_wanted wanted;
        const char *reason;
    } rows[] = {
        { { .names = "URI:" RIG_API_NAME, .issuer = &other }, "certificate_untrusted" },
        { { .names = "URI:spiffe://test/other", .issuer = &rig.ca }, "peer_name" },
        { { .names = "URI:" RIG_API_NAME, .issuer = &rig.ca, .from_day = -3, .to_day = -1 }, "certificate_expired" },
        { { .names = "URI:" RIG_API_NAME, .issuer = &rig.ca, .from_day = 1 }, "certificate_not_yet_valid" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct certs_wanted wanted = rows[i].wanted;
        wanted.name = "x";
        wanted.usage = "clientAuth";
        rig_tls_end(rig.folder, "x", &wanted);
        assert_fault(ask_as("x"), SIGNER_UNAVAILABLE);
        await_log(rows[i].reason);
    }
    issued_clear(&other);
    assert_fault(ask_with(rig.client), NONE);
}

static void what_is_not_tls_closes_its_own_connection_and_nothing_else(void **state)
{
    (void)state;
    static const char *const lines[] = { "GET / HTTP/1.1\r\n\r\n", "\1\2\3\4\5\6\7\10\11\12", "SSH-2.0-x\r\n" };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        char byte[64];
        int fd = raw_connection();
        assert_int_equal(send(fd, lines[i], strlen(lines[i]), MSG_NOSIGNAL), (ssize_t)strlen(lines[i]));
        while (recv(fd, byte, sizeof(byte), 0) > 0) { /* an alert, then the end */
        }
        (void)close(fd);
    }
    await_log("not_tls");
    assert_fault(ask_with(rig.client), NONE);
}

/* Far more than may be under way at once. They hold a place each until their time is up; the socket of the signer's own
 * host has places all the while, and afterwards everybody has. */
static void connections_that_never_finish_their_handshake_take_no_place_from_others(void **state)
{
    (void)state;
    int fds[100];
    struct config config = *rig.config;
    struct signer_client *local = NULL, *fresh = NULL;
    config.signer_address = "";
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = raw_connection();
        assert_int_equal(send(fds[i], "\x16\x03\x01", 3, MSG_NOSIGNAL), 3);
    }
    assert_fault(signer_client_new(&config, &local), NONE);
    assert_fault(ask_with(local), NONE);
    assert_fault(ask_with(rig.client), NONE); /* its connection stands already */
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        char byte;
        while (recv(fds[i], &byte, 1, 0) > 0) { /* the signer ends each of them */
        }
        (void)close(fds[i]);
    }
    await_log("too_many_handshakes");
    await_log("handshake_timeout");
    assert_fault(signer_client_new(rig.config, &fresh), NONE);
    assert_fault(ask_with(fresh), NONE);
    signer_client_free(fresh);
    signer_client_free(local);
}

static void the_remote_api_does_not_get_the_self_test_keys(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_within(20000);
    CLEANUP(buf_free) struct buf out = BUF_INIT(SPKI_MAX);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    struct key_ref post = { .purpose = KEY_PURPOSE_POST };
    assert_fault(uuid_new(&post.id), NONE);
    assert_fault(signer_public_key(op, rig.client, &post, &algorithm, &out), SIGNER_REFUSED);
}

/* ---- what a connection survives ---- */

static void assert_signs(const struct key_ref *key)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    CLEANUP(buf_free) struct buf out = BUF_INIT(SIGNATURE_MAX);
    struct sign_request request = request_for(*key, KEY_ALGORITHM_EC_P256);
    assert_fault(signer_sign(op, rig.client, &request, &out), NONE);
    assert_fault(signer_verify(op, rig.client, &request, buf_span(&out)), NONE);
}

static struct key_ref make_key(void)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    CLEANUP(buf_free) struct buf out = BUF_INIT(SPKI_MAX);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(signer_generate(op, rig.client, &key, KEY_ALGORITHM_EC_P256, &out), NONE);
    return key;
}

static void a_signer_that_was_killed_is_found_again_by_itself(void **state)
{
    (void)state;
    struct key_ref key = make_key();
    assert_signs(&key);
    assert_int_equal(rig_end(&rig, SIGKILL), 128 + SIGKILL);
    assert_fault(ask_with(rig.client), SIGNER_UNAVAILABLE);
    rig_start(&rig);
    assert_signs(&key);
}

static void a_signer_that_is_halted_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    struct key_ref key = make_key();
    CLEANUP(buf_free) struct buf out = BUF_INIT(SIGNATURE_MAX);
    struct sign_request request = request_for(key, KEY_ALGORITHM_EC_P256);
    CLEANUP(op_freep) struct op *op = op_within(300);
    rig_halt(&rig);
    assert_fault(signer_sign(op, rig.client, &request, &out), SIGNER_UNAVAILABLE);
    rig_continue(&rig);
    assert_signs(&key);
}

static void renewed_certificates_are_used_without_a_restart(void **state)
{
    (void)state;
    struct key_ref key = make_key();
    struct signer_client *fresh = NULL;
    pid_t before = rig.pid;
    rig_tls_end(rig.folder, "signer",
                &(struct certs_wanted){
                    .name = "renewed", .names = "DNS:" RIG_SIGNER_NAME, .usage = "serverAuth", .issuer = &rig.ca });
    assert_fault(signer_client_new(rig.config, &fresh), NONE);
    assert_fault(ask_with(fresh), NONE);
    await_log("tls_files_reloaded");
    assert_signs(&key); /* on a connection from before */
    assert_int_equal(rig.pid, before);
    signer_client_free(fresh);
}

static void a_renewal_that_is_not_usable_is_told_and_the_old_one_serves_on(void **state)
{
    (void)state;
    struct signer_client *fresh = NULL;
    rig_tls_end(rig.folder, "signer",
                &(struct certs_wanted){
                    .name = "wrong", .names = "DNS:" RIG_SIGNER_NAME, .usage = "clientAuth", .issuer = &rig.ca });
    assert_fault(signer_client_new(rig.config, &fresh), NONE);
    assert_fault(ask_with(fresh), NONE);
    await_log("tls_files_refused");
    signer_client_free(fresh);
    rig_tls_end(rig.folder, "signer",
                &(struct certs_wanted){
                    .name = "signer", .names = "DNS:" RIG_SIGNER_NAME, .usage = "serverAuth", .issuer = &rig.ca });
}

/* ---- its start ---- */

static void a_signer_does_not_start_without_usable_certificates(void **state)
{
    (void)state;
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
    assert_int_equal(chmod(rig_path(&rig, "tls/signer.key"), 0644), 0);
    assert_int_equal(rig_signer_ends(&rig), 1);
    assert_true(rig_log_has(&rig, "signer.tls_key_file"));
    assert_int_equal(chmod(rig_path(&rig, "tls/signer.key"), 0600), 0);
    rig_start(&rig);
    assert_fault(ask_with(rig.client), NONE);
}

static void a_port_that_is_taken_is_told(void **state)
{
    (void)state;
    char text[512];
    struct rig second = rig; /* the same port, another folder for its socket */
    (void)snprintf(text, sizeof(text),
                   "data_dir: \"%s/data2\"\nrun_dir: \"%s/run2\"\ntoken:\n  pin_file: \"%s/data/signer/pin\"\n",
                   rig.folder, rig.folder, rig.folder);
    rig_write(&rig, "second.yaml", text, 0644);
    (void)snprintf(second.config_path, sizeof(second.config_path), "%s/second.yaml", rig.folder);
    (void)snprintf(second.log_path, sizeof(second.log_path), "%s/log2", rig.folder);
    assert_int_equal(rig_signer_ends(&second), 1);
    assert_true(rig_log_has(&second, "signer.listen: cannot bind"));
    assert_fault(ask_with(rig.client), NONE);
}

static int rig_begin(void **state)
{
    (void)state;
    rig_new(&rig, "");
    rig_start(&rig);
    return 0;
}

static int rig_finish(void **state)
{
    (void)state;
    rig_free(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_not_the_pinned_api_is_not_heard),
        cmocka_unit_test(what_is_not_tls_closes_its_own_connection_and_nothing_else),
        cmocka_unit_test(connections_that_never_finish_their_handshake_take_no_place_from_others),
        cmocka_unit_test(the_remote_api_does_not_get_the_self_test_keys),
        cmocka_unit_test(a_signer_that_was_killed_is_found_again_by_itself),
        cmocka_unit_test(a_signer_that_is_halted_costs_no_more_than_the_deadline),
        cmocka_unit_test(renewed_certificates_are_used_without_a_restart),
        cmocka_unit_test(a_renewal_that_is_not_usable_is_told_and_the_old_one_serves_on),
        cmocka_unit_test(a_signer_does_not_start_without_usable_certificates),
        cmocka_unit_test(a_port_that_is_taken_is_told),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setenv("SVC_TEST_SIGNER", "tls", 1);
    return cmocka_run_group_tests_name("remote", tests, rig_begin, rig_finish);
}
