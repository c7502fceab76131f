/* What journal.c (in memory), journal_open.c (start, end) and journal_commit.c (to disk) share. */
#ifndef SIGNER_BROKER_JOURNAL_INTERNAL_H
#define SIGNER_BROKER_JOURNAL_INTERNAL_H

#include "signer-pkcs11/broker/index.h"
#include "signer-pkcs11/broker/journal.h"
#include "signer-pkcs11/broker/segment.h"

#include <pthread.h>
#include <stdatomic.h>

#define FLIGHTS_MAX         256 /* ids being signed or written at one time; more than there are connections */
#define BATCH_MAX           FLIGHTS_MAX
#define JOURNAL_BROKEN_TEXT "the signer's journal could not be synced: check its disk, then restart the signer"

/* Who waits for a record; lives on the waiter's stack and is detached before the waiter leaves. */
struct waiter {
    struct pending *pending;
    struct fault fault;
    bool done;
};

/* A signature on its way to the disk. */
struct pending {
    struct waiter *waiter; /* NULL: gave up at its deadline; the record is written all the same */
    uint8_t op_id[JOURNAL_ID_LEN];
    struct sha256 request;
    uint16_t len;
    uint8_t signature[SIGNATURE_MAX];
};

struct batch {
    struct pending at[BATCH_MAX];
    size_t count;
    size_t waiting; /* records somebody still waits for */
};

struct journal {
    int folder;                   /* owned; holds the lock of the journal */
    struct segment_writer writer; /* of whoever leads; else under lock */
    struct buf encoded;           /* the same */
    bool marked;                  /* the same: the last record on disk is a mark */
    uint32_t first;               /* number of the oldest file; never changes */
    _Atomic uint32_t current;     /* number of the newest */

    pthread_mutex_t lock;      /* guards all below; never held over I/O */
    pthread_cond_t landed;     /* an id has left `flights` */
    pthread_cond_t written[2]; /* batch n: written[n & 1] */
    struct batch batches[2];
    uint64_t filling; /* number of the batch that takes records: batches[filling & 1] */
    bool leading;     /* somebody writes the batch before it */
    uint8_t flights[FLIGHTS_MAX][JOURNAL_ID_LEN];
    size_t flight_count, landing_waiters;
    struct index index;
    uint64_t bytes;
    bool broken;
    const char *complaint; /* why the last batch was not written */
};

static inline void journal_lock(struct journal *journal)
{
    BUG_IF(pthread_mutex_lock(&journal->lock) != 0);
}
static inline void journal_unlock(struct journal *journal)
{
    BUG_IF(pthread_mutex_unlock(&journal->lock) != 0);
}
/* False at the deadline. */
bool journal_wait_locked(struct journal *journal, pthread_cond_t *cond, mono_ns deadline);
/* The id is free again. */
void journal_land_locked(struct journal *journal, const uint8_t op_id[JOURNAL_ID_LEN]);

/* A place of the index: 10 bits of the file's number, 22 of the offset in units of RECORD_ALIGN. */
static inline uint32_t place_of(uint32_t number, size_t offset)
{
    return number % SEGMENTS_MAX << 22 | (uint32_t)(offset / RECORD_ALIGN);
}

/* As journal_open, with files of `segment_bytes` (at most SEGMENT_BYTES): for tests. */
struct fault journal_open_sized(const char *folder, size_t segment_bytes, struct buf *why, uint64_t *ret_cut,
                                struct journal **ret_journal);
/* Writes a mark unless the last record is one. Under no lock, by the only user. */
struct fault journal_mark(struct journal *journal);

#endif
