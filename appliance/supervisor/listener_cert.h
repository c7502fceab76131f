/*
 * The certificate of the HTTPS listener, when none is configured: a leaf of data_dir/api/tls.crt and tls.key, issued by
 * a small authority whose certificate is data_dir/ca.pem and whose key is thrown away at once. So whoever trusts
 * ca.pem trusts this one listener and nothing else that could be issued later.
 */
#ifndef APPLIANCE_SUPERVISOR_LISTENER_CERT_H
#define APPLIANCE_SUPERVISOR_LISTENER_CERT_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

#include <openssl/types.h>

/* Makes the three files where one is missing, they do not belong together, the names do not cover http.listen any
 * more, or the end is near. With a configured certificate ca.pem gets the last of its chain. After fips_start. */
struct fault listener_cert_ensure(struct op *op, const struct config *config);

/* The making alone: authority, leaf and the leaf's key as PEM. `names`: NULL-terminated host names and addresses. */
struct listener_pem {
    struct buf ca, leaf, key; /* BUF_INIT them; buf_free each */
};
#define LISTENER_PEM_MAX 16384
struct fault listener_cert_make(struct op *op, const char *const *names, struct listener_pem *pem);
/* Does the leaf belong to key and authority, cover every name, and last for another `days`? */
bool listener_cert_good(struct span ca, struct span leaf, struct span key, const char *const *names, int days);

#endif
