/* Which slot is ours: by label, serial and number, whatever of them is configured. */
#include "signer-pkcs11/token/module.h"

#include <stdio.h>

#define SLOTS_MAX 256

void slot_text(const void *padded, size_t len, char *out, size_t size)
{
    const char *text = padded;
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\0')) {
        len--;
    }
    (void)snprintf(out, size, "%.*s", (int)len, text);
}

bool slot_wanted(const struct token_settings *settings, CK_SLOT_ID slot, const CK_TOKEN_INFO *info)
{
    char label[sizeof(info->label) + 1], serial[sizeof(info->serialNumber) + 1];
    slot_text(info->label, sizeof(info->label), label, sizeof(label));
    slot_text(info->serialNumber, sizeof(info->serialNumber), serial, sizeof(serial));
    /* Who names the slot knows what he does: not every module sets the flag. */
    bool ready = (info->flags & CKF_TOKEN_INITIALIZED) != 0 || settings->slot_set;
    return ready && (!settings->slot_set || slot == settings->slot) &&
           (settings->label[0] == '\0' || strcmp(label, settings->label) == 0) &&
           (settings->serial == NULL || settings->serial[0] == '\0' || strcmp(serial, settings->serial) == 0);
}

/* CK_EFFECTIVELY_INFINITE is 0, CK_UNAVAILABLE_INFORMATION is all ones: neither is a limit. */
static CK_ULONG limit_of(CK_ULONG count)
{
    return count == CK_UNAVAILABLE_INFORMATION ? 0 : count;
}

static void keep(struct module *module, CK_SLOT_ID slot, const CK_TOKEN_INFO *info)
{
    CK_ULONG all = limit_of(info->ulMaxSessionCount), writing = limit_of(info->ulMaxRwSessionCount);
    bool writes = !module->gate.read_only;
    module->slot = slot;
    module->slot_known = true;
    slot_text(info->label, sizeof(info->label), module->token_label, sizeof(module->token_label));
    slot_text(info->model, sizeof(info->model), module->token_model, sizeof(module->token_model));
    slot_text(info->serialNumber, sizeof(info->serialNumber), module->token_serial, sizeof(module->token_serial));
    module->login_required = (info->flags & CKF_LOGIN_REQUIRED) != 0 && module->settings->login != TOKEN_LOGIN_NONE;
    module->pin_locked = (info->flags & CKF_USER_PIN_LOCKED) != 0;
    module->pin_final_try = (info->flags & CKF_USER_PIN_FINAL_TRY) != 0;
    module->session_limit = writes && writing != 0 && (all == 0 || writing < all) ? writing : all;
}

static void say_wanted(const struct token_settings *settings, char *out, size_t size)
{
    char slot[40] = "";
    if (settings->slot_set) {
        (void)snprintf(slot, sizeof(slot), " in slot %llu", (unsigned long long)settings->slot);
    }
    bool serial = settings->serial != NULL && settings->serial[0] != '\0';
    (void)snprintf(out, size, "%s%s%s%s%s%s", settings->label[0] != '\0' ? " labelled '" : "", settings->label,
                   settings->label[0] != '\0' ? "'" : "", serial ? " with serial " : "", serial ? settings->serial : "",
                   slot);
}

static struct fault refuse(struct module *module, struct call *call, unsigned matching, CK_ULONG count, char *why,
                           size_t why_size)
{
    char wanted[160];
    say_wanted(module->settings, wanted, sizeof(wanted));
    struct fault fault = call_refused(call, "C_GetSlotList", CKR_TOKEN_NOT_PRESENT);
    if (matching == 0) {
        (void)snprintf(why, why_size,
                       "%s has no initialised token%s among its %lu slots: correct token.label, or initialise the "
                       "token with its own tools",
                       module->path, wanted, count);
    } else {
        (void)snprintf(why, why_size, "%u tokens are%s: set token.serial or token.slot to choose one", matching,
                       wanted);
    }
    return fault;
}

static struct fault check(struct module *module, struct call *call, const CK_TOKEN_INFO *info, char *why,
                          size_t why_size)
{
    if (module->settings->login == TOKEN_LOGIN_PROTECTED && (info->flags & CKF_PROTECTED_AUTHENTICATION_PATH) == 0) {
        (void)snprintf(why, why_size,
                       "token '%s' has no PIN pad (CKF_PROTECTED_AUTHENTICATION_PATH): set token.login to user, and "
                       "token.pin_file",
                       module->token_label);
        return call_refused(call, "C_GetTokenInfo", CKR_TOKEN_NOT_RECOGNIZED);
    }
    if (module->session_limit == 1) {
        (void)snprintf(why, why_size,
                       "token '%s' gives one session only: the signer needs two, one to work with and one that keeps "
                       "the login",
                       module->token_label);
        return call_refused(call, "C_GetTokenInfo", CKR_TOKEN_NOT_RECOGNIZED);
    }
    return OK;
}

struct fault slot_find(struct module *module, struct call *call, char *why, size_t why_size)
{
    CK_SLOT_ID slots[SLOTS_MAX];
    CK_ULONG count = SLOTS_MAX;
    CK_TOKEN_INFO chosen = { 0 };
    unsigned matching = 0;
    /* Some modules look for new tokens only when they are asked how many slots there are. */
    CK_ULONG looked = 0;
    struct fault fault = gate_slot_list(call, true, NULL, &looked);
    if (!FAULTED(fault)) {
        fault = gate_slot_list(call, true, slots, &count);
    }
    if (FAULTED(fault)) {
        call_print(call, why, why_size);
        return fault;
    }
    for (CK_ULONG i = 0; i < count; i++) {
        CK_TOKEN_INFO info = { 0 };
        /* A slot whose token does not answer is not the one, or is missed below. */
        if (FAULTED(gate_token_info(call, slots[i], &info)) || !slot_wanted(module->settings, slots[i], &info)) {
            continue;
        }
        if (matching++ == 0) {
            keep(module, slots[i], &info);
            chosen = info;
        }
    }
    call_clear(call);
    return matching == 1 ? check(module, call, &chosen, why, why_size)
                         : refuse(module, call, matching, count, why, why_size);
}
