/* svc-signer when it is killed, starved, fed rubbish, or started on something that is not right. */
#include "signer.h"

#include "signer-pkcs11/protocol/message.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct fault sign_in(struct rig *rig, const struct sign_request *request, int ms, struct buf *signature)
{
    CLEANUP(op_freep) struct op *op = op_within(ms);
    return signer_sign(op, rig->client, request, signature);
}

static struct key_ref key_made(struct rig *rig, enum key_algorithm algorithm)
{
    CLEANUP(op_freep) struct op *op = op_within(60000);
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(signer_generate(op, rig->client, &key, algorithm, &spki), NONE);
    return key;
}

/* ---- start ---- */

static void assert_nobody_listens(const struct rig *rig)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", rig->config->signer_socket);
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), -1);
    assert_true(errno == ECONNREFUSED || errno == ENOENT);
}

static void a_start_that_is_not_right_is_refused_with_its_exit_code(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    rig_new(&rig, "");
    char *none[] = { rig.program, NULL };
    char *help[] = { rig.program, (char *)"--help", NULL };
    char *version[] = { rig.program, (char *)"--version", NULL };
    char *extra[] = { rig.program, (char *)"--config", rig.config_path, (char *)"more", NULL };
    char *missing[] = { rig.program, (char *)"--config", (char *)"/no/such/file", NULL };
    assert_int_equal(rig_run(&rig, none, NULL), 2);
    assert_int_equal(rig_run(&rig, extra, NULL), 2);
    assert_int_equal(rig_run(&rig, missing, NULL), 2);
    assert_int_equal(rig_run(&rig, help, NULL), 0);
    assert_int_equal(rig_run(&rig, version, NULL), 0);
    assert_true(rig_log_has(&rig, "svc-signer 0."));

    rig_write(&rig, "svc.yaml", "no_such_key: 1\n", 0644);
    assert_int_equal(rig_signer_ends(&rig), 2);
    assert_true(rig_log_has(&rig, "no_such_key"));
    rig_configure(&rig, "");
    assert_int_equal(chmod(rig_path(&rig, "data/signer/pin"), 0644), 0);
    assert_int_equal(rig_signer_ends(&rig), 2);
    assert_true(rig_log_has(&rig, "0600"));
    rig_write(&rig, "data/signer/pin", "9999-wrong", 0600);
    assert_int_equal(rig_signer_ends(&rig), 1);
    assert_true(rig_log_has(&rig, "token_pin_refused"));
    assert_false(rig_log_has(&rig, "9999-wrong"));
    rig_write(&rig, "data/signer/pin", RIG_PIN, 0600);
    rig_configure(&rig, "token: {label: \"other\"}\n");
    assert_int_equal(rig_signer_ends(&rig), 1);
    rig_configure(&rig, "fips: {module: \"/no/such/fips.so\"}\n");
    assert_int_equal(rig_signer_ends(&rig), 3);
    assert_true(rig_log_has(&rig, "fips"));
    assert_nobody_listens(&rig);
    rig_configure(&rig, "signer: {journal: \"/proc/none\"}\n");
    assert_int_equal(rig_signer_ends(&rig), 1);
    rig_configure(&rig, "");
    rig_start(&rig);
    assert_int_equal(rig_signer_ends(&rig), 1); /* a second one on the same journal */
    assert_true(rig_log_has(&rig, "another signer"));
}

static void a_file_where_the_socket_should_be_is_not_removed(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    rig_new(&rig, "");
    assert_fault(file_make_dirs(rig_path(&rig, "run/signer"), 0755), NONE);
    rig_write(&rig, "run/signer/signer.sock", "precious", 0600);
    assert_int_equal(rig_signer_ends(&rig), 1);
    assert_int_equal(access(rig.config->signer_socket, F_OK), 0);
}

/* ---- death ---- */

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count;
}

struct waiting {
    struct rig *rig;
    const struct sign_request *request;
    pthread_t thread;
    struct fault fault;
};

static void *sign_when_it_goes_on(void *arg)
{
    struct waiting *one = arg;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    one->fault = sign_in(one->rig, one->request, 20000, &signature);
    return NULL;
}

