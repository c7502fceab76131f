/*
 * What does this token want done differently? First each quirk alone. If none helps, all that may go together at once,
 * and then one after the other is taken back that is not needed. The order of the table is the order of preference.
 */
#include "signer-pkcs11/doctor/internal.h"

struct search {
    struct doctor *doctor;
    const struct cure *cures;
    size_t count;
    attempt_fn work, undo;
    void *arg;
};

static bool works(struct search *search, const struct token_quirks *quirks)
{
    search->doctor->settings.quirks = *quirks;
    bool good = !FAULTED(attempt(search->doctor, search->work, search->arg, NULL));
    if (good && search->undo != NULL) {
        IGNORE(attempt(search->doctor, search->undo, search->arg, NULL)); /* under the settings that made it */
    }
    return good;
}

static bool pin_refused(const struct doctor *doctor)
{
    return atomic_load(&doctor->token->pin_refused);
}

/* The quirks of the mask on top of `base`; false when they exclude each other. */
static bool combine(const struct search *search, const struct token_quirks *base, unsigned mask,
                    struct token_quirks *ret_quirks)
{
    struct token_quirks quirks = *base;
    for (size_t i = 0; i < search->count; i++) {
        const struct cure *cure = &search->cures[i];
        if ((mask >> i & 1u) == 0) {
            continue;
        }
        for (size_t k = 0; k < i; k++) {
            if ((mask >> k & 1u) != 0 && cure->group != 0 && search->cures[k].group == cure->group) {
                return false;
            }
        }
        if (FAULTED(quirk_parse(span_text(cure->word), &quirks, NULL))) {
            return false;
        }
    }
    *ret_quirks = quirks;
    return true;
}

static bool try_mask(struct search *search, const struct token_quirks *base, unsigned mask)
{
    struct token_quirks quirks;
    return !pin_refused(search->doctor) && combine(search, base, mask, &quirks) && works(search, &quirks);
}

/* What is in no group goes with everything; of the groups each choice is tried. */
static bool try_many(struct search *search, const struct token_quirks *base, unsigned *ret_mask)
{
    unsigned together = 0, chosen = 0;
    for (size_t i = 0; i < search->count; i++) {
        if (search->cures[i].group != CURE_ALONE) {
            *(search->cures[i].group == 0 ? &together : &chosen) |= 1u << i;
        }
    }
    for (unsigned pick = 0;; pick = (pick - chosen) & chosen) { /* every subset of `chosen` */
        if (try_mask(search, base, together | pick)) {
            *ret_mask = together | pick;
            return true;
        }
        if (pick == chosen) {
            return false;
        }
    }
}

static bool find(struct search *search, const struct token_quirks *base, unsigned *ret_mask)
{
    for (size_t i = 0; i < search->count; i++) {
        if (try_mask(search, base, 1u << i)) {
            *ret_mask = 1u << i;
            return true;
        }
    }
    unsigned mask = 0;
    if (!try_many(search, base, &mask)) {
        return false;
    }
    for (size_t i = 0; i < search->count; i++) {
        if ((mask >> i & 1u) != 0 && try_mask(search, base, mask & ~(1u << i))) {
            mask &= ~(1u << i);
        }
    }
    *ret_mask = mask;
    return true;
}

/* With the settings that were found, and this time for good. */
static bool settle(struct search *search, const struct token_quirks *base, unsigned mask)
{
    search->undo = NULL;
    return try_mask(search, base, mask);
}

bool cure_step(struct doctor *doctor, const char *step, const struct cure *cures, size_t count,
               const struct remedy *remedy)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct search search = { doctor, cures, count, remedy->work, remedy->undo, remedy->arg };
    const struct token_quirks base = doctor->settings.quirks;
    unsigned mask = 0;
    watch_step(doctor->watch, step);
    struct fault fault = attempt(doctor, remedy->work, remedy->arg, &op);
    if (!FAULTED(fault)) {
        report_step(doctor->report, step, STEP_OK, "", "%s", "");
        return true;
    }
    if (fault.code == FAULT_TOKEN_PIN || !find(&search, &base, &mask) || !settle(&search, &base, mask)) {
        doctor->settings.quirks = base;
        report_op(doctor->report, step, op, fault);
        return false;
    }
    char words[256] = "";
    for (size_t i = 0; i < count; i++) {
        if ((mask >> i & 1u) != 0) {
            size_t len = strlen(words);
            (void)snprintf(words + len, sizeof(words) - len, "%s%s", len > 0 ? ", " : "", cures[i].word);
        }
    }
    report_step(doctor->report, step, STEP_NOTE, "put these words into token.quirks", "works with %s (without: %.100s)",
                words, op->note.detail);
    return true;
}
