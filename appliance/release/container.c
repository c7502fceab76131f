#include "appliance/release/container.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/hashed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC_LEN  (sizeof(RELEASE_MAGIC) - 1)
#define HEADER_MAX (MAGIC_LEN + 4 + RELEASE_MANIFEST_MAX + 2 + RELEASE_SIGNATURE_MAX)

struct release_file {
    int fd, owned; /* owned: closed by release_close; else -1 */
    uint64_t size;
    struct buf header; /* read once; manifest and signature borrow from it */
    struct span manifest_bytes, signature;
    struct release_manifest manifest;
    const char *signer;
    uint64_t offsets[RELEASE_PARTS_MAX];
};

static uint64_t aligned(uint64_t at)
{
    return (at + RELEASE_BLOCK - 1) / RELEASE_BLOCK * RELEASE_BLOCK;
}

struct fault release_pread(struct op *op, int fd, void *out, size_t len, uint64_t offset)
{
    uint8_t *to = out;
    while (len > 0) {
        ssize_t got = pread(fd, to, len, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return op_fail(op, FAULT(IO), "the file cannot be read");
        }
        if (got == 0) {
            return op_fail(op, FAULT(RELEASE_FILE), "the file ends too early: it was not copied whole");
        }
        to += got;
        len -= (size_t)got;
        offset += (uint64_t)got;
    }
    return OK;
}

/* Manifest and signature, as they stand in the header. */
static struct fault split_header(struct op *op, struct release_file *file)
{
    struct reader reader = { buf_span(&file->header) };
    struct span magic = { 0 };
    uint32_t manifest = 0;
    uint16_t signature = 0;
    if (FAULTED(reader_bytes(&reader, MAGIC_LEN, &magic)) || !span_equal_text(magic, RELEASE_MAGIC)) {
        return op_fail(op, FAULT(RELEASE_FILE), "this is not an update or extension file");
    }
    if (FAULTED(reader_u32(&reader, &manifest)) || manifest == 0 || manifest > RELEASE_MANIFEST_MAX ||
        FAULTED(reader_bytes(&reader, manifest, &file->manifest_bytes)) || FAULTED(reader_u16(&reader, &signature)) ||
        signature == 0 || signature > RELEASE_SIGNATURE_MAX ||
        FAULTED(reader_bytes(&reader, signature, &file->signature))) {
        return op_fail(op, FAULT(RELEASE_FILE), "the file's header is malformed");
    }
    return OK;
}

static struct fault check_padding(struct op *op, const struct release_file *file, uint64_t from, uint64_t until)
{
    uint8_t bytes[RELEASE_BLOCK];
    BUG_IF(until - from >= sizeof(bytes));
    TRY(release_pread(op, file->fd, bytes, (size_t)(until - from), from));
    for (size_t i = 0; i < (size_t)(until - from); i++) {
        if (bytes[i] != 0) {
            return op_fail(op, FAULT(RELEASE_FILE), "the file holds something between its parts");
        }
    }
    return OK;
}

/* Where the parts are; the file must end with the last. Sizes are bounded by the manifest: no sum overflows. */
static struct fault place_parts(struct op *op, struct release_file *file)
{
    uint64_t at = MAGIC_LEN + 4 + file->manifest_bytes.len + 2 + file->signature.len;
    uint64_t gaps[RELEASE_PARTS_MAX] = { 0 };
    for (size_t i = 0; i < file->manifest.part_count; i++) {
        gaps[i] = at;
        file->offsets[i] = aligned(at);
        at = file->offsets[i] + file->manifest.parts[i].size;
    }
    if (file->size != at) {
        return op_fail(op, FAULT(RELEASE_FILE), "the file has %llu bytes, and its manifest speaks of %llu",
                       (unsigned long long)file->size, (unsigned long long)at);
    }
    for (size_t i = 0; i < file->manifest.part_count; i++) {
        TRY(check_padding(op, file, gaps[i], file->offsets[i]));
    }
    return OK;
}

