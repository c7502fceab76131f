#include "signer-pkcs11/doctor/internal.h"

#include <poll.h>

#define PATIENCE_NS (10 * NS_PER_S)
#define LOOK_MS     20

/* A refusal that the signer takes for trouble of the token sends it into recovery: that has to be over first. */
static void wait_for_token(struct token *token)
{
    mono_ns until = clock_mono() + PATIENCE_NS;
    struct token_status status;
    token_status(token, &status);
    while (status.state == TOKEN_DOWN && clock_mono() < until) {
        (void)poll(NULL, 0, LOOK_MS);
        token_status(token, &status);
    }
}

struct fault attempt(struct doctor *doctor, attempt_fn work, void *arg, struct op **ret_op)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    TRY(op_new("svc-doctor", (struct tenant_id){ 0 }, OPERATION_MS, &op));
    wait_for_token(doctor->token);
    struct fault fault = token_session_take(op, doctor->token, &session);
    if (!FAULTED(fault)) {
        fault = work(op, session, arg);
    }
    if (ret_op != NULL) {
        op_free(*ret_op);
        *ret_op = TAKE(op);
    }
    return fault;
}
