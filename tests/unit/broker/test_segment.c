#include "signer-pkcs11/broker/segment.h"
#include "testlib.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t lengths[] = { 0, 1, 15, 16, 17, 71, 256, 512, 3309, SIGNATURE_MAX };

static struct record signed_with(const uint8_t *signature, size_t len)
{
    struct record record = { .kind = RECORD_SIGNATURE, .signature = span_of(signature, len), .synced = 64 };
    memset(record.op_id, 7, sizeof(record.op_id));
    memset(record.request.at, 9, sizeof(record.request.at));
    return record;
}

static void a_record_that_is_cut_anywhere_is_none(void **state)
{
    (void)state;
    uint8_t signature[80] = { 1, 2, 3 };
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(65536);
    struct record record = signed_with(signature, sizeof(signature)), got;
    size_t size = 0;
    assert_fault(record_put(&bytes, 3, 128, &record), NONE);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_false(record_get(span_of(bytes.at, len), 3, 128, &got, &size));
    }
    assert_true(record_get(buf_span(&bytes), 3, 128, &got, &size));
}

static void a_record_whose_size_is_beyond_all_bounds_is_none(void **state)
{
    (void)state;
    static const unsigned sizes[] = { 0, 1, 63, RECORD_FIXED + SIGNATURE_MAX + 1, 0xffff };
    uint8_t bytes[0x10000] = { 0 };
    struct record got;
    size_t size = 0;
    for (unsigned kind = 0; kind <= 3; kind++) {
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            memcpy(bytes, "SVJR", 4);
            bytes[5] = (uint8_t)kind;
            bytes[6] = (uint8_t)(sizes[i] >> 8);
            bytes[7] = (uint8_t)sizes[i];
            assert_false(record_get(span_of(bytes, sizeof(bytes)), 1, 64, &got, &size));
        }
    }
}

static void records_of_every_size_come_back_as_they_were(void **state)
{
    (void)state;
    uint8_t signature[SIGNATURE_MAX];
    memset(signature, 0x5a, sizeof(signature));
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        CLEANUP(buf_free) struct buf bytes = BUF_INIT(65536);
        struct record record = signed_with(signature, lengths[i]), got;
        size_t size = 0;
        assert_fault(record_put(&bytes, 1, 64, &record), NONE);
        assert_true(bytes.len == record_size(lengths[i]) && bytes.len <= RECORD_SIZE_MAX);
        assert_int_equal(bytes.len % RECORD_ALIGN, 0);
        assert_true(record_get(buf_span(&bytes), 1, 64, &got, &size));
        assert_int_equal(size, bytes.len);
        assert_int_equal(got.kind, RECORD_SIGNATURE);
        assert_int_equal(got.synced, 64);
        assert_memory_equal(got.op_id, record.op_id, sizeof(got.op_id));
        assert_memory_equal(got.request.at, record.request.at, SHA256_LEN);
        assert_true(span_equal(got.signature, record.signature));
    }
}

static void a_mark_tells_the_time_and_no_signature(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(65536);
    struct record mark = { .kind = RECORD_MARK, .synced = 160, .time = { 0x12345678abc, -5 } }, got;
    size_t size = 0;
    assert_fault(record_put(&bytes, 1, 160, &mark), NONE);
    assert_int_equal(bytes.len, RECORD_MARK_SIZE);
    assert_true(record_get(buf_span(&bytes), 1, 160, &got, &size));
    assert_int_equal(got.kind, RECORD_MARK);
    assert_int_equal(got.signature.len, 0);
    assert_true(got.time.age_ms == 0x12345678abc && got.time.wall == -5);
}

static void a_header_that_is_of_another_file_or_damaged_is_none(void **state)
{
    (void)state;
    const struct segment_header header = { .number = 7, .previous_end = 4096, .begun = { 1000, 2000 } };
    struct segment_header got;
    uint8_t bytes[SEGMENT_HEADER];
    segment_header_put(&header, bytes);
    assert_true(segment_header_get(SPAN_ARRAY(bytes), 7, &got));
    assert_true(got.version == 2 && got.number == 7 && got.previous_end == 4096);
    assert_true(got.begun.age_ms == 1000 && got.begun.wall == 2000);
    assert_false(segment_header_get(SPAN_ARRAY(bytes), 8, &got));
    assert_false(segment_header_get(span_of(bytes, sizeof(bytes) - 1), 7, &got));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x80;
        assert_false(segment_header_get(SPAN_ARRAY(bytes), 7, &got));
        bytes[i] ^= 0x80;
    }
}

static void only_names_that_we_give_are_names_of_files(void **state)
{
    (void)state;
    static const char *const wrong[] = { "",
                                         "1",
                                         "00000001",
                                         "00000001.journal ",
                                         "0000001.journal",
                                         "000000001.journal",
                                         "00000000.journal",
                                         "+0000001.journal",
                                         "pin" };
    char name[SEGMENT_NAME_MAX];
    uint32_t number = 0;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_false(segment_number(wrong[i], &number));
    }
    segment_name(99999999, name);
    assert_true(segment_number(name, &number) && number == 99999999);
}

static void begin_in(struct segment_writer *writer, const char *folder, size_t limit)
{
    *writer = (struct segment_writer){ .fd = -1, .limit = limit };
    writer->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(writer->folder >= 0);
    assert_fault(segment_begin(writer, (struct segment_time){ 5, 6 }), NONE);
}

static void zeros_stand_ahead_of_the_records_up_to_the_limit(void **state)
{
    (void)state;
    static const uint8_t bytes[1024] = { 1 };
    char folder[] = "/tmp/svc-segment-XXXXXX";
    struct segment_writer writer;
    assert_non_null(mkdtemp(folder));
    begin_in(&writer, folder, SEGMENT_FILL + 2048);
    assert_int_equal(writer.filled, SEGMENT_FILL);
    assert_fault(segment_append(&writer, span_of(bytes, 1024)), NONE);
    assert_int_equal(lseek(writer.fd, 0, SEEK_END), SEGMENT_FILL); /* writing a record does not change the size */
    assert_fault(segment_fill(&writer, SEGMENT_FILL), NONE);
    assert_int_equal(lseek(writer.fd, 0, SEEK_END), SEGMENT_FILL + 2048);
    assert_int_equal(writer.filled, SEGMENT_FILL + 2048);
    assert_fault(segment_begin(&writer, (struct segment_time){ 7, 8 }), NONE);
    assert_int_equal(writer.number, 2);
    for (uint32_t number = 1; number <= 2; number++) {
        char name[SEGMENT_NAME_MAX];
        struct stat status;
        segment_name(number, name);
        assert_int_equal(fstatat(writer.folder, name, &status, 0), 0);
        assert_int_equal(status.st_size, number == 1 ? (off_t)(SEGMENT_HEADER + 1024) : (off_t)SEGMENT_FILL);
        assert_int_equal(unlinkat(writer.folder, name, 0), 0);
    }
    (void)close(writer.fd);
    (void)close(writer.folder);
    (void)rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_that_is_cut_anywhere_is_none),
        cmocka_unit_test(a_record_whose_size_is_beyond_all_bounds_is_none),
        cmocka_unit_test(records_of_every_size_come_back_as_they_were),
        cmocka_unit_test(a_mark_tells_the_time_and_no_signature),
        cmocka_unit_test(a_header_that_is_of_another_file_or_damaged_is_none),
        cmocka_unit_test(only_names_that_we_give_are_names_of_files),
        cmocka_unit_test(zeros_stand_ahead_of_the_records_up_to_the_limit),
    };
    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
