/* Bad packs, each of which is a good one with one thing altered: before it was signed (a service that lies), behind it
 * (whoever carried the file), or in what it is judged by. Each has its own code, and names the member. */
#include "unit/compliance/pack_sample.h"

enum where {
    SIGNED, /* in the manifest, which is made canonical again, signed and copied */
    RAW,    /* the same, and not made canonical */
    FILE_   /* in the finished file */
};
struct bad {
    const char *name;
    enum where where;
    const char *find, *put; /* put NULL: from `find` to the next } is cut out */
    enum evidence_reason reason;
    const char *member; /* its beginning */
};

#define M     "/signed_export/manifest"
#define V0    M "/verdicts/0"
#define P00   V0 "/prerequisites/0"
#define WHOLE "2026-10-17T08:00:00.000000Z"
#define END   "2027-01-15T08:00:00.000000Z"
#define EVENT_1                                                                                                          \
    "{\"chain\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"event_id\":\"01900000-0000-8000-" \
    "8000-000000000001\",\"observed_at\":\"" END "\",\"sequence\":1,\"type\":\"codesign.signed\"}"
#define OBJECT "{\"object\":\"some-summary:default\",\"snapshot_at\":\"" END "\"}"

static const struct bad bads[] = {
    /* the file */
    { "no JSON", FILE_, "\"format\"", "format", PACK_NOT_JSON, "" },
    { "a member is doubled", FILE_, "{\"format\"", "{\"framework\":\"soc2\",\"format\"", PACK_MEMBERS, "/framework" },
    { "an eighth member", FILE_, "{\"format\"", "{\"extra\":1,\"format\"", PACK_MEMBERS, "/extra" },
    { "a member is missing", FILE_, "\"adcs\":" ADCS ",\"crypto_readiness\"", "\"crypto_readiness\"", PACK_MEMBERS,
      "/adcs" },
    { "a member is null", FILE_, "\"framework\":\"soc2\",\"signed", "\"framework\":null,\"signed", PACK_MEMBERS,
      "/framework" },
    { "an older format", FILE_, "evidence-pack.v5", "evidence-pack.v4", PACK_FORMAT, "/format" },
    { "the envelope has more", FILE_, "\"signed_export\":{", "\"signed_export\":{\"note\":\"\",", PACK_ENVELOPE,
      "/signed_export/note" },
    { "the envelope has no digest", FILE_, "\"manifest_sha256\"", "\"manifest_sha512\"", PACK_ENVELOPE,
      "/signed_export" },
    { "another algorithm", FILE_, "\"algorithm\":\"ES256\"", "\"algorithm\":\"HS256\"", PACK_ALGORITHM,
      "/signed_export/algorithm" },
    { "the public key is cut", FILE_, "\"public_key_der\":\"MFkw", "\"public_key_der\":\"MFkx", PACK_PUBLIC_KEY,
      "/public_key_der" },
    { "key_id names another key", FILE_, "\"key_id\":\"b", "\"key_id\":\"c", PACK_KEY_ID, "/signed_export/key_id" },
    { "the JWS has two parts", FILE_, "\"jws\":\"ey", "\"jws\":\"e.y", PACK_JWS_FORM, "/signed_export/jws" },
    { "the payload is altered in the JWS", FILE_, ".eyJhZGNz", ".eyJhZGNy", PACK_SIGNATURE, "/signed_export/jws" },
    { "the manifest copy is altered", FILE_, "\"title\":\"Signatures\"", "\"title\":\"signatures\"", PACK_MANIFEST_COPY,
      M },
    { "the manifest copy has a verdict turned", FILE_, "\"verdict\":\"gap\"", "\"verdict\":\"evidenced\"",
      PACK_MANIFEST_COPY, M },
    { "the digest is another one", FILE_, "\"manifest_sha256\":\"", "\"manifest_sha256\":\"00", PACK_ENVELOPE,
      "/signed_export/manifest_sha256" },
    { "the framework beside it is another one", FILE_, "\"framework\":\"soc2\",\"signed",
      "\"framework\":\"hipaa\",\"signed", PACK_FRAMEWORK_COPY, "/framework" },
    { "the time stamp is a number", FILE_, "\"timestamp\":null", "\"timestamp\":7", PACK_STAMP_FORM,
      "/signed_export/timestamp" },
    { "the time stamp is no base64", FILE_, "\"timestamp\":null", "\"timestamp\":\"*\"", PACK_STAMP_FORM,
      "/signed_export/timestamp" },
    /* the manifest */
    { "not canonical", RAW, "{\"adcs\"", "{ \"adcs\"", PACK_PAYLOAD, "/signed_export/jws" },
    { "members out of order", RAW, "\"listed\":2,", "\"zlisted\":2,", PACK_PAYLOAD, "/signed_export/jws" },
    { "a member too many", SIGNED, "{\"adcs\"", "{\"aaa\":1,\"adcs\"", PACK_MANIFEST, M "/aaa" },
    { "no cbom", SIGNED, "\"cbom\":" CBOM ",", "", PACK_MANIFEST, M "/cbom" },
    { "another manifest format", SIGNED, "manifest.v5", "manifest.v6", PACK_MANIFEST_FORMAT, M "/format" },
    { "no tenant", SIGNED, "\"tenant_id\":\"default\"", "\"tenant_id\":\"De fault\"", PACK_TENANT, M "/tenant_id" },
    { "made before its window ended", SIGNED, "\"generated_at\":\"2027", "\"generated_at\":\"2026", PACK_TIME,
      M "/generated_at" },
    { "a time in another form", SIGNED, "\"generated_at\":\"2027-01-15T08:00:00.250000Z\"",
      "\"generated_at\":\"2027-01-15T08:00:00.25Z\"", PACK_TIME, M "/generated_at" },
    { "89 days", SIGNED, "\"days\":90", "\"days\":89", PACK_WINDOW, M "/evidence_window/days" },
    { "a window of other length", SIGNED, "\"days\":90,\"from\":\"2026-10-17", "\"days\":90,\"from\":\"2026-10-16",
      PACK_WINDOW, M "/evidence_window" },
    { "no such framework", SIGNED, "\"id\":\"soc2\"", "\"id\":\"soc3\"", PACK_FRAMEWORK, M "/framework/id" },
    { "a framework without version", SIGNED, ",\"version\":\"2017\"", "", PACK_FRAMEWORK, M "/framework" },
    { "no notice", SIGNED, "and no claim of", "and a claim of", PACK_NOTICE, M "/notice" },
    { "more archived than there is", SIGNED, "\"archived_through\":10", "\"archived_through\":5001", PACK_TRAIL,
      M "/audit/archived_through" },
    { "a chain head of half the length", SIGNED, "\"chain_head\":\"00000000000000000000000000000000",
      "\"chain_head\":\"", PACK_TRAIL, M "/audit/chain_head" },
    /* populations and datasets */
    { "types do not add up", SIGNED, "\"count\":40", "\"count\":39", PACK_TOTALS, M "/population/total" },
    { "a type stands there twice", SIGNED, "codesign.signed\"}],\"first", "codesign.refused\"}],\"first", PACK_TOTALS,
      M "/population/by_type/1" },
    { "more records than sequences", SIGNED, "\"first_sequence\":11", "\"first_sequence\":4999", PACK_TOTALS,
      M "/population" },
    { "a record too many", SIGNED, "\"outside_window\":4947", "\"outside_window\":4948", PACK_TOTALS, M "/population" },
    { "a record that nobody counted", SIGNED, "\"outside_window\":4947", "\"outside_window\":4946", PACK_TOTALS,
      M "/population" },
    { "archived records counted twice", SIGNED, "\"first_sequence\":11", "\"first_sequence\":10", PACK_TOTALS,
      M "/population" },
    { "more archived in the window than archived", SIGNED, "\"archived_in_window\":4", "\"archived_in_window\":11",
      PACK_TOTALS, M "/population/archived_in_window" },
    { "no word of archived records", SIGNED, "\"archived_in_window\":4,", "", PACK_TOTALS,
      M "/population/archived_in_window" },
    { "more archived of a type than in the window", SIGNED, "\"excluded\":[],\"matched\":2",
      "\"excluded\":[{\"count\":5,\"reason\":\"archived\"}],\"matched\":2", PACK_POPULATION_REASON,
      P00 "/population/excluded/0" },
    { "archived records that are in no total", SIGNED, "\"excluded\":[],\"matched\":2",
      "\"excluded\":[{\"count\":4,\"reason\":\"archived\"}],\"matched\":2", PACK_POPULATION_SUM,
      P00 "/population/total" },
    { "a row of custody is gone", SIGNED, UNRECORDED_ROW, "", PACK_CUSTODY, M "/custody/unrecorded" },
    { "a count of custody is altered", SIGNED, "\"recorded\":1,\"total\":2", "\"recorded\":2,\"total\":2", PACK_CUSTODY,
      M "/custody/total" },
    { "a tally of custody is altered", SIGNED, "\"by_origin\":{\"a\":1", "\"by_origin\":{\"a\":2", PACK_CUSTODY,
      M "/custody/by_origin" },
    { "an unrecorded row lacks nothing", SIGNED, "\"missing_fields\":[\"holder\"]", "\"missing_fields\":[]",
      PACK_CUSTODY, M "/custody/unrecorded_certificates" },
    { "a row of readiness is altered", SIGNED, "\"name\":\"b\"", "\"name\":\"c\"", PACK_READINESS,
      M "/crypto_readiness/dataset_digest" },
    { "a row of readiness is gone", SIGNED, ",{\"name\":\"b\",\"object\":\"key:2\"}", "", PACK_DATASET,
      M "/crypto_readiness/listed" },
    { "readiness without what it covers", SIGNED, "\"coverage\":\"what is known\",", "", PACK_DATASET,
      M "/crypto_readiness/coverage" },
    { "adcs is no object", SIGNED, "{\"adcs\":" ADCS, "{\"adcs\":[]", PACK_DATASET, M "/adcs" },
    { "cbom is empty", SIGNED, "\"cbom\":" CBOM, "\"cbom\":{}", PACK_DATASET, M "/cbom" },
    /* verdicts */
    { "a gap is called evidenced", SIGNED, "\"verdict\":\"gap\"", "\"verdict\":\"evidenced\"", PACK_VERDICT_STATE,
      M "/verdicts/1/verdict" },
    { "what is evidenced is called a gap", SIGNED, "\"verdict\":\"evidenced\"", "\"verdict\":\"gap\"",
      PACK_VERDICT_STATE, V0 "/verdict" },
    { "another word for a verdict", SIGNED, "\"verdict\":\"evidenced\"", "\"verdict\":\"compliant\"", PACK_VERDICT_WORD,
      V0 "/verdict" },
    { "a control stands there twice", SIGNED, "\"control\":\"CC7(1)\"", "\"control\":\"CC6.1\"", PACK_VERDICT_TWICE,
      M "/verdicts/1" },
    { "a verdict without title", SIGNED, "\"title\":\"Monitoring\",", "", PACK_VERDICT, M "/verdicts/1/title" },
    { "a missing prerequisite is not listed", SIGNED, "{\"name\":\"refusals\",\"recovery\"", NULL, PACK_VERDICT_MISSING,
      M "/verdicts/1/missing_prerequisites" },
    { "another one is listed", SIGNED, "{\"name\":\"refusals\",\"recovery\"", "{\"name\":\"custody\",\"recovery\"",
      PACK_VERDICT_MISSING, M "/verdicts/1/missing_prerequisites/0" },
    { "one is listed that is met", SIGNED, "\"missing_prerequisites\":[]",
      "\"missing_prerequisites\":[{\"name\":\"x\",\"recovery\":\"x\",\"state\":\"missing\",\"why\":\"x\"}]",
      PACK_VERDICT_MISSING, V0 "/missing_prerequisites" },
    { "a verdict about another window", SIGNED, "\"verdict\":\"evidenced\",\"window\":{\"from\":\"2026-10-17",
      "\"verdict\":\"evidenced\",\"window\":{\"from\":\"2026-10-18", PACK_VERDICT_WINDOW, V0 "/window" },
    /* prerequisites */
    { "a prerequisite without name", SIGNED, "\"name\":\"signing\",", "", PACK_PREREQUISITE, P00 "/name" },
    { "a prerequisite stands there twice", SIGNED, "\"name\":\"custody\"", "\"name\":\"signing\"",
      PACK_PREREQUISITE_TWICE, V0 "/prerequisites/1" },
    { "an unknown kind", SIGNED, "\"kind\":\"event\"", "\"kind\":\"opinion\"", PACK_PREREQUISITE_KIND, P00 "/kind" },
    { "an unknown state", SIGNED, "\"state\":\"met\",\"title\":\"Signatures\"",
      "\"state\":\"fine\",\"title\":\"Signatures\"", PACK_PREREQUISITE_STATE, P00 "/state" },
    { "a window beyond the evidence's", SIGNED, "2 asked for.\",\"window\":{\"from\":\"2026-10-17",
      "2 asked for.\",\"window\":{\"from\":\"2026-10-16", PACK_PREREQUISITE_WINDOW, P00 "/window" },
    { "an attestation of before the window", SIGNED,
      "until 2027-01-16T08:00:00.000000Z.\",\"window\":{\"from\":\"2026-10-17",
      "until 2027-01-16T08:00:00.000000Z.\",\"window\":{\"from\":\"2026-01-17", PACK_PREREQUISITE_WINDOW,
      V0 "/prerequisites/2/window" },
    { "met by no reference", SIGNED, "\"references\":[" OBJECT "]", "\"references\":[]", PACK_MET_EMPTY,
      V0 "/prerequisites/1" },
    { "met by no match", SIGNED,
      "\"excluded\":[],\"matched\":2,\"query\":\"audit records of the evidence window with type in (codesign.signed); at "
      "least 2\",\"total\":2",
      "\"excluded\":[],\"matched\":0,\"query\":\"x\",\"total\":0", PACK_MET_EMPTY, P00 },
    { "more references than matches", SIGNED,
      "\"excluded\":[],\"matched\":2,\"query\":\"audit records of the evidence window with type in (codesign.signed); at "
      "least 2\",\"total\":2",
      "\"excluded\":[],\"matched\":1,\"query\":\"x\",\"total\":1", PACK_REFERENCE_COUNT, P00 },
    { "a population that does not add up", SIGNED, "least 2\",\"total\":2", "least 2\",\"total\":3",
      PACK_POPULATION_SUM, P00 "/population/total" },
    { "an unknown reason of exclusion", SIGNED, "\"excluded\":[],\"matched\":2",
      "\"excluded\":[{\"count\":1,\"reason\":\"other\"}],\"matched\":2", PACK_POPULATION_REASON,
      P00 "/population/excluded/0" },
    { "a reason that excludes nothing", SIGNED, "\"excluded\":[],\"matched\":2",
      "\"excluded\":[{\"count\":0,\"reason\":\"stale\"}],\"matched\":2", PACK_POPULATION_REASON,
      P00 "/population/excluded/0" },
    { "a population without query", SIGNED,
      "\"query\":\"audit records of the evidence window with type in "
      "(codesign.signed); at least 2\",",
      "", PACK_POPULATION, P00 "/population/query" },
    /* references */
    { "a reference before the window", SIGNED, "\"observed_at\":\"" END "\",\"sequence\":1,",
      "\"observed_at\":\"2026-10-17T07:59:59.999999Z\",\"sequence\":1,", PACK_REFERENCE_WINDOW,
      P00 "/references/0/observed_at" },
    { "a reference behind the window", SIGNED, "\"observed_at\":\"" END "\",\"sequence\":1,",
      "\"observed_at\":\"2027-01-15T08:00:00.000001Z\",\"sequence\":1,", PACK_REFERENCE_WINDOW,
      P00 "/references/0/observed_at" },
    { "a record that the trail did not have", SIGNED, "\"sequence\":1,", "\"sequence\":5001,", PACK_REFERENCE_SEQUENCE,
      P00 "/references/0/sequence" },
    { "a reference without chain", SIGNED, "\"references\":[{\"chain\":\"00000000", "\"references\":[{\"chain\":\"",
      PACK_REFERENCE, P00 "/references/0/chain" },
    { "the same event twice", SIGNED, "8000-000000000002", "8000-000000000001", PACK_REFERENCE_TWICE,
      P00 "/references/1" },
    { "an event id that is none", SIGNED, "01900000-0000-8000-8000-000000000001",
      "01900000-0000-8000-8000-00000000000X", PACK_REFERENCE, P00 "/references/0/event_id" },
    { "an object where an event is wanted", SIGNED, "\"references\":[" EVENT_1, "\"references\":[" OBJECT,
      PACK_REFERENCE_KIND, P00 "/references/0" },
    { "an event where an object is wanted", SIGNED, "\"references\":[" OBJECT, "\"references\":[" EVENT_1,
      PACK_REFERENCE_KIND, V0 "/prerequisites/1/references/0" },
    { "an attestation without evidence", SIGNED,
      "\"event_id\":\"01900000-0000-8000-8000-00000000a77e\",\"evidence_sha256\":\"" WORLD_DIGEST
      "\",\"observed_at\":\"2027-01-14T08:00:00.000000Z\",\"sequence\":7,\"type\":\"inventory.attestation.recorded\"}],",
      "\"event_id\":\"01900000-0000-8000-8000-00000000a77e\",\"observed_at\":\"2027-01-14T08:00:00.000000Z\",\"sequence\":7"
      ",\"type\":\"inventory.attestation.recorded\"}],",
      PACK_REFERENCE, V0 "/prerequisites/2/references/0/evidence_sha256" },
    /* gaps */
    { "a gap of nobody", SIGNED, "\"owner\":\"auditor\"", "\"owner\":\"vendor\"", PACK_GAP_OWNER,
      M "/attestation_gaps/0/owner" },
    { "a gap that nobody attested is closed", SIGNED, "\"state\":\"missing\",\"statement\":null",
      "\"state\":\"met\",\"statement\":null", PACK_GAP_STATE, M "/attestation_gaps/0/state" },
    { "an attested gap is open", SIGNED, "\"state\":\"met\",\"statement\":\"access-policy\"",
      "\"state\":\"stale\",\"statement\":\"access-policy\"", PACK_GAP_STATE, M "/attestation_gaps/1/state" },
    { "an attestation that had ended", SIGNED, "\"expires_at\":\"2027-01-16", "\"expires_at\":\"2027-01-15",
      PACK_GAP_STATE, M "/attestation_gaps/1/attestation/expires_at" },
    { "a gap stands there twice", SIGNED, "\"id\":\"management-assertion\"", "\"id\":\"cpa-examination\"",
      PACK_GAP_TWICE, M "/attestation_gaps/1" },
    { "a gap without title", SIGNED, ",\"title\":\"Examination\"", "", PACK_GAP, M "/attestation_gaps/0/title" },
    { "a gap without its statement", SIGNED, ",\"statement\":null", "", PACK_GAP, M "/attestation_gaps/0" },
};

