/*
 * The operation journal: what makes Sign idempotent. Under an operation id one request is signed once; its signature is
 * on disk before anybody sees it; the same id and request give the same bytes for ever, the same id with another
 * request is refused. Thread-safe. Who submits writes to a disk that has shown to be swift, and leaves a slow one to
 * the journal's own thread:
 *
 *     TRY(journal_enter(op, journal, &request->op_id, &hash, &parked, &entry, signature, &outcome));
 *     JOURNAL_REPLAYED: `signature` has the bytes of the first time.
 *     JOURNAL_PARKED:   somebody is signing under this id; parked.wake is called when that is over: enter again.
 *     JOURNAL_NEW:      sign; then journal_submit, and write.done is called when it is on disk; or journal_leave.
 *
 * On disk: append-only segments "00000001.journal" ... of 64 MiB (segment.h). Signatures that arrive while one batch is
 * written make the next: they share one write and one fdatasync. At open, a tail that no caller was told of is cut;
 * damage before that refuses to start and names file and offset. A failed fdatasync leaves the disk's state unknown:
 * from then on every journalled operation is refused until the process starts anew and reads what is really there.
 *
 * Growth: nothing is ever deleted. On disk 144 bytes an operation for P-256, 448 for RSA-3072; in memory 11 to 22 bytes
 * an operation. The bound is 1024 segments (64 GiB); then journalled operations are refused until an operator stops the
 * signer and moves the oldest segments away, which also ends the promise for their ids.
 */
#ifndef SIGNER_BROKER_JOURNAL_H
#define SIGNER_BROKER_JOURNAL_H

#include "appliance/base/op.h"
#include "signer-pkcs11/protocol/key.h"

#define JOURNAL_ID_LEN 16

struct journal;

/* Makes the folder (0700) when missing, holds a lock on it (one signer at a time), and starts the journal's thread.
 * *ret_cut: bytes of an unfinished tail that were cut. SIGNER_JOURNAL, and `why` (not NULL) gets one line. */
struct fault journal_open(const char *folder, struct buf *why, uint64_t *ret_cut, struct journal **ret_journal);
/* Nobody may be inside. Marks the end as complete, so that later damage to it is told from a torn tail. */
void journal_close(struct journal *journal);
DEFINE_FREEP(struct journal, journal_close)

/* A claimed operation id; { 0 } holds nothing. */
struct journal_entry {
    struct journal *journal; /* borrowed */
    uint8_t op_id[JOURNAL_ID_LEN];
    struct sha256 request;
};

/* Room for a caller that has to come again; lives as long as it is parked. */
struct journal_parked {
    void (*wake)(struct journal_parked *parked); /* once, on another thread, outside every lock of the journal */
    struct journal_parked *next;
    uint8_t op_id[JOURNAL_ID_LEN];
};

/* A signature on its way to the disk; lives until `done` is called. */
struct journal_write {
    /* Once, on the journal's thread or inside journal_submit, never two at a time: OK, or SIGNER_JOURNAL and why. Then
     * nothing may be said of the signature: it may be on disk all the same, and then it is what a repetition gets. */
    void (*done)(struct journal_write *write, struct fault fault, const char *why);
    struct journal_write *next;
    uint8_t op_id[JOURNAL_ID_LEN];
    struct sha256 request;
    size_t len;
    uint8_t signature[SIGNATURE_MAX];
};

enum journal_outcome { JOURNAL_NEW, JOURNAL_REPLAYED, JOURNAL_PARKED };
/* Claims `op_id` for `request` (a hash of all that is signed and how). `parked->wake` must be set. Appends to
 * `signature` when it is a replay. SIGNER_OP_MISMATCH, SIGNER_JOURNAL, BAD_ARGUMENT (not a UUID). */
struct fault journal_enter(struct op *op, struct journal *journal, const struct uuid *op_id,
                           const struct sha256 *request, struct journal_parked *parked, struct journal_entry *ret_entry,
                           struct buf *signature, enum journal_outcome *ret_outcome);
/* Takes the claim over. `write->done` must be set; the rest of `write` is filled here. */
void journal_submit(struct journal_entry *entry, struct span signature, struct journal_write *write);
/* Gives an id back that was not submitted. Idempotent. */
void journal_leave(struct journal_entry *entry);

uint64_t journal_bytes(struct journal *journal);
/* False after a failed fdatasync. */
bool journal_usable(struct journal *journal);

#endif
