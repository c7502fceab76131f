#include "api/cli/cli.h"

#include <unistd.h>

#define TIMEOUT_DEFAULT_NS (60 * NS_PER_S)
#define PATIENCE_NS        (30 * NS_PER_S)
#define SPAN_LIMIT_NS      (24 * 3600 * NS_PER_S)
#define WORDS_MAX          3

bool cli_has_flag(const struct cli *cli, const char *name)
{
    for (size_t i = 0; i < cli->command->flag_count; i++) {
        if (strcmp(cli->command->flags[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

const char *cli_flag_if(const struct cli *cli, const char *name)
{
    for (size_t i = 0; i < cli->command->flag_count; i++) {
        if (strcmp(cli->command->flags[i].name, name) == 0) {
            return cli->values[i];
        }
    }
    return NULL;
}

const char *cli_flag(const struct cli *cli, const char *name)
{
    BUG_IF(!cli_has_flag(cli, name));
    return cli_flag_if(cli, name);
}

struct fault cli_span(struct cli *cli, const char *name, int64_t otherwise_ns, int64_t *ret_ns)
{
    const char *text = cli_flag(cli, name);
    int64_t span = otherwise_ns;
    if (text != NULL && (FAULTED(duration_parse(span_text(text), &span)) || span > SPAN_LIMIT_NS)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--%s: a span such as 30s or 2h, at most 24h", name);
    }
    *ret_ns = span;
    return OK;
}

/* How many of the words in front of `words` are those of the command; 0 unless all of the command's are. */
static size_t words_match(const struct command *command, const char *const *words, size_t count)
{
    const char *at = command->words;
    size_t matched = 0;
    while (matched < count) {
        size_t len = strcspn(at, " ");
        if (strlen(words[matched]) != len || strncmp(words[matched], at, len) != 0) {
            return 0;
        }
        matched++;
        if (at[len] == '\0') {
            return matched;
        }
        at += len + 1;
    }
    return 0;
}

static const struct command *find_command(const char *const *words, size_t count, size_t *ret_used)
{
    const struct command *best = NULL, *command;
    *ret_used = 0;
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        size_t used = words_match(command, words, count);
        if (used > *ret_used) {
            best = command;
            *ret_used = used;
        }
    }
    return best;
}

/* Options of every command. `at` is where a value goes, `on` what a switch sets. */
struct global {
    const char *name;
    const char **at;
    bool *on;
};

static const struct global *find_global(const struct global *globals, size_t count, const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(globals[i].name) == len && strncmp(globals[i].name, name, len) == 0) {
            return &globals[i];
        }
    }
    return NULL;
}

static const struct flag *find_flag(const struct command *command, const char *name, size_t len, bool letter)
{
    for (size_t i = 0; command != NULL && i < command->flag_count; i++) {
        const struct flag *flag = &command->flags[i];
        if (letter ? len == 1 && flag->letter == *name
                   : strlen(flag->name) == len && strncmp(flag->name, name, len) == 0) {
            return flag;
        }
    }
    return NULL;
}

struct arguments {
    char **argv;
    int argc, at;
};

/* "--name=value" has it already; else the next argument is it. */
static struct fault take_value(struct cli *cli, struct arguments *arguments, const char *option,
                               const char *inline_value, const char **ret_value)
{
    if (inline_value != NULL) {
        *ret_value = inline_value;
        return OK;
    }
    if (arguments->at + 1 >= arguments->argc) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s needs a value", option);
    }
    *ret_value = arguments->argv[++arguments->at];
    return OK;
}

static struct fault store_flag(struct cli *cli, const struct flag *flag, const char *option, const char *value)
{
    size_t index = (size_t)(flag - cli->command->flags);
    if (flag->repeats) {
        if (cli->repeat_count == REPEATS_MAX) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: at most %d times", option, REPEATS_MAX);
        }
        cli->repeats[cli->repeat_count++] = value;
    } else if (cli->values[index] != NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: given twice", option);
    }
    cli->values[index] = value;
    return OK;
}