/* Leaves several connections idle: a signer that is stopped answers none, so each caller opens its own. */
static void open_connections(struct rig *rig, const struct sign_request *request)
{
    struct waiting waiting[5];
    unsigned before = open_descriptors();
    rig_halt(rig);
    for (size_t i = 0; i < COUNT_OF(waiting); i++) {
        waiting[i] = (struct waiting){ .rig = rig, .request = request };
        assert_int_equal(pthread_create(&waiting[i].thread, NULL, sign_when_it_goes_on, &waiting[i]), 0);
    }
    while (open_descriptors() < before + COUNT_OF(waiting) - 1) { /* one was open already */
        (void)sched_yield();
    }
    rig_continue(rig);
    for (size_t i = 0; i < COUNT_OF(waiting); i++) {
        assert_int_equal(pthread_join(waiting[i].thread, NULL), 0);
        assert_fault(waiting[i].fault, NONE);
    }
}

static void a_dead_signer_fails_closed_and_works_again_without_a_new_client(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    rig_new(&rig, "");
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig, KEY_ALGORITHM_EC_P256), KEY_ALGORITHM_EC_P256);
    for (int round = 0; round < 3; round++) {
        assert_fault(sign_in(&rig, &request, 20000, &signature), NONE);
        assert_int_equal(rig_end(&rig, SIGKILL), 128 + SIGKILL);
        buf_clear(&signature);
        assert_fault(sign_in(&rig, &request, 20000, &signature), SIGNER_UNAVAILABLE);
        assert_int_equal(signature.len, 0);
        rig_start(&rig);
    }
    /* Connections that an earlier signer left are dropped together, so that one retry is enough. */
    assert_fault(sign_in(&rig, &request, 20000, &signature), NONE);
    open_connections(&rig, &request);
    (void)rig_end(&rig, SIGKILL);
    rig_start(&rig);
    open_connections(&rig, &request);
    (void)rig_end(&rig, SIGTERM);
    struct signer_client *kept = TAKE(rig.client); /* rig_start looks through a client of its own */
    assert_fault(signer_client_new(rig.config, &rig.client), NONE);
    rig_start(&rig);
    CLEANUP(op_freep) struct op *op = op_within(20000);
    buf_clear(&signature);
    assert_fault(signer_sign(op, kept, &request, &signature), NONE);
    signer_client_free(kept);
}

static void a_stopped_signer_fails_inside_the_deadline(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    rig_new(&rig, "");
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig, KEY_ALGORITHM_EC_P256), KEY_ALGORITHM_EC_P256);
    rig_halt(&rig);
    assert_fault(sign_in(&rig, &request, 100, &signature), SIGNER_UNAVAILABLE);
    rig_continue(&rig);
    assert_fault(sign_in(&rig, &request, 20000, &signature), NONE);
}

static void an_operation_id_gives_the_same_bytes_across_kill(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf first = BUF_INIT(SIGNATURE_MAX);
    CLEANUP(buf_free) struct buf again = BUF_INIT(SIGNATURE_MAX);
    rig_new(&rig, "");
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig, KEY_ALGORITHM_EC_P256), KEY_ALGORITHM_EC_P256);
    assert_fault(uuid_new(&request.op_id), NONE);
    assert_fault(sign_in(&rig, &request, 20000, &first), NONE);
    for (int round = 0; round < 2; round++) {
        buf_clear(&again);
        assert_fault(sign_in(&rig, &request, 20000, &again), NONE);
        assert_true(span_equal(buf_span(&first), buf_span(&again)));
        struct sign_request other = request;
        uint8_t digest[32] = { 9 };
        other.digest = SPAN_ARRAY(digest);
        assert_fault(sign_in(&rig, &other, 20000, &again), SIGNER_OP_MISMATCH);
        other = request;
        other.hash = HASH_SHA384;
        other.digest = span_of(rig_digest, 48);
        assert_fault(sign_in(&rig, &other, 20000, &again), SIGNER_OP_MISMATCH);
        (void)rig_end(&rig, SIGKILL);
        rig_start(&rig);
    }
    /* without an id each signature is a new one */
    request.op_id = (struct uuid){ "" };
    buf_clear(&again);
    assert_fault(sign_in(&rig, &request, 20000, &again), NONE);
    assert_false(span_equal(buf_span(&first), buf_span(&again)));
}

#define SIGNERS 8
#define EACH    400

struct signer {
    struct rig *rig;
    struct key_ref key;
    pthread_t thread;
    struct uuid ids[EACH];
    uint8_t signatures[EACH][128];
    size_t lens[EACH];
    atomic_uint acknowledged;
};

