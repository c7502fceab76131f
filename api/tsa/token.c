#include "api/tsa/internal.h"

#include "appliance/base/crypto.h"
#include "signer-pkcs11/client/client.h"

/*
 * A token is CMS SignedData (RFC 5652 5.1) over a TSTInfo, written straight as DER, from its end to its front: what
 * does not change lies ready in struct tsa_unit, and the signature is the only costly step. It is made in three: the
 * draft (what is signed, and its digest), the signatures of several drafts in one exchange with the signer, and the
 * whole. Readers are OpenSSL and others; the tests let them judge.
 */

/* AlgorithmIdentifier of a digest: no parameters (RFC 5754 2). */
static void write_digest_algorithm(struct der_writer *writer, const struct tst_hash *hash)
{
    size_t mark = der_mark(writer);
    der_write_element(writer, DER_OID, hash->oid);
    der_wrap(writer, DER_SEQUENCE, mark);
}

static bool is_ec(enum key_algorithm algorithm)
{
    return algorithm == KEY_ALGORITHM_EC_P256 || algorithm == KEY_ALGORITHM_EC_P384;
}

/* RFC 5754 3.2 (rsaEncryption with NULL is what every reader takes) and 3.3 (no parameters). */
static void write_signature_algorithm(struct der_writer *writer, enum key_algorithm algorithm)
{
    size_t mark = der_mark(writer);
    if (is_ec(algorithm)) {
        der_write_element(writer, DER_OID, algorithm == KEY_ALGORITHM_EC_P384 ? oid_ecdsa_sha384 : oid_ecdsa_sha256);
    } else {
        der_write_element(writer, DER_NULL, (struct span){ 0 });
        der_write_element(writer, DER_OID, oid_rsa_encryption);
    }
    der_wrap(writer, DER_SEQUENCE, mark);
}

/* RFC 3161 2.4.2. No ordering: two instances' tokens within the accuracy may come in either order. */
static struct fault write_tst_info(const struct tsa_unit *unit, const struct tsa_statement *statement,
                                   uint8_t room[TSA_TST_INFO_MAX], struct span *ret_der)
{
    char time[DER_TIME_MAX];
    der_time_print(statement->time, statement->digits, time);
    struct der_writer writer;
    der_writer_init(&writer, room, TSA_TST_INFO_MAX);
    if (statement->name) {
        der_write(&writer, buf_span(&unit->name));
    }
    der_write(&writer, statement->request->nonce);
    der_write(&writer, buf_span(&unit->accuracy));
    der_write_element(&writer, DER_GENERALIZED_TIME, span_text(time));
    der_write_uint(&writer, DER_INTEGER, statement->serial);
    der_write(&writer, statement->request->imprint);
    der_write_element(&writer, DER_OID, statement->policy);
    der_write_uint(&writer, DER_INTEGER, 1);
    der_wrap(&writer, DER_SEQUENCE, 0);
    return der_written(&writer, ret_der);
}

static struct fault digest_of(const struct tst_hash *hash, struct span bytes, uint8_t out[EVP_MAX_MD_SIZE])
{
    size_t len = EVP_MAX_MD_SIZE;
    if (hash->id == TST_SHA256) { /* already fetched */
        struct sha256 digest;
        TRY(sha256_of(bytes, &digest));
        memcpy(out, digest.at, sizeof(digest.at));
        return OK;
    }
    if (EVP_Q_digest(crypto_context(), hash->digest, NULL, bytes.at, bytes.len, out, &len) != 1 || len != hash->size) {
        return crypto_fail(NULL, "");
    }
    return OK;
}

/* Attribute ::= SEQUENCE { attrType OID, attrValues SET } with one value. */
static void write_attribute(struct der_writer *writer, struct span type, uint8_t tag, struct span value)
{
    size_t mark = der_mark(writer);
    der_write_element(writer, tag, value);
    der_wrap(writer, DER_SET, mark);
    der_write_element(writer, DER_OID, type);
    der_wrap(writer, DER_SEQUENCE, mark);
}

/* The members of SignedAttributes, without the SET's header. A SET OF stands in ascending order of encodings
 * (X.690 11.6): by length here, as the three begin alike up to it: contentType, messageDigest, signingCertificateV2. */
static struct fault write_attributes(const struct tsa_unit *unit, struct span tst_info, uint8_t *room, size_t size,
                                     struct span *ret_members)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    TRY(digest_of(unit->hash, tst_info, digest));
    struct der_writer writer;
    der_writer_init(&writer, room, size);
    der_write(&writer, buf_span(&unit->certificate_attribute));
    write_attribute(&writer, oid_message_digest, DER_OCTET_STRING, span_of(digest, unit->hash->size));
    write_attribute(&writer, oid_content_type, DER_OID, oid_tst_info);
    return der_written(&writer, ret_members);
}

