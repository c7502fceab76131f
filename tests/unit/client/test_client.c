#include "signer-pkcs11/client/client.h"
#include "signer-pkcs11/protocol/message.h"
#include "testlib.h"

#include "appliance/base/file.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the signer of a test does with its next request. */
enum act { ANSWER, REFUSE, WRONG_ID, UNASKED, HEALTH, BARE, RUBBISH, HANG, CLOSE, LEAVE };

struct fake {
    char path[64];
    int listener;
    pthread_t thread;
    const enum act *script; /* when it is over: ANSWER */
    size_t acts;
    atomic_uint requests, connections, ended;
    struct wire_request last;
    char last_op_id[37];
};

static void reply(struct frame_stream *stream, const struct wire_response *response)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    size_t sent = 0;
    assert_fault(response_pack(response, &frame), NONE);
    IGNORE(frame_send(stream, clock_mono() + 10 * NS_PER_S, buf_span(&frame), &sent));
}

static const struct signer_health some_health = {
    .state = SIGNER_DEGRADED,
    .token_label = "token",
    .cause = "a cause",
    .operations = 5,
    .queue = 6,
    .journal_bytes = 7,
    .fips_active = true,
    .journal_usable = true,
    .token_count = 2,
    .tokens = { { .name = { "" }, .label = "token" }, { .name = { "hsm-2" }, .state = SIGNER_DOWN, .set_aside = 3 } },
    .count_count = 1,
    .counts = { { .op = WIRE_SIGN, .purpose = KEY_PURPOSE_TSA, .outcome = OP_OUTCOME_REFUSED, .count = 8 } },
    .refusals = { 0, 0, 0, 0, 9, 0, 0 },
};

static struct span many_result; /* what sign_many is answered with */

static void fill(const struct wire_request *request, struct wire_response *response)
{
    switch (request->op) {
    case WIRE_HEALTH:
        response->health = &some_health;
        break;
    case WIRE_SIGN_MANY:
        response->result = many_result;
        break;
    case WIRE_SIGN:
    case WIRE_SEAL:
    case WIRE_UNSEAL:
        response->result = span_text("result");
        break;
    case WIRE_GENERATE_KEY:
    case WIRE_PUBLIC_KEY:
        response->result = span_text("spki");
        response->algorithm = KEY_ALGORITHM_EC_P384;
        break;
    case WIRE_OP_NONE:
    case WIRE_VERIFY:
    case WIRE_DESTROY:
    case WIRE_OP_COUNT:
        break;
    }
}

/* False: this connection is over. */
static bool act_on(struct fake *fake, struct frame_stream *stream, const struct wire_request *request)
{
    static const uint8_t rubbish[] = { 0, 0, 0, 3, 0xff, 0xff, 0xff };
    unsigned number = atomic_fetch_add(&fake->requests, 1);
    enum act act = number < fake->acts ? fake->script[number] : ANSWER;
    struct wire_response response = { .id = request->id };
    size_t sent = 0;
    switch (act) {
    case ANSWER:
        fill(request, &response);
        reply(stream, &response);
        return true;
    case REFUSE:
        response.fault = FAULT(KEY_NOT_FOUND);
        (void)snprintf(response.detail, sizeof(response.detail), "no such key here");
        reply(stream, &response);
        return true;
    case WRONG_ID:
        response.id++;
        reply(stream, &response);
        return true;
    case UNASKED:
        response.result = span_text("bytes that nobody asked for");
        reply(stream, &response);
        return true;
    case HEALTH:
        response.health = &some_health;
        reply(stream, &response);
        return true;
    case BARE:
        reply(stream, &response);
        return true;
    case RUBBISH:
        IGNORE(frame_send(stream, clock_mono() + 10 * NS_PER_S, SPAN_ARRAY(rubbish), &sent));
        return true;
    case HANG:
        return true;
    case LEAVE: /* answers, and is gone before the next request */
        fill(request, &response);
        reply(stream, &response);
        return false;
    case CLOSE:
        break;
    }
    return false;
}

