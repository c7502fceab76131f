/*
 * svc-signer's inside: connections, the operations behind them, and the orderly end. One thread reads all connections
 * and answers what needs no token; signer.sessions workers, each with a session of the token, take the rest from a line
 * of at most signer.queue. A request that finds the line full is answered SATURATED at once, one that is still in it at
 * its deadline too. Health never waits for the token. A connection has one request at a time.
 */
#ifndef SIGNER_BROKER_BROKER_H
#define SIGNER_BROKER_BROKER_H

#include "appliance/base/config.h"
#include "signer-pkcs11/broker/journal.h"
#include "signer-pkcs11/broker/purpose.h"
#include "signer-pkcs11/token/token.h"

#define BROKER_CONNECTIONS_MAX 128u
#define BROKER_API_MAX         120u /* of these for the API, so that the supervisor always gets one */

struct broker;
struct broker_parts { /* all borrowed for the broker's life */
    const struct config *config;
    struct token *token;
    struct journal *journal;
    struct askers askers;
    bool fips_active, self_test_passed;
};
/* Starts the workers. */
struct fault broker_new(const struct broker_parts *parts, struct broker **ret_broker);
void broker_free(struct broker *broker); /* after broker_drain */
DEFINE_FREEP(struct broker, broker_free)

/* Binds signer.socket (mode 0660), replacing a stale one; makes its folder (0750) when missing. IO. */
struct fault broker_listen(const struct config *config, struct buf *why, int *ret_fd);
/* Takes connections from `listener` until `signals` (a signalfd) reads. OK then; TOKEN_UNAVAILABLE when only a new
 * process can bring the token back. */
struct fault broker_serve(struct broker *broker, int listener, int signals);
/* No more requests; waits for those in flight until `deadline`. True: all are answered. */
bool broker_drain(struct broker *broker, mono_ns deadline);

#endif
