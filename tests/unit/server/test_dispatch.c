#include "unit/server/testing.h"

#include "api/server/admission.h"
#include "api/server/idempotency.h"
#include "appliance/base/json.h"

#include <stdio.h>

/* The rooms below: who calls is what the Authorization header says; claims are counted, not kept. */
static int authenticated, claimed, recorded, released, ran;
static struct fault claim_says, record_says, handler_says;
static bool claim_is_abandoned, claim_replays, handler_ignores, recorded_secret, handler_is_silent;
static int recorded_status;

struct fault identity_authenticate(struct op *op, struct identity *identity, struct store *store,
                                   const char *authorization)
{
    (void)identity, (void)store;
    authenticated++;
    if (authorization == NULL || strncmp(authorization, "Bearer ", 7) != 0) {
        return op_fail(op, FAULT(UNAUTHENTICATED), "send a bearer token");
    }
    (void)snprintf(op->tenant.text, sizeof(op->tenant.text), "acme");
    (void)snprintf(op->principal.subject, sizeof(op->principal.subject), "%s", authorization + 7);
    return OK;
}
bool principal_may(const struct principal *principal, enum permission permission)
{
    return permission == PERMISSION_KEYS_READ || strcmp(principal->subject, "admin") == 0;
}
const char *permission_text(enum permission permission)
{
    return permission == PERMISSION_KEYS_ADMIN ? "keys:admin" : "other";
}

/* As the real one: asked for by the handler's first question or effect, and by idempotency_await at the latest. */
static struct idempotency_claim *in_hand;
static struct fault settle_claim(struct op *op)
{
    op->ahead = NULL;
    in_hand->fault = claim_says;
    if (FAULTED(claim_says)) {
        in_hand->state = IDEMPOTENCY_REFUSED;
        return claim_says;
    }
    in_hand->state = claim_replays        ? IDEMPOTENCY_REPLAYED
                     : claim_is_abandoned ? IDEMPOTENCY_ABANDONED
                                          : IDEMPOTENCY_OURS;
    return in_hand->state == IDEMPOTENCY_OURS ? OK : FAULT(IDEMPOTENCY_IN_PROGRESS);
}
struct fault idempotency_begin(struct op *op, struct store *store, const struct idempotency_request *request,
                               struct idempotency_claim *claim, struct response *response)
{
    static struct op_ahead ahead = { settle_claim };
    (void)store;
    claimed++;
    TRY(idempotency_command_id(op, request));
    *claim = (struct idempotency_claim){ .key = request->key, .op = op, .response = response };
    in_hand = claim;
    op->ahead = &ahead;
    return OK;
}
struct fault idempotency_await(struct idempotency_claim *claim)
{
    IGNORE(op_settle(claim->op));
    TRY(claim->fault);
    if (claim->state == IDEMPOTENCY_REPLAYED) {
        *claim->response =
            (struct response){ .status = 201, .content_type = "application/json", .body = span_text("{}") };
    } else {
        claim->state = IDEMPOTENCY_OURS;
    }
    return OK;
}
struct fault idempotency_record(struct op *op, struct store *store, const struct idempotency_claim *claim,
                                const struct response *response, bool secret)
{
    (void)op, (void)store, (void)claim;
    recorded++;
    recorded_secret = secret;
    recorded_status = response->status;
    return record_says;
}
void idempotency_release(struct op *op, struct store *store, const struct idempotency_claim *claim)
{
    (void)op, (void)store, (void)claim;
    released++;
}

struct thing {
    const char *name;
};
static const struct jin_field thing_fields[] = { JIN_TEXT(struct thing, name, JIN_REQUIRED, 1, 20) };

