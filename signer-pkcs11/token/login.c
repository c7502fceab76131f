/*
 * Showing the PIN. A token locks itself after a few wrong ones, and a locked HSM is an outage, so a PIN that was
 * refused is not shown again: not by this process (a latch), and not by the next one that a supervisor starts (a note
 * in the signer's folder that names the PIN file as it was; any change of the file makes the note void). Nor is it
 * shown when the token says that one more wrong PIN would lock it.
 */
#include "signer-pkcs11/token/internal.h"

#include <inttypes.h>
#include <sys/stat.h>

void login_pin_mark(const char *pin_file, struct pin_mark *ret_mark)
{
    struct stat info;
    *ret_mark = (struct pin_mark){ 0 };
    if (pin_file == NULL || pin_file[0] == '\0' || stat(pin_file, &info) != 0) {
        return;
    }
    (void)snprintf(ret_mark->text, sizeof(ret_mark->text),
                   "inode %" PRIu64 ":%" PRIu64 " size %" PRId64 " mtime %" PRId64 ".%09ld ctime %" PRId64 ".%09ld",
                   (uint64_t)info.st_dev, (uint64_t)info.st_ino, (int64_t)info.st_size, (int64_t)info.st_mtim.tv_sec,
                   info.st_mtim.tv_nsec, (int64_t)info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
}

/* ---- the note ---- */

/* Was the PIN of the file as it is now refused, by this or an earlier process? */
static bool noted(const struct token *token)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(NOTE_MAX);
    const char *at = NULL;
    return token->pin_mark.text[0] != '\0' && note_read(token->settings, "pin-refused", &text) &&
           !FAULTED(buf_cstr(&text, &at)) && strstr(at, token->pin_mark.text) != NULL;
}

static bool note_down(const struct token *token, const struct ckr_row *row)
{
    char text[NOTE_MAX], time[RFC3339_MAX];
    rfc3339_print(clock_utc(), time);
    (void)snprintf(text, sizeof(text), "svc-signer: the token refused the PIN of this file\n%s\n%s at %s\n",
                   token->pin_mark.text, row->name, time);
    return token->pin_mark.text[0] == '\0' || note_write(token->settings, "pin-refused", text);
}

/* ---- the login ---- */

static struct fault latch(struct token *token)
{
    token_lock(&token->lock);
    token->pin_refused = true;
    token_unlock(&token->lock);
    return FAULT(TOKEN_PIN);
}

/* Did the token judge the PIN itself? Then the same PIN is wrong tomorrow too; a locked or expired one may be mended.
 */
static bool pin_is_wrong(CK_RV rv)
{
    return rv == CKR_PIN_INCORRECT || rv == CKR_PIN_INVALID || rv == CKR_PIN_LEN_RANGE;
}

/* Before the PIN is shown: is it safe to? */
static struct fault ask_first(struct token *token, char *why, size_t why_size)
{
    struct call *call = &token->keeper_call;
    CK_TOKEN_INFO info = { 0 };
    if (noted(token)) {
        (void)snprintf(why, why_size,
                       "the token refused the PIN of this PIN file before; it is not shown again, so that the token "
                       "does not lock: correct the PIN file (or touch it, if the token was corrected instead)");
        return latch(token);
    }
    TRY(gate_token_info(call, token->module.slot, &info));
    if ((info.flags & CKF_USER_PIN_LOCKED) != 0) {
        struct fault fault = call_refused(call, "C_GetTokenInfo", CKR_PIN_LOCKED);
        IGNORE(latch(token));
        return fault;
    }
    if ((info.flags & CKF_USER_PIN_FINAL_TRY) != 0) {
        (void)snprintf(why, why_size,
                       "the PIN of token '%s' is down to its last try: correct the PIN file, and log in once with the "
                       "token's own tools",
                       token->module.token_label);
        return latch(token);
    }
    if (token->login_unclear && (info.flags & CKF_USER_PIN_COUNT_LOW) != 0) {
        (void)snprintf(why, why_size,
                       "the token counts logins that it failed to answer as wrong PINs; the PIN is not shown again, "
                       "so that the token does not lock: look at the token, then restart the signer");
        return latch(token);
    }
    return OK;
}

struct fault login_show(struct token *token, char *why, size_t why_size)
{
    struct call *call = &token->keeper_call;
    TRY(ask_first(token, why, why_size));
    /* A token with a PIN pad asks for the PIN when it gets none. */
    bool typed_there = token->settings->login == TOKEN_LOGIN_PROTECTED;
    struct span pin = typed_there ? (struct span){ 0 } : secret_span(token->settings->pin);
    struct fault fault = gate_login(call, token->anchor, pin);
    token->login_unclear = FAULTED(fault) && call->refusal->class != CKR_CLASS_PIN;
    if (!FAULTED(fault) || token->login_unclear) {
        return fault;
    }
    const struct ckr_row *row = call->refusal;
    bool kept = !pin_is_wrong(call->rv) || note_down(token, row);
    (void)snprintf(why, why_size, "%s: %s%s", row->cause, row->action,
                   kept ? "" : " (this could not be noted in the signer's folder: a restart would show the PIN again)");
    IGNORE(latch(token));
    return fault;
}

bool login_pin_changed(const struct token *token)
{
    struct pin_mark now;
    login_pin_mark(token->settings->pin_file, &now);
    return now.text[0] != '\0' && token->pin_mark.text[0] != '\0' && strcmp(now.text, token->pin_mark.text) != 0;
}
