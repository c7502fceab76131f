#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/file.h"
#include "appliance/stores/process.h"
#include "appliance/supervisor/appliance.h"
#include "appliance/supervisor/children.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

/* What the units of these tests are made of, and what they did. */
static struct {
    pid_t first, second;
    int starts, ready_after; /* probes until ready */
    const char *script;
} world;

static char run_dir[] = "/tmp/children-XXXXXX";
static struct config config;
static struct appliance appliance = { .config = &config };

static struct fault spawn(struct op *op, const char *script, pid_t *ret_pid)
{
    const char *const argv[] = { "/bin/sh", "-c", script, NULL };
    return process_spawn(op, &(struct process_spec){ .argv = argv }, ret_pid);
}

static struct fault start_first(struct op *op, const struct appliance *ignored, pid_t *ret_pid)
{
    (void)ignored;
    world.starts++;
    TRY(spawn(op, world.script, ret_pid));
    world.first = *ret_pid;
    return OK;
}

static struct fault start_second(struct op *op, const struct appliance *ignored, pid_t *ret_pid)
{
    (void)ignored;
    TRY(spawn(op, world.script, ret_pid));
    world.second = *ret_pid;
    return OK;
}

static struct fault probe(struct op *op, const struct appliance *ignored)
{
    (void)ignored;
    return world.ready_after-- > 0 ? op_fail(op, FAULT(IO), "not yet") : OK;
}

static const struct unit_row first = { .name = "first",
                                       .start = start_first,
                                       .probe = probe,
                                       .stop_signal = SIGTERM,
                                       .force_signal = SIGKILL,
                                       .stop_ms = 20000 };
static const struct unit_row second = { .name = "second",
                                        .start = start_second,
                                        .probe = probe,
                                        .stop_signal = SIGTERM,
                                        .force_signal = SIGKILL,
                                        .stop_ms = 20000 };
static const struct unit_row elsewhere = { .name = "elsewhere", .probe = probe };

static const char SLEEPER[] = "exec tail -f /dev/null";

static struct children *begin(const char *script)
{
    struct children *children = NULL;
    memset(&world, 0, sizeof(world));
    world.script = script;
    assert_fault(children_new(&appliance, &children), NONE);
    return children;
}

static void end(struct children *children)
{
    children_drain(children);
    children_free(children);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left behind */
    assert_int_equal(errno, ECHILD);
}

static void add_ready(struct children *children, const struct unit_row *row)
{
    size_t unit = 0;
    assert_fault(children_add(children, row, &unit), NONE);
    assert_fault(children_wait_ready(children, unit), NONE);
}

static bool file_says(const char *name, const char *text)
{
    char path[128];
    CLEANUP(buf_free) struct buf state = BUF_INIT(4096);
    (void)snprintf(path, sizeof(path), "%s/%s", run_dir, name);
    assert_fault(file_read(path, &state), NONE);
    return memmem(state.at, state.len, text, strlen(text)) != NULL;
}

static void a_unit_that_refuses_its_start_ends_the_waiting(void **state)
{
    (void)state;
    struct children *children = begin("exit 3");
    size_t unit = 0;
    const char *name = NULL;
    world.ready_after = 1000;
    assert_fault(children_add(children, &first, &unit), NONE);
    assert_fault(children_wait_ready(children, unit), CONFIG);
    assert_int_equal(children_refused(children, &name), 3);
    assert_string_equal(name, "first");
    assert_int_equal(world.starts, 1);
    end(children);
}

static void the_space_of_folders_that_are_here_is_told(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/nats", run_dir);
    assert_int_equal(mkdir(path, 0700), 0);
    struct children *children = begin(SLEEPER);
    add_ready(children, &first);
    assert_true(file_says("disks.json", "\"nats_free\":"));
    assert_true(file_says("disks.json", "\"nats_total\":"));
    assert_false(file_says("disks.json", "postgres"));
    end(children);
}

static void a_stop_signal_ends_the_waiting(void **state)
{
    (void)state;
    struct children *children = begin(SLEEPER);
    size_t unit = 0;
    world.ready_after = 1000;
    assert_fault(children_add(children, &first, &unit), NONE);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    assert_fault(children_wait_ready(children, unit), CANCELLED);
    end(children);
}

static void a_killed_unit_is_started_again_and_counted(void **state)
{
    (void)state;
    struct children *children = begin(SLEEPER);
    add_ready(children, &first);
    assert_true(file_says("state.json", "\"first_restarts\":0"));
    pid_t killed = world.first;
    assert_int_equal(kill(killed, SIGKILL), 0);
    while (world.starts < 2) {
        assert_fault(children_step(children, 1000), NONE);
    }
    assert_int_not_equal(world.first, killed);
    assert_int_equal(kill(world.first, 0), 0);
    assert_true(file_says("state.json", "\"first_restarts\":1"));
    end(children);
}

