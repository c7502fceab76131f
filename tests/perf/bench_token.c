/*
 * How fast the token itself signs, for scripts/bench: C_SignInit and C_Sign straight on the module's function list
 * ("raw"), and the same keys through the token room ("token"), each thread with a session of its own.
 *   bench_token MODULE TOKEN_LABEL PIN_FILE
 * reads runs from its input, one a line, and answers each with a JSON object, so that a script can let runs of several
 * programs take turns on one noisy machine:
 *   raw|token ALGORITHM default|pss THREADS SECONDS
 * Makes a key of each algorithm in the token when it is first asked for, and destroys them at the end.
 */
#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "signer-pkcs11/token/gate.h"
#include "signer-pkcs11/token/token.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define THREADS_MAX 32
#define SAMPLES_MAX ((size_t)1 << 18) /* of one thread and run */

enum layer { LAYER_RAW, LAYER_TOKEN };

struct bench {
    CK_FUNCTION_LIST *raw;
    CK_SLOT_ID slot;
    struct token *token;
    struct op *op;
    struct token_session *session;
    uint32_t *samples;
    struct {
        struct key_ref ref;
        CK_OBJECT_HANDLE object;
    } keys[KEY_ALGORITHM_COUNT];
};

struct run {
    const struct bench *bench;
    enum layer layer;
    enum key_algorithm algorithm;
    enum sign_scheme scheme;
    struct key_ref key;
    CK_OBJECT_HANDLE object;
    mono_ns span;
    pthread_barrier_t *start;
    uint32_t *samples; /* nanoseconds / 100 */
    size_t count;
    const char *failure;
};

static const uint8_t digest[32] = "thirty-two bytes of any content";
static const uint8_t digest_info[] = { 0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
                                       0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20 };

static bool sign_raw(const struct run *run, CK_SESSION_HANDLE session)
{
    uint8_t input[sizeof(digest_info) + sizeof(digest)], out[SIGNATURE_MAX];
    size_t head = run->scheme == SIGN_SCHEME_RSA_PKCS1 ? sizeof(digest_info) : 0;
    CK_RSA_PKCS_PSS_PARAMS pss = { .hashAlg = CKM_SHA256, .mgf = CKG_MGF1_SHA256, .sLen = sizeof(digest) };
    CK_MECHANISM mechanism = { CKM_ECDSA, NULL, 0 };
    if (run->scheme == SIGN_SCHEME_RSA_PKCS1) {
        mechanism.mechanism = CKM_RSA_PKCS;
    } else if (run->scheme == SIGN_SCHEME_RSA_PSS) {
        mechanism = (CK_MECHANISM){ CKM_RSA_PKCS_PSS, &pss, sizeof(pss) };
    }
    memcpy(input, digest_info, head);
    memcpy(input + head, digest, sizeof(digest));
    CK_ULONG len = sizeof(out);
    return run->bench->raw->C_SignInit(session, &mechanism, run->object) == CKR_OK &&
           run->bench->raw->C_Sign(session, input, head + sizeof(digest), out, &len) == CKR_OK;
}

static bool sign_token(const struct run *run, struct op *op, struct token_session *session, struct buf *out)
{
    buf_clear(out);
    return !FAULTED(token_sign(op, session, &run->key, run->scheme, HASH_SHA256, SPAN_ARRAY(digest), out));
}

static void measure(struct run *run, CK_SESSION_HANDLE raw, struct op *op, struct token_session *session)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(SIGNATURE_MAX);
    (void)pthread_barrier_wait(run->start);
    mono_ns end = clock_mono() + run->span;
    for (mono_ns before = clock_mono(); before < end && run->count < SAMPLES_MAX;) {
        bool fine = run->layer == LAYER_RAW ? sign_raw(run, raw) : sign_token(run, op, session, &out);
        mono_ns after = clock_mono();
        if (!fine) {
            run->failure = "a signature failed";
            return;
        }
        run->samples[run->count++] = (uint32_t)((after - before) / 100);
        before = after;
    }
}

