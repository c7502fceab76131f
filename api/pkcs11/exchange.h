/*
 * One request to the appliance and its repetition, for the calls of remote.h. What fails leaves its reason in the
 * remote's refusal.
 */
#ifndef API_PKCS11_EXCHANGE_H
#define API_PKCS11_EXCHANGE_H

#include "api/pkcs11/remote.h"

struct exchange {
    const char *method, *path;
    struct span body;            /* empty = none */
    const char *idempotency_key; /* NULL = it has no effect */
    /* Asked when the appliance says that the key's request is still running (a process of its may have died with it):
     * true when what it was to do is found done; it leaves the refusal as it is. NULL = repeating alone finds out. */
    bool (*is_done)(struct remote *remote, void *context, struct view *ret_view);
    void *context;
};

/* Without an Idempotency-Key a few times, with one until the deadline: it may have taken place, and is asked after. */
struct fault exchange_until_answered(struct remote *remote, const struct exchange *exchange, struct view *ret_view);
/* Once. */
struct fault exchange_once(struct remote *remote, const struct exchange *exchange, struct view *ret_view);

/* What this side found out itself, in a refusal's form; code NULL = the fault's. */
struct fault refuse_here(struct remote *remote, struct fault fault, const char *code);
/* The answer has not what it must have. */
struct fault refuse_unexpected(struct remote *remote, const char *member);

#endif
