#include "signer-pkcs11/broker/journal_check.h"

#include "journal.h"

static void assert_has(const struct buf *report, const char *what)
{
    if (memmem(report->at, report->len, what, strlen(what)) == NULL) {
        fail_msg("'%.*s' does not have '%s'", (int)report->len, (const char *)report->at, what);
    }
}

static void make(const struct place *place)
{
    struct journal *journal = journal_in(place, 1024);
    for (unsigned n = 0; n < 10; n++) {
        assert_signs(journal, n, false);
    }
    assert_int_equal(journal->current, 2);
    journal_close(journal);
}

static void a_folder_that_is_none_or_in_use_is_reported(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf missing = BUF_INIT(16384), used = BUF_INIT(16384);
    assert_false(journal_check("/no/such/folder", CHECK_TEXT, &missing));
    assert_has(&missing, "/no/such/folder: the journal's folder cannot be opened (No such file or directory)\n");
    CLEANUP(journal_closep) struct journal *journal = journal_in(&place, 1024);
    assert_false(journal_check(place.folder, CHECK_JSON, &used));
    assert_has(&used, "{\"ok\":false,\"detail\":\"");
    assert_has(&used, "another signer uses this journal");
}

static void damage_is_named_with_file_and_offset_and_what_was_read_before_it(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536), text = BUF_INIT(16384), json = BUF_INIT(16384);
    make(&place);
    segment_load_records(&place, 2, &file);
    file.at[SEGMENT_HEADER + 150] ^= 1;
    segment_store(&place, 2, buf_span(&file));
    assert_false(journal_check(place.folder, CHECK_TEXT, &text));
    assert_has(&text, "1 files, 1008 bytes, 6 signatures, 1 marks;");
    assert_has(&text, "00000002.journal: the journal is damaged at offset 208: restore the journal from a copy\n");
    assert_false(journal_check(place.folder, CHECK_JSON, &json));
    assert_has(&json, "\"ok\":false,");
    assert_has(&json, "\"file\":\"00000002.journal\",\"offset\":208,");
}

static void a_whole_journal_is_counted_and_nothing_is_changed(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf before = BUF_INIT(65536), after = BUF_INIT(65536);
    CLEANUP(buf_free) struct buf text = BUF_INIT(16384), json = BUF_INIT(16384);
    make(&place);
    segment_load(&place, 2, &before);
    assert_true(journal_check(place.folder, CHECK_TEXT, &text));
    assert_has(&text, "2 files, 1728 bytes, 10 signatures, 2 marks; was open for 0 s\nfrom 20");
    assert_has(&text, "Z\nok\n");
    assert_true(journal_check(place.folder, CHECK_JSON, &json));
    assert_has(&json, "{\"ok\":true,\"detail\":null,\"files\":2,\"bytes\":1728,\"signatures\":10,\"marks\":2,"
                      "\"torn_bytes\":0,\"open_seconds\":0,\"first_time\":\"20");
    segment_load(&place, 2, &after);
    assert_true(span_equal(buf_span(&before), buf_span(&after)));
}

static void a_torn_tail_is_told_and_left_where_it_is(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf file = BUF_INIT(65536), text = BUF_INIT(16384);
    make(&place);
    segment_load_records(&place, 2, &file);
    segment_store(&place, 2, span_of(file.at, file.len - RECORD_MARK_SIZE - 5));
    assert_true(journal_check(place.folder, CHECK_TEXT, &text));
    assert_has(&text, "9 signatures, 1 marks;");
    assert_has(&text, "139 bytes of an unfinished tail, which the signer cuts at its start\nok\n");
}

static void an_empty_folder_and_a_journal_of_the_version_before_are_fine(void **state)
{
    (void)state;
    CLEANUP(place_free) struct place place = place_new();
    CLEANUP(buf_free) struct buf empty = BUF_INIT(16384), old = BUF_INIT(16384);
    assert_true(journal_check(place.folder, CHECK_TEXT, &empty));
    assert_has(&empty, "0 files, 0 bytes, 0 signatures, 0 marks; was open for 0 s\nok\n");
    assert_true(journal_check("tests/unit/broker/journal-v1", CHECK_TEXT, &old));
    assert_has(&old, "3 files, 2480 bytes, 15 signatures, 2 marks;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_is_none_or_in_use_is_reported),
        cmocka_unit_test(damage_is_named_with_file_and_offset_and_what_was_read_before_it),
        cmocka_unit_test(a_whole_journal_is_counted_and_nothing_is_changed),
        cmocka_unit_test(a_torn_tail_is_told_and_left_where_it_is),
        cmocka_unit_test(an_empty_folder_and_a_journal_of_the_version_before_are_fine),
    };
    return cmocka_run_group_tests_name("journal check", tests, NULL, NULL);
}
