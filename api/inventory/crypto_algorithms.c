#include "api/inventory/crypto.h"

#include "appliance/base/crypto.h"

#include <openssl/err.h>
#include <openssl/objects.h>

const char *crypto_quantum_text(enum crypto_quantum quantum)
{
    static const char *const texts[QUANTUM_COUNT] = { "quantum_vulnerable", "post_quantum", "symmetric", "unknown" };
    BUG_IF(quantum >= QUANTUM_COUNT);
    return texts[quantum];
}

const char *crypto_posture_text(enum crypto_posture posture)
{
    static const char *const texts[POSTURE_COUNT] = { "approved", "fenced", "unlisted" };
    BUG_IF(posture >= POSTURE_COUNT);
    return texts[posture];
}

#define EC_OID  "1.2.840.10045.2.1"
#define RSA_OID "1.2.840.113549.1.1.1"

/* Strengths: SP 800-57 part 1, SP 800-56B appendix D (RSA-4096), FIPS 204. Approved is what fips_approved_algorithms()
 * claims and nothing else; fenced what fips_fences() names. */
#define ROW(name_, title_, primitive_, set_, curve_, mode_, oid_, bits_, classical_, level_, quantum_, posture_) \
    { .name = (name_),                                                                                           \
      .title = (title_),                                                                                         \
      .primitive = (primitive_),                                                                                 \
      .parameter_set = (set_),                                                                                   \
      .curve = (curve_),                                                                                         \
      .mode = (mode_),                                                                                           \
      .oid = (oid_),                                                                                             \
      .bits = (bits_),                                                                                           \
      .classical_bits = (classical_),                                                                            \
      .nist_level = (level_),                                                                                    \
      .quantum = QUANTUM_##quantum_,                                                                             \
      .posture = POSTURE_##posture_ }
static const struct crypto_algorithm algorithms[] = {
    ROW("aes-256", "AES-256-GCM", "ae", "256", NULL, "gcm", "2.16.840.1.101.3.4.1.46", 256, 256, 5, SYMMETRIC,
        APPROVED),
    ROW("ec-p256", "ECDSA P-256", "signature", "P-256", "nist/P-256", NULL, EC_OID, 256, 128, 0, VULNERABLE, APPROVED),
    ROW("ec-p384", "ECDSA P-384", "signature", "P-384", "nist/P-384", NULL, EC_OID, 384, 192, 0, VULNERABLE, APPROVED),
    ROW("ec-p521", "ECDSA P-521", "signature", "P-521", "nist/P-521", NULL, EC_OID, 521, 256, 0, VULNERABLE, UNLISTED),
    ROW("ed25519", "Ed25519", "signature", "Ed25519", "other/Ed25519", NULL, "1.3.101.112", 256, 128, 0, VULNERABLE,
        FENCED),
    ROW("ml-dsa-44", "ML-DSA-44", "signature", "ML-DSA-44", NULL, NULL, "2.16.840.1.101.3.4.3.17", 10496, 0, 2, POST,
        FENCED),
    ROW("ml-dsa-65", "ML-DSA-65", "signature", "ML-DSA-65", NULL, NULL, "2.16.840.1.101.3.4.3.18", 15616, 0, 3, POST,
        FENCED),
    ROW("ml-dsa-87", "ML-DSA-87", "signature", "ML-DSA-87", NULL, NULL, "2.16.840.1.101.3.4.3.19", 20736, 0, 5, POST,
        FENCED),
    ROW("rsa-1024", "RSA-1024", "signature", "1024", NULL, NULL, RSA_OID, 1024, 80, 0, VULNERABLE, UNLISTED),
    ROW("rsa-2048", "RSA-2048", "signature", "2048", NULL, NULL, RSA_OID, 2048, 112, 0, VULNERABLE, UNLISTED),
    ROW("rsa-3072", "RSA-3072", "signature", "3072", NULL, NULL, RSA_OID, 3072, 128, 0, VULNERABLE, APPROVED),
    ROW("rsa-4096", "RSA-4096", "signature", "4096", NULL, NULL, RSA_OID, 4096, 152, 0, VULNERABLE, APPROVED),
    ROW("rsa-other", "RSA", "signature", "", NULL, NULL, RSA_OID, 0, 0, 0, VULNERABLE, UNLISTED),
    ROW("unknown", "not known", "unknown", "", NULL, NULL, NULL, 0, 0, 0, UNKNOWN, UNLISTED),
};
static_assert(COUNT_OF(algorithms) == CRYPTO_ALGORITHMS);

const struct crypto_algorithm *crypto_algorithm_at(size_t index)
{
    BUG_IF(index >= COUNT_OF(algorithms));
    return &algorithms[index];
}

size_t crypto_algorithm_index(const struct crypto_algorithm *algorithm)
{
    return (size_t)(algorithm - algorithms);
}

const struct crypto_algorithm *crypto_algorithm_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        if (strcmp(algorithms[i].name, name) == 0) {
            return &algorithms[i];
        }
    }
    return &algorithms[COUNT_OF(algorithms) - 1];
}

