/* A throw-away key of each algorithm: made, found, shown, used under each scheme, checked outside the token, destroyed.
 */
#include "signer-pkcs11/doctor/internal.h"

#include <signal.h>

#define SAMPLES_MAX   200
#define SAMPLES_QUICK 5
#define SAMPLING_NS   (2 * NS_PER_S)

struct trial {
    struct doctor *doctor;
    enum key_algorithm algorithm;
    struct key_ref key;
    struct buf spki;
    enum sign_scheme scheme;
    enum hash_algorithm hash;
    size_t samples;
    int64_t ns[SAMPLES_MAX];
    bool no_public_object; /* noticed */
};

static const enum key_algorithm algorithms[] = { KEY_ALGORITHM_EC_P256, KEY_ALGORITHM_EC_P384, KEY_ALGORITHM_RSA_3072,
                                                 KEY_ALGORITHM_RSA_4096 };

/* What may help a token that makes no key. Group 1: how ids are kept. Group 2: where the public half goes. */
static const struct cure ec_cures[] = {
    { "omit:CKA_DERIVE", 0 },
    { "ec-params-name", 0 },
    { "short-labels", 0 },
    { "id-text", 1 },
    { "id-none", 1 },
    { "public-in-session", 2 },
    { "omit:CKA_VERIFY", 0 },
    { "omit:CKA_SIGN", 0 },
    { "omit:CKA_PRIVATE", CURE_ALONE },
    { "omit:CKA_EXTRACTABLE", CURE_ALONE },
    { "omit:CKA_SENSITIVE", CURE_ALONE },
    { "allowed-mechanisms", CURE_ALONE },
};
static const struct cure rsa_cures[] = {
    { "omit:CKA_UNWRAP", 0 },
    { "omit:CKA_WRAP", 0 },
    { "omit:CKA_DECRYPT", 0 },
    { "omit:CKA_ENCRYPT", 0 },
    { "omit:CKA_PUBLIC_EXPONENT", 0 },
    { "short-labels", 0 },
    { "id-text", 1 },
    { "id-none", 1 },
    { "public-in-session", 2 },
    { "omit:CKA_VERIFY", 0 },
    { "omit:CKA_SIGN", 0 },
    { "omit:CKA_PRIVATE", CURE_ALONE },
    { "omit:CKA_EXTRACTABLE", CURE_ALONE },
    { "omit:CKA_SENSITIVE", CURE_ALONE },
    { "allowed-mechanisms", CURE_ALONE },
};
static const struct cure ecdsa_cures[] = { { "ecdsa-pad", 0 } };
static const struct cure pss_cures[] = { { "pss-raw", 0 } };

struct key_ref trial_key(const char *what)
{
    struct span part = span_text(what);
    struct key_ref key = { .purpose = KEY_PURPOSE_POST };
    BUG_IF(FAULTED(uuid_derive("svc-signer/doctor", &part, 1, &key.id)));
    return key;
}

static bool interrupted(struct doctor *doctor)
{
    sigset_t pending;
    bool asked =
        sigpending(&pending) == 0 && (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
                                      sigismember(&pending, SIGHUP) == 1);
    if (asked) {
        report_step(doctor->report, "interrupted", STEP_FAILED, "", "nothing was left behind");
    }
    return asked;
}

static void title(char out[48], const struct trial *trial, const char *what)
{
    (void)snprintf(out, 48, "%s %s", key_algorithm_text(trial->algorithm), what);
}

/* ---- the steps ---- */

static struct fault remove_leftover(struct op *op, struct token_session *session, void *arg)
{
    struct trial *trial = arg;
    return token_destroy(op, session, &trial->key);
}

