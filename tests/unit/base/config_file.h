/* A configuration file of this test alone, and what is said about it. */
#ifndef TESTS_BASE_CONFIG_FILE_H
#define TESTS_BASE_CONFIG_FILE_H

#include "appliance/base/config.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char config_folder[] = "/tmp/svc-config-XXXXXX";
static char config_path[64];

static const char *const config_variables[] = {
#define CONFIG_TEXT(member, key, env, fallback, doc)           env,
#define CONFIG_INT(member, key, env, fallback, min, max, doc)  env,
#define CONFIG_BOOL(member, key, env, fallback, doc)           env,
#define CONFIG_TIME(member, key, env, fallback, min, max, doc) env,
#define CONFIG_LIST(member, key, env, fallback, doc)           env,
#include "appliance/base/config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TIME
#undef CONFIG_LIST
};

static inline void write_config(const char *text)
{
    assert_fault(file_write(config_path, span_text(text), 0600), NONE);
}

static inline struct fault load(const char *text, struct buf *why, struct config **ret_config)
{
    write_config(text);
    return config_load(config_path, why, ret_config);
}

/* `why` as a whole: nothing more is refused than what is wrong. */
static inline void assert_refused(const char *text, const char *want)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct config *config = NULL;
    assert_fault(load(text, &why, &config), CONFIG);
    assert_null(config);
    const char *said = NULL;
    assert_fault(buf_cstr(&why, &said), NONE);
    assert_string_equal(said, want);
}

static inline void assert_accepted(const char *text)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    CLEANUP(config_freep) struct config *config = NULL;
    struct fault fault = load(text, &why, &config);
    if (FAULTED(fault)) {
        fail_msg("%s: refused: %.*s", text, (int)why.len, (const char *)why.at);
    }
    assert_int_equal(why.len, 0);
}

static inline void assert_holds(struct span text, const char *want)
{
    if (memmem(text.at, text.len, want, strlen(want)) == NULL) {
        fail_msg("expected '%s' in '%.*s'", want, (int)text.len, (const char *)text.at);
    }
}

static inline int config_start(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(config_variables); i++) {
        (void)unsetenv(config_variables[i]); /* of whoever runs the tests */
    }
    if (mkdtemp(config_folder) == NULL) {
        return -1;
    }
    (void)snprintf(config_path, sizeof(config_path), "%s/svc.yaml", config_folder);
    return 0;
}

static inline int config_end(void **state)
{
    (void)state;
    (void)unlink(config_path);
    return rmdir(config_folder);
}

#endif
