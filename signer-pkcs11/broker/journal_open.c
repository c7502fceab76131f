#include "signer-pkcs11/broker/journal_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENCODED_MAX (FLIGHTS_MAX * RECORD_SIZE_MAX)

/* All that opening needs to know beside the journal itself. */
struct opening {
    struct journal *journal;
    const char *folder;
    struct buf *why;
    uint32_t numbers[SEGMENTS_MAX];
    size_t count;
    uint64_t cut;
};

static struct fault refuse(const struct opening *opening, uint32_t number, const char *what, uint64_t offset)
{
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    if (opening->why != NULL) {
        IGNORE(buf_printf(opening->why, "%s/%s: %s at offset %llu: restore the file from a copy", opening->folder, name,
                          what, (unsigned long long)offset));
    }
    return FAULT(SIGNER_JOURNAL);
}

static struct fault refuse_folder(const struct opening *opening, const char *what)
{
    char reason[64];
    if (opening->why != NULL) {
        IGNORE(
            buf_printf(opening->why, "%s: %s (%s)", opening->folder, what, strerror_r(errno, reason, sizeof(reason))));
    }
    return FAULT(SIGNER_JOURNAL);
}

/* ---- the folder ---- */

static struct fault open_folder(struct opening *opening)
{
    if (mkdir(opening->folder, 0700) != 0 && errno != EEXIST) {
        return refuse_folder(opening, "the journal's folder cannot be made");
    }
    int fd = open(opening->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return refuse_folder(opening, "the journal's folder cannot be opened");
    }
    opening->journal->folder = fd;
    opening->journal->writer.folder = fd;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return refuse_folder(opening, "another signer uses this journal");
    }
    return OK;
}

static void closedirp(DIR **dir)
{
    if (*dir != NULL) {
        (void)closedir(*dir);
    }
}

static struct fault list_files(struct opening *opening)
{
    CLEANUP(closedirp) DIR *dir = opendir(opening->folder);
    if (dir == NULL) {
        return refuse_folder(opening, "the journal's folder cannot be read");
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        uint32_t number = 0;
        if (strlen(entry->d_name) < 8 || !segment_number(entry->d_name, &number)) {
            continue; /* the PIN file lives here too */
        }
        if (opening->count == SEGMENTS_MAX) {
            errno = EMFILE;
            return refuse_folder(opening, "the journal has more files than it can use: move the oldest away");
        }
        size_t at = opening->count++; /* in order; the folder mostly is already */
        for (; at > 0 && opening->numbers[at - 1] > number; at--) {
            opening->numbers[at] = opening->numbers[at - 1];
        }
        opening->numbers[at] = number;
    }
    for (size_t i = 1; i < opening->count; i++) {
        if (opening->numbers[i] != opening->numbers[i - 1] + 1) {
            return refuse(opening, opening->numbers[i - 1] + 1, "the file is missing", 0);
        }
    }
    return OK;
}

/* ---- the files ---- */

static struct fault remember(void *arg, uint32_t number, size_t offset, const struct record *record)
{
    struct journal *journal = arg;
    TRY(index_reserve(&journal->index, 1));
    index_put(&journal->index, record->op_id, place_of(number, offset));
    return OK;
}

static struct fault read_file(const struct opening *opening, uint32_t number, struct buf *bytes)
{
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    CLEANUP(fd_closep) int fd = openat(opening->journal->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return refuse_folder(opening, "a file of the journal cannot be opened");
    }
    if (status.st_size < 0 || (uint64_t)status.st_size > bytes->max) {
        return refuse(opening, number, "the file is too large", bytes->max);
    }
    uint8_t *at = NULL;
    buf_clear(bytes);
    TRY(buf_reserve(bytes, (size_t)status.st_size, &at));
    for (size_t have = 0; have < bytes->len;) {
        ssize_t got = pread(fd, at + have, bytes->len - have, (off_t)have);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return refuse(opening, number, "the file cannot be read", have);
        }
        have += got > 0 ? (size_t)got : 0;
    }
    return OK;
}

