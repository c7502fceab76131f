#include "signer-pkcs11/protocol/message.h"
#include "signer-pkcs11/protocol/signer.pb-c.h"
#include "testlib.h"

#include <stdio.h>

#define TENANT "acme"
#define KEY_ID "0190b3c4-0000-7000-8000-0123456789ab"
#define OP_ID  "0190b3c4-0000-7000-8000-00000000000f"

static uint8_t digest[64];

static struct wire_request request_of(enum wire_op op)
{
    return (struct wire_request){ .id = 77,
                                  .deadline_ms = 2500,
                                  .op = op,
                                  .key = { .tenant = { TENANT }, .purpose = KEY_PURPOSE_CODESIGN, .id = { KEY_ID } },
                                  .algorithm = KEY_ALGORITHM_EC_P256,
                                  .scheme = SIGN_SCHEME_ECDSA,
                                  .hash = HASH_SHA256,
                                  .digest = span_of(digest, 32),
                                  .op_id = { OP_ID },
                                  .signature = span_text("signature"),
                                  .spki = span_text("spki"),
                                  .aad = span_text("aad"),
                                  .data = span_text("data") };
}

static struct arena *arena_of(void)
{
    struct arena *arena = NULL;
    assert_fault(arena_new(WIRE_ARENA_MAX, &arena), NONE);
    return arena;
}

static struct span message_of(const struct buf *frame)
{
    return span_of(frame->at + FRAME_HEADER, frame->len - FRAME_HEADER);
}

/* What the caller is told, and that the frame stays as it was. */
#define assert_check(request, sym)                                  \
    do {                                                            \
        CLEANUP(buf_free) struct buf frame_ = BUF_INIT(FRAME_MAX);  \
        assert_fault(request_pack(NULL, &(request), &frame_), sym); \
        assert_int_equal(frame_.len, 0);                            \
    } while (0)

/* A protobuf message as a peer might send it. */
static void assert_refused(const ProtobufCMessage *message)
{
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    uint8_t bytes[4096];
    struct wire_request untouched = { .id = 5 };
    assert_true(protobuf_c_message_get_packed_size(message) <= sizeof(bytes));
    size_t len = protobuf_c_message_pack(message, bytes);
    assert_fault(request_unpack(arena, span_of(bytes, len), &untouched), SIGNER_PROTOCOL);
    assert_int_equal(untouched.id, 5);
}

static void a_caller_is_told_what_is_wrong_before_anything_is_sent(void **state)
{
    (void)state;
    struct wire_request request = request_of(WIRE_OP_NONE);
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_OP_COUNT);
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_SIGN);
    request.key.purpose = KEY_PURPOSE_NONE;
    assert_check(request, BAD_ARGUMENT);
    request.key.purpose = KEY_PURPOSE_COUNT;
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_SIGN);
    request.key.tenant = (struct tenant_id){ "Acme" };
    assert_check(request, BAD_ARGUMENT);
    request.key.tenant = (struct tenant_id){ "" };
    assert_check(request, BAD_ARGUMENT);
    request.key.purpose = KEY_PURPOSE_POST;
    request.key.tenant = (struct tenant_id){ TENANT };
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_SIGN);
    request.key.id = (struct uuid){ "0190B3C4-0000-7000-8000-0123456789AB" };
    assert_check(request, BAD_ARGUMENT);
    static const char *const tokens[] = { "A", "main token", "a/b", "-\n", "..", "\xc3\xa4", "a_b" };
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        request = request_of(WIRE_SIGN);
        (void)snprintf(request.key.token.text, sizeof(request.key.token.text), "%s", tokens[i]);
        assert_check(request, BAD_ARGUMENT);
    }
    request = request_of(WIRE_GENERATE_KEY);
    request.algorithm = KEY_ALGORITHM_NONE;
    assert_check(request, BAD_ARGUMENT);
    request.algorithm = KEY_ALGORITHM_COUNT;
    assert_check(request, BAD_ARGUMENT);
}

