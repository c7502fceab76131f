#include "testlib.h"

#include "api/events/backup_file.h"

#include <sys/mman.h>
#include <unistd.h>

static struct op *new_op(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ "" }, 10000, &op), NONE);
    return op;
}

/* A file in memory with two messages and a replacement. */
static int sample(struct backup_totals *ret_totals)
{
    CLEANUP(backup_writer_freep) struct backup_writer *writer = NULL;
    int fd = memfd_create("backup", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_fault(backup_writer_new(fd, span_text("{\"a\":1}"), &writer), NONE);
    assert_fault(backup_put_message(writer, 1, span_text("first")), NONE);
    assert_fault(backup_put_message(writer, 2, span_text("second")), NONE);
    assert_fault(backup_put_replacement(writer, span_text("svc.history.a.2.1"), span_text("other")), NONE);
    assert_fault(backup_writer_end(writer, ret_totals), NONE);
    return fd;
}

static struct fault read_all(struct op *op, int fd, unsigned *ret_entries, struct backup_totals *ret_totals)
{
    CLEANUP(backup_reader_freep) struct backup_reader *reader = NULL;
    struct backup_entry entry = { 0 };
    *ret_entries = 0;
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    TRY(backup_reader_new(op, fd, &reader));
    for (;;) {
        TRY(backup_reader_next(op, reader, &entry));
        if (entry.kind == BACKUP_END) {
            *ret_totals = entry.totals;
            return OK;
        }
        (*ret_entries)++;
    }
}

static void every_shorter_file_is_refused(void **state)
{
    (void)state;
    struct backup_totals totals;
    CLEANUP(op_freep) struct op *op = new_op();
    int fd = sample(&totals);
    unsigned entries = 0;
    for (off_t len = lseek(fd, 0, SEEK_END) - 1; len >= 0; len--) {
        assert_int_equal(ftruncate(fd, len), 0);
        assert_fault(read_all(op, fd, &entries, &totals), LOG_BACKUP);
    }
    (void)close(fd);
}

static void every_altered_byte_is_noticed(void **state)
{
    (void)state;
    struct backup_totals totals;
    CLEANUP(op_freep) struct op *op = new_op();
    int fd = sample(&totals);
    unsigned entries = 0;
    off_t size = lseek(fd, 0, SEEK_END);
    for (off_t at = 0; at < size; at++) {
        uint8_t byte = 0, other = 0;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        other = byte ^ 0x01;
        assert_int_equal(pwrite(fd, &other, 1, at), 1);
        assert_fault(read_all(op, fd, &entries, &totals), LOG_BACKUP);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_fault(read_all(op, fd, &entries, &totals), NONE);
    (void)close(fd);
}

static void bytes_behind_the_end_are_refused(void **state)
{
    (void)state;
    struct backup_totals totals;
    CLEANUP(op_freep) struct op *op = new_op();
    int fd = sample(&totals);
    unsigned entries = 0;
    assert_int_equal(lseek(fd, 0, SEEK_END) > 0, 1);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_fault(read_all(op, fd, &entries, &totals), LOG_BACKUP);
    assert_non_null(strstr(op->note.detail, "behind its end"));
    (void)close(fd);
}

static void a_message_that_is_missing_or_doubled_is_refused(void **state)
{
    (void)state;
    const uint64_t wrong[][2] = { { 2, 3 }, { 1, 1 }, { 1, 3 } };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        CLEANUP(op_freep) struct op *op = new_op();
        CLEANUP(backup_writer_freep) struct backup_writer *writer = NULL;
        struct backup_totals totals;
        unsigned entries = 0;
        int fd = memfd_create("backup", MFD_CLOEXEC);
        assert_fault(backup_writer_new(fd, span_text("{}"), &writer), NONE);
        assert_fault(backup_put_message(writer, wrong[i][0], span_text("a")), NONE);
        assert_fault(backup_put_message(writer, wrong[i][1], span_text("b")), NONE);
        assert_fault(backup_writer_end(writer, &totals), NONE);
        assert_fault(read_all(op, fd, &entries, &totals), LOG_BACKUP);
        (void)close(fd);
    }
}

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    struct backup_totals written, read;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(backup_reader_freep) struct backup_reader *reader = NULL;
    struct backup_entry entry = { 0 };
    int fd = sample(&written);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_fault(backup_reader_new(op, fd, &reader), NONE);
    assert_true(span_equal_text(backup_reader_header(reader), "{\"a\":1}"));
    assert_fault(backup_reader_next(op, reader, &entry), NONE);
    assert_int_equal(entry.kind, BACKUP_MESSAGE);
    assert_int_equal(entry.sequence, 1);
    assert_true(span_equal_text(entry.body, "first"));
    assert_fault(backup_reader_next(op, reader, &entry), NONE);
    assert_true(span_equal_text(entry.body, "second"));
    assert_fault(backup_reader_next(op, reader, &entry), NONE);
    assert_int_equal(entry.kind, BACKUP_REPLACEMENT);
    assert_string_equal(entry.subject, "svc.history.a.2.1");
    assert_fault(backup_reader_next(op, reader, &entry), NONE);
    read = entry.totals;
    assert_int_equal(read.messages, 2);
    assert_int_equal(read.replacements, 1);
    assert_memory_equal(read.digest.at, written.digest.at, SHA256_LEN);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(every_altered_byte_is_noticed),
        cmocka_unit_test(bytes_behind_the_end_are_refused),
        cmocka_unit_test(a_message_that_is_missing_or_doubled_is_refused),
        cmocka_unit_test(what_was_written_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
