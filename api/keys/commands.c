#include "api/keys/internal.h"

#include "api/keys/seal.h"
#include "appliance/base/codec.h"

/* The token's key under this id: made now, or found because an earlier run of the same command made it. */
struct fault key_make_in_token(struct op *op, struct services *services, struct managed_key *key)
{
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    struct fault fault = signer_generate(op, services->signer, &key->ref, key->algorithm, &spki);
    if (fault.code == FAULT_KEY_EXISTS) {
        op->note = (struct fault_note){ 0 };
        enum key_algorithm found = KEY_ALGORITHM_NONE;
        TRY(signer_public_key(op, services->signer, &key->ref, &found, &spki));
        REQUIRE(found == key->algorithm, CONFLICT);
    } else {
        TRY(fault);
    }
    return arena_copy(op->arena, buf_span(&spki), &key->spki);
}

static struct fault check_name(struct op *op, const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (name[0] == 0 || strspn(name, allowed) != strlen(name)) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/name", "/name: letters, digits, '.', '_' and '-' only");
    }
    return OK;
}

static struct fault refuse_taken_name(struct op *op, struct services *services, const struct key_create *request)
{
    bool taken = false;
    TRY(key_name_taken(op, services, key_purpose_text(request->purpose), request->name,
                       request->prepare ? KEY_PREPARED : KEY_ACTIVE, &taken));
    if (taken && request->prepare) {
        return op_fail_field(op, FAULT(DUPLICATE), "/name",
                             "a prepared key has this name: activate it, or destroy it first");
    }
    if (taken) {
        return op_fail_field(op, FAULT(DUPLICATE), "/name",
                             "an active key has this name: choose another name, prepare its successor "
                             "(\"prepare\": true), or retire that key first");
    }
    return OK;
}

/* The signer says which tokens it has; a name that is not one of them is refused with the list. */
static struct fault check_token(struct op *op, struct services *services, const char *name)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT(1024);
    struct signer_health *health = NULL;
    const char *text = NULL;
    TRY(arena_take(op->arena, 1, sizeof(*health), &health));
    TRY(signer_health(op, services->signer, health));
    for (size_t i = 0; i < health->token_count; i++) {
        const char *known = health->tokens[i].name.text;
        if (known[0] != '\0' && strcmp(known, name) == 0) {
            return OK;
        }
        TRY(buf_printf(&list, "%s%s", list.len > 0 ? ", " : "", known));
    }
    TRY(buf_cstr(&list, &text));
    return op_fail_field(op, FAULT(JSON_FIELD), "/token", "/token: no such token; the signer has: %s",
                         text[0] != '\0' ? text : "one without a name (leave token out)");
}

static struct fault place_of(struct op *op, struct services *services, const struct key_create *request,
                             struct token_name *ret_token)
{
    if (request->token == NULL || request->token[0] == '\0') {
        *ret_token = (struct token_name){ "" };
        return OK;
    }
    if (FAULTED(token_name_parse(span_text(request->token), ret_token))) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/token", "/token: 1 to 24 of a-z, 0-9 and '-'");
    }
    return check_token(op, services, request->token);
}

static struct fault check_end(struct op *op, utc_us not_after)
{
    if (not_after != 0 && not_after <= clock_utc()) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/not_after", "/not_after: lies in the past");
    }
    return OK;
}

static struct fault create_once(struct op *op, struct services *services, const struct key_create *request,
                                struct managed_key *key)
{
    uint64_t lane = 0;
    TRY(key_lane_last(op, services, &lane));
    TRY(refuse_taken_name(op, services, request));
    if (key->spki.len == 0) {
        TRY(key_make_in_token(op, services, key));
    }
    return key_append_generated(op, services, key, lane);
}

/* A claim that was released after a 503 is free again, and with it the way for another body under the same key. */
static struct fault same_command(struct op *op, const struct key_create *request, const struct managed_key *key)
{
    const char *token = request->token != NULL ? request->token : "";
    if (strcmp(key->name, request->name) == 0 && key->algorithm == request->algorithm &&
        strcmp(key->ref.token.text, token) == 0 && key->max_uses == request->max_uses &&
        key->not_after == request->not_after) {
        op_was_recorded(op);
        return OK;
    }
    return op_fail(op, FAULT(IDEMPOTENCY_KEY_REUSED), "this Idempotency-Key has made the key %s: use a new one",
                   key->ref.id.text);
}