static struct fault handle(struct request *request)
{
    struct fault fault = op_settle(request->op); /* before any effect */
    if (!handler_ignores) {
        TRY(fault);
    }
    ran++;
    TRY(handler_says);
    if (handler_is_silent) {
        return OK;
    }
    CLEANUP(buf_free) struct buf json = BUF_INIT(4096);
    const struct thing *thing = request->body;
    struct jout out;
    jout_init(&out, &json);
    jout_object(&out);
    jout_key_text(&out, "name", thing != NULL ? thing->name : "");
    jout_object_end(&out);
    TRY(jout_end(&out));
    TRY(response_header(request, "X-Handler", "was here"));
    return response_json(request, 0, &json);
}

static struct fault handle_thing(struct request *request)
{
    assert_string_equal(request_path(request, "id"), "a b");
    assert_string_equal(request_query(request, "limit"), "5");
    assert_null(request_query(request, "cursor"));
    assert_string_equal(request_header(request, "host"), "h");
    assert_string_equal(request_base_url(request), "https://127.0.0.1:8443");
    return response_bytes(request, 0, "text/plain", span_text("thing"));
}

#define MAKE                                                                                                    \
    .method = ROUTE_POST, .permission = PERMISSION_KEYS_ADMIN, .bulkhead = BULKHEAD_API, .success_status = 201, \
    .body = thing_fields, .body_count = COUNT_OF(thing_fields), .body_size = sizeof(struct thing), .handler = handle

static const char *const query[] = { "limit", "cursor", NULL };
static const struct route routes[] = {
    { MAKE, .name = "make", .path = "/things", .flags = ROUTE_MUTATION },
    { MAKE, .name = "token", .path = "/tokens", .flags = ROUTE_MUTATION | ROUTE_SECRET_ANSWER },
    { MAKE, .name = "preview", .path = "/preview", .flags = ROUTE_EFFECT_FREE, .body_max = 64 },
    { .name = "get",
      .path = "/things/{id}",
      .permission = PERMISSION_KEYS_READ,
      .query = query,
      .bulkhead = BULKHEAD_API,
      .success_status = 200,
      .handler = handle_thing },
    { .name = "drop",
      .path = "/things/{id}",
      .method = ROUTE_DELETE,
      .permission = PERMISSION_KEYS_ADMIN,
      .flags = ROUTE_MUTATION,
      .bulkhead = BULKHEAD_API,
      .success_status = 200,
      .handler = handle },
    { .name = "raw",
      .path = "/raw",
      .method = ROUTE_POST,
      .permission = PERMISSION_PUBLIC,
      .flags = ROUTE_RAW_BODY | ROUTE_PLAIN_TOO | ROUTE_EFFECT_FREE,
      .content_type = "application/raw",
      .success_status = 200,
      .handler = handle },
    { .name = "probe",
      .path = "/probe",
      .permission = PERMISSION_PUBLIC,
      .flags = ROUTE_PROBE,
      .success_status = 200,
      .handler = handle },
};
static const struct feature feature = { .name = "things", .routes = routes, .route_count = COUNT_OF(routes) };
static const struct feature *const features[] = { &feature };
/* API has one place and a queue of one. Nobody waits longer than a request that has to be refused. */
static struct config config = { .http_body_max = 1024,
                                .http_base_url = "",
                                .http_listen = "127.0.0.1:8443",
                                .bulkhead_api = 1,
                                .bulkhead_api_queue = 1,
                                .bulkhead_protocol = 1,
                                .bulkhead_heavy = 1,
                                .bulkhead_evidence = 1,
                                .bulkhead_policy = 1,
                                .bulkhead_outbox = 1,
                                .bulkhead_projection_queue = 10,
                                .bulkhead_tenant_share = 100,
                                .bulkhead_wait = NS_PER_MS,
                                .signer_client_conns = 1 };
static uint64_t lag;

void projector_state(struct projector *unused, struct projector_state *ret_state)
{
    (void)unused;
    *ret_state = (struct projector_state){ .log_trusted = true, .lag = lag };
}

