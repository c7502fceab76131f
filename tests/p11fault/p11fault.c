#include "tests/p11fault/p11fault.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <p11-kit/pkcs11.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT       __attribute__((visibility("default")))
#define RULES_MAX    32
#define NAMES_MAX    80
#define HOLD_LOOK_NS 20000000

p11fault_plan_fn p11fault_plan EXPORT;
p11fault_clear_fn p11fault_clear EXPORT;
p11fault_hits_fn p11fault_hits EXPORT;
p11fault_calls_fn p11fault_calls EXPORT;
p11fault_most_fn p11fault_most EXPORT;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cleared = PTHREAD_COND_INITIALIZER;
static struct {
    struct p11fault_rule rule;
    unsigned seen;
} rules[RULES_MAX];
static size_t rule_count;
static unsigned hits, generation;
static bool dead, sick;
static struct {
    const char *name;
    unsigned calls, now, most;
} counted[NAMES_MAX];
static char *counts_file; /* NAMES_MAX lines, mapped; NULL = none */

static CK_FUNCTION_LIST *real, list;
/* Held for reading around real calls, and for writing where a rule takes sessions, login or all away: what the real
 * module does not stand (SoftHSM uses a session that another thread closes) shall come from the program under test
 * only.
 */
static pthread_rwlock_t real_lock = PTHREAD_RWLOCK_INITIALIZER;
static unsigned inside; /* calls, those that are held among them */
static CK_SLOT_ID last_slot;
static CK_SESSION_HANDLE last_session;

static void add_locked(const struct p11fault_rule *rule)
{
    if (rule_count < RULES_MAX) {
        rules[rule_count].rule = *rule;
        rules[rule_count++].seen = 0;
    }
}

static void clear_locked(void)
{
    rule_count = 0;
    hits = 0;
    generation++;
    (void)pthread_cond_broadcast(&cleared);
}

void p11fault_plan(const struct p11fault_rule *rule)
{
    (void)pthread_mutex_lock(&lock);
    add_locked(rule);
    (void)pthread_mutex_unlock(&lock);
}

void p11fault_clear(void)
{
    (void)pthread_mutex_lock(&lock);
    clear_locked();
    (void)pthread_mutex_unlock(&lock);
}

unsigned p11fault_hits(void)
{
    (void)pthread_mutex_lock(&lock);
    unsigned count = hits;
    (void)pthread_mutex_unlock(&lock);
    return count;
}

unsigned p11fault_calls(const char *function)
{
    unsigned count = 0;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < NAMES_MAX && counted[i].name != NULL; i++) {
        count += strcmp(counted[i].name, function) == 0 ? counted[i].calls : 0;
    }
    (void)pthread_mutex_unlock(&lock);
    return count;
}

unsigned p11fault_most(const char *function)
{
    unsigned most = 0;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < NAMES_MAX && counted[i].name != NULL; i++) {
        most = strcmp(counted[i].name, function) == 0 ? counted[i].most : most;
    }
    (void)pthread_mutex_unlock(&lock);
    return most;
}

static enum p11fault_effect effect_named(const char *name)
{
    static const char *const names[] = { "none", "do-it", "close-sessions", "logout", "finalize", "die",
                                         "sick", "hold",  "forget",         "exit",   "exit-late" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            return (enum p11fault_effect)i;
        }
    }
    return P11FAULT_NONE;
}

