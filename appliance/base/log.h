/*
 * The program's log: one JSON object (or text line) per record on stderr. Typed key-values, closed event names.
 * Library code does not log: programs, workers and the server do. Thread-safe; a record is one write(2).
 *
 *     log_write(INFO, "listening", LOG_TEXT("address", address), LOG_INT("port", port));
 */
#ifndef APPLIANCE_BASE_LOG_H
#define APPLIANCE_BASE_LOG_H

#include "appliance/base/fault.h"
#include "appliance/base/op.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_JSON, LOG_FORMAT_TEXT };

struct log_pair {
    const char *key;
    enum { LOG_PAIR_TEXT, LOG_PAIR_INT } kind;
    const char *text; /* NULL is left out */
    int64_t number;
};
#define LOG_TEXT(k, v)                                 \
    (struct log_pair)                                  \
    {                                                  \
        .key = (k), .kind = LOG_PAIR_TEXT, .text = (v) \
    }
#define LOG_INT(k, v)                                            \
    (struct log_pair)                                            \
    {                                                            \
        .key = (k), .kind = LOG_PAIR_INT, .number = (int64_t)(v) \
    }

/* `program` is borrowed for ever. Before this call: info level, JSON, program "svc". */
void log_setup(const char *program, enum log_level level, enum log_format format);
struct fault log_level_parse(const char *text, enum log_level *ret_level);
struct fault log_format_parse(const char *text, enum log_format *ret_format);

void log_write_pairs(enum log_level level, const char *event, const struct log_pair *pairs, size_t count);
/* The empty pair in front lets a record without pairs be written too. */
#define LOG_PAIRS(...) ((const struct log_pair[]){ { 0 }, ##__VA_ARGS__ })
#define log_write(level, event, ...) \
    log_write_pairs(LOG_LEVEL_##level, (event), LOG_PAIRS(__VA_ARGS__) + 1, COUNT_OF(LOG_PAIRS(__VA_ARGS__)) - 1)
/* A fault with its operation's note (code, place, details, trace); op may be NULL. */
void log_fault(enum log_level level, const char *event, const struct op *op, struct fault fault);

#endif
