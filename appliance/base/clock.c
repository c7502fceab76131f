#include "appliance/base/clock.h"

#include <limits.h>
#include <time.h>

#define DAY_S 86400LL

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    BUG_IF(clock_gettime(clock, &now) != 0);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

mono_ns clock_mono(void)
{
    return now_ns(CLOCK_MONOTONIC);
}

utc_us clock_utc(void)
{
    return now_ns(CLOCK_REALTIME) / 1000;
}

int clock_ms_left(mono_ns deadline)
{
    mono_ns left;
    if (__builtin_sub_overflow(deadline, clock_mono(), &left)) {
        return deadline < 0 ? 0 : INT_MAX;
    }
    if (left <= 0) {
        return 0;
    }
    int64_t ms = left / NS_PER_MS + (left % NS_PER_MS != 0);
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* The proleptic Gregorian calendar by 400-year eras that start on 1 March, so that leap days come last. */
#define DAYS_TO_1970 719468LL
#define ERA_DAYS     146097LL

static int64_t days_from_date(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - DAYS_TO_1970;
}

static void date_from_days(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
    days += DAYS_TO_1970;
    int64_t era = (days >= 0 ? days : days - (ERA_DAYS - 1)) / ERA_DAYS;
    int64_t of_era = days - era * ERA_DAYS;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153; /* 0 = March */
    *ret_day = (int)(of_year - (153 * month + 2) / 5 + 1);
    *ret_month = (int)(month < 10 ? month + 3 : month - 9);
    *ret_year = year + era * 400 + (month >= 10);
}

static void put_digits(char *out, size_t width, int64_t value)
{
    for (size_t i = width; i > 0; i--, value /= 10) {
        out[i - 1] = (char)('0' + value % 10);
    }
}

void rfc3339_print(utc_us time, char out[RFC3339_MAX])
{
    static const utc_us first = -62167219200LL * US_PER_S, last = 253402300800LL * US_PER_S - 1;
    time = time < first ? first : time > last ? last : time; /* the form has four digits of year */
    int64_t second = time / US_PER_S, micro = time % US_PER_S;
    if (micro < 0) {
        micro += US_PER_S;
        second--;
    }
    int64_t days = second / DAY_S, of_day = second % DAY_S;
    if (of_day < 0) {
        of_day += DAY_S;
        days--;
    }
    int64_t year;
    int month, day;
    date_from_days(days, &year, &month, &day);
    memcpy(out, "0000-00-00T00:00:00.000000Z", sizeof("0000-00-00T00:00:00.000000Z"));
    put_digits(out, 4, year);
    put_digits(out + 5, 2, month);
    put_digits(out + 8, 2, day);
    put_digits(out + 11, 2, of_day / 3600);
    put_digits(out + 14, 2, of_day / 60 % 60);
    put_digits(out + 17, 2, of_day % 60);
    put_digits(out + 20, 6, micro);
}

static struct fault digits(struct reader *reader, size_t count, int64_t max, int64_t *ret_value)
{
    struct span text;
    TRY(reader_bytes(reader, count, &text));
    int64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        REQUIRE(text.at[i] >= '0' && text.at[i] <= '9', BAD_ARGUMENT);
        value = value * 10 + (text.at[i] - '0');
    }
    REQUIRE(value <= max, BAD_ARGUMENT);
    *ret_value = value;
    return OK;
}

static struct fault one_of(struct reader *reader, const char *set, char *ret_found)
{
    uint8_t c;
    TRY(reader_u8(reader, &c));
    REQUIRE(c != 0 && strchr(set, c) != NULL, BAD_ARGUMENT);
    *ret_found = (char)c;
    return OK;
}

static struct fault parse_date(struct reader *reader, int64_t *ret_days)
{
    static const uint8_t lengths[12] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int64_t year, month, day;
    char mark;
    TRY(digits(reader, 4, 9999, &year));
    TRY(one_of(reader, "-", &mark));
    TRY(digits(reader, 2, 12, &month));
    TRY(one_of(reader, "-", &mark));
    TRY(digits(reader, 2, 31, &day));
    REQUIRE(month >= 1 && day >= 1, BAD_ARGUMENT);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    REQUIRE(day <= lengths[month - 1] + (month == 2 && leap), BAD_ARGUMENT);
    *ret_days = days_from_date(year, month, day);
    return OK;
}

static struct fault parse_time(struct reader *reader, int64_t *ret_seconds)
{
    int64_t hour, minute, second;
    char mark;
    TRY(digits(reader, 2, 23, &hour));
    TRY(one_of(reader, ":", &mark));
    TRY(digits(reader, 2, 59, &minute));
    TRY(one_of(reader, ":", &mark));
    TRY(digits(reader, 2, 59, &second));
    *ret_seconds = hour * 3600 + minute * 60 + second;
    return OK;
}

