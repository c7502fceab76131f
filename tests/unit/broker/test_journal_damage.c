#include "journal.h"

#define RECORD ((size_t)144)

/* ---- what the disk may do ---- */

#define TORN_RECORDS 4u

/* The file of a signer that was killed: no mark at its end. */
static void crashed_file(struct buf *out)
{
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    for (unsigned n = 0; n < TORN_RECORDS; n++) {
        assert_signs(journal, n, false);
    }
    segment_load_records(&place, 1, out);
    assert_int_equal(out->len, FIRST_AT + TORN_RECORDS * RECORD);
}

static void assert_whole_records(const struct place *place, unsigned whole, uint64_t expected_cut)
{
    struct journal *journal = NULL;
    uint64_t cut = 0;
    assert_fault(journal_open(place->folder, JOURNAL_RETENTION_MIN, NULL, &cut, &journal), NONE);
    assert_int_equal(cut, expected_cut);
    for (unsigned n = 0; n < TORN_RECORDS; n++) {
        assert_signs(journal, n, n < whole);
    }
    journal_close(journal);
    journal = journal_in(place, SEGMENT_BYTES);
    for (unsigned n = 0; n < TORN_RECORDS; n++) {
        assert_signs(journal, n, true);
    }
    journal_close(journal);
}

static void a_tail_torn_at_any_byte_is_cut_and_what_is_whole_is_kept(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf file = BUF_INIT(SEGMENT_FILL * 2);
    crashed_file(&file);
    for (size_t len = 0; len <= file.len; len++) {
        CLEANUP(place_free) struct place place = place_new();
        size_t body = len < FIRST_AT ? 0 : len - FIRST_AT;
        segment_store(&place, 1, span_of(file.at, len));
        uint64_t cut = len < SEGMENT_HEADER ? len : len < FIRST_AT ? len - SEGMENT_HEADER : body % RECORD;
        assert_whole_records(&place, (unsigned)(body / RECORD), cut);
    }
}

static void a_tail_of_zeros_or_rubbish_is_cut(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf file = BUF_INIT(SEGMENT_FILL * 2);
    crashed_file(&file);
    for (int fill = 0; fill <= 255; fill += 85) {
        CLEANUP(place_free) struct place place = place_new();
        CLEANUP(buf_free) struct buf longer = BUF_INIT(SEGMENT_FILL * 2);
        uint8_t *tail = NULL;
        assert_fault(buf_put(&longer, buf_span(&file)), NONE);
        assert_fault(buf_reserve(&longer, 5000, &tail), NONE);
        memset(tail, fill, 5000);
        segment_store(&place, 1, buf_span(&longer));
        assert_whole_records(&place, TORN_RECORDS, fill == 0 ? 0 : 5000);
    }
}

static void assert_refuses(const struct place *place, const char *offset)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct journal *journal = NULL;
    const char *text = NULL;
    uint64_t cut = 0;
    assert_fault(journal_open(place->folder, JOURNAL_RETENTION_MIN, &why, &cut, &journal), SIGNER_JOURNAL);
    assert_null(journal);
    assert_fault(buf_cstr(&why, &text), NONE);
    assert_non_null(strstr(text, ".journal"));
    if (strstr(text, offset) == NULL) {
        fail_msg("'%s' does not name '%s'", text, offset);
    }
}

static void damage_to_any_byte_that_a_caller_may_rely_on_refuses_and_names_the_offset(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf file = BUF_INIT(SEGMENT_FILL * 2);
    crashed_file(&file);
    for (size_t at = 0; at < file.len - RECORD; at++) {
        CLEANUP(place_free) struct place place = place_new();
        char offset[32];
        size_t record = at < SEGMENT_HEADER ? 0
                        : at < FIRST_AT     ? SEGMENT_HEADER
                                            : (at - FIRST_AT) / RECORD * RECORD + FIRST_AT;
        file.at[at] ^= 0x10;
        segment_store(&place, 1, buf_span(&file));
        file.at[at] ^= 0x10;
        (void)snprintf(offset, sizeof(offset), "at offset %zu:", record);
        assert_refuses(&place, offset);
    }
}