static struct fault no_value(struct cli *cli, const char *name)
{
    return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--%s takes no value", name);
}

static struct fault set_global(struct cli *cli, struct arguments *arguments, const struct global *global,
                               const char *inline_value)
{
    if (global->at != NULL) {
        return take_value(cli, arguments, arguments->argv[arguments->at], inline_value, global->at);
    }
    if (inline_value != NULL) {
        return no_value(cli, global->name);
    }
    *global->on = true;
    return OK;
}

static struct fault read_option(struct cli *cli, struct arguments *arguments, const struct global *globals,
                                size_t count)
{
    const char *option = arguments->argv[arguments->at];
    bool letter = option[1] != '-';
    const char *name = option + (letter ? 1 : 2), *equals = letter ? NULL : strchr(name, '=');
    size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const char *inline_value = equals != NULL ? equals + 1 : NULL, *value = "";
    const struct global *global = letter ? (*name == 'h' && len == 1 ? find_global(globals, count, "help", 4) : NULL)
                                         : find_global(globals, count, name, len);
    if (global != NULL) {
        return set_global(cli, arguments, global, inline_value);
    }
    const struct flag *flag = find_flag(cli->command, name, len, letter);
    if (flag == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: unknown option; see svc-cli %s%s--help", option,
                       cli->command != NULL ? cli->command->words : "", cli->command != NULL ? " " : "");
    }
    if (flag->value != NULL) {
        TRY(take_value(cli, arguments, option, inline_value, &value));
    } else if (inline_value != NULL) {
        return no_value(cli, flag->name);
    }
    return store_flag(cli, flag, option, value);
}

/* The command's words: the first arguments that are no options and no values of options of every command. */
static void find_words(struct cli *cli, const struct arguments *arguments, const struct global *globals, size_t count,
                       bool used[])
{
    const char *words[WORDS_MAX] = { NULL };
    int places[WORDS_MAX] = { 0 };
    size_t word_count = 0, taken = 0;
    for (int i = 1; i < arguments->argc && word_count < WORDS_MAX; i++) {
        const char *at = arguments->argv[i];
        if (strcmp(at, "--") == 0) {
            break;
        }
        if (at[0] == '-' && at[1] != '\0') {
            const struct global *global = at[1] == '-' ? find_global(globals, count, at + 2, strlen(at + 2)) : NULL;
            i += global != NULL && global->at != NULL ? 1 : 0;
            if (global == NULL && strchr(at, '=') == NULL && word_count > 0) {
                break; /* an option of the command: its words are over */
            }
            continue;
        }
        places[word_count] = i;
        words[word_count++] = at;
    }
    cli->command = find_command(words, word_count, &taken);
    for (size_t i = 0; i < taken; i++) {
        used[places[i]] = true;
    }
}

static struct fault read_arguments(struct cli *cli, int argc, char **argv, const struct global *globals, size_t count)
{
    bool *used = NULL, only_arguments = false;
    struct arguments arguments = { argv, argc, 1 };
    TRY(arena_take(cli->op->arena, (size_t)argc + 1, sizeof(*used), &used));
    find_words(cli, &arguments, globals, count, used);
    for (; arguments.at < argc; arguments.at++) {
        const char *at = argv[arguments.at];
        if (used[arguments.at]) {
            continue;
        }
        if (!only_arguments && strcmp(at, "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && at[0] == '-' && at[1] != '\0') {
            TRY(read_option(cli, &arguments, globals, count));
        } else if (cli->argument_count == ARGUMENTS_MAX) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "too many arguments");
        } else {
            cli->arguments[cli->argument_count++] = at;
        }
    }
    return OK;
}