static void several_digests_are_whole_and_no_more_than_are_signed_at_once(void **state)
{
    (void)state;
    static const uint8_t many[(WIRE_DIGESTS_MAX + 1) * 64];
    static const enum hash_algorithm hashes[] = { HASH_SHA256, HASH_SHA384, HASH_SHA512 };
    struct wire_request request = request_of(WIRE_SIGN_MANY);
    for (size_t h = 0; h < COUNT_OF(hashes); h++) {
        size_t size = hash_size(hashes[h]);
        request.hash = hashes[h];
        for (size_t len = 0; len <= 3 * size; len++) {
            request.digest = span_of(many, len);
            if (len == 0 || len % size != 0) {
                assert_check(request, DIGEST_LENGTH);
            }
        }
        request.digest = span_of(many, (WIRE_DIGESTS_MAX + 1) * size);
        assert_check(request, DIGEST_LENGTH);
        request.digest = span_of(many, WIRE_DIGESTS_MAX * size);
        assert_fault(request_check(NULL, &request), NONE);
    }
    request.scheme = SIGN_SCHEME_ML_DSA;
    assert_check(request, BAD_ARGUMENT);
    request.scheme = SIGN_SCHEME_COUNT;
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_SIGN_MANY);
    request.hash = HASH_NONE;
    assert_check(request, BAD_ARGUMENT);
}

static void digests_signatures_and_data_of_wrong_size_are_refused(void **state)
{
    (void)state;
    static const uint8_t large[WIRE_DATA_MAX + 1];
    struct wire_request request = request_of(WIRE_SIGN);
    for (size_t len = 0; len <= 64; len++) {
        request.digest = span_of(digest, len);
        if (len != 32) {
            assert_check(request, DIGEST_LENGTH);
        }
    }
    request = request_of(WIRE_SIGN);
    request.scheme = SIGN_SCHEME_NONE;
    assert_check(request, BAD_ARGUMENT);
    request.scheme = SIGN_SCHEME_COUNT;
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_VERIFY);
    request.hash = HASH_COUNT;
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_SIGN);
    request.op_id = (struct uuid){ "not-a-uuid" };
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_VERIFY);
    request.signature = span_of(large, 0);
    assert_check(request, BAD_ARGUMENT);
    request.signature = span_of(large, SIGNATURE_MAX + 1);
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_VERIFY);
    request.spki = span_of(large, SPKI_MAX + 1);
    assert_check(request, BAD_ARGUMENT);
    request = request_of(WIRE_SEAL);
    request.data = span_of(large, WIRE_DATA_MAX - 2);
    assert_check(request, TOO_LARGE);
    request.aad = span_of(large, WIRE_DATA_MAX + 1);
    assert_check(request, TOO_LARGE);
}

/* The members of a good Sign, to be spoiled one at a time. */
struct forged {
    Svc__Signer__Request request;
    Svc__Signer__KeyRef key;
    Svc__Signer__Sign sign;
};

static void forge(struct forged *forged)
{
    forged->request = (Svc__Signer__Request)SVC__SIGNER__REQUEST__INIT;
    forged->key = (Svc__Signer__KeyRef)SVC__SIGNER__KEY_REF__INIT;
    forged->sign = (Svc__Signer__Sign)SVC__SIGNER__SIGN__INIT;
    forged->request.op_case = SVC__SIGNER__REQUEST__OP_SIGN;
    forged->request.sign = &forged->sign;
    forged->request.id = 1;
    forged->sign.key = &forged->key;
    forged->key.tenant = (char *)TENANT;
    forged->key.purpose = KEY_PURPOSE_CODESIGN;
    forged->key.id = (char *)KEY_ID;
    forged->sign.scheme = SIGN_SCHEME_ECDSA;
    forged->sign.hash = HASH_SHA256;
    forged->sign.digest = (ProtobufCBinaryData){ .len = 32, .data = digest };
}

