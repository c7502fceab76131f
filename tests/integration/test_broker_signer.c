/* svc-signer as svc-api sees it: a real process, a real token, the real client. */
#include "signer.h"

#include "appliance/base/crypto.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

static struct rig rig;

static int start(void **state)
{
    (void)state;
    rig_new(&rig, "");
    rig_start(&rig);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rig_free(&rig);
    return 0;
}

static void make_key(const struct key_ref *key, enum key_algorithm algorithm, struct buf *spki)
{
    CLEANUP(op_freep) struct op *op = op_within(60000);
    assert_fault(signer_generate(op, rig.client, key, algorithm, spki), NONE);
}

/* A fresh operation each time, so that the note is of this call. */
static struct fault sign_with(const struct sign_request *request, struct buf *signature)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    struct fault fault = signer_sign(op, rig.client, request, signature);
    assert_int_equal(op->note.set, FAULTED(fault));
    return fault;
}

static void keys_are_refused_for_what_their_purpose_does_not_allow(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_within(60000);
    CLEANUP(buf_free) struct buf out = BUF_INIT(WIRE_OUT);
    struct key_ref seal = key_new(KEY_PURPOSE_SEAL), sign = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(signer_generate(op, rig.client, &seal, KEY_ALGORITHM_EC_P256, &out), SIGNER_REFUSED);
    assert_string_equal(op->note.detail, "a key of purpose seal cannot be of algorithm ec-p256");
    assert_fault(signer_generate(op, rig.client, &sign, KEY_ALGORITHM_AES_256, &out), SIGNER_REFUSED);
    make_key(&seal, KEY_ALGORITHM_AES_256, &out);
    assert_int_equal(out.len, 0);
    make_key(&sign, KEY_ALGORITHM_EC_P256, &out);
    struct sign_request request = request_for(seal, KEY_ALGORITHM_EC_P256);
    assert_fault(sign_with(&request, &out), SIGNER_REFUSED);
    assert_fault(signer_verify(op, rig.client, &request, span_text("x")), SIGNER_REFUSED);
    assert_fault(signer_seal(op, rig.client, &sign, span_text("a"), span_text("p"), &out), SIGNER_REFUSED);
    assert_fault(signer_unseal(op, rig.client, &sign, span_text("a"), span_text("p"), &out), SIGNER_REFUSED);
    /* The purpose is part of the key's place: under another one there is no such key. */
    request = request_for(sign, KEY_ALGORITHM_EC_P256);
    request.key.purpose = KEY_PURPOSE_TSA;
    assert_fault(sign_with(&request, &out), KEY_NOT_FOUND);
    request = request_for(sign, KEY_ALGORITHM_EC_P256);
    request.key.tenant = (struct tenant_id){ "other" };
    assert_fault(sign_with(&request, &out), KEY_NOT_FOUND);
    request = request_for(sign, KEY_ALGORITHM_EC_P256);
    request.scheme = SIGN_SCHEME_RSA_PSS;
    assert_fault(sign_with(&request, &out), BAD_ARGUMENT);
}

/* Who asks is the uid that the kernel tells. */
static struct fault ask_as(uid_t uid, const struct key_ref *key)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    CLEANUP(buf_free) struct buf out = BUF_INIT(SPKI_MAX);
    struct signer_client *client = NULL;
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    struct config config = *rig.config;
    config.signer_address = ""; /* by the socket, whatever the rest of the suite uses */
    assert_fault(signer_client_new(&config, &client), NONE);
    assert_int_equal(seteuid(uid), 0);
    struct fault fault = signer_public_key(op, client, key, &algorithm, &out);
    signer_client_free(client);
    assert_int_equal(seteuid(0), 0);
    return fault;
}

static void strangers_are_not_heard_and_the_api_does_not_get_the_self_test_keys(void **state)
{
    (void)state;
    uid_t api = 643, stranger = 65534;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chmod(rig.config->signer_socket, 0666), 0); /* so that only the peer check is left */
    assert_int_equal(chmod(rig_path(&rig, "run"), 0755), 0);
    assert_int_equal(chmod(rig_path(&rig, "run/signer"), 0755), 0);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN), post = { .purpose = KEY_PURPOSE_POST, .id = key.id };
    assert_fault(ask_as(stranger, &key), SIGNER_UNAVAILABLE);
    assert_true(rig_log_has(&rig, "peer_refused"));
    assert_fault(ask_as(api, &post), SIGNER_REFUSED);
    assert_fault(ask_as(api, &key), KEY_NOT_FOUND);
    assert_fault(ask_as(0, &post), KEY_NOT_FOUND);
    assert_int_equal(chmod(rig_path(&rig, "run/signer"), 0700), 0); /* a signer refuses to start on an open folder */
}

