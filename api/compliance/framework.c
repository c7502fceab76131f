#include "api/compliance/framework.h"

#include "api/compliance/framework_internal.h"
#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>

#define ARENA_MAX   ((size_t)8 << 20)
#define ENTRIES_MAX 256u

static const char *const ids[FRAMEWORKS] = {
    "pci-dss",  "hipaa",           "soc2",    "nist-800-53", "nist-csf-2.0", "fedramp", "cmmc-2.0", "cnsa-2.0",
    "fips-140", "common-criteria", "cabf-br", "webtrust",    "etsi",         "eidas",   "nis2",
};

struct frameworks {
    struct arena *arena;
    const struct framework *at[FRAMEWORKS]; /* in the order of the ids */
};

static size_t index_of(const char *id)
{
    size_t i = 0;
    while (i < FRAMEWORKS && (id == NULL || strcmp(ids[i], id) != 0)) {
        i++;
    }
    return i;
}

const char *framework_id(size_t index)
{
    BUG_IF(index >= FRAMEWORKS);
    return ids[index];
}

bool framework_known(const char *id)
{
    return index_of(id) < FRAMEWORKS;
}

/* ---- the folder ---- */

static void closedirp(DIR **folder)
{
    if (*folder != NULL) {
        (void)closedir(*folder);
    }
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

/* A file that somebody may take for a framework must not be passed over in silence. */
static struct fault check_name(struct op *op, const char *folder, const char *name)
{
    char id[64] = "";
    if (name[0] == '.' || (!ends_with(name, ".yaml") && !ends_with(name, ".yml") && !ends_with(name, ".YAML"))) {
        return OK;
    }
    size_t len = strlen(name) - strlen(".yaml");
    if (ends_with(name, ".yaml") && len < sizeof(id)) {
        memcpy(id, name, len);
    }
    return framework_known(id)
               ? OK
               : op_fail(op, FAULT(CONFIG), "%.120s/%.60s: is no framework of the service: take it away", folder, name);
}

static struct fault check_folder(struct op *op, const char *path)
{
    CLEANUP(closedirp) DIR *folder = opendir(path);
    for (unsigned seen = 0; folder != NULL && seen < ENTRIES_MAX; seen++) {
        errno = 0;
        const struct dirent *entry = readdir(folder); /* of this thread alone */
        if (entry == NULL && errno == 0) {
            return OK;
        }
        if (entry == NULL) {
            break;
        }
        TRY(check_name(op, path, entry->d_name));
    }
    return op_fail(op, FAULT(CONFIG), "%.200s: cannot be read, or holds too many files", path);
}

static struct fault load_one(struct op *op, const char *folder, const char *id, struct frameworks *frameworks,
                             const struct framework **ret_framework)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf text = BUF_INIT(FRAMEWORK_FILE_MAX);
    struct framework_reading reading = { .op = op, .arena = frameworks->arena };
    const char *name = NULL;
    TRY(arena_printf(op->arena, &reading.file, "frameworks/%s.yaml", id));
    TRY(buf_printf(&path, "%s/%s.yaml", folder, id));
    TRY(buf_cstr(&path, &name));
    struct fault fault = file_read(name, &text);
    if (fault.code == FAULT_TOO_LARGE) {
        return op_fail(op, FAULT(CONFIG), "%s: is larger than 256 KiB", reading.file);
    }
    if (FAULTED(fault)) {
        return op_fail(op, FAULT(CONFIG), "%s: cannot be read: every framework has its file there", reading.file);
    }
    return framework_take(&reading, id, buf_span(&text), ret_framework);
}

struct fault frameworks_load(struct op *op, const char *folder, struct frameworks **ret_frameworks)
{
    CLEANUP(frameworks_freep) struct frameworks *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(arena_new(ARENA_MAX, &made->arena));
    TRY(check_folder(op, folder));
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        TRY(load_one(op, folder, ids[i], made, &made->at[i]));
    }
    *ret_frameworks = TAKE(made);
    return OK;
}

void frameworks_free(struct frameworks *frameworks)
{
    if (frameworks != NULL) {
        arena_free(frameworks->arena);
        mem_free(frameworks);
    }
}

const struct framework *frameworks_get(const struct frameworks *frameworks, const char *id)
{
    size_t index = index_of(id);
    return index < FRAMEWORKS ? frameworks->at[index] : NULL;
}