struct fault release_open_fd(struct op *op, int fd, const struct release_keys *keys, struct release_file **ret_file)
{
    CLEANUP(release_closep) struct release_file *made = NULL;
    struct stat status;
    uint8_t *at = NULL;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return op_fail(op, FAULT(RELEASE_FILE), "this is not a regular file");
    }
    TRY(mem_new(1, sizeof(*made), &made));
    made->fd = fd;
    made->owned = -1;
    made->size = (uint64_t)status.st_size;
    made->header = (struct buf)BUF_INIT(HEADER_MAX);
    TRY(buf_reserve(&made->header, made->size < HEADER_MAX ? (size_t)made->size : HEADER_MAX, &at));
    TRY(release_pread(op, fd, at, made->header.len, 0));
    TRY(split_header(op, made));
    if (keys != NULL) {
        TRY(release_keys_verify(op, keys, made->manifest_bytes, made->signature, &made->signer));
    }
    TRY(release_manifest_parse(op, made->manifest_bytes, &made->manifest));
    TRY(place_parts(op, made));
    *ret_file = TAKE(made);
    return OK;
}

struct fault release_open(struct op *op, const char *path, const struct release_keys *keys,
                          struct release_file **ret_file)
{
    /* Not blocked by a pipe, not led elsewhere by the terminal: what is no regular file is refused behind it. */
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return op_fail(op, errno == ENOENT || errno == ENOTDIR ? FAULT(NOT_FOUND) : FAULT(IO), "%s cannot be opened",
                       path);
    }
    struct release_file *file = NULL;
    TRY(release_open_fd(op, fd, keys, &file));
    file->owned = fd;
    fd = -1;
    *ret_file = file;
    return OK;
}

void release_close(struct release_file *file)
{
    if (file != NULL) {
        fd_close(file->owned);
        buf_free(&file->header);
        mem_free(file);
    }
}

const struct release_manifest *release_manifest(const struct release_file *file)
{
    return &file->manifest;
}

const char *release_signer(const struct release_file *file)
{
    return file->signer;
}

struct span release_manifest_bytes(const struct release_file *file)
{
    return file->manifest_bytes;
}

struct span release_signature_bytes(const struct release_file *file)
{
    return file->signature;
}

uint64_t release_part_offset(const struct release_file *file, size_t index)
{
    BUG_IF(index >= file->manifest.part_count);
    return file->offsets[index];
}

int release_fd(const struct release_file *file)
{
    return file->fd;
}

struct fault release_read_part(struct op *op, const struct release_file *file, size_t index, release_sink sink,
                               void *arg)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *digest = NULL;
    CLEANUP(buf_free) struct buf chunk = BUF_INIT(RELEASE_CHUNK);
    struct sha256 got;
    uint8_t *at = NULL;
    BUG_IF(index >= file->manifest.part_count);
    const struct release_part *part = &file->manifest.parts[index];
    TRY(sha256_begin(&digest));
    TRY(buf_reserve(&chunk, RELEASE_CHUNK, &at));
    for (uint64_t done = 0; done < part->size;) {
        uint64_t left = part->size - done;
        size_t len = left < RELEASE_CHUNK ? (size_t)left : RELEASE_CHUNK;
        TRY(release_pread(op, file->fd, at, len, file->offsets[index] + done));
        /* Hashed from the very memory that the sink gets: the file may change meanwhile. */
        REQUIRE(EVP_DigestUpdate(digest, at, len) == 1, CRYPTO);
        TRY(sink(arg, op, span_of(at, len)));
        done += len;
    }
    REQUIRE(EVP_DigestFinal_ex(digest, got.at, NULL) == 1, CRYPTO);
    if (!span_equal(SPAN_ARRAY(got.at), SPAN_ARRAY(part->sha256.at))) {
        return op_fail(op, FAULT(RELEASE_FILE), "the file's part '%s' is not the one that was signed: it is damaged",
                       part->name);
    }
    return OK;
}
