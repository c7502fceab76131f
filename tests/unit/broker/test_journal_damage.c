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

/* ---- a whole journal of several files, closed as it should be ---- */

#define WHOLE_RECORDS 15u
#define WHOLE_FILES   3u

struct whole {
    struct buf files[WHOLE_FILES];
};

static void whole_free(struct whole *whole)
{
    for (size_t i = 0; i < WHOLE_FILES; i++) {
        buf_free(&whole->files[i]);
    }
}

static void whole_make(struct whole *whole)
{
    CLEANUP(place_free) struct place place = place_new();
    struct journal *journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < WHOLE_RECORDS; n++) {
        assert_signs(journal, n, false);
    }
    assert_int_equal(journal->current, WHOLE_FILES);
    journal_close(journal);
    for (uint32_t i = 0; i < WHOLE_FILES; i++) {
        whole->files[i] = (struct buf)BUF_INIT(65536);
        segment_load_records(&place, i + 1, &whole->files[i]);
    }
}

static void whole_store(const struct whole *whole, const struct place *place)
{
    for (uint32_t i = 0; i < WHOLE_FILES; i++) {
        segment_store(place, i + 1, buf_span(&whole->files[i]));
    }
}

/* Opens what was tampered with: refused with file and offset, or all that is said is the truth. How many are known,
 * -1 when refused. */
static int known_in(const struct place *place)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    CLEANUP(journal_closep) struct journal *journal = NULL;
    const char *text = NULL;
    uint64_t cut = 0;
    int known = 0;
    struct fault fault = journal_open_sized(place->folder, JOURNAL_RETENTION_MIN, 1024, &why, &cut, &journal);
    if (FAULTED(fault)) {
        assert_fault(fault, SIGNER_JOURNAL);
        assert_fault(buf_cstr(&why, &text), NONE);
        assert_non_null(strstr(text, ".journal: "));
        assert_non_null(strstr(text, " at offset "));
        return -1;
    }
    for (unsigned n = 0; n < WHOLE_RECORDS; n++) {
        CLEANUP(op_freep) struct op *op = op_within(60000);
        bool replayed = false;
        assert_fault(sign_once(op, journal, n, &replayed), NONE); /* which compares the bytes of a replay */
        known += replayed;
    }
    return known;
}

static void any_flipped_byte_is_refused_or_changes_nothing(void **state)
{
    (void)state;
    CLEANUP(whole_free) struct whole whole;
    unsigned refused = 0, kept = 0;
    whole_make(&whole);
    for (size_t i = 0; i < WHOLE_FILES; i++) {
        for (size_t at = 0; at < whole.files[i].len; at++) {
            CLEANUP(place_free) struct place place = place_new();
            whole.files[i].at[at] ^= (uint8_t)(1u << at % 8);
            whole_store(&whole, &place);
            whole.files[i].at[at] ^= (uint8_t)(1u << at % 8);
            int known = known_in(&place);
            assert_true(known == -1 || known == (int)WHOLE_RECORDS);
            refused += known == -1;
            kept += known != -1;
        }
    }
    assert_int_equal(kept, RECORD_MARK_SIZE); /* the last mark: a tail that says nothing */
    assert_true(refused > kept);
}

static void any_shorter_file_is_refused_unless_it_is_the_newest_which_then_ends_earlier(void **state)
{
    (void)state;
    CLEANUP(whole_free) struct whole whole;
    int least = (int)WHOLE_RECORDS;
    whole_make(&whole);
    for (size_t i = 0; i < WHOLE_FILES; i++) {
        size_t full = whole.files[i].len;
        for (size_t len = 0; len < full; len++) {
            CLEANUP(place_free) struct place place = place_new();
            whole.files[i].len = len;
            whole_store(&whole, &place);
            whole.files[i].len = full;
            int known = known_in(&place);
            assert_true((known == -1) == (i + 1 < WHOLE_FILES));
            least = known >= 0 && known < least ? known : least;
        }
    }
    assert_int_equal(least, 12); /* six records in each of the files before */
}

