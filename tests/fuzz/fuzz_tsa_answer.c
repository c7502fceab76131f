/* rooms: tsa */
/*
 * The whole way from a request's bytes to a reply's: signature, event and all; every token is verified before it leaves
 * (protocols.tsa.verify_every: 1), so a failed check would show as systemFailure. Oracles: each reply is DER that
 * OpenSSL reads back to the same bytes; granted means exactly one event more and a token over what was asked; refused
 * means none, with a failure that is not systemFailure, and words.
 */
#include "tests/unit/tsa/issuing.h"

#include <openssl/err.h>
#include <openssl/ts.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct op *op;

static void start(void)
{
    issuing_start();
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
}

static void check_encoding(struct span reply)
{
    const unsigned char *at = reply.at;
    unsigned char *again = NULL;
    TS_RESP *read = d2i_TS_RESP(NULL, &at, (long)reply.len);
    BUG_IF(read == NULL || at != reply.at + reply.len);
    int written = i2d_TS_RESP(read, &again);
    BUG_IF(written < 0 || !span_equal(span_of(again, (size_t)written), reply));
    OPENSSL_free(again);
    TS_RESP_free(read);
}

static void check_granted(struct span request, struct span reply)
{
    struct tst_query query;
    struct tst_info info;
    BUG_IF(FAULTED(tst_query_of(op, request, &query)) || FAULTED(tst_inspect(op, reply, &info)));
    BUG_IF(strcmp(query.hash, info.hash) != 0 || !span_equal(query.imprint, info.imprint));
    BUG_IF(!span_equal(query.nonce, info.nonce) || query.extensions);
    BUG_IF(strcmp(query.policy != NULL ? query.policy : POLICY_FIRST, info.policy) != 0);
    BUG_IF(query.certificate_wanted != (info.certificate.len > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        start();
    }
    struct span reply;
    struct tst_status status;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    size_t events = event_store.events;
    BUG_IF(FAULTED(tsa_answer(op, &issuing.services, &issuing.tsa, span_of(bytes, len), &reply)));
    check_encoding(reply);
    BUG_IF(FAULTED(tst_status_of(op, reply, &status)));
    if (status.status == 0) {
        BUG_IF(event_store.events == events);
        check_granted(span_of(bytes, len), reply);
    } else {
        BUG_IF(event_store.events != events || status.status != 2);
        BUG_IF(status.text == NULL || status.text[0] == '\0' || status.failure == NULL);
        BUG_IF(strcmp(status.failure, "systemFailure") == 0 || strcmp(status.failure, "unknown") == 0);
    }
    ERR_clear_error();
    return 0;
}
