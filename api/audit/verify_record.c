/* One record: its form, its place, its tenant, its chain value. */
#include "api/audit/verify_internal.h"

#include "api/projection/chain.h"
#include "appliance/base/json.h"

/* The long way, for what record_scan does not recognise: the words of a refusal come from here, too. */
struct record {
    struct span actor, data;
    const char *event_id, *lane, *tenant_id, *time, *trace_id, *type;
    int64_t schema_version, sequence;
};
static const struct jin_field record_fields[] = {
    JIN_RAW(struct record, actor, JIN_REQUIRED, 2, 65536),
    JIN_RAW(struct record, data, JIN_REQUIRED, 2, AUDIT_RECORD_MAX),
    JIN_TEXT(struct record, event_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct record, lane, JIN_REQUIRED, 1, 64),
    JIN_INT(struct record, schema_version, JIN_REQUIRED, 1, INT32_MAX),
    JIN_INT(struct record, sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_TEXT(struct record, tenant_id, JIN_REQUIRED, 1, 63),
    JIN_TEXT(struct record, time, JIN_REQUIRED, 20, RFC3339_MAX),
    JIN_TEXT(struct record, trace_id, JIN_REQUIRED, 0, 64),
    JIN_TEXT(struct record, type, JIN_REQUIRED, 1, 128),
};

static struct fault decode(struct audit_walk *walk, struct span bytes, struct record_view *ret_view)
{
    struct record record = { 0 };
    walk->canonical.len = 0;
    walk->scratch->note = (struct fault_note){ 0 };
    struct fault fault = json_canonical(bytes, &walk->canonical);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return walk_break(walk, FAULT(AUDIT_ENCODING), "the record at sequence %lld is not JSON",
                          (long long)walk->next);
    }
    if (!span_equal(buf_span(&walk->canonical), bytes)) {
        return walk_break(walk, FAULT(AUDIT_ENCODING),
                          "the record at sequence %lld is not canonical JSON: the same content in other bytes than it "
                          "was hashed in",
                          (long long)walk->next);
    }
    fault = jin_decode(walk->scratch, bytes, record_fields, COUNT_OF(record_fields), &record);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return walk_break(walk, FAULT(CHAIN_BROKEN), "the record at sequence %lld is no audit record: %s: %.120s",
                          (long long)walk->next, walk->scratch->note.pointer, walk->scratch->note.detail);
    }
    *ret_view = (struct record_view){ record.sequence, span_text(record.tenant_id), span_text(record.time) };
    return OK;
}

static struct fault check_sequence(struct audit_walk *walk, int64_t sequence)
{
    if (!walk->started && walk->next == 0) {
        walk->next = sequence; /* a stream says where it begins by its first record */
        return walk_begin_at(walk, sequence, NULL);
    }
    if (sequence > walk->next) {
        return walk_break(walk, FAULT(AUDIT_ORDER),
                          "sequence %lld is expected and the record says %lld: records were dropped, inserted or "
                          "reordered",
                          (long long)walk->next, (long long)sequence);
    }
    if (sequence < walk->next) {
        return walk_break(walk, FAULT(AUDIT_REPEATED),
                          "sequence %lld is expected and the record says %lld: an earlier record stands here once more",
                          (long long)walk->next, (long long)sequence);
    }
    return OK;
}

static struct fault check_tenant(struct audit_walk *walk, struct span tenant)
{
    struct tenant_id *known = &walk->trail.tenant;
    if (known->text[0] == '\0' && FAULTED(tenant_id_parse(tenant, known))) {
        return walk_break(walk, FAULT(CHAIN_BROKEN), "the record at sequence %lld names no tenant: \"%.*s\"",
                          (long long)walk->next, (int)tenant.len, (const char *)tenant.at);
    }
    if (!span_equal_text(tenant, known->text)) {
        return walk_break(walk, FAULT(AUDIT_TENANT),
                          "the record at sequence %lld belongs to another tenant: \"%.*s\", and not \"%s\"",
                          (long long)walk->next, (int)tenant.len, (const char *)tenant.at, known->text);
    }
    return OK;
}

static struct fault check_chain(struct audit_walk *walk, struct span record, const struct sha256 *stated)
{
    struct sha256 chain;
    if (!walk->chain_known) { /* judged when the trailer has told the seed */
        walk->first_record.len = 0;
        TRY(buf_put(&walk->first_record, record));
        walk->first_chain = *stated;
        walk->chain_known = true;
        walk->chain = *stated;
        return OK;
    }
    TRY(audit_chain_next(&walk->chain, record, &chain));
    if (memcmp(chain.at, stated->at, SHA256_LEN) != 0) {
        return walk_break(walk, FAULT(CHAIN_BROKEN),
                          "the record at sequence %lld does not hash to its chain value: it, or what stands before "
                          "it, was altered, dropped, inserted or reordered",
                          (long long)walk->next);
    }
    walk->chain = chain;
    return OK;
}

static struct fault add_leaf(struct audit_walk *walk, struct span record)
{
    struct sha256 leaf;
    if (!walk->trail.whole) {
        return OK;
    }
    TRY(audit_tree_leaf(record, &leaf));
    return audit_frontier_add(&walk->trail.frontier, &leaf);
}

struct fault walk_record(struct audit_walk *walk, struct span record, const struct record_view *view,
                         const struct sha256 *stated)
{
    struct record_view decoded = { 0 };
    if (view == NULL) {
        TRY(decode(walk, record, &decoded));
        view = &decoded;
    }
    TRY(check_sequence(walk, view->sequence));
    TRY(check_tenant(walk, view->tenant));
    TRY(check_chain(walk, record, stated));
    TRY(add_leaf(walk, record));
    size_t len = view->time.len < RFC3339_MAX - 1 ? view->time.len : RFC3339_MAX - 1;
    memcpy(walk->newest, view->time.at != NULL ? view->time.at : (const uint8_t *)"", len);
    walk->newest[len] = '\0';
    walk->started = true;
    walk->first = walk->verdict.checked == 0 ? view->sequence : walk->first;
    walk->verdict.checked++;
    walk->next++;
    return OK;
}