static void spoil(const struct bad *bad, struct buf *text)
{
    CLEANUP(buf_free) struct buf found = BUF_INIT(PACK_ROOM);
    const char *find = bad->find;
    if (bad->put == NULL) {
        const uint8_t *at = memmem(text->at, text->len, find, strlen(find));
        assert_non_null(at);
        const uint8_t *end = memchr(at, '}', text->len - (size_t)(at - text->at));
        assert_non_null(end);
        assert_fault(buf_put(&found, span_of(at, (size_t)(end - at) + 1)), NONE);
        assert_fault(buf_cstr(&found, &find), NONE);
    }
    text_replace(text, find, bad->put != NULL ? bad->put : "");
}

static void make(const struct bad *bad, struct buf *pack)
{
    CLEANUP(buf_free) struct buf manifest = BUF_INIT(PACK_ROOM), canonical = BUF_INIT(PACK_ROOM);
    const struct pack_recipe recipe = { .signer = NULL };
    sample_plain(&manifest);
    if (bad != NULL && bad->where != FILE_) {
        spoil(bad, &manifest);
    }
    if (bad != NULL && bad->where == RAW) {
        sample_pack(&recipe, buf_span(&manifest), pack);
        return;
    }
    assert_fault(json_canonical(buf_span(&manifest), &canonical), NONE);
    sample_pack(&recipe, buf_span(&canonical), pack);
    if (bad != NULL && bad->where == FILE_) {
        spoil(bad, pack);
    }
}

