/* The two small files that svc_load is told by: lines of words; # begins a comment where a word could begin. */
#include "tests/load/load.h"

#include <stdarg.h>
#include <stdio.h>

struct line {
    const char *path;
    unsigned number;
    char *rest; /* what was not yet taken */
};

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("svc_load: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(2);
}

char *keep_text(const char *text, size_t len)
{
    char *copy = calloc(1, len + 1);
    if (copy == NULL) {
        die("out of memory");
    }
    memcpy(copy, text, len);
    return copy;
}

void put(struct buf *out, const char *text)
{
    if (FAULTED(buf_text(out, text))) {
        die("a text became too long, or there is no memory");
    }
}

/* The next word, NULL at the end. */
static char *word(struct line *line)
{
    char *at = line->rest + strspn(line->rest, " \t");
    if (*at == 0 || *at == '#') {
        return NULL;
    }
    size_t len = strcspn(at, " \t");
    line->rest = at + len + (at[len] != 0);
    at[len] = 0;
    return at;
}

static char *need(struct line *line, const char *what)
{
    char *found = word(line);
    if (found == NULL) {
        die("%s:%u: %s is missing", line->path, line->number, what);
    }
    return found;
}

static void name_to(const struct line *line, const char *text, char out[NAME_MAX_])
{
    if (strlen(text) >= NAME_MAX_) {
        die("%s:%u: '%s' is too long", line->path, line->number, text);
    }
    (void)snprintf(out, NAME_MAX_, "%s", text);
}

static double number(const struct line *line, const char *text, double max)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || (*end != 0 && strcmp(end, "s") != 0) || value < 0 || value > max) {
        die("%s:%u: '%s' is no number from 0 to %.0f", line->path, line->number, text, max);
    }
    return value;
}

static unsigned whole(const struct line *line, const char *text, unsigned max)
{
    return (unsigned)number(line, text, (double)max);
}

/* Calls `take` for each line that has a first word. */
static void read_lines(const char *path, void (*take)(struct line *line, const char *first, void *arg), void *arg)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    struct line line = { .path = path };
    if (file == NULL) {
        die("cannot read %s", path);
    }
    while (getline(&text, &size, file) >= 0) {
        line.number++;
        text[strcspn(text, "\r\n")] = 0;
        line.rest = text;
        const char *first = word(&line);
        if (first != NULL) {
            take(&line, first, arg);
        }
    }
    free(text);
    (void)fclose(file);
}

/* ---- profile ---- */

static void take_phase(struct line *line, struct profile *profile)
{
    if (profile->phase_count == PHASES_MAX) {
        die("%s:%u: more than %d phases", line->path, line->number, PHASES_MAX);
    }
    struct phase *phase = &profile->phases[profile->phase_count++];
    name_to(line, need(line, "the phase's name"), phase->name);
    phase->clients = 1;
    for (char *at = word(line); at != NULL; at = word(line)) {
        char *value = strchr(at, '=');
        if (value == NULL) {
            die("%s:%u: '%s' is not name=value", line->path, line->number, at);
        }
        *value++ = 0;
        if (strcmp(at, "for") == 0) {
            phase->seconds = number(line, value, 1e7);
        } else if (strcmp(at, "ops") == 0) {
            phase->operations = (uint64_t)number(line, value, 1e15);
        } else if (strcmp(at, "rate") == 0) {
            phase->rate = number(line, value, 1e6);
        } else if (strcmp(at, "clients") == 0) {
            phase->clients = whole(line, value, 4096);
        } else {
            die("%s:%u: a phase has no '%s'", line->path, line->number, at);
        }
    }
    if (phase->clients == 0) {
        die("%s:%u: a phase without clients", line->path, line->number);
    }
    profile->clients = phase->clients > profile->clients ? phase->clients : profile->clients;
}

static void take_row(struct line *line, struct profile *profile)
{
    static const char *const kinds[] = {
        [KIND_READ] = "read", [KIND_MUTATION] = "mutation", [KIND_SIGN] = "sign", [KIND_STAMP] = "stamp"
    };
    if (profile->row_count == ROWS_MAX) {
        die("%s:%u: more than %d rows", line->path, line->number, ROWS_MAX);
    }
    struct row *row = &profile->rows[profile->row_count++];
    name_to(line, need(line, "the row's name"), row->name);
    row->weight = whole(line, need(line, "the row's weight"), 1000000);
    const char *kind = need(line, "the row's kind");
    size_t i = 0;
    while (i < COUNT_OF(kinds) && strcmp(kind, kinds[i]) != 0) {
        i++;
    }
    if (i == COUNT_OF(kinds)) {
        die("%s:%u: no such kind of row: %s", line->path, line->number, kind);
    }
    row->kind = (enum kind)i;
    row->first_step = profile->step_count;
    if (row->kind == KIND_SIGN) {
        char preview[NAME_MAX_ + 9];
        (void)snprintf(preview, sizeof(preview), "%s.preview", row->name);
        profile->step_names[profile->step_count++] = keep_text(preview, strlen(preview));
    }
    profile->step_names[profile->step_count++] = row->name;
    if (row->kind == KIND_STAMP) {
        return;
    }
    name_to(line, need(line, "the row's role"), row->role);
    if (row->kind == KIND_SIGN) {
        return;
    }
    row->method = keep_text(line->rest, 0);
    if (row->kind == KIND_MUTATION) {
        char *method = need(line, "the method");
        row->method = keep_text(method, strlen(method));
    }
    char *path = need(line, "the path");
    row->path = keep_text(path, strlen(path));
    if (row->kind == KIND_READ) {
        row->pages = 1;
        for (char *at = word(line); at != NULL; at = word(line)) {
            if (strncmp(at, "pages=", 6) == 0) {
                row->pages = whole(line, at + 6, 100000);
            } else if (strcmp(at, "large") == 0) {
                row->large = true;
            } else {
                die("%s:%u: a row has no '%s'", line->path, line->number, at);
            }
        }
        return;
    }
    const char *body = line->rest + strspn(line->rest, " \t");
    row->body = keep_text(body, strlen(body));
}

