/* What is archived, and the files that it goes into. */
#include "testlib.h"

#include "api/audit/archive.h"
#include "appliance/base/file.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- choosing ---- */

static struct archive_row row(int64_t sequence, int64_t stream_seq, utc_us time)
{
    return (struct archive_row){ .sequence = sequence, .stream_seq = stream_seq, .bytes = 100, .time = time };
}

static void nothing_young_is_chosen(void **state)
{
    (void)state;
    const struct archive_row rows[] = { row(1, 1, 50), row(2, 2, 60) };
    assert_int_equal(archive_choose(rows, 0, 100), 0);
    assert_int_equal(archive_choose(rows, 2, 50), 0);
    assert_int_equal(archive_choose(rows, 2, 10), 0);
}

static void only_a_prefix_is_chosen_whatever_the_clock_did(void **state)
{
    (void)state;
    const struct archive_row rows[] = { row(1, 1, 50), row(2, 2, 200), row(3, 3, 60), row(4, 4, 70) };
    assert_int_equal(archive_choose(rows, COUNT_OF(rows), 100), 1);
}

static void a_message_is_never_split(void **state)
{
    (void)state;
    struct archive_row rows[] = { row(1, 1, 50), row(2, 2, 50), row(3, 2, 50), row(4, 2, 50), row(5, 3, 50) };
    rows[3].time = 200; /* not the log's doing: all of one message have one time */
    assert_int_equal(archive_choose(rows, COUNT_OF(rows), 100), 1);
    rows[0].stream_seq = 2;
    assert_int_equal(archive_choose(rows, COUNT_OF(rows), 100), 0);
}

static void a_segment_has_an_end(void **state)
{
    (void)state;
    static struct archive_row rows[ARCHIVE_RECORDS_MAX + 1];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i] = row((int64_t)i + 1, (int64_t)(i / 3) + 1, 50);
    }
    assert_int_equal(archive_choose(rows, COUNT_OF(rows), 100), ARCHIVE_RECORDS_MAX / 3 * 3);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i].bytes = ARCHIVE_BYTES_MAX / 10;
    }
    assert_int_equal(archive_choose(rows, COUNT_OF(rows), 100), 9);
}

static void what_archiving_recorded_itself_waits_for_something_else(void **state)
{
    (void)state;
    struct archive_row rows[] = { row(1, 1, 50), row(2, 2, 50) };
    rows[0].own = rows[1].own = true;
    assert_int_equal(archive_choose(rows, COUNT_OF(rows), 100), 0);
    rows[1].own = false;
    assert_int_equal(archive_choose(rows, COUNT_OF(rows), 100), 2);
}

static void a_name_has_one_form(void **state)
{
    (void)state;
    static const char *const wrong[] = { "",
                                         "audit-.jws",
                                         "audit-0.jws",
                                         "audit-01.jws",
                                         "audit-1.jws.new",
                                         "audit-a.jws",
                                         "audit--1.jws",
                                         ".audit-1.jws",
                                         "audit-1.jwt",
                                         "audit-1000000000000000000.jws" };
    char name[ARCHIVE_NAME_MAX];
    int64_t sequence = 0;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_false(archive_name_read(wrong[i], &sequence));
    }
    archive_name(120, name);
    assert_string_equal(name, "audit-120.jws");
    assert_true(archive_name_read(name, &sequence));
    assert_int_equal(sequence, 120);
}

/* ---- files ---- */

struct place {
    char dir[64];
    struct op *op;
};

