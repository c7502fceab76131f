/* rooms: cli */
/*
 * A trusted root of anybody. Oracles: a refusal has its reason; what is accepted trusts somebody, by keys and
 * certificates that decode, in windows that do not end before they begin.
 */
#include "api/cli/trusted_root.h"

#include "appliance/base/crypto.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(struct op *op, const struct trusted_authority *authorities, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct chain *chain = &authorities[i].chain;
        BUG_IF(chain->count == 0 || chain->count > CHAIN_MAX);
        BUG_IF(authorities[i].until != 0 && authorities[i].until < authorities[i].from);
        for (size_t j = 0; j < chain->count; j++) {
            CLEANUP(X509_freep) X509 *parsed = NULL;
            BUG_IF(FAULTED(certificate_parse(op, chain->at[j], &parsed)));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct op *op;
    struct trusted_root *root = NULL;
    const char *details = NULL;
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    }
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    if (len > 65536) {
        return 0;
    }
    if (FAULTED(trusted_root_parse(op, span_of(bytes, len), &root))) {
        BUG_IF(!op->note.set || op->note.detail[0] == '\0');
        return 0;
    }
    BUG_IF(root->log_count + root->authority_count + root->stamper_count == 0);
    for (size_t i = 0; i < root->log_count; i++) {
        BUG_IF(FAULTED(tlog_key_check(root->logs[i].spki, &details)));
    }
    check(op, root->authorities, root->authority_count);
    check(op, root->stampers, root->stamper_count);
    ERR_clear_error();
    return 0;
}
