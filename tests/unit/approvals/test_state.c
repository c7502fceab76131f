/* How a request stands at a time, and what is asked. Pure. */
#include "testlib.h"

#include "api/approvals/internal.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct approval_row row_of(const char *stored)
{
    return (struct approval_row){ .id = { "01900000-0000-8000-8000-000000000001" },
                                  .stored = stored,
                                  .needed = 2,
                                  .approvals = 1,
                                  .window_us = 100,
                                  .created = 1000,
                                  .expires = 1100,
                                  .denied_by = strcmp(stored, "denied") == 0 ? "ann" : NULL };
}

static enum approval_state state_of(const struct approval_row *row, unsigned needed, utc_us now)
{
    struct approval_status status;
    approval_status_of(row, needed, now, &status);
    return status.state;
}

static void what_nobody_asked_for_is_none(void **state)
{
    (void)state;
    struct approval_status status;
    approval_status_of(NULL, 3, 1000, &status);
    assert_int_equal(status.state, APPROVAL_NONE);
    assert_int_equal(status.needed, 3);
    assert_string_equal(status.request_id.text, "");
}

static void a_window_ends_at_its_last_microsecond(void **state)
{
    (void)state;
    static const struct {
        const char *stored;
        enum approval_standing before, after;
        enum approval_state status;
    } cases[] = {
        { "pending", STANDING_PENDING, STANDING_EXPIRED, APPROVAL_PENDING },
        { "approved", STANDING_APPROVED, STANDING_EXPIRED, APPROVAL_APPROVED },
        { "denied", STANDING_DENIED, STANDING_DENIED, APPROVAL_DENIED },
        { "replaced", STANDING_REPLACED, STANDING_REPLACED, APPROVAL_NONE },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct approval_row row = row_of(cases[i].stored);
        assert_int_equal(approval_standing_at(&row, 1099), cases[i].before);
        assert_int_equal(approval_standing_at(&row, 1100), cases[i].after);
        assert_int_equal(state_of(&row, 2, 1099), cases[i].status);
        assert_int_equal(state_of(&row, 2, 1100), APPROVAL_NONE);
    }
}

static void a_rule_that_asks_for_others_asks_again(void **state)
{
    (void)state;
    const struct approval_row pending = row_of("pending"), approved = row_of("approved"), denied = row_of("denied");
    assert_int_equal(state_of(&pending, 1, 1050), APPROVAL_NONE);
    assert_int_equal(state_of(&pending, 3, 1050), APPROVAL_NONE);
    assert_int_equal(state_of(&approved, 1, 1050), APPROVAL_APPROVED);
    assert_int_equal(state_of(&approved, 3, 1050), APPROVAL_NONE);
    assert_int_equal(state_of(&denied, 1, 1050), APPROVAL_DENIED); /* no way around a denial */
    assert_int_equal(state_of(&denied, 3, 1050), APPROVAL_DENIED);
}

static void the_last_signing_uses_it_up(void **state)
{
    (void)state;
    struct approval_row row = row_of("approved");
    row.max_signings = 2;
    row.uses = 1;
    assert_int_equal(state_of(&row, 2, 1050), APPROVAL_APPROVED);
    row.uses = 2;
    assert_int_equal(state_of(&row, 2, 1050), APPROVAL_USED_UP);
    assert_int_equal(approval_standing_at(&row, 5000), STANDING_USED_UP);
    assert_int_equal(state_of(&row, 2, 5000), APPROVAL_NONE);
    row.max_signings = 0; /* without limit */
    assert_int_equal(state_of(&row, 2, 1050), APPROVAL_APPROVED);
}

static void the_status_tells_who_denied(void **state)
{
    (void)state;
    struct approval_status status;
    const struct approval_row row = row_of("denied");
    approval_status_of(&row, 2, 1050, &status);
    assert_string_equal(status.denied_by, "ann");
    assert_int_equal(status.expires, 1100);
    assert_string_equal(status.request_id.text, row.id.text);
}

static void only_the_exact_form_is_a_resource(void **state)
{
    (void)state;
    assert_true(approval_resource_valid(APPROVAL_CODESIGN HEX));
    static const char *const bad[] = {
        "",
        APPROVAL_CODESIGN,
        HEX,
        APPROVAL_CODESIGN HEX "0",
        "approval_required:other:" HEX,
        APPROVAL_CODESIGN "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
        APPROVAL_CODESIGN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(approval_resource_valid(bad[i]));
    }
}