struct fixture {
    struct op *op;
    struct services services;
    struct core core;
    struct admission admission;
    struct message message;
    const char *body;
    bool body_breaks;
    struct response response;
    struct route_match match;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){ .op = test_op(), .services = { .config = &config }, .admission = { .max = 4 } };
    fixture.core.services = &fixture.services;
    assert_fault(router_new(features, 1, NULL, &fixture.core.router), NONE);
    config.bulkhead_tenant_share = 100;
    lag = 0;
    fixture.services.projector = (struct projector *)&fixture; /* whose state is asked for */
    assert_fault(bulkheads_new(&config, &fixture.services.bulkheads), NONE);
    authenticated = claimed = recorded = released = ran = 0;
    claim_says = record_says = handler_says = OK;
    claim_is_abandoned = claim_replays = handler_ignores = recorded_secret = handler_is_silent = false;
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    struct bulkhead_load load;
    bulkheads_load(fixture->services.bulkheads, BULKHEAD_API, &load);
    assert_int_equal(load.in_use + load.waiting, 0);
    assert_int_equal(atomic_load(&fixture->admission.handling), 0);
    bulkheads_free(fixture->services.bulkheads);
    router_free(fixture->core.router);
    op_free(fixture->op);
    return 0;
}

static struct fault give_body(void *arg, uint8_t *at, size_t len)
{
    struct fixture *fixture = arg;
    REQUIRE(!fixture->body_breaks, IO);
    memcpy(at, fixture->body, len);
    return OK;
}

/* Headers as "Name: value" lines; a body brings its Content-Length and type. */
struct sent {
    const char *method, *path, *query, *body, *token, *key, *type;
    enum listener_kind listener;
};

static void add(struct fixture *fixture, const char *name, const char *value)
{
    if (value != NULL) {
        fixture->message.headers[fixture->message.header_count++] = (struct http_header){ name, value };
    }
}

static int send(struct fixture *fixture, struct sent sent)
{
    static char length[32];
    fixture->body = sent.body;
    fixture->message = (struct message){ .method = sent.method,
                                         .path = sent.path,
                                         .query = sent.query,
                                         .listener = sent.listener,
                                         .admission = &fixture->admission,
                                         .read_body = give_body,
                                         .arg = fixture };
    add(fixture, "Host", "h");
    add(fixture, "Authorization", sent.token);
    add(fixture, "Idempotency-Key", sent.key);
    if (sent.body != NULL) {
        (void)snprintf(length, sizeof(length), "%zu", strlen(sent.body));
        add(fixture, "Content-Length", length);
        add(fixture, "Content-Type", sent.type != NULL ? sent.type : "application/json");
    }
    fixture->op->note = (struct fault_note){ .set = false };
    dispatch(&fixture->core, fixture->op, &fixture->message, &fixture->response, &fixture->match);
    return fixture->response.status;
}
#define SEND(fixture, ...) send(fixture, (struct sent){ __VA_ARGS__ })

static const char *header(const struct fixture *fixture, const char *name)
{
    for (size_t i = 0; i < fixture->response.header_count; i++) {
        if (strcmp(fixture->response.headers[i].name, name) == 0) {
            return fixture->response.headers[i].value;
        }
    }
    return NULL;
}

#define ADMIN .token = "Bearer admin"
#define GOOD  .method = "POST", .path = "/things", .body = "{\"name\":\"x\"}", ADMIN, .key = "k"

