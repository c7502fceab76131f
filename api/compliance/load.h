/*
 * Inside the loading of evidence (evidence_load, internal.h) and the drawing of samples:
 *     load.c            the snapshot: facts, attestations, datasets, the trail
 *     load_window.c     how many records of which type a window of time has, exactly, from an index alone
 *     load_gather.c     what the event prerequisites of a framework find
 *     load_pick.c       what of it can be had without looking at every record
 *     load_stream.c     records of some types, newest first, in pages of bounded size
 *     load_canonical.c  records that need no parsing
 * All of it within a transaction of the caller's, for the tenant that the transaction is of.
 */
#ifndef API_COMPLIANCE_LOAD_H
#define API_COMPLIANCE_LOAD_H

#include "api/compliance/internal.h"
#include "api/store/array.h"

#define LOAD_CUTS_MAX 128 /* ages by which a framework tells records apart: days of the window at most */

struct load_trail {
    int64_t head_sequence, generation, archived_through;
    struct sha256 chain_head;
};
struct fault load_trail(struct op *op, struct tx *tx, struct load_trail *ret_trail);

/* No query of ours takes more than one core: signing goes on beside it. */
struct fault load_prepare(struct tx *tx);

/* From here on the transaction's queries follow an index's order and never sort what could be walked. */
struct fault load_along_the_index(struct tx *tx);

/* Records of one type in one part of the window: part n begins at cuts[n - 1] (inclusive) and ends where the next one
 * begins; part 0 begins with the window. */
struct load_count {
    const char *type;
    size_t part;
    int64_t count, first, last; /* sequences */
    utc_us newest;              /* INT64_MIN = none */
};
struct load_counts {
    struct evidence_window window;
    int64_t behind, through; /* sequences: behind < sequence <= through */
    utc_us cuts[LOAD_CUTS_MAX];
    size_t cut_count;              /* ascending, without doubles */
    const struct load_count *rows; /* by type (bytes), then part */
    size_t row_count;
    const struct load_count *archived; /* records of the window up to `behind`, by type: not served, so in no row */
    size_t archived_count;
};
/* Fills rows and archived; window, bounds and cuts are the caller's. Texts in op's arena. */
struct fault load_counts(struct op *op, struct tx *tx, struct load_counts *counts);
/* What stands in the rows of these types (type_count 0: of all) from part `first` up to `last`. */
struct load_count load_sum(const struct load_counts *counts, const char *const *types, size_t type_count, size_t first,
                           size_t last);

/* Served records of the tenant that are not in the window, counted one by one. */
struct fault load_outside(struct tx *tx, const struct load_counts *counts, int64_t *ret_outside);
/* Records of the window that are archived, of these types (type_count 0: of all). */
int64_t load_archived(const struct load_counts *counts, const char *const *types, size_t type_count);

/* The 90 days up to `to`, both ends in. */
struct evidence_window load_window(utc_us to);
bool load_has_type(const char *const *types, size_t count, const char *type);

/* Records of these types, newest first by sequence, `least` to `most`, with their time in the window; at most `limit`
 * of them and not many more than 4 MiB. */
struct load_range {
    struct sql_array *types;
    int64_t least, most;
    struct evidence_window window;
    int64_t limit;
    struct sql_array *not_actors; /* none of these subjects' */
};
/* ret_cut: there are more in the range than were read. */
struct fault load_page(struct tx *tx, const struct load_range *range, struct rows **ret_rows, bool *ret_cut);
/* The record of that sequence, which is there. */
struct fault load_one(struct tx *tx, int64_t sequence, struct rows **ret_rows);
/* Of a row of load_page or load_one: borrows from it. */
struct fault load_event(const struct rows *rows, size_t row, struct evidence_event *ret_event);
/* load_canonical.c: certain to be canonical JSON (RFC 8785), an object. False says nothing. */
bool load_is_canonical(struct span json);
/* All records of the range, page by page. `expected`: how many there are. */
typedef struct fault (*load_take_fn)(void *arg, const struct evidence_event *event);
struct fault load_stream(struct tx *tx, const struct load_range *range, int64_t expected, load_take_fn take, void *arg);

/* From when on a record is not too old for the prerequisite, inclusive. */
utc_us load_cut(const struct framework_prerequisite *prerequisite, struct evidence_window window);
/* The cuts that a framework's prerequisites ask for. */
struct fault load_cuts(const struct framework *framework, struct load_counts *counts);
/* Is there a condition on records of this type of the prerequisite's, so that each has to be looked at? */
bool load_is_judged(const struct framework_prerequisite *prerequisite, const char *type);
/* Of a prerequisite's types without conditions: the newest records, further subjects' newest ones, the newest of those
 * that are too old; and how many others there are. Texts in op's arena. */
#define LOAD_PICKED_MAX (2 * EVIDENCE_REFERENCES_MAX + 1)
struct load_picked {
    struct evidence_event events[LOAD_PICKED_MAX];
    size_t count, next; /* next: for whoever takes them */
    int64_t rest, rest_stale;
    utc_us newest, newest_stale; /* of all of them: times need not follow sequences */
};
struct fault load_pick(struct op *op, struct tx *tx, const struct load_counts *counts,
                       const struct framework_prerequisite *prerequisite, struct load_picked *ret_picked);
/* One gathering for each event prerequisite, in the framework's order. */
struct fault load_gather(struct op *op, struct tx *tx, const struct framework *framework,
                         const struct load_counts *counts, struct evidence_facts *facts);

#endif
