#include "signer-pkcs11/protocol/frame.h"
#include "testlib.h"

#include "appliance/base/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOON (clock_mono() + 20 * NS_PER_MS)
#define FAR  (clock_mono() + 60 * NS_PER_S)

/* ours reads through the stream, theirs is what the peer does. */
struct pair {
    struct frame_stream ours;
    int theirs;
};

static void pair_new(struct pair *pair)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pair->ours = (struct frame_stream)FRAME_STREAM_NONE;
    assert_fault(frame_stream_init(&pair->ours, fds[0]), NONE);
    pair->theirs = fds[1];
}

static void pair_free(struct pair *pair)
{
    frame_stream_clear(&pair->ours);
    fd_closep(&pair->theirs);
}

static void say(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void a_length_of_zero_or_beyond_the_limit_is_out_of_protocol(void **state)
{
    (void)state;
    static const uint8_t wrong[][4] = {
        { 0, 0, 0, 0 }, { 0, 1, 0, 1 }, { 0xff, 0xff, 0xff, 0xff }, { 'G', 'E', 'T', ' ' }
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        CLEANUP(pair_free) struct pair pair;
        struct span message = { 0 };
        pair_new(&pair);
        say(pair.theirs, wrong[i], 4);
        assert_fault(frame_read(&pair.ours, FAR, &message), SIGNER_PROTOCOL);
        assert_null(message.at);
    }
}

static void a_peer_that_stops_in_the_middle_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    static const uint8_t part[] = { 0, 0, 0, 9, 'x', 'y' };
    for (size_t len = 0; len <= sizeof(part); len++) {
        CLEANUP(pair_free) struct pair pair;
        struct span message;
        pair_new(&pair);
        if (len > 0) {
            say(pair.theirs, part, len);
        }
        assert_fault(frame_read(&pair.ours, SOON, &message), DEADLINE);
    }
}

static void a_peer_that_closes_is_told_from_one_that_is_slow(void **state)
{
    (void)state;
    static const uint8_t part[] = { 0, 0, 0, 9, 'x' };
    for (size_t len = 0; len <= sizeof(part); len++) {
        CLEANUP(pair_free) struct pair pair;
        struct span message;
        pair_new(&pair);
        if (len > 0) {
            say(pair.theirs, part, len);
        }
        fd_closep(&pair.theirs);
        assert_fault(frame_read(&pair.ours, FAR, &message), SIGNER_UNAVAILABLE);
    }
}

static void sending_to_a_peer_that_does_not_read_ends_at_the_deadline(void **state)
{
    (void)state;
    CLEANUP(pair_free) struct pair pair;
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    uint8_t *at = NULL;
    size_t sent = 0;
    pair_new(&pair);
    assert_fault(frame_reserve(&frame, FRAME_MAX, &at), NONE);
    memset(at, 7, FRAME_MAX);
    struct fault fault = OK;
    for (int i = 0; i < 1000 && !FAULTED(fault); i++) {
        fault = frame_send(pair.ours.fd, SOON, buf_span(&frame), &sent);
    }
    assert_fault(fault, DEADLINE);
    assert_true(sent < frame.len);
    fd_closep(&pair.theirs);
    assert_fault(frame_send(pair.ours.fd, FAR, buf_span(&frame), &sent), SIGNER_UNAVAILABLE);
}

static void messages_outside_the_limits_get_no_frame(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    uint8_t *at = NULL;
    assert_fault(frame_reserve(&frame, 0, &at), TOO_LARGE);
    assert_fault(frame_reserve(&frame, FRAME_MAX + 1, &at), TOO_LARGE);
    assert_null(at);
    assert_int_equal(frame.len, 0);
}

static void frames_that_arrive_together_are_given_out_one_by_one(void **state)
{
    (void)state;
    static const uint8_t bytes[] = { 0, 0, 0, 2, 'a', 'b', 0, 0, 0, 1, 'c', 0, 0, 0, 3, 'd' };
    CLEANUP(pair_free) struct pair pair;
    struct span message;
    pair_new(&pair);
    say(pair.theirs, bytes, sizeof(bytes));
    assert_fault(frame_read(&pair.ours, FAR, &message), NONE);
    assert_span_text(message, "ab");
    assert_true(frame_more(&pair.ours));
    frame_done(&pair.ours);
    assert_fault(frame_read(&pair.ours, FAR, &message), NONE);
    assert_span_text(message, "c");
    frame_done(&pair.ours);
    assert_fault(frame_read(&pair.ours, SOON, &message), DEADLINE);
    say(pair.theirs, "ef", 2);
    assert_fault(frame_read(&pair.ours, FAR, &message), NONE);
    assert_span_text(message, "def");
}

