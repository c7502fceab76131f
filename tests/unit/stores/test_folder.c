#include "unit/stores/testlib.h"

#include "appliance/stores/folder.h"

#include <fcntl.h>

static const char *inside(struct scratch *scratch, const char *name)
{
    const char *path = NULL;
    assert_fault(folder_path(scratch->op, scratch->dir, name, &path), NONE);
    return path;
}

static void a_link_in_place_of_a_folder_is_refused_and_not_followed(void **state)
{
    struct scratch *scratch = *state;
    const char *target = inside(scratch, "target"), *link = inside(scratch, "link");
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(symlink(target, link), 0);
    assert_fault(folder_own(scratch->op, link, "svc-pg", NULL, 0777), CONFIG);
    struct stat about;
    assert_int_equal(stat(target, &about), 0);
    assert_int_equal(about.st_uid, 0);
    assert_int_equal(about.st_mode & 07777, 0700);
}

static void a_file_in_place_of_a_folder_is_refused(void **state)
{
    struct scratch *scratch = *state;
    const char *path = inside(scratch, "file");
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_fault(folder_own(scratch->op, path, NULL, NULL, 0700), CONFIG);
}

static void a_folder_gets_its_owner_group_and_mode_also_the_second_time(void **state)
{
    struct scratch *scratch = *state;
    const char *path = inside(scratch, "owned");
    for (int i = 0; i < 2; i++) {
        assert_fault(folder_own(scratch->op, path, "svc-signer", "svc-api", 02750), NONE);
        struct stat about;
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_uid, 642);
        assert_int_equal(about.st_gid, 643);
        assert_int_equal(about.st_mode & 07777, 02750);
        assert_int_equal(chmod(path, 0777), 0);
    }
}

static void removing_takes_all_but_follows_no_link(void **state)
{
    struct scratch *scratch = *state;
    const char *path = inside(scratch, "tree"), *kept = inside(scratch, "kept");
    char command[512];
    (void)snprintf(command, sizeof(command),
                   "mkdir -p %s/a/b %s && touch %s/a/b/c %s/file && ln -s %s %s/a/link && chown -R svc-pg %s", path,
                   kept, path, kept, kept, path, path);
    assert_int_equal(system(command), 0);
    assert_fault(folder_remove(scratch->op, path, "svc-pg"), NONE);
    assert_false(path_exists(path));
    (void)snprintf(command, sizeof(command), "%s/file", kept);
    assert_true(path_exists(command));
    assert_fault(folder_remove(scratch->op, path, "svc-pg"), NONE); /* nothing there is fine */
}

static void removing_does_not_use_more_rights_than_the_users(void **state)
{
    struct scratch *scratch = *state;
    const char *path = inside(scratch, "tree");
    char command[512];
    (void)snprintf(command, sizeof(command), "mkdir -p %s/roots && touch %s/roots/file && chown svc-pg %s", path, path,
                   path);
    assert_int_equal(system(command), 0);
    assert_fault(folder_remove(scratch->op, path, "svc-pg"), IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_link_in_place_of_a_folder_is_refused_and_not_followed),
        scratch_test(a_file_in_place_of_a_folder_is_refused),
        scratch_test(a_folder_gets_its_owner_group_and_mode_also_the_second_time),
        scratch_test(removing_takes_all_but_follows_no_link),
        scratch_test(removing_does_not_use_more_rights_than_the_users),
    };
    return cmocka_run_group_tests_name("folder", tests, NULL, NULL);
}
