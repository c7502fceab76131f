/* Sealed keys through a real svc-signer, in its sandbox: refusals, and what kill -9 and the journal make of signatures.
 */
#include "signer.h"

#include "fips/fence.h"

#define OPEN_FENCE "fips: {required: false}\nfeatures: {pqc: true}\n"

static struct fault makes(struct rig *rig, const struct key_ref *key, enum key_algorithm algorithm, struct buf *spki)
{
    CLEANUP(op_freep) struct op *op = op_within(60000);
    return signer_generate(op, rig->client, key, algorithm, spki);
}

static struct fault signs(struct rig *rig, const struct sign_request *request, struct buf *signature)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    return signer_sign(op, rig->client, request, signature);
}

static struct fault verifies(struct rig *rig, const struct sign_request *request, struct span spki,
                             struct span signature)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    return spki.len > 0 ? signer_verify_under(op, rig->client, request, spki, signature)
                        : signer_verify(op, rig->client, request, signature);
}

static struct fault shows(struct rig *rig, const struct key_ref *key, struct buf *spki)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    TRY(signer_public_key(op, rig->client, key, &algorithm, spki));
    assert_int_equal(algorithm, KEY_ALGORITHM_ML_DSA_65);
    return OK;
}

static struct fault destroys(struct rig *rig, const struct key_ref *key)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    return signer_destroy(op, rig->client, key);
}

#define BUF(name) CLEANUP(buf_free) struct buf name = BUF_INIT(1 << 16)

static void without_the_feature_a_signer_makes_and_judges_nothing(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    BUF(out);
    const uint8_t some[16] = { 0 };
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    struct sign_request request = request_for(key, KEY_ALGORITHM_ML_DSA_65);
    rig_new(&rig, "fips: {required: false}\n");
    rig_start(&rig);
    assert_fault(makes(&rig, &key, KEY_ALGORITHM_ML_DSA_65, &out), PQC_DISABLED);
    assert_fault(signs(&rig, &request, &out), PQC_DISABLED);
    assert_fault(verifies(&rig, &request, SPAN_ARRAY(some), SPAN_ARRAY(some)), PQC_DISABLED);
    assert_int_equal(out.len, 0);
}

static void where_fips_is_required_not_even_the_journal_gives_a_signature(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    BUF(spki);
    BUF(signature);
    BUF(none);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    rig_new(&rig, OPEN_FENCE);
    rig_start(&rig);
    assert_fault(makes(&rig, &key, KEY_ALGORITHM_ML_DSA_65, &spki), NONE);
    struct sign_request request = request_for(key, KEY_ALGORITHM_ML_DSA_65);
    assert_fault(uuid_new(&request.op_id), NONE);
    assert_fault(signs(&rig, &request, &signature), NONE);
    assert_int_equal(rig_end(&rig, SIGTERM), 0);

    rig_configure(&rig, "fips: {required: true}\nfeatures: {pqc: true}\n");
    rig_start(&rig);
    struct key_ref other = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(makes(&rig, &other, KEY_ALGORITHM_ML_DSA_65, &none), ALGORITHM_FENCED);
    assert_fault(signs(&rig, &request, &none), ALGORITHM_FENCED);
    assert_fault(shows(&rig, &key, &none), ALGORITHM_FENCED);
    assert_fault(verifies(&rig, &request, (struct span){ 0 }, buf_span(&signature)), ALGORITHM_FENCED);
    assert_fault(verifies(&rig, &request, buf_span(&spki), buf_span(&signature)), ALGORITHM_FENCED);
    assert_int_equal(none.len, 0);
    assert_fault(destroys(&rig, &key), NONE);
    assert_fault(destroys(&rig, &key), KEY_NOT_FOUND);
}

/* Whoever could ask the token to unseal with these keys would have the seeds. */
static void nobody_may_ask_for_the_keys_that_seal(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(op_freep) struct op *op = op_within(20000);
    BUF(out);
    BUF(spki);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN), sealing = key_new(KEY_PURPOSE_KEY_SEAL);
    rig_new(&rig, OPEN_FENCE);
    rig_start(&rig);
    assert_fault(makes(&rig, &key, KEY_ALGORITHM_ML_DSA_65, &spki), NONE);
    const struct span parts[] = { span_text("acme"), span_text("codesign"), span_text(key.id.text) };
    assert_fault(uuid_derive("svc-signer/key-seal", parts, COUNT_OF(parts), &sealing.id), NONE);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    assert_fault(signer_public_key(op, rig.client, &sealing, &algorithm, &out), SIGNER_REFUSED);
    assert_fault(signer_seal(op, rig.client, &sealing, span_text("a"), span_text("b"), &out), SIGNER_REFUSED);
    assert_fault(signer_unseal(op, rig.client, &sealing, span_text("a"), span_text("b"), &out), SIGNER_REFUSED);
    assert_fault(signer_generate(op, rig.client, &sealing, KEY_ALGORITHM_AES_256, &out), SIGNER_REFUSED);
    assert_fault(signer_destroy(op, rig.client, &sealing), SIGNER_REFUSED);
    assert_int_equal(out.len, 0);
    struct sign_request request = request_for(key, KEY_ALGORITHM_ML_DSA_65);
    assert_fault(signs(&rig, &request, &out), NONE);
}

