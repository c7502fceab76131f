#include "appliance/machine/console_tty.h"

#include "appliance/base/file.h"
#include "appliance/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define SAY_MAX 2000
#define PUT_MS  1000
#define CHUNK   512
#define CONSOLE "/dev/console"

/* ---- one terminal ---- */

/* Not our controlling terminal, so typed signals reach nobody: Ctrl-C just drops the line. */
static void set_manners(const struct terminal *terminal)
{
    struct termios manners;
    if (tcgetattr(terminal->in, &manners) != 0) {
        return; /* no terminal: a pipe of a test */
    }
    manners.c_iflag = ICRNL | BRKINT | IUTF8;
    manners.c_oflag = OPOST | ONLCR;
    manners.c_cflag |= CREAD | CLOCAL;
    manners.c_lflag = ICANON | ISIG | (terminal->echo == TERMINAL_ECHO ? ECHO | ECHOE | ECHOK : 0);
    (void)tcsetattr(terminal->in, TCSANOW, &manners);
}

void terminal_init(struct terminal *terminal, int in, int out)
{
    *terminal = (struct terminal){ .in = in, .out = out, .echo = TERMINAL_ECHO };
    (void)fcntl(in, F_SETFL, O_NONBLOCK | (in == out ? O_RDWR : O_RDONLY));
    (void)fcntl(out, F_SETFL, O_NONBLOCK | (in == out ? O_RDWR : O_WRONLY));
    set_manners(terminal);
}

void terminal_clear(struct terminal *terminal)
{
    terminal_set_echo(terminal, TERMINAL_ECHO);
    secret_wipe(terminal->typed, sizeof(terminal->typed));
    if (terminal->out != terminal->in) {
        fd_close(terminal->out);
    }
    fd_close(terminal->in);
    terminal->in = terminal->out = -1;
    terminal->gone = true;
}

void terminal_set_echo(struct terminal *terminal, enum terminal_echo echo)
{
    if (terminal->echo != echo && !terminal->gone) {
        terminal->echo = echo;
        set_manners(terminal);
    }
}

static void take_bytes(struct terminal *terminal, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool end = bytes[i] == '\n' || bytes[i] == '\r';
        if (terminal->skipping) {
            terminal->skipping = !end;
            continue;
        }
        if (terminal->used == TERMINAL_LINE_MAX) {
            /* Told as one refused line; the rest of it is skipped. */
            secret_wipe(terminal->typed, sizeof(terminal->typed));
            terminal->typed[0] = '\x01';
            terminal->typed[1] = '\n';
            terminal->used = 2;
            terminal->skipping = !end;
            continue;
        }
        terminal->typed[terminal->used++] = end ? '\n' : bytes[i];
    }
}

static bool has_line(const struct terminal *terminal)
{
    return memchr(terminal->typed, '\n', terminal->used) != NULL;
}

void terminal_fill(struct terminal *terminal)
{
    char chunk[CHUNK];
    /* One line at a time: what was typed ahead stays with the kernel, which bounds it. */
    while (!terminal->gone && !has_line(terminal)) {
        /* At the end of the room one byte more, which tells that the line is too long. */
        size_t room = terminal->used < TERMINAL_LINE_MAX ? TERMINAL_LINE_MAX - terminal->used : 1;
        ssize_t got = read(terminal->in, chunk, room < sizeof(chunk) ? room : sizeof(chunk));
        if (got <= 0) {
            terminal->gone = got == 0 ? !isatty(terminal->in) : errno != EAGAIN && errno != EINTR;
            break;
        }
        take_bytes(terminal, chunk, (size_t)got);
    }
    secret_wipe(chunk, sizeof(chunk));
}

/* After a poll: a line that hung up would be readable for ever. */
static void take_events(struct terminal *terminal, short events)
{
    if ((events & POLLIN) != 0) {
        terminal_fill(terminal);
    } else if (events != 0) {
        terminal->gone = true;
    }
}

static bool is_text(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)line[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return !FAULTED(utf8_check(span_of(line, len)));
}

