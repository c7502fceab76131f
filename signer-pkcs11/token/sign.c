#include "signer-pkcs11/token/internal.h"

#include "appliance/base/der.h"

struct sign_job {
    const struct key_ref *key;
    enum sign_scheme scheme;
    enum hash_algorithm hash;
    struct span digest;
    enum key_algorithm algorithm; /* found */
    uint8_t raw[SIGNATURE_MAX];
    CK_ULONG raw_len;
};

/* DigestInfo up to the digest (RFC 8017 9.2 note 1): what CKM_RSA_PKCS does not add by itself. */
static const uint8_t sha256_info[] = { 0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
                                       0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20 };
static const uint8_t sha384_info[] = { 0x30, 0x41, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
                                       0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0x04, 0x30 };
static const uint8_t sha512_info[] = { 0x30, 0x51, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
                                       0x65, 0x03, 0x04, 0x02, 0x03, 0x05, 0x00, 0x04, 0x40 };
#define DIGEST_INFO_MAX (sizeof(sha512_info) + 64)
#define ECDSA_FIELD_MAX 48

static const struct {
    struct span info;
    CK_MECHANISM_TYPE mechanism;
    CK_RSA_PKCS_MGF_TYPE mgf;
} hashes[HASH_COUNT] = {
    [HASH_SHA256] = { { sha256_info, sizeof(sha256_info) }, CKM_SHA256, CKG_MGF1_SHA256 },
    [HASH_SHA384] = { { sha384_info, sizeof(sha384_info) }, CKM_SHA384, CKG_MGF1_SHA384 },
    [HASH_SHA512] = { { sha512_info, sizeof(sha512_info) }, CKM_SHA512, CKG_MGF1_SHA512 },
};

static struct fault needs(struct op *op, bool has, const char *mechanism)
{
    if (!has) {
        return op_fail(op, FAULT(TOKEN_MECHANISM), "the token does not list %s for signing: use another key or scheme",
                       mechanism);
    }
    return OK;
}

static struct fault sign_with(struct token_session *session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE object,
                              struct span input, struct sign_job *job)
{
    job->raw_len = sizeof(job->raw);
    TRY(gate_sign_init(&session->call, session->handle, mechanism, object));
    TRY(key_login_again(session));
    return gate_sign(&session->call, session->handle, input, job->raw, &job->raw_len);
}

static struct fault sign_ecdsa(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object,
                               struct sign_job *job)
{
    TRY(needs(op, session->token->module.has.ecdsa, "CKM_ECDSA"));
    /* FIPS 186-5 6.4.1: the leftmost bits of a digest that is longer than the order. Not every token cuts by itself. */
    size_t field = algorithm_bits(job->algorithm) / 8;
    struct span input = { job->digest.at, job->digest.len < field ? job->digest.len : field };
    uint8_t padded[ECDSA_FIELD_MAX] = { 0 };
    if (input.len < field && quirk_on(&session->token->settings->quirks, QUIRK_ECDSA_PAD)) {
        memcpy(padded + field - input.len, input.at, input.len); /* the same number, so the same signature */
        input = span_of(padded, field);
    }
    CK_MECHANISM mechanism = { CKM_ECDSA, NULL, 0 };
    return sign_with(session, &mechanism, object, input, job);
}

static struct fault sign_pkcs1(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object,
                               struct sign_job *job)
{
    TRY(needs(op, session->token->module.has.rsa_pkcs, "CKM_RSA_PKCS"));
    struct span info = hashes[job->hash].info;
    uint8_t input[DIGEST_INFO_MAX];
    memcpy(input, info.at, info.len);
    memcpy(input + info.len, job->digest.at, job->digest.len);
    CK_MECHANISM mechanism = { CKM_RSA_PKCS, NULL, 0 };
    return sign_with(session, &mechanism, object, span_of(input, info.len + job->digest.len), job);
}

