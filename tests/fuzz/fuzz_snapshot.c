/* rooms: snapshot base */
/* A snapshot of the read model, as check and load read it: refused or read to its end, never more than its bounds. */
#include "api/snapshot/file.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("snapshot", MFD_CLOEXEC);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0) {
        abort();
    }
    struct op *op = NULL;
    struct snapshot_reader *reader = NULL;
    struct snapshot_entry entry = { 0 };
    uint64_t rows = 0;
    bool open = false;
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "" }, 1000, &op)));
    struct fault fault = snapshot_reader_new(op, fd, &reader);
    while (!FAULTED(fault)) {
        fault = snapshot_reader_next(op, reader, &entry);
        if (FAULTED(fault) || entry.kind == SNAPSHOT_END) {
            break;
        }
        BUG_IF((entry.kind == SNAPSHOT_SECTION) == open);
        BUG_IF(entry.kind == SNAPSHOT_DATA && (entry.data.len == 0 || entry.data.len > SNAPSHOT_PIECE_MAX));
        BUG_IF(entry.kind == SNAPSHOT_SECTION && (entry.table[0] == '\0' || entry.columns[0] == '\0'));
        open = entry.kind == SNAPSHOT_SECTION || (open && entry.kind == SNAPSHOT_DATA);
        rows += entry.kind == SNAPSHOT_SECTION_END ? entry.rows : 0;
    }
    BUG_IF(!FAULTED(fault) && (open || entry.totals.rows != rows || entry.totals.bytes != size));
    snapshot_reader_free(reader);
    op_free(op);
    return 0;
}
