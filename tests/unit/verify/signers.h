/* Keys that sign and pin exports, and the two ways into the verifier. */
#ifndef TESTS_VERIFY_SIGNERS_H
#define TESTS_VERIFY_SIGNERS_H

#include "tests/unit/verify/sample.h"

#include <openssl/evp.h>
#include <stdio.h>

#define PAYLOAD_MAX ((size_t)4 << 20)

struct signer {
    EVP_PKEY *key;
    struct buf spki;
    struct jwk_set set; /* of this key alone */
};
static struct signer exporter, stranger, impostor; /* the impostor's set names his key with the exporter's kid */
static struct op *set_op;

static inline void pin(struct signer *signer, const char *kid)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(4096);
    assert_fault(buf_text(&json, "{\"keys\":["), NONE);
    assert_fault(jwk_print(buf_span(&signer->spki), &json), NONE);
    assert_fault(buf_text(&json, "]}"), NONE);
    if (kid != NULL) {
        char own[44];
        assert_fault(jwk_kid(buf_span(&signer->spki), own), NONE);
        uint8_t *at = memmem(json.at, json.len, own, 43);
        assert_non_null(at);
        memcpy(at, kid, 43);
    }
    assert_fault(jwk_set_parse(set_op, buf_span(&json), &signer->set), NONE);
}

static inline void make_signer(struct signer *signer, const char *kid)
{
    signer->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    assert_non_null(signer->key);
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(signer->key, &der);
    assert_true(len > 0);
    signer->spki = (struct buf)BUF_INIT(4096);
    assert_fault(buf_put(&signer->spki, span_of(der, (size_t)len)), NONE);
    OPENSSL_free(der);
    pin(signer, kid);
}

static inline void free_signer(struct signer *signer)
{
    EVP_PKEY_free(signer->key);
    buf_free(&signer->spki);
    jwk_set_free(&signer->set);
}

static inline struct fault verify(struct span compact, const struct jwk_set *keys, struct audit_verdict *ret_verdict)
{
    CLEANUP(op_freep) struct op *op = NULL;
    *ret_verdict = (struct audit_verdict){ 0 };
    assert_fault(audit_verify_op(compact.len, &op), NONE);
    return audit_verify_jws(op, compact, keys, ret_verdict);
}

static inline struct fault walk(struct span payload, struct audit_verdict *ret_verdict)
{
    CLEANUP(op_freep) struct op *op = NULL;
    *ret_verdict = (struct audit_verdict){ 0 };
    assert_fault(audit_verify_op(payload.len, &op), NONE);
    return audit_verify_payload(op, payload, ret_verdict);
}

static inline void sign_as(const struct signer *signer, const char *typ, struct span payload, struct buf *compact)
{
    CLEANUP(op_freep) struct op *op = NULL;
    assert_fault(audit_verify_op(payload.len, &op), NONE);
    buf_clear(compact);
    assert_fault(jws_sign(op, signer->key, buf_span(&signer->spki), typ, payload, compact), NONE);
}

static inline void sample_sign(struct sample *sample, struct buf *compact)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    sample_print(sample, &payload);
    sign_as(&exporter, AUDIT_EXPORT_TYP, buf_span(&payload), compact);
}

static inline int signers_start(void **state)
{
    (void)state;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 600000, &set_op), NONE);
    make_signer(&exporter, NULL);
    make_signer(&stranger, NULL);
    make_signer(&impostor, exporter.set.at[0].kid);
    return 0;
}

static inline int signers_end(void **state)
{
    (void)state;
    free_signer(&exporter);
    free_signer(&stranger);
    free_signer(&impostor);
    op_free(set_op);
    return 0;
}

#endif
