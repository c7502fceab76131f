/* Approvals from refusal to signing: run by with-stores from the top folder. */
#include "integration/approvals_testlib.h"

static void the_requester_never_decides(void **state)
{
    (void)state;
    struct asked asked;
    fresh_resource(&asked);
    refuse("tenant-a", &asked, "ann", 1, HOUR_US, 0);
    uint64_t before = flow_log_last();
    assert_problem(granted(ann, &asked), 403, "approver_is_requester");
    assert_problem(denied(ann, &asked), 403, "approver_is_requester");
    char path[256];
    struct answer *answer = granted(ann, &asked);
    (void)snprintf(path, sizeof(path), "/api/v1/identities/%s/approvals", asked.resource);
    post(ann, path, NULL, "{\"action\":\"sign\"}", answer);
    assert_problem(answer, 403, "approver_is_requester");
    assert_int_equal(flow_log_last(), before);
    assert_int_equal(state_now(&asked, 1), APPROVAL_PENDING);
    assert_status(granted(ben, &asked), 200);
}

static void who_may_not_approve_is_forbidden(void **state)
{
    (void)state;
    const struct asked asked = ask_for(1, 0);
    uint64_t before = flow_log_last();
    assert_problem(granted(ci_a, &asked), 403, "forbidden");
    assert_problem(granted(looker, &asked), 403, "forbidden");
    assert_problem(denied(looker, &asked), 403, "forbidden");
    assert_problem(get(auditor, "/api/v1/approval-requests"), 403, "forbidden");
    assert_int_equal(flow_log_last(), before);
}

static void another_tenant_sees_nothing_and_decides_nothing(void **state)
{
    (void)state;
    const struct asked asked = ask_for(1, 0);
    struct answer *answer = granted(bob_b, &asked);
    char path[256];
    assert_problem(answer, 404, "not_found");
    assert_problem(denied(bob_b, &asked), 404, "not_found");
    (void)snprintf(path, sizeof(path), "/api/v1/approval-requests/%s", asked.request);
    assert_problem(get(bob_b, path), 404, "not_found");
    assert_string_equal(get(bob_b, "/api/v1/approval-requests")->body, "{\"items\":[]}");
    (void)snprintf(path, sizeof(path), "/api/v1/identities/%s/approvals", asked.resource);
    post(bob_b, path, NULL, "{\"action\":\"sign\"}", answer);
    assert_problem(answer, 404, "not_found");
    CLEANUP(op_freep) struct op *op = test_op("tenant-b", 30000);
    struct approval_status status;
    assert_ok(approvals_status(op, &flow_services, asked.resource, 1, clock_utc(), &status));
    assert_int_equal(status.state, APPROVAL_NONE);
    /* The same text asked for over there is another request. */
    struct asked theirs = asked;
    refuse("tenant-b", &theirs, "ann", 1, HOUR_US, 0);
    assert_string_not_equal(theirs.request, asked.request);
    assert_status(granted(bob_b, &theirs), 200);
    assert_int_equal(state_now(&asked, 1), APPROVAL_PENDING);
}