/* Whatever the settings were under which an earlier attempt failed half way: nothing stays. */
static struct fault generate(struct op *op, struct token_session *session, void *arg)
{
    struct trial *trial = arg;
    buf_clear(&trial->spki);
    mono_ns begun = clock_mono();
    struct fault fault = token_generate(op, session, &trial->key, trial->algorithm, &trial->spki);
    trial->ns[0] = clock_mono() - begun;
    if (FAULTED(fault)) {
        CLEANUP(op_freep) struct op *other = NULL;
        if (!FAULTED(op_new("svc-doctor", (struct tenant_id){ 0 }, OPERATION_MS, &other))) {
            IGNORE(token_destroy(other, session, &trial->key));
        }
    }
    return fault;
}

static struct fault see_objects(struct op *op, struct token_session *session, void *arg)
{
    struct trial *trial = arg;
    struct key_objects objects;
    TRY(key_find(op, session, &trial->key, &objects));
    trial->no_public_object = objects.public_key == CK_INVALID_HANDLE;
    return OK;
}

/* Does the token show the key that it made, when it is looked up again? */
static struct fault show(struct op *op, struct token_session *session, void *arg)
{
    struct trial *trial = arg;
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    CLEANUP(buf_free) struct buf shown = BUF_INIT(SPKI_MAX);
    token_forget_handles(trial->doctor->token);
    TRY(token_public_key(op, session, &trial->key, &algorithm, &shown));
    if (algorithm != trial->algorithm || !span_equal(buf_span(&shown), buf_span(&trial->spki))) {
        return op_fail(op, FAULT(INTERNAL), "the token shows another public key than the one it made");
    }
    return token_run(op, session, &trial->key, see_objects, trial);
}

static struct fault sign(struct op *op, struct token_session *session, void *arg)
{
    struct trial *trial = arg;
    uint8_t digest[64];
    size_t len = hash_size(trial->hash);
    mono_ns until = clock_mono() + SAMPLING_NS;
    trial->samples = 0;
    do {
        CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
        TRY(random_bytes(digest, len));
        mono_ns begun = clock_mono();
        TRY(token_sign(op, session, &trial->key, trial->scheme, trial->hash, span_of(digest, len), &signature));
        trial->ns[trial->samples++] = clock_mono() - begun;
        if (FAULTED(token_verify_under(op, buf_span(&trial->spki), trial->scheme, trial->hash, span_of(digest, len),
                                       buf_span(&signature)))) {
            op->note = (struct fault_note){ 0 };
            return op_fail(op, FAULT(INTERNAL), "the signature does not verify outside the token");
        }
    } while (trial->samples < (trial->doctor->options->quick ? SAMPLES_QUICK : SAMPLES_MAX) && clock_mono() < until);
    return OK;
}

static struct fault gone(struct op *op, struct token_session *session, void *arg)
{
    struct trial *trial = arg;
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    CLEANUP(buf_free) struct buf shown = BUF_INIT(SPKI_MAX);
    TRY(token_destroy(op, session, &trial->key));
    struct fault fault = token_public_key(op, session, &trial->key, &algorithm, &shown);
    if (fault.code == FAULT_KEY_NOT_FOUND) {
        return OK;
    }
    return FAULTED(fault) ? fault : op_fail(op, FAULT(INTERNAL), "the key is still there after C_DestroyObject");
}

/* ---- in order ---- */

