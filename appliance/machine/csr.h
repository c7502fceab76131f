/*
 * The certificate of the HTTPS listener. With tls.mode self the product makes and renews one by itself, and its small
 * authority is ca.pem. With tls.mode csr the machine makes a key pair (ECDSA P-256, by the FIPS module), which never
 * leaves the state, and a PKCS#10 request with the machine's names; until the site's certificate is imported the
 * product's own one serves. The key belongs to svc-api, the only process that needs it.
 *
 * For a process of its own (`svc-machine certificate ...`): csr_make and csr_import want fips_start first.
 */
#ifndef APPLIANCE_MACHINE_CSR_H
#define APPLIANCE_MACHINE_CSR_H

#include "appliance/base/op.h"
#include "appliance/machine/provision.h"

#define CSR_PEM_MAX   ((size_t)16 << 10)
#define CSR_CHAIN_MAX ((size_t)64 << 10)

/* The request as PEM, over the key that is there, else a new one. Made anew each time, so that it has today's names. */
struct fault csr_make(struct op *op, const struct provision *provision, struct buf *pem);
/* A PEM chain, leaf first: of our key, with every name of the machine, valid now, for a server, each certificate
 * issued by the next. BAD_ARGUMENT with what is wrong. Takes effect with the product's next start. */
struct fault csr_import(struct op *op, const struct provision *provision, struct span chain);

/* The checks and the making alone. names: NULL-terminated. */
struct fault csr_print(struct op *op, const char *const *names, struct span key_pem, struct buf *pem);
struct fault csr_key_new(struct buf *key_pem);
struct fault csr_check(struct op *op, const char *const *names, struct span key_pem, struct span chain);

/* SHA-256 of the first certificate of a PEM text, as "AB:CD:..."; and until when it is valid. NOT_FOUND: no file. */
#define FINGERPRINT_TEXT 96
struct certificate_view {
    char fingerprint[FINGERPRINT_TEXT], subject[160];
    utc_us not_after;
};
struct fault certificate_view(struct op *op, struct span pem, struct certificate_view *ret_view);

/* Of this machine: data_dir's ca.pem, and what the listener shows (by its file; svc-api's, so read with its rights). */
struct fault certificate_authority(struct op *op, struct certificate_view *ret_view);
struct fault certificate_listener(struct op *op, const struct provision *provision, struct certificate_view *ret_view);

#endif
