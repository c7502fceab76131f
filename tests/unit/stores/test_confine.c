/* An attacker in the place of each program: this very file, started through the same process_spec, tries what its
 * confinement takes away and says what became of it. Each way of refusing is also tried alone. */
#include "unit/stores/testlib.h"

#include "appliance/base/file.h"
#include "appliance/stores/confine_internal.h"
#include "appliance/stores/process.h"
#include "appliance/stores/profiles.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- the attacker ---- */

/* What it is told: a word for itself, the folders of the test, a port where somebody listens, one for itself, and a
 * process of the same user. */
struct target {
    const char *root, *own;
    uint16_t port, own_port;
    pid_t bystander;
};

static void tell(const char *what, bool done)
{
    (void)printf("%s=%s\n", what, done ? "done" : strerrorname_np(errno));
    errno = 0;
}

static int opens(const char *folder, const char *name, int flags)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return open(path, flags | O_CLOEXEC, 0600);
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void attack_files(const struct target *target)
{
    char path[256];
    tell("write_own", opens(target->own, "new", O_WRONLY | O_CREAT) >= 0);
    tell("write_elsewhere", opens(target->root, "open/new", O_WRONLY | O_CREAT) >= 0);
    tell("truncate_elsewhere", opens(target->root, "open/file", O_WRONLY | O_TRUNC) >= 0);
    tell("write_tmp", opens("/tmp", ".", O_WRONLY | O_TMPFILE) >= 0);
    tell("read_elsewhere", opens(target->root, "open/file", O_RDONLY) >= 0);
    tell("read_others", opens(target->root, "data/softhsm/file", O_RDONLY) >= 0);
    tell("read_shm", opens("/dev/shm", target->root + 5, O_RDONLY) >= 0);
    (void)snprintf(path, sizeof(path), "%s/link", target->own);
    tell("link", symlink("/etc/passwd", path) == 0);
    tell("device", mknod(path, S_IFCHR | 0600, 0x103) == 0);
    (void)snprintf(path, sizeof(path), "%s/new", target->own);
    tell("setuid_file", chmod(path, 04755) == 0);
    tell("read_init", access("/proc/1/status", F_OK) == 0);
}