static void a_start_that_fails_for_a_while_is_tried_until_it_works(void **state)
{
    (void)state;
    struct children *children = begin("exit 1");
    size_t unit = 0;
    world.ready_after = 1000;
    assert_fault(children_add(children, &first, &unit), NONE);
    while (world.starts < 3) {
        assert_fault(children_step(children, 1000), NONE);
    }
    world.script = SLEEPER;
    world.ready_after = 0;
    assert_fault(children_wait_ready(children, unit), NONE);
    end(children);
}

static void a_store_that_runs_elsewhere_is_only_asked(void **state)
{
    (void)state;
    struct children *children = begin(SLEEPER);
    world.ready_after = 2;
    add_ready(children, &elsewhere);
    assert_int_equal(world.ready_after, -1);
    end(children);
}

static void orphans_are_reaped(void **state)
{
    (void)state;
    struct children *children = begin("(exec true) & exec tail -f /dev/null");
    add_ready(children, &first);
    /* Its child has ended unnoticed: it is ours once its parent dies, and may not stay as a zombie. */
    char command[128];
    (void)snprintf(command, sizeof(command), "until pgrep -P %d -r Z >/dev/null; do :; done", (int)world.first);
    assert_int_equal(system(command), 0);
    end(children);
}

static void the_later_unit_is_stopped_first(void **state)
{
    (void)state;
    char script[256];
    (void)snprintf(script, sizeof(script),
                   "trap 'echo $$ >>%s/order; exit 0' TERM; while :; do tail -f /dev/null & wait; done", run_dir);
    struct children *children = begin(script);
    add_ready(children, &first);
    add_ready(children, &second);
    /* Both must have set their traps: the shell has then started its tail. */
    char path[128], command[256], want[64];
    (void)snprintf(command, sizeof(command), "until pgrep -P %d >/dev/null && pgrep -P %d >/dev/null; do :; done",
                   (int)world.first, (int)world.second);
    assert_int_equal(system(command), 0);
    (void)snprintf(want, sizeof(want), "%d\n%d\n", (int)world.second, (int)world.first);
    children_drain(children);
    children_free(children);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    (void)snprintf(command, sizeof(command), "pkill -P %d tail; true", (int)getpid());
    assert_int_equal(system(command), 0);
    while (waitpid(-1, NULL, 0) > 0) {
    }
    CLEANUP(buf_free) struct buf order = BUF_INIT(256);
    (void)snprintf(path, sizeof(path), "%s/order", run_dir);
    assert_fault(file_read(path, &order), NONE);
    assert_true(span_equal_text(buf_span(&order), want));
}

static void a_second_stop_signal_does_not_wait_for_the_stubborn(void **state)
{
    (void)state;
    struct children *children = begin("trap '' TERM; echo >/dev/null; exec tail -f /dev/null");
    add_ready(children, &first);
    char command[128];
    (void)snprintf(command, sizeof(command), "until [ \"$(cat /proc/%d/comm)\" = tail ]; do :; done", (int)world.first);
    assert_int_equal(system(command), 0);
    mono_ns begun = clock_mono();
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    assert_int_equal(kill(getpid(), SIGINT), 0);
    assert_fault(children_step(children, 1000), NONE);
    assert_int_equal(children_stop_signals(children), 2);
    end(children);
    assert_true(clock_mono() - begun < 15 * NS_PER_S); /* it would take 20 s otherwise */
}

static int setup(void **state)
{
    (void)state;
    config = (struct config){ .run_dir = run_dir,
                              .data_dir = run_dir,
                              .signer_address = "elsewhere",
                              .signer_journal = "",
                              .postgres_url = "elsewhere",
                              .nats_url = "" };
    return mkdtemp(run_dir) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", run_dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_that_refuses_its_start_ends_the_waiting),
        cmocka_unit_test(the_space_of_folders_that_are_here_is_told),
        cmocka_unit_test(a_stop_signal_ends_the_waiting),
        cmocka_unit_test(a_killed_unit_is_started_again_and_counted),
        cmocka_unit_test(a_start_that_fails_for_a_while_is_tried_until_it_works),
        cmocka_unit_test(a_store_that_runs_elsewhere_is_only_asked),
        cmocka_unit_test(orphans_are_reaped),
        cmocka_unit_test(the_later_unit_is_stopped_first),
        cmocka_unit_test(a_second_stop_signal_does_not_wait_for_the_stubborn),
    };
    return cmocka_run_group_tests_name("children", tests, setup, teardown);
}
