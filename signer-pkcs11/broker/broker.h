/*
 * svc-signer's inside: connections, the operations behind them, and the orderly end. One thread a connection, at most
 * BROKER_CONNECTIONS_MAX; a connection's thread answers its requests one by one and itself borrows a session of the
 * token. A bulkhead before the token lets signer.sessions in and signer.queue wait; who does not fit is answered
 * SATURATED at once, and who waited until its deadline too. Health never waits for the token.
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