/* Of the attributes as a SET, though the token carries them as [0] (RFC 5652 5.4). */
static struct fault digest_to_sign(const struct tsa_unit *unit, struct span members, uint8_t out[EVP_MAX_MD_SIZE])
{
    uint8_t room[TSA_MEMBERS_MAX + 8];
    struct der_writer writer;
    struct span signed_bytes;
    der_writer_init(&writer, room, sizeof(room));
    der_write_element(&writer, DER_SET, members);
    TRY(der_written(&writer, &signed_bytes));
    return digest_of(unit->hash, signed_bytes, out);
}

static void write_signer_info(struct der_writer *writer, const struct tsa_unit *unit, struct span members,
                              struct span signature)
{
    size_t mark = der_mark(writer);
    der_write_element(writer, DER_OCTET_STRING, signature);
    write_signature_algorithm(writer, unit->algorithm);
    der_write_element(writer, DER_CONTEXT_CONSTRUCTED(0), members);
    write_digest_algorithm(writer, unit->hash);
    der_write(writer, buf_span(&unit->sid));
    der_write_uint(writer, DER_INTEGER, 1);
    der_wrap(writer, DER_SEQUENCE, mark);
}

static void write_signed_data(struct der_writer *writer, const struct tsa_unit *unit, bool certificate,
                              struct span tst_info, struct span members, struct span signature)
{
    write_signer_info(writer, unit, members, signature);
    der_wrap(writer, DER_SET, 0);
    if (certificate) { /* RFC 3161 2.4.1: the signer's certificate when asked for; the root is the reader's to know */
        der_write_element(writer, DER_CONTEXT_CONSTRUCTED(0), buf_span(&unit->certificates));
    }
    size_t mark = der_mark(writer);
    der_write_element(writer, DER_OCTET_STRING, tst_info);
    der_wrap(writer, DER_CONTEXT_CONSTRUCTED(0), mark);
    der_write_element(writer, DER_OID, oid_tst_info);
    der_wrap(writer, DER_SEQUENCE, mark);
    mark = der_mark(writer);
    write_digest_algorithm(writer, unit->hash);
    der_wrap(writer, DER_SET, mark);
    der_write_uint(writer, DER_INTEGER, 3); /* RFC 5652 5.1: the content is not id-data */
    der_wrap(writer, DER_SEQUENCE, 0);
    der_wrap(writer, DER_CONTEXT_CONSTRUCTED(0), 0);
    der_write_element(writer, DER_OID, oid_signed_data);
    der_wrap(writer, DER_SEQUENCE, 0);
}

struct fault tsa_draft(const struct tsa_unit *unit, const struct tsa_statement *statement, struct tsa_draft *ret_draft)
{
    TRY(write_tst_info(unit, statement, ret_draft->tst_info_room, &ret_draft->tst_info));
    TRY(write_attributes(unit, ret_draft->tst_info, ret_draft->members_room, sizeof(ret_draft->members_room),
                         &ret_draft->members));
    return digest_to_sign(unit, ret_draft->members, ret_draft->digest);
}

struct fault tsa_drafts_sign(struct op *op, struct signer_client *signer, const struct tsa_unit *unit,
                             const struct tsa_draft *const *drafts, size_t count, struct buf *room,
                             struct span *ret_signatures)
{
    uint8_t digests[TSA_BATCH_MAX * EVP_MAX_MD_SIZE];
    size_t size = unit->hash->size;
    BUG_IF(count == 0 || count > TSA_BATCH_MAX || size > EVP_MAX_MD_SIZE);
    for (size_t i = 0; i < count; i++) {
        memcpy(digests + i * size, drafts[i]->digest, size);
    }
    static const enum hash_algorithm hashes[TST_HASH_COUNT] = {
        [TST_SHA256] = HASH_SHA256, [TST_SHA384] = HASH_SHA384, [TST_SHA512] = HASH_SHA512
    };
    const struct sign_request request = { .key = unit->ref,
                                          .scheme = is_ec(unit->algorithm) ? SIGN_SCHEME_ECDSA : SIGN_SCHEME_RSA_PKCS1,
                                          .hash = hashes[unit->hash->id],
                                          .digest = span_of(digests, count * size) };
    return signer_sign_many(op, signer, &request, room, ret_signatures);
}

struct fault tsa_draft_finish(struct op *op, const struct tsa_unit *unit, const struct tsa_statement *statement,
                              const struct tsa_draft *draft, struct span signature, struct span *ret_token)
{
    uint8_t room[TSA_TOKEN_MAX]; /* not the arena's: that one is zeroed before and after */
    struct span token;
    struct der_writer writer;
    der_writer_init(&writer, room, sizeof(room));
    write_signed_data(&writer, unit, statement->request->certificate_wanted, draft->tst_info, draft->members,
                      signature);
    TRY(der_written(&writer, &token));
    return arena_copy(op->arena, token, ret_token);
}