static void read_line_locked(char *line)
{
    struct p11fault_rule rule = { .times = 1 };
    char *rest = NULL;
    char *word = strtok_r(line, " \t\n", &rest);
    if (word == NULL || word[0] == '#') {
        return;
    }
    (void)snprintf(rule.function, sizeof(rule.function), "%s", word);
    while ((word = strtok_r(NULL, " \t\n", &rest)) != NULL) {
        char *value = strchr(word, '=');
        if (value == NULL) {
            continue;
        }
        *value++ = '\0';
        if (strcmp(word, "rv") == 0) {
            rule.rv = strtoul(value, NULL, 0);
        } else if (strcmp(word, "after") == 0) {
            rule.after = (unsigned)strtoul(value, NULL, 10);
        } else if (strcmp(word, "times") == 0) {
            rule.times = (unsigned)strtoul(value, NULL, 10);
        } else if (strcmp(word, "effect") == 0) {
            rule.effect = effect_named(value);
        } else if (strcmp(word, "flags") == 0) {
            rule.flags = strtoul(value, NULL, 0);
        } else if (strcmp(word, "hold_ms") == 0) {
            rule.hold_ms = (unsigned)strtoul(value, NULL, 10);
        }
    }
    add_locked(&rule);
}

static void read_control_locked(void)
{
    static struct stat known;
    const char *path = getenv("P11FAULT_CONTROL");
    struct stat now = { 0 };
    if (path == NULL) {
        return;
    }
    if (stat(path, &now) != 0) {
        if (known.st_ino != 0) {
            clear_locked();
            known = now;
        }
        return;
    }
    if (now.st_ino == known.st_ino && now.st_size == known.st_size && now.st_mtim.tv_sec == known.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == known.st_mtim.tv_nsec) {
        return;
    }
    known = now;
    clear_locked();
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    char line[256];
    while (fgets(line, sizeof(line), file) != NULL) {
        read_line_locked(line);
    }
    (void)fclose(file);
}

static void open_counts_locked(void)
{
    const char *path = getenv("P11FAULT_COUNTS");
    if (path == NULL || counts_file != NULL) {
        return;
    }
    size_t size = (size_t)NAMES_MAX * P11FAULT_COUNTS_LINE;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0) {
        void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        counts_file = mapped != MAP_FAILED ? mapped : NULL;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

static size_t count_locked(const char *name)
{
    size_t i = 0;
    while (i < NAMES_MAX - 1 && counted[i].name != NULL && counted[i].name != name) {
        i++;
    }
    counted[i].name = name;
    counted[i].calls++;
    counted[i].now++;
    counted[i].most = counted[i].now > counted[i].most ? counted[i].now : counted[i].most;
    if (counts_file != NULL) {
        char line[P11FAULT_COUNTS_LINE + 1];
        (void)snprintf(line, sizeof(line), "%-38s %12u %10u", name, counted[i].calls, counted[i].most);
        line[P11FAULT_COUNTS_LINE - 1] = '\n';
        memcpy(counts_file + i * P11FAULT_COUNTS_LINE, line, P11FAULT_COUNTS_LINE);
    }
    return i;
}

static bool pick_locked(const char *name, struct p11fault_rule *picked)
{
    for (size_t i = 0; i < rule_count; i++) {
        struct p11fault_rule *rule = &rules[i].rule;
        if (strcmp(rule->function, name) != 0 && strcmp(rule->function, "*") != 0) {
            continue;
        }
        unsigned seen = rules[i].seen++;
        if (seen >= rule->after && (rule->times == 0 || seen - rule->after < rule->times)) {
            *picked = *rule;
            hits++;
            return true;
        }
    }
    return false;
}

static void hold_locked(unsigned ms)
{
    unsigned mine = generation;
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms == 0 ? 3600 : ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (generation == mine) { /* looks at the control file too: no other call may come to do that */
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec)) {
            return;
        }
        now.tv_nsec += HOLD_LOOK_NS;
        now.tv_sec += now.tv_nsec / 1000000000;
        now.tv_nsec %= 1000000000;
        bool nearly = now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec > until.tv_nsec);
        (void)pthread_cond_timedwait(&cleared, &lock, nearly ? &until : &now);
        read_control_locked();
    }
}

