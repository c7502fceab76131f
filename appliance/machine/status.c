#include "appliance/machine/status.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"

#include <string.h>

static const char *const PHASES[] = {
    [PHASE_STARTING] = "starting",       [PHASE_PROVISIONING] = "provisioning", [PHASE_LOCKED] = "locked",
    [PHASE_OPENING] = "opening",         [PHASE_RUNNING] = "running",           [PHASE_READY] = "ready",
    [PHASE_MAINTENANCE] = "maintenance", [PHASE_STOPPING] = "stopping",
};

const char *machine_phase_text(enum machine_phase phase)
{
    return (size_t)phase < COUNT_OF(PHASES) ? PHASES[phase] : "starting";
}

bool machine_phase_parse(const char *text, enum machine_phase *ret_phase)
{
    for (size_t i = 0; i < COUNT_OF(PHASES); i++) {
        if (strcmp(text, PHASES[i]) == 0) {
            *ret_phase = (enum machine_phase)i;
            return true;
        }
    }
    return false;
}

static void put_text(struct jout *jout, const char *key, const char *text)
{
    jout_key_text(jout, key, text != NULL ? text : "");
}

static void put_addresses(struct jout *jout, const struct status *status)
{
    jout_key(jout, "addresses");
    jout_array(jout);
    for (size_t i = 0; i < status->address_count && i < STATUS_ADDRESSES_MAX; i++) {
        jout_text(jout, status->addresses[i]);
    }
    jout_array_end(jout);
}

struct fault status_print(const struct status *status, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    put_text(&jout, "phase", machine_phase_text(status->phase));
    jout_key_time(&jout, "since", status->since);
    put_text(&jout, "version", status->version);
    put_text(&jout, "profile", status->profile);
    put_text(&jout, "slot", status->slot);
    put_text(&jout, "hostname", status->hostname);
    put_text(&jout, "interface", status->interface);
    put_addresses(&jout, status);
    put_text(&jout, "seal", status->seal);
    put_text(&jout, "seal_text", status->seal_text);
    jout_key_bool(&jout, "secure_boot", status->secure_boot);
    jout_key_bool(&jout, "time_synchronised", status->time_synchronised);
    put_text(&jout, "time_source", status->time_source);
    jout_key_int(&jout, "service_restarts", status->service_restarts);
    jout_key_int(&jout, "service_pid", status->service_pid);
    put_text(&jout, "failure", status->failure);
    put_text(&jout, "refusal", status->refusal);
    put_text(&jout, "updated", status->updated);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault status_write(const struct status *status, const char *path)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(STATUS_FILE_MAX);
    TRY(status_print(status, &text));
    TRY(buf_text(&text, "\n"));
    return file_write(path, buf_span(&text), 0644);
}

/* ---- reading ---- */

struct read_status {
    const char *phase, *version, *profile, *slot, *hostname, *interface, *seal, *seal_text, *time_source, *failure,
        *refusal, *updated;
    utc_us since;
    struct jin_texts addresses;
    bool secure_boot, time_synchronised;
    int64_t service_restarts, service_pid;
};
#define R(member, max) JIN_TEXT(struct read_status, member, JIN_REQUIRED, 0, max)
static const struct jin_field FIELDS[] = {
    R(phase, 32),
    JIN_TIME(struct read_status, since, JIN_REQUIRED),
    R(version, 64),
    R(profile, 32),
    R(slot, 8),
    R(hostname, 256),
    R(interface, 64),
    JIN_TEXTS(struct read_status, addresses, JIN_REQUIRED, 0, STATUS_ADDRESSES_MAX),
    R(seal, 32),
    R(seal_text, 512),
    JIN_BOOL(struct read_status, secure_boot, JIN_REQUIRED),
    JIN_BOOL(struct read_status, time_synchronised, JIN_REQUIRED),
    R(time_source, 32),
    JIN_INT(struct read_status, service_restarts, JIN_REQUIRED, 0, INT32_MAX),
    JIN_INT(struct read_status, service_pid, JIN_REQUIRED, 0, INT32_MAX),
    R(failure, 2048),
    R(refusal, 2048),
    R(updated, 256),
};
#undef R

struct fault status_read(struct op *op, const char *path, struct status *ret_status)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(STATUS_FILE_MAX);
    TRY(file_read(path, &text));
    struct read_status got = { 0 };
    TRY(jin_decode(op, buf_span(&text), FIELDS, COUNT_OF(FIELDS), &got));
    struct status status = {
        .version = got.version,
        .profile = got.profile,
        .slot = got.slot,
        .hostname = got.hostname,
        .interface = got.interface,
        .address_count = got.addresses.count,
        .seal = got.seal,
        .seal_text = got.seal_text,
        .secure_boot = got.secure_boot,
        .time_synchronised = got.time_synchronised,
        .time_source = got.time_source,
        .service_restarts = got.service_restarts,
        .service_pid = got.service_pid,
        .since = got.since,
        .failure = got.failure,
        .refusal = got.refusal,
        .updated = got.updated,
    };
    if (!machine_phase_parse(got.phase, &status.phase)) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/phase", "no phase of a machine");
    }
    for (size_t i = 0; i < got.addresses.count; i++) {
        status.addresses[i] = got.addresses.at[i];
    }
    *ret_status = status;
    return OK;
}
