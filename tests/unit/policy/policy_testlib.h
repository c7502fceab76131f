/* Rules from a text, and what is said about bad ones. */
#ifndef TESTS_POLICY_TESTLIB_H
#define TESTS_POLICY_TESTLIB_H

#include "api/policy/internal.h"
#include "testlib.h"

#include <stdio.h>

#define RULES(text) "rules:\n" text
#define DAY_NS      (24 * 3600 * NS_PER_S)

static inline struct config policy_config(void)
{
    return (struct config){ .policy_dir = "/nowhere", .policy_enabled = true, .approval_window = DAY_NS };
}

static inline struct fault rules_read(const char *text, struct buf *why, struct policy **ret_policy)
{
    CLEANUP(policy_freep) struct policy *made = NULL;
    TRY(policy_new(&made));
    TRY(policy_add(made, "r.yaml", span_text(text), why));
    TRY(policy_seal(made, "folder", why));
    *ret_policy = TAKE(made);
    return OK;
}

static inline struct policy *rules_of(const char *text)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct policy *policy = NULL;
    struct fault fault = rules_read(text, &why, &policy);
    if (FAULTED(fault)) {
        fail_msg("%s\nrefused: %.*s", text, (int)why.len, (const char *)why.at);
    }
    assert_int_equal(why.len, 0);
    return policy;
}

/* `want` is the whole of what is said. */
static inline void rules_refused(const char *text, const char *want)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct policy *policy = NULL;
    struct fault fault = rules_read(text, &why, &policy);
    const char *said = NULL;
    assert_fault(buf_cstr(&why, &said), NONE);
    if (fault.code != FAULT_CONFIG || policy != NULL || strcmp(said, want) != 0) {
        fail_msg("%s\nwanted: %ssaid:   %s", text, want, said);
    }
}

static inline utc_us time_of(const char *text)
{
    utc_us time = 0;
    assert_fault(rfc3339_parse(span_text(text), &time), NONE);
    return time;
}

#endif
