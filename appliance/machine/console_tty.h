/*
 * The terminals of the console: lines in, lines out. What comes in is somebody's typing: bounded, one line at a time,
 * text or refused. What goes out may hold anything that a log or a status said, so nothing that steers a terminal
 * leaves but line feeds of ours. For the console_*.c files only; one thread.
 */
#ifndef APPLIANCE_MACHINE_CONSOLE_TTY_H
#define APPLIANCE_MACHINE_CONSOLE_TTY_H

#include "appliance/base/op.h"
#include "appliance/base/secret.h"

#define TERMINALS_MAX     4
#define TERMINAL_LINE_MAX 1024
#define TERMINAL_NAME_MAX 16

enum terminal_echo { TERMINAL_ECHO, TERMINAL_SILENT };

struct terminal {
    int in, out;   /* of a real terminal the same descriptor */
    bool gone;     /* end of file, or an error: left alone from then on */
    bool skipping; /* the rest of a line that was too long */
    enum terminal_echo echo;
    size_t used;
    char typed[TERMINAL_LINE_MAX + 1]; /* wiped as soon as a line was taken */
};

/* Takes the descriptors over, and gives a real terminal its manners (whole lines, echo, CR LF). */
void terminal_init(struct terminal *terminal, int in, int out);
void terminal_clear(struct terminal *terminal); /* echo on again, closed, wiped; idempotent */
void terminal_set_echo(struct terminal *terminal, enum terminal_echo echo);

/* Reads what is there, without waiting. */
void terminal_fill(struct terminal *terminal);
enum line_kind {
    LINE_NONE,
    LINE_TEXT,
    LINE_REFUSED, /* too long, or not text: it is dropped, and the operator has to be told */
};
/* The next whole line without its end, NUL-terminated, into `out`, which the caller wipes where it may be a secret. */
enum line_kind terminal_line(struct terminal *terminal, char out[TERMINAL_LINE_MAX + 1]);

/* Writes text, every control character but line feeds shown as '?', invalid UTF-8 too. A terminal that does not take it
 * within a second is left out. */
void terminal_put(struct terminal *terminal, struct span text);
void terminal_say(struct terminal *terminal, const char *format, ...) PRINTF(2, 3); /* at most 2000 bytes; and a line
                                                                                       feed */
void terminal_prompt(struct terminal *terminal, const char *text);

/* Prompts, and waits for one line until op's deadline. DEADLINE: nothing came (the operator is told that it is
 * cancelled). CANCELLED: the terminal went away. Refused lines are asked for again. */
struct fault terminal_ask(struct op *op, struct terminal *terminal, const char *prompt,
                          char ret_answer[TERMINAL_LINE_MAX + 1]);
/* The same without echo. An empty answer is NULL in *ret_secret. */
struct fault terminal_ask_secret(struct op *op, struct terminal *terminal, const char *prompt,
                                 struct secret **ret_secret);
/* Is the answer "yes", in full? */
struct fault terminal_confirm(struct op *op, struct terminal *terminal, const char *question, bool *ret_yes);

/* Every terminal that the kernel has as a console. */
struct terminals {
    struct terminal at[TERMINALS_MAX];
    size_t count;
};
/* `active`: the text of /sys/class/tty/console/active ("tty0 ttyS0"). Never none: /dev/console at least. */
void terminals_open(struct span active, struct terminals *terminals);
void terminals_clear(struct terminals *terminals);
void terminals_put(struct terminals *terminals, struct span text);
void terminals_say(struct terminals *terminals, const char *format, ...) PRINTF(2, 3);
/* Waits at most `ms` for typing, and reads it. */
void terminals_wait(struct terminals *terminals, int ms);

#endif