static void serve(struct fake *fake, int fd)
{
    CLEANUP(frame_stream_clear) struct frame_stream stream = FRAME_STREAM_NONE;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    const struct frame_patience patience = { .first = FRAME_NEVER, .rest = 60 * NS_PER_S };
    struct span message;
    atomic_fetch_add(&fake->connections, 1);
    assert_fault(frame_stream_init(&stream, fd, NULL), NONE);
    assert_fault(arena_new(WIRE_ARENA_MAX, &arena), NONE);
    while (!FAULTED(frame_read(&stream, &patience, &message))) {
        arena_clear(arena);
        assert_fault(request_unpack(arena, message, &fake->last), NONE);
        if (!act_on(fake, &stream, &fake->last)) {
            return;
        }
    }
}

static void *fake_main(void *arg)
{
    struct fake *fake = arg;
    for (;;) {
        int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            return NULL;
        }
        serve(fake, fd);
        atomic_fetch_add(&fake->ended, 1);
    }
}

static void fake_start(struct fake *fake, const enum act *script, size_t acts)
{
    static atomic_uint number;
    *fake = (struct fake){ .script = script, .acts = acts };
    (void)snprintf(fake->path, sizeof(fake->path), "/tmp/svc-client-%d-%u", (int)getpid(), number++);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, fake->path, sizeof(fake->path));
    fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->listener, 8), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_main, fake), 0);
}

static void fake_stop(struct fake *fake)
{
    assert_int_equal(shutdown(fake->listener, SHUT_RDWR), 0);
    assert_int_equal(pthread_join(fake->thread, NULL), 0);
    fd_closep(&fake->listener);
    (void)unlink(fake->path);
}

/* A client of that signer, and the operation that asks. */
struct desk {
    struct config config;
    struct signer_client *client;
    struct op *op;
    struct buf out;
};

static void desk_new(struct desk *desk, const char *path, int64_t timeout_ms)
{
    *desk = (struct desk){ .config = { .signer_socket = path,
                                       .signer_address = "",
                                       .signer_client_conns = 2,
                                       .bulkhead_tenant_share = 75,
                                       .signer_deadline = timeout_ms * NS_PER_MS },
                           .out = BUF_INIT(WIRE_RESULT_MAX) };
    assert_fault(signer_client_new(&desk->config, &desk->client), NONE);
    assert_fault(op_new("test", (struct tenant_id){ "acme" }, 60000, &desk->op), NONE);
}

static void desk_free(struct desk *desk)
{
    signer_client_free(desk->client);
    op_free(desk->op);
    buf_free(&desk->out);
}

static void forget(struct desk *desk)
{
    desk->op->note = (struct fault_note){ 0 };
    buf_clear(&desk->out);
}

static const struct key_ref key = { .tenant = { "acme" },
                                    .purpose = KEY_PURPOSE_CODESIGN,
                                    .id = { "0190b3c4-0000-7000-8000-000000000001" } };
static uint8_t digest[32];

static struct sign_request a_request(void)
{
    return (struct sign_request){
        .key = key, .scheme = SIGN_SCHEME_ECDSA, .hash = HASH_SHA256, .digest = SPAN_ARRAY(digest)
    };
}

static struct fault sign(struct desk *desk)
{
    struct sign_request request = a_request();
    return signer_sign(desk->op, desk->client, &request, &desk->out);
}

static void nobody_listening_is_signer_unavailable(void **state)
{
    (void)state;
    CLEANUP(desk_free) struct desk desk;
    desk_new(&desk, "/tmp/svc-client-nobody-listens-here", 60000);
    assert_fault(sign(&desk), SIGNER_UNAVAILABLE);
    assert_non_null(strstr(desk.op->note.detail, "svc-signer"));
    assert_int_equal(desk.out.len, 0);
}

