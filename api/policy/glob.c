#include "api/policy/internal.h"

/* Only the last `*` is ever gone back to: what an earlier one took is settled once the text behind it was found. */
bool glob_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *retry = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

const char *glob_complaint(const char *pattern)
{
    size_t len = strlen(pattern);
    if (len == 0) {
        return "is empty";
    }
    if (len > POLICY_PATTERN_MAX) {
        return "is longer than 1024 bytes";
    }
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)pattern[i];
        if (c < 0x20 || c == 0x7f) {
            return "holds a control character";
        }
        if (strchr("?[]{}\\", c) != NULL) {
            return "holds one of ? [ ] { } \\: only * matches more than itself here";
        }
        if (c == '*' && pattern[i + 1] == '*') {
            return "holds **: one * matches any run of characters, slashes too";
        }
    }
    return NULL;
}