enum line_kind terminal_line(struct terminal *terminal, char out[TERMINAL_LINE_MAX + 1])
{
    const char *end = memchr(terminal->typed, '\n', terminal->used);
    if (end == NULL) {
        return LINE_NONE;
    }
    size_t len = (size_t)(end - terminal->typed), rest = terminal->used - len - 1;
    bool text = is_text(terminal->typed, len);
    if (text) {
        memcpy(out, terminal->typed, len);
        out[len] = '\0';
    }
    memmove(terminal->typed, terminal->typed + len + 1, rest);
    secret_wipe(terminal->typed + rest, sizeof(terminal->typed) - rest);
    terminal->used = rest;
    return text ? LINE_TEXT : LINE_REFUSED;
}

static void write_all(struct terminal *terminal, const char *at, size_t len)
{
    mono_ns deadline = clock_mono() + PUT_MS * NS_PER_MS;
    while (len > 0 && !terminal->gone) {
        ssize_t put = write(terminal->out, at, len);
        if (put > 0) {
            at += put;
            len -= (size_t)put;
            continue;
        }
        if (put < 0 && errno != EAGAIN && errno != EINTR) {
            return;
        }
        struct pollfd waited = { .fd = terminal->out, .events = POLLOUT };
        if (poll(&waited, 1, clock_ms_left(deadline)) <= 0) {
            return; /* nobody takes it: held flow, or a line without a cable */
        }
    }
}

void terminal_put(struct terminal *terminal, struct span text)
{
    char shown[CHUNK + 1];
    while (text.len > 0) {
        size_t len = text.len < CHUNK ? text.len : CHUNK;
        /* Not in the middle of a character. */
        while (len < text.len && len > CHUNK - 4 && (text.at[len] & 0xc0) == 0x80) {
            len--;
        }
        memcpy(shown, text.at, len);
        shown[len] = '\0';
        for (size_t i = 0; i < len; i++) {
            uint8_t c = (uint8_t)shown[i];
            bool c1 = c == 0xc2 && i + 1 < len && (uint8_t)shown[i + 1] < 0xa0;
            if (c1) {
                shown[i++] = '?';
                shown[i] = '?';
            } else if ((c < 0x20 && c != '\n') || c == 0x7f) {
                shown[i] = c == '\t' ? ' ' : '?';
            }
        }
        utf8_repair(shown);
        write_all(terminal, shown, len);
        text = span_of(text.at + len, text.len - len);
    }
}

