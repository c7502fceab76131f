#include "unit/server/testing.h"

#include "api/server/idempotency.h"

static const struct route mutation = { .name = "things.make", .flags = ROUTE_MUTATION };
static const struct route reading = { .name = "things.get", .flags = ROUTE_READ };
static const struct route preview = { .name = "things.preview", .flags = ROUTE_EFFECT_FREE };

static void a_mutation_without_a_key_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    assert_fault(idempotency_key_check(op, &mutation, NULL), IDEMPOTENCY_KEY_REQUIRED);
    assert_string_equal(op->note.pointer, "Idempotency-Key");
}

static void keys_that_are_not_visible_ascii_are_refused(void **state)
{
    (void)state;
    char longer[IDEMPOTENCY_KEY_MAX + 2];
    memset(longer, 'k', sizeof(longer));
    longer[sizeof(longer) - 1] = 0;
    const char *const bad[] = { "", " ", "a b", "a\tb", "a\x7f", "\xc3\xa4", "a\x01", longer };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        assert_fault(idempotency_key_check(op, &mutation, bad[i]), IDEMPOTENCY_KEY_MALFORMED);
    }
    CLEANUP(op_freep) struct op *op = test_op();
    longer[IDEMPOTENCY_KEY_MAX] = 0;
    assert_fault(idempotency_key_check(op, &mutation, longer), NONE);
    assert_fault(idempotency_key_check(op, &mutation, "!~0198c0de-0000"), NONE);
}

static void other_routes_need_no_key(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    assert_fault(idempotency_key_check(op, &reading, NULL), NONE);
    assert_fault(idempotency_key_check(op, &preview, NULL), NONE);
    assert_fault(idempotency_key_check(op, &preview, "not checked \x01"), NONE);
}

static struct idempotency_request sample(void)
{
    return (struct idempotency_request){ .key = "k1",
                                         .route = "things.make",
                                         .method = "POST",
                                         .path = "/api/v1/things",
                                         .query = NULL,
                                         .body = span_text("{\"a\":1}") };
}

static struct sha256 fingerprint(struct op *op, const struct idempotency_request *request)
{
    struct sha256 digest;
    assert_fault(idempotency_fingerprint(op, request, &digest), NONE);
    return digest;
}

static void the_fingerprint_is_bound_to_each_part(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct idempotency_request variants[6];
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        variants[i] = sample();
    }
    variants[1].method = "PUT";
    variants[2].path = "/api/v1/thing";
    variants[2].query = "s";
    variants[3].query = "x=1";
    variants[4].body = span_text("{\"a\":2}");
    variants[5].body = span_text("");
    struct sha256 digests[COUNT_OF(variants) + 1];
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        digests[i] = fingerprint(op, &variants[i]);
    }
    (void)strcpy(op->principal.subject, "mallory");
    digests[COUNT_OF(variants)] = fingerprint(op, &variants[0]);
    for (size_t i = 0; i < COUNT_OF(digests); i++) {
        for (size_t j = i + 1; j < COUNT_OF(digests); j++) {
            assert_memory_not_equal(digests[i].at, digests[j].at, SHA256_LEN);
        }
    }
}

static void the_fingerprint_does_not_depend_on_the_key_or_the_instance(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct idempotency_request one = sample();
    struct idempotency_request two = sample();
    two.key = "k2";
    assert_fault(uuid_new(&two.instance), NONE);
    struct sha256 a = fingerprint(op, &one);
    struct sha256 b = fingerprint(op, &two);
    assert_memory_equal(a.at, b.at, SHA256_LEN);
}

static struct uuid id_of(struct op *op, const struct idempotency_request *request)
{
    assert_fault(idempotency_command_id(op, request), NONE);
    return op->command_id;
}

static void the_command_id_is_the_same_for_a_retry_and_for_nothing_else(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct idempotency_request request = sample();
    struct uuid first = id_of(op, &request);
    assert_true(uuid_equal(first, id_of(op, &request)));
    struct idempotency_request other_key = sample();
    other_key.key = "k2";
    assert_false(uuid_equal(first, id_of(op, &other_key)));
    struct idempotency_request other_route = sample();
    other_route.route = "things.take";
    assert_false(uuid_equal(first, id_of(op, &other_route)));
    (void)strcpy(op->tenant.text, "other");
    assert_false(uuid_equal(first, id_of(op, &request)));
    (void)strcpy(op->tenant.text, "acme");
    (void)strcpy(op->principal.subject, "mallory");
    assert_false(uuid_equal(first, id_of(op, &request)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mutation_without_a_key_is_refused),
        cmocka_unit_test(keys_that_are_not_visible_ascii_are_refused),
        cmocka_unit_test(other_routes_need_no_key),
        cmocka_unit_test(the_fingerprint_is_bound_to_each_part),
        cmocka_unit_test(the_fingerprint_does_not_depend_on_the_key_or_the_instance),
        cmocka_unit_test(the_command_id_is_the_same_for_a_retry_and_for_nothing_else),
    };
    return cmocka_run_group_tests_name("idempotency", tests, NULL, NULL);
}