static void what_is_unknown_or_malformed_is_refused(void **state)
{
    (void)state;
    const struct asked asked = ask_for(1, 0);
    struct answer *answer = granted(ann, &(struct asked){ .request = "01900000-0000-7000-8000-000000000000" });
    char path[256];
    uint64_t before = flow_log_last();
    assert_problem(answer, 404, "not_found");
    assert_problem(granted(ann, &(struct asked){ .request = "nonsense" }), 404, "not_found");
    static const char *const resources[] = { "approval_required:codesign:ff", "x",
                                             APPROVAL_CODESIGN
                                             "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" };
    for (size_t i = 0; i < COUNT_OF(resources); i++) {
        (void)snprintf(path, sizeof(path), "/api/v1/identities/%s/approvals", resources[i]);
        post(ann, path, NULL, "{\"action\":\"sign\"}", answer);
        assert_problem(answer, 404, "not_found");
    }
    (void)snprintf(path, sizeof(path), "/api/v1/identities/%s/approvals", asked.resource);
    static const char *const bodies[] = { "{}", "{\"action\":\"issue\"}",
                                          "{\"action\":\"sign\",\"approver\":\"ben\"}" };
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        post(ann, path, NULL, bodies[i], answer);
        assert_problem(answer, 400, "json_field");
    }
    (void)snprintf(path, sizeof(path), "/api/v1/approval-requests/%s/denials", asked.request);
    post(ann, path, NULL, "{}", answer); /* a denial says why */
    assert_problem(answer, 400, "json_field");
    static const char *const queries[] = { "state=open", "waiting_for_me=yes", "waiting_for_me=true&state=approved" };
    for (size_t i = 0; i < COUNT_OF(queries); i++) {
        (void)snprintf(path, sizeof(path), "/api/v1/approval-requests?%s", queries[i]);
        assert_problem(get(ann, path), 400, "query_parameter");
    }
    assert_int_equal(flow_log_last(), before);
}

static void nobody_counts_twice(void **state)
{
    (void)state;
    const struct asked asked = ask_for(2, 0);
    char first[37 * 4];
    struct answer *answer = granted(ann, &asked);
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "state"), "pending");
    (void)snprintf(first, sizeof(first), "%s", flow_text(answer, "time"));
    uint64_t before = flow_log_last();
    answer = granted(ann, &asked);
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "state"), "pending");
    assert_string_equal(flow_text(answer, "time"), first); /* as recorded */
    assert_int_equal(flow_log_last(), before);
    assert_int_equal(state_now(&asked, 2), APPROVAL_PENDING);
    assert_fault(use_once_more(&asked), APPROVAL_REQUIRED);
    answer = granted(ben, &asked);
    assert_string_equal(flow_text(answer, "state"), "approved");
    assert_int_equal(state_now(&asked, 2), APPROVAL_APPROVED);
    assert_problem(granted(cyd, &asked), 409, "approval_request_closed");
    assert_status(granted(ann, &asked), 200); /* a repetition still gives what was recorded */
}

static void a_denial_ends_it(void **state)
{
    (void)state;
    const struct asked asked = ask_for(2, 0);
    assert_status(granted(ann, &asked), 200);
    struct answer *answer = denied(ben, &asked);
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "state"), "denied");
    assert_string_equal(flow_text(answer, "reason"), "not this one");
    uint64_t before = flow_log_last();
    assert_problem(granted(cyd, &asked), 409, "approval_request_closed");
    assert_problem(granted(ben, &asked), 409, "approval_request_closed");
    assert_problem(denied(cyd, &asked), 409, "approval_request_closed");
    assert_string_equal(flow_text(denied(ben, &asked), "decision"), "denied"); /* a repetition */
    assert_int_equal(flow_log_last(), before);
    assert_int_equal(state_now(&asked, 2), APPROVAL_DENIED);
    assert_fault(use_once_more(&asked), APPROVAL_DENIED);
    /* New refusals open nothing while it holds, whatever number they ask for. */
    for (unsigned needed = 1; needed <= 3; needed++) {
        struct asked again = asked;
        refuse("tenant-a", &again, "ci", needed, HOUR_US, 0);
        assert_string_equal(again.request, asked.request);
        assert_int_equal(state_now(&asked, needed), APPROVAL_DENIED);
    }
    /* One window after the denial it is over. */
    struct approval_status status = status_at(&asked, 2, clock_utc());
    assert_int_equal(status_at(&asked, 2, status.expires - 1).state, APPROVAL_DENIED);
    assert_int_equal(status_at(&asked, 2, status.expires).state, APPROVAL_NONE);
}

static void an_approval_can_still_be_denied(void **state)
{
    (void)state;
    const struct asked asked = ask_for(1, 0);
    assert_status(granted(ann, &asked), 200);
    assert_ok(use_once_more(&asked));
    assert_status(denied(ann, &asked), 200); /* by the very one who gave it */
    assert_int_equal(state_now(&asked, 1), APPROVAL_DENIED);
    assert_fault(use_once_more(&asked), APPROVAL_DENIED);
}

