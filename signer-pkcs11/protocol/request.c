#include "signer-pkcs11/protocol/message.h"
#include "signer-pkcs11/protocol/pb.h"

/* ---- pack ---- */

/* All of a request in its protobuf form: the members of the operation are set by its case below. */
struct outgoing {
    Svc__Signer__Request request;
    Svc__Signer__KeyRef key;
    union {
        Svc__Signer__Health health;
        Svc__Signer__GenerateKey generate_key;
        Svc__Signer__PublicKey public_key;
        Svc__Signer__Sign sign;
        Svc__Signer__Verify verify;
        Svc__Signer__Destroy destroy;
        Svc__Signer__Seal seal;
        Svc__Signer__Unseal unseal;
        Svc__Signer__SignMany sign_many;
    };
};

static void pack_sign(const struct wire_request *request, struct outgoing *out)
{
    out->sign = (Svc__Signer__Sign)SVC__SIGNER__SIGN__INIT;
    out->sign.key = &out->key;
    out->sign.scheme = request->scheme;
    out->sign.hash = request->hash;
    out->sign.digest = pb_data(request->digest);
    out->sign.op_id = pb_text(request->op_id.text);
    out->request.sign = &out->sign;
}

static void pack_verify(const struct wire_request *request, struct outgoing *out)
{
    out->verify = (Svc__Signer__Verify)SVC__SIGNER__VERIFY__INIT;
    out->verify.key = &out->key;
    out->verify.scheme = request->scheme;
    out->verify.hash = request->hash;
    out->verify.digest = pb_data(request->digest);
    out->verify.signature = pb_data(request->signature);
    out->verify.spki = pb_data(request->spki);
    out->request.verify = &out->verify;
}

static void pack_sign_many(const struct wire_request *request, struct outgoing *out)
{
    out->sign_many = (Svc__Signer__SignMany)SVC__SIGNER__SIGN_MANY__INIT;
    out->sign_many.key = &out->key;
    out->sign_many.scheme = request->scheme;
    out->sign_many.hash = request->hash;
    out->sign_many.digests = pb_data(request->digest);
    out->request.sign_many = &out->sign_many;
}

static void pack_op(const struct wire_request *request, struct outgoing *out)
{
    switch (request->op) {
    case WIRE_HEALTH:
        out->health = (Svc__Signer__Health)SVC__SIGNER__HEALTH__INIT;
        out->request.health = &out->health;
        break;
    case WIRE_GENERATE_KEY:
        out->generate_key = (Svc__Signer__GenerateKey)SVC__SIGNER__GENERATE_KEY__INIT;
        out->generate_key.key = &out->key;
        out->generate_key.algorithm = request->algorithm;
        out->request.generate_key = &out->generate_key;
        break;
    case WIRE_PUBLIC_KEY:
        out->public_key = (Svc__Signer__PublicKey)SVC__SIGNER__PUBLIC_KEY__INIT;
        out->public_key.key = &out->key;
        out->request.public_key = &out->public_key;
        break;
    case WIRE_SIGN:
        pack_sign(request, out);
        break;
    case WIRE_VERIFY:
        pack_verify(request, out);
        break;
    case WIRE_DESTROY:
        out->destroy = (Svc__Signer__Destroy)SVC__SIGNER__DESTROY__INIT;
        out->destroy.key = &out->key;
        out->request.destroy = &out->destroy;
        break;
    case WIRE_SEAL:
        out->seal = (Svc__Signer__Seal)SVC__SIGNER__SEAL__INIT;
        out->seal.key = &out->key;
        out->seal.aad = pb_data(request->aad);
        out->seal.plain = pb_data(request->data);
        out->request.seal = &out->seal;
        break;
    case WIRE_UNSEAL:
        out->unseal = (Svc__Signer__Unseal)SVC__SIGNER__UNSEAL__INIT;
        out->unseal.key = &out->key;
        out->unseal.aad = pb_data(request->aad);
        out->unseal.sealed = pb_data(request->data);
        out->request.unseal = &out->unseal;
        break;
    case WIRE_SIGN_MANY:
        pack_sign_many(request, out);
        break;
    case WIRE_OP_NONE:
    case WIRE_OP_COUNT:
        break;
    }
}

struct fault request_pack(struct op *op, const struct wire_request *request, struct buf *frame)
{
    TRY(request_check(op, request));
    struct outgoing out = { .request = SVC__SIGNER__REQUEST__INIT, .key = SVC__SIGNER__KEY_REF__INIT };
    out.request.id = request->id;
    out.request.deadline_ms = request->deadline_ms;
    out.request.op_case = (Svc__Signer__Request__OpCase)((unsigned)SVC__SIGNER__REQUEST__OP_HEALTH +
                                                         (unsigned)request->op - (unsigned)WIRE_HEALTH);
    out.key.tenant = pb_text(request->key.tenant.text);
    out.key.purpose = request->key.purpose;
    out.key.id = pb_text(request->key.id.text);
    out.key.token = pb_text(request->key.token.text);
    pack_op(request, &out);
    return pb_frame(&out.request.base, frame);
}

/* ---- unpack ---- */

static bool plain(const ProtobufCMessage *message)
{
    return message->n_unknown_fields == 0;
}

