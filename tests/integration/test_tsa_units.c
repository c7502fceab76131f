/*
 * Time-stamping units over several instances: real log and read model, a signer of this process. An instance here is
 * what an instance has of its own: its view of the units, its serial numbers, its clock. Run by with-stores.
 */
#include "api/tsa/internal.h"
#include "api/tsa/tsa.h"
#include "api/tsa/units.h"
#include "api/tsa/verify.h"
#include "fips/fips.h"
#include "signer-pkcs11/provider/provider.h"

#define FLOW_FEATURE_LIST &identity_feature, &keys_feature, &tsa_feature
#include "integration/flow_testlib.h"

#include "appliance/base/file.h"

#include <unistd.h>

#define INSTANCES 2

static struct services instances[INSTANCES];
static char tenants_file[64];

static struct op *op_in(const char *tenant_text)
{
    struct op *op = NULL;
    assert_ok(op_new("test", tenant(tenant_text), 60000, &op));
    return op;
}

static void *start_one(void *arg)
{
    struct op *op = NULL;
    BUG_IF(FAULTED(op_new("system:start", tenant("default"), 60000, &op)));
    struct fault fault = tsa_start(op, arg);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%s: %s\n", fault_row(fault.code)->text, op->note.detail);
    }
    BUG_IF(FAULTED(fault));
    op_free(op);
    return NULL;
}

/* All at the same time, as replicas do after an update. */
static void start_instances(void)
{
    pthread_t threads[INSTANCES];
    for (int i = 0; i < INSTANCES; i++) {
        instances[i] = flow_services;
        assert_ok(uuid_new(&instances[i].instance));
        BUG_IF(pthread_create(&threads[i], NULL, start_one, &instances[i]) != 0);
    }
    for (int i = 0; i < INSTANCES; i++) {
        BUG_IF(pthread_join(threads[i], NULL) != 0);
    }
}

static void stop_instances(void)
{
    for (int i = 0; i < INSTANCES; i++) {
        tsa_stop(&instances[i]);
    }
}

struct stamped {
    bool granted;
    uint64_t serial;
    char unit[40], why[256];
};

/* By the instance's authority of that tenant. */
static struct stamped stamp(int instance, const char *tenant_text)
{
    CLEANUP(op_freep) struct op *op = op_in(tenant_text);
    static const uint8_t digest[32] = { 1, 2, 3 };
    struct stamped made = { 0 };
    struct span request, reply;
    struct tst_info info;
    struct tsa *tsa = tsa_of_tenant(&instances[instance], tenant(tenant_text));
    assert_non_null(tsa);
    assert_ok(tst_request(op, "sha256", SPAN_ARRAY(digest), (struct span){ 0 }, &request));
    struct tsa_snapshot *held = tsa_current_take(&tsa->current);
    (void)snprintf(made.unit, sizeof(made.unit), "%s", held->unit != NULL ? held->unit->ref.id.text : "");
    tsa_current_give(&tsa->current, held);
    assert_ok(tsa_answer(op, &instances[instance], tsa, request, &reply));
    made.granted = !FAULTED(tst_inspect(op, reply, &info));
    if (made.granted) {
        made.serial = strtoull(info.serial, NULL, 16);
    } else {
        (void)snprintf(made.why, sizeof(made.why), "%s", op->note.detail);
    }
    return made;
}

static void read_units(struct op *op, struct units *units)
{
    assert_ok(units_read(op, &instances[0], units));
}

static size_t count_in(const struct units *units, enum unit_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < units->count; i++) {
        count += units->at[i].state == state;
    }
    return count;
}

static const struct tsa_settings *settings_of(int instance)
{
    return &instances[instance].tsa->settings;
}

static void instances_that_start_together_make_one_unit(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_in("default");
    struct units units;
    start_instances();
    read_units(op, &units);
    assert_int_equal(units.count, 1);
    assert_int_equal(units.at[0].state, UNIT_ACTIVE);
    struct stamped one = stamp(0, "default"), other = stamp(1, "default");
    assert_true(one.granted && other.granted);
    assert_string_equal(one.unit, other.unit);
    assert_string_equal(one.unit, units.at[0].id.text);
    stop_instances();
}

static void *prepare_one(void *arg)
{
    struct op *op = NULL;
    struct services *services = arg;
    BUG_IF(FAULTED(op_new("test", tenant("default"), 60000, &op)));
    struct fault fault = unit_prepare(op, services, &services->tsa->settings);
    BUG_IF(FAULTED(fault) && fault.code != FAULT_TSA_UNIT_STATE);
    op_free(op);
    return NULL;
}