static void what_is_wrong_is_told_before_anything_is_sent(void **state)
{
    (void)state;
    struct fake fake;
    fake_start(&fake, NULL, 0);
    {
        CLEANUP(desk_free) struct desk desk;
        struct sign_request request = a_request();
        static const uint8_t large[WIRE_DATA_MAX + 1];
        desk_new(&desk, fake.path, 60000);
        request.digest.len = 20;
        assert_fault(signer_sign(desk.op, desk.client, &request, &desk.out), DIGEST_LENGTH);
        forget(&desk);
        request = a_request();
        request.key.tenant.text[0] = 0;
        assert_fault(signer_sign(desk.op, desk.client, &request, &desk.out), BAD_ARGUMENT);
        forget(&desk);
        assert_fault(signer_seal(desk.op, desk.client, &key, (struct span){ 0 }, SPAN_ARRAY(large), &desk.out),
                     TOO_LARGE);
        assert_int_equal(atomic_load(&fake.connections), 0);
    }
    fake_stop(&fake);
}

/* Each behind its length, as many as were asked for, and nothing else. */
static void signatures_that_are_not_those_asked_for_are_not_taken(void **state)
{
    (void)state;
    static const struct span wrong[] = { { 0 },
                                         { (const uint8_t *)"\0", 1 },
                                         { (const uint8_t *)"\0\1a", 3 },
                                         { (const uint8_t *)"\0\1a\0", 4 },
                                         { (const uint8_t *)"\0\1a\0\2b", 6 },
                                         { (const uint8_t *)"\0\1a\0\0", 5 },
                                         { (const uint8_t *)"\0\1a\0\1bc", 7 },
                                         { (const uint8_t *)"\0\1a\0\1b\0\1c", 9 },
                                         { (const uint8_t *)"\x0d\1a\0\1b", 6 } };
    static const uint8_t digests[64];
    struct fake fake;
    fake_start(&fake, NULL, 0);
    for (size_t i = 0; i <= COUNT_OF(wrong); i++) {
        CLEANUP(desk_free) struct desk desk;
        struct sign_request request = a_request();
        struct span signatures[2] = { 0 };
        desk_new(&desk, fake.path, 60000);
        request.op_id = (struct uuid){ 0 };
        request.digest = SPAN_ARRAY(digests);
        bool good = i == COUNT_OF(wrong);
        many_result = good ? span_of("\0\1a\0\3bcd", 8) : wrong[i];
        struct fault fault = signer_sign_many(desk.op, desk.client, &request, &desk.out, signatures);
        if (!good) {
            assert_fault(fault, SIGNER_PROTOCOL);
            continue;
        }
        assert_fault(fault, NONE);
        assert_int_equal(signatures[0].len, 1);
        assert_memory_equal(signatures[0].at, "a", 1);
        assert_int_equal(signatures[1].len, 3);
        assert_memory_equal(signatures[1].at, "bcd", 3);
        request.op_id = (struct uuid){ "0190b3c4-0000-7000-8000-0123456789ab" }; /* the journal has one under an id */
        assert_fault(signer_sign_many(desk.op, desk.client, &request, &desk.out, signatures), BAD_ARGUMENT);
    }
    fake_stop(&fake);
}

