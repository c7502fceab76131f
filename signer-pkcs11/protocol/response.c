#include "signer-pkcs11/protocol/message.h"
#include "signer-pkcs11/protocol/pb.h"

#include "appliance/base/alloc.h"

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

/* ---- pack ---- */

/* All of an answer about health in its protobuf form, with its texts made printable. */
struct outgoing {
    Svc__Signer__HealthInfo info;
    struct signer_health texts;
    Svc__Signer__TokenInfo tokens[HEALTH_TOKENS_MAX], *token_list[HEALTH_TOKENS_MAX];
    Svc__Signer__OpCount counts[HEALTH_COUNTS_MAX], *count_list[HEALTH_COUNTS_MAX];
    uint64_t refusals[HEALTH_CLASSES];
};

static void token_out(const struct token_health *from, struct token_health *texts, Svc__Signer__TokenInfo *to)
{
    *to = (Svc__Signer__TokenInfo)SVC__SIGNER__TOKEN_INFO__INIT;
    text_out(from->name.text, texts->name.text, sizeof(texts->name.text));
    text_out(from->label, texts->label, sizeof(texts->label));
    text_out(from->model, texts->model, sizeof(texts->model));
    text_out(from->serial, texts->serial, sizeof(texts->serial));
    text_out(from->cause, texts->cause, sizeof(texts->cause));
    to->name = texts->name.text;
    to->state = from->state;
    to->label = texts->label;
    to->model = texts->model;
    to->serial = texts->serial;
    to->cause = texts->cause;
    to->recoveries = from->recoveries;
    to->sessions = from->sessions;
    to->in_use = from->in_use;
    to->set_aside = from->set_aside;
}

static void lists_out(const struct signer_health *from, struct outgoing *out)
{
    for (size_t i = 0; i < from->token_count; i++) {
        token_out(&from->tokens[i], &out->texts.tokens[i], &out->tokens[i]);
        out->token_list[i] = &out->tokens[i];
    }
    for (size_t i = 0; i < from->count_count; i++) {
        const struct operation_count *count = &from->counts[i];
        out->counts[i] = (Svc__Signer__OpCount)SVC__SIGNER__OP_COUNT__INIT;
        out->counts[i].op = count->op;
        out->counts[i].purpose = count->purpose;
        out->counts[i].outcome = count->outcome;
        out->counts[i].count = count->count;
        out->count_list[i] = &out->counts[i];
    }
    memcpy(out->refusals, from->refusals, sizeof(out->refusals));
    out->info.n_tokens = from->token_count;
    out->info.tokens = out->token_list;
    out->info.n_counts = from->count_count;
    out->info.counts = out->count_list;
    out->info.n_refusals = HEALTH_CLASSES;
    out->info.refusals = out->refusals;
}

static void health_out(const struct signer_health *from, struct outgoing *out)
{
    Svc__Signer__HealthInfo *to = &out->info;
    *to = (Svc__Signer__HealthInfo)SVC__SIGNER__HEALTH_INFO__INIT;
    text_out(from->token_label, out->texts.token_label, sizeof(out->texts.token_label));
    text_out(from->token_model, out->texts.token_model, sizeof(out->texts.token_model));
    text_out(from->token_serial, out->texts.token_serial, sizeof(out->texts.token_serial));
    text_out(from->cause, out->texts.cause, sizeof(out->texts.cause));
    to->state = from->state;
    to->token_label = out->texts.token_label;
    to->token_model = out->texts.token_model;
    to->token_serial = out->texts.token_serial;
    to->cause = out->texts.cause;
    to->operations = from->operations;
    to->recoveries = from->recoveries;
    to->journal_bytes = from->journal_bytes;
    to->sessions = from->sessions;
    to->queue = from->queue;
    to->fips_active = from->fips_active;
    to->self_test_passed = from->self_test_passed;
    to->journal_usable = from->journal_usable;
    lists_out(from, out);
}

static struct fault pack_health(Svc__Signer__Response *response, const struct signer_health *health, struct buf *frame)
{
    CLEANUP(mem_freep) struct outgoing *out = NULL;
    REQUIRE(health->token_count <= HEALTH_TOKENS_MAX && health->count_count <= HEALTH_COUNTS_MAX, TOO_LARGE);
    TRY(mem_new(1, sizeof(*out), &out));
    health_out(health, out);
    response->health = &out->info;
    return pb_frame(&response->base, frame);
}

