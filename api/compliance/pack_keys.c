/* The keys that evidence packs and generated reports are signed with: the newest one signs, all of them verify. */
#include "api/compliance/internal.h"

#include "appliance/base/crypto.h"
#include "fips/fips.h"
#include "fips/jws.h"
#include "signer-pkcs11/provider/provider.h"

#define KEY_NAME   "evidence-pack"
/* A pack that is being made when its key is replaced is finished under it: longer than one may take. */
#define OVERLAP_US (600 * US_PER_S)
#define JWKS_MAX   ((size_t)1 << 20)

struct fault pack_key(struct op *op, struct services *services, struct managed_key *ret_key)
{
    return keys_ensure(op, services, KEY_PURPOSE_EVIDENCE_PACK, KEY_ALGORITHM_EC_P256, KEY_NAME, ret_key);
}

struct fault pack_sign(struct op *op, struct services *services, const struct managed_key *key, const char *typ,
                       struct span payload, struct buf *compact)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *pkey = NULL;
    (void)services; /* the provider holds the client of the signer */
    BUG_IF(op->tx_open != 0);
    TRY(svc_pkey_new(fips_libctx(), &key->ref, key->spki, &pkey));
    svc_provider_bind(op, (struct uuid){ 0 });
    struct fault fault = jws_sign(op, pkey, key->spki, typ, payload, compact);
    struct fault cause = svc_provider_fault();
    svc_provider_unbind();
    return FAULTED(fault) && FAULTED(cause) ? cause : fault;
}

static utc_us earlier(utc_us a, utc_us b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

static struct fault print_keys(struct op *op, struct services *services, struct buf *json)
{
    struct managed_key *keys = NULL;
    size_t count = 0, shown = 0;
    TRY(keys_history(op, services, KEY_PURPOSE_EVIDENCE_PACK, &keys, &count));
    TRY(buf_text(json, "{\"keys\":["));
    for (size_t i = 0; i < count; i++) {
        const struct managed_key *key = &keys[i];
        if (key->activated == 0) {
            continue; /* prepared, and never signed anything */
        }
        utc_us end = earlier(earlier(key->retires, key->retired), key->destroyed);
        TRY(buf_text(json, shown++ > 0 ? "," : ""));
        TRY(jwk_print_window(key->spki, key->activated, end, json));
    }
    return buf_text(json, "]}");
}

struct fault route_evidence_keys(struct request *request)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(JWKS_MAX);
    TRY(print_keys(request->op, request->services, &json));
    return response_json(request, 0, &json);
}

struct fault route_evidence_key_rotate(struct request *request)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(16384);
    CLEANUP(buf_free) struct buf jwk = BUF_INIT(8192);
    struct managed_key key;
    struct jout jout;
    TRY(keys_replace(request->op, request->services, KEY_PURPOSE_EVIDENCE_PACK, KEY_ALGORITHM_EC_P256, KEY_NAME,
                     OVERLAP_US, &key));
    TRY(jwk_print_window(key.spki, key.activated, 0, &jwk));
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", key.ref.id.text);
    jout_key_raw(&jout, "jwk", buf_span(&jwk));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &json);
}