static void take_profile_line(struct line *line, const char *first, void *arg)
{
    struct profile *profile = arg;
    if (strcmp(first, "phase") == 0) {
        take_phase(line, profile);
    } else if (strcmp(first, "row") == 0) {
        take_row(line, profile);
    } else if (strcmp(first, "threads") == 0) {
        profile->threads = whole(line, need(line, "a number"), 64);
    } else if (strcmp(first, "timeout") == 0) {
        profile->timeout = number(line, need(line, "seconds"), 3600);
    } else if (strcmp(first, "give_up") == 0) {
        profile->give_up = number(line, need(line, "seconds"), 1e6);
    } else if (strcmp(first, "connection_age") == 0) {
        profile->connection_age = number(line, need(line, "seconds"), 1e6);
    } else {
        die("%s:%u: no such setting: %s", line->path, line->number, first);
    }
}

void profile_read(const char *path, struct profile *profile)
{
    *profile = (struct profile){ .threads = 2, .timeout = 30, .give_up = 120 };
    read_lines(path, take_profile_line, profile);
    if (profile->row_count == 0 || profile->phase_count == 0 || profile->threads == 0) {
        die("%s: a profile has threads, a row and a phase", path);
    }
    if (profile->threads > profile->clients) {
        profile->threads = profile->clients;
    }
}

/* ---- target ---- */

static struct tenant *tenant_of(struct line *line, struct target *target)
{
    const char *name = need(line, "the tenant");
    for (size_t i = 0; i < target->tenant_count; i++) {
        if (strcmp(target->tenants[i].name, name) == 0) {
            return &target->tenants[i];
        }
    }
    die("%s:%u: no line 'tenant %s' before this", line->path, line->number, name);
}

static void add_text(const struct line *line, char **list, size_t *count, size_t max, const char *text)
{
    if (*count == max) {
        die("%s:%u: more than %zu of them", line->path, line->number, max);
    }
    list[(*count)++] = keep_text(text, strlen(text));
}

static void take_token(struct line *line, struct tenant *tenant)
{
    if (tenant->token_count == COUNT_OF(tenant->tokens)) {
        die("%s:%u: too many tokens", line->path, line->number);
    }
    struct token *token = &tenant->tokens[tenant->token_count++];
    char header[600];
    name_to(line, need(line, "the role"), token->role);
    int len = snprintf(header, sizeof(header), "Authorization: Bearer %s", need(line, "the token"));
    if (len < 0 || (size_t)len >= sizeof(header)) {
        die("%s:%u: the token is too long", line->path, line->number);
    }
    token->header = keep_text(header, (size_t)len);
}

static void take_target_line(struct line *line, const char *first, void *arg)
{
    struct target *target = arg;
    if (strcmp(first, "url") == 0) {
        add_text(line, target->urls, &target->url_count, COUNT_OF(target->urls), need(line, "the URL"));
    } else if (strcmp(first, "stamp_url") == 0) {
        add_text(line, target->stamp_urls, &target->stamp_url_count, COUNT_OF(target->stamp_urls),
                 need(line, "the URL"));
    } else if (strcmp(first, "ca") == 0) {
        const char *file = need(line, "the file");
        target->ca = keep_text(file, strlen(file));
    } else if (strcmp(first, "tenant") == 0) {
        if (target->tenant_count == COUNT_OF(target->tenants)) {
            die("%s:%u: too many tenants", line->path, line->number);
        }
        struct tenant *tenant = &target->tenants[target->tenant_count++];
        name_to(line, need(line, "the name"), tenant->name);
        const char *weight = word(line);
        tenant->weight = weight != NULL ? whole(line, weight, 1000000) : 1;
    } else if (strcmp(first, "token") == 0) {
        take_token(line, tenant_of(line, target));
    } else if (strcmp(first, "key") == 0) {
        struct tenant *tenant = tenant_of(line, target);
        add_text(line, tenant->keys, &tenant->key_count, COUNT_OF(tenant->keys), need(line, "the key's id"));
    } else if (strcmp(first, "stamps") == 0) {
        struct tenant *tenant = tenant_of(line, target);
        const char *path = need(line, "the path");
        tenant->stamp_path = keep_text(path, strlen(path));
    } else {
        die("%s:%u: no such setting: %s", line->path, line->number, first);
    }
}

void target_read(const char *path, struct target *target)
{
    *target = (struct target){ 0 };
    read_lines(path, take_target_line, target);
    if (target->url_count == 0 || target->tenant_count == 0) {
        die("%s: a target has a url and a tenant", path);
    }
}