static struct fault judge(struct op *op, struct span pack, struct span roots, struct evidence_verdict *verdict)
{
    CLEANUP(jwk_set_free) struct jwk_set keys = { 0 };
    sample_keys(made_by.exporter, &keys);
    const struct evidence_pins pins = { .keys = &keys, .tsa_roots = roots };
    return evidence_verify(op, pack, &pins, verdict);
}

static void assert_refused(const char *name, struct fault fault, const struct evidence_verdict *verdict,
                           enum evidence_reason reason, const char *member)
{
    bool same = fault.code == FAULT_EVIDENCE_REFUSED && verdict->reason == reason &&
                strncmp(verdict->member, member, strlen(member)) == 0 && verdict->why[0] != '\0';
    if (!same) {
        fail_msg("%s: %s at \"%s\" (%s), not %s at \"%s\"", name, evidence_reason_text(verdict->reason),
                 verdict->member, verdict->why, evidence_reason_text(reason), member);
    }
}

static void every_bad_pack_is_refused_for_its_own_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bads); i++) {
        CLEANUP(buf_free) struct buf pack = BUF_INIT(PACK_ROOM);
        CLEANUP(op_freep) struct op *op = NULL;
        struct evidence_verdict verdict;
        make(&bads[i], &pack);
        assert_fault(evidence_verify_op(pack.len, &op), NONE);
        struct fault fault = judge(op, buf_span(&pack), (struct span){ 0 }, &verdict);
        assert_refused(bads[i].name, fault, &verdict, bads[i].reason, bads[i].member);
    }
}

