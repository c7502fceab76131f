#include "api/codesign/internal.h"

#include "api/keys/seal.h"
#include "appliance/base/failpoint.h"

struct command_payload {
    const char *command_id;
    int64_t accepted_us;
    struct span sealed_command;
};
static const struct jin_field payload_fields[] = {
    JIN_TEXT(struct command_payload, command_id, JIN_REQUIRED, 36, 36),
    JIN_INT(struct command_payload, accepted_us, JIN_REQUIRED, 1, INT64_MAX),
    JIN_BASE64(struct command_payload, sealed_command, JIN_REQUIRED, 1, SEALED_COMMAND_MAX),
};

/* One run of a command. `governance_known`: a refusal is governance's, not the proof's. */
struct run {
    struct codesign_command command;
    utc_us accepted;
    struct verified_identity identity;
    struct governance governance;
    bool opened, governance_known;
    struct codesign_made made;
};

/* Opens the command and believes nothing of it that its place does not confirm. */
static struct fault open_command(struct op *op, struct services *services, const struct outbox_item *item,
                                 struct uuid id, struct run *run)
{
    CLEANUP(buf_free) struct buf aad = BUF_INIT(1024);
    CLEANUP(buf_free) struct buf plain = BUF_INIT(SEALED_COMMAND_MAX);
    struct command_payload payload = { 0 };
    TRY(jin_decode(op, item->payload, payload_fields, COUNT_OF(payload_fields), &payload));
    TRY(codesign_command_aad(op->tenant, id, &aad));
    TRY(keys_unseal(op, services, buf_span(&aad), payload.sealed_command, &plain));
    TRY(codesign_command_parse(op, buf_span(&plain), &run->command));
    REQUIRE(tenant_id_equal(run->command.tenant, op->tenant) && uuid_equal(run->command.id, id), UNSEAL);
    run->accepted = payload.accepted_us;
    run->opened = true;
    return OK;
}

static struct fault find_key(struct op *op, struct services *services, struct run *run, struct managed_key *ret_key)
{
    TRY(keys_get(op, services, run->command.request.key_id, ret_key));
    REQUIRE(ret_key->ref.purpose == KEY_PURPOSE_CODESIGN, KEY_NOT_FOUND);
    TRY(keys_check_use(op, ret_key, run->accepted, 0, ""));
    TRY(keys_claim_granted(op, services, ret_key, run->command.id));
    TRY(keys_check_fence(op, ret_key->algorithm, ""));
    run->made.algorithm = ret_key->algorithm;
    run->made.spki = ret_key->spki;
    return OK;
}

static struct fault govern(struct op *op, struct services *services, struct run *run, const char *key_name)
{
    TRY(governance_look(op, services, &run->command.request, key_name, &run->identity, run->accepted,
                        &run->governance));
    run->governance_known = true;
    return governance_pass(op, services, &run->governance, run->command.id, run->accepted);
}

static struct fault sign_one(struct op *op, struct services *services, struct run *run, const struct key_ref *key,
                             size_t position)
{
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    const struct codesign_request *asked = &run->command.request;
    struct sign_request request = {
        .key = *key,
        .scheme = asked->scheme,
        .hash = asked->hash,
        .digest = asked->digests[position],
    };
    TRY(codesign_operation_id(run->command.id, position, &request.op_id));
    mono_ns started = clock_mono();
    TRY(signer_sign(op, services->signer, &request, &signature));
    metrics_observe(services->metrics, CODESIGN_SIGN_SECONDS, (double)(clock_mono() - started) / (double)NS_PER_S,
                    (const char *const[]){ key_algorithm_text(run->made.algorithm) });
    /* Nothing is recorded as a signature that does not verify outside the token. */
    TRY(codesign_signature_check(run->made.spki, request.scheme, request.hash, request.digest, buf_span(&signature)));
    return arena_copy(op->arena, buf_span(&signature), &run->made.signatures[position]);
}

static struct fault sign_all(struct op *op, struct services *services, struct run *run, const struct key_ref *key)
{
    FAILPOINT("codesign.before_sign");
    for (size_t i = 0; i < run->command.request.count; i++) {
        TRY(sign_one(op, services, run, key, i));
    }
    FAILPOINT("codesign.after_sign");
    return OK;
}

static struct fault run_key(struct op *op, struct services *services, struct run *run)
{
    struct managed_key key;
    TRY(find_key(op, services, run, &key));
    TRY(govern(op, services, run, key.name));
    return sign_all(op, services, run, &key.ref);
}

