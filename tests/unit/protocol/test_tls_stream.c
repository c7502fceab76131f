#include "tls_pair.h"

#include <poll.h>

static void an_end_of_the_peer_is_the_end(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    CLEANUP(pair_free) struct pair pair;
    uint8_t byte;
    size_t got = 0, sent = 0;
    world_new(&world);
    pair_new(&pair, &world);
    tls_stream_free(TAKE(pair.client.stream)); /* with a farewell */
    assert_fault(tls_stream_recv(pair.server.stream, &byte, 1, FAR, &got), SIGNER_UNAVAILABLE);
    fd_closep(&pair.fds[1]);
    assert_fault(tls_stream_send(pair.server.stream, span_text("x"), FAR, &sent), SIGNER_UNAVAILABLE);
    assert_fault(tls_stream_send(pair.server.stream, span_text("x"), FAR, &sent), SIGNER_UNAVAILABLE);
    assert_int_equal(sent, 0);
}

static void a_connection_that_is_cut_off_is_at_its_end(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    CLEANUP(pair_free) struct pair pair;
    uint8_t byte;
    size_t got = 0;
    world_new(&world);
    pair_new(&pair, &world);
    fd_closep(&pair.fds[1]); /* without one */
    assert_fault(tls_stream_recv(pair.server.stream, &byte, 1, FAR, &got), SIGNER_UNAVAILABLE);
    assert_fault(tls_stream_recv(pair.server.stream, &byte, 1, FAR, &got), SIGNER_UNAVAILABLE);
}

/* What stands between the ends and changes a bit. */
static void bytes_that_were_changed_on_the_way_are_the_end(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    CLEANUP(pair_free) struct pair pair;
    uint8_t record[256], bytes[256];
    size_t got = 0, sent = 0;
    world_new(&world);
    pair_new(&pair, &world);
    assert_fault(tls_stream_send(pair.client.stream, span_text("sign this"), FAR, &sent), NONE);
    ssize_t len = recv(pair.fds[0], record, sizeof(record), 0);
    assert_true(len > 20);
    assert_null(memmem(record, (size_t)len, "sign this", 9));
    record[len - 3] ^= 1;
    assert_int_equal(send(pair.fds[1], record, (size_t)len, 0), len);
    assert_fault(tls_stream_recv(pair.server.stream, bytes, sizeof(bytes), FAR, &got), SIGNER_UNAVAILABLE);
    assert_fault(tls_stream_recv(pair.server.stream, bytes, sizeof(bytes), FAR, &got), SIGNER_UNAVAILABLE);
    assert_fault(tls_stream_send(pair.server.stream, span_text("x"), FAR, &sent), SIGNER_UNAVAILABLE);
}

static void a_record_that_comes_twice_is_the_end(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    CLEANUP(pair_free) struct pair pair;
    uint8_t record[256], bytes[256];
    size_t got = 0, sent = 0;
    world_new(&world);
    pair_new(&pair, &world);
    assert_fault(tls_stream_send(pair.client.stream, span_text("sign this"), FAR, &sent), NONE);
    ssize_t len = recv(pair.fds[0], record, sizeof(record), 0);
    assert_int_equal(send(pair.fds[1], record, (size_t)len, 0), len);
    assert_int_equal(send(pair.fds[1], record, (size_t)len, 0), len);
    assert_fault(tls_stream_recv(pair.server.stream, bytes, sizeof(bytes), FAR, &got), NONE);
    assert_int_equal(got, 9);
    assert_fault(tls_stream_recv(pair.server.stream, bytes, sizeof(bytes), FAR, &got), SIGNER_UNAVAILABLE);
}

static void a_deadline_leaves_the_stream_as_it_was(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    CLEANUP(pair_free) struct pair pair;
    uint8_t record[256], bytes[16];
    size_t got = 99, sent = 0;
    world_new(&world);
    pair_new(&pair, &world);
    assert_fault(tls_stream_recv(pair.server.stream, bytes, sizeof(bytes), 0, &got), DEADLINE);
    assert_fault(tls_stream_send(pair.client.stream, span_text("sign this"), FAR, &sent), NONE);
    ssize_t len = recv(pair.fds[0], record, sizeof(record), 0);
    assert_int_equal(send(pair.fds[1], record, 7, 0), 7); /* the record's begin, and no more for now */
    assert_fault(tls_stream_recv(pair.server.stream, bytes, sizeof(bytes), SOON, &got), DEADLINE);
    assert_int_equal(got, 99);
    assert_int_equal(send(pair.fds[1], record + 7, (size_t)len - 7, 0), len - 7);
    assert_fault(tls_stream_recv(pair.server.stream, bytes, sizeof(bytes), FAR, &got), NONE);
    assert_span_text(span_of(bytes, got), "sign this");
}