/* Each of the seven, and what the copies are, altered by whoever carries the file. */
static void a_convenience_copy_that_differs_is_refused(void **state)
{
    static const struct {
        const char *copy, *put;
        enum evidence_reason reason;
    } copies[] = { { "\"custody\":{\"by_exportability\":{\"a\":1", "\"custody\":{\"by_exportability\":{\"a\":2",
                     PACK_CUSTODY_COPY },
                   { "\"adcs\":{\"domains\":[]", "\"adcs\":{\"domains\":[1]", PACK_ADCS_COPY },
                   { "\"crypto_readiness\":{\"complete\":true", "\"crypto_readiness\":{\"complete\":false",
                     PACK_READINESS_COPY } };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(copies); i++) {
        CLEANUP(buf_free) struct buf pack = BUF_INIT(PACK_ROOM), head = BUF_INIT(PACK_ROOM), tail = BUF_INIT(PACK_ROOM);
        CLEANUP(op_freep) struct op *op = NULL;
        struct evidence_verdict verdict;
        make(NULL, &pack);
        const uint8_t *behind = memmem(pack.at, pack.len, "\"public_key_der\"", strlen("\"public_key_der\""));
        assert_non_null(behind);
        assert_fault(buf_put(&head, span_of(pack.at, (size_t)(behind - pack.at))), NONE);
        assert_fault(buf_put(&tail, span_of(behind, pack.len - head.len)), NONE);
        text_replace(&tail, copies[i].copy, copies[i].put);
        assert_fault(buf_put(&head, buf_span(&tail)), NONE);
        assert_fault(evidence_verify_op(head.len, &op), NONE);
        struct fault fault = judge(op, buf_span(&head), (struct span){ 0 }, &verdict);
        assert_refused("a copy", fault, &verdict, copies[i].reason, "/");
        assert_non_null(verdict.kid); /* the signature itself is good */
    }
}

