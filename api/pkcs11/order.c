#include "api/pkcs11/remote.h"

#include "api/pkcs11/tell.h"

#include <poll.h>
#include <stdio.h>

#define APPROVAL_POLL_MS 2000

static struct fault sign_once(struct settings *settings, const struct sign_order *order, struct buf *out,
                              struct refusal *refusal)
{
    CLEANUP(remote_end) struct remote remote = { 0 };
    struct span signature = { 0 };
    struct fault fault = remote_begin(settings, &remote);
    if (!FAULTED(fault)) {
        fault = remote_sign(&remote, order, &signature);
    }
    if (FAULTED(fault)) {
        *refusal = remote.refusal;
        return fault;
    }
    return buf_put(out, signature);
}

static bool is_undecided(const char *state)
{
    return strcmp(state, "none") == 0 || strcmp(state, "pending") == 0;
}

/* OK when it is decided, whichever way: signing again tells. Each look has its own operation, and the token afresh: an
 * approval may take longer than a token lives. */
static struct fault await_decision(struct settings *settings, const struct sign_order *order, mono_ns deadline)
{
    while (clock_mono() < deadline) {
        CLEANUP(remote_end) struct remote remote = { 0 };
        const char *state = "";
        (void)poll(NULL, 0, APPROVAL_POLL_MS);
        TRY(remote_begin(settings, &remote));
        TRY(remote_approval(&remote, order, &state));
        if (!is_undecided(state)) {
            return OK;
        }
    }
    return FAULT(DEADLINE);
}

struct fault order_signature(struct settings *settings, const struct sign_order *order, struct buf *out,
                             struct refusal *ret_refusal)
{
    mono_ns deadline = clock_mono() + settings->approval_wait_ns;
    bool told = false;
    for (;;) {
        struct refusal refusal = { 0 };
        struct fault fault = sign_once(settings, order, out, &refusal);
        if (fault.code == FAULT_APPROVAL_REQUIRED && clock_mono() < deadline) {
            if (!told) {
                tell(settings, "sign with %s: waiting up to %lld s for the approval of resource %s", order->key_name,
                     (long long)(settings->approval_wait_ns / NS_PER_S), refusal.resource);
            }
            told = true;
            if (!FAULTED(await_decision(settings, order, deadline))) {
                continue;
            }
        }
        if (FAULTED(fault)) {
            *ret_refusal = refusal;
        }
        return fault;
    }
}
