#include "appliance/stores/child.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENV_MAX        256
#define ENTRY_MAX      8192
#define LISTENER_PLACE 3 /* where service managers put it */
#define OOM_FILE       "/proc/self/oom_score_adj"
#define OOM_TEXT       24
#define OOM_MAX        1000L

/* Our own settings reach every program of the appliance; nothing else of the caller's environment does, a bearer
 * token in SVC_TOKEN least of all. */
static const char *const PASSED_ON[] = {
#define CONFIG_TEXT(member, key, env, fallback, doc)           env,
#define CONFIG_INT(member, key, env, fallback, min, max, doc)  env,
#define CONFIG_BOOL(member, key, env, fallback, doc)           env,
#define CONFIG_TIME(member, key, env, fallback, min, max, doc) env,
#define CONFIG_LIST(member, key, env, fallback, doc)           env,
#include "appliance/base/config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TIME
#undef CONFIG_LIST
#ifdef SVC_FAILPOINTS
    "SVC_FAILPOINT_FILE",
    "ASAN_OPTIONS",
    "UBSAN_OPTIONS",
    "LSAN_OPTIONS",
#endif
};

static const char *const ALWAYS[] = {
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/nonexistent",
};

static struct fault env_add(struct child_plan *plan, const char *name, const char *value)
{
    CLEANUP(buf_free) struct buf entry = BUF_INIT(ENTRY_MAX);
    TRY(buf_text(&entry, name));
    if (value != NULL) {
        TRY(buf_text(&entry, "="));
        TRY(buf_text(&entry, value));
    }
    const char *text = NULL;
    TRY(buf_cstr(&entry, &text));
    REQUIRE(plan->env_count < ENV_MAX, TOO_LARGE);
    TRY(mem_dup_text(text, ENTRY_MAX, &plan->env[plan->env_count]));
    plan->env_count++;
    return OK;
}

static bool env_has(const struct child_plan *plan, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < plan->env_count; i++) {
        if (strncmp(plan->env[i], name, len) == 0 && plan->env[i][len] == '=') {
            return true;
        }
    }
    return false;
}

/* The number of the child is known in the child only, where nothing allocates: room for it is left here. */
static struct fault env_listener(struct child_plan *plan)
{
    TRY(env_add(plan, "LISTEN_FDS", "1"));
    TRY(env_add(plan, "LISTEN_PID", "0000000000"));
    plan->listen_pid = plan->env[plan->env_count - 1];
    return OK;
}

static struct fault env_fill(struct child_plan *plan, const struct process_spec *spec)
{
    TRY(mem_new(ENV_MAX + 1, sizeof(char *), (void *)&plan->env));
    if (spec->listener > 0) {
        TRY(env_listener(plan));
    }
    for (size_t i = 0; i < COUNT_OF(ALWAYS); i++) {
        TRY(env_add(plan, ALWAYS[i], NULL));
    }
    for (size_t i = 0; spec->env != NULL && spec->env[i] != NULL; i++) {
        TRY(env_add(plan, spec->env[i], NULL));
    }
    for (size_t i = 0; i < COUNT_OF(PASSED_ON); i++) {
        const char *value = getenv(PASSED_ON[i]);
        if (value != NULL && !env_has(plan, PASSED_ON[i])) { /* what the spec says wins over what we were given */
            TRY(env_add(plan, PASSED_ON[i], value));
        }
    }
    return OK;
}

struct fault process_user(struct op *op, const char *user, uid_t *ret_uid, gid_t *ret_gid)
{
    struct passwd entry, *found = NULL;
    char space[4096];
    int error = getpwnam_r(user, &entry, space, sizeof(space), &found);
    if (error != 0 || found == NULL) {
        return op_fail(op, FAULT(CONFIG), "there is no user %s on this system; the appliance needs it", user);
    }
    *ret_uid = found->pw_uid;
    *ret_gid = found->pw_gid;
    return OK;
}

static enum call_kind calls_of(const struct confine *confine)
{
    unsigned flags = confine != NULL ? confine->flags : 0;
    return (flags & CONFINE_SETS_CLOCK) != 0    ? CALLS_CLOCK
           : (flags & CONFINE_NO_NEW_CODE) != 0 ? CALLS_SAME_CODE
                                                : CALLS_CHILD;
}

