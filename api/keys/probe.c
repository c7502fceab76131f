/* One probe of one key. It is no use of the key: nothing is journalled and nothing is counted. */
#include "api/keys/internal.h"

#define PROBE_AAD "svc.keys.probe.v1"

static struct fault probe_seal(struct op *op, struct services *services, const struct managed_key *key)
{
    CLEANUP(buf_free) struct buf sealed = BUF_INIT(1024);
    CLEANUP(buf_free) struct buf opened = BUF_INIT(1024);
    uint8_t plain[SHA256_LEN];
    TRY(random_bytes(plain, sizeof(plain)));
    TRY(signer_seal(op, services->signer, &key->ref, span_text(PROBE_AAD), SPAN_ARRAY(plain), &sealed));
    TRY(signer_unseal(op, services->signer, &key->ref, span_text(PROBE_AAD), buf_span(&sealed), &opened));
    REQUIRE(span_equal(buf_span(&opened), SPAN_ARRAY(plain)), UNSEAL);
    return OK;
}

static struct fault probe_sign(struct op *op, struct services *services, const struct managed_key *key)
{
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    uint8_t digest[64];
    TRY(random_bytes(digest, sizeof(digest)));
    const enum hash_algorithm hash = key->algorithm == KEY_ALGORITHM_EC_P384 ? HASH_SHA384 : HASH_SHA256;
    const struct sign_request request = {
        .key = key->ref,
        .scheme = key_default_scheme(key->algorithm),
        .hash = hash,
        .digest = span_of(digest, hash_size(hash)),
    };
    TRY(signer_sign(op, services->signer, &request, &signature));
    return signer_verify_under(op, services->signer, &request, key->spki, buf_span(&signature));
}

struct fault key_probe(struct op *op, struct services *services, const struct managed_key *key)
{
    return key->algorithm == KEY_ALGORITHM_AES_256 ? probe_seal(op, services, key) : probe_sign(op, services, key);
}

bool key_probe_is_outage(struct fault fault)
{
    return FAULTED(fault) && (fault_row(fault.code)->retry == FAULT_RETRY_LATER || fault.code == FAULT_TOKEN_PIN);
}
