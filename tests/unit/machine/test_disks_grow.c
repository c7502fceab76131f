/* The partition table of a disk that is larger than its image, on a plain file. */
#include "testlib.h"

#include "appliance/machine/disks_grow.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL 65536UL /* sectors */
#define LARGE 200000UL

static int fd = -1;
static char made[64];
static struct op *op;

static void number(uint8_t *at, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes; i++, value >>= 8) {
        at[i] = (uint8_t)value;
    }
}

/* The checksum as the standard's table-driven form has it, not as the code under test computes it. */
static uint32_t checksum(const uint8_t *at, size_t len)
{
    static uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t row = i;
        for (int bit = 0; bit < 8; bit++) {
            row = (row & 1) != 0 ? row >> 1 ^ 0xedb88320U : row >> 1;
        }
        table[i] = row;
    }
    uint32_t crc = 0xffffffffU;
    for (size_t i = 0; i < len; i++) {
        crc = table[(crc ^ at[i]) & 0xff] ^ crc >> 8;
    }
    return crc ^ 0xffffffffU;
}

static uint8_t entries[128 * 128];

static void header(uint64_t own, uint64_t other, uint64_t table)
{
    uint8_t sector[512] = "EFI PART";
    number(sector + 8, 4, 0x10000);
    number(sector + 12, 4, 92);
    number(sector + 24, 8, own);
    number(sector + 32, 8, other);
    number(sector + 40, 8, 34);
    number(sector + 48, 8, SMALL - 34);
    number(sector + 72, 8, table);
    number(sector + 80, 4, 128);
    number(sector + 84, 4, 128);
    number(sector + 88, 4, checksum(entries, sizeof(entries)));
    number(sector + 16, 4, checksum(sector, 92));
    assert_int_equal(pwrite(fd, sector, sizeof(sector), (off_t)(own * 512)), sizeof(sector));
    assert_int_equal(pwrite(fd, entries, sizeof(entries), (off_t)(table * 512)), sizeof(entries));
}

static void entry(size_t index, uint64_t start, uint64_t end)
{
    memset(entries + index * 128, 0x5a, 32);
    number(entries + index * 128 + 32, 8, start);
    number(entries + index * 128 + 40, 8, end);
}

/* Header at `at`: whole, with its entries, and pointing to `other`. */
static void assert_copy(uint64_t at, uint64_t other)
{
    uint8_t sector[512], crc[4], zero[4] = { 0 }, table[sizeof(entries)], want[8];
    assert_int_equal(pread(fd, sector, sizeof(sector), (off_t)(at * 512)), sizeof(sector));
    memcpy(crc, sector + 16, 4);
    memcpy(sector + 16, zero, 4);
    number(want, 4, checksum(sector, 92));
    assert_memory_equal(crc, want, 4);
    number(want, 8, other);
    assert_memory_equal(sector + 32, want, 8);
    uint64_t place = (uint64_t)sector[72] | (uint64_t)sector[73] << 8 | (uint64_t)sector[74] << 16;
    assert_int_equal(pread(fd, table, sizeof(table), (off_t)(place * 512)), sizeof(table));
    number(want, 4, checksum(table, sizeof(table)));
    assert_memory_equal(sector + 88, want, 4);
}

static int setup(void **state)
{
    (void)state;
    char path[] = "/tmp/gpt-XXXXXX";
    fd = mkstemp(path);
    assert_true(fd >= 0 && ftruncate(fd, SMALL * 512) == 0);
    memset(entries, 0, sizeof(entries));
    entry(0, 2048, 6143);
    entry(1, 6144, 6144 + 8191);
    header(1, SMALL - 1, 2);
    header(SMALL - 1, 1, SMALL - 33);
    (void)snprintf(made, sizeof(made), "%s", path);
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 60000, &op), NONE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)close(fd);
    (void)unlink(made);
    op_free(TAKE(op));
    return 0;
}

static uint64_t start, count;

static struct fault grow(uint64_t sectors, unsigned number)
{
    op->note = (struct fault_note){ 0 };
    return gpt_grow(op, fd, sectors, number, &start, &count);
}

static void a_damaged_table_is_left_alone(void **state)
{
    (void)state;
    char byte;
    assert_int_equal(pread(fd, &byte, 1, 1024 + 40), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 1024 + 40), 1);
    assert_fault(grow(LARGE, 2), UNSUPPORTED);
    assert_int_equal(pwrite(fd, "EFI PARK", 8, 512), 8);
    assert_fault(grow(LARGE, 2), UNSUPPORTED);
}

static void a_partition_that_is_not_the_last_stays(void **state)
{
    (void)state;
    assert_fault(grow(SMALL, 1), CONFLICT);
    assert_fault(grow(SMALL, 3), UNSUPPORTED);
    assert_fault(grow(SMALL, 0), BAD_ARGUMENT);
}

/* Whatever was written before the header's one sector does not count: the table before still reads. */
static void a_power_cut_before_the_last_write_leaves_the_former_table(void **state)
{
    (void)state;
    uint8_t header[512];
    assert_int_equal(pread(fd, header, sizeof(header), 512), sizeof(header));
    assert_int_equal(ftruncate(fd, LARGE * 512), 0);
    assert_fault(grow(LARGE, 2), NONE);
    assert_int_equal(pwrite(fd, header, sizeof(header), 512), sizeof(header));
    assert_fault(grow(6144 + 8192 + 34, 2), NONE); /* nothing to gain: read only */
    assert_int_equal(count, 8192);
}

static void the_last_partition_grows_to_the_end_and_again(void **state)
{
    (void)state;
    assert_fault(grow(SMALL, 2), NONE);
    assert_int_equal(start, 6144);
    assert_int_equal((start + count) % 2048, 0);
    assert_true(start + count > SMALL - 2048 - 34 && start + count <= SMALL - 33);
    assert_int_equal(ftruncate(fd, LARGE * 512), 0);
    assert_fault(grow(LARGE, 2), NONE);
    assert_true(start + count > LARGE - 2048 - 34 && start + count <= LARGE - 33);
    uint64_t grown = count;
    assert_fault(grow(LARGE, 2), NONE);
    assert_int_equal(count, grown);
    assert_copy(1, LARGE - 1);
    assert_copy(LARGE - 1, 1);
    const char *keep = getenv("SVC_TEST_GPT"); /* for another program's judgement */
    if (keep != NULL) {
        (void)rename(made, keep);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_damaged_table_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_partition_that_is_not_the_last_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_power_cut_before_the_last_write_leaves_the_former_table, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_partition_grows_to_the_end_and_again, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
