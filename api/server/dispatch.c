#include "api/server/admission.h"
#include "api/server/idempotency.h"
#include "api/server/problem.h"
#include "api/server/rate.h"
#include "api/server/reconcile.h"
#include "api/server/spine_metrics.h"
#include "api/server/trace.h"
#include "appliance/base/log.h"
#include "appliance/base/tracing.h"

struct exchange {
    struct core *core;
    struct op *op;
    struct message *message;
    struct response *response;
    struct request request;
    struct request_private inside;
    const char *allow; /* set when only other methods match */
    bool charged;      /* the request has cost its tenant a token */
    bool ran;          /* the handler was entered */
    struct stay stay;
};

static struct fault find_route(struct exchange *x)
{
    struct fault fault = message_check(x->op, x->message);
    if (FAULTED(fault)) {
        x->response->close = true; /* where this request ends is not certain */
        return fault;
    }
    struct path path;
    TRY(path_split(x->op, x->message->path, &path));
    TRY(router_match(x->op, x->core->router, x->message->listener, x->message->method, &path, &x->inside.match,
                     &x->allow));
    x->request.route = x->inside.match.route;
    x->op->sampled = x->op->sampled && (x->request.route->flags & ROUTE_PROBE) == 0;
    return OK;
}

static struct fault join(struct exchange *x)
{
    struct fault fault = admission_join(x->op, x->core, x->message->admission, x->request.route, &x->stay);
    x->response->close = x->response->close || fault.code == FAULT_CANCELLED;
    return fault;
}

static struct fault check_size(struct exchange *x)
{
    const struct route *route = x->request.route;
    size_t limit = route->body_max != 0 ? route->body_max : (size_t)x->core->services->config->http_body_max;
    if (x->message->content_length > limit) {
        return op_fail(x->op, FAULT(TOO_LARGE), "the body is %zu bytes; this route takes at most %zu",
                       x->message->content_length, limit);
    }
    return OK;
}

static struct fault identify(struct exchange *x)
{
    const struct services *services = x->core->services;
    enum permission permission = x->request.route->permission;
    if (permission == PERMISSION_PUBLIC) {
        return OK;
    }
    TRY(identity_authenticate(x->op, services->identity, services->store, message_header(x->message, "Authorization")));
    trace_caller_known(x->op, x->message);
    if (permission != PERMISSION_NONE && !principal_may(&x->op->principal, permission)) {
        return op_fail(x->op, FAULT(FORBIDDEN), "the caller's roles do not have the permission %s",
                       permission_text(permission));
    }
    return OK;
}

/* Public routes have no tenant; a server without a budget has no limit. */
static struct fault charge(struct exchange *x)
{
    struct rate *rate = x->core->services->rate;
    if (rate == NULL || x->request.route->permission == PERMISSION_PUBLIC) {
        return OK;
    }
    TRY(rate_take(x->op, rate));
    x->charged = true;
    return OK;
}

/* A refusal that asks to come again, before anything was done, costs nothing. What timed out has cost us. */
static void refund(const struct exchange *x, struct fault fault)
{
    if (x->charged && FAULTED(fault) && fault_row(fault.code)->http == 503 && !x->ran) {
        rate_refund(x->op, x->core->services->rate);
    }
}

static struct fault check_body_kind(struct exchange *x)
{
    const struct route *route = x->request.route;
    bool takes_body = route->body != NULL || (route->flags & ROUTE_RAW_BODY) != 0;
    if (!takes_body) {
        if (x->message->content_length > 0) {
            return op_fail(x->op, FAULT(BAD_ARGUMENT), "this route takes no body");
        }
        return OK;
    }
    if (message_header(x->message, "Content-Length") == NULL) {
        return op_fail(x->op, FAULT(LENGTH_REQUIRED), "send the body with Content-Length");
    }
    return message_check_content_type(x->op, x->message,
                                      route->content_type != NULL ? route->content_type : "application/json");
}

static struct fault read_body(struct exchange *x)
{
    size_t len = x->message->content_length;
    if (len == 0) {
        return OK;
    }
    uint8_t *at = NULL;
    TRY(arena_take(x->op->arena, len, 1, &at));
    x->message->body_read = true;
    struct fault fault = x->message->read_body(x->message->arg, at, len);
    if (FAULTED(fault)) {
        x->response->close = true;
        return op_fail(x->op, FAULT(BAD_ARGUMENT), "the body did not arrive whole");
    }
    x->request.raw_body = span_of(at, len);
    return OK;
}

struct fault body_decode(struct op *op, const struct route *route, struct span body, void **ret_struct)
{
    void *made = NULL;
    TRY(arena_take(op->arena, 1, route->body_size, &made));
    TRY(jin_decode(op, body, route->body, route->body_count, made));
    *ret_struct = made;
    return OK;
}

/* *ret_ran: the handler was entered, so there may be an effect. */
static struct fault run(struct exchange *x, bool *ret_ran)
{
    *ret_ran = false;
    if (x->request.route->body != NULL) {
        TRY(body_decode(x->op, x->request.route, x->request.raw_body, &x->request.body));
    }
    *ret_ran = x->ran = true;
    TRY(x->request.route->handler(&x->request));
    if (x->response->status == 0) {
        op_note_log(x->op, "the handler of %s answered nothing", x->request.route->name);
        return FAULT(INTERNAL);
    }
    return x->response->streams ? x->message->stream->end(x->message->arg) : OK;
}

