/* rooms: events base */
/* A backup of the event log, as restore reads it: refused or read to its end, never more than its bounds. */
#include "api/events/backup_file.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("backup", MFD_CLOEXEC);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0) {
        abort();
    }
    struct op *op = NULL;
    struct backup_reader *reader = NULL;
    struct backup_entry entry = { 0 };
    uint64_t messages = 0, replacements = 0;
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "" }, 1000, &op)));
    struct fault fault = backup_reader_new(op, fd, &reader);
    while (!FAULTED(fault)) {
        fault = backup_reader_next(op, reader, &entry);
        if (FAULTED(fault) || entry.kind == BACKUP_END) {
            break;
        }
        BUG_IF(entry.body.len == 0 || entry.body.len > BACKUP_BODY_MAX);
        BUG_IF(entry.kind == BACKUP_MESSAGE && entry.sequence != messages + 1);
        messages += entry.kind == BACKUP_MESSAGE;
        replacements += entry.kind == BACKUP_REPLACEMENT;
    }
    BUG_IF(!FAULTED(fault) && (entry.totals.messages != messages || entry.totals.replacements != replacements));
    backup_reader_free(reader);
    op_free(op);
    return 0;
}
