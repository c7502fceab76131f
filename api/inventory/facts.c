/* All facts of a tenant: those of the three families, and the posture of this process. */
#include "api/inventory/credentials.h"

#include "api/policy/policy.h"
#include "api/tsa/tsa.h"
#include "fips/fips.h"

/* Numbered from 1 without a gap up to the head, whose chain value is the last record's. */
static const struct sql SQL_CHAIN = {
    "inventory_chain",
    "SELECT coalesce((SELECT sequence FROM svc.audit_heads), 0), (SELECT count(*) FROM svc.audit_records),"
    " coalesce((SELECT max(sequence) FROM svc.audit_records), 0), coalesce((SELECT r.chain = h.chain FROM"
    " svc.audit_heads h JOIN svc.audit_records r ON r.tenant_id = h.tenant_id AND r.sequence = h.sequence), false)",
    0,
};
static const struct sql SQL_COUNTS = {
    "inventory_counts",
    "SELECT (SELECT count(*) FROM svc.managed_keys k WHERE " KEY_LIVES(
        "$1") "),"
              " (SELECT count(*) FROM svc.tokens WHERE revoked_us IS NULL AND expires_us > $1),"
              " (SELECT count(*) FROM svc.credential_owners),"
              " (SELECT count(*) FROM svc.access_reviews WHERE state = 'open'),"
              " (SELECT count(*) FROM svc.access_reviews WHERE state = 'completed')",
    1,
};

static struct inventory_statement of_process(const char *object, bool holds, const char *yes, const char *no)
{
    return (struct inventory_statement){ .state = holds ? INVENTORY_HOLDS : INVENTORY_FAILS,
                                         .object = object,
                                         .why = holds ? yes : no,
                                         .total = 1,
                                         .matched = holds ? 1 : 0 };
}

static void fips_facts(struct inventory_statement *statements)
{
    struct fips_posture posture;
    fips_posture(&posture);
    statements[INVENTORY_FACT_FIPS_ACTIVE] =
        of_process("process:fips", posture.module_active, "The FIPS module of this process is active.",
                   "The FIPS module of this process is not active.");
    statements[INVENTORY_FACT_FIPS_SELF_TEST] =
        of_process("process:fips", posture.module_active && posture.self_test_passed,
                   "The power-on self-test of this start has passed in the active FIPS module.",
                   posture.module_active ? "The power-on self-test of this start has not passed."
                                         : "No power-on self-test counts without an active FIPS module.");
}

static struct fault log_fact(struct op *op, struct services *services, struct inventory_statement *statements)
{
    struct projector_state state;
    projector_state(services->projector, &state);
    struct inventory_statement made =
        of_process("event-log", state.log_trusted, "The stored log equals its verified copies.", "");
    if (!state.log_trusted) {
        TRY(arena_printf(op->arena, &made.why, "The stored log differs from its verified copies (%s) at message %llu.",
                         state.cause[0] != '\0' ? state.cause : "not compared yet",
                         (unsigned long long)state.first_bad_seq));
    }
    statements[INVENTORY_FACT_LOG_TRUSTED] = made;
    return OK;
}

static struct fault chain_fact(struct op *op, struct tx *tx, struct inventory_statement *statements)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_CHAIN, NULL, 0, &rows));
    int64_t head = rows_int(rows, 0, 0), count = rows_int(rows, 0, 1), last = rows_int(rows, 0, 2);
    bool whole = head == count && head == last && rows_bool(rows, 0, 3);
    struct inventory_statement made = { .state = head == 0 && count == 0 ? INVENTORY_ABSENT
                                                 : whole                 ? INVENTORY_HOLDS
                                                                         : INVENTORY_FAILS,
                                        .total = head,
                                        .matched = count };
    TRY(arena_printf(op->arena, &made.object, "audit-chain:%s", op->tenant.text));
    TRY(arena_printf(op->arena, &made.why, "%lld audit records are there of %lld up to the chain head%s.",
                     (long long)count, (long long)head,
                     whole || count != head ? "" : ", whose chain value is not the last record's"));
    statements[INVENTORY_FACT_CHAIN_WHOLE] = made;
    return OK;
}

static void time_fact(struct services *services, struct inventory_statement *statements)
{
    struct tsa_time_state time;
    tsa_time_state(services, &time);
    statements[INVENTORY_FACT_TIME_TRUSTED] = of_process(
        "time-stamping-clock", time.trusted, "The clock of the time-stamping authority is trusted.", time.says);
    if (!time.on) {
        statements[INVENTORY_FACT_TIME_TRUSTED].state = INVENTORY_ABSENT;
        statements[INVENTORY_FACT_TIME_TRUSTED].total = 0;
    }
}

/* The rules that this process decides by, as far as they are this tenant's. */
static struct fault policy_fact(struct op *op, struct services *services, struct inventory_statement *statements)
{
    size_t rules = policy_rules_concerning(services->policy, op->tenant.text);
    struct inventory_statement made =
        of_process("policy:codesign", rules > 0, "",
                   services->policy == NULL ? "The signing policy is off: whoever may sign is not asked of any rule."
                                            : "No rule of the signing policy is for this tenant.");
    if (rules > 0) {
        char digest[65];
        policy_digest(services->policy, services->config, digest);
        made.total = made.matched = (int64_t)rules;
        TRY(arena_printf(op->arena, &made.why,
                         "The signing policy is on, with %zu rules for this tenant; its digest is %s.", rules, digest));
    }
    statements[INVENTORY_FACT_POLICY_ACTIVE] = made;
    return OK;
}

struct fault inventory_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                             struct inventory_statement ret_statements[INVENTORY_FACT_COUNT])
{
    struct inventory_statement made[INVENTORY_FACT_COUNT] = { 0 };
    for (size_t i = 0; i < INVENTORY_FACT_COUNT; i++) {
        made[i].object = "none"; /* of a family that says nothing: absent */
        made[i].why = "Nothing of it is recorded.";
    }
    TRY(inventory_credential_facts(op, services, tx, now, made));
    TRY(inventory_adcs_facts(op, services, tx, now, made));
    TRY(inventory_crypto_facts(op, services, tx, now, made));
    fips_facts(made);
    TRY(log_fact(op, services, made));
    TRY(chain_fact(op, tx, made));
    time_fact(services, made);
    TRY(policy_fact(op, services, made));
    memcpy(ret_statements, made, sizeof(made));
    return OK;
}

struct fault inventory_counts_print(struct op *op, struct services *services, struct tx *tx, struct jout *out)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct custody_counts custody;
    (void)services;
    TRY(custody_count(op, tx, &custody));
    TRY(tx_query(tx, &SQL_COUNTS, (struct sql_arg[]){ SQL_INT(clock_utc()) }, 1, &rows));
    jout_key_int(out, "access_reviews_completed", rows_int(rows, 0, 4));
    jout_key_int(out, "access_reviews_open", rows_int(rows, 0, 3));
    jout_key_int(out, "certificates", custody.total);
    jout_key_int(out, "certificates_custody_recorded", custody.recorded);
    jout_key_int(out, "keys_live", rows_int(rows, 0, 0));
    jout_key_int(out, "owner_records", rows_int(rows, 0, 2));
    jout_key_int(out, "tokens_live", rows_int(rows, 0, 1));
    return out->first;
}
