/*
 * A Sigstore of the tests' own, made anew for each program: a certificate authority, a signer with a Fulcio-like
 * certificate for ten minutes, a time-stamping authority, a transparency log with one entry in its tree. All P-256.
 */
#ifndef TESTS_UNIT_CLI_SIGSTORE_H
#define TESTS_UNIT_CLI_SIGSTORE_H

#include "tests/testlib.h"

#include "api/cli/bundle.h"
#include "api/tsa/verify.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#include <openssl/pem.h>
#include <openssl/ts.h>
#include <openssl/x509v3.h>

#define SIGNED_AT  INT64_C(1767225600) /* 2026-01-01T00:00:00Z */
#define LEAF_FROM  (SIGNED_AT - 60)
#define LEAF_UNTIL (SIGNED_AT + 540)
#define CA_FROM    (SIGNED_AT - 365 * 86400)
#define CA_UNTIL   (SIGNED_AT + 3650 * 86400LL)
#define IDENTITY   "https://github.com/acme/app/.github/workflows/release.yml@refs/tags/v1"
#define ISSUER     "https://token.actions.githubusercontent.com"
#define ARTIFACT   "hello\n"
#define ROOM       ((size_t)1 << 20)

struct party {
    EVP_PKEY *key;
    X509 *certificate;
    struct span spki, der;
};
struct world {
    struct op *op;
    struct party ca, leaf, tsa_root, tsa, log;
    struct span digest, signature;
};

static inline struct span der_kept(struct op *op, unsigned char *der, int len)
{
    struct span kept;
    assert_true(len > 0);
    assert_fault(arena_copy(op->arena, span_of(der, (size_t)len), &kept), NONE);
    OPENSSL_free(der);
    return kept;
}

static inline EVP_PKEY *key_made(void)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(crypto_context(), NULL, "EC", "P-256");
    assert_non_null(key);
    return key;
}

static inline struct span spki_of(struct op *op, EVP_PKEY *key)
{
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(key, &der);
    return der_kept(op, der, len);
}

static inline struct span signed_text(struct op *op, EVP_PKEY *key, struct span text)
{
    uint8_t signature[256];
    size_t len = sizeof(signature);
    struct span kept;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestSignInit_ex(ctx, NULL, "SHA256", crypto_context(), NULL, key, NULL), 1);
    assert_int_equal(EVP_DigestSign(ctx, signature, &len, text.at, text.len), 1);
    EVP_MD_CTX_free(ctx);
    assert_fault(arena_copy(op->arena, span_of(signature, len), &kept), NONE);
    return kept;
}

/* ---- certificates ---- */

struct profile {
    const char *name;
    int64_t from, until;
    bool authority;
    const char *usage;  /* extended key usage, as OpenSSL writes it; NULL = none */
    const char *san;    /* URI; NULL = none */
    const char *issuer; /* of the identity; NULL = none */
};

static inline void extend(X509 *certificate, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static inline void extend_issuer(X509 *certificate, const char *issuer)
{
    uint8_t der[200] = { 0x0c, (uint8_t)strlen(issuer) };
    ASN1_OBJECT *oid = OBJ_txt2obj("1.3.6.1.4.1.57264.1.8", 1);
    ASN1_OCTET_STRING *value = ASN1_OCTET_STRING_new();
    X509_EXTENSION *extension = NULL;
    assert_true(strlen(issuer) < 127);
    for (size_t i = 0; issuer[i] != '\0'; i++) {
        der[2 + i] = (uint8_t)issuer[i];
    }
    assert_int_equal(ASN1_OCTET_STRING_set(value, der, (int)strlen(issuer) + 2), 1);
    extension = X509_EXTENSION_create_by_OBJ(NULL, oid, 0, value);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
    ASN1_OCTET_STRING_free(value);
    ASN1_OBJECT_free(oid);
}

static inline X509 *certificate_made(EVP_PKEY *key, const struct profile *profile, X509 *issuer, EVP_PKEY *issuer_key)
{
    static long serial;
    char san[300];
    X509 *made = X509_new();
    X509_NAME *name = X509_NAME_new();
    assert_int_equal(X509_set_version(made, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial), 1);
    if (profile->name != NULL) {
        assert_int_equal(
            X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)profile->name, -1, -1, 0), 1);
    }
    assert_int_equal(X509_set_subject_name(made, name), 1);
    assert_int_equal(X509_set_issuer_name(made, issuer != NULL ? X509_get_subject_name(issuer) : name), 1);
    X509_NAME_free(name);
    assert_non_null(ASN1_TIME_set(X509_getm_notBefore(made), (time_t)profile->from));
    assert_non_null(ASN1_TIME_set(X509_getm_notAfter(made), (time_t)profile->until));
    assert_int_equal(X509_set_pubkey(made, key), 1);
    extend(made, NID_basic_constraints, profile->authority ? "critical,CA:TRUE" : "CA:FALSE");
    extend(made, NID_key_usage, profile->authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature");
    if (profile->usage != NULL) {
        extend(made, NID_ext_key_usage, profile->usage);
    }
    if (profile->san != NULL) {
        (void)snprintf(san, sizeof(san), "critical,URI:%s", profile->san);
        extend(made, NID_subject_alt_name, san);
    }
    if (profile->issuer != NULL) {
        extend_issuer(made, profile->issuer);
    }
    assert_true(X509_sign(made, issuer_key != NULL ? issuer_key : key, EVP_sha256()) > 0);
    return made;
}

