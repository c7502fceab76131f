#include "api/attest/internal.h"

#include "appliance/base/utf8.h"

#define AUD_MAX   64
#define YEAR_9999 INT64_C(253402300799)

struct fault claims_parse(struct op *op, struct span payload, struct claims *ret_claims)
{
    struct claims claims = { 0 };
    struct fault fault = jin_members(op, payload, CLAIMS_MAX, &claims.at, &claims.count);
    if (fault.code == FAULT_JSON_SYNTAX || fault.code == FAULT_JSON_FIELD) {
        return proof_fail(op, PROOF_MALFORMED,
                          "the proof's payload is not a JSON object of up to %d claims, each named once", CLAIMS_MAX);
    }
    TRY(fault);
    *ret_claims = claims;
    return OK;
}

const struct jin_member *claims_find(const struct claims *claims, const char *name)
{
    for (size_t i = 0; i < claims->count; i++) {
        if (strcmp(claims->at[i].name, name) == 0) {
            return claims->at[i].type != JIN_TYPE_NULL ? &claims->at[i] : NULL;
        }
    }
    return NULL;
}

/* C0 and C1, line ends, and what turns the direction of writing: a certificate's reader must see what is there. */
static bool is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069);
}

static bool has_controls(struct span text)
{
    struct reader reader = { text };
    uint32_t point;
    while (reader.rest.len > 0) {
        if (FAULTED(utf8_next(&reader, &point)) || is_control(point)) {
            return true;
        }
    }
    return false;
}

struct fault claims_text(struct op *op, const struct claims *claims, const char *name, const char **ret_text)
{
    const struct jin_member *claim = claims_find(claims, name);
    if (claim == NULL) {
        return proof_fail(op, PROOF_CLAIM, "the proof has no claim %s", name);
    }
    if (claim->type != JIN_TYPE_TEXT || claim->value.len == 0 || claim->value.len > ATTEST_TEXT_MAX ||
        has_controls(claim->value)) {
        return proof_fail(op, PROOF_CLAIM,
                          "the proof's claim %s must be a text of 1 to %d bytes without control characters", name,
                          ATTEST_TEXT_MAX);
    }
    return arena_text(op->arena, claim->value, ret_text);
}

/* ---- audience ---- */

struct audience {
    struct jin_texts aud;
};
static const struct jin_field audience_fields[] = {
    JIN_TEXTS(struct audience, aud, JIN_REQUIRED, 1, AUD_MAX),
};

/* RFC 7519 4.1.3: one text, or an array of texts. */
static struct fault audience_of(struct op *op, const struct jin_member *claim, struct jin_texts *ret_texts)
{
    if (claim->type == JIN_TYPE_TEXT) {
        TRY(arena_take(op->arena, 1, sizeof(*ret_texts->at), &ret_texts->at));
        ret_texts->count = 1;
        return arena_text(op->arena, claim->value, &ret_texts->at[0]);
    }
    CLEANUP(buf_free) struct buf json = BUF_INIT(claim->value.len + 16);
    struct audience audience = { 0 };
    TRY(buf_text(&json, "{\"aud\":"));
    TRY(buf_put(&json, claim->value));
    TRY(buf_text(&json, "}"));
    TRY(jin_decode(op, buf_span(&json), audience_fields, COUNT_OF(audience_fields), &audience));
    *ret_texts = audience.aud;
    return OK;
}

static bool is_among(const struct method *method, const struct jin_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        for (size_t j = 0; j < method->audience_count; j++) {
            if (strcmp(texts->at[i], method->audiences[j]) == 0) {
                return true;
            }
        }
    }
    return false;
}

static struct fault check_audience(struct op *op, const struct method *method, const struct claims *claims)
{
    const struct jin_member *claim = claims_find(claims, "aud");
    struct jin_texts texts = { 0 };
    if (claim == NULL) {
        return proof_fail(op, PROOF_CLAIM, "the proof has no claim aud");
    }
    struct fault fault = audience_of(op, claim, &texts);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault) || !is_among(method, &texts)) {
        return proof_fail(op, PROOF_CLAIM,
                          "the proof's claim aud names none of the method's audiences: ask the issuer for a token with "
                          "audience \"%s\"",
                          method->audiences[0]);
    }
    return OK;
}