/* Ours and this much more: only the first of a tree may be favoured by whoever starts it. */
static void oom_score_text(int added, char text[OOM_TEXT])
{
    CLEANUP(buf_free) struct buf own = BUF_INIT(64);
    const char *now = "0";
    if (!FAULTED(file_read(OOM_FILE, &own))) {
        IGNORE(buf_cstr(&own, &now));
    }
    long score = strtol(now, NULL, 10) + added;
    (void)snprintf(text, OOM_TEXT, "%ld", score > OOM_MAX ? OOM_MAX : score);
}

struct fault child_plan_fill(struct op *op, const struct process_spec *spec, struct child_plan *plan)
{
    plan->spec = spec;
    if (spec->user != NULL) {
        TRY(process_user(op, spec->user, &plan->uid, &plan->gid));
        plan->change_user = true;
        TRY(call_filter_make(calls_of(spec->confine), &plan->filter));
    }
    if (spec->confine != NULL && spec->confine->oom_score_adj != 0) {
        oom_score_text(spec->confine->oom_score_adj, plan->oom_score_adj);
    }
    return env_fill(plan, spec);
}

void child_plan_clear(struct child_plan *plan)
{
    for (size_t i = 0; i < plan->env_count; i++) {
        mem_free(plan->env[i]);
    }
    plan->env_count = 0;
    plan->listen_pid = NULL;
    mem_free(TAKE(plan->env));
    call_filter_clear(&plan->filter);
}

const char *child_step_text(enum child_step step)
{
    switch (step) {
    case CHILD_STEP_STDIO:
        return "redirecting its input and output";
    case CHILD_STEP_LIMITS:
        return "setting its limits";
    case CHILD_STEP_VIEW:
        return "making its view of the machine";
    case CHILD_STEP_FILES:
        return "entering its Landlock rules";
    case CHILD_STEP_USER:
        return "becoming its user";
    case CHILD_STEP_CALLS:
        return "entering its system call filter";
    case CHILD_STEP_ORPHAN:
        return "its parent is gone";
    case CHILD_STEP_EXEC:
        return "executing it";
    case CHILD_STEP_NONE:
        break;
    }
    return "starting it";
}

static void signals_reset(void)
{
    static const int caught[] = { SIGPIPE, SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT };
    struct sigaction plain = { .sa_handler = SIG_DFL };
    for (size_t i = 0; i < COUNT_OF(caught); i++) {
        (void)sigaction(caught[i], &plain, NULL);
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* One byte is less than any core has, and unlike none it also counts where cores go to a program; but from none there
 * is no way to it. */
static bool cores_off(void)
{
    return setrlimit(RLIMIT_CORE, &(struct rlimit){ 1, 1 }) == 0 || setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 }) == 0;
}

static bool limits_set(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return false;
    }
    files.rlim_cur = files.rlim_max;
    return cores_off() && setrlimit(RLIMIT_NOFILE, &files) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* A wish: without the right to grant it, the program goes on with what the machine allows. */
static void allow_locked_memory(void)
{
    (void)setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY });
}

/* The same: a child that may not say who goes first is as likely to go as we are. */
static void set_oom_score(const struct child_plan *plan)
{
    if (plan->oom_score_adj[0] == '\0') {
        return;
    }
    CLEANUP(fd_closep) int fd = open(OOM_FILE, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, plan->oom_score_adj, strlen(plan->oom_score_adj));
    }
}

/* What needs root comes before the user, and the filter last: it refuses what made the view. */
static enum child_step confine(const struct child_plan *plan)
{
    const struct confine *wanted = plan->spec != NULL ? plan->spec->confine : NULL;
    unsigned parts = confine_available();
    if (wanted != NULL && !view_enter(wanted, parts)) {
        return CHILD_STEP_VIEW;
    }
    if (wanted != NULL && (parts & CONFINE_FILES) != 0 && !files_enter(wanted)) {
        return CHILD_STEP_FILES;
    }
    if (plan->change_user &&
        !rights_drop(plan->uid, plan->gid, wanted != NULL ? wanted->capabilities : 0, (parts & CONFINE_RIGHTS) != 0)) {
        return CHILD_STEP_USER;
    }
    if (plan->filter.code != NULL && !call_filter_enter(&plan->filter)) {
        return CHILD_STEP_CALLS;
    }
    return CHILD_STEP_NONE;
}