static struct fault run_keyless(struct op *op, struct services *services, struct run *run)
{
    struct codesign_made *made = &run->made;
    struct ephemeral ephemeral;
    TRY(keyless_identify(op, services, &run->command.request, run->accepted, &made->identity));
    run->identity = (struct verified_identity){ .issuer = made->identity.issuer, .san = made->identity.san };
    TRY(govern(op, services, run, NULL));
    TRY(keyless_key(op, services, run->command.id, &ephemeral));
    made->algorithm = KEY_ALGORITHM_EC_P256;
    made->spki = ephemeral.spki;
    made->issued_outside = keyless_issued_outside(services);
    TRY(keyless_certify(op, services, &run->command, &ephemeral, &made->identity, run->accepted, &made->chain,
                        &made->chain_count));
    return sign_all(op, services, run, &ephemeral.key);
}

static struct fault run_command(struct op *op, struct services *services, const struct outbox_item *item,
                                struct uuid id, struct run *run, uint64_t *ret_seq)
{
    TRY(open_command(op, services, item, id, run));
    run->made.command = &run->command;
    run->made.governance = &run->governance;
    TRY(run->command.request.mode == CODESIGN_KEY ? run_key(op, services, run) : run_keyless(op, services, run));
    run->made.approved_mode = keys_approved_mode(run->made.algorithm);
    FAILPOINT("codesign.before_completion");
    TRY(codesign_record_completed(op, services, &run->made, ret_seq));
    FAILPOINT("codesign.after_completion");
    return OK;
}

/* A refusal is an end that was meant; everything else that is final is a failure. */
static bool is_refusal(struct fault fault)
{
    static const enum fault_code refusals[] = {
        FAULT_POLICY_DENIED,   FAULT_APPROVAL_REQUIRED, FAULT_APPROVAL_DENIED,       FAULT_IDENTITY_METHOD,
        FAULT_PROOF_MALFORMED, FAULT_PROOF_ALGORITHM,   FAULT_PROOF_SIGNATURE,       FAULT_PROOF_EXPIRED,
        FAULT_PROOF_NOT_YET,   FAULT_PROOF_CLAIM,       FAULT_KEYLESS_CONTRADICTION, FAULT_KEY_EXHAUSTED,
    };
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        if (refusals[i] == fault.code) {
            return true;
        }
    }
    return false;
}

static bool is_terminal(const struct outbox_item *item, struct fault fault)
{
    return fault_row(fault.code)->retry == FAULT_RETRY_NO || item->last_attempt;
}

static void count(struct services *services, const char *result)
{
    metrics_add(services->metrics, CODESIGN_OPERATIONS_TOTAL, 1, (const char *const[]){ result });
}

/* Where the end cannot be recorded, the row stays due. */
static struct fault end_badly(struct op *op, struct services *services, const struct run *run,
                              const struct codesign_operation *operation, struct fault fault, uint64_t *ret_seq)
{
    struct fault_note note = op->note;
    struct fault recorded;
    if (is_refusal(fault) && run->opened) {
        recorded = codesign_record_refused(op, services, &run->command, &run->identity,
                                           run->governance_known ? &run->governance : NULL, fault, ret_seq);
    } else {
        recorded = codesign_record_failed(op, services, operation, fault, ret_seq);
    }
    TRY(recorded);
    op->note = note;
    return OK;
}

struct fault codesign_command_handler(struct op *op, struct services *services, const struct outbox_item *item)
{
    struct codesign_operation operation;
    struct run *run = NULL;
    struct uuid id;
    uint64_t seq = 0;
    TRY(uuid_parse(span_text(item->key), &id));
    FAILPOINT("codesign.after_lease");
    TRY(codesign_operation_get(op, services, id, &operation));
    if (strcmp(operation.state, "commanded") != 0) {
        return OK; /* an earlier try recorded the end before it was cut off */
    }
    TRY(arena_take(op->arena, 1, sizeof(*run), &run));
    struct fault fault = run_command(op, services, item, id, run, &seq);
    if (!FAULTED(fault)) {
        codesign_waiters_ended(id, seq);
        count(services, "completed");
        return OK;
    }
    if (!is_terminal(item, fault)) {
        codesign_waiters_met(id, fault);
        count(services, "repeated");
        return fault;
    }
    TRY(end_badly(op, services, run, &operation, fault, &seq));
    codesign_waiters_ended(id, seq);
    bool refused = is_refusal(fault);
    count(services, refused ? "refused" : "failed");
    return refused ? OK : fault;
}
