#include "api/audit/verify_proof.h"

#include "api/audit/shape_record.h"
#include "api/projection/chain.h"
#include "api/tsa/verify.h"

#include <stdarg.h>
#include <stdio.h>

struct check {
    struct op *op;
    const struct audit_pins *pins;
    struct audit_proof_verdict *verdict;
};

PRINTF(3, 4)
static struct fault refuse(struct check *check, struct fault fault, const char *format, ...)
{
    va_list args;
    if (check->verdict->reason[0] == '\0') {
        va_start(args, format);
        (void)vsnprintf(check->verdict->reason, sizeof(check->verdict->reason), format, args);
        va_end(args);
    }
    return fault;
}

static bool same(const struct sha256 *a, const struct sha256 *b)
{
    return memcmp(a->at, b->at, SHA256_LEN) == 0; /* all of it is public */
}

/* ---- the signed head ---- */

static struct fault check_window(struct check *check, const char *kid, const struct audit_head *head)
{
    utc_us time = 0;
    TRY(rfc3339_parse(span_text(head->time), &time));
    for (size_t i = 0; i < check->pins->keys->count; i++) {
        const struct jwk *key = &check->pins->keys->at[i];
        bool early = key->not_before != 0 && time < key->not_before;
        bool late = key->not_after != 0 && time > key->not_after;
        if (strcmp(key->kid, kid) == 0 && (early || late)) {
            return refuse(check, FAULT(AUDIT_KEY_WINDOW),
                          "the head says %s, when the key that signed it was not in use", head->time);
        }
    }
    return OK;
}

/* What the tree and the chain of no record are, and of nothing else. */
static struct fault check_empty(struct check *check, const struct audit_head *head)
{
    struct sha256 zero = { 0 }, empty;
    TRY(sha256_of(span_of(NULL, 0), &empty));
    bool none = head->tree_size == 0;
    if (none != same(&head->chain_head, &zero) || none != same(&head->tree_root, &empty)) {
        return refuse(check, FAULT(CHAIN_HEAD), "the head's chain and tree are not those of %lld records",
                      (long long)head->tree_size);
    }
    return OK;
}

static struct fault open_head(struct check *check, struct span compact, const char *which, const char **ret_kid,
                              struct audit_head *ret_head)
{
    struct span payload = { 0 };
    if (check->pins->keys == NULL) {
        return refuse(check, FAULT(AUDIT_PINS),
                      "a signed head is judged by verification keys that were pinned earlier");
    }
    struct fault fault = jws_verify(check->op, compact, AUDIT_HEAD_TYP, check->pins->keys, &payload, ret_kid);
    if (fault.code == FAULT_NO_MEMORY) {
        return fault;
    }
    if (FAULTED(fault)) {
        return refuse(check, fault, "%s: %s", which,
                      fault.code == FAULT_JWS_KEY ? "no pinned key matches the signature's key id"
                      : fault.code == FAULT_JWS_SIGNATURE
                          ? "the signature is not that of the pinned key over these bytes"
                          : "this is no compact JWS of a signed audit head");
    }
    fault = audit_head_read(check->op, payload, ret_head);
    if (FAULTED(fault)) {
        return refuse(check, fault, "%s: %s", which, check->op->note.detail);
    }
    TRY(check_window(check, *ret_kid, ret_head));
    return check_empty(check, ret_head);
}

/* ---- its time stamp ---- */

static struct fault check_times(struct check *check, int64_t accuracy_us)
{
    struct audit_proof_verdict *verdict = check->verdict;
    int64_t most = check->pins->max_anchor_delay_us;
    utc_us stated = 0;
    TRY(rfc3339_parse(span_text(verdict->head.time), &stated));
    int64_t apart = verdict->anchor_at > stated ? verdict->anchor_at - stated : stated - verdict->anchor_at;
    int64_t allowance = accuracy_us > 0 ? accuracy_us : US_PER_S;
    if (verdict->record_at > verdict->anchor_at + allowance) {
        return refuse(check, FAULT(AUDIT_ANCHOR_TIME), "the record is newer than the time stamp over its chain");
    }
    if (most > 0 && apart > most + allowance) {
        return refuse(check, FAULT(AUDIT_ANCHOR_TIME), "the head says %s, and its time stamp is %lld s away from that",
                      verdict->head.time, (long long)(apart / 1000000));
    }
    return OK;
}

