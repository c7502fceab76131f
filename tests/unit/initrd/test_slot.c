/* What svc-initrd reads before anything is verified: the command line and the slots' footers. */
#include "testlib.h"

#include "appliance/initrd/files.h"
#include "appliance/initrd/release.h"
#include "appliance/initrd/slot.h"

#include <stdio.h>
#include <string.h>

#define HASH "e82d347b6782954ce5863e59c783383fb2502fd46c7f2ec0f268b508f8dbbb6b"
#define SALT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LINE "console=ttyS0 svc.version=1.2.3 svc.roothash=" HASH " svc.blocks=10000 svc.salt=" SALT "\n"

static const struct release RELEASE = { .version = "1.2.3", .roothash = HASH, .salt = SALT, .blocks = 10000 };

static void refused(const char *line, const char *want)
{
    struct release release = { .blocks = 7 };
    const char *what = "";
    assert_false(release_parse(line, &release, &what));
    assert_string_equal(what, want);
    assert_int_equal(release.blocks, 7); /* written on success only */
}

static void a_command_line_without_all_four_values_is_refused_by_name(void **state)
{
    (void)state;
    refused("", "svc.version");
    refused("svc.version=1 svc.blocks=1 svc.salt=" SALT, "svc.roothash");
    refused("svc.version=1 svc.roothash=" HASH " svc.blocks=1", "svc.salt");
    refused("svc.version=1 svc.roothash=" HASH " svc.salt=" SALT, "svc.blocks");
}

static void a_value_that_stands_twice_is_refused(void **state)
{
    (void)state;
    refused(LINE " svc.roothash=" HASH, "svc.roothash");
    refused("svc.blocks=1 " LINE, "svc.blocks");
}

static void a_root_hash_that_is_no_lower_case_sha256_is_refused(void **state)
{
    (void)state;
    refused("svc.version=1 svc.blocks=1 svc.salt=" SALT " svc.roothash=E82D347b6782954ce5863e59c783383fb2502fd46c7f2ec0"
            "f268b508f8dbbb6b",
            "svc.roothash");
    refused("svc.version=1 svc.blocks=1 svc.salt=" SALT " svc.roothash=e82d", "svc.roothash");
    refused("svc.version=1 svc.blocks=1 svc.salt=" SALT " svc.roothash=" HASH "00", "svc.roothash");
    refused("svc.version=1 svc.blocks=1 svc.roothash=" HASH " svc.salt=-", "svc.salt");
}

static void block_counts_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const counts[] = { "0", "-1", "+1", "1x", "0x10", "4294967297", "99999999999999999999", "1.5" };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char line[512];
        (void)snprintf(line, sizeof(line), "svc.version=1 svc.roothash=" HASH " svc.salt=" SALT " svc.blocks=%s",
                       counts[i]);
        refused(line, "svc.blocks");
    }
}

static void the_command_line_of_a_release_is_read(void **state)
{
    (void)state;
    struct release release = { 0 };
    const char *what = NULL;
    assert_true(release_parse(LINE, &release, &what));
    assert_string_equal(release.version, "1.2.3");
    assert_string_equal(release.roothash, HASH);
    assert_string_equal(release.salt, SALT);
    assert_int_equal(release.blocks, 10000);
}

static void a_key_is_found_whole_and_nowhere_inside_another(void **state)
{
    (void)state;
    char value[8] = "";
    assert_false(text_value("xab=1 ab =2 ab", " ", "ab", value, sizeof(value)));
    assert_false(text_value("ab=", " ", "ab", value, sizeof(value)));
    assert_false(text_value("ab=12345678", " ", "ab", value, sizeof(value))); /* does not fit */
    assert_string_equal(value, "");
    assert_true(text_value("xab=1 ab=1234567", " ", "ab", value, sizeof(value)));
    assert_string_equal(value, "1234567");
}

static bool footer_names(const char *text, uint64_t sectors)
{
    char footer[SLOT_FOOTER] = { 0 };
    memcpy(footer, text, strlen(text));
    return slot_footer_names(footer, sectors, &RELEASE);
}

#define FOOTER "SVCROOT1\nversion=1.2.3\nroothash=" HASH "\nblocks=10000\nsalt=" SALT "\n"
#define ENOUGH 160000 /* sectors: twice what the data takes */

static void footers_of_nothing_and_of_other_releases_do_not_name_it(void **state)
{
    (void)state;
    assert_false(footer_names("", ENOUGH));
    assert_false(footer_names(&FOOTER[1], ENOUGH));
    assert_false(footer_names("SVCROOT2\nroothash=" HASH "\n", ENOUGH));
    assert_false(footer_names("SVCROOT1\nversion=1.2.3\n", ENOUGH));
    assert_false(footer_names("SVCROOT1\nversion=1.2.3\nroothash=" SALT "\n", ENOUGH));
    assert_false(footer_names("SVCROOT1\nroothash=" HASH "\nroothash=" HASH "\n", ENOUGH));
    char full[SLOT_FOOTER];
    memset(full, 'x', sizeof(full)); /* no NUL in it: nothing is read behind its end */
    memcpy(full, SLOT_MAGIC, strlen(SLOT_MAGIC));
    assert_false(slot_footer_names(full, ENOUGH, &RELEASE));
}

static void a_slot_without_room_for_the_tree_is_not_taken(void **state)
{
    (void)state;
    assert_false(footer_names(FOOTER, 8 * RELEASE.blocks));
    assert_true(footer_names(FOOTER, 8 * RELEASE.blocks + 8));
    assert_true(footer_names(FOOTER, ENOUGH));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_line_without_all_four_values_is_refused_by_name),
        cmocka_unit_test(a_value_that_stands_twice_is_refused),
        cmocka_unit_test(a_root_hash_that_is_no_lower_case_sha256_is_refused),
        cmocka_unit_test(block_counts_that_are_none_are_refused),
        cmocka_unit_test(the_command_line_of_a_release_is_read),
        cmocka_unit_test(a_key_is_found_whole_and_nowhere_inside_another),
        cmocka_unit_test(footers_of_nothing_and_of_other_releases_do_not_name_it),
        cmocka_unit_test(a_slot_without_room_for_the_tree_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
