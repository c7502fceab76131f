#include "signer-pkcs11/broker/journal_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>

#define MARK_AT_CLOSE_MS ((uint64_t)60 * 1000) /* the age that need not be marked */

/* All that opening needs to know beside the journal itself. */
struct opening {
    struct journal *journal;
    struct journal_folder folder;
};

/* ---- the files ---- */

static struct fault remember(void *arg, uint32_t number, size_t offset, const struct record *record)
{
    struct journal *journal = arg;
    TRY(index_reserve(&journal->index, 1));
    index_put(&journal->index, record->op_id, place_of(number, offset));
    return OK;
}

static void know_file(void *arg, uint32_t number, const struct segment_scan *scan)
{
    struct journal *journal = arg;
    if (scan->end == 0) {
        return; /* only begun, and will be again */
    }
    journal->files[number % SEGMENTS_MAX].begun_ms = scan->header.begun.age_ms;
    journal->files[number % SEGMENTS_MAX].end = scan->end;
    journal->bytes += scan->end;
    journal->current = number;
    journal->in_newest = scan->signatures;
    journal->begun_ms = scan->header.begun.age_ms;
    journal->marked_ms = scan->last.age_ms;
}

/* Where the next record goes: behind the last one, or into a new file. */
static struct fault find_end(struct opening *opening, const struct journal_scan *scan)
{
    struct journal *journal = opening->journal;
    size_t end = journal->current > 0 ? journal->files[journal->current % SEGMENTS_MAX].end : 0;
    journal->writer.number = journal->current;
    journal->writer.end = end;
    journal->begin_next = journal->current == 0 || scan->last.end == 0 || scan->last.header.version == 1;
    journal->marked = !journal->begin_next && scan->last.marked;
    if (scan->last.end > 0 && FAULTED(segment_resume(&journal->writer, journal->current, end))) {
        errno = journal->writer.error;
        return journal_folder_refuse(&opening->folder, "the journal cannot be continued");
    }
    return OK;
}

static struct fault load_files(struct opening *opening, uint64_t *ret_cut)
{
    struct journal *journal = opening->journal;
    const struct journal_folder *folder = &opening->folder;
    struct journal_scan scan = { .visit = remember, .file = know_file, .arg = journal };
    TRY(journal_folder_list(&opening->folder));
    journal->first = journal->on_disk = folder->count == 0 ? 1 : folder->numbers[0];
    journal->current = journal->first - 1;
    TRY(journal_scan(&opening->folder, &scan));
    journal->age_at_open_ms = scan.age_ms;
    *ret_cut = scan.torn;
    return find_end(opening, &scan);
}

/* From here on what stands before is certain, whatever happens to it. A disk that is full must not keep us from reading
 * what is there. */
static struct fault first_mark(struct opening *opening)
{
    struct journal_trouble trouble = { TROUBLE_NONE, 0 };
    if (!opening->journal->marked) {
        trouble = journal_mark(opening->journal);
    }
    REQUIRE(trouble.kind != TROUBLE_MEMORY, NO_MEMORY);
    bool goes_on = trouble.kind == TROUBLE_NONE || trouble.kind == TROUBLE_FILES ||
                   (trouble.kind == TROUBLE_WRITE && journal_lacks_space(trouble));
    errno = trouble.error;
    return goes_on ? OK : journal_folder_refuse(&opening->folder, "the journal cannot be written");
}

/* ---- the object ---- */

static void journal_free(struct journal *journal)
{
    if (journal == NULL) {
        return;
    }
    BUG_IF(journal->flight_count != 0 || journal->waiters != NULL || journal->waiting != NULL || journal->writing);
    fd_close(journal->writer.fd);
    fd_close(journal->folder);
    buf_free(&journal->encoded);
    index_clear(&journal->index);
    (void)pthread_mutex_destroy(&journal->lock);
    mem_free(journal);
}
DEFINE_FREEP(struct journal, journal_free)

static struct fault journal_new(size_t segment_bytes, int64_t retention_ns, struct journal **ret_journal)
{
    CLEANUP(journal_freep) struct journal *journal = NULL;
    uint8_t *room = NULL; /* all that the buffer will ever need */
    TRY(mem_new(1, sizeof(*journal), &journal));
    journal->folder = -1;
    journal->writer.folder = -1;
    journal->writer.fd = -1;
    journal->writer.limit = segment_bytes;
    journal->encoded = (struct buf)BUF_INIT(BATCH_BYTES);
    journal->waiting_end = &journal->waiting;
    journal->opened = clock_mono();
    journal->retention_ms = (uint64_t)(retention_ns / NS_PER_MS);
    BUG_IF(pthread_mutex_init(&journal->lock, NULL) != 0);
    TRY(buf_reserve(&journal->encoded, BATCH_BYTES, &room));
    TRY(index_init(&journal->index));
    *ret_journal = TAKE(journal);
    return OK;
}

static struct fault open_folder(struct opening *opening)
{
    struct journal_folder *folder = &opening->folder;
    if (mkdir(folder->path, 0700) != 0 && errno != EEXIST) {
        return journal_folder_refuse(folder, "the journal's folder cannot be made");
    }
    TRY(journal_folder_open(folder, LOCK_EX, &opening->journal->folder));
    opening->journal->writer.folder = folder->fd;
    return OK;
}

struct fault journal_open_sized(const char *folder, int64_t retention_ns, size_t segment_bytes, struct buf *why,
                                uint64_t *ret_cut, struct journal **ret_journal)
{
    BUG_IF(segment_bytes > SEGMENT_BYTES || retention_ns < JOURNAL_RETENTION_MIN);
    CLEANUP(journal_freep) struct journal *journal = NULL;
    CLEANUP(mem_freep) struct opening *opening = NULL;
    uint64_t cut = 0;
    TRY(mem_new(1, sizeof(*opening), &opening));
    TRY(journal_new(segment_bytes, retention_ns, &journal));
    opening->journal = journal;
    opening->folder.path = folder;
    opening->folder.why = why;
    TRY(open_folder(opening));
    TRY(load_files(opening, &cut));
    TRY(first_mark(opening));
    TRY(journal_keeper_start(journal));
    *ret_cut = cut;
    *ret_journal = TAKE(journal);
    return OK;
}

struct fault journal_open(const char *folder, int64_t retention_ns, struct buf *why, uint64_t *ret_cut,
                          struct journal **ret_journal)
{
    return journal_open_sized(folder, retention_ns, SEGMENT_BYTES, why, ret_cut, ret_journal);
}

void journal_close(struct journal *journal)
{
    if (journal == NULL) {
        return;
    }
    journal_keeper_stop(journal);
    if (!journal->marked || journal_now(journal).age_ms - journal->marked_ms >= MARK_AT_CLOSE_MS) {
        (void)journal_mark(journal); /* without it, only damage to the very end would be taken for a torn tail */
    }
    journal_free(journal);
}
