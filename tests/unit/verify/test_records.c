/* Whole records altered by somebody whom the pinned key signed for: what refuses is the walk. */
#include "tests/unit/verify/signers.h"

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

static void assert_broken_as(struct sample *sample, enum fault_code want, int64_t sequence, const char *says)
{
    int64_t first = sample->first;
    struct audit_verdict verdict = refused_walk(sample, want);
    assert_int_equal(verdict.broken_sequence, sequence);
    assert_int_equal(verdict.checked, sequence - first);
    if (strstr(verdict.reason, says) == NULL) {
        fail_msg("expected '%s' in '%s'", says, verdict.reason);
    }
}

static void assert_broken_at(struct sample *sample, int64_t sequence, const char *says)
{
    assert_broken_as(sample, FAULT_CHAIN_BROKEN, sequence, says);
}

static void records_in_another_order_are_refused(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 4, &sample);
    sample_swap(&sample, 1, 2);
    assert_broken_as(&sample, FAULT_AUDIT_ORDER, 2, "reordered");
    sample_make(1, 4, &sample);
    sample_swap(&sample, 1, 2);
    sample_rechain(&sample);
    assert_broken_as(&sample, FAULT_AUDIT_ORDER, 2, "sequence 2 is expected and the record says 3");
}

static void a_record_that_was_dropped_is_missed(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 4, &sample);
    sample_drop(&sample, 1);
    assert_broken_as(&sample, FAULT_AUDIT_ORDER, 2, "dropped");
    sample_make(1, 4, &sample);
    sample_drop(&sample, 1);
    sample.count = 3;
    sample.last = 3;
    assert_broken_as(&sample, FAULT_AUDIT_ORDER, 2, "dropped");
    sample_make(1, 4, &sample);
    sample_drop(&sample, 1);
    sample.count = 3;
    sample.last = 3;
    sample_rechain(&sample);
    assert_broken_as(&sample, FAULT_AUDIT_ORDER, 2, "sequence 2 is expected and the record says 3");
}

static void the_first_record_cannot_be_dropped(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 3, &sample);
    sample_drop(&sample, 0);
    assert_broken_as(&sample, FAULT_AUDIT_ORDER, 1, "dropped");
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
    (void)refused_walk(&sample, FAULT_AUDIT_STATEMENT);
    sample_make(1, 3, &sample);
    sample.last = 4;
    (void)refused_walk(&sample, FAULT_AUDIT_STATEMENT);
    sample_make(1, 3, &sample);
    sample.count = sample.last = 4;
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
    (void)refused_walk(&sample, FAULT_AUDIT_STATEMENT);
    sample_make(1, 3, &sample);
    sample.first = -1;
    (void)refused_walk(&sample, FAULT_AUDIT_STATEMENT);
}

static void a_record_that_was_inserted_is_found(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 3, &sample);
    sample_insert(&sample, 1, 2);
    assert_broken_as(&sample, FAULT_AUDIT_REPEATED, 3, "once more");
    sample_make(1, 3, &sample);
    sample_insert(&sample, 1, 2);
    sample.count = sample.last = 4;
    sample_rechain(&sample);
    assert_broken_as(&sample, FAULT_AUDIT_REPEATED, 3, "sequence 3 is expected and the record says 2");
}

static void a_record_of_another_tenant_is_refused(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 3, &sample);
    sample_record("evil", 2, &sample.at[1].record);
    assert_broken_as(&sample, FAULT_AUDIT_TENANT, 2, "another tenant");
    sample_make(1, 3, &sample);
    sample_record("evil", 2, &sample.at[1].record);
    sample_rechain(&sample);
    assert_broken_as(&sample, FAULT_AUDIT_TENANT, 2, "another tenant");
    sample_make(1, 3, &sample);
    sample.tenant = "evil";
    assert_broken_as(&sample, FAULT_AUDIT_TENANT, 1, "another tenant");
    sample_make(1, 3, &sample);
    sample.tenant = "Acme";
    (void)refused_walk(&sample, FAULT_AUDIT_STATEMENT);
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
        { "\"schema_version\":1,\"sequence\":3,", "\"sequence\":3,\"schema_version\":1," },
        { "\"a\":[1,2.5,", "\"a\":[1,2.50," },
        { "b\xc3\xb6rge", "b\\u00f6rge" },
    };
    for (size_t i = 0; i < COUNT_OF(edits); i++) {
        struct sample sample;
        sample_make(2, 3, &sample); /* the second is sequence 3, by the subject beyond ASCII */
        sample_edit(&sample, edits[i][0], edits[i][1]);
        assert_broken_as(&sample, FAULT_AUDIT_ENCODING, 3, "not canonical");
        sample_make(2, 3, &sample);
        sample_edit(&sample, edits[i][0], edits[i][1]);
        sample_rechain(&sample);
        assert_broken_as(&sample, FAULT_AUDIT_ENCODING, 3, "not canonical");
    }
}

static void a_record_has_its_ten_members_and_no_other(void **state)
{
    (void)state;
    static const char *const edits[][2] = {
        { "\"lane\":\"codesign\",", "" },
        { "\"lane\":\"codesign\",", "\"lane\":\"codesign\",\"note\":\"x\"," },
        { "\"lane\":\"codesign\",", "\"lane\":1," },
        { "\"sequence\":2,", "\"sequence\":\"2\"," },
        { "\"schema_version\":1,", "\"schema_version\":0," },
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
    sample_edit(&sample, "\"lane\":\"codesign\",", "\"lane\":\"codesign\",\"lane\":\"codesign\",");
    sample_rechain(&sample);
    assert_broken_as(&sample, FAULT_AUDIT_ENCODING, 2, "not JSON");
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
    sample.format = "svc.audit.export.v2"; /* without its further members */
    (void)refused_walk(&sample, FAULT_AUDIT_STATEMENT);
    sample_make(1, 2, &sample);
    sample.format = "svc.audit.export.v3";
    (void)refused_walk(&sample, FAULT_AUDIT_STATEMENT);
}

static void an_export_of_nothing_states_nothing(void **state)
{
    (void)state;
    struct sample sample;
    sample_make(1, 0, &sample);
    sample.first = 5;
    sample.last = 9;
    (void)refused_walk(&sample, FAULT_AUDIT_STATEMENT);
    sample_make(1, 0, &sample);
    sample.head.at[0] = 1;
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
    sample_make(1, 0, &sample);
    sample.count = sample.first = sample.last = 1;
    (void)refused_walk(&sample, FAULT_CHAIN_HEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, signers_start, signers_end);
}