static void attack_network(const struct target *target)
{
    struct sockaddr_in other = loopback(target->port), own = loopback(target->own_port), any = loopback(0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tell("connect", connect(fd, (struct sockaddr *)&other, sizeof(other)) == 0);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tell("bind_any", bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tell("bind_own", bind(fd, (struct sockaddr *)&own, sizeof(own)) == 0);
    tell("packet_socket", socket(AF_PACKET, SOCK_RAW, 0) >= 0);
    tell("multipath_socket", socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP) >= 0);
    tell("alg_socket", socket(AF_ALG, SOCK_SEQPACKET, 0) >= 0);
}

static void attack_code(const struct target *target)
{
    const char *const sh[] = { "/bin/sh", "-c", "echo shell", NULL };
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell("signal", kill(target->bystander, 0) == 0);
    tell("writable_code", mmap(NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    tell("memory_to_code", mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    tell("memory_file", memfd_create("code", 0) >= 0);
    tell("user_namespace", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) > 0);
    tell("clone3", syscall(SYS_clone3, NULL, 0) == 0);
    tell("terminal", ioctl(STDIN_FILENO, TIOCSTI, "x") == 0);
    tell("root", setuid(0) == 0);
    (void)printf("securebits=%x\n", (unsigned)prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
    (void)fflush(stdout);
    (void)execv(sh[0], (char *const *)sh); /* says so itself, if it is one */
    tell("shell", false);
}

static void *nothing(void *arg)
{
    return arg;
}

static void attack_serving(void)
{
    pthread_t thread;
    tell("thread", pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    pid_t pid = (pid_t)syscall(SYS_fork);
    if (pid == 0) {
        _exit(0);
    }
    tell("process", pid > 0);
}

[[noreturn]] static void attack(char **args)
{
    const struct target target = { .root = args[1],
                                   .own = args[2],
                                   .port = (uint16_t)strtol(args[3], NULL, 10),
                                   .own_port = (uint16_t)strtol(args[4], NULL, 10),
                                   .bystander = (pid_t)strtol(args[5], NULL, 10) };
    if (strcmp(args[0], "--attack-serving") == 0) {
        CLEANUP(buf_free) struct buf why = BUF_INIT(256);
        tell("confined", !FAULTED(confine_serving(&why)));
        attack_serving();
    }
    attack_files(&target);
    attack_network(&target);
    attack_code(&target);
    (void)fflush(stdout);
    _exit(0);
}

/* ---- the world around it ---- */

struct world {
    struct scratch *scratch;
    struct confine confine;
    struct buf said;
    char self[256], port[8], own_port[8], bystander[16], shm[96];
    int listener;
    pid_t pid;
};

static const char *below(struct scratch *scratch, const char *name)
{
    const char *path = NULL;
    assert_fault(arena_printf(scratch->op->arena, &path, "%s/%s", scratch->dir, name), NONE);
    return path;
}

static void make_folder(struct scratch *scratch, const char *name, mode_t mode)
{
    const char *path = below(scratch, name);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && fchmod(fd, 0666) == 0 && close(fd) == 0);
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t len = sizeof(at);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

/* Another process of the same user, for a minute at most. */
static pid_t bystander_new(const char *user)
{
    uid_t uid = 0;
    gid_t gid = 0;
    CLEANUP(op_freep) struct op *op = scratch_op(60000);
    assert_fault(process_user(op, user, &uid, &gid), NONE);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)alarm(60);
        _exit(setresuid(uid, uid, uid) == 0 ? pause() : 1);
    }
    return pid;
}

/* Everything that file rights alone would refuse is open here, so that what is refused is refused by confinement. */
static void world_new(struct world *world, struct scratch *scratch, const char *user)
{
    static const char *const folders[] = { "open",         "data/postgres", "data/nats",        "data/api",
                                           "data/softhsm", "data/signer",   "data/nats-client", "run/postgres" };
    struct sockaddr_in any = loopback(0);
    *world = (struct world){ .scratch = scratch, .said = BUF_INIT(8192) };
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        make_folder(scratch, folders[i], 0777);
    }
    make_file(below(scratch, "open/file"));
    make_file(below(scratch, "data/softhsm/file"));
    (void)snprintf(world->shm, sizeof(world->shm), "/dev/shm/%s", scratch->dir + 5);
    make_file(world->shm);
    assert_true(readlink("/proc/self/exe", world->self, sizeof(world->self) - 1) > 0);
    world->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(world->listener, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(listen(world->listener, 8), 0);
    (void)snprintf(world->port, sizeof(world->port), "%u", port_of(world->listener));
    int free_one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(free_one, (struct sockaddr *)&any, sizeof(any)), 0);
    scratch->config.nats_embedded_port = port_of(free_one);
    (void)snprintf(world->own_port, sizeof(world->own_port), "%u", port_of(free_one));
    (void)close(free_one);
    world->pid = bystander_new(user);
    (void)snprintf(world->bystander, sizeof(world->bystander), "%d", world->pid);
}

static void world_end(struct world *world)
{
    (void)kill(world->pid, SIGKILL);
    (void)waitpid(world->pid, NULL, 0);
    (void)close(world->listener);
    (void)unlink(world->shm);
    buf_free(&world->said);
}

/* The attacker as `user` in the confinement that the world holds, of which only `parts` are put on. */
static void attack_as(struct world *world, const char *user, const char *word, const char *own, unsigned parts)
{
    const char *const run[] = { world->self, "/lib64/ld-linux-x86-64.so.2", NULL };
    struct confine confine = world->confine;
    struct scratch *scratch = world->scratch;
    confine.run = confine.run != NULL ? run : NULL;
    const char *const argv[] = { world->self,         word,        scratch->dir,
                                 below(scratch, own), world->port, world->own_port,
                                 world->bystander,    NULL };
    unsigned all = confine_available();
    confine_allow(all & parts);
    buf_clear(&world->said);
    struct fault ran =
        process_check(scratch->op, &(struct process_spec){ .argv = argv, .user = user, .confine = &confine },
                      (struct span){ 0 }, &world->said);
    confine_allow(all);
    if (FAULTED(ran)) {
        print_error("%s\n", scratch->op->note.detail);
    }
    assert_fault(ran, NONE);
}

static int differing(struct world *world, const char *const *expected)
{
    const char *said = NULL;
    int wrong = 0;
    assert_fault(buf_cstr(&world->said, &said), NONE);
    for (; *expected != NULL; expected++) {
        CLEANUP(buf_free) struct buf line = BUF_INIT(256);
        const char *text = NULL;
        assert_fault(buf_printf(&line, "%s\n", *expected), NONE);
        assert_fault(buf_cstr(&line, &text), NONE);
        wrong += strstr(said, text) == NULL;
    }
    if (wrong > 0) {
        print_error("%d differ: %s\n", wrong, said);
    }
    return wrong;
}

#define assert_said(world, ...) assert_int_equal(differing(world, (const char *const[]){ __VA_ARGS__, NULL }), 0)

/* What is true of every child with a user, whatever else is. */
#define RIGHTS_AND_CALLS                                                                                      \
    "device=EPERM", "setuid_file=EPERM", "packet_socket=EPERM", "alg_socket=EPERM", "multipath_socket=EPERM", \
        "user_namespace=EPERM", "clone3=ENOSYS", "terminal=EPERM", "root=EPERM"

/* ---- refusals ---- */

static void a_child_without_more_has_no_rights_and_makes_none_of_the_calls(void **state)
{
    struct world world;
    world_new(&world, *state, "svc-pg");
    attack_as(&world, "svc-pg", "--attack", "data/postgres", CONFINE_RIGHTS);
    assert_said(&world, RIGHTS_AND_CALLS, "securebits=eb", "write_elsewhere=done", "connect=done", "signal=done",
                "shell");
    world_end(&world);
}

static void postgresql_writes_reads_runs_and_reaches_its_own_alone(void **state)
{
    struct world world;
    world_new(&world, *state, "svc-pg");
    assert_fault(profile_postgres(world.scratch->op, &world.scratch->config, &world.confine), NONE);
    attack_as(&world, "svc-pg", "--attack", "data/postgres", CONFINE_ALL);
    assert_said(&world, RIGHTS_AND_CALLS, "write_own=done", "write_elsewhere=EROFS", "truncate_elsewhere=EROFS",
                "write_tmp=EROFS", "read_elsewhere=EACCES", "read_others=EACCES", "read_shm=ENOENT", "link=EACCES",
                "read_init=ENOENT", "connect=EACCES", "signal=EPERM", "writable_code=EPERM", "memory_to_code=EPERM",
                "memory_file=EPERM", "shell=EACCES");
    world_end(&world);
}

static void without_mounts_landlock_refuses_the_same(void **state)
{
    struct world world;
    world_new(&world, *state, "svc-pg");
    if ((confine_available() & CONFINE_FILES) == 0) {
        world_end(&world);
        skip();
    }
    assert_fault(profile_postgres(world.scratch->op, &world.scratch->config, &world.confine), NONE);
    attack_as(&world, "svc-pg", "--attack", "data/postgres", CONFINE_FILES);
    assert_said(&world, RIGHTS_AND_CALLS, "write_own=done", "write_elsewhere=EACCES", "truncate_elsewhere=EACCES",
                "write_tmp=EACCES", "read_elsewhere=EACCES", "read_others=EACCES", "link=EACCES", "signal=EPERM",
                "shell=EACCES");
    world_end(&world);
}

static void without_landlock_mounts_refuse_to_write_and_hide_what_is_others(void **state)
{
    struct world world;
    world_new(&world, *state, "svc-pg");
    assert_fault(profile_postgres(world.scratch->op, &world.scratch->config, &world.confine), NONE);
    attack_as(&world, "svc-pg", "--attack", "data/postgres", CONFINE_ALL & ~(unsigned)CONFINE_FILES);
    assert_said(&world, RIGHTS_AND_CALLS, "write_own=done", "write_elsewhere=EROFS", "truncate_elsewhere=EROFS",
                "write_tmp=EROFS", "read_others=EACCES", "read_shm=ENOENT", "read_init=ENOENT", "connect=ENETUNREACH");
    world_end(&world);
}

static void the_event_log_listens_at_its_port_and_connects_to_none(void **state)
{
    struct world world;
    world_new(&world, *state, "svc-nats");
    assert_fault(profile_nats(world.scratch->op, &world.scratch->config, &world.confine), NONE);
    attack_as(&world, "svc-nats", "--attack", "data/nats", CONFINE_ALL);
    assert_said(&world, RIGHTS_AND_CALLS, "write_own=done", "write_elsewhere=EROFS", "read_elsewhere=EACCES",
                "read_others=EACCES", "connect=EACCES", "bind_any=EACCES", "bind_own=done", "signal=EPERM",
                "shell=EACCES");
    world_end(&world);
}

static void the_api_writes_its_own_folder_and_executes_nothing_once_it_serves(void **state)
{
    struct world world;
    world_new(&world, *state, "svc-api");
    world.scratch->config.http_listen = "127.0.0.1:1";
    assert_fault(profile_api(world.scratch->op, &world.scratch->config, &world.confine), NONE);
    attack_as(&world, "svc-api", "--attack-serving", "data/api", CONFINE_ALL);
    assert_said(&world, RIGHTS_AND_CALLS, "confined=done", "thread=done", "process=EPERM", "write_own=done",
                "write_elsewhere=EROFS", "write_tmp=EROFS", "read_others=EACCES", "connect=done", "bind_own=EACCES",
                "signal=EPERM", "writable_code=EPERM", "memory_to_code=EPERM", "memory_file=EPERM", "shell=EPERM");
    world_end(&world);
}

static void the_signer_of_an_embedded_token_has_no_network(void **state)
{
    struct world world;
    world_new(&world, *state, "svc-signer");
    world.scratch->config.signer_journal = below(world.scratch, "data/signer");
    assert_fault(profile_signer(world.scratch->op, &world.scratch->config, &world.confine), NONE);
    attack_as(&world, "svc-signer", "--attack", "data/signer", CONFINE_ALL);
    assert_said(&world, RIGHTS_AND_CALLS, "write_own=done", "write_elsewhere=EROFS", "write_tmp=EROFS",
                "read_others=done" /* the token is its own */, "connect=EACCES", "signal=EPERM", "writable_code=EPERM");
    world_end(&world);
}

/* ---- calls, one by one: with all rights, so that only the filter can refuse ---- */

static const struct {
    const char *name;
    int number;
} calls[] = {
#define CALLS(group, who)
#define CALL(group, name) { #name, SCMP_SYS(name) },
#include "appliance/stores/calls.def"
#undef CALLS
#undef CALL
};

/* How many of the calls, with arguments that mean nothing, end with EPERM. */
static size_t refused_calls(bool filtered)
{
    int ends[2];
    size_t count = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        CLEANUP(call_filter_clear) struct call_filter filter = { 0 };
        bool fine = !filtered || (!FAULTED(call_filter_make(CALLS_CHILD, &filter)) &&
                                  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && call_filter_enter(&filter));
        for (size_t i = 0; fine && i < COUNT_OF(calls); i++) {
            bool tried = calls[i].number >= 0 && (filtered || strcmp(calls[i].name, "vhangup") != 0);
            errno = 0;
            bool refused = tried && syscall(calls[i].number, -1L, -1L, -1L, -1L, -1L, -1L) < 0 && errno == EPERM;
            count += refused;
            if (filtered && tried && !refused) {
                print_error("%s is not refused: %s\n", calls[i].name, strerrorname_np(errno));
            }
        }
        _exit(write(ends[1], &count, sizeof(count)) == sizeof(count) ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &count, sizeof(count)), sizeof(count));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return count;
}

static void every_call_of_the_list_is_refused_by_the_filter_even_to_root(void **state)
{
    (void)state;
    size_t known = 0;
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        known += calls[i].number >= 0;
    }
    assert_int_equal(refused_calls(true), known);
    assert_in_range(refused_calls(false), 0, 3); /* without it, by the kernel of this machine */
}