static void only_the_pinned_key_is_believed_and_only_in_its_time(void **state)
{
    CLEANUP(buf_free) struct buf pack = BUF_INIT(PACK_ROOM), manifest = BUF_INIT(PACK_ROOM);
    CLEANUP(buf_free) struct buf typ = BUF_INIT(PACK_ROOM), digest = BUF_INIT(PACK_ROOM);
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(jwk_set_free) struct jwk_set stranger = { 0 };
    struct evidence_verdict verdict;
    struct evidence_pins pins = { .keys = &stranger };
    (void)state;
    make(NULL, &pack);
    sample_keys(made_by.stranger, &stranger);
    assert_fault(evidence_verify_op(pack.len, &op), NONE);
    assert_refused("stranger", evidence_verify(op, buf_span(&pack), &pins, &verdict), &verdict, PACK_KEY_UNPINNED,
                   "/public_key_der");
    assert_null(verdict.kid);
    pins.keys = NULL;
    assert_refused("no pin", evidence_verify(op, buf_span(&pack), &pins, &verdict), &verdict, PACK_NO_PIN, "");
    pins.keys = &made_by.pinned; /* until 2026-12-01 */
    assert_refused("window", evidence_verify(op, buf_span(&pack), &pins, &verdict), &verdict, PACK_KEY_WINDOW,
                   M "/generated_at");
    assert_refused("empty", judge(op, (struct span){ 0 }, (struct span){ 0 }, &verdict), &verdict, PACK_SIZE, "");
    /* the pinned key, signing something of another type: an audit export is no pack */
    sample_plain(&manifest);
    sample_pack(&(struct pack_recipe){ .typ = "svc-audit+jws" }, buf_span(&manifest), &typ);
    assert_refused("typ", judge(op, buf_span(&typ), (struct span){ 0 }, &verdict), &verdict, PACK_JWS_FORM,
                   "/signed_export/jws");
    /* signed by a stranger who shows the pinned key */
    sample_pack(&(struct pack_recipe){ .signer = made_by.stranger }, buf_span(&manifest), &digest);
    assert_refused("other", judge(op, buf_span(&digest), (struct span){ 0 }, &verdict), &verdict, PACK_KEY_UNPINNED,
                   "/public_key_der");
}

