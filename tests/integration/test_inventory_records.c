/*
 * Certificates with their custody, owners of credentials and access reviews, from the route to the read model and back
 * from a rebuild: real PostgreSQL and nats-server (with-stores), a signer of this process.
 */
#include "api/inventory/credentials.h"

#define FLOW_FEATURE_LIST &identity_feature, &keys_feature, &inventory_feature
#include "integration/flow_testlib.h"

#include "api/policy/policy.h"
#include "appliance/base/codec.h"
#include "appliance/base/file.h"

#define BY_ORIGIN                                                                                              \
    "\"by_origin\":{\"managed_key\":2,\"own_authority\":0,\"private_ca\":1,\"public_ca\":1,\"self_signed\":0," \
    "\"third_party\":0,\"time_stamping_unit\":0,\"unrecorded\":1}"
#define KNOWN                                                                                                \
    "\"custody\":{\"origin\":\"private_ca\",\"storage_class\":\"hsm\",\"exportability\":\"non_exportable\"," \
    "\"holder\":\"pki team\",\"locus\":\"hsm-1/partition-2\"}"

static char operator_a[TOKEN_TEXT_MAX], second_a[TOKEN_TEXT_MAX], admin_a[TOKEN_TEXT_MAX], auditor_a[TOKEN_TEXT_MAX],
    operator_b[TOKEN_TEXT_MAX];
static unsigned keys_used;

/* ---- certificates made here ---- */

static EVP_PKEY *authority;

/* DER as base64, of that public key (NULL: a key of its own). */
static const char *certificate(const char *name, EVP_PKEY *subject_key, long valid_s)
{
    static char text[8][4096];
    static unsigned turn;
    static long serial = 1;
    char *out = text[turn++ % 8];
    EVP_PKEY *made = subject_key == NULL ? EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256") : NULL;
    X509 *cert = X509_new();
    X509_NAME *issuer = X509_NAME_new();
    unsigned char *der = NULL;
    if (authority == NULL) {
        authority = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    }
    BUG_IF(X509_set_version(cert, 2) != 1 || ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++) != 1);
    BUG_IF(X509_gmtime_adj(X509_getm_notBefore(cert), -60) == NULL ||
           X509_gmtime_adj(X509_getm_notAfter(cert), valid_s) == NULL);
    BUG_IF(X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8, (const unsigned char *)name, -1,
                                      -1, 0) != 1 ||
           X509_NAME_add_entry_by_txt(issuer, "CN", MBSTRING_UTF8, (const unsigned char *)"Test CA", -1, -1, 0) != 1);
    BUG_IF(X509_set_issuer_name(cert, issuer) != 1 || X509_set_pubkey(cert, made != NULL ? made : subject_key) != 1 ||
           X509_sign(cert, authority, EVP_sha256()) == 0);
    int len = i2d_X509(cert, &der);
    CLEANUP(buf_free) struct buf base64 = BUF_INIT(4096);
    BUG_IF(FAULTED(base64_encode(span_of(der, (size_t)len), &base64)));
    (void)snprintf(out, sizeof(text[0]), "%.*s", (int)base64.len, (const char *)base64.at);
    OPENSSL_free(der);
    X509_NAME_free(issuer);
    X509_free(cert);
    EVP_PKEY_free(made);
    return out;
}

/* ---- calls ---- */

static struct answer *call(const char *token, const char *method, const char *path, const char *body)
{
    static struct answer answer;
    char key[32];
    (void)snprintf(key, sizeof(key), "key-%u", keys_used++);
    flow_call(method, path, token, strcmp(method, "GET") == 0 ? NULL : key, body, 20000, &answer);
    return &answer;
}

static struct answer *say(const char *token, const char *method, const char *path, const char *format, ...)
    PRINTF(4, 5);
static struct answer *say(const char *token, const char *method, const char *path, const char *format, ...)
{
    static char body[32768];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(body, sizeof(body), format, list);
    va_end(list);
    return call(token, method, path, body);
}

static struct answer *get(const char *token, const char *path)
{
    return call(token, "GET", path, NULL);
}

