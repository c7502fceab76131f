#include "signer-pkcs11/broker/crc32c.h"
#include "signer-pkcs11/broker/index.h"
#include "signer-pkcs11/broker/segment.h"
#include "testlib.h"

static void id_of(unsigned n, uint8_t out[16])
{
    memset(out, 0, 16);
    memcpy(out, &n, sizeof(n));
}

static bool found(const struct index *index, unsigned n, uint32_t place)
{
    uint8_t id[16];
    uint32_t places[INDEX_CANDIDATES_MAX];
    id_of(n, id);
    size_t count = index_find(index, id, places);
    for (size_t i = 0; i < count; i++) {
        if (places[i] == place) {
            return true;
        }
    }
    return false;
}

static struct fault fill_some(void)
{
    CLEANUP(index_clear) struct index index = { 0 };
    TRY(index_init(&index));
    for (unsigned n = 0; n < 3000; n++) {
        uint8_t id[16];
        id_of(n, id);
        size_t size = index.size;
        struct fault fault = index_reserve(&index, 1);
        if (FAULTED(fault)) {
            BUG_IF(index.size != size || index.used != n || (n > 0 && !found(&index, n - 1, n)));
            return fault;
        }
        index_put(&index, id, n + 1);
    }
    return OK;
}

static void no_memory_leaves_the_index_as_it_was(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(fill_some) >= 2);
}

static void an_empty_index_finds_nothing(void **state)
{
    (void)state;
    CLEANUP(index_clear) struct index index = { 0 };
    assert_fault(index_init(&index), NONE);
    assert_false(found(&index, 1, 1));
    assert_fault(index_reserve(&index, 1), NONE);
    assert_false(found(&index, 1, 1));
}

static void every_id_is_found_however_the_table_grew(void **state)
{
    (void)state;
    CLEANUP(index_clear) struct index index = { 0 };
    const unsigned count = 200000;
    assert_fault(index_init(&index), NONE);
    for (unsigned n = 0; n < count; n++) {
        uint8_t id[16];
        id_of(n, id);
        assert_fault(index_reserve(&index, 1), NONE);
        index_put(&index, id, n + 1);
    }
    unsigned others = 0;
    for (unsigned n = 0; n < count; n++) {
        assert_true(found(&index, n, n + 1));
        uint8_t id[16];
        uint32_t places[INDEX_CANDIDATES_MAX];
        id_of(n + count, id);
        others += index_find(&index, id, places) > 0;
    }
    assert_true(others < 200); /* a hash of 32 bits: some 10 of 200000 strangers look like one of 200000 ids */
    assert_true(index.size * sizeof(uint64_t) <= (size_t)count * 22);
}

static void crc_is_castagnolis(void **state)
{
    (void)state;
    static const uint8_t zeros[32];
    uint8_t ones[32], rising[32];
    for (size_t i = 0; i < 32; i++) {
        ones[i] = 0xff;
        rising[i] = (uint8_t)i;
    }
    /* RFC 3720 B.4, and the usual check value */
    assert_int_equal(crc32c(0, SPAN_ARRAY(zeros)), 0x8a9136aa);
    assert_int_equal(crc32c(0, SPAN_ARRAY(ones)), 0x62a8ab43);
    assert_int_equal(crc32c(0, SPAN_ARRAY(rising)), 0x46dd794e);
    assert_int_equal(crc32c(0, span_text("123456789")), 0xe3069283);
    const struct span nine = span_text("123456789");
    for (size_t cut = 0; cut <= 9; cut++) {
        assert_int_equal(crc32c(crc32c(0, span_of(nine.at, cut)), span_of(nine.at + cut, 9 - cut)), 0xe3069283);
    }
}

static void only_our_own_names_are_files_of_the_journal(void **state)
{
    (void)state;
    static const char *const others[] = { "pin",
                                          "00000001.journa",
                                          "00000001.journal~",
                                          "0000000x.journal",
                                          "00000000.journal",
                                          "000000001.journal",
                                          "softhsm2.conf" };
    uint32_t number = 0;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_false(strlen(others[i]) >= 8 && segment_number(others[i], &number));
    }
    assert_true(segment_number("00000042.journal", &number));
    assert_int_equal(number, 42);
}

static bool below(const void *arg, uint32_t place)
{
    return place < *(const uint32_t *)arg;
}

/* Forgets in steps of `step` slots, as a thread does that gives the lock back in between. */
static void forget_below(struct index *index, uint32_t bound, size_t step)
{
    for (size_t at = 0; at < index->size; at += step) {
        index_forget(index, at, step, below, &bound);
    }
}

static void what_is_forgotten_is_gone_and_everything_else_is_found(void **state)
{
    (void)state;
    static const size_t steps[] = { 1, 7, 4096, SIZE_MAX / 2 };
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        CLEANUP(index_clear) struct index index = { 0 };
        uint8_t id[16];
        assert_fault(index_init(&index), NONE);
        assert_fault(index_reserve(&index, 3000), NONE);
        for (uint32_t bound = 1, n = 0; n < 12000;
             n++) { /* the table stays nearly full: long runs, also over its end */
            id_of(n, id);
            index_put(&index, id, n + 1);
            if (index.used == 3000) {
                bound = n + 1 - 1000;
                forget_below(&index, bound, steps[i]);
                assert_int_equal(index.used, 1001);
                for (uint32_t k = 0; k <= n; k++) {
                    assert_int_equal(found(&index, k, k + 1), k + 1 >= bound);
                }
            }
        }
    }
}

static void forgetting_everything_leaves_an_empty_table(void **state)
{
    (void)state;
    CLEANUP(index_clear) struct index index = { 0 };
    uint32_t all = UINT32_MAX;
    uint8_t id[16];
    assert_fault(index_init(&index), NONE);
    index_forget(&index, 0, 100, below, &all);
    assert_fault(index_reserve(&index, 700), NONE);
    for (unsigned n = 0; n < 700; n++) {
        id_of(n, id);
        index_put(&index, id, n + 1);
    }
    forget_below(&index, all, 64);
    assert_int_equal(index.used, 0);
    for (size_t at = 0; at < index.size; at++) {
        assert_true(index.slots[at] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_memory_leaves_the_index_as_it_was),
        cmocka_unit_test(an_empty_index_finds_nothing),
        cmocka_unit_test(every_id_is_found_however_the_table_grew),
        cmocka_unit_test(crc_is_castagnolis),
        cmocka_unit_test(only_our_own_names_are_files_of_the_journal),
        cmocka_unit_test(what_is_forgotten_is_gone_and_everything_else_is_found),
        cmocka_unit_test(forgetting_everything_leaves_an_empty_table),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