static struct fault load_file(struct opening *opening, size_t which, struct buf *bytes)
{
    struct journal *journal = opening->journal;
    uint32_t number = opening->numbers[which];
    bool last = which + 1 == opening->count;
    struct segment_scan scan = { 0 };
    TRY(read_file(opening, number, bytes));
    TRY(segment_read(buf_span(bytes), number, remember, journal, &scan));
    if (scan.damaged || (!last && scan.end != bytes->len)) {
        return refuse(opening, number, "the journal is damaged", scan.end);
    }
    journal->bytes += scan.end == 0 ? SEGMENT_HEADER : scan.end;
    if (!last) {
        return OK;
    }
    opening->cut = bytes->len - scan.end;
    journal->marked = scan.marked;
    struct fault fault =
        scan.end == 0 ? segment_begin(&journal->writer, number) : segment_resume(&journal->writer, number, scan.end);
    return FAULTED(fault) ? refuse_folder(opening, "the journal cannot be continued") : OK;
}

static struct fault load_files(struct opening *opening)
{
    struct journal *journal = opening->journal;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(SEGMENT_BYTES + ENCODED_MAX);
    for (size_t i = 0; i < opening->count; i++) {
        TRY(load_file(opening, i, &bytes));
    }
    if (opening->count == 0 && FAULTED(segment_begin(&journal->writer, 1))) {
        return refuse_folder(opening, "the journal cannot be begun");
    }
    journal->first = opening->count == 0 ? 1 : opening->numbers[0];
    journal->bytes += opening->count == 0 ? SEGMENT_HEADER : 0;
    atomic_store(&journal->current, journal->writer.number);
    /* From here on what stands before is certain, whatever happens to it. */
    return FAULTED(journal_mark(journal)) ? refuse_folder(opening, "the journal cannot be written") : OK;
}

/* ---- the object ---- */

static void journal_free(struct journal *journal)
{
    if (journal == NULL) {
        return;
    }
    BUG_IF(journal->flight_count != 0 || journal->parked != NULL || journal->waiting != NULL || journal->runs);
    fd_close(journal->writer.fd);
    fd_close(journal->folder);
    buf_free(&journal->encoded);
    index_clear(&journal->index);
    (void)pthread_cond_destroy(&journal->work);
    (void)pthread_mutex_destroy(&journal->lock);
    mem_free(journal);
}
DEFINE_FREEP(struct journal, journal_free)

static struct fault journal_new(size_t segment_bytes, struct journal **ret_journal)
{
    CLEANUP(journal_freep) struct journal *journal = NULL;
    TRY(mem_new(1, sizeof(*journal), &journal));
    journal->folder = -1;
    journal->writer.folder = -1;
    journal->writer.fd = -1;
    journal->writer.limit = segment_bytes;
    journal->encoded = (struct buf)BUF_INIT(ENCODED_MAX);
    journal->waiting_end = &journal->waiting;
    BUG_IF(pthread_mutex_init(&journal->lock, NULL) != 0 || pthread_cond_init(&journal->work, NULL) != 0);
    TRY(index_init(&journal->index));
    *ret_journal = TAKE(journal);
    return OK;
}

struct fault journal_open_sized(const char *folder, size_t segment_bytes, struct buf *why, uint64_t *ret_cut,
                                struct journal **ret_journal)
{
    BUG_IF(segment_bytes > SEGMENT_BYTES);
    CLEANUP(journal_freep) struct journal *journal = NULL;
    CLEANUP(mem_freep) struct opening *opening = NULL;
    TRY(mem_new(1, sizeof(*opening), &opening));
    TRY(journal_new(segment_bytes, &journal));
    opening->journal = journal;
    opening->folder = folder;
    opening->why = why;
    TRY(open_folder(opening));
    TRY(list_files(opening));
    TRY(load_files(opening));
    TRY(journal_thread_start(journal));
    *ret_cut = opening->cut;
    *ret_journal = TAKE(journal);
    return OK;
}

struct fault journal_open(const char *folder, struct buf *why, uint64_t *ret_cut, struct journal **ret_journal)
{
    return journal_open_sized(folder, SEGMENT_BYTES, why, ret_cut, ret_journal);
}

void journal_close(struct journal *journal)
{
    if (journal != NULL) {
        journal_thread_stop(journal);
        IGNORE(journal_mark(journal)); /* without it, only damage to the very end would be taken for a torn tail */
        journal_free(journal);
    }
}