struct fault key_create(struct op *op, struct services *services, const struct key_create *request,
                        struct managed_key *ret_key)
{
    TRY(check_name(op, request->name));
    struct managed_key key = { .ref = { .tenant = op->tenant, .purpose = request->purpose },
                               .algorithm = request->algorithm,
                               .name = request->name,
                               .state = key_state_text(request->prepare ? KEY_PREPARED : KEY_ACTIVE),
                               .max_uses = request->max_uses,
                               .not_after = request->not_after };
    const struct span parts[] = { span_text(op->command_id.text) };
    TRY(uuid_derive("key", parts, COUNT_OF(parts), &key.ref.id));
    struct fault fault = keys_get(op, services, key.ref.id, ret_key);
    if (fault.code != FAULT_KEY_NOT_FOUND) {
        return FAULTED(fault) ? fault : same_command(op, request, ret_key); /* this command has run before */
    }
    op->note = (struct fault_note){ 0 };
    TRY(check_end(op, request->not_after));
    TRY(place_of(op, services, request, &key.ref.token));
    TRY(keys_seal_prepare(op, services)); /* so that the first use of the key does not wait for it */
    for (int i = 0; i < DECIDE_AGAIN_MAX; i++) {
        fault = create_once(op, services, request, &key);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    TRY(fault);
    return keys_get(op, services, key.ref.id, ret_key);
}

/* How many keys of this purpose and name there ever were: part of the next one's id. */
static struct fault generation_of(struct op *op, struct services *services, enum key_purpose purpose, const char *name,
                                  size_t *ret_generation)
{
    struct managed_key *keys = NULL;
    size_t count = 0, generation = 0;
    TRY(keys_history(op, services, purpose, &keys, &count));
    for (size_t i = 0; i < count; i++) {
        generation += strcmp(keys[i].name, name) == 0;
    }
    *ret_generation = generation;
    return OK;
}

static struct fault ensure_once(struct op *op, struct services *services, struct managed_key *key)
{
    uint64_t lane = 0;
    size_t generation = 0;
    TRY(key_lane_last(op, services, &lane));
    TRY(generation_of(op, services, key->ref.purpose, key->name, &generation));
    const char *number = NULL;
    TRY(arena_printf(op->arena, &number, "%zu", generation));
    const struct span parts[] = { span_text(op->tenant.text), span_text(key_purpose_text(key->ref.purpose)),
                                  span_text(key_algorithm_text(key->algorithm)), span_text(key->name),
                                  span_text(number) };
    TRY(uuid_derive("key.system", parts, COUNT_OF(parts), &key->ref.id));
    TRY(key_make_in_token(op, services, key));
    return key_append_generated(op, services, key, lane);
}

struct fault keys_ensure(struct op *op, struct services *services, enum key_purpose purpose,
                         enum key_algorithm algorithm, const char *name, struct managed_key *ret_key)
{
    struct managed_key key = {
        .ref = { .tenant = op->tenant, .purpose = purpose },
        .algorithm = algorithm,
        .name = name,
        .state = key_state_text(KEY_ACTIVE),
        .system = true,
    };
    struct fault fault = OK;
    for (int i = 0; i < DECIDE_AGAIN_MAX; i++) {
        fault = keys_newest(op, services, purpose, name, ret_key);
        if (fault.code != FAULT_KEY_NOT_FOUND) {
            return fault;
        }
        fault = ensure_once(op, services, &key);
        if (FAULTED(fault) && fault.code != FAULT_LOG_CONFLICT) {
            return fault;
        }
        op->note = (struct fault_note){ 0 };
    }
    TRY(fault);
    return keys_newest(op, services, purpose, name, ret_key);
}

struct fault key_certified_data(const struct managed_key *key, const struct span *chain, size_t count,
                                const char *command_id, struct buf *data)
{
    CLEANUP(buf_free) struct buf whole = BUF_INIT(KEY_CHAIN_MAX);
    for (size_t i = 0; i < count; i++) {
        TRY(buf_put(&whole, chain[i]));
    }
    struct jout jout;
    jout_init(&jout, data);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", key->ref.id.text);
    jout_key_bool(&jout, "system", key->system);
    jout_key_base64(&jout, "certificate_chain", buf_span(&whole));
    if (command_id != NULL) {
        jout_key_text(&jout, "command_id", command_id);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault keys_set_chain(struct op *op, struct services *services, const struct managed_key *key,
                            const struct span *chain, size_t count)
{
    REQUIRE(count >= 1 && count <= KEYS_CERTIFICATES_MAX, BAD_ARGUMENT);
    struct sha256 digest;
    TRY(sha256_of_parts(chain, count, &digest));
    char seed[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(digest.at), seed, sizeof(seed));
    CLEANUP(buf_free) struct buf data = BUF_INIT((size_t)2 * KEY_CHAIN_MAX);
    TRY(key_certified_data(key, chain, count, NULL, &data));
    return key_append_one(op, services, "key.certified", seed, key->ref.id, &data);
}
