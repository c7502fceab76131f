/*
 * nats-server with JetStream: the appliance's own one under data_dir/nats, on a loopback port, with one user whose
 * password is made anew at every start of the appliance; or an external one that is merely asked whether it answers.
 * Every append is on disk before it is acknowledged (sync_interval: always).
 */
#ifndef APPLIANCE_STORES_NATS_H
#define APPLIANCE_STORES_NATS_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

#include <sys/types.h>

#define NATS_USER        "svc-nats"
#define NATS_CLIENT_USER "svc-api"

bool nats_embedded(const struct config *config);
/* Writes the server's configuration and the client's credentials (data_dir/nats-client/credentials, "user:password",
 * 0600, svc-api). CONFLICT when something else holds the port. */
struct fault nats_init(struct op *op, const struct config *config);
struct fault nats_start(struct op *op, const struct config *config, pid_t *ret_pid);
/* OK when the server answers within op's deadline, and, embedded, takes our credentials and has JetStream on;
 * LOG_UNAVAILABLE. */
struct fault nats_check(struct op *op, const struct config *config);

#endif
