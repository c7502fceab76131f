/* The parts of the appliance as units to supervise, in start order. */
#ifndef APPLIANCE_SUPERVISOR_UNITS_H
#define APPLIANCE_SUPERVISOR_UNITS_H

#include "appliance/supervisor/appliance.h"
#include "appliance/supervisor/children.h"

/* Embedded or external, as the configuration says. */
const struct unit_row *unit_postgres(const struct config *config);
const struct unit_row *unit_nats(const struct config *config);
const struct unit_row *unit_signer(void);
const struct unit_row *unit_api(const struct config *config);

#define USER_API "svc-api"

/* argv of a program of ours: <bin_dir>/<program> <words...> --config FILE, in the arena. words: NULL-terminated. */
struct fault unit_argv(struct op *op, const struct appliance *appliance, const char *program, const char *const *words,
                       const char *const **ret_argv);

#endif
