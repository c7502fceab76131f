#include "sample.h"

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

static void pin(struct signer *signer, const char *kid)
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

static void make_signer(struct signer *signer, const char *kid)
{
    signer->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    assert_non_null(signer->key);
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(signer->key, &der);
    assert_true(len > 0);
    signer->spki = BUF_INIT(4096);
    assert_fault(buf_put(&signer->spki, span_of(der, (size_t)len)), NONE);
    OPENSSL_free(der);
    pin(signer, kid);
}

static void free_signer(struct signer *signer)
{
    EVP_PKEY_free(signer->key);
    buf_free(&signer->spki);
    jwk_set_free(&signer->set);
}

static struct fault verify(struct span compact, const struct jwk_set *keys, struct audit_verdict *ret_verdict)
{
    CLEANUP(op_freep) struct op *op = NULL;
    *ret_verdict = (struct audit_verdict){ 0 };
    assert_fault(audit_verify_op(compact.len, &op), NONE);
    return audit_verify_jws(op, compact, keys, ret_verdict);
}

static struct fault walk(struct span payload, struct audit_verdict *ret_verdict)
{
    CLEANUP(op_freep) struct op *op = NULL;
    *ret_verdict = (struct audit_verdict){ 0 };
    assert_fault(audit_verify_op(payload.len, &op), NONE);
    return audit_verify_payload(op, payload, ret_verdict);
}

static void sign_as(const struct signer *signer, const char *typ, struct span payload, struct buf *compact)
{
    CLEANUP(op_freep) struct op *op = NULL;
    assert_fault(audit_verify_op(payload.len, &op), NONE);
    buf_clear(compact);
    assert_fault(jws_sign(op, signer->key, buf_span(&signer->spki), typ, payload, compact), NONE);
}

static void sample_sign(struct sample *sample, struct buf *compact)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    sample_print(sample, &payload);
    sign_as(&exporter, AUDIT_EXPORT_TYP, buf_span(&payload), compact);
}

/* Signed by the pinned key as it stands: what refuses is the walk. Frees the sample. */
static struct audit_verdict refused_walk(struct sample *sample, enum fault_code want)
{
    CLEANUP(buf_free) struct buf compact = BUF_INIT(2 * PAYLOAD_MAX);
    struct audit_verdict verdict;
    sample_sign(sample, &compact);
    struct fault fault = verify(buf_span(&compact), &exporter.set, &verdict);
    assert_string_equal(fault_row(fault.code)->text, fault_row(want)->text);
    assert_true(verdict.signature_good);
    assert_false(verdict.chain_good);
    assert_true(verdict.reason[0] != 0);
    sample_clear(sample);
    return verdict;
}

static void assert_broken_at(struct sample *sample, int64_t sequence, const char *says)
{
    int64_t first = sample->first;
    struct audit_verdict verdict = refused_walk(sample, FAULT_CHAIN_BROKEN);
    assert_int_equal(verdict.broken_sequence, sequence);
    assert_int_equal(verdict.checked, sequence - first);
    if (strstr(verdict.reason, says) == NULL) {
        fail_msg("expected '%s' in '%s'", says, verdict.reason);
    }
}

/* ---- single bytes ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* The character `steps` further in the alphabet; a dot becomes a letter. */
static uint8_t other_char(uint8_t c, size_t steps)
{
    const char *at = memchr(alphabet, c, 64);
    return (uint8_t)(at != NULL ? alphabet[((size_t)(at - alphabet) + steps) % 64] : 'A');
}

/* Where the altered payload text decodes first to something else; SIZE_MAX when it is no base64url. */
static size_t first_difference(struct span compact, struct span payload)
{
    const uint8_t *first = memchr(compact.at, '.', compact.len);
    const uint8_t *second = memrchr(compact.at, '.', compact.len);
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(PAYLOAD_MAX);
    if (FAULTED(base64url_decode(span_of(first + 1, (size_t)(second - first) - 1), &bytes)) ||
        bytes.len != payload.len) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.at[i] != payload.at[i]) {
            return i;
        }
    }
    fail_msg("two texts of one payload");
    return SIZE_MAX;
}

