/*
 * Who holds the threads of one listener. civetweb gives each connection a thread until it ends, so idle keep-alive
 * connections, slow senders and slow readers could hold them all. Every thread has a slot that says what its connection
 * does and since when; above the high-water mark the connection that has waited longest for its next request is cut,
 * and when none waits, the one that has been at its body or its answer for longest (five seconds at least). Whoever
 * overstays a phase that depends on the peer (body, answer, lingering) is cut at any time.
 *
 * Cutting shuts the socket down, its thread sees the end and cleans up. A slot is closed before its descriptor is,
 * under the lock, so a descriptor that was used again is never cut. Thread-safe. `now` is handed in, so that tests need
 * no time.
 */
#ifndef API_SERVER_SLOTS_H
#define API_SERVER_SLOTS_H

#include "appliance/base/clock.h"
#include "appliance/base/fault.h"

enum slot_phase {
    SLOT_FREE,      /* no connection */
    SLOT_WAITING,   /* handshake, or for the next request's header */
    SLOT_HANDLING,  /* in the pipeline: bounded by the operation's deadline */
    SLOT_BODY,      /* reading a body */
    SLOT_WRITING,   /* sending the answer */
    SLOT_LINGERING, /* reading what a refused sender still sends */
    SLOT_PHASES
};

struct slots;
struct slot;

/* For `threads` threads; relieved when fewer than `spare` are free. */
struct fault slots_new(size_t threads, size_t spare, struct slots **ret_slots);
void slots_free(struct slots *slots);
DEFINE_FREEP(struct slots, slots_free)

/* One for each thread, at its start. NULL when all are given out (a bug of the caller's). */
struct slot *slots_take(struct slots *slots);

/* A connection begins (again harmless) or ends; fd -1 = unknown yet, cannot be cut. */
void slot_open(struct slots *slots, struct slot *slot, int fd, mono_ns now);
bool slot_knows_fd(struct slots *slots, struct slot *slot);
void slot_learn_fd(struct slots *slots, struct slot *slot, int fd);
void slot_close(struct slots *slots, struct slot *slot);
/* A request has come: HANDLING, and true. False when the connection was cut meanwhile, with the request already on its
 * way: no answer could reach the sender any more, so nothing may be done for it. */
bool slot_begin(struct slots *slots, struct slot *slot, mono_ns now);
void slot_enter(struct slots *slots, struct slot *slot, enum slot_phase phase, mono_ns now);

/* Fewer threads than `spare` are free: answers should close their connections. */
bool slots_pressed(struct slots *slots);
/* Cuts who overstays, and above the mark as many waiting ones as needed, longest first; one that never sent a request
 * is left a second. Called when a connection begins and by the server's janitor. Returns how many were cut. */
size_t slots_relieve(struct slots *slots, mono_ns now);
/* For the drain: cuts every waiting connection. */
size_t slots_cut_waiting(struct slots *slots);
/* At its end: every connection. */
size_t slots_cut_all(struct slots *slots);
/* Connections that are neither free nor waiting. */
size_t slots_busy(struct slots *slots);

#endif
