#include "signer-pkcs11/doctor/explain.h"

#include "appliance/base/json.h"
#include "signer-pkcs11/token/gate.h"

#include <stdio.h>

#define OUT_MAX ((size_t)1 << 20)

static const char *const class_texts[CKR_CLASS_COUNT] = {
    [CKR_CLASS_CALL] = "only this call failed; the token works",
    [CKR_CLASS_HANDLE] = "the key is looked up again",
    [CKR_CLASS_SESSION] = "a new session is opened",
    [CKR_CLASS_LOGIN] = "the signer logs in again",
    [CKR_CLASS_DEVICE] = "session, login and module are renewed, step by step",
    [CKR_CLASS_MODULE] = "the module is initialised again",
    [CKR_CLASS_PIN] = "nothing: the PIN is not shown again",
};

/* Hexadecimal or decimal. */
static bool number_of(const char *text, CK_RV *ret_rv)
{
    unsigned base = strncmp(text, "0x", 2) == 0 || strncmp(text, "0X", 2) == 0 ? 16 : 10;
    unsigned long value = 0;
    text += base == 16 ? 2 : 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        char digit = (char)(*text | (*text >= 'A' && *text <= 'F' ? 0x20 : 0));
        unsigned worth = digit >= '0' && digit <= '9'   ? (unsigned)(digit - '0')
                         : digit >= 'a' && digit <= 'f' ? (unsigned)(digit - 'a') + 10
                                                        : 16;
        if (worth >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, worth, &value)) {
            return false;
        }
    }
    *ret_rv = value;
    return true;
}

static const struct ckr_row *row_of(const char *code, CK_RV *ret_rv)
{
    size_t count = 0;
    const struct ckr_row *rows = ckr_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, code) == 0 || strcmp(rows[i].name + sizeof("CKR_") - 1, code) == 0) {
            *ret_rv = rows[i].rv;
            return &rows[i];
        }
    }
    return number_of(code, ret_rv) ? ckr_row(*ret_rv) : NULL;
}

static const char *action_of(const struct ckr_row *row)
{
    return row->action[0] != '\0' ? row->action : "nothing";
}

static void print_text(const struct ckr_row *row, CK_RV rv)
{
    (void)printf("%s (0x%lx)\n  cause     %s\n  do        %s\n  signer    %s\n", row->name, rv,
                 row->cause[0] != '\0' ? row->cause : "none: all is well", action_of(row),
                 row->fault == FAULT_NONE ? "goes on" : class_texts[row->class]);
    if (row->fault != FAULT_NONE) {
        (void)printf("  callers   %s\n", fault_row(row->fault)->text);
    }
}

static void put_json(struct jout *json, const struct ckr_row *row, CK_RV rv)
{
    char number[24];
    (void)snprintf(number, sizeof(number), "0x%lx", rv);
    jout_object(json);
    jout_key_text(json, "name", row->name);
    jout_key_text(json, "value", number);
    jout_key_text(json, "cause", row->cause);
    jout_key_text(json, "action", row->action);
    jout_key_text(json, "signer", row->fault == FAULT_NONE ? "goes on" : class_texts[row->class]);
    jout_key_text(json, "code", row->fault == FAULT_NONE ? "" : fault_row(row->fault)->text);
    jout_object_end(json);
}

static enum doctor_verdict print_json(const struct ckr_row *one, CK_RV rv)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(OUT_MAX);
    struct jout json;
    size_t count = 0;
    const struct ckr_row *rows = ckr_rows(&count);
    jout_init(&json, &out);
    if (one != NULL) {
        put_json(&json, one, rv);
    } else {
        jout_array(&json);
        for (size_t i = 0; i < count; i++) {
            put_json(&json, &rows[i], rows[i].rv);
        }
        jout_array_end(&json);
    }
    bool good =
        !FAULTED(jout_end(&json)) && !FAULTED(buf_text(&out, "\n")) && fwrite(out.at, 1, out.len, stdout) == out.len;
    return good ? DOCTOR_FINE : DOCTOR_FAILED;
}

enum doctor_verdict explain_print(const char *code, bool json)
{
    CK_RV rv = CKR_OK;
    size_t count = 0;
    const struct ckr_row *rows = ckr_rows(&count), *row = code != NULL ? row_of(code, &rv) : NULL;
    if (code != NULL && row == NULL) {
        (void)fprintf(stderr, "svc-signer: %s is neither a CKR name nor a number; --explain alone lists all\n", code);
        return DOCTOR_USAGE;
    }
    if (json) {
        return print_json(row, rv);
    }
    if (row != NULL) {
        print_text(row, rv);
    }
    for (size_t i = 0; row == NULL && i < count; i++) {
        print_text(&rows[i], rows[i].rv);
    }
    return DOCTOR_FINE;
}
