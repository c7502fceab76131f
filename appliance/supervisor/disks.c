#include "appliance/supervisor/disks.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"

#include <stdio.h>
#include <sys/statvfs.h>

#define TEXT_MAX ((size_t)4 << 10)
#define PATH_LEN 4096

static void put(struct jout *json, const char *area, const char *what, fsblkcnt_t blocks, unsigned long size)
{
    char key[32];
    unsigned long long bytes = (unsigned long long)blocks * size;
    (void)snprintf(key, sizeof(key), "%s_%s", area, what);
    jout_key_int(json, key, bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
}

static void put_area(struct jout *json, const char *area, const char *path)
{
    struct statvfs space;
    if (statvfs(path, &space) == 0) {
        put(json, area, "free", space.f_bavail, space.f_frsize);
        put(json, area, "total", space.f_blocks, space.f_frsize);
    }
}

struct fault disks_write(const struct config *config)
{
    static const char *const areas[] = { "journal", "postgres", "nats" };
    static const char *const folders[] = { "signer", "postgres", "nats" };
    const char *elsewhere[] = { config->signer_address, config->postgres_url, config->nats_url };
    char path[PATH_LEN];
    CLEANUP(buf_free) struct buf text = BUF_INIT(TEXT_MAX);
    struct jout json;
    jout_init(&json, &text);
    jout_object(&json);
    for (size_t i = 0; i < COUNT_OF(areas); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", config->data_dir, folders[i]);
        bool named = i == 0 && config->signer_journal[0] != '\0';
        if (elsewhere[i][0] == '\0') {
            put_area(&json, areas[i], named ? config->signer_journal : path);
        }
    }
    jout_object_end(&json);
    TRY(jout_end(&json));
    (void)snprintf(path, sizeof(path), "%s/disks.json", config->run_dir);
    return file_write(path, buf_span(&text), 0644);
}
