/* A throw-away sealing key: bytes sealed come back, and altered ones or those of another context do not. */
#include "signer-pkcs11/doctor/internal.h"

#define SAMPLES_MAX 100
#define SAMPLING_NS (1 * NS_PER_S)

struct sealing {
    struct doctor *doctor;
    struct key_ref key;
    size_t samples;
    int64_t ns[SAMPLES_MAX];
};

static const struct cure key_cures[] = {
    { "omit:CKA_WRAP", 0 },
    { "omit:CKA_UNWRAP", 0 },
    { "omit:CKA_SIGN", 0 },
    { "omit:CKA_VERIFY", 0 },
    { "short-labels", 0 },
    { "id-text", 1 },
    { "id-none", 1 },
    { "omit:CKA_PRIVATE", CURE_ALONE },
    { "omit:CKA_EXTRACTABLE", CURE_ALONE },
    { "omit:CKA_SENSITIVE", CURE_ALONE },
    { "allowed-mechanisms", CURE_ALONE },
};
static const struct cure gcm_cures[] = {
    { "gcm-no-iv-bits", 0 },
    { "gcm-token-iv", 1 },
    { "gcm-host-iv", 1 },
};

static struct fault remove_key(struct op *op, struct token_session *session, void *arg)
{
    struct sealing *sealing = arg;
    return token_destroy(op, session, &sealing->key);
}

static struct fault generate(struct op *op, struct token_session *session, void *arg)
{
    struct sealing *sealing = arg;
    CLEANUP(buf_free) struct buf none = BUF_INIT(16);
    struct fault fault = token_generate(op, session, &sealing->key, KEY_ALGORITHM_AES_256, &none);
    if (FAULTED(fault)) {
        CLEANUP(op_freep) struct op *other = NULL;
        if (!FAULTED(op_new("svc-doctor", (struct tenant_id){ 0 }, OPERATION_MS, &other))) {
            IGNORE(token_destroy(other, session, &sealing->key));
        }
    }
    return fault;
}

static struct fault must_not_open(struct op *op, struct token_session *session, struct sealing *sealing,
                                  const char *context, struct span sealed)
{
    CLEANUP(buf_free) struct buf plain = BUF_INIT(256);
    struct fault fault = token_unseal(op, session, &sealing->key, span_text(context), sealed, &plain);
    op->note = (struct fault_note){ 0 };
    return fault.code == FAULT_UNSEAL ? OK
                                      : op_fail(op, FAULT(INTERNAL),
                                                "altered bytes, or those of another context, are "
                                                "not refused as they should be");
}

static struct fault round_trip(struct op *op, struct token_session *session, void *arg)
{
    struct sealing *sealing = arg;
    static const char secret[] = "svc-signer doctor";
    CLEANUP(buf_free) struct buf last = BUF_INIT(256);
    mono_ns until = clock_mono() + SAMPLING_NS;
    sealing->samples = 0;
    do {
        CLEANUP(buf_free) struct buf plain = BUF_INIT(256);
        buf_clear(&last);
        mono_ns begun = clock_mono();
        TRY(token_seal(op, session, &sealing->key, span_text("context"), SPAN_ARRAY(secret), &last));
        TRY(token_unseal(op, session, &sealing->key, span_text("context"), buf_span(&last), &plain));
        sealing->ns[sealing->samples++] = clock_mono() - begun;
        if (!span_equal(buf_span(&plain), SPAN_ARRAY(secret))) {
            return op_fail(op, FAULT(INTERNAL), "other bytes come out than went in");
        }
    } while (sealing->samples < SAMPLES_MAX && clock_mono() < until);
    TRY(must_not_open(op, session, sealing, "another", buf_span(&last)));
    last.at[last.len - 1] ^= 1;
    return must_not_open(op, session, sealing, "context", buf_span(&last));
}

bool try_sealing(struct doctor *doctor)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct sealing sealing = { .doctor = doctor, .key = trial_key("aes-256") };
    const struct mechanisms *has = &doctor->token->module.has;
    if (!has->aes_generate || !has->aes_gcm) {
        report_step(doctor->report, "aes-256 generate", STEP_SKIPPED, "", "the token lists no mechanism for it");
        return true;
    }
    if (!FAULTED(attempt(doctor, remove_key, &sealing, NULL))) {
        report_step(doctor->report, "aes-256 generate", STEP_NOTE, "",
                    "removed a key that an interrupted run had left");
    }
    const struct remedy making = { generate, remove_key, &sealing }, using = { round_trip, NULL, &sealing };
    if (cure_step(doctor, "aes-256 generate", key_cures, COUNT_OF(key_cures), &making)) {
        if (cure_step(doctor, "aes-256 seal and unseal", gcm_cures, COUNT_OF(gcm_cures), &using)) {
            report_times(doctor->report, "aes-256 seal and unseal", sealing.ns, sealing.samples);
        }
        watch_step(doctor->watch, "aes-256 destroy");
        struct fault fault = attempt(doctor, remove_key, &sealing, &op);
        if (FAULTED(fault)) {
            report_op(doctor->report, "aes-256 destroy", op, fault);
        } else {
            report_step(doctor->report, "aes-256 destroy", STEP_OK, "", "nothing is left");
        }
    }
    return !atomic_load(&doctor->token->pin_refused);
}