static void a_signer_refuses_what_no_client_of_ours_sends(void **state)
{
    (void)state;
    struct forged f;
    forge(&f);
    f.request.op_case = SVC__SIGNER__REQUEST__OP__NOT_SET;
    assert_refused(&f.request.base);
    forge(&f);
    f.request.id = 0;
    assert_refused(&f.request.base);
    forge(&f);
    f.sign.key = NULL;
    assert_refused(&f.request.base);
    static const uint32_t unknown[] = { 0, KEY_PURPOSE_COUNT, 0x7fffffff, 0xffffffff };
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        forge(&f);
        f.key.purpose = unknown[i];
        assert_refused(&f.request.base);
        forge(&f);
        f.sign.scheme = unknown[i];
        assert_refused(&f.request.base);
        forge(&f);
        f.sign.hash = unknown[i];
        assert_refused(&f.request.base);
    }
    static const char *const tenants[] = { "", "a/b", "..", "UPPER", "-first", "a b" };
    for (size_t i = 0; i < COUNT_OF(tenants); i++) {
        forge(&f);
        f.key.tenant = (char *)(uintptr_t)tenants[i];
        assert_refused(&f.request.base);
    }
    static const char *const tokens[] = { "Main", "a b", "a/b", "..", "abcdefghijklmnopqrstuvwxy", "\x01", "a_b" };
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        forge(&f);
        f.key.token = (char *)(uintptr_t)tokens[i];
        assert_refused(&f.request.base);
    }
    forge(&f);
    f.key.purpose = KEY_PURPOSE_POST;
    assert_refused(&f.request.base);
    forge(&f);
    f.key.id = (char *)"";
    assert_refused(&f.request.base);
    forge(&f);
    f.sign.op_id = (char *)"x";
    assert_refused(&f.request.base);
    forge(&f);
    f.sign.digest.len = 31;
    assert_refused(&f.request.base);
}

static void unknown_fields_are_refused_at_every_depth(void **state)
{
    (void)state;
    ProtobufCMessageUnknownField field = {
        .tag = 99, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 1, .data = (uint8_t *)"\x01"
    };
    struct forged f;
    ProtobufCMessage *bases[] = { &f.request.base, &f.sign.base, &f.key.base };
    for (size_t i = 0; i < COUNT_OF(bases); i++) {
        forge(&f);
        bases[i]->n_unknown_fields = 1;
        bases[i]->unknown_fields = &field;
        assert_refused(&f.request.base);
    }
}

static void only_the_one_encoding_of_a_message_is_accepted(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_MAX);
    CLEANUP(buf_free) struct buf other = BUF_INIT(FRAME_MAX);
    struct wire_request request = request_of(WIRE_SIGN), back;
    assert_fault(request_pack(NULL, &request, &frame), NONE);
    struct span message = message_of(&frame);
    assert_fault(request_unpack(arena, message, &back), NONE);
    /* the same member twice; a member that says its default; an id in more bytes than it needs */
    static const uint8_t twice[] = { 0x10, 0xc4, 0x13 }, spelled[] = { 0x08, 0x00 }, longer[] = { 0x08, 0x81, 0x00 };
    const struct span tails[] = { SPAN_ARRAY(twice), SPAN_ARRAY(spelled), SPAN_ARRAY(longer) };
    for (size_t i = 0; i < COUNT_OF(tails); i++) {
        buf_clear(&other);
        assert_fault(buf_put(&other, message), NONE);
        assert_fault(buf_put(&other, tails[i]), NONE);
        assert_fault(request_unpack(arena, buf_span(&other), &back), SIGNER_PROTOCOL);
    }
    /* the same members in another order: id is 77, deadline_ms 2500 */
    static const uint8_t head[] = { 0x08, 77, 0x10, 0xc4, 0x13 }, turned[] = { 0x10, 0xc4, 0x13, 0x08, 77 };
    assert_memory_equal(message.at, head, sizeof(head));
    buf_clear(&other);
    assert_fault(buf_put(&other, SPAN_ARRAY(turned)), NONE);
    assert_fault(buf_put(&other, span_of(message.at + sizeof(head), message.len - sizeof(head))), NONE);
    assert_fault(request_unpack(arena, buf_span(&other), &back), SIGNER_PROTOCOL);
    /* a NUL inside a text would hide what follows it */
    buf_clear(&other);
    assert_fault(buf_put(&other, message), NONE);
    uint8_t *tenant = memmem(other.at, other.len, TENANT, 4);
    assert_non_null(tenant);
    tenant[2] = 0;
    assert_fault(request_unpack(arena, buf_span(&other), &back), SIGNER_PROTOCOL);
}

