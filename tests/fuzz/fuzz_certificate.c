/* rooms: cli */
/*
 * Certificates of anybody: what they say, in which order they stand, and whether they lead to a root. The corpus holds
 * true chains to the root below, whose keys were thrown away. Oracles: only keys that it certified are ever found good,
 * and within their time; a refusal has its reason and a code that callers know; OpenSSL's error queue is left empty.
 */
#include "api/codesign/verify.h"
#include "appliance/base/codec.h"
#include "appliance/base/der.h"

#include <openssl/err.h>

#define PEM_MAX ((size_t)1 << 20)
#define YEAR_US (INT64_C(31556952) * US_PER_S)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct op *op;

/* An intermediate and its root, in the order of an authority's chain. */
static const char authority_pem[] = "-----BEGIN CERTIFICATE-----\n"
                                    "MIIBpDCCAUmgAwIBAgIUfIGDBw5iwOYG/aUEZKTJOR1QNJUwCgYIKoZIzj0EAwIw\n"
                                    "HjENMAsGA1UEAwwEcm9vdDENMAsGA1UECgwEVGVzdDAeFw0yNjAxMDEwMDAwMDBa\n"
                                    "Fw00NjAxMDEwMDAwMDBaMCAxDzANBgNVBAMMBm1pZGRsZTENMAsGA1UECgwEVGVz\n"
                                    "dDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABAWnvXOnwX3fYtYAGGlsIE85Rzx4\n"
                                    "QeKfrnC+uHBYlo2lXnmQqVyNmYdmUPoYqq93R7ryOHF4RgQl3JDukJjDqNijYzBh\n"
                                    "MA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgIEMB0GA1UdDgQWBBT4l032\n"
                                    "IOyOZDIhrs8AuDrgy59UWDAfBgNVHSMEGDAWgBQceetkJ4cwxGPmwVpIUybsmBHJ\n"
                                    "UjAKBggqhkjOPQQDAgNJADBGAiEA5vWTYwXTfw9HnUXCqbiNaOyOBE63mvYYTH25\n"
                                    "y3+Z09oCIQCwX6+WXAOjFAa1R5DM1sqVGjR3pJdqYRJkuEmWQM84Kw==\n"
                                    "-----END CERTIFICATE-----\n"
                                    "-----BEGIN CERTIFICATE-----\n"
                                    "MIIBgTCCASagAwIBAgIUb8bKdtlCZq3Kx7Z0GLN/iuK3n5QwCgYIKoZIzj0EAwIw\n"
                                    "HjENMAsGA1UEAwwEcm9vdDENMAsGA1UECgwEVGVzdDAeFw0yNjAxMDEwMDAwMDBa\n"
                                    "Fw00NjAxMDEwMDAwMDBaMB4xDTALBgNVBAMMBHJvb3QxDTALBgNVBAoMBFRlc3Qw\n"
                                    "WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAROaFl3G+Nn5zNwL0/4Ur9CBlTWKQ71\n"
                                    "IVOT/oNutFhwtHmlry9mpf9KA4ujgjuL45lZSdQxEhGOHKjDzXd4cNDTo0IwQDAP\n"
                                    "BgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwICBDAdBgNVHQ4EFgQUHHnrZCeH\n"
                                    "MMRj5sFaSFMm7JgRyVIwCgYIKoZIzj0EAwIDSQAwRgIhAKXwJZ2UdJ+3SC9TfQXs\n"
                                    "YZoJX86NSSKkI1VCqrMlfVESAiEAnziLMQAbSGjW5xzSQuUhbtv+qTdYrw/EPnMB\n"
                                    "p4nAsHU=\n"
                                    "-----END CERTIFICATE-----\n";
/* SHA-256 of the public keys that they certified for code signing. */
static const char *const certified[] = {
    "54b266dd77190f6363ed88fc1fdf619bbeac4152fd960a64af4fb71d6ee19f61",
    "27f5f7eefea2dc382359e9d911c5b725b0d6ee2436b27c7081a6949b284a217c",
    "2e8a228562b6937cc4238ea4b1fc16ebac2f7a5067d5534f319e6555000f7df7",
    "8a0027a28cd9c971d588f42e4a11feea87aa1bb30554be9e0ae3565451eeb418",
};

