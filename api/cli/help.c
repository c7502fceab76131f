#include "api/cli/cli.h"

static const char intro[] =
    "svc-cli: signs and time-stamps files with keys held in an HSM, and checks the proof offline.\n"
    "\n"
    "usage: svc-cli COMMAND [ARGUMENT...] [OPTION...]\n";

static const char globals[] =
    "\nOptions of every command:\n"
    "  --base-url URL          address of the appliance (SVC_BASE_URL)\n"
    "  --ca-file FILE          CA that its certificate is verified against (SVC_CA_FILE; else the machine's)\n"
    "  --token-file FILE       bearer token, mode 0600 (else SVC_TOKEN); tokens are never given as arguments\n"
    "  --idempotency-key KEY   for a change that may have happened already: the same key never does it twice\n"
    "  --timeout SPAN          how long one request may take, such as 30s or 2m (60s)\n"
    "  --no-wait               fail at once when the server is busy (SVC_NO_WAIT; else the same request again as\n"
    "                          late as it asks, for at most 30 s in all)\n"
    "  --json                  results and failures as JSON\n"
    "  --help, --version\n"
    "\n"
    "Exit codes: 0 fine; 1 failed (network, server); 2 refused (arguments, permissions, a check that does not hold).\n";

static bool in_group(const struct command *command, const struct cli *cli)
{
    size_t len = cli->argument_count > 0 ? strlen(cli->arguments[0]) : 0;
    return len == 0 || (strncmp(command->words, cli->arguments[0], len) == 0 &&
                        (command->words[len] == ' ' || command->words[len] == '\0'));
}

static void print_all(FILE *out, const struct cli *cli)
{
    size_t shown = 0;
    const struct command *command;
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        shown += in_group(command, cli);
    }
    (void)fputs(intro, out);
    (void)fputs("\nCommands:\n", out);
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        if (shown == 0 || in_group(command, cli)) {
            (void)fprintf(out, "  %-31s %s\n", command->words, command->help);
        }
    }
    (void)fputs("\nsvc-cli COMMAND --help tells more of one command.\n", out);
    (void)fputs(globals, out);
}

static void print_flag(FILE *out, const struct flag *flag)
{
    char text[64];
    char letter[8] = "";
    if (flag->letter != 0) {
        (void)snprintf(letter, sizeof(letter), "-%c, ", flag->letter);
    }
    (void)snprintf(text, sizeof(text), "%s--%s%s%s", letter, flag->name, flag->value != NULL ? " " : "",
                   flag->value != NULL ? flag->value : "");
    (void)fprintf(out, "  %-28s %s%s%s\n", text, flag->doc, flag->required ? " (required)" : "",
                  flag->repeats ? " (may be repeated)" : "");
}

static void print_one(FILE *out, const struct command *command)
{
    (void)fprintf(out, "svc-cli %s: %s\n\nusage: svc-cli %s%s%s%s\n", command->words, command->help, command->words,
                  command->arguments != NULL ? " " : "", command->arguments != NULL ? command->arguments : "",
                  command->flag_count > 0 ? " [OPTION...]" : "");
    if (command->more != NULL) {
        (void)fprintf(out, "\n%s\n", command->more);
    }
    if (command->flag_count > 0) {
        (void)fputs("\nOptions:\n", out);
    }
    for (size_t i = 0; i < command->flag_count; i++) {
        print_flag(out, &command->flags[i]);
    }
    (void)fputs(globals, out);
    (void)fprintf(out, "\nExample:\n  svc-cli %s\n", command->example);
}

void help_print(FILE *out, const struct cli *cli)
{
    if (cli->command != NULL) {
        print_one(out, cli->command);
    } else {
        print_all(out, cli);
    }
}

void help_list_routes(void)
{
    const struct command *command;
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        for (size_t route = 0; route < ROUTES_MAX && command->routes[route].path != NULL; route++) {
            (void)printf("%s %s %s\n", command->routes[route].method, command->routes[route].path, command->words);
        }
    }
}