static void a_file_in_the_place_of_another_is_refused(void **state)
{
    (void)state;
    CLEANUP(whole_free) struct whole whole;
    whole_make(&whole);
    for (uint32_t from = 1; from <= WHOLE_FILES; from++) {
        for (uint32_t to = 1; to <= WHOLE_FILES + 1; to++) {
            CLEANUP(place_free) struct place place = place_new();
            whole_store(&whole, &place);
            segment_store(&place, to, buf_span(&whole.files[from - 1]));
            assert_int_equal(known_in(&place), from == to ? (int)WHOLE_RECORDS : -1);
        }
    }
    for (uint32_t one = 1; one <= WHOLE_FILES; one++) {
        for (uint32_t other = 1; other < one; other++) {
            CLEANUP(place_free) struct place place = place_new();
            whole_store(&whole, &place);
            segment_store(&place, one, buf_span(&whole.files[other - 1]));
            segment_store(&place, other, buf_span(&whole.files[one - 1]));
            assert_int_equal(known_in(&place), -1);
        }
    }
}

static void a_missing_file_is_refused_unless_it_is_the_oldest(void **state)
{
    (void)state;
    CLEANUP(whole_free) struct whole whole;
    whole_make(&whole);
    for (uint32_t missing = 1; missing <= WHOLE_FILES; missing++) {
        CLEANUP(place_free) struct place place = place_new();
        char path[128];
        whole_store(&whole, &place);
        segment_path(&place, missing, path);
        assert_int_equal(unlink(path), 0);
        int known = known_in(&place);
        assert_true((known == -1) == (missing == 2));
    }
}

static void an_oldest_file_from_before_a_gap_is_refused(void **state)
{
    (void)state;
    CLEANUP(whole_free) struct whole whole;
    CLEANUP(place_free) struct place place = place_new();
    whole_make(&whole);
    segment_store(&place, 1, buf_span(&whole.files[0]));
    segment_store(&place, 3, buf_span(&whole.files[2]));
    assert_refuses(&place, "00000002.journal: the file is missing");
}

static void a_file_that_is_younger_than_the_one_before_is_refused(void **state)
{
    (void)state;
    CLEANUP(whole_free) struct whole whole;
    CLEANUP(place_free) struct place place = place_new();
    struct segment_header header;
    whole_make(&whole);
    assert_true(segment_header_get(buf_span(&whole.files[1]), 2, &header));
    header.begun.age_ms += 3600 * 1000;
    segment_header_put(&header, whole.files[1].at);
    whole_store(&whole, &place); /* so the third is younger than the second */
    assert_refuses(&place, "00000003.journal: the journal is damaged at offset 0");
}

static void an_age_that_no_journal_reaches_is_damage(void **state)
{
    (void)state;
    static const uint64_t ages[] = { SEGMENT_AGE_MAX + 1, UINT64_MAX - 1000 };
    for (size_t i = 0; i < COUNT_OF(ages); i++) {
        CLEANUP(whole_free) struct whole whole;
        CLEANUP(place_free) struct place place = place_new();
        struct segment_header header;
        whole_make(&whole);
        assert_true(segment_header_get(buf_span(&whole.files[2]), 3, &header));
        header.begun.age_ms = ages[i]; /* all else would be old enough to go */
        segment_header_put(&header, whole.files[2].at);
        whole_store(&whole, &place);
        assert_refuses(&place, "00000003.journal: the journal is damaged at offset 0");
    }
}

/* ---- what is no file of the journal, or not ours ---- */

static void other_names_in_the_folder_are_none_of_the_journals_business(void **state)
{
    (void)state;
    static const char *const names[] = {
        "pin",      "1.journal", "00000002.journal~", "00000000.journal", "0000000a.journal", "000000002.journal",
        ".journal", "00000002"
    };
    CLEANUP(whole_free) struct whole whole;
    CLEANUP(place_free) struct place place = place_new();
    whole_make(&whole);
    whole_store(&whole, &place);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%.60s/%.60s", place.folder, names[i]);
        assert_fault(file_write(path, span_text("rubbish"), 0600), NONE);
    }
    assert_int_equal(known_in(&place), (int)WHOLE_RECORDS);
}

