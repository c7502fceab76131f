/*
 * The door between svc-api and svc-signer: a listening unix socket at signer.socket that belongs to svc-api (0600, in a
 * 0700 folder), made here because neither of the two could make it alone, and handed to each svc-signer that is
 * started. Since it stays open over restarts, a caller waits in its queue for the next signer instead of being turned
 * away; when the signer stays away for too long, the door is shut (mode 0, and the queue is sent home), so that nobody
 * waits for nothing.
 */
#ifndef APPLIANCE_SUPERVISOR_SIGNER_DOOR_H
#define APPLIANCE_SUPERVISOR_SIGNER_DOOR_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

struct signer_door;

/* Replaces a stale socket. The folder is made when it is missing. CONFIG, IO. */
struct fault signer_door_new(struct op *op, const struct config *config, struct signer_door **ret_door);
void signer_door_free(struct signer_door *door); /* and removes the socket; NULL is fine */
DEFINE_FREEP(struct signer_door, signer_door_free)

/* The descriptor to hand over. */
int signer_door_listener(const struct signer_door *door);
/* Open: callers come in, or wait for the signer. Shut: they are turned away, those who wait too if there is no signer
 * (`alive`) that could still take them. */
void signer_door_open(struct signer_door *door);
void signer_door_shut(struct signer_door *door, bool alive);

/* Has the signer answered? Asks it once through the door, and looks for its answer at each call without waiting for
 * long. OK = it has. SIGNER_UNAVAILABLE = not yet. */
struct fault signer_door_ask(struct op *op, struct signer_door *door);
/* A new signer was started: what was asked before is forgotten. */
void signer_door_ask_anew(struct signer_door *door);

#endif
