/*
 * The way back for the database: a version on trial may migrate it, and the version before does not read what it made.
 * So before a trial begins, the embedded database's files are copied (nothing runs on them yet); when the machine falls
 * back, the copy takes their place, and the projector replays what the event log has had since. The event log, keys and
 * the signer's journal are never put back: they hold what was promised meanwhile.
 *
 * In the folder of the product's data: postgres, postgres.before-VERSION (of the version that ran before). For siblings
 * in this folder only.
 */
#ifndef APPLIANCE_MACHINE_UPDATE_KEEP_H
#define APPLIANCE_MACHINE_UPDATE_KEEP_H

#include "appliance/base/op.h"
#include "appliance/release/version.h"

/* The copy, unless it was made before; no embedded database is fine. `before`: the version that it belongs to. */
struct fault update_keep_database(struct op *op, const char *data, struct version before);
/* Puts the copy of `running` back, if there is one, and drops those of other versions and what was left unfinished. */
struct fault update_keep_settle(struct op *op, const char *data, struct version running);
/* Kept for good: drops the copies of other versions. */
struct fault update_keep_drop(struct op *op, const char *data, struct version running);
/* Bytes that a copy takes. */
struct fault update_keep_size(struct op *op, const char *data, uint64_t *ret_bytes);

#endif
