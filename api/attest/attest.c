#include "api/attest/internal.h"

#include "appliance/base/codec.h"

#include <strings.h>

#define CONFIGURED_MAX ((size_t)64 << 10)

/* ---- which method ---- */

static struct fault find_method(struct op *op, struct services *services, const char *name,
                                const struct method **ret_method)
{
    const struct attest *attest = services->attest;
    REQUIRE(attest != NULL, KEYLESS_DISABLED);
    for (size_t i = 0; i < attest->method_count; i++) {
        const struct method *method = &attest->methods[i];
        if (strcmp(method->name, name) == 0 && tenant_id_equal(method->tenant, op->tenant)) {
            *ret_method = method;
            return OK;
        }
    }
    return proof_fail(op, IDENTITY_METHOD, "this tenant has no identity method of that name");
}

/* ---- the form of a proof ---- */

static bool accepts(const struct method *method, const char *alg)
{
    for (size_t i = 0; i < method->algorithm_count; i++) {
        if (strcmp(method->algorithms[i], alg) == 0) {
            return true;
        }
    }
    return false;
}

/* What jws_open says of the form is said in words of ours, and never quotes the proof. */
static struct fault open_form(struct op *op, struct span proof, struct jws_opened *ret_jws)
{
    if (proof.len > PROOF_MAX) {
        return proof_fail(op, TOO_LARGE, "an identity proof has at most %zu bytes", PROOF_MAX);
    }
    struct fault fault = jws_open(op, proof, ret_jws);
    if (fault.code == FAULT_JWS_FORMAT) {
        const struct fault_note note = op->note;
        return note.code == FAULT_JWS_FORMAT
                   ? proof_fail(op, PROOF_MALFORMED, "%s", note.detail)
                   : proof_fail(op, PROOF_MALFORMED, "the header is not a JSON object whose members are named once");
    }
    return fault;
}

static struct fault open_proof(struct op *op, const struct method *method, struct span proof,
                               struct jws_opened *ret_jws, struct claims *ret_claims)
{
    struct jws_opened jws = { 0 };
    TRY(open_form(op, proof, &jws));
    if (jws.typ != NULL && strcasecmp(jws.typ, "JWT") != 0) {
        return proof_fail(op, PROOF_MALFORMED, "the header's typ must be JWT, or absent");
    }
    if (!accepts(method, jws.alg)) {
        return proof_fail(op, PROOF_ALGORITHM, "the header's alg is none of the method's algorithms");
    }
    TRY(claims_parse(op, jws.payload, ret_claims));
    *ret_jws = jws;
    return OK;
}

struct fault attest_inspect(struct op *op, struct services *services, const char *method_name, struct span proof)
{
    const struct method *method = NULL;
    struct jws_opened jws = { 0 };
    struct claims claims = { 0 };
    TRY(find_method(op, services, method_name, &method));
    return open_proof(op, method, proof, &jws, &claims);
}

/* ---- its signature ---- */

/* The key that kid and alg name: always a public key of the issuer's set, never anything that came with the proof. */
static struct fault pick_key(struct op *op, const struct key_set *set, const struct jws_opened *jws,
                             const struct jwk **ret_key)
{
    const struct jwk_set *keys = &set->jwks;
    bool named = false;
    if (jws->kid == NULL && keys->count + set->left_out > 1) {
        return proof_fail(op, PROOF_SIGNATURE, "the header names no kid, and the issuer has several keys");
    }
    for (size_t i = 0; i < keys->count; i++) {
        bool it = jws->kid == NULL || strcmp(keys->at[i].kid, jws->kid) == 0;
        named = named || it;
        if (it && jwk_takes(&keys->at[i], jws->alg)) {
            *ret_key = &keys->at[i];
            return OK;
        }
    }
    if (named) {
        return proof_fail(op, PROOF_ALGORITHM, "the header's alg does not go with the key that its kid names");
    }
    return proof_fail(op, PROOF_SIGNATURE, "the header's kid names none of the issuer's keys");
}

