/* The quirk table is complete, its language says what it means, and the documentation shows the table. */
#include "tests/unit/token/softhsm.h"

#include "appliance/base/file.h"

#include <errno.h>

#define BUF(name) CLEANUP(buf_free) struct buf name = BUF_INIT(1 << 18)

static void every_row_says_what_differs_who_needs_it_and_how_we_know(void **state)
{
    (void)state;
    for (int i = 0; i < QUIRK_COUNT; i++) {
        const struct quirk_row *row = quirk_row((enum quirk)i);
        assert_true(row->name[0] != '\0' && row->differs[0] != '\0' && row->does[0] != '\0');
        assert_true(row->tokens[0] != '\0' && row->found[0] != '\0');
        assert_int_equal(strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(row->name));
        assert_null(strchr(row->differs, '|')); /* it becomes a table */
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(row->name, quirk_row((enum quirk)k)->name);
        }
    }
}

static void every_set_row_is_a_word_and_no_other_is(void **state)
{
    (void)state;
    for (int i = 0; i < QUIRK_COUNT; i++) {
        const struct quirk_row *row = quirk_row((enum quirk)i);
        struct token_quirks quirks = { 0 };
        BUF(words);
        struct fault fault = quirk_parse(span_text(row->name), &quirks, NULL);
        if (row->kind != QUIRK_SET) {
            assert_fault(fault, BAD_ARGUMENT);
            assert_int_equal(quirks.on, 0);
            continue;
        }
        assert_ok(fault);
        assert_true(quirk_on(&quirks, (enum quirk)i));
        assert_ok(quirks_print(&quirks, &words));
        assert_true(span_equal_text(buf_span(&words), row->name));
    }
}

static void words_that_are_no_words_change_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "PSS-RAW",
                                       "pss-raw ",
                                       "omit:",
                                       "omit:CKA_X",
                                       "set:",
                                       "set:=yes",
                                       "set:CKA_COPYABLE=",
                                       "set:CKA_COPYABLE=Yes",
                                       "omit:CKA_DERIVE " };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct token_quirks quirks = { .on = 0 };
        BUF(why);
        assert_fault(quirk_parse(span_text(bad[i]), &quirks, &why), BAD_ARGUMENT);
        assert_true(why.len > 0);
        assert_true(quirks.on == 0 && quirks.omit == 0 && quirks.set_yes == 0 && quirks.set_no == 0);
    }
}

static void what_guards_the_key_cannot_be_weakened(void **state)
{
    (void)state;
    static const char *const weaker[] = { "set:CKA_SENSITIVE=no", "set:CKA_EXTRACTABLE=yes", "set:CKA_DERIVE=yes",
                                          "set:CKA_DECRYPT=yes",  "set:CKA_UNWRAP=yes",      "omit:CKA_TOKEN" };
    for (size_t i = 0; i < COUNT_OF(weaker); i++) {
        struct token_quirks quirks = { 0 };
        assert_fault(quirk_parse(span_text(weaker[i]), &quirks, NULL), BAD_ARGUMENT);
    }
}

#define PAGE "docs/operating-hsm.md"

/* SVC_GOLDEN_WRITE=1: the table on the page becomes what it should be. */
static void write_table(const struct buf *page, const struct buf *table)
{
    static const char head[] = "| Quirk | Set or noticed";
    BUF(out);
    const uint8_t *from = memmem(page->at, page->len, head, sizeof(head) - 1);
    assert_non_null(from);
    size_t before = (size_t)(from - page->at);
    const uint8_t *end = memmem(from, page->len - before, "|\n\n", 3);
    assert_non_null(end);
    assert_ok(buf_put(&out, span_of(page->at, before)));
    assert_ok(buf_put(&out, buf_span(table)));
    assert_ok(buf_put(&out, span_of(end + 2, page->len - (size_t)(end + 2 - page->at))));
    assert_ok(file_write(PAGE, buf_span(&out), 0644));
}

static void the_documentation_shows_the_table(void **state)
{
    (void)state;
    BUF(table);
    BUF(page);
    assert_ok(quirks_print_docs(&table));
    assert_ok(file_read(PAGE, &page));
    if (getenv("SVC_GOLDEN_WRITE") != NULL) {
        write_table(&page, &table);
        return;
    }
    if (memmem(page.at, page.len, table.at, table.len) == NULL) {
        fail_msg(PAGE " does not show the table of quirk.def as it is now: SVC_GOLDEN_WRITE=1 %s",
                 program_invocation_short_name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_says_what_differs_who_needs_it_and_how_we_know),
        cmocka_unit_test(every_set_row_is_a_word_and_no_other_is),
        cmocka_unit_test(words_that_are_no_words_change_nothing),
        cmocka_unit_test(what_guards_the_key_cannot_be_weakened),
        cmocka_unit_test(the_documentation_shows_the_table),
    };
    return cmocka_run_group_tests_name("quirk", tests, NULL, NULL);
}