static void check_refusal(struct fault fault)
{
    bool known = fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_BUNDLE_INVALID ||
                 fault.code == FAULT_TIMESTAMP_VALIDITY;
    BUG_IF(FAULTED(fault) && (!known || !op->note.set || op->note.detail[0] == '\0' || op->note.code != fault.code));
    BUG_IF(ERR_peek_error() != 0);
    op->note = (struct fault_note){ 0 };
}

static void check_names(struct span der)
{
    struct identity identity = { 0 };
    utc_us from = 0, until = 0;
    struct span spki;
    struct fault fault = certificate_identity(op, der, &identity);
    check_refusal(fault);
    BUG_IF(!FAULTED(fault) && (identity.name_count > IDENTITIES_MAX || identity.subject == NULL));
    for (size_t i = 0; !FAULTED(fault) && i < identity.name_count; i++) {
        BUG_IF(identity.names[i] == NULL);
    }
    check_refusal(certificate_validity(op, der, &from, &until));
    check_refusal(certificate_spki(op, der, &spki));
    (void)certificate_is_authority(op, der);
    op->note = (struct fault_note){ 0 };
}

static void check_good(struct span leaf, utc_us time)
{
    utc_us from = 0, until = 0;
    struct span spki;
    struct sha256 digest;
    char hex[2 * sizeof(digest.at) + 1];
    bool known = false;
    BUG_IF(FAULTED(certificate_spki(op, leaf, &spki)) || FAULTED(sha256_of(spki, &digest)));
    hex_text(SPAN_ARRAY(digest.at), hex, sizeof(hex));
    for (size_t i = 0; i < COUNT_OF(certified); i++) {
        known = known || strcmp(certified[i], hex) == 0;
    }
    BUG_IF(!known || FAULTED(certificate_validity(op, leaf, &from, &until)) || time < from || time >= until);
}

/* What was taken apart is the same when it is put together again. */
static void check_pem(const struct chain *chain)
{
    struct chain again;
    CLEANUP(buf_free) struct buf pem = BUF_INIT(PEM_MAX);
    BUG_IF(FAULTED(chain_to_pem(chain, &pem)));
    struct fault fault = chain_from_pem(op, buf_span(&pem), "it", &again);
    check_refusal(fault);
    for (size_t i = 0; !FAULTED(fault) && i < chain->count; i++) {
        BUG_IF(again.count != chain->count || !span_equal(again.at[i], chain->at[i]));
    }
}

static void check_heap(const struct chain *heap)
{
    struct chain chains[CHAIN_MAX];
    size_t count = 0;
    struct fault fault = chains_of(op, heap, chains, &count);
    check_refusal(fault);
    for (size_t i = 0; !FAULTED(fault) && i < count; i++) {
        BUG_IF(chains[i].count == 0 || chains[i].count > heap->count);
        BUG_IF(FAULTED(chain_check_order(op, &chains[i])));
    }
}

static struct chain read_chain(struct span rest)
{
    struct chain chain = { .count = 0 };
    while (rest.len > 0 && chain.count < CHAIN_MAX) {
        struct span all = rest;
        struct der_element element;
        if (FAULTED(der_next(&rest, &element))) {
            rest = span_of(all.at + all.len, 0); /* let the parser see what is no DER */
        }
        chain.at[chain.count++] = span_of(all.at, (size_t)(rest.at - all.at));
    }
    return chain;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    }
    struct chain authority, chain;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    if (len < 3) {
        return 0;
    }
    chain = read_chain(span_of(bytes + 2, len - 2));
    BUG_IF(FAULTED(chain_from_pem(op, span_text(authority_pem), "it", &authority)));
    enum signer_use use = (bytes[0] & 1) != 0 ? SIGNER_CODE_SIGNING : SIGNER_ANY_USE;
    utc_us time = (57 + (bytes[1] & 63)) * YEAR_US;
    for (size_t i = 0; i < chain.count; i++) {
        check_names(chain.at[i]);
    }
    check_pem(&chain);
    check_heap(&chain);
    check_refusal(chain_check_order(op, &chain));
    struct fault fault = chain_verify(op, &chain, &authority, time, use);
    check_refusal(fault);
    if (!FAULTED(fault)) {
        check_good(chain.at[0], time);
    }
    return 0;
}