static void a_call_inside_a_transaction_aborts(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct desk desk;
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        desk_new(&desk, "/tmp/svc-client-nobody-listens-here", 1000);
        desk.op->tx_open = 1;
        IGNORE(sign(&desk));
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void a_signer_that_does_not_answer_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    static const enum act script[] = { HANG, HANG };
    struct fake fake;
    fake_start(&fake, script, COUNT_OF(script));
    {
        CLEANUP(desk_free) struct desk desk;
        desk_new(&desk, fake.path, 40);
        assert_fault(sign(&desk), SIGNER_UNAVAILABLE);
        assert_non_null(strstr(desk.op->note.detail, "in time"));
        assert_true(fake.last.deadline_ms > 0 && fake.last.deadline_ms <= 40);
        /* the operation's own deadline counts as well */
        forget(&desk);
        desk.config.signer_deadline = 60 * NS_PER_S;
        desk.op->deadline = clock_mono() + 40 * NS_PER_MS;
        assert_fault(sign(&desk), SIGNER_UNAVAILABLE);
        forget(&desk);
        desk.op->deadline = clock_mono() - 1;
        assert_fault(sign(&desk), SIGNER_UNAVAILABLE);
        /* and its connection is not used again: a late answer would be taken for another's */
        forget(&desk);
        desk.op->deadline = clock_mono() + 60 * NS_PER_S;
        assert_fault(sign(&desk), NONE);
        assert_span_text(buf_span(&desk.out), "result");
        assert_int_equal(atomic_load(&fake.connections), 3);
        assert_int_equal(atomic_load(&fake.requests), 3);
    }
    fake_stop(&fake);
}

static void answers_outside_the_protocol_are_refused_and_their_connection_dropped(void **state)
{
    (void)state;
    static const enum act script[] = { WRONG_ID, RUBBISH, UNASKED };
    struct fake fake;
    fake_start(&fake, script, COUNT_OF(script));
    {
        CLEANUP(desk_free) struct desk desk;
        desk_new(&desk, fake.path, 60000);
        assert_fault(sign(&desk), SIGNER_PROTOCOL);
        forget(&desk);
        assert_fault(sign(&desk), SIGNER_PROTOCOL);
        forget(&desk);
        assert_fault(signer_destroy(desk.op, desk.client, &key), SIGNER_PROTOCOL);
        assert_int_equal(desk.out.len, 0);
        forget(&desk);
        assert_fault(sign(&desk), NONE);
        assert_int_equal(atomic_load(&fake.connections), 4);
    }
    fake_stop(&fake);
}

static void health_is_told_when_asked_for_and_only_then(void **state)
{
    (void)state;
    static const enum act script[] = { BARE, HEALTH, REFUSE };
    struct fake fake;
    fake_start(&fake, script, COUNT_OF(script));
    {
        CLEANUP(desk_free) struct desk desk;
        struct signer_health health = { .operations = 77 };
        desk_new(&desk, fake.path, 60000);
        assert_fault(signer_health(desk.op, desk.client, &health), SIGNER_PROTOCOL);
        forget(&desk);
        assert_fault(signer_destroy(desk.op, desk.client, &key), SIGNER_PROTOCOL);
        forget(&desk);
        assert_fault(signer_health(desk.op, desk.client, &health), KEY_NOT_FOUND);
        assert_int_equal(health.operations, 77);
        assert_int_equal(atomic_load(&fake.connections), 3);
    }
    fake_stop(&fake);
}

static void the_signers_refusal_travels_with_its_words_and_keeps_the_connection(void **state)
{
    (void)state;
    static const enum act script[] = { REFUSE };
    struct fake fake;
    fake_start(&fake, script, COUNT_OF(script));
    {
        CLEANUP(desk_free) struct desk desk;
        desk_new(&desk, fake.path, 60000);
        assert_fault(sign(&desk), KEY_NOT_FOUND);
        assert_string_equal(desk.op->note.detail, "no such key here");
        assert_int_equal(desk.out.len, 0);
        forget(&desk);
        assert_fault(sign(&desk), NONE);
        assert_int_equal(atomic_load(&fake.connections), 1);
    }
    fake_stop(&fake);
}