static void gathering_takes_what_is_there_and_never_waits(void **state)
{
    (void)state;
    static const uint8_t bytes[] = { 0, 0, 0, 2, 'a', 'b' };
    CLEANUP(pair_free) struct pair pair;
    struct span message = span_text("untouched");
    pair_new(&pair);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        assert_fault(frame_gather(&pair.ours, &message), NONE);
        assert_int_equal(message.len, 0);
        say(pair.theirs, bytes + i, 1);
    }
    assert_fault(frame_gather(&pair.ours, &message), NONE);
    assert_span_text(message, "ab");
    assert_false(frame_more(&pair.ours));
    say(pair.theirs, "\xff\xff\xff\xff", 4);
    assert_fault(frame_gather(&pair.ours, &message), SIGNER_PROTOCOL);
    fd_closep(&pair.theirs);
    assert_fault(frame_gather(&pair.ours, &message), SIGNER_UNAVAILABLE);
}

static void sending_without_patience_waits_for_no_room(void **state)
{
    (void)state;
    CLEANUP(pair_free) struct pair pair;
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    uint8_t *at = NULL;
    size_t sent = 0;
    pair_new(&pair);
    assert_fault(frame_reserve(&frame, FRAME_MAX, &at), NONE);
    assert_fault(frame_send(pair.ours.fd, 0, buf_span(&frame), &sent), NONE);
    struct fault fault = OK;
    for (int i = 0; i < 1000 && !FAULTED(fault); i++) {
        fault = frame_send(pair.ours.fd, 0, buf_span(&frame), &sent);
    }
    assert_fault(fault, DEADLINE);
}

static void a_frame_is_wiped_when_it_is_done(void **state)
{
    (void)state;
    static const uint8_t bytes[] = { 0, 0, 0, 6, 's', 'e', 'c', 'r', 'e', 't' };
    CLEANUP(pair_free) struct pair pair;
    struct span message;
    pair_new(&pair);
    say(pair.theirs, bytes, sizeof(bytes));
    assert_fault(frame_read(&pair.ours, FAR, &message), NONE);
    const uint8_t *at = message.at;
    frame_done(&pair.ours);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(at[i], 0);
    }
}

static void *send_largest(void *arg)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    uint8_t *at = NULL;
    size_t sent = 0;
    if (!FAULTED(frame_reserve(&frame, FRAME_MAX, &at))) {
        for (size_t i = 0; i < FRAME_MAX; i++) {
            at[i] = (uint8_t)(i * 7);
        }
        IGNORE(frame_send(*(int *)arg, FAR, buf_span(&frame), &sent));
    }
    return NULL;
}

static void the_largest_frame_passes_whole(void **state)
{
    (void)state;
    CLEANUP(pair_free) struct pair pair;
    struct span message;
    pthread_t thread;
    pair_new(&pair);
    assert_int_equal(pthread_create(&thread, NULL, send_largest, &pair.theirs), 0);
    assert_fault(frame_read(&pair.ours, FAR, &message), NONE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(message.len, FRAME_MAX);
    for (size_t i = 0; i < FRAME_MAX; i++) {
        assert_int_equal(message.at[i], (uint8_t)(i * 7));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_length_of_zero_or_beyond_the_limit_is_out_of_protocol),
        cmocka_unit_test(a_peer_that_stops_in_the_middle_costs_no_more_than_the_deadline),
        cmocka_unit_test(a_peer_that_closes_is_told_from_one_that_is_slow),
        cmocka_unit_test(sending_to_a_peer_that_does_not_read_ends_at_the_deadline),
        cmocka_unit_test(messages_outside_the_limits_get_no_frame),
        cmocka_unit_test(frames_that_arrive_together_are_given_out_one_by_one),
        cmocka_unit_test(gathering_takes_what_is_there_and_never_waits),
        cmocka_unit_test(sending_without_patience_waits_for_no_room),
        cmocka_unit_test(a_frame_is_wiped_when_it_is_done),
        cmocka_unit_test(the_largest_frame_passes_whole),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
