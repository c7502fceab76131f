/* rooms: attest */
/*
 * Identity proofs. The bytes are taken as a whole proof, as a header, and as the claims of a proof whose signature
 * held. Oracles: a whole proof never verifies (nobody has the pinned key) and its refusal has words of ours that quote
 * nothing; claims that pass give a SAN of one form, and a certificate's claims that are clean, rising and complete.
 */
#include "api/attest/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define NOW (INT64_C(1800000000) * US_PER_S)
#define KEY                                                       \
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," \
    "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","      \
    "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"
#define METHODS                                                                                                   \
    "attestors:\n"                                                                                                \
    "  - {method: gh, tenant: acme, kind: github-actions, issuer: https://i.example, audience: [svc], jwks_url: " \
    "https://i.example/jwks, algorithms: [ES256, RS256], required_claims: {repository_owner: acme}}\n"            \
    "  - {method: gl, tenant: acme, kind: gitlab-ci, issuer: https://i.example, audience: [svc], jwks_url: "      \
    "https://i.example/jwks}\n"                                                                                   \
    "  - {method: ci, tenant: acme, kind: generic, issuer: https://i.example, audience: [svc], jwks_url: "        \
    "https://i.example/jwks, san: '{sub}'}\n"                                                                     \
    "  - {method: mail, tenant: acme, kind: generic, issuer: https://i.example, audience: [svc], jwks_url: "      \
    "https://i.example/jwks, san: '{email}', san_kind: email}\n"

static struct op *op;
static struct services services;

static void prepare(void)
{
    struct buf why = BUF_INIT(1024);
    struct key_set *set = NULL;
    struct issuer_keys *keys = NULL;
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "acme" }, 1 << 30, &op)));
    BUG_IF(FAULTED(attest_parse(span_text(METHODS), "fuzz.yaml", NULL, &why, &services.attest)));
    BUG_IF(FAULTED(key_set_parse(op, span_text(KEY), &set)));
    BUG_IF(FAULTED(issuer_keys_new_pinned(set, &keys)));
    for (size_t i = 0; i < services.attest->method_count; i++) {
        services.attest->methods[i].keys = keys;
    }
    buf_free(&why);
}

static void begin(void)
{
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
}

static void judge_proof(struct span proof)
{
    for (size_t i = 0; i < services.attest->method_count; i++) {
        const char *name = services.attest->methods[i].name;
        struct attested attested = { 0 };
        begin();
        struct fault form = attest_inspect(op, &services, name, proof);
        BUG_IF(FAULTED(form) && !op->note.set);
        begin();
        struct fault fault = attest_verify(op, &services, name, proof, NOW, &attested);
        BUG_IF(!FAULTED(fault) || !op->note.set || op->note.code != fault.code || attested.san != NULL);
        BUG_IF(FAULTED(form) && form.code != fault.code);
    }
}

static void judge_header(struct span header)
{
    CLEANUP(buf_free) struct buf token = BUF_INIT(2 * header.len + 16);
    struct jws_opened opened = { 0 };
    begin();
    BUG_IF(FAULTED(base64url_encode(header, &token)) || FAULTED(buf_text(&token, ".e30.AA")));
    if (FAULTED(jws_open(op, buf_span(&token), &opened))) {
        BUG_IF(opened.alg != NULL);
        return;
    }
    BUG_IF(opened.alg[0] == '\0' || !span_equal_text(opened.payload, "{}") || opened.signature.len != 1);
    judge_proof(buf_span(&token));
}

static void check_attested(const struct attested *attested)
{
    enum san_kind kind;
    unsigned issuers = 0, last = 0;
    BUG_IF(!san_kind_of(attested->san, &kind) || kind != attested->san_kind || strlen(attested->san) > ATTEST_TEXT_MAX);
    BUG_IF(attested->subject == NULL || attested->subject[0] == '\0' || attested->expires <= attested->issued);
    for (size_t i = 0; i < attested->claim_count; i++) {
        const struct attest_claim *claim = &attested->claims[i];
        BUG_IF(claim->arc <= last || claim->value[0] == '\0' || strlen(claim->value) > ATTEST_TEXT_MAX);
        for (const char *at = claim->value; *at != '\0'; at++) {
            BUG_IF((uint8_t)*at < 0x20 || *at == 0x7f);
        }
        issuers += claim->arc == 1 || claim->arc == 8;
        last = claim->arc;
    }
    BUG_IF(issuers != 2 || attested->claim_count > ATTEST_CLAIM_MAX);
}

static void judge_claims(struct span payload)
{
    struct claims claims = { 0 };
    begin();
    if (FAULTED(claims_parse(op, payload, &claims))) {
        BUG_IF(!op->note.set);
        return;
    }
    for (size_t i = 0; i < services.attest->method_count; i++) {
        const struct method *method = &services.attest->methods[i];
        struct attested attested = { 0 };
        op->note = (struct fault_note){ 0 };
        struct fault fault = claims_check(op, method, &claims, NOW, &attested);
        BUG_IF(FAULTED(fault) && !op->note.set);
        if (!FAULTED(fault) && !FAULTED(identity_of(op, method, &claims, &attested))) {
            check_attested(&attested);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        prepare();
    }
    judge_proof(span_of(bytes, len));
    judge_header(span_of(bytes, len));
    judge_claims(span_of(bytes, len));
    ERR_clear_error();
    return 0;
}
