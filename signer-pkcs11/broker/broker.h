/*
 * svc-signer's inside: connections, the operations behind them, and the orderly end.
 *
 * One thread serves one connection from its first byte to its last: it reads a request, waits for a session of the
 * token, signs, and answers. Between two requests it sleeps in one system call, so a request costs four of them on both
 * ends together. All threads are made before the sandbox closes. The serving thread takes new connections and watches
 * the others: an operation that is inside the module beyond its deadline is answered by it, its connection is closed,
 * and its session is set aside; the module's thread finds that out when, and if, its call returns.
 *
 * Who finds all sessions busy waits for one, at most signer.queue of them and until its deadline; both are SATURATED.
 * Health never waits for the token. A connection has one request at a time: a second one before the answer closes it.
 */
#ifndef SIGNER_BROKER_BROKER_H
#define SIGNER_BROKER_BROKER_H

#include "appliance/base/config.h"
#include "signer-pkcs11/broker/journal.h"
#include "signer-pkcs11/broker/listen.h"
#include "signer-pkcs11/sealed/sealed.h"
#include "signer-pkcs11/token/tokens.h"

#define BROKER_CONNECTIONS_MAX 128u
#define BROKER_API_MAX         120u /* of these for the API, so that the supervisor always gets one */

struct broker;
struct broker_parts { /* all borrowed for the broker's life */
    const struct config *config;
    struct tokens *tokens;
    struct journal *journal;
    struct sealed_keys *sealed; /* NULL: it keeps none (tests) */
    const struct listeners *listeners;
    struct askers askers;
    bool fips_active, self_test_passed;
};
/* Makes the threads. */
struct fault broker_new(const struct broker_parts *parts, struct broker **ret_broker);
void broker_free(struct broker *broker); /* after broker_drain */
DEFINE_FREEP(struct broker, broker_free)

/* Takes connections until `signals` (a signalfd) reads. OK then; TOKEN_UNAVAILABLE when only a new process can bring a
 * token back. */
struct fault broker_serve(struct broker *broker, int signals);
/* Serves a connection that is there already, for tests. Takes over `fd`. SATURATED. */
struct fault broker_adopt(struct broker *broker, int fd, unsigned askers);
/* No more requests; waits for those in flight until `deadline`. True: all are answered. */
bool broker_drain(struct broker *broker, mono_ns deadline);

#endif
