#include "appliance/base/json_number.h"

#include <math.h>
#include <stdio.h>

#define LITERAL_MAX   1024
#define EXPONENT_MAX  100000
#define DIGITS_MAX    17 /* of a double: enough for every one */
#define EXACT_INTEGER 9007199254740992.0

/* digits * 10^exponent. No decimal point goes through libc, whose idea of it depends on the locale. */
struct decimal {
    char digits[LITERAL_MAX + 1];
    size_t count;
    int exponent;
};

static double decimal_value(const struct decimal *decimal)
{
    char text[LITERAL_MAX + 16];
    (void)snprintf(text, sizeof(text), "%se%d", decimal->digits, decimal->exponent);
    return strtod(text, NULL);
}

static bool peek(const struct reader *reader, char from, char to)
{
    return reader->rest.len > 0 && reader->rest.at[0] >= (uint8_t)from && reader->rest.at[0] <= (uint8_t)to;
}

static bool skip(struct reader *reader, char c)
{
    struct span one;
    return peek(reader, c, c) && !FAULTED(reader_bytes(reader, 1, &one));
}

/* One digit or more. */
static struct fault take_digits(struct reader *reader, struct decimal *decimal)
{
    REQUIRE(peek(reader, '0', '9'), JSON_SYNTAX);
    while (peek(reader, '0', '9')) {
        uint8_t digit;
        REQUIRE(decimal->count < LITERAL_MAX, JSON_SYNTAX);
        TRY(reader_u8(reader, &digit));
        decimal->digits[decimal->count++] = (char)digit;
    }
    return OK;
}

static struct fault take_exponent(struct reader *reader, int *ret_exponent)
{
    int value = 0;
    bool minus = skip(reader, '-');
    if (!minus) {
        (void)skip(reader, '+');
    }
    REQUIRE(peek(reader, '0', '9'), JSON_SYNTAX);
    while (peek(reader, '0', '9')) {
        uint8_t digit;
        TRY(reader_u8(reader, &digit));
        value = value < EXPONENT_MAX ? value * 10 + (digit - '0') : EXPONENT_MAX;
    }
    *ret_exponent = minus ? -value : value;
    return OK;
}

struct fault json_number_read(struct reader *reader, double *ret_value)
{
    struct decimal decimal = { .count = 0 };
    bool minus = skip(reader, '-');
    bool leading_zero = peek(reader, '0', '0');
    TRY(take_digits(reader, &decimal));
    REQUIRE(!leading_zero || decimal.count == 1, JSON_SYNTAX);
    if (skip(reader, '.')) {
        size_t whole = decimal.count;
        TRY(take_digits(reader, &decimal));
        decimal.exponent = -(int)(decimal.count - whole);
    }
    if (skip(reader, 'e') || skip(reader, 'E')) {
        int exponent;
        TRY(take_exponent(reader, &exponent));
        decimal.exponent += exponent;
    }
    double value = decimal_value(&decimal);
    REQUIRE(isfinite(value), JSON_SYNTAX);
    *ret_value = minus ? -value : value;
    return OK;
}

/* `value` rounded to `count` digits. */
static void decimal_round(double value, size_t count, struct decimal *decimal)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*e", (int)count - 1, value);
    const char *at = text;
    decimal->count = 0;
    for (; *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9') {
            decimal->digits[decimal->count++] = *at;
        }
    }
    decimal->digits[decimal->count] = 0;
    bool minus = *++at == '-';
    int exponent = 0;
    for (at++; *at != 0; at++) {
        exponent = exponent * 10 + (*at - '0');
    }
    decimal->exponent = (minus ? -exponent : exponent) - (int)(count - 1);
}

/* The next decimal of the same length; the digits never are all nines here with a longer form due. */
static void decimal_step(struct decimal *decimal)
{
    size_t i = decimal->count;
    while (i > 0 && decimal->digits[i - 1] == '9') {
        decimal->digits[--i] = '0';
    }
    if (i > 0) {
        decimal->digits[i - 1]++;
        return;
    }
    decimal->digits[0] = '1';
    decimal->exponent++;
}

/* Above a power of two doubles lie twice as far apart as below it, so that there the nearest decimal of some length may
 * read back as the double below while the next one up reads back well. */
static void shortest(double value, struct decimal *decimal)
{
    for (size_t count = 1; count <= DIGITS_MAX; count++) {
        decimal_round(value, count, decimal);
        if (decimal_value(decimal) == value) {
            return;
        }
        decimal_step(decimal);
        if (decimal_value(decimal) == value) {
            return;
        }
    }
    BUG_IF(true);
}

static void print_digits(const struct decimal *decimal, char *out, size_t size)
{
    int k = (int)decimal->count, n = k + decimal->exponent; /* the names of ECMA-262 */
    const char *digits = decimal->digits;
    if (k <= n && n <= 21) {
        (void)snprintf(out, size, "%s%.*s", digits, n - k, "000000000000000000000");
    } else if (0 < n && n <= 21) {
        (void)snprintf(out, size, "%.*s.%s", n, digits, digits + n);
    } else if (-6 < n && n <= 0) {
        (void)snprintf(out, size, "0.%.*s%s", -n, "00000", digits);
    } else if (k == 1) {
        (void)snprintf(out, size, "%se%+d", digits, n - 1);
    } else {
        (void)snprintf(out, size, "%.1s.%se%+d", digits, digits + 1, n - 1);
    }
}

void json_number_print(double value, char out[JSON_NUMBER_MAX])
{
    BUG_IF(!isfinite(value));
    if (value == 0) { /* -0 too */
        (void)snprintf(out, JSON_NUMBER_MAX, "0");
        return;
    }
    size_t sign = 0;
    if (value < 0) {
        out[sign++] = '-';
        value = -value;
    }
    if (value < EXACT_INTEGER && value == (double)(long long)value) {
        (void)snprintf(out + sign, JSON_NUMBER_MAX - sign, "%lld", (long long)value);
        return;
    }
    struct decimal decimal;
    shortest(value, &decimal);
    print_digits(&decimal, out + sign, JSON_NUMBER_MAX - sign);
}
