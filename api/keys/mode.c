#include "api/keys/keys.h"

#include "appliance/base/json.h"
#include "fips/fence.h"
#include "fips/fips.h"

#include <stdio.h>

bool keys_fenced(enum key_algorithm algorithm)
{
    return algorithm == KEY_ALGORITHM_ML_DSA_65;
}

bool keys_approved_mode(enum key_algorithm algorithm)
{
    return !keys_fenced(algorithm) && fips_approved_mode();
}

void keys_print_mode(struct jout *jout, bool approved, bool fenced)
{
    jout_key_bool(jout, "approved_mode", approved && !fenced);
    if (fenced) {
        jout_key_text(jout, "approved_mode_note", FENCE_NOTE);
    }
}

struct fault keys_check_fence(struct op *op, enum key_algorithm algorithm, const char *pointer)
{
    struct fault fault = keys_fenced(algorithm) ? fence_check(op) : OK;
    if (FAULTED(fault) && op != NULL && op->note.set) {
        (void)snprintf(op->note.pointer, sizeof(op->note.pointer), "%s", pointer);
    }
    return fault;
}