static void pkey_freep(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static bool openssl_accepts(struct span spki, struct span signature)
{
    const unsigned char *at = spki.at;
    CLEANUP(pkey_freep) EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)spki.len);
    assert_non_null(key);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    bool good = EVP_PKEY_verify_init(ctx) == 1 && EVP_PKEY_CTX_set_signature_md(ctx, EVP_sha256()) == 1 &&
                EVP_PKEY_verify(ctx, signature.at, signature.len, rig_digest, 32) == 1;
    EVP_PKEY_CTX_free(ctx);
    return good;
}

static void a_key_is_made_used_shown_and_destroyed(void **state)
{
    (void)state;
    for (int a = KEY_ALGORITHM_EC_P256; a <= KEY_ALGORITHM_RSA_3072; a++) {
        CLEANUP(op_freep) struct op *op = op_within(60000);
        CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
        CLEANUP(buf_free) struct buf shown = BUF_INIT(SPKI_MAX);
        CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
        struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
        struct sign_request request = request_for(key, (enum key_algorithm)a);
        enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
        assert_fault(signer_public_key(op, rig.client, &key, &algorithm, &shown), KEY_NOT_FOUND);
        make_key(&key, (enum key_algorithm)a, &spki);
        op->note.set = false;
        assert_fault(signer_generate(op, rig.client, &key, (enum key_algorithm)a, &shown), KEY_EXISTS);
        assert_fault(signer_public_key(op, rig.client, &key, &algorithm, &shown), NONE);
        assert_int_equal(algorithm, a);
        assert_true(span_equal(buf_span(&spki), buf_span(&shown)));
        assert_fault(sign_with(&request, &signature), NONE);
        assert_true(openssl_accepts(buf_span(&spki), buf_span(&signature)));
        assert_fault(signer_verify(op, rig.client, &request, buf_span(&signature)), NONE);
        signature.at[signature.len - 1] ^= 1;
        assert_fault(signer_verify(op, rig.client, &request, buf_span(&signature)), SIGNATURE_INVALID);
        assert_fault(signer_destroy(op, rig.client, &key), NONE);
        assert_fault(signer_destroy(op, rig.client, &key), KEY_NOT_FOUND);
        buf_clear(&signature);
        assert_fault(sign_with(&request, &signature), KEY_NOT_FOUND);
    }
}

/* One exchange, each signature of its own digest, and none at all when one cannot be made. */
static void several_digests_are_signed_in_one_exchange(void **state)
{
    (void)state;
    static const enum key_algorithm algorithms[] = { KEY_ALGORITHM_EC_P256, KEY_ALGORITHM_RSA_3072 };
    for (size_t a = 0; a < COUNT_OF(algorithms); a++) {
        CLEANUP(op_freep) struct op *op = op_within(60000);
        CLEANUP(buf_free) struct buf spki = BUF_INIT(WIRE_OUT);
        CLEANUP(buf_free) struct buf room = BUF_INIT(WIRE_OUT);
        struct key_ref key = key_new(KEY_PURPOSE_TSA);
        struct sign_request request = request_for(key, algorithms[a]);
        uint8_t digests[SIGNER_MANY_MAX * 32];
        struct span signatures[SIGNER_MANY_MAX];
        for (size_t i = 0; i < sizeof(digests); i++) {
            digests[i] = (uint8_t)(i / 32);
        }
        request.op_id = (struct uuid){ 0 };
        request.digest = SPAN_ARRAY(digests);
        assert_fault(signer_sign_many(op, rig.client, &request, &room, signatures), KEY_NOT_FOUND);
        assert_int_equal(room.len, 0);
        make_key(&key, algorithms[a], &spki);
        assert_fault(signer_sign_many(op, rig.client, &request, &room, signatures), NONE);
        for (size_t i = 0; i < SIGNER_MANY_MAX; i++) {
            struct sign_request one = request;
            one.digest = span_of(digests + i * 32, 32);
            assert_fault(signer_verify(op, rig.client, &one, signatures[i]), NONE);
            one.digest = span_of(digests + (i + 1) % SIGNER_MANY_MAX * 32, 32);
            assert_fault(signer_verify(op, rig.client, &one, signatures[i]), SIGNATURE_INVALID);
        }
    }
}

