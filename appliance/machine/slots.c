#include "appliance/machine/slots.h"

#include "appliance/base/file.h"
#include "appliance/base/hashed_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define UEVENT_MAX  ((size_t)4096)
#define SETTLE_EACH ((uint64_t)16 << 20) /* so that what waits for the disk stays small beside the memory */

/* The slot by the PARTNAME in the uevent file of a partition; false: no slot. */
static bool slot_of_partition(const char *sysfs, const char *name, unsigned *ret_slot)
{
    CLEANUP(buf_free) struct buf event = BUF_INIT(UEVENT_MAX);
    char path[512];
    const char *text = NULL;
    int len = snprintf(path, sizeof(path), "%s/class/block/%s/uevent", sysfs, name);
    if (len < 0 || (size_t)len >= sizeof(path) || FAULTED(file_read(path, &event)) ||
        FAULTED(buf_cstr(&event, &text))) {
        return false;
    }
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        char line[32];
        (void)snprintf(line, sizeof(line), "PARTNAME=svc-root-%c\n", SLOT_LETTER(slot));
        const char *at = strstr(text, line);
        if (at != NULL && (at == text || at[-1] == '\n')) {
            *ret_slot = slot;
            return true;
        }
    }
    return false;
}

struct fault slot_running(struct op *op, const char *sysfs, dev_t root, unsigned *ret_slot)
{
    char path[512];
    unsigned found = 0, slot = 0;
    int len = snprintf(path, sizeof(path), "%s/dev/block/%u:%u/slaves", sysfs, major(root), minor(root));
    DIR *folder = len > 0 && (size_t)len < sizeof(path) ? opendir(path) : NULL;
    const struct dirent *entry = NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        found += entry->d_name[0] != '.' && slot_of_partition(sysfs, entry->d_name, &slot) ? 1 : 0;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    if (found != 1) {
        return op_fail(op, FAULT(NOT_FOUND), "the slot that runs cannot be told");
    }
    *ret_slot = slot;
    return OK;
}

struct fault slot_open(struct op *op, const char *device, struct slot_writer *ret_writer)
{
    struct stat status;
    uint64_t size = 0;
    /* O_EXCL on a block device: not while dm-verity or a mount has it. */
    CLEANUP(fd_closep) int fd = open(device, O_RDWR | O_EXCL | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return op_fail(op, errno == EBUSY ? FAULT(CONFLICT) : FAULT(IO), "the slot %s cannot be opened: %s", device,
                       strerrordesc_np(errno));
    }
    REQUIRE(fstat(fd, &status) == 0, IO);
    if (S_ISBLK(status.st_mode)) {
        REQUIRE(ioctl(fd, BLKGETSIZE64, &size) == 0, IO);
    } else {
        REQUIRE(S_ISREG(status.st_mode), IO);
        size = (uint64_t)status.st_size;
    }
    REQUIRE(size > RELEASE_FOOTER, IO);
    *ret_writer = (struct slot_writer){ .fd = fd, .size = size };
    fd = -1;
    return OK;
}

void slot_close(struct slot_writer *writer)
{
    int fd = writer->fd;
    *writer = (struct slot_writer){ .fd = -1 };
    fd_close(fd);
}

static struct fault put(struct op *op, int fd, struct span bytes, uint64_t offset)
{
    while (bytes.len > 0) {
        ssize_t done = pwrite(fd, bytes.at, bytes.len, (off_t)offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return op_fail(op, FAULT(IO), "the slot cannot be written: %s", strerrordesc_np(errno));
        }
        bytes = span_of(bytes.at + done, bytes.len - (size_t)done);
        offset += (uint64_t)done;
    }
    return OK;
}

static struct fault settle(struct op *op, int fd)
{
    return fsync(fd) == 0 ? OK : op_fail(op, FAULT(IO), "the slot is not written through: %s", strerrordesc_np(errno));
}

static struct fault put_footer(struct op *op, const struct slot_writer *writer, const uint8_t bytes[RELEASE_FOOTER])
{
    TRY(put(op, writer->fd, span_of(bytes, RELEASE_FOOTER), writer->size - RELEASE_FOOTER));
    return settle(op, writer->fd);
}

