/* Record streams byte by byte, in small pieces and in segments; two exports side by side. */
#include "tests/unit/verify/artifact.h"

static const enum audit_shape shapes[] = { AUDIT_JWS, AUDIT_NDJSON, AUDIT_CSV, AUDIT_CEF, AUDIT_OCSF };

/* The sequence of the line at this place; 0 for a header, a trailer, a bundle. */
static int64_t sequence_at(enum audit_shape shape, struct span bytes, size_t place)
{
    int64_t line = 1;
    for (size_t i = 0; i < place; i++) {
        line += bytes.at[i] == '\n';
    }
    int64_t sequence = shape == AUDIT_CSV ? line - 1 : line;
    return shape != AUDIT_JWS && sequence >= 1 && sequence <= 3 ? sequence : 0;
}

/* A line feed that was altered, or that came to be, is not of one line alone. */
static bool moves_lines(uint8_t was, uint8_t is)
{
    return was == '\n' || is == '\n' || was == '\r' || is == '\r';
}

static void every_byte_of_every_shape_counts(void **state)
{
    (void)state;
    static const uint8_t flips[] = { 0x01, 0x02, 0x20, 0x80 };
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        struct recipe recipe = { .shape = shapes[s], .order = "012", .stamp = STAMP_NONE, .unanchored_fine = true };
        CLEANUP(buf_free) struct buf bytes = { 0 };
        artifact_make(&recipe, &bytes);
        for (size_t i = 0; i < bytes.len; i++) {
            uint8_t flip = flips[i % COUNT_OF(flips)], was = bytes.at[i];
            struct audit_verdict verdict;
            int64_t sequence = sequence_at(shapes[s], buf_span(&bytes), i);
            bytes.at[i] ^= flip;
            struct fault fault = artifact_verify(&recipe, buf_span(&bytes), &verdict);
            /* where a stream begins is what its first record says, until the trailer is read */
            bool named = verdict.broken_sequence == sequence || (sequence == 1 && verdict.checked <= 1);
            if (!FAULTED(fault) || verdict.reason[0] == '\0' ||
                (sequence > 0 && !moves_lines(was, bytes.at[i]) && !named)) {
                fail_msg("%s, byte %zu (%c) of sequence %lld: %s, %lld: %s", audit_shape_name(shapes[s]), i, was,
                         (long long)sequence, fault_row(fault.code)->text, (long long)verdict.broken_sequence,
                         verdict.reason);
            }
            bytes.at[i] = was;
        }
    }
}

static void a_truncated_export_of_any_shape_is_refused_at_every_length(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        struct recipe recipe = { .shape = shapes[s], .order = "01", .stamp = STAMP_NONE, .unanchored_fine = true };
        CLEANUP(buf_free) struct buf bytes = { 0 };
        artifact_make(&recipe, &bytes);
        for (size_t len = 0; len < bytes.len; len++) {
            struct audit_verdict verdict;
            CLEANUP(buf_free)
            struct buf cut = BUF_INIT(ARTIFACT_MAX); /* of its own, so that a read behind it is seen */
            assert_fault(buf_put(&cut, span_of(bytes.at, len)), NONE);
            struct fault fault = artifact_verify(&recipe, buf_span(&cut), &verdict);
            bool told = fault.code == FAULT_AUDIT_TRUNCATED || len < 16 ||
                        (shapes[s] == AUDIT_JWS && len + 86 >= bytes.len) || (shapes[s] == AUDIT_CSV && len < 80);
            if (!FAULTED(fault) || !told) {
                fail_msg("%s, %zu of %zu bytes: %s", audit_shape_name(shapes[s]), len, bytes.len,
                         fault_row(fault.code)->text);
            }
        }
    }
}

/* ---- in small pieces ---- */

struct pieces {
    struct span left;
    size_t size;
};

static struct fault read_piece(void *context, uint8_t *at, size_t size, size_t *ret_len)
{
    struct pieces *pieces = context;
    size_t len = pieces->left.len < pieces->size ? pieces->left.len : pieces->size;
    len = len < size ? len : size;
    if (len > 0) {
        memcpy(at, pieces->left.at, len);
    }
    pieces->left = span_of(pieces->left.at + len, pieces->left.len - len);
    *ret_len = len;
    return OK;
}

static void however_the_bytes_come_the_verdict_is_the_same(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 2, 3, 5, 64, 1000 };
    for (size_t i = 0; i < COUNT_OF(shapes) * COUNT_OF(sizes); i++) {
        struct recipe recipe = { .shape = shapes[i % COUNT_OF(shapes)] };
        CLEANUP(op_freep) struct op *op = NULL;
        CLEANUP(buf_free) struct buf bytes = { 0 };
        struct audit_verdict verdict;
        artifact_make(&recipe, &bytes);
        assert_fault(audit_verify_op(0, &op), NONE);
        struct pieces pieces = { buf_span(&bytes), sizes[i / COUNT_OF(shapes)] };
        struct audit_source source = { .read = read_piece, .context = &pieces };
        struct audit_pins pins = { .keys = &made_by.pinned, .tsa_roots = buf_span(&made_by.root) };
        assert_fault(audit_verify(op, &source, &pins, NULL, &verdict), NONE);
        assert_int_equal(verdict.checked, 4);
        assert_int_equal(verdict.bytes, bytes.len);
        assert_true(verdict.tree_good && verdict.anchor_good && verdict.signature_good);
    }
}

