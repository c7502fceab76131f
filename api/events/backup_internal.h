/* What writer and reader of a backup share. */
#ifndef API_EVENTS_BACKUP_INTERNAL_H
#define API_EVENTS_BACKUP_INTERNAL_H

#include "api/events/backup_file.h"

#include <openssl/types.h>

#define BACKUP_MAGIC "SVCLOG1\n"
#define BACKUP_CHUNK ((size_t)1 << 18)

/* A running SHA-256. */
struct fault backup_digest_new(EVP_MD_CTX **ret_digest);

#endif
