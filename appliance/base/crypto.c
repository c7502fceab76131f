#include "appliance/base/crypto.h"

#include <openssl/err.h>
#include <stdio.h>

void crypto_last_error(char *out, size_t size)
{
    BUG_IF(size == 0);
    const char *function = NULL;
    const char *data = NULL;
    unsigned long code = ERR_peek_last_error_all(NULL, NULL, &function, &data, NULL);
    out[0] = '\0';
    if (code != 0) {
        const char *reason = ERR_reason_error_string(code);
        (void)snprintf(out, size, "%s (%s%s%s)", reason != NULL ? reason : "unknown reason",
                       function != NULL ? function : "OpenSSL", data != NULL && data[0] != '\0' ? ": " : "",
                       data != NULL ? data : "");
    }
    ERR_clear_error();
}

struct fault crypto_fail(struct op *op, const char *what)
{
    char reason[256];
    crypto_last_error(reason, sizeof(reason));
    if (op == NULL) {
        return FAULT(CRYPTO);
    }
    struct fault fault = op_fail(op, FAULT(CRYPTO), "%s", what);
    op_note_log(op, "OpenSSL: %s", reason[0] != '\0' ? reason : "no reason given");
    return fault;
}