/* What the state of the module makes of the call, whatever the rules say; CKR_OK = nothing. */
static CK_RV ill_locked(const char *name)
{
    if (strcmp(name, "C_Finalize") == 0) {
        sick = false;
        return CKR_OK;
    }
    if (strcmp(name, "C_Initialize") == 0) {
        dead = false;
        return CKR_OK;
    }
    return dead ? CKR_CRYPTOKI_NOT_INITIALIZED : sick ? CKR_DEVICE_ERROR : CKR_OK;
}

/* What is to become of one call. */
struct verdict {
    size_t counter;
    bool answer, do_it, forget, exit_late; /* answer rv; after the real call; with nothing found; and end after it */
    CK_RV rv;
    CK_FLAGS flags;
};

/* The login is the application's, so any session will do; the last one may be closed by now. */
static void log_out(CK_SLOT_ID slot, CK_SESSION_HANDLE session)
{
    CK_SESSION_HANDLE other = 0;
    if (real->C_Logout(session) == CKR_SESSION_HANDLE_INVALID &&
        real->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &other) == CKR_OK) {
        (void)real->C_Logout(other);
        (void)real->C_CloseSession(other);
    }
}

static void harm(const struct p11fault_rule *rule, CK_SLOT_ID slot, CK_SESSION_HANDLE session)
{
    if (rule->effect == P11FAULT_EXIT) {
        _exit(P11FAULT_EXIT_CODE);
    }
    (void)pthread_rwlock_wrlock(&real_lock);
    if (rule->effect == P11FAULT_CLOSE_SESSIONS) {
        (void)real->C_CloseAllSessions(slot);
    } else if (rule->effect == P11FAULT_LOGOUT) {
        log_out(slot, session);
    } else if (rule->effect == P11FAULT_FINALIZE) {
        (void)real->C_Finalize(NULL);
    }
    (void)pthread_rwlock_unlock(&real_lock);
}

static struct verdict begin(const char *name)
{
    struct p11fault_rule rule = { 0 };
    (void)pthread_mutex_lock(&lock);
    read_control_locked();
    struct verdict verdict = { .counter = count_locked(name) };
    if (inside > 0 && strcmp(name, "C_Finalize") == 0) {
        (void)fprintf(stderr, "p11fault: C_Finalize while %u calls are inside the module\n", inside);
        abort();
    }
    inside++;
    bool hit = pick_locked(name, &rule);
    CK_SLOT_ID slot = last_slot;
    CK_SESSION_HANDLE session = last_session;
    if (hit && rule.effect == P11FAULT_HOLD) {
        hold_locked(rule.hold_ms);
    }
    dead = dead || (hit && rule.effect == P11FAULT_DIE);
    sick = sick || (hit && rule.effect == P11FAULT_SICK);
    CK_RV ill = ill_locked(name);
    (void)pthread_mutex_unlock(&lock);
    if (ill != CKR_OK) {
        verdict.answer = true;
        verdict.rv = ill;
    } else if (hit) {
        harm(&rule, slot, session);
        verdict.do_it = rule.effect == P11FAULT_DO_IT;
        verdict.forget = rule.effect == P11FAULT_FORGET;
        verdict.exit_late = rule.effect == P11FAULT_EXIT_LATE;
        verdict.rv = rule.rv;
        verdict.flags = rule.flags;
        verdict.answer = rule.rv != CKR_OK;
    }
    return verdict;
}

static void end(const struct verdict *verdict)
{
    if (verdict->exit_late) {
        _exit(P11FAULT_EXIT_CODE);
    }
    (void)pthread_mutex_lock(&lock);
    counted[verdict->counter].now--;
    inside--;
    (void)pthread_mutex_unlock(&lock);
}

#define REALLY(name, args)                       \
    ({                                           \
        (void)pthread_rwlock_rdlock(&real_lock); \
        CK_RV answer_ = real->name args;         \
        (void)pthread_rwlock_unlock(&real_lock); \
        answer_;                                 \
    })
