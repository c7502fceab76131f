/*
 * What travels in the frames, as plain structs: signer.proto without protobuf. One table of shapes says which members a
 * request of each operation has; packing and unpacking both go by it, and both refuse whatever is outside it, so that a
 * caller's mistake is told at the caller and never costs a connection.
 *
 * Unpacking is strict: unknown fields, unknown enumeration values, wrong sizes, a missing or doubled member, a text
 * with a NUL inside, and any encoding that packing would not make, are SIGNER_PROTOCOL.
 */
#ifndef SIGNER_PROTOCOL_MESSAGE_H
#define SIGNER_PROTOCOL_MESSAGE_H

#include "appliance/base/arena.h"
#include "appliance/base/op.h"
#include "signer-pkcs11/protocol/frame.h"
#include "signer-pkcs11/protocol/health.h"

#define WIRE_DATA_MAX    ((size_t)60 * 1024) /* aad and plain (or sealed) together: what is sealed must travel back */
#define WIRE_RESULT_MAX  ((size_t)62 * 1024)
#define WIRE_DIGESTS_MAX 64            /* of sign_many */
#define WIRE_DETAIL_MAX  ((size_t)256) /* with its NUL */
/* More than the largest message that unpacks needs, and too little for one that is made to be expensive. */
#define WIRE_ARENA_MAX   ((size_t)256 * 1024)

struct wire_request {
    uint64_t id; /* not 0 */
    uint32_t deadline_ms;
    enum wire_op op;
    struct key_ref key;           /* all but health */
    enum key_algorithm algorithm; /* generate_key */
    enum sign_scheme scheme;      /* sign, verify */
    enum hash_algorithm hash;
    struct span digest;    /* sign_many: one or several, one behind the other */
    struct uuid op_id;     /* sign; "" = not journalled */
    struct span signature; /* verify */
    struct span spki;      /* verify: PKIX DER of the key to verify under; empty = the token's own */
    struct span aad;       /* seal, unseal */
    struct span data;      /* plain or sealed */
};

struct wire_response {
    uint64_t id;
    struct fault fault;
    char detail[WIRE_DETAIL_MAX];
    struct span result;
    enum key_algorithm algorithm;       /* NONE unless generate_key or public_key */
    const struct signer_health *health; /* NULL unless health; borrowed, from the arena when unpacked */
};

/* Every member there, known, and of its size. BAD_ARGUMENT, DIGEST_LENGTH, TOO_LARGE, with op's note (op may be NULL).
 */
struct fault request_check(struct op *op, const struct wire_request *request);
/* Appends one frame. What request_check says; TOO_LARGE. */
struct fault request_pack(struct op *op, const struct wire_request *request, struct buf *frame);
/* Spans are borrowed from `arena`. SIGNER_PROTOCOL, NO_MEMORY. */
struct fault request_unpack(struct arena *arena, struct span message, struct wire_request *ret_request);

/* Appends one frame; a text that is too long is cut. TOO_LARGE: the result is. */
struct fault response_pack(const struct wire_response *response, struct buf *frame);
struct fault response_unpack(struct arena *arena, struct span message, struct wire_response *ret_response);

#endif
