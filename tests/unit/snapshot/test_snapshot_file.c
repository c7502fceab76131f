#include "testlib.h"

#include "api/snapshot/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const char key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static struct op *new_op(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ "" }, 10000, &op), NONE);
    return op;
}

static const struct snapshot_header header = {
    .created_at = 1700000000000000, .stream = "svc", .version = "1", .checkpoint = 7, .activated = 3
};

/* A file in memory: two tables, one of them in two sections, of which one has no row. */
static int sample(struct snapshot_totals *ret_totals)
{
    CLEANUP(snapshot_writer_freep) struct snapshot_writer *writer = NULL;
    int fd = memfd_create("snapshot", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_fault(snapshot_writer_new(fd, &header, &writer), NONE);
    assert_fault(snapshot_put_section(writer, "audit_records", "a", "tenant_id, n"), NONE);
    assert_fault(snapshot_put_data(writer, span_text("first")), NONE);
    assert_fault(snapshot_put_data(writer, span_text("second")), NONE);
    assert_fault(snapshot_put_section_end(writer, 2), NONE);
    assert_fault(snapshot_put_section(writer, "audit_records", "b", "tenant_id, n"), NONE);
    assert_fault(snapshot_put_section_end(writer, 0), NONE);
    assert_fault(snapshot_put_section(writer, "outbox", "", "id"), NONE);
    assert_fault(snapshot_put_data(writer, span_text("row")), NONE);
    assert_fault(snapshot_put_section_end(writer, 1), NONE);
    assert_fault(snapshot_writer_end(writer, span_text(key), ret_totals), NONE);
    return fd;
}

static struct fault read_all(struct op *op, int fd, unsigned *ret_entries, struct snapshot_totals *ret_totals)
{
    CLEANUP(snapshot_reader_freep) struct snapshot_reader *reader = NULL;
    struct snapshot_entry entry = { 0 };
    *ret_entries = 0;
    op->note = (struct fault_note){ 0 };
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    TRY(snapshot_reader_new(op, fd, &reader));
    for (;;) {
        TRY(snapshot_reader_next(op, reader, &entry));
        if (entry.kind == SNAPSHOT_END) {
            *ret_totals = entry.totals;
            return OK;
        }
        (*ret_entries)++;
    }
}

static void every_shorter_file_is_refused(void **state)
{
    (void)state;
    struct snapshot_totals totals;
    CLEANUP(op_freep) struct op *op = new_op();
    int fd = sample(&totals);
    unsigned entries = 0;
    for (off_t len = lseek(fd, 0, SEEK_END) - 1; len >= 0; len--) {
        assert_int_equal(ftruncate(fd, len), 0);
        assert_fault(read_all(op, fd, &entries, &totals), SNAPSHOT_INVALID);
    }
    (void)close(fd);
}

/* By the digest, all but the HMAC behind it; that one by whoever has the key. */
static void every_altered_byte_is_noticed(void **state)
{
    (void)state;
    struct snapshot_totals totals;
    struct sha256 mac;
    CLEANUP(op_freep) struct op *op = new_op();
    int fd = sample(&totals);
    unsigned entries = 0;
    off_t size = lseek(fd, 0, SEEK_END);
    for (off_t at = 0; at < size; at++) {
        uint8_t byte = 0, other = 0;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        other = byte ^ 0x01;
        assert_int_equal(pwrite(fd, &other, 1, at), 1);
        if (at < size - SHA256_LEN) {
            assert_fault(read_all(op, fd, &entries, &totals), SNAPSHOT_INVALID);
        } else {
            assert_fault(read_all(op, fd, &entries, &totals), NONE);
            assert_fault(snapshot_mac(span_text(key), &totals.digest, &mac), NONE);
            assert_false(span_equal(SPAN_ARRAY(mac.at), SPAN_ARRAY(totals.mac.at)));
        }
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    (void)close(fd);
}

static void bytes_behind_the_end_are_refused(void **state)
{
    (void)state;
    struct snapshot_totals totals;
    CLEANUP(op_freep) struct op *op = new_op();
    int fd = sample(&totals);
    unsigned entries = 0;
    assert_int_equal(pwrite(fd, "x", 1, lseek(fd, 0, SEEK_END)), 1);
    assert_fault(read_all(op, fd, &entries, &totals), SNAPSHOT_INVALID);
    (void)close(fd);
}

static void another_key_has_another_mac(void **state)
{
    (void)state;
    struct snapshot_totals totals;
    struct sha256 mac;
    (void)close(sample(&totals));
    assert_fault(snapshot_mac(span_text(key), &totals.digest, &mac), NONE);
    assert_true(span_equal(SPAN_ARRAY(mac.at), SPAN_ARRAY(totals.mac.at)));
    assert_fault(snapshot_mac(span_text("another"), &totals.digest, &mac), NONE);
    assert_false(span_equal(SPAN_ARRAY(mac.at), SPAN_ARRAY(totals.mac.at)));
}

static void a_table_may_not_come_twice(void **state)
{
    (void)state;
    CLEANUP(snapshot_writer_freep) struct snapshot_writer *writer = NULL;
    CLEANUP(op_freep) struct op *op = new_op();
    struct snapshot_totals totals;
    static const char *const tables[] = { "a", "b", "a" };
    unsigned entries = 0;
    int fd = memfd_create("snapshot", MFD_CLOEXEC);
    assert_fault(snapshot_writer_new(fd, &header, &writer), NONE);
    for (size_t i = 0; i < COUNT_OF(tables); i++) {
        assert_fault(snapshot_put_section(writer, tables[i], "", "n"), NONE);
        assert_fault(snapshot_put_section_end(writer, 0), NONE);
    }
    assert_fault(snapshot_writer_end(writer, span_text(key), &totals), NONE);
    assert_fault(read_all(op, fd, &entries, &totals), SNAPSHOT_INVALID);
    (void)close(fd);
}

static void names_are_plain(void **state)
{
    (void)state;
    CLEANUP(snapshot_writer_freep) struct snapshot_writer *writer = NULL;
    CLEANUP(op_freep) struct op *op = new_op();
    struct snapshot_totals totals;
    unsigned entries = 0;
    int fd = memfd_create("snapshot", MFD_CLOEXEC);
    assert_fault(snapshot_writer_new(fd, &header, &writer), NONE);
    assert_fault(snapshot_put_section(writer, "a;DROP", "", "n"), NONE);
    assert_fault(snapshot_put_section_end(writer, 0), NONE);
    assert_fault(snapshot_writer_end(writer, span_text(key), &totals), NONE);
    assert_fault(read_all(op, fd, &entries, &totals), SNAPSHOT_INVALID);
    (void)close(fd);
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    struct snapshot_totals totals, again;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(snapshot_reader_freep) struct snapshot_reader *reader = NULL;
    struct snapshot_entry entry = { 0 };
    unsigned entries = 0;
    int fd = sample(&totals);
    assert_fault(read_all(op, fd, &entries, &again), NONE);
    assert_int_equal(entries, 8);
    assert_int_equal(again.tables, 2);
    assert_int_equal(again.rows, 3);
    assert_int_equal(again.bytes, lseek(fd, 0, SEEK_END));
    assert_int_equal(again.bytes, totals.bytes);
    assert_memory_equal(&again.digest, &totals.digest, sizeof(again.digest));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_fault(snapshot_reader_new(op, fd, &reader), NONE);
    const struct snapshot_header *read = snapshot_reader_header(reader);
    assert_int_equal(read->checkpoint, 7);
    assert_int_equal(read->activated, 3);
    assert_string_equal(read->stream, "svc");
    assert_int_equal(read->created_at, header.created_at);
    assert_fault(snapshot_reader_next(op, reader, &entry), NONE);
    assert_string_equal(entry.table, "audit_records");
    assert_string_equal(entry.tenant, "a");
    assert_string_equal(entry.columns, "tenant_id, n");
    assert_fault(snapshot_reader_next(op, reader, &entry), NONE);
    assert_true(span_equal_text(entry.data, "firstsecond"));
    (void)close(fd);
}

static void a_long_row_goes_in_pieces(void **state)
{
    (void)state;
    static uint8_t row[3 * SNAPSHOT_PIECE_MAX + 17];
    CLEANUP(snapshot_writer_freep) struct snapshot_writer *writer = NULL;
    CLEANUP(snapshot_reader_freep) struct snapshot_reader *reader = NULL;
    CLEANUP(op_freep) struct op *op = new_op();
    struct snapshot_totals totals;
    struct snapshot_entry entry = { 0 };
    size_t seen = 0;
    int fd = memfd_create("snapshot", MFD_CLOEXEC);
    for (size_t i = 0; i < sizeof(row); i++) {
        row[i] = (uint8_t)(i * 31);
    }
    assert_fault(snapshot_writer_new(fd, &header, &writer), NONE);
    assert_fault(snapshot_put_section(writer, "a", "", "n"), NONE);
    assert_fault(snapshot_put_data(writer, SPAN_ARRAY(row)), NONE);
    assert_fault(snapshot_put_section_end(writer, 1), NONE);
    assert_fault(snapshot_writer_end(writer, span_text(key), &totals), NONE);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_fault(snapshot_reader_new(op, fd, &reader), NONE);
    do {
        assert_fault(snapshot_reader_next(op, reader, &entry), NONE);
        if (entry.kind == SNAPSHOT_DATA) {
            assert_memory_equal(entry.data.at, row + seen, entry.data.len);
            seen += entry.data.len;
        }
    } while (entry.kind != SNAPSHOT_END);
    assert_int_equal(seen, sizeof(row));
    (void)close(fd);
}

int main(int argc, char **argv)
{
    if (argc == 2) { /* a seed for the fuzzer */
        struct snapshot_totals totals;
        uint8_t bytes[4096];
        int fd = sample(&totals), out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        ssize_t got = pread(fd, bytes, sizeof(bytes), 0);
        bool written = got > 0 && out >= 0 && write(out, bytes, (size_t)got) == got;
        (void)close(out);
        (void)close(fd);
        return written ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shorter_file_is_refused),    cmocka_unit_test(every_altered_byte_is_noticed),
        cmocka_unit_test(bytes_behind_the_end_are_refused), cmocka_unit_test(another_key_has_another_mac),
        cmocka_unit_test(a_table_may_not_come_twice),       cmocka_unit_test(names_are_plain),
        cmocka_unit_test(what_was_written_is_read),         cmocka_unit_test(a_long_row_goes_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