static void what_is_refused_never_reaches_claim_or_handler(void **state)
{
    struct fixture *f = *state;
    static const char large[] = "{\"name\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
    const struct {
        struct sent sent;
        enum fault_code code;
    } cases[] = {
        { { .method = "GET", .path = "/nothing" }, FAULT_ROUTE },
        { { .method = "GET", .path = "/a/../things" }, FAULT_BAD_ARGUMENT },
        { { .method = "PUT", .path = "/things", ADMIN }, FAULT_METHOD },
        { { .method = "POST", .path = "/things", .body = "{}", .key = "k" }, FAULT_UNAUTHENTICATED },
        { { .method = "POST", .path = "/things", .body = "{}", .key = "k", .token = "Basic x" },
          FAULT_UNAUTHENTICATED },
        { { .method = "POST", .path = "/things", .body = "{}", .key = "k", .token = "Bearer ci" }, FAULT_FORBIDDEN },
        { { .method = "POST", .path = "/things", .body = "{}", ADMIN }, FAULT_IDEMPOTENCY_KEY_REQUIRED },
        { { .method = "DELETE", .path = "/things/1", ADMIN }, FAULT_IDEMPOTENCY_KEY_REQUIRED },
        { { .method = "POST", .path = "/things", .body = "{}", ADMIN, .key = "a b" }, FAULT_IDEMPOTENCY_KEY_MALFORMED },
        { { .method = "POST", .path = "/things", .body = "{}", ADMIN, .key = "k", .type = "text/xml" },
          FAULT_MEDIA_TYPE },
        { { .method = "POST", .path = "/things", ADMIN, .key = "k" }, FAULT_LENGTH_REQUIRED },
        { { .method = "DELETE", .path = "/things/1", .body = "{}", ADMIN, .key = "k" }, FAULT_BAD_ARGUMENT },
        { { .method = "GET", .path = "/things/1", .body = "{}", ADMIN }, FAULT_BAD_ARGUMENT },
        { { .method = "GET", .path = "/things/1", .query = "nonsense=1", ADMIN }, FAULT_QUERY },
        { { .method = "POST", .path = "/things", .query = "a=1", .body = "{}", ADMIN, .key = "k" }, FAULT_QUERY },
        { { .method = "POST", .path = "/preview", .body = large, ADMIN }, FAULT_TOO_LARGE },
        { { .method = "POST", .path = "/preview", .body = "", ADMIN }, FAULT_JSON_SYNTAX },
        { { .method = "POST", .path = "/preview", .body = "{\"nam\":\"x\"}", ADMIN }, FAULT_JSON_FIELD },
        { { .method = "POST", .path = "/raw", .body = "x", .type = "text/raw" }, FAULT_MEDIA_TYPE },
        { { .method = "GET", .path = "/things/1", ADMIN, .listener = LISTENER_PLAIN }, FAULT_ROUTE },
        { { .method = "POST", .path = "/raw", .body = "x", .listener = LISTENER_PROBE }, FAULT_ROUTE },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int status = send(f, cases[i].sent);
        if (f->response.fault != cases[i].code) {
            print_error("case %zu: %s\n", i, fault_row(f->response.fault)->text);
        }
        assert_int_equal(f->response.fault, cases[i].code);
        assert_int_equal(status, fault_row(cases[i].code)->http);
        assert_string_equal(f->response.content_type, "application/problem+json");
    }
    assert_int_equal(claimed + ran + recorded + released, 0);
}

static void a_size_that_is_too_large_is_refused_before_anybody_is_asked(void **state)
{
    struct fixture *f = *state;
    static const char large[] = "{\"name\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
    assert_int_equal(SEND(f, .method = "POST", .path = "/preview", .body = large), 413);
    assert_int_equal(authenticated, 0);
    assert_false(f->message.body_read);
}

static void another_method_gets_the_allow_header(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(SEND(f, .method = "PATCH", .path = "/things/1"), 405);
    assert_string_equal(header(f, "Allow"), "GET, HEAD, DELETE");
}

static void framing_that_is_not_certain_closes_the_connection(void **state)
{
    struct fixture *f = *state;
    f->message = (struct message){ .method = "POST",
                                   .path = "/raw",
                                   .headers = { { "Host", "h" }, { "Transfer-Encoding", "chunked" } },
                                   .header_count = 2 };
    dispatch(&f->core, f->op, &f->message, &f->response, &f->match);
    assert_int_equal(f->response.status, 411);
    assert_true(f->response.close);
    f->body_breaks = true;
    assert_int_equal(SEND(f, .method = "POST", .path = "/raw", .body = "x", .type = "application/raw"), 400);
    assert_true(f->response.close);
}

