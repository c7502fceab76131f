#include "appliance/seal/seal.h"

#include <ctype.h>

#define KEY_BYTES  20
#define KEY_DIGITS 32 /* 160 bits, five a digit */
#define GROUP      4

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"; /* RFC 4648 6 */

struct fault seal_recovery_new(struct secret **ret_recovery)
{
    CLEANUP(secret_freep) struct secret *random = NULL;
    TRY(secret_random(KEY_BYTES, &random));
    struct span bytes = secret_span(random);
    char text[KEY_DIGITS];
    unsigned bits = 0, held = 0;
    for (size_t i = 0, at = 0; i < KEY_DIGITS; i++) {
        if (held < 5) {
            bits = (bits & 0x1f) << 8 | bytes.at[at++];
            held += 8;
        }
        held -= 5;
        text[i] = DIGITS[bits >> held & 0x1f];
    }
    struct fault made = secret_new(span_of(text, sizeof(text)), ret_recovery);
    secret_wipe(text, sizeof(text));
    return made;
}

/* As people write it down: small letters, and the figures that look like letters. */
static char digit_of(uint8_t typed)
{
    char digit = (char)toupper(typed);
    return digit == '0' ? 'O' : digit == '1' ? 'I' : digit == '8' ? 'B' : digit;
}

struct fault seal_recovery_parse(struct span typed, struct secret **ret_recovery)
{
    char text[KEY_DIGITS];
    size_t count = 0;
    bool good = true;
    for (size_t i = 0; i < typed.len && good; i++) {
        if (typed.at[i] == '-' || typed.at[i] == ' ') {
            continue;
        }
        char digit = digit_of(typed.at[i]);
        good = digit != '\0' && memchr(DIGITS, digit, sizeof(DIGITS) - 1) != NULL && count < KEY_DIGITS;
        if (good) {
            text[count++] = digit;
        }
    }
    struct fault made =
        good && count == KEY_DIGITS ? secret_new(span_of(text, sizeof(text)), ret_recovery) : FAULT(BAD_ARGUMENT);
    secret_wipe(text, sizeof(text));
    return made;
}

void seal_recovery_print(const struct secret *recovery, char ret_text[SEAL_RECOVERY_TEXT])
{
    struct span digits = secret_span(recovery);
    size_t at = 0;
    for (size_t i = 0; i < digits.len && i < KEY_DIGITS; i++) {
        if (i > 0 && i % GROUP == 0) {
            ret_text[at++] = '-';
        }
        ret_text[at++] = (char)digits.at[i];
    }
    ret_text[at] = '\0';
}
