#include "api/audit/internal.h"

#include "appliance/base/crypto.h"
#include "fips/fips.h"
#include "fips/jws.h"
#include "signer-pkcs11/provider/provider.h"

struct fault audit_sign(struct op *op, struct services *services, const char *typ, struct span payload,
                        struct buf *compact)
{
    struct managed_key key;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *pkey = NULL;
    TRY(export_key(op, services, &key));
    TRY(svc_pkey_new(fips_libctx(), &key.ref, key.spki, &pkey));
    svc_provider_bind(op, (struct uuid){ 0 });
    struct fault fault = jws_sign(op, pkey, key.spki, typ, payload, compact);
    struct fault cause = svc_provider_fault();
    svc_provider_unbind();
    return FAULTED(fault) && FAULTED(cause) ? cause : fault;
}