static void a_broken_connection_is_tried_once_more(void **state)
{
    (void)state;
    static const enum act script[] = { CLOSE, ANSWER, CLOSE, CLOSE };
    struct fake fake;
    fake_start(&fake, script, COUNT_OF(script));
    {
        CLEANUP(desk_free) struct desk desk;
        desk_new(&desk, fake.path, 60000);
        assert_fault(sign(&desk), NONE);
        assert_span_text(buf_span(&desk.out), "result");
        assert_string_equal(desk.op->note.log_detail, "");
        assert_int_equal(atomic_load(&fake.requests), 2);
        forget(&desk);
        assert_fault(sign(&desk), SIGNER_UNAVAILABLE);
        assert_int_equal(atomic_load(&fake.requests), 4);
        assert_int_equal(desk.out.len, 0);
    }
    fake_stop(&fake);
}

static void making_a_key_is_not_repeated_when_it_may_have_happened(void **state)
{
    (void)state;
    static const enum act script[] = { CLOSE };
    struct fake fake;
    fake_start(&fake, script, COUNT_OF(script));
    {
        CLEANUP(desk_free) struct desk desk;
        desk_new(&desk, fake.path, 60000);
        assert_fault(signer_generate(desk.op, desk.client, &key, KEY_ALGORITHM_EC_P384, &desk.out), SIGNER_UNAVAILABLE);
        assert_int_equal(atomic_load(&fake.requests), 1);
    }
    fake_stop(&fake);
}

static void an_idle_connection_that_the_signer_left_is_replaced_unseen(void **state)
{
    (void)state;
    static const enum act script[] = { LEAVE, LEAVE };
    struct fake fake;
    fake_start(&fake, script, COUNT_OF(script));
    {
        CLEANUP(desk_free) struct desk desk;
        desk_new(&desk, fake.path, 60000);
        for (unsigned i = 1; i <= 3; i++) {
            forget(&desk);
            assert_fault(signer_generate(desk.op, desk.client, &key, KEY_ALGORITHM_EC_P384, &desk.out), NONE);
            assert_int_equal(atomic_load(&fake.requests), i);
            while (i <= COUNT_OF(script) && atomic_load(&fake.ended) < i) {
                (void)sched_yield();
            }
        }
    }
    fake_stop(&fake);
}

static void a_key_that_is_gone_after_a_repeated_destroy_was_destroyed(void **state)
{
    (void)state;
    static const enum act script[] = { CLOSE, REFUSE, REFUSE };
    struct fake fake;
    fake_start(&fake, script, COUNT_OF(script));
    {
        CLEANUP(desk_free) struct desk desk;
        desk_new(&desk, fake.path, 60000);
        assert_fault(signer_destroy(desk.op, desk.client, &key), NONE);
        forget(&desk);
        assert_fault(signer_destroy(desk.op, desk.client, &key), KEY_NOT_FOUND);
    }
    fake_stop(&fake);
}

struct caller {
    struct desk *desk;
    pthread_t thread;
    int timeout_ms;
    struct fault fault;
};

static void *call_main(void *arg)
{
    struct caller *caller = arg;
    CLEANUP(buf_free) struct buf out = BUF_INIT(SIGNATURE_MAX);
    struct sign_request request = a_request();
    struct op *op = NULL;
    if (!FAULTED(op_new("test", (struct tenant_id){ "" }, caller->timeout_ms, &op))) {
        caller->fault = signer_sign(op, caller->desk->client, &request, &out);
    }
    op_free(op);
    return NULL;
}

