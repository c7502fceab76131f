/* Where provisioning keeps what it keeps; functions of provision.h with their places, for its siblings and tests. */
#ifndef APPLIANCE_MACHINE_PROVISION_STORE_H
#define APPLIANCE_MACHINE_PROVISION_STORE_H

#include "appliance/machine/provision.h"

#define PROVISION_PIN_MIN 6 /* bytes of the state's PIN */
#define PROVISION_PIN_MAX 128

/* Folders of the product's data that are the machine's to fill. */
#define LISTENER_DIR  PRODUCT_DATA_DIR "/listener" /* svc-api's: the site's certificate of the HTTPS listener */
#define LISTENER_CERT LISTENER_DIR "/tls.crt"
#define LISTENER_KEY  LISTENER_DIR "/tls.key"
#define LISTENER_CSR  LISTENER_DIR "/tls.csr"
#define HSM_DIR       PRODUCT_DATA_DIR "/hsm" /* svc-signer's */
#define HSM_PIN_FILE  HSM_DIR "/pin"

struct provision_places {
    const char *machine; /* MACHINE_DIR */
    const char *data;    /* PRODUCT_DATA_DIR */
};
struct fault provision_save_to(struct op *op, const struct provision_places *places,
                               const struct provision_found *found);

/* What --check-config --json said of the configuration in use: the console shows the FIPS posture from it. */
#define PROVISION_POSTURE_FILE MACHINE_RUN_DIR "/posture.json"
/* By which clients reach the machine: https://HOST:8443. */
struct fault provision_base_url(struct op *op, const struct provision *provision, const char **ret_url);
/* What the certificate of the HTTPS listener has to be good for: host name, further names, addresses. */
struct fault provision_listener_names(struct op *op, const struct provision *provision, struct provision_texts *ret);
/* Would the product take the configuration that comes of it? CONFIG, with lines for `why` (may be NULL). */
struct fault provision_judge(struct op *op, const struct provision *provision, struct buf *why);
/* File and PIN files from an open folder. */
struct fault provision_read_from(struct op *op, int dir, struct buf *why, struct provision_found *ret_found);
/* The same for a file of any name, and the PIN files beside it: what the machine would say of it. NOT_FOUND, CONFIG. */
struct fault provision_read_file(struct op *op, const char *path, struct buf *why, struct provision_found *ret_found);
/* The PIN files that a parsed provisioning names, and whether it needs any. */
struct fault provision_read_pins(struct op *op, int dir, struct buf *why, struct provision_found *found);

#endif