static void what_is_sealed_opens_with_its_context_only(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_within(60000);
    CLEANUP(buf_free) struct buf sealed = BUF_INIT(WIRE_OUT);
    CLEANUP(buf_free) struct buf plain = BUF_INIT(WIRE_OUT);
    struct key_ref key = key_new(KEY_PURPOSE_SEAL), other = key_new(KEY_PURPOSE_SEAL);
    static uint8_t large[60000];
    make_key(&key, KEY_ALGORITHM_AES_256, &plain);
    make_key(&other, KEY_ALGORITHM_AES_256, &plain);
    memset(large, 0x5a, sizeof(large));
    const struct span plains[] = { { large, 0 }, span_text("a command"), SPAN_ARRAY(large) };
    for (size_t i = 0; i < COUNT_OF(plains); i++) {
        buf_clear(&sealed);
        buf_clear(&plain);
        assert_fault(signer_seal(op, rig.client, &key, span_text("aad"), plains[i], &sealed), NONE);
        assert_fault(signer_unseal(op, rig.client, &key, span_text("aae"), buf_span(&sealed), &plain), UNSEAL);
        assert_fault(signer_unseal(op, rig.client, &other, span_text("aad"), buf_span(&sealed), &plain), UNSEAL);
        assert_int_equal(plain.len, 0);
        assert_fault(signer_unseal(op, rig.client, &key, span_text("aad"), buf_span(&sealed), &plain), NONE);
        assert_true(span_equal(buf_span(&plain), plains[i]));
        sealed.at[sealed.len - 1] ^= 1;
        assert_fault(signer_unseal(op, rig.client, &key, span_text("aad"), buf_span(&sealed), &plain), UNSEAL);
    }
}

static void health_tells_token_and_posture(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_within(20000);
    struct signer_health health = { 0 };
    assert_fault(signer_health(op, rig.client, &health), NONE);
    assert_int_equal(health.state, SIGNER_OK);
    assert_string_equal(health.token_label, "svc");
    assert_non_null(strstr(health.token_model, test_token_is_nss() ? "NSS" : "SoftHSM"));
    assert_true(health.self_test_passed);
    assert_true(health.fips_active);
    assert_true(health.operations > 0);
    assert_true(health.journal_bytes >= 64);
}

static void assert_each_thread_has(pid_t pid, const char *line)
{
    char path[320];
    unsigned seen = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (const struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        CLEANUP(buf_free) struct buf status = BUF_INIT(65536);
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, task->d_name);
        if (task->d_name[0] == '.' || FAULTED(file_read(path, &status))) {
            continue;
        }
        seen++;
        if (memmem(status.at, status.len, line, strlen(line)) == NULL) {
            fail_msg("thread %s of %d has not '%s'", task->d_name, (int)pid, line);
        }
    }
    (void)closedir(tasks);
    assert_true(seen >= 3); /* the main one, the token's keeper, our connection */
}

static void the_process_has_given_up_what_it_does_not_need(void **state)
{
    (void)state;
    assert_each_thread_has(rig.pid, "NoNewPrivs:\t1");
    assert_each_thread_has(rig.pid, "Seccomp:\t2");
    struct stat status;
    assert_int_equal(stat(rig.config->signer_socket, &status), 0);
    assert_true(S_ISSOCK(status.st_mode));
}

static void stopping_is_orderly(void **state)
{
    (void)state;
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
    assert_true(rig_log_has(&rig, "\"drained\":\"yes\""));
    rig_start(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_refused_for_what_their_purpose_does_not_allow),
        cmocka_unit_test(strangers_are_not_heard_and_the_api_does_not_get_the_self_test_keys),
        cmocka_unit_test(a_key_is_made_used_shown_and_destroyed),
        cmocka_unit_test(several_digests_are_signed_in_one_exchange),
        cmocka_unit_test(what_is_sealed_opens_with_its_context_only),
        cmocka_unit_test(health_tells_token_and_posture),
        cmocka_unit_test(the_process_has_given_up_what_it_does_not_need),
        cmocka_unit_test(stopping_is_orderly),
    };
    return cmocka_run_group_tests_name("broker", tests, start, stop);
}
