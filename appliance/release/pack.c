#include "appliance/base/file.h"
#include "appliance/base/hashed_file.h"
#include "appliance/release/container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fault put(struct op *op, int fd, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t done = write(fd, bytes.at, bytes.len);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return op_fail(op, FAULT(IO), "the file cannot be written");
        }
        bytes = span_of(bytes.at + done, bytes.len - (size_t)done);
    }
    return OK;
}

static struct fault put_header(struct op *op, int fd, struct span manifest, struct span signature)
{
    CLEANUP(buf_free) struct buf header = BUF_INIT(RELEASE_MANIFEST_MAX + RELEASE_SIGNATURE_MAX + 64);
    TRY(buf_text(&header, RELEASE_MAGIC));
    TRY(buf_u32(&header, (uint32_t)manifest.len));
    TRY(buf_put(&header, manifest));
    TRY(buf_u16(&header, (uint16_t)signature.len));
    TRY(buf_put(&header, signature));
    return put(op, fd, buf_span(&header));
}

static struct fault pad(struct op *op, int fd)
{
    static const uint8_t zeros[RELEASE_BLOCK];
    off_t at = lseek(fd, 0, SEEK_CUR);
    REQUIRE(at >= 0, IO);
    size_t over = (size_t)at % RELEASE_BLOCK;
    return over == 0 ? OK : put(op, fd, span_of(zeros, RELEASE_BLOCK - over));
}

static struct fault put_part(struct op *op, int fd, const char *path, const struct release_part *part)
{
    CLEANUP(fd_closep) int from = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    CLEANUP(buf_free) struct buf chunk = BUF_INIT(RELEASE_CHUNK);
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *digest = NULL;
    struct sha256 got;
    struct stat status;
    uint8_t *at = NULL;
    if (from < 0 || fstat(from, &status) != 0) {
        return op_fail(op, FAULT(NOT_FOUND), "%s cannot be opened", path);
    }
    if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != part->size) {
        return op_fail(op, FAULT(RELEASE_FILE), "%s has not the size that the manifest gives it", path);
    }
    TRY(sha256_begin(&digest));
    TRY(buf_reserve(&chunk, RELEASE_CHUNK, &at));
    TRY(pad(op, fd));
    for (uint64_t done = 0; done < part->size;) {
        uint64_t left = part->size - done;
        size_t len = left < RELEASE_CHUNK ? (size_t)left : RELEASE_CHUNK;
        TRY(release_pread(op, from, at, len, done));
        REQUIRE(EVP_DigestUpdate(digest, at, len) == 1, CRYPTO);
        TRY(put(op, fd, span_of(at, len)));
        done += len;
    }
    REQUIRE(EVP_DigestFinal_ex(digest, got.at, NULL) == 1, CRYPTO);
    return span_equal(SPAN_ARRAY(got.at), SPAN_ARRAY(part->sha256.at))
               ? OK
               : op_fail(op, FAULT(RELEASE_FILE), "%s has not the SHA-256 that the manifest gives it", path);
}

static struct fault put_all(struct op *op, int fd, struct span manifest, struct span signature,
                            const struct release_manifest *parsed, const char *const *parts)
{
    TRY(put_header(op, fd, manifest, signature));
    for (size_t i = 0; i < parsed->part_count; i++) {
        TRY(put_part(op, fd, parts[i], &parsed->parts[i]));
    }
    REQUIRE(fsync(fd) == 0, IO);
    return OK;
}

static struct fault take_bytes(void *arg, struct op *op, struct span bytes)
{
    return put(op, *(const int *)arg, bytes);
}

struct fault release_copy(struct op *op, const struct release_file *file, int fd)
{
    TRY(put_header(op, fd, release_manifest_bytes(file), release_signature_bytes(file)));
    for (size_t i = 0; i < release_manifest(file)->part_count; i++) {
        TRY(pad(op, fd));
        TRY(release_read_part(op, file, i, take_bytes, &fd));
    }
    REQUIRE(fsync(fd) == 0, IO);
    return OK;
}

struct fault release_pack(struct op *op, struct span manifest, struct span signature, const struct release_keys *keys,
                          const char *const *parts, const char *path)
{
    struct release_manifest parsed;
    const char *signer = NULL;
    char temporary[4096];
    int len = snprintf(temporary, sizeof(temporary), "%s.new", path);
    REQUIRE(len > 0 && (size_t)len < sizeof(temporary), TOO_LARGE);
    if (signature.len == 0 || signature.len > RELEASE_SIGNATURE_MAX) {
        return op_fail(op, FAULT(RELEASE_SIGNATURE), "the signature's length is not one of a signature");
    }
    TRY(release_manifest_parse(op, manifest, &parsed));
    if (keys != NULL) {
        TRY(release_keys_verify(op, keys, manifest, signature, &signer));
    }
    CLEANUP(fd_closep) int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return op_fail(op, FAULT(IO), "%s cannot be made", temporary);
    }
    struct fault done = put_all(op, fd, manifest, signature, &parsed, parts);
    if (!FAULTED(done) && rename(temporary, path) != 0) {
        done = op_fail(op, FAULT(IO), "%s cannot be made", path);
    }
    if (FAULTED(done)) {
        (void)unlink(temporary);
    }
    return done;
}