static void check_altered(const struct sample *sample, struct span payload, struct span compact, size_t place)
{
    const uint8_t *end = compact.at + compact.len;
    size_t header = (size_t)((const uint8_t *)memchr(compact.at, '.', compact.len) - compact.at);
    size_t signature = (size_t)(end - (const uint8_t *)memrchr(compact.at, '.', compact.len));
    struct audit_verdict verdict;
    struct fault fault = verify(compact, &exporter.set, &verdict);
    if (!FAULTED(fault) || verdict.signature_good || verdict.kid != NULL || verdict.reason[0] == 0) {
        fail_msg("byte %zu of %zu altered: %s, '%s'", place, compact.len, fault_row(fault.code)->text, verdict.reason);
    }
    if (place <= header || place + signature >= compact.len) {
        assert_int_equal(verdict.broken_sequence, 0); /* the records are as they were */
        return;
    }
    assert_false(verdict.chain_good && sample_sequence_at(sample, 0) != 0);
    size_t difference = first_difference(compact, payload);
    int64_t hit = difference != SIZE_MAX ? sample_sequence_at(sample, difference) : 0;
    if (hit != 0 && (verdict.broken_sequence != hit || verdict.checked != hit - sample->first || verdict.chain_good)) {
        fail_msg("byte %zu, of record %lld, altered: %lld is named: %s", place, (long long)hit,
                 (long long)verdict.broken_sequence, verdict.reason);
    }
}

static void every_byte_of_an_export_counts_and_its_record_is_named(void **state)
{
    (void)state;
    struct sample sample;
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    CLEANUP(buf_free) struct buf compact = BUF_INIT(PAYLOAD_MAX);
    sample_make(5, 3, &sample);
    sample_print(&sample, &payload);
    sign_as(&exporter, AUDIT_EXPORT_TYP, buf_span(&payload), &compact);
    for (size_t i = 0; i < compact.len; i++) {
        uint8_t kept = compact.at[i];
        uint8_t others[] = { kept ^ 1, other_char(kept, 1), other_char(kept, 16), other_char(kept, 32) };
        for (size_t j = 0; j < COUNT_OF(others); j++) {
            compact.at[i] = others[j];
            if (kept != '.' && others[j] != '.') {
                check_altered(&sample, buf_span(&payload), buf_span(&compact), i);
            } else {
                struct audit_verdict verdict;
                assert_fault(verify(buf_span(&compact), &exporter.set, &verdict), JWS_FORMAT);
            }
        }
        compact.at[i] = kept;
    }
    sample_clear(&sample);
}

/* Without any signature: the hour of the export is all that could be altered unseen. */
static void the_walk_alone_sees_every_byte_but_the_hour(void **state)
{
    (void)state;
    struct sample sample;
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    sample_make(5, 3, &sample);
    sample_print(&sample, &payload);
    const uint8_t *hour = memmem(payload.at, payload.len, "2026-11-21T03:50:36.123456Z", 27);
    for (size_t i = 0; i < payload.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct audit_verdict verdict;
            payload.at[i] ^= (uint8_t)(1U << bit);
            struct fault fault = walk(buf_span(&payload), &verdict);
            int64_t hit = sample_sequence_at(&sample, i);
            bool in_hour = payload.at + i >= hour && payload.at + i < hour + 27;
            if ((!FAULTED(fault) && !in_hour) || verdict.chain_good != !FAULTED(fault) ||
                (hit != 0 && verdict.broken_sequence != hit)) {
                fail_msg("byte %zu, bit %u, of record %lld: %lld, '%s'", i, bit, (long long)hit,
                         (long long)verdict.broken_sequence, verdict.reason);
            }
            payload.at[i] ^= (uint8_t)(1U << bit);
        }
    }
    sample_clear(&sample);
}