static void what_nobody_decides_expires(void **state)
{
    (void)state;
    struct asked asked, again;
    fresh_resource(&asked);
    refuse("tenant-a", &asked, "ci", 1, 1, 0); /* a window of a microsecond */
    assert_problem(granted(ann, &asked), 409, "approval_request_closed");
    assert_problem(denied(ann, &asked), 409, "approval_request_closed");
    assert_int_equal(state_now(&asked, 1), APPROVAL_NONE);
    char path[128];
    (void)snprintf(path, sizeof(path), "/api/v1/approval-requests/%s", asked.request);
    assert_string_equal(flow_text(get(ann, path), "state"), "expired");
    again = asked;
    refuse("tenant-a", &again, "ci", 1, HOUR_US, 0); /* a new refusal asks again */
    assert_string_not_equal(again.request, asked.request);
    assert_status(granted(ann, &again), 200);
}

/* An event past the command's own checks, as another host with another clock might append it. */
static void plant(const char *type, const struct asked *asked, const char *member, const char *value)
{
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    char data[512];
    (void)snprintf(data, sizeof(data), "{\"request_id\":\"%s\",\"resource\":\"%s\",\"%s\":\"%s\",%s}", asked->request,
                   asked->resource, member, value,
                   strcmp(type, "approval.used") == 0 ? "\"use\":1" : "\"reason\":\"\"");
    const struct event event = { .type = type, .schema_version = 1, .data = span_text(data) };
    const struct event_append message = { .lane = APPROVALS_LANE, .events = &event, .count = 1 };
    uint64_t seq = 0;
    assert_ok(events_append(op, flow_services.log, &message, &seq));
    assert_ok(projector_wait(op, flow_services.projector, seq));
}

static void assert_counted(const struct asked *asked, const char *stored, int64_t approvals, int64_t uses,
                           size_t decisions)
{
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    struct approval_row row;
    struct approval_decision *made = NULL;
    struct uuid id;
    size_t count = 0;
    assert_ok(uuid_parse(span_text(asked->request), &id));
    assert_ok(approval_get(op, &flow_services, id, &row));
    assert_ok(approval_decisions(op, &flow_services, id, &made, &count));
    assert_string_equal(row.stored, stored);
    assert_int_equal(row.approvals, approvals);
    assert_int_equal(row.uses, uses);
    assert_int_equal(count, decisions);
}

static void the_projection_counts_only_what_the_request_takes(void **state)
{
    (void)state;
    static const char op_1[] = "01900000-0000-7000-8000-000000000001", op_2[] = "01900000-0000-7000-8000-000000000002";
    struct asked expired;
    fresh_resource(&expired);
    refuse("tenant-a", &expired, "ci", 1, 1, 0);
    plant("approval.granted", &expired, "approver", "ann");
    plant("approval.denied", &expired, "approver", "ann");
    assert_counted(&expired, "pending", 0, 0, 0);

    const struct asked asked = ask_for(2, 1);
    plant("approval.granted", &asked, "approver", "ci"); /* the requester itself */
    plant("approval.denied", &asked, "approver", "ci");
    plant("approval.used", &asked, "operation_id", op_1); /* nobody approved */
    assert_counted(&asked, "pending", 0, 0, 0);
    plant("approval.granted", &asked, "approver", "ann");
    plant("approval.granted", &asked, "approver", "ann");
    assert_counted(&asked, "pending", 1, 0, 1);
    plant("approval.granted", &asked, "approver", "ben");
    plant("approval.granted", &asked, "approver", "cyd");
    assert_counted(&asked, "approved", 2, 0, 2);
    plant("approval.used", &asked, "operation_id", op_1);
    plant("approval.used", &asked, "operation_id", op_1);
    plant("approval.used", &asked, "operation_id", op_2); /* beyond the last one */
    plant("approval.denied", &asked, "approver", "cyd");
    assert_counted(&asked, "approved", 2, 1, 2);

    const struct asked unlimited = ask_for(1, 0);
    plant("approval.granted", &unlimited, "approver", "ann");
    plant("approval.used", &unlimited, "operation_id", op_2);
    plant("approval.denied", &unlimited, "approver", "ben");
    plant("approval.denied", &unlimited, "approver", "cyd");
    plant("approval.granted", &unlimited, "approver", "cyd");
    assert_counted(&unlimited, "denied", 1, 0, 2);
}

