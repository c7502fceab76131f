#include "fips/jws_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"

#include <openssl/err.h>

#define SET_MAX      64
#define MEMBERS_MAX  64
#define TEXT_MAX     1024
#define KID_TEXT_MAX 256

struct text_member {
    const char *name;
    size_t offset;
};
#define TEXT_MEMBER(member) { #member, offsetof(struct jwk_members, member) }

/* *ret_well: false when a member that is known here has no acceptable text. */
static struct fault take_texts(struct op *op, const struct jin_member *members, size_t count, struct jwk_members *jwk,
                               bool *ret_well)
{
    static const struct text_member known[] = {
        TEXT_MEMBER(kty), TEXT_MEMBER(crv), TEXT_MEMBER(x),   TEXT_MEMBER(y),   TEXT_MEMBER(n),
        TEXT_MEMBER(e),   TEXT_MEMBER(alg), TEXT_MEMBER(use), TEXT_MEMBER(kid),
    };
    bool well = true;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < COUNT_OF(known); j++) {
            if (strcmp(members[i].name, known[j].name) != 0) {
                continue;
            }
            struct span value = members[i].value;
            if (members[i].type != JIN_TYPE_TEXT || value.len == 0 || value.len > TEXT_MAX ||
                memchr(value.at, 0, value.len) != NULL) {
                well = false;
                continue;
            }
            TRY(arena_text(op->arena, value, (void *)((char *)jwk + known[j].offset)));
        }
    }
    *ret_well = well;
    return OK;
}

static bool is_secret(const char *name)
{
    static const char *const names[] = { "d", "p", "q", "dp", "dq", "qi", "oth", "k" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* In canonical JSON an element that is this text, and nothing else, looks like this. */
static bool may_verify(const struct jin_member *key_ops)
{
    static const char verify[] = "\"verify\"";
    return key_ops->type == JIN_TYPE_ARRAY &&
           memmem(key_ops->value.at, key_ops->value.len, verify, sizeof(verify) - 1) != NULL;
}

/* Whether it says of itself that it is a public key for signatures. */
static bool is_for_verifying(const struct jin_member *members, size_t count, const struct jwk_members *jwk)
{
    for (size_t i = 0; i < count; i++) {
        if (is_secret(members[i].name) || (strcmp(members[i].name, "key_ops") == 0 && !may_verify(&members[i]))) {
            return false;
        }
    }
    return jwk->kty != NULL && (jwk->use == NULL || strcmp(jwk->use, "sig") == 0) &&
           (jwk->kid == NULL || strlen(jwk->kid) <= KID_TEXT_MAX);
}

/* *ret_jwk.key stays NULL when the key is of no use here. */
static struct fault parse_one(struct op *op, struct span json, struct jwk *ret_jwk)
{
    struct jin_member *members = NULL;
    struct jwk_members jwk = { 0 };
    size_t count = 0;
    bool well = false;
    TRY(jin_members(op, json, MEMBERS_MAX, &members, &count));
    TRY(take_texts(op, members, count, &jwk, &well));
    if (!well || !is_for_verifying(members, count, &jwk)) {
        return OK;
    }
    const struct jws_algorithm *algorithm = jwk.alg != NULL ? jws_algorithm_find_foreign(jwk.alg) : NULL;
    if (jwk.alg != NULL && algorithm == NULL) {
        return OK;
    }
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    struct fault fault = jwk_build(&jwk, &key);
    ERR_clear_error();
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault) || (algorithm != NULL && !jws_algorithm_fits(algorithm, key))) {
        return OK;
    }
    char own_kid[44];
    char *kid = NULL;
    TRY(jwk_own_kid(key, own_kid));
    TRY(mem_dup_text(jwk.kid != NULL ? jwk.kid : own_kid, KID_TEXT_MAX, &kid));
    *ret_jwk = (struct jwk){ .kid = kid, .alg = algorithm != NULL ? algorithm->name : NULL, .key = TAKE(key) };
    return OK;
}

/* Two keys between which a proof's kid and alg would not decide. */
static bool are_alike(const struct jwk *a, const struct jwk *b)
{
    return strcmp(a->kid, b->kid) == 0 && (a->alg == NULL || b->alg == NULL || strcmp(a->alg, b->alg) == 0) &&
           EVP_PKEY_get_base_id(a->key) == EVP_PKEY_get_base_id(b->key);
}

static struct fault add(struct op *op, struct jwk_set *set, struct jwk *jwk)
{
    set->at[set->count++] = *jwk;
    for (size_t i = 0; i + 1 < set->count; i++) {
        if (are_alike(&set->at[i], jwk)) {
            return op_fail(op, FAULT(JWS_FORMAT), "two keys of the JWK set have one kid and type");
        }
    }
    return OK;
}

static struct fault find_keys(struct op *op, struct span json, struct span *ret_keys)
{
    struct jin_member *members = NULL;
    size_t count = 0;
    TRY(jin_members(op, json, MEMBERS_MAX, &members, &count));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].name, "keys") == 0 && members[i].type == JIN_TYPE_ARRAY) {
            *ret_keys = members[i].value;
            return OK;
        }
    }
    return op_fail(op, FAULT(JWS_FORMAT), "a JWK set has an array \"keys\"");
}

static struct fault parse_set(struct op *op, struct span json, struct jwk_set *ret_set, size_t *ret_left_out)
{
    struct span keys = { 0 }, *items = NULL;
    size_t count = 0, left_out = 0;
    TRY(find_keys(op, json, &keys));
    TRY(jin_array(op, keys, SET_MAX, &items, &count));
    CLEANUP(jwk_set_free) struct jwk_set set = { 0 };
    TRY(mem_new(count, sizeof(*set.at), &set.at));
    for (size_t i = 0; i < count; i++) {
        struct jwk jwk = { 0 };
        TRY(parse_one(op, items[i], &jwk));
        if (jwk.key == NULL) {
            left_out++;
            continue;
        }
        TRY(add(op, &set, &jwk));
    }
    if (set.count == 0) {
        return op_fail(op, FAULT(JWS_FORMAT), "the JWK set has no key that verifies signatures here (%zu left out)",
                       left_out);
    }
    *ret_set = (struct jwk_set){ .at = TAKE(set.at), .count = set.count };
    *ret_left_out = left_out;
    return OK;
}

struct fault jwk_set_parse_foreign(struct op *op, struct span json, struct jwk_set *ret_set, size_t *ret_left_out)
{
    struct fault fault = parse_set(op, json, ret_set, ret_left_out);
    return fault.code == FAULT_JSON_SYNTAX || fault.code == FAULT_JSON_FIELD ? FAULT(JWS_FORMAT) : fault;
}
