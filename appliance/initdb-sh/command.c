#include "appliance/initdb-sh/command.h"

#include <string.h>

static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+-@%";
static const char *const MODES[] = { "-V", "--check", "--boot", "--single" };

struct parser {
    const char *at;
    struct command *command;
    size_t used;
};

static bool put(struct parser *parser, char byte)
{
    if (parser->used >= COMMAND_BYTES_MAX) {
        return false;
    }
    parser->command->space[parser->used++] = byte;
    return true;
}

static bool take_single(struct parser *parser)
{
    while (*parser->at != '\0' && *parser->at != '\'') {
        if (!put(parser, *parser->at++)) {
            return false;
        }
    }
    return *parser->at++ == '\'';
}

/* A dollar or a backquote would be an expansion; behind a backslash only what a shell would take literally. */
static bool take_double(struct parser *parser)
{
    while (*parser->at != '\0' && *parser->at != '"') {
        char byte = *parser->at++;
        if (byte == '$' || byte == '`') {
            return false;
        }
        if (byte == '\\') {
            byte = *parser->at++;
            if (byte != '"' && byte != '\\' && byte != '$' && byte != '`') {
                return false;
            }
        }
        if (!put(parser, byte)) {
            return false;
        }
    }
    return *parser->at++ == '"';
}

/* One word of plain and quoted parts, NUL-terminated in `space`; a blank or the end stands behind it. */
static bool take_word(struct parser *parser, char **ret_word)
{
    size_t start = parser->used;
    const char *from = parser->at;
    for (;;) {
        char byte = *parser->at;
        if (byte == '"' || byte == '\'') {
            parser->at++;
            if (byte == '"' ? !take_double(parser) : !take_single(parser)) {
                return false;
            }
        } else if (byte != '\0' && strchr(PLAIN, byte) != NULL) {
            parser->at++;
            if (!put(parser, byte)) {
                return false;
            }
        } else {
            break;
        }
    }
    *ret_word = parser->command->space + start;
    bool ended = *parser->at == ' ' || *parser->at == '\0';
    return ended && parser->at != from && put(parser, '\0');
}

static void skip_blanks(struct parser *parser)
{
    while (*parser->at == ' ') {
        parser->at++;
    }
}

static bool take_null(struct parser *parser)
{
    char *file = NULL;
    skip_blanks(parser);
    return take_word(parser, &file) && strcmp(file, "/dev/null") == 0;
}

/* *ret_taken: there was one; false: it is none of ours. */
static bool take_redirection(struct parser *parser, bool *ret_taken)
{
    struct command *command = parser->command;
    *ret_taken = true;
    if (strncmp(parser->at, "2>&1", 4) == 0) {
        parser->at += 4;
        command->error_to_output = true;
        return *parser->at == '\0' || *parser->at == ' ';
    }
    char sign = *parser->at;
    if (sign != '<' && sign != '>') {
        *ret_taken = false;
        return true;
    }
    if (command->error_to_output) {
        return false; /* the order would matter */
    }
    parser->at++;
    *(sign == '<' ? &command->input_null : &command->output_null) = true;
    return take_null(parser);
}

static bool is_allowed(const struct command *command)
{
    if (command->count < 2 || strcmp(command->argv[0], COMMAND_PROGRAM) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(MODES) / sizeof(MODES[0]); i++) {
        if (strcmp(command->argv[1], MODES[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool command_parse(const char *line, struct command *ret_command)
{
    struct parser parser = { .at = line, .command = ret_command };
    ret_command->count = 0;
    ret_command->input_null = ret_command->output_null = ret_command->error_to_output = false;
    for (skip_blanks(&parser); *parser.at != '\0'; skip_blanks(&parser)) {
        bool taken = false;
        if (!take_redirection(&parser, &taken)) {
            return false;
        }
        if (taken) {
            continue;
        }
        if (ret_command->count == COMMAND_WORDS_MAX || !take_word(&parser, &ret_command->argv[ret_command->count])) {
            return false;
        }
        ret_command->count++;
    }
    ret_command->argv[ret_command->count] = NULL;
    return is_allowed(ret_command);
}