struct fault response_pack(const struct wire_response *response, struct buf *frame)
{
    REQUIRE(response->result.len <= WIRE_RESULT_MAX, TOO_LARGE);
    char detail[WIRE_DETAIL_MAX];
    Svc__Signer__Response out = SVC__SIGNER__RESPONSE__INIT;
    out.id = response->id;
    out.fault = response->fault.code;
    text_out(response->detail, detail, sizeof(detail));
    out.detail = detail;
    out.result = pb_data(response->result);
    out.algorithm = response->algorithm;
    return response->health != NULL ? pack_health(&out, response->health, frame) : pb_frame(&out.base, frame);
}

/* ---- unpack ---- */

static struct fault token_in(const Svc__Signer__TokenInfo *from, struct token_health *to)
{
    REQUIRE(from->base.n_unknown_fields == 0 && from->state <= SIGNER_DOWN, SIGNER_PROTOCOL);
    REQUIRE(from->name[0] == 0 || !FAULTED(token_name_parse(span_text(from->name), &to->name)), SIGNER_PROTOCOL);
    TRY(text_in(from->label, to->label, sizeof(to->label)));
    TRY(text_in(from->model, to->model, sizeof(to->model)));
    TRY(text_in(from->serial, to->serial, sizeof(to->serial)));
    TRY(text_in(from->cause, to->cause, sizeof(to->cause)));
    to->state = (enum signer_state)from->state;
    to->recoveries = from->recoveries;
    to->sessions = from->sessions;
    to->in_use = from->in_use;
    to->set_aside = from->set_aside;
    return OK;
}

static struct fault lists_in(const Svc__Signer__HealthInfo *from, struct signer_health *to)
{
    REQUIRE(from->n_tokens <= HEALTH_TOKENS_MAX && from->n_counts <= HEALTH_COUNTS_MAX, SIGNER_PROTOCOL);
    REQUIRE(from->n_refusals == HEALTH_CLASSES, SIGNER_PROTOCOL);
    for (size_t i = 0; i < from->n_tokens; i++) {
        TRY(token_in(from->tokens[i], &to->tokens[i]));
    }
    for (size_t i = 0; i < from->n_counts; i++) {
        const Svc__Signer__OpCount *count = from->counts[i];
        REQUIRE(count->base.n_unknown_fields == 0 && count->op < WIRE_OP_COUNT, SIGNER_PROTOCOL);
        REQUIRE(count->purpose < KEY_PURPOSE_COUNT && count->outcome < OP_OUTCOME_COUNT, SIGNER_PROTOCOL);
        to->counts[i] = (struct operation_count){ .op = (enum wire_op)count->op,
                                                  .purpose = (enum key_purpose)count->purpose,
                                                  .outcome = (enum op_outcome)count->outcome,
                                                  .count = count->count };
    }
    memcpy(to->refusals, from->refusals, sizeof(to->refusals));
    to->token_count = from->n_tokens;
    to->count_count = from->n_counts;
    return OK;
}

static struct fault health_in(const Svc__Signer__HealthInfo *from, struct signer_health *to)
{
    REQUIRE(from->base.n_unknown_fields == 0 && from->state <= SIGNER_DOWN, SIGNER_PROTOCOL);
    TRY(text_in(from->token_label, to->token_label, sizeof(to->token_label)));
    TRY(text_in(from->token_model, to->token_model, sizeof(to->token_model)));
    TRY(text_in(from->token_serial, to->token_serial, sizeof(to->token_serial)));
    TRY(text_in(from->cause, to->cause, sizeof(to->cause)));
    to->state = (enum signer_state)from->state;
    to->operations = from->operations;
    to->recoveries = from->recoveries;
    to->journal_bytes = from->journal_bytes;
    to->sessions = from->sessions;
    to->queue = from->queue;
    to->fips_active = from->fips_active;
    to->self_test_passed = from->self_test_passed;
    to->journal_usable = from->journal_usable;
    return lists_in(from, to);
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
                                      .algorithm = (enum key_algorithm)in->algorithm };
    TRY(text_in(in->detail, response.detail, sizeof(response.detail)));
    REQUIRE(response.result.len <= WIRE_RESULT_MAX, SIGNER_PROTOCOL);
    REQUIRE(in->algorithm < KEY_ALGORITHM_COUNT, SIGNER_PROTOCOL);
    /* A refusal brings nothing but its reason. */
    bool empty = response.result.len == 0 && in->algorithm == 0 && in->health == NULL;
    REQUIRE(!FAULTED(response.fault) || empty, SIGNER_PROTOCOL);
    if (in->health != NULL) {
        struct signer_health *health = NULL;
        REQUIRE(!FAULTED(arena_take(arena, 1, sizeof(*health), &health)), SIGNER_PROTOCOL);
        TRY(health_in(in->health, health));
        response.health = health;
    }
    *ret_response = response;
    return OK;
}