static void a_digest_of_something_else_is_refused(void **state)
{
    CLEANUP(buf_free) struct buf pack = BUF_INIT(PACK_ROOM);
    CLEANUP(op_freep) struct op *op = NULL;
    struct evidence_verdict verdict;
    (void)state;
    make(NULL, &pack);
    uint8_t *at = memmem(pack.at, pack.len, "\"manifest_sha256\":\"", strlen("\"manifest_sha256\":\""));
    assert_non_null(at);
    at += strlen("\"manifest_sha256\":\"");
    *at = *at == '0' ? '1' : '0';
    assert_fault(evidence_verify_op(pack.len, &op), NONE);
    assert_refused("digest", judge(op, buf_span(&pack), (struct span){ 0 }, &verdict), &verdict, PACK_DIGEST,
                   "/signed_export/manifest_sha256");
}

static void the_time_stamp_is_judged_by_the_pinned_root(void **state)
{
    static const struct {
        const char *name;
        struct pack_recipe recipe;
        bool other_root;
        enum evidence_reason reason;
    } rows[] = {
        { "absent", { .stamped = false }, false, PACK_STAMP_ABSENT },
        { "another manifest", { .stamped = true, .other_imprint = true }, false, PACK_STAMP_IMPRINT },
        { "another root", { .stamped = true }, true, PACK_STAMP_INVALID },
        { "too early", { .stamped = true, .stamped_at = GENERATED_AT - 60 * SECOND }, false, PACK_STAMP_TIME },
        { "too late", { .stamped = true, .stamped_at = GENERATED_AT + 3700 * SECOND }, false, PACK_STAMP_LATE },
        { "good", { .stamped = true }, false, PACK_HOLDS },
        { "good late", { .stamped = true, .stamped_at = GENERATED_AT + 3500 * SECOND }, false, PACK_HOLDS },
    };
    CLEANUP(buf_free) struct buf manifest = BUF_INIT(PACK_ROOM);
    (void)state;
    sample_plain(&manifest);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CLEANUP(buf_free) struct buf pack = BUF_INIT(PACK_ROOM);
        CLEANUP(op_freep) struct op *op = NULL;
        struct evidence_verdict verdict;
        sample_pack(&rows[i].recipe, buf_span(&manifest), &pack);
        assert_fault(evidence_verify_op(pack.len, &op), NONE);
        struct span roots = buf_span(rows[i].other_root ? &made_by.other_root : &made_by.root);
        struct fault fault = judge(op, buf_span(&pack), roots, &verdict);
        if (rows[i].reason != PACK_HOLDS) {
            assert_refused(rows[i].name, fault, &verdict, rows[i].reason, "/signed_export/timestamp");
            assert_false(verdict.timestamp_good);
            assert_fault(judge(op, buf_span(&pack), (struct span){ 0 }, &verdict),
                         NONE); /* without a root: not judged */
            assert_int_equal(verdict.timestamp_there, rows[i].recipe.stamped);
            assert_false(verdict.timestamp_good);
            continue;
        }
        assert_fault(fault, NONE);
        assert_true(verdict.timestamp_good);
        assert_true(verdict.timestamp_at >= GENERATED_AT);
    }
}