static void an_approval_ends_with_its_window(void **state)
{
    (void)state;
    const struct asked asked = ask_for(1, 0);
    assert_status(granted(ann, &asked), 200);
    const struct approval_status status = status_at(&asked, 1, clock_utc());
    struct uuid operation_id;
    assert_ok(uuid_new(&operation_id));
    assert_ok(use_at(&asked, 1, operation_id, status.expires - 1));
    assert_fault(use_at(&asked, 1, operation_id, status.expires), APPROVAL_REQUIRED);
    assert_int_equal(status_at(&asked, 1, status.expires).state, APPROVAL_NONE);
    assert_true(status.expires >= clock_utc() + HOUR_US - 60 * US_PER_S);
}

static void a_second_refusal_changes_nothing_while_one_is_open(void **state)
{
    (void)state;
    struct asked asked = ask_for(2, 3), again = asked;
    const struct approval_status before = status_at(&asked, 2, clock_utc());
    refuse("tenant-a", &again, "ci", 2, 2 * HOUR_US, 99);
    assert_string_equal(again.request, asked.request);
    assert_status(granted(ann, &asked), 200);
    refuse("tenant-a", &again, "ci", 2, 2 * HOUR_US, 99);
    assert_string_equal(again.request, asked.request);
    struct approval_status status = status_at(&asked, 2, clock_utc());
    assert_int_equal(status.expires, before.expires);
    assert_int_equal(status.max_signings, 3);
    assert_int_equal(status.approvals, 1);
    assert_status(granted(ben, &asked), 200);
    refuse("tenant-a", &again, "ci", 1, HOUR_US, 0); /* fewer do not replace what more approved */
    assert_string_equal(again.request, asked.request);
    assert_int_equal(state_now(&asked, 1), APPROVAL_APPROVED);
}

static void a_stricter_rule_replaces_what_was_approved_by_fewer(void **state)
{
    (void)state;
    struct asked asked = ask_for(1, 0), stricter = asked;
    assert_status(granted(ann, &asked), 200);
    assert_int_equal(state_now(&asked, 2), APPROVAL_NONE);
    assert_fault(use_at(&asked, 2, (struct uuid){ "01900000-0000-7000-8000-000000000001" }, clock_utc()),
                 APPROVAL_REQUIRED);
    refuse("tenant-a", &stricter, "ci", 2, HOUR_US, 0);
    assert_string_not_equal(stricter.request, asked.request);
    assert_problem(denied(ben, &asked), 409, "approval_request_closed");
    assert_status(granted(ann, &stricter), 200); /* asked anew */
    assert_int_equal(state_now(&stricter, 2), APPROVAL_PENDING);
    refuse("tenant-a", &stricter, "ci", 3, HOUR_US, 0); /* a pending one of another number is replaced, too */
    assert_int_equal(status_at(&stricter, 3, clock_utc()).approvals, 0);
    char path[128];
    (void)snprintf(path, sizeof(path), "/api/v1/approval-requests/%s", asked.request);
    assert_string_equal(flow_text(get(ann, path), "state"), "replaced");
}

