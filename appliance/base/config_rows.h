/* Inside the configuration module only: config.def as rows, where each value came from, and what refuses. */
#ifndef APPLIANCE_BASE_CONFIG_ROWS_H
#define APPLIANCE_BASE_CONFIG_ROWS_H

#include "appliance/base/arena.h"
#include "appliance/base/config.h"

#define CONFIG_ROWS_MAX 192

enum config_kind { CONFIG_KIND_TEXT, CONFIG_KIND_INT, CONFIG_KIND_BOOL, CONFIG_KIND_TIME, CONFIG_KIND_LIST };

struct config_row {
    const char *key, *env;
    enum config_kind kind;
    size_t offset;
    const char *fallback_text;
    int64_t fallback_number, min, max;
    const char *doc;
};
const struct config_row *config_rows(size_t *ret_count);

struct loaded {
    struct config config; /* first: config_free finds the rest from it */
    struct arena *arena;
    const char *source[CONFIG_ROWS_MAX]; /* "default", "svc.yaml:3", "SVC_FIPS" */
};

/* What reading goes on with: every refusal is noted, so that one run shows all of them. */
struct load {
    struct loaded *loaded;
    const char *file; /* its last name, for the lines of `why` */
    struct buf *why;  /* may be NULL */
    bool refused;
};
/* One line: "SOURCE: KEY: what"; SOURCE is left out where the key has its default. */
void config_refuse_key(struct load *load, const char *key, const char *format, ...) PRINTF(3, 4);
void config_refuse(struct load *load, const char *format, ...) PRINTF(2, 3);

/* Rules between keys, and values whose words are closed. */
void config_check(struct load *load);
/* "42", "-1": digits and nothing else. */
bool config_parse_int(const char *text, int64_t *ret_number);
/* A number of this row as it is written: "true", "20s", "42". */
void config_number_text(const struct config_row *row, int64_t number, char out[40]);

#endif
