#include "signer-pkcs11/protocol/frame.h"
#include "testlib.h"

#include "appliance/base/file.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOON (clock_mono() + 20 * NS_PER_MS)
#define FAR  (clock_mono() + 60 * NS_PER_S)

/* Waits for the whole frame until the deadline. */
#define UNTIL(deadline) (&(struct frame_patience){ .first = (deadline), .rest = 60 * NS_PER_S })

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
    assert_fault(frame_stream_init(&pair->ours, fds[0], NULL), NONE);
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
        assert_fault(frame_read(&pair.ours, UNTIL(FAR), &message), SIGNER_PROTOCOL);
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
        assert_fault(frame_read(&pair.ours, UNTIL(SOON), &message), DEADLINE);
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
        assert_fault(frame_read(&pair.ours, UNTIL(FAR), &message), SIGNER_UNAVAILABLE);
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
        fault = frame_send(&pair.ours, SOON, buf_span(&frame), &sent);
    }
    assert_fault(fault, DEADLINE);
    assert_true(sent < frame.len);
    fd_closep(&pair.theirs);
    assert_fault(frame_send(&pair.ours, FAR, buf_span(&frame), &sent), SIGNER_UNAVAILABLE);
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
    assert_fault(frame_read(&pair.ours, UNTIL(FAR), &message), NONE);
    assert_span_text(message, "ab");
    assert_true(frame_more(&pair.ours));
    frame_done(&pair.ours);
    assert_fault(frame_read(&pair.ours, UNTIL(FAR), &message), NONE);
    assert_span_text(message, "c");
    frame_done(&pair.ours);
    assert_fault(frame_read(&pair.ours, UNTIL(SOON), &message), DEADLINE);
    say(pair.theirs, "ef", 2);
    assert_fault(frame_read(&pair.ours, UNTIL(FAR), &message), NONE);
    assert_span_text(message, "def");
}

static void a_frame_once_begun_must_end_within_the_patience_for_its_rest(void **state)
{
    (void)state;
    static const uint8_t part[] = { 0, 0, 0, 9, 'x', 'y' };
    for (size_t len = 1; len <= sizeof(part); len++) {
        CLEANUP(pair_free) struct pair pair;
        struct span message;
        pair_new(&pair);
        say(pair.theirs, part, len);
        const struct frame_patience patience = { .first = FRAME_NEVER, .rest = 20 * NS_PER_MS };
        assert_fault(frame_read(&pair.ours, &patience, &message), DEADLINE);
    }
    /* what was read ahead has begun, too */
    CLEANUP(pair_free) struct pair pair;
    struct span message;
    static const uint8_t more[] = { 0, 0, 0, 1, 'a', 0, 0, 0, 2, 'b' };
    pair_new(&pair);
    say(pair.theirs, more, sizeof(more));
    const struct frame_patience patience = { .first = FRAME_NEVER, .rest = 20 * NS_PER_MS };
    assert_fault(frame_read(&pair.ours, &patience, &message), NONE);
    assert_span_text(message, "a");
    assert_fault(frame_read(&pair.ours, &patience, &message), DEADLINE);
}

struct talk {
    int fd;
    const uint8_t *at;
    size_t len;
};

/* Byte by byte, each after the reader had the chance to sleep on the one before. */
static void *say_slowly(void *arg)
{
    const struct talk *talk = arg;
    for (size_t i = 0; i < talk->len; i++) {
        int waiting = 1;
        while (waiting != 0 && ioctl(talk->fd, SIOCOUTQ, &waiting) == 0) {
            (void)sched_yield();
        }
        if (send(talk->fd, talk->at + i, 1, MSG_NOSIGNAL) != 1) {
            break;
        }
    }
    return NULL;
}

static void a_frame_in_single_bytes_is_read_awake_and_asleep(void **state)
{
    (void)state;
    static const uint8_t bytes[] = { 0, 0, 0, 2, 'a', 'b', 0, 0, 0, 1, 'c' };
    static const struct frame_patience patiences[] = { { FRAME_NEVER, 60 * NS_PER_S, 0 },
                                                       { FRAME_NEVER, 60 * NS_PER_S, NS_PER_MS } };
    for (size_t i = 0; i < COUNT_OF(patiences); i++) {
        CLEANUP(pair_free) struct pair pair;
        struct span message;
        pthread_t thread;
        pair_new(&pair);
        struct talk talk = { .fd = pair.theirs, .at = bytes, .len = sizeof(bytes) };
        assert_int_equal(pthread_create(&thread, NULL, say_slowly, &talk), 0);
        assert_fault(frame_read(&pair.ours, &patiences[i], &message), NONE);
        assert_span_text(message, "ab");
        assert_fault(frame_read(&pair.ours, &patiences[i], &message), NONE);
        assert_span_text(message, "c");
        assert_int_equal(pthread_join(thread, NULL), 0);
        fd_closep(&pair.theirs);
        assert_fault(frame_read(&pair.ours, &patiences[i], &message), SIGNER_UNAVAILABLE);
    }
}

/* A server ends its connections by shutting them down: whoever waits for a frame without end is woken by that. */
static void a_reader_without_deadline_is_woken_by_shutdown(void **state)
{
    (void)state;
    CLEANUP(pair_free) struct pair pair;
    struct span message;
    pair_new(&pair);
    const struct frame_patience patience = { .first = FRAME_NEVER, .rest = 60 * NS_PER_S };
    assert_int_equal(shutdown(pair.ours.fd, SHUT_RDWR), 0);
    assert_fault(frame_read(&pair.ours, &patience, &message), SIGNER_UNAVAILABLE);
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
    assert_fault(frame_send(&pair.ours, 0, buf_span(&frame), &sent), NONE);
    struct fault fault = OK;
    for (int i = 0; i < 1000 && !FAULTED(fault); i++) {
        fault = frame_send(&pair.ours, 0, buf_span(&frame), &sent);
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
    assert_fault(frame_read(&pair.ours, UNTIL(FAR), &message), NONE);
    const uint8_t *at = message.at;
    frame_done(&pair.ours);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(at[i], 0);
    }
}

static void *send_largest(void *arg)
{
    struct frame_stream *stream = arg;
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    uint8_t *at = NULL;
    size_t sent = 0;
    if (!FAULTED(frame_reserve(&frame, FRAME_MAX, &at))) {
        for (size_t i = 0; i < FRAME_MAX; i++) {
            at[i] = (uint8_t)(i * 7);
        }
        IGNORE(frame_send(stream, FAR, buf_span(&frame), &sent));
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
    struct frame_stream theirs = { .fd = pair.theirs };
    assert_int_equal(pthread_create(&thread, NULL, send_largest, &theirs), 0);
    assert_fault(frame_read(&pair.ours, UNTIL(FAR), &message), NONE);
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
        cmocka_unit_test(a_frame_once_begun_must_end_within_the_patience_for_its_rest),
        cmocka_unit_test(a_frame_in_single_bytes_is_read_awake_and_asleep),
        cmocka_unit_test(a_reader_without_deadline_is_woken_by_shutdown),
        cmocka_unit_test(sending_without_patience_waits_for_no_room),
        cmocka_unit_test(a_frame_is_wiped_when_it_is_done),
        cmocka_unit_test(the_largest_frame_passes_whole),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
