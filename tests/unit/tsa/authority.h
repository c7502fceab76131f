/* An authority in this test: root and unit of each algorithm, keys in tests/unit/provider/token.h. */
#ifndef TESTS_TSA_AUTHORITY_H
#define TESTS_TSA_AUTHORITY_H

#include "tests/unit/provider/token.h"

#include "api/ca/certificate.h"
#include "api/tsa/internal.h"
#include "api/tsa/verify.h"
#include "fips/fips.h"
#include "signer-pkcs11/provider/provider.h"

enum { UNIT_P256, UNIT_P384, UNIT_RSA, UNIT_COUNT };
static const char *const unit_types[UNIT_COUNT] = { "P-256", "P-384", "RSA" };
static const enum key_algorithm unit_algorithms[UNIT_COUNT] = { KEY_ALGORITHM_EC_P256, KEY_ALGORITHM_EC_P384,
                                                                KEY_ALGORITHM_RSA_3072 };

static struct authority {
    struct op *op; /* owns what the spans below borrow */
    struct key_ref root_ref, unit_refs[UNIT_COUNT];
    struct buf root_spki, unit_spkis[UNIT_COUNT];
    struct span root;
    struct span leaves[UNIT_COUNT];
    struct buf root_pem;
    struct tsa_unit *units[UNIT_COUNT];
} authority;

static void authority_leaf(int kind, const char *usage, int64_t days, utc_us from, struct span *ret_der)
{
    struct certificate_issuer issuer = {
        .key = authority.root_ref,
        .spki = buf_span(&authority.root_spki),
        .certificate = authority.root,
    };
    struct certificate_profile profile = {
        .common_name = "Test Time Stamping Unit",
        .extended_usage = usage,
        .valid_days = days,
        .not_before = from,
    };
    struct span spki = buf_span(&authority.unit_spkis[kind]);
    BUG_IF(FAULTED(certificate_issue(authority.op, token_client(), &issuer, spki, &profile, ret_der)));
}

static void authority_unit(int kind, struct span leaf, struct tsa_unit **ret_unit)
{
    struct span chain[2] = { leaf, authority.root };
    BUG_IF(FAULTED(tsa_unit_new(authority.op, &authority.unit_refs[kind], unit_algorithms[kind],
                                buf_span(&authority.unit_spkis[kind]), chain, 1500, ret_unit)));
}

/* One token, by itself. */
[[maybe_unused]] static struct fault authority_token(struct op *op, const struct tsa_unit *unit,
                                                     const struct tsa_statement *statement, struct span *ret_token)
{
    CLEANUP(buf_free) struct buf room = BUF_INIT(SIGNATURE_MAX);
    struct tsa_draft draft;
    const struct tsa_draft *const drafts[] = { &draft };
    struct span signature;
    TRY(tsa_draft(unit, statement, &draft));
    TRY(tsa_drafts_sign(op, token_client(), unit, drafts, 1, &room, &signature));
    return tsa_draft_finish(op, unit, statement, &draft, signature, ret_token);
}

static void authority_start(void)
{
    struct config config = { .fips_required = true, .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so" };
    struct buf detail = BUF_INIT(2048);
    BUG_IF(FAULTED(fips_start(&config, &detail)));
    buf_free(&detail);
    BUG_IF(FAULTED(svc_provider_load(fips_libctx(), token_client())));
    BUG_IF(FAULTED(op_new("test", (struct tenant_id){ "default" }, 600000, &authority.op)));
    authority.root_ref = token_make_key("P-384", KEY_PURPOSE_CA, &authority.root_spki);
    struct certificate_issuer self = { .key = authority.root_ref, .spki = buf_span(&authority.root_spki) };
    utc_us from = clock_utc() - 3600 * US_PER_S;
    struct certificate_profile profile = {
        .common_name = "Test Root",
        .authority = true,
        .valid_days = 3652,
        .not_before = from,
    };
    BUG_IF(FAULTED(certificate_issue(authority.op, token_client(), &self, self.spki, &profile, &authority.root)));
    authority.root_pem = (struct buf)BUF_INIT(8192);
    BUG_IF(FAULTED(certificate_pem(authority.root, &authority.root_pem)));
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        authority.unit_refs[kind] = token_make_key(unit_types[kind], KEY_PURPOSE_TSA, &authority.unit_spkis[kind]);
        authority_leaf(kind, "critical,timeStamping", 1826, from, &authority.leaves[kind]);
        authority_unit(kind, authority.leaves[kind], &authority.units[kind]);
    }
}

static void authority_stop(void)
{
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        tsa_unit_free(authority.units[kind]);
        buf_free(&authority.unit_spkis[kind]);
    }
    buf_free(&authority.root_spki);
    buf_free(&authority.root_pem);
    op_free(authority.op);
    token_clear();
}

#endif