static void a_truncated_export_is_refused_at_every_length(void **state)
{
    (void)state;
    struct sample sample;
    struct audit_verdict verdict;
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    CLEANUP(buf_free) struct buf compact = BUF_INIT(PAYLOAD_MAX);
    sample_make(1, 3, &sample);
    sample_print(&sample, &payload);
    sign_as(&exporter, AUDIT_EXPORT_TYP, buf_span(&payload), &compact);
    for (size_t len = 0; len < compact.len; len++) {
        assert_true(FAULTED(verify(span_of(compact.at, len), &exporter.set, &verdict)));
        assert_false(verdict.signature_good);
    }
    for (size_t len = 0; len < payload.len; len++) {
        CLEANUP(buf_free) struct buf cut = BUF_INIT(PAYLOAD_MAX); /* of its own, so that a read behind it is seen */
        assert_fault(buf_put(&cut, span_of(payload.at, len)), NONE);
        assert_true(FAULTED(walk(buf_span(&cut), &verdict)));
        assert_false(verdict.chain_good);
    }
    sample_clear(&sample);
}

static void text_around_an_export_is_refused(void **state)
{
    (void)state;
    struct sample sample;
    struct audit_verdict verdict;
    CLEANUP(buf_free) struct buf compact = BUF_INIT(PAYLOAD_MAX);
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    sample_make(1, 2, &sample);
    sample_sign(&sample, &compact);
    assert_fault(buf_text(&compact, "\n"), NONE);
    assert_true(FAULTED(verify(buf_span(&compact), &exporter.set, &verdict)));
    sample_print(&sample, &payload);
    assert_fault(buf_text(&payload, " "), NONE);
    assert_fault(walk(buf_span(&payload), &verdict), JWS_FORMAT);
    sample_clear(&sample);
}

/* ---- whole records; the pinned key signed what stands there ---- */

static void records_in_another_order_are_refused(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 4, &sample);
    sample_swap(&sample, 1, 2);
    assert_broken_at(&sample, 2, "reordered");
    sample_make(1, 4, &sample);
    sample_swap(&sample, 1, 2);
    sample_rechain(&sample);
    assert_broken_at(&sample, 2, "sequence 2 is expected and the record says 3");
}

static void a_record_that_was_dropped_is_missed(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 4, &sample);
    sample_drop(&sample, 1);
    assert_broken_at(&sample, 2, "dropped");
    sample_make(1, 4, &sample);
    sample_drop(&sample, 1);
    sample.count = sample.last = 3;
    assert_broken_at(&sample, 2, "dropped");
    sample_make(1, 4, &sample);
    sample_drop(&sample, 1);
    sample.count = sample.last = 3;
    sample_rechain(&sample);
    assert_broken_at(&sample, 2, "sequence 2 is expected and the record says 3");
}

static void the_first_record_cannot_be_dropped(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 3, &sample);
    sample_drop(&sample, 0);
    assert_broken_at(&sample, 1, "does not hash");
    sample_make(1, 3, &sample);
    sample_drop(&sample, 0);
    sample.first = sample.count = 2;
    assert_broken_at(&sample, 2, "does not hash"); /* its seed is not the zero one */
}

static void the_last_record_cannot_be_dropped(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 3, &sample);
    sample_drop(&sample, 2);
    struct audit_verdict verdict = refused_walk(&sample, FAULT_CHAIN_HEAD);
    assert_int_equal(verdict.checked, 2);
    assert_non_null(strstr(verdict.reason, "2 records are here, 3 are stated"));
    sample_make(1, 3, &sample);
    sample_drop(&sample, 2);
    sample.count = sample.last = 2;
    verdict = refused_walk(&sample, FAULT_CHAIN_HEAD);
    assert_non_null(strstr(verdict.reason, "head"));
    sample_make(1, 3, &sample);
    sample_drop(&sample, 2);
    sample.head = sample.at[1].chain;
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
}

