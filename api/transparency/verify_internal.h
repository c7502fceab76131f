/* What the verify*.c files of api/transparency/ share. They depend on base and OpenSSL only. */
#ifndef API_TRANSPARENCY_VERIFY_INTERNAL_H
#define API_TRANSPARENCY_VERIFY_INTERNAL_H

#include "api/transparency/verify.h"
#include "appliance/base/json_view.h"

/* Numbers beyond 2^53 have no exact place in canonical JSON; no log comes near. */
#define TLOG_NUMBER_MAX (INT64_C(1) << 53)
#define TLOG_HASHES_MAX 64u

/* TLOG_UNVERIFIED with this detail, whatever was noted on the way to it. */
#define tlog_refuse(op, ...)                                \
    __extension__({                                         \
        (op)->note = (struct fault_note){ 0 };              \
        op_fail((op), FAULT(TLOG_UNVERIFIED), __VA_ARGS__); \
    })
/* A fault of the machine (no memory) stays what it is; anything else means that the entry is not what it must be. */
bool tlog_is_refusal(struct fault fault);

/* verify_body.c: the body is a hashedrekord of `entry`'s version and of what is expected. */
struct fault tlog_body_check(struct op *op, const struct tlog_entry *entry, const struct tlog_expect *expect);

/* verify_proof.c */
struct fault tlog_node_hash(const struct sha256 *left, const struct sha256 *right, struct sha256 *ret_hash);
/* The root that a leaf and its audit path lead to (RFC 9162 2.1.3.2). BAD_ARGUMENT when the path does not fit. */
struct fault tlog_root_of(uint64_t index, uint64_t size, const struct sha256 *leaf, const struct span *hashes,
                          size_t count, struct sha256 *ret_root);

/* verify_note.c: a checkpoint, its texts borrowed. */
#define NOTE_SIGNATURES_MAX 16
#define NOTE_MAX            ((size_t)16 << 10)
struct note_signature {
    struct span name;
    uint8_t hint[4];
    struct span signature;
};
struct note {
    struct span text; /* what is signed: up to and with the newline before the empty line */
    struct span origin;
    uint64_t size;
    struct sha256 root;
    struct note_signature signatures[NOTE_SIGNATURES_MAX];
    size_t signature_count;
};
/* TLOG_UNVERIFIED. */
struct fault note_parse(struct op *op, struct span envelope, struct note *ret_note);
/* Signed by a pinned key that had not ended at `at` (0 = unknown: by one that never ends); *ret_key is that key and
 * *ret_id its id under the name in the note. A signature under a pinned key's id that does not verify is refused,
 * whatever else is there. */
struct fault note_check(struct op *op, const struct note *note, const struct tlog_trust *trust, utc_us at,
                        const struct tlog_key **ret_key, struct sha256 *ret_id);

/* verify_entry.c: an object that a log wrote. TLOG_UNVERIFIED. */
struct fault tlog_view(struct op *op, struct span json, struct view *ret_object);

/* verify_key.c: over `message` itself; EC by SHA-256 or by the curve's own hash. */
bool tlog_signature_good(struct span spki, struct span message, struct span signature);

#endif
