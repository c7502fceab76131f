/*
 * The operation journal: what makes Sign idempotent. Under an operation id one request is signed once; its signature is
 * on disk before anybody sees it; the same id and request give the same bytes, the same id with another request is
 * refused. Thread-safe; calls wait, never beyond the operation's deadline where a deadline is meant to bound them:
 *
 *     CLEANUP(journal_leave) struct journal_entry entry = { 0 };
 *     TRY(journal_enter(op, journal, &request->op_id, &hash, &entry, signature, &replayed));
 *     replayed:  `signature` has the bytes of the first time.
 *     otherwise: sign; then journal_commit, which returns when it is on disk; or journal_leave.
 *
 * On disk: append-only files "00000001.journal" ... of 64 MiB (segment.h). Signatures that arrive while one batch is
 * written make the next: they share one write and one fdatasync; one of the waiting callers writes for all, then the
 * first of the next batch does. Nothing is allocated for a request, but the index of ids (8 bytes each, at most 3/4
 * full) doubles now and then.
 *
 * Damage. At open, a tail that no caller was told of is cut; damage before that, a missing, swapped or foreign file
 * refuses to start and names file and offset. What no file can tell: that its very end, or the newest file, is gone
 * (an old copy put back); the folder's backup must be of one moment.
 * A failed fdatasync leaves the disk's state unknown: from then on every journalled operation is refused until the
 * process starts anew and reads what is really there. A disk that is full (or refuses to be written) refuses new
 * signatures before the token is asked; replays go on, and signing does when there is room again, which is looked for
 * at most once a second, by whoever asks. Space is taken 1 MiB at a time, ahead of the records.
 *
 * Forgetting. A file whose last record is older than the retention is removed, at the latest an hour later; a file is
 * ended after 64 MiB, or a day. Age is counted in the time that this journal was open (segment.h), never by the wall
 * clock: a clock that is set, wrong or turned back forgets nothing. The newest file stays. A repetition of a forgotten
 * id signs anew. That is safe because nobody repeats it any more: an id belongs to one command of the event log, a
 * command is worked at by the outbox for hours at most, and then has an end in the log, behind which nothing asks the
 * signer again. The least retention is a day; while the signer stands still, nothing gets older.
 * 1024 files are the most (64 GiB: 480 million P-256, 150 million RSA-3072, 20 million ML-DSA-65 signatures within the
 * retention): then signing is refused until the retention is shortened.
 */
#ifndef SIGNER_BROKER_JOURNAL_H
#define SIGNER_BROKER_JOURNAL_H

#include "appliance/base/op.h"
#include "signer-pkcs11/protocol/key.h"

#define JOURNAL_ID_LEN        16
#define JOURNAL_RETENTION_MIN (24 * 3600 * NS_PER_S)

struct journal;

/* Makes the folder (0700) when missing, and holds a lock on it (one signer at a time); folder and files must be this
 * user's, and nobody else's to write. *ret_cut: bytes of an unfinished tail that were cut. SIGNER_JOURNAL, and `why`
 * (not NULL) gets one line. Starts a thread that removes old files. */
struct fault journal_open(const char *folder, int64_t retention_ns, struct buf *why, uint64_t *ret_cut,
                          struct journal **ret_journal);
/* Nobody may be inside. Marks the end as complete, so that later damage to it is told from a torn tail. */
void journal_close(struct journal *journal);
DEFINE_FREEP(struct journal, journal_close)

/* A claimed operation id; { 0 } holds nothing. */
struct journal_entry {
    struct journal *journal; /* borrowed */
    uint8_t op_id[JOURNAL_ID_LEN];
    struct sha256 request;
};

/* Claims `op_id` for `request` (a hash of all that is signed and how), waiting until op's deadline for whoever signs
 * under it at the moment (SATURATED). A replay claims nothing and appends to `signature`. SIGNER_OP_MISMATCH,
 * SIGNER_JOURNAL, BAD_ARGUMENT (not a UUID). */
struct fault journal_enter(struct op *op, struct journal *journal, const struct uuid *op_id,
                           const struct sha256 *request, struct journal_entry *ret_entry, struct buf *signature,
                           bool *ret_replayed);
/* Takes the claim over, and returns when the signature is on disk, or SIGNER_JOURNAL: then nothing may be said of the
 * signature; it may be on disk all the same, and then it is what a repetition gets. A disk that hangs holds the caller
 * beyond its deadline: what is being written cannot be taken back. */
struct fault journal_commit(struct op *op, struct journal_entry *entry, struct span signature);
/* Gives an id back that was not committed. Idempotent. */
void journal_leave(struct journal_entry *entry);

uint64_t journal_bytes(struct journal *journal);
/* Can it take signatures? Otherwise `why` (not NULL, of at least 128 bytes) says what to do. A disk that was full is
 * tried again first, at most once a second. */
bool journal_usable(struct journal *journal, char *why, size_t why_size);

#endif