static void no_cut_of_a_message_unpacks(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_MAX);
    struct wire_request request = request_of(WIRE_VERIFY), back;
    assert_fault(request_pack(NULL, &request, &frame), NONE);
    struct span message = message_of(&frame);
    for (size_t len = 0; len < message.len; len++) {
        assert_fault(request_unpack(arena, span_of(message.at, len), &back), SIGNER_PROTOCOL);
        arena_clear(arena);
    }
}

static void a_message_made_to_be_expensive_is_refused_within_its_arena(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    static uint8_t many[FRAME_MAX];
    for (size_t i = 0; i + 2 <= sizeof(many); i += 2) {
        many[i] = 0x78; /* field 15, varint: unknown, each costs the unpacker far more than its two bytes */
        many[i + 1] = 1;
    }
    struct wire_request back;
    assert_fault(request_unpack(arena, SPAN_ARRAY(many), &back), SIGNER_PROTOCOL);
    assert_true(arena_used(arena) <= WIRE_ARENA_MAX);
}

static void assert_same(const struct wire_request *a, const struct wire_request *b)
{
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->deadline_ms, b->deadline_ms);
    assert_int_equal(a->op, b->op);
    if (a->op == WIRE_HEALTH) {
        return;
    }
    assert_string_equal(a->key.tenant.text, b->key.tenant.text);
    assert_int_equal(a->key.purpose, b->key.purpose);
    assert_string_equal(a->key.id.text, b->key.id.text);
    assert_string_equal(a->key.token.text, b->key.token.text);
}

static void every_operation_survives_the_way(void **state)
{
    (void)state;
    for (int op = WIRE_HEALTH; op < WIRE_OP_COUNT; op++) {
        CLEANUP(arena_freep) struct arena *arena = arena_of();
        CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_MAX);
        struct wire_request request = request_of((enum wire_op)op), back;
        assert_fault(request_pack(NULL, &request, &frame), NONE);
        assert_fault(request_unpack(arena, message_of(&frame), &back), NONE);
        assert_same(&request, &back);
        if (op == WIRE_GENERATE_KEY) {
            assert_int_equal(back.algorithm, request.algorithm);
        }
        if (op == WIRE_SIGN || op == WIRE_VERIFY || op == WIRE_SIGN_MANY) {
            assert_int_equal(back.scheme, request.scheme);
            assert_int_equal(back.hash, request.hash);
            assert_true(span_equal(back.digest, request.digest));
        }
        assert_string_equal(back.op_id.text, op == WIRE_SIGN ? OP_ID : "");
        assert_true(span_equal(back.signature, op == WIRE_VERIFY ? request.signature : (struct span){ 0 }));
        assert_true(span_equal(back.spki, op == WIRE_VERIFY ? request.spki : (struct span){ 0 }));
        bool data = op == WIRE_SEAL || op == WIRE_UNSEAL;
        assert_true(span_equal(back.aad, data ? request.aad : (struct span){ 0 }));
        assert_true(span_equal(back.data, data ? request.data : (struct span){ 0 }));
        assert_true(wire_op_text((enum wire_op)op)[0] != 0);
    }
}

static void a_keys_token_travels_and_no_name_means_the_first(void **state)
{
    (void)state;
    static const char *const names[] = { "", "a", "hsm-2", "0123456789-abcdefghijklm" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        CLEANUP(arena_freep) struct arena *arena = arena_of();
        CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_MAX);
        struct wire_request request = request_of(WIRE_SIGN), back;
        (void)snprintf(request.key.token.text, sizeof(request.key.token.text), "%s", names[i]);
        assert_fault(request_pack(NULL, &request, &frame), NONE);
        assert_fault(request_unpack(arena, message_of(&frame), &back), NONE);
        assert_same(&request, &back);
    }
}

/* ML-DSA-65 has the longest signature and the longest public key of all. */
static void the_longest_signature_and_public_key_travel(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_MAX);
    static const uint8_t signature[SIGNATURE_MAX], spki[SPKI_MAX];
    struct wire_request request = request_of(WIRE_VERIFY), back;
    static_assert(SIGNATURE_MAX >= 3309 && SPKI_MAX >= 1974);
    request.scheme = SIGN_SCHEME_ML_DSA;
    request.hash = HASH_SHA512;
    request.digest = SPAN_ARRAY(digest);
    request.signature = SPAN_ARRAY(signature);
    request.spki = SPAN_ARRAY(spki);
    assert_fault(request_pack(NULL, &request, &frame), NONE);
    assert_fault(request_unpack(arena, message_of(&frame), &back), NONE);
    assert_int_equal(back.scheme, SIGN_SCHEME_ML_DSA);
    assert_int_equal(back.signature.len, SIGNATURE_MAX);
    assert_int_equal(back.spki.len, SPKI_MAX);
}