static inline struct span der_of(struct op *op, X509 *certificate)
{
    unsigned char *der = NULL;
    int len = i2d_X509(certificate, &der);
    return der_kept(op, der, len);
}

static inline struct party party_made(struct op *op, const struct profile *profile, const struct party *issuer)
{
    struct party party = { .key = key_made() };
    party.spki = spki_of(op, party.key);
    party.certificate = certificate_made(party.key, profile, issuer != NULL ? issuer->certificate : NULL,
                                         issuer != NULL ? issuer->key : NULL);
    party.der = der_of(op, party.certificate);
    return party;
}

static inline void party_clear(struct party *party)
{
    EVP_PKEY_free(TAKE(party->key));
    X509_free(TAKE(party->certificate));
}

/* The signer, with another certificate for the same key. */
static inline struct span leaf_again(struct world *world, const struct profile *profile, const struct party *issuer)
{
    X509 *made = certificate_made(world->leaf.key, profile, issuer->certificate, issuer->key);
    struct span der = der_of(world->op, made);
    X509_free(made);
    return der;
}

static const struct profile leaf_profile = {
    .from = LEAF_FROM, .until = LEAF_UNTIL, .usage = "codeSigning", .san = IDENTITY, .issuer = ISSUER
};
static const struct profile ca_profile = { .name = "test ca", .from = CA_FROM, .until = CA_UNTIL, .authority = true };

static inline struct world world_made(void)
{
    static const struct profile tsa_root = { .name = "tsa ca", .from = CA_FROM, .until = CA_UNTIL, .authority = true };
    static const struct profile tsa = {
        .name = "tsa", .from = CA_FROM, .until = CA_UNTIL, .usage = "critical,timeStamping"
    };
    struct world world = { 0 };
    struct sha256 digest;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 1 << 30, &world.op), NONE);
    world.ca = party_made(world.op, &ca_profile, NULL);
    world.leaf = party_made(world.op, &leaf_profile, &world.ca);
    world.tsa_root = party_made(world.op, &tsa_root, NULL);
    world.tsa = party_made(world.op, &tsa, &world.tsa_root);
    world.log = (struct party){ .key = key_made() };
    world.log.spki = spki_of(world.op, world.log.key);
    assert_fault(sha256_of(span_text(ARTIFACT), &digest), NONE);
    assert_fault(arena_copy(world.op->arena, SPAN_ARRAY(digest.at), &world.digest), NONE);
    world.signature = signed_text(world.op, world.leaf.key, span_text(ARTIFACT));
    return world;
}

static inline void world_clear(struct world *world)
{
    party_clear(&world->ca);
    party_clear(&world->leaf);
    party_clear(&world->tsa_root);
    party_clear(&world->tsa);
    party_clear(&world->log);
    op_free(TAKE(world->op));
}

/* ---- time stamps ---- */

static int64_t stamp_time;
static inline ASN1_INTEGER *stamp_serial(struct TS_resp_ctx *ctx, void *arg)
{
    ASN1_INTEGER *serial = ASN1_INTEGER_new();
    (void)ctx;
    (void)arg;
    assert_int_equal(ASN1_INTEGER_set(serial, 7), 1);
    return serial;
}
static inline int stamp_clock(struct TS_resp_ctx *ctx, void *arg, long *seconds, long *micros)
{
    (void)ctx;
    (void)arg;
    *seconds = (long)stamp_time;
    *micros = 0;
    return 1;
}