/* ---- what is allowed ---- */

static void a_capability_that_is_kept_is_the_only_one(void **state)
{
    struct scratch *scratch = *state;
    CLEANUP(buf_free) struct buf said = BUF_INIT(4096);
    const char *text = NULL;
    const char *const argv[] = { "/bin/grep", "^Cap", "/proc/self/status", NULL };
    const struct confine confine = { .capabilities = UINT64_C(1) << CAP_SYS_TIME };
    const struct process_spec spec = { .argv = argv, .user = "svc-pg", .confine = &confine };
    assert_fault(process_check(scratch->op, &spec, (struct span){ 0 }, &said), NONE);
    assert_fault(buf_cstr(&said, &text), NONE);
    assert_string_equal(text, "CapInh:\t0000000002000000\nCapPrm:\t0000000002000000\nCapEff:\t0000000002000000\n"
                              "CapBnd:\t0000000002000000\nCapAmb:\t0000000002000000\n");
}

static void what_a_machine_lacks_is_named_and_refused_where_it_is_required(void **state)
{
    struct scratch *scratch = *state;
    CLEANUP(buf_free) struct buf text = BUF_INIT(256);
    unsigned missing = 0;
    assert_fault(confine_text(CONFINE_VIEW | CONFINE_FILES, &text), NONE);
    assert_true(span_equal_text(buf_span(&text), "mount namespace, Landlock"));
    uid_t uid = 65534;
    pid_t pid = fork();
    if (pid == 0) { /* somebody who may do nothing of it */
        bool fine = setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0 &&
                    !FAULTED(confine_establish(scratch->op, false, &missing)) && (missing & CONFINE_VIEW) != 0 &&
                    confine_establish(scratch->op, true, &missing).code == FAULT_CONFIG &&
                    strstr(scratch->op->note.detail, "does not allow: ") != NULL &&
                    strstr(scratch->op->note.detail, "mount namespace") != NULL;
        _exit(fine ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    if (argc == 7 && strncmp(argv[1], "--attack", 8) == 0) {
        attack(argv + 1);
    }
    CLEANUP(op_freep) struct op *op = scratch_op(60000);
    unsigned missing = 0;
    if (FAULTED(confine_establish(op, false, &missing))) {
        return 1;
    }
    if (missing != 0) {
        print_message("this machine lacks parts %x: what they would refuse is not refused\n", missing);
    }
    const struct CMUnitTest tests[] = {
        scratch_test(a_child_without_more_has_no_rights_and_makes_none_of_the_calls),
        scratch_test(postgresql_writes_reads_runs_and_reaches_its_own_alone),
        scratch_test(without_mounts_landlock_refuses_the_same),
        scratch_test(without_landlock_mounts_refuse_to_write_and_hide_what_is_others),
        scratch_test(the_event_log_listens_at_its_port_and_connects_to_none),
        scratch_test(the_api_writes_its_own_folder_and_executes_nothing_once_it_serves),
        scratch_test(the_signer_of_an_embedded_token_has_no_network),
        scratch_test(every_call_of_the_list_is_refused_by_the_filter_even_to_root),
        scratch_test(a_capability_that_is_kept_is_the_only_one),
        scratch_test(what_a_machine_lacks_is_named_and_refused_where_it_is_required),
    };
    return cmocka_run_group_tests_name("confine", tests, NULL, NULL);
}
