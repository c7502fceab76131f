/*
 * Inside the reading of frameworks only:
 *     framework.c               ids, the folder, looking up
 *     framework_parse.c         a file: catalogue, controls, gaps
 *     framework_prerequisite.c  a prerequisite and its conditions
 *     framework_values.c        scalars and lists, and what a refusal looks like
 */
#ifndef API_COMPLIANCE_FRAMEWORK_INTERNAL_H
#define API_COMPLIANCE_FRAMEWORK_INTERNAL_H

#include "api/compliance/framework.h"
#include "appliance/base/yaml_tree.h"

#define FRAMEWORK_FILE_MAX   ((size_t)256 << 10)
#define FRAMEWORK_GAPS_MAX   32
#define FRAMEWORK_VALUES_MAX 16 /* of one condition */
#define FRAMEWORK_ID_MAX     64 /* of a control, as the catalogue writes it */
#define FRAMEWORK_NAME_MAX   63 /* of a prerequisite, a statement, a gap */
#define FRAMEWORK_TITLE_MAX  200
#define FRAMEWORK_TEXT_MAX   400
#define FRAMEWORK_PATH_MAX   63
#define FRAMEWORK_MIN_MAX    1000000
#define FRAMEWORK_ACTORS_MAX 8  /* the references have to hold them: EVIDENCE_REFERENCES_MAX */
#define FRAMEWORK_AGE_MAX    90 /* days: the evidence window bounds everything */

/* What reading goes on with. A refusal is CONFIG with "FILE:LINE: what" as the operation's note. */
struct framework_reading {
    struct op *op;
    struct arena *arena; /* of the results */
    const char *file;
};
struct fault framework_refuse(const struct framework_reading *reading, unsigned line, const char *format, ...)
    PRINTF(3, 4);

/* The members of a mapping, each known, `required` ones there. At most 32. */
struct framework_member {
    const char *key;
    bool required;
};
struct fault framework_members(const struct framework_reading *reading, const struct yaml_node *node, const char *what,
                               const struct framework_member *members, size_t count);
/* A list of 1 to `max` of anything. */
struct fault framework_list(const struct framework_reading *reading, const struct yaml_node *node, size_t max);
/* One line of printable text. */
struct fault framework_text(const struct framework_reading *reading, const struct yaml_node *node, size_t max,
                            const char **ret_text);
/* a-z, 0-9 and '-'. */
struct fault framework_name(const struct framework_reading *reading, const struct yaml_node *node,
                            const char **ret_text);
struct fault framework_number(const struct framework_reading *reading, const struct yaml_node *node, int64_t min,
                              int64_t max, int64_t *ret_number);
/* A list of 1 to `max` texts without doubles, each taken by `take`. */
typedef struct fault (*framework_take_fn)(const struct framework_reading *reading, const struct yaml_node *node,
                                          const char **ret_text);
struct fault framework_texts(const struct framework_reading *reading, const struct yaml_node *node, size_t max,
                             framework_take_fn take, const char *const **ret_texts, size_t *ret_count);

struct fault framework_take_prerequisites(const struct framework_reading *reading, const struct yaml_node *node,
                                          struct framework_control *control);
/* The whole file, results in the reading's arena. */
struct fault framework_take(const struct framework_reading *reading, const char *id, struct span yaml,
                            const struct framework **ret_framework);

#endif