static void *sign_until_dead(void *arg)
{
    struct signer *signer = arg;
    for (unsigned i = 0; i < EACH; i++) {
        CLEANUP(op_freep) struct op *op = op_within(20000);
        CLEANUP(buf_free) struct buf signature = BUF_INIT(128);
        struct sign_request request = request_for(signer->key, KEY_ALGORITHM_EC_P256);
        if (FAULTED(uuid_new(&signer->ids[i]))) {
            return NULL;
        }
        request.op_id = signer->ids[i];
        if (FAULTED(signer_sign(op, signer->rig->client, &request, &signature))) {
            return NULL;
        }
        memcpy(signer->signatures[i], signature.at, signature.len);
        signer->lens[i] = signature.len;
        atomic_fetch_add(&signer->acknowledged, 1);
    }
    return NULL;
}

static void what_was_acknowledged_before_a_kill_is_replayed_byte_for_byte(void **state)
{
    (void)state;
    static struct signer signers[SIGNERS];
    CLEANUP(rig_free) struct rig rig;
    unsigned total = 0;
    rig_new(&rig, "");
    rig_start(&rig);
    struct key_ref key = key_made(&rig, KEY_ALGORITHM_EC_P256);
    for (size_t i = 0; i < SIGNERS; i++) {
        signers[i].rig = &rig;
        signers[i].key = key;
        assert_int_equal(pthread_create(&signers[i].thread, NULL, sign_until_dead, &signers[i]), 0);
    }
    while (atomic_load(&signers[0].acknowledged) < EACH / 8) {
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(rig_end(&rig, SIGKILL), 128 + SIGKILL);
    for (size_t i = 0; i < SIGNERS; i++) {
        assert_int_equal(pthread_join(signers[i].thread, NULL), 0);
    }
    rig_start(&rig);
    for (size_t i = 0; i < SIGNERS; i++) {
        for (unsigned k = 0; k < atomic_load(&signers[i].acknowledged); k++, total++) {
            CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
            struct sign_request request = request_for(key, KEY_ALGORITHM_EC_P256);
            request.op_id = signers[i].ids[k];
            assert_fault(sign_in(&rig, &request, 20000, &signature), NONE);
            assert_true(span_equal(buf_span(&signature), span_of(signers[i].signatures[k], signers[i].lens[k])));
        }
    }
    assert_true(total >= EACH / 8);
}

static void a_damaged_journal_refuses_to_start_and_names_the_place(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf file = BUF_INIT((size_t)2 << 20);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    rig_new(&rig, "");
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig, KEY_ALGORITHM_EC_P256), KEY_ALGORITHM_EC_P256);
    for (int i = 0; i < 3; i++) {
        assert_fault(uuid_new(&request.op_id), NONE);
        assert_fault(sign_in(&rig, &request, 20000, &signature), NONE);
    }
    (void)rig_end(&rig, SIGTERM);
    assert_fault(file_read(rig_path(&rig, "data/signer/00000001.journal"), &file), NONE);
    file.at[70] ^= 1;
    assert_fault(file_write(rig_path(&rig, "data/signer/00000001.journal"), buf_span(&file), 0600), NONE);
    assert_int_equal(rig_signer_ends(&rig), 1);
    assert_true(rig_log_has(&rig, "00000001.journal: the journal is damaged at offset 64"));
    file.at[70] ^= 1;
    assert_fault(file_write(rig_path(&rig, "data/signer/00000001.journal"), buf_span(&file), 0600), NONE);
    rig_start(&rig);
    assert_fault(sign_in(&rig, &request, 20000, &signature), NONE);
}

/* ---- rubbish ---- */

static int connect_raw(const struct rig *rig)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", rig->config->signer_socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* The signer hangs up, and says nothing. */
static void assert_hung_up(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    uint8_t byte = 0;
    assert_int_equal(poll(&ready, 1, 30000), 1);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
}

static void rubbish_closes_its_own_connection_and_nothing_else(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    rig_new(&rig, "");
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig, KEY_ALGORITHM_EC_P256), KEY_ALGORITHM_EC_P256);
    struct wire_request good = { .id = 1, .op = WIRE_HEALTH };
    assert_fault(request_pack(NULL, &good, &frame), NONE);
    frame.at[FRAME_HEADER] ^= 0x80;
    static const uint8_t http[] = "GET / HTTP/1.1\r\n\r\n", empty[] = { 0, 0, 0, 0 }, huge[] = { 0xff, 0, 0, 0 };
    const struct span rubbish[] = { span_of(http, sizeof(http) - 1), SPAN_ARRAY(empty), SPAN_ARRAY(huge),
                                    buf_span(&frame) };
    for (int round = 0; round < 10; round++) {
        for (size_t i = 0; i < COUNT_OF(rubbish); i++) {
            CLEANUP(fd_closep) int fd = connect_raw(&rig);
            assert_int_equal(send(fd, rubbish[i].at, rubbish[i].len, MSG_NOSIGNAL), (ssize_t)rubbish[i].len);
            assert_hung_up(fd);
            buf_clear(&signature);
            assert_fault(sign_in(&rig, &request, 20000, &signature), NONE);
        }
    }
    assert_true(rig_log_has(&rig, "signer_protocol"));
}

