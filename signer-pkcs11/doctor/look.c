/* What can be seen before the PIN is shown. */
#include "signer-pkcs11/doctor/internal.h"

#include <inttypes.h>

#define SLOTS_MAX 64

struct look {
    struct doctor *doctor;
    struct report *report;
    struct module module;
    struct call call;
    char why[TOKEN_WHY_MAX];
};

static bool load(struct look *look)
{
    watch_step(look->doctor->watch, "load");
    if (FAULTED(module_load(&look->module, look->doctor->settings.module, look->why, sizeof(look->why)))) {
        report_step(look->report, "load", STEP_FAILED,
                    "install what the module needs (ldd names it), and let this user read it", "%s", look->why);
        return false;
    }
    report_step(look->report, "load", STEP_OK, "", "%s", look->doctor->settings.module);
    watch_step(look->doctor->watch, "C_Initialize");
    if (FAULTED(module_initialise(&look->module, &look->call, look->why, sizeof(look->why)))) {
        report_call(look->report, "C_Initialize", &look->call);
        return false;
    }
    report_step(look->report, "C_Initialize", STEP_OK, "", "with the locks of the system");
    return true;
}

static void describe_module(struct look *look)
{
    CK_INFO info = { 0 };
    char maker[33], text[33];
    if (FAULTED(gate_info(&look->call, &info))) {
        report_call(look->report, "C_GetInfo", &look->call);
        call_clear(&look->call);
        return;
    }
    slot_text(info.manufacturerID, sizeof(info.manufacturerID), maker, sizeof(maker));
    slot_text(info.libraryDescription, sizeof(info.libraryDescription), text, sizeof(text));
    report_step(look->report, "C_GetInfo", STEP_OK, "", "%s, %s %u.%u, PKCS#11 %u.%u", maker, text,
                info.libraryVersion.major, info.libraryVersion.minor, info.cryptokiVersion.major,
                info.cryptokiVersion.minor);
    report_fact(look->report, "module", "%s %u.%u (%s)", text, info.libraryVersion.major, info.libraryVersion.minor,
                look->doctor->settings.module);
}

static bool list_slots(struct look *look)
{
    CK_SLOT_ID slots[SLOTS_MAX];
    CK_ULONG count = SLOTS_MAX, looked = 0;
    watch_step(look->doctor->watch, "slots");
    if (FAULTED(gate_slot_list(&look->call, true, NULL, &looked)) ||
        FAULTED(gate_slot_list(&look->call, true, slots, &count))) {
        report_call(look->report, "slots", &look->call);
        return false;
    }
    for (CK_ULONG i = 0; i < count; i++) {
        CK_TOKEN_INFO info = { 0 };
        char label[33], model[17], serial[17], step[32];
        (void)snprintf(step, sizeof(step), "slot %lu", slots[i]);
        if (FAULTED(gate_token_info(&look->call, slots[i], &info))) {
            report_step(look->report, step, STEP_NOTE, "", "its token does not answer: %s", look->call.refusal->name);
            call_clear(&look->call);
            continue;
        }
        slot_text(info.label, sizeof(info.label), label, sizeof(label));
        slot_text(info.model, sizeof(info.model), model, sizeof(model));
        slot_text(info.serialNumber, sizeof(info.serialNumber), serial, sizeof(serial));
        bool ready = (info.flags & CKF_TOKEN_INITIALIZED) != 0;
        report_step(look->report, step, STEP_OK, "", "token '%s', %s, serial %s%s", label, model, serial,
                    ready ? "" : ", not initialised");
    }
    return true;
}

static bool choose_slot(struct look *look, CK_TOKEN_INFO *ret_info)
{
    if (FAULTED(slot_find(&look->module, &look->call, look->why, sizeof(look->why))) ||
        FAULTED(gate_token_info(&look->call, look->module.slot, ret_info))) {
        report_step(look->report, "token", STEP_FAILED, "say which of the slots above is meant", "%s", look->why);
        return false;
    }
    const struct module *module = &look->module;
    report_step(look->report, "token", STEP_OK, "", "'%s' in slot %lu", module->token_label, module->slot);
    report_fact(look->report, "token", "%s, %s, serial %s, firmware %u.%u", module->token_label, module->token_model,
                module->token_serial, ret_info->firmwareVersion.major, ret_info->firmwareVersion.minor);
    return true;
}

static bool look_at_pin(struct look *look, CK_FLAGS flags)
{
    enum token_login login = look->doctor->settings.login;
    struct report *report = look->report;
    if (login == TOKEN_LOGIN_NONE) {
        report_step(report, "PIN", STEP_OK, "", "no login is wanted");
        return true;
    }
    if ((flags & CKF_USER_PIN_LOCKED) != 0) {
        report_step(report, "PIN", STEP_FAILED, "unlock it with the security officer's PIN", "the PIN is locked");
        return false;
    }
    if ((flags & (CKF_USER_PIN_FINAL_TRY | CKF_USER_PIN_COUNT_LOW)) != 0) {
        report_step(report, "PIN", STEP_FAILED,
                    "log in once with the token's own tools and the right PIN, then run the doctor again",
                    "a wrong PIN was shown before%s: it is not risked",
                    (flags & CKF_USER_PIN_FINAL_TRY) != 0 ? ", and one try is left" : "");
        return false;
    }
    if ((flags & (CKF_USER_PIN_INITIALIZED | CKF_LOGIN_REQUIRED)) == CKF_LOGIN_REQUIRED) {
        report_step(report, "PIN", STEP_FAILED, "set the user PIN with the token's own tools",
                    "the token has no user PIN yet");
        return false;
    }
    bool pad = (flags & CKF_PROTECTED_AUTHENTICATION_PATH) != 0;
    if (pad && login == TOKEN_LOGIN_USER) {
        report_step(report, "PIN", STEP_NOTE, "set token.login to protected if the PIN is typed there",
                    "the token has a PIN pad");
    } else {
        report_step(report, "PIN", STEP_OK, "", "%s", pad ? "the token asks for it by itself" : "no try was wasted");
    }
    return true;
}

