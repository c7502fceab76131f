/* Two exports of one tenant, side by side, in one pass over both. */
#include "api/audit/verify_internal.h"

#include <stdarg.h>
#include <stdio.h>

struct side {
    struct audit_walk *walk;
    struct audit_entry entry;
    bool more, any;
    struct sha256 last_chain;
};

struct pair {
    struct side sides[2];
    struct audit_comparison *out;
    int *refused;
};

const char *audit_relation_name(enum audit_relation relation)
{
    static const char *const names[] = { "same", "extends", "continues", "gap", "parts" };
    return names[relation];
}

static struct fault step(struct pair *pair, int i)
{
    struct side *side = &pair->sides[i];
    if (side->any) {
        side->last_chain = side->entry.chain;
    }
    side->any = true;
    struct fault fault = audit_walk_next(side->walk, &side->entry, &side->more);
    if (FAULTED(fault)) {
        *pair->refused = i;
    }
    return fault;
}

static void look(struct pair *pair)
{
    struct audit_comparison *out = pair->out;
    const struct audit_entry *a = &pair->sides[0].entry, *b = &pair->sides[1].entry;
    if (memcmp(a->chain.at, b->chain.at, SHA256_LEN) == 0) {
        out->common_first = out->common_first == 0 ? a->sequence : out->common_first;
        out->common_last = a->sequence;
        return;
    }
    out->parts_at = a->sequence;
    out->chains[0] = a->chain;
    out->chains[1] = b->chain;
    /* Where they agreed one record before, this is the place; else it may be any before it. */
    out->earlier = out->common_first == 0 && (span_equal(a->record, b->record) || a->sequence > 1);
}

/* Both to their ends, the one that is behind first, so that each is verified whole. */
static struct fault walk_both(struct pair *pair)
{
    struct side *a = &pair->sides[0], *b = &pair->sides[1];
    TRY(step(pair, 0));
    TRY(step(pair, 1));
    while (a->more || b->more) {
        bool both = a->more && b->more;
        if (both && a->entry.sequence == b->entry.sequence && pair->out->parts_at == 0) {
            look(pair);
        }
        bool first = a->more && (!b->more || a->entry.sequence <= b->entry.sequence);
        bool second = b->more && (!a->more || b->entry.sequence <= a->entry.sequence);
        TRY(first ? step(pair, 0) : OK);
        TRY(second ? step(pair, 1) : OK);
    }
    return OK;
}

static bool same(const struct sha256 *a, const struct sha256 *b)
{
    return memcmp(a->at, b->at, SHA256_LEN) == 0;
}

static void PRINTF(2, 3) explain(struct audit_comparison *out, const char *format, ...)
{
    size_t used = strlen(out->explanation);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(out->explanation + used, sizeof(out->explanation) - used, format, args);
    va_end(args);
}

static void explain_parting(struct audit_comparison *out)
{
    if (out->common_last > 0) {
        explain(out, "they agree up to sequence %lld and differ from %lld on", (long long)out->common_last,
                (long long)out->parts_at);
    } else {
        explain(out, "they differ at sequence %lld%s", (long long)out->parts_at,
                out->earlier ? ", the first that both have, and may part before it" : "");
    }
    if (out->verdicts[0].generation != out->verdicts[1].generation) {
        explain(
            out,
            "; the first is of generation %lld and the second of %lld: an erasure that was recorded rewrites history "
            "from the first record of its subject on (svc-cli audit history tells both heads)",
            (long long)out->verdicts[0].generation, (long long)out->verdicts[1].generation);
    }
}

