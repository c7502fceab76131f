/*
 * Signatures through a PKCS#11 module, as its clients make them: one session a thread, C_SignInit and C_Sign of fresh
 * data each time (the module hashes, the appliance signs, the module verifies).
 *
 *     bench_pkcs11 MODULE LABEL THREADS SECONDS
 *
 * SIGTERM ends it early: each thread finishes the signature it is at. Prints one JSON object. A signature that fails is
 * counted and told by its CK_RV; it ends nothing.
 */
#include "appliance/base/alloc.h"
#include "appliance/base/clock.h"
#include "appliance/base/id.h"

#include <dlfcn.h>
#include <p11-kit/pkcs11.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TIMES_MAX   200000
#define THREADS_MAX 64

static CK_FUNCTION_LIST *p11;
static CK_OBJECT_HANDLE key;
static CK_MECHANISM mechanism;
static mono_ns end;
static atomic_bool told_to_end;

struct worker {
    pthread_t thread;
    size_t count, failures;
    CK_RV last_failure;
    mono_ns *times;
};

static void need(CK_RV rv, const char *what)
{
    if (rv != CKR_OK) {
        (void)fprintf(stderr, "%s: 0x%lx\n", what, rv);
        exit(1);
    }
}

static CK_SESSION_HANDLE open_session(void)
{
    CK_SESSION_HANDLE session = 0;
    need(p11->C_OpenSession(0, CKF_SERIAL_SESSION, NULL, NULL, &session), "C_OpenSession");
    return session;
}

static CK_RV sign_once(CK_SESSION_HANDLE session)
{
    CK_BYTE data[64], signature[1024];
    CK_ULONG len = sizeof(signature);
    if (random_bytes(data, sizeof(data)).code != FAULT_NONE) {
        return CKR_HOST_MEMORY;
    }
    CK_RV rv = p11->C_SignInit(session, &mechanism, key);
    return rv == CKR_OK ? p11->C_Sign(session, data, sizeof(data), signature, &len) : rv;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    CK_SESSION_HANDLE session = open_session();
    while (!told_to_end && clock_mono() < end && worker->count < TIMES_MAX) {
        mono_ns started = clock_mono();
        CK_RV rv = sign_once(session);
        if (rv == CKR_OK) {
            worker->times[worker->count++] = clock_mono() - started;
        } else {
            worker->failures++;
            worker->last_failure = rv;
        }
    }
    return NULL;
}

static void load(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CK_C_GetFunctionList get = NULL;
    if (handle != NULL) {
        *(void **)&get = dlsym(handle, "C_GetFunctionList");
    }
    if (get == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    CK_C_INITIALIZE_ARGS args = { .flags = CKF_OS_LOCKING_OK };
    need(get(&p11), "C_GetFunctionList");
    need(p11->C_Initialize(&args), "C_Initialize");
}

static void find(const char *label)
{
    CK_OBJECT_CLASS class = CKO_PRIVATE_KEY;
    CK_KEY_TYPE type = 0;
    CK_ULONG count = 0;
    CK_ATTRIBUTE wanted[] = { { CKA_CLASS, &class, sizeof(class) }, { CKA_LABEL, (char *)label, strlen(label) } };
    CK_ATTRIBUTE asked = { CKA_KEY_TYPE, &type, sizeof(type) };
    CK_SESSION_HANDLE session = open_session();
    need(p11->C_FindObjectsInit(session, wanted, COUNT_OF(wanted)), "C_FindObjectsInit");
    need(p11->C_FindObjects(session, &key, 1, &count), "C_FindObjects");
    need(p11->C_FindObjectsFinal(session), "C_FindObjectsFinal");
    need(count == 1 ? CKR_OK : CKR_KEY_HANDLE_INVALID, label);
    need(p11->C_GetAttributeValue(session, key, &asked, 1), "C_GetAttributeValue");
    mechanism.mechanism = type == CKK_EC ? CKM_ECDSA_SHA256 : CKM_SHA256_RSA_PKCS;
}

static int by_time(const void *a, const void *b)
{
    mono_ns left = *(const mono_ns *)a, right = *(const mono_ns *)b;
    return (left > right) - (left < right);
}

static void report(struct worker *workers, unsigned long threads, double seconds)
{
    mono_ns *all = NULL;
    size_t count = 0, failures = 0;
    CK_RV last = CKR_OK;
    if (mem_new(threads * TIMES_MAX, sizeof(*all), &all).code != FAULT_NONE) {
        return;
    }
    for (size_t i = 0; i < threads; i++) {
        memcpy(all + count, workers[i].times, workers[i].count * sizeof(*all));
        count += workers[i].count;
        failures += workers[i].failures;
        last = workers[i].failures > 0 ? workers[i].last_failure : last;
    }
    qsort(all, count, sizeof(*all), by_time);
    (void)printf(
        "{\"threads\":%lu,\"signatures\":%zu,\"failures\":%zu,\"last_failure\":\"0x%lx\",\"per_second\":%.1f,"
        "\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"max_ms\":%.2f}\n",
        threads, count, failures, last, (double)count / seconds, count > 0 ? (double)all[count / 2] / NS_PER_MS : 0,
        count > 0 ? (double)all[count * 99 / 100] / NS_PER_MS : 0, count > 0 ? (double)all[count - 1] / NS_PER_MS : 0);
    mem_free(all);
}

static void on_term(int number)
{
    (void)number;
    told_to_end = true;
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    unsigned long threads = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
    unsigned long seconds = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
    if (threads < 1 || threads > THREADS_MAX || seconds < 1) {
        (void)fprintf(stderr, "usage: bench_pkcs11 MODULE LABEL THREADS SECONDS\n");
        return 2;
    }
    (void)signal(SIGTERM, on_term);
    load(argv[1]);
    find(argv[2]);
    mono_ns started = clock_mono();
    end = started + (mono_ns)seconds * NS_PER_S;
    for (size_t i = 0; i < threads; i++) {
        if (mem_new(TIMES_MAX, sizeof(mono_ns), &workers[i].times).code != FAULT_NONE ||
            pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < threads; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    report(workers, threads, (double)(clock_mono() - started) / NS_PER_S);
    need(p11->C_Finalize(NULL), "C_Finalize");
    return 0;
}