static void look_at_sessions(struct look *look)
{
    CK_ULONG limit = look->module.session_limit;
    unsigned wanted = look->doctor->sessions;
    if (limit != 0 && limit <= wanted) {
        report_step(look->report, "session limit", STEP_NOTE, "", "the token gives %lu: the signer works with %lu (%s)",
                    limit, limit - 1, quirk_row(QUIRK_FEW_SESSIONS)->name);
        return;
    }
    if (limit == 0) {
        report_step(look->report, "session limit", STEP_OK, "", "none is stated");
    } else {
        report_step(look->report, "session limit", STEP_OK, "", "%lu sessions", limit);
    }
}

/* Opens one as the signer would, and learns whether the token may be written. */
static bool open_session(struct look *look, CK_SESSION_HANDLE *ret_session)
{
    struct token_quirks *quirks = &look->doctor->settings.quirks;
    struct call *call = &look->call;
    watch_step(look->doctor->watch, "C_OpenSession");
    look->module.gate.read_only = quirk_on(quirks, QUIRK_READ_ONLY);
    struct fault fault = gate_open_session(call, look->module.slot, ret_session);
    if (FAULTED(fault) && (call->rv == CKR_TOKEN_WRITE_PROTECTED || call->rv == CKR_SESSION_READ_ONLY)) {
        look->module.gate.read_only = true;
        if (!FAULTED(gate_open_session(call, look->module.slot, ret_session))) {
            quirk_switch(quirks, QUIRK_READ_ONLY, true);
            report_step(look->report, "C_OpenSession", STEP_NOTE, "put read-only into token.quirks",
                        "only read-only sessions: no keys can be made here");
            return true;
        }
    }
    if (FAULTED(fault)) {
        report_call(look->report, "C_OpenSession", call);
        return false;
    }
    report_step(look->report, "C_OpenSession", STEP_OK, "", "%s",
                look->module.gate.read_only ? "read-only" : "read-write");
    return true;
}

static void look_at_random(struct look *look, CK_SESSION_HANDLE session)
{
    uint8_t first[16] = { 0 }, second[16] = { 0 };
    struct call *call = &look->call;
    watch_step(look->doctor->watch, "C_GenerateRandom");
    if (FAULTED(gate_random(call, session, first, sizeof(first))) ||
        FAULTED(gate_random(call, session, second, sizeof(second)))) {
        report_step(look->report, "C_GenerateRandom", STEP_NOTE, "put gcm-host-iv into token.quirks if keys seal here",
                    "the token shows no random numbers: %s", call->refusal->name);
        call_clear(call);
        return;
    }
    bool same = memcmp(first, second, sizeof(first)) == 0;
    report_step(look->report, "C_GenerateRandom", same ? STEP_FAILED : STEP_OK, same ? "do not use this token" : "",
                "%s", same ? "twice the same numbers" : "");
}

static void look_at_mechanisms(struct look *look)
{
    const struct mechanisms *has = &look->module.has;
    const struct {
        const char *name;
        bool there;
        const char *advice;
    } rows[] = {
        { "CKM_EC_KEY_PAIR_GEN", has->ec_generate, "no EC keys can be made here" },
        { "CKM_ECDSA", has->ecdsa, "EC keys cannot sign here" },
        { "CKM_RSA_PKCS_KEY_PAIR_GEN", has->rsa_generate,
          has->rsa_x9_31 ? "CKM_RSA_X9_31_KEY_PAIR_GEN takes its place" : "no RSA keys can be made here" },
        { "CKM_RSA_PKCS", has->rsa_pkcs, "no RSA PKCS#1 v1.5 signatures here" },
        { "CKM_RSA_PKCS_PSS", has->rsa_pss,
          has->rsa_raw ? "quirk pss-raw makes PSS with CKM_RSA_X_509" : "no RSA-PSS signatures here" },
        { "CKM_AES_KEY_GEN", has->aes_generate, "no sealing keys can be made here" },
        { "CKM_AES_GCM", has->aes_gcm, "nothing can be sealed here" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        report_step(look->report, rows[i].name, rows[i].there ? STEP_OK : STEP_NOTE,
                    rows[i].there ? "" : rows[i].advice, "%s", rows[i].there ? "" : "not listed");
    }
    report_fact(look->report, "RSA", "up to %lu bits", has->rsa_max);
}

static bool look_at_token(struct look *look)
{
    CK_TOKEN_INFO info = { 0 };
    CK_SESSION_HANDLE session = CK_INVALID_HANDLE;
    describe_module(look);
    if (!list_slots(look) || !choose_slot(look, &info)) {
        return false;
    }
    if (FAULTED(module_mechanisms(&look->module, &look->call))) {
        report_call(look->report, "C_GetMechanismList", &look->call);
        return false;
    }
    look_at_mechanisms(look);
    look_at_sessions(look);
    bool pin_good = look_at_pin(look, info.flags);
    if (!open_session(look, &session)) {
        return false;
    }
    look_at_random(look, session);
    IGNORE(gate_close_session(&look->call, session));
    return pin_good;
}

bool look_at_module(struct doctor *doctor)
{
    struct look look = { .doctor = doctor, .report = doctor->report, .module = { .settings = &doctor->settings } };
    look.call.gate = &look.module.gate;
    bool good = load(&look) && look_at_token(&look);
    watch_step(doctor->watch, "C_Finalize");
    module_stop(&look.module);
    module_unload(&look.module);
    return good;
}
