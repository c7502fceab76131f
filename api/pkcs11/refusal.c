#include "api/pkcs11/remote.h"

#include "api/pkcs11/tell.h"

#include <stdio.h>

static void take(struct op *op, struct view problem, const char *name, char *out, size_t size)
{
    const char *text = view_member(op, problem, name);
    (void)snprintf(out, size, "%s", text != NULL ? text : "");
}

static struct fault fault_of_code(const char *code)
{
    size_t count = 0;
    const struct fault_row *rows = fault_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].code != FAULT_NONE && strcmp(rows[i].text, code) == 0) {
            return (struct fault){ rows[i].code };
        }
    }
    return FAULT(INTERNAL);
}

void refusal_read(struct op *op, long status, struct span body, struct refusal *refusal)
{
    struct view problem = { 0 };
    *refusal = (struct refusal){ .status = status };
    if (!FAULTED(view_of(op, body, &problem))) {
        take(op, problem, "code", refusal->code, sizeof(refusal->code));
        take(op, problem, "detail", refusal->detail, sizeof(refusal->detail));
        take(op, problem, "pointer", refusal->pointer, sizeof(refusal->pointer));
        take(op, problem, "resource", refusal->resource, sizeof(refusal->resource));
        take(op, problem, "trace_id", refusal->trace, sizeof(refusal->trace));
        if (refusal->detail[0] == '\0') {
            take(op, problem, "title", refusal->detail, sizeof(refusal->detail));
        }
    }
    if (refusal->code[0] == '\0') {
        (void)snprintf(refusal->code, sizeof(refusal->code), "unexpected_answer");
        (void)snprintf(refusal->detail, sizeof(refusal->detail),
                       "status %ld and no problem body: is SVC_BASE_URL the address of the appliance?", status);
    }
    refusal->fault = fault_of_code(refusal->code);
}

/* A code that is not here is judged by its status. */
static const struct {
    enum fault_code code;
    CK_RV rv;
} known[] = {
    { FAULT_TOKEN_EXPIRED, CKR_PIN_EXPIRED },
    { FAULT_UNAUTHENTICATED, CKR_USER_NOT_LOGGED_IN },
    { FAULT_POLICY_DENIED, CKR_FUNCTION_REJECTED },
    { FAULT_APPROVAL_REQUIRED, CKR_FUNCTION_REJECTED },
    { FAULT_APPROVAL_DENIED, CKR_FUNCTION_REJECTED },
    { FAULT_KEY_NOT_FOUND, CKR_KEY_HANDLE_INVALID },
    { FAULT_KEY_STATE, CKR_KEY_HANDLE_INVALID },
    { FAULT_KEY_EXHAUSTED, CKR_KEY_FUNCTION_NOT_PERMITTED },
    { FAULT_KEY_EXPIRED, CKR_KEY_FUNCTION_NOT_PERMITTED },
    { FAULT_DIGEST_LENGTH, CKR_DATA_LEN_RANGE },
    { FAULT_TOKEN_MECHANISM, CKR_MECHANISM_INVALID },
    { FAULT_ALGORITHM_FENCED, CKR_MECHANISM_INVALID },
    { FAULT_TLOG_UNSUPPORTED, CKR_MECHANISM_INVALID },
    { FAULT_NO_MEMORY, CKR_HOST_MEMORY },
    { FAULT_CONFIG, CKR_GENERAL_ERROR },
};

CK_RV refusal_rv(const struct refusal *refusal)
{
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (known[i].code == refusal->fault.code) {
            return known[i].rv;
        }
    }
    if (refusal->status == 401) {
        return CKR_USER_NOT_LOGGED_IN;
    }
    if (refusal->status == 403) {
        return CKR_ACTION_PROHIBITED;
    }
    bool upstream = refusal->status == 0 || refusal->status == 429 || refusal->status >= 500;
    return upstream ? CKR_DEVICE_ERROR : CKR_FUNCTION_FAILED;
}

static const char *advice(const struct refusal *refusal)
{
    if (refusal->fault.code == FAULT_APPROVAL_REQUIRED) {
        return "; somebody else than you must approve this resource, then sign again";
    }
    return refusal->status == 401 ? "; put a valid token into SVC_TOKEN_FILE" : "";
}

void refusal_tell(const struct settings *settings, const char *what, const struct refusal *refusal)
{
    bool pointer = refusal->pointer[0] != '\0', resource = refusal->resource[0] != '\0';
    bool trace = refusal->trace[0] != '\0';
    tell(settings, "%s: %s: %s%s%s%s%s%s%s%s%s", what, refusal->code, refusal->detail, pointer ? "; at " : "",
         refusal->pointer, resource ? "; resource " : "", refusal->resource, advice(refusal), trace ? " (trace " : "",
         refusal->trace, trace ? ")" : "");
}