void terminal_say(struct terminal *terminal, const char *format, ...)
{
    char line[SAY_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    size_t len = strlen(line);
    line[len] = '\n';
    terminal_put(terminal, span_of(line, len + 1));
}

void terminal_prompt(struct terminal *terminal, const char *text)
{
    terminal_put(terminal, span_text(text));
}

/* ---- asking ---- */

static struct fault wait_line(struct op *op, struct terminal *terminal, char answer[TERMINAL_LINE_MAX + 1],
                              enum line_kind *ret_kind)
{
    while (true) {
        enum line_kind kind = terminal_line(terminal, answer);
        if (kind != LINE_NONE) {
            *ret_kind = kind;
            return OK;
        }
        REQUIRE(!terminal->gone, CANCELLED);
        struct pollfd waited = { .fd = terminal->in, .events = POLLIN };
        if (poll(&waited, 1, clock_ms_left(op->deadline)) == 0) {
            return op_fail(op, FAULT(DEADLINE), "no answer");
        }
        take_events(terminal, waited.revents);
    }
}

struct fault terminal_ask(struct op *op, struct terminal *terminal, const char *prompt,
                          char ret_answer[TERMINAL_LINE_MAX + 1])
{
    enum line_kind kind = LINE_REFUSED;
    while (kind == LINE_REFUSED) {
        terminal_prompt(terminal, prompt);
        struct fault got = wait_line(op, terminal, ret_answer, &kind);
        if (FAULTED(got)) {
            terminal_say(terminal, "\nno answer: cancelled");
            return got;
        }
        if (kind == LINE_REFUSED) {
            terminal_say(terminal, "that line is too long or not text");
        }
    }
    return OK;
}

struct fault terminal_ask_secret(struct op *op, struct terminal *terminal, const char *prompt,
                                 struct secret **ret_secret)
{
    char answer[TERMINAL_LINE_MAX + 1];
    enum terminal_echo before = terminal->echo;
    struct secret *made = NULL;
    terminal_set_echo(terminal, TERMINAL_SILENT);
    struct fault got = terminal_ask(op, terminal, prompt, answer);
    terminal_set_echo(terminal, before);
    terminal_say(terminal, "%s", ""); /* the line feed that was not shown */
    if (!FAULTED(got) && answer[0] != '\0') {
        got = secret_new(span_text(answer), &made);
    }
    secret_wipe(answer, sizeof(answer));
    TRY(got);
    *ret_secret = made;
    return OK;
}

struct fault terminal_confirm(struct op *op, struct terminal *terminal, const char *question, bool *ret_yes)
{
    char answer[TERMINAL_LINE_MAX + 1], prompt[256];
    (void)snprintf(prompt, sizeof(prompt), "%s Type yes to go on: ", question);
    TRY(terminal_ask(op, terminal, prompt, answer));
    *ret_yes = strcmp(answer, "yes") == 0;
    if (!*ret_yes) {
        terminal_say(terminal, "not done");
    }
    return OK;
}

/* ---- all of them ---- */

static void open_one(const char *path, struct terminals *terminals)
{
    int fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        terminal_init(&terminals->at[terminals->count++], fd, fd);
    }
}

void terminals_open(struct span active, struct terminals *terminals)
{
    terminals->count = 0;
    while (active.len > 0 && terminals->count < TERMINALS_MAX) {
        size_t len = 0;
        char path[sizeof("/dev/") + TERMINAL_NAME_MAX];
        while (len < active.len && ((active.at[len] | 0x20) >= 'a' ? (active.at[len] | 0x20) <= 'z'
                                                                   : active.at[len] >= '0' && active.at[len] <= '9')) {
            len++;
        }
        if (len > 0 && len <= TERMINAL_NAME_MAX) {
            bool screen = len == 4 && memcmp(active.at, "tty0", 4) == 0; /* the one in front; ours is the first */
            (void)snprintf(path, sizeof(path), "/dev/%.*s", screen ? 4 : (int)len,
                           screen ? "tty1" : (const char *)active.at);
            open_one(path, terminals);
        }
        size_t used = len + (len < active.len);
        active = span_of(active.at + used, active.len - used);
    }
    if (terminals->count == 0) {
        open_one(CONSOLE, terminals);
    }
}

void terminals_clear(struct terminals *terminals)
{
    for (size_t i = 0; i < terminals->count; i++) {
        terminal_clear(&terminals->at[i]);
    }
    terminals->count = 0;
}

void terminals_put(struct terminals *terminals, struct span text)
{
    for (size_t i = 0; i < terminals->count; i++) {
        terminal_put(&terminals->at[i], text);
    }
}

void terminals_say(struct terminals *terminals, const char *format, ...)
{
    char line[SAY_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    for (size_t i = 0; i < terminals->count; i++) {
        terminal_say(&terminals->at[i], "%s", line);
    }
}

void terminals_wait(struct terminals *terminals, int ms)
{
    struct pollfd waited[TERMINALS_MAX];
    for (size_t i = 0; i < terminals->count; i++) {
        const struct terminal *terminal = &terminals->at[i];
        waited[i] = (struct pollfd){ .fd = terminal->gone ? -1 : terminal->in, .events = POLLIN };
        ms = has_line(terminal) ? 0 : ms;
    }
    if (poll(waited, (nfds_t)terminals->count, ms) < 0 && errno != EINTR) {
        return;
    }
    for (size_t i = 0; i < terminals->count; i++) {
        take_events(&terminals->at[i], waited[i].revents);
    }
}
