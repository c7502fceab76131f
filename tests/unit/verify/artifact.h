/* Exports of every shape, made from a recipe that may spoil one thing: the same recipe gives the same bytes, always.
 * Keys and certificates are those of tests/audit/keys. */
#ifndef TESTS_VERIFY_ARTIFACT_H
#define TESTS_VERIFY_ARTIFACT_H

#include "tests/unit/verify/sample.h"

#include "appliance/base/der.h"
#include "appliance/base/file.h"

#include <openssl/cms.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <stdio.h>

#define KEYS         "tests/audit/keys/"
#define ARTIFACT_MAX ((size_t)4 << 20)
#define SECOND       US_PER_S
#define EXPORTED_AT  "2026-11-21T03:51:00.000000Z" /* the records are of 03:50:36 */

enum stamp {
    STAMPED,
    STAMP_NONE,
    STAMP_OTHER_HEAD,
    STAMP_FORMER,
    STAMP_LATE,
    STAMP_EARLY,
    STAMP_GARBAGE,
    STAMP_ALTERED
};
enum state {
    STATED,
    STATE_COUNT,
    STATE_MORE,
    STATE_HEAD,
    STATE_SEED,
    STATE_TREE,
    STATE_TENANT,
    STATE_SHAPE,
    STATE_GENERATION
};

struct recipe {
    const char *name; /* of the file, without its ending */
    enum audit_shape shape;
    int64_t first;     /* 0 = 1 */
    const char *order; /* which records stand where: "0123" */
    const char *other; /* record `other[0]` belongs to another tenant */
    int64_t fork;      /* another history: the record of this sequence is another one; 0 = none */
    bool first_format, rechain;
    const char *find, *put; /* in the text that is signed */
    enum state state;
    enum stamp stamp;
    bool stranger; /* the key that signs is not pinned, though it says that it is when `posing` */
    bool posing;
    const char *alg;                  /* that the header names */
    const char *at;                   /* exported_at */
    const char *swapped;              /* the trailer is of this order */
    const char *late_find, *late_put; /* in the finished bytes */
    size_t cut;                       /* bytes missing at the end */
    bool no_trailer;
    const char *append;

    /* ---- what the verifier has to say ---- */
    enum fault_code code;
    int64_t sequence, line;
    const char *says;
    bool without_keys, without_roots, unanchored_fine;
    int delay_hours;
};

static struct {
    EVP_PKEY *exporter, *stranger, *stamper;
    X509 *leaf, *former;
    char kid[44], stranger_kid[44];
    struct buf root, other_root;
    struct op *op;
    struct jwk_set pinned;
} made_by;

static inline struct span key_spki(EVP_PKEY *key, uint8_t room[256])
{
    uint8_t *at = room;
    int len = i2d_PUBKEY(key, &at);
    assert_true(len > 0 && len <= 256);
    return span_of(room, (size_t)len);
}

static inline EVP_PKEY *key_read(const char *path)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    assert_non_null(key);
    (void)fclose(file);
    return key;
}

static inline X509 *certificate_read(const char *path)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
    assert_non_null(certificate);
    (void)fclose(file);
    return certificate;
}

static inline int artifact_start(void **state)
{
    (void)state;
    uint8_t room[256];
    CLEANUP(buf_free) struct buf set = BUF_INIT(4096);
    assert_fault(audit_verify_op(ARTIFACT_MAX, &made_by.op), NONE);
    made_by.exporter = key_read(KEYS "exporter.key.pem");
    made_by.stranger = key_read(KEYS "stranger.key.pem");
    made_by.stamper = key_read(KEYS "tsa.key.pem");
    made_by.leaf = certificate_read(KEYS "tsa.pem");
    made_by.former = certificate_read(KEYS "tsa-former.pem");
    assert_fault(jwk_kid(key_spki(made_by.exporter, room), made_by.kid), NONE);
    assert_fault(jwk_kid(key_spki(made_by.stranger, room), made_by.stranger_kid), NONE);
    made_by.root = (struct buf)BUF_INIT(8192);
    made_by.other_root = (struct buf)BUF_INIT(8192);
    assert_fault(file_read(KEYS "tsa-root.pem", &made_by.root), NONE);
    assert_fault(file_read(KEYS "other-root.pem", &made_by.other_root), NONE);
    assert_fault(buf_text(&set, "{\"keys\":["), NONE);
    utc_us from = 0, to = 0;
    assert_fault(rfc3339_parse(span_text("2026-06-01T00:00:00Z"), &from), NONE);
    assert_fault(rfc3339_parse(span_text("2026-12-01T00:00:00Z"), &to), NONE);
    assert_fault(jwk_print_window(key_spki(made_by.exporter, room), from, to, &set), NONE);
    assert_fault(buf_text(&set, "]}"), NONE);
    assert_fault(jwk_set_parse(made_by.op, buf_span(&set), &made_by.pinned), NONE);
    return 0;
}

