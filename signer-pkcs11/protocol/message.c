#include "signer-pkcs11/protocol/message.h"

/* Which members of struct wire_request an operation has. */
enum {
    HAS_KEY = 1,
    HAS_ALGORITHM = 2,
    HAS_DIGEST = 4, /* scheme, hash, digest */
    HAS_OP_ID = 8,
    HAS_SIGNATURE = 16,
    HAS_DATA = 32,    /* aad, data */
    HAS_DIGESTS = 64, /* scheme, hash, digest as often as it fits */
};

static const struct {
    const char *text;
    unsigned has;
} shapes[WIRE_OP_COUNT] = {
    [WIRE_OP_NONE] = { "", 0 },
    [WIRE_HEALTH] = { "health", 0 },
    [WIRE_GENERATE_KEY] = { "generate_key", HAS_KEY | HAS_ALGORITHM },
    [WIRE_PUBLIC_KEY] = { "public_key", HAS_KEY },
    [WIRE_SIGN] = { "sign", HAS_KEY | HAS_DIGEST | HAS_OP_ID },
    [WIRE_VERIFY] = { "verify", HAS_KEY | HAS_DIGEST | HAS_SIGNATURE },
    [WIRE_DESTROY] = { "destroy", HAS_KEY },
    [WIRE_SEAL] = { "seal", HAS_KEY | HAS_DATA },
    [WIRE_UNSEAL] = { "unseal", HAS_KEY | HAS_DATA },
    [WIRE_SIGN_MANY] = { "sign_many", HAS_KEY | HAS_DIGESTS },
};

const char *wire_op_text(enum wire_op op)
{
    return (size_t)op < COUNT_OF(shapes) ? shapes[op].text : "";
}

const char *op_outcome_text(enum op_outcome outcome)
{
    static const char *const texts[OP_OUTCOME_COUNT] = { "ok", "refused", "unavailable", "late" };
    return (size_t)outcome < COUNT_OF(texts) ? texts[outcome] : "";
}

const char *health_class_text(unsigned index)
{
    static const char *const texts[HEALTH_CLASSES] = {
        "call", "handle", "session", "login", "device", "module", "pin"
    };
    return index < COUNT_OF(texts) ? texts[index] : "";
}

/* Only the self-test's keys belong to nobody. */
static struct fault check_key(struct op *op, const struct key_ref *key)
{
    if (key->purpose <= KEY_PURPOSE_NONE || key->purpose >= KEY_PURPOSE_COUNT) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the key's purpose is not known: use one of purpose.def");
    }
    struct tenant_id tenant = { 0 };
    bool ownerless = key->purpose == KEY_PURPOSE_POST;
    if (ownerless ? key->tenant.text[0] != 0 : FAULTED(tenant_id_parse(span_text(key->tenant.text), &tenant))) {
        return op_fail(op, FAULT(BAD_ARGUMENT),
                       ownerless ? "a key of purpose post has no tenant" : "the key's tenant is not a tenant id");
    }
    struct uuid id = { 0 };
    if (FAULTED(uuid_parse(span_text(key->id.text), &id))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the key's id is not a UUID in lower case");
    }
    struct token_name name;
    if (key->token.text[0] != 0 && FAULTED(token_name_parse(span_text(key->token.text), &name))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "a token's name has 1 to 24 characters of a-z 0-9 -");
    }
    return OK;
}

static struct fault check_scheme(struct op *op, const struct wire_request *request)
{
    if (request->scheme <= SIGN_SCHEME_NONE || request->scheme >= SIGN_SCHEME_COUNT) {
        return op_fail(op, FAULT(BAD_ARGUMENT),
                       "the signature scheme is not known: use ecdsa, rsa-pkcs1, rsa-pss or ml-dsa");
    }
    if (request->hash <= HASH_NONE || request->hash >= HASH_COUNT) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the hash algorithm is not known: use sha256, sha384 or sha512");
    }
    return OK;
}

static struct fault check_digest(struct op *op, const struct wire_request *request)
{
    TRY(check_scheme(op, request));
    if (request->digest.len != hash_size(request->hash)) {
        return op_fail(op, FAULT(DIGEST_LENGTH), "a %s digest has %zu bytes, this one has %zu",
                       hash_algorithm_text(request->hash), hash_size(request->hash), request->digest.len);
    }
    return OK;
}

static struct fault check_digests(struct op *op, const struct wire_request *request)
{
    TRY(check_scheme(op, request));
    if (request->scheme == SIGN_SCHEME_ML_DSA) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "ml-dsa signs one digest at a time");
    }
    size_t size = hash_size(request->hash);
    if (request->digest.len == 0 || request->digest.len % size != 0 || request->digest.len / size > WIRE_DIGESTS_MAX) {
        return op_fail(op, FAULT(DIGEST_LENGTH),
                       "1 to %d %s digests of %zu bytes each are signed at once, not %zu bytes", WIRE_DIGESTS_MAX,
                       hash_algorithm_text(request->hash), size, request->digest.len);
    }
    return OK;
}

static struct fault check_op_id(struct op *op, const struct uuid *op_id)
{
    struct uuid id = { 0 };
    if (op_id->text[0] != 0 && FAULTED(uuid_parse(span_text(op_id->text), &id))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the operation id is not a UUID in lower case");
    }
    return OK;
}

static struct fault check_data(struct op *op, const struct wire_request *request)
{
    if (request->aad.len > WIRE_DATA_MAX || request->data.len > WIRE_DATA_MAX - request->aad.len) {
        return op_fail(op, FAULT(TOO_LARGE),
                       "context and data together may have %zu bytes: seal a key instead of the data", WIRE_DATA_MAX);
    }
    return OK;
}

struct fault request_check(struct op *op, const struct wire_request *request)
{
    if (request->op <= WIRE_OP_NONE || request->op >= WIRE_OP_COUNT) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the signer's operation is not known");
    }
    unsigned has = shapes[request->op].has;
    if (has & HAS_KEY) {
        TRY(check_key(op, &request->key));
    }
    if ((has & HAS_ALGORITHM) &&
        (request->algorithm <= KEY_ALGORITHM_NONE || request->algorithm >= KEY_ALGORITHM_COUNT)) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the key's algorithm is not known: use one of key.h");
    }
    if (has & HAS_DIGEST) {
        TRY(check_digest(op, request));
    }
    if (has & HAS_DIGESTS) {
        TRY(check_digests(op, request));
    }
    if (has & HAS_OP_ID) {
        TRY(check_op_id(op, &request->op_id));
    }
    if ((has & HAS_SIGNATURE) && (request->signature.len == 0 || request->signature.len > SIGNATURE_MAX)) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "a signature has 1 to %d bytes, this one has %zu", SIGNATURE_MAX,
                       request->signature.len);
    }
    if ((has & HAS_SIGNATURE) && request->spki.len > SPKI_MAX) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "a public key has at most %d bytes, this one has %zu", SPKI_MAX,
                       request->spki.len);
    }
    return (has & HAS_DATA) ? check_data(op, request) : OK;
}
