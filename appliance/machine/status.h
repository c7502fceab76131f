/*
 * What PID 1 tells the others: STATUS_FILE, one JSON object, replaced whole at every change (0644; there is no secret
 * in it). The console shows it, `svc-machine status` prints it, tests wait for it. Written by PID 1 alone.
 */
#ifndef APPLIANCE_MACHINE_STATUS_H
#define APPLIANCE_MACHINE_STATUS_H

#include "appliance/base/op.h"

#define MACHINE_RUN_DIR  "/run/svc-machine" /* root only, 0755: status.json, control, resolv.conf */
#define STATUS_FILE      MACHINE_RUN_DIR "/status.json"
#define STATE_DIR        "/var/lib/svc"              /* the state partition */
#define MACHINE_DIR      STATE_DIR "/machine"        /* root only: provision.yaml, svc.yaml, versions.json ... */
#define PRODUCT_DATA_DIR STATE_DIR "/data"           /* data_dir of the product */
#define PRODUCT_RUN_DIR  "/run/svc"                  /* run_dir of the product: state.json is there */
#define PRODUCT_CONFIG   MACHINE_RUN_DIR "/svc.yaml" /* 0644: svc-signer and svc-api read it as their own users */
#define PROVISION_FILE   MACHINE_DIR "/provision.yaml"
#define MACHINE_LOG_FILE                                                                  \
    "/run/log/svc.log" /* what the product and its helpers said; MACHINE_LOG_FILE ".1" is \
                          what was before */
#define MACHINE_PROGRAM   "/usr/bin/svc-machine"
#define APPLIANCE_PROGRAM "/usr/bin/svc-appliance"

#define STATUS_ADDRESSES_MAX 16
#define STATUS_FILE_MAX      16384

/* In which part of its life the machine is. Text: the name in lower case. */
enum machine_phase {
    PHASE_STARTING,     /* mounts, modules, disks */
    PHASE_PROVISIONING, /* no state yet: waits for a provisioning medium or for answers at the console */
    PHASE_LOCKED,       /* the state is there, and waits for its PIN or its recovery key (control.h: unlock) */
    PHASE_OPENING,      /* the state is being made or opened, network and clock set up */
    PHASE_RUNNING,      /* svc-appliance was started and is not ready yet */
    PHASE_READY,        /* the appliance is ready */
    PHASE_MAINTENANCE,  /* what `failure` or `refusal` says; it does not serve, and the console offers what may mend it
                         */
    PHASE_STOPPING,
};
const char *machine_phase_text(enum machine_phase phase);
bool machine_phase_parse(const char *text, enum machine_phase *ret_phase);

struct status {
    enum machine_phase phase;
    const char *version;                         /* VERSION_ID of /usr/lib/os-release */
    const char *profile;                         /* "small", "generic" */
    const char *slot;                            /* "a", "b"; "" = unknown */
    const char *hostname;                        /* "" = none yet */
    const char *interface;                       /* "" = none yet */
    const char *addresses[STATUS_ADDRESSES_MAX]; /* "192.0.2.10/24" */
    size_t address_count;
    const char *seal;        /* mode of the state's key: "tpm2", "tpm2+pin", "pin", "none"; "" = no state */
    const char *seal_text;   /* the same in one plain sentence */
    bool secure_boot;        /* the firmware says so */
    bool time_synchronised;  /* the kernel's clock follows a source */
    const char *time_source; /* "ntp", "host", "none" */
    int64_t service_restarts;
    int64_t service_pid; /* 0 = not running */
    utc_us since;        /* of the phase */
    const char *failure; /* last failure of the machine itself, one line; "" = none */
    const char *refusal; /* last thing that svc-appliance refused to start for, one line; "" = none */
    const char *updated; /* "", or what became of a pending update: "committed VERSION", "trying VERSION" */
};

/* Members are strings of the writer's; NULL is "". */
struct fault status_write(const struct status *status, const char *path);
/* Strings in op's arena. NOT_FOUND when PID 1 has not written it yet (or this is not the image). */
struct fault status_read(struct op *op, const char *path, struct status *ret_status);
struct fault status_print(const struct status *status, struct buf *out); /* the JSON */

#endif