static void callers_beyond_the_pool_wait_their_turn(void **state)
{
    (void)state;
    static const enum act script[] = { HANG };
    struct fake fake;
    struct caller callers[6];
    fake_start(&fake, NULL, 0);
    {
        CLEANUP(desk_free) struct desk desk;
        desk_new(&desk, fake.path, 60000);
        signer_client_free(TAKE(desk.client));
        desk.config.signer_client_conns = 1;
        assert_fault(signer_client_new(&desk.config, &desk.client), NONE);
        for (size_t i = 0; i < COUNT_OF(callers); i++) {
            callers[i] = (struct caller){ .desk = &desk, .timeout_ms = 60000, .fault = FAULT(INTERNAL) };
            assert_int_equal(pthread_create(&callers[i].thread, NULL, call_main, &callers[i]), 0);
        }
        for (size_t i = 0; i < COUNT_OF(callers); i++) {
            assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
            assert_fault(callers[i].fault, NONE);
        }
        assert_int_equal(atomic_load(&fake.connections), 1);
        /* the only connection is held by a signer that does not answer */
        fake.script = script;
        fake.acts = 1;
        atomic_store(&fake.requests, 0);
        callers[0] = (struct caller){ .desk = &desk, .timeout_ms = 400 };
        assert_int_equal(pthread_create(&callers[0].thread, NULL, call_main, &callers[0]), 0);
        while (atomic_load(&fake.requests) == 0) {
            (void)sched_yield();
        }
        desk.op->deadline = clock_mono() + 20 * NS_PER_MS;
        assert_fault(sign(&desk), SATURATED);
        assert_int_equal(pthread_join(callers[0].thread, NULL), 0);
        assert_fault(callers[0].fault, SIGNER_UNAVAILABLE);
    }
    fake_stop(&fake);
}

/* The signer stands still with the only place taken: the next caller is sent away at once, and whether it is well can
 * still be asked, on a connection that is nobody else's. */
static void a_full_bulkhead_refuses_at_once_and_leaves_a_way_for_health(void **state)
{
    (void)state;
    static const enum act script[] = { HANG };
    struct fake fake;
    struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(1, 0, &bulkhead), NONE);
    fake_start(&fake, script, 1);
    {
        CLEANUP(desk_free) struct desk desk;
        struct signer_health health;
        desk_new(&desk, fake.path, 60000);
        signer_client_free(TAKE(desk.client));
        desk.config.signer_client_conns = 1;
        assert_fault(signer_client_new(&desk.config, &desk.client), NONE);
        signer_client_bound(desk.client, bulkhead);
        struct caller caller = { .desk = &desk, .timeout_ms = 2000 };
        assert_int_equal(pthread_create(&caller.thread, NULL, call_main, &caller), 0);
        while (atomic_load(&fake.requests) == 0) {
            (void)sched_yield();
        }
        assert_fault(sign(&desk), SATURATED); /* its own deadline is a minute away */
        forget(&desk);
        desk.op->deadline = clock_mono() + 20 * NS_PER_MS;
        assert_fault(signer_health(desk.op, desk.client, &health), SIGNER_UNAVAILABLE); /* not answered, but asked */
        assert_int_equal(pthread_join(caller.thread, NULL), 0);
        assert_fault(caller.fault, SIGNER_UNAVAILABLE);
    }
    fake_stop(&fake);
    bulkhead_free(bulkhead);
}

static void one_tenant_leaves_places_to_the_others(void **state)
{
    (void)state;
    struct fake fake;
    struct bulkhead *bulkhead = NULL;
    struct permit held[3] = { 0 };
    assert_fault(bulkhead_new(4, 0, &bulkhead), NONE);
    fake_start(&fake, NULL, 0);
    {
        CLEANUP(desk_free) struct desk desk;
        desk_new(&desk, fake.path, 60000);
        signer_client_bound(desk.client, bulkhead);
        for (size_t i = 0; i < COUNT_OF(held); i++) {
            assert_fault(bulkhead_join(bulkhead, &held[i]), NONE);
            assert_fault(permit_charge(&held[i], desk.op->tenant, 75), NONE);
            assert_fault(permit_turn(&held[i], clock_mono()), NONE);
        }
        assert_fault(sign(&desk), SATURATED); /* the fourth place is not for this one */
        assert_int_equal(atomic_load(&fake.requests), 0);
        forget(&desk);
        desk.op->tenant = (struct tenant_id){ "globex" };
        assert_fault(sign(&desk), NONE);
        assert_int_equal(bulkhead_in_use(bulkhead), 3); /* and it gave its place back */
    }
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        permit_release(&held[i]);
    }
    fake_stop(&fake);
    bulkhead_free(bulkhead);
}

