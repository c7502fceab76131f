/* What the journal's files share: journal.c (ids), _writer.c (to disk), _retain.c (forgetting), _open.c (start, end),
 * _folder.c and _scan.c (reading, also for journal_check.c). */
#ifndef SIGNER_BROKER_JOURNAL_INTERNAL_H
#define SIGNER_BROKER_JOURNAL_INTERNAL_H

#include "signer-pkcs11/broker/index.h"
#include "signer-pkcs11/broker/journal.h"
#include "signer-pkcs11/broker/journal_futex.h"
#include "signer-pkcs11/broker/segment.h"

#include <pthread.h>

#define FLIGHTS_MAX 1024 /* ids being signed or written at one time; more than there are connections */
#define BATCH_BYTES ((size_t)256 << 10)

/* Why nothing can be written. */
enum journal_trouble_kind {
    TROUBLE_NONE,
    TROUBLE_MEMORY,
    TROUBLE_FILES, /* there are as many as there may be */
    TROUBLE_WRITE, /* `error` says why; mostly a full disk */
    TROUBLE_SYNC,  /* for good */
};
struct journal_trouble {
    enum journal_trouble_kind kind;
    int error;
};
#define TROUBLE_TEXT_MAX 128
bool journal_lacks_space(struct journal_trouble trouble);
void journal_trouble_text(struct journal_trouble trouble, char *out, size_t size);

/* A signature on its way to disk, on its caller's stack. */
enum journal_write_state { WRITE_WAITS, WRITE_LEADS, WRITE_DONE };
struct journal_write {
    struct journal_write *next;
    const struct journal_entry *entry; /* NULL: a mark. Borrowed, as the signature is, until `state` is WRITE_DONE */
    struct span signature;
    struct journal_trouble trouble;
    _Atomic uint32_t state; /* WRITE_LEADS: its caller writes the next batch, and has `writing` already */
};

/* Who waits for an id, on its own stack. */
struct journal_waiter {
    struct journal_waiter *next;
    const uint8_t *op_id;
    _Atomic uint32_t woken;
};

struct journal_flight {
    uint64_t half[2]; /* the id */
};

struct journal {
    int folder; /* owned; holds the lock of the journal */
    uint64_t retention_ms;
    mono_ns opened;
    uint64_t age_at_open_ms;

    /* of whoever has set `writing` */
    struct segment_writer writer;
    struct buf encoded; /* never grows after the start */
    uint64_t begun_ms;  /* age at which the newest file was begun */
    uint64_t in_newest; /* signatures in it */
    bool marked;        /* the last record on disk is a mark */
    bool begin_next;    /* nothing more may go into the newest file */

    pthread_mutex_t lock;                         /* guards all below; never held over I/O */
    struct journal_write *waiting, **waiting_end; /* in order of arrival */
    struct journal_waiter *waiters;
    struct journal_flight flights[FLIGHTS_MAX];
    size_t flight_count;
    struct index index;
    uint64_t bytes;
    bool writing;                   /* somebody has the writer */
    struct journal_trouble blocked; /* what the last batch met */
    mono_ns retry_at;               /* when it is tried again */
    uint64_t marked_ms;             /* age that the last mark or header tells */
    uint32_t current;               /* number of the newest file; 0: there is none yet */
    uint32_t first;                 /* of the oldest that is not forgotten */
    uint32_t on_disk;               /* of the oldest that was not removed, or that the index still knows */
    struct {
        uint64_t begun_ms;
        size_t end;
    } files[SEGMENTS_MAX]; /* by number % SEGMENTS_MAX, from on_disk to current */

    pthread_t keeper; /* journal_retain.c */
    bool keeper_runs;
    _Atomic uint32_t keeper_call;
};
enum journal_keeper_call { KEEPER_SLEEPS, KEEPER_LOOKS, KEEPER_ENDS };

