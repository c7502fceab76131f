#include "appliance/base/file.h"
#include "appliance/base/secret.h"
#include "testlib.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

static char folder[] = "/tmp/svc-secret-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void files_that_others_can_read_are_refused(void **state)
{
    (void)state;
    struct secret *untouched = NULL;
    static const mode_t open_modes[] = { 0640, 0604, 0620, 0602, 0644, 0610 };
    for (size_t i = 0; i < COUNT_OF(open_modes); i++) {
        assert_fault(file_write(path_of("open"), span_text("1234"), open_modes[i]), NONE);
        assert_fault(secret_from_file(path_of("open"), &untouched), CONFIG);
    }
    assert_null(untouched);
}

static void what_is_no_plain_file_is_refused(void **state)
{
    (void)state;
    struct secret *untouched = NULL;
    assert_fault(secret_from_file(path_of("missing"), &untouched), CONFIG);
    assert_fault(secret_from_file(folder, &untouched), CONFIG);
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_fault(secret_from_file(path_of("fifo"), &untouched), CONFIG);
    assert_fault(file_write(path_of("real"), span_text("1234"), 0600), NONE);
    char target[128];
    (void)snprintf(target, sizeof(target), "%s", path_of("real"));
    assert_int_equal(symlink(target, path_of("link")), 0);
    assert_fault(secret_from_file(path_of("link"), &untouched), CONFIG);
    assert_fault(file_write(path_of("empty"), span_text(""), 0600), NONE);
    assert_fault(secret_from_file(path_of("empty"), &untouched), CONFIG);
    assert_fault(file_write(path_of("newline"), span_text("\n"), 0600), NONE);
    assert_fault(secret_from_file(path_of("newline"), &untouched), CONFIG);
    char big[SECRET_MAX + 2];
    memset(big, 'x', sizeof(big));
    assert_fault(file_write(path_of("big"), span_of(big, sizeof(big)), 0600), NONE);
    assert_fault(secret_from_file(path_of("big"), &untouched), CONFIG);
    assert_null(untouched);
}

static void a_private_file_is_read_without_its_newline(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *secret = NULL;
    assert_fault(file_write(path_of("pin"), span_text("12\n34\n"), 0600), NONE);
    assert_fault(secret_from_file(path_of("pin"), &secret), NONE);
    assert_span_text(secret_span(secret), "12\n34");
}

static void too_long_a_secret_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[SECRET_MAX + 1];
    struct secret *untouched = NULL;
    assert_fault(secret_new(SPAN_ARRAY(bytes), &untouched), TOO_LARGE);
    assert_fault(secret_random(SECRET_MAX + 1, &untouched), TOO_LARGE);
    assert_null(untouched);
}

static void a_full_arena_refuses_and_freed_room_comes_back_wiped(void **state)
{
    (void)state;
    static struct secret *held[400];
    static uint8_t bytes[SECRET_MAX];
    memset(bytes, 0xa5, sizeof(bytes));
    size_t count = 0;
    while (count < COUNT_OF(held) && !FAULTED(secret_new(SPAN_ARRAY(bytes), &held[count]))) {
        count++;
    }
    assert_true(count >= 200 && count < COUNT_OF(held));
    const uint8_t *freed = secret_span(held[7]).at;
    secret_free(TAKE(held[7]));
    for (size_t i = 0; i < SECRET_MAX; i++) {
        assert_int_equal(freed[i], 0); /* still mapped: the arena stays */
    }
    assert_fault(secret_new(SPAN_ARRAY(bytes), &held[7]), NONE);
    for (size_t i = 0; i < count; i++) {
        assert_true(secret_equal(secret_span(held[i]), SPAN_ARRAY(bytes)));
        secret_free(held[i]);
    }
}

