/* Single bytes, the signature, and what is good. Whole records: test_verify_records.c. */
#include "tests/unit/verify/signers.h"

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
                assert_true(FAULTED(verify(buf_span(&compact), &exporter.set, &verdict)));
                assert_false(verdict.signature_good);
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
    assert_fault(buf_text(&compact, "\n"), NONE); /* one line end, as text files have it */
    assert_fault(verify(buf_span(&compact), &exporter.set, &verdict), NONE);
    assert_fault(buf_text(&compact, "\n"), NONE);
    assert_fault(verify(buf_span(&compact), &exporter.set, &verdict), AUDIT_TRAILING);
    assert_false(verdict.signature_good);
    sample_print(&sample, &payload);
    assert_fault(buf_text(&payload, " "), NONE);
    assert_fault(walk(buf_span(&payload), &verdict), AUDIT_STATEMENT);
    sample_print(&sample, &payload);
    assert_fault(buf_text(&payload, "],\"tenant_id\":\"acme\"}"), NONE); /* its end once more */
    assert_fault(walk(buf_span(&payload), &verdict), AUDIT_STATEMENT);
    sample_clear(&sample);
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
    assert_non_null(strstr(verdict.reason, "not among the 1 pinned ones"));
    assert_fault(verify(buf_span(&compact), &(struct jwk_set){ 0 }, &verdict), JWS_KEY);
    assert_fault(verify(buf_span(&compact), &impostor.set, &verdict), JWS_SIGNATURE);
    assert_false(verdict.signature_good);
    assert_true(verdict.chain_good);
    assert_non_null(strstr(verdict.reason, "was not made by the pinned key"));
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
    static const char *const types[] = { "JWT", "svc-audit", "svc-audit+jws ", "SVC-AUDIT+JWS",
                                         "application/svc-audit+jws" };
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
    static const char *const payloads[] = { "", "{}", "[]", "{\"chain_head\":\"",
                                            "{\"records\":[],\"tenant_id\":\"acme\"}" };
    CLEANUP(buf_free) struct buf compact = BUF_INIT(PAYLOAD_MAX);
    for (size_t i = 0; i < COUNT_OF(payloads); i++) {
        struct audit_verdict verdict;
        sign_as(&exporter, AUDIT_EXPORT_TYP, span_text(payloads[i]), &compact);
        assert_fault(verify(buf_span(&compact), &exporter.set, &verdict), AUDIT_STATEMENT);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_of_an_export_counts_and_its_record_is_named),
        cmocka_unit_test(the_walk_alone_sees_every_byte_but_the_hour),
        cmocka_unit_test(a_truncated_export_is_refused_at_every_length),
        cmocka_unit_test(text_around_an_export_is_refused),
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
    return cmocka_run_group_tests(tests, signers_start, signers_end);
}