#define assert_says(answer, part)                            \
    do {                                                     \
        if (strstr((answer)->body, (part)) == NULL) {        \
            fail_msg("no %s in %s", (part), (answer)->body); \
        }                                                    \
    } while (0)

static const char *kept(const char *text)
{
    static char texts[16][64];
    static unsigned turn;
    char *out = texts[turn++ % 16];
    (void)snprintf(out, sizeof(texts[0]), "%s", text);
    return out;
}

static const char *record(const char *token, const char *der, const char *custody)
{
    struct answer *answer = say(token, "POST", "/api/v1/certificates", "{\"certificate_der\":\"%s\"%s%s}", der,
                                custody[0] != '\0' ? "," : "", custody);
    assert_status(answer, 201);
    return kept(flow_text(answer, "certificate_id"));
}

static const char *path_of(const char *format, const char *one)
{
    static char paths[8][256];
    static unsigned turn;
    char *out = paths[turn++ % 8];
    char copy[128];
    (void)snprintf(copy, sizeof(copy), "%s", one);
    const char *hole = strstr(format, "{}");
    (void)snprintf(out, sizeof(paths[0]), "%.*s%s%s", (int)(hole - format), format, copy, hole + 2);
    return out;
}

static const char *custody_summary(struct op *op)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)1 << 20);
    const char *text = NULL;
    CLEANUP(buf_free) struct buf others = BUF_INIT((size_t)1 << 20), rows = BUF_INIT((size_t)1 << 20);
    struct jout jout, cbom, readiness;
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    jout_init(&jout, &out);
    jout_init(&cbom, &others);
    jout_init(&readiness, &rows);
    assert_ok(inventory_assets_print(op, &flow_services, tx, &jout, &cbom, &readiness));
    assert_ok(jout_end(&jout));
    assert_ok(arena_text(op->arena, buf_span(&out), &text));
    CLEANUP(buf_free) struct buf canonical = BUF_INIT((size_t)1 << 20);
    assert_ok(json_canonical(buf_span(&out), &canonical));
    assert_true(span_equal(buf_span(&canonical), buf_span(&out)));
    return text;
}

static void facts_of(struct op *op, struct inventory_statement *statements)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(inventory_credential_facts(op, &flow_services, tx, clock_utc(), statements));
}

