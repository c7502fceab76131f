#include "api/policy/internal.h"

#define MINUTE_US (60 * US_PER_S)
#define DAY_US    (POLICY_MINUTES_OF_DAY * MINUTE_US)
#define EPOCH_DAY 3 /* 1970-01-01 was a Thursday; Monday is 0 */

const char *const window_days[WINDOW_DAYS] = { "mon", "tue", "wed", "thu", "fri", "sat", "sun" };

/* The day whose window could hold this minute: yesterday's where it went over midnight. */
static bool minute_is_open(const struct window *window, int minute, bool *ret_yesterdays)
{
    *ret_yesterdays = false;
    if (window->from == window->to) {
        return true;
    }
    if (window->from < window->to) {
        return minute >= window->from && minute < window->to;
    }
    *ret_yesterdays = minute < window->to;
    return minute >= window->from || minute < window->to;
}

bool window_is_open(const struct window *window, utc_us now)
{
    bool yesterdays = false;
    int64_t day = now / DAY_US, of_day = now % DAY_US;
    if (of_day < 0) { /* before 1970 */
        of_day += DAY_US;
        day--;
    }
    if (now < window->not_before || now > window->not_after ||
        !minute_is_open(window, (int)(of_day / MINUTE_US), &yesterdays)) {
        return false;
    }
    int64_t weekday = (day - yesterdays + EPOCH_DAY) % WINDOW_DAYS;
    weekday += weekday < 0 ? WINDOW_DAYS : 0;
    return window->weekdays == 0 || (window->weekdays >> weekday & 1) != 0;
}

static struct fault take_instant(const struct reading *reading, const struct yaml_node *node, utc_us *ret_time)
{
    const char *text = "";
    TRY(value_text(reading, node, node->key, &text));
    if (FAULTED(rfc3339_parse(span_text(text), ret_time))) {
        return reading_refuse(reading, node->line, "%s: '%.40s' is no RFC 3339 time such as 2030-01-31T12:00:00Z",
                              node->key, text);
    }
    return OK;
}

static bool two_digits(const char *text, int max, int *ret_value)
{
    if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9') {
        return false;
    }
    *ret_value = (text[0] - '0') * 10 + (text[1] - '0');
    return *ret_value <= max;
}

static struct fault take_minute(const struct reading *reading, const struct yaml_node *node, int *ret_minute)
{
    const char *text = "";
    int hour = 0, minute = 0;
    TRY(value_text(reading, node, node->key, &text));
    bool good = strlen(text) == 5 && text[2] == ':' && two_digits(text, 24, &hour) && two_digits(text + 3, 59, &minute);
    int value = hour * 60 + minute;
    bool is_end = strcmp(node->key, "to") == 0;
    if (!good || value > POLICY_MINUTES_OF_DAY || (value == POLICY_MINUTES_OF_DAY && !is_end)) {
        return reading_refuse(reading, node->line, "%s: '%.40s' is no time of day such as \"08:00\"%s", node->key, text,
                              is_end ? ", \"24:00\" at most" : "");
    }
    *ret_minute = value;
    return OK;
}

static struct fault take_weekdays(const struct reading *reading, const struct yaml_node *node, unsigned *ret_days)
{
    unsigned days = 0;
    if (node->kind != YAML_KIND_LIST || node->count == 0) {
        return reading_refuse(reading, node->line, "weekdays: must be a list of mon, tue, wed, thu, fri, sat, sun");
    }
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        const char *text = "";
        size_t day = 0;
        TRY(value_text(reading, item, "weekdays", &text));
        while (day < WINDOW_DAYS && strcmp(window_days[day], text) != 0) {
            day++;
        }
        if (day == WINDOW_DAYS) {
            return reading_refuse(reading, item->line, "weekdays: '%.40s' is none of mon, tue, wed, thu, fri, sat, sun",
                                  text);
        }
        if ((days >> day & 1) != 0) {
            return reading_refuse(reading, item->line, "weekdays: '%s' stands here a second time", text);
        }
        days |= 1U << day;
    }
    *ret_days = days;
    return OK;
}

static struct fault take_part(const struct reading *reading, const struct yaml_node *node, struct window *window)
{
    if (strcmp(node->key, "not_before") == 0) {
        return take_instant(reading, node, &window->not_before);
    }
    if (strcmp(node->key, "not_after") == 0) {
        return take_instant(reading, node, &window->not_after);
    }
    if (strcmp(node->key, "weekdays") == 0) {
        return take_weekdays(reading, node, &window->weekdays);
    }
    if (strcmp(node->key, "from") == 0) {
        return take_minute(reading, node, &window->from);
    }
    if (strcmp(node->key, "to") == 0) {
        return take_minute(reading, node, &window->to);
    }
    return reading_refuse(reading, node->line,
                          "time: '%.40s' is none of its keys: not_before, not_after, weekdays, from, to", node->key);
}

struct fault value_window(const struct reading *reading, const struct yaml_node *node, const struct window **ret_window)
{
    struct window *window = NULL;
    if (node->kind != YAML_KIND_MAP || node->count == 0) {
        return reading_refuse(reading, node->line,
                              "time: must be a mapping with not_before, not_after, weekdays, from and to, or some");
    }
    TRY(arena_take(reading->policy->arena, 1, sizeof(*window), &window));
    *window = (struct window){ .not_before = INT64_MIN, .not_after = INT64_MAX };
    for (const struct yaml_node *part = node->first; part != NULL; part = part->next) {
        TRY(take_part(reading, part, window));
    }
    const struct yaml_node *from = yaml_tree_get(node, "from"), *to = yaml_tree_get(node, "to");
    if ((from == NULL) != (to == NULL)) {
        const struct yaml_node *alone = from != NULL ? from : to;
        return reading_refuse(reading, alone->line, "time: '%s' is given without '%s'; give both or none", alone->key,
                              from != NULL ? "to" : "from");
    }
    if (from != NULL && window->from == window->to) {
        return reading_refuse(reading, to->line, "time: from and to are the same; leave both out for the whole day");
    }
    if (window->not_before > window->not_after) {
        return reading_refuse(reading, yaml_tree_get(node, "not_after")->line,
                              "time: not_after lies before not_before: the rule would never hold");
    }
    *ret_window = window;
    return OK;
}
