#include "unit/policy/policy_testlib.h"

static void what_is_not_the_same_does_not_match(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "a", "" },
        { "a", "b" },
        { "a", "ab" },
        { "a", "ba" },
        { "ab", "a" },
        { "A", "a" },
        { "a*", "" },
        { "a*", "ba" },
        { "*a", "ab" },
        { "*a", "" },
        { "a*b", "a" },
        { "a*b", "ab " },
        { "a*b", "acbc" },
        { "a*a", "a" },
        { "*a*b*", "ba" },
        { "release-*", "Release-1" },
        { "release-*", "release" },
        { "https://github.com/acme/*", "https://github.com/acmeevil/x" },
        { "https://github.com/acme/*@refs/tags/*", "https://github.com/acme/x@refs/heads/tags" },
        { "*@acme.example", "a@acme.example.evil" },
        { "a.c", "abc" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (glob_matches(rows[i][0], rows[i][1])) {
            fail_msg("'%s' matches '%s'", rows[i][0], rows[i][1]);
        }
    }
}

static void a_star_matches_any_run_also_the_empty_one(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "a", "a" },
        { "*", "" },
        { "*", "a/b\nc" },
        { "a*", "a" },
        { "a*", "a/b/c" },
        { "*a", "a" },
        { "*a", "aaa" },
        { "a*b", "ab" },
        { "a*b", "abab" },
        { "a*b", "a*b" },
        { "*a*", "bab" },
        { "*ab*ab", "abab" },
        { "*ab*ab", "xabyabzab" },
        { "a*b*c", "aXbYbZc" },
        { "*.*", "a.b" },
        { "\xc3\xa9*", "\xc3\xa9t\xc3\xa9" },
        { "https://github.com/acme/*@refs/tags/*", "https://github.com/acme/x/.github/w.yml@refs/tags/v1" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!glob_matches(rows[i][0], rows[i][1])) {
            fail_msg("'%s' does not match '%s'", rows[i][0], rows[i][1]);
        }
    }
}

/* A matcher that tries every way to share the text out would not come back from this within anybody's life. */
static void many_stars_do_not_multiply(void **state)
{
    (void)state;
    char pattern[POLICY_PATTERN_MAX + 1], text[4097];
    for (size_t i = 0; i + 1 < sizeof(pattern); i += 2) {
        pattern[i] = '*';
        pattern[i + 1] = 'a';
    }
    pattern[sizeof(pattern) - 2] = 'b';
    pattern[sizeof(pattern) - 1] = '\0';
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_false(glob_matches(pattern, text));
    text[sizeof(text) - 2] = 'b';
    assert_true(glob_matches(pattern, text));
}

/* Against the definition, written the slow way, over all small patterns and texts. */
static bool slow_match(const char *pattern, const char *text)
{
    if (*pattern == '\0') {
        return *text == '\0';
    }
    if (*pattern == '*') {
        return slow_match(pattern + 1, text) || (*text != '\0' && slow_match(pattern, text + 1));
    }
    return *pattern == *text && slow_match(pattern + 1, text + 1);
}

static void next_word(char *word, const char *letters, size_t max)
{
    for (size_t i = 0; i < max; i++) {
        const char *at = word[i] != '\0' ? strchr(letters, word[i]) : NULL;
        if (word[i] == '\0' || at[1] != '\0') {
            word[i] = at != NULL ? at[1] : letters[0];
            return;
        }
        word[i] = letters[0];
    }
}

static void every_small_case_matches_as_defined(void **state)
{
    (void)state;
    char pattern[7] = "";
    for (size_t i = 0; i < 1092; i++, next_word(pattern, "a*b", 6)) {
        char text[7] = "";
        for (size_t j = 0; j < 126; j++, next_word(text, "ab", 6)) {
            if (glob_matches(pattern, text) != slow_match(pattern, text)) {
                fail_msg("'%s' and '%s'", pattern, text);
            }
        }
    }
}

static void patterns_of_other_languages_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "a**", "**", "a?", "[a-z]", "a]", "{a,b}", "a}", "a\\*", "a\nb", "\x7f" };
    static const char *const good[] = { "*", "a*b*", "https://x/y@refs/tags/v*", "a b", "\xc3\xa9", "+!^$()|.,:;" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_non_null(glob_complaint(bad[i]));
    }
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_null(glob_complaint(good[i]));
    }
    char longest[POLICY_PATTERN_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    longest[POLICY_PATTERN_MAX + 1] = '\0';
    assert_non_null(glob_complaint(longest));
    longest[POLICY_PATTERN_MAX] = '\0';
    assert_null(glob_complaint(longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_the_same_does_not_match),
        cmocka_unit_test(a_star_matches_any_run_also_the_empty_one),
        cmocka_unit_test(many_stars_do_not_multiply),
        cmocka_unit_test(every_small_case_matches_as_defined),
        cmocka_unit_test(patterns_of_other_languages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
