/* Sealing with a token made of this file: signer_seal and signer_unseal wrap by exclusive-or and remember the context,
 * which is enough to see who is asked, how often, and what refuses to open. */
#include "testlib.h"

#include "api/keys/keys.h"
#include "api/keys/seal.h"

static unsigned seals, unseals, ensured;
static bool token_gone;
static struct op *op, *other;
static struct services services;

struct fault keys_ensure(struct op *who, struct services *with, enum key_purpose purpose, enum key_algorithm algorithm,
                         const char *name, struct managed_key *ret_key)
{
    (void)with;
    assert_int_equal(purpose, KEY_PURPOSE_SEAL);
    assert_int_equal(algorithm, KEY_ALGORITHM_AES_256);
    assert_string_equal(name, "seal");
    ensured++;
    *ret_key = (struct managed_key){
        .ref = { .tenant = who->tenant, .purpose = purpose, .id = { "01900000-0000-8000-8000-00000000005e" } }
    };
    return OK;
}

struct fault signer_seal(struct op *who, struct signer_client *client, const struct key_ref *key, struct span aad,
                         struct span plain, struct buf *sealed)
{
    (void)client, (void)who, (void)key;
    REQUIRE(!token_gone, SIGNER_UNAVAILABLE);
    seals++;
    for (size_t i = 0; i < plain.len; i++) {
        TRY(buf_u8(sealed, plain.at[i] ^ 0x5a));
    }
    return buf_put(sealed, aad);
}

struct fault signer_unseal(struct op *who, struct signer_client *client, const struct key_ref *key, struct span aad,
                           struct span sealed, struct buf *plain)
{
    (void)client, (void)who;
    REQUIRE(!token_gone, SIGNER_UNAVAILABLE);
    assert_int_equal(key->purpose, KEY_PURPOSE_SEAL);
    unseals++;
    REQUIRE(sealed.len == 32 + aad.len && memcmp(sealed.at + 32, aad.at, aad.len) == 0, UNSEAL);
    for (size_t i = 0; i < 32; i++) {
        TRY(buf_u8(plain, sealed.at[i] ^ 0x5a));
    }
    return OK;
}

static void sealed_by(struct op *who, struct buf *sealed)
{
    assert_fault(keys_seal(who, &services, span_text("context"), span_text("plain text"), sealed), NONE);
}

static struct fault open_as(struct op *who, const char *context, struct span sealed)
{
    CLEANUP(buf_free) struct buf plain = BUF_INIT(1024);
    struct fault fault = keys_unseal(who, &services, span_text(context), sealed, &plain);
    if (FAULTED(fault)) {
        assert_int_equal(plain.len, 0);
        return fault;
    }
    assert_span_text(buf_span(&plain), "plain text");
    return OK;
}

static void a_changed_byte_context_or_tenant_does_not_open(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf sealed = BUF_INIT(4096);
    sealed_by(op, &sealed);
    for (size_t i = 0; i < sealed.len; i++) {
        sealed.at[i] ^= 1;
        assert_fault(open_as(op, "context", buf_span(&sealed)), UNSEAL);
        sealed.at[i] ^= 1;
    }
    for (size_t len = 0; len < sealed.len; len++) {
        assert_fault(open_as(op, "context", span_of(sealed.at, len)), UNSEAL);
    }
    assert_fault(open_as(op, "contexT", buf_span(&sealed)), UNSEAL);
    assert_fault(open_as(op, "", buf_span(&sealed)), UNSEAL);
    assert_fault(open_as(other, "context", buf_span(&sealed)), UNSEAL);
    assert_fault(open_as(op, "context", buf_span(&sealed)), NONE);
}

static void without_the_token_nothing_new_opens_or_is_sealed(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf sealed = BUF_INIT(4096);
    sealed_by(op, &sealed);
    keys_seal_forget();
    token_gone = true;
    CLEANUP(buf_free) struct buf more = BUF_INIT(4096);
    assert_fault(open_as(op, "context", buf_span(&sealed)), SIGNER_UNAVAILABLE);
    assert_fault(keys_seal(op, &services, span_text("c"), span_text("p"), &more), SIGNER_UNAVAILABLE);
    token_gone = false;
    assert_fault(open_as(op, "context", buf_span(&sealed)), NONE);
}

static void empty_and_oversized_texts_are_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf sealed = BUF_INIT((size_t)1 << 20);
    CLEANUP(buf_free) struct buf big = BUF_INIT((size_t)1 << 20);
    uint8_t *at = NULL;
    assert_fault(buf_reserve(&big, ((size_t)256 << 10) + 1, &at), NONE);
    memset(at, 'x', big.len);
    assert_fault(keys_seal(op, &services, span_text("c"), span_of("", 0), &sealed), TOO_LARGE);
    assert_fault(keys_seal(op, &services, span_text("c"), buf_span(&big), &sealed), TOO_LARGE);
}

static void the_token_is_asked_once_for_many_commands(void **state)
{
    (void)state;
    keys_seal_forget();
    seals = unseals = ensured = 0;
    assert_fault(keys_seal_prepare(op, &services), NONE);
    for (int i = 0; i < 50; i++) {
        CLEANUP(buf_free) struct buf sealed = BUF_INIT(4096);
        sealed_by(op, &sealed);
        assert_fault(open_as(op, "context", buf_span(&sealed)), NONE);
    }
    assert_int_equal(seals, 1);
    assert_int_equal(ensured, 1);
    assert_int_equal(unseals, 0);
}

static void two_sealings_of_one_text_differ(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf one = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf two = BUF_INIT(4096);
    sealed_by(op, &one);
    sealed_by(op, &two);
    assert_int_equal(one.len, two.len);
    assert_false(span_equal(buf_span(&one), buf_span(&two)));
    assert_null(memmem(one.at, one.len, "plain", 5));
}

static void a_data_key_of_another_process_is_opened_once_and_never_seals(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf sealed = BUF_INIT(4096);
    sealed_by(op, &sealed);
    keys_seal_forget(); /* as if another process had sealed it */
    seals = unseals = 0;
    assert_fault(open_as(op, "context", buf_span(&sealed)), NONE);
    assert_fault(open_as(op, "context", buf_span(&sealed)), NONE);
    assert_int_equal(unseals, 1);
    CLEANUP(buf_free) struct buf mine = BUF_INIT(4096);
    sealed_by(op, &mine);
    assert_int_equal(seals, 1);
}

static int start(void **state)
{
    (void)state;
    return FAULTED(op_new("t", (struct tenant_id){ "acme" }, 60000, &op)) ||
                   FAULTED(op_new("t", (struct tenant_id){ "other" }, 60000, &other))
               ? -1
               : 0;
}

static int end(void **state)
{
    (void)state;
    keys_seal_forget();
    op_free(op);
    op_free(other);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_byte_context_or_tenant_does_not_open),
        cmocka_unit_test(without_the_token_nothing_new_opens_or_is_sealed),
        cmocka_unit_test(empty_and_oversized_texts_are_refused),
        cmocka_unit_test(the_token_is_asked_once_for_many_commands),
        cmocka_unit_test(two_sealings_of_one_text_differ),
        cmocka_unit_test(a_data_key_of_another_process_is_opened_once_and_never_seals),
    };
    return cmocka_run_group_tests_name("keys_seal", tests, start, end);
}
