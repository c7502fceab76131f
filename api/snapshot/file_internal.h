/* What writer and reader of a snapshot share. */
#ifndef API_SNAPSHOT_FILE_INTERNAL_H
#define API_SNAPSHOT_FILE_INTERNAL_H

#include "api/snapshot/file.h"
#include "appliance/base/hashed_file.h"

#define SNAPSHOT_MAGIC        "SVCRMS1\n"
#define SNAPSHOT_MANIFEST_MAX ((size_t)1 << 17)

/* What the manifest says of one table. */
struct snapshot_table {
    char name[SNAPSHOT_NAME_MAX + 1];
    uint64_t rows, bytes;
    struct sha256 sha256;
};

#endif