#define assert_fact(statements, fact, want, want_total, want_matched)                                                  \
    do {                                                                                                               \
        const struct inventory_statement *s_ = &(statements)[INVENTORY_FACT_##fact];                                   \
        if (s_->state != (want) || s_->total != (want_total) || s_->matched != (want_matched)) {                       \
            fail_msg("%s: state %d, %lld of %lld: %s", #fact, s_->state, (long long)s_->matched, (long long)s_->total, \
                     s_->why);                                                                                         \
        }                                                                                                              \
    } while (0)

#define assert_why(statements, fact, part) assert_non_null(strstr((statements)[INVENTORY_FACT_##fact].why, part))

/* ---- certificates ---- */

static void what_is_not_one_certificate_in_der_is_not_recorded(void **state)
{
    (void)state;
    const char *good = certificate("good", NULL, 3600);
    const uint64_t before = flow_log_last();
    struct answer *answer = say(operator_a, "POST", "/api/v1/certificates", "{}");
    assert_problem(answer, 400, "json_field");
    answer = say(operator_a, "POST", "/api/v1/certificates", "{\"certificate_der\":\"AAAA\"}");
    assert_problem(answer, 400, "json_field");
    answer =
        say(operator_a, "POST", "/api/v1/certificates", "{\"certificate_der\":\"%s\",\"certificate_pem\":\"x\"}", good);
    assert_problem(answer, 400, "json_field");
    answer = say(operator_a, "POST", "/api/v1/certificates",
                 "{\"certificate_der\":\"%s\",\"custody\":{\"origin\":\"managed_key\"}}", good);
    assert_problem(answer, 400, "json_field"); /* nobody states what follows from the product's own keys */
    answer = say(operator_a, "POST", "/api/v1/certificates",
                 "{\"certificate_der\":\"%s\",\"custody\":{\"storage_class\":\"drawer\"}}", good);
    assert_problem(answer, 400, "json_field");
    assert_says(answer, "/custody/storage_class");
    assert_problem(say(auditor_a, "POST", "/api/v1/certificates", "{\"certificate_der\":\"%s\"}", good), 403,
                   "forbidden");
    assert_int_equal(flow_log_last(), before);
}

static void a_certificate_is_recorded_once_and_its_custody_as_it_is_stated(void **state)
{
    (void)state;
    const char *der = certificate("partly known", NULL, 3600);
    const char *id = record(operator_a, der, "\"custody\":{\"origin\":\"public_ca\",\"holder\":\"web team\"}");
    struct answer *answer = get(operator_a, path_of("/api/v1/certificates/{}", id));
    assert_status(answer, 200);
    assert_says(answer,
                "\"custody\":\"unrecorded\",\"missing_fields\":[\"exportability\",\"locus\",\"storage_class\"]");
    assert_says(answer, "\"subject\":\"CN=partly known\"");

    const uint64_t before = flow_log_last();
    answer = say(operator_a, "POST", "/api/v1/certificates", "{\"certificate_der\":\"%s\"}", der);
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "certificate_id"), id);
    answer = say(operator_a, "POST", "/api/v1/certificates", "{\"certificate_der\":\"%s\"," KNOWN "}", der);
    assert_problem(answer, 409, "conflict");
    answer = say(operator_a, "PUT", path_of("/api/v1/certificates/{}/custody", id),
                 "{\"origin\":\"public_ca\",\"expected_version\":7}");
    assert_problem(answer, 409, "conflict");
    answer = say(operator_a, "PUT", path_of("/api/v1/certificates/{}/custody", id), "{\"expected_version\":1}");
    assert_problem(answer, 400, "json_field");
    assert_int_equal(flow_log_last(), before);

    answer = say(operator_a, "PUT", path_of("/api/v1/certificates/{}/custody", id),
                 "{\"origin\":\"public_ca\",\"storage_class\":\"plain_file\",\"exportability\":\"exportable\","
                 "\"holder\":\"web team\",\"locus\":\"/etc/tls\",\"expected_version\":1}");
    assert_status(answer, 200);
    assert_says(answer, "\"custody\":\"recorded\",\"missing_fields\":[]");
    assert_says(answer, "\"version\":2");
    (void)record(operator_a, certificate("known", NULL, 7200), KNOWN);
    (void)record(operator_a, certificate("unknown", NULL, 86400), "");
    answer = get(operator_a, "/api/v1/certificates?custody=unrecorded");
    assert_status(answer, 200);
    assert_says(answer, "CN=unknown");
    assert_null(strstr(answer->body, "CN=known"));
    answer = get(operator_a, "/api/v1/certificates?origin=private_ca");
    assert_status(answer, 200);
    assert_says(answer, "CN=known");
    assert_null(strstr(answer->body, "CN=unknown"));
    assert_problem(get(operator_a, "/api/v1/certificates?origin=moon"), 400, "query_parameter");
    answer = get(operator_a, "/api/v1/certificates?limit=2");
    assert_status(answer, 200);
    char next[512];
    (void)snprintf(next, sizeof(next), "/api/v1/certificates?limit=2&cursor=%s", flow_text(answer, "next_cursor"));
    answer = get(operator_a, next);
    assert_status(answer, 200);
    assert_says(answer, "CN=partly known");
    assert_string_equal(flow_text(answer, "next_cursor"), "");
}

static char managed_key[64], managed_leaf[64];