/* A TimeStampResp over `data` at `time`, by OpenSSL. */
static inline struct span stamp_made(struct world *world, struct span data, int64_t time)
{
    struct sha256 digest;
    struct span query;
    unsigned char *der = NULL;
    ASN1_OBJECT *policy = OBJ_txt2obj("1.2.3.4", 1);
    TS_RESP_CTX *ctx = TS_RESP_CTX_new();
    assert_fault(sha256_of(data, &digest), NONE);
    assert_fault(tst_request(world->op, "sha256", SPAN_ARRAY(digest.at), (struct span){ 0 }, &query), NONE);
    stamp_time = time;
    TS_RESP_CTX_set_serial_cb(ctx, stamp_serial, NULL);
    TS_RESP_CTX_set_time_cb(ctx, stamp_clock, NULL);
    assert_int_equal(TS_RESP_CTX_set_signer_cert(ctx, world->tsa.certificate), 1);
    assert_int_equal(TS_RESP_CTX_set_signer_key(ctx, world->tsa.key), 1);
    assert_int_equal(TS_RESP_CTX_set_signer_digest(ctx, EVP_sha256()), 1);
    assert_int_equal(TS_RESP_CTX_set_ess_cert_id_digest(ctx, EVP_sha256()), 1);
    assert_int_equal(TS_RESP_CTX_set_def_policy(ctx, policy), 1);
    assert_int_equal(TS_RESP_CTX_add_md(ctx, EVP_sha256()), 1);
    BIO *bio = BIO_new_mem_buf(query.at, (int)query.len);
    TS_RESP *response = TS_RESP_create_response(ctx, bio);
    assert_non_null(response);
    int len = i2d_TS_RESP(response, &der);
    TS_RESP_free(response);
    BIO_free(bio);
    TS_RESP_CTX_free(ctx);
    ASN1_OBJECT_free(policy);
    return der_kept(world->op, der, len);
}

/* ---- log entries ---- */

static inline const char *text64(struct op *op, struct span bytes)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(ROOM);
    const char *kept = NULL;
    assert_fault(base64_encode(bytes, &text), NONE);
    assert_fault(arena_text(op->arena, buf_span(&text), &kept), NONE);
    return kept;
}

static inline struct span pem_of(struct op *op, const char *label, struct span der)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;
    struct span kept;
    assert_true(PEM_write_bio(bio, label, "", der.at, (long)der.len) > 0);
    long len = BIO_get_mem_data(bio, &text);
    assert_fault(arena_copy(op->arena, span_of(text, (size_t)len), &kept), NONE);
    BIO_free(bio);
    return kept;
}

/* hashedrekord 0.0.1 by the certificate, or by the plain key when `certificate` is empty. */
static inline struct span entry_body(struct world *world, struct span certificate)
{
    char hex[65];
    const char *body = NULL;
    struct span verifier = certificate.len > 0 ? pem_of(world->op, "CERTIFICATE", certificate)
                                               : pem_of(world->op, "PUBLIC KEY", world->leaf.spki);
    hex_text(world->digest, hex, sizeof(hex));
    assert_fault(arena_printf(world->op->arena, &body,
                              "{\"apiVersion\":\"0.0.1\",\"kind\":\"hashedrekord\",\"spec\":{\"data\":{\"hash\":{"
                              "\"algorithm\":\"sha256\",\"value\":\"%s\"}},\"signature\":{\"content\":\"%s\","
                              "\"publicKey\":{\"content\":\"%s\"}}}}",
                              hex, text64(world->op, world->signature), text64(world->op, verifier)),
                 NONE);
    return span_text(body);
}

static inline struct span set_made(struct world *world, const struct tlog_entry *entry)
{
    char log_id[65];
    const char *text = NULL;
    hex_text(entry->log_id, log_id, sizeof(log_id));
    assert_fault(arena_printf(world->op->arena, &text,
                              "{\"body\":\"%s\",\"integratedTime\":%lld,\"logID\":\"%s\",\"logIndex\":%lld}",
                              text64(world->op, entry->body), (long long)entry->integrated_time, log_id,
                              (long long)entry->log_index),
                 NONE);
    return signed_text(world->op, world->log.key, span_text(text));
}

