/*
 * One thread sleeps on a word of its own, another changes it and wakes exactly that one: what a condition variable
 * gives, without the lock that all woken ones would queue for. The word may be gone as soon as it was changed: waking
 * an address that nobody sleeps on, or that now belongs to another sleeper, does no harm, because sleepers look again.
 */
#ifndef SIGNER_BROKER_JOURNAL_FUTEX_H
#define SIGNER_BROKER_JOURNAL_FUTEX_H

#include "appliance/base/clock.h"

#include <stdatomic.h>

#define FUTEX_FOREVER INT64_MAX

/* Returns the word's value when it is not `value` any more, or `value` at `deadline` (FUTEX_FOREVER: never). */
uint32_t futex_wait_while(_Atomic uint32_t *word, uint32_t value, mono_ns deadline);
/* Wakes one that waits, to look again. */
void futex_wake(_Atomic uint32_t *word);
void futex_set_and_wake(_Atomic uint32_t *word, uint32_t value);

#endif