static void every_operation_brings_back_what_the_signer_said(void **state)
{
    (void)state;
    struct fake fake;
    fake_start(&fake, NULL, 0);
    {
        CLEANUP(desk_free) struct desk desk;
        struct signer_health health;
        struct sign_request request = a_request();
        enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
        desk_new(&desk, fake.path, 60000);
        assert_fault(signer_health(desk.op, desk.client, &health), NONE);
        assert_int_equal(health.state, SIGNER_DEGRADED);
        assert_string_equal(health.token_label, "token");
        assert_string_equal(health.cause, "a cause");
        assert_true(health.operations == 5 && health.queue == 6 && health.journal_bytes == 7 && health.fips_active);
        assert_true(health.journal_usable && health.token_count == 2 && health.count_count == 1);
        assert_string_equal(health.tokens[1].name.text, "hsm-2");
        assert_true(health.tokens[1].state == SIGNER_DOWN && health.tokens[1].set_aside == 3);
        assert_true(health.counts[0].op == WIRE_SIGN && health.counts[0].count == 8 && health.refusals[4] == 9);
        assert_fault(signer_public_key(desk.op, desk.client, &key, &algorithm, &desk.out), NONE);
        assert_int_equal(algorithm, KEY_ALGORITHM_EC_P384);
        assert_span_text(buf_span(&desk.out), "spki");
        request.op_id = (struct uuid){ "0190b3c4-0000-7000-8000-000000000002" };
        request.key.token = (struct token_name){ "hsm-2" };
        assert_fault(signer_sign(desk.op, desk.client, &request, &desk.out), NONE);
        assert_span_text(buf_span(&desk.out), "spkiresult"); /* appended */
        assert_string_equal(fake.last.op_id.text, request.op_id.text);
        assert_string_equal(fake.last.key.token.text, "hsm-2");
        assert_fault(signer_verify(desk.op, desk.client, &request, span_text("signature")), NONE);
        assert_fault(signer_seal(desk.op, desk.client, &key, span_text("a"), span_text("p"), &desk.out), NONE);
        assert_fault(signer_unseal(desk.op, desk.client, &key, span_text("a"), span_text("p"), &desk.out), NONE);
        assert_fault(signer_destroy(desk.op, desk.client, &key), NONE);
        assert_int_equal(atomic_load(&fake.connections), 1);
    }
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_listening_is_signer_unavailable),
        cmocka_unit_test(what_is_wrong_is_told_before_anything_is_sent),
        cmocka_unit_test(signatures_that_are_not_those_asked_for_are_not_taken),
        cmocka_unit_test(a_call_inside_a_transaction_aborts),
        cmocka_unit_test(a_signer_that_does_not_answer_costs_no_more_than_the_deadline),
        cmocka_unit_test(answers_outside_the_protocol_are_refused_and_their_connection_dropped),
        cmocka_unit_test(health_is_told_when_asked_for_and_only_then),
        cmocka_unit_test(the_signers_refusal_travels_with_its_words_and_keeps_the_connection),
        cmocka_unit_test(a_broken_connection_is_tried_once_more),
        cmocka_unit_test(making_a_key_is_not_repeated_when_it_may_have_happened),
        cmocka_unit_test(an_idle_connection_that_the_signer_left_is_replaced_unseen),
        cmocka_unit_test(a_key_that_is_gone_after_a_repeated_destroy_was_destroyed),
        cmocka_unit_test(callers_beyond_the_pool_wait_their_turn),
        cmocka_unit_test(a_full_bulkhead_refuses_at_once_and_leaves_a_way_for_health),
        cmocka_unit_test(one_tenant_leaves_places_to_the_others),
        cmocka_unit_test(every_operation_brings_back_what_the_signer_said),
    };
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
