/* Inside provisioning only: the schema of provision.yaml as rows, and what refuses. */
#ifndef APPLIANCE_MACHINE_PROVISION_ROWS_H
#define APPLIANCE_MACHINE_PROVISION_ROWS_H

#include "appliance/base/config_rows.h"
#include "appliance/machine/provision.h"

#define PROVISION_ROWS_MAX  40
#define PROVISION_TEXT_MAX  255
#define PROVISION_PEM_MAX   4096
#define PROVISION_KEY_MAX   128
#define PROVISION_DEPTH_MAX 4 /* of a dotted key */

enum provision_kind {
    PROVISION_KIND_TEXT,  /* const char * */
    PROVISION_KIND_TEXTS, /* struct provision_texts; one plain value stands for a list of one */
    PROVISION_KIND_BOOL,  /* bool */
    PROVISION_KIND_WORD,  /* int: the index in `words` */
    PROVISION_KIND_PEM,   /* struct provision_texts of several lines each */
};

struct provision_row {
    const char *key; /* dotted */
    enum provision_kind kind;
    size_t offset;
    const char *fallback;     /* of TEXT; "" where there is none */
    bool kept;                /* printed; what names a file of the medium is not */
    const char *const *words; /* of WORD, NULL-terminated */
};
const struct provision_row *provision_rows(size_t *ret_count);

/* What checking goes on with: every refusal is noted, so that one run shows all of them. */
struct provision_load {
    struct op *op;
    const char *file;
    struct buf *why; /* may be NULL */
    unsigned refusals;
    unsigned lines[PROVISION_ROWS_MAX]; /* of each row's key; 0 = not given */
    unsigned settings_line;
};
/* "provision.yaml:12: network.address: what". line 0 = without one. */
void provision_refuse(struct provision_load *load, unsigned line, const char *key, const char *format, ...)
    PRINTF(4, 5);
/* The same for a row's key, with its line. */
void provision_refuse_key(struct provision_load *load, const char *key, const char *format, ...) PRINTF(3, 4);

/* provision_check.c: values and rules between keys. */
void provision_check(struct provision_load *load, const struct provision *provision);
/* provision_check_network.c: network, time, and names. */
void provision_check_network(struct provision_load *load, const struct provision *provision);
void provision_check_hosts(struct provision_load *load, const char *key, const struct provision_texts *texts);
bool provision_host_name_fits(const char *name, size_t most);
bool provision_host_fits(const char *text);                 /* a name or an address */
bool provision_made_of(const char *text, const char *more); /* letters, digits and what `more` has */
/* provision_settings.c: the mapping `settings`. */
struct yaml_node;
struct fault provision_take_settings(struct provision_load *load, const struct yaml_node *node,
                                     struct provision *provision);
/* The row of svc.yaml's key; NULL = none. */
const struct config_row *provision_setting_row(const char *key);

/* provision_emit.c: a nested mapping from dotted keys, in the order of their names. */
struct emit_entry {
    const char *key;
    enum { EMIT_TEXT, EMIT_PLAIN, EMIT_LIST, EMIT_BLOCKS } kind; /* quoted; as it is; quoted items; items of lines */
    const char *text;
    struct provision_texts texts;
};
#define EMIT_ENTRIES_MAX 384
struct emit {
    struct emit_entry at[EMIT_ENTRIES_MAX];
    size_t count;
};
void emit_text(struct emit *emit, const char *key, const char *text); /* borrowed; too many is a bug */
void emit_plain(struct emit *emit, const char *key, const char *text);
void emit_list(struct emit *emit, const char *key, struct provision_texts texts);
void emit_blocks(struct emit *emit, const char *key, struct provision_texts texts);
bool emit_has(const struct emit *emit, const char *key);
/* The settings, for both files. */
void provision_emit_settings(const struct provision *provision, struct emit *emit);
/* Sorts and prints, each line behind `indent` blanks. */
struct fault emit_print(struct emit *emit, unsigned indent, struct buf *out);

#endif
