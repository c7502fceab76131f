#include "api/codesign/internal.h"

#include "api/keys/seal.h"

#define EVENT_MAX ((size_t)32 << 10)

struct command_payload {
    const char *operation_id;
    struct span sealed_command;
};
static const struct jin_field payload_fields[] = {
    JIN_TEXT(struct command_payload, operation_id, JIN_REQUIRED, 36, 36),
    JIN_BASE64(struct command_payload, sealed_command, JIN_REQUIRED, 1, SEALED_COMMAND_MAX),
};

/* Opens the command and believes nothing of it that its place does not confirm. */
static struct fault open_command(struct op *op, struct services *services, const struct outbox_item *item,
                                 struct uuid id, struct codesign_command *ret_command)
{
    CLEANUP(buf_free) struct buf aad = BUF_INIT(1024);
    CLEANUP(buf_free) struct buf plain = BUF_INIT(SEALED_COMMAND_MAX);
    struct command_payload payload = { 0 };
    TRY(jin_decode(op, item->payload, payload_fields, COUNT_OF(payload_fields), &payload));
    TRY(codesign_command_aad(op->tenant, id, &aad));
    TRY(keys_unseal(op, services, buf_span(&aad), payload.sealed_command, &plain));
    TRY(codesign_command_parse(op, buf_span(&plain), ret_command));
    REQUIRE(tenant_id_equal(ret_command->tenant, op->tenant) && uuid_equal(ret_command->operation_id, id), UNSEAL);
    return OK;
}

static struct fault find_key(struct op *op, struct services *services, const struct codesign_command *command,
                             struct managed_key *ret_key)
{
    TRY(keys_get(op, services, command->request.key_id, ret_key));
    REQUIRE(ret_key->ref.purpose == KEY_PURPOSE_CODESIGN, KEY_NOT_FOUND);
    REQUIRE(strcmp(ret_key->state, "active") == 0, KEY_STATE);
    return OK;
}

static struct fault sign(struct op *op, struct services *services, const struct codesign_command *command,
                         const struct managed_key *key, struct buf *signature)
{
    const struct sign_request request = {
        .key = key->ref,
        .scheme = command->request.scheme,
        .hash = HASH_SHA256,
        .digest = command->request.digest,
        .op_id = command->operation_id,
    };
    mono_ns started = clock_mono();
    TRY(signer_sign(op, services->signer, &request, signature));
    metrics_observe(services->metrics, CODESIGN_SIGN_SECONDS, (double)(clock_mono() - started) / (double)NS_PER_S,
                    (const char *const[]){ key_algorithm_text(key->algorithm) });
    /* Nothing is recorded as a signature that does not verify outside the token. */
    return codesign_signature_check(key->spki, request.scheme, request.digest, buf_span(signature));
}

static struct fault print_signed(const struct codesign_command *command, const struct managed_key *key,
                                 const struct buf *signature, struct buf *out)
{
    struct sha256 spki;
    struct jout jout;
    TRY(sha256_of(key->spki, &spki));
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", command->operation_id.text);
    jout_key_text(&jout, "key_id", command->request.key_id.text);
    jout_key_text(&jout, "algorithm", key_algorithm_text(key->algorithm));
    jout_key_text(&jout, "hash_algorithm", "sha256");
    jout_key_text(&jout, "signature_scheme", codesign_scheme_text(command->request.scheme));
    jout_key_text(&jout, "artifact_type", command->request.artifact_type);
    jout_key_base64(&jout, "digest", command->request.digest);
    jout_key_text(&jout, "principal", command->request.principal);
    jout_key_hex(&jout, "public_key_sha256", SPAN_ARRAY(spki.at));
    jout_key_base64(&jout, "signature", buf_span(signature));
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault print_small(struct uuid id, const char *key, const char *value, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", id.text);
    jout_key_text(&jout, key, value);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault append(struct op *op, struct services *services, const char *domain, struct uuid id,
                           const struct event *events, size_t count, uint64_t *ret_seq)
{
    const struct span parts[] = { span_text(op->tenant.text), span_text(id.text) };
    struct event_append message = { .lane = CODESIGN_LANE, .events = events, .count = count };
    TRY(uuid_derive(domain, parts, COUNT_OF(parts), &message.message_id));
    return events_append(op, services->log, &message, ret_seq);
}

static struct fault record_signed(struct op *op, struct services *services, const struct codesign_command *command,
                                  const struct managed_key *key, const struct buf *signature, uint64_t *ret_seq)
{
    CLEANUP(buf_free) struct buf signed_data = BUF_INIT(EVENT_MAX);
    CLEANUP(buf_free) struct buf completed_data = BUF_INIT(EVENT_MAX);
    TRY(print_signed(command, key, signature, &signed_data));
    TRY(print_small(command->operation_id, "transparency_destination", CODESIGN_TRANSPARENCY, &completed_data));
    const struct event events[] = {
        { .type = "codesign.signed", .schema_version = 1, .data = buf_span(&signed_data) },
        { .type = "codesign.completed", .schema_version = 1, .data = buf_span(&completed_data) },
    };
    return append(op, services, "codesign.signed", command->operation_id, events, COUNT_OF(events), ret_seq);
}

static struct fault run_command(struct op *op, struct services *services, const struct outbox_item *item,
                                struct uuid id, uint64_t *ret_seq)
{
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    struct codesign_command command;
    struct managed_key key;
    TRY(open_command(op, services, item, id, &command));
    TRY(find_key(op, services, &command, &key));
    TRY(sign(op, services, &command, &key, &signature));
    return record_signed(op, services, &command, &key, &signature, ret_seq);
}

static struct fault record_failed(struct op *op, struct services *services, struct uuid id, struct fault why,
                                  uint64_t *ret_seq)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    TRY(print_small(id, "code", fault_row(why.code)->text, &data));
    const struct event event = { .type = "codesign.failed", .schema_version = 1, .data = buf_span(&data) };
    return append(op, services, "codesign.failed", id, &event, 1, ret_seq);
}

static bool is_terminal(const struct outbox_item *item, struct fault fault)
{
    return fault_row(fault.code)->retry == FAULT_RETRY_NO || item->last_attempt;
}

static void count(struct services *services, const char *result)
{
    metrics_add(services->metrics, CODESIGN_OPERATIONS_TOTAL, 1, (const char *const[]){ result });
}

struct fault codesign_command_handler(struct op *op, struct services *services, const struct outbox_item *item)
{
    struct codesign_operation operation;
    struct uuid id;
    uint64_t seq = 0;
    TRY(uuid_parse(span_text(item->key), &id));
    TRY(codesign_operation_get(op, services, id, &operation));
    if (strcmp(operation.state, "commanded") != 0) {
        return OK; /* an earlier try recorded the end before it was cut off */
    }
    struct fault fault = run_command(op, services, item, id, &seq);
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
    /* The fact first, the dead letter after it. Where it cannot be recorded, the row stays due. */
    struct fault_note note = op->note;
    TRY(record_failed(op, services, id, fault, &seq));
    op->note = note;
    codesign_waiters_ended(id, seq);
    count(services, "failed");
    return fault;
}
