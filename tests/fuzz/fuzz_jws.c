/* rooms: fips */
/*
 * The JWS verifier and the JWK set parser on the same bytes. Oracles: a refusal has a note, an acceptance is the one
 * token whose signature stands in RFC 7515 A.3 (nobody else has that key); a set that parses has only public keys whose
 * algorithm is one of ours.
 */
#include "fips/jws.h"

#include <openssl/err.h>
#include <openssl/evp.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define KEY                                                  \
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\","          \
    "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"," \
    "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"
#define PAYLOAD "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}"

static struct op *op;
static struct jwk_set keys;

static void check_set(struct span json)
{
    CLEANUP(jwk_set_free) struct jwk_set set = { 0 };
    if (FAULTED(jwk_set_parse(op, json, &set))) {
        BUG_IF(set.count != 0);
        return;
    }
    for (size_t i = 0; i < set.count; i++) {
        OSSL_PARAM *private = NULL;
        BUG_IF(set.at[i].kid == NULL || set.at[i].kid[0] == '\0' || set.at[i].alg == NULL);
        BUG_IF(EVP_PKEY_todata(set.at[i].key, EVP_PKEY_KEYPAIR, &private) == 1 &&
               OSSL_PARAM_locate(private, EVP_PKEY_is_a(set.at[i].key, "EC") == 1 ? "priv" : "d") != NULL);
        OSSL_PARAM_free(private);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
        BUG_IF(FAULTED(jwk_set_parse(op, span_text(KEY), &keys)));
    }
    struct span payload = { 0 };
    const char *kid = NULL;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    if (FAULTED(jws_verify(op, span_of(bytes, len), NULL, &keys, &payload, &kid))) {
        BUG_IF(!op->note.set || payload.at != NULL || kid != NULL);
    } else {
        BUG_IF(!span_equal_text(payload, PAYLOAD) || kid == NULL);
    }
    op->note = (struct fault_note){ 0 };
    check_set(span_of(bytes, len));
    ERR_clear_error();
    return 0;
}
