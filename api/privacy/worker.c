/* The worker of erasures: one at a time, one step after the other, from wherever the read model says that it is. */
#include "api/privacy/internal.h"

#include "api/keys/seal.h"
#include "appliance/base/log.h"

#define EVENT_MAX 4096
#define STEP_NS   (3600 * NS_PER_S)

static struct fault unseal(struct op *op, struct services *services, const struct erasure *erasure,
                           struct privacy_subject *ret_subject)
{
    CLEANUP(buf_free) struct buf plain = BUF_INIT(OP_SUBJECT_MAX + 1);
    const char *text = NULL;
    TRY(keys_unseal(op, services, span_text(erasure->id.text), erasure->sealed, &plain));
    TRY(buf_cstr(&plain, &text));
    return privacy_subject_make(op, text, erasure->id, ret_subject);
}

/* Nothing that time would change. Where the log itself is in doubt nobody may say so. */
static bool is_lasting(struct fault fault)
{
    return fault_row(fault.code)->retry == FAULT_RETRY_NO && fault.code != FAULT_LOG_UNTRUSTED &&
           fault.code != FAULT_LOG_UNSAFE && fault.code != FAULT_CONFLICT && fault.code != FAULT_CANCELLED;
}

static struct fault record_failure(struct op *op, struct services *services, const struct erasure *erasure,
                                   struct fault why)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    uint64_t seq = 0;
    struct jout jout;
    char detail[sizeof(op->note.detail)];
    memcpy(detail, op->note.detail, sizeof(detail));
    log_fault(LOG_LEVEL_WARN, "privacy_erasure_failed", op, why);
    op->note = (struct fault_note){ 0 };
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "code", fault_row(why.code)->text);
    jout_key_text(&jout, "detail", detail);
    jout_key_text(&jout, "erasure_id", erasure->id.text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(privacy_append(op, services, EVENTS_PRIVACY_LANE, EVENT_FAILED, erasure->id, "failed", &data, NULL, &seq));
    return projector_wait(op, services->projector, seq);
}

static struct fault work_on(struct op *op, struct services *services, const struct erasure *erasure)
{
    struct privacy_subject subject;
    bool requested = strcmp(erasure->state, "requested") == 0;
    struct fault fault = unseal(op, services, erasure, &subject);
    if (!requested) {
        TRY(fault);
        return erasure_scrub(op, services, erasure, &subject);
    }
    if (!FAULTED(fault)) {
        fault = erasure_rewrite(op, services, erasure, &subject);
    }
    return FAULTED(fault) && is_lasting(fault) ? record_failure(op, services, erasure, fault) : fault;
}

struct fault privacy_work(struct op *op, struct services *services)
{
    struct erasure erasure;
    bool found = false;
    struct tenant_id before = op->tenant;
    TRY(erasure_next(op, services, &found, &erasure));
    if (!found) {
        return OK;
    }
    op->tenant = erasure.tenant;
    op->deadline = clock_mono() + STEP_NS;
    struct fault fault = work_on(op, services, &erasure);
    op->tenant = before;
    return fault;
}
