#include "appliance/base/config.h"

#include "appliance/base/clock.h"
#include "appliance/base/config_rows.h"
#include "appliance/base/json.h"

#include <stdio.h>

void config_number_text(const struct config_row *row, int64_t number, char out[40])
{
    if (row->kind == CONFIG_KIND_BOOL) {
        (void)snprintf(out, 40, "%s", number != 0 ? "true" : "false");
    } else if (row->kind != CONFIG_KIND_TIME) {
        (void)snprintf(out, 40, "%lld", (long long)number);
    } else if (number % (3600 * NS_PER_S) == 0 && number != 0) {
        (void)snprintf(out, 40, "%lldh", (long long)(number / (3600 * NS_PER_S)));
    } else if (number % NS_PER_S == 0) {
        (void)snprintf(out, 40, "%llds", (long long)(number / NS_PER_S));
    } else {
        (void)snprintf(out, 40, "%lldms", (long long)(number / NS_PER_MS));
    }
}

static const void *member_of(const struct config *config, const struct config_row *row)
{
    return (const uint8_t *)config + row->offset;
}

static int64_t number_of(const struct config *config, const struct config_row *row)
{
    if (row->kind == CONFIG_KIND_BOOL) {
        bool flag = false;
        memcpy(&flag, member_of(config, row), sizeof(flag));
        return flag;
    }
    int64_t number = 0;
    memcpy(&number, member_of(config, row), sizeof(number));
    return number;
}

static struct fault print_value(const struct config *config, const struct config_row *row, struct buf *out)
{
    if (row->kind == CONFIG_KIND_TEXT) {
        const char *text = NULL;
        memcpy(&text, member_of(config, row), sizeof(text));
        return buf_text(out, text);
    }
    if (row->kind == CONFIG_KIND_LIST) {
        struct config_list list = { 0 };
        memcpy(&list, member_of(config, row), sizeof(list));
        for (size_t i = 0; i < list.count; i++) {
            TRY(buf_printf(out, "%s%s", i > 0 ? "," : "", list.at[i]));
        }
        return OK;
    }
    char text[40];
    config_number_text(row, number_of(config, row), text);
    return buf_text(out, text);
}

struct fault config_print(const struct config *config, struct buf *out)
{
    const struct loaded *loaded = (const struct loaded *)config;
    size_t count = 0;
    const struct config_row *rows = config_rows(&count);
    for (size_t i = 0; i < count; i++) {
        TRY(buf_printf(out, "%s = ", rows[i].key));
        TRY(print_value(config, &rows[i], out));
        TRY(buf_printf(out, "   # %s\n", loaded->source[i]));
    }
    return OK;
}

struct fault config_print_json(const struct config *config, struct buf *out)
{
    const struct loaded *loaded = (const struct loaded *)config;
    size_t count = 0;
    const struct config_row *rows = config_rows(&count);
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    for (size_t i = 0; i < count; i++) {
        jout_key(&jout, rows[i].key);
        jout_object(&jout);
        jout_key(&jout, "value");
        if (rows[i].kind == CONFIG_KIND_BOOL) {
            jout_bool(&jout, number_of(config, &rows[i]) != 0);
        } else if (rows[i].kind == CONFIG_KIND_INT) {
            jout_int(&jout, number_of(config, &rows[i]));
        } else {
            CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
            TRY(print_value(config, &rows[i], &text));
            jout_span_text(&jout, buf_span(&text));
        }
        jout_key_text(&jout, "source", loaded->source[i]);
        jout_object_end(&jout);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

static const char *const kind_words[] = { "text", "integer", "true or false", "duration", "list" };

struct fault config_print_docs(struct buf *out)
{
    TRY(buf_text(
        out,
        "# Configuration\n\nPrinted by `svc-appliance --print-config-docs` from the table that the programs read "
        "their configuration by.\n\nOne YAML file; keys are nested at the dots. A variable overrides the file. "
        "Unknown keys and values out of range are refused with line and key; `svc-appliance --check-config` shows "
        "what resolved and from where.\n\n| key | variable | kind | default | range | meaning |\n|---|---|---|---|---|"
        "---|\n"));
    size_t count = 0;
    const struct config_row *rows = config_rows(&count);
    for (size_t i = 0; i < count; i++) {
        const struct config_row *row = &rows[i];
        char fallback[40], low[40], high[40];
        config_number_text(row, row->fallback_number, fallback);
        config_number_text(row, row->min, low);
        config_number_text(row, row->max, high);
        bool worded = row->kind == CONFIG_KIND_TEXT || row->kind == CONFIG_KIND_LIST;
        bool ranged = row->kind == CONFIG_KIND_INT || row->kind == CONFIG_KIND_TIME;
        TRY(buf_printf(out, "| `%s` | `%s` | %s | %s | %s%s%s | %s |\n", row->key, row->env, kind_words[row->kind],
                       worded ? row->fallback_text : fallback, ranged ? low : "", ranged ? " to " : "",
                       ranged ? high : "", row->doc));
    }
    return OK;
}
