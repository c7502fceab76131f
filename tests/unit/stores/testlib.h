/* What the tests of this room share: an operation, a scratch folder below /tmp that the service users can enter. */
#ifndef TESTS_UNIT_STORES_TESTLIB_H
#define TESTS_UNIT_STORES_TESTLIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/config.h"
#include "appliance/base/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

struct scratch {
    char dir[64];
    struct op *op;
    struct config *loaded;
    struct config config; /* data_dir and run_dir point into dir */
    char data[96], run[96];
};

static inline struct op *scratch_op(int ms)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, ms, &op), NONE);
    return op;
}

static inline int scratch_setup(void **state)
{
    static struct scratch scratch;
    memset(&scratch, 0, sizeof(scratch));
    (void)snprintf(scratch.dir, sizeof(scratch.dir), "/tmp/stores-XXXXXX");
    assert_non_null(mkdtemp(scratch.dir));
    assert_int_equal(chmod(scratch.dir, 0755), 0);
    (void)snprintf(scratch.data, sizeof(scratch.data), "%s/data", scratch.dir);
    (void)snprintf(scratch.run, sizeof(scratch.run), "%s/run", scratch.dir);
    assert_int_equal(mkdir(scratch.data, 0755), 0);
    assert_int_equal(mkdir(scratch.run, 0755), 0);
    scratch.op = scratch_op(60000);
    assert_fault(config_load(NULL, NULL, &scratch.loaded), NONE);
    scratch.config = *scratch.loaded;
    scratch.config.data_dir = scratch.data;
    scratch.config.run_dir = scratch.run;
    *state = &scratch;
    return 0;
}

static inline int scratch_teardown(void **state)
{
    struct scratch *scratch = *state;
    char command[128];
    op_free(scratch->op);
    config_free(scratch->loaded);
    (void)snprintf(command, sizeof(command), "rm -rf %s", scratch->dir);
    return system(command);
}

/* A fresh operation for the next question: notes keep their first writer. */
static inline void scratch_renew(struct scratch *scratch, int ms)
{
    op_free(scratch->op);
    scratch->op = scratch_op(ms);
}

#define scratch_test(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

#endif
