/* What a device holds, by its first bytes. */
#include "testlib.h"

#include "appliance/machine/disks.h"

#include <string.h>

static uint8_t head[DISK_PROBE_BYTES];
static char label[DISK_FS_LABEL_MAX + 1];

static enum disk_fs probe(size_t len)
{
    return disk_probe(span_of(head, len), label);
}

static void put(size_t at, const char *bytes, size_t len)
{
    memcpy(head + at, bytes, len);
}

static int clear(void **state)
{
    (void)state;
    memset(head, 0, sizeof(head));
    memset(label, 0, sizeof(label));
    return 0;
}

static void put_fat32(const char *eleven)
{
    put(510, "\x55\xaa", 2);
    put(0x52, "FAT32   ", 8);
    put(0x47, eleven, 11);
}

static void nothing_and_short_reads_are_no_file_system(void **state)
{
    (void)state;
    assert_int_equal(probe(0), DISK_FS_NONE);
    assert_int_equal(probe(sizeof(head)), DISK_FS_NONE);
    put_fat32("SVC-PROVISI");
    for (size_t len = 0; len < 512; len++) {
        assert_int_equal(probe(len), DISK_FS_NONE);
    }
    put(510, "\0\0", 2);
    assert_int_equal(probe(sizeof(head)), DISK_FS_NONE);
}

static void a_label_that_does_not_print_is_none(void **state)
{
    (void)state;
    put_fat32("SVC\x01PROVISI");
    assert_int_equal(probe(sizeof(head)), DISK_FS_NONE);
}

static void each_kind_tells_its_label_without_the_blanks_behind(void **state)
{
    (void)state;
    put_fat32("SVC-UPDATE ");
    assert_int_equal(probe(sizeof(head)), DISK_FS_VFAT);
    assert_string_equal(label, "SVC-UPDATE");
    put(0x52, "\0\0\0\0\0\0\0\0", 8);
    put(0x36, "FAT16   ", 8);
    put(0x2b, "SIXTEEN    ", 11);
    assert_int_equal(probe(sizeof(head)), DISK_FS_VFAT);
    assert_string_equal(label, "SIXTEEN");
    put(32768 + 1, "CD001", 5);
    put(32768 + 40, "SVC-PROVISION                   ", 32);
    assert_int_equal(probe(sizeof(head)), DISK_FS_ISO9660); /* though it has a boot sector, too */
    assert_string_equal(label, "SVC-PROVISION");
    put(1024 + 0x38, "\x53\xef", 2);
    put(1024 + 0x78, "sixteen-letters!", 16);
    assert_int_equal(probe(sizeof(head)), DISK_FS_EXT4);
    assert_string_equal(label, "sixteen-letters!");
    assert_string_equal(disk_fs_text(DISK_FS_EXT4), "ext4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_and_short_reads_are_no_file_system, clear),
        cmocka_unit_test_setup(a_label_that_does_not_print_is_none, clear),
        cmocka_unit_test_setup(each_kind_tells_its_label_without_the_blanks_behind, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