/* ---- of a public key ---- */

static const char *curve_name(const X509_ALGOR *algorithm)
{
    int type = 0;
    const void *value = NULL;
    X509_ALGOR_get0(NULL, &type, &value, algorithm);
    switch (type == V_ASN1_OBJECT ? OBJ_obj2nid(value) : NID_undef) {
    case NID_X9_62_prime256v1:
        return "ec-p256";
    case NID_secp384r1:
        return "ec-p384";
    case NID_secp521r1:
        return "ec-p521";
    default:
        return "unknown";
    }
}

const char *crypto_rsa_name(size_t bits)
{
    static const struct {
        size_t bits;
        const char *name;
    } sizes[] = { { 1024, "rsa-1024" }, { 2048, "rsa-2048" }, { 3072, "rsa-3072" }, { 4096, "rsa-4096" } };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        if (sizes[i].bits == bits) {
            return sizes[i].name;
        }
    }
    return bits > 0 ? "rsa-other" : "unknown";
}

/* The size is the modulus', which the bytes tell without any key being made of them: FIPS would refuse small ones. */
static const char *rsa_name(struct span modulus_and_exponent)
{
    const unsigned char *at = modulus_and_exponent.at;
    STACK_OF(ASN1_TYPE) *parts = d2i_ASN1_SEQUENCE_ANY(NULL, &at, (long)modulus_and_exponent.len);
    const ASN1_TYPE *first = parts != NULL ? sk_ASN1_TYPE_value(parts, 0) : NULL;
    CLEANUP(BN_freep)
    BIGNUM *modulus =
        first != NULL && ASN1_TYPE_get(first) == V_ASN1_INTEGER ? ASN1_INTEGER_to_BN(first->value.integer, NULL) : NULL;
    int bits = modulus != NULL ? BN_num_bits(modulus) : 0;
    sk_ASN1_TYPE_pop_free(parts, ASN1_TYPE_free);
    return crypto_rsa_name((size_t)bits);
}

const char *crypto_name_of_oid(const char *oid)
{
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        if (algorithms[i].oid != NULL && strcmp(algorithms[i].oid, oid) == 0) {
            return algorithms[i].name;
        }
    }
    return NULL;
}

static const char *name_of_object(const ASN1_OBJECT *object)
{
    char oid[80];
    const char *name = OBJ_obj2txt(oid, sizeof(oid), object, 1) > 0 ? crypto_name_of_oid(oid) : NULL;
    return name != NULL ? name : "unknown";
}

const struct crypto_algorithm *crypto_algorithm_of_spki(struct span spki)
{
    const struct crypto_algorithm *algorithm = NULL;
    return crypto_read_spki(spki, &algorithm) ? algorithm : crypto_algorithm_by_openssl(spki);
}

const struct crypto_algorithm *crypto_algorithm_by_openssl(struct span spki)
{
    const unsigned char *at = spki.at;
    X509_PUBKEY *key = spki.len > 0 && spki.len <= 65536 ? d2i_X509_PUBKEY(NULL, &at, (long)spki.len) : NULL;
    const char *name = "unknown";
    ASN1_OBJECT *object = NULL;
    X509_ALGOR *algorithm = NULL;
    const unsigned char *bytes = NULL;
    int length = 0;
    if (key != NULL && at == spki.at + spki.len &&
        X509_PUBKEY_get0_param(&object, &bytes, &length, &algorithm, key) == 1) {
        int nid = OBJ_obj2nid(object);
        name = nid == NID_X9_62_id_ecPublicKey ? curve_name(algorithm)
               : nid == NID_rsaEncryption      ? rsa_name(span_of(bytes, (size_t)length))
                                               : name_of_object(object);
    }
    X509_PUBKEY_free(key);
    ERR_clear_error();
    return crypto_algorithm_find(name);
}
