#include "signer-pkcs11/broker/segment.h"

#include "appliance/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool write_at(int fd, struct span bytes, size_t offset)
{
    while (bytes.len > 0) {
        ssize_t put = pwrite(fd, bytes.at, bytes.len, (off_t)offset);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            errno = put == 0 ? ENOSPC : errno;
            return false;
        }
        offset += (size_t)put;
        bytes = span_of(bytes.at + put, bytes.len - (size_t)put);
    }
    return true;
}

static bool zeros_at(int fd, size_t from, size_t to)
{
    static const uint8_t zeros[65536];
    for (size_t len = 0; from < to; from += len) {
        len = to - from < sizeof(zeros) ? to - from : sizeof(zeros);
        if (!write_at(fd, span_of(zeros, len), from)) {
            return false;
        }
    }
    return true;
}

/* For space that only zeros take: no harm if it stays. */
static void give_back(int fd, size_t size)
{
    if (ftruncate(fd, (off_t)size) != 0) {
        errno = 0;
    }
}

static struct fault failed(struct segment_writer *writer)
{
    writer->error = errno;
    return FAULT(SIGNER_JOURNAL);
}

static size_t filled_for(const struct segment_writer *writer, size_t from, size_t need)
{
    size_t wanted = from + SEGMENT_FILL < writer->limit ? from + SEGMENT_FILL : writer->limit;
    return wanted > need ? wanted : need;
}

struct fault segment_begin(struct segment_writer *writer, struct segment_time now)
{
    const struct segment_header header = { .number = writer->number + 1, .previous_end = writer->end, .begun = now };
    char name[SEGMENT_NAME_MAX];
    uint8_t bytes[SEGMENT_HEADER];
    segment_name(header.number, name);
    segment_header_put(&header, bytes);
    size_t filled = filled_for(writer, 0, SEGMENT_HEADER);
    CLEANUP(fd_closep) int fd = openat(writer->folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return failed(writer);
    }
    if (ftruncate(fd, 0) != 0 || !write_at(fd, SPAN_ARRAY(bytes), 0) || !zeros_at(fd, SEGMENT_HEADER, filled) ||
        fsync(fd) != 0 || fsync(writer->folder) != 0) {
        struct fault fault = failed(writer);
        (void)unlinkat(writer->folder, name, 0); /* gives its blocks back; one that is left is begun again */
        return fault;
    }
    if (writer->fd >= 0) {
        give_back(writer->fd, writer->end);
        fd_close(writer->fd);
    }
    writer->fd = fd;
    fd = -1;
    writer->number = header.number;
    writer->end = SEGMENT_HEADER;
    writer->filled = filled;
    return OK;
}

struct fault segment_resume(struct segment_writer *writer, uint32_t number, size_t end)
{
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    CLEANUP(fd_closep) int fd = openat(writer->folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || ftruncate(fd, (off_t)end) != 0 || fsync(fd) != 0) {
        return failed(writer);
    }
    writer->fd = fd;
    fd = -1;
    writer->number = number;
    writer->end = writer->filled = end;
    return OK;
}

struct fault segment_fill(struct segment_writer *writer, size_t need)
{
    if (writer->end + need <= writer->filled) {
        return OK;
    }
    size_t filled = filled_for(writer, writer->filled, writer->end + need);
    if (!zeros_at(writer->fd, writer->filled, filled)) {
        struct fault fault = failed(writer);
        give_back(writer->fd, writer->filled); /* of no use to us, perhaps to others */
        return fault;
    }
    writer->filled = filled;
    return OK;
}

struct fault segment_append(struct segment_writer *writer, struct span bytes)
{
    REQUIRE(!writer->broken, SIGNER_JOURNAL);
    if (!write_at(writer->fd, bytes, writer->end)) {
        /* What did get in goes out again, durably: later it must not stand behind a shorter record. */
        struct fault fault = failed(writer);
        writer->broken = ftruncate(writer->fd, (off_t)writer->end) != 0 || fdatasync(writer->fd) != 0;
        writer->filled = writer->end;
        return fault;
    }
    if (fdatasync(writer->fd) != 0) {
        struct fault fault = failed(writer);
        writer->broken = true; /* the kernel may have dropped the pages: asking again would lie */
        return fault;
    }
    writer->end += bytes.len;
    writer->filled = writer->end > writer->filled ? writer->end : writer->filled;
    return OK;
}
