/*
 * Governed signing of artifact digests with managed keys. A request becomes a sealed command in the event log
 * (codesign.commanded); the projection queues it (outbox "codesign.command"); a worker opens it, has the signer sign
 * under the operation's id, checks the signature against the stored public key and appends codesign.signed and
 * codesign.completed as one message. The request thread only waits for its own operation, and a repeated request with
 * the same Idempotency-Key finds that operation again, because its id is the command id.
 *
 *   (none) --accepted--> commanded --signed--> signed --> completed
 *                        commanded --terminal failure--> failed (closed code of fault.def)
 */
#ifndef API_CODESIGN_CODESIGN_H
#define API_CODESIGN_CODESIGN_H

#include "api/feature.h"

extern const struct feature codesign_feature;

#endif
