/*
 * Stopping a serving svc-api. The first SIGTERM or SIGINT begins the drain, in this order:
 *
 *   leave       /readyz says `stopping`, answers close their connections, and for http.drain_delay everything is still
 *               accepted, so that a load balancer sends its next requests elsewhere
 *   accept      listening ends, idle connections are cut
 *   dispatcher  nothing is leased from the outbox's backlog any more: only rows whose outcome a request in hand waits
 *               for. An accepted request is answered by this process, not abandoned with its row to another one
 *   requests    what is in hand is answered, for http.drain at most; then its connections are cut
 *   workers     periodic work and outbox handlers end
 *   sweep       leases that this process still holds are given back
 *   stores      projector, event log, datastore, closed in this order
 *
 * A second signal, or a drain that overran all of its limits, ends the process at once: that is a crash, which loses
 * nothing, only costs the others their wait for leases.
 */
#ifndef API_DRAIN_H
#define API_DRAIN_H

#include "api/server/server.h"
#include "api/server/workers.h"

#include <signal.h>

#define DRAIN_REST_MS 10000 /* for all that comes after the requests; the supervisor waits a little longer */

/* Blocks the two signals, for every thread that is made from now on. */
void drain_signals_block(sigset_t *ret_set);
/* Waits for the first of them. */
int drain_signal_wait(const sigset_t *set);
/* What ends the process at a second signal or when `limit_ms` are over. At most once a process, never taken back. */
void drain_guard(const sigset_t *set, int64_t limit_ms);
/* The whole order; frees all three. `workers` may be NULL. */
void drain(const sigset_t *set, struct server *server, struct workers *workers, struct services *services);

#endif
