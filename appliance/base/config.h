/*
 * The configuration: one YAML file, checked key by key against config.def, then SVC_ variables, then immutable.
 * Unknown keys, wrong kinds and values out of range are refused with file, line and key. Every program of the
 * appliance reads the same file; secrets are referenced by file, never held here.
 */
#ifndef APPLIANCE_BASE_CONFIG_H
#define APPLIANCE_BASE_CONFIG_H

#include "appliance/base/bytes.h"

struct config_list {
    const char **at;
    size_t count;
};

struct config {
#define CONFIG_TEXT(member, key, env, fallback, doc)           const char *member;
#define CONFIG_INT(member, key, env, fallback, min, max, doc)  int64_t member;
#define CONFIG_BOOL(member, key, env, fallback, doc)           bool member;
#define CONFIG_TIME(member, key, env, fallback, min, max, doc) int64_t member; /* nanoseconds */
#define CONFIG_LIST(member, key, env, fallback, doc)           struct config_list member;
#include "appliance/base/config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TIME
#undef CONFIG_LIST
};

/* Reads `path` (NULL = defaults only), applies the environment, checks ranges and rules between keys, and fills the
 * empty path keys from data_dir and run_dir (as their docs say). On refusal CONFIG, and `why` (if not NULL) gets one
 * line per fault: "svc.yaml:12: protocols.tsa.accuracy_ms: 0 is below 1". The caller owns *ret_config. */
struct fault config_load(const char *path, struct buf *why, struct config **ret_config);
void config_free(struct config *config);
DEFINE_FREEP(struct config, config_free)
/* Every key as "key = value   # source" (default, file:line, environment), for --check-config. */
struct fault config_print(const struct config *config, struct buf *out);
/* The same as one JSON object. */
struct fault config_print_json(const struct config *config, struct buf *out);
/* docs/configuration.md from config.def. */
struct fault config_print_docs(struct buf *out);

#endif
