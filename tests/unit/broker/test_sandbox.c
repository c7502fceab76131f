#include "sandboxed.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

static int makes_a_socket(void)
{
    return refused(socket(AF_INET, SOCK_STREAM, 0), EPERM) | refused(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
}

static int inherited = -1;
static int connects_an_inherited_socket(void)
{
    const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/tmp/x" };
    return refused(connect(inherited, (const struct sockaddr *)&address, sizeof(address)), EPERM) |
           refused(bind(inherited, (const struct sockaddr *)&address, sizeof(address)), EPERM) |
           refused(listen(inherited, 1), EPERM);
}

static int runs_a_program(void)
{
    char *const argv[] = { (char *)"/bin/true", NULL };
    (void)execve(argv[0], argv, NULL);
    return 1;
}

static int traces_its_parent(void)
{
    (void)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
    return 1;
}

static int reads_another_process(void)
{
    (void)syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0);
    return 1;
}

static int makes_a_process(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        _exit(0);
    }
    return refused(pid, EPERM) | refused(syscall(SYS_clone3, NULL, 0), ENOSYS) | refused(fork(), EPERM);
}

static int signals_another(void)
{
    return refused(kill(getppid(), 0), EPERM);
}

static int gets_dumpable_again(void)
{
    return refused(prctl(PR_SET_DUMPABLE, 1), EPERM);
}

static int makes_memory_executable(void)
{
    void *plain = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (plain == MAP_FAILED || code != MAP_FAILED) {
        return 1;
    }
    return refused(mprotect(plain, 4096, PROT_READ | PROT_EXEC), EPERM);
}

static int writes_elsewhere(void)
{
    return refused(opens(other, "new", O_WRONLY | O_CREAT), EACCES) | refused(opens(other, "old", O_WRONLY), EACCES) |
           refused(opens(other, "old", O_RDWR), EACCES) | refused(opens(read_only, "old", O_WRONLY), EACCES) |
           refused(truncate(below(other, "old"), 0), EPERM) | refused(unlink(below(other, "old")), EACCES) |
           refused(link(below(other, "old"), "/tmp/link"), EPERM);
}

/* What there is beside opening: none of it has a path out. */
static int changes_elsewhere(void)
{
    char moved[160];
    (void)snprintf(moved, sizeof(moved), "%s/moved", other);
    return refused(mkdir(below(other, "d"), 0700), EACCES) | refused(symlink("x", below(other, "s")), EPERM) |
           refused(mknod(below(other, "f"), S_IFIFO | 0600, 0), EPERM) |
           refused(chmod(below(other, "old"), 0777), EPERM) | refused(chown(below(other, "old"), 0, 0), EPERM) |
           refused(rename(below(other, "old"), moved), EACCES) |
           refused(utimensat(AT_FDCWD, below(other, "old"), NULL, 0), EPERM) |
           refused(setxattr(below(other, "old"), "user.x", "y", 1, 0), EPERM);
}

/* Out of the journal, where it may write: not into another folder, and not under a name that leads elsewhere. */
static int carries_files_out(void)
{
    char from[160], to[160];
    int made = opens(journal, "out", O_WRONLY | O_CREAT) >= 0 ? 0 : 4;
    (void)snprintf(from, sizeof(from), "%s/out", journal);
    (void)snprintf(to, sizeof(to), "%s/out", other);
    int rc = made | (rename(from, to) == 0 ? 1 : 0) | (link(from, to) == 0 ? 1 : 0) | refused(symlink(to, from), EPERM);
    return unlink(from) == 0 ? rc : 8;
}

/* Writing there would not ask whether a page may be written. */
static int rewrites_itself(void)
{
    return refused(open("/proc/self/mem", O_RDWR | O_CLOEXEC), EACCES);
}

static int reads_elsewhere(void)
{
    return refused(opens(other, "old", O_RDONLY), EACCES) | refused(opens("/", "", O_RDONLY | O_DIRECTORY), EACCES);
}

/* Modules have folders of their own, some to read and some to write. */
static int keeps_to_its_lists(void)
{
    const char *const reads[] = { other, "/no/such/folder", NULL }, *const writes[] = { read_only, NULL };
    const struct sandbox_files files = { .journal = journal, .more_read = reads, .more_write = writes };
    int abi = 0;
    if (FAULTED(sandbox_files(&files, NULL, &abi))) {
        return 99;
    }
    return (opens(other, "old", O_RDONLY) >= 0 ? 0 : 1) | refused(opens(other, "old", O_WRONLY), EACCES) |
           (opens(read_only, "old", O_WRONLY) >= 0 ? 0 : 1) | refused(opens(token, "t", O_WRONLY | O_CREAT), EACCES) |
           refused(opens(sockets, "s", O_WRONLY | O_CREAT), EACCES);
}

static void *makes_a_socket_too(void *arg)
{
    atomic_int *turn = arg;
    while (atomic_load(turn) == 0) {
        (void)sched_yield();
    }
    atomic_store(turn, 2 + makes_a_socket());
    return NULL;
}

static int thread_from_before(void)
{
    pthread_t thread;
    atomic_int turn = 0;
    int abi = 0;
    const struct sandbox_files files = { .journal = journal, .token = token, .socket = sockets };
    if (FAULTED(sandbox_files(&files, NULL, &abi)) || pthread_create(&thread, NULL, makes_a_socket_too, &turn) != 0 ||
        FAULTED(sandbox_calls(SANDBOX_SOFTHSM, NULL))) {
        return 99;
    }
    atomic_store(&turn, 1);
    (void)pthread_join(thread, NULL);
    return atomic_load(&turn) - 2;
}

