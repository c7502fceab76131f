/* Heads and proofs, verified offline: every altered byte, every part in another's place, then what is good. */
#include "testlib.h"

#include "api/audit/verify_proof.h"
#include "api/projection/chain.h"
#include "appliance/base/crypto.h"

#include <openssl/evp.h>
#include <stdio.h>

#define RECORDS   300
#define FILE_ROOM ((size_t)1 << 20)

struct key {
    EVP_PKEY *key;
    struct buf spki;
    struct jwk_set set;
};
static struct key exporter, stranger;
static struct op *keys_op;

/* A tenant's history. */
static struct history {
    struct buf records[RECORDS + 1]; /* by sequence */
    struct sha256 chain[RECORDS + 1], leaves[RECORDS];
} acme, umbrella;

static void make_key(struct key *key, const char *window)
{
    unsigned char *der = NULL;
    CLEANUP(buf_free) struct buf json = BUF_INIT(4096);
    key->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    int len = i2d_PUBKEY(key->key, &der);
    assert_true(len > 0);
    key->spki = (struct buf)BUF_INIT(4096);
    assert_fault(buf_put(&key->spki, span_of(der, (size_t)len)), NONE);
    OPENSSL_free(der);
    assert_fault(buf_text(&json, "{\"keys\":["), NONE);
    assert_fault(jwk_print(buf_span(&key->spki), &json), NONE);
    json.len--; /* its brace */
    assert_fault(buf_printf(&json, "%s}]}", window), NONE);
    assert_fault(jwk_set_parse(keys_op, buf_span(&json), &key->set), NONE);
}

static void make_history(const char *tenant, struct history *history)
{
    for (int64_t sequence = 1; sequence <= RECORDS; sequence++) {
        struct event_view event = { .lane = "keys",
                                    .type = "key.generated",
                                    .schema_version = 1,
                                    .time = 1795233036123456 + sequence,
                                    .actor_subject = "b\xc3\xb6rge \"}]\\",
                                    .trace_id = "",
                                    .data = span_text("{\"a\":[1,2.5],\"z\":\"\\n\"}") };
        (void)snprintf(event.id.text, sizeof(event.id.text), "00000000-0000-8000-8000-%012lld", (long long)sequence);
        assert_fault(tenant_id_parse(span_text(tenant), &event.tenant), NONE);
        struct buf *record = &history->records[sequence];
        *record = (struct buf)BUF_INIT(4096);
        assert_fault(audit_record_bytes(&event, sequence, record), NONE);
        assert_fault(audit_chain_next(&history->chain[sequence - 1], buf_span(record), &history->chain[sequence]),
                     NONE);
        assert_fault(audit_tree_leaf(buf_span(record), &history->leaves[sequence - 1]), NONE);
    }
}

static int set_up(void **state)
{
    (void)state;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 600000, &keys_op), NONE);
    make_key(&exporter, "");
    make_key(&stranger, "");
    make_history("acme", &acme);
    make_history("umbrella", &umbrella);
    return 0;
}

static void free_key(struct key *key)
{
    EVP_PKEY_free(key->key);
    buf_free(&key->spki);
    jwk_set_free(&key->set);
}

static int tear_down(void **state)
{
    (void)state;
    free_key(&exporter);
    free_key(&stranger);
    for (size_t i = 1; i <= RECORDS; i++) {
        buf_free(&acme.records[i]);
        buf_free(&umbrella.records[i]);
    }
    op_free(keys_op);
    return 0;
}

/* ---- making artifacts ---- */

static struct fault node_of(void *arg, unsigned level, uint64_t index, struct sha256 *ret_node)
{
    return audit_tree_join(&((struct history *)arg)->leaves[index << level], (size_t)1 << level, ret_node);
}

static struct audit_head head_of(struct history *history, const char *tenant, int64_t size)
{
    struct audit_tree_source source = { node_of, history };
    struct audit_head head = { .generation = 1, .tree_size = size, .chain_head = history->chain[size] };
    assert_fault(tenant_id_parse(span_text(tenant), &head.tenant), NONE);
    assert_fault(audit_tree_root_of(&source, (uint64_t)size, &head.tree_root), NONE);
    rfc3339_print(1795233036123456, head.time);
    return head;
}