static inline void journal_lock(struct journal *journal)
{
    BUG_IF(pthread_mutex_lock(&journal->lock) != 0);
}
static inline void journal_unlock(struct journal *journal)
{
    BUG_IF(pthread_mutex_unlock(&journal->lock) != 0);
}

/* How long the journal was open, this time and before. */
static inline struct segment_time journal_now(const struct journal *journal)
{
    uint64_t open_ms = (uint64_t)(clock_mono() - journal->opened) / (uint64_t)NS_PER_MS;
    return (struct segment_time){ .age_ms = journal->age_at_open_ms + open_ms, .wall = clock_utc() };
}

/* The id is free again. Wakes who waits for it. */
void journal_land_locked(struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN]);

/* A place of the index: 10 bits of the file's number, 22 of the offset in units of RECORD_ALIGN. */
static inline uint32_t place_of(uint32_t number, size_t offset)
{
    return number % SEGMENTS_MAX << 22 | (uint32_t)(offset / RECORD_ALIGN);
}
/* The file's number: numbers of present files differ in the bits that the place keeps. */
static inline uint32_t place_number(uint32_t current, uint32_t place)
{
    return current - (current - (place >> 22)) % SEGMENTS_MAX;
}
static inline size_t place_offset(uint32_t place)
{
    return (size_t)(place & 0x3fffff) * RECORD_ALIGN;
}

/* As journal_open, with files of `segment_bytes` (at most SEGMENT_BYTES): for tests. */
struct fault journal_open_sized(const char *folder, int64_t retention_ns, size_t segment_bytes, struct buf *why,
                                uint64_t *ret_cut, struct journal **ret_journal);

/* ---- journal_writer.c ---- */
/* Returns when the record is on disk, or is not. */
struct journal_trouble journal_write(struct journal *journal, struct journal_write *write);
/* A mark, in turn with the signatures. */
struct journal_trouble journal_mark(struct journal *journal);
/* What keeps it from taking signatures. A disk that was full is tried again, at most once a second. */
struct journal_trouble journal_trouble(struct journal *journal);

/* ---- journal_retain.c ---- */
/* Removes the files that are old enough, and lets the index forget them. By one thread at a time. */
struct fault journal_retain(struct journal *journal, unsigned *ret_removed);
struct fault journal_keeper_start(struct journal *journal);
void journal_keeper_stop(struct journal *journal);
void journal_keeper_wake(struct journal *journal); /* a file was ended */

/* ---- journal_folder.c ---- */
/* The files of a folder. A refusal names what is wrong, in `why`, and for damage to a file in the last three. */
struct journal_folder {
    const char *path;
    struct buf *why; /* may be NULL */
    bool of_others;  /* files that another user owns are fine: they are only looked at */
    int fd;          /* borrowed */
    size_t count;
    uint32_t numbers[SEGMENTS_MAX]; /* in order, without gaps */
    uint32_t bad_number;
    const char *bad_what;
    uint64_t bad_offset;
};
/* Locks it as `lock` (LOCK_EX, LOCK_SH) says. */
struct fault journal_folder_open(struct journal_folder *folder, int lock, int *ret_fd);
struct fault journal_folder_list(struct journal_folder *folder);
struct fault journal_folder_read(struct journal_folder *folder, uint32_t number, struct buf *bytes);
struct fault journal_folder_refuse(struct journal_folder *folder, const char *what); /* says errno, too */
struct fault journal_file_refuse(struct journal_folder *folder, uint32_t number, const char *what, uint64_t offset);

/* ---- journal_scan.c ---- */
struct journal_scan {
    segment_visit visit;
    void (*file)(void *arg, uint32_t number, const struct segment_scan *scan); /* after each file */
    void *arg;
    /* results */
    struct segment_scan last; /* of the newest file; zeros: there is none */
    uint64_t age_ms;          /* the greatest */
    uint64_t torn;            /* bytes at the end that are to be cut */
};
/* Reads all files of a listed folder, and refuses what is damaged. */
struct fault journal_scan(struct journal_folder *folder, struct journal_scan *scan);

#endif