static struct fault check_anchor(struct check *check)
{
    struct audit_proof_verdict *verdict = check->verdict;
    const struct audit_pins *pins = check->pins;
    enum tst_reason reason = TST_HOLDS;
    struct tst_info info;
    if (pins->anchor_ignored) {
        return OK;
    }
    if (verdict->head.timestamp.len == 0) {
        return pins->tsa_roots.len == 0 || pins->unanchored_allowed
                   ? OK
                   : refuse(check, FAULT(AUDIT_UNANCHORED),
                            "a time-stamping root is pinned, and this head has no stamp");
    }
    if (pins->tsa_roots.len == 0) {
        return refuse(check, FAULT(AUDIT_PINS),
                      "the head has a time stamp: it is judged by a root of the authority that was pinned earlier");
    }
    struct tst_expect expect = { .hash = "sha256",
                                 .digest = SPAN_ARRAY(verdict->head.chain_head.at),
                                 .roots_pem = pins->tsa_roots };
    struct fault fault = tst_judge(check->op, verdict->head.timestamp, &expect, &info, &reason);
    if (fault.code == FAULT_NO_MEMORY) {
        return fault;
    }
    if (FAULTED(fault)) {
        return refuse(check, reason == TST_DIGEST ? FAULT(AUDIT_ANCHOR) : fault, "the time stamp is not believed: %s",
                      reason == TST_DIGEST ? "it is over something else than the chain head" : check->op->note.detail);
    }
    verdict->anchor_at = info.time;
    TRY(check_times(check, info.accuracy_us));
    verdict->anchor_good = true;
    return OK;
}

/* ---- the head that the verifier has had all along ---- */

static struct fault check_kept(struct check *check, struct span compact)
{
    struct audit_proof_verdict *verdict = check->verdict;
    struct audit_head kept = { 0 };
    const char *kid = NULL;
    if (compact.len == 0) {
        return OK;
    }
    TRY(open_head(check, compact, "the kept head", &kid, &kept));
    const struct audit_head *head = &verdict->head;
    if (!tenant_id_equal(kept.tenant, head->tenant)) {
        return refuse(check, FAULT(AUDIT_TENANT), "the kept head is of tenant %s, and this is of %s", kept.tenant.text,
                      head->tenant.text);
    }
    bool newer = kept.tree_size == head->tree_size;
    bool older = verdict->kind == AUDIT_PROOF_CONSISTENCY && kept.tree_size == verdict->first;
    if (!newer && !older) {
        return refuse(check, FAULT(AUDIT_PROOF),
                      "the kept head is of %lld records, and this is about others: fetch the proof of consistency "
                      "between %lld and %lld",
                      (long long)kept.tree_size,
                      (long long)(kept.tree_size < head->tree_size ? kept.tree_size : head->tree_size),
                      (long long)(kept.tree_size < head->tree_size ? head->tree_size : kept.tree_size));
    }
    if (!same(&kept.tree_root, newer ? &head->tree_root : &verdict->first_root) ||
        (newer && !same(&kept.chain_head, &head->chain_head))) {
        bool rewritten = kept.generation != head->generation;
        return refuse(check, FAULT(AUDIT_PROOF), "the first %lld records are not those of the kept head%s",
                      (long long)kept.tree_size,
                      rewritten ? ": it is of another generation, and the history was rewritten in between" : "");
    }
    verdict->kept_size = kept.tree_size;
    verdict->kept_good = true;
    return OK;
}

/* ---- the proofs ---- */

static struct fault check_record(struct check *check, const struct audit_inclusion *inclusion)
{
    const struct audit_head *head = &check->verdict->head;
    struct sha256 chain, zero = { 0 };
    struct audit_record record;
    const char *wrong = NULL;
    struct fault fault = audit_record_read(check->op->arena, inclusion->record, &record, &wrong);
    if (fault.code == FAULT_BAD_ARGUMENT) {
        return refuse(check, FAULT(AUDIT_PROOF), "what is proven is no audit record: %s", wrong != NULL ? wrong : "/");
    }
    TRY(fault);
    if (!span_equal_text(record.tenant_id, head->tenant.text)) {
        return refuse(check, FAULT(AUDIT_TENANT), "the record is of another tenant than the signed head");
    }
    if (record.sequence != inclusion->sequence) {
        return refuse(check, FAULT(AUDIT_PROOF), "the record is number %lld, and the proof is of %lld",
                      (long long)record.sequence, (long long)inclusion->sequence);
    }
    check->verdict->record_at = record.at;
    TRY(audit_chain_next(&inclusion->seed, inclusion->record, &chain));
    if (!same(&chain, &inclusion->chain) || (inclusion->sequence == 1 && !same(&inclusion->seed, &zero))) {
        return refuse(check, FAULT(CHAIN_BROKEN), "the record's chain value is not the hash of its bytes and the seed");
    }
    if (inclusion->sequence == head->tree_size && !same(&chain, &head->chain_head)) {
        return refuse(check, FAULT(CHAIN_HEAD), "the newest record's chain value is not the signed chain head");
    }
    return OK;
}