/* What stands behind the dot, 1 to 9 digits. */
static struct fault parse_fraction(struct reader *reader, int64_t *ret_micros)
{
    int64_t micros = 0, digit;
    size_t count = 0;
    while (reader->rest.len > 0 && reader->rest.at[0] >= '0' && reader->rest.at[0] <= '9') {
        TRY(digits(reader, 1, 9, &digit));
        micros = count < 6 ? micros * 10 + digit : micros;
        count++;
    }
    REQUIRE(count >= 1 && count <= 9, BAD_ARGUMENT);
    for (; count < 6; count++) {
        micros *= 10;
    }
    *ret_micros = micros;
    return OK;
}

struct fault rfc3339_parse(struct span text, utc_us *ret_time)
{
    struct reader reader = { text };
    int64_t days, seconds, micros = 0, offset = 0;
    char mark;
    TRY(parse_date(&reader, &days));
    TRY(one_of(&reader, "Tt", &mark));
    TRY(parse_time(&reader, &seconds));
    TRY(one_of(&reader, ".Zz+-", &mark));
    if (mark == '.') {
        TRY(parse_fraction(&reader, &micros));
        TRY(one_of(&reader, "Zz+-", &mark));
    }
    if (mark == '+' || mark == '-') {
        int64_t hour, minute;
        char colon;
        TRY(digits(&reader, 2, 23, &hour));
        TRY(one_of(&reader, ":", &colon));
        TRY(digits(&reader, 2, 59, &minute));
        offset = (hour * 3600 + minute * 60) * (mark == '-' ? -1 : 1);
    }
    TRY(reader_end(&reader));
    *ret_time = (days * DAY_S + seconds - offset) * US_PER_S + micros;
    return OK;
}

static const struct {
    const char *text;
    int64_t ns;
} units[] = {
    { "ns", 1 },         { "us", 1000 },    { "\xc2\xb5s", 1000 },  { "\xce\xbcs", 1000 },
    { "ms", NS_PER_MS }, { "s", NS_PER_S }, { "m", 60 * NS_PER_S }, { "h", 3600 * NS_PER_S },
};

static struct fault take_unit(struct reader *reader, int64_t *ret_ns)
{
    size_t len = 0;
    while (len < reader->rest.len && reader->rest.at[len] != '.' &&
           (reader->rest.at[len] < '0' || reader->rest.at[len] > '9')) {
        len++;
    }
    struct span name;
    TRY(reader_bytes(reader, len, &name));
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (span_equal_text(name, units[i].text)) {
            *ret_ns = units[i].ns;
            return OK;
        }
    }
    return FAULT(BAD_ARGUMENT);
}

/* "1.5h": digits before and behind the dot, at least one of all; what is below a nanosecond is cut. */
static struct fault take_part(struct reader *reader, int64_t *ret_ns)
{
    int64_t whole = 0, fraction = 0, scale = 1, unit, digit;
    bool dot = false;
    size_t count = 0;
    for (; reader->rest.len > 0; count++) {
        uint8_t c = reader->rest.at[0];
        if (c == '.' && !dot) {
            dot = true;
            TRY(reader_u8(reader, &c));
            count--;
            continue;
        }
        if (c < '0' || c > '9') {
            break;
        }
        TRY(digits(reader, 1, 9, &digit));
        if (!dot) {
            REQUIRE(!__builtin_mul_overflow(whole, 10, &whole) && !__builtin_add_overflow(whole, digit, &whole),
                    BAD_ARGUMENT);
        } else if (scale < 1000000000LL) {
            fraction = fraction * 10 + digit;
            scale *= 10;
        }
    }
    REQUIRE(count >= 1, BAD_ARGUMENT);
    TRY(take_unit(reader, &unit));
    REQUIRE(!__builtin_mul_overflow(whole, unit, &whole), BAD_ARGUMENT);
    int64_t part = (int64_t)((__int128)fraction * unit / scale);
    REQUIRE(!__builtin_add_overflow(whole, part, ret_ns), BAD_ARGUMENT);
    return OK;
}

struct fault duration_parse(struct span text, int64_t *ret_ns)
{
    if (span_equal_text(text, "0")) {
        *ret_ns = 0;
        return OK;
    }
    REQUIRE(text.len > 0 && text.len <= 64, BAD_ARGUMENT);
    struct reader reader = { text };
    int64_t total = 0;
    while (reader.rest.len > 0) {
        int64_t part;
        TRY(take_part(&reader, &part));
        REQUIRE(!__builtin_add_overflow(total, part, &total), BAD_ARGUMENT);
    }
    *ret_ns = total;
    return OK;
}