static void what_bears_a_files_name_and_is_none_is_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        CLEANUP(whole_free) struct whole whole;
        CLEANUP(place_free) struct place place = place_new();
        char path[128], first[128];
        whole_make(&whole);
        whole_store(&whole, &place);
        segment_path(&place, WHOLE_FILES + 1, path);
        segment_path(&place, 1, first);
        int rc = kind == 0   ? mkdir(path, 0700)
                 : kind == 1 ? symlink(first, path)
                 : kind == 2 ? mkfifo(path, 0600)
                             : symlink("/dev/zero", path);
        assert_int_equal(rc, 0);
        assert_refuses(&place, "00000004.journal: ");
        if (kind == 0) {
            assert_int_equal(rmdir(path), 0);
        }
    }
}

static void files_and_folders_that_others_may_write_are_refused(void **state)
{
    (void)state;
    static const mode_t open_to_others[] = { 0620, 0602, 0666 };
    CLEANUP(whole_free) struct whole whole;
    CLEANUP(place_free) struct place place = place_new();
    char path[128];
    whole_make(&whole);
    whole_store(&whole, &place);
    segment_path(&place, 2, path);
    for (size_t i = 0; i < COUNT_OF(open_to_others); i++) {
        assert_int_equal(chmod(path, open_to_others[i]), 0);
        assert_refuses(&place, "00000002.journal: the file must be the signer's user's");
    }
    assert_int_equal(chmod(path, 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_refuses(&place, "00000002.journal: the file must be the signer's user's");
        assert_int_equal(chown(path, 0, 0), 0);
    }
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct journal *journal = NULL;
    uint64_t cut = 0;
    assert_int_equal(chmod(place.folder, 0770), 0);
    assert_fault(journal_open(place.folder, JOURNAL_RETENTION_MIN, &why, &cut, &journal), SIGNER_JOURNAL);
    assert_non_null(memmem(why.at, why.len, "mode 0700", 9));
    assert_int_equal(chmod(place.folder, 0700), 0);
    assert_int_equal(known_in(&place), (int)WHOLE_RECORDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_torn_at_any_byte_is_cut_and_what_is_whole_is_kept),
        cmocka_unit_test(a_tail_of_zeros_or_rubbish_is_cut),
        cmocka_unit_test(damage_to_any_byte_that_a_caller_may_rely_on_refuses_and_names_the_offset),
        cmocka_unit_test(damage_to_the_end_is_found_when_the_signer_had_closed_or_opened_it),
        cmocka_unit_test(a_batch_that_was_not_acknowledged_may_be_torn_anywhere),
        cmocka_unit_test(records_copied_to_another_place_are_none),
        cmocka_unit_test(files_follow_one_another_and_a_missing_or_short_one_refuses),
        cmocka_unit_test(the_oldest_files_may_be_moved_away),
        cmocka_unit_test(a_file_that_was_only_begun_is_begun_again),
        cmocka_unit_test(any_flipped_byte_is_refused_or_changes_nothing),
        cmocka_unit_test(any_shorter_file_is_refused_unless_it_is_the_newest_which_then_ends_earlier),
        cmocka_unit_test(a_file_in_the_place_of_another_is_refused),
        cmocka_unit_test(a_missing_file_is_refused_unless_it_is_the_oldest),
        cmocka_unit_test(an_oldest_file_from_before_a_gap_is_refused),
        cmocka_unit_test(a_file_that_is_younger_than_the_one_before_is_refused),
        cmocka_unit_test(an_age_that_no_journal_reaches_is_damage),
        cmocka_unit_test(other_names_in_the_folder_are_none_of_the_journals_business),
        cmocka_unit_test(what_bears_a_files_name_and_is_none_is_refused),
        cmocka_unit_test(files_and_folders_that_others_may_write_are_refused),
    };
    return cmocka_run_group_tests_name("journal damage", tests, NULL, NULL);
}
