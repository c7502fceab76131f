/*
 * What has to be kept beside a backup of the event log, so that an empty machine can take over: by this configuration,
 * with what each is needed for. None of it goes into the backup: keys, PIN and secrets stay where their own keepers
 * protect them.
 */
#include "appliance/supervisor/appliance.h"

#include "appliance/base/json.h"
#include "appliance/stores/nats.h"
#include "appliance/stores/postgres.h"
#include "appliance/stores/softhsm.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX   64
#define PATH_ROOM  1024
#define OUTPUT_MAX ((size_t)256 << 10)

struct item {
    char path[PATH_ROOM];
    const char *need; /* "needed", "wanted": it goes on without, and `why` says at what price */
    bool secret;
    const char *why;
};
struct list {
    struct item items[LIST_MAX];
    size_t count;
};

static void add(struct list *list, const char *folder, const char *name, const char *need, bool secret, const char *why)
{
    if (list->count < LIST_MAX) {
        struct item *item = &list->items[list->count++];
        (void)snprintf(item->path, sizeof(item->path), "%s%s%s", folder, name[0] != '\0' ? "/" : "", name);
        item->need = need;
        item->secret = secret;
        item->why = why;
    }
}

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text), part = strlen(end);
    return len >= part && strcmp(text + len - part, end) == 0;
}

/* A key of the configuration that names somebody's file or folder. */
static void add_named(struct list *list, const char *key, const char *value)
{
    static const char *const others[] = { "data_dir",   "run_dir",       "bin_dir",
                                          "policy_dir", "snapshots.dir", "bootstrap.client_dir" };
    if (value == NULL || value[0] != '/' || !(ends_in(key, "_file") || ends_in(key, "dir"))) {
        return;
    }
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (strcmp(key, others[i]) == 0) {
            return;
        }
    }
    bool secret = ends_in(key, "key_file") || ends_in(key, "pin_file") || ends_in(key, "token_file") ||
                  ends_in(key, "credentials_file");
    add(list, value, "", "needed", secret, key);
}

static void add_data(struct list *list, const struct config *config)
{
    const char *data = config->data_dir;
    if (config->signer_address[0] == '\0') {
        if (softhsm_embedded(config)) {
            add(list, data, "softhsm", "needed", true, "the token: every signing key");
            add(list, data, "signer/pin", "needed", true, "the token's PIN");
        }
        add(list, data, "signer/sealed", "needed", false,
            "keys of algorithms that the token has no mechanism for, sealed "
            "by it");
        add(list, config->signer_journal, "", "wanted", false,
            "signatures that were given and not recorded yet: without it such a command is signed again");
    }
    add(list, data, "api/fingerprint.key", "needed", true,
        "knows a repeated command, an open preview and a snapshot again; without it they are refused");
    add(list, data, "api/tls.key", "wanted", true,
        "without it the API has a new certificate, and clients a new ca.pem");
    add(list, data, "client.env", "wanted", true, "without it new first tokens are made; the old ones stay valid");
}

static void gather(struct list *list, const struct appliance *appliance)
{
    const struct config *config = appliance->config;
    if (strcmp(appliance->config_path, "/dev/null") != 0) {
        add(list, appliance->config_path, "", "needed", false, "the configuration");
    }
    add(list, config->policy_dir, "", "needed", false, "roles and policies");
    add_data(list, config);
#define CONFIG_TEXT(member, key, env, fallback, doc) add_named(list, key, config->member);
#define CONFIG_INT(member, key, env, fallback, min, max, doc)
#define CONFIG_BOOL(member, key, env, fallback, doc)
#define CONFIG_TIME(member, key, env, fallback, min, max, doc)
#define CONFIG_LIST(member, key, env, fallback, doc)
#include "appliance/base/config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TIME
#undef CONFIG_LIST
}

static struct fault print_json(const struct list *list, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < list->count; i++) {
        const struct item *item = &list->items[i];
        jout_object(&jout);
        jout_key_text(&jout, "need", item->need);
        jout_key_text(&jout, "path", item->path);
        jout_key_bool(&jout, "present", access(item->path, F_OK) == 0);
        jout_key_bool(&jout, "secret", item->secret);
        jout_key_text(&jout, "why", item->why);
        jout_object_end(&jout);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return buf_text(out, "\n");
}

static struct fault print_text(const struct list *list, struct buf *out)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct item *item = &list->items[i];
        TRY(buf_printf(out, "%-7s %-7s %-7s %s   # %s\n", item->need, item->secret ? "secret" : "-",
                       access(item->path, F_OK) == 0 ? "there" : "absent", item->path, item->why));
    }
    return OK;
}

enum exit_code appliance_backup_list(const struct appliance *appliance, int count, char *const *args)
{
    static struct list list;
    CLEANUP(buf_free) struct buf out = BUF_INIT(OUTPUT_MAX);
    bool json = count == 3 && strcmp(args[2], "--json") == 0;
    if (count != 2 && !json) {
        (void)fprintf(stderr, "svc-appliance: backup --list [--json]\n");
        return EXIT_REFUSED;
    }
    gather(&list, appliance);
    if (FAULTED(json ? print_json(&list, &out) : print_text(&list, &out))) {
        return EXIT_FAILED;
    }
    return fwrite(out.at, 1, out.len, stdout) == out.len && fflush(stdout) == 0 ? EXIT_FINE : EXIT_FAILED;
}