static void of_two_that_prepare_at_once_one_wins(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_in("default");
    pthread_t threads[INSTANCES];
    struct units before, after;
    start_instances();
    read_units(op, &before);
    for (int i = 0; i < INSTANCES; i++) {
        BUG_IF(pthread_create(&threads[i], NULL, prepare_one, &instances[i]) != 0);
    }
    for (int i = 0; i < INSTANCES; i++) {
        BUG_IF(pthread_join(threads[i], NULL) != 0);
    }
    read_units(op, &after);
    assert_int_equal(after.count, before.count + 1);
    assert_int_equal(count_in(&after, UNIT_PREPARED), 1);
    stop_instances();
}

/* What waits since the test before is certified, takes over on one instance, and the other follows. */
static void another_instance_follows_a_change_of_unit(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_in("default");
    struct units units;
    start_instances();
    struct stamped before = stamp(1, "default");
    assert_ok(units_keep(op, &instances[0], settings_of(0), true));
    read_units(op, &units);
    const struct unit *waiting = units_waiting(&units);
    assert_non_null(waiting);
    assert_int_equal(waiting->state, UNIT_CERTIFIED);
    assert_ok(unit_activate(op, &instances[0], waiting->id));
    assert_string_equal(stamp(1, "default").unit, before.unit); /* it has not looked yet, and its key is still there */
    assert_true(stamp(1, "default").granted);
    assert_ok(tsa_follow_all(op, &instances[1]));
    struct stamped after = stamp(1, "default");
    assert_true(after.granted);
    assert_string_equal(after.unit, waiting->id.text);
    assert_int_equal(unit_activate(op, &instances[1], waiting->id).code, FAULT_TSA_UNIT_STATE);

    struct tsa_chain *chains = NULL;
    size_t count = 0;
    assert_ok(tsa_history(op, &instances[1], &chains, &count));
    assert_int_equal(count, 2);
    assert_true(span_equal(chains[0].leaf, waiting->chain[0]));
    stop_instances();
}

static void serials_are_never_given_twice_over_instances_and_starts(void **state)
{
    (void)state;
    enum { EACH = 5, STARTS = 3 };
    uint64_t taken[EACH * STARTS * INSTANCES];
    size_t count = 0;
    for (int start = 0; start < STARTS; start++) {
        start_instances();
        for (int i = 0; i < EACH * INSTANCES; i++) {
            struct stamped made = stamp(i % INSTANCES, "default");
            assert_true(made.granted);
            for (size_t j = 0; j < count; j++) {
                assert_true(taken[j] != made.serial);
            }
            taken[count++] = made.serial;
        }
        stop_instances();
    }
    for (size_t i = INSTANCES; i < count; i++) {
        bool same_instance_and_start = i % (EACH * INSTANCES) >= INSTANCES;
        assert_true(!same_instance_and_start || taken[i] > taken[i - INSTANCES]);
    }
}

static void issued_far_ahead(const char *tenant_text)
{
    CLEANUP(op_freep) struct op *op = op_in(tenant_text);
    char data[128], text[RFC3339_MAX];
    uint64_t sequence = 0;
    rfc3339_print(clock_utc() + 3600 * US_PER_S, text);
    (void)snprintf(data, sizeof(data), "{\"gen_time\":\"%s\",\"key_id\":\"0190a6b2-0001-7000-8000-00000000abcd\"}",
                   text);
    struct event event = { "tsa.timestamp.issued", 1, span_text(data) };
    struct event_append append = { .lane = "tsa", .events = &event, .count = 1 };
    assert_ok(events_append(op, flow_services.log, &append, &sequence));
    assert_ok(projector_wait(op, flow_services.projector, sequence));
}

/* One whose log says that it stamped with a time far ahead has to wait, and nobody else does. */
static void a_wrong_mark_holds_its_own_tenant_alone(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_in("default");
    assert_ok(identity_tenant_ensure(op, &flow_services, tenant("acme")));
    assert_ok(identity_tenant_ensure(op, &flow_services, tenant("beta")));
    issued_far_ahead("acme");
    start_instances();
    assert_ok(tsa_keep_all(op, &instances[0]));
    struct stamped acme = stamp(0, "acme");
    assert_false(acme.granted);
    assert_non_null(strstr(acme.why, clock_reason_says(CLOCK_BEHIND)));
    assert_true(stamp(0, "beta").granted);
    assert_true(stamp(0, "default").granted);
    stop_instances();
}

