/* How many sessions the token gives, and whether it is good for many threads at once. */
#include "signer-pkcs11/doctor/internal.h"

#include "appliance/base/alloc.h"

#define SESSIONS_MAX 64
#define ROUNDS       50
#define CROWD_NS     (3 * NS_PER_S)

void try_sessions(struct doctor *doctor)
{
    struct module *module = &doctor->token->module;
    struct call call = { .gate = &module->gate };
    CK_SESSION_HANDLE open[SESSIONS_MAX];
    unsigned count = 0;
    watch_step(doctor->watch, "sessions");
    while (count < SESSIONS_MAX && !FAULTED(gate_open_session(&call, module->slot, &open[count]))) {
        count++;
    }
    unsigned all = count + atomic_load(&doctor->token->open_sessions) + 1; /* and the keeper's */
    struct call refused = { .refusal = call.refusal, .function = call.function, .rv = call.rv };
    for (unsigned i = 0; i < count; i++) {
        IGNORE(gate_close_session(&call, open[i]));
    }
    if (refused.refusal == NULL) {
        report_step(doctor->report, "sessions", STEP_OK, "", "%u open at once, and no end of it", all);
        return;
    }
    bool few = all - 1 < doctor->sessions;
    report_step(doctor->report, "sessions", few ? STEP_NOTE : STEP_OK, few ? "lower signer.sessions to that" : "",
                "%u open at once, then %s (0x%lx): %u to work with", all, refused.refusal->name, refused.rv, all - 1);
}

struct crowd {
    struct doctor *doctor;
    struct key_ref key;
    enum key_algorithm algorithm;
    enum sign_scheme scheme;
    struct buf spki;
};
struct worker {
    struct crowd *crowd;
    pthread_t thread;
    unsigned done;
    struct fault fault;
    char what[200];
};

static struct fault sign_once(struct op *op, struct token_session *session, void *arg)
{
    struct crowd *crowd = arg;
    uint8_t digest[32];
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    TRY(random_bytes(digest, sizeof(digest)));
    TRY(token_sign(op, session, &crowd->key, crowd->scheme, HASH_SHA256, SPAN_ARRAY(digest), &signature));
    struct fault fault = token_verify_under(op, buf_span(&crowd->spki), crowd->scheme, HASH_SHA256, SPAN_ARRAY(digest),
                                            buf_span(&signature));
    if (FAULTED(fault)) {
        op->note = (struct fault_note){ 0 };
        return op_fail(op, FAULT(INTERNAL), "a signature that was made beside others does not verify");
    }
    return OK;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    mono_ns until = clock_mono() + CROWD_NS;
    for (unsigned i = 0; i < ROUNDS && clock_mono() < until && !FAULTED(worker->fault); i++) {
        CLEANUP(op_freep) struct op *op = NULL;
        worker->fault = attempt(worker->crowd->doctor, sign_once, worker->crowd, &op);
        worker->done += !FAULTED(worker->fault);
        if (FAULTED(worker->fault) && op != NULL) {
            (void)snprintf(worker->what, sizeof(worker->what), "%.120s %.70s", op->note.detail, op->note.log_detail);
        }
    }
    return NULL;
}

static struct fault make(struct op *op, struct token_session *session, void *arg)
{
    struct crowd *crowd = arg;
    IGNORE(token_destroy(op, session, &crowd->key));
    op->note = (struct fault_note){ 0 };
    return token_generate(op, session, &crowd->key, crowd->algorithm, &crowd->spki);
}

static struct fault destroy(struct op *op, struct token_session *session, void *arg)
{
    struct crowd *crowd = arg;
    return token_destroy(op, session, &crowd->key);
}

static void run(struct crowd *crowd, struct worker *workers, unsigned count)
{
    struct report *report = crowd->doctor->report;
    unsigned started = 0, done = 0;
    const struct worker *bad = NULL;
    mono_ns begun = clock_mono();
    for (; started < count; started++) {
        workers[started].crowd = crowd;
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0) {
            break;
        }
    }
    for (unsigned i = 0; i < started; i++) {
        BUG_IF(pthread_join(workers[i].thread, NULL) != 0);
        done += workers[i].done;
        bad = FAULTED(workers[i].fault) && bad == NULL ? &workers[i] : bad;
    }
    mono_ns took = clock_mono() - begun;
    if (bad != NULL) {
        report_step(report, "threads", STEP_FAILED,
                    "set signer.sessions to 1, and ask the maker for a module that is safe for threads",
                    "with %u threads: %.200s", started, bad->what);
        return;
    }
    report_step(report, "threads", STEP_OK, "", "%u threads, %u signatures that verify, %lld a second", started, done,
                (long long)done * NS_PER_S / (took > 0 ? took : 1));
}

bool try_threads(struct doctor *doctor)
{
    CLEANUP(mem_freep) struct worker *workers = NULL;
    CLEANUP(op_freep) struct op *op = NULL;
    bool ec = doctor->token->module.has.ec_generate && doctor->token->module.has.ecdsa;
    struct crowd crowd = { .doctor = doctor,
                           .key = trial_key("threads"),
                           .algorithm = ec ? KEY_ALGORITHM_EC_P256 : KEY_ALGORITHM_RSA_3072,
                           .scheme = ec ? SIGN_SCHEME_ECDSA : SIGN_SCHEME_RSA_PKCS1,
                           .spki = BUF_INIT(SPKI_MAX) };
    watch_step(doctor->watch, "threads");
    if (FAULTED(mem_new(doctor->options->threads, sizeof(*workers), (void *)&workers))) {
        return false;
    }
    struct fault fault = attempt(doctor, make, &crowd, &op);
    if (FAULTED(fault)) {
        report_step(doctor->report, "threads", STEP_SKIPPED, "", "no key could be made for them");
    } else {
        run(&crowd, workers, doctor->options->threads);
        fault = attempt(doctor, destroy, &crowd, &op);
        if (FAULTED(fault)) {
            report_op(doctor->report, "threads: destroy", op, fault);
        }
    }
    buf_free(&crowd.spki);
    return !atomic_load(&doctor->token->pin_refused);
}
