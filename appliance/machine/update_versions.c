#include "appliance/machine/update_versions.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"

#include <stdio.h>

#define FORMAT        "svc.versions.v1"
#define FILE_MAX_SIZE ((size_t)32 << 10)

struct extension_row {
    const char *name, *version;
};
struct versions_row {
    const char *format, *floor;
    struct span extensions;
};
static const struct jin_field extension_fields[] = {
    JIN_TEXT(struct extension_row, name, JIN_REQUIRED, 1, RELEASE_NAME_MAX),
    JIN_TEXT(struct extension_row, version, JIN_REQUIRED, 1, VERSION_TEXT_MAX),
};
static const struct jin_field versions_fields[] = {
    JIN_TEXT(struct versions_row, format, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct versions_row, floor, JIN_OPTIONAL, 1, VERSION_TEXT_MAX),
    JIN_RAW(struct versions_row, extensions, JIN_REQUIRED, 2, (int64_t)FILE_MAX_SIZE),
};

static struct fault parse(struct op *op, struct span json, struct versions *made)
{
    struct versions_row row = { 0 };
    struct span *items = NULL;
    size_t count = 0;
    TRY(jin_decode(op, json, versions_fields, COUNT_OF(versions_fields), &row));
    REQUIRE(strcmp(row.format, FORMAT) == 0, CONFIG);
    if (row.floor != NULL) {
        TRY(version_parse(span_text(row.floor), &made->floor));
        made->has_floor = true;
    }
    TRY(jin_array(op, row.extensions, VERSIONS_EXTENSIONS_MAX, &items, &count));
    for (size_t i = 0; i < count; i++) {
        struct extension_row extension = { 0 };
        TRY(jin_decode(op, items[i], extension_fields, COUNT_OF(extension_fields), &extension));
        REQUIRE(release_name_valid(extension.name) && versions_of_extension(made, extension.name) == NULL, CONFIG);
        TRY(version_parse(span_text(extension.version), &made->extensions[i].newest));
        (void)snprintf(made->extensions[i].name, sizeof(made->extensions[i].name), "%s", extension.name);
        made->extension_count = i + 1;
    }
    return OK;
}

struct fault versions_load(struct op *op, const char *path, struct versions *ret_versions)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(FILE_MAX_SIZE);
    struct versions made = { 0 };
    struct fault fault = file_read(path, &json);
    if (fault.code == FAULT_NOT_FOUND) {
        *ret_versions = made;
        return OK;
    }
    fault = FAULTED(fault) ? fault : parse(op, buf_span(&json), &made);
    if (FAULTED(fault)) {
        op->note = (struct fault_note){ 0 };
        return op_fail(op, FAULT(CONFIG), "%s cannot be read: which versions may run is not known", path);
    }
    *ret_versions = made;
    return OK;
}

struct fault versions_save(struct op *op, const char *path, const struct versions *versions)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(FILE_MAX_SIZE);
    char text[VERSION_TEXT_MAX];
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key(&jout, "extensions");
    jout_array(&jout);
    for (size_t i = 0; i < versions->extension_count; i++) {
        version_print(versions->extensions[i].newest, text);
        jout_object(&jout);
        jout_key_text(&jout, "name", versions->extensions[i].name);
        jout_key_text(&jout, "version", text);
        jout_object_end(&jout);
    }
    jout_array_end(&jout);
    if (versions->has_floor) {
        version_print(versions->floor, text);
        jout_key_text(&jout, "floor", text);
    }
    jout_key_text(&jout, "format", FORMAT);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return FAULTED(file_write(path, buf_span(&json), 0600)) ? op_fail(op, FAULT(IO), "%s cannot be written", path) : OK;
}

const struct version *versions_of_extension(const struct versions *versions, const char *name)
{
    for (size_t i = 0; i < versions->extension_count; i++) {
        if (strcmp(versions->extensions[i].name, name) == 0) {
            return &versions->extensions[i].newest;
        }
    }
    return NULL;
}

struct fault versions_note_extension(struct op *op, struct versions *versions, const char *name, struct version version)
{
    size_t at = 0;
    while (at < versions->extension_count && strcmp(versions->extensions[at].name, name) != 0) {
        at++;
    }
    if (at == VERSIONS_EXTENSIONS_MAX) {
        return op_fail(op, FAULT(RELEASE_SPACE), "this machine has had %d extensions, and no more are kept account of",
                       VERSIONS_EXTENSIONS_MAX);
    }
    (void)snprintf(versions->extensions[at].name, sizeof(versions->extensions[at].name), "%s", name);
    versions->extensions[at].newest = version;
    versions->extension_count = at == versions->extension_count ? at + 1 : versions->extension_count;
    return OK;
}
