/*
 * The operation journal: what makes Sign idempotent. Under an operation id one request is signed once; its signature is
 * on disk before anybody sees it; the same id and request give the same bytes for ever, the same id with another
 * request is refused. Thread-safe; two callers with one id sign once, the second waits for the first.
 *
 *     CLEANUP(journal_leave) struct journal_entry entry = { 0 };
 *     TRY(journal_enter(op, journal, &request->op_id, &hash, &entry, signature, &replayed));
 *     if (!replayed) {
 *         TRY(token_sign(...));                               -- a failure leaves the id free
 *         TRY(journal_commit(op, &entry, buf_span(signature)));
 *     }
 *
 * On disk: append-only segments "00000001.journal" ... of 64 MiB (segment.h). Signers that wait at the same time share
 * one write and one fdatasync. At open, a tail that no caller was told of is cut; damage before that refuses to start
 * and names file and offset. A failed fdatasync leaves the disk's state unknown: from then on every journalled
 * operation is refused until the process starts anew and reads what is really there.
 *
 * Growth: nothing is ever deleted. On disk 144 bytes an operation for P-256, 448 for RSA-3072; in memory 11 to 22 bytes
 * an operation. The bound is 1024 segments (64 GiB); then journalled operations are refused until an operator stops the
 * signer and moves the oldest segments away, which also ends the promise for their ids.
 */
#ifndef SIGNER_BROKER_JOURNAL_H
#define SIGNER_BROKER_JOURNAL_H

#include "appliance/base/op.h"

#define JOURNAL_ID_LEN 16

struct journal;

/* Makes the folder (0700) when missing, and holds a lock on it: one signer at a time. *ret_cut: bytes of an unfinished
 * tail that were cut. SIGNER_JOURNAL, and `why` (not NULL) gets one line. */
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

/* Claims `op_id` for `request` (a hash of all that is signed and how), or appends the signature of an earlier time and
 * sets *ret_replayed. SIGNER_OP_MISMATCH, SIGNER_JOURNAL, DEADLINE (the same id is being signed elsewhere). */
struct fault journal_enter(struct op *op, struct journal *journal, const struct uuid *op_id,
                           const struct sha256 *request, struct journal_entry *ret_entry, struct buf *signature,
                           bool *ret_replayed);
/* Durable when it returns OK. After SIGNER_JOURNAL or DEADLINE nothing may be said to the caller: the record may still
 * become durable, and then it is what a repetition gets. */
struct fault journal_commit(struct op *op, struct journal_entry *entry, struct span signature);
/* Gives an id back that was not committed. Idempotent. */
void journal_leave(struct journal_entry *entry);

uint64_t journal_bytes(struct journal *journal);
/* False after a failed fdatasync. */
bool journal_usable(struct journal *journal);

#endif
