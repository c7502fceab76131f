/* What writer and reader of a backup share. */
#ifndef API_EVENTS_BACKUP_INTERNAL_H
#define API_EVENTS_BACKUP_INTERNAL_H

#include "api/events/backup_file.h"
#include "appliance/base/hashed_file.h"

#define BACKUP_MAGIC "SVCLOG1\n"

#endif