static void each_tenant_has_units_roots_and_leases_of_its_own(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *mine = op_in("default");
    CLEANUP(op_freep) struct op *theirs = op_in("beta");
    struct units a, b;
    start_instances();
    assert_ok(tsa_keep_all(mine, &instances[0]));
    read_units(mine, &a);
    read_units(theirs, &b);
    const struct unit *one = units_active(&a), *other = units_active(&b);
    BUG_IF(one == NULL || other == NULL);
    assert_string_not_equal(one->id.text, other->id.text);
    assert_false(span_equal(one->chain[1], other->chain[1]));
    assert_int_equal(unit_retire(theirs, &instances[0], one->id, "not mine", true).code, FAULT_NOT_FOUND);
    assert_true(stamp(0, "default").serial >> 20 != stamp(0, "beta").serial >> 20);
    stop_instances();
}

static void a_unit_whose_time_is_over_is_not_activated(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_in("default");
    struct units units;
    start_instances();
    assert_ok(unit_prepare(op, &instances[0], settings_of(0)));
    read_units(op, &units);
    const struct unit *waiting = units_waiting(&units);
    assert_int_equal(unit_activate(op, &instances[0], waiting->id).code, FAULT_TSA_UNIT_STATE); /* not certified */
    assert_int_equal(unit_prepare(op, &instances[0], settings_of(0)).code, FAULT_TSA_UNIT_STATE);
    assert_int_equal(unit_retire(op, &instances[0], units_active(&units)->id, "x", false).code, FAULT_TSA_UNIT_STATE);
    assert_ok(unit_retire(op, &instances[0], waiting->id, "not needed", false));
    assert_int_equal(unit_retire(op, &instances[0], waiting->id, "again", false).code, FAULT_TSA_UNIT_STATE);
    stop_instances();
}

/* What the API shows of a tenant's units is that tenant's. */
static void the_list_is_the_callers_own(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_in("beta");
    static struct answer answer;
    char token[TOKEN_TEXT_MAX];
    struct units own;
    start_instances();
    assert_ok(tsa_keep_all(op, &instances[0]));
    flow_token("beta", "operator-b", "operator", token);
    flow_call("GET", "/api/v1/protocols/tsa/units", token, NULL, NULL, 20000, &answer);
    assert_status(&answer, 200);
    read_units(op, &own);
    assert_int_equal(own.count, 1);
    assert_string_equal(flow_text(&answer, "unit_id"), own.at[0].id.text);
    flow_token("beta", "auditor-b", "auditor", token);
    flow_call("POST", "/api/v1/protocols/tsa/units", token, "a-key-of-mine", NULL, 20000, &answer);
    assert_problem(&answer, 403, "forbidden");
    stop_instances();
}

static int begin(void **state)
{
    (void)state;
    static const char yaml[] = "tenants:\n  - tenant: acme\n  - tenant: beta\n";
    CLEANUP(buf_free) struct buf detail = BUF_INIT(2048);
    static struct config fips = { .fips_required = true,
                                  .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so" };
    (void)snprintf(tenants_file, sizeof(tenants_file), "/tmp/tenants-%d.yaml", (int)getpid());
    BUG_IF(FAULTED(file_write(tenants_file, span_text(yaml), 0600)));
    use_config();
    BUG_IF(FAULTED(fips_start(&fips, &detail)));
    static char fake_client;
    flow_services.signer = (struct signer_client *)&fake_client;
    BUG_IF(FAULTED(svc_provider_load(fips_libctx(), flow_services.signer)));
    flow_start();
    test_config->tsa_enabled = true;
    test_config->tsa_trust_host = true;
    test_config->tsa_tenants_file = tenants_file;
    static const char *hashes[] = { "sha256" };
    test_config->tsa_hashes = (struct config_list){ hashes, 1 };
    return 0;
}

static int end(void **state)
{
    (void)state;
    flow_stop();
    (void)unlink(tenants_file);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instances_that_start_together_make_one_unit),
        cmocka_unit_test(of_two_that_prepare_at_once_one_wins),
        cmocka_unit_test(another_instance_follows_a_change_of_unit),
        cmocka_unit_test(a_unit_whose_time_is_over_is_not_activated),
        cmocka_unit_test(serials_are_never_given_twice_over_instances_and_starts),
        cmocka_unit_test(a_wrong_mark_holds_its_own_tenant_alone),
        cmocka_unit_test(the_list_is_the_callers_own),
        cmocka_unit_test(each_tenant_has_units_roots_and_leases_of_its_own),
    };
    return cmocka_run_group_tests_name("time-stamping units over instances", tests, begin, end);
}