static void the_largest_data_fits_there_and_back(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    static const uint8_t large[WIRE_RESULT_MAX];
    struct wire_request request = request_of(WIRE_SEAL), back;
    request.data = span_of(large, WIRE_DATA_MAX - request.aad.len);
    assert_fault(request_pack(NULL, &request, &frame), NONE);
    assert_fault(request_unpack(arena, message_of(&frame), &back), NONE);
    assert_int_equal(back.data.len, request.data.len);
    struct wire_response response = { .id = 1, .result = SPAN_ARRAY(large) }, answer;
    buf_clear(&frame);
    arena_clear(arena);
    assert_fault(response_pack(&response, &frame), NONE);
    assert_fault(response_unpack(arena, message_of(&frame), &answer), NONE);
    assert_int_equal(answer.result.len, WIRE_RESULT_MAX);
    assert_true(WIRE_RESULT_MAX >= WIRE_DATA_MAX + 64); /* what sealing adds */
}

static struct fault answer_of(const Svc__Signer__Response *response)
{
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    static uint8_t bytes[FRAME_MAX];
    struct wire_response answer;
    assert_true(svc__signer__response__get_packed_size(response) <= sizeof(bytes));
    size_t len = svc__signer__response__pack(response, bytes);
    return response_unpack(arena, span_of(bytes, len), &answer);
}

static void a_client_refuses_answers_that_no_signer_of_ours_gives(void **state)
{
    (void)state;
    char long_text[WIRE_DETAIL_MAX + 1];
    memset(long_text, 'x', WIRE_DETAIL_MAX);
    long_text[WIRE_DETAIL_MAX] = 0;
    Svc__Signer__Response good = SVC__SIGNER__RESPONSE__INIT;
    Svc__Signer__Response bad = good;
    assert_fault(answer_of(&good), SIGNER_PROTOCOL); /* no id */
    good.id = 1;
    assert_fault(answer_of(&good), NONE);
    bad = good;
    bad.detail = long_text;
    assert_fault(answer_of(&bad), SIGNER_PROTOCOL);
    bad.detail = (char *)"line\nbreak";
    assert_fault(answer_of(&bad), SIGNER_PROTOCOL);
    bad = good;
    bad.algorithm = KEY_ALGORITHM_COUNT;
    assert_fault(answer_of(&bad), SIGNER_PROTOCOL);
    bad = good;
    bad.fault = FAULT_KEY_NOT_FOUND;
    assert_fault(answer_of(&bad), NONE);
    bad.result = (ProtobufCBinaryData){ .len = 1, .data = digest };
    assert_fault(answer_of(&bad), SIGNER_PROTOCOL);
    Svc__Signer__HealthInfo health = SVC__SIGNER__HEALTH_INFO__INIT;
    bad.result.len = 0;
    bad.health = &health;
    assert_fault(answer_of(&bad), SIGNER_PROTOCOL);
}

/* An answer about health with one token and one counter, to be spoiled one member at a time. */
struct healthy {
    Svc__Signer__Response response;
    Svc__Signer__HealthInfo health;
    Svc__Signer__TokenInfo token, *tokens[HEALTH_TOKENS_MAX + 1];
    Svc__Signer__OpCount count, *counts[HEALTH_COUNTS_MAX + 1];
    uint64_t refusals[HEALTH_CLASSES + 1];
};

