#include "api/ca/certificate.h"

#include "api/ca/internal.h"

#include <openssl/pem.h>

static struct fault add_extensions(const struct issuance *in, const struct certificate_profile *profile)
{
    TRY(issuance_extension(in, NID_basic_constraints,
                           profile->authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE"));
    TRY(issuance_extension(in, NID_key_usage,
                           profile->authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature"));
    if (profile->extended_usage != NULL) {
        TRY(issuance_extension(in, NID_ext_key_usage, profile->extended_usage));
    }
    return issuance_key_ids(in);
}

struct fault certificate_issue(struct op *op, struct signer_client *signer, const struct certificate_issuer *issuer,
                               struct span subject_spki, const struct certificate_profile *profile,
                               struct span *ret_der)
{
    BUG_IF(signer == NULL || profile->common_name == NULL || profile->valid_days <= 0);
    CLEANUP(issuance_clear) struct issuance in = { 0 };
    int64_t from = profile->not_before / US_PER_S;
    uint8_t serial[CA_SERIAL_LEN];
    TRY(random_bytes(serial, sizeof(serial)));
    TRY(issuance_init(&in, op, issuer->certificate, subject_spki));
    TRY(issuance_serial(&in, serial));
    TRY(issuance_names(&in, profile->organization, profile->common_name));
    TRY(issuance_validity(&in, from, from + profile->valid_days * SECONDS_PER_DAY - 1));
    TRY(add_extensions(&in, profile));
    TRY(issuance_sign(&in, &issuer->key, issuer->spki, (struct uuid){ 0 }));
    return issuance_der(&in, ret_der);
}

struct fault certificate_pem(struct span der, struct buf *out)
{
    return ca_pem(PEM_STRING_X509, der, out);
}