static struct bulkhead *api(const struct fixture *f)
{
    return bulkheads_get(f->services.bulkheads, BULKHEAD_API);
}

/* Whoever is sent away for now is told so, in both ways, and nothing was done for it. */
static void expect_later(const struct fixture *f, enum fault_code code)
{
    static const char member[] = "\"retryable\":true";
    assert_int_equal(f->response.status, 503);
    assert_int_equal(f->response.fault, code);
    assert_non_null(header(f, "Retry-After"));
    assert_non_null(memmem(f->response.body.at, f->response.body.len, member, strlen(member)));
    assert_int_equal(claimed + ran, 0);
}

static void a_full_bulkhead_refuses_before_anybody_is_asked(void **state)
{
    struct fixture *f = *state;
    struct permit permits[2] = { 0 };
    assert_fault(bulkhead_join(api(f), &permits[0]), NONE);
    assert_fault(bulkhead_join(api(f), &permits[1]), NONE);
    (void)SEND(f, GOOD);
    expect_later(f, FAULT_SATURATED);
    assert_int_equal(authenticated, 0);
    assert_int_equal(SEND(f, .method = "GET", .path = "/probe"), 200);
    ran = 0;
    permit_release(&permits[0]);
    assert_int_equal(SEND(f, GOOD), 201);
    permit_release(&permits[1]);
}

static void who_waits_in_vain_for_a_turn_is_refused(void **state)
{
    struct fixture *f = *state;
    struct permit permit = { 0 };
    assert_fault(bulkhead_enter(api(f), clock_mono(), &permit), NONE);
    (void)SEND(f, GOOD);
    expect_later(f, FAULT_SATURATED);
    assert_int_equal(authenticated, 1); /* in the queue everybody is known */
    permit_release(&permit);
}

static void a_full_listener_refuses_and_keeps_its_last_threads_from_those_who_would_wait(void **state)
{
    struct fixture *f = *state;
    struct permit permit = { 0 };
    atomic_store(&f->admission.handling, 4);
    (void)SEND(f, GOOD);
    expect_later(f, FAULT_SATURATED);
    assert_int_equal(SEND(f, .method = "POST", .path = "/raw", .body = "x", .type = "application/raw"), 503);
    assert_int_equal(SEND(f, .method = "GET", .path = "/probe"), 200);
    ran = 0;
    assert_fault(bulkhead_enter(api(f), clock_mono(), &permit), NONE);
    atomic_store(&f->admission.handling, 3);
    (void)SEND(f, GOOD); /* a place in the queue is there, a thread to wait in is not */
    expect_later(f, FAULT_SATURATED);
    assert_int_equal(authenticated, 0);
    assert_int_equal(SEND(f, .method = "POST", .path = "/raw", .body = "x", .type = "application/raw"), 200);
    permit_release(&permit);
    atomic_store(&f->admission.handling, 0);
    assert_int_equal(SEND(f, GOOD), 201);
}

static void a_tenant_with_its_share_is_refused_and_another_gets_in(void **state)
{
    struct fixture *f = *state;
    struct permit other = { 0 };
    config.bulkhead_tenant_share = 50;
    assert_fault(bulkhead_join(api(f), &other), NONE);
    assert_fault(permit_charge(&other, (struct tenant_id){ "acme" }, 50), NONE);
    (void)SEND(f, GOOD);
    expect_later(f, FAULT_SATURATED);
    permit_release(&other);
    assert_fault(bulkhead_join(api(f), &other), NONE);
    assert_fault(permit_charge(&other, (struct tenant_id){ "globex" }, 50), NONE);
    assert_int_equal(SEND(f, GOOD), 201);
    permit_release(&other);
    struct bulkhead_load load;
    bulkhead_load(api(f), &load);
    assert_int_equal(load.shares, 1);
}

