/* A provisioning of this test alone, and what is said about it. */
#ifndef TESTS_MACHINE_PROVISION_FILE_H
#define TESTS_MACHINE_PROVISION_FILE_H

#include "appliance/machine/provision.h"
#include "testlib.h"

#include <stdio.h>

#define FILE_MAX ((size_t)256 << 10)

/* All that has to be there. */
#define LEAST                               \
    "hostname: signer-1\n"                  \
    "tenant: acme\n"                        \
    "network: { address: 192.0.2.10/24 }\n" \
    "time: { servers: [ntp.example] }\n"

static inline struct op *new_op(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 120000, &op), NONE);
    return op;
}

static inline void parse(struct op *op, const char *text, struct provision *ret_provision)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(FILE_MAX);
    struct fault fault = provision_parse(op, span_text(text), "provision.yaml", &why, ret_provision);
    if (FAULTED(fault)) {
        fail_msg("%s: refused: %.*s", text, (int)why.len, (const char *)why.at);
    }
}

/* `why` as a whole: nothing more is refused than what is wrong. */
static inline void assert_refused(const char *text, const char *want)
{
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf why = BUF_INIT(FILE_MAX);
    struct provision provision = { .hostname = "untouched" };
    assert_fault(provision_parse(op, span_text(text), "provision.yaml", &why, &provision), CONFIG);
    assert_string_equal(provision.hostname, "untouched");
    const char *said = NULL;
    assert_fault(buf_cstr(&why, &said), NONE);
    assert_string_equal(said, want);
    assert_true(op->note.set && op->note.detail[0] != '\0');
}

static inline const char *printed(struct op *op, const struct provision *provision)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    const char *copy = NULL;
    assert_fault(provision_print(provision, &text), NONE);
    assert_fault(arena_text(op->arena, buf_span(&text), &copy), NONE);
    return copy;
}

#endif
