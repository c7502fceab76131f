#include "api/codesign/internal.h"

#include "api/keys/seal.h"
#include "appliance/base/codec.h"
#include "appliance/base/secret.h"

#define COMMAND_MAX ((size_t)16 << 10)
#define EVENT_MAX   ((size_t)64 << 10)
#define SCHEMA      "svc.codesign.command.v1"

struct fault codesign_command_print(const struct codesign_command *command, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(COMMAND_MAX);
    const struct codesign_request *request = &command->request;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", SCHEMA);
    jout_key_text(&jout, "tenant_id", command->tenant.text);
    jout_key_text(&jout, "operation_id", command->operation_id.text);
    jout_key_text(&jout, "principal", request->principal);
    jout_key_text(&jout, "key_id", request->key_id.text);
    jout_key_text(&jout, "artifact_type", request->artifact_type);
    jout_key_base64(&jout, "digest", request->digest);
    jout_key_text(&jout, "signature_scheme", codesign_scheme_text(request->scheme));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

struct fault codesign_command_aad(struct tenant_id tenant, struct uuid operation_id, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(1024);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "context", CODESIGN_COMMAND);
    jout_key_text(&jout, "tenant_id", tenant.text);
    jout_key_text(&jout, "operation_id", operation_id.text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

struct fault codesign_command_fingerprint(const struct codesign_command *command, struct span fingerprint_key,
                                          char ret_text[FINGERPRINT_LEN + 1])
{
    CLEANUP(buf_free) struct buf plain = BUF_INIT(COMMAND_MAX);
    struct sha256 mac;
    TRY(codesign_command_print(command, &plain));
    const struct span parts[] = { buf_span(&plain) };
    TRY(hmac_sha256(fingerprint_key, parts, COUNT_OF(parts), &mac));
    hex_text(SPAN_ARRAY(mac.at), ret_text, FINGERPRINT_LEN + 1);
    return OK;
}

struct command_data {
    const char *schema, *tenant_id, *operation_id, *principal, *key_id, *artifact_type, *signature_scheme;
    struct span digest;
};
static const struct jin_field command_fields[] = {
    JIN_TEXT(struct command_data, schema, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct command_data, tenant_id, JIN_REQUIRED, 1, 63),
    JIN_TEXT(struct command_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct command_data, principal, JIN_REQUIRED, 1, OP_SUBJECT_MAX),
    JIN_TEXT(struct command_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct command_data, artifact_type, JIN_REQUIRED, 1, ARTIFACT_TYPE_MAX),
    JIN_TEXT(struct command_data, signature_scheme, JIN_REQUIRED, 1, 32),
    JIN_BASE64(struct command_data, digest, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
};

static struct fault read_command(struct op *op, struct span plain, struct codesign_command *ret_command)
{
    struct command_data data = { 0 };
    struct codesign_command command = { 0 };
    TRY(jin_decode(op, plain, command_fields, COUNT_OF(command_fields), &data));
    REQUIRE(strcmp(data.schema, SCHEMA) == 0, UNSEAL);
    TRY(tenant_id_parse(span_text(data.tenant_id), &command.tenant));
    TRY(uuid_parse(span_text(data.operation_id), &command.operation_id));
    TRY(uuid_parse(span_text(data.key_id), &command.request.key_id));
    command.request.principal = data.principal;
    command.request.artifact_type = data.artifact_type;
    command.request.digest = data.digest;
    command.request.scheme = codesign_scheme_parse(data.signature_scheme);
    REQUIRE(command.request.scheme != SIGN_SCHEME_NONE, UNSEAL);
    *ret_command = command;
    return OK;
}

struct fault codesign_command_parse(struct op *op, struct span plain, struct codesign_command *ret_command)
{
    struct fault fault = read_command(op, plain, ret_command);
    return FAULTED(fault) && fault.code != FAULT_NO_MEMORY ? FAULT(UNSEAL) : fault;
}

static struct fault seal_command(struct op *op, struct services *services, const struct codesign_command *command,
                                 struct buf *sealed)
{
    CLEANUP(buf_free) struct buf plain = BUF_INIT(COMMAND_MAX);
    CLEANUP(buf_free) struct buf aad = BUF_INIT(1024);
    TRY(codesign_command_print(command, &plain));
    TRY(codesign_command_aad(command->tenant, command->operation_id, &aad));
    return keys_seal(op, services, buf_span(&aad), buf_span(&plain), sealed);
}

/* The digest stands in the sealed part only: what was asked and never signed stays between caller and signer. */
static struct fault print_commanded(struct op *op, struct services *services, const struct codesign_plan *plan,
                                    struct buf *out)
{
    CLEANUP(buf_free) struct buf sealed = BUF_INIT(SEALED_COMMAND_MAX);
    const struct codesign_command command = {
        .operation_id = op->command_id,
        .tenant = op->tenant,
        .request = plan->request,
    };
    char fingerprint[FINGERPRINT_LEN + 1];
    struct jout jout;
    TRY(seal_command(op, services, &command, &sealed));
    TRY(codesign_command_fingerprint(&command, secret_span(services->fingerprint_key), fingerprint));
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", op->command_id.text);
    jout_key_text(&jout, "key_id", plan->request.key_id.text);
    jout_key_text(&jout, "artifact_type", plan->request.artifact_type);
    jout_key_text(&jout, "signature_scheme", codesign_scheme_text(plan->request.scheme));
    jout_key_text(&jout, "request_fingerprint", plan->request_fingerprint);
    jout_key_text(&jout, "command_fingerprint", fingerprint);
    jout_key_text(&jout, "transparency_destination", CODESIGN_TRANSPARENCY);
    jout_key_base64(&jout, "sealed_command", buf_span(&sealed));
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault codesign_accept(struct op *op, struct services *services, const struct codesign_plan *plan)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    TRY(print_commanded(op, services, plan, &data));
    const struct event event = { .type = "codesign.commanded", .schema_version = 1, .data = buf_span(&data) };
    const struct event_append append = {
        .lane = CODESIGN_LANE,
        .message_id = op->command_id,
        .events = &event,
        .count = 1,
    };
    uint64_t seq = 0;
    return events_append(op, services->log, &append, &seq);
}
