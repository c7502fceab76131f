#include "signer-pkcs11/broker/listen.h"
#include "testlib.h"

#include "appliance/base/file.h"

#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A folder of the test's own with a configuration that has only what listen.c reads. */
struct place {
    char folder[64], socket[128];
    struct config config;
};

static void place_new(struct place *place)
{
    *place = (struct place){ .folder = "/tmp/svc-listen-XXXXXX" };
    assert_non_null(mkdtemp(place->folder));
    (void)snprintf(place->socket, sizeof(place->socket), "%s/run/signer/signer.sock", place->folder);
    place->config.signer_socket = place->socket;
    place->config.signer_listen = "";
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
    (void)nftw(place->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void assert_refused(const struct place *place, enum fault_code code, const char *words)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(512);
    struct listeners listeners = LISTENERS_NONE;
    const char *text = NULL;
    assert_int_equal(listeners_open(&place->config, &why, &listeners).code, code);
    assert_int_equal(listeners.count, 0);
    assert_fault(buf_cstr(&why, &text), NONE);
    if (strstr(text, words) == NULL) {
        fail_msg("'%s' does not say '%s'", text, words);
    }
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* ---- our own socket ---- */

static void a_folder_that_others_can_enter_is_refused(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    char folder[128];
    (void)snprintf(folder, sizeof(folder), "%s/run/signer", place.folder);
    assert_fault(file_make_dirs(folder, 0700), NONE);
    static const mode_t modes[] = { 0701, 0710, 0750, 0755, 0777 };
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        assert_int_equal(chmod(folder, modes[i]), 0);
        assert_refused(&place, FAULT_CONFIG, "mode 0700");
    }
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(symlink("/tmp", folder), 0);
    assert_refused(&place, FAULT_CONFIG, "mode 0700");
}

static void a_file_in_the_sockets_place_is_kept(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    char folder[128];
    struct stat status;
    (void)snprintf(folder, sizeof(folder), "%s/run/signer", place.folder);
    assert_fault(file_make_dirs(folder, 0700), NONE);
    assert_fault(file_write(place.socket, span_text("precious"), 0600), NONE);
    assert_refused(&place, FAULT_IO, "something else than a socket");
    assert_int_equal(stat(place.socket, &status), 0);
    assert_true(S_ISREG(status.st_mode));
}

static void a_name_that_is_too_long_is_refused(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%0120d", place.folder, 0);
    place.config.signer_socket = path;
    assert_refused(&place, FAULT_IO, "signer.socket cannot be");
}

static void the_socket_is_for_its_owner_only_and_answers_nobody_before_its_time(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    struct listeners listeners = LISTENERS_NONE;
    struct stat status;
    assert_fault(listeners_open(&place.config, NULL, &listeners), NONE);
    assert_int_equal(listeners.count, 1);
    assert_int_equal(listeners.at[0].kind, LISTENER_UNIX);
    assert_false(listeners_handed(&listeners));
    assert_int_equal(stat(place.socket, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    *strrchr(place.socket, '/') = 0;
    assert_int_equal(stat(place.socket, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    place.socket[strlen(place.socket)] = '/';
    assert_int_equal(connect_to(place.socket), -1);
    assert_fault(listeners_begin(&listeners, NULL), NONE);
    int fd = connect_to(place.socket);
    assert_true(fd >= 0);
    int taken = accept4(listeners.at[0].fd, NULL, NULL, SOCK_CLOEXEC);
    const struct askers me = { .own = geteuid(), .own_is_all = true },
                        other = { .own = geteuid() + 1, .own_is_all = true };
    assert_true((door_askers(&listeners.at[0], &me, taken) & ASKER_API) != 0);
    assert_int_equal(door_askers(&listeners.at[0], &other, taken) & ASKER_API, 0);
    (void)close(taken);
    (void)close(fd);
    listeners_close(&listeners, &place.config);
    listeners_free(&listeners);
    assert_int_equal(access(place.socket, F_OK), -1);
}

static void a_socket_at_which_somebody_listens_is_left_alone(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    struct listeners listeners = LISTENERS_NONE;
    assert_fault(listeners_open(&place.config, NULL, &listeners), NONE);
    assert_fault(listeners_begin(&listeners, NULL), NONE);
    assert_refused(&place, FAULT_IO, "another signer listens at");
    int fd = connect_to(place.socket);
    assert_true(fd >= 0);
    (void)close(fd);
    listeners_close(&listeners, &place.config);
}

static void a_stale_socket_is_replaced(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    struct listeners listeners = LISTENERS_NONE;
    assert_fault(listeners_open(&place.config, NULL, &listeners), NONE);
    (void)close(listeners.at[0].fd); /* as after a kill: the name stays */
    assert_fault(listeners_open(&place.config, NULL, &listeners), NONE);
    assert_fault(listeners_begin(&listeners, NULL), NONE);
    int fd = connect_to(place.socket);
    assert_true(fd >= 0);
    (void)close(fd);
    listeners_close(&listeners, &place.config);
}

/* ---- handed over ---- */

/* Puts `count` descriptors at 3 and following, as a service manager does, and says so. */
static void hand_over(const int *fds, int count, pid_t pid)
{
    char text[32];
    int high[8];
    for (int i = 0; i < count; i++) {
        high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64);
        assert_true(high[i] >= 0);
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(dup2(high[i], 3 + i), 3 + i);
        (void)close(high[i]);
    }
    (void)snprintf(text, sizeof(text), "%d", (int)pid);
    assert_int_equal(setenv("LISTEN_PID", text, 1), 0);
    (void)snprintf(text, sizeof(text), "%d", count);
    assert_int_equal(setenv("LISTEN_FDS", text, 1), 0);
    assert_int_equal(setenv("LISTEN_FDNAMES", "x", 1), 0);
}

static int unix_listener(const struct place *place, int kind, bool listening)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/handed", place->folder);
    (void)unlink(address.sun_path);
    int fd = socket(AF_UNIX, kind | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_true(!listening || listen(fd, 1) == 0);
    return fd;
}

static int tcp_listener(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/* Each case in a child, whose descriptors from 3 on are its own to fill. 0: as it should be. */
static void in_child(void (*body)(struct place *place), struct place *place)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body(place);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void expect(bool holds)
{
    if (!holds) {
        _exit(1);
    }
}

static bool refused(const struct place *place, enum fault_code code, const char *words)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(512);
    struct listeners listeners = LISTENERS_NONE;
    const char *text = "";
    struct fault fault = listeners_open(&place->config, &why, &listeners);
    return fault.code == code && !FAULTED(buf_cstr(&why, &text)) && strstr(text, words) != NULL;
}

static void hand_wrong_things(struct place *place)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    hand_over(&file, 1, getpid());
    expect(refused(place, FAULT_CONFIG, "not a listening stream socket"));
    int datagrams = unix_listener(place, SOCK_DGRAM, false);
    hand_over(&datagrams, 1, getpid());
    expect(refused(place, FAULT_CONFIG, "not a listening stream socket"));
    int silent = unix_listener(place, SOCK_STREAM, false);
    hand_over(&silent, 1, getpid());
    expect(refused(place, FAULT_CONFIG, "not a listening stream socket"));
    hand_over((const int[]){ file, file, file, file, file }, 5, getpid());
    expect(refused(place, FAULT_CONFIG, "more sockets than"));
    int tcp = tcp_listener();
    hand_over(&tcp, 1, getpid());
    expect(refused(place, FAULT_CONFIG, "signer.listen is empty"));
}

static void what_is_handed_over_and_is_no_door_is_refused(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    in_child(hand_wrong_things, &place);
}

static void hand_to_somebody_else(struct place *place)
{
    struct listeners listeners = LISTENERS_NONE;
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    hand_over(&file, 1, getpid() + 1);
    expect(!FAULTED(listeners_open(&place->config, NULL, &listeners)));
    expect(listeners.count == 1 && !listeners.at[0].handed);
    expect(getenv("LISTEN_PID") == NULL && getenv("LISTEN_FDS") == NULL && getenv("LISTEN_FDNAMES") == NULL);
    setenv("LISTEN_PID", "3x", 1);
    setenv("LISTEN_FDS", "1", 1);
    listeners_close(&listeners, &place->config);
    expect(!FAULTED(listeners_open(&place->config, NULL, &listeners)));
    expect(listeners.count == 1 && !listeners.at[0].handed);
}

static void what_was_meant_for_another_process_is_left_alone(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    in_child(hand_to_somebody_else, &place);
}

static void hand_a_door(struct place *place)
{
    struct listeners listeners = LISTENERS_NONE;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/handed", place->folder);
    place->config.signer_socket = path; /* handed over is what the configuration names */
    int door = unix_listener(place, SOCK_STREAM, true);
    int caller = connect_to(path); /* waits in its queue */
    expect(caller >= 0);
    hand_over(&door, 1, getpid());
    expect(!FAULTED(listeners_open(&place->config, NULL, &listeners)));
    expect(listeners.count == 1 && listeners.at[0].fd == 3 && listeners.at[0].handed && listeners_handed(&listeners));
    expect((fcntl(3, F_GETFD) & FD_CLOEXEC) != 0 && (fcntl(3, F_GETFL) & O_NONBLOCK) != 0);
    expect(!FAULTED(listeners_begin(&listeners, NULL)));
    expect(accept4(3, NULL, NULL, SOCK_CLOEXEC) >= 0);
    listeners_close(&listeners, &place->config);
    expect(access(path, F_OK) == 0); /* not ours to remove */
}

static void a_door_that_is_handed_over_is_used_with_those_who_wait_in_its_queue(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place;
    place_new(&place);
    in_child(hand_a_door, &place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_others_can_enter_is_refused),
        cmocka_unit_test(a_file_in_the_sockets_place_is_kept),
        cmocka_unit_test(a_name_that_is_too_long_is_refused),
        cmocka_unit_test(the_socket_is_for_its_owner_only_and_answers_nobody_before_its_time),
        cmocka_unit_test(a_socket_at_which_somebody_listens_is_left_alone),
        cmocka_unit_test(a_stale_socket_is_replaced),
        cmocka_unit_test(what_is_handed_over_and_is_no_door_is_refused),
        cmocka_unit_test(what_was_meant_for_another_process_is_left_alone),
        cmocka_unit_test(a_door_that_is_handed_over_is_used_with_those_who_wait_in_its_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
