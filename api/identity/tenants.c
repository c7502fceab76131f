#include "api/identity/internal.h"

#define TENANTS_PER_READ 500

static const struct sql SQL_TENANT_KNOWN = { "identity_tenant_known",
                                             "SELECT tenant_id FROM svc.tenants WHERE tenant_id = $1", 1 };
static const struct sql SQL_TENANTS = {
    "identity_tenants",
    "SELECT tenant_id FROM svc.tenants WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2",
    2,
};

struct fault tenant_known(struct op *op, struct store *store, bool *ret_known)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_TENANT_KNOWN, (struct sql_arg[]){ SQL_TEXT(op->tenant.text) }, 1, &rows));
    *ret_known = rows_count(rows) == 1;
    return OK;
}

static struct fault ensure(struct op *op, struct services *services)
{
    bool is_known = false;
    TRY(tenant_known(op, services->store, &is_known));
    if (is_known) {
        return OK;
    }
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "tenant_id", op->tenant.text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct event event = { .type = "tenant.created", .schema_version = 1, .data = buf_span(&data) };
    const struct span parts[] = { span_text(op->tenant.text) };
    /* Only as the first message of its lane: that is what "once" means, whoever else tries at the same time. */
    struct event_append append = { .lane = "tenants", .events = &event, .count = 1, .expect = true, .expected = 0 };
    TRY(uuid_derive("tenant.created", parts, COUNT_OF(parts), &append.message_id));
    uint64_t seq = 0;
    struct fault fault = events_append(op, services->log, &append, &seq);
    if (fault.code == FAULT_LOG_CONFLICT) {
        op->note = (struct fault_note){ 0 };
        return projector_catch_up(op, services->projector);
    }
    TRY(fault);
    return projector_wait(op, services->projector, seq);
}

struct fault identity_tenant_ensure(struct op *op, struct services *services, struct tenant_id tenant)
{
    struct tenant_id before = op->tenant;
    op->tenant = tenant;
    struct fault fault = ensure(op, services);
    op->tenant = before;
    return fault;
}

struct fault identity_tenants(struct op *op, struct store *store, struct tenant_id **ret_tenants, size_t *ret_count)
{
    struct tenant_id *tenants = NULL;
    size_t count = 0;
    for (size_t got = TENANTS_PER_READ; got == TENANTS_PER_READ;) {
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        CLEANUP(rows_freep) struct rows *rows = NULL;
        const char *after = count > 0 ? tenants[count - 1].text : "";
        TRY(tx_begin(op, store, STORE_BOOKKEEPING, &tx));
        TRY(tx_query(tx, &SQL_TENANTS, (struct sql_arg[]){ SQL_TEXT(after), SQL_INT(TENANTS_PER_READ) }, 2, &rows));
        got = rows_count(rows);
        struct tenant_id *more = NULL;
        TRY(arena_take(op->arena, count + got + 1, sizeof(*more), &more));
        if (count > 0) {
            memcpy(more, tenants, count * sizeof(*more));
        }
        for (size_t row = 0; row < got; row++) {
            TRY(tenant_id_parse(span_text(rows_text(rows, row, 0)), &more[count + row]));
        }
        tenants = more;
        count += got;
    }
    *ret_tenants = tenants;
    *ret_count = count;
    return OK;
}