static inline int artifact_stop(void **state)
{
    (void)state;
    EVP_PKEY_free(made_by.exporter);
    EVP_PKEY_free(made_by.stranger);
    EVP_PKEY_free(made_by.stamper);
    X509_free(made_by.leaf);
    X509_free(made_by.former);
    buf_free(&made_by.root);
    buf_free(&made_by.other_root);
    jwk_set_free(&made_by.pinned);
    op_free(made_by.op);
    return 0;
}

/* ---- signatures without chance: RFC 6979 ---- */

static inline void without_chance(EVP_PKEY_CTX *options)
{
    unsigned type = 1;
    OSSL_PARAM params[] = { OSSL_PARAM_construct_uint("nonce-type", &type), OSSL_PARAM_construct_end() };
    assert_int_equal(EVP_PKEY_CTX_set_params(options, params), 1);
}

static inline void artifact_sign(const struct recipe *recipe, const char *typ, struct span payload, struct buf *out)
{
    char header[256];
    uint8_t der[128], raw[64];
    size_t len = sizeof(der);
    EVP_PKEY *key = recipe->stranger ? made_by.stranger : made_by.exporter;
    const char *kid = recipe->stranger && !recipe->posing ? made_by.stranger_kid : made_by.kid;
    (void)snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"%s\",\"typ\":\"%s\"}",
                   recipe->alg != NULL ? recipe->alg : "ES256", kid, typ);
    size_t from = out->len;
    assert_fault(base64url_encode(span_text(header), out), NONE);
    assert_fault(buf_text(out, "."), NONE);
    assert_fault(base64url_encode(payload, out), NONE);
    EVP_PKEY_CTX *options = NULL;
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestSignInit_ex(ctx, &options, "SHA256", NULL, NULL, key, NULL), 1);
    without_chance(options);
    assert_int_equal(EVP_DigestSign(ctx, der, &len, out->at + from, out->len - from), 1);
    const unsigned char *at = der;
    ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &at, (long)len);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_r(signature), raw, 32), 32);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_s(signature), raw + 32, 32), 32);
    ECDSA_SIG_free(signature);
    assert_fault(buf_text(out, "."), NONE);
    assert_fault(base64url_encode(SPAN_ARRAY(raw), out), NONE);
}

/* RFC 3161 2.4.2, accuracy one second. */
static inline struct span stamp_content(const struct sha256 *imprint, utc_us time, uint8_t *room, size_t size)
{
    char text[DER_TIME_MAX];
    struct der_writer w;
    struct span der;
    CLEANUP(buf_free) struct buf policy = BUF_INIT(64), sha = BUF_INIT(64);
    assert_fault(der_oid_parse("1.3.6.1.4.1.57264.2.1.1", &policy), NONE);
    assert_fault(der_oid_parse("2.16.840.1.101.3.4.2.1", &sha), NONE);
    der_time_print(time, 3, text);
    der_writer_init(&w, room, size);
    der_write_uint(&w, DER_INTEGER, 1);
    der_wrap(&w, DER_SEQUENCE, 0);
    der_write_element(&w, DER_GENERALIZED_TIME, span_text(text));
    der_write_uint(&w, DER_INTEGER, 77);
    size_t mark = der_mark(&w);
    der_write_element(&w, DER_OCTET_STRING, SPAN_ARRAY(imprint->at));
    size_t inner = der_mark(&w);
    der_write_element(&w, DER_OID, buf_span(&sha));
    der_wrap(&w, DER_SEQUENCE, inner);
    der_wrap(&w, DER_SEQUENCE, mark);
    der_write_element(&w, DER_OID, buf_span(&policy));
    der_write_uint(&w, DER_INTEGER, 1);
    der_wrap(&w, DER_SEQUENCE, 0);
    assert_fault(der_written(&w, &der), NONE);
    return der;
}