/* Neither overlaps the other: does one begin where the other ends? */
static void judge_apart(struct audit_comparison *out)
{
    const struct audit_verdict *a = &out->verdicts[0], *b = &out->verdicts[1];
    const struct audit_verdict *first = a->last_sequence < b->first_sequence ? a : b, *second = first == a ? b : a;
    if (a->count == 0 || b->count == 0) {
        bool touches = same(&a->head, &b->head) || same(&a->seed, &b->head) || same(&a->head, &b->seed);
        out->relation = touches ? AUDIT_CONTINUES : AUDIT_GAP;
        explain(out, touches ? "one has no records, and stands at an end of the other"
                             : "one has no records: there is nothing to compare");
        return;
    }
    if (first->last_sequence + 1 != second->first_sequence) {
        out->relation = AUDIT_GAP;
        explain(out, "sequences %lld to %lld are in neither: nothing can be told", (long long)first->last_sequence + 1,
                (long long)second->first_sequence - 1);
        return;
    }
    if (same(&first->head, &second->seed)) {
        out->relation = AUDIT_CONTINUES;
        explain(out, "the %s one continues the other at sequence %lld", second == a ? "first" : "second",
                (long long)second->first_sequence);
        return;
    }
    out->relation = AUDIT_PARTS;
    out->parts_at = first->last_sequence;
    out->earlier = true;
    out->chains[first == a ? 0 : 1] = first->head;
    out->chains[first == a ? 1 : 0] = second->seed;
    explain_parting(out);
}

static void judge(struct audit_comparison *out)
{
    const struct audit_verdict *a = &out->verdicts[0], *b = &out->verdicts[1];
    if (out->parts_at != 0) {
        out->relation = AUDIT_PARTS;
        explain_parting(out);
        return;
    }
    if (out->common_first == 0) {
        judge_apart(out);
        return;
    }
    bool begin = a->first_sequence == b->first_sequence, end = a->last_sequence == b->last_sequence;
    out->relation = begin && end ? AUDIT_SAME : AUDIT_EXTENDS;
    if (begin && end) {
        explain(out, "the same records, %lld to %lld", (long long)a->first_sequence, (long long)a->last_sequence);
        return;
    }
    explain(out, "they agree from sequence %lld to %lld", (long long)out->common_first, (long long)out->common_last);
    if (!end) {
        explain(out, "; the %s one goes on to %lld", a->last_sequence > b->last_sequence ? "first" : "second",
                (long long)(a->last_sequence > b->last_sequence ? a->last_sequence : b->last_sequence));
    }
    if (!begin) {
        explain(out, "; the %s one begins earlier, with %lld",
                a->first_sequence < b->first_sequence ? "first" : "second",
                (long long)(a->first_sequence < b->first_sequence ? a->first_sequence : b->first_sequence));
    }
}

static struct fault compare(struct op *op, struct pair *pair)
{
    struct audit_comparison *out = pair->out;
    struct fault fault = walk_both(pair);
    for (int i = 0; i < 2; i++) {
        out->verdicts[i] = *audit_walk_verdict(pair->sides[i].walk);
    }
    TRY(fault);
    if (!tenant_id_equal(out->verdicts[0].tenant, out->verdicts[1].tenant)) {
        return op_fail(op, FAULT(AUDIT_TENANT), "the first export is of tenant \"%s\", the second of \"%s\"",
                       out->verdicts[0].tenant.text, out->verdicts[1].tenant.text);
    }
    judge(out);
    if (out->relation != AUDIT_PARTS && out->verdicts[0].generation != out->verdicts[1].generation) {
        explain(out, "; they are of generations %lld and %lld: no erasure touched what both have",
                (long long)out->verdicts[0].generation, (long long)out->verdicts[1].generation);
    }
    return OK;
}

struct fault audit_compare(struct op *op, const struct audit_source sources[2], const struct audit_pins *pins,
                           struct audit_comparison *ret_comparison, int *ret_refused)
{
    CLEANUP(audit_walk_freep) struct audit_walk *first = NULL;
    CLEANUP(audit_walk_freep) struct audit_walk *second = NULL;
    *ret_comparison = (struct audit_comparison){ .relation = AUDIT_GAP };
    *ret_refused = -1;
    TRY(audit_walk_new(op, &sources[0], pins, NULL, &first));
    TRY(audit_walk_new(op, &sources[1], pins, NULL, &second));
    struct pair pair = { .sides = { { .walk = first }, { .walk = second } },
                         .out = ret_comparison,
                         .refused = ret_refused };
    return compare(op, &pair);
}
