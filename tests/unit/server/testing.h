/* What the tests of the server share: an operation, shortcuts for checks. */
#ifndef TESTS_UNIT_SERVER_TESTING_H
#define TESTS_UNIT_SERVER_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/op.h"

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static inline struct op *test_op(void)
{
    struct op *op = NULL;
    struct tenant_id tenant = { "acme" };
    assert_fault(op_new("alice", tenant, 60000, &op), NONE);
    return op;
}

#endif
