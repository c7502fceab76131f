/* Approvals through the whole pipeline without code signing: a refusal is appended as the pipeline appends it. Include
 * once, in the file with main(), in place of flow_testlib.h. */
#ifndef TESTS_INTEGRATION_APPROVALS_TESTLIB_H
#define TESTS_INTEGRATION_APPROVALS_TESTLIB_H

#include "api/approvals/internal.h"

#define FLOW_FEATURE_LIST &identity_feature, &approvals_feature
#include "integration/flow_testlib.h"

#define HOUR_US (3600LL * US_PER_S)

/* requester; approvers ann, ben, cyd; somebody who may only look; another tenant's approver */
static char ci_a[TOKEN_TEXT_MAX], ann[TOKEN_TEXT_MAX], ben[TOKEN_TEXT_MAX], cyd[TOKEN_TEXT_MAX], looker[TOKEN_TEXT_MAX],
    auditor[TOKEN_TEXT_MAX], bob_b[TOKEN_TEXT_MAX];

struct asked {
    char resource[APPROVAL_RESOURCE_MAX + 1];
    char request[37]; /* id of the newest request; "" when there is none */
};

static void fresh_resource(struct asked *asked)
{
    static unsigned number;
    (void)snprintf(asked->resource, sizeof(asked->resource), APPROVAL_CODESIGN "%064x", ++number);
    asked->request[0] = '\0';
}

/* The message of a refusal, projected; what it asks for is the newest request, or changed nothing. */
static void refuse(const char *tenant_text, struct asked *asked, const char *requester, unsigned approvers,
                   int64_t window_us, int64_t max_signings)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    CLEANUP(buf_free) struct buf data = BUF_INIT(8192);
    struct approval_ask ask = { .resource = asked->resource,
                                .requester = requester,
                                .rule = "releases",
                                .action = "sign",
                                .about = "{\"artifact_type\":\"binary\",\"key_id\":\"k1\"}",
                                .approvers = approvers,
                                .window_us = window_us,
                                .max_signings = max_signings };
    assert_ok(uuid_new(&ask.operation_id));
    assert_ok(approvals_print_requested(&ask, &data));
    const struct event event = { .type = "approval.requested", .schema_version = 1, .data = buf_span(&data) };
    const struct event_append message = { .lane = "codesign", .events = &event, .count = 1 };
    uint64_t seq = 0;
    assert_ok(events_append(op, flow_services.log, &message, &seq));
    assert_ok(projector_wait(op, flow_services.projector, seq));
    struct approval_row row;
    bool found = false;
    assert_ok(approval_newest(op, &flow_services, asked->resource, &found, &row));
    (void)snprintf(asked->request, sizeof(asked->request), "%s", found ? row.id.text : "");
}

static struct asked ask_for(unsigned approvers, int64_t max_signings)
{
    struct asked asked;
    fresh_resource(&asked);
    refuse("tenant-a", &asked, "ci", approvers, HOUR_US, max_signings);
    return asked;
}

static struct approval_status status_at(const struct asked *asked, unsigned needed, utc_us now)
{
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    struct approval_status status;
    assert_ok(approvals_status(op, &flow_services, asked->resource, needed, now, &status));
    status.denied_by = NULL; /* lives in op's arena */
    return status;
}

static enum approval_state state_now(const struct asked *asked, unsigned needed)
{
    return status_at(asked, needed, clock_utc()).state;
}

static struct fault use_at(const struct asked *asked, unsigned needed, struct uuid operation_id, utc_us now)
{
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    struct fault fault = approvals_use(op, &flow_services, asked->resource, needed, operation_id, now);
    BUG_IF((fault.code == FAULT_APPROVAL_REQUIRED || fault.code == FAULT_APPROVAL_DENIED) &&
           strcmp(op->note.resource, asked->resource) != 0);
    return fault;
}

static struct fault use_once_more(const struct asked *asked)
{
    struct uuid operation_id;
    BUG_IF(FAULTED(uuid_new(&operation_id)));
    return use_at(asked, 1, operation_id, clock_utc());
}

/* A key for each call, unless one is given. */
[[maybe_unused]] static void post(const char *token, const char *path, const char *key, const char *body,
                                  struct answer *ret_answer)
{
    char made[37 + 1];
    struct uuid id;
    if (key == NULL) {
        BUG_IF(FAULTED(uuid_new(&id)));
        (void)snprintf(made, sizeof(made), "%s", id.text);
    }
    flow_call("POST", path, token, key != NULL ? key : made, body, 20000, ret_answer);
}

static void decide(const char *token, const struct asked *asked, bool grant, struct answer *ret_answer)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/api/v1/approval-requests/%s/%s", asked->request,
                   grant ? "approvals" : "denials");
    post(token, path, NULL, grant ? "{}" : "{\"reason\":\"not this one\"}", ret_answer);
}

static struct answer *granted(const char *token, const struct asked *asked)
{
    static struct answer answer;
    decide(token, asked, true, &answer);
    return &answer;
}

[[maybe_unused]] static struct answer *denied(const char *token, const struct asked *asked)
{
    static struct answer answer;
    decide(token, asked, false, &answer);
    return &answer;
}

[[maybe_unused]] static struct answer *get(const char *token, const char *target)
{
    static struct answer answer;
    flow_call("GET", target, token, NULL, NULL, 20000, &answer);
    return &answer;
}

static int approvals_start(void **state)
{
    (void)state;
    flow_start();
    flow_token("tenant-a", "ci", "ci", ci_a);
    flow_token("tenant-a", "ann", "approver", ann);
    flow_token("tenant-a", "ben", "approver", ben);
    flow_token("tenant-a", "cyd", "approver", cyd);
    flow_token("tenant-a", "op", "operator", looker);
    flow_token("tenant-a", "audit", "auditor", auditor);
    flow_token("tenant-b", "bob", "approver", bob_b);
    return 0;
}

static int approvals_end(void **state)
{
    (void)state;
    flow_stop();
    return 0;
}

#endif