static void sign_all(struct trial *trial)
{
    static const struct {
        enum sign_scheme scheme;
        enum hash_algorithm hash;
        const char *name;
        bool ec;
    } ways[] = {
        { SIGN_SCHEME_ECDSA, HASH_SHA256, "ECDSA SHA-256", true },
        { SIGN_SCHEME_ECDSA, HASH_SHA384, "ECDSA SHA-384", true },
        { SIGN_SCHEME_ECDSA, HASH_SHA512, "ECDSA SHA-512", true },
        { SIGN_SCHEME_RSA_PKCS1, HASH_SHA256, "PKCS#1 SHA-256", false },
        { SIGN_SCHEME_RSA_PKCS1, HASH_SHA512, "PKCS#1 SHA-512", false },
        { SIGN_SCHEME_RSA_PSS, HASH_SHA256, "PSS SHA-256", false },
        { SIGN_SCHEME_RSA_PSS, HASH_SHA512, "PSS SHA-512", false },
    };
    char step[48];
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        if (ways[i].ec != algorithm_is_ec(trial->algorithm)) {
            continue;
        }
        bool pss = ways[i].scheme == SIGN_SCHEME_RSA_PSS;
        const struct cure *cures = pss ? pss_cures : ecdsa_cures;
        size_t count = pss || ways[i].ec ? 1 : 0;
        trial->scheme = ways[i].scheme;
        trial->hash = ways[i].hash;
        title(step, trial, ways[i].name);
        if (cure_step(trial->doctor, step, cures, count, &(struct remedy){ sign, NULL, trial })) {
            report_times(trial->doctor->report, step, trial->ns, trial->samples);
        }
    }
}

static void use(struct trial *trial)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct report *report = trial->doctor->report;
    char step[48];
    title(step, trial, "find and show");
    struct fault fault = attempt(trial->doctor, show, trial, &op);
    if (FAULTED(fault)) {
        report_op(report, step, op, fault);
    } else if (trial->no_public_object) {
        report_step(report, step, STEP_NOTE, "", "there is no public key object: it is read elsewhere (%s)",
                    quirk_row(QUIRK_PUBLIC_DERIVED)->name);
    } else {
        report_step(report, step, STEP_OK, "", "%s", "");
    }
    sign_all(trial);
    title(step, trial, "destroy");
    watch_step(trial->doctor->watch, step);
    fault = attempt(trial->doctor, gone, trial, &op);
    if (FAULTED(fault)) {
        report_op(report, step, op, fault);
    } else {
        report_step(report, step, STEP_OK, "", "nothing is left");
    }
}

static bool can_make(const struct doctor *doctor, enum key_algorithm algorithm)
{
    const struct mechanisms *has = &doctor->token->module.has;
    return algorithm_is_ec(algorithm)
               ? has->ec_generate
               : (has->rsa_generate || has->rsa_x9_31) && algorithm_bits(algorithm) <= has->rsa_max;
}

static bool try_one(struct trial *trial)
{
    struct doctor *doctor = trial->doctor;
    char step[48];
    title(step, trial, "generate");
    trial->key = trial_key(key_algorithm_text(trial->algorithm));
    if (!can_make(doctor, trial->algorithm)) {
        report_step(doctor->report, step, STEP_SKIPPED, "", "the token lists no mechanism for it");
        return true;
    }
    watch_step(doctor->watch, step);
    if (!FAULTED(attempt(doctor, remove_leftover, trial, NULL))) {
        report_step(doctor->report, step, STEP_NOTE, "", "removed a key that an interrupted run had left");
    }
    bool ec = algorithm_is_ec(trial->algorithm);
    const struct cure *cures = ec ? ec_cures : rsa_cures;
    const struct remedy remedy = { generate, remove_leftover, trial };
    if (cure_step(doctor, step, cures, ec ? COUNT_OF(ec_cures) : COUNT_OF(rsa_cures), &remedy)) {
        report_times(doctor->report, step, trial->ns, 1);
        use(trial);
    }
    return !atomic_load(&doctor->token->pin_refused);
}

bool try_algorithms(struct doctor *doctor)
{
    bool going = true;
    for (size_t i = 0; i < COUNT_OF(algorithms) && going; i++) {
        if (doctor->options->quick && algorithms[i] == KEY_ALGORITHM_RSA_4096) {
            continue;
        }
        struct trial trial = { .doctor = doctor, .algorithm = algorithms[i], .spki = BUF_INIT(SPKI_MAX) };
        going = !interrupted(doctor) && try_one(&trial);
        buf_free(&trial.spki);
    }
    return going;
}