/* ---- what pins are for ---- */

static void another_root_does_not_count(void **state)
{
    (void)state;
    struct recipe recipe = { .shape = AUDIT_NDJSON };
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf bytes = { 0 };
    struct audit_verdict verdict;
    artifact_make(&recipe, &bytes);
    assert_fault(audit_verify_op(0, &op), NONE);
    struct span left = buf_span(&bytes);
    struct audit_source source = audit_source_of(&left);
    struct audit_pins pins = { .keys = &made_by.pinned, .tsa_roots = buf_span(&made_by.other_root) };
    assert_fault(audit_verify(op, &source, &pins, NULL, &verdict), TST_INVALID);
    assert_false(verdict.anchor_good);
}

/* ---- segments ---- */

static struct fault add_segment(const struct recipe *recipe, struct audit_trail *trail, struct audit_verdict *verdict)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf bytes = { 0 };
    artifact_make(recipe, &bytes);
    assert_fault(audit_verify_op(0, &op), NONE);
    struct span left = buf_span(&bytes);
    struct audit_source source = audit_source_of(&left);
    struct audit_pins pins = { .keys = &made_by.pinned, .tsa_roots = buf_span(&made_by.root) };
    struct fault fault = audit_verify(op, &source, &pins, trail, verdict);
    verdict->anchor_signer = NULL;
    return fault;
}

static void segments_that_do_not_continue_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct recipe recipe;
        enum fault_code code;
        const char *says;
    } seconds[] = {
        { { .shape = AUDIT_NDJSON, .first = 4 },
          FAULT_AUDIT_SEGMENTS,
          "begins with sequence 4, the one before ended with 4" },
        { { .shape = AUDIT_JWS, .first = 6 }, FAULT_AUDIT_SEGMENTS, "begins with sequence 6" },
        { { .shape = AUDIT_CSV }, FAULT_AUDIT_SEGMENTS, "begins with sequence 1" },
        { { .shape = AUDIT_JWS, .first = 5, .state = STATE_SEED }, FAULT_AUDIT_SEGMENTS, "different histories" },
        { { .shape = AUDIT_OCSF, .first = 5, .state = STATE_SEED }, FAULT_AUDIT_SEGMENTS, "different histories" },
        { { .shape = AUDIT_CEF, .first = 5, .state = STATE_GENERATION },
          FAULT_AUDIT_SEGMENTS,
          "an erasure came between" },
        { { .shape = AUDIT_JWS, .first = 5, .state = STATE_TREE }, FAULT_AUDIT_TREE, "tree_root" },
    };
    for (size_t i = 0; i < COUNT_OF(seconds); i++) {
        struct recipe first = { .shape = AUDIT_CEF };
        struct audit_trail trail = { 0 };
        struct audit_verdict verdict;
        assert_fault(add_segment(&first, &trail, &verdict), NONE);
        struct fault fault = add_segment(&seconds[i].recipe, &trail, &verdict);
        if (fault.code != seconds[i].code || strstr(verdict.reason, seconds[i].says) == NULL || trail.segments != 1) {
            fail_msg("%zu: %s: %s", i, fault_row(fault.code)->text, verdict.reason);
        }
    }
}

static void segments_of_any_shape_continue_one_another(void **state)
{
    (void)state;
    struct audit_trail trail = { 0 };
    struct audit_verdict verdict;
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        struct recipe recipe = { .shape = shapes[s], .first = 1 + (int64_t)s * 4 };
        assert_fault(add_segment(&recipe, &trail, &verdict), NONE);
        assert_true(verdict.tree_good); /* from record 1 on, over all of them */
    }
    assert_int_equal(trail.segments, 5);
    assert_int_equal(trail.last_sequence, 20);
}

/* ---- side by side ---- */

struct compared {
    struct recipe a, b;
    enum audit_relation relation;
    int64_t parts_at, common_last;
    const char *says;
};