static int set_up(void **state)
{
    static struct place place;
    (void)snprintf(place.dir, sizeof(place.dir), "/tmp/archive-XXXXXX");
    assert_non_null(mkdtemp(place.dir));
    assert_fault(op_new("test", (struct tenant_id){ "acme" }, 10000, &place.op), NONE);
    *state = &place;
    return 0;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat, (void)kind, (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    struct place *place = *state;
    op_free(place->op);
    return nftw(place->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int open_folder(struct place *place)
{
    int folder = -1;
    assert_fault(archive_folder_open(place->op, place->dir, &folder), NONE);
    return folder;
}

static void a_folder_that_others_may_write_to_is_refused(void **state)
{
    struct place *place = *state;
    int folder = -1;
    char path[128];
    assert_int_equal(chmod(place->dir, 0770), 0);
    assert_fault(archive_folder_check(place->op, place->dir), AUDIT_ARCHIVE_DIR);
    assert_int_equal(chmod(place->dir, 0700), 0);
    assert_fault(archive_folder_check(place->op, place->dir), NONE);
    (void)snprintf(path, sizeof(path), "%s/missing", place->dir);
    assert_fault(archive_folder_check(place->op, path), AUDIT_ARCHIVE_DIR);
    (void)snprintf(path, sizeof(path), "%s/acme", place->dir);
    assert_int_equal(symlink("/tmp", path), 0); /* in the tenant's place */
    assert_fault(archive_folder_open(place->op, place->dir, &folder), AUDIT_ARCHIVE_DIR);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_fault(archive_folder_open(place->op, place->dir, &folder), AUDIT_ARCHIVE_DIR);
}

static void a_file_is_written_once_and_for_its_owner_alone(void **state)
{
    struct place *place = *state;
    CLEANUP(fd_closep) int folder = open_folder(place);
    CLEANUP(buf_free) struct buf back = BUF_INIT(1024);
    struct stat status;
    (void)umask(0);
    assert_fault(archive_file_write(place->op, folder, "audit-3.jws", span_text("abc")), NONE);
    assert_int_equal(fstatat(folder, "audit-3.jws", &status, 0), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_fault(archive_file_write(place->op, folder, "audit-3.jws", span_text("other")), AUDIT_ARCHIVE_DIR);
    assert_fault(archive_file_read(place->op, folder, "audit-3.jws", &back), NONE);
    assert_true(span_equal_text(buf_span(&back), "abc"));
    assert_string_equal(archive_file_state(place->dir, "acme/audit-3.jws", 3), "present");
    assert_string_equal(archive_file_state(place->dir, "acme/audit-3.jws", 4), "size_differs");
    assert_string_equal(archive_file_state(place->dir, "acme/audit-4.jws", 4), "missing");
    assert_string_equal(archive_file_state("", "acme/audit-3.jws", 3), "unknown");
}

static void what_is_no_file_of_ours_is_not_read(void **state)
{
    struct place *place = *state;
    CLEANUP(fd_closep) int folder = open_folder(place);
    CLEANUP(buf_free) struct buf back = BUF_INIT(1024);
    assert_fault(archive_file_read(place->op, folder, "audit-1.jws", &back), AUDIT_ARCHIVE_INVALID);
    assert_int_equal(symlinkat("/etc/passwd", folder, "audit-1.jws"), 0);
    assert_fault(archive_file_read(place->op, folder, "audit-1.jws", &back), AUDIT_ARCHIVE_INVALID);
    assert_int_equal(mkfifoat(folder, "audit-2.jws", 0600), 0);
    assert_fault(archive_file_read(place->op, folder, "audit-2.jws", &back), AUDIT_ARCHIVE_INVALID);
    assert_fault(archive_file_write(place->op, folder, "audit-3.jws", span_text("abc")), NONE);
    assert_int_equal(fchmodat(folder, "audit-3.jws", 0644, 0), 0);
    assert_fault(archive_file_read(place->op, folder, "audit-3.jws", &back), AUDIT_ARCHIVE_INVALID);
    assert_int_equal(back.len, 0);
}

static void what_a_writer_left_is_found_or_swept(void **state)
{
    struct place *place = *state;
    CLEANUP(fd_closep) int folder = open_folder(place);
    int64_t sequence = 7;
    assert_fault(archive_folder_sweep(place->op, folder), NONE);
    (void)close(openat(folder, ".audit-archive.new", O_WRONLY | O_CREAT, 0600));
    assert_fault(archive_folder_sweep(place->op, folder), NONE);
    assert_fault(archive_file_find(place->op, folder, 0, &sequence), NONE);
    assert_int_equal(sequence, 0);
    static const char *const names[] = { "audit-5.jws", "audit-30.jws", "audit-12.jws", "audit-40.jws.new" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_fault(archive_file_write(place->op, folder, names[i], span_text("x")), NONE);
    }
    assert_fault(archive_file_find(place->op, folder, 0, &sequence), NONE);
    assert_int_equal(sequence, 5);
    assert_fault(archive_file_find(place->op, folder, 5, &sequence), NONE);
    assert_int_equal(sequence, 12);
    assert_fault(archive_file_find(place->op, folder, 30, &sequence), NONE);
    assert_int_equal(sequence, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_young_is_chosen),
        cmocka_unit_test(only_a_prefix_is_chosen_whatever_the_clock_did),
        cmocka_unit_test(a_message_is_never_split),
        cmocka_unit_test(a_segment_has_an_end),
        cmocka_unit_test(what_archiving_recorded_itself_waits_for_something_else),
        cmocka_unit_test(a_name_has_one_form),
        cmocka_unit_test_setup_teardown(a_folder_that_others_may_write_to_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_is_written_once_and_for_its_owner_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_file_of_ours_is_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_writer_left_is_found_or_swept, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
