#include "api/ca/certificate.h"

#include "api/ca/internal.h"
#include "appliance/base/der.h"

#include <openssl/pem.h>

/* PrivateKeyUsagePeriod ::= SEQUENCE { notBefore [0] GeneralizedTime OPTIONAL, notAfter [1] ... } */
static struct fault add_usage_period(const struct issuance *in, const struct certificate_profile *profile)
{
    uint8_t room[64];
    char from[DER_TIME_MAX], until[DER_TIME_MAX];
    struct der_writer writer;
    struct span value;
    der_time_print(profile->not_before, 0, from);
    der_time_print(profile->usage_until, 0, until);
    der_writer_init(&writer, room, sizeof(room));
    der_write_element(&writer, DER_CONTEXT(1), span_text(until));
    der_write_element(&writer, DER_CONTEXT(0), span_text(from));
    der_wrap(&writer, DER_SEQUENCE, 0);
    TRY(der_written(&writer, &value));
    return issuance_extension_bytes(in, "2.5.29.16", value);
}

static struct fault add_extensions(const struct issuance *in, const struct certificate_profile *profile)
{
    TRY(issuance_extension(in, NID_basic_constraints,
                           profile->authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE"));
    TRY(issuance_extension(in, NID_key_usage,
                           profile->authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature"));
    if (profile->extended_usage != NULL) {
        TRY(issuance_extension(in, NID_ext_key_usage, profile->extended_usage));
    }
    if (profile->usage_until != 0) {
        TRY(add_usage_period(in, profile));
    }
    return issuance_key_ids(in);
}

struct fault certificate_issue(struct op *op, struct signer_client *signer, const struct certificate_issuer *issuer,
                               struct span subject_spki, const struct certificate_profile *profile,
                               struct span *ret_der)
{
    BUG_IF(signer == NULL || profile->common_name == NULL || (profile->valid_days <= 0 && profile->not_after == 0));
    CLEANUP(issuance_clear) struct issuance in = { 0 };
    int64_t from = profile->not_before / US_PER_S;
    int64_t until =
        profile->not_after != 0 ? profile->not_after / US_PER_S : from + profile->valid_days * SECONDS_PER_DAY - 1;
    uint8_t serial[CA_SERIAL_LEN];
    TRY(random_bytes(serial, sizeof(serial)));
    TRY(issuance_init(&in, op, issuer->certificate, subject_spki));
    TRY(issuance_serial(&in, serial));
    TRY(issuance_names(&in, profile->organization, profile->common_name));
    TRY(issuance_validity(&in, from, until));
    TRY(add_extensions(&in, profile));
    TRY(issuance_sign(&in, &issuer->key, issuer->spki, (struct uuid){ 0 }));
    return issuance_der(&in, ret_der);
}

struct fault certificate_pem(struct span der, struct buf *out)
{
    return ca_pem(PEM_STRING_X509, der, out);
}