/* ---- times ---- */

/* NumericDate (RFC 7519 2) with what it may have behind the point. Its JSON is known to be a number. */
static bool parse_time(struct span text, utc_us *ret_time)
{
    int64_t seconds = 0, micros = 0, unit = US_PER_S;
    size_t i = 0;
    for (; i < text.len && text.at[i] != '.'; i++) {
        seconds = seconds * 10 + (text.at[i] - '0');
        if (text.at[i] < '0' || text.at[i] > '9' || seconds > YEAR_9999) {
            return false;
        }
    }
    for (i++; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        unit /= 10;
        micros += (text.at[i] - '0') * unit;
    }
    *ret_time = seconds * US_PER_S + micros;
    return true;
}

static struct fault take_time(struct op *op, const struct claims *claims, const char *name, utc_us *ret_time)
{
    const struct jin_member *claim = claims_find(claims, name);
    if (claim == NULL) {
        return proof_fail(op, PROOF_CLAIM, "the proof has no claim %s", name);
    }
    if (claim->type != JIN_TYPE_NUMBER || !parse_time(claim->value, ret_time)) {
        return proof_fail(op, PROOF_CLAIM, "the proof's claim %s must be seconds since 1970", name);
    }
    return OK;
}

static struct fault check_times(struct op *op, const struct method *method, const struct claims *claims, utc_us at,
                                struct attested *attested)
{
    utc_us issued, expires, begins;
    TRY(take_time(op, claims, "iat", &issued));
    TRY(take_time(op, claims, "exp", &expires));
    begins = issued;
    if (claims_find(claims, "nbf") != NULL) {
        TRY(take_time(op, claims, "nbf", &begins));
    }
    if (at >= expires + method->leeway_us) {
        return proof_fail(op, PROOF_EXPIRED, "the proof had expired when the request came: take a fresh token");
    }
    if (at < begins - method->leeway_us || at < issued - method->leeway_us) {
        return proof_fail(op, PROOF_NOT_YET, "the proof is of the future (%s): compare the clocks",
                          at < begins - method->leeway_us && begins != issued ? "nbf" : "iat");
    }
    if (expires <= issued || expires - issued > method->max_lifetime_us) {
        return proof_fail(op, PROOF_CLAIM,
                          "the proof lives longer than the %lld s that its method allows, or not at all",
                          (long long)(method->max_lifetime_us / US_PER_S));
    }
    attested->issued = issued;
    attested->expires = expires;
    return OK;
}

/* ---- the rest ---- */

static struct fault check_issuer(struct op *op, const struct method *method, const struct claims *claims)
{
    const struct jin_member *claim = claims_find(claims, "iss");
    if (claim == NULL || claim->type != JIN_TYPE_TEXT || !span_equal_text(claim->value, method->issuer)) {
        return proof_fail(op, PROOF_CLAIM, "the proof's claim iss must be exactly \"%s\"", method->issuer);
    }
    return OK;
}

static bool is_scalar(const struct jin_member *claim)
{
    return claim->type == JIN_TYPE_TEXT || claim->type == JIN_TYPE_NUMBER || claim->type == JIN_TYPE_BOOL;
}

static struct fault check_required(struct op *op, const struct method *method, const struct claims *claims)
{
    for (size_t i = 0; i < method->required_count; i++) {
        const struct required_claim *due = &method->required[i];
        const struct jin_member *claim = claims_find(claims, due->name);
        if (claim == NULL || !is_scalar(claim) || !span_equal_text(claim->value, due->value)) {
            return proof_fail(op, PROOF_CLAIM, "the proof's claim %s %s", due->name,
                              claim == NULL ? "is missing; the method requires it" : "is not what the method requires");
        }
    }
    return OK;
}

struct fault claims_check(struct op *op, const struct method *method, const struct claims *claims, utc_us at,
                          struct attested *attested)
{
    TRY(check_issuer(op, method, claims));
    TRY(check_audience(op, method, claims));
    TRY(check_times(op, method, claims, at, attested));
    TRY(claims_text(op, claims, "sub", &attested->subject));
    return check_required(op, method, claims);
}