static void *run_thread(void *arg)
{
    struct run *run = arg;
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    CK_SESSION_HANDLE raw = CK_INVALID_HANDLE;
    bool ready = !FAULTED(op_new("bench", (struct tenant_id){ "bench" }, 600000, &op));
    if (run->layer == LAYER_RAW) {
        ready =
            ready && run->bench->raw->C_OpenSession(run->bench->slot, CKF_SERIAL_SESSION, NULL, NULL, &raw) == CKR_OK;
    } else {
        ready = ready && !FAULTED(token_session_take(op, run->bench->token, &session));
    }
    if (!ready) {
        run->failure = "no session";
        (void)pthread_barrier_wait(run->start);
        return NULL;
    }
    measure(run, raw, op, session);
    if (raw != CK_INVALID_HANDLE) {
        (void)run->bench->raw->C_CloseSession(raw);
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_run(struct jout *jout, struct run *runs, unsigned threads, mono_ns took, uint32_t *all)
{
    size_t count = 0;
    for (unsigned i = 0; i < threads; i++) {
        memcpy(all + count, runs[i].samples, runs[i].count * sizeof(*all));
        count += runs[i].count;
    }
    qsort(all, count, sizeof(*all), by_value);
    jout_object(jout);
    jout_key_text(jout, "layer", runs->layer == LAYER_RAW ? "raw" : "token");
    jout_key_text(jout, "algorithm", key_algorithm_text(runs->algorithm));
    jout_key_text(jout, "scheme", runs->scheme == SIGN_SCHEME_RSA_PSS ? "pss" : "default");
    jout_key_int(jout, "threads", threads);
    jout_key_int(jout, "operations", (int64_t)count);
    jout_key_int(jout, "per_second", (int64_t)((double)count * 1e9 / (double)took));
    jout_key_int(jout, "p50_us", count == 0 ? 0 : all[count / 2] / 10);
    jout_key_int(jout, "p95_us", count == 0 ? 0 : all[count * 95 / 100] / 10);
    jout_key_int(jout, "p99_us", count == 0 ? 0 : all[count * 99 / 100] / 10);
    jout_object_end(jout);
}

static bool run_all(const struct run *model, unsigned threads, struct jout *jout)
{
    static struct run runs[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    pthread_barrier_t start;
    uint32_t *samples = model->bench->samples;
    BUG_IF(pthread_barrier_init(&start, NULL, threads + 1) != 0);
    for (unsigned i = 0; i < threads; i++) {
        runs[i] = *model;
        runs[i].start = &start;
        runs[i].samples = samples + i * SAMPLES_MAX;
        BUG_IF(pthread_create(&ids[i], NULL, run_thread, &runs[i]) != 0);
    }
    (void)pthread_barrier_wait(&start);
    mono_ns begun = clock_mono();
    const char *failure = NULL;
    for (unsigned i = 0; i < threads; i++) {
        BUG_IF(pthread_join(ids[i], NULL) != 0);
        failure = runs[i].failure != NULL ? runs[i].failure : failure;
    }
    mono_ns took = clock_mono() - begun;
    (void)pthread_barrier_destroy(&start);
    if (failure != NULL) {
        (void)fprintf(stderr, "bench_token: %s\n", failure);
        return false;
    }
    print_run(jout, runs, threads, took, samples + THREADS_MAX * SAMPLES_MAX);
    return true;
}

/* The module's own list, and the slot whose token holds our label. */
static bool raw_open(struct bench *bench, const char *path, const char *label)
{
    CK_RV (*function_list)(CK_FUNCTION_LIST **) = NULL;
    CK_SLOT_ID slots[64];
    CK_ULONG count = COUNT_OF(slots);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    *(void **)&function_list = library != NULL ? dlsym(library, "C_GetFunctionList") : NULL;
    if (function_list == NULL || function_list(&bench->raw) != CKR_OK ||
        bench->raw->C_GetSlotList(CK_TRUE, slots, &count) != CKR_OK) {
        return false;
    }
    for (CK_ULONG i = 0; i < count; i++) {
        CK_TOKEN_INFO info;
        char padded[sizeof(info.label) + 1];
        (void)snprintf(padded, sizeof(padded), "%-32s", label);
        if (bench->raw->C_GetTokenInfo(slots[i], &info) == CKR_OK &&
            memcmp(info.label, padded, sizeof(info.label)) == 0) {
            bench->slot = slots[i];
            return true;
        }
    }
    return false;
}

static bool raw_find(const struct bench *bench, const struct run *run, CK_OBJECT_HANDLE *ret_object)
{
    CK_SESSION_HANDLE session = CK_INVALID_HANDLE;
    CK_OBJECT_CLASS class = CKO_PRIVATE_KEY;
    CK_ULONG count = 0;
    char label[256];
    (void)snprintf(label, sizeof(label), "svc/1/%s/%s/%s/%s", run->key.tenant.text, key_purpose_text(run->key.purpose),
                   key_algorithm_text(run->algorithm), run->key.id.text);
    CK_ATTRIBUTE wanted[] = { { CKA_CLASS, &class, sizeof(class) }, { CKA_LABEL, label, strlen(label) } };
    bool found = bench->raw->C_OpenSession(bench->slot, CKF_SERIAL_SESSION, NULL, NULL, &session) == CKR_OK &&
                 bench->raw->C_FindObjectsInit(session, wanted, COUNT_OF(wanted)) == CKR_OK &&
                 bench->raw->C_FindObjects(session, ret_object, 1, &count) == CKR_OK && count == 1;
    (void)bench->raw->C_CloseSession(session);
    return found;
}

static bool key_made(struct bench *bench, struct run *run)
{
    struct key_ref *ref = &bench->keys[run->algorithm].ref;
    if (ref->purpose == KEY_PURPOSE_NONE) {
        CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
        struct key_ref made = { .tenant = { "bench" }, .purpose = KEY_PURPOSE_CODESIGN };
        run->key = made;
        if (FAULTED(uuid_new(&run->key.id)) ||
            FAULTED(token_generate(bench->op, bench->session, &run->key, run->algorithm, &spki))) {
            (void)fprintf(stderr, "bench_token: the key cannot be made: %s\n", bench->op->note.detail);
            return false;
        }
        *ref = run->key;
        if (!raw_find(bench, run, &bench->keys[run->algorithm].object)) {
            (void)fprintf(stderr, "bench_token: the key is not found\n");
            return false;
        }
    }
    run->key = *ref;
    run->object = bench->keys[run->algorithm].object;
    return true;
}

static bool one_run(struct bench *bench, char *line)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(1 << 12);
    struct jout jout;
    char *rest = NULL;
    const char *words[5] = { 0 };
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " \n", &rest);
        if (words[i] == NULL) {
            return false;
        }
    }
    struct run run = { .bench = bench,
                       .layer = strcmp(words[0], "raw") == 0 ? LAYER_RAW : LAYER_TOKEN,
                       .span = (mono_ns)(strtod(words[4], NULL) * 1e9) };
    unsigned threads = (unsigned)strtoul(words[3], NULL, 10);
    if (FAULTED(key_algorithm_parse(span_text(words[1]), &run.algorithm)) || threads < 1 || threads > THREADS_MAX) {
        return false;
    }
    run.scheme = strcmp(words[2], "pss") == 0 ? SIGN_SCHEME_RSA_PSS : key_default_scheme(run.algorithm);
    jout_init(&jout, &out);
    const char *text = NULL;
    if (!key_made(bench, &run) || !run_all(&run, threads, &jout) || FAULTED(jout_end(&jout)) ||
        FAULTED(buf_cstr(&out, &text))) {
        return false;
    }
    return puts(text) >= 0 && fflush(stdout) == 0;
}