static void what_is_stated_must_be_what_is_there(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 3, &sample);
    sample.count = 4;
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
    sample_make(1, 3, &sample);
    sample.last = 4;
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
    sample_make(1, 3, &sample);
    sample.count = 2;
    sample.last = 2; /* a record behind the last one */
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
    sample_make(1, 3, &sample);
    sample.count = sample.first = sample.last = 0; /* "none", and three follow */
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
    sample_make(1, 3, &sample);
    sample.first = 0;
    (void)refused_walk(&sample, FAULT_JWS_FORMAT);
    sample_make(1, 3, &sample);
    sample.first = -1;
    (void)refused_walk(&sample, FAULT_JWS_FORMAT);
}

static void a_record_that_was_inserted_is_found(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 3, &sample);
    sample_insert(&sample, 1, 2);
    assert_broken_at(&sample, 3, "inserted");
    sample_make(1, 3, &sample);
    sample_insert(&sample, 1, 2);
    sample.count = sample.last = 4;
    sample_rechain(&sample);
    assert_broken_at(&sample, 3, "sequence 3 is expected and the record says 2");
}

static void a_record_of_another_tenant_is_refused(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 3, &sample);
    sample_record("evil", 2, &sample.at[1].record);
    assert_broken_at(&sample, 2, "does not hash");
    sample_make(1, 3, &sample);
    sample_record("evil", 2, &sample.at[1].record);
    sample_rechain(&sample);
    assert_broken_at(&sample, 2, "another tenant");
    sample_make(1, 3, &sample);
    sample.tenant = "evil";
    assert_broken_at(&sample, 1, "another tenant");
    sample_make(1, 3, &sample);
    sample.tenant = "Acme";
    (void)refused_walk(&sample, FAULT_JWS_FORMAT);
}

/* The second record with `old` replaced by `new`. */
static void sample_edit(struct sample *sample, const char *old, const char *new)
{
    char text[1024];
    struct buf *record = &sample->at[1].record;
    const uint8_t *at = memmem(record->at, record->len, old, strlen(old));
    assert_non_null(at);
    size_t before = (size_t)(at - record->at), behind = before + strlen(old);
    (void)snprintf(text, sizeof(text), "%.*s%s%.*s", (int)before, (const char *)record->at, new,
                   (int)(record->len - behind), (const char *)record->at + behind);
    sample_put(sample, 1, text);
}

static void the_same_meaning_in_other_bytes_is_refused(void **state)
{
    (void)state;
    static const char *const edits[][2] = {
        { "\"lane\":", "\"lane\": " },
        { "\"codesign\"", "\"c\\u006fdesign\"" },
        { "\"schema_version\":1,", "\"schema_version\":1.0," },
        { "\"schema_version\":1,\"sequence\":2,", "\"sequence\":2,\"schema_version\":1," },
        { "\"a\":[1,2.5,", "\"a\":[1,2.50," },
        { "b\xc3\xb6rge", "b\\u00f6rge" },
    };
    for (size_t i = 0; i < COUNT_OF(edits); i++) {
        struct sample sample;
        sample_make(2, 3, &sample); /* the second is sequence 3, by the subject beyond ASCII */
        bool plain = i != 3;
        sample_edit(&sample, plain ? edits[i][0] : "\"schema_version\":1,\"sequence\":3,",
                    plain ? edits[i][1] : "\"sequence\":3,\"schema_version\":1,");
        assert_broken_at(&sample, 3, "does not hash");
        sample_make(2, 3, &sample);
        sample_edit(&sample, plain ? edits[i][0] : "\"schema_version\":1,\"sequence\":3,",
                    plain ? edits[i][1] : "\"sequence\":3,\"schema_version\":1,");
        sample_rechain(&sample);
        assert_broken_at(&sample, 3, "not canonical");
    }
}

