/* run_dir/disks.json: the space of the folders whose parts svc-api does not see (appliance/stores/profiles.h). */
#ifndef APPLIANCE_SUPERVISOR_DISKS_H
#define APPLIANCE_SUPERVISOR_DISKS_H

#include "appliance/base/config.h"
#include "appliance/base/fault.h"

/* {"journal_free":N,"journal_total":N,"nats_free":N,...}: bytes, of journal, postgres and nats, as far as their folders
 * lie on this host and can be asked. Replaced whole. IO. */
struct fault disks_write(const struct config *config);

#endif