/* A key of the product gets a certificate, and another one after it: both stay. */
static void certificates_of_managed_keys_come_in_by_themselves(void **state)
{
    (void)state;
    struct answer *answer =
        say(operator_a, "POST", "/api/v1/keys", "{\"name\":\"k\",\"algorithm\":\"ec-p256\",\"purpose\":\"codesign\"}");
    assert_status(answer, 201);
    (void)snprintf(managed_key, sizeof(managed_key), "%s", flow_text(answer, "key_id"));
    EVP_PKEY *public_half = NULL;
    for (size_t i = 0; i < fake_key_count; i++) {
        public_half = strcmp(fake_keys[i].ref.id.text, managed_key) == 0 ? fake_keys[i].key : public_half;
    }
    assert_non_null(public_half);
    for (int version = 1; version <= 2; version++) {
        answer = say(operator_a, "POST", path_of("/api/v1/keys/{}/certificates", managed_key),
                     "{\"certificate_chain\":[\"%s\"],\"expected_version\":%d}",
                     certificate(version == 1 ? "old leaf" : "new leaf", public_half, 3600), version);
        assert_status(answer, 200);
    }
    answer = get(operator_a, "/api/v1/certificates?origin=managed_key");
    assert_status(answer, 200);
    assert_says(answer, "CN=old leaf");
    const char *first = strstr(answer->body, "certificate_id\":\"");
    (void)snprintf(managed_leaf, sizeof(managed_leaf), "%.36s", first + strlen("certificate_id\":\""));
    answer = get(operator_a, path_of("/api/v1/certificates/{}", managed_leaf));
    assert_status(answer, 200);
    assert_says(answer, "CN=new leaf");
    assert_says(answer, "\"custody\":\"recorded\"");
    assert_says(answer, "\"exportability\":\"non_exportable\",\"holder\":\"svc-signer\",\"locus\":\"token:");
    assert_says(answer, "\"storage_class\":\"pkcs11_token\"");
    answer = say(operator_a, "PUT", path_of("/api/v1/certificates/{}/custody", managed_leaf),
                 "{\"origin\":\"third_party\",\"expected_version\":1}");
    assert_problem(answer, 409, "custody_of_own_key");
    answer = get(auditor_a, "/api/v1/credentials?kind=certificate&live=false");
    assert_status(answer, 200);
    assert_says(answer, "CN=old leaf"); /* replaced: it is retired */
    assert_null(strstr(answer->body, "CN=new leaf"));
}

static void the_custody_summary_counts_every_certificate_and_names_every_gap(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("inv-a", 30000);
    CLEANUP(op_freep) struct op *other = test_op("inv-b", 30000);
    const char *summary = custody_summary(op);
    static const char *const parts[] = {
        "\"by_exportability\":{\"exportable\":1,\"exportable_wrapped\":0,\"non_exportable\":3,\"unrecorded\":1}",
        BY_ORIGIN,
        "\"by_source\":{\"observed\":2,\"stated\":2,\"unrecorded\":1}",
        "\"matched\":5,",
        "\"recorded\":4,",
        "\"total\":5,\"unrecorded\":1,\"unrecorded_certificates\":[{\"certificate_id\":\"",
        "\"missing_fields\":[\"exportability\",\"holder\",\"locus\",\"origin\",\"storage_class\"],\"subject\":\"CN=unknown\"}]}",
        "{\"count\":1,\"holder\":\"pki team\",\"locus\":\"hsm-1/partition-2\",\"storage_class\":\"hsm\"}",
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (strstr(summary, parts[i]) == NULL) {
            fail_msg("no %s in %s", parts[i], summary);
        }
    }
    assert_string_equal(summary, custody_summary(op));
    assert_non_null(strstr(custody_summary(other), "\"total\":0,\"unrecorded\":0,\"unrecorded_certificates\":[]}"));
    assert_problem(get(operator_b, path_of("/api/v1/certificates/{}", managed_leaf)), 404, "not_found");
    assert_null(strstr(get(operator_b, "/api/v1/certificates")->body, "CN="));
    struct inventory_statement statements[INVENTORY_FACT_COUNT] = { 0 };
    facts_of(op, statements);
    assert_fact(statements, CUSTODY_RECORDED, INVENTORY_FAILS, 5, 4);
    assert_fact(statements, CUSTODY_NOT_EXPORTABLE, INVENTORY_FAILS, 5, 3);
    facts_of(other, statements);
    assert_fact(statements, CUSTODY_RECORDED, INVENTORY_ABSENT, 0, 0);
}

/* ---- owners ---- */

#define USERS_OF_A 9 /* four tokens, one key, and of its certificates the last; three that were recorded */

