/* What writer and reader of a snapshot share. */
#ifndef API_SNAPSHOT_FILE_INTERNAL_H
#define API_SNAPSHOT_FILE_INTERNAL_H

#include "api/snapshot/file.h"

#include <openssl/evp.h>

#define SNAPSHOT_MAGIC        "SVCRMS1\n"
#define SNAPSHOT_CHUNK        ((size_t)1 << 18)
#define SNAPSHOT_MANIFEST_MAX ((size_t)1 << 17)

/* What the manifest says of one table. */
struct snapshot_table {
    char name[SNAPSHOT_NAME_MAX + 1];
    uint64_t rows, bytes;
    struct sha256 sha256;
};

/* A running SHA-256. */
struct fault snapshot_digest_new(EVP_MD_CTX **ret_digest);

#endif
