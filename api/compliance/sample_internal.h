/*
 * Inside the drawing of samples only:
 *     sample.c         what is asked, and the route
 *     sample_choose.c  the population, and which records have the ranks that were drawn
 *     sample_print.c   the answer
 *     verify_sample.c  ranks from a seed; the client checks them with it
 */
#ifndef API_COMPLIANCE_SAMPLE_INTERNAL_H
#define API_COMPLIANCE_SAMPLE_INTERNAL_H

#include "api/compliance/load.h"
#include "api/compliance/verify_sample.h"

struct sample_wish {
    const struct framework *framework;
    const struct framework_control *control; /* NULL: all records of the window */
    const struct framework_prerequisite *prerequisite;
    const char *seed;
    int64_t n, through; /* through: 0 = up to the head */
    utc_us to;
};
struct sample {
    const struct sample_wish *wish;
    struct load_trail trail;
    struct load_counts counts;
    struct load_count population;
    size_t n;
    int64_t ranks[SAMPLE_MAX], sequences[SAMPLE_MAX];
};

/* Counts and draws, within the caller's snapshot. QUERY when the head that is asked for is not there yet. */
struct fault sample_choose(struct op *op, struct tx *tx, const struct sample_wish *wish, struct sample *ret_sample);
/* The answer's members but for the braces. */
struct fault sample_print(struct op *op, struct tx *tx, const struct sample *sample, struct jout *jout);

#endif
