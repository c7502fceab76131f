#include "api/tsa/qualify.h"

#include "appliance/base/json.h"

static const char *const names[QUALIFY_COUNT] = {
#define X(symbol, name, doc) [QUALIFY_##symbol] = (name),
    QUALIFY_X(X)
#undef X
};

const char *qualify_name(enum qualify_condition condition)
{
    return names[condition];
}

void qualify_find(struct qualify *qualify, enum qualify_condition condition, const char *explanation,
                  const char *recovery)
{
    BUG_IF(qualify->count == QUALIFY_FINDINGS_MAX);
    qualify->findings[qualify->count++] =
        (struct qualify_finding){ .condition = condition, .explanation = explanation, .recovery = recovery };
}

bool qualify_met(const struct qualify *qualify, enum qualify_condition condition)
{
    for (size_t i = 0; i < qualify->count; i++) {
        if (qualify->findings[i].condition == condition) {
            return false;
        }
    }
    return true;
}

void qualify_signer(struct qualify *qualify, struct fault asked, const struct signer_health *health, bool fips_required)
{
    if (FAULTED(asked)) {
        qualify_find(
            qualify, QUALIFY_SIGNER, "The signer does not answer.",
            "See whether svc-signer runs (svc-cli health, the supervisor's log); it is started again by itself.");
        return;
    }
    if (health->state == SIGNER_DOWN) {
        qualify_find(
            qualify, QUALIFY_SIGNER, "The signer answers, but its token does not work.",
            "Look at the token: power, connection, PIN, free sessions; the signer takes it up again by itself.");
    }
    if (!health->self_test_passed) {
        qualify_find(
            qualify, QUALIFY_SIGNER, "The signer's self-test has not passed.",
            "Start the appliance again; if it stays, replace the cryptographic module by the one that was built in.");
    }
    if (fips_required && !health->fips_active) {
        qualify_find(qualify, QUALIFY_SIGNER, "The signer works without the FIPS module that is required here.",
                     "Install the FIPS provider that this build was made with, and start again.");
    }
}

void qualify_audit(struct qualify *qualify, struct fault asked, const struct event_log_state *log,
                   const struct projector_state *projection, int64_t replicas)
{
    if (FAULTED(asked) || !log->connected) {
        qualify_find(
            qualify, QUALIFY_AUDIT, "The event log is not reachable: nothing can be recorded, so nothing is stamped.",
            "See whether the event log's servers run and can be reached; the connection comes back by itself.");
        return;
    }
    if (log->replicas_actual < (unsigned)replicas) {
        qualify_find(qualify, QUALIFY_AUDIT, "The event log has fewer current replicas than are configured.",
                     "Bring the missing servers of the event log back, or let them catch up.");
    }
    if (log->first_missing != 0 || !projection->log_trusted) {
        qualify_find(
            qualify, QUALIFY_AUDIT, "What the event log holds differs from the verified copies.",
            "Keep everything as it is, find out what altered the log, and restore it; nothing is repaired by itself.");
    }
    if (projection->stopped_at_failure) {
        qualify_find(qualify, QUALIFY_AUDIT, "The read model has stopped at an event that does not apply.",
                     "See the log of svc-api for the event and its reason; it is tried again by itself.");
    }
}

void qualify_capacity(struct qualify *qualify, unsigned limit, unsigned queue, unsigned in_use, unsigned waiting)
{
    if (limit == 0) {
        qualify_find(qualify, QUALIFY_CAPACITY, "Requests for time stamps are not bounded.",
                     "Set bulkheads.protocol.limit to what the token can take.");
    } else if (in_use >= limit && waiting >= queue) {
        qualify_find(qualify, QUALIFY_CAPACITY, "As many requests are being handled and waiting as are allowed.",
                     "Ask again when the load is over; add instances, or raise bulkheads.protocol.limit and .queue.");
    }
}

void qualify_clock(struct qualify *qualify, const struct clock_state *state, int64_t accuracy_ms)
{
    if (state->reason != CLOCK_TRUSTED) {
        qualify_find(qualify, QUALIFY_CLOCK, clock_reason_says(state->reason), clock_reason_recovery(state->reason));
    } else if (state->bound_us > accuracy_ms * 1000) {
        qualify_find(qualify, QUALIFY_CLOCK, clock_reason_says(CLOCK_BOUND), clock_reason_recovery(CLOCK_BOUND));
    }
}

static void put_finding(struct jout *json, const struct qualify_finding *finding)
{
    jout_object(json);
    jout_key_text(json, "condition", names[finding->condition]);
    jout_key_text(json, "explanation", finding->explanation);
    jout_key_text(json, "recovery", finding->recovery);
    jout_object_end(json);
}

struct fault qualify_print(const struct qualify *qualify, const struct qualify_subject *subject, struct buf *out)
{
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_bool(&json, "ready", qualify->count == 0);
    jout_key_text(&json, "endpoint", subject->endpoint);
    jout_key_text(&json, "policy_oid", subject->policy);
    jout_key_text(&json, "clock", subject->clock);
    jout_key(&json, "conditions");
    jout_object(&json);
    for (int condition = 0; condition < QUALIFY_COUNT; condition++) {
        jout_key_bool(&json, names[condition], qualify_met(qualify, (enum qualify_condition)condition));
    }
    jout_object_end(&json);
    jout_key(&json, "unmet");
    jout_array(&json);
    for (size_t i = 0; i < qualify->count; i++) {
        put_finding(&json, &qualify->findings[i]);
    }
    jout_array_end(&json);
    jout_key(&json, "notices");
    jout_array(&json);
    if (subject->trusts_host) {
        jout_text(&json, "The clock of the host is trusted without the kernel's word for it "
                         "(protocols.tsa.clock.trust_host): for trials, not for production.");
    }
    jout_array_end(&json);
    jout_object_end(&json);
    return jout_end(&json);
}