static void a_good_pack_is_told_as_it_is(void **state)
{
    CLEANUP(buf_free) struct buf pack = BUF_INIT(PACK_ROOM), pretty = BUF_INIT(PACK_ROOM);
    CLEANUP(op_freep) struct op *op = NULL;
    struct evidence_verdict verdict;
    (void)state;
    make(NULL, &pack);
    assert_fault(evidence_verify_op(pack.len, &op), NONE);
    assert_fault(judge(op, buf_span(&pack), (struct span){ 0 }, &verdict), NONE);
    assert_int_equal(verdict.reason, PACK_HOLDS);
    assert_string_equal(verdict.framework, "soc2");
    assert_string_equal(verdict.tenant, "default");
    assert_string_equal(verdict.kid, made_by.kid);
    assert_string_equal(verdict.generated_at, "2027-01-15T08:00:00.250000Z");
    assert_true(verdict.controls == 2 && verdict.evidenced == 1 && verdict.gaps == 2 && verdict.gaps_open == 1);
    assert_string_equal(verdict.why, "");
    /* the file may be laid out as anybody likes: what is signed is within the JWS */
    assert_fault(buf_text(&pretty, "\n  "), NONE);
    assert_fault(buf_put(&pretty, buf_span(&pack)), NONE);
    assert_fault(buf_text(&pretty, "\n"), NONE);
    assert_fault(judge(op, buf_span(&pretty), (struct span){ 0 }, &verdict), NONE);
}