static void be_healthy(struct healthy *h)
{
    memset(h, 0, sizeof(*h));
    h->response = (Svc__Signer__Response)SVC__SIGNER__RESPONSE__INIT;
    h->health = (Svc__Signer__HealthInfo)SVC__SIGNER__HEALTH_INFO__INIT;
    h->token = (Svc__Signer__TokenInfo)SVC__SIGNER__TOKEN_INFO__INIT;
    h->count = (Svc__Signer__OpCount)SVC__SIGNER__OP_COUNT__INIT;
    h->response.id = 1;
    h->response.health = &h->health;
    for (size_t i = 0; i < COUNT_OF(h->tokens); i++) {
        h->tokens[i] = &h->token;
    }
    for (size_t i = 0; i < COUNT_OF(h->counts); i++) {
        h->counts[i] = &h->count;
    }
    h->health.n_tokens = h->health.n_counts = 1;
    h->health.tokens = h->tokens;
    h->health.counts = h->counts;
    h->health.refusals = h->refusals;
    h->health.n_refusals = HEALTH_CLASSES;
}

static void health_outside_the_tables_is_refused(void **state)
{
    (void)state;
    struct healthy h;
    be_healthy(&h);
    assert_fault(answer_of(&h.response), NONE);
    uint32_t *const numbers[] = { &h.health.state, &h.token.state, &h.count.op, &h.count.purpose, &h.count.outcome };
    static const uint32_t beyond[] = { SIGNER_DOWN + 1, SIGNER_DOWN + 1, WIRE_OP_COUNT, KEY_PURPOSE_COUNT,
                                       OP_OUTCOME_COUNT };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        be_healthy(&h);
        *numbers[i] = beyond[i] - 1;
        assert_fault(answer_of(&h.response), NONE);
        *numbers[i] = beyond[i];
        assert_fault(answer_of(&h.response), SIGNER_PROTOCOL);
        *numbers[i] = UINT32_MAX;
        assert_fault(answer_of(&h.response), SIGNER_PROTOCOL);
    }
    char **const texts[] = { &h.health.token_label, &h.health.token_model, &h.health.token_serial,
                             &h.health.cause,       &h.token.name,         &h.token.label,
                             &h.token.model,        &h.token.serial,       &h.token.cause };
    static const size_t sizes[] = { 33, 17, 17, 160, TOKEN_NAME_SIZE, 33, 17, 17, 160 };
    char text[200];
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        be_healthy(&h);
        memset(text, 'x', sizeof(text));
        text[sizes[i] - 1] = 0;
        *texts[i] = text;
        assert_fault(answer_of(&h.response), NONE);
        text[0] = '\t';
        assert_fault(answer_of(&h.response), SIGNER_PROTOCOL);
        text[0] = text[sizes[i] - 1] = 'x';
        text[sizes[i]] = 0;
        assert_fault(answer_of(&h.response), SIGNER_PROTOCOL);
    }
}

static void lists_of_health_beyond_their_bounds_are_refused(void **state)
{
    (void)state;
    struct healthy h;
    size_t *const lengths[] = { &h.health.n_tokens, &h.health.n_counts };
    static const size_t most[] = { HEALTH_TOKENS_MAX, HEALTH_COUNTS_MAX };
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        be_healthy(&h);
        *lengths[i] = most[i];
        assert_fault(answer_of(&h.response), NONE);
        *lengths[i] = most[i] + 1;
        assert_fault(answer_of(&h.response), SIGNER_PROTOCOL);
    }
    for (size_t len = 0; len <= HEALTH_CLASSES + 1; len++) {
        be_healthy(&h);
        h.health.n_refusals = len;
        struct fault fault = answer_of(&h.response);
        assert_int_equal(fault.code, len == HEALTH_CLASSES ? FAULT_NONE : FAULT_SIGNER_PROTOCOL);
    }
    ProtobufCMessageUnknownField field = {
        .tag = 99, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 1, .data = (uint8_t *)"\x01"
    };
    ProtobufCMessage *const bases[] = { &h.response.base, &h.health.base, &h.token.base, &h.count.base };
    for (size_t i = 0; i < COUNT_OF(bases); i++) {
        be_healthy(&h);
        bases[i]->n_unknown_fields = 1;
        bases[i]->unknown_fields = &field;
        assert_fault(answer_of(&h.response), SIGNER_PROTOCOL);
    }
}

static void an_unknown_fault_number_is_a_protocol_fault(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    uint8_t bytes[64];
    struct wire_response answer;
    Svc__Signer__Response response = SVC__SIGNER__RESPONSE__INIT;
    response.id = 1;
    response.fault = 60000;
    size_t len = svc__signer__response__pack(&response, bytes);
    assert_fault(response_unpack(arena, span_of(bytes, len), &answer), NONE);
    assert_fault(answer.fault, SIGNER_PROTOCOL);
}