static void a_mutation_is_refused_while_the_read_model_is_too_far_behind(void **state)
{
    struct fixture *f = *state;
    struct bulkhead_load load;
    lag = 11;
    (void)SEND(f, GOOD);
    expect_later(f, FAULT_SATURATED);
    bulkheads_load(f->services.bulkheads, BULKHEAD_PROJECTION, &load);
    assert_int_equal(load.waiting, 11);
    assert_int_equal(load.rejected, 1);
    assert_int_equal(SEND(f, .method = "GET", .path = "/things/a%20b", .query = "limit=5", ADMIN), 200);
    lag = 10;
    assert_int_equal(SEND(f, GOOD), 201);
}

static void a_draining_server_answers_probes_only(void **state)
{
    struct fixture *f = *state;
    atomic_store(&f->core.draining, true);
    (void)SEND(f, GOOD);
    expect_later(f, FAULT_CANCELLED);
    assert_true(f->response.close);
    assert_int_equal(SEND(f, .method = "GET", .path = "/probe"), 200);
    assert_int_equal(claimed, 0);
}

static void a_refused_claim_runs_nothing(void **state)
{
    struct fixture *f = *state;
    claim_says = FAULT(IDEMPOTENCY_KEY_REUSED);
    assert_int_equal(SEND(f, GOOD), 409);
    assert_int_equal(ran + recorded + released, 0);
    claim_says = OK;
    claim_replays = true;
    assert_int_equal(SEND(f, GOOD), 201);
    assert_true(span_equal_text(f->response.body, "{}"));
    assert_int_equal(ran + recorded + released, 0);
}

static void an_abandoned_claim_runs_anew_and_a_handler_cannot_pass_over_a_refused_one(void **state)
{
    struct fixture *f = *state;
    claim_is_abandoned = true;
    assert_int_equal(SEND(f, GOOD), 201);
    assert_int_equal(ran, 1); /* the first time it ended at its first question */
    assert_int_equal(recorded, 1);
    handler_ignores = true;
    claim_is_abandoned = false;
    claim_says = FAULT(IDEMPOTENCY_IN_PROGRESS);
    recorded = 0;
    assert_int_equal(SEND(f, GOOD), 409);
    claim_says = OK;
    claim_replays = true;
    assert_int_equal(SEND(f, GOOD), 201);
    assert_true(span_equal_text(f->response.body, "{}"));
    assert_int_equal(recorded, 0);
}

static void a_body_that_does_not_decode_gives_the_key_back(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(SEND(f, .method = "POST", .path = "/things", .body = "{\"name\":7}", ADMIN, .key = "k"), 400);
    assert_int_equal(f->response.fault, FAULT_JSON_FIELD);
    assert_int_equal(claimed, 1);
    assert_int_equal(released, 1);
    assert_int_equal(ran + recorded, 0);
}

static void passing_trouble_gives_the_key_back_and_a_decision_is_kept(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct fault fault;
        bool kept;
    } cases[] = {
        { FAULT(DEADLINE), false },       { FAULT(SIGNER_UNAVAILABLE), false }, { FAULT(TX_CONFLICT), false },
        { FAULT(TOKEN_PIN), false },      { FAULT(KEY_NOT_FOUND), true },       { FAULT(APPROVAL_REQUIRED), true },
        { FAULT(PREVIEW_CHANGED), true }, { FAULT(CODESIGN_DISABLED), true },   { FAULT(INTERNAL), true },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        recorded = released = 0;
        handler_says = cases[i].fault;
        int status = SEND(f, GOOD);
        assert_int_equal(status, fault_row(cases[i].fault.code)->http);
        assert_int_equal(recorded, cases[i].kept);
        assert_int_equal(released, !cases[i].kept);
        assert_null(header(f, "X-Handler"));
        if (cases[i].kept) {
            assert_int_equal(recorded_status, status);
        }
    }
}

