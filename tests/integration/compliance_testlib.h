/* Inventory that says what a test wants, and audit records put straight into the read model, past the log. Include it
 * behind flow_testlib.h, once, in the file with main(). */
#ifndef TESTS_INTEGRATION_COMPLIANCE_TESTLIB_H
#define TESTS_INTEGRATION_COMPLIANCE_TESTLIB_H

#include "api/compliance/internal.h"

#define NOW    1795000000000000LL
#define DAY_US (24 * 3600 * US_PER_S)
#define FROM   (NOW - EVIDENCE_WINDOW_DAYS * DAY_US)

/* ---- inventory ---- */

static const char *meanwhile; /* what somebody else commits while a pack is being loaded */

struct fault inventory_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                             struct inventory_statement ret_statements[INVENTORY_FACT_COUNT])
{
    static const struct sql any = { "t_any", "SELECT 1::bigint", 0 };
    CLEANUP(rows_freep) struct rows *rows = NULL;
    (void)op, (void)services, (void)now;
    TRY(tx_query(tx, &any, NULL, 0, &rows));
    assert_ok(meanwhile != NULL ? as_superuser(meanwhile) : OK);
    ret_statements[INVENTORY_FACT_CUSTODY_RECORDED] =
        (struct inventory_statement){ INVENTORY_FAILS, "custody-summary:default", "2 of 3 are recorded", 3, 2 };
    ret_statements[INVENTORY_FACT_CHAIN_WHOLE] =
        (struct inventory_statement){ INVENTORY_HOLDS, "audit-trail:default", "whole", 7, 7 };
    return OK;
}

#define DIGEST "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
struct fault inventory_attestations(struct op *op, struct tx *tx, const struct inventory_attestation **ret_attestations,
                                    size_t *ret_count)
{
    static const struct inventory_attestation said[] = {
        { .statement = "cui-scope", .event_id = "e1", .event_type = "t", .sequence = 4, .evidence_sha256 = DIGEST },
        { .statement = "access-policy", .event_id = "e2", .event_type = "t", .sequence = 5, .evidence_sha256 = "00" },
    };
    (void)op, (void)tx;
    *ret_attestations = said;
    *ret_count = COUNT_OF(said);
    return OK;
}

static struct fault print_name(struct jout *out, const char *name)
{
    jout_object(out);
    jout_key_text(out, "name", name);
    jout_object_end(out);
    return OK;
}
struct fault inventory_adcs_print(struct op *op, struct services *services, struct tx *tx, utc_us from, utc_us to,
                                  struct jout *out)
{
    (void)op, (void)services, (void)tx;
    return to - from == NOW - FROM ? print_name(out, "adcs") : FAULT(INTERNAL);
}
struct fault inventory_assets_print(struct op *op, struct services *services, struct tx *tx, struct jout *custody,
                                    struct jout *cbom, struct jout *readiness)
{
    (void)op, (void)services, (void)tx;
    TRY(print_name(custody, "custody"));
    TRY(print_name(cbom, "cbom"));
    return print_name(readiness, "readiness");
}

struct fault inventory_counts_print(struct op *op, struct services *services, struct tx *tx, struct jout *out)
{
    (void)op, (void)services, (void)tx;
    jout_key_int(out, "credentials", 3);
    return OK;
}

/* ---- records ---- */

struct planted {
    int64_t sequence;
    utc_us time;
    const char *type, *actor, *data;
};

static void print_record(const char *tenant_text, const struct planted *p, char *out, size_t size)
{
    char time[RFC3339_MAX];
    rfc3339_print(p->time, time);
    (void)snprintf(out, size,
                   "{\"actor\":{\"roles\":[],\"subject\":\"%s\"},\"data\":%s,\"event_id\":\"%s-%lld\",\"lane\":\"t\","
                   "\"schema_version\":1,\"sequence\":%lld,\"tenant_id\":\"%s\",\"time\":\"%s\",\"trace_id\":\"\","
                   "\"type\":\"%s\"}",
                   p->actor, p->data, tenant_text, (long long)p->sequence, (long long)p->sequence, tenant_text, time,
                   p->type);
}

static void plant(const char *tenant_text, const struct planted *planted, size_t count)
{
    static char record[4096];
    CLEANUP(buf_free) struct buf script = BUF_INIT((size_t)16 << 20);
    const char *text = NULL;
    int64_t head = 0;
    assert_ok(buf_text(&script, "BEGIN;"));
    for (size_t i = 0; i < count; i++) {
        const struct planted *p = &planted[i];
        print_record(tenant_text, p, record, sizeof(record));
        assert_ok(buf_printf(&script,
                             "INSERT INTO svc.audit_records VALUES ('%s', %lld, '%s-%lld', '%s', '%s', %lld, 1, "
                             "convert_to('%s', 'UTF8'), sha256('%lld'));",
                             tenant_text, (long long)p->sequence, tenant_text, (long long)p->sequence, p->type,
                             p->actor, (long long)p->time, record, (long long)p->sequence));
        head = p->sequence > head ? p->sequence : head;
    }
    assert_ok(buf_printf(&script,
                         "INSERT INTO svc.audit_heads VALUES ('%s', %lld, sha256('%lld')) ON CONFLICT (tenant_id) DO "
                         "UPDATE SET sequence = excluded.sequence, chain = excluded.chain; COMMIT;",
                         tenant_text, (long long)head, (long long)head));
    assert_ok(buf_cstr(&script, &text));
    assert_ok(as_superuser(text));
}

#endif