static void a_record_has_its_ten_members_and_no_other(void **state)
{
    (void)state;
    static const char *const edits[][2] = {
        { "\"lane\":\"codesign\",", "" },
        { "\"lane\":\"codesign\",", "\"lane\":\"codesign\",\"note\":\"x\"," },
        { "\"lane\":\"codesign\",", "\"lane\":\"codesign\",\"lane\":\"codesign\"," },
        { "\"lane\":\"codesign\",", "\"lane\":1," },
        { "\"sequence\":2,", "\"sequence\":\"2\"," },
        { "\"sequence\":2,", "" },
        { "\"tenant_id\":\"acme\",", "" },
        { "\"tenant_id\":\"acme\",", "\"tenant_id\":[\"acme\"]," },
    };
    for (size_t i = 0; i < COUNT_OF(edits); i++) {
        struct sample sample;
        sample_make(1, 3, &sample);
        sample_edit(&sample, edits[i][0], edits[i][1]);
        sample_rechain(&sample);
        assert_broken_at(&sample, 2, "record at sequence 2");
    }
    struct sample sample;
    sample_make(1, 3, &sample);
    sample_put(&sample, 1, "{}");
    sample_rechain(&sample);
    assert_broken_at(&sample, 2, "record at sequence 2");
    sample_make(1, 3, &sample);
    sample_put(&sample, 1, "2");
    sample_rechain(&sample);
    assert_broken_at(&sample, 2, "not well-formed");
}

static void sequence_1_has_the_zero_chain_before_it(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 3, &sample);
    sample.seed.at[31] = 1;
    sample_rechain(&sample);
    assert_broken_at(&sample, 1, "must be all zero");
}

static void a_range_stands_on_its_seed(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(4, 3, &sample);
    sample.seed.at[0] ^= 1;
    assert_broken_at(&sample, 4, "does not hash");
}

static void another_format_is_refused(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 2, &sample);
    sample.format = "svc.audit.export.v2";
    (void)refused_walk(&sample, FAULT_JWS_FORMAT);
}

static void an_export_of_nothing_states_nothing(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 0, &sample);
    sample.first = 5;
    sample.last = 9;
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
    sample_make(1, 0, &sample);
    sample.head.at[0] = 1;
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
    sample_make(1, 0, &sample);
    sample.count = sample.first = sample.last = 1;
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
}

/* ---- the signature ---- */

static void a_key_that_is_not_pinned_does_not_count(void **state)
{
    (void)state;
    struct sample sample;
    struct audit_verdict verdict;
    CLEANUP(buf_free) struct buf compact = BUF_INIT(PAYLOAD_MAX);
    sample_make(1, 3, &sample);
    sample_sign(&sample, &compact);
    assert_fault(verify(buf_span(&compact), &stranger.set, &verdict), JWS_KEY);
    assert_false(verdict.signature_good);
    assert_null(verdict.kid);
    assert_true(verdict.chain_good);
    assert_non_null(strstr(verdict.reason, "no pinned key"));
    assert_fault(verify(buf_span(&compact), &(struct jwk_set){ 0 }, &verdict), JWS_KEY);
    assert_fault(verify(buf_span(&compact), &impostor.set, &verdict), JWS_SIGNATURE);
    assert_false(verdict.signature_good);
    assert_true(verdict.chain_good);
    assert_non_null(strstr(verdict.reason, "signed by another key"));
    sample_clear(&sample);
}

static void another_algorithm_in_the_header_is_refused(void **state)
{
    (void)state;
    static const char *const algorithms[] = { "none", "None", "HS256", "ES384", "RS256", "PS256", "" };
    struct sample sample;
    CLEANUP(buf_free) struct buf compact = BUF_INIT(PAYLOAD_MAX);
    sample_make(1, 2, &sample);
    sample_sign(&sample, &compact);
    struct span rest = span_of(memchr(compact.at, '.', compact.len), 0);
    rest.len = (size_t)(compact.at + compact.len - rest.at);
    size_t unsigned_len = (size_t)((const uint8_t *)memrchr(rest.at, '.', rest.len) - rest.at) + 1;
    for (size_t i = 0; i < 2 * COUNT_OF(algorithms); i++) {
        struct audit_verdict verdict;
        char header[256];
        CLEANUP(buf_free) struct buf forged = BUF_INIT(PAYLOAD_MAX);
        (void)snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"%s\",\"typ\":\"" AUDIT_EXPORT_TYP "\"}",
                       algorithms[i / 2], exporter.set.at[0].kid);
        assert_fault(base64url_encode(span_text(header), &forged), NONE);
        assert_fault(buf_put(&forged, span_of(rest.at, i % 2 == 0 ? rest.len : unsigned_len)), NONE);
        assert_true(FAULTED(verify(buf_span(&forged), &exporter.set, &verdict)));
        assert_false(verdict.signature_good);
        assert_null(verdict.kid);
        assert_true(verdict.reason[0] != 0);
    }
    sample_clear(&sample);
}

