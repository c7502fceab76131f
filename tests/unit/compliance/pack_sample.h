/* Evidence packs as the service makes them, signed with the keys of tests/audit/keys: the manifest is the service's own
 * (manifest.c), from facts of world.h. A recipe may spoil one thing, before it is signed or after. */
#ifndef TESTS_UNIT_COMPLIANCE_PACK_SAMPLE_H
#define TESTS_UNIT_COMPLIANCE_PACK_SAMPLE_H

#define STATE_COUNT ARTIFACT_STATE_COUNT /* exports and evaluator both have one */
#include "tests/unit/verify/artifact.h"
#undef STATE_COUNT

#include "unit/compliance/world.h"

#include "api/compliance/manifest.h"
#include "api/compliance/render.h"
#include "api/compliance/verify.h"
#include "appliance/base/json_view.h"
#include "fips/jws.h"

#define PACK_ROOM    ((size_t)4 << 20)
#define GENERATED_AT (WORLD_NOW + 250000)
#define UNRECORDED_ROW \
    "{\"certificate_id\":\"c-1\",\"fingerprint\":\"ab\",\"missing_fields\":[\"holder\"],\"subject\":\"CN=<b>x</b>\"}"
#define TALLY "{\"a\":1,\"unrecorded\":1}"
#define CUSTODY                                                                                                   \
    "{\"by_exportability\":" TALLY ",\"by_origin\":" TALLY ",\"by_source\":" TALLY ",\"by_storage_class\":" TALLY \
    ",\"recorded\":1,\"total\":2,\"unrecorded\":1,\"unrecorded_certificates\":[" UNRECORDED_ROW "]}"
#define READY_ROWS  "{\"name\":\"a\",\"object\":\"key:1\"},{\"name\":\"b\",\"object\":\"key:2\"}"
#define READY_LINES "{\"name\":\"a\",\"object\":\"key:1\"}\n{\"name\":\"b\",\"object\":\"key:2\"}\n"
#define ADCS        "{\"domains\":[],\"drift\":[]}"
#define CBOM        "{\"post_quantum\":0,\"quantum_vulnerable\":2,\"total\":2}"

static const char sample_yaml[] =
    "id: soc2\n"
    "catalogue: { name: \"Trust Services Criteria\", version: \"2017\" }\n"
    "controls:\n"
    "  - id: CC6.1\n"
    "    title: \"Access <script>alert(1)</script> & \\\"quotes\\\"\"\n"
    "    prerequisites:\n"
    "      - { name: signing, title: Signatures, kind: event, types: [codesign.signed], min: 2, recovery: sign }\n"
    "      - { name: custody, title: Custody, kind: fact, fact: custody.recorded, recovery: record it }\n"
    "      - { name: policy, title: Policy, kind: attestation, statement: access-policy, recovery: attest }\n"
    "  - id: CC7(1)\n"
    "    title: Monitoring\n"
    "    prerequisites:\n"
    "      - { name: refusals, title: Refusals, kind: event, types: [codesign.refused], recovery: wait for one }\n"
    "      - { name: custody, title: Custody, kind: fact, fact: custody.recorded, recovery: record it }\n"
    "gaps:\n"
    "  - { id: cpa-examination, title: Examination, owner: auditor }\n"
    "  - { id: management-assertion, title: Assertion, owner: operator, statement: access-policy }\n";

/* In place of the first `find` comes `put`. */
static inline void text_replace(struct buf *text, const char *find, const char *put)
{
    CLEANUP(buf_free) struct buf made = BUF_INIT(PACK_ROOM * 4);
    const uint8_t *at = memmem(text->at, text->len, find, strlen(find));
    if (at == NULL) {
        fail_msg("\"%s\" does not stand in it", find);
        return;
    }
    size_t before = (size_t)(at - text->at), behind = before + strlen(find);
    assert_fault(buf_put(&made, span_of(text->at, before)), NONE);
    assert_fault(buf_text(&made, put), NONE);
    assert_fault(buf_put(&made, span_of(text->at + behind, text->len - behind)), NONE);
    buf_clear(text);
    assert_fault(buf_put(text, buf_span(&made)), NONE);
}

/* What load.c would have read beside the facts. */
static inline void sample_evidence(struct world *world, struct evidence *evidence)
{
    static const struct evidence_type_count types[] = { { "codesign.refused", 3 }, { "codesign.signed", 40 } };
    char hex[2 * SHA256_LEN + 1];
    const char *readiness = NULL;
    struct sha256 digest;
    assert_fault(sha256_of(span_text(READY_LINES), &digest), NONE);
    hex_text(SPAN_ARRAY(digest.at), hex, sizeof(hex));
    assert_fault(arena_printf(world->op->arena, &readiness,
                              "{\"complete\":true,\"coverage\":\"what is known\",\"dataset_digest\":\"%s\","
                              "\"listed\":2,\"rows\":[" READY_ROWS "],\"total\":2}",
                              hex),
                 NONE);
    *evidence = (struct evidence){ .facts = world->all,
                                   .now = WORLD_NOW,
                                   .head_sequence = 5000,
                                   .generation = 1,
                                   .archived_through = 10,
                                   .window_first = 11,
                                   .window_last = 5000,
                                   .window_total = 43,
                                   .outside_total = 4947,
                                   .archived_total = 4,
                                   .types = types,
                                   .type_count = COUNT_OF(types),
                                   .custody = span_text(CUSTODY),
                                   .adcs = span_text(ADCS),
                                   .cbom = span_text(CBOM),
                                   .readiness = span_text(readiness) };
}

