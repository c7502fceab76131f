#include "appliance/machine/console_view.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/machine/provision_store.h"
#include "appliance/stores/folder.h"

#define POSTURE_MAX ((size_t)256 << 10)
#define MEMBERS_MAX 64

/* ---- gathering ---- */

static bool member(struct op *op, struct span json, const char *name, struct jin_member *ret_member)
{
    struct jin_member *members = NULL;
    size_t count = 0;
    if (FAULTED(jin_members(op, json, MEMBERS_MAX, &members, &count))) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].name, name) == 0) {
            *ret_member = members[i];
            return true;
        }
    }
    return false;
}

static bool object(struct op *op, struct span json, const char *name, struct span *ret_json)
{
    struct jin_member found = { 0 };
    if (!member(op, json, name, &found) || found.type != JIN_TYPE_OBJECT) {
        return false;
    }
    *ret_json = found.value;
    return true;
}

static bool flag(struct op *op, struct span json, const char *name, bool *ret_flag)
{
    struct jin_member found = { 0 };
    if (!member(op, json, name, &found) || found.type != JIN_TYPE_BOOL) {
        return false;
    }
    *ret_flag = span_equal_text(found.value, "true");
    return true;
}

bool console_view_fips(struct op *op, struct span json, struct console_view *view)
{
    struct span crypto = { 0 }, fips = { 0 };
    struct jin_member module = { 0 }, version = { 0 };
    if (!object(op, json, "crypto", &crypto) || !object(op, crypto, "fips", &fips) ||
        !flag(op, fips, "required", &view->fips_required) || !flag(op, fips, "module_active", &view->fips_active) ||
        !flag(op, fips, "self_test_passed", &view->fips_tested) || !member(op, fips, "module", &module) ||
        !member(op, fips, "version", &version)) {
        return false;
    }
    view->has_fips =
        !FAULTED(arena_printf(op->arena, &view->fips_module, "%.*s %.*s", (int)module.value.len,
                              (const char *)module.value.at, (int)version.value.len, (const char *)version.value.at));
    return view->has_fips;
}

static void gather_certificates(struct op *op, const struct provision *provision, struct console_view *view)
{
    view->has_authority = !FAULTED(certificate_authority(op, &view->authority));
    view->has_listener = !FAULTED(certificate_listener(op, provision, &view->listener));
    view->waits_for_certificate = provision->tls.mode == PROVISION_TLS_CSR && !path_exists(LISTENER_CERT);
}

void console_view_gather(struct op *op, const struct provision *provision, struct console_view *ret_view)
{
    struct console_view view = { .base_url = "" };
    CLEANUP(buf_free) struct buf posture = BUF_INIT(POSTURE_MAX);
    IGNORE(status_read(op, STATUS_FILE, &view.status));
    if (!FAULTED(file_read(PROVISION_POSTURE_FILE, &posture))) {
        (void)console_view_fips(op, buf_span(&posture), &view);
    }
    if (provision != NULL) {
        gather_certificates(op, provision, &view);
        IGNORE(provision_base_url(op, provision, &view.base_url));
    }
    *ret_view = view;
}

/* ---- printing ---- */

static const char *text_or(const char *text, const char *other)
{
    return text != NULL && text[0] != '\0' ? text : other;
}

static const char *phase_says(enum machine_phase phase)
{
    switch (phase) {
    case PHASE_STARTING:
        return "starting";
    case PHASE_PROVISIONING:
        return "not provisioned: attach a medium labelled " PROVISION_LABEL ", or type provision";
    case PHASE_LOCKED:
        return "locked: type the PIN or the recovery key";
    case PHASE_OPENING:
        return "opening the state";
    case PHASE_RUNNING:
        return "the appliance is starting";
    case PHASE_READY:
        return "ready";
    case PHASE_MAINTENANCE:
        return "maintenance: it does not serve; help lists what can be done";
    case PHASE_STOPPING:
        return "stopping";
    }
    return "?";
}

static struct fault print_certificate(const char *what, const struct certificate_view *certificate, struct buf *out)
{
    char end[RFC3339_MAX];
    rfc3339_print(certificate->not_after, end);
    return buf_printf(out, "  %-12s %s\n  %-12s until %.10s\n", what, certificate->fingerprint, "", end);
}

static struct fault print_fips(const struct console_view *view, struct buf *out)
{
    if (!view->has_fips) {
        return OK;
    }
    return buf_printf(out, "  %-12s %s, module %s, self-test %s (%s)\n", "FIPS",
                      view->fips_required ? "required" : "not required", view->fips_active ? "active" : "not active",
                      view->fips_tested ? "passed" : "not passed", view->fips_module);
}

static struct fault print_network(const struct status *status, struct buf *out)
{
    if (status->address_count == 0) {
        return OK;
    }
    TRY(buf_printf(out, "  %-12s %s:", "network", text_or(status->interface, "?")));
    for (size_t i = 0; i < status->address_count; i++) {
        TRY(buf_printf(out, " %s", status->addresses[i]));
    }
    return buf_text(out, "\n");
}

struct fault console_view_print(const struct console_view *view, struct buf *out)
{
    const struct status *status = &view->status;
    TRY(buf_printf(out, "\n== %s == svc %s (%s)%s%s\n", text_or(status->hostname, "appliance"),
                   text_or(status->version, "?"), text_or(status->profile, "?"),
                   text_or(status->slot, "")[0] != '\0' ? ", slot " : "", text_or(status->slot, "")));
    TRY(buf_printf(out, "  %-12s %s\n", "machine", phase_says(status->phase)));
    TRY(print_network(status, out));
    if (view->base_url[0] != '\0') {
        TRY(buf_printf(out, "  %-12s %s\n", "address", view->base_url));
    }
    if (status->seal != NULL && status->seal[0] != '\0') {
        TRY(buf_printf(out, "  %-12s %s: %s\n", "state", status->seal, text_or(status->seal_text, "")));
    }
    TRY(buf_printf(out, "  %-12s %s\n", "secure boot", status->secure_boot ? "on" : "off"));
    if (status->phase >= PHASE_OPENING) {
        TRY(buf_printf(out, "  %-12s %s, source %s\n", "clock",
                       status->time_synchronised ? "synchronised" : "not synchronised",
                       text_or(status->time_source, "none")));
    }
    TRY(print_fips(view, out));
    TRY(view->has_authority ? print_certificate("CA SHA-256", &view->authority, out) : OK);
    TRY(view->has_listener ? print_certificate("TLS SHA-256", &view->listener, out) : OK);
    if (view->waits_for_certificate) {
        TRY(buf_printf(out, "  %-12s waits for the site's: certificate csr, then certificate import\n", "certificate"));
    }
    if (status->service_restarts > 0) {
        TRY(buf_printf(out, "  %-12s %lld times\n", "restarted", (long long)status->service_restarts));
    }
    if (text_or(status->updated, "")[0] != '\0') {
        TRY(buf_printf(out, "  %-12s %s\n", "update", status->updated));
    }
    if (text_or(status->failure, "")[0] != '\0') {
        TRY(buf_printf(out, "  %-12s %s\n", "failure", status->failure));
    }
    return buf_printf(out, "  %-12s %s\n\n", "last refusal", text_or(status->refusal, "none"));
}