static void owners_are_recorded_and_told_complete_from_partial(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("inv-a", 30000);
    struct inventory_statement statements[INVENTORY_FACT_COUNT] = { 0 };
    char path[160];
    (void)snprintf(path, sizeof(path), "/api/v1/credentials/key/%s/owner", managed_key);
    assert_problem(say(operator_a, "PUT", "/api/v1/credentials/key/none/owner", "{\"owner_id\":\"x\"}"), 404,
                   "not_found");
    assert_problem(say(operator_a, "PUT", "/api/v1/credentials/door/none/owner", "{\"owner_id\":\"x\"}"), 404,
                   "not_found");
    assert_problem(say(operator_b, "PUT", path, "{\"owner_id\":\"x\"}"), 404, "not_found");
    facts_of(op, statements);
    assert_fact(statements, CREDENTIALS_CURRENT, INVENTORY_HOLDS, USERS_OF_A - 4, USERS_OF_A - 4); /* no tokens */
    assert_fact(statements, CREDENTIALS_NOT_ORPHANED, INVENTORY_FAILS, USERS_OF_A, 0);
    assert_fact(statements, CREDENTIALS_NOT_STATIC, INVENTORY_FAILS, USERS_OF_A, USERS_OF_A - 1); /* the key */
    assert_fact(statements, CREDENTIALS_NOT_STALE, INVENTORY_HOLDS, 6, 6);
    assert_fact(statements, CREDENTIALS_LEAST_PRIVILEGE, INVENTORY_HOLDS, 4, 4);
    assert_why(statements, CREDENTIALS_NOT_STATIC, managed_key);

    struct answer *answer =
        say(operator_a, "PUT", path, "{\"owner_id\":\"release-team\",\"contact\":\"release@example.com\"}");
    assert_status(answer, 200);
    assert_says(answer, "\"complete\":false,\"attestation_current\":true,\"of_key\":false");
    facts_of(op, statements);
    assert_fact(statements, CREDENTIALS_NOT_ORPHANED, INVENTORY_FAILS, USERS_OF_A, 2); /* and its certificate */
    assert_fact(statements, CREDENTIALS_OWNED, INVENTORY_FAILS, USERS_OF_A, 0);
    answer = say(operator_a, "PUT", path,
                 "{\"owner_id\":\"release-team\",\"contact\":\"release@example.com\",\"application_id\":\"app-1\","
                 "\"environment\":\"production\"}");
    assert_status(answer, 200);
    assert_says(answer, "\"complete\":true");
    facts_of(op, statements);
    assert_fact(statements, CREDENTIALS_OWNED, INVENTORY_FAILS, USERS_OF_A, 2);
    struct inventory_statement later[INVENTORY_FACT_COUNT] = { 0 };
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(inventory_credential_facts(op, &flow_services, tx, clock_utc() + 400 * 86400 * US_PER_S, later));
    assert_fact(later, CREDENTIALS_OWNED, INVENTORY_FAILS, 1,
                0); /* the key alone still lives; its attestation is old */
    assert_fact(later, CREDENTIALS_NOT_STALE, INVENTORY_FAILS, 1, 0);
    assert_ok(inventory_credential_facts(op, &flow_services, tx, clock_utc() - 3600 * US_PER_S, later));
    assert_fact(later, CREDENTIALS_OWNED, INVENTORY_FAILS, USERS_OF_A,
                0); /* a clock that was set back: attested later */
}