static inline void stamp_make(const struct sha256 *imprint, utc_us time, X509 *signer, struct buf *out)
{
    uint8_t room[256];
    struct span content = stamp_content(imprint, time, room, sizeof(room));
    unsigned flags = CMS_BINARY | CMS_PARTIAL;
    CMS_ContentInfo *cms = CMS_sign(NULL, NULL, NULL, NULL, flags);
    assert_non_null(cms);
    assert_int_equal(CMS_set1_eContentType(cms, OBJ_nid2obj(NID_id_smime_ct_TSTInfo)), 1);
    CMS_SignerInfo *info = CMS_add1_signer(cms, signer, made_by.stamper, EVP_sha256(),
                                           flags | CMS_CADES | CMS_NOSMIMECAP | CMS_NO_SIGNING_TIME | CMS_KEY_PARAM);
    assert_non_null(info);
    without_chance(CMS_SignerInfo_get0_pkey_ctx(info));
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(content.at, (int)content.len);
    assert_int_equal(CMS_final(cms, bio, NULL, CMS_BINARY), 1);
    unsigned char *der = NULL;
    int len = i2d_CMS_ContentInfo(cms, &der);
    assert_true(len > 0);
    assert_fault(buf_put(out, span_of(der, (size_t)len)), NONE);
    OPENSSL_free(der);
    CMS_ContentInfo_free(cms);
}

/* ---- the export ---- */

struct making {
    const struct recipe *recipe;
    struct buf records[SAMPLE_MAX], stamp, text;
    struct sha256 chains[SAMPLE_MAX];
    size_t count;
    struct audit_statement statement;
};

static inline void making_clear(struct making *making)
{
    for (size_t i = 0; i < SAMPLE_MAX; i++) {
        buf_free(&making->records[i]);
    }
    buf_free(&making->stamp);
    buf_free(&making->text);
}

static inline void tree_of(struct making *making)
{
    struct audit_frontier frontier = { 0 };
    CLEANUP(buf_free) struct buf record = { 0 };
    struct sha256 leaf;
    for (int64_t sequence = 1; sequence < making->statement.first_sequence; sequence++) {
        sample_record("acme", sequence, &record);
        assert_fault(audit_tree_leaf(buf_span(&record), &leaf), NONE);
        assert_fault(audit_frontier_add(&frontier, &leaf), NONE);
    }
    for (size_t i = 0; i < making->count; i++) {
        assert_fault(audit_tree_leaf(buf_span(&making->records[i]), &leaf), NONE);
        assert_fault(audit_frontier_add(&frontier, &leaf), NONE);
    }
    assert_fault(audit_frontier_root(&frontier, &making->statement.tree_root), NONE);
    making->statement.tree_size = making->statement.last_sequence;
}

static inline void record_of(const struct recipe *recipe, int64_t sequence, struct buf *record)
{
    sample_record("acme", sequence, record);
    if (sequence == recipe->fork) {
        record->at[((uint8_t *)memmem(record->at, record->len, "\\n\"", 3) - record->at) + 1] = 't';
    }
}

static inline void fork_sample(const struct recipe *recipe, struct sample *sample)
{
    CLEANUP(buf_free) struct buf before = { 0 };
    sample->seed = (struct sha256){ 0 };
    for (int64_t sequence = 1; sequence < sample->first; sequence++) {
        record_of(recipe, sequence, &before);
        assert_fault(audit_chain_next(&sample->seed, buf_span(&before), &sample->seed), NONE);
    }
    for (size_t i = 0; i < sample->entries; i++) {
        record_of(recipe, sample->first + (int64_t)i, &sample->at[i].record);
    }
    sample_rechain(sample);
}