static struct fault check_command(struct cli *cli)
{
    const struct command *command = cli->command;
    if (cli->argument_count < command->least || cli->argument_count > command->most) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: usage: svc-cli %s%s%s; see svc-cli %s --help",
                       cli->argument_count < command->least ? "an argument is missing" : "an argument too many",
                       command->words, command->arguments != NULL ? " " : "",
                       command->arguments != NULL ? command->arguments : "", command->words);
    }
    for (size_t i = 0; i < command->flag_count; i++) {
        if (command->flags[i].required && cli->values[i] == NULL) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--%s %s is missing; see svc-cli %s --help",
                           command->flags[i].name, command->flags[i].value, command->words);
        }
    }
    return OK;
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* A token goes into a header: only what can stand there. */
static bool is_token(struct span token)
{
    for (size_t i = 0; i < token.len; i++) {
        uint8_t c = token.at[i];
        if (c <= ' ' || c >= 0x7f) {
            return false;
        }
    }
    return token.len > 0;
}

static struct fault read_token(struct cli *cli)
{
    const char *text = environment("SVC_TOKEN");
    if (cli->token_file != NULL) {
        if (FAULTED(secret_from_file(cli->token_file, &cli->token))) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--token-file %s: must be a file of yours with mode 0600",
                           cli->token_file);
        }
    } else if (text != NULL) {
        TRY(secret_new(span_text(text), &cli->token));
    }
    if (cli->token != NULL && !is_token(secret_span(cli->token))) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "the token is empty or has blanks or line ends in it");
    }
    return OK;
}

static bool is_idempotency_key(const char *key)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < len; i++) {
        if (key[i] <= ' ' || key[i] >= 0x7f) {
            return false;
        }
    }
    return len >= 1 && len <= 255;
}

static struct fault settle(struct cli *cli)
{
    cli->base_url = cli->base_url != NULL ? cli->base_url : environment("SVC_BASE_URL");
    cli->ca_file = cli->ca_file != NULL ? cli->ca_file : environment("SVC_CA_FILE");
    cli->timeout_ns = TIMEOUT_DEFAULT_NS;
    cli->patience_ns = cli->no_wait || environment("SVC_NO_WAIT") != NULL ? 0 : PATIENCE_NS;
    if (cli->timeout != NULL && (FAULTED(duration_parse(span_text(cli->timeout), &cli->timeout_ns)) ||
                                 cli->timeout_ns < NS_PER_MS || cli->timeout_ns > 3600 * NS_PER_S)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--timeout: a span such as 30s or 2m, at most 1h");
    }
    if (cli->idempotency_key != NULL && !is_idempotency_key(cli->idempotency_key)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--idempotency-key: 1 to 255 visible ASCII characters");
    }
    if (cli->ca_file != NULL && access(cli->ca_file, R_OK) != 0) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "the CA file %s cannot be read (--ca-file, SVC_CA_FILE)",
                       cli->ca_file);
    }
    return read_token(cli);
}

static struct fault no_command(struct cli *cli)
{
    const struct command *command;
    if (cli->argument_count == 0) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "no command; see svc-cli --help");
    }
    const char *word = cli->arguments[0];
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        if (strncmp(command->words, word, strlen(word)) == 0 && command->words[strlen(word)] == ' ') {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s%s%s: no such command; see svc-cli %s --help", word,
                           cli->argument_count > 1 ? " " : "", cli->argument_count > 1 ? cli->arguments[1] : "", word);
        }
    }
    return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: no such command; see svc-cli --help", word);
}

struct fault options_read(struct cli *cli, int argc, char **argv)
{
    const struct global globals[] = {
        { "base-url", &cli->base_url, NULL },
        { "ca-file", &cli->ca_file, NULL },
        { "token-file", &cli->token_file, NULL },
        { "idempotency-key", &cli->idempotency_key, NULL },
        { "timeout", &cli->timeout, NULL },
        { "json", NULL, &cli->json },
        { "help", NULL, &cli->help },
        { "version", NULL, &cli->version },
        { "list-routes", NULL, &cli->list_routes },
        { "no-wait", NULL, &cli->no_wait },
    };
    TRY(read_arguments(cli, argc, argv, globals, COUNT_OF(globals)));
    if (cli->help || cli->version || cli->list_routes) {
        return OK;
    }
    if (cli->command == NULL) {
        return no_command(cli);
    }
    TRY(check_command(cli));
    return settle(cli);
}
