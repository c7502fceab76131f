/*
 * What a site tells its machine once, at first boot: provision.yaml on a medium labelled SVC-PROVISION, or the same
 * answers on the console (console.h). The schema is closed: unknown, doubled and missing keys are refused, with the
 * line. What was accepted is kept as PROVISION_FILE in the state, without a PIN in it; the product's own
 * configuration is generated from it at every boot. docs/first-boot.md is the reference for sites.
 *
 *     PID 1:   the state is new:  provision_find_and_read(op, &why, &found)      -- while NOT_FOUND: try again later
 *                            or:  provision_read_answers(op, text, &why, &found) -- control.h: provision
 *                                 create the state with found.provision.state and found.state_pin, mount it
 *                                 provision_save(op, &found)
 *              else               provision_load(op, PROVISION_FILE, &provision)
 *              always             provision_write_svc_yaml(op, &provision, PRODUCT_CONFIG)
 *              and                svc-appliance run --config PRODUCT_CONFIG
 */
#ifndef APPLIANCE_MACHINE_PROVISION_H
#define APPLIANCE_MACHINE_PROVISION_H

#include "appliance/base/op.h"
#include "appliance/base/secret.h"
#include "appliance/machine/status.h"

#define PROVISION_LABEL       "SVC-PROVISION"  /* of the medium's file system: vfat, ext4 or iso9660 */
#define PROVISION_NAME        "provision.yaml" /* of the file on it */
#define PROVISION_FILE_MAX    ((size_t)60 << 10)
/* Where the console's process leaves PINs that were typed, for provision_read_answers: tmpfs, root's alone, 0700. */
#define PROVISION_ANSWERS_DIR MACHINE_RUN_DIR "/answers"

#define PROVISION_LIST_MAX     16
#define PROVISION_SETTINGS_MAX 256

struct provision_texts {
    const char **at;
    size_t count;
};

enum provision_tls { PROVISION_TLS_SELF, PROVISION_TLS_CSR };
enum provision_hsm { PROVISION_HSM_EMBEDDED, PROVISION_HSM_MODULE };
enum provision_seal { PROVISION_SEAL_AUTO, PROVISION_SEAL_TPM2, PROVISION_SEAL_PIN, PROVISION_SEAL_NONE };

/* One key of svc.yaml with its value, for `settings`: of a kind that the key takes. */
struct provision_setting {
    const char *key;               /* dotted: "http.threads" */
    struct provision_texts values; /* one, unless the key is a list */
};

/* Checked as a whole; every text is NUL-terminated, printable and within its bounds. "" and empty lists = not given. */
struct provision {
    const char *hostname, *tenant;
    struct {
        const char *interface;            /* "auto" = the first that has a link; else a name */
        struct provision_texts addresses; /* CIDR: "192.0.2.10/24", "2001:db8::10/64"; at least one */
        struct provision_texts gateways;  /* at most one of each family; each within a network of `addresses` */
        struct provision_texts dns;       /* addresses */
    } network;
    struct {
        struct provision_texts servers; /* names or addresses for chrony */
        bool trust_host;                /* time stamps although the kernel's clock is not synchronised */
    } time;
    struct {
        const char *subject, *ttl; /* of the first token; ttl as a duration ("720h") */
    } admin;
    struct {
        enum provision_tls mode;
        struct provision_texts names; /* further host names and addresses of the HTTPS listener */
    } tls;
    struct {
        enum provision_hsm kind;
        const char *module;   /* absolute path, below /run/extensions/NAME/lib */
        const char *label;    /* of the token */
        const char *slot;     /* its number; "" = by label */
        const char *login;    /* "user" (with the PIN), "protected" (the token's own pad), "none" */
        const char *pin_file; /* on the medium: a file name; once saved: "" */
    } hsm;
    struct {
        bool enabled;
        const char *policy, *algorithm; /* "" = the product's default */
        struct provision_texts policies;
    } tsa;
    struct {
        enum provision_seal seal;
        const char *pin_file; /* on the medium: a file name; once saved: "" */
    } state;
    struct provision_texts
        extension_keys; /* PEM public keys, beside the release keys, that may sign extension images */
    struct {
        struct provision_setting *at;
        size_t count;
    } settings;
};

/* A provisioning that was not saved yet. */
struct provision_found {
    struct provision provision;         /* in the arena of the op that found it */
    struct secret *state_pin, *hsm_pin; /* owned; NULL = none given */
    char device[64];                    /* "/dev/sdb1"; "" = answered on the console */
};
void provision_found_clear(struct provision_found *found); /* idempotent; the form that CLEANUP wants */

const char *provision_seal_text(enum provision_seal seal); /* "auto", "tpm2", "pin", "none" */

/* The text of a provision.yaml, as a site writes it. Lives in op's arena. CONFIG: op's note names line and key, and
 * `why` (if not NULL) gets every refusal, one a line. */
struct fault provision_parse(struct op *op, struct span text, const char *file, struct buf *why,
                             struct provision *ret_provision);
/* As YAML that provision_parse takes, in one form only: the same provisioning is the same text. No PIN, no pin_file. */
struct fault provision_print(const struct provision *provision, struct buf *out);

/* Looks for the medium once, reads the file and the PIN files beside it, and leaves nothing mounted. NOT_FOUND: no
 * medium, or no provision.yaml on it. CONFIG: refused; `why` has the lines. */
struct fault provision_find_and_read(struct op *op, struct buf *why, struct provision_found *ret_found);
/* The answers of the console: the text of a provision.yaml whose pin_files lie in PROVISION_ANSWERS_DIR, which is
 * emptied. CONFIG: refused; `why` has the lines. */
struct fault provision_read_answers(struct op *op, struct span text, struct buf *why,
                                    struct provision_found *ret_found);
/* Keeps it: provision.yaml last, since its presence tells that the machine is provisioned. HSM PIN and the console's
 * PIN go to their places first. The state must be mounted. May be interrupted and run again. */
struct fault provision_save(struct op *op, const struct provision_found *found);
/* NOT_FOUND: not provisioned. */
struct fault provision_load(struct op *op, const char *path, struct provision *ret_provision);

/* Prints the product's configuration alone; `imported`: the site's certificate of the listener is there. */
struct fault provision_print_svc_yaml(struct op *op, const struct provision *provision, bool imported, struct buf *out);
/* Writes it (0644: svc-signer and svc-api read it as their own users; there is no secret in it) and has
 * `svc-appliance --check-config` judge it first: CONFIG when that refuses, with its line noted. */
struct fault provision_write_svc_yaml(struct op *op, const struct provision *provision, const char *path);

#endif
