#include "api/tsa/internal.h"

#include "appliance/base/json.h"
#include "appliance/base/log.h"

#include <stdio.h>

/* The time is taken once, to the digit that the token will state. */
static struct fault take_time(struct op *op, struct tsa *tsa, const struct tsa_unit *unit, utc_us *ret_time)
{
    utc_us now = 0;
    TRY(clock_watch_now(op, tsa->clock, &now));
    now -= now % tsa_time_step((unsigned)tsa->settings.config->tsa_time_digits);
    if (now < atomic_load_explicit(&tsa->mark, memory_order_relaxed)) {
        return op_fail(op, FAULT(TSA_TIME), "%s", clock_reason_says(CLOCK_BEHIND));
    }
    if (now < unit->not_before || now >= unit->usage_end) {
        return op_fail(op, FAULT(TSA_TIME),
                       "the certificate of the time-stamping unit is not valid at this time, or its key's usage "
                       "period is over");
    }
    *ret_time = now;
    return OK;
}

static struct fault describe(const struct tsa_unit *unit, const struct tsa_statement *statement,
                             const struct tst_hash *hash, struct span token, struct buf *out)
{
    char policy[DER_OID_TEXT_MAX];
    char serial[24];
    struct sha256 digest;
    TRY(der_oid_print(statement->policy, policy));
    TRY(sha256_of(token, &digest));
    (void)snprintf(serial, sizeof(serial), "%llu", (unsigned long long)statement->serial);
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_time(&json, "gen_time", statement->time);
    jout_key_text(&json, "hash_algorithm", hash->name);
    jout_key_hex(&json, "imprint", statement->request->digest);
    jout_key_text(&json, "key_id", unit->ref.id.text);
    jout_key_text(&json, "policy", policy);
    jout_key_text(&json, "serial", serial); /* text: 64 bits are more than a JSON number keeps */
    jout_key_hex(&json, "token_sha256", SPAN_ARRAY(digest.at));
    jout_object_end(&json);
    return jout_end(&json);
}

/* The first one of all and each so many-th; the path of a unit's certificate once, as it is the same for all. */
static struct fault check(struct op *op, const struct services *services, struct tsa *tsa, struct tsa_snapshot *held,
                          const struct tsa_statement *statement, struct span token)
{
    uint64_t every = (uint64_t)tsa->settings.config->tsa_verify_every;
    if (every == 0) {
        return OK;
    }
    bool proven = atomic_load_explicit(&held->proven, memory_order_relaxed);
    bool due = atomic_fetch_add_explicit(&tsa->made, 1, memory_order_relaxed) % every == 0;
    if (proven && !due) {
        return OK;
    }
    struct fault fault = tsa_check(op, held->unit, statement, token, !proven);
    if (!FAULTED(fault)) {
        atomic_store_explicit(&held->proven, true, memory_order_relaxed);
    }
    metrics_add(services->metrics, &tsa_metrics[TSA_METRIC_CHECKS], 1,
                (const char *const[]){ FAULTED(fault) ? "failed" : "passed" });
    return fault;
}

/* The token and what is recorded of it. */
static struct fault make(struct op *op, const struct services *services, struct tsa *tsa, struct tsa_snapshot *held,
                         struct tsa_statement *statement, const struct tst_hash *hash, struct span *ret_token,
                         struct buf *data)
{
    TRY(take_time(op, tsa, held->unit, &statement->time));
    TRY(tsa_serial_next(op, services, tsa->serials, &statement->serial));
    TRY(tsa_token(op, held->unit, statement, ret_token));
    TRY(check(op, services, tsa, held, statement, *ret_token));
    return describe(held->unit, statement, hash, *ret_token, data);
}

/* Nothing leaves before its event is durable. */
static struct fault issue(struct op *op, const struct services *services, struct tsa *tsa, struct tsa_snapshot *held,
                          const struct tsq *request, const struct tst_hash *hash, struct span policy,
                          struct span *ret_token)
{
    struct tsa_statement statement = {
        .request = request,
        .policy = policy,
        .digits = (unsigned)tsa->settings.config->tsa_time_digits,
        .name = tsa->settings.config->tsa_name_stated,
    };
    struct span token;
    CLEANUP(buf_free) struct buf data = BUF_INIT(2048);
    mono_ns begun = tsa_record_expect(tsa->recorder);
    struct fault fault = make(op, services, tsa, held, &statement, hash, &token, &data);
    tsa_record_arrived(tsa->recorder, begun);
    TRY(fault);
    TRY(tsa_record(op, services->log, tsa->recorder, buf_span(&data)));
    *ret_token = token;
    return OK;
}

/* With the unit that is in place now, until the token is made: never another one. */
static struct fault issue_now(struct op *op, const struct services *services, struct tsa *tsa,
                              const struct tsq *request, const struct tst_hash *hash, struct span policy,
                              struct span *ret_token)
{
    struct tsa_snapshot *held = tsa_current_take(&tsa->current);
    struct fault fault = held->unit != NULL ? issue(op, services, tsa, held, request, hash, policy, ret_token)
                                            : op_fail(op, FAULT(TSA_NO_UNIT),
                                                      "no time-stamping unit with a valid certificate is in "
                                                      "place; the operator has to certify or activate one");
    tsa_current_give(&tsa->current, held);
    return fault;
}

struct fault tsa_grant(struct op *op, const struct services *services, struct tsa *tsa, struct span body,
                       struct span *ret_token)
{
    struct tsq request;
    const struct tst_hash *hash = NULL;
    struct span policy;
    TRY(tsq_parse(op, body, &request));
    TRY(tsq_judge(op, &tsa->rules, &request, &hash, &policy));
    return issue_now(op, services, tsa, &request, hash, policy, ret_token);
}

struct fault tsa_answer(struct op *op, const struct services *services, struct tsa *tsa, struct span request,
                        struct span *ret_reply)
{
    mono_ns begun = clock_mono();
    struct span token = { 0 };
    struct fault fault = tsa_grant(op, services, tsa, request, &token);
    fault = FAULTED(fault) ? fault : tsa_reply_granted(op, token, ret_reply);
    const char *result = tsa_result_text(fault);
    metrics_add(services->metrics, &tsa_metrics[TSA_METRIC_TIMESTAMPS], 1, (const char *const[]){ result });
    metrics_observe(services->metrics, &tsa_metrics[TSA_METRIC_SECONDS],
                    (double)(clock_mono() - begun) / (double)NS_PER_S, NULL);
    if (!FAULTED(fault)) {
        return OK;
    }
    op_changed_nothing(op);
    if (strcmp(result, "system_failure") == 0) {
        log_fault(LOG_LEVEL_WARN, "tsa_not_issued", op, fault);
    }
    const char *text = op->note.set && op->note.detail[0] != '\0' ? op->note.detail : fault_row(fault.code)->title;
    return tsa_reply_refused(op, fault, text, ret_reply);
}