static void standings_have_one_text_each(void **state)
{
    (void)state;
    for (int i = 0; i < STANDING_COUNT; i++) {
        enum approval_standing parsed = STANDING_COUNT;
        assert_true(approval_standing_parse(approval_standing_text((enum approval_standing)i), &parsed));
        assert_int_equal(parsed, i);
    }
    enum approval_standing parsed;
    assert_false(approval_standing_parse("Pending", &parsed));
}

static struct approval_ask good_ask(void)
{
    return (struct approval_ask){ .resource = APPROVAL_CODESIGN HEX,
                                  .requester = "ci",
                                  .rule = "releases",
                                  .action = "sign",
                                  .about = "{\"key_id\":\"k\"}",
                                  .approvers = 2,
                                  .window_us = 1000,
                                  .operation_id = { "01900000-0000-8000-8000-000000000001" } };
}

static void an_ask_that_the_projection_would_not_take_is_refused(void **state)
{
    (void)state;
    struct approval_ask asks[16];
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        asks[i] = good_ask();
    }
    char *subject = NULL, *about = NULL;
    assert_fault(mem_new(OP_SUBJECT_MAX + 2, 1, &subject), NONE);
    memset(subject, 's', OP_SUBJECT_MAX + 1);
    assert_fault(mem_new(APPROVAL_ABOUT_MAX + 2, 1, &about), NONE);
    memset(about, '{', APPROVAL_ABOUT_MAX + 1);
    asks[0].resource = NULL;
    asks[1].resource = HEX;
    asks[2].requester = "";
    asks[3].requester = subject;
    asks[4].rule = NULL;
    asks[5].action = NULL;
    asks[6].about = NULL;
    asks[7].about = "[]";
    asks[8].approvers = 0;
    asks[9].approvers = APPROVAL_APPROVERS_MAX + 1;
    asks[10].window_us = 0;
    asks[11].window_us = APPROVAL_WINDOW_MAX + 1;
    asks[12].max_signings = -1;
    asks[13].max_signings = (int64_t)INT32_MAX + 1;
    asks[14].operation_id.text[0] = '\0';
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    for (size_t i = 0; i < 15; i++) {
        assert_fault(approvals_print_requested(&asks[i], &out), BAD_ARGUMENT);
    }
    asks[15].about = about;
    assert_fault(approvals_print_requested(&asks[15], &out), TOO_LARGE);
    assert_int_equal(out.len, 0);
    mem_free(subject);
    mem_free(about);
}

static void one_refused_operation_asks_once_and_another_asks_anew(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf first = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf again = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf other = BUF_INIT(4096);
    struct approval_ask ask = good_ask();
    assert_fault(buf_text(&first, "before"), NONE);
    assert_fault(approvals_print_requested(&ask, &first), NONE);
    assert_fault(approvals_print_requested(&ask, &again), NONE);
    assert_int_equal(first.len, again.len + 6); /* appended */
    assert_memory_equal(first.at + 6, again.at, again.len);
    ask.operation_id.text[35] = '2';
    assert_fault(approvals_print_requested(&ask, &other), NONE);
    assert_memory_not_equal(again.at + 15, other.at + 15, 36); /* behind {"request_id":" */
    assert_memory_equal(again.at, "{\"request_id\":\"", 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ask_that_the_projection_would_not_take_is_refused),
        cmocka_unit_test(only_the_exact_form_is_a_resource),
        cmocka_unit_test(what_nobody_asked_for_is_none),
        cmocka_unit_test(a_window_ends_at_its_last_microsecond),
        cmocka_unit_test(a_rule_that_asks_for_others_asks_again),
        cmocka_unit_test(the_last_signing_uses_it_up),
        cmocka_unit_test(the_status_tells_who_denied),
        cmocka_unit_test(standings_have_one_text_each),
        cmocka_unit_test(one_refused_operation_asks_once_and_another_asks_anew),
    };
    return cmocka_run_group_tests_name("approvals_state", tests, NULL, NULL);
}
