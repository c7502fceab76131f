#include "tls_pair.h"

/* The settings are refused, and the line says which file and why. */
static void assert_no_end(const struct tls_settings *settings, const char *file, const char *words)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct tls_end *end = NULL;
    const char *text = NULL;
    assert_fault(tls_end_new(settings, &why, &end), CONFIG);
    assert_null(end);
    assert_fault(buf_cstr(&why, &text), NONE);
    if (strstr(text, file) == NULL || strstr(text, words) == NULL) {
        fail_msg("'%s' does not say '%s' about '%s'", text, words, file);
    }
    assert_fault(tls_end_new(settings, NULL, &end), CONFIG); /* nobody has to listen */
}

static void a_file_that_is_missing_or_no_pem_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    struct tls_settings settings = world.at_server;
    settings.certificate_file = certs_path(&world.folder, "none.pem");
    assert_no_end(&settings, "signer.tls_certificate_file", "none.pem");
    settings = world.at_server;
    settings.key_file = certs_path(&world.folder, "none.key");
    assert_no_end(&settings, "signer.tls_key_file", "mode 0600");
    settings = world.at_server;
    settings.ca_file = certs_path(&world.folder, "none.pem");
    assert_no_end(&settings, "signer.tls_ca_file", "none.pem");
    assert_fault(file_write(certs_path(&world.folder, "text"), span_text("not PEM\n"), 0600), NONE);
    settings = world.at_server;
    settings.certificate_file = certs_path(&world.folder, "text");
    assert_no_end(&settings, "signer.tls_certificate_file", "text");
    settings = world.at_server;
    settings.key_file = certs_path(&world.folder, "text");
    assert_no_end(&settings, "signer.tls_key_file", "text");
    settings = world.at_server;
    settings.ca_file = certs_path(&world.folder, "text");
    assert_no_end(&settings, "signer.tls_ca_file", "no certificate");
}

static void a_key_that_others_can_read_or_that_asks_for_a_password_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    assert_int_equal(chmod(world.paths[1], 0640), 0);
    assert_no_end(&world.at_server, "signer.tls_key_file", "mode 0600");
    certs_put_key(world.paths[1], &world.server, "secret");
    assert_no_end(&world.at_server, "signer.tls_key_file", "server.key");
}

static void a_key_of_another_certificate_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    certs_put_key(world.paths[1], &world.client, NULL);
    assert_no_end(&world.at_server, "signer.tls_key_file", "server.key");
}

static void a_certificate_for_the_other_side_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    struct tls_settings settings = world.at_server;
    settings.side = TLS_CLIENT;
    assert_no_end(&settings, "signer.tls_certificate_file", "clientAuth");
    settings = world.at_client;
    settings.side = TLS_SERVER;
    assert_no_end(&settings, "signer.tls_certificate_file", "serverAuth");
    world_give(&world, "server", &(struct certs_wanted){ .name = "signer", .names = "DNS:x", .issuer = &world.ca });
    assert_no_end(&world.at_server, "signer.tls_certificate_file", "serverAuth");
}

static void an_authority_file_with_anything_but_authorities_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    CLEANUP(buf_free) struct buf both = BUF_INIT(65536);
    world_new(&world);
    assert_fault(file_read(world.paths[2], &both), NONE);
    certs_put_certificate(world.paths[2], &world.client);
    assert_no_end(&world.at_server, "signer.tls_ca_file", "CA:TRUE");
    assert_fault(buf_text(&both, "-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n"), NONE);
    assert_fault(file_write(world.paths[2], buf_span(&both), 0644), NONE);
    assert_no_end(&world.at_server, "signer.tls_ca_file", "ca.pem");
    assert_fault(file_write(world.paths[2], (struct span){ 0 }, 0644), NONE);
    assert_no_end(&world.at_server, "signer.tls_ca_file", "no certificate");
}

static void either_of_several_names_is_accepted_and_told(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    {
        CLEANUP(pair_free) struct pair pair;
        pair_new(&pair, &world);
        assert_string_equal(pair.server.report.peer, "api.example");
        assert_string_equal(pair.client.report.peer, "signer.example");
    }
    world_give(&world, "client",
               &(struct certs_wanted){ .name = "-",
                                       .names = "DNS:unknown.example,URI:spiffe://example/api",
                                       .usage = "clientAuth,serverAuth",
                                       .issuer = &world.ca });
    CLEANUP(pair_free) struct pair pair;
    pair_new(&pair, &world);
    assert_string_equal(pair.server.report.peer, "spiffe://example/api");
}

