/*
 * PostgreSQL: the appliance's own one under data_dir/postgres, reached through a unix socket only, or an external one
 * that is merely asked whether it accepts connections.
 *
 * Who may be who (peer authentication): svc-api is the app and worker roles, svc-pg the owner role and postgres;
 * nobody else gets in, and no password exists.
 */
#ifndef APPLIANCE_STORES_POSTGRES_H
#define APPLIANCE_STORES_POSTGRES_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

#include <sys/types.h>

#define POSTGRES_USER     "svc-pg"
#define POSTGRES_DATABASE "svc"

bool postgres_embedded(const struct config *config);
/* Makes the cluster if there is none and writes its settings. May be interrupted at any point and run again. A cluster
 * of another major version is refused (CONFIG). */
struct fault postgres_init(struct op *op, const struct config *config);
/* Starts the server; it stops in order on POSTGRES_STOP. run_dir/postgres must exist. */
struct fault postgres_start(struct op *op, const struct config *config, pid_t *ret_pid);
/* OK when a connection is accepted within op's deadline; STORE_UNAVAILABLE. External too. */
struct fault postgres_check(struct op *op, const struct config *config);
/* Writes every table anew without its deleted rows, statistics too, and lets go of the write-ahead log that held them.
 * Nobody else may be connected. Embedded only. */
struct fault postgres_scrub(struct op *op, const struct config *config);
/* Roles and database, where missing; a role that could pass row-level security is put right. Embedded only. */
struct fault postgres_provision(struct op *op, const struct config *config);

#endif
