#include "api/codesign/internal.h"

#include "api/keys/seal.h"
#include "appliance/base/codec.h"
#include "appliance/base/secret.h"

#include <stdio.h>

#define EVENT_MAX ((size_t)128 << 10)
#define SCHEMA    "svc.codesign.command.v1"

struct fault codesign_operation_id(struct uuid command_id, size_t position, struct uuid *ret_id)
{
    if (position == 0) {
        *ret_id = command_id;
        return OK;
    }
    char number[24];
    (void)snprintf(number, sizeof(number), "%zu", position);
    const struct span parts[] = { span_text(command_id.text), span_text(number) };
    return uuid_derive("codesign.operation", parts, COUNT_OF(parts), ret_id);
}

struct fault codesign_command_print(const struct codesign_command *command, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(COMMAND_MAX);
    const struct codesign_request *request = &command->request;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", SCHEMA);
    jout_key_text(&jout, "tenant_id", command->tenant.text);
    jout_key_text(&jout, "command_id", command->id.text);
    jout_key_text(&jout, "transparency_destination", command->destination);
    codesign_request_print(&jout, request);
    jout_key(&jout, "roles");
    jout_array(&jout);
    for (size_t i = 0; i < request->role_count; i++) {
        jout_text(&jout, request->roles[i]);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

struct fault codesign_command_aad(struct tenant_id tenant, struct uuid command_id, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(1024);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "context", CODESIGN_COMMAND);
    jout_key_text(&jout, "tenant_id", tenant.text);
    jout_key_text(&jout, "operation_id", command_id.text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

/* Roles and destination are not what is asked: a caller whose token gained a role still repeats the same request. */
struct fault codesign_command_fingerprint(const struct codesign_command *command, struct span fingerprint_key,
                                          char ret_text[FINGERPRINT_LEN + 1])
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(COMMAND_MAX);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(COMMAND_MAX);
    struct sha256 mac;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", "svc.codesign.asked.v1");
    jout_key_text(&jout, "tenant_id", command->tenant.text);
    jout_key_text(&jout, "command_id", command->id.text);
    codesign_request_print(&jout, &command->request);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(json_canonical(buf_span(&json), &canonical));
    const struct span parts[] = { buf_span(&canonical) };
    TRY(hmac_sha256(fingerprint_key, parts, COUNT_OF(parts), &mac));
    hex_text(SPAN_ARRAY(mac.at), ret_text, FINGERPRINT_LEN + 1);
    return OK;
}

struct command_data {
    const char *schema, *tenant_id, *command_id, *transparency_destination, *mode, *principal, *artifact_type,
        *digest_algorithm, *signature_scheme, *key_id, *identity_method, *expected_san, *expected_issuer;
    struct jin_texts digests, roles;
    struct span identity_payload;
};
static const struct jin_field command_fields[] = {
    JIN_TEXT(struct command_data, schema, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct command_data, tenant_id, JIN_REQUIRED, 1, 63),
    JIN_TEXT(struct command_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct command_data, transparency_destination, JIN_REQUIRED, 1, 512),
    JIN_TEXT(struct command_data, mode, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct command_data, principal, JIN_REQUIRED, 1, OP_SUBJECT_MAX),
    JIN_TEXT(struct command_data, artifact_type, JIN_REQUIRED, 1, ARTIFACT_TYPE_MAX),
    JIN_TEXT(struct command_data, digest_algorithm, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct command_data, signature_scheme, JIN_REQUIRED, 1, 32),
    JIN_TEXTS(struct command_data, digests, JIN_REQUIRED, 1, BATCH_MAX),
    JIN_TEXTS(struct command_data, roles, JIN_REQUIRED, 0, OP_ROLES_MAX),
    JIN_TEXT(struct command_data, key_id, JIN_OPTIONAL, 36, 36),
    JIN_TEXT(struct command_data, identity_method, JIN_OPTIONAL, 1, METHOD_MAX),
    JIN_BASE64(struct command_data, identity_payload, JIN_OPTIONAL, 1, PROOF_MAX),
    JIN_TEXT(struct command_data, expected_san, JIN_OPTIONAL, 1, IDENTITY_MAX),
    JIN_TEXT(struct command_data, expected_issuer, JIN_OPTIONAL, 1, IDENTITY_MAX),
};

static struct fault read_digests(struct op *op, const struct command_data *data, struct codesign_request *request)
{
    struct span *digests = NULL;
    TRY(hash_algorithm_parse(span_text(data->digest_algorithm), &request->hash));
    TRY(arena_take(op->arena, data->digests.count, sizeof(*digests), &digests));
    for (size_t i = 0; i < data->digests.count; i++) {
        CLEANUP(buf_free) struct buf bytes = BUF_INIT(DIGEST_MAX);
        TRY(base64_decode(span_text(data->digests.at[i]), &bytes));
        REQUIRE(bytes.len == hash_size(request->hash), UNSEAL);
        TRY(arena_copy(op->arena, buf_span(&bytes), &digests[i]));
    }
    request->digests = digests;
    request->count = data->digests.count;
    return OK;
}

static struct fault read_mode(const struct command_data *data, struct codesign_request *request)
{
    if (strcmp(data->mode, "key") == 0) {
        REQUIRE(data->key_id != NULL && data->identity_method == NULL && data->identity_payload.len == 0, UNSEAL);
        request->mode = CODESIGN_KEY;
        return uuid_parse(span_text(data->key_id), &request->key_id);
    }
    REQUIRE(strcmp(data->mode, "keyless") == 0 && data->key_id == NULL && data->identity_method != NULL &&
                data->identity_payload.len > 0 && data->digests.count == 1,
            UNSEAL);
    request->mode = CODESIGN_KEYLESS;
    request->identity_method = data->identity_method;
    request->proof = data->identity_payload;
    request->expected_san = data->expected_san;
    request->expected_issuer = data->expected_issuer;
    return OK;
}

static struct fault read_command(struct op *op, struct span plain, struct codesign_command *ret_command)
{
    struct command_data data = { 0 };
    struct codesign_command command = { 0 };
    struct codesign_request *request = &command.request;
    TRY(jin_decode(op, plain, command_fields, COUNT_OF(command_fields), &data));
    REQUIRE(strcmp(data.schema, SCHEMA) == 0, UNSEAL);
    TRY(tenant_id_parse(span_text(data.tenant_id), &command.tenant));
    TRY(uuid_parse(span_text(data.command_id), &command.id));
    command.destination = data.transparency_destination;
    request->principal = data.principal;
    request->roles = data.roles.at;
    request->role_count = data.roles.count;
    request->artifact_type = data.artifact_type;
    request->scheme = codesign_scheme_parse(data.signature_scheme);
    REQUIRE(request->scheme != SIGN_SCHEME_NONE, UNSEAL);
    TRY(read_digests(op, &data, request));
    TRY(read_mode(&data, request));
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
    TRY(codesign_command_aad(command->tenant, command->id, &aad));
    return keys_seal(op, services, buf_span(&aad), buf_span(&plain), sealed);
}

/* The digests stand in the sealed part only: what was asked and never signed stays between caller and signer. */
static struct fault print_commanded(struct op *op, struct services *services, const struct codesign_plan *plan,
                                    const struct codesign_command *command, size_t position, struct buf *out)
{
    const struct codesign_request *request = &plan->request;
    char fingerprint[FINGERPRINT_LEN + 1];
    struct uuid operation_id;
    struct jout jout;
    TRY(codesign_operation_id(command->id, position, &operation_id));
    TRY(codesign_command_fingerprint(command, secret_span(services->fingerprint_key), fingerprint));
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", operation_id.text);
    jout_key_text(&jout, "command_id", command->id.text);
    jout_key_int(&jout, "position", (int64_t)position);
    jout_key_int(&jout, "count", (int64_t)request->count);
    jout_key_text(&jout, "mode", codesign_mode_text(request->mode));
    if (request->mode == CODESIGN_KEY) {
        jout_key_text(&jout, "key_id", request->key_id.text);
    } else {
        jout_key_text(&jout, "identity_method", request->identity_method);
    }
    jout_key_text(&jout, "artifact_type", request->artifact_type);
    jout_key_text(&jout, "digest_algorithm", hash_algorithm_text(request->hash));
    jout_key_text(&jout, "signature_scheme", codesign_scheme_text(request->scheme));
    jout_key_text(&jout, "request_fingerprint", plan->request_fingerprint);
    jout_key_text(&jout, "command_fingerprint", fingerprint);
    jout_key_text(&jout, "transparency_destination", plan->destination);
    if (position == 0) {
        CLEANUP(buf_free) struct buf sealed = BUF_INIT(SEALED_COMMAND_MAX);
        TRY(seal_command(op, services, command, &sealed));
        jout_key_base64(&jout, "sealed_command", buf_span(&sealed));
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault codesign_accept(struct op *op, struct services *services, const struct codesign_plan *plan)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(BATCH_MAX * EVENT_MAX);
    const struct codesign_command command = {
        .id = op->command_id,
        .tenant = op->tenant,
        .destination = plan->destination,
        .request = plan->request,
    };
    struct event events[BATCH_MAX];
    size_t ends[BATCH_MAX];
    size_t count = plan->request.count;
    BUG_IF(count == 0 || count > BATCH_MAX);
    for (size_t i = 0; i < count; i++) {
        TRY(print_commanded(op, services, plan, &command, i, &data));
        ends[i] = data.len;
    }
    for (size_t i = 0, from = 0; i < count; from = ends[i++]) {
        events[i] = (struct event){ .type = "codesign.commanded",
                                    .schema_version = 1,
                                    .data = span_of(data.at + from, ends[i] - from) };
    }
    const struct event_append append = {
        .lane = CODESIGN_LANE,
        .message_id = op->command_id,
        .events = events,
        .count = count,
    };
    uint64_t seq = 0;
    TRY(events_append(op, services->log, &append, &seq));
    projector_hurry(services->projector, seq); /* the caller waits for the signature: for the row that asks for it */
    return OK;
}
