/* Shared by the files of signer-pkcs11/sealed/ and its tests; nobody else includes this. */
#ifndef SIGNER_SEALED_INTERNAL_H
#define SIGNER_SEALED_INTERNAL_H

#include "signer-pkcs11/sealed/sealed.h"

#include <pthread.h>

#define SEALED_BLOB_MAX 512
#define SEALED_FILE_MAX 4096
#define SEALED_AAD_MAX  256

struct sealed_keys {
    int folder; /* descriptor */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy; /* one key at a time is made or destroyed, so that "exists" is decided once; guarded by lock */
};

/* ---- record.c: what a file holds ---- */

/*
 * "svcseal" 0, version 1, algorithm, purpose, tenant and id (each behind one length byte), public key and sealed seed
 * (each behind two), SHA-256 of all before. The digest finds accidents; the sealing finds intent.
 */
struct sealed_record {
    struct key_ref key; /* without its token's name: only the right one opens it */
    enum key_algorithm algorithm;
    struct span spki, blob; /* borrowed when read */
};
struct fault sealed_record_print(const struct sealed_record *record, struct buf *out);
/* BAD_ARGUMENT: not whole, or not of this version. */
struct fault sealed_record_parse(struct span bytes, struct sealed_record *ret_record);
/* What the sealing binds. */
struct fault sealed_record_aad(const struct sealed_record *record, struct buf *out);

/* ---- folder.c: the files ---- */

enum sealed_file { SEALED_FILE_NONE, SEALED_FILE_KEY, SEALED_FILE_GONE };
/* GONE: its destruction is begun, and nobody uses it any more. SEALED_STORE. */
struct fault sealed_folder_look(struct op *op, struct sealed_keys *keys, const struct key_ref *key,
                                enum sealed_file *ret_file);
/* SEALED_KEY when somebody else could read or write it; KEY_NOT_FOUND, SEALED_STORE. */
struct fault sealed_folder_read(struct op *op, struct sealed_keys *keys, const struct key_ref *key, struct buf *out);
/* On disk, whole, when it returns OK; otherwise not there. SEALED_STORE. */
struct fault sealed_folder_write(struct op *op, struct sealed_keys *keys, const struct key_ref *key, struct span bytes);
struct fault sealed_folder_bury(struct op *op, struct sealed_keys *keys, const struct key_ref *key); /* KEY to GONE */
struct fault sealed_folder_remove(struct op *op, struct sealed_keys *keys,
                                  const struct key_ref *key); /* GONE to NONE */

#endif