#define WRAP(name, params, args)                \
    static CK_RV wrapped_##name params          \
    {                                           \
        struct verdict verdict = begin(#name);  \
        CK_RV rv = verdict.rv;                  \
        if (!verdict.answer || verdict.do_it) { \
            CK_RV really = REALLY(name, args);  \
            rv = verdict.answer ? rv : really;  \
        }                                       \
        end(&verdict);                          \
        return rv;                              \
    }

WRAP(C_Initialize, (void *args), (args))
WRAP(C_Finalize, (void *reserved), (reserved))
WRAP(C_GetInfo, (CK_INFO * info), (info))
WRAP(C_GetSlotList, (CK_BBOOL present, CK_SLOT_ID *slots, CK_ULONG *count), (present, slots, count))
WRAP(C_GetSlotInfo, (CK_SLOT_ID slot, CK_SLOT_INFO *info), (slot, info))
WRAP(C_GetMechanismList, (CK_SLOT_ID slot, CK_MECHANISM_TYPE *types, CK_ULONG *count), (slot, types, count))
WRAP(C_GetMechanismInfo, (CK_SLOT_ID slot, CK_MECHANISM_TYPE type, CK_MECHANISM_INFO *info), (slot, type, info))
WRAP(C_CloseSession, (CK_SESSION_HANDLE session), (session))
WRAP(C_CloseAllSessions, (CK_SLOT_ID slot), (slot))
WRAP(C_GetSessionInfo, (CK_SESSION_HANDLE session, CK_SESSION_INFO *info), (session, info))
WRAP(C_Login, (CK_SESSION_HANDLE session, CK_USER_TYPE user, CK_BYTE *pin, CK_ULONG len), (session, user, pin, len))
WRAP(C_FindObjectsInit, (CK_SESSION_HANDLE session, CK_ATTRIBUTE *wanted, CK_ULONG count), (session, wanted, count))
WRAP(C_FindObjectsFinal, (CK_SESSION_HANDLE session), (session))
WRAP(C_GetAttributeValue, (CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE *shown, CK_ULONG count),
     (session, object, shown, count))
WRAP(C_GenerateKey,
     (CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_ATTRIBUTE *template, CK_ULONG count,
      CK_OBJECT_HANDLE *key),
     (session, mechanism, template, count, key))
WRAP(C_GenerateKeyPair,
     (CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_ATTRIBUTE *pub, CK_ULONG pub_count, CK_ATTRIBUTE *priv,
      CK_ULONG priv_count, CK_OBJECT_HANDLE *pub_key, CK_OBJECT_HANDLE *priv_key),
     (session, mechanism, pub, pub_count, priv, priv_count, pub_key, priv_key))
WRAP(C_DestroyObject, (CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object), (session, object))
WRAP(C_SignInit, (CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key), (session, mechanism, key))
WRAP(C_Sign, (CK_SESSION_HANDLE session, CK_BYTE *in, CK_ULONG in_len, CK_BYTE *out, CK_ULONG *out_len),
     (session, in, in_len, out, out_len))
WRAP(C_EncryptInit, (CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key),
     (session, mechanism, key))
WRAP(C_Encrypt, (CK_SESSION_HANDLE session, CK_BYTE *in, CK_ULONG in_len, CK_BYTE *out, CK_ULONG *out_len),
     (session, in, in_len, out, out_len))
WRAP(C_DecryptInit, (CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key),
     (session, mechanism, key))
WRAP(C_Decrypt, (CK_SESSION_HANDLE session, CK_BYTE *in, CK_ULONG in_len, CK_BYTE *out, CK_ULONG *out_len),
     (session, in, in_len, out, out_len))
WRAP(C_GenerateRandom, (CK_SESSION_HANDLE session, CK_BYTE *at, CK_ULONG len), (session, at, len))

static CK_RV wrapped_C_FindObjects(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *found, CK_ULONG max, CK_ULONG *count)
{
    struct verdict verdict = begin("C_FindObjects");
    CK_RV rv = verdict.rv;
    if (!verdict.answer) {
        rv = REALLY(C_FindObjects, (session, found, max, count));
        *count = verdict.forget && rv == CKR_OK ? 0 : *count;
    }
    end(&verdict);
    return rv;
}

static CK_RV wrapped_C_GetTokenInfo(CK_SLOT_ID slot, CK_TOKEN_INFO *info)
{
    struct verdict verdict = begin("C_GetTokenInfo");
    CK_RV rv = verdict.rv;
    if (!verdict.answer) {
        rv = REALLY(C_GetTokenInfo, (slot, info));
        info->flags |= verdict.flags;
    }
    end(&verdict);
    return rv;
}

static CK_RV wrapped_C_OpenSession(CK_SLOT_ID slot, CK_FLAGS flags, void *application, CK_NOTIFY notify,
                                   CK_SESSION_HANDLE *session)
{
    struct verdict verdict = begin("C_OpenSession");
    CK_RV rv = verdict.rv;
    if (!verdict.answer) {
        rv = REALLY(C_OpenSession, (slot, flags, application, notify, session));
    }
    if (!verdict.answer && rv == CKR_OK) {
        (void)pthread_mutex_lock(&lock);
        last_slot = slot;
        last_session = *session;
        (void)pthread_mutex_unlock(&lock);
    }
    end(&verdict);
    return rv;
}

static void take_over(void)
{
    list = *real;
#define TAKE_OVER(name) list.name = wrapped_##name;
    TAKE_OVER(C_Initialize)
    TAKE_OVER(C_Finalize)
    TAKE_OVER(C_GetInfo)
    TAKE_OVER(C_GetSlotList)
    TAKE_OVER(C_GetSlotInfo)
    TAKE_OVER(C_GetTokenInfo)
    TAKE_OVER(C_GetMechanismList)
    TAKE_OVER(C_GetMechanismInfo)
    TAKE_OVER(C_OpenSession)
    TAKE_OVER(C_CloseSession)
    TAKE_OVER(C_CloseAllSessions)
    TAKE_OVER(C_GetSessionInfo)
    TAKE_OVER(C_Login)
    TAKE_OVER(C_FindObjectsInit)
    TAKE_OVER(C_FindObjects)
    TAKE_OVER(C_FindObjectsFinal)
    TAKE_OVER(C_GetAttributeValue)
    TAKE_OVER(C_GenerateKey)
    TAKE_OVER(C_GenerateKeyPair)
    TAKE_OVER(C_DestroyObject)
    TAKE_OVER(C_SignInit)
    TAKE_OVER(C_Sign)
    TAKE_OVER(C_EncryptInit)
    TAKE_OVER(C_Encrypt)
    TAKE_OVER(C_DecryptInit)
    TAKE_OVER(C_Decrypt)
    TAKE_OVER(C_GenerateRandom)
#undef TAKE_OVER
}

EXPORT CK_RV C_GetFunctionList(CK_FUNCTION_LIST **ret_list)
{
    CK_RV (*function_list)(CK_FUNCTION_LIST **) = NULL;
    const char *path = getenv("P11FAULT_MODULE");
    (void)pthread_mutex_lock(&lock);
    open_counts_locked();
    if (real == NULL) {
        void *module = dlopen(path != NULL ? path : "/usr/lib/softhsm/libsofthsm2.so", RTLD_NOW | RTLD_LOCAL);
        *(void **)&function_list = module != NULL ? dlsym(module, "C_GetFunctionList") : NULL;
        if (function_list != NULL && function_list(&real) == CKR_OK) {
            take_over();
        }
    }
    (void)pthread_mutex_unlock(&lock);
    if (real == NULL) {
        return CKR_GENERAL_ERROR;
    }
    *ret_list = &list;
    return CKR_OK;
}