/* The records as they were, then as the recipe has them. */
static inline void make_records(struct making *making, const char *order)
{
    const struct recipe *recipe = making->recipe;
    struct sample sample;
    struct sha256 chain;
    int64_t first = recipe->first > 0 ? recipe->first : 1;
    size_t count = 0;
    for (const char *at = order; *at != '\0'; at++) {
        count = (size_t)(*at - '0') >= count ? (size_t)(*at - '0') + 1 : count;
    }
    sample_make(first, count, &sample);
    if (recipe->fork > 0) {
        fork_sample(recipe, &sample);
    }
    if (recipe->other != NULL) {
        size_t i = (size_t)(recipe->other[0] - '0');
        sample_record("evil", first + (int64_t)i, &sample.at[i].record);
        sample_rechain(&sample);
    }
    making->count = strlen(order);
    chain = making->statement.seed = sample.seed;
    for (size_t i = 0; i < making->count; i++) {
        size_t from = (size_t)(order[i] - '0');
        making->records[i].max = AUDIT_RECORD_MAX;
        assert_fault(buf_put(&making->records[i], buf_span(&sample.at[from].record)), NONE);
        making->chains[i] = sample.at[from].chain;
        assert_fault(audit_chain_next(&chain, buf_span(&making->records[i]), &chain), NONE);
        making->chains[i] = recipe->rechain ? chain : making->chains[i];
    }
    making->statement.head = making->count > 0 ? making->chains[making->count - 1] : sample.seed;
    making->statement.count = (int64_t)making->count;
    making->statement.first_sequence = making->count > 0 ? first : 0;
    making->statement.last_sequence = making->count > 0 ? first + (int64_t)making->count - 1 : 0;
    sample_clear(&sample);
}

static inline void make_stamp(struct making *making)
{
    struct sha256 imprint = making->statement.head;
    enum stamp stamp = making->recipe->stamp;
    utc_us at = 1795233036123456 + 20 * SECOND;
    if (stamp == STAMP_NONE || making->recipe->first_format) {
        return;
    }
    imprint.at[0] ^= stamp == STAMP_OTHER_HEAD;
    at += stamp == STAMP_LATE ? 50 * 3600 * SECOND : stamp == STAMP_EARLY ? -60 * SECOND : 0;
    making->stamp.max = 65536;
    stamp_make(&imprint, at, stamp == STAMP_FORMER ? made_by.former : made_by.leaf, &making->stamp);
    if (stamp == STAMP_ALTERED) {
        making->stamp.at[making->stamp.len - 5] ^= 1; /* within the signature */
    }
    if (stamp == STAMP_GARBAGE) {
        buf_clear(&making->stamp);
        assert_fault(buf_text(&making->stamp, "no time stamp at all"), NONE);
    }
    making->statement.timestamp = buf_span(&making->stamp);
}

static inline void make_state(struct making *making)
{
    struct audit_statement *statement = &making->statement;
    enum state state = making->recipe->state;
    statement->count += state == STATE_COUNT || state == STATE_MORE;
    statement->last_sequence += state == STATE_MORE;
    statement->tree_size += state == STATE_MORE;
    statement->head.at[5] ^= state == STATE_HEAD;
    statement->seed.at[5] ^= state == STATE_SEED;
    statement->tree_root.at[5] ^= state == STATE_TREE;
    statement->generation += state == STATE_GENERATION;
    if (state == STATE_TENANT) {
        statement->tenant = (struct tenant_id){ "evil" };
    }
    if (state == STATE_SHAPE) {
        statement->shape = statement->shape == AUDIT_CSV ? AUDIT_CEF : AUDIT_CSV;
    }
}

static inline void buf_replace(struct buf *text, const char *find, const char *put)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ARTIFACT_MAX);
    const uint8_t *at = memmem(text->at, text->len, find, strlen(find));
    if (at == NULL) {
        fail_msg("'%s' is not in it: %.*s", find, (int)text->len, (const char *)text->at);
    }
    size_t before = (size_t)(at - text->at), behind = before + strlen(find);
    assert_fault(buf_put(&out, span_of(text->at, before)), NONE);
    assert_fault(buf_text(&out, put), NONE);
    assert_fault(buf_put(&out, span_of(text->at + behind, text->len - behind)), NONE);
    buf_clear(text);
    assert_fault(buf_put(text, buf_span(&out)), NONE);
}