static void a_peer_that_does_not_read_holds_nobody(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    CLEANUP(pair_free) struct pair pair;
    static uint8_t much[1 << 20];
    size_t sent = 0;
    world_new(&world);
    pair_new(&pair, &world);
    struct fault fault = OK;
    for (int i = 0; i < 64 && !FAULTED(fault); i++) {
        fault = tls_stream_send(pair.server.stream, SPAN_ARRAY(much), SOON, &sent);
    }
    assert_fault(fault, DEADLINE);
    assert_true(sent < sizeof(much));
}

/* ---- frames over it ---- */

struct echo {
    struct frame_stream stream;
    unsigned frames;
};

/* Sends each frame back; in the end it owns and closes what it was given. */
static void *echo_main(void *arg)
{
    struct echo *echo = arg;
    const struct frame_patience patience = { .first = FAR, .rest = 60 * NS_PER_S, .awake = 1000 };
    struct span message;
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    while (!FAULTED(frame_read(&echo->stream, &patience, &message))) {
        uint8_t *at = NULL;
        size_t sent = 0;
        buf_clear(&frame);
        assert_fault(frame_reserve(&frame, message.len, &at), NONE);
        memcpy(at, message.at, message.len);
        frame_done(&echo->stream);
        assert_fault(frame_send(&echo->stream, FAR, buf_span(&frame), &sent), NONE);
        echo->frames++;
    }
    frame_stream_clear(&echo->stream);
    return NULL;
}

static void frames_of_every_size_come_back_as_they_were(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    CLEANUP(pair_free) struct pair pair;
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    static const size_t sizes[] = { 1, 2, 100, 16383, 16384, 16385, 40000, FRAME_MAX };
    const struct frame_patience patience = { .first = FAR, .rest = 60 * NS_PER_S };
    struct frame_stream ours = FRAME_STREAM_NONE;
    struct echo echo = { .stream = FRAME_STREAM_NONE };
    pthread_t thread;
    world_new(&world);
    pair_new(&pair, &world);
    assert_fault(frame_stream_init(&echo.stream, pair.fds[0], TAKE(pair.server.stream)), NONE);
    assert_fault(frame_stream_init(&ours, pair.fds[1], TAKE(pair.client.stream)), NONE);
    pair.fds[0] = pair.fds[1] = -1;
    assert_int_equal(pthread_create(&thread, NULL, echo_main, &echo), 0);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        uint8_t *at = NULL;
        size_t sent = 0;
        struct span message;
        buf_clear(&frame);
        assert_fault(frame_reserve(&frame, sizes[i], &at), NONE);
        for (size_t j = 0; j < sizes[i]; j++) {
            at[j] = (uint8_t)(j * 7 + i);
        }
        assert_fault(frame_send(&ours, FAR, buf_span(&frame), &sent), NONE);
        assert_int_equal(sent, frame.len);
        assert_fault(frame_read(&ours, &patience, &message), NONE);
        assert_int_equal(message.len, sizes[i]);
        assert_memory_equal(message.at, at, sizes[i]);
        frame_done(&ours);
    }
    frame_stream_clear(&ours);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(echo.frames, COUNT_OF(sizes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_of_the_peer_is_the_end),
        cmocka_unit_test(a_connection_that_is_cut_off_is_at_its_end),
        cmocka_unit_test(bytes_that_were_changed_on_the_way_are_the_end),
        cmocka_unit_test(a_record_that_comes_twice_is_the_end),
        cmocka_unit_test(a_deadline_leaves_the_stream_as_it_was),
        cmocka_unit_test(a_peer_that_does_not_read_holds_nobody),
        cmocka_unit_test(frames_of_every_size_come_back_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
