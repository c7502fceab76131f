/* What the files of the offline verifier share. */
#ifndef API_AUDIT_VERIFY_INTERNAL_H
#define API_AUDIT_VERIFY_INTERNAL_H

#include "api/audit/verify.h"

#include <openssl/types.h>

/* ---- verify_window.c: a bounded window over a source; what is taken makes room for more ---- */

struct window {
    uint8_t *at;
    size_t from, to, cap, max;
    bool ended;
    struct fault (*read)(void *context, uint8_t *at, size_t size, size_t *ret_len);
    void *context;
};
#define WINDOW_FIRST ((size_t)512 << 10)

void window_free(struct window *window);
static inline struct span window_rest(const struct window *window)
{
    return span_of(window->from > 0 ? window->at + window->from : window->at, window->to - window->from);
}
static inline void window_take(struct window *window, size_t len)
{
    window->from += len;
}
/* More bytes behind those that are there, which may move. *ret_more is false at the end of the source. TOO_LARGE when
 * the window is full at its largest. */
struct fault window_more(struct window *window, bool *ret_more);

/* ---- verify_scan.c: one record, in one look ---- */

/* What the walk needs of a record; borrowed. */
struct record_view {
    int64_t sequence;
    struct span tenant, time;
};
enum scan {
    SCAN_GOOD, /* canonical, with exactly its members */
    SCAN_ODD,  /* it takes the long way (json.h) to tell */
    SCAN_MORE, /* the bytes end within it */
};
/* The record at the front of `bytes`, *ret_len bytes long. */
enum scan record_scan(struct span bytes, struct record_view *ret_view, size_t *ret_len);

/* ---- the walk ---- */

struct audit_walk {
    struct op *op;      /* the caller's: what stays */
    struct op *scratch; /* its arena is emptied for every record */
    struct audit_source source;
    const struct audit_pins *pins;
    struct audit_trail trail; /* as it was before, and grows with every record */
    struct audit_verdict verdict;
    struct window input;
    struct buf canonical, rendered;
    enum audit_shape shape;
    bool ended;
    struct fault ends_with;
    int64_t told; /* bytes at the last progress */

    struct sha256 chain; /* behind the last record; of a stream above record 1 first known from its trailer */
    bool started, chain_known;
    int64_t first, next; /* the sequence that comes now */
    struct buf first_record;
    struct sha256 first_chain;
    char newest[RFC3339_MAX];

    struct audit_statement statement;
    struct jws_stream *signature; /* bundle: NULL when the header refused */
    struct fault signature_fault;
    char signature_reason[sizeof(((struct fault_note *)0)->detail)];
    const struct jwk *key; /* that verified */

    struct window payload; /* bundle, decoded */
    bool bare, payload_ended, payload_cut, payload_bad, any_entry, signature_read;
    struct buf head;

    EVP_MD_CTX *stream_md; /* stream */
    int64_t line;
};

/* Writes the reason (the first one stays) and gives the fault back. */
struct fault walk_refuse(struct audit_walk *walk, struct fault fault, const char *format, ...) PRINTF(3, 4);
/* The same, about the record that should stand here. */
struct fault walk_break(struct audit_walk *walk, struct fault fault, const char *format, ...) PRINTF(3, 4);

/* ---- verify_record.c ---- */

/* One record with its stated chain value: form, sequence, tenant, chain. The walk then stands behind it. `view`: as
 * record_scan gave it, NULL when it takes the long way. */
struct fault walk_record(struct audit_walk *walk, struct span record, const struct record_view *view,
                         const struct sha256 *stated);

/* ---- verify_bundle.c, verify_stream.c ---- */

struct fault bundle_begin(struct audit_walk *walk);
struct fault bundle_payload_begin(struct audit_walk *walk); /* without a JWS around it */
struct fault bundle_next(struct audit_walk *walk, struct audit_entry *ret_entry, bool *ret_more);
/* Behind a broken record: the rest is read for the signature alone. */
void bundle_drain(struct audit_walk *walk);

struct fault stream_begin(struct audit_walk *walk);
struct fault stream_next(struct audit_walk *walk, struct audit_entry *ret_entry, bool *ret_more);

/* ---- verify_end.c, verify_anchor.c ---- */

/* Stated first and seed, where they are known before the records (bundle): against the segments before. */
struct fault walk_begin_at(struct audit_walk *walk, int64_t first, const struct sha256 *seed);
/* walk->statement against what was walked; then key window, tree and anchor. */
struct fault walk_end(struct audit_walk *walk);
struct fault walk_anchor(struct audit_walk *walk);

/* ---- verify_differs.c ---- */

/* Which column or member of a line is not what its record makes, in words. */
void line_differs(enum audit_shape shape, struct span line, struct span made, char *out, size_t size);

/* ---- statement_read.c ---- */

/* A bundle's members without its records, as JSON with `"records":[]`. `whole` = false: only those before the records
 * are there. AUDIT_STATEMENT with a note. */
struct fault audit_statement_read_bundle(struct op *op, struct span json, bool whole,
                                         struct audit_statement *ret_statement);

#endif