/* Cut at any place, and with any byte altered, nothing is believed that was not signed. */
static void no_single_byte_can_be_altered_unnoticed(void **state)
{
    CLEANUP(buf_free) struct buf pack = BUF_INIT(PACK_ROOM);
    CLEANUP(op_freep) struct op *op = NULL;
    struct evidence_verdict verdict;
    (void)state;
    make(NULL, &pack);
    assert_fault(evidence_verify_op(pack.len, &op), NONE);
    for (size_t at = 1; at < pack.len; at += 37) {
        uint8_t old = pack.at[at];
        arena_clear(op->arena);
        pack.at[at] = old == 'A' ? 'B' : 'A';
        assert_fault(judge(op, buf_span(&pack), (struct span){ 0 }, &verdict), EVIDENCE_REFUSED);
        pack.at[at] = old;
        arena_clear(op->arena);
        assert_fault(judge(op, span_of(pack.at, at), (struct span){ 0 }, &verdict), EVIDENCE_REFUSED);
    }
}

static void every_reason_has_a_code_of_its_own_and_words(void **state)
{
    (void)state;
    for (int i = 0; i < PACK_REASON_COUNT; i++) {
        const char *text = evidence_reason_text((enum evidence_reason)i);
        assert_true(strspn(text, "abcdefghijklmnopqrstuvwxyz_") == strlen(text) && text[0] != '\0');
        assert_true(strlen(evidence_reason_title((enum evidence_reason)i)) > 10);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(text, evidence_reason_text((enum evidence_reason)j));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bad_pack_is_refused_for_its_own_reason),
        cmocka_unit_test(a_convenience_copy_that_differs_is_refused),
        cmocka_unit_test(only_the_pinned_key_is_believed_and_only_in_its_time),
        cmocka_unit_test(a_digest_of_something_else_is_refused),
        cmocka_unit_test(the_time_stamp_is_judged_by_the_pinned_root),
        cmocka_unit_test(no_single_byte_can_be_altered_unnoticed),
        cmocka_unit_test(every_reason_has_a_code_of_its_own_and_words),
        cmocka_unit_test(a_good_pack_is_told_as_it_is),
    };
    return cmocka_run_group_tests(tests, artifact_start, artifact_stop);
}