static void the_signing_policy_is_a_fact_of_now(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("inv-a", 30000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(policy_freep) struct policy *policy = NULL;
    struct inventory_statement statements[INVENTORY_FACT_COUNT] = { 0 };
    struct services services = flow_services;
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    services.policy = NULL;
    assert_ok(inventory_facts(op, &services, tx, clock_utc(), statements));
    assert_fact(statements, POLICY_ACTIVE, INVENTORY_FAILS, 1, 0);
    assert_ok(policy_load(test_config, NULL, &policy));
    services.policy = policy;
    assert_ok(inventory_facts(op, &services, tx, clock_utc(), statements));
    int64_t rules = (int64_t)policy_rules_concerning(policy, "inv-a");
    assert_true(rules > 0);
    assert_fact(statements, POLICY_ACTIVE, INVENTORY_HOLDS, rules, rules);
    char digest[65];
    policy_digest(policy, test_config, digest);
    assert_why(statements, POLICY_ACTIVE, digest);
}

/* Nobody has a key or certificate there; one who has a token is not an inventory. */
static void tokens_alone_are_no_inventory(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("inv-b", 30000);
    struct inventory_statement statements[INVENTORY_FACT_COUNT] = { 0 };
    facts_of(op, statements);
    assert_fact(statements, CREDENTIALS_CURRENT, INVENTORY_ABSENT, 0, 0);
    assert_fact(statements, CREDENTIALS_OWNED, INVENTORY_FAILS, 1, 0);
}

/* Each of two tokens is harmless: the subject of both is not. */
static void duties_are_kept_apart_by_subject_and_not_by_token(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("inv-c", 30000);
    struct inventory_statement statements[INVENTORY_FACT_COUNT] = { 0 };
    char token[TOKEN_TEXT_MAX];
    flow_token("inv-c", "both", "operator", token);
    flow_token("inv-c", "other", "approver", token);
    facts_of(op, statements);
    assert_fact(statements, CREDENTIALS_LEAST_PRIVILEGE, INVENTORY_HOLDS, 2, 2);
    flow_token("inv-c", "both", "approver", token);
    facts_of(op, statements);
    assert_fact(statements, CREDENTIALS_LEAST_PRIVILEGE, INVENTORY_FAILS, 2, 1);
    assert_why(statements, CREDENTIALS_LEAST_PRIVILEGE, "token:");
}

/* What an erasure leaves in the place of a person. */
static void whoever_was_erased_owns_and_holds_nothing(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("inv-a", 30000);
    struct inventory_statement statements[INVENTORY_FACT_COUNT] = { 0 };
    assert_ok(as_superuser("UPDATE svc.credential_owners SET contact = 'erased-01900000-0000@example.com'"));
    facts_of(op, statements);
    assert_fact(statements, CREDENTIALS_OWNED, INVENTORY_FAILS, USERS_OF_A, 0);
    assert_fact(statements, CREDENTIALS_NOT_ORPHANED, INVENTORY_FAILS, USERS_OF_A, 2);
    assert_ok(as_superuser("UPDATE svc.credential_owners SET owner_id = 'erased-01900000-0000';"
                           "UPDATE svc.certificates SET holder = 'erased-01900000-0000' WHERE holder = 'pki team'"));
    facts_of(op, statements);
    assert_fact(statements, CREDENTIALS_NOT_ORPHANED, INVENTORY_FAILS, USERS_OF_A, 0);
    assert_fact(statements, CUSTODY_RECORDED, INVENTORY_FAILS, 5, 3);
    assert_says(get(auditor_a, "/api/v1/credentials?kind=key&live=true"), "\"owner\":null");
    assert_ok(
        as_superuser("UPDATE svc.credential_owners SET owner_id = 'release-team', contact = 'release@example.com';"
                     "UPDATE svc.certificates SET holder = 'pki team' WHERE holder LIKE 'erased-%'"));
}

/* ---- access reviews ---- */

static void decide(const char *token, const char *review, const char *kind, const char *id, const char *decision)
{
    struct answer *answer =
        say(token, "POST", path_of("/api/v1/access-reviews/{}/decisions", review),
            "{\"decisions\":[{\"kind\":\"%s\",\"credential_id\":\"%s\",\"decision\":\"%s\",\"reason\":\"looked at\"}]}",
            kind, id, decision);
    assert_status(answer, 200);
}

static void a_review_closes_when_all_is_decided_and_dead_and_by_somebody_else(void **state)
{
    (void)state;
    char spare[TOKEN_TEXT_MAX], ids[16][64], kinds[16][16], review[64];
    flow_token("inv-a", "leaver", "ci", spare);
    struct answer *answer =
        say(operator_a, "POST", "/api/v1/access-reviews", "{\"title\":\"none\",\"owner_id\":\"nobody\"}");
    assert_problem(answer, 409, "access_review_size");
    answer = say(operator_a, "POST", "/api/v1/access-reviews", "{\"title\":\"x\",\"kinds\":[\"token\",\"token\"]}");
    assert_problem(answer, 400, "json_field");
    answer = say(operator_a, "POST", "/api/v1/access-reviews", "{\"title\":\"fourth quarter\"}");
    assert_status(answer, 201);
    assert_says(answer, "\"kinds\":[\"certificate\",\"key\",\"token\"]");
    assert_says(answer, "\"total\":10,");
    assert_says(answer, "\"undecided\":10,");
    (void)snprintf(review, sizeof(review), "%s", flow_text(answer, "review_id"));
    assert_problem(get(operator_b, path_of("/api/v1/access-reviews/{}", review)), 404, "not_found");

    answer = get(auditor_a, path_of("/api/v1/access-reviews/{}", review));
    assert_status(answer, 200);
    size_t count = 0;
    for (const char *at = answer->body; (at = strstr(at, "{\"kind\":\"")) != NULL && count < 16; count++) {
        at += strlen("{\"kind\":\"");
        (void)snprintf(kinds[count], sizeof(kinds[0]), "%.*s", (int)strcspn(at, "\""), at);
        at = strstr(at, "credential_id\":\"") + strlen("credential_id\":\"");
        (void)snprintf(ids[count], sizeof(ids[0]), "%.36s", at);
    }
    assert_int_equal(count, 10);
    answer =
        say(second_a, "POST", path_of("/api/v1/access-reviews/{}/decisions", review),
            "{\"decisions\":[{\"kind\":\"token\",\"credential_id\":\"%s\",\"decision\":\"keep\",\"reason\":\"x\"}]}",
            ids[0]);
    assert_problem(answer, 400, "json_field"); /* it is a certificate */
    answer = say(operator_a, "POST", path_of("/api/v1/access-reviews/{}/decisions", review),
                 "{\"decisions\":[{\"kind\":\"%s\",\"credential_id\":\"%s\",\"decision\":\"keep\",\"reason\":\"x\"}]}",
                 kinds[0], ids[0]);
    assert_problem(answer, 403, "access_review_person"); /* the opener */
    const char *leaver = NULL;
    answer = get(admin_a, "/api/v1/tokens?subject=leaver");
    assert_status(answer, 200);
    leaver = kept(flow_text(answer, "token_id"));
    for (size_t i = 0; i < count; i++) {
        assert_problem(call(second_a, "POST", path_of("/api/v1/access-reviews/{}/completion", review), NULL), 409,
                       "access_review_state");
        decide(second_a, review, kinds[i], ids[i], strcmp(ids[i], leaver) == 0 ? "revoke" : "keep");
    }
    answer = call(second_a, "POST", path_of("/api/v1/access-reviews/{}/completion", review), NULL);
    assert_problem(answer, 409, "access_review_state");
    assert_says(answer, "still live");
    assert_status(say(admin_a, "POST", path_of("/api/v1/tokens/{}/revocations", leaver), "{\"reason\":\"review\"}"),
                  200);
    answer = call(operator_a, "POST", path_of("/api/v1/access-reviews/{}/completion", review), NULL);
    assert_problem(answer, 403, "access_review_person");
    answer = call(second_a, "POST", path_of("/api/v1/access-reviews/{}/completion", review), NULL);
    assert_status(answer, 200);
    assert_says(answer, "\"kept\":9,\"revoked\":1,\"undecided\":0,\"revoked_live\":0,\"completed_by\":\"second\"");
    answer =
        say(second_a, "POST", path_of("/api/v1/access-reviews/{}/decisions", review),
            "{\"decisions\":[{\"kind\":\"%s\",\"credential_id\":\"%s\",\"decision\":\"revoke\",\"reason\":\"x\"}]}",
            kinds[0], ids[0]);
    assert_problem(answer, 409, "access_review_state");
    answer = get(auditor_a, "/api/v1/access-reviews");
    assert_status(answer, 200);
    assert_says(answer, "\"state\":\"completed\"");
}

/* ---- from the log again ---- */

static void rows_digest(const char *what, char out[64])
{
    static const struct sql all = {
        "rows_digest",
        "SELECT md5(string_agg(t, '|' ORDER BY t)) FROM (SELECT 'c' || c::text AS t FROM svc.certificates c"
        " UNION ALL SELECT 'o' || o::text FROM svc.credential_owners o UNION ALL SELECT 'r' || r::text FROM"
        " svc.access_reviews r UNION ALL SELECT 'i' || i::text FROM svc.access_review_items i) all_rows",
        0,
    };
    static const struct sql own = {
        "own_digest",
        "SELECT coalesce(md5(string_agg(c::text, '|' ORDER BY certificate_id)), 'none') FROM svc.certificates c"
        " WHERE key_id IS NOT NULL",
        0,
    };
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(endpoint_new(test_config, "postgres", NULL, &endpoint));
    assert_ok(connection_open(op, endpoint, op->deadline, &connection));
    assert_ok(connection_run(op, connection, strcmp(what, "own") == 0 ? &own : &all, NULL, 0, op->deadline, &rows));
    (void)snprintf(out, 64, "%s", rows_text(rows, 0, 0));
}

/* What the migration finds for keys that were there before it is what their events make. */
static void the_migration_fills_in_what_the_projection_would(void **state)
{
    (void)state;
    char before[64], after[64];
    CLEANUP(buf_free) struct buf text = BUF_INIT((size_t)1 << 20);
    const char *migration = NULL;
    rows_digest("own", before);
    assert_ok(as_superuser("DELETE FROM svc.certificates WHERE key_id IS NOT NULL"));
    rows_digest("own", after);
    assert_string_equal(after, "none");
    assert_ok(file_read("api/store/migrations/130_inventory.sql", &text));
    assert_ok(buf_cstr(&text, &migration));
    migration = strstr(migration, "-- The first DER element");
    assert_non_null(migration);
    assert_ok(as_superuser(migration));
    rows_digest("own", after);
    assert_string_equal(before, after);
}

static void a_rebuild_gives_the_same_rows(void **state)
{
    (void)state;
    char before[64], after[64];
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    uint64_t messages = 0;
    flow_pause();
    rows_digest("all", before);
    assert_ok(store_empty_projections(test_config, NULL));
    rows_digest("all", after);
    assert_string_not_equal(before, after);
    assert_ok(projection_rebuild(op, flow_projector_config(), &messages));
    assert_true(messages > 20);
    rows_digest("all", after);
    assert_string_equal(before, after);
    flow_resume();
    assert_status(get(operator_a, "/api/v1/certificates"), 200);
}

static int start(void **state)
{
    (void)state;
    flow_start();
    flow_token("inv-a", "operator", "operator", operator_a);
    flow_token("inv-a", "second", "operator", second_a);
    flow_token("inv-a", "admin", "admin", admin_a);
    flow_token("inv-a", "auditor", "auditor", auditor_a);
    flow_token("inv-b", "operator", "operator", operator_b);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    flow_stop();
    EVP_PKEY_free(authority);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_one_certificate_in_der_is_not_recorded),
        cmocka_unit_test(a_certificate_is_recorded_once_and_its_custody_as_it_is_stated),
        cmocka_unit_test(certificates_of_managed_keys_come_in_by_themselves),
        cmocka_unit_test(the_custody_summary_counts_every_certificate_and_names_every_gap),
        cmocka_unit_test(owners_are_recorded_and_told_complete_from_partial),
        cmocka_unit_test(the_signing_policy_is_a_fact_of_now),
        cmocka_unit_test(tokens_alone_are_no_inventory),
        cmocka_unit_test(duties_are_kept_apart_by_subject_and_not_by_token),
        cmocka_unit_test(whoever_was_erased_owns_and_holds_nothing),
        cmocka_unit_test(a_review_closes_when_all_is_decided_and_dead_and_by_somebody_else),
        cmocka_unit_test(the_migration_fills_in_what_the_projection_would),
        cmocka_unit_test(a_rebuild_gives_the_same_rows),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
