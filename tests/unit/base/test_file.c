#include "appliance/base/file.h"
#include "testlib.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/svc-file-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static const char *path_of(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_mode & 07777;
}

static void what_cannot_be_read_whole_leaves_the_buffer_as_it_was(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT(10);
    assert_fault(buf_text(&buf, "kept"), NONE);
    assert_fault(file_read(path_of("missing"), &buf), NOT_FOUND);
    assert_fault(file_read(path_of("missing/below"), &buf), NOT_FOUND);
    assert_fault(file_read(folder, &buf), IO);
    assert_fault(file_write(path_of("seven"), span_text("1234567"), 0600), NONE);
    assert_fault(file_read(path_of("seven"), &buf), TOO_LARGE);
    assert_span_text(buf_span(&buf), "kept");
    assert_fault(file_write(path_of("six"), span_text("123456"), 0600), NONE);
    assert_fault(file_read(path_of("six"), &buf), NONE);
    assert_span_text(buf_span(&buf), "kept123456");
}

static void a_failed_write_leaves_the_old_file_and_no_litter(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("alone"), 0700), 0);
    assert_int_equal(mkdir(path_of("alone/target"), 0700), 0);
    assert_fault(file_write(path_of("alone/target"), span_text("x"), 0600), IO); /* a folder cannot be replaced */
    assert_fault(file_write(path_of("nowhere/file"), span_text("x"), 0600), IO);
    DIR *dir = opendir(path_of("alone"));
    assert_non_null(dir);
    unsigned entries = 0;
    while (readdir(dir) != NULL) {
        entries++;
    }
    (void)closedir(dir);
    assert_int_equal(entries, 3); /* ".", ".." and the target */
}

static void a_write_replaces_whole_and_sets_the_mode(void **state)
{
    (void)state;
    mode_t old = umask(0077);
    assert_fault(file_write(path_of("file"), span_text("a long first text"), 0644), NONE);
    assert_int_equal(mode_of(path_of("file")), 0644);
    assert_fault(file_write(path_of("file"), span_text("short"), 0600), NONE);
    (void)umask(old);
    assert_int_equal(mode_of(path_of("file")), 0600);
    CLEANUP(buf_free) struct buf buf = BUF_INIT(100000);
    assert_fault(file_read(path_of("file"), &buf), NONE);
    assert_span_text(buf_span(&buf), "short");
}

static void long_files_come_back_whole(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf in = BUF_INIT(200000), out = BUF_INIT(200000);
    for (uint32_t i = 0; i < 50000; i++) {
        assert_fault(buf_u32(&in, i * 2654435761u), NONE);
    }
    assert_fault(file_write(path_of("long"), buf_span(&in), 0600), NONE);
    assert_fault(file_read(path_of("long"), &out), NONE);
    assert_true(span_equal(buf_span(&in), buf_span(&out)));
}

static void folders_are_made_with_their_mode_and_existing_ones_stay(void **state)
{
    (void)state;
    mode_t old = umask(0077);
    assert_fault(file_make_dirs(path_of("a/b/c"), 02750), NONE);
    (void)umask(old);
    assert_int_equal(mode_of(path_of("a")), 02750);
    assert_int_equal(mode_of(path_of("a/b/c")), 02750);
    assert_fault(file_make_dirs(path_of("a/b/c"), 0700), NONE);
    assert_int_equal(mode_of(path_of("a/b/c")), 02750);
    assert_fault(file_write(path_of("plain"), span_text("x"), 0600), NONE);
    assert_fault(file_make_dirs(path_of("plain/below"), 0700), IO);
    assert_fault(file_make_dirs(path_of("plain"), 0700), IO);
    assert_fault(file_make_dirs("/", 0700), NONE);
    assert_fault(file_make_dirs("", 0700), BAD_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_read_whole_leaves_the_buffer_as_it_was),
        cmocka_unit_test(a_failed_write_leaves_the_old_file_and_no_litter),
        cmocka_unit_test(a_write_replaces_whole_and_sets_the_mode),
        cmocka_unit_test(long_files_come_back_whole),
        cmocka_unit_test(folders_are_made_with_their_mode_and_existing_ones_stay),
    };
    return cmocka_run_group_tests_name("file", tests, make_folder, NULL);
}