static void a_half_frame_holds_nobody_up(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    int held[20];
    rig_new(&rig, "");
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig, KEY_ALGORITHM_EC_P256), KEY_ALGORITHM_EC_P256);
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        held[i] = connect_raw(&rig);
        assert_int_equal(send(held[i], "\0\0\1", 3, MSG_NOSIGNAL), 3);
    }
    assert_fault(sign_in(&rig, &request, 20000, &signature), NONE);
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        assert_hung_up(held[i]);
        fd_close(held[i]);
    }
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

static void connections_beyond_the_limit_are_closed_and_room_comes_back(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    int held[140];
    unsigned closed = 0;
    rig_new(&rig, "");
    rig_start(&rig);
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        held[i] = connect_raw(&rig);
    }
    while (closed < 20) { /* the API may have 120 */
        closed = 0;
        for (size_t i = 0; i < COUNT_OF(held); i++) {
            struct pollfd ready = { .fd = held[i], .events = POLLIN };
            closed += poll(&ready, 1, 0) == 1;
        }
    }
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        fd_close(held[i]);
    }
    for (struct fault fault = FAULT(SIGNER_UNAVAILABLE); FAULTED(fault);) {
        CLEANUP(op_freep) struct op *op = op_within(20000);
        struct signer_health health;
        signer_client_free(TAKE(rig.client)); /* so that it connects anew */
        assert_fault(signer_client_new(rig.config, &rig.client), NONE);
        fault = signer_health(op, rig.client, &health);
        assert_true(!FAULTED(fault) || fault.code == FAULT_SIGNER_UNAVAILABLE);
    }
}

/* ---- too much ---- */

struct crowd {
    struct rig *rig;
    struct sign_request request;
    pthread_t thread;
    atomic_uint *saturated, *good, *other;
};

static void *press(void *arg)
{
    struct crowd *one = arg;
    while (atomic_load(one->saturated) == 0 && atomic_load(one->other) == 0) {
        CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
        struct fault fault = sign_in(one->rig, &one->request, 20000, &signature);
        atomic_fetch_add(!FAULTED(fault) ? one->good : fault.code == FAULT_SATURATED ? one->saturated : one->other, 1);
    }
    return NULL;
}

static void more_than_the_queue_holds_is_told_so_at_once(void **state)
{
    (void)state;
    static struct crowd crowd[8];
    CLEANUP(rig_free) struct rig rig;
    atomic_uint saturated = 0, good = 0, other = 0;
    rig_new(&rig, "signer: {sessions: 1, queue: 1}\n");
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig, KEY_ALGORITHM_RSA_3072), KEY_ALGORITHM_RSA_3072);
    for (size_t i = 0; i < COUNT_OF(crowd); i++) {
        crowd[i] =
            (struct crowd){ .rig = &rig, .request = request, .saturated = &saturated, .good = &good, .other = &other };
        assert_int_equal(pthread_create(&crowd[i].thread, NULL, press, &crowd[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(crowd); i++) {
        assert_int_equal(pthread_join(crowd[i].thread, NULL), 0);
    }
    assert_int_equal(atomic_load(&other), 0);
    assert_true(atomic_load(&saturated) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_that_is_not_right_is_refused_with_its_exit_code),
        cmocka_unit_test(a_file_where_the_socket_should_be_is_not_removed),
        cmocka_unit_test(a_dead_signer_fails_closed_and_works_again_without_a_new_client),
        cmocka_unit_test(a_stopped_signer_fails_inside_the_deadline),
        cmocka_unit_test(an_operation_id_gives_the_same_bytes_across_kill),
        cmocka_unit_test(what_was_acknowledged_before_a_kill_is_replayed_byte_for_byte),
        cmocka_unit_test(a_damaged_journal_refuses_to_start_and_names_the_place),
        cmocka_unit_test(rubbish_closes_its_own_connection_and_nothing_else),
        cmocka_unit_test(a_half_frame_holds_nobody_up),
        cmocka_unit_test(connections_beyond_the_limit_are_closed_and_room_comes_back),
        cmocka_unit_test(more_than_the_queue_holds_is_told_so_at_once),
    };
    return cmocka_run_group_tests_name("crash", tests, NULL, NULL);
}
