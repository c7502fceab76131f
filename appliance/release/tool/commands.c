#include "appliance/release/tool/commands.h"

#include "appliance/base/codec.h"
#include "appliance/base/file.h"
#include "appliance/base/hashed_file.h"
#include "appliance/release/footer.h"
#include "appliance/release/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fault give(struct op *op, const struct options *options, struct span bytes)
{
    if (options->output != NULL) {
        return FAULTED(file_write(options->output, bytes, 0644))
                   ? op_fail(op, FAULT(IO), "%s cannot be written", options->output)
                   : OK;
    }
    return fwrite(bytes.at, 1, bytes.len, stdout) == bytes.len && fflush(stdout) == 0 ? OK : FAULT(IO);
}

/* Size and SHA-256 of a file. */
static struct fault measure(struct op *op, const char *path, uint64_t *ret_size, struct sha256 *ret_digest)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    CLEANUP(hashed_reader_close) struct hashed_reader reader = { 0 };
    struct stat status;
    uint8_t bytes[RELEASE_BLOCK];
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return op_fail(op, FAULT(NOT_FOUND), "%s cannot be read", path);
    }
    TRY(hashed_reader_open(fd, FAULT_RELEASE_FILE, "part", &reader));
    for (uint64_t left = (uint64_t)status.st_size; left > 0;) {
        size_t len = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
        TRY(hashed_take(op, &reader, bytes, len));
        left -= len;
    }
    *ret_size = (uint64_t)status.st_size;
    return hashed_reader_digest(&reader, ret_digest);
}

static struct fault measure_parts(struct op *op, const struct options *options, struct release_manifest *made)
{
    const char *name = NULL, *path = NULL;
    while ((name = release_part_name(made->kind, made->part_count)) != NULL) {
        struct release_part *part = &made->parts[made->part_count++];
        part->name = name;
        TRY(options_part(op, options, name, &path));
        TRY(measure(op, path, &part->size, &part->sha256));
    }
    return OK;
}

static struct fault take_words(struct op *op, const struct options *options, struct release_manifest *made)
{
    TRY(options_need(op, options->kind, "--kind update or --kind extension"));
    TRY(options_need(op, options->profile, "--profile"));
    TRY(options_need(op, options->created, "--created"));
    made->kind = strcmp(options->kind, "update") == 0 ? RELEASE_UPDATE : RELEASE_EXTENSION;
    const char *name = options->name != NULL || made->kind == RELEASE_EXTENSION ? options->name : RELEASE_PRODUCT;
    TRY(options_need(op, name, "--name"));
    REQUIRE(name != NULL && options->profile != NULL && options->created != NULL && options->kind != NULL,
            BAD_ARGUMENT);
    if (made->kind == RELEASE_EXTENSION && strcmp(options->kind, "extension") != 0) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "--kind is update or extension");
    }
    if (FAULTED(rfc3339_parse(span_text(options->created), &made->created))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "--created is a time as in 2026-11-22T00:00:00Z");
    }
    if (strlen(name) > RELEASE_NAME_MAX || strlen(options->profile) > RELEASE_PROFILE_MAX ||
        (options->sbom_sha256 != NULL && strlen(options->sbom_sha256) != RELEASE_HEX_MAX)) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "--name, --profile or --sbom-sha256 has not an acceptable length");
    }
    (void)snprintf(made->name, sizeof(made->name), "%s", name);
    (void)snprintf(made->profile, sizeof(made->profile), "%s", options->profile);
    (void)snprintf(made->sbom_sha256, sizeof(made->sbom_sha256), "%s",
                   options->sbom_sha256 != NULL ? options->sbom_sha256 : "");
    TRY(options_version(op, options->version, "--version", &made->version));
    return options_version(op, options->min_version, "--min-version", &made->min_version);
}

struct fault command_manifest(struct op *op, const struct options *options)
{
    struct release_manifest made = { 0 };
    CLEANUP(buf_free) struct buf out = BUF_INIT(RELEASE_MANIFEST_MAX);
    TRY(take_words(op, options, &made));
    TRY(options_tree(op, options, &made.tree));
    TRY(measure_parts(op, options, &made));
    TRY(release_manifest_print(op, &made, &out));
    return give(op, options, buf_span(&out));
}

static struct fault load_keys(struct op *op, const struct options *options, struct release_keys **ret_keys)
{
    CLEANUP(release_keys_freep) struct release_keys *keys = NULL;
    TRY(release_keys_new(&keys));
    for (size_t i = 0; i < options->key_count; i++) {
        TRY(release_keys_load(op, keys, options->keys[i]));
    }
    *ret_keys = TAKE(keys);
    return OK;
}

