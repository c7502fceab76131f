/* What is stated against what was walked; the segment before; the key's window; the tree. */
#include "api/audit/verify_internal.h"

#include "api/projection/chain.h"

static bool same(const struct sha256 *a, const struct sha256 *b)
{
    return memcmp(a->at, b->at, SHA256_LEN) == 0;
}

struct fault walk_begin_at(struct audit_walk *walk, int64_t first, const struct sha256 *seed)
{
    static const struct sha256 zero = { 0 };
    struct audit_trail *trail = &walk->trail;
    if (trail->segments > 0 && first > 0 && first != trail->last_sequence + 1) {
        return walk_refuse(walk, FAULT(AUDIT_SEGMENTS),
                           "this segment begins with sequence %lld, the one before ended with %lld", (long long)first,
                           (long long)trail->last_sequence);
    }
    if (trail->segments > 0 && seed != NULL && !same(seed, &trail->head)) {
        return walk_refuse(walk, FAULT(AUDIT_SEGMENTS),
                           "this segment's seed is not the head of the one before: they are of different histories");
    }
    if (trail->segments == 0) {
        trail->whole = first == 1;
    }
    if (first == 1 && seed == NULL) {
        walk->chain = zero;
        walk->chain_known = true;
    }
    if (first == 1 && seed != NULL && !same(seed, &zero)) {
        return walk_break(walk, FAULT(CHAIN_BROKEN), "the chain before sequence 1 must be all zero");
    }
    return OK;
}

/* Of a stream: the first record could not be judged before its seed was known. */
static struct fault check_seed(struct audit_walk *walk)
{
    struct sha256 chain;
    const struct audit_statement *statement = &walk->statement;
    if (walk->shape == AUDIT_JWS) {
        return OK;
    }
    int64_t first = walk->started ? walk->first : statement->first_sequence;
    TRY(walk_begin_at(walk, first, &statement->seed));
    if (walk->first_record.len == 0) {
        return OK;
    }
    TRY(audit_chain_next(&statement->seed, buf_span(&walk->first_record), &chain));
    if (!same(&chain, &walk->first_chain)) {
        walk->next = walk->first;
        walk->verdict.checked = 0;
        return walk_break(
            walk, FAULT(CHAIN_BROKEN),
            "the record at sequence %lld, the first one, does not hash to its chain value from the stated "
            "seed",
            (long long)walk->first);
    }
    return OK;
}

static struct fault check_tenant(struct audit_walk *walk)
{
    const struct audit_statement *statement = &walk->statement;
    struct audit_trail *trail = &walk->trail;
    if (trail->tenant.text[0] == '\0') {
        trail->tenant = statement->tenant;
    }
    if (!tenant_id_equal(trail->tenant, statement->tenant)) {
        if (walk->started) {
            walk->next = walk->first;
            walk->verdict.checked = 0;
            return walk_break(walk, FAULT(AUDIT_TENANT),
                              "the records belong to \"%s\", the export is of another tenant, \"%s\"",
                              trail->tenant.text, statement->tenant.text);
        }
        return walk_refuse(walk, FAULT(AUDIT_TENANT), "this segment is of another tenant, \"%s\", and not of \"%s\"",
                           statement->tenant.text, trail->tenant.text);
    }
    if (trail->segments > 0 && trail->generation != statement->generation) {
        return walk_refuse(walk, FAULT(AUDIT_SEGMENTS),
                           "this segment is of generation %lld of the history, the one before of %lld: an erasure came "
                           "between; take both from one generation",
                           (long long)statement->generation, (long long)trail->generation);
    }
    return OK;
}