/* What a retry with the same key may run again: the same command id makes it the same command. */
static bool worth_repeating(struct fault fault)
{
    const struct fault_row *row = fault_row(fault.code);
    return row->retry == FAULT_RETRY_LATER || row->http == 503;
}

static struct fault settle(struct exchange *x, const struct idempotency_claim *claim, struct fault fault, bool ran)
{
    struct store *store = x->core->services->store;
    if (FAULTED(fault) && (!ran || worth_repeating(fault))) {
        idempotency_release(x->op, store, claim);
        return fault;
    }
    bool secret = !FAULTED(fault) && (x->request.route->flags & ROUTE_SECRET_ANSWER) != 0;
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_DEBUG, "command_refused", x->op, fault);
        problem_fill(x->op, fault, x->response);
    }
    return idempotency_record(x->op, store, claim, x->response, secret);
}

/* The handler ran behind a claim that is on its way, as far as its first question to the database or its first effect.
 * Where the claim was ours it went on from there; where it was not, it has done nothing. Where it never got so far, its
 * end counts, once the claim is known to be ours. *ret_ours false: the response is the kept one. */
static struct fault await_claim(struct exchange *x, struct idempotency_claim *claim, bool *ret_ours,
                                struct fault *fault, bool *ran)
{
    const struct fault_note note = x->op->note;
    bool asked = claim->state != IDEMPOTENCY_SENT, was_ours = claim->state == IDEMPOTENCY_OURS;
    if (!was_ours) {
        TRY(idempotency_await(claim));
    }
    *ret_ours = claim->state == IDEMPOTENCY_OURS;
    if (was_ours || !*ret_ours) {
        return OK;
    }
    if (!asked) {
        x->op->note = note;
        return OK;
    }
    bool close = x->response->close; /* ours by now: what ran before has done nothing, so it runs anew */
    response_clear(x->response);
    x->response->close = close;
    x->op->note = (struct fault_note){ .set = false };
    x->op->recorded = OP_RECORDED_NOTHING;
    x->op->recorded_seq = 0;
    *fault = run(x, ran);
    return OK;
}

static struct fault run_once(struct exchange *x)
{
    const struct services *services = x->core->services;
    struct idempotency_request wanted = { .key = message_header(x->message, "Idempotency-Key"),
                                          .route = x->request.route->name,
                                          .method = x->message->method,
                                          .path = x->message->path,
                                          .query = x->message->query,
                                          .body = x->request.raw_body,
                                          .instance = services->instance };
    struct idempotency_claim claim = { 0 };
    bool ran = false;
    bool ours = false;
    TRY(TRACED(x->op, TRACE_INTERNAL, "idempotency claim", NULL, NULL,
               idempotency_begin(x->op, services->store, &wanted, &claim, x->response)));
    struct fault fault = run(x, &ran);
    struct fault claimed = await_claim(x, &claim, &ours, &fault, &ran);
    spine_claimed(services, claimed, ours);
    TRY(claimed);
    return ours ? settle(x, &claim, fault, ran) : OK;
}

static struct fault serve(struct exchange *x)
{
    TRY(find_route(x));
    TRY(join(x));
    TRY(check_size(x));
    TRY(identify(x));
    TRY(charge(x));
    TRY(admission_turn(x->op, x->core, x->request.route, &x->stay));
    TRY(idempotency_key_check(x->op, x->request.route, message_header(x->message, "Idempotency-Key")));
    TRY(check_body_kind(x));
    TRY(query_parse(x->op, x->message->query, x->request.route->query, &x->inside.query));
    TRY(read_body(x));
    if ((x->request.route->flags & ROUTE_MUTATION) != 0) {
        return run_once(x);
    }
    bool ran = false;
    TRY(run(x, &ran));
    if (x->request.route->method != ROUTE_GET && (x->request.route->flags & ROUTE_EFFECT_FREE) == 0) {
        reconcile_answered(x->op, x->core->services, x->request.route);
    }
    return OK;
}

static void log_failure(const struct op *op, struct fault fault)
{
    const struct fault_row *row = fault_row(fault.code);
    if (row->http >= 500 && fault.code != FAULT_SATURATED && fault.code != FAULT_CANCELLED) {
        log_fault(row->retry == FAULT_RETRY_LATER ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR, "request_failed", op, fault);
    }
}

/* The head is with the client already: what is left to say is that the answer is not whole, by cutting it. */
static void cut_off(const struct op *op, struct fault fault, struct response *response)
{
    response->close = true;
    response->fault = fault.code;
    log_fault(fault.code == FAULT_IO ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "answer_cut_off", op, fault);
}

void dispatch(struct core *core, struct op *op, struct message *message, struct response *response,
              struct route_match *ret_match)
{
    response_clear(response);
    struct exchange x = { .core = core, .op = op, .message = message, .response = response };
    x.inside.core = core;
    x.inside.message = message;
    x.request = (struct request){ .op = op,
                                  .services = core->services,
                                  .plain = message->listener == LISTENER_PLAIN,
                                  .response = response,
                                  .private_ = &x.inside };
    struct fault fault = serve(&x);
    refund(&x, fault);
    admission_leave(&x.stay);
    if (FAULTED(fault) && response->sent) {
        cut_off(op, fault, response);
    } else if (FAULTED(fault)) {
        log_failure(op, fault);
        problem_fill(op, fault, response);
    }
    if (x.allow != NULL) {
        IGNORE(response_add(op, response, "Allow", x.allow));
    }
    *ret_match = x.inside.match;
}
