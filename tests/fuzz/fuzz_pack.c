/* rooms: svc-verify */
/*
 * The offline verifier of evidence packs on bytes of anybody: a file as a whole, and the manifest behind the signature,
 * which only a key's holder can alter. Oracles: a refusal has a reason, a member or none, and words; nothing is told as
 * signed that no pinned key signed; what holds is rendered, the page without markup of others and the OSCAL document as
 * JSON that is well-formed.
 */
#include "api/compliance/render.h"
#include "api/compliance/verify_internal.h"

#include <openssl/err.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Of tests/audit/keys, without its window: the seeds are signed by it. */
#define KEY                                                                           \
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"alg\":\"ES256\",\"use\":\"sig\"," \
    "\"kid\":\"bZ77L5mEN19Ozt-0kAFSv2-BLiVLX5mgGDaC6ZGQS38\","                        \
    "\"x\":\"EBr-3FUdY-XJ6c1fNsVrux4hVA1xL3NAmf7Ec47f4i0\",\"y\":\"wHFu6hR58LFxspVdad2t0Mj6kmqBlAuUOct7NzArUaI\"}]}"

static struct op *op;
static struct jwk_set keys;

static bool holds_text(const struct buf *out, const char *text)
{
    return memmem(out->at, out->len, text, strlen(text)) != NULL;
}

static void render(const struct evidence_verdict *verdict)
{
    CLEANUP(buf_free) struct buf page = BUF_INIT((size_t)32 << 20), document = BUF_INIT((size_t)32 << 20);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT((size_t)32 << 20);
    struct fault fault = render_html(op, verdict, &page);
    BUG_IF(FAULTED(fault) && fault.code != FAULT_TOO_LARGE && fault.code != FAULT_JSON_FIELD &&
           fault.code != FAULT_JSON_SYNTAX);
    BUG_IF(!FAULTED(fault) && (holds_text(&page, "<script") || holds_text(&page, "<img")));
    fault = render_oscal(op, verdict, &document);
    BUG_IF(FAULTED(fault) && fault.code != FAULT_TOO_LARGE);
    BUG_IF(!FAULTED(fault) && FAULTED(json_canonical(buf_span(&document), &canonical)));
}

static void judge_verdict(struct fault fault, const struct evidence_verdict *verdict)
{
    bool refused = fault.code == FAULT_EVIDENCE_REFUSED;
    BUG_IF(refused && (verdict->reason == PACK_HOLDS || verdict->why[0] == '\0'));
    BUG_IF(!FAULTED(fault) && verdict->reason != PACK_HOLDS);
    BUG_IF(FAULTED(fault) && !refused && fault.code != FAULT_TOO_LARGE);
    BUG_IF(verdict->timestamp_good);
}

static void begin(void)
{
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
}

static void judge_file(struct span bytes)
{
    const struct evidence_pins pins = { .keys = &keys };
    struct evidence_verdict verdict;
    begin();
    struct fault fault = evidence_verify(op, bytes, &pins, &verdict);
    judge_verdict(fault, &verdict);
    BUG_IF((verdict.kid != NULL) != (verdict.payload.len > 0));
    if (!FAULTED(fault)) {
        BUG_IF(verdict.kid == NULL);
        render(&verdict);
    }
}

/* As if a key's holder had signed it. */
static void judge_manifest(struct span bytes)
{
    CLEANUP(buf_free) struct buf canonical = BUF_INIT((size_t)4 << 20);
    const struct evidence_pins pins = { .keys = &keys };
    struct evidence_verdict verdict = { .reason = PACK_HOLDS };
    struct check check = { .op = op, .pins = &pins, .verdict = &verdict };
    struct evidence_datasets datasets = { 0 };
    begin();
    if (FAULTED(json_canonical(bytes, &canonical))) {
        return;
    }
    struct fault fault = verify_manifest(&check, buf_span(&canonical), &datasets);
    judge_verdict(fault, &verdict);
    if (FAULTED(fault)) {
        return;
    }
    BUG_IF(verdict.controls < 1 || verdict.evidenced > verdict.controls || verdict.gaps_open > verdict.gaps);
    BUG_IF(datasets.custody.len == 0 || verdict.tenant == NULL || verdict.framework == NULL);
    verdict.payload = buf_span(&canonical);
    verdict.kid = "k";
    BUG_IF(FAULTED(sha256_of(verdict.payload, &verdict.digest)));
    render(&verdict);
}

static void judge_key(struct span bytes)
{
    CLEANUP(jwk_set_free) struct jwk_set found = { 0 };
    begin();
    struct fault fault = evidence_key(op, bytes, &found);
    BUG_IF(FAULTED(fault) != (found.count == 0) || (FAULTED(fault) && !op->note.set));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct span input = span_of(bytes, len);
    if (op == NULL) {
        BUG_IF(FAULTED(evidence_verify_op(1 << 20, &op)));
        BUG_IF(FAULTED(jwk_set_parse(op, span_text(KEY), &keys)));
    }
    judge_file(input);
    judge_manifest(input);
    judge_key(input);
    ERR_clear_error();
    return 0;
}