static struct fault check_totals(struct audit_walk *walk)
{
    const struct audit_statement *statement = &walk->statement;
    struct audit_verdict *verdict = &walk->verdict;
    if (verdict->checked != statement->count) {
        return walk_refuse(walk, FAULT(CHAIN_HEAD), "%lld records are here, %lld are stated: the export is incomplete",
                           (long long)verdict->checked, (long long)statement->count);
    }
    if (statement->count > 0 &&
        (walk->first != statement->first_sequence || walk->next - 1 != statement->last_sequence)) {
        return walk_refuse(walk, FAULT(CHAIN_HEAD), "the records are %lld to %lld, and %lld to %lld are stated",
                           (long long)walk->first, (long long)walk->next - 1, (long long)statement->first_sequence,
                           (long long)statement->last_sequence);
    }
    if (statement->count == 0 ? !same(&statement->head, &statement->seed) : !same(&statement->head, &walk->chain)) {
        return walk_refuse(walk, FAULT(CHAIN_HEAD), "the stated chain head is not the hash of the last record");
    }
    return OK;
}

static struct fault check_window(struct audit_walk *walk)
{
    utc_us at = 0;
    char text[RFC3339_MAX];
    const struct jwk *key = walk->key;
    if (key == NULL) {
        return OK;
    }
    TRY(rfc3339_parse(span_text(walk->statement.exported_at), &at));
    if (key->not_before != 0 && at < key->not_before) {
        rfc3339_print(key->not_before, text);
        return walk_refuse(walk, FAULT(AUDIT_KEY_WINDOW), "exported at %s, and the key signs from %s on",
                           walk->statement.exported_at, text);
    }
    if (key->not_after != 0 && at > key->not_after) {
        rfc3339_print(key->not_after, text);
        return walk_refuse(walk, FAULT(AUDIT_KEY_WINDOW), "exported at %s, and the key signed until %s",
                           walk->statement.exported_at, text);
    }
    return OK;
}

static struct fault check_tree(struct audit_walk *walk)
{
    struct sha256 root;
    const struct audit_statement *statement = &walk->statement;
    if (!walk->trail.whole || statement->first_format || statement->count == 0) {
        return OK;
    }
    TRY(audit_frontier_root(&walk->trail.frontier, &root));
    if (!same(&root, &statement->tree_root)) {
        return walk_refuse(walk, FAULT(AUDIT_TREE), "the stated tree_root is not that of the records 1 to %lld",
                           (long long)statement->last_sequence);
    }
    walk->verdict.tree_good = true;
    return OK;
}

static void tell(struct audit_walk *walk)
{
    const struct audit_statement *statement = &walk->statement;
    struct audit_verdict *verdict = &walk->verdict;
    verdict->generation = statement->generation;
    verdict->first_sequence = statement->first_sequence;
    verdict->last_sequence = statement->last_sequence;
    verdict->count = statement->count;
    verdict->seed = statement->seed;
    memcpy(verdict->exported_at, statement->exported_at, sizeof(verdict->exported_at));
    if (!walk->started) {
        walk->chain = statement->seed;
    }
}

struct fault walk_end(struct audit_walk *walk)
{
    const struct audit_statement *statement = &walk->statement;
    tell(walk);
    TRY(check_seed(walk));
    TRY(check_tenant(walk));
    TRY(check_totals(walk));
    walk->verdict.chain_good = true;
    if (walk->started && FAULTED(rfc3339_parse(span_text(walk->newest), &walk->verdict.newest_at))) {
        return walk_refuse(walk, FAULT(CHAIN_BROKEN), "the time of the last record, \"%s\", is none", walk->newest);
    }
    if (FAULTED(walk->signature_fault)) {
        return walk_refuse(walk, walk->signature_fault, "%s", walk->signature_reason);
    }
    TRY(check_window(walk));
    TRY(check_tree(walk));
    TRY(walk_anchor(walk));
    if (statement->count > 0 || walk->trail.segments == 0) {
        walk->trail.last_sequence = statement->last_sequence;
        walk->trail.head = statement->head;
    }
    walk->trail.generation = statement->generation;
    walk->trail.segments++;
    return OK;
}