static void other_purposes_schemes_and_a_second_key_of_the_place_are_refused(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    BUF(spki);
    BUF(out);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN), tsa = key_new(KEY_PURPOSE_TSA);
    struct key_ref ephemeral = key_new(KEY_PURPOSE_CODESIGN_EPHEMERAL);
    rig_new(&rig, OPEN_FENCE);
    rig_start(&rig);
    assert_fault(makes(&rig, &tsa, KEY_ALGORITHM_ML_DSA_65, &out), SIGNER_REFUSED);
    assert_fault(makes(&rig, &ephemeral, KEY_ALGORITHM_ML_DSA_65, &out), SIGNER_REFUSED);
    assert_fault(makes(&rig, &key, KEY_ALGORITHM_ML_DSA_65, &spki), NONE);
    assert_fault(makes(&rig, &key, KEY_ALGORITHM_ML_DSA_65, &out), KEY_EXISTS);
    assert_fault(makes(&rig, &key, KEY_ALGORITHM_EC_P256, &out), KEY_EXISTS);
    assert_fault(shows(&rig, &key, &out), NONE);
    assert_true(span_equal(buf_span(&out), buf_span(&spki)));
    buf_clear(&out);
    struct sign_request request = request_for(key, KEY_ALGORITHM_EC_P256); /* as ECDSA */
    assert_fault(signs(&rig, &request, &out), KEY_NOT_FOUND);
    struct sign_request foreign = request_for(tsa, KEY_ALGORITHM_ML_DSA_65);
    assert_fault(signs(&rig, &foreign, &out), SIGNER_REFUSED);
    assert_int_equal(out.len, 0);
}

static void under_one_id_kill_9_and_restart_give_the_same_bytes(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    BUF(spki);
    BUF(first);
    BUF(again);
    BUF(other);
    BUF(shown);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    rig_new(&rig, OPEN_FENCE);
    rig_start(&rig);
    assert_fault(makes(&rig, &key, KEY_ALGORITHM_ML_DSA_65, &spki), NONE);
    struct sign_request request = request_for(key, KEY_ALGORITHM_ML_DSA_65);
    assert_fault(uuid_new(&request.op_id), NONE);
    assert_fault(signs(&rig, &request, &first), NONE);
    assert_int_equal(first.len, ML_DSA_65_SIGNATURE_LEN);
    assert_int_equal(rig_end(&rig, SIGKILL), 128 + SIGKILL);

    rig_start(&rig);
    assert_fault(signs(&rig, &request, &again), NONE);
    assert_true(span_equal(buf_span(&first), buf_span(&again)));
    assert_fault(uuid_new(&request.op_id), NONE);
    assert_fault(signs(&rig, &request, &other), NONE); /* hedged: another id, other bytes */
    assert_false(span_equal(buf_span(&first), buf_span(&other)));
    assert_fault(shows(&rig, &key, &shown), NONE);
    assert_true(span_equal(buf_span(&shown), buf_span(&spki)));
    assert_fault(verifies(&rig, &request, (struct span){ 0 }, buf_span(&first)), NONE);
    assert_fault(verifies(&rig, &request, buf_span(&spki), buf_span(&other)), NONE);
    first.at[7] ^= 1;
    assert_fault(verifies(&rig, &request, (struct span){ 0 }, buf_span(&first)), SIGNATURE_INVALID);
    assert_fault(verifies(&rig, &request, buf_span(&spki), buf_span(&first)), SIGNATURE_INVALID);

    assert_fault(destroys(&rig, &key), NONE);
    assert_fault(uuid_new(&request.op_id), NONE);
    assert_fault(signs(&rig, &request, &other), KEY_NOT_FOUND);
    assert_fault(verifies(&rig, &request, buf_span(&spki), buf_span(&again)), NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_feature_a_signer_makes_and_judges_nothing),
        cmocka_unit_test(where_fips_is_required_not_even_the_journal_gives_a_signature),
        cmocka_unit_test(nobody_may_ask_for_the_keys_that_seal),
        cmocka_unit_test(other_purposes_schemes_and_a_second_key_of_the_place_are_refused),
        cmocka_unit_test(under_one_id_kill_9_and_restart_give_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