static struct fault take_file(struct op *op, const char *path, struct buf *out)
{
    return FAULTED(file_read(path, out)) ? op_fail(op, FAULT(NOT_FOUND), "%s cannot be read, or is too large", path)
                                         : OK;
}

struct fault command_pack(struct op *op, const struct options *options)
{
    CLEANUP(buf_free) struct buf manifest = BUF_INIT(RELEASE_MANIFEST_MAX);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(RELEASE_SIGNATURE_MAX);
    CLEANUP(release_keys_freep) struct release_keys *keys = NULL;
    const char *paths[RELEASE_PARTS_MAX] = { NULL };
    struct release_manifest parsed;
    TRY(options_need(op, options->manifest, "--manifest"));
    TRY(options_need(op, options->signature, "--signature"));
    TRY(options_need(op, options->output, "-o FILE"));
    TRY(take_file(op, options->manifest, &manifest));
    TRY(take_file(op, options->signature, &signature));
    TRY(release_manifest_parse(op, buf_span(&manifest), &parsed));
    for (size_t i = 0; i < parsed.part_count; i++) {
        TRY(options_part(op, options, parsed.parts[i].name, &paths[i]));
    }
    if (options->key_count > 0) {
        TRY(load_keys(op, options, &keys));
    }
    return release_pack(op, buf_span(&manifest), buf_span(&signature), keys, paths, options->output);
}

static struct fault nothing(void *arg, struct op *op, struct span bytes)
{
    (void)arg;
    (void)op;
    (void)bytes;
    return OK;
}

struct fault command_verify(struct op *op, const struct options *options)
{
    CLEANUP(release_keys_freep) struct release_keys *keys = NULL;
    CLEANUP(release_closep) struct release_file *file = NULL;
    char version[VERSION_TEXT_MAX];
    TRY(options_need(op, options->file, "the file"));
    TRY(options_need(op, options->key_count > 0 ? options->keys[0] : NULL, "--key PEM"));
    TRY(load_keys(op, options, &keys));
    TRY(release_open(op, options->file, keys, &file));
    const struct release_manifest *manifest = release_manifest(file);
    for (size_t i = 0; i < manifest->part_count; i++) {
        TRY(release_read_part(op, file, i, nothing, NULL));
    }
    TRY(release_tree_check(op, release_fd(file), release_part_offset(file, RELEASE_PART_ROOT),
                           manifest->parts[RELEASE_PART_ROOT].size, &manifest->tree));
    version_print(manifest->version, version);
    (void)printf("good: %s %s for %s, signed with %s\n", manifest->name, version, manifest->profile,
                 release_signer(file));
    return OK;
}

struct fault command_inspect(struct op *op, const struct options *options)
{
    CLEANUP(release_closep) struct release_file *file = NULL;
    TRY(options_need(op, options->file, "the file"));
    TRY(release_open(op, options->file, NULL, &file));
    (void)fprintf(stderr, "svc-release: not verified: svc-release verify FILE --key PEM judges it\n");
    TRY(give(op, options, release_manifest_bytes(file)));
    return options->output == NULL && putchar('\n') == EOF ? FAULT(IO) : OK;
}

/* Without --salt: the SHA-256 of the data, so that the same data gives the same image. */
static struct fault salt_of(struct op *op, const struct options *options, struct sha256 *ret_salt)
{
    CLEANUP(buf_free) struct buf given = BUF_INIT(SHA256_LEN);
    uint64_t size = 0;
    if (options->salt == NULL) {
        return measure(op, options->file, &size, ret_salt);
    }
    if (!release_hex_valid(options->salt) || FAULTED(hex_decode(span_text(options->salt), &given))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "--salt is 64 hex digits");
    }
    memcpy(ret_salt->at, given.at, SHA256_LEN);
    return OK;
}

struct fault command_tree(struct op *op, const struct options *options)
{
    struct sha256 salt;
    struct release_tree tree;
    TRY(options_need(op, options->file, "the image file"));
    TRY(salt_of(op, options, &salt));
    CLEANUP(fd_closep) int fd = open(options->file, O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return op_fail(op, FAULT(IO), "%s cannot be written", options->file);
    }
    TRY(release_tree_append(op, fd, SPAN_ARRAY(salt.at), &tree));
    REQUIRE(fsync(fd) == 0, IO);
    (void)printf("roothash=%s blocks=%llu salt=%s\n", tree.roothash, (unsigned long long)tree.blocks, tree.salt);
    return OK;
}

struct fault command_footer(struct op *op, const struct options *options)
{
    struct release_footer footer = { 0 };
    uint8_t bytes[RELEASE_FOOTER];
    TRY(options_version(op, options->version, "--version", &footer.version));
    TRY(options_tree(op, options, &footer.tree));
    release_footer_print(&footer, bytes);
    return give(op, options, SPAN_ARRAY(bytes));
}
