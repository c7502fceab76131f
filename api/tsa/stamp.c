/* Stamps that are made together: the same unit, one exchange with the signer, one entry in the record. */
#include "api/tsa/stamp.h"

#include "appliance/base/json.h"

#include <stdio.h>

#define EVENT_DATA_MAX 2048

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

static struct fault draft(struct stamping *stamping, struct tsa_stamp *stamp)
{
    struct tsa *tsa = stamping->tsa;
    const struct config *config = tsa->settings.config;
    stamp->statement = (struct tsa_statement){ .request = stamp->request,
                                               .policy = stamp->policy,
                                               .digits = (unsigned)config->tsa_time_digits,
                                               .name = config->tsa_name_stated };
    TRY(take_time(stamping->op, tsa, stamping->held->unit, &stamp->statement.time));
    TRY(tsa_serial_next(stamping->op, stamping->services, tsa->serials, &stamp->statement.serial));
    return tsa_draft(stamping->held->unit, &stamp->statement, &stamp->draft);
}

struct fault stamping_sign(struct stamping *stamping)
{
    const struct tsa_draft *drafts[TSA_BATCH_MAX];
    struct op *op = stamping->op;
    if (stamping->held->unit == NULL) {
        return op_fail(op, FAULT(TSA_NO_UNIT),
                       "no time-stamping unit with a valid certificate is in place; the operator has to certify or "
                       "activate one");
    }
    for (size_t i = 0; i < stamping->count; i++) {
        TRY(draft(stamping, stamping->stamps[i]));
        drafts[i] = &stamping->stamps[i]->draft;
    }
    return tsa_drafts_sign(op, stamping->services->signer, stamping->held->unit, drafts, stamping->count,
                           &stamping->signature_bytes, stamping->signatures);
}

/* The first one of all and each so many-th; the path of a unit's certificate once, as it is the same for all. */
static struct fault check(struct stamping *stamping, const struct tsa_stamp *stamp)
{
    struct tsa *tsa = stamping->tsa;
    struct tsa_snapshot *held = stamping->held;
    uint64_t every = (uint64_t)tsa->settings.config->tsa_verify_every;
    if (every == 0) {
        return OK;
    }
    bool proven = atomic_load_explicit(&held->proven, memory_order_relaxed);
    bool due = atomic_fetch_add_explicit(&tsa->made, 1, memory_order_relaxed) % every == 0;
    if (proven && !due) {
        return OK;
    }
    struct fault fault = tsa_check(stamping->op, held->unit, &stamp->statement, stamp->token, !proven);
    if (!FAULTED(fault)) {
        atomic_store_explicit(&held->proven, true, memory_order_relaxed);
    }
    metrics_add(stamping->services->metrics, &tsa_metrics[TSA_METRIC_CHECKS], 1,
                (const char *const[]){ FAULTED(fault) ? "failed" : "passed" });
    return fault;
}

/* What is recorded of a stamp: appended to `out`. */
static struct fault describe(const struct tsa_unit *unit, const struct tsa_stamp *stamp, struct buf *out)
{
    char policy[DER_OID_TEXT_MAX];
    char serial[24];
    struct sha256 digest;
    TRY(der_oid_print(stamp->policy, policy));
    TRY(sha256_of(stamp->token, &digest));
    (void)snprintf(serial, sizeof(serial), "%llu", (unsigned long long)stamp->statement.serial);
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_time(&json, "gen_time", stamp->statement.time);
    jout_key_text(&json, "hash_algorithm", stamp->hash->name);
    jout_key_hex(&json, "imprint", stamp->request->digest);
    jout_key_text(&json, "key_id", unit->ref.id.text);
    jout_key_text(&json, "policy", policy);
    jout_key_text(&json, "serial", serial); /* text: 64 bits are more than a JSON number keeps */
    jout_key_hex(&json, "token_sha256", SPAN_ARRAY(digest.at));
    jout_object_end(&json);
    return jout_end(&json);
}

static struct fault finish(struct stamping *stamping, struct buf *data, size_t ends[TSA_BATCH_MAX])
{
    const struct tsa_unit *unit = stamping->held->unit;
    for (size_t i = 0; i < stamping->count; i++) {
        struct tsa_stamp *stamp = stamping->stamps[i];
        TRY(tsa_draft_finish(stamp->op, unit, &stamp->statement, &stamp->draft, stamping->signatures[i],
                             &stamp->token));
        TRY(check(stamping, stamp));
        TRY(describe(unit, stamp, data));
        ends[i] = data->len;
    }
    return OK;
}

struct fault stamping_finish(struct stamping *stamping)
{
    struct span events[TSA_BATCH_MAX];
    size_t ends[TSA_BATCH_MAX];
    CLEANUP(buf_free) struct buf data = BUF_INIT(TSA_BATCH_MAX * EVENT_DATA_MAX);
    struct tsa_recorder *recorder = stamping->tsa->recorder;
    struct fault fault = finish(stamping, &data, ends);
    for (size_t i = 0; !FAULTED(fault) && i < stamping->count; i++) {
        size_t from = i > 0 ? ends[i - 1] : 0;
        events[i] = span_of(data.at + from, ends[i] - from);
    }
    tsa_record_arrived(recorder, stamping->begun);
    TRY(fault);
    return tsa_record(stamping->op, stamping->services->log, recorder, events, stamping->count, &stamping->sequence);
}
