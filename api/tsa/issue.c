#include "api/tsa/internal.h"

#include "appliance/base/json.h"
#include "appliance/base/log.h"

#include <stdio.h>

/* The time is taken once, to the millisecond that the token will state. */
static struct fault take_time(struct op *op, const struct services *services, utc_us *ret_time)
{
    const struct tsa_unit *unit = services->tsa->unit;
    utc_us now = 0;
    TRY(clock_watch_now(op, services->tsa->clock, &now));
    now -= now % 1000;
    if (now < unit->not_before || now > unit->not_after) {
        return op_fail(op, FAULT(TSA_TIME), "the certificate of the time-stamping unit is not valid at this time");
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

/* Nothing leaves before its event is durable. */
static struct fault issue(struct op *op, const struct services *services, const struct tsq *request,
                          const struct tst_hash *hash, struct span policy, struct span *ret_token)
{
    const struct tsa *tsa = services->tsa;
    struct tsa_statement statement = { .request = request, .policy = policy };
    struct span token;
    TRY(take_time(op, services, &statement.time));
    TRY(tsa_serial_next(op, services, tsa->serials, &statement.serial));
    TRY(tsa_token(op, tsa->unit, &statement, &token));
    CLEANUP(buf_free) struct buf data = BUF_INIT(2048);
    TRY(describe(tsa->unit, &statement, hash, token, &data));
    TRY(tsa_record(op, services->log, tsa->recorder, buf_span(&data)));
    *ret_token = token;
    return OK;
}

static struct fault grant(struct op *op, const struct services *services, struct span body, struct span *ret_reply)
{
    struct tsq request;
    const struct tst_hash *hash = NULL;
    struct span policy;
    struct span token;
    TRY(tsq_parse(op, body, &request));
    TRY(tsq_judge(op, &services->tsa->rules, &request, &hash, &policy));
    TRY(issue(op, services, &request, hash, policy, &token));
    return tsa_reply_granted(op, token, ret_reply);
}

struct fault tsa_answer(struct op *op, const struct services *services, struct span request, struct span *ret_reply)
{
    mono_ns begun = clock_mono();
    struct fault fault = grant(op, services, request, ret_reply);
    const char *result = tsa_result_text(fault);
    metrics_add(services->metrics, &tsa_metrics[TSA_METRIC_TIMESTAMPS], 1, (const char *const[]){ result });
    metrics_observe(services->metrics, &tsa_metrics[TSA_METRIC_SECONDS],
                    (double)(clock_mono() - begun) / (double)NS_PER_S, NULL);
    if (!FAULTED(fault)) {
        return OK;
    }
    if (strcmp(result, "system_failure") == 0) {
        log_fault(LOG_LEVEL_WARN, "tsa_not_issued", op, fault);
    }
    const char *text = op->note.set && op->note.detail[0] != '\0' ? op->note.detail : fault_row(fault.code)->title;
    return tsa_reply_refused(op, fault, text, ret_reply);
}
