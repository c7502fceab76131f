#include "api/tsa/stamp.h"

#include "appliance/base/log.h"

struct fault tsa_grant(struct op *op, const struct services *services, struct tsa *tsa, struct span body,
                       struct span *ret_token)
{
    struct tsq request;
    struct tsa_stamp stamp;
    stamp.request = &request;
    TRY(tsq_parse(op, body, &request));
    TRY(tsq_judge(op, &tsa->rules, &request, &stamp.hash, &stamp.policy));
    TRY(tsa_press(op, services, tsa, &stamp));
    *ret_token = stamp.token;
    return OK;
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
