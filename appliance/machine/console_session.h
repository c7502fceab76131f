/* The running console: what its loop and its commands share. For the console_*.c files only. */
#ifndef APPLIANCE_MACHINE_CONSOLE_SESSION_H
#define APPLIANCE_MACHINE_CONSOLE_SESSION_H

#include "appliance/machine/console_tty.h"
#include "appliance/machine/console_view.h"
#include "appliance/machine/provision.h"

#define CONSOLE_WORDS_MAX 5

struct console {
    struct terminals terminals;
    struct op *kept; /* holds `provision` */
    bool has_provision;
    struct provision provision;
    enum machine_phase phase;
    bool seal_has_pin;      /* it takes one to open the state */
    struct sha256 shown;    /* of the status screen that was printed last */
    bool recovery_waits;    /* a recovery key was shown and is not confirmed */
    bool recovery_asked;    /* there is none any more */
    bool handed_over;       /* the first token was shown, at this boot or before */
    struct secret *new_pin; /* set with a recovery key, to be kept once the state is open; NULL = none */
    unsigned wrong_pins;    /* in a row */
    mono_ns pin_again;      /* when the next PIN is looked at */
};

/* Reads provision.yaml once there is one. */
void console_load_provision(struct console *console);
/* Prints the status screen at one terminal; NULL = at all, if it changed. */
void console_show_status(struct console *console, struct terminal *terminal);

/* Carries out one line of one terminal: a command of the closed list, or, while the state is locked, its PIN. `line` is
 * wiped by the caller. */
void console_take_line(struct console *console, struct terminal *terminal, const char *line);

/* Is it a command of the list (so no PIN of the state can be it)? */
bool console_is_command(const char *line);

/* "what: detail of op's note, else the fault's title", and nothing for what the operator stopped himself. */
void console_complain(struct terminal *terminal, const char *what, const struct op *op, struct fault fault);

/* console_first.c: what happens once, at first boot. */
void console_show_recovery(struct console *console);
void console_hand_over(struct console *console);
struct fault console_show_token(struct op *op, struct console *console, struct terminal *terminal);
/* console_guarded.c */
void console_provision(struct console *console, struct terminal *terminal);
void console_unlock(struct console *console, struct terminal *terminal, const char *line);
/* Asks for the console's PIN, where there is one. */
struct fault console_pass_pin(struct op *op, struct console *console, struct terminal *terminal);
void console_keep_new_pin(struct console *console);
void console_token_issue(struct console *console, struct terminal *terminal);
void console_import(struct console *console, struct terminal *terminal, const char *from);
/* console_apply.c */
void console_provision_apply(struct console *console, struct terminal *terminal);
/* CONFLICT: something differs that cannot change any more. */
struct fault console_same_machine(struct op *op, const struct provision *old, const struct provision *new);

#endif
