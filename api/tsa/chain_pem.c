/* The certificates that are published: of the active unit first, of all others that stamped and still verify, roots
 * last, and the active unit's root last of all. Each once. */
#include "api/ca/certificate.h"
#include "api/tsa/internal.h"
#include "api/tsa/units.h"

#define PRINTED_MAX 512

struct printing {
    struct buf *out;
    struct span printed[PRINTED_MAX];
    size_t count;
};

static struct fault print_one(struct printing *printing, struct span certificate)
{
    for (size_t i = 0; i < printing->count; i++) {
        if (span_equal(printing->printed[i], certificate)) {
            return OK;
        }
    }
    if (printing->count == PRINTED_MAX) {
        return OK; /* the oldest are left out */
    }
    printing->printed[printing->count++] = certificate;
    return certificate_pem(certificate, printing->out);
}

static struct fault print_below_root(struct printing *printing, const struct unit *unit)
{
    for (size_t i = 0; i + 1 < unit->chain_count; i++) {
        TRY(print_one(printing, unit->chain[i]));
    }
    return OK;
}

static bool still_verifies(const struct unit *unit, utc_us now)
{
    return unit->activated != 0 && unit->chain_count > 0 && unit->not_after > now;
}

static struct span root_of(const struct unit *unit)
{
    return unit != NULL && unit->chain_count > 0 ? unit->chain[unit->chain_count - 1] : (struct span){ 0 };
}

struct fault tsa_chain_print(const struct units *units, utc_us now, struct buf *out)
{
    struct printing printing = { .out = out };
    const struct unit *active = units_active(units);
    if (active != NULL) {
        TRY(print_below_root(&printing, active));
    }
    for (size_t i = units->count; i > 0; i--) {
        if (still_verifies(&units->at[i - 1], now)) {
            TRY(print_below_root(&printing, &units->at[i - 1]));
        }
    }
    for (size_t i = 0; i < units->count; i++) {
        const struct unit *unit = &units->at[i];
        if (still_verifies(unit, now) && !span_equal(root_of(unit), root_of(active))) {
            TRY(print_one(&printing, root_of(unit)));
        }
    }
    return active != NULL ? print_one(&printing, root_of(active)) : OK;
}