static void a_signature_for_another_purpose_does_not_count(void **state)
{
    (void)state;
    static const char *const types[] = { "JWT", "svc-audit", "svc-audit+jws ", "SVC-AUDIT+JWS", "application/svc-audit+jws" };
    struct sample sample;
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    CLEANUP(buf_free) struct buf compact = BUF_INIT(PAYLOAD_MAX);
    sample_make(1, 2, &sample);
    sample_print(&sample, &payload);
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct audit_verdict verdict;
        sign_as(&exporter, types[i], buf_span(&payload), &compact);
        assert_fault(verify(buf_span(&compact), &exporter.set, &verdict), JWS_FORMAT);
        assert_false(verdict.signature_good);
        assert_true(verdict.reason[0] != 0);
    }
    sample_clear(&sample);
}

static void a_signature_over_something_else_is_no_export(void **state)
{
    (void)state;
    static const char *const payloads[] = { "", "{}", "[]", "{\"chain_head\":\"", "{\"records\":[],\"tenant_id\":\"acme\"}" };
    CLEANUP(buf_free) struct buf compact = BUF_INIT(PAYLOAD_MAX);
    for (size_t i = 0; i < COUNT_OF(payloads); i++) {
        struct audit_verdict verdict;
        sign_as(&exporter, AUDIT_EXPORT_TYP, span_text(payloads[i]), &compact);
        assert_fault(verify(buf_span(&compact), &exporter.set, &verdict), JWS_FORMAT);
        assert_true(verdict.signature_good);
        assert_false(verdict.chain_good);
    }
}

/* ---- what is good ---- */

static void assert_good(struct sample *sample)
{
    CLEANUP(buf_free) struct buf compact = BUF_INIT(4 * PAYLOAD_MAX);
    struct audit_verdict verdict;
    sample_sign(sample, &compact);
    assert_fault(verify(buf_span(&compact), &exporter.set, &verdict), NONE);
    assert_true(verdict.signature_good);
    assert_true(verdict.chain_good);
    assert_string_equal(verdict.kid, exporter.set.at[0].kid);
    assert_string_equal(verdict.tenant.text, "acme");
    assert_int_equal(verdict.first_sequence, sample->first);
    assert_int_equal(verdict.last_sequence, sample->last);
    assert_int_equal(verdict.count, sample->entries);
    assert_int_equal(verdict.checked, sample->entries);
    assert_int_equal(verdict.broken_sequence, 0);
    assert_memory_equal(verdict.head.at, sample->head.at, SHA256_LEN);
    assert_string_equal(verdict.exported_at, "2026-11-21T03:50:36.123456Z");
    assert_string_equal(verdict.reason, "");
    sample_clear(sample);
}

static void a_good_export_is_good(void **state)
{
    (void)state;
    for (size_t count = 1; count <= 6; count++) {
        struct sample sample;
        sample_make(1, count, &sample);
        assert_good(&sample);
    }
}

static void a_range_above_1_is_good_on_its_own(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(2, 1, &sample);
    assert_good(&sample);
    sample_make(7, 5, &sample);
    assert_good(&sample);
}

static void an_export_of_nothing_is_good(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 0, &sample);
    assert_good(&sample);
    sample_make(4, 0, &sample); /* behind the newest: the seed is the head */
    assert_good(&sample);
}