static void an_answer_that_cannot_be_kept_is_indeterminate(void **state)
{
    struct fixture *f = *state;
    record_says = FAULT(IDEMPOTENCY_INDETERMINATE);
    assert_int_equal(SEND(f, GOOD), 409);
    assert_int_equal(f->response.fault, FAULT_IDEMPOTENCY_INDETERMINATE);
    assert_null(header(f, "X-Handler"));
    assert_int_equal(released, 0);
}

static void a_secret_is_sent_and_not_kept(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(SEND(f, .method = "POST", .path = "/tokens", .body = "{\"name\":\"x\"}", ADMIN, .key = "k"), 201);
    assert_true(recorded_secret);
    assert_true(f->response.body.len > 0);
    assert_int_equal(SEND(f, GOOD), 201);
    assert_false(recorded_secret);
    handler_says = FAULT(KEY_EXISTS); /* a refusal holds no secret */
    assert_int_equal(SEND(f, .method = "POST", .path = "/tokens", .body = "{\"name\":\"x\"}", ADMIN, .key = "k"), 409);
    assert_false(recorded_secret);
}

static void a_handler_that_answers_nothing_is_a_defect(void **state)
{
    struct fixture *f = *state;
    handler_is_silent = true;
    assert_int_equal(SEND(f, .method = "POST", .path = "/preview", .body = "{\"name\":\"x\"}", ADMIN), 500);
}

static void a_good_mutation_is_claimed_run_and_recorded(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(SEND(f, GOOD), 201);
    assert_true(span_equal_text(f->response.body, "{\"name\":\"x\"}"));
    assert_string_equal(header(f, "X-Handler"), "was here");
    assert_string_equal(f->match.label, "/things");
    assert_int_equal(claimed, 1);
    assert_int_equal(recorded, 1);
    assert_int_equal(recorded_status, 201);
    assert_string_not_equal(f->op->command_id.text, "");
}

static void a_handler_sees_path_query_and_headers(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(SEND(f, .method = "GET", .path = "/things/a%20b", .query = "limit=5", ADMIN), 200);
    assert_true(span_equal_text(f->response.body, "thing"));
    assert_string_equal(f->response.content_type, "text/plain");
    assert_int_equal(SEND(f, .method = "HEAD", .path = "/things/a%20b", .query = "limit=5", ADMIN), 200);
    assert_int_equal(claimed, 0);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(what_is_refused_never_reaches_claim_or_handler),
        WITH(a_size_that_is_too_large_is_refused_before_anybody_is_asked),
        WITH(another_method_gets_the_allow_header),
        WITH(framing_that_is_not_certain_closes_the_connection),
        WITH(a_full_bulkhead_refuses_before_anybody_is_asked),
        WITH(who_waits_in_vain_for_a_turn_is_refused),
        WITH(a_full_listener_refuses_and_keeps_its_last_threads_from_those_who_would_wait),
        WITH(a_tenant_with_its_share_is_refused_and_another_gets_in),
        WITH(a_mutation_is_refused_while_the_read_model_is_too_far_behind),
        WITH(a_draining_server_answers_probes_only),
        WITH(a_refused_claim_runs_nothing),
        WITH(an_abandoned_claim_runs_anew_and_a_handler_cannot_pass_over_a_refused_one),
        WITH(a_body_that_does_not_decode_gives_the_key_back),
        WITH(passing_trouble_gives_the_key_back_and_a_decision_is_kept),
        WITH(an_answer_that_cannot_be_kept_is_indeterminate),
        WITH(a_secret_is_sent_and_not_kept),
        WITH(a_handler_that_answers_nothing_is_a_defect),
        WITH(a_good_mutation_is_claimed_run_and_recorded),
        WITH(a_handler_sees_path_query_and_headers),
    };
    return cmocka_run_group_tests_name("dispatch", tests, NULL, NULL);
}
