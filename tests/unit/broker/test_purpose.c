#include "signer-pkcs11/broker/purpose.h"
#include "testlib.h"

#include <pwd.h>
#include <unistd.h>

/* The contract in the test's own words: what each purpose's keys are for, and for whom. */
static const struct {
    enum key_purpose purpose;
    unsigned who;
    bool seals;
} contract[] = {
    { KEY_PURPOSE_CODESIGN, ASKER_API, false },
    { KEY_PURPOSE_CODESIGN_EPHEMERAL, ASKER_API, false },
    { KEY_PURPOSE_TSA, ASKER_API, false },
    { KEY_PURPOSE_AUDIT_EXPORT, ASKER_API, false },
    { KEY_PURPOSE_ARCHIVE, ASKER_API, false },
    { KEY_PURPOSE_EVIDENCE_PACK, ASKER_API, false },
    { KEY_PURPOSE_BILLING_INVOICE, ASKER_API, false },
    { KEY_PURPOSE_CA, ASKER_API, false },
    { KEY_PURPOSE_OCSP, ASKER_API, false },
    { KEY_PURPOSE_CRL, ASKER_API, false },
    { KEY_PURPOSE_SSH_CA, ASKER_API, false },
    { KEY_PURPOSE_JWT, ASKER_API, false },
    { KEY_PURPOSE_SEAL, ASKER_API, true },
    { KEY_PURPOSE_POST, ASKER_SUP, false },
    { KEY_PURPOSE_KEY_SEAL, ASKER_NOBODY, true },
};

static struct fault asked(unsigned askers, enum wire_op op, enum key_purpose purpose, enum key_algorithm algorithm)
{
    struct wire_request request = { .id = 1, .op = op, .key = { .purpose = purpose }, .algorithm = algorithm };
    return purpose_check(NULL, askers, &request);
}

static bool op_fits(enum wire_op op, enum key_purpose purpose, enum key_algorithm algorithm, bool seals)
{
    switch (op) {
    case WIRE_SIGN:
    case WIRE_VERIFY:
        return !seals;
    case WIRE_SIGN_MANY:
        return purpose == KEY_PURPOSE_TSA;
    case WIRE_SEAL:
    case WIRE_UNSEAL:
        return seals;
    case WIRE_GENERATE_KEY:
        return (algorithm == KEY_ALGORITHM_AES_256) == seals;
    case WIRE_PUBLIC_KEY:
    case WIRE_DESTROY:
        return true;
    case WIRE_OP_NONE:
    case WIRE_HEALTH:
    case WIRE_OP_COUNT:
        break;
    }
    return false;
}

static void every_purpose_operation_algorithm_and_asker_is_decided_as_the_contract_says(void **state)
{
    (void)state;
    assert_int_equal(COUNT_OF(contract), KEY_PURPOSE_COUNT - 1);
    unsigned allowed = 0;
    for (size_t p = 0; p < COUNT_OF(contract); p++) {
        for (int op = WIRE_GENERATE_KEY; op < WIRE_OP_COUNT; op++) {
            for (int a = KEY_ALGORITHM_NONE + 1; a < KEY_ALGORITHM_COUNT; a++) {
                for (unsigned askers = 0; askers <= (ASKER_API | ASKER_SUP); askers++) {
                    bool fenced = op == WIRE_GENERATE_KEY && a == KEY_ALGORITHM_ML_DSA_65 &&
                                  contract[p].purpose != KEY_PURPOSE_CODESIGN;
                    bool fits =
                        op_fits((enum wire_op)op, contract[p].purpose, (enum key_algorithm)a, contract[p].seals) &&
                        (askers & contract[p].who) != 0 && !fenced;
                    struct fault fault = asked(askers, (enum wire_op)op, contract[p].purpose, (enum key_algorithm)a);
                    assert_int_equal(fault.code, fits ? FAULT_NONE : FAULT_SIGNER_REFUSED);
                    allowed += fits;
                }
            }
        }
    }
    assert_true(allowed > 0);
}

static void health_is_for_everybody_who_may_connect(void **state)
{
    (void)state;
    assert_fault(asked(0, WIRE_HEALTH, KEY_PURPOSE_NONE, KEY_ALGORITHM_NONE), SIGNER_REFUSED);
    assert_fault(asked(ASKER_SUP, WIRE_HEALTH, KEY_PURPOSE_NONE, KEY_ALGORITHM_NONE), NONE);
    assert_fault(asked(ASKER_API, WIRE_HEALTH, KEY_PURPOSE_NONE, KEY_ALGORITHM_NONE), NONE);
}

static void a_refusal_says_which_purpose(void **state)
{
    (void)state;
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ "" }, 1000, &op), NONE);
    struct wire_request request = { .id = 1, .op = WIRE_SIGN, .key = { .purpose = KEY_PURPOSE_SEAL } };
    assert_fault(purpose_check(op, ASKER_API, &request), SIGNER_REFUSED);
    assert_string_equal(op->note.detail, "keys of purpose seal do not sign");
    op_free(op);
}

static void a_uid_is_what_the_machine_says_and_strangers_are_nobody(void **state)
{
    (void)state;
    const struct askers appliance = { .api = 643, .has_api = true, .own = 642, .own_is_all = false };
    assert_int_equal(askers_of(&appliance, 0), ASKER_SUP);
    assert_int_equal(askers_of(&appliance, 643), ASKER_API);
    assert_int_equal(askers_of(&appliance, 642), 0);
    assert_int_equal(askers_of(&appliance, 1000), 0);
    assert_int_equal(askers_of(&appliance, (uid_t)-1), 0);
    const struct askers no_api = { .api = 0, .has_api = false, .own = 642 };
    assert_int_equal(askers_of(&no_api, 0), ASKER_SUP);
    const struct askers bench = { .api = 643, .has_api = true, .own = 1000, .own_is_all = true };
    assert_int_equal(askers_of(&bench, 1000), ASKER_API | ASKER_SUP);
    assert_int_equal(askers_of(&bench, 1001), 0);
}

static void our_own_uid_is_everybody_only_when_it_is_not_the_signers(void **state)
{
    (void)state;
    struct askers askers;
    askers_look_up(&askers);
    const struct passwd *signer = getpwnam("svc-signer");
    assert_int_equal(askers.own, geteuid());
    assert_int_equal(askers.own_is_all, signer == NULL || signer->pw_uid != geteuid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_purpose_operation_algorithm_and_asker_is_decided_as_the_contract_says),
        cmocka_unit_test(health_is_for_everybody_who_may_connect),
        cmocka_unit_test(a_refusal_says_which_purpose),
        cmocka_unit_test(a_uid_is_what_the_machine_says_and_strangers_are_nobody),
        cmocka_unit_test(our_own_uid_is_everybody_only_when_it_is_not_the_signers),
    };
    return cmocka_run_group_tests_name("purpose", tests, NULL, NULL);
}
