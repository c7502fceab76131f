#include "signer-pkcs11/broker/journal_internal.h"

#define DAMAGED "the journal is damaged"

/* Where a file ends, the header of the next one knows. Version 1 did not: there the file's size had to do. */
static bool ended_well(const struct segment_scan *before, size_t size, const struct segment_scan *after)
{
    if (after->end == 0) { /* only begun */
        return before->clean;
    }
    return after->header.version == 1 ? before->end == size
                                      : before->clean && before->end == after->header.previous_end;
}

struct fault journal_scan(struct journal_folder *folder, struct journal_scan *scan)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(SEGMENT_BYTES + BATCH_BYTES);
    struct segment_scan before = { 0 };
    size_t size_before = 0;
    for (size_t i = 0; i < folder->count; i++) {
        uint32_t number = folder->numbers[i];
        struct segment_scan now = { 0 };
        TRY(journal_folder_read(folder, number, &bytes));
        TRY(segment_read(buf_span(&bytes), number, scan->visit, scan->arg, &now));
        bool younger = now.header.version == 2 && now.header.begun.age_ms < scan->age_ms;
        if (now.damaged || younger || (now.end == 0 && i + 1 < folder->count)) {
            return journal_file_refuse(folder, number, DAMAGED, younger ? 0 : now.end);
        }
        if (i > 0 && !ended_well(&before, size_before, &now)) {
            return journal_file_refuse(folder, number - 1, DAMAGED, before.end);
        }
        scan->age_ms = now.last.age_ms > scan->age_ms ? now.last.age_ms : scan->age_ms;
        scan->torn = now.clean ? 0 : bytes.len - now.end;
        scan->last = now;
        scan->file(scan->arg, number, &now);
        before = now;
        size_before = bytes.len;
    }
    return OK;
}