static const struct signer_health some_health = {
    .state = SIGNER_DEGRADED,
    .token_label = "T\xc3\xb6ken",
    .token_model = "SoftHSM v2",
    .token_serial = "0123456789abcdef",
    .cause = "gone\nforever",
    .operations = 1ull << 60,
    .recoveries = 3,
    .journal_bytes = 1ull << 40,
    .sessions = 2,
    .queue = 17,
    .fips_active = true,
    .self_test_passed = true,
    .journal_usable = true,
    .token_count = 2,
    .tokens = { { .name = { "" }, .label = "T\xc3\xb6ken", .model = "SoftHSM v2", .sessions = 2 },
                { .name = { "hsm-2" },
                  .state = SIGNER_DOWN,
                  .label = "second",
                  .model = "m",
                  .serial = "s",
                  .cause = "not\tthere",
                  .recoveries = UINT64_MAX,
                  .sessions = 9,
                  .in_use = 8,
                  .set_aside = 7 } },
    .count_count = 2,
    .counts = { { .op = WIRE_SIGN, .purpose = KEY_PURPOSE_TSA, .outcome = OP_OUTCOME_OK, .count = 1ull << 50 },
                { .op = WIRE_UNSEAL, .purpose = KEY_PURPOSE_SEAL, .outcome = OP_OUTCOME_LATE, .count = 1 } },
    .refusals = { 0, 1, 0, 3, 0, 0, 1ull << 63 },
};

static void answers_survive_the_way_and_texts_are_made_printable(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_MAX);
    struct wire_response response = {
        .id = 9, .result = span_text("bytes"), .algorithm = KEY_ALGORITHM_ML_DSA_65, .health = &some_health
    };
    struct wire_response back;
    assert_fault(response_pack(&response, &frame), NONE);
    assert_fault(response_unpack(arena, message_of(&frame), &back), NONE);
    assert_int_equal(back.id, 9);
    assert_fault(back.fault, NONE);
    assert_span_text(back.result, "bytes");
    assert_int_equal(back.algorithm, KEY_ALGORITHM_ML_DSA_65);
    const struct signer_health *health = back.health;
    assert_non_null(health);
    assert_string_equal(health->token_label, "T??ken");
    assert_string_equal(health->token_model, "SoftHSM v2");
    assert_string_equal(health->token_serial, "0123456789abcdef");
    assert_string_equal(health->cause, "gone?forever");
    assert_true(health->operations == 1ull << 60 && health->journal_bytes == 1ull << 40);
    assert_int_equal(health->state, SIGNER_DEGRADED);
    assert_int_equal(health->recoveries, 3);
    assert_int_equal(health->sessions, 2);
    assert_int_equal(health->queue, 17);
    assert_true(health->fips_active && health->self_test_passed && health->journal_usable);
}

static void the_lists_of_health_survive_the_way(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_MAX);
    struct wire_response response = { .id = 9, .health = &some_health }, back;
    assert_fault(response_pack(&response, &frame), NONE);
    assert_fault(response_unpack(arena, message_of(&frame), &back), NONE);
    assert_non_null(back.health);
    assert_int_equal(back.health->token_count, 2);
    assert_string_equal(back.health->tokens[0].name.text, "");
    assert_string_equal(back.health->tokens[0].label, "T??ken");
    const struct token_health *second = &back.health->tokens[1];
    assert_string_equal(second->name.text, "hsm-2");
    assert_int_equal(second->state, SIGNER_DOWN);
    assert_string_equal(second->cause, "not?there");
    assert_true(second->recoveries == UINT64_MAX && second->sessions == 9);
    assert_true(second->in_use == 8 && second->set_aside == 7);
    assert_int_equal(back.health->count_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct operation_count *sent = &some_health.counts[i], *got = &back.health->counts[i];
        assert_int_equal(got->op, sent->op);
        assert_int_equal(got->purpose, sent->purpose);
        assert_int_equal(got->outcome, sent->outcome);
        assert_true(got->count == sent->count);
    }
    assert_memory_equal(back.health->refusals, some_health.refusals, sizeof(some_health.refusals));
}

