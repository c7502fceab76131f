/* What every unit test stands on: cmocka behind the headers it needs first, and faults compared by their codes. */
#ifndef TESTS_TESTLIB_H
#define TESTS_TESTLIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/alloc.h"
#include "appliance/base/bytes.h"
#include "appliance/base/fault.h"

/* The code's text, so that a red test names both faults. */
#define assert_fault(expr, sym) assert_string_equal(fault_row((expr).code)->text, fault_row(FAULT_##sym)->text)
#define assert_span_text(got, want)                                                          \
    do {                                                                                     \
        struct span got_ = (got);                                                            \
        assert_int_equal(got_.len, strlen(want));                                            \
        assert_memory_equal(got_.at != NULL ? (const void *)got_.at : "", (want), got_.len); \
    } while (0)

/* Runs `body` with its 1st, 2nd, 3rd ... allocation failing until it passes: each time it must answer NO_MEMORY, and
 * the sanitizer sees what it left behind. Gives the number of failures. */
static inline unsigned fail_each_allocation(struct fault (*body)(void))
{
    for (unsigned successes = 0; successes < 10000; successes++) {
        mem_fail_after((long)successes);
        struct fault fault = body();
        mem_fail_after(-1);
        if (!FAULTED(fault)) {
            return successes;
        }
        assert_fault(fault, NO_MEMORY);
    }
    fail_msg("still failing after 10000 allocations");
    return 0;
}

#endif