static void damage_to_the_end_is_found_when_the_signer_had_closed_or_opened_it(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(SEGMENT_FILL * 2);
    struct journal *journal = journal_in(&place, SEGMENT_BYTES);
    assert_signs(journal, 1, false);
    journal_close(journal);
    segment_load_records(&place, 1, &file);
    assert_int_equal(file.len, FIRST_AT + RECORD + RECORD_MARK_SIZE);
    file.at[FIRST_AT + 100] ^= 1;
    segment_store(&place, 1, buf_span(&file));
    assert_refuses(&place, "at offset 144:");
}

static void a_batch_that_was_not_acknowledged_may_be_torn_anywhere(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(SEGMENT_FILL * 2);
    crashed_file(&file);
    size_t acknowledged = file.len;
    uint8_t signature[SIGNATURE_LEN] = { 3 };
    for (unsigned i = 0; i < 3; i++) { /* one batch: all three say the same about what is certain */
        struct record record = { .kind = RECORD_SIGNATURE,
                                 .op_id = { 200, (uint8_t)i },
                                 .signature = SPAN_ARRAY(signature),
                                 .synced = acknowledged };
        assert_fault(record_put(&file, 1, file.len, &record), NONE);
    }
    file.at[acknowledged + 20] ^= 0xff; /* its first block did not reach the disk, the others did */
    segment_store(&place, 1, buf_span(&file));
    assert_whole_records(&place, TORN_RECORDS, 3 * RECORD);
}

static void records_copied_to_another_place_are_none(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf file = BUF_INIT(SEGMENT_FILL * 2);
    struct record record;
    size_t size = 0;
    crashed_file(&file);
    struct span first = span_of(file.at + FIRST_AT, RECORD);
    assert_true(record_get(first, 1, FIRST_AT, &record, &size));
    assert_false(record_get(first, 1, FIRST_AT + RECORD, &record, &size));
    assert_false(record_get(first, 2, FIRST_AT, &record, &size));
}

/* ---- many files ---- */

static void files_follow_one_another_and_a_missing_or_short_one_refuses(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(SEGMENT_FILL * 2);
    char path[128];
    struct journal *journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < 50; n++) {
        assert_signs(journal, n, false);
    }
    assert_true(journal->current >= 8);
    journal_close(journal);
    journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < 50; n++) {
        assert_signs(journal, n, true);
    }
    journal_close(journal);

    segment_load_records(&place, 3, &file);
    char offset[32];
    (void)snprintf(offset, sizeof(offset), "at offset %zu:", file.len - RECORD);
    segment_store(&place, 3, span_of(file.at, file.len - RECORD)); /* whole records: the next file knows the end */
    assert_refuses(&place, offset);
    segment_store(&place, 3, span_of(file.at, file.len - 1));
    assert_refuses(&place, offset);
    segment_path(&place, 3, path);
    assert_int_equal(unlink(path), 0);
    assert_refuses(&place, "00000003.journal: the file is missing");
}

static void the_oldest_files_may_be_moved_away(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    char path[128];
    struct journal *journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < 50; n++) {
        assert_signs(journal, n, false);
    }
    journal_close(journal);
    segment_path(&place, 1, path);
    assert_int_equal(unlink(path), 0);
    journal = journal_in(&place, 1024);
    assert_signs(journal, 49, true);
    assert_signs(journal, 0, false);
    journal_close(journal);
}

static void a_file_that_was_only_begun_is_begun_again(void **state)
{
    (void)state;
    for (size_t len = 0; len < SEGMENT_HEADER; len += 7) {
        CLEANUP(place_free) struct place place = place_new();
        CLEANUP(buf_free) struct buf file = BUF_INIT(SEGMENT_FILL * 2);
        crashed_file(&file);
        segment_store(&place, 1, buf_span(&file));
        segment_store(&place, 2, span_of(file.at, len));
        struct journal *journal = journal_in(&place, SEGMENT_BYTES);
        assert_signs(journal, 0, true);
        assert_signs(journal, 100, false);
        journal_close(journal);
        journal = journal_in(&place, SEGMENT_BYTES);
        assert_signs(journal, 100, true);
        journal_close(journal);
    }
}

