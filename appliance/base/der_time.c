#include "appliance/base/der.h"

#include <stdio.h>

/* X.690 11.7 by way of RFC 3339: same calendar, other punctuation, one parser of dates in the house. */
struct fault der_time(struct span body, utc_us *ret_time)
{
    char text[RFC3339_MAX + 1];
    const char *digits = (const char *)body.at;
    REQUIRE(body.len >= 15 && body.len <= 22 && body.at[body.len - 1] == 'Z', BAD_ARGUMENT);
    for (size_t i = 0; i < 14; i++) {
        REQUIRE(digits[i] >= '0' && digits[i] <= '9', BAD_ARGUMENT);
    }
    int fraction = (int)body.len - 15; /* the dot and its digits */
    if (fraction > 0) {
        REQUIRE(fraction >= 2 && digits[14] == '.' && digits[body.len - 2] != '0', BAD_ARGUMENT);
    }
    (void)snprintf(text, sizeof(text), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2s%.*sZ", digits, digits + 4, digits + 6, digits + 8,
                   digits + 10, digits + 12, fraction, digits + 14);
    return rfc3339_parse(span_text(text), ret_time);
}

void der_time_print(utc_us time, unsigned digits, char out[DER_TIME_MAX])
{
    BUG_IF(digits > 6);
    char text[RFC3339_MAX]; /* "2026-11-21T03:50:36.123456Z" */
    rfc3339_print(time, text);
    size_t keep = digits;
    while (keep > 0 && text[19 + keep] == '0') {
        keep--;
    }
    (void)snprintf(out, DER_TIME_MAX, "%.4s%.2s%.2s%.2s%.2s%.2s%s%.*sZ", text, text + 5, text + 8, text + 11, text + 14,
                   text + 17, keep > 0 ? "." : "", (int)keep, text + 20);
}
