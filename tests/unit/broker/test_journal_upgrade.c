/* Journals of version 1, as the program before wrote them: journal-v1/ beside this file has ids 0..14 in three files.
 */
#include "journal.h"

#define OLD_FOLDER  "tests/unit/broker/journal-v1"
#define OLD_RECORDS 15u
#define OLD_FILES   3u

static void old_journal(const struct place *place)
{
    for (uint32_t number = 1; number <= OLD_FILES; number++) {
        CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
        char path[128];
        (void)snprintf(path, sizeof(path), OLD_FOLDER "/%08u.journal", (unsigned)number);
        assert_fault(file_read(path, &file), NONE);
        segment_store(place, number, buf_span(&file));
    }
}

static void assert_refused(const struct place *place, const char *what)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct journal *journal = NULL;
    const char *text = NULL;
    uint64_t cut = 0;
    assert_fault(journal_open(place->folder, JOURNAL_RETENTION_MIN, &why, &cut, &journal), SIGNER_JOURNAL);
    assert_fault(buf_cstr(&why, &text), NONE);
    if (strstr(text, what) == NULL) {
        fail_msg("'%s' does not name '%s'", text, what);
    }
}

static void damage_to_an_old_journal_is_refused(void **state)
{
    (void)state;
    for (uint32_t number = 1; number <= OLD_FILES; number++) {
        CLEANUP(place_free) struct place place = place_new();
        CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
        char name[64];
        old_journal(&place);
        segment_load(&place, number, &file);
        file.at[SEGMENT_HEADER + 70] ^= 1;
        segment_store(&place, number, buf_span(&file));
        (void)snprintf(name, sizeof(name), "%08u.journal: the journal is damaged at offset 64", (unsigned)number);
        assert_refused(&place, name);
    }
}

static void damage_to_an_old_file_is_refused_also_after_the_upgrade(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
    old_journal(&place);
    journal_close(journal_in(&place, 1024));
    segment_load(&place, OLD_FILES, &file);
    segment_store(&place, OLD_FILES, span_of(file.at, file.len - RECORD_FIXED)); /* its mark: the next file knows */
    assert_refused(&place, "00000003.journal: the journal is damaged at offset 496");
}

static void an_old_journal_is_read_and_continued_in_a_new_file(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf before = BUF_INIT(65536), after = BUF_INIT(65536);
    old_journal(&place);
    segment_load(&place, OLD_FILES, &before);
    struct journal *journal = journal_in(&place, 1024);
    assert_int_equal(journal->current, OLD_FILES + 1);
    for (unsigned n = 0; n < OLD_RECORDS; n++) {
        assert_signs(journal, n, true);
    }
    for (unsigned n = OLD_RECORDS; n < 40; n++) {
        assert_signs(journal, n, false);
    }
    journal_close(journal);
    segment_load(&place, OLD_FILES, &after);
    assert_true(span_equal(buf_span(&before), buf_span(&after)));
    journal = journal_in(&place, 1024);
    for (unsigned n = 0; n < 40; n++) {
        assert_signs(journal, n, true);
    }
    journal_close(journal);
}

static void the_torn_tail_of_an_old_journal_is_cut(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
    struct journal *journal = NULL;
    uint64_t cut = 0;
    old_journal(&place);
    segment_load(&place, OLD_FILES, &file);
    file.len -= RECORD_FIXED + 10; /* the mark, and the end of the record before */
    segment_store(&place, OLD_FILES, buf_span(&file));
    assert_fault(journal_open(place.folder, JOURNAL_RETENTION_MIN, NULL, &cut, &journal), NONE);
    assert_int_equal(cut, 134);
    for (unsigned n = 0; n < OLD_RECORDS; n++) {
        assert_signs(journal, n, n + 1 < OLD_RECORDS);
    }
    journal_close(journal);
    journal = journal_in(&place, SEGMENT_BYTES);
    assert_signs(journal, OLD_RECORDS - 1, true);
    journal_close(journal);
}

static void an_old_file_that_was_only_begun_is_begun_again_as_a_new_one(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    old_journal(&place);
    segment_store(&place, OLD_FILES + 1, span_text("svc-signer-j"));
    struct journal *journal = journal_in(&place, 1024);
    assert_int_equal(journal->current, OLD_FILES + 1);
    assert_signs(journal, 14, true);
    assert_signs(journal, 15, false);
    journal_close(journal);
}

static void an_old_journals_retention_counts_from_the_upgrade(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    old_journal(&place);
    struct journal *journal = journal_in(&place, 1024);
    unsigned removed = 1;
    journal_keeper_stop(journal);
    assert_fault(journal_retain(journal, &removed), NONE);
    assert_int_equal(removed, 0);
    assert_signs(journal, 0, true);
    journal->age_at_open_ms += (uint64_t)24 * 3600 * 1000;
    assert_fault(journal_retain(journal, &removed), NONE);
    assert_int_equal(removed, OLD_FILES);
    assert_signs(journal, 0, false);
    journal_close(journal);
    journal = journal_in(&place, 1024);
    assert_signs(journal, 0, true);
    journal_close(journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damage_to_an_old_journal_is_refused),
        cmocka_unit_test(damage_to_an_old_file_is_refused_also_after_the_upgrade),
        cmocka_unit_test(an_old_journal_is_read_and_continued_in_a_new_file),
        cmocka_unit_test(the_torn_tail_of_an_old_journal_is_cut),
        cmocka_unit_test(an_old_file_that_was_only_begun_is_begun_again_as_a_new_one),
        cmocka_unit_test(an_old_journals_retention_counts_from_the_upgrade),
    };
    return cmocka_run_group_tests_name("journal upgrade", tests, NULL, NULL);
}
