/* rooms: feeds */
/*
 * What log collectors and token issuers answer. The first byte chooses the parser. Oracles: what was taken is within
 * its bounds; a batch counts as confirmed only where the answer says so under its own number.
 */
#include "api/feeds/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct op *op;

static void check_hec(struct span body)
{
    struct hec_answer answer;
    if (!FAULTED(hec_answer_read(op, body, &answer))) {
        BUG_IF(answer.code < -1 || answer.ack_id < -1);
    }
}

static void check_ack(struct span body)
{
    bool indexed = false;
    struct fault fault = hec_ack_read(op, body, "7", &indexed);
    BUG_IF(FAULTED(fault) && indexed);
    BUG_IF(indexed && (memmem(body.at, body.len, "7", 1) == NULL || memmem(body.at, body.len, "true", 4) == NULL));
}

static void check_token(struct span body)
{
    struct azure_token_answer answer;
    if (FAULTED(azure_token_read(op, body, &answer))) {
        return;
    }
    BUG_IF(answer.token.len == 0 || answer.token.len > SECRET_MAX || answer.expires_s < 0);
    for (size_t i = 0; i < answer.token.len; i++) {
        BUG_IF(answer.token.at[i] <= ' ' || answer.token.at[i] >= 0x7f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static void (*const parsers[])(struct span) = { check_hec, check_ack, check_token };
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    }
    if (len > 0) {
        parsers[bytes[0] % COUNT_OF(parsers)](span_of(bytes + 1, len - 1));
    }
    arena_clear(op->arena);
    op->note = (struct fault_note){ 0 };
    return 0;
}