/* The largest event that the log takes, and its record. */
static void a_record_of_the_largest_event_is_good(void **state)
{
    (void)state;
    static char text[EVENT_MESSAGE_MAX];
    memset(text, 'x', sizeof(text) - 1);
    struct sample sample;
    sample_make(1, 3, &sample);
    CLEANUP(buf_free) struct buf record = BUF_INIT(AUDIT_RECORD_MAX);
    struct buf *small = &sample.at[1].record;
    const uint8_t *mark = memmem(small->at, small->len, "\"z\":\"", 5);
    size_t before = (size_t)(mark - small->at) + 5;
    assert_fault(buf_put(&record, span_of(small->at, before)), NONE);
    assert_fault(buf_text(&record, text), NONE);
    assert_fault(buf_put(&record, span_of(small->at + before, small->len - before)), NONE);
    buf_clear(small);
    assert_fault(buf_put(small, buf_span(&record)), NONE);
    sample_rechain(&sample);
    assert_good(&sample);
}

/* ---- want of memory is not an altered record ---- */

static struct span whole;

static struct fault walk_whole(void)
{
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(audit_verify_op(whole.len, &op));
    struct audit_verdict verdict = { 0 };
    return audit_verify_payload(op, whole, &verdict);
}

static struct fault verify_whole(void)
{
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(audit_verify_op(whole.len, &op));
    struct audit_verdict verdict = { 0 };
    return audit_verify_jws(op, whole, &exporter.set, &verdict);
}

static void want_of_memory_accuses_no_record(void **state)
{
    (void)state;
    struct sample sample;
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    CLEANUP(buf_free) struct buf compact = BUF_INIT(PAYLOAD_MAX);
    sample_make(1, 3, &sample);
    sample_print(&sample, &payload);
    whole = buf_span(&payload);
    assert_true(fail_each_allocation(walk_whole) > 0);
    sample_sign(&sample, &compact);
    whole = buf_span(&compact);
    assert_true(fail_each_allocation(verify_whole) > 0);
    sample_clear(&sample);
}

static int start(void **state)
{
    (void)state;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 600000, &set_op), NONE);
    make_signer(&exporter, NULL);
    make_signer(&stranger, NULL);
    make_signer(&impostor, exporter.set.at[0].kid);
    return 0;
}

static int end(void **state)
{
    (void)state;
    free_signer(&exporter);
    free_signer(&stranger);
    free_signer(&impostor);
    op_free(set_op);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_of_an_export_counts_and_its_record_is_named),
        cmocka_unit_test(the_walk_alone_sees_every_byte_but_the_hour),
        cmocka_unit_test(a_truncated_export_is_refused_at_every_length),
        cmocka_unit_test(text_around_an_export_is_refused),
        cmocka_unit_test(records_in_another_order_are_refused),
        cmocka_unit_test(a_record_that_was_dropped_is_missed),
        cmocka_unit_test(the_first_record_cannot_be_dropped),
        cmocka_unit_test(the_last_record_cannot_be_dropped),
        cmocka_unit_test(what_is_stated_must_be_what_is_there),
        cmocka_unit_test(a_record_that_was_inserted_is_found),
        cmocka_unit_test(a_record_of_another_tenant_is_refused),
        cmocka_unit_test(the_same_meaning_in_other_bytes_is_refused),
        cmocka_unit_test(a_record_has_its_ten_members_and_no_other),
        cmocka_unit_test(sequence_1_has_the_zero_chain_before_it),
        cmocka_unit_test(a_range_stands_on_its_seed),
        cmocka_unit_test(another_format_is_refused),
        cmocka_unit_test(an_export_of_nothing_states_nothing),
        cmocka_unit_test(a_key_that_is_not_pinned_does_not_count),
        cmocka_unit_test(another_algorithm_in_the_header_is_refused),
        cmocka_unit_test(a_signature_for_another_purpose_does_not_count),
        cmocka_unit_test(a_signature_over_something_else_is_no_export),
        cmocka_unit_test(a_good_export_is_good),
        cmocka_unit_test(a_range_above_1_is_good_on_its_own),
        cmocka_unit_test(an_export_of_nothing_is_good),
        cmocka_unit_test(a_record_of_the_largest_event_is_good),
        cmocka_unit_test(want_of_memory_accuses_no_record),
    };
    return cmocka_run_group_tests(tests, start, end);
}