static void no_socket_is_made_connected_or_listened_on(void **state)
{
    (void)state;
    inherited = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(inherited >= 0);
    assert_int_equal(inside(SANDBOX_SOFTHSM, makes_a_socket), 0);
    assert_int_equal(inside(SANDBOX_SOFTHSM, connects_an_inherited_socket), 0);
    fd_closep(&inherited);
}

static void running_a_program_or_tracing_ends_the_process(void **state)
{
    (void)state;
    assert_int_equal(inside(SANDBOX_SOFTHSM, runs_a_program), 128 + SIGSYS);
    assert_int_equal(inside(SANDBOX_SOFTHSM, traces_its_parent), 128 + SIGSYS);
    assert_int_equal(inside(SANDBOX_SOFTHSM, reads_another_process), 128 + SIGSYS);
    assert_int_equal(inside(SANDBOX_MODULE, runs_a_program), 128 + SIGSYS);
    assert_int_equal(inside(SANDBOX_MODULE, traces_its_parent), 128 + SIGSYS);
}

static void no_process_is_made_signalled_or_made_dumpable(void **state)
{
    (void)state;
    assert_int_equal(inside(SANDBOX_SOFTHSM, makes_a_process), 0);
    assert_int_equal(inside(SANDBOX_MODULE, makes_a_process), 0);
    assert_int_equal(inside(SANDBOX_SOFTHSM, signals_another), 0);
    assert_int_equal(inside(SANDBOX_SOFTHSM, gets_dumpable_again), 0);
}

static void memory_does_not_become_executable(void **state)
{
    (void)state;
    assert_int_equal(inside(SANDBOX_SOFTHSM, makes_memory_executable), 0);
}

static void threads_that_were_there_before_are_bound_too(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(thread_from_before());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void files_elsewhere_are_neither_written_nor_read(void **state)
{
    (void)state;
    if (landlock < 1) {
        skip();
    }
    assert_int_equal(inside(SANDBOX_SOFTHSM, writes_elsewhere), 0);
    assert_int_equal(inside(SANDBOX_SOFTHSM, changes_elsewhere), 0);
    assert_int_equal(inside(SANDBOX_SOFTHSM, carries_files_out), 0);
    assert_int_equal(inside(SANDBOX_SOFTHSM, rewrites_itself), 0);
    assert_int_equal(inside(SANDBOX_MODULE, rewrites_itself), 0);
    assert_int_equal(inside(SANDBOX_SOFTHSM, reads_elsewhere), 0);
}

static void further_folders_are_opened_as_their_list_says(void **state)
{
    (void)state;
    if (landlock < 1) {
        skip();
    }
    pid_t pid = fork();
    if (pid == 0) {
        _exit(keeps_to_its_lists());
    }
    assert_int_equal(result_of(pid), 0);
}

/* ---- and what a signer needs still works ---- */

static void *nothing(void *arg)
{
    return arg;
}

static int works_in(const char *where)
{
    char renamed[160];
    CLEANUP(fd_closep) int fd = open(below(where, "a"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, "x", 1) == 1 && fdatasync(fd) == 0 && ftruncate(fd, 0) == 0;
    (void)snprintf(renamed, sizeof(renamed), "%s/b", where);
    bool moved = rename(below(where, "a"), renamed) == 0 && unlink(renamed) == 0;
    return written && moved && mkdir(below(where, "d"), 0700) == 0 && rmdir(below(where, "d")) == 0 ? 0 : 1;
}

static int does_its_work(void)
{
    uint8_t byte = 0;
    bool random = syscall(SYS_getrandom, &byte, 1, 0) == 1;
    bool reads = opens(read_only, "old", O_RDONLY) >= 0 && opens("/etc", "passwd", O_RDONLY) >= 0;
    return random && reads && works_in(journal) == 0 && works_in(token) == 0 ? 0 : 1;
}

/* 0: it does. */
static int makes_a_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0 ? 0 : 1;
}

static int makes_one_socket(void)
{
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 ? 0 : 1;
}

static void what_a_signer_needs_still_works(void **state)
{
    (void)state;
    assert_int_equal(inside(SANDBOX_SOFTHSM, does_its_work), 0);
    assert_int_equal(inside(SANDBOX_SOFTHSM, makes_a_thread), 1); /* all of ours are there by then */
    assert_int_equal(inside(SANDBOX_MODULE, does_its_work), 0);
    assert_int_equal(inside(SANDBOX_MODULE, makes_a_thread), 0);
    assert_int_equal(inside(SANDBOX_MODULE, makes_one_socket), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_socket_is_made_connected_or_listened_on),
        cmocka_unit_test(running_a_program_or_tracing_ends_the_process),
        cmocka_unit_test(no_process_is_made_signalled_or_made_dumpable),
        cmocka_unit_test(memory_does_not_become_executable),
        cmocka_unit_test(threads_that_were_there_before_are_bound_too),
        cmocka_unit_test(files_elsewhere_are_neither_written_nor_read),
        cmocka_unit_test(further_folders_are_opened_as_their_list_says),
        cmocka_unit_test(what_a_signer_needs_still_works),
    };
    return cmocka_run_group_tests_name("sandbox", tests, setup, teardown);
}