static enum child_step prepare(const struct child_plan *plan)
{
    signals_reset();
    if (plan->spec != NULL && plan->spec->locks_memory) {
        allow_locked_memory();
    }
    set_oom_score(plan);
    (void)umask(077);
    if (chdir("/") != 0 || !limits_set()) {
        return CHILD_STEP_LIMITS;
    }
    return confine(plan);
}

static bool stdio_set(const struct child_plan *plan)
{
    int input = plan->input >= 0 ? plan->input : open("/dev/null", O_RDONLY | O_CLOEXEC);
    int output = plan->output >= 0 ? plan->output : STDERR_FILENO;
    if (input < 0 || dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0) {
        return false;
    }
    return plan->output < 0 || plan->spec->answer_only || dup2(output, STDERR_FILENO) >= 0;
}

/* The listener moves to its place, and the way back to the parent out of it. Gives the first descriptor that is not
 * handed on, or -1. */
static int hand_over(const struct child_plan *plan, int *report)
{
    if (plan->spec->listener <= 0) {
        return LISTENER_PLACE;
    }
    (void)snprintf(plan->listen_pid, sizeof("LISTEN_PID=0000000000"), "LISTEN_PID=%d", (int)getpid());
    if (*report == LISTENER_PLACE) {
        *report = fcntl(*report, F_DUPFD_CLOEXEC, LISTENER_PLACE + 1);
    }
    /* Onto itself a descriptor would keep its close-on-exec flag. */
    int moved = plan->spec->listener == LISTENER_PLACE ? fcntl(LISTENER_PLACE, F_SETFD, 0)
                                                       : dup2(plan->spec->listener, LISTENER_PLACE);
    return moved < 0 || *report < 0 ? -1 : LISTENER_PLACE + 1;
}

struct child_failure child_replace(const struct child_plan *plan)
{
    enum child_step step = prepare(plan);
    if (step == CHILD_STEP_NONE) {
        (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
        (void)execve(plan->spec->argv[0], (char *const *)plan->spec->argv, plan->env);
        step = CHILD_STEP_EXEC;
    }
    return (struct child_failure){ .step = step, .error = errno };
}

void child_become(const struct child_plan *plan, pid_t parent)
{
    enum child_step step = CHILD_STEP_NONE;
    int report = plan->report, beyond = -1;
    errno = 0;
    (void)setsid();
    if (!stdio_set(plan) || (beyond = hand_over(plan, &report)) < 0) {
        step = CHILD_STEP_STDIO;
    }
    if (step == CHILD_STEP_NONE) {
        step = prepare(plan);
    }
    if (step == CHILD_STEP_NONE) {
        /* After the change of user, which clears it. */
        int signal = plan->spec->death_signal != 0 ? plan->spec->death_signal : SIGKILL;
        if (prctl(PR_SET_PDEATHSIG, signal) != 0 || getppid() != parent) {
            step = CHILD_STEP_ORPHAN;
        }
    }
    if (step == CHILD_STEP_NONE) {
        (void)close_range((unsigned)beyond, ~0U, CLOSE_RANGE_CLOEXEC); /* the report's end among them */
        (void)execve(plan->spec->argv[0], (char *const *)plan->spec->argv, plan->env);
        step = CHILD_STEP_EXEC;
    }
    struct child_failure failure = { .step = step, .error = errno };
    ssize_t put = write(report, &failure, sizeof(failure));
    _exit(put == (ssize_t)sizeof(failure) ? 127 : 126);
}

struct fault child_drop(struct op *op, const char *user)
{
    CLEANUP(child_plan_clear) struct child_plan plan = { .change_user = true };
    TRY(process_user(op, user, &plan.uid, &plan.gid));
    TRY(call_filter_make(CALLS_CHILD, &plan.filter));
    /* Not our death alone ends it: it also may not outlive its deadline, which its parent keeps. */
    if (prepare(&plan) != CHILD_STEP_NONE || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return op_fail(op, FAULT(IO), "cannot become user %s: %s", user, strerrordesc_np(errno));
    }
    return OK;
}