static void the_largest_health_fits_and_a_larger_one_is_not_sent(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = arena_of();
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_MAX);
    struct signer_health full = some_health;
    struct wire_response response = { .id = 9, .health = &full }, back;
    full.token_count = HEALTH_TOKENS_MAX;
    full.count_count = HEALTH_COUNTS_MAX;
    memset(full.cause, 'c', sizeof(full.cause) - 1);
    for (size_t i = 0; i < HEALTH_TOKENS_MAX; i++) {
        struct token_health *token = &full.tokens[i];
        *token = some_health.tokens[1];
        memset(token->name.text, 'n', sizeof(token->name.text) - 1);
        memset(token->label, 'l', sizeof(token->label) - 1);
        memset(token->cause, 'c', sizeof(token->cause) - 1);
    }
    for (size_t i = 0; i < HEALTH_COUNTS_MAX; i++) {
        full.counts[i] = (struct operation_count){ .op = WIRE_SIGN, .count = UINT64_MAX };
    }
    memset(full.refusals, 0xff, sizeof(full.refusals));
    assert_fault(response_pack(&response, &frame), NONE);
    assert_fault(response_unpack(arena, message_of(&frame), &back), NONE);
    assert_non_null(back.health);
    assert_int_equal(back.health->token_count, HEALTH_TOKENS_MAX);
    assert_int_equal(back.health->count_count, HEALTH_COUNTS_MAX);
    assert_true(back.health->counts[HEALTH_COUNTS_MAX - 1].count == UINT64_MAX);
    buf_clear(&frame);
    full.token_count++;
    assert_fault(response_pack(&response, &frame), TOO_LARGE);
    full.token_count--;
    full.count_count++;
    assert_fault(response_pack(&response, &frame), TOO_LARGE);
    assert_int_equal(frame.len, 0);
}

static void every_outcome_and_class_has_its_text_and_no_other(void **state)
{
    (void)state;
    for (int i = 0; i < OP_OUTCOME_COUNT; i++) {
        assert_true(op_outcome_text((enum op_outcome)i)[0] != 0);
    }
    for (unsigned i = 0; i < HEALTH_CLASSES; i++) {
        assert_true(health_class_text(i)[0] != 0);
    }
    assert_string_equal(op_outcome_text(OP_OUTCOME_LATE), "late");
    assert_string_equal(health_class_text(6), "pin");
    assert_string_equal(op_outcome_text(OP_OUTCOME_COUNT), "");
    assert_string_equal(op_outcome_text((enum op_outcome) - 1), "");
    assert_string_equal(health_class_text(HEALTH_CLASSES), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_caller_is_told_what_is_wrong_before_anything_is_sent),
        cmocka_unit_test(several_digests_are_whole_and_no_more_than_are_signed_at_once),
        cmocka_unit_test(digests_signatures_and_data_of_wrong_size_are_refused),
        cmocka_unit_test(a_signer_refuses_what_no_client_of_ours_sends),
        cmocka_unit_test(unknown_fields_are_refused_at_every_depth),
        cmocka_unit_test(only_the_one_encoding_of_a_message_is_accepted),
        cmocka_unit_test(no_cut_of_a_message_unpacks),
        cmocka_unit_test(a_message_made_to_be_expensive_is_refused_within_its_arena),
        cmocka_unit_test(a_client_refuses_answers_that_no_signer_of_ours_gives),
        cmocka_unit_test(health_outside_the_tables_is_refused),
        cmocka_unit_test(lists_of_health_beyond_their_bounds_are_refused),
        cmocka_unit_test(an_unknown_fault_number_is_a_protocol_fault),
        cmocka_unit_test(every_operation_survives_the_way),
        cmocka_unit_test(a_keys_token_travels_and_no_name_means_the_first),
        cmocka_unit_test(the_longest_signature_and_public_key_travel),
        cmocka_unit_test(the_largest_data_fits_there_and_back),
        cmocka_unit_test(answers_survive_the_way_and_texts_are_made_printable),
        cmocka_unit_test(the_lists_of_health_survive_the_way),
        cmocka_unit_test(the_largest_health_fits_and_a_larger_one_is_not_sent),
        cmocka_unit_test(every_outcome_and_class_has_its_text_and_no_other),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