static struct fault check_signature(struct op *op, const struct method *method, const struct jws_opened *jws,
                                    struct attested *attested)
{
    CLEANUP(key_set_unrefp) struct key_set *set = NULL;
    const struct jwk *key = NULL;
    TRY(issuer_keys_get(op, method->keys, jws->kid, &set));
    TRY(pick_key(op, set, jws, &key));
    struct fault fault = jws_opened_verify(op, jws, key);
    if (fault.code == FAULT_JWS_SIGNATURE) {
        return proof_fail(op, PROOF_SIGNATURE, "the proof was not signed by the key that its kid names");
    }
    TRY(fault);
    return arena_text(op->arena, span_text(key->kid), &attested->key_id);
}

static struct fault verify(struct op *op, const struct method *method, struct span proof, utc_us at,
                           struct attested *ret_attested)
{
    struct jws_opened jws = { 0 };
    struct claims claims = { 0 };
    struct attested attested = { .method = method->name, .issuer = method->issuer };
    TRY(open_proof(op, method, proof, &jws, &claims));
    TRY(check_signature(op, method, &jws, &attested));
    TRY(claims_check(op, method, &claims, at, &attested));
    TRY(identity_of(op, method, &claims, &attested));
    *ret_attested = attested;
    return OK;
}

struct fault attest_verify(struct op *op, struct services *services, const char *method_name, struct span proof,
                           utc_us at, struct attested *ret_attested)
{
    const struct method *method = NULL;
    TRY(find_method(op, services, method_name, &method));
    struct fault fault = verify(op, method, proof, at, ret_attested);
    if (services->attest->metrics != NULL) {
        const char *const labels[] = { method->name, FAULTED(fault) ? fault_row(fault.code)->text : "verified" };
        metrics_add(services->attest->metrics, &attest_metrics[ATTEST_METRIC_VERIFICATIONS], 1, labels);
    }
    return fault;
}

/* ---- what is configured ---- */

static void print_texts(struct jout *jout, const char *key, const char *const *texts, size_t count)
{
    jout_key(jout, key);
    jout_array(jout);
    for (size_t i = 0; i < count; i++) {
        jout_text(jout, texts[i]);
    }
    jout_array_end(jout);
}

static struct fault print_method(const struct method *method, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "method", method->name);
    jout_key_int(&jout, "kind", method->kind);
    jout_key_text(&jout, "issuer", method->issuer);
    print_texts(&jout, "audience", method->audiences, method->audience_count);
    print_texts(&jout, "algorithms", method->algorithms, method->algorithm_count);
    jout_key(&jout, "required_claims");
    jout_array(&jout);
    for (size_t i = 0; i < method->required_count; i++) {
        jout_text(&jout, method->required[i].name);
        jout_text(&jout, method->required[i].value);
    }
    jout_array_end(&jout);
    jout_key_text(&jout, "jwks_url", method->jwks_url);
    jout_key_hex(&jout, "pinned", SPAN_ARRAY(method->pinned.at));
    jout_key_text(&jout, "url", method->url);
    jout_key_text(&jout, "san", method->san);
    jout_key_int(&jout, "san_kind", method->san_kind);
    jout_key_int(&jout, "leeway", method->leeway_us);
    jout_key_int(&jout, "max_lifetime", method->max_lifetime_us);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault attest_digest(struct op *op, struct services *services, char ret_text[65])
{
    const struct attest *attest = services->attest;
    REQUIRE(attest != NULL, KEYLESS_DISABLED);
    struct sha256 running = { 0 };
    for (size_t i = 0; i < attest->method_count; i++) {
        if (!tenant_id_equal(attest->methods[i].tenant, op->tenant)) {
            continue;
        }
        CLEANUP(buf_free) struct buf text = BUF_INIT(CONFIGURED_MAX);
        TRY(print_method(&attest->methods[i], &text));
        const struct span parts[] = { SPAN_ARRAY(running.at), buf_span(&text) };
        TRY(sha256_of_parts(parts, COUNT_OF(parts), &running));
    }
    hex_text(SPAN_ARRAY(running.at), ret_text, 65);
    return OK;
}