static void many_small_secrets_fit_and_stay_apart(void **state)
{
    (void)state;
    static struct secret *held[4000];
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        uint8_t bytes[32];
        memset(bytes, (int)(i & 0xff), sizeof(bytes));
        assert_fault(secret_new(SPAN_ARRAY(bytes), &held[i]), NONE);
    }
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        assert_int_equal(secret_span(held[i]).at[0], i & 0xff);
        assert_int_equal(secret_span(held[i]).at[31], i & 0xff);
        secret_free(held[i]);
    }
}

static void equality_needs_equal_lengths(void **state)
{
    (void)state;
    assert_false(secret_equal(span_text("abc"), span_text("ab")));
    assert_false(secret_equal(span_text("abc"), span_text("abd")));
    assert_true(secret_equal(span_text("abc"), span_text("abc")));
    assert_true(secret_equal((struct span){ 0 }, span_text("")));
}

static void random_secrets_differ(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *a = NULL, *b = NULL;
    assert_fault(secret_random(32, &a), NONE);
    assert_fault(secret_random(32, &b), NONE);
    assert_false(secret_equal(secret_span(a), secret_span(b)));
    assert_int_equal(secret_span(a).len, 32);
}

static struct fault make(void)
{
    CLEANUP(secret_freep) struct secret *secret = NULL;
    return secret_random(32, &secret);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(make) >= 1);
}

/* The arena may be memory that both processes share: what the child makes must not come to lie over the parent's. */
static void a_forked_child_has_an_arena_of_its_own(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *parents = NULL;
    int status = 0;
    assert_fault(secret_new(span_text("the parent's"), &parents), NONE);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct secret *childs = NULL;
        secret_forked();
        for (int i = 0; i < 2000; i++) { /* all over the arena, were it the parent's */
            if (FAULTED(secret_new(span_text("the child's, which is longer"), &childs))) {
                _exit(1);
            }
        }
        _exit(span_equal_text(secret_span(childs), "the child's, which is longer") ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_span_text(secret_span(parents), "the parent's");
}

static unsigned long locked_kib(void)
{
    CLEANUP(buf_free) struct buf status = BUF_INIT(65536);
    const char *text = NULL;
    if (FAULTED(file_read("/proc/self/status", &status)) || FAULTED(buf_cstr(&status, &text))) {
        return 0;
    }
    const char *line = strstr(text, "VmLck:");
    return line != NULL ? strtoul(line + 6, NULL, 10) : 0;
}

static bool maps_16_mib(void)
{
    void *at = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED;
}

/* In a child, since it is for life; 0 = as it should be. */
static int locks_all(void)
{
    bool locked = process_lock_memory();
    unsigned long before = locked_kib();
    return locked && maps_16_mib() && locked_kib() >= before + (16 << 10) ? 0 : 1;
}

static int locks_nothing_under_a_limit(void)
{
    const struct rlimit limit = { 1 << 20, 1 << 20 };
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setresuid(65534, 65534, 65534) != 0) {
        return 2;
    }
    return !process_lock_memory() && maps_16_mib() ? 0 : 1;
}

static int in_a_child(int (*body)(void))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(body());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_process_locks_all_of_its_memory_or_none(void **state)
{
    (void)state;
    if (geteuid() != 0 || SANITIZED) { /* sanitizers lock nothing: their shadow is larger than any machine */
        skip();
    }
    assert_int_equal(in_a_child(locks_nothing_under_a_limit), 0);
    assert_int_equal(in_a_child(locks_all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_others_can_read_are_refused),
        cmocka_unit_test(what_is_no_plain_file_is_refused),
        cmocka_unit_test(too_long_a_secret_is_refused),
        cmocka_unit_test(a_full_arena_refuses_and_freed_room_comes_back_wiped),
        cmocka_unit_test(a_private_file_is_read_without_its_newline),
        cmocka_unit_test(many_small_secrets_fit_and_stay_apart),
        cmocka_unit_test(equality_needs_equal_lengths),
        cmocka_unit_test(random_secrets_differ),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(a_forked_child_has_an_arena_of_its_own),
        cmocka_unit_test(a_process_locks_all_of_its_memory_or_none),
    };
    return cmocka_run_group_tests_name("secret", tests, make_folder, NULL);
}
