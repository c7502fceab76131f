#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/file.h"
#include "appliance/stores/process.h"
#include "appliance/supervisor/signer_door.h"
#include "appliance/supervisor/unit.h"
#include "appliance/supervisor/units.h"
#include "signer-pkcs11/protocol/message.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

struct place {
    char folder[64], socket[128];
    struct config config;
    struct op *op;
    struct signer_door *door;
};

static void place_new(struct place *place)
{
    *place = (struct place){ .folder = "/tmp/svc-door-XXXXXX" };
    assert_non_null(mkdtemp(place->folder));
    assert_int_equal(chmod(place->folder, 0755), 0);
    (void)snprintf(place->socket, sizeof(place->socket), "%s/signer/signer.sock", place->folder);
    place->config.signer_socket = place->socket;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 60000, &place->op), NONE);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void place_free(struct place *place)
{
    signer_door_free(TAKE(place->door));
    op_free(TAKE(place->op));
    (void)nftw(place->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void place_open(struct place *place)
{
    place_new(place);
    assert_fault(signer_door_new(place->op, &place->config, &place->door), NONE);
}

/* errno of the attempt, 0 = connected. */
static int knock(const char *path, int *ret_fd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    if (error != 0) {
        (void)close(fd);
    } else if (ret_fd != NULL) {
        *ret_fd = fd;
    }
    return error;
}

static struct fault knock_work(struct op *op, void *arg, int output)
{
    (void)op;
    int error = knock(arg, NULL);
    return write(output, &error, sizeof(error)) == (ssize_t)sizeof(error) ? OK : FAULT(IO);
}

static int knock_as(struct place *place, const char *user)
{
    CLEANUP(buf_free) struct buf said = BUF_INIT(64);
    int error = -1;
    assert_fault(process_as(place->op, user, knock_work, place->socket, &said), NONE);
    assert_int_equal(said.len, sizeof(error));
    memcpy(&error, said.at, sizeof(error));
    return error;
}

static void only_a_socket_is_replaced(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    char folder[128];
    (void)snprintf(folder, sizeof(folder), "%s/signer", place.folder);
    assert_fault(file_make_dirs(folder, 0755), NONE);
    assert_fault(file_write(place.socket, span_of("x", 1), 0600), NONE);
    assert_fault(signer_door_new(place.op, &place.config, &place.door), CONFIG);
    assert_non_null(strstr(place.op->note.detail, "something else than a socket"));
    assert_int_equal(access(place.socket, F_OK), 0);
}

static void the_socket_belongs_to_the_api_alone(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    struct stat status;
    uid_t uid = 0;
    gid_t gid = 0;
    place_open(&place);
    assert_fault(process_user(place.op, USER_API, &uid, &gid), NONE);
    assert_int_equal(stat(place.socket, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_uid, uid);
    *strrchr(place.socket, '/') = 0;
    assert_int_equal(stat(place.socket, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    assert_int_equal(status.st_uid, uid);
    place.socket[strlen(place.socket)] = '/';
    assert_int_equal(knock_as(&place, "svc-signer"), EACCES);
    assert_int_equal(knock_as(&place, "nobody"), EACCES);
    assert_int_equal(knock_as(&place, USER_API), 0);
}

static bool is_closed(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    char byte;
    return poll(&ready, 1, 0) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static void a_shut_door_turns_callers_away_and_sends_the_queue_home(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_open(&place);
    int waiting = -1;
    assert_int_equal(knock(place.socket, &waiting), 0);
    assert_false(is_closed(waiting));
    signer_door_shut(place.door, true); /* a signer that runs may still take them */
    assert_false(is_closed(waiting));
    assert_int_equal(knock_as(&place, USER_API), EACCES);
    signer_door_shut(place.door, false);
    assert_true(is_closed(waiting));
    signer_door_open(place.door);
    assert_int_equal(knock_as(&place, USER_API), 0);
    (void)close(waiting);
}

/* What svc-api puts in its place is not touched by root's hand. */
static void a_socket_that_was_replaced_is_left_alone(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_open(&place);
    struct stat status;
    char other[128];
    (void)snprintf(other, sizeof(other), "%s/other", place.folder);
    assert_fault(file_write(other, span_of("x", 1), 0644), NONE);
    assert_int_equal(unlink(place.socket), 0);
    assert_int_equal(symlink(other, place.socket), 0);
    signer_door_shut(place.door, false);
    assert_int_equal(stat(other, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0644);
    signer_door_free(TAKE(place.door));
    assert_int_equal(lstat(place.socket, &status), 0);
}

/* ---- asking ---- */

static void nobody_answers_before_the_signer_does(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_open(&place);
    assert_fault(signer_door_ask(place.op, place.door), SIGNER_UNAVAILABLE);
    assert_fault(signer_door_ask(place.op, place.door), SIGNER_UNAVAILABLE);
    int fd = accept4(signer_door_listener(place.door), NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    /* One question only stands in the queue, however often it is looked after. */
    assert_int_equal(accept4(signer_door_listener(place.door), NULL, NULL, SOCK_CLOEXEC), -1);
    (void)close(fd);
    assert_fault(signer_door_ask(place.op, place.door), SIGNER_UNAVAILABLE);
}

static void the_signers_answer_is_what_counts(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    place_open(&place);
    assert_fault(signer_door_ask(place.op, place.door), SIGNER_UNAVAILABLE);
    int fd = accept4(signer_door_listener(place.door), NULL, NULL, SOCK_CLOEXEC);
    struct signer_health health = { 0 };
    const struct wire_response response = { .id = 1, .health = &health };
    assert_fault(response_pack(&response, &frame), NONE);
    assert_int_equal(send(fd, frame.at, frame.len, 0), (ssize_t)frame.len);
    assert_fault(signer_door_ask(place.op, place.door), NONE);
    (void)close(fd);
}

/* ---- when it is told ---- */

static enum unit_presence told[8];
static unsigned tellings;

static void note(const struct appliance *appliance, enum unit_presence presence)
{
    (void)appliance;
    told[tellings++ % 8] = presence;
}

static struct fault ready_at_once(struct op *op, const struct appliance *appliance)
{
    (void)op;
    (void)appliance;
    return OK;
}

static const struct unit_row row = { .name = "thing", .probe = ready_at_once, .presence = note };

static void a_short_absence_is_told_to_nobody_and_a_long_one_once(void **state)
{
    (void)state;
    struct unit unit = { .row = &row, .pid = 7, .was_ready = true, .state = UNIT_READY };
    tellings = 0;
    unit_ended(&unit, NULL, 9);
    assert_int_equal(unit.state, UNIT_WAITING);
    mono_ns due = unit_away_due(&unit);
    unit_tell_away(&unit, NULL, due - 1);
    assert_int_equal(tellings, 0);
    unit_tell_away(&unit, NULL, due);
    unit_tell_away(&unit, NULL, due + NS_PER_S);
    assert_int_equal(tellings, 1);
    assert_int_equal(told[0], UNIT_ABSENT);
    assert_true(unit_away_due(&unit) == INT64_MAX);
    unit.state = UNIT_STARTING;
    unit.pid = 8;
    unit_probe(&unit, NULL);
    assert_int_equal(tellings, 2);
    assert_int_equal(told[1], UNIT_PRESENT);
}

static void a_start_that_fails_is_told_at_once(void **state)
{
    (void)state;
    struct unit unit = { .row = &row, .pid = 7, .was_ready = true, .state = UNIT_STARTING, .away_since = 1 };
    tellings = 0;
    unit_ended(&unit, NULL, 1 << 8);
    assert_int_equal(tellings, 1);
    assert_int_equal(told[0], UNIT_ABSENT);
}

static void a_start_that_takes_too_long_is_told_as_late(void **state)
{
    (void)state;
    struct unit unit = { .row = &row, .pid = 7, .state = UNIT_STARTING, .away_since = clock_mono() };
    tellings = 0;
    unit_tell_away(&unit, NULL, unit_away_due(&unit));
    assert_int_equal(tellings, 1);
    assert_int_equal(told[0], UNIT_LATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_socket_is_replaced),
        cmocka_unit_test(the_socket_belongs_to_the_api_alone),
        cmocka_unit_test(a_shut_door_turns_callers_away_and_sends_the_queue_home),
        cmocka_unit_test(a_socket_that_was_replaced_is_left_alone),
        cmocka_unit_test(nobody_answers_before_the_signer_does),
        cmocka_unit_test(the_signers_answer_is_what_counts),
        cmocka_unit_test(a_short_absence_is_told_to_nobody_and_a_long_one_once),
        cmocka_unit_test(a_start_that_fails_is_told_at_once),
        cmocka_unit_test(a_start_that_takes_too_long_is_told_as_late),
    };
    return cmocka_run_group_tests_name("signer door", tests, NULL, NULL);
}