static inline void make_body(struct making *making)
{
    const struct recipe *recipe = making->recipe;
    struct buf *text = &making->text;
    bool bundle = recipe->shape == AUDIT_JWS;
    text->max = ARTIFACT_MAX;
    if (bundle) {
        assert_fault(audit_statement_begin(&making->statement, text), NONE);
    } else {
        assert_fault(audit_shape_begin(recipe->shape, text), NONE);
    }
    for (size_t i = 0; i < making->count; i++) {
        struct span record = buf_span(&making->records[i]);
        if (!bundle) {
            assert_fault(audit_shape_record(made_by.op, recipe->shape, record, &making->chains[i], text), NONE);
            continue;
        }
        assert_fault(buf_text(text, i > 0 ? ",{\"chain\":\"" : "{\"chain\":\""), NONE);
        assert_fault(hex_encode(SPAN_ARRAY(making->chains[i].at), text), NONE);
        assert_fault(buf_text(text, "\",\"record\":"), NONE);
        assert_fault(buf_put(text, record), NONE);
        assert_fault(buf_text(text, "}"), NONE);
    }
    if (bundle) {
        assert_fault(audit_statement_end(&making->statement, text), NONE);
    }
    if (recipe->find != NULL) {
        buf_replace(text, recipe->find, recipe->put);
    }
}

static inline void make_text(struct making *making, const char *order)
{
    const struct recipe *recipe = making->recipe;
    struct audit_statement *statement = &making->statement;
    *statement =
        (struct audit_statement){ .shape = recipe->shape, .first_format = recipe->first_format, .generation = 1 };
    (void)snprintf(statement->tenant.text, sizeof(statement->tenant.text), "acme");
    (void)snprintf(statement->exported_at, sizeof(statement->exported_at), "%s",
                   recipe->at != NULL ? recipe->at : EXPORTED_AT);
    make_records(making, order);
    tree_of(making);
    make_state(making);
    make_stamp(making);
    make_body(making);
    assert_fault(sha256_of(buf_span(&making->text), &statement->stream_sha256), NONE);
}

static inline void put_trailer(const struct making *making, struct buf *out)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(ARTIFACT_MAX), compact = BUF_INIT(ARTIFACT_MAX);
    assert_fault(audit_statement_begin(&making->statement, &payload), NONE);
    assert_fault(audit_statement_end(&making->statement, &payload), NONE);
    artifact_sign(making->recipe, AUDIT_TRAILER_TYP, buf_span(&payload), &compact);
    assert_fault(audit_shape_trailer(making->recipe->shape, buf_span(&compact), out), NONE);
}

static inline void artifact_make(const struct recipe *recipe, struct buf *out)
{
    struct making making = { .recipe = recipe }, other = { .recipe = recipe };
    const char *order = recipe->order != NULL ? recipe->order : "0123";
    out->max = ARTIFACT_MAX;
    buf_clear(out);
    make_text(&making, order);
    if (recipe->shape == AUDIT_JWS) {
        artifact_sign(recipe, AUDIT_EXPORT_TYP, buf_span(&making.text), out);
    } else {
        assert_fault(buf_put(out, buf_span(&making.text)), NONE);
        if (recipe->swapped != NULL) {
            make_text(&other, recipe->swapped);
        }
        if (!recipe->no_trailer) {
            put_trailer(recipe->swapped != NULL ? &other : &making, out);
        }
    }
    if (recipe->late_find != NULL) {
        buf_replace(out, recipe->late_find, recipe->late_put);
    }
    out->len -= recipe->cut;
    assert_fault(buf_text(out, recipe->append != NULL ? recipe->append : ""), NONE);
    making_clear(&making);
    making_clear(&other);
}

/* The verifier's word on bytes, by what the recipe pins. */
static inline struct fault artifact_verify(const struct recipe *recipe, struct span bytes,
                                           struct audit_verdict *ret_verdict)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct audit_pins pins = {
        .keys = recipe->without_keys ? NULL : &made_by.pinned,
        .tsa_roots = recipe->without_roots ? (struct span){ 0 } : buf_span(&made_by.root),
        .unanchored_allowed = recipe->unanchored_fine,
        .max_anchor_delay_us = recipe->delay_hours * 3600 * SECOND,
    };
    struct audit_source source = audit_source_of(&bytes);
    assert_fault(audit_verify_op(0, &op), NONE);
    struct fault fault = audit_verify(op, &source, &pins, NULL, ret_verdict);
    ret_verdict->anchor_signer = NULL; /* it was the operation's */
    return fault;
}

#endif
