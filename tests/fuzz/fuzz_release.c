/* rooms: release base */
/* An update or extension file, a slot's footer and a version, as outside bytes. Nothing is believed before its
 * signature was judged; here it is not, so that everything behind it is reached. */
#include "appliance/release/container.h"
#include "appliance/release/footer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct fault count(void *arg, struct op *op, struct span bytes)
{
    (void)op;
    *(uint64_t *)arg += bytes.len;
    return OK;
}

static void check_manifest(struct op *op, const struct release_manifest *manifest)
{
    CLEANUP(buf_free) struct buf again = BUF_INIT(RELEASE_MANIFEST_MAX);
    BUG_IF(!release_name_valid(manifest->name) || manifest->part_count == 0 ||
           release_part_name(manifest->kind, manifest->part_count) != NULL);
    BUG_IF((manifest->kind == RELEASE_UPDATE) != (strcmp(manifest->name, RELEASE_PRODUCT) == 0));
    BUG_IF(FAULTED(release_manifest_print(op, manifest, &again)));
    struct release_manifest parsed;
    BUG_IF(FAULTED(release_manifest_parse(op, buf_span(&again), &parsed)));
    BUG_IF(parsed.created != manifest->created || parsed.tree.blocks != manifest->tree.blocks);
}

static void try_file(struct op *op, const uint8_t *data, size_t size)
{
    static int fd = -1;
    CLEANUP(release_closep) struct release_file *file = NULL;
    if (fd < 0) {
        fd = memfd_create("release", MFD_CLOEXEC);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) {
        abort();
    }
    if (FAULTED(release_open_fd(op, fd, NULL, &file))) {
        return;
    }
    const struct release_manifest *manifest = release_manifest(file);
    check_manifest(op, manifest);
    for (size_t i = 0; i < manifest->part_count; i++) {
        uint64_t bytes = 0;
        BUG_IF(release_part_offset(file, i) % RELEASE_BLOCK != 0 ||
               release_part_offset(file, i) + manifest->parts[i].size > size);
        IGNORE(release_read_part(op, file, i, count, &bytes));
        BUG_IF(bytes != manifest->parts[i].size);
    }
}

static void try_footer(const uint8_t *data, size_t size)
{
    uint8_t bytes[RELEASE_FOOTER] = { 0 }, again[RELEASE_FOOTER];
    struct release_footer footer;
    memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    if (!FAULTED(release_footer_parse(bytes, &footer))) {
        release_footer_print(&footer, again);
        BUG_IF(memcmp(again, bytes, sizeof(bytes)) != 0);
    }
}

static void try_version(const uint8_t *data, size_t size)
{
    struct version version;
    char text[VERSION_TEXT_MAX];
    if (!FAULTED(version_parse(span_of(data, size), &version))) {
        version_print(version, text);
        BUG_IF(!span_equal_text(span_of(data, size), text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct op *op = NULL;
    struct release_manifest manifest;
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "" }, 1000, &op)));
    try_file(op, data, size);
    try_footer(data, size);
    try_version(data, size);
    if (!FAULTED(release_manifest_parse(op, span_of(data, size), &manifest))) {
        check_manifest(op, &manifest);
    }
    op_free(op);
    return 0;
}