static struct span sign(struct op *op, const struct key *key, const char *typ, const struct audit_head *head)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(FILE_ROOM);
    CLEANUP(buf_free) struct buf compact = BUF_INIT(FILE_ROOM);
    struct span copy;
    assert_fault(audit_head_print(head, &payload), NONE);
    assert_fault(jws_sign(op, key->key, buf_span(&key->spki), typ, buf_span(&payload), &compact), NONE);
    assert_fault(arena_copy(op->arena, buf_span(&compact), &copy), NONE);
    return copy;
}

static struct span signed_head(struct op *op, struct history *history, int64_t size)
{
    struct audit_head head = head_of(history, history == &acme ? "acme" : "umbrella", size);
    return sign(op, &exporter, AUDIT_HEAD_TYP, &head);
}

static struct audit_inclusion inclusion_of(struct op *op, int64_t sequence, int64_t size)
{
    struct audit_tree_source source = { node_of, &acme };
    struct audit_inclusion inclusion = { .sequence = sequence,
                                         .tree_size = size,
                                         .seed = acme.chain[sequence - 1],
                                         .chain = acme.chain[sequence],
                                         .record = buf_span(&acme.records[sequence]),
                                         .head = signed_head(op, &acme, size) };
    assert_fault(audit_tree_prove_inclusion(&source, (uint64_t)sequence - 1, (uint64_t)size, inclusion.proof.at,
                                            &inclusion.proof.count),
                 NONE);
    return inclusion;
}

static struct audit_consistency consistency_of(struct op *op, int64_t first, int64_t second)
{
    struct audit_tree_source source = { node_of, &acme };
    struct audit_consistency consistency = { .first = first,
                                             .second = second,
                                             .first_root = head_of(&acme, "acme", first).tree_root,
                                             .head = signed_head(op, &acme, second) };
    assert_fault(audit_tree_prove_consistency(&source, (uint64_t)first, (uint64_t)second, consistency.proof.at,
                                              &consistency.proof.count),
                 NONE);
    return consistency;
}

static struct op *new_op(void)
{
    struct op *op = NULL;
    assert_fault(audit_verify_op(FILE_ROOM, &op), NONE);
    return op;
}

static struct fault judge(struct op *op, struct span artifact, struct span kept, struct audit_proof_verdict *verdict)
{
    struct audit_pins pins = { .keys = &exporter.set };
    struct fault fault = audit_proof_verify(op, artifact, &pins, kept, verdict);
    assert_true(FAULTED(fault) == (verdict->reason[0] != '\0'));
    return fault;
}

static struct fault judge_inclusion(struct op *op, const struct audit_inclusion *inclusion)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(FILE_ROOM);
    struct audit_proof_verdict verdict;
    assert_fault(audit_inclusion_print(inclusion, &out), NONE);
    return judge(op, buf_span(&out), span_of(NULL, 0), &verdict);
}

static struct fault judge_consistency(struct op *op, const struct audit_consistency *consistency, struct span kept)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(FILE_ROOM);
    struct audit_proof_verdict verdict;
    assert_fault(audit_consistency_print(consistency, &out), NONE);
    return judge(op, buf_span(&out), kept, &verdict);
}

/* ---- what is refused ---- */

