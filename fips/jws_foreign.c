#include "fips/jws_internal.h"

#include "appliance/base/codec.h"

#define HEADER_MAX     2048
#define HEADER_MEMBERS 32
#define ALG_MAX        16
#define TEXT_MAX       256
#define SIGNATURE_MAX  512 /* RSA of 4096 bits */

static struct fault decode_part(struct op *op, const char *what, struct span text, size_t max, struct span *ret_bytes)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(max);
    struct fault fault = base64url_decode(text, &bytes);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return op_fail(op, FAULT(JWS_FORMAT), "the %s is not base64url without padding, or larger than %zu bytes", what,
                       max);
    }
    return arena_copy(op->arena, buf_span(&bytes), ret_bytes);
}

/* A text member of the header; *ret_text stays NULL when there is none. */
static struct fault take_text(struct op *op, const struct jin_member *member, size_t max, const char **ret_text)
{
    if (member->type != JIN_TYPE_TEXT || member->value.len == 0 || member->value.len > max ||
        FAULTED(arena_text(op->arena, member->value, ret_text))) {
        return op_fail(op, FAULT(JWS_FORMAT), "the header's %s must be a text of 1 to %zu bytes", member->name, max);
    }
    return OK;
}

static struct fault take_member(struct op *op, const struct jin_member *member, struct jws_opened *opened)
{
    static const char *const refused[] = { "crit", "b64", "jwk", "jku", "x5c", "x5u", "enc", "zip" };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        if (strcmp(member->name, refused[i]) == 0) {
            return op_fail(op, FAULT(JWS_FORMAT), "the header has \"%s\", which is not accepted", refused[i]);
        }
    }
    if (strcmp(member->name, "alg") == 0) {
        return take_text(op, member, ALG_MAX, &opened->alg);
    }
    if (strcmp(member->name, "kid") == 0) {
        return take_text(op, member, TEXT_MAX, &opened->kid);
    }
    return strcmp(member->name, "typ") == 0 ? take_text(op, member, TEXT_MAX, &opened->typ) : OK;
}

static struct fault open_header(struct op *op, struct span json, struct jws_opened *opened)
{
    struct jin_member *members = NULL;
    size_t count = 0;
    struct fault fault = jin_members(op, json, HEADER_MEMBERS, &members, &count);
    REQUIRE(fault.code != FAULT_JSON_SYNTAX && fault.code != FAULT_JSON_FIELD, JWS_FORMAT);
    TRY(fault);
    for (size_t i = 0; i < count; i++) {
        TRY(take_member(op, &members[i], opened));
    }
    return opened->alg != NULL ? OK : op_fail(op, FAULT(JWS_FORMAT), "the header names no alg");
}

struct fault jws_open(struct op *op, struct span compact, struct jws_opened *ret_opened)
{
    struct jws_parts parts = { 0 };
    struct jws_opened opened = { 0 };
    struct span header = { 0 };
    TRY(jws_split(op, compact, &parts));
    TRY(decode_part(op, "header", parts.header, HEADER_MAX, &header));
    TRY(open_header(op, header, &opened));
    TRY(decode_part(op, "payload", parts.payload, parts.payload.len, &opened.payload));
    TRY(decode_part(op, "signature", parts.signature, SIGNATURE_MAX, &opened.signature));
    opened.signing_input = parts.signing_input;
    *ret_opened = opened;
    return OK;
}

bool jws_alg_known(const char *alg)
{
    return jws_algorithm_find_foreign(alg) != NULL;
}

bool jwk_takes(const struct jwk *key, const char *alg)
{
    const struct jws_algorithm *algorithm = jws_algorithm_find_foreign(alg);
    return algorithm != NULL && (key->alg == NULL || strcmp(key->alg, alg) == 0) &&
           jws_algorithm_fits(algorithm, key->key);
}

struct fault jws_opened_verify(struct op *op, const struct jws_opened *opened, const struct jwk *key)
{
    if (!jwk_takes(key, opened->alg)) {
        return op_fail(op, FAULT(JWS_KEY), "the header's alg does not go with the key that it names");
    }
    return jws_check(op, jws_algorithm_find_foreign(opened->alg), key, opened->signing_input, opened->signature);
}