static void check_pair(const struct compared *row, bool turned)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf a = { 0 }, b = { 0 };
    artifact_make(turned ? &row->b : &row->a, &a);
    artifact_make(turned ? &row->a : &row->b, &b);
    assert_fault(audit_verify_op(0, &op), NONE);
    struct span left[2] = { buf_span(&a), buf_span(&b) };
    struct audit_source sources[2] = { audit_source_of(&left[0]), audit_source_of(&left[1]) };
    struct audit_pins pins = { .keys = &made_by.pinned, .tsa_roots = buf_span(&made_by.root) };
    struct audit_comparison comparison;
    int refused = -1;
    struct fault fault = audit_compare(op, sources, &pins, &comparison, &refused);
    if (FAULTED(fault) || refused != -1 || comparison.relation != row->relation ||
        comparison.parts_at != row->parts_at || comparison.common_last != row->common_last ||
        strstr(comparison.explanation, row->says) == NULL) {
        fail_msg("%s: %s, parts at %lld, common to %lld: %s; %s", fault_row(fault.code)->text,
                 audit_relation_name(comparison.relation), (long long)comparison.parts_at,
                 (long long)comparison.common_last, comparison.explanation,
                 comparison.verdicts[refused > 0 ? 1 : 0].reason);
    }
    if (comparison.relation == AUDIT_PARTS) {
        assert_memory_not_equal(comparison.chains[0].at, comparison.chains[1].at, SHA256_LEN);
    }
}

static void two_exports_are_compared(void **state)
{
    (void)state;
    static const struct compared rows[] = {
        { { .shape = AUDIT_NDJSON, .order = "0123" },
          { .shape = AUDIT_CSV, .order = "0123", .fork = 3 },
          AUDIT_PARTS,
          3,
          2,
          "agree up to sequence 2 and differ from 3 on" },
        { { .shape = AUDIT_JWS, .order = "01" },
          { .shape = AUDIT_CSV, .first = 3, .fork = 2 },
          AUDIT_PARTS,
          2,
          0,
          "may part before it" },
        { { .shape = AUDIT_JWS },
          { .shape = AUDIT_OCSF, .fork = 3, .state = STATE_GENERATION },
          AUDIT_PARTS,
          3,
          2,
          "an erasure that was recorded" },
        { { .shape = AUDIT_JWS },
          { .shape = AUDIT_CEF, .first = 2, .fork = 1 },
          AUDIT_PARTS,
          2,
          0,
          "the first that both have" },
        { { .shape = AUDIT_JWS }, { .shape = AUDIT_OCSF }, AUDIT_SAME, 0, 4, "the same records, 1 to 4" },
        { { .shape = AUDIT_JWS },
          { .shape = AUDIT_OCSF, .state = STATE_GENERATION },
          AUDIT_SAME,
          0,
          4,
          "no erasure touched" },
        { { .shape = AUDIT_JWS, .order = "01" }, { .shape = AUDIT_CEF }, AUDIT_EXTENDS, 0, 2, "goes on to 4" },
        { { .shape = AUDIT_JWS, .order = "0123" },
          { .shape = AUDIT_CEF, .first = 3 },
          AUDIT_EXTENDS,
          0,
          4,
          "begins earlier, with 1" },
        { { .shape = AUDIT_JWS }, { .shape = AUDIT_CSV, .first = 5 }, AUDIT_CONTINUES, 0, 0, "at sequence 5" },
        { { .shape = AUDIT_JWS },
          { .shape = AUDIT_CSV, .first = 7 },
          AUDIT_GAP,
          0,
          0,
          "sequences 5 to 6 are in neither" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        check_pair(&rows[i], false);
        check_pair(&rows[i], true);
    }
}

static void a_bad_export_is_compared_with_nothing(void **state)
{
    (void)state;
    struct compared row = { .a = { .shape = AUDIT_NDJSON }, .b = { .shape = AUDIT_CSV, .order = "0213" } };
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf a = { 0 }, b = { 0 };
    artifact_make(&row.a, &a);
    artifact_make(&row.b, &b);
    assert_fault(audit_verify_op(0, &op), NONE);
    struct span left[2] = { buf_span(&a), buf_span(&b) };
    struct audit_source sources[2] = { audit_source_of(&left[0]), audit_source_of(&left[1]) };
    struct audit_pins pins = { .keys = &made_by.pinned, .tsa_roots = buf_span(&made_by.root) };
    struct audit_comparison comparison;
    int refused = -1;
    assert_fault(audit_compare(op, sources, &pins, &comparison, &refused), AUDIT_ORDER);
    assert_int_equal(refused, 1);
    assert_int_equal(comparison.verdicts[1].broken_sequence, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_of_every_shape_counts),
        cmocka_unit_test(a_truncated_export_of_any_shape_is_refused_at_every_length),
        cmocka_unit_test(however_the_bytes_come_the_verdict_is_the_same),
        cmocka_unit_test(another_root_does_not_count),
        cmocka_unit_test(segments_that_do_not_continue_are_refused),
        cmocka_unit_test(segments_of_any_shape_continue_one_another),
        cmocka_unit_test(two_exports_are_compared),
        cmocka_unit_test(a_bad_export_is_compared_with_nothing),
    };
    return cmocka_run_group_tests(tests, artifact_start, artifact_stop);
}