/* One bit of each byte of the three artifacts: none is believed, whatever it is then. */
static void no_artifact_survives_an_altered_byte(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *maker = new_op();
    struct audit_inclusion inclusion = inclusion_of(maker, 200, 300);
    struct audit_consistency consistency = consistency_of(maker, 77, 300);
    struct buf files[3] = { BUF_INIT(FILE_ROOM), BUF_INIT(FILE_ROOM), BUF_INIT(FILE_ROOM) };
    assert_fault(buf_put(&files[0], inclusion.head), NONE);
    assert_fault(audit_inclusion_print(&inclusion, &files[1]), NONE);
    assert_fault(audit_consistency_print(&consistency, &files[2]), NONE);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        for (size_t at = 0; at < files[i].len; at++) {
            CLEANUP(op_freep) struct op *op = new_op();
            struct audit_proof_verdict verdict;
            uint8_t bit = (uint8_t)(1u << (at % 8));
            files[i].at[at] ^= bit;
            if (!FAULTED(judge(op, buf_span(&files[i]), span_of(NULL, 0), &verdict))) {
                fail_msg("artifact %zu: byte %zu may be altered", i, at);
            }
            files[i].at[at] ^= bit;
        }
        CLEANUP(op_freep) struct op *op = new_op();
        struct audit_proof_verdict verdict;
        assert_fault(judge(op, buf_span(&files[i]), span_of(NULL, 0), &verdict), NONE);
        assert_int_equal(verdict.kind, i);
        assert_true(FAULTED(judge(op, span_of(files[i].at, files[i].len - 1), span_of(NULL, 0), &verdict)));
        assert_fault(buf_text(&files[i], "\n"), NONE);
        assert_true(FAULTED(judge(op, buf_span(&files[i]), span_of(NULL, 0), &verdict)));
        buf_free(&files[i]);
    }
}

static void a_proof_of_another_record_tree_or_tenant_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    struct audit_inclusion good = inclusion_of(op, 200, 300), other = inclusion_of(op, 201, 300), bad = good;
    bad.record = other.record; /* in the place of another */
    assert_fault(judge_inclusion(op, &bad), AUDIT_PROOF);
    bad = other;
    bad.proof = good.proof;
    assert_fault(judge_inclusion(op, &bad), AUDIT_PROOF);
    bad = good;
    bad.head = signed_head(op, &acme, 299); /* a proof for another tree */
    assert_fault(judge_inclusion(op, &bad), AUDIT_PROOF);
    bad.tree_size = 299;
    assert_fault(judge_inclusion(op, &bad), AUDIT_PROOF);
    bad = inclusion_of(op, 1, 8); /* whose nodes would also do for 7 */
    bad.tree_size = 7;
    assert_fault(judge_inclusion(op, &bad), AUDIT_PROOF);
    bad = good;
    bad.head = signed_head(op, &umbrella, 300);
    assert_fault(judge_inclusion(op, &bad), AUDIT_TENANT);
    bad = good;
    bad.chain.at[0] ^= 1;
    assert_fault(judge_inclusion(op, &bad), CHAIN_BROKEN);
    bad = good;
    bad.proof.count--;
    assert_fault(judge_inclusion(op, &bad), AUDIT_PROOF);
    bad = good;
    bad.record = span_text("{\"sequence\":200}");
    assert_fault(judge_inclusion(op, &bad), AUDIT_PROOF);
    bad = inclusion_of(op, 1, 300);
    bad.seed.at[5] = 1; /* a chain that began before the first record, and fits */
    assert_fault(audit_chain_next(&bad.seed, bad.record, &bad.chain), NONE);
    assert_fault(judge_inclusion(op, &bad), CHAIN_BROKEN);
    bad = inclusion_of(op, 300, 300);
    bad.seed.at[5] ^= 1; /* likewise, before the newest */
    assert_fault(audit_chain_next(&bad.seed, bad.record, &bad.chain), NONE);
    assert_fault(judge_inclusion(op, &bad), CHAIN_HEAD);
}

static void a_head_that_says_something_else_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    struct audit_proof_verdict verdict;
    struct span none = span_of(NULL, 0);
    struct audit_head head = head_of(&acme, "acme", 300);
    assert_fault(judge(op, sign(op, &stranger, AUDIT_HEAD_TYP, &head), none, &verdict), JWS_KEY);
    assert_fault(judge(op, sign(op, &exporter, AUDIT_EXPORT_TYP, &head), none, &verdict), JWS_FORMAT);
    head.generation = 0;
    assert_fault(judge(op, sign(op, &exporter, AUDIT_HEAD_TYP, &head), none, &verdict), AUDIT_STATEMENT);
    head = head_of(&acme, "acme", 0);
    head.tree_root.at[0] ^= 1;
    assert_fault(judge(op, sign(op, &exporter, AUDIT_HEAD_TYP, &head), none, &verdict), CHAIN_HEAD);
    head = head_of(&acme, "acme", 1);
    head.chain_head = (struct sha256){ 0 };
    assert_fault(judge(op, sign(op, &exporter, AUDIT_HEAD_TYP, &head), none, &verdict), CHAIN_HEAD);
    static const char *const payloads[] = {
        "", "{}", "[]", "{\"format\":\"svc.audit.head.v1\"}", "null",
    };
    for (size_t i = 0; i < COUNT_OF(payloads); i++) {
        struct audit_head read;
        assert_fault(audit_head_read(op, span_text(payloads[i]), &read), AUDIT_STATEMENT);
        op->note = (struct fault_note){ 0 };
    }
}

