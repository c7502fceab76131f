#include "signer-pkcs11/broker/journal_futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint32_t futex_wait_while(_Atomic uint32_t *word, uint32_t value, mono_ns deadline)
{
    struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    uint32_t now = atomic_load(word);
    while (now == value) {
        long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline == FUTEX_FOREVER ? NULL : &until,
                          NULL, FUTEX_BITSET_MATCH_ANY);
        bool late = rc != 0 && errno == ETIMEDOUT;
        BUG_IF(rc != 0 && !late && errno != EAGAIN && errno != EINTR);
        now = atomic_load(word);
        if (late) {
            break;
        }
    }
    return now;
}

void futex_wake(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void futex_set_and_wake(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    futex_wake(word);
}
