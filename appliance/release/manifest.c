#include "appliance/release/manifest.h"

#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#include <stdio.h>

static const char *const formats[] = { [RELEASE_UPDATE] = "svc.update.v1", [RELEASE_EXTENSION] = "svc.extension.v1" };

struct part_row {
    const char *name;
    struct span sha256;
    int64_t size;
};
struct manifest_row {
    const char *format, *name, *version, *min_version, *profile;
    struct span roothash, salt, sbom_sha256, parts;
    utc_us created;
    int64_t blocks;
};

static const struct jin_field part_fields[] = {
    JIN_TEXT(struct part_row, name, JIN_REQUIRED, 1, 16),
    JIN_HEX(struct part_row, sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct part_row, size, JIN_REQUIRED, 1, (int64_t)RELEASE_PART_MAX),
};
static const struct jin_field manifest_fields[] = {
    JIN_TEXT(struct manifest_row, format, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct manifest_row, name, JIN_REQUIRED, 1, RELEASE_NAME_MAX),
    JIN_TEXT(struct manifest_row, version, JIN_REQUIRED, 1, VERSION_TEXT_MAX),
    JIN_TEXT(struct manifest_row, min_version, JIN_REQUIRED, 1, VERSION_TEXT_MAX),
    JIN_TEXT(struct manifest_row, profile, JIN_REQUIRED, 1, RELEASE_PROFILE_MAX),
    JIN_TIME(struct manifest_row, created, JIN_REQUIRED),
    JIN_HEX(struct manifest_row, roothash, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_HEX(struct manifest_row, salt, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_HEX(struct manifest_row, sbom_sha256, JIN_OPTIONAL, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct manifest_row, blocks, JIN_REQUIRED, 2, (int64_t)(RELEASE_PART_MAX / RELEASE_BLOCK)),
    JIN_RAW(struct manifest_row, parts, JIN_REQUIRED, 2, (int64_t)RELEASE_MANIFEST_MAX),
};

const char *release_part_name(enum release_kind kind, size_t index)
{
    static const char *const of_update[] = { [RELEASE_PART_ROOT] = "root", [RELEASE_PART_UKI] = "uki" };
    static const char *const of_extension[] = { [RELEASE_PART_TREE] = "tree" };
    if (kind == RELEASE_UPDATE) {
        return index < COUNT_OF(of_update) ? of_update[index] : NULL;
    }
    return index < COUNT_OF(of_extension) ? of_extension[index] : NULL;
}

static bool word_valid(const char *text, size_t max)
{
    size_t len = strlen(text);
    return len >= 1 && len <= max && text[0] != '-' && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

bool release_name_valid(const char *text)
{
    return word_valid(text, RELEASE_NAME_MAX);
}

bool release_hex_valid(const char *text)
{
    return strlen(text) == RELEASE_HEX_MAX && strspn(text, "0123456789abcdef") == RELEASE_HEX_MAX;
}

#define BAD(...) op_fail(op, FAULT(RELEASE_FILE), __VA_ARGS__)

/* A member that the JSON decoder refused, in the words of a manifest. */
static struct fault bad_member(struct op *op, struct fault fault)
{
    struct fault_note note = op->note;
    if (fault.code != FAULT_JSON_FIELD && fault.code != FAULT_JSON_SYNTAX) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    return BAD("the manifest's %s: %s", note.pointer[0] != '\0' ? note.pointer : "JSON", note.detail);
}

/* What must hold between the members; print and parse both end here. */
static struct fault check_parts(struct op *op, const struct release_manifest *made)
{
    for (size_t i = 0; i < made->part_count; i++) {
        const struct release_part *part = &made->parts[i];
        bool uki = made->kind == RELEASE_UPDATE && i == RELEASE_PART_UKI;
        if (part->size == 0 || part->size > (uki ? RELEASE_UKI_MAX : RELEASE_PART_MAX)) {
            return BAD("the manifest's part '%s' has a size that none may have", part->name);
        }
        /* The data, the super block, and at least one block of the tree. */
        if (!uki && (part->size % RELEASE_BLOCK != 0 || part->size / RELEASE_BLOCK < made->tree.blocks + 2)) {
            return BAD("the manifest's part '%s' has no room for its hash tree", part->name);
        }
    }
    return OK;
}

static struct fault check(struct op *op, const struct release_manifest *made)
{
    bool update = made->kind == RELEASE_UPDATE;
    if (!release_name_valid(made->name) || update != (strcmp(made->name, RELEASE_PRODUCT) == 0)) {
        return BAD("the manifest's name is not one of %s", update ? "this product" : "an extension");
    }
    if (!word_valid(made->profile, RELEASE_PROFILE_MAX) ||
        (update && strcmp(made->profile, RELEASE_ANY_PROFILE) == 0)) {
        return BAD("the manifest's profile is not one");
    }
    if (!release_hex_valid(made->tree.roothash) || !release_hex_valid(made->tree.salt) ||
        (made->sbom_sha256[0] != '\0' && !release_hex_valid(made->sbom_sha256))) {
        return BAD("the manifest's roothash, salt or sbom_sha256 is not the hex of 32 bytes");
    }
    if (made->tree.blocks < 2 || made->tree.blocks > RELEASE_PART_MAX / RELEASE_BLOCK) {
        return BAD("the manifest's number of blocks is not acceptable");
    }
    return check_parts(op, made);
}

static struct fault parse_parts(struct op *op, struct span json, struct release_manifest *made)
{
    struct span *items = NULL;
    size_t count = 0;
    struct fault fault = jin_array(op, json, RELEASE_PARTS_MAX, &items, &count);
    if (FAULTED(fault)) {
        return bad_member(op, fault);
    }
    for (size_t i = 0; i < count; i++) {
        struct part_row row = { 0 };
        const char *name = release_part_name(made->kind, i);
        fault = jin_decode(op, items[i], part_fields, COUNT_OF(part_fields), &row);
        if (FAULTED(fault)) {
            return bad_member(op, fault);
        }
        if (name == NULL || strcmp(row.name, name) != 0) {
            return BAD("the manifest's parts are not those of its kind, in their order");
        }
        made->parts[i] = (struct release_part){ .name = name, .size = (uint64_t)row.size };
        memcpy(made->parts[i].sha256.at, row.sha256.at, SHA256_LEN);
    }
    made->part_count = count;
    if (count == 0 || release_part_name(made->kind, count) != NULL) {
        return BAD("the manifest lacks a part");
    }
    return OK;
}

static struct fault parse_words(struct op *op, const struct manifest_row *row, struct release_manifest *made)
{
    made->kind = strcmp(row->format, formats[RELEASE_UPDATE]) == 0 ? RELEASE_UPDATE : RELEASE_EXTENSION;
    if (strcmp(row->format, formats[made->kind]) != 0) {
        return BAD("the manifest is of another format");
    }
    if (FAULTED(version_parse(span_text(row->version), &made->version)) ||
        FAULTED(version_parse(span_text(row->min_version), &made->min_version))) {
        return BAD("the manifest's version or min_version is not MAJOR.MINOR.PATCH");
    }
    (void)snprintf(made->name, sizeof(made->name), "%s", row->name);
    (void)snprintf(made->profile, sizeof(made->profile), "%s", row->profile);
    hex_text(row->roothash, made->tree.roothash, sizeof(made->tree.roothash));
    hex_text(row->salt, made->tree.salt, sizeof(made->tree.salt));
    if (row->sbom_sha256.len > 0) {
        hex_text(row->sbom_sha256, made->sbom_sha256, sizeof(made->sbom_sha256));
    }
    made->tree.blocks = (uint64_t)row->blocks;
    made->created = row->created;
    return OK;
}

struct fault release_manifest_parse(struct op *op, struct span json, struct release_manifest *ret_manifest)
{
    struct manifest_row row = { 0 };
    struct release_manifest made = { 0 };
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(2 * RELEASE_MANIFEST_MAX);
    if (json.len > RELEASE_MANIFEST_MAX || FAULTED(json_canonical(json, &canonical)) ||
        !span_equal(buf_span(&canonical), json)) {
        return BAD("the manifest is not canonical JSON of at most %zu bytes", RELEASE_MANIFEST_MAX);
    }
    struct fault fault = jin_decode(op, json, manifest_fields, COUNT_OF(manifest_fields), &row);
    if (FAULTED(fault)) {
        return bad_member(op, fault);
    }
    TRY(parse_words(op, &row, &made));
    TRY(parse_parts(op, row.parts, &made));
    TRY(check(op, &made));
    *ret_manifest = made;
    return OK;
}

static void print_parts(struct jout *jout, const struct release_manifest *manifest)
{
    jout_key(jout, "parts");
    jout_array(jout);
    for (size_t i = 0; i < manifest->part_count; i++) {
        jout_object(jout);
        jout_key_text(jout, "name", manifest->parts[i].name);
        jout_key_hex(jout, "sha256", SPAN_ARRAY(manifest->parts[i].sha256.at));
        jout_key_int(jout, "size", (int64_t)manifest->parts[i].size);
        jout_object_end(jout);
    }
    jout_array_end(jout);
}

struct fault release_manifest_print(struct op *op, const struct release_manifest *manifest, struct buf *out)
{
    CLEANUP(buf_free) struct buf plain = BUF_INIT(RELEASE_MANIFEST_MAX);
    char version[VERSION_TEXT_MAX], min_version[VERSION_TEXT_MAX];
    struct jout jout;
    TRY(check(op, manifest));
    version_print(manifest->version, version);
    version_print(manifest->min_version, min_version);
    jout_init(&jout, &plain);
    jout_object(&jout);
    jout_key_text(&jout, "format", formats[manifest->kind]);
    jout_key_text(&jout, "name", manifest->name);
    jout_key_text(&jout, "version", version);
    jout_key_text(&jout, "min_version", min_version);
    jout_key_text(&jout, "profile", manifest->profile);
    jout_key_time(&jout, "created", manifest->created);
    print_parts(&jout, manifest);
    jout_key_text(&jout, "roothash", manifest->tree.roothash);
    jout_key_text(&jout, "salt", manifest->tree.salt);
    jout_key_int(&jout, "blocks", (int64_t)manifest->tree.blocks);
    if (manifest->sbom_sha256[0] != '\0') {
        jout_key_text(&jout, "sbom_sha256", manifest->sbom_sha256);
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&plain), out);
}