static void what_the_pins_do_not_allow_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    struct audit_proof_verdict verdict;
    struct span none = span_of(NULL, 0), root = span_text("-----BEGIN CERTIFICATE-----\n");
    struct audit_head head = head_of(&acme, "acme", 300);
    struct span plain = sign(op, &exporter, AUDIT_HEAD_TYP, &head);
    struct audit_pins pins = { 0 };
    assert_fault(audit_proof_verify(op, plain, &pins, none, &verdict), AUDIT_PINS);
    pins = (struct audit_pins){ .keys = &exporter.set, .tsa_roots = root };
    assert_fault(audit_proof_verify(op, plain, &pins, none, &verdict), AUDIT_UNANCHORED);
    pins.unanchored_allowed = true;
    assert_fault(audit_proof_verify(op, plain, &pins, none, &verdict), NONE);
    assert_false(verdict.anchor_good);
    head.timestamp = span_text("no time stamp");
    struct span stamped = sign(op, &exporter, AUDIT_HEAD_TYP, &head);
    assert_fault(audit_proof_verify(op, stamped, &pins, none, &verdict), TST_INVALID);
    pins.tsa_roots = none;
    assert_fault(audit_proof_verify(op, stamped, &pins, none, &verdict), AUDIT_PINS);

    struct key windowed = { 0 }; /* in use later than the head says */
    make_key(&windowed, ",\"svc_not_after\":\"2028-01-01T00:00:00.000000Z\","
                        "\"svc_not_before\":\"2027-01-01T00:00:00.000000Z\"");
    head.timestamp = none;
    pins = (struct audit_pins){ .keys = &windowed.set };
    plain = sign(op, &windowed, AUDIT_HEAD_TYP, &head);
    assert_fault(audit_proof_verify(op, plain, &pins, none, &verdict), AUDIT_KEY_WINDOW);
    rfc3339_print(1893456000000000, head.time); /* 2030 */
    plain = sign(op, &windowed, AUDIT_HEAD_TYP, &head);
    assert_fault(audit_proof_verify(op, plain, &pins, none, &verdict), AUDIT_KEY_WINDOW);
    rfc3339_print(1830000000000000, head.time);
    plain = sign(op, &windowed, AUDIT_HEAD_TYP, &head);
    assert_fault(audit_proof_verify(op, plain, &pins, none, &verdict), NONE);
    free_key(&windowed);
}

static void a_kept_head_that_tells_another_history_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    struct audit_consistency proof = consistency_of(op, 77, 300);
    struct span unrelated = signed_head(op, &acme, 78), foreign = signed_head(op, &umbrella, 77);
    struct audit_head head = head_of(&acme, "acme", 77);
    head.tree_root.at[3] ^= 1;
    struct span forked = sign(op, &exporter, AUDIT_HEAD_TYP, &head),
                forged = sign(op, &stranger, AUDIT_HEAD_TYP, &head);
    struct audit_proof_verdict verdict;
    assert_fault(judge(op, signed_head(op, &acme, 300), unrelated, &verdict), AUDIT_PROOF);
    assert_non_null(strstr(verdict.reason, "between 78 and 300"));
    assert_fault(judge_consistency(op, &proof, unrelated), AUDIT_PROOF);
    assert_fault(judge_consistency(op, &proof, foreign), AUDIT_TENANT);
    assert_fault(judge_consistency(op, &proof, forked), AUDIT_PROOF);
    assert_fault(judge_consistency(op, &proof, forged), JWS_KEY);
    assert_fault(judge_consistency(op, &proof, span_text("rubbish")), JWS_FORMAT);
    proof.first_root = head.tree_root; /* as the liar would have it */
    assert_fault(judge_consistency(op, &proof, forked), AUDIT_PROOF);
    proof = consistency_of(op, 77, 300);
    proof.first = 76;
    assert_fault(judge_consistency(op, &proof, span_of(NULL, 0)), AUDIT_PROOF);
    proof = consistency_of(op, 77, 300);
    proof.second = 299;
    assert_fault(judge_consistency(op, &proof, span_of(NULL, 0)), AUDIT_PROOF);
}