/* The texts are as long as they seem: pb_unpack has refused a NUL inside. */
static struct fault unpack_key(const Svc__Signer__KeyRef *key, struct wire_request *request)
{
    REQUIRE(key != NULL && plain(&key->base), SIGNER_PROTOCOL);
    request->key.purpose = (enum key_purpose)key->purpose;
    struct span tenant = span_text(key->tenant);
    REQUIRE(tenant.len == 0 || !FAULTED(tenant_id_parse(tenant, &request->key.tenant)), SIGNER_PROTOCOL);
    REQUIRE(!FAULTED(uuid_parse(span_text(key->id), &request->key.id)), SIGNER_PROTOCOL);
    struct span token = span_text(key->token);
    REQUIRE(token.len == 0 || !FAULTED(token_name_parse(token, &request->key.token)), SIGNER_PROTOCOL);
    return OK;
}

static struct fault unpack_sign(const Svc__Signer__Sign *sign, struct wire_request *request)
{
    REQUIRE(plain(&sign->base), SIGNER_PROTOCOL);
    request->scheme = (enum sign_scheme)sign->scheme;
    request->hash = (enum hash_algorithm)sign->hash;
    request->digest = pb_span(sign->digest);
    struct span op_id = span_text(sign->op_id);
    REQUIRE(op_id.len == 0 || !FAULTED(uuid_parse(op_id, &request->op_id)), SIGNER_PROTOCOL);
    return unpack_key(sign->key, request);
}

static struct fault unpack_sign_many(const Svc__Signer__SignMany *sign, struct wire_request *request)
{
    REQUIRE(plain(&sign->base), SIGNER_PROTOCOL);
    request->scheme = (enum sign_scheme)sign->scheme;
    request->hash = (enum hash_algorithm)sign->hash;
    request->digest = pb_span(sign->digests);
    return unpack_key(sign->key, request);
}

static struct fault unpack_verify(const Svc__Signer__Verify *verify, struct wire_request *request)
{
    REQUIRE(plain(&verify->base), SIGNER_PROTOCOL);
    request->scheme = (enum sign_scheme)verify->scheme;
    request->hash = (enum hash_algorithm)verify->hash;
    request->digest = pb_span(verify->digest);
    request->signature = pb_span(verify->signature);
    request->spki = pb_span(verify->spki);
    return unpack_key(verify->key, request);
}

static struct fault unpack_op(const Svc__Signer__Request *in, struct wire_request *request)
{
    switch (in->op_case) {
    case SVC__SIGNER__REQUEST__OP_HEALTH:
        REQUIRE(plain(&in->health->base), SIGNER_PROTOCOL);
        return OK;
    case SVC__SIGNER__REQUEST__OP_GENERATE_KEY:
        REQUIRE(plain(&in->generate_key->base), SIGNER_PROTOCOL);
        request->algorithm = (enum key_algorithm)in->generate_key->algorithm;
        return unpack_key(in->generate_key->key, request);
    case SVC__SIGNER__REQUEST__OP_PUBLIC_KEY:
        REQUIRE(plain(&in->public_key->base), SIGNER_PROTOCOL);
        return unpack_key(in->public_key->key, request);
    case SVC__SIGNER__REQUEST__OP_SIGN:
        return unpack_sign(in->sign, request);
    case SVC__SIGNER__REQUEST__OP_VERIFY:
        return unpack_verify(in->verify, request);
    case SVC__SIGNER__REQUEST__OP_DESTROY:
        REQUIRE(plain(&in->destroy->base), SIGNER_PROTOCOL);
        return unpack_key(in->destroy->key, request);
    case SVC__SIGNER__REQUEST__OP_SEAL:
        REQUIRE(plain(&in->seal->base), SIGNER_PROTOCOL);
        request->aad = pb_span(in->seal->aad);
        request->data = pb_span(in->seal->plain);
        return unpack_key(in->seal->key, request);
    case SVC__SIGNER__REQUEST__OP_UNSEAL:
        REQUIRE(plain(&in->unseal->base), SIGNER_PROTOCOL);
        request->aad = pb_span(in->unseal->aad);
        request->data = pb_span(in->unseal->sealed);
        return unpack_key(in->unseal->key, request);
    case SVC__SIGNER__REQUEST__OP_SIGN_MANY:
        return unpack_sign_many(in->sign_many, request);
    case SVC__SIGNER__REQUEST__OP__NOT_SET:
    case _SVC__SIGNER__REQUEST__OP__CASE_IS_INT_SIZE:
        break;
    }
    return FAULT(SIGNER_PROTOCOL);
}

struct fault request_unpack(struct arena *arena, struct span message, struct wire_request *ret_request)
{
    const ProtobufCMessage *made = NULL;
    TRY(pb_unpack(arena, &svc__signer__request__descriptor, message, &made));
    const Svc__Signer__Request *in = (const void *)made;
    REQUIRE(plain(made) && in->id != 0, SIGNER_PROTOCOL);
    struct wire_request request = { .id = in->id, .deadline_ms = in->deadline_ms };
    TRY(unpack_op(in, &request));
    request.op =
        (enum wire_op)((unsigned)WIRE_HEALTH + (unsigned)in->op_case - (unsigned)SVC__SIGNER__REQUEST__OP_HEALTH);
    REQUIRE(!FAULTED(request_check(NULL, &request)), SIGNER_PROTOCOL);
    *ret_request = request;
    return OK;
}
