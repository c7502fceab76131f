/* The partition table that grows with its disk. */
#include "testlib.h"

#include "appliance/initrd/gpt.h"

#include <string.h>

#define MIB            2048 /* sectors */
#define OLD_SECTORS    (8 * MIB)
#define STATE_START    (3 * MIB)
#define HEADER_CRC_END 92

static uint32_t slow_crc(const uint8_t *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        for (int bit = 0; bit < 8; bit++) {
            uint32_t in = (crc ^ (uint32_t)bytes[i] >> bit) & 1;
            crc = crc >> 1 ^ (in ? 0xedb88320u : 0);
        }
    }
    return ~crc;
}

static void put(uint8_t *at, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes; i++, value >>= 8) {
        at[i] = (uint8_t)value;
    }
}

static uint64_t get(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    while (bytes > 0) {
        value = value << 8 | at[--bytes];
    }
    return value;
}

static void add(struct gpt *gpt, size_t at, const char *name, uint64_t first, uint64_t last)
{
    uint8_t *entry = gpt->entries + 128 * at;
    memset(entry, 0x11, 32);
    put(entry + 32, 8, first);
    put(entry + 40, 8, last);
    for (size_t i = 0; name[i] != '\0'; i++) {
        entry[56 + 2 * i] = (uint8_t)name[i];
    }
}

static void seal(struct gpt *gpt)
{
    put(gpt->header + 88, 4, slow_crc(gpt->entries, sizeof(gpt->entries)));
    put(gpt->header + 16, 4, 0);
    put(gpt->header + 16, 4, slow_crc(gpt->header, HEADER_CRC_END));
}

static struct gpt table(void)
{
    struct gpt gpt = { 0 };
    memcpy(gpt.header, "EFI PART\0\0\1\0", 12);
    put(gpt.header + 12, 4, 92);
    put(gpt.header + 24, 8, 1);
    put(gpt.header + 32, 8, OLD_SECTORS - 1);
    put(gpt.header + 40, 8, 34);
    put(gpt.header + 48, 8, OLD_SECTORS - 34);
    put(gpt.header + 72, 8, 2);
    put(gpt.header + 80, 4, 128);
    put(gpt.header + 84, 4, 128);
    add(&gpt, 0, "svc-root-a", MIB, STATE_START - 1);
    add(&gpt, 2, "svc-state", STATE_START, 7 * MIB - 1);
    seal(&gpt);
    return gpt;
}

static void refused(const struct gpt *gpt, uint64_t sectors)
{
    static struct gpt_grown grown;
    grown.number = 77;
    assert_false(gpt_grow(gpt, sectors, "svc-state", &grown));
    assert_int_equal(grown.number, 77);
}

static void a_disk_that_is_as_big_as_its_table_or_smaller_is_left_alone(void **state)
{
    (void)state;
    struct gpt gpt = table();
    refused(&gpt, OLD_SECTORS);
    refused(&gpt, OLD_SECTORS + 32); /* with one sector more another MiB is free */
    refused(&gpt, 0);
    refused(&gpt, UINT64_MAX);
}

static void a_table_with_a_changed_byte_is_left_alone(void **state)
{
    (void)state;
    static const size_t places[] = { 0, 8, 12, 16, 24, 48, 56, 72, 80, 84, 88 };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct gpt gpt = table();
        gpt.header[places[i]] ^= 1;
        refused(&gpt, (uint64_t)4 * OLD_SECTORS);
    }
    struct gpt gpt = table();
    gpt.entries[sizeof(gpt.entries) - 1] ^= 1;
    refused(&gpt, (uint64_t)4 * OLD_SECTORS);
}

static void a_table_that_ends_with_another_partition_is_left_alone(void **state)
{
    (void)state;
    struct gpt gpt = table();
    add(&gpt, 1, "backup", 7 * MIB, 7 * MIB + 100);
    seal(&gpt);
    refused(&gpt, (uint64_t)4 * OLD_SECTORS);
    gpt = table();
    add(&gpt, 2, "svc-state2", STATE_START, 7 * MIB - 1);
    seal(&gpt);
    refused(&gpt, (uint64_t)4 * OLD_SECTORS);
    gpt = table();
    memset(gpt.entries, 0, sizeof(gpt.entries));
    seal(&gpt);
    refused(&gpt, (uint64_t)4 * OLD_SECTORS);
}

static void the_state_takes_what_a_bigger_disk_has_and_both_tables_say_so(void **state)
{
    (void)state;
    struct gpt gpt = table();
    static struct gpt_grown grown;
    const uint64_t sectors = (uint64_t)100 * MIB + 7;
    assert_true(gpt_grow(&gpt, sectors, "svc-state", &grown));
    assert_int_equal(grown.number, 3);
    assert_int_equal(grown.start, STATE_START);
    assert_int_equal(grown.sectors, 99 * MIB - STATE_START);
    assert_int_equal(grown.last_header, sectors - 1);
    assert_int_equal(get(grown.first.header + 24, 8), 1);
    assert_int_equal(get(grown.first.header + 32, 8), sectors - 1);
    assert_int_equal(get(grown.first.header + 48, 8), sectors - 34);
    assert_int_equal(get(grown.last.header + 24, 8), sectors - 1);
    assert_int_equal(get(grown.last.header + 32, 8), 1);
    assert_int_equal(get(grown.last.header + 72, 8), sectors - 33);
    assert_memory_equal(grown.first.entries, grown.last.entries, sizeof(grown.first.entries));
    assert_int_equal(get(grown.first.entries + 256 + 40, 8), 99 * MIB - 1);
    struct gpt sealed[] = { grown.first, grown.last };
    for (size_t i = 0; i < 2; i++) {
        seal(&sealed[i]);
    }
    assert_memory_equal(&sealed[0], &grown.first, sizeof(sealed[0]));
    assert_memory_equal(&sealed[1], &grown.last, sizeof(sealed[1]));
    refused(&grown.first, sectors); /* once is enough */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_that_is_as_big_as_its_table_or_smaller_is_left_alone),
        cmocka_unit_test(a_table_with_a_changed_byte_is_left_alone),
        cmocka_unit_test(a_table_that_ends_with_another_partition_is_left_alone),
        cmocka_unit_test(the_state_takes_what_a_bigger_disk_has_and_both_tables_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