struct fault slot_erase_footer(struct op *op, const struct slot_writer *writer)
{
    static const uint8_t nothing[RELEASE_FOOTER];
    return put_footer(op, writer, nothing);
}

struct fault slot_write_footer(struct op *op, const struct slot_writer *writer, const struct release_footer *footer)
{
    uint8_t bytes[RELEASE_FOOTER];
    release_footer_print(footer, bytes);
    return put_footer(op, writer, bytes);
}

struct copy {
    const struct slot_writer *writer;
    uint64_t done, settled, size;
    slot_said_fn said;
    void *arg;
};

static struct fault take_bytes(void *arg, struct op *op, struct span bytes)
{
    struct copy *copy = arg;
    BUG_IF(copy->done + bytes.len > copy->writer->size - RELEASE_FOOTER); /* never over the footer */
    TRY(put(op, copy->writer->fd, bytes, copy->done));
    copy->done += bytes.len;
    if (copy->done - copy->settled >= SETTLE_EACH || copy->done == copy->size) {
        TRY(settle(op, copy->writer->fd));
        copy->settled = copy->done;
        if (copy->said != NULL) {
            copy->said(copy->arg, copy->done, copy->size);
        }
    }
    return OK;
}

struct fault slot_write_root(struct op *op, const struct slot_writer *writer, const struct release_file *file,
                             slot_said_fn said, void *arg)
{
    uint64_t size = release_manifest(file)->parts[RELEASE_PART_ROOT].size;
    struct copy copy = { .writer = writer, .size = size, .said = said, .arg = arg };
    if (size > writer->size - RELEASE_FOOTER) {
        return op_fail(op, FAULT(RELEASE_SPACE), "the root of %llu bytes does not fit into a slot of %llu",
                       (unsigned long long)size, (unsigned long long)writer->size);
    }
    return release_read_part(op, file, RELEASE_PART_ROOT, take_bytes, &copy);
}

/* Out of the page cache, so that the disk itself is asked. */
static void forget(const struct slot_writer *writer)
{
    (void)ioctl(writer->fd, BLKFLSBUF, 0);
    (void)posix_fadvise(writer->fd, 0, (off_t)writer->size, POSIX_FADV_DONTNEED);
}

struct fault slot_verify_root(struct op *op, const struct slot_writer *writer, const struct release_manifest *manifest)
{
    const struct release_part *part = &manifest->parts[RELEASE_PART_ROOT];
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *digest = NULL;
    CLEANUP(buf_free) struct buf chunk = BUF_INIT(RELEASE_CHUNK);
    struct sha256 got;
    uint8_t *at = NULL;
    forget(writer);
    TRY(sha256_begin(&digest));
    TRY(buf_reserve(&chunk, RELEASE_CHUNK, &at));
    for (uint64_t done = 0; done < part->size;) {
        uint64_t left = part->size - done;
        size_t len = left < RELEASE_CHUNK ? (size_t)left : RELEASE_CHUNK;
        TRY(release_pread(op, writer->fd, at, len, done));
        REQUIRE(EVP_DigestUpdate(digest, at, len) == 1, CRYPTO);
        done += len;
    }
    REQUIRE(EVP_DigestFinal_ex(digest, got.at, NULL) == 1, CRYPTO);
    return span_equal(SPAN_ARRAY(got.at), SPAN_ARRAY(part->sha256.at))
               ? OK
               : op_fail(op, FAULT(RELEASE_FILE), "what the disk gives back is not what was written to it");
}

struct fault slot_read_footer(struct op *op, const char *device, struct release_footer *ret_footer)
{
    uint8_t bytes[RELEASE_FOOTER];
    CLEANUP(fd_closep) int fd = open(device, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    if (end < RELEASE_FOOTER || FAULTED(release_pread(op, fd, bytes, sizeof(bytes), (uint64_t)end - RELEASE_FOOTER))) {
        return op_fail(op, FAULT(IO), "the slot %s cannot be read", device);
    }
    return release_footer_parse(bytes, ret_footer);
}