/* Quirk pss-raw: the token only raises the encoded message to the private exponent. */
static struct fault sign_pss_raw(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object,
                                 struct sign_job *job)
{
    uint8_t encoded[RSA_BYTES_MAX];
    size_t len = algorithm_bits(job->algorithm) / 8;
    TRY(needs(op, session->token->module.has.rsa_raw, "CKM_RSA_X_509"));
    TRY(pss_encode(op, job->hash, job->digest, encoded, len));
    CK_MECHANISM mechanism = { CKM_RSA_X_509, NULL, 0 };
    return sign_with(session, &mechanism, object, span_of(encoded, len), job);
}

static struct fault sign_pss(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object,
                             struct sign_job *job)
{
    if (quirk_on(&session->token->settings->quirks, QUIRK_PSS_RAW)) {
        return sign_pss_raw(op, session, object, job);
    }
    TRY(needs(op, session->token->module.has.rsa_pss, "CKM_RSA_PKCS_PSS"));
    CK_RSA_PKCS_PSS_PARAMS params = { .hashAlg = hashes[job->hash].mechanism,
                                      .mgf = hashes[job->hash].mgf,
                                      .sLen = job->digest.len };
    CK_MECHANISM mechanism = { CKM_RSA_PKCS_PSS, &params, sizeof(params) };
    return sign_with(session, &mechanism, object, job->digest, job);
}

static struct fault sign_step(struct op *op, struct token_session *session, void *arg)
{
    struct sign_job *job = arg;
    CK_OBJECT_HANDLE object = CK_INVALID_HANDLE;
    TRY(key_use(op, session, job->key, &object, &job->algorithm));
    TRY(sign_check_key(op, job->algorithm, job->scheme));
    if (job->scheme == SIGN_SCHEME_ECDSA) {
        return sign_ecdsa(op, session, object, job);
    }
    return job->scheme == SIGN_SCHEME_RSA_PKCS1 ? sign_pkcs1(op, session, object, job)
                                                : sign_pss(op, session, object, job);
}

/* An unsigned big-endian number of fixed width as INTEGER, in front of what is written. */
static void write_integer(struct der_writer *writer, struct span number)
{
    while (number.len > 1 && number.at[0] == 0) {
        number = span_of(number.at + 1, number.len - 1);
    }
    size_t mark = der_mark(writer);
    der_write(writer, number);
    if ((number.at[0] & 0x80) != 0) {
        static const uint8_t zero = 0;
        der_write(writer, span_of(&zero, 1));
    }
    der_wrap(writer, DER_INTEGER, mark);
}

static struct fault put_ecdsa(const struct sign_job *job, struct buf *signature)
{
    uint8_t bytes[128];
    struct der_writer writer;
    struct span der;
    size_t half = job->raw_len / 2;
    der_writer_init(&writer, bytes, sizeof(bytes));
    write_integer(&writer, span_of(job->raw + half, half));
    write_integer(&writer, span_of(job->raw, half));
    der_wrap(&writer, DER_SEQUENCE, 0);
    TRY(der_written(&writer, &der));
    return buf_put(signature, der);
}

struct fault token_sign(struct op *op, struct token_session *session, const struct key_ref *key,
                        enum sign_scheme scheme, enum hash_algorithm hash, struct span digest, struct buf *signature)
{
    TRY(key_ref_check(op, key));
    TRY(sign_check(op, scheme, hash, digest));
    struct sign_job job;
    job.key = key;
    job.scheme = scheme;
    job.hash = hash;
    job.digest = digest;
    job.algorithm = KEY_ALGORITHM_NONE;
    TRY(token_run(op, session, key, sign_step, &job));
    size_t expected = algorithm_bits(job.algorithm) / 8 * (scheme == SIGN_SCHEME_ECDSA ? 2 : 1);
    if (job.raw_len != expected) {
        return op_fail(op, FAULT(INTERNAL),
                       "the token gave a signature of %lu bytes instead of %zu: report it "
                       "together with the token's model",
                       job.raw_len, expected);
    }
    return scheme == SIGN_SCHEME_ECDSA ? put_ecdsa(&job, signature) : buf_put(signature, span_of(job.raw, job.raw_len));
}
