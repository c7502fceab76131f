/* Publication in a real Rekor v1: rekor-server of Debian's packages over an in-memory tree, with a key of the test's.
 */
#include "transparency_testlib.h"

static struct rekor rekor, downer;
static struct tiles_log misbehaving;
static EVP_PKEY *p256, *p384;

static int set_up(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf logs = BUF_INIT(65536);
    const char *text = NULL;
    assert_non_null(mkdtemp(folder));
    p256 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    p384 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
    write_keys("log", EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"));
    write_keys("other", EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"));
    rekor_start(&rekor, path_of("log.key"));
    downer = (struct rekor){ .port = free_port(), .tree_port = rekor.tree_port };
    tiles_start(&misbehaving, path_of("other.key"), "nobody");
    static const struct {
        const char *name, *tenant, *key;
        const int *port;
    } rows[] = {
        { "rekor", "default", "log.pub", &rekor.port },     { "rekor-too", "umbrella", "log.pub", &rekor.port },
        { "wrong-pin", "wrong", "other.pub", &rekor.port }, { "down", "down", "log.pub", &downer.port },
        { "odd", "odd", "other.pub", &misbehaving.port },
    };
    assert_ok(buf_text(&logs, "logs:\n"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_ok(buf_printf(&logs,
                             "  - name: %s\n    kind: rekor-v1\n    tenants: [%s]\n    url: http://127.0.0.1:%d\n"
                             "    keys:\n      - file: %s/%s\n        valid_from: 2020-01-01T00:00:00Z\n",
                             rows[i].name, rows[i].tenant, *rows[i].port, folder, rows[i].key));
    }
    assert_ok(buf_cstr(&logs, &text));
    services_open(text);
    outbound_start(16);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    services_close();
    rekor_stop(&rekor);
    rekor_stop(&downer);
    tiles_stop(&misbehaving);
    EVP_PKEY_free(p256);
    EVP_PKEY_free(p384);
    const char *argv[] = { "rm", "-rf", folder, NULL };
    return run_program("rm", argv) == 0 ? 0 : 1;
}

/* ---- what is not believed ---- */

static void an_answer_under_another_key_than_the_pinned_one_is_not_recorded(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    complete("wrong", &thing);
    assert_failed_with("wrong", &thing, "transparency_entry_unverified");
    assert_int_equal(events_about(&thing, "transparency.published"), 0);
    assert_int_equal(events_about(&thing, "transparency.failed"), 1);
    assert_int_equal(outbox_number(&thing, "CASE WHEN state = 'dead-lettered' THEN 1 ELSE 0 END"), 1);
}

static void a_signature_that_does_not_verify_is_refused_by_the_log_for_good(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    thing.digest[0] ^= 1;
    complete("default", &thing);
    assert_failed_with("default", &thing, "transparency_log_refused");
    assert_int_equal(events_about(&thing, "transparency.published"), 0);
}

static void an_entry_that_is_said_to_be_elsewhere_is_not_fetched(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    tiles_mode(&misbehaving, "elsewhere");
    complete("odd", &thing);
    assert_failed_with("odd", &thing, "transparency_entry_unverified");
    tiles_mode(&misbehaving, "");
}

static void an_answer_that_is_no_logs_answer_is_not_recorded(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    tiles_mode(&misbehaving, "html");
    complete("odd", &thing);
    assert_failed_with("odd", &thing, "transparency_entry_unverified");
    tiles_mode(&misbehaving, "");
}

/* ---- what passes ---- */

static void a_log_that_is_down_is_tried_again_until_it_is_back(void **state)
{
    (void)state;
    struct signed_thing things[3];
    for (size_t i = 0; i < COUNT_OF(things); i++) {
        sign_thing(&things[i], p256, "sha256");
        complete("down", &things[i]);
    }
    for (size_t i = 0; i < COUNT_OF(things); i++) {
        wait_state("down", &things[i], "pending");
        while (outbox_number(&things[i], "attempts") < 3) {
            pause_a_little();
        }
    }
    rekor_server_start(&downer, path_of("log.key"));
    for (size_t i = 0; i < COUNT_OF(things); i++) {
        wait_state("down", &things[i], "published");
        assert_evidence_verifies("down", &things[i], true);
        assert_int_equal(events_about(&things[i], "transparency.published"), 1);
    }
}

static void a_log_that_is_busy_is_tried_again(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    tiles_mode(&misbehaving, "503");
    complete("odd", &thing);
    wait_state("odd", &thing, "pending");
    while (outbox_number(&thing, "attempts") < 2) {
        pause_a_little();
    }
    tiles_mode(&misbehaving, "html");
    assert_failed_with("odd", &thing, "transparency_entry_unverified");
    tiles_mode(&misbehaving, "");
}

/* Rekor's own client finds the entry by digest, signature and key, and verifies it. */
static void assert_rekor_cli_verifies(const struct signed_thing *thing, EVP_PKEY *key)
{
    char url[64], hash[2 * 64 + 1];
    const char *signature = path_of("signature"), *public_key = path_of("public.pem");
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", rekor.port);
    hex_text(span_of(thing->digest, thing->digest_len), hash, sizeof(hash));
    assert_ok(file_write(signature, span_of(thing->signature, thing->signature_len), 0600));
    FILE *file = fopen(public_key, "we");
    if (thing->certificate_len > 0) {
        const unsigned char *at = thing->certificate;
        X509 *certificate = d2i_X509(NULL, &at, (long)thing->certificate_len);
        assert_int_equal(PEM_write_X509(file, certificate), 1);
        X509_free(certificate);
    } else {
        assert_int_equal(PEM_write_PUBKEY(file, key), 1);
    }
    assert_int_equal(fclose(file), 0);
    const char *argv[] = { "rekor-cli",
                           "verify",
                           "--rekor_server",
                           url,
                           "--type",
                           "hashedrekord",
                           "--artifact-hash",
                           hash,
                           "--signature",
                           signature,
                           "--public-key",
                           public_key,
                           "--pki-format",
                           "x509",
                           "--store_tree_state=false",
                           NULL };
    if (run_program("rekor-cli", argv) != 0) {
        fail_msg("rekor-cli does not verify it: %s", path_of("rekor-cli.log"));
    }
}

static void a_signing_is_published_and_its_evidence_verifies(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    complete("default", &thing);
    wait_state("default", &thing, "published");
    assert_evidence_verifies("default", &thing, true);
    assert_int_equal(events_about(&thing, "transparency.published"), 1);
    assert_int_equal(outbox_number(&thing, "CASE WHEN state = 'delivered' AND payload = '' THEN 1 ELSE 0 END"), 1);
    assert_rekor_cli_verifies(&thing, p256);
}

static void a_certificate_and_another_hash_are_published_too(void **state)
{
    (void)state;
    struct signed_thing certified, longer;
    sign_thing(&certified, p256, "sha256");
    certify_thing(&certified, p256);
    sign_thing(&longer, p384, "sha384");
    complete("default", &certified);
    complete("default", &longer);
    wait_state("default", &certified, "published");
    wait_state("default", &longer, "published");
    assert_evidence_verifies("default", &certified, true);
    assert_evidence_verifies("default", &longer, true);
    assert_rekor_cli_verifies(&certified, p256);
}

static void the_same_again_is_found_where_the_log_says(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    struct signed_thing again = thing;
    assert_ok(uuid_new(&again.id));
    complete("default", &thing);
    wait_state("default", &thing, "published");
    int64_t size = rekor_size(&rekor);
    complete("default", &again); /* 409 */
    wait_state("default", &again, "published");
    assert_evidence_verifies("default", &again, true);
    assert_int_equal(log_index_of("default", &again), log_index_of("default", &thing));
    assert_int_equal(rekor_size(&rekor), size);
}

/* ---- what is told of it ---- */

static const char *base64_text(struct op *op, struct span bytes)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(8192);
    const char *copy = NULL;
    assert_ok(base64_encode(bytes, &text));
    assert_ok(arena_text(op->arena, buf_span(&text), &copy));
    return copy;
}

/* A Sigstore bundle of what was recorded, and the trusted root that we export: cosign takes them, without a network. */
static void cosign_accepts_the_recorded_entry_under_the_exported_trusted_root(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("default", 60000);
    CLEANUP(buf_free) struct buf bundle = BUF_INIT(65536);
    CLEANUP(buf_free) struct buf root = BUF_INIT(65536);
    struct evidence evidence = { 0 };
    struct signed_thing thing;
    struct jout jout;
    sign_thing(&thing, p256, "sha256");
    complete("default", &thing);
    wait_state("default", &thing, "published");
    assert_string_equal(state_of(op, &thing, &evidence), "published");
    assert_ok(buf_text(&bundle, "{\"mediaType\":\"application/vnd.dev.sigstore.bundle.v0.3+json\","
                                "\"verificationMaterial\":{\"publicKey\":{\"hint\":\"key\"},\"tlogEntries\":["));
    jout_init(&jout, &bundle);
    tlog_entry_print(&jout, &evidence.entry);
    assert_ok(jout_end(&jout));
    assert_ok(buf_printf(&bundle,
                         "]},\"messageSignature\":{\"messageDigest\":{\"algorithm\":\"SHA2_256\",\"digest\":\"%s\"},"
                         "\"signature\":\"%s\"}}",
                         base64_text(op, span_of(thing.digest, thing.digest_len)),
                         base64_text(op, span_of(thing.signature, thing.signature_len))));
    assert_ok(
        buf_text(&root, "{\"mediaType\":\"application/vnd.dev.sigstore.trustedroot+json;version=0.1\",\"tlogs\":"));
    jout_init(&jout, &root);
    assert_ok(transparency_trust(op, &services, &jout));
    assert_ok(jout_end(&jout));
    assert_ok(buf_text(&root, "}"));
    const char *files[] = { path_of("bundle.json"), path_of("root.json"), path_of("artifact"), path_of("signer.pem") };
    assert_ok(file_write(files[0], buf_span(&bundle), 0600));
    assert_ok(file_write(files[1], buf_span(&root), 0600));
    assert_ok(file_write(files[2], span_text(thing.id.text), 0600));
    FILE *file = fopen(files[3], "we");
    assert_int_equal(PEM_write_PUBKEY(file, p256), 1);
    assert_int_equal(fclose(file), 0);
    const char *argv[] = { "cosign", "verify-blob",         "--key",          files[3], "--bundle",
                           files[0], "--new-bundle-format", "--trusted-root", files[1], files[2],
                           NULL };
    assert_int_equal(run_program("cosign", argv), 0);
    assert_ok(file_write(files[2], span_text("another"), 0600));
    assert_int_not_equal(run_program("cosign", argv), 0);
}

static void list(const char *token, const char *query, int want, struct response *response, struct op *op)
{
    char authorization[256];
    (void)snprintf(authorization, sizeof(authorization), "Bearer %s", token);
    struct message message = {
        .method = "GET", .path = "/api/v1/code-signing/transparency", .query = query, .listener = LISTENER_TLS
    };
    message.headers[message.header_count++] = (struct http_header){ "Host", "localhost" };
    message.headers[message.header_count++] = (struct http_header){ "Authorization", authorization };
    struct route_match match;
    struct core core = { .services = &services, .features = features, .feature_count = COUNT_OF(features) };
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    assert_ok(router_new(features, COUNT_OF(features), &why, &core.router));
    *response = (struct response){ 0 };
    dispatch(&core, op, &message, response, &match);
    router_free(core.router);
    if (response->status != want) {
        fail_msg("%s: %d %.*s", query, response->status, (int)response->body.len, (const char *)response->body.at);
    }
}

static void token_of(const char *tenant_text, const char *role, char out[TOKEN_TEXT_MAX])
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    struct token_issued token;
    const struct token_request wanted = { .subject = role, .roles = &role, .role_count = 1, .ttl_s = 3600 };
    assert_ok(identity_tenant_ensure(op, &services, tenant(tenant_text)));
    assert_ok(identity_token_issue(op, &services, &wanted, &token));
    (void)snprintf(out, TOKEN_TEXT_MAX, "%s", token.text);
}

static size_t items_of(struct op *op, struct span json, struct view *ret_answer)
{
    struct view rest, item;
    size_t count = 0;
    assert_ok(view_of(op, json, ret_answer));
    rest = view_get(*ret_answer, "items");
    while (view_next(&rest, &item)) {
        count++;
    }
    return count;
}

static void evidence_is_listed_by_pages_and_filters_for_its_tenant_only(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    char token[TOKEN_TEXT_MAX], other[TOKEN_TEXT_MAX], query[512];
    struct response response;
    struct view answer;
    token_of("wrong", "operator", token);
    token_of("nobody", "operator", other);
    for (int i = 0; i < 2; i++) {
        struct signed_thing thing;
        sign_thing(&thing, p256, "sha256");
        complete("wrong", &thing);
        wait_state("wrong", &thing, "failed");
    }
    list(token, "state=odd", 400, &response, op);
    list(token, "limit=0", 400, &response, op);
    list(token, "cursor=x", 400, &response, op);
    list("x", "", 401, &response, op);
    list(other, "", 200, &response, op);
    assert_int_equal(items_of(op, response.body, &answer), 0);
    list(token, "state=published", 200, &response, op);
    assert_int_equal(items_of(op, response.body, &answer), 0);
    list(token, "state=failed&log=elsewhere", 200, &response, op);
    assert_int_equal(items_of(op, response.body, &answer), 0);
    list(token, "state=failed&log=wrong-pin", 200, &response, op);
    size_t all = items_of(op, response.body, &answer), paged = 0;
    assert_true(all >= 2 && !view_is_there(view_get(answer, "next_cursor")));
    (void)snprintf(query, sizeof(query), "limit=1");
    for (;;) {
        list(token, query, 200, &response, op);
        paged += items_of(op, response.body, &answer);
        const char *cursor = view_member(op, answer, "next_cursor");
        if (cursor == NULL) {
            break;
        }
        (void)snprintf(query, sizeof(query), "limit=1&cursor=%s", cursor);
    }
    assert_int_equal(paged, all);
}

static void the_evidence_of_an_operation_is_an_answers_member(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("default", 60000);
    struct signed_thing thing;
    struct span json;
    struct view answer;
    struct tlog_entry entry;
    sign_thing(&thing, p256, "sha256");
    assert_ok(transparency_evidence(op, &services, thing.id, &json));
    assert_int_equal(json.len, 0);
    complete("default", &thing);
    wait_state("default", &thing, "published");
    assert_ok(transparency_evidence(op, &services, thing.id, &json));
    assert_ok(view_of(op, json, &answer));
    assert_string_equal(view_member(op, answer, "state"), "published");
    assert_non_null(strstr(view_member(op, answer, "log"), "rekor-v1:http://127.0.0.1:"));
    assert_non_null(view_member(op, answer, "integrated_at"));
    assert_int_equal(strlen(view_member(op, answer, "entry_id")), 80);
    assert_ok(tlog_entry_read(op, view_get(answer, "entry").json, &entry));
    assert_int_equal(entry.log_index, log_index_of("default", &thing));
    op->tenant = tenant("umbrella");
    assert_ok(transparency_evidence(op, &services, thing.id, &json));
    assert_int_equal(json.len, 0);
}

/* ---- crashes ---- */

/* The handler as a process runs it that then dies: what it would have told the outbox is lost. */
static struct fault run_handler(struct signed_thing *thing, unsigned attempt)
{
    CLEANUP(op_freep) struct op *op = test_op("default", 45000);
    CLEANUP(buf_free) struct buf payload = BUF_INIT(65536);
    struct jout jout;
    const char *destination = NULL;
    assert_ok(transparency_plan(op, &services, KEY_ALGORITHM_EC_P256, SIGN_SCHEME_ECDSA, HASH_SHA256, clock_utc(),
                                &destination));
    jout_init(&jout, &payload);
    jout_object(&jout);
    jout_key_text(&jout, "destination", destination);
    jout_key_base64(&jout, "digest", span_of(thing->digest, thing->digest_len));
    jout_key_text(&jout, "digest_algorithm", thing->hash);
    jout_key_text(&jout, "operation_id", thing->id.text);
    jout_key_base64(&jout, "public_key", span_of(thing->spki, thing->spki_len));
    jout_key_base64(&jout, "signature", span_of(thing->signature, thing->signature_len));
    jout_key_text(&jout, "signature_scheme", "ecdsa");
    jout_object_end(&jout);
    assert_ok(jout_end(&jout));
    const struct outbox_item item = { .key = thing->id.text, .payload = buf_span(&payload), .attempt = attempt };
    return transparency_publish(op, &services, &item);
}

static void a_try_after_a_crash_leaves_one_entry_and_one_event(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    int64_t size = rekor_size(&rekor);
    outbound_stop();
    complete("default", &thing);
    wait_state("default", &thing, "pending");
    assert_ok(run_handler(&thing, 1)); /* died behind the append */
    assert_ok(run_handler(&thing, 1)); /* and so did the next one */
    wait_state("default", &thing, "published");
    assert_ok(run_handler(&thing, 2));
    outbound_start(16);
    assert_int_equal(rekor_size(&rekor), size + 1);
    assert_int_equal(events_about(&thing, "transparency.published"), 1);
    assert_evidence_verifies("default", &thing, true);
}

static void a_log_that_hangs_keeps_nobody_else_from_being_published(void **state)
{
    (void)state;
    struct signed_thing stuck[40], free_ones[10];
    tiles_mode(&misbehaving, "hang");
    for (size_t i = 0; i < COUNT_OF(stuck); i++) {
        sign_thing(&stuck[i], p256, "sha256");
        complete("odd", &stuck[i]);
    }
    while (tiles_number(&misbehaving, "/test/asked") < 14) { /* as many as one tenant may have of 16 */
        pause_a_little();
    }
    for (size_t i = 0; i < COUNT_OF(free_ones); i++) {
        sign_thing(&free_ones[i], p256, "sha256");
        complete("umbrella", &free_ones[i]);
    }
    for (size_t i = 0; i < COUNT_OF(free_ones); i++) {
        wait_state("umbrella", &free_ones[i], "published");
        assert_int_equal(outbox_number(&stuck[i], "CASE WHEN state = 'delivered' THEN 1 ELSE 0 END"), 0);
    }
    outbound_stop(); /* who hangs in the network gives up, and its row is kept */
    assert_int_equal(query_int("SELECT count(*) FROM svc.outbox WHERE state = 'pending' AND tenant_id = 'odd'"), 40);
    assert_int_equal(query_int("SELECT count(*) FROM svc.outbox WHERE state = 'processing'"), 0);
    tiles_mode(&misbehaving, "html");
    outbound_start(16);
    for (size_t i = 0; i < COUNT_OF(stuck); i++) {
        assert_failed_with("odd", &stuck[i], "transparency_entry_unverified");
    }
    tiles_mode(&misbehaving, "");
}

static void a_destination_that_is_not_configured_any_more_waits(void **state)
{
    (void)state;
    struct signed_thing thing;
    sign_thing(&thing, p256, "sha256");
    complete_at("default", &thing, "rekor-v1:https://gone.example");
    wait_state("default", &thing, "pending");
    while (outbox_number(&thing, "attempts") < 2) {
        pause_a_little();
    }
    assert_int_equal(outbox_number(&thing, "CASE WHEN state IN ('pending', 'processing') THEN 1 ELSE 0 END"), 1);
}

/* ---- the read model ---- */

#define FINGERPRINT                                                                                                  \
    "SELECT ('x' || substr(md5(string_agg(t::text, '|' ORDER BY tenant_id, operation_id)), 1, 15))::bit(60)::bigint" \
    " FROM svc.transparency_entries t"

static void a_rebuild_gives_the_same_rows(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(op_freep) struct op *op = test_op("", 120000);
    uint64_t messages = 0;
    outbound_stop();
    int64_t before = query_int(FINGERPRINT), count = query_int("SELECT count(*) FROM svc.transparency_entries");
    assert_true(count > 10);
    projector_stop(TAKE(services.projector));
    assert_ok(store_empty_projections(test_config, &why));
    assert_int_equal(query_int("SELECT count(*) FROM svc.transparency_entries"), 0);
    struct projector_config config = projector_config_here();
    assert_ok(projection_rebuild(op, &config, &messages));
    assert_int_equal(query_int(FINGERPRINT), before);
    assert_int_equal(query_int("SELECT count(*) FROM svc.transparency_entries"), count);
    assert_ok(projector_start(&config, &services.projector));
    outbound_start(16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_under_another_key_than_the_pinned_one_is_not_recorded),
        cmocka_unit_test(a_signature_that_does_not_verify_is_refused_by_the_log_for_good),
        cmocka_unit_test(an_entry_that_is_said_to_be_elsewhere_is_not_fetched),
        cmocka_unit_test(an_answer_that_is_no_logs_answer_is_not_recorded),
        cmocka_unit_test(a_log_that_is_down_is_tried_again_until_it_is_back),
        cmocka_unit_test(a_log_that_is_busy_is_tried_again),
        cmocka_unit_test(a_signing_is_published_and_its_evidence_verifies),
        cmocka_unit_test(a_certificate_and_another_hash_are_published_too),
        cmocka_unit_test(the_same_again_is_found_where_the_log_says),
        cmocka_unit_test(cosign_accepts_the_recorded_entry_under_the_exported_trusted_root),
        cmocka_unit_test(evidence_is_listed_by_pages_and_filters_for_its_tenant_only),
        cmocka_unit_test(the_evidence_of_an_operation_is_an_answers_member),
        cmocka_unit_test(a_try_after_a_crash_leaves_one_entry_and_one_event),
        cmocka_unit_test(a_log_that_hangs_keeps_nobody_else_from_being_published),
        cmocka_unit_test(a_destination_that_is_not_configured_any_more_waits),
        cmocka_unit_test(a_rebuild_gives_the_same_rows),
    };
    return cmocka_run_group_tests_name("transparency/rekor", tests, set_up, tear_down);
}