/* How many controls the evaluator calls evidenced. */
static inline size_t sample_manifest(struct world *world, const struct framework *framework, utc_us generated_at,
                                     struct buf *out)
{
    struct evidence evidence;
    struct framework_verdict verdict;
    sample_evidence(world, &evidence);
    assert_fault(framework_evaluate(world->op, framework, &evidence.facts, &verdict), NONE);
    assert_fault(manifest_print(world->op, &evidence, &verdict, generated_at, out), NONE);
    return verdict.evidenced;
}

/* The manifest of sample_yaml: the first control evidenced, the second one a gap. */
static inline void sample_plain(struct buf *out)
{
    struct world world;
    CLEANUP(op_freep) struct op *op = NULL;
    const struct framework *framework = NULL;
    assert_fault(op_new("test", world_tenant, 60000, &op), NONE);
    struct fault fault = framework_parse(op, "soc2", span_text(sample_yaml), &framework);
    if (FAULTED(fault)) {
        fail_msg("%s", op->note.detail);
    }
    world_make(&world, framework, &framework->controls[1].prerequisites[0], SPOILT_REMOVED, 0);
    sample_manifest(&world, framework, GENERATED_AT, out);
    world_clear(&world);
}

/* The exporter's public key alone, pinned without a window. */
static inline void sample_keys(EVP_PKEY *key, struct jwk_set *ret_keys)
{
    CLEANUP(op_freep) struct op *op = NULL;
    uint8_t room[256];
    assert_fault(op_new("test", world_tenant, 60000, &op), NONE);
    assert_fault(evidence_key(op, key_spki(key, room), ret_keys), NONE);
}

/* How a pack is put together, and what may be wrong with it. */
struct pack_recipe {
    EVP_PKEY *signer; /* NULL = the exporter's key */
    const char *typ;  /* NULL = the right one */
    bool stamped;
    utc_us stamped_at;  /* 0 = a second after the manifest */
    bool other_imprint; /* the stamp is over something else */
};

static inline void put_copy(struct jout *jout, struct op *op, struct span manifest, const char *name)
{
    struct view view;
    if (!FAULTED(view_of(op, manifest, &view)) && view_get(view, name).json.len > 0) {
        jout_key_raw(jout, name, view_get(view, name).json);
    } else {
        jout_key_text(jout, name, "missing");
    }
}

static inline void sample_stamp(const struct pack_recipe *recipe, struct span manifest, struct buf *out)
{
    struct sha256 digest;
    assert_fault(sha256_of(manifest, &digest), NONE);
    digest.at[0] ^= recipe->other_imprint;
    stamp_make(&digest, recipe->stamped_at != 0 ? recipe->stamped_at : GENERATED_AT + SECOND, made_by.leaf, out);
}

static inline void sample_pack(const struct pack_recipe *recipe, struct span manifest, struct buf *out)
{
    CLEANUP(buf_free) struct buf jws = BUF_INIT(PACK_ROOM), stamp = BUF_INIT(65536);
    CLEANUP(op_freep) struct op *op = NULL;
    EVP_PKEY *key = recipe->signer != NULL ? recipe->signer : made_by.exporter;
    struct sha256 digest;
    struct jout jout;
    char kid[44];
    uint8_t room[256];
    struct span spki = key_spki(key, room);
    assert_fault(evidence_verify_op(PACK_ROOM, &op), NONE);
    assert_fault(jwk_kid(spki, kid), NONE);
    assert_fault(jws_sign(op, key, spki, recipe->typ != NULL ? recipe->typ : EVIDENCE_TYP, manifest, &jws), NONE);
    assert_fault(sha256_of(manifest, &digest), NONE);
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "format", EVIDENCE_PACK_FORMAT);
    jout_key_text(&jout, "framework", "soc2");
    jout_key(&jout, "signed_export");
    jout_object(&jout);
    jout_key_raw(&jout, "manifest", manifest);
    jout_key_hex(&jout, "manifest_sha256", SPAN_ARRAY(digest.at));
    jout_key_text(&jout, "algorithm", EVIDENCE_JWS_ALG);
    jout_key_text(&jout, "key_id", kid);
    jout_key(&jout, "jws");
    jout_span_text(&jout, buf_span(&jws));
    jout_key(&jout, "timestamp");
    if (recipe->stamped) {
        sample_stamp(recipe, manifest, &stamp);
        jout_base64(&jout, buf_span(&stamp));
    } else {
        jout_null(&jout);
    }
    jout_object_end(&jout);
    jout_key_base64(&jout, "public_key_der", spki);
    put_copy(&jout, op, manifest, "custody");
    put_copy(&jout, op, manifest, "adcs");
    put_copy(&jout, op, manifest, "crypto_readiness");
    jout_object_end(&jout);
    assert_fault(jout_end(&jout), NONE);
}

#endif
