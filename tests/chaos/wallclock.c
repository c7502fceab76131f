/*
 * A wall clock that a test sets (LD_PRELOAD, tests/chaos/faults.py): CLOCK_REALTIME is the machine's plus the seconds,
 * a signed 64-bit number, at the beginning of the file that WALLCLOCK_FILE names. Every other clock is left as it is.
 * Waits until a time of that clock are waits until the machine's time that it stands for.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static _Atomic int64_t none;
static _Atomic int64_t *offset = &none;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_file(void)
{
    const char *path = getenv("WALLCLOCK_FILE");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (at != MAP_FAILED) {
        offset = at;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

static int64_t seconds_off(void)
{
    (void)pthread_once(&once, find_file);
    return atomic_load(offset);
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *at)
{
    static int (*_Atomic real)(clockid_t, struct timespec *);
    if (real == NULL) { /* the way that does not end up here again */
        real = (int (*)(clockid_t, struct timespec *))(uintptr_t)dlsym(RTLD_NEXT, "clock_gettime");
    }
    int code = real(clock, at);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        at->tv_sec += seconds_off();
    }
    return code;
}

SHOWN int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return -1;
    }
    *at = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
    return 0;
}

SHOWN time_t time(time_t *at)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return -1;
    }
    if (at != NULL) {
        *at = now.tv_sec;
    }
    return now.tv_sec;
}

/* What glibc keeps in the structure: a condition on the monotonic clock. */
#define ON_MONOTONIC 2u

SHOWN int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                 const struct timespec *restrict until)
{
    static int (*_Atomic real)(pthread_cond_t *restrict, pthread_mutex_t *restrict, const struct timespec *restrict);
    if (real == NULL) {
        real = (int (*)(pthread_cond_t *restrict, pthread_mutex_t *restrict, const struct timespec *restrict))(
            uintptr_t)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    }
    struct timespec machine = *until;
    if ((cond->__data.__wrefs & ON_MONOTONIC) == 0) {
        machine.tv_sec -= seconds_off();
    }
    return real(cond, mutex, &machine);
}
