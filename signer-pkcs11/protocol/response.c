#include "signer-pkcs11/protocol/message.h"
#include "signer-pkcs11/protocol/pb.h"

/* Texts of answers are printable ASCII: a text that was cut inside a character, or came from a token, breaks nobody. */
static bool printable(char c)
{
    return c >= 0x20 && c <= 0x7e;
}

static void text_out(const char *text, char *out, size_t size)
{
    size_t len = strnlen(text, size - 1);
    for (size_t i = 0; i < len; i++) {
        out[i] = printable(text[i]) ? text[i] : '?';
    }
    out[len] = 0;
}

static struct fault text_in(const char *text, char *out, size_t size)
{
    size_t len = strlen(text);
    REQUIRE(len < size, SIGNER_PROTOCOL);
    for (size_t i = 0; i < len; i++) {
        REQUIRE(printable(text[i]), SIGNER_PROTOCOL);
        out[i] = text[i];
    }
    out[len] = 0;
    return OK;
}

static void health_out(const struct wire_health *from, struct wire_health *texts, Svc__Signer__HealthInfo *to)
{
    *to = (Svc__Signer__HealthInfo)SVC__SIGNER__HEALTH_INFO__INIT;
    text_out(from->token_label, texts->token_label, sizeof(texts->token_label));
    text_out(from->token_model, texts->token_model, sizeof(texts->token_model));
    text_out(from->token_serial, texts->token_serial, sizeof(texts->token_serial));
    text_out(from->cause, texts->cause, sizeof(texts->cause));
    to->state = from->state;
    to->token_label = texts->token_label;
    to->token_model = texts->token_model;
    to->token_serial = texts->token_serial;
    to->cause = texts->cause;
    to->operations = from->operations;
    to->recoveries = from->recoveries;
    to->journal_bytes = from->journal_bytes;
    to->sessions = from->sessions;
    to->queue = from->queue;
    to->fips_active = from->fips_active;
    to->self_test_passed = from->self_test_passed;
}

struct fault response_pack(const struct wire_response *response, struct buf *frame)
{
    REQUIRE(response->result.len <= WIRE_RESULT_MAX, TOO_LARGE);
    char detail[WIRE_DETAIL_MAX];
    struct wire_health texts;
    Svc__Signer__HealthInfo health;
    Svc__Signer__Response out = SVC__SIGNER__RESPONSE__INIT;
    out.id = response->id;
    out.fault = response->fault.code;
    text_out(response->detail, detail, sizeof(detail));
    out.detail = detail;
    out.result = pb_data(response->result);
    out.algorithm = response->algorithm;
    if (response->has_health) {
        health_out(&response->health, &texts, &health);
        out.health = &health;
    }
    return pb_frame(&out.base, frame);
}

static struct fault health_in(const Svc__Signer__HealthInfo *from, struct wire_health *to)
{
    BUG_IF(from == NULL);
    REQUIRE(from->base.n_unknown_fields == 0 && from->state <= 2, SIGNER_PROTOCOL);
    TRY(text_in(from->token_label, to->token_label, sizeof(to->token_label)));
    TRY(text_in(from->token_model, to->token_model, sizeof(to->token_model)));
    TRY(text_in(from->token_serial, to->token_serial, sizeof(to->token_serial)));
    TRY(text_in(from->cause, to->cause, sizeof(to->cause)));
    to->state = from->state;
    to->operations = from->operations;
    to->recoveries = from->recoveries;
    to->journal_bytes = from->journal_bytes;
    to->sessions = from->sessions;
    to->queue = from->queue;
    to->fips_active = from->fips_active;
    to->self_test_passed = from->self_test_passed;
    return OK;
}

struct fault response_unpack(struct arena *arena, struct span message, struct wire_response *ret_response)
{
    const ProtobufCMessage *made = NULL;
    TRY(pb_unpack(arena, &svc__signer__response__descriptor, message, &made));
    const Svc__Signer__Response *in = (const void *)made;
    REQUIRE(made->n_unknown_fields == 0 && in->id != 0, SIGNER_PROTOCOL);
    struct wire_response response = { .id = in->id,
                                      .fault = fault_from_wire(in->fault),
                                      .result = pb_span(in->result),
                                      .algorithm = (enum key_algorithm)in->algorithm,
                                      .has_health = in->health != NULL };
    TRY(text_in(in->detail, response.detail, sizeof(response.detail)));
    REQUIRE(response.result.len <= WIRE_RESULT_MAX, SIGNER_PROTOCOL);
    REQUIRE(in->algorithm < KEY_ALGORITHM_COUNT, SIGNER_PROTOCOL);
    /* A refusal brings nothing but its reason. */
    bool empty = response.result.len == 0 && in->algorithm == 0 && !response.has_health;
    REQUIRE(!FAULTED(response.fault) || empty, SIGNER_PROTOCOL);
    if (response.has_health) {
        TRY(health_in(in->health, &response.health));
    }
    *ret_response = response;
    return OK;
}