/* The only leaf of its tree: the root is its own hash, and there is no path. */
static inline void prove(struct world *world, struct tlog_entry *entry)
{
    uint8_t note_key[256];
    const char *text = NULL, *note = NULL;
    struct sha256 root, id;
    assert_fault(tlog_leaf_hash(entry->body, &root), NONE);
    assert_fault(arena_copy(world->op->arena, SPAN_ARRAY(root.at), &entry->root_hash), NONE);
    entry->tree_size = 1;
    assert_fault(arena_printf(world->op->arena, &text, "log.test - 7\n1\n%s\n", text64(world->op, entry->root_hash)),
                 NONE);
    struct span signature = signed_text(world->op, world->log.key, span_text(text));
    assert_fault(tlog_key_id(world->log.spki, &id), NONE);
    for (size_t i = 0; i < 4 + signature.len; i++) {
        note_key[i] = i < 4 ? id.at[i] : signature.at[i - 4];
    }
    assert_fault(arena_printf(world->op->arena, &note, "%s\n\u2014 log.test %s\n", text,
                              text64(world->op, span_of(note_key, 4 + signature.len))),
                 NONE);
    entry->checkpoint = note;
}

static inline struct tlog_entry entry_made(struct world *world, struct span certificate, int64_t time)
{
    struct sha256 id;
    struct tlog_entry entry = { .kind = "hashedrekord", .version = "0.0.1", .log_index = 41, .integrated_time = time };
    entry.body = entry_body(world, certificate);
    assert_fault(sha256_of(world->log.spki, &id), NONE);
    assert_fault(arena_copy(world->op->arena, SPAN_ARRAY(id.at), &entry.log_id), NONE);
    entry.set = set_made(world, &entry);
    prove(world, &entry);
    return entry;
}

/* ---- bundles and roots ---- */

static inline struct bundle bundle_of(struct world *world, struct span certificate)
{
    struct bundle bundle = { .hash = "sha256", .digest = world->digest, .signature = world->signature };
    if (certificate.len > 0) {
        bundle.chain = (struct chain){ .at = { certificate }, .count = 1 };
    }
    return bundle;
}

static inline struct bundle with_entry(struct world *world, struct span certificate, int64_t time)
{
    struct bundle bundle = bundle_of(world, certificate);
    bundle.entries[0] = entry_made(world, certificate, time);
    bundle.entry_count = 1;
    return bundle;
}

static inline struct bundle with_stamp(struct world *world, struct span certificate, int64_t time)
{
    struct bundle bundle = bundle_of(world, certificate);
    bundle.stamps[0] = stamp_made(world, world->signature, time);
    bundle.stamp_count = 1;
    return bundle;
}

static inline void root_of(const struct world *world, struct trusted_root *root)
{
    *root = (struct trusted_root){ .log_count = 1, .authority_count = 1, .stamper_count = 1 };
    root->logs[0] = (struct tlog_key){ .spki = world->log.spki };
    root->authorities[0] = (struct trusted_authority){ .chain = { .at = { world->ca.der }, .count = 1 } };
    root->stampers[0] =
        (struct trusted_authority){ .chain = { .at = { world->tsa.der, world->tsa_root.der }, .count = 2 } };
}

/* The same as a document that others read, too. */
static inline const char *root_json(const struct world *world)
{
    const char *text = NULL;
    struct sha256 id;
    assert_fault(sha256_of(world->log.spki, &id), NONE);
    assert_fault(
        arena_printf(world->op->arena, &text,
                     "{\"mediaType\":\"application/vnd.dev.sigstore.trustedroot+json;version=0.1\","
                     "\"tlogs\":[{\"baseUrl\":\"https://log.test\",\"hashAlgorithm\":\"SHA2_256\",\"publicKey\":{"
                     "\"rawBytes\":\"%s\",\"keyDetails\":\"PKIX_ECDSA_P256_SHA_256\",\"validFor\":{\"start\":"
                     "\"2025-01-01T00:00:00Z\",\"end\":\"2027-01-01T00:00:00.5Z\"}},\"logId\":{\"keyId\":\"%s\"}}],"
                     "\"certificateAuthorities\":[{\"subject\":{\"organization\":\"o\",\"commonName\":\"c\"},"
                     "\"uri\":\"https://ca.test\",\"certChain\":{\"certificates\":[{\"rawBytes\":\"%s\"}]},"
                     "\"validFor\":{\"start\":\"2025-01-01T00:00:00Z\"}}],"
                     "\"ctlogs\":[],"
                     "\"timestampAuthorities\":[{\"subject\":{\"organization\":\"o\",\"commonName\":\"t\"},"
                     "\"certChain\":{\"certificates\":[{\"rawBytes\":\"%s\"},{\"rawBytes\":\"%s\"}]},"
                     "\"validFor\":{\"start\":\"2025-01-01T00:00:00Z\"}}]}",
                     text64(world->op, world->log.spki), text64(world->op, SPAN_ARRAY(id.at)),
                     text64(world->op, world->ca.der), text64(world->op, world->tsa.der),
                     text64(world->op, world->tsa_root.der)),
        NONE);
    return text;
}

#endif
