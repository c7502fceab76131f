/* What journal.c (ids), journal_writer.c (to disk) and journal_open.c (start, end) share. */
#ifndef SIGNER_BROKER_JOURNAL_INTERNAL_H
#define SIGNER_BROKER_JOURNAL_INTERNAL_H

#include "signer-pkcs11/broker/index.h"
#include "signer-pkcs11/broker/journal.h"
#include "signer-pkcs11/broker/segment.h"

#include <pthread.h>
#include <stdatomic.h>

#define FLIGHTS_MAX         256 /* ids being signed or written at one time; more than there are connections */
#define JOURNAL_BROKEN_TEXT "the signer's journal could not be synced: check its disk, then restart the signer"

struct journal {
    int folder;                   /* owned; holds the lock of the journal */
    struct segment_writer writer; /* of whoever has set `writing` */
    struct buf encoded;           /* the same */
    bool marked;                  /* the same: the last record on disk is a mark */
    uint32_t first;               /* number of the oldest file; never changes */
    _Atomic uint32_t current;     /* number of the newest */
    pthread_t thread;
    bool runs;

    pthread_mutex_t lock; /* guards all below; never held over I/O or a callback */
    pthread_cond_t work;
    struct journal_write *waiting, **waiting_end; /* in order of arrival */
    struct journal_parked *parked;
    uint8_t flights[FLIGHTS_MAX][JOURNAL_ID_LEN];
    size_t flight_count;
    struct index index;
    uint64_t bytes;
    bool writing; /* somebody has `writer` and `encoded`, and calls back */
    bool swift;   /* the last batch took no longer than SWIFT_NS */
    bool broken, stopping;
};

static inline void journal_lock(struct journal *journal)
{
    BUG_IF(pthread_mutex_lock(&journal->lock) != 0);
}
static inline void journal_unlock(struct journal *journal)
{
    BUG_IF(pthread_mutex_unlock(&journal->lock) != 0);
}

/* The id is free again: moves those who wait for it to *woken, for journal_wake outside the lock. */
void journal_land_locked(struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN], struct journal_parked **woken);
void journal_wake(struct journal_parked *woken);

/* A place of the index: 10 bits of the file's number, 22 of the offset in units of RECORD_ALIGN. */
static inline uint32_t place_of(uint32_t number, size_t offset)
{
    return number % SEGMENTS_MAX << 22 | (uint32_t)(offset / RECORD_ALIGN);
}

/* As journal_open, with files of `segment_bytes` (at most SEGMENT_BYTES): for tests. */
struct fault journal_open_sized(const char *folder, size_t segment_bytes, struct buf *why, uint64_t *ret_cut,
                                struct journal **ret_journal);

/* ---- journal_writer.c ---- */
/* After something was added to `waiting`. The lock is given back. */
void journal_write_unlock(struct journal *journal);
struct fault journal_thread_start(struct journal *journal);
void journal_thread_stop(struct journal *journal); /* what was submitted is written first */
/* Writes a mark unless the last record is one. Only while the thread does not run. */
struct fault journal_mark(struct journal *journal);

#endif