static struct fault check_inclusion(struct check *check, struct span bytes)
{
    struct audit_proof_verdict *verdict = check->verdict;
    struct audit_inclusion inclusion;
    struct sha256 leaf;
    struct fault fault = audit_inclusion_read(check->op, bytes, &inclusion);
    if (FAULTED(fault)) {
        return refuse(check, fault, "%s", check->op->note.detail);
    }
    verdict->sequence = inclusion.sequence;
    verdict->record = inclusion.record;
    verdict->chain = inclusion.chain;
    TRY(open_head(check, inclusion.head, "the signed head", &verdict->kid, &verdict->head));
    verdict->signature_good = true;
    if (inclusion.tree_size != verdict->head.tree_size) {
        return refuse(check, FAULT(AUDIT_PROOF), "the proof is for a tree of %lld records, and the head of %lld",
                      (long long)inclusion.tree_size, (long long)verdict->head.tree_size);
    }
    TRY(check_record(check, &inclusion));
    TRY(audit_tree_leaf(inclusion.record, &leaf));
    fault = audit_tree_check_inclusion(&leaf, (uint64_t)inclusion.sequence - 1, (uint64_t)inclusion.tree_size,
                                       inclusion.proof.at, inclusion.proof.count, &verdict->head.tree_root);
    if (FAULTED(fault)) {
        return refuse(check, fault, "the nodes do not lead from this record to the signed root: it is not record %lld",
                      (long long)inclusion.sequence);
    }
    verdict->proof_good = true;
    return OK;
}

static struct fault check_consistency(struct check *check, struct span bytes)
{
    struct audit_proof_verdict *verdict = check->verdict;
    struct audit_consistency consistency;
    struct fault fault = audit_consistency_read(check->op, bytes, &consistency);
    if (FAULTED(fault)) {
        return refuse(check, fault, "%s", check->op->note.detail);
    }
    verdict->first = consistency.first;
    verdict->first_root = consistency.first_root;
    TRY(open_head(check, consistency.head, "the signed head", &verdict->kid, &verdict->head));
    verdict->signature_good = true;
    if (consistency.second != verdict->head.tree_size) {
        return refuse(check, FAULT(AUDIT_PROOF), "the proof is for a tree of %lld records, and the head of %lld",
                      (long long)consistency.second, (long long)verdict->head.tree_size);
    }
    fault =
        audit_tree_check_consistency((uint64_t)consistency.first, &consistency.first_root, (uint64_t)consistency.second,
                                     &verdict->head.tree_root, consistency.proof.at, consistency.proof.count);
    if (FAULTED(fault)) {
        return refuse(check, fault, "the tree of %lld records with that root is not the beginning of the signed one",
                      (long long)consistency.first);
    }
    verdict->proof_good = true;
    return OK;
}

static struct fault check_head(struct check *check, struct span compact)
{
    struct audit_proof_verdict *verdict = check->verdict;
    TRY(open_head(check, compact, "the signed head", &verdict->kid, &verdict->head));
    verdict->signature_good = verdict->proof_good = true;
    return OK;
}

/* ---- all of it ---- */

/* By the member that only one of them has; the readers see to the rest. */
static enum audit_proof_kind kind_of(struct span bytes)
{
    static const char first[] = "{\"first\":";
    if (bytes.len == 0 || bytes.at[0] != '{') {
        return AUDIT_PROOF_HEAD;
    }
    bool consistency = bytes.len > sizeof(first) && memcmp(bytes.at, first, sizeof(first) - 1) == 0;
    return consistency ? AUDIT_PROOF_CONSISTENCY : AUDIT_PROOF_INCLUSION;
}

static struct fault verify(struct check *check, struct span artifact, struct span kept)
{
    static struct fault (*const checks[])(struct check *, struct span) = {
        [AUDIT_PROOF_HEAD] = check_head,
        [AUDIT_PROOF_INCLUSION] = check_inclusion,
        [AUDIT_PROOF_CONSISTENCY] = check_consistency,
    };
    check->verdict->kind = kind_of(artifact);
    TRY(checks[check->verdict->kind](check, artifact));
    TRY(check_anchor(check));
    return check_kept(check, kept);
}

struct fault audit_proof_verify(struct op *op, struct span artifact, const struct audit_pins *pins, struct span kept,
                                struct audit_proof_verdict *ret_verdict)
{
    struct check check = { .op = op, .pins = pins, .verdict = ret_verdict };
    *ret_verdict = (struct audit_proof_verdict){ 0 };
    return verify(&check, artifact, kept);
}