static void an_authority_below_a_root_may_be_pinned_alone(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    struct issued below =
        certs_issue(&(struct certs_wanted){ .name = "below", .authority = true, .issuer = &world.ca });
    world_give(
        &world, "client",
        &(struct certs_wanted){ .name = "-", .names = "DNS:api.example", .usage = "clientAuth", .issuer = &below });
    certs_put_certificate(certs_path(&world.folder, "below.pem"), &below);
    world.at_server.ca_file = certs_path(&world.folder, "below.pem");
    CLEANUP(pair_free) struct pair pair;
    pair_new(&pair, &world);
    issued_clear(&below);
}

static void rsa_certificates_are_accepted(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    world_give(
        &world, "client",
        &(struct certs_wanted){
            .name = "-", .names = "DNS:api.example", .usage = "clientAuth", .issuer = &world.ca, .rsa_bits = 2048 });
    CLEANUP(pair_free) struct pair pair;
    pair_new(&pair, &world);
}

/* ---- renewal ---- */

/* Ends that live on while their files change. */
struct pair_of_ends {
    struct tls_end *server, *client;
};

static struct tls_report meet(const struct pair_of_ends *ends)
{
    struct shaker server, client;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    shaker_start(&server, ends->server, fds[0], FAR);
    shaker_start(&client, ends->client, fds[1], FAR);
    shaker_end(&server);
    shaker_end(&client);
    tls_stream_free(server.stream);
    tls_stream_free(client.stream);
    (void)close(fds[0]);
    (void)close(fds[1]);
    return server.report;
}

static void new_files_serve_the_next_connection(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    struct pair_of_ends ends = { end_of(&world.at_server), end_of(&world.at_client) };
    struct tls_report report = meet(&ends);
    assert_int_equal(report.reload, TLS_RELOAD_NOT);
    assert_string_equal(report.peer, "api.example");

    world_give(&world, "client",
               &(struct certs_wanted){
                   .name = "-", .names = "URI:spiffe://example/api", .usage = "clientAuth", .issuer = &world.ca });
    assert_string_equal(meet(&ends).peer, "spiffe://example/api"); /* the client's end has read its own again */

    struct issued other = certs_issue(&(struct certs_wanted){ .name = "authority", .authority = true });
    certs_put_certificate(world.paths[2], &other); /* of both: now nobody is trusted any more */
    report = meet(&ends);
    assert_int_equal(report.reload, TLS_RELOAD_DONE);
    assert_true(report.refusal != TLS_REFUSAL_NONE);
    certs_put_certificate(world.paths[2], &world.ca);
    assert_string_equal(meet(&ends).peer, "spiffe://example/api");
    issued_clear(&other);
    tls_end_free(ends.server);
    tls_end_free(ends.client);
}

static void files_that_do_not_fit_leave_the_old_ones_in_force_and_are_told_once(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    struct pair_of_ends ends = { end_of(&world.at_server), end_of(&world.at_client) };
    struct issued next = certs_issue(&(struct certs_wanted){
        .name = "next", .names = "DNS:signer.example", .usage = "serverAuth", .issuer = &world.ca });
    certs_put_certificate(world.paths[0], &next); /* its key is still to come */
    struct tls_report report = meet(&ends);
    assert_int_equal(report.reload, TLS_RELOAD_REFUSED);
    assert_non_null(strstr(report.reload_detail, "signer.tls_key_file"));
    assert_string_equal(report.peer, "api.example");
    report = meet(&ends);
    assert_int_equal(report.reload, TLS_RELOAD_NOT);
    assert_string_equal(report.peer, "api.example");
    certs_put_key(world.paths[1], &next, NULL);
    report = meet(&ends);
    assert_int_equal(report.reload, TLS_RELOAD_DONE);
    assert_string_equal(report.peer, "api.example");
    assert_int_equal(unlink(world.paths[0]), 0);
    assert_int_equal(meet(&ends).reload, TLS_RELOAD_REFUSED);
    assert_string_equal(meet(&ends).peer, "api.example");
    issued_clear(&next);
    tls_end_free(ends.server);
    tls_end_free(ends.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_missing_or_no_pem_is_refused),
        cmocka_unit_test(a_key_that_others_can_read_or_that_asks_for_a_password_is_refused),
        cmocka_unit_test(a_key_of_another_certificate_is_refused),
        cmocka_unit_test(a_certificate_for_the_other_side_is_refused),
        cmocka_unit_test(an_authority_file_with_anything_but_authorities_is_refused),
        cmocka_unit_test(either_of_several_names_is_accepted_and_told),
        cmocka_unit_test(an_authority_below_a_root_may_be_pinned_alone),
        cmocka_unit_test(rsa_certificates_are_accepted),
        cmocka_unit_test(new_files_serve_the_next_connection),
        cmocka_unit_test(files_that_do_not_fit_leave_the_old_ones_in_force_and_are_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