static void signings_are_counted_once_each_and_end(void **state)
{
    (void)state;
    const struct asked asked = ask_for(1, 2);
    struct uuid operations[3];
    for (size_t i = 0; i < COUNT_OF(operations); i++) {
        assert_ok(uuid_new(&operations[i]));
    }
    assert_fault(use_at(&asked, 1, operations[0], clock_utc()), APPROVAL_REQUIRED); /* nobody has approved */
    assert_status(granted(ann, &asked), 200);
    utc_us now = clock_utc();
    uint64_t before = flow_log_last();
    assert_ok(use_at(&asked, 1, operations[0], now));
    assert_ok(use_at(&asked, 1, operations[0], now));
    assert_int_equal(flow_log_last(), before + 1);
    assert_ok(use_at(&asked, 1, operations[1], now));
    assert_fault(use_at(&asked, 1, operations[2], now), APPROVAL_REQUIRED);
    assert_int_equal(flow_log_last(), before + 2);
    assert_int_equal(state_now(&asked, 1), APPROVAL_USED_UP);
    assert_problem(denied(ben, &asked), 409, "approval_request_closed");
    /* A refusal asks again; who has its signing keeps it, also beside the newer request and after the window. */
    struct asked again = asked;
    refuse("tenant-a", &again, "ci", 1, HOUR_US, 2);
    assert_string_not_equal(again.request, asked.request);
    assert_ok(use_at(&asked, 1, operations[0], now));
    assert_ok(use_at(&asked, 1, operations[1], now + 5 * HOUR_US));
    assert_fault(use_at(&asked, 1, operations[2], now), APPROVAL_REQUIRED);
}

static void a_signing_taken_and_then_denied_is_gone(void **state)
{
    (void)state;
    const struct asked asked = ask_for(1, 2);
    struct uuid operation_id;
    assert_ok(uuid_new(&operation_id));
    assert_status(granted(ann, &asked), 200);
    assert_ok(use_at(&asked, 1, operation_id, clock_utc()));
    assert_status(denied(ben, &asked), 200);
    assert_fault(use_at(&asked, 1, operation_id, clock_utc()), APPROVAL_DENIED);
}

static void the_resource_itself_can_be_approved(void **state)
{
    (void)state;
    const struct asked asked = ask_for(1, 0);
    struct answer *answer = get(ann, "/api/v1/approval-requests?limit=1");
    char path[256];
    (void)snprintf(path, sizeof(path), "/api/v1/identities/approval_required%%3Acodesign%%3A%s/approvals",
                   asked.resource + strlen(APPROVAL_CODESIGN));
    post(ann, path, "once", "{\"action\":\"sign\",\"reason\":\"reviewed\"}", answer);
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "request_id"), asked.request);
    assert_string_equal(flow_text(answer, "decision"), "granted");
    assert_string_equal(flow_text(answer, "approver"), "ann");
    assert_string_equal(flow_text(answer, "reason"), "reviewed");
    assert_string_equal(flow_text(answer, "state"), "approved");
    uint64_t before = flow_log_last();
    /* A retry after retention runs again, and another reason changes nothing. */
    assert_ok(as_superuser("DELETE FROM svc.idempotency_keys WHERE key = 'once'"));
    post(ann, path, "once", "{\"action\":\"sign\",\"reason\":\"reviewed\"}", answer);
    assert_status(answer, 200);
    assert_false(answer->replayed);
    (void)snprintf(path, sizeof(path), "/api/v1/identities/%s/approvals", asked.resource);
    post(ann, path, NULL, "{\"action\":\"sign\",\"reason\":\"other\"}", answer);
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "reason"), "reviewed");
    assert_int_equal(flow_log_last(), before);
}

static size_t items_of(const struct answer *answer)
{
    size_t count = 0;
    for (const char *at = answer->body; (at = strstr(at, "\"request_id\"")) != NULL; at++) {
        count++;
    }
    return count;
}