static bool all_runs(struct bench *bench)
{
    char line[256];
    bool fine = true;
    while (fine && fgets(line, sizeof(line), stdin) != NULL) {
        fine = one_run(bench, line);
    }
    for (size_t i = 0; i < KEY_ALGORITHM_COUNT; i++) {
        if (bench->keys[i].ref.purpose != KEY_PURPOSE_NONE) {
            fine = !FAULTED(token_destroy(bench->op, bench->session, &bench->keys[i].ref)) && fine;
        }
    }
    return fine;
}

int main(int argc, char **argv)
{
    CLEANUP(secret_freep) struct secret *pin = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(token_closep) struct token *token = NULL;
    CLEANUP(mem_freep) uint32_t *samples = NULL;
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    static struct bench bench;
    const char *text = "";
    if (argc != 4) {
        (void)fprintf(stderr, "usage: bench_token MODULE TOKEN_LABEL PIN_FILE, and runs on its input\n");
        return 2;
    }
    struct token_settings settings = {
        .module = argv[1], .label = argv[2], .serial = "", .sessions = THREADS_MAX + 1, .queue = THREADS_MAX
    };
    if (FAULTED(secret_from_file(argv[3], &pin))) {
        (void)fprintf(stderr, "bench_token: %s must be a file of mode 0600 with the PIN\n", argv[3]);
        return 2;
    }
    settings.pin = pin;
    if (FAULTED(token_open(&settings, &why, &token))) {
        IGNORE(buf_cstr(&why, &text));
        (void)fprintf(stderr, "bench_token: %s\n", text);
        return 2;
    }
    if (!raw_open(&bench, argv[1], argv[2]) || FAULTED(mem_new((size_t)2 * THREADS_MAX * SAMPLES_MAX, 4, &samples)) ||
        FAULTED(op_new("bench", (struct tenant_id){ "bench" }, 36000000, &op)) ||
        FAULTED(token_session_take(op, token, &session))) {
        (void)fprintf(stderr, "bench_token: the token's slot was not found\n");
        return 1;
    }
    bench.token = token;
    bench.op = op;
    bench.session = session;
    bench.samples = samples;
    return all_runs(&bench) ? 0 : 1;
}