/* ---- what is good ---- */

static void every_record_and_every_older_tree_is_proven(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 1, 2, 3, 255, 256, 257, 300 };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (int64_t at = 1; at <= sizes[i]; at += 1 + sizes[i] / 9) {
            CLEANUP(op_freep) struct op *op = new_op();
            struct audit_inclusion inclusion = inclusion_of(op, at, sizes[i]);
            struct audit_consistency consistency = consistency_of(op, at - 1, sizes[i]);
            assert_fault(judge_inclusion(op, &inclusion), NONE);
            assert_fault(judge_consistency(op, &consistency, signed_head(op, &acme, at - 1)), NONE);
            assert_fault(judge_consistency(op, &consistency, signed_head(op, &acme, sizes[i])), NONE);
        }
    }
}

static void the_verdict_says_what_was_proven(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf out = BUF_INIT(FILE_ROOM);
    struct audit_proof_verdict verdict;
    struct audit_inclusion inclusion = inclusion_of(op, 42, 300);
    assert_fault(audit_inclusion_print(&inclusion, &out), NONE);
    assert_fault(judge(op, buf_span(&out), signed_head(op, &acme, 300), &verdict), NONE);
    assert_int_equal(verdict.kind, AUDIT_PROOF_INCLUSION);
    assert_true(verdict.signature_good && verdict.proof_good && verdict.kept_good && !verdict.anchor_good);
    assert_string_equal(verdict.kid, exporter.set.at[0].kid);
    assert_string_equal(verdict.head.tenant.text, "acme");
    assert_int_equal(verdict.sequence, 42);
    assert_int_equal(verdict.head.tree_size, 300);
    assert_int_equal(verdict.kept_size, 300);
    assert_true(span_equal(verdict.record, buf_span(&acme.records[42])));
    struct audit_head nothing = head_of(&acme, "acme", 0);
    assert_fault(judge(op, sign(op, &exporter, AUDIT_HEAD_TYP, &nothing), span_of(NULL, 0), &verdict), NONE);
    assert_int_equal(verdict.kind, AUDIT_PROOF_HEAD);
    assert_int_equal(verdict.head.tree_size, 0);
}

static struct span failing_artifact;
static struct fault verify_once(void)
{
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(audit_verify_op(failing_artifact.len, &op));
    struct audit_pins pins = { .keys = &exporter.set };
    struct audit_proof_verdict verdict;
    return audit_proof_verify(op, failing_artifact, &pins, span_of(NULL, 0), &verdict);
}

static void want_of_memory_is_said_as_such(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf out = BUF_INIT(FILE_ROOM);
    struct audit_inclusion inclusion = inclusion_of(op, 42, 300);
    assert_fault(audit_inclusion_print(&inclusion, &out), NONE);
    failing_artifact = buf_span(&out);
    assert_true(fail_each_allocation(verify_once) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_of_another_record_tree_or_tenant_is_refused),
        cmocka_unit_test(a_head_that_says_something_else_is_refused),
        cmocka_unit_test(what_the_pins_do_not_allow_is_refused),
        cmocka_unit_test(a_kept_head_that_tells_another_history_is_refused),
        cmocka_unit_test(no_artifact_survives_an_altered_byte),
        cmocka_unit_test(want_of_memory_is_said_as_such),
        cmocka_unit_test(every_record_and_every_older_tree_is_proven),
        cmocka_unit_test(the_verdict_says_what_was_proven),
    };
    return cmocka_run_group_tests_name("audit/proof", tests, set_up, tear_down);
}