static void the_list_shows_what_waits_for_whom(void **state)
{
    (void)state;
    static const char waiting[] = "/api/v1/approval-requests?waiting_for_me=true&limit=200";
    size_t ann_before = items_of(get(ann, waiting)), ben_before = items_of(get(ben, waiting));
    struct asked mine;
    fresh_resource(&mine);
    refuse("tenant-a", &mine, "ann", 2, HOUR_US, 0);
    const struct asked other = ask_for(2, 0), ended = ask_for(1, 0);
    assert_status(granted(cyd, &ended), 200);
    assert_int_equal(items_of(get(ann, waiting)), ann_before + 1);
    assert_int_equal(items_of(get(ben, waiting)), ben_before + 2);
    assert_status(granted(ann, &other), 200);
    assert_int_equal(items_of(get(ann, waiting)), ann_before);
    assert_string_equal(get(looker, waiting)->body, "{\"items\":[]}"); /* may look, may not approve */
    struct answer *answer = get(looker, "/api/v1/approval-requests?state=pending&limit=2");
    assert_int_equal(items_of(answer), 2);
    assert_string_equal(flow_text(answer, "request_id"), other.request); /* newest first */
    assert_non_null(strstr(answer->body, "\"about\":{\"artifact_type\":\"binary\",\"key_id\":\"k1\"}"));
    assert_non_null(strstr(answer->body, "\"approvers\":2,\"approvals\":1"));
}

/* Every state's filter gives the rows that say so of themselves, and all of them, page by page. */
static void filters_and_pages_agree_with_what_is_shown(void **state)
{
    (void)state;
    static const char *const states[] = { "pending", "approved", "used_up", "denied", "expired", "replaced" };
    size_t all = items_of(get(ann, "/api/v1/approval-requests?limit=200")), sum = 0, paged = 0;
    char path[1200], wanted[64], cursor[1024] = "";
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        (void)snprintf(path, sizeof(path), "/api/v1/approval-requests?limit=200&state=%s", states[i]);
        (void)snprintf(wanted, sizeof(wanted), "\"state\":\"%s\"", states[i]);
        struct answer *answer = get(ann, path);
        size_t items = items_of(answer), said = 0;
        for (const char *at = answer->body; (at = strstr(at, wanted)) != NULL; at++) {
            said++;
        }
        assert_true(items > 0);
        assert_int_equal(items, said);
        sum += items;
    }
    assert_int_equal(sum, all);
    do {
        (void)snprintf(path, sizeof(path), "/api/v1/approval-requests?limit=3%s%s", cursor[0] != '\0' ? "&cursor=" : "",
                       cursor);
        struct answer *answer = get(ann, path);
        assert_status(answer, 200);
        paged += items_of(answer);
        (void)snprintf(cursor, sizeof(cursor), "%s", flow_text(answer, "next_cursor"));
    } while (cursor[0] != '\0');
    assert_int_equal(paged, all);
}

static void one_request_shows_its_decisions(void **state)
{
    (void)state;
    const struct asked asked = ask_for(2, 0);
    char path[128];
    assert_status(granted(ann, &asked), 200);
    assert_status(denied(ann, &asked), 200);
    (void)snprintf(path, sizeof(path), "/api/v1/approval-requests/%s", asked.request);
    struct answer *answer = get(ci_a, path); /* the requester may look */
    assert_status(answer, 200);
    assert_string_equal(flow_text(answer, "denied_by"), "ann");
    assert_string_equal(flow_text(answer, "requester"), "ci");
    assert_string_equal(flow_text(answer, "rule"), "releases");
    const char *first = strstr(answer->body, "{\"decision\":\"granted\",\"approver\":\"ann\"");
    assert_non_null(first);
    assert_non_null(strstr(first, "{\"decision\":\"denied\",\"approver\":\"ann\",\"reason\":\"not this one\""));
}

static void decisions_are_counted(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)1 << 20);
    assert_ok(metrics_print(flow_services.metrics, &out));
    assert_ok(buf_u8(&out, 0));
    assert_non_null(strstr((const char *)out.at, "svc_approvals_total{decision=\"granted\"}"));
    assert_non_null(strstr((const char *)out.at, "svc_approvals_total{decision=\"denied\"}"));
}

