#include "appliance/base/log.h"

#include "appliance/base/json.h"
#include "appliance/base/utf8.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define RECORD_MAX 65536
#define VALUE_MAX  1024 /* longer values are cut */

static const char *program_name = "svc";
static atomic_int threshold = LOG_LEVEL_INFO;
static atomic_int shape = LOG_FORMAT_JSON;

static const char *const level_texts[] = { "debug", "info", "warn", "error" };

void log_setup(const char *program, enum log_level level, enum log_format format)
{
    program_name = program;
    atomic_store(&threshold, (int)level);
    atomic_store(&shape, (int)format);
}

struct fault log_level_parse(const char *text, enum log_level *ret_level)
{
    for (size_t i = 0; i < COUNT_OF(level_texts); i++) {
        if (strcmp(text, level_texts[i]) == 0) {
            *ret_level = (enum log_level)i;
            return OK;
        }
    }
    return FAULT(BAD_ARGUMENT);
}

struct fault log_format_parse(const char *text, enum log_format *ret_format)
{
    bool json = strcmp(text, "json") == 0;
    REQUIRE(json || strcmp(text, "text") == 0, BAD_ARGUMENT);
    *ret_format = json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
    return OK;
}

/* Text that is not UTF-8 must not cost the record. */
static void put_text(struct jout *jout, const char *text)
{
    char safe[VALUE_MAX + 1];
    size_t len = strnlen(text, VALUE_MAX);
    memcpy(safe, text, len);
    safe[len] = 0;
    utf8_repair(safe);
    jout_text(jout, safe);
}

static struct fault print_json(struct buf *out, enum log_level level, const char *event, const char *time,
                               const struct log_pair *pairs, size_t count)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "time", time);
    jout_key_text(&jout, "level", level_texts[level]);
    jout_key_text(&jout, "program", program_name);
    jout_key_text(&jout, "event", event);
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].kind == LOG_PAIR_INT) {
            jout_key_int(&jout, pairs[i].key, pairs[i].number);
        } else if (pairs[i].text != NULL) {
            jout_key(&jout, pairs[i].key);
            put_text(&jout, pairs[i].text);
        }
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return buf_text(out, "\n");
}

static struct fault print_text(struct buf *out, enum log_level level, const char *event, const char *time,
                               const struct log_pair *pairs, size_t count)
{
    TRY(buf_printf(out, "%s %-5s %s %s", time, level_texts[level], program_name, event));
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].kind == LOG_PAIR_INT) {
            TRY(buf_printf(out, " %s=%lld", pairs[i].key, (long long)pairs[i].number));
        } else if (pairs[i].text != NULL) {
            TRY(buf_printf(out, " %s=", pairs[i].key));
            struct jout jout;
            jout_init(&jout, out);
            put_text(&jout, pairs[i].text); /* quoted: a value cannot forge another record */
            TRY(jout_end(&jout));
        }
    }
    return buf_text(out, "\n");
}

void log_write_pairs(enum log_level level, const char *event, const struct log_pair *pairs, size_t count)
{
    if ((int)level < atomic_load(&threshold)) {
        return;
    }
    char time[RFC3339_MAX];
    rfc3339_print(clock_utc(), time);
    CLEANUP(buf_free) struct buf out = BUF_INIT(RECORD_MAX);
    struct fault fault = atomic_load(&shape) == LOG_FORMAT_JSON ? print_json(&out, level, event, time, pairs, count)
                                                                : print_text(&out, level, event, time, pairs, count);
    if (FAULTED(fault)) {
        buf_clear(&out);
        IGNORE(buf_printf(&out, "{\"level\":\"error\",\"event\":\"log_record_too_large\"}\n"));
    }
    ssize_t put = write(STDERR_FILENO, out.at, out.len); /* one write: records of threads do not mix */
    (void)put;
}

void log_fault(enum log_level level, const char *event, const struct op *op, struct fault fault)
{
    const struct fault_row *row = fault_row(fault.code);
    char place[160] = "";
    if (op != NULL && op->note.file != NULL && op->note.line > 0) {
        (void)snprintf(place, sizeof(place), "%s:%d", op->note.file, op->note.line);
    }
#define NOTE(member) (op != NULL && op->note.member[0] != 0 ? op->note.member : NULL)
    log_write_pairs(level, event,
                    (const struct log_pair[]){
                        LOG_TEXT("code", row->text),
                        LOG_TEXT("at", place[0] != 0 ? place : NULL),
                        LOG_TEXT("detail", NOTE(detail)),
                        LOG_TEXT("pointer", NOTE(pointer)),
                        LOG_TEXT("log_detail", NOTE(log_detail)),
                        LOG_TEXT("sqlstate", NOTE(sqlstate)),
                        LOG_TEXT("tenant", op != NULL && op->tenant.text[0] != 0 ? op->tenant.text : NULL),
                        LOG_TEXT("trace_id", op != NULL ? op->trace_id : NULL),
                    },
                    8);
#undef NOTE
}