static void rows_digest(char out[64])
{
    static const struct sql sql = {
        "rows_digest",
        "SELECT md5(string_agg(t, '|' ORDER BY t)) FROM (SELECT 'r' || r::text AS t FROM svc.approval_requests r"
        " UNION ALL SELECT 'd' || d::text FROM svc.approval_decisions d"
        " UNION ALL SELECT 'u' || u::text FROM svc.approval_uses u) all_rows",
        0,
    };
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(endpoint_new(test_config, "postgres", NULL, &endpoint));
    assert_ok(connection_open(op, endpoint, op->deadline, &connection));
    assert_ok(connection_run(op, connection, &sql, NULL, 0, op->deadline, &rows));
    (void)snprintf(out, 64, "%s", rows_text(rows, 0, 0));
}

static void a_rebuild_gives_the_same_rows(void **state)
{
    (void)state;
    char before[64], after[64];
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    uint64_t messages = 0;
    flow_pause();
    rows_digest(before);
    assert_ok(store_empty_projections(test_config, NULL));
    rows_digest(after);
    assert_string_not_equal(before, after);
    assert_ok(projection_rebuild(op, flow_projector_config(), &messages));
    assert_true(messages > 50);
    rows_digest(after);
    assert_string_equal(before, after);
    flow_resume();
    assert_status(get(ann, "/api/v1/approval-requests"), 200);
}

/* Last: it turns the clock of one row, which a rebuild would turn back. */
static void after_a_denials_window_a_refusal_asks_again(void **state)
{
    (void)state;
    const struct asked asked = ask_for(1, 0);
    struct asked again = asked;
    char script[256];
    assert_status(denied(ann, &asked), 200);
    refuse("tenant-a", &again, "ci", 1, HOUR_US, 0);
    assert_string_equal(again.request, asked.request);
    (void)snprintf(script, sizeof(script), "UPDATE svc.approval_requests SET expires_us = 1 WHERE request_id = '%s'",
                   asked.request);
    assert_ok(as_superuser(script));
    assert_int_equal(state_now(&asked, 1), APPROVAL_NONE);
    refuse("tenant-a", &again, "ci", 1, HOUR_US, 0);
    assert_string_not_equal(again.request, asked.request);
    assert_status(granted(ann, &again), 200);
    assert_int_equal(state_now(&asked, 1), APPROVAL_APPROVED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_requester_never_decides),
        cmocka_unit_test(who_may_not_approve_is_forbidden),
        cmocka_unit_test(another_tenant_sees_nothing_and_decides_nothing),
        cmocka_unit_test(what_is_unknown_or_malformed_is_refused),
        cmocka_unit_test(nobody_counts_twice),
        cmocka_unit_test(a_denial_ends_it),
        cmocka_unit_test(an_approval_can_still_be_denied),
        cmocka_unit_test(what_nobody_decides_expires),
        cmocka_unit_test(the_projection_counts_only_what_the_request_takes),
        cmocka_unit_test(an_approval_ends_with_its_window),
        cmocka_unit_test(a_second_refusal_changes_nothing_while_one_is_open),
        cmocka_unit_test(a_stricter_rule_replaces_what_was_approved_by_fewer),
        cmocka_unit_test(signings_are_counted_once_each_and_end),
        cmocka_unit_test(a_signing_taken_and_then_denied_is_gone),
        cmocka_unit_test(the_resource_itself_can_be_approved),
        cmocka_unit_test(the_list_shows_what_waits_for_whom),
        cmocka_unit_test(one_request_shows_its_decisions),
        cmocka_unit_test(filters_and_pages_agree_with_what_is_shown),
        cmocka_unit_test(decisions_are_counted),
        cmocka_unit_test(a_rebuild_gives_the_same_rows),
        cmocka_unit_test(after_a_denials_window_a_refusal_asks_again),
    };
    return cmocka_run_group_tests_name("approvals_flow", tests, approvals_start, approvals_end);
}
