/* Which certificate issued which: by names and key identifiers. Signatures are chain_verify's business. */
#include "api/codesign/verify.h"

#include "appliance/base/crypto.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

struct parsed {
    X509 *at[CHAIN_MAX];
    size_t count;
};
static void parsed_clear(struct parsed *parsed)
{
    while (parsed->count > 0) {
        X509_free(parsed->at[--parsed->count]);
    }
}

static struct fault parse_all(struct op *op, const struct chain *chain, struct parsed *parsed)
{
    BUG_IF(chain->count > CHAIN_MAX);
    for (size_t i = 0; i < chain->count; i++) {
        TRY(certificate_parse(op, chain->at[i], &parsed->at[i]));
        parsed->count++;
    }
    return OK;
}

static bool issued(X509 *issuer, X509 *subject)
{
    bool is = X509_check_issued(issuer, subject) == X509_V_OK;
    ERR_clear_error();
    return is;
}

static bool is_root(X509 *certificate)
{
    bool is = X509_self_signed(certificate, 0) == 1;
    ERR_clear_error();
    return is;
}

struct fault chain_check_order(struct op *op, const struct chain *chain)
{
    CLEANUP(parsed_clear) struct parsed parsed = { .count = 0 };
    TRY(parse_all(op, chain, &parsed));
    for (size_t i = 1; i < parsed.count; i++) {
        if (is_root(parsed.at[i - 1]) || !issued(parsed.at[i], parsed.at[i - 1])) {
            return op_fail(op, FAULT(BUNDLE_INVALID),
                           "certificate %zu of the chain did not issue the one before it: leaf first, then each issuer",
                           i + 1);
        }
    }
    return OK;
}

/* Did it issue any of the others? */
static bool has_issued(const struct parsed *heap, size_t index)
{
    for (size_t i = 0; i < heap->count; i++) {
        if (i != index && !is_root(heap->at[i]) && issued(heap->at[index], heap->at[i])) {
            return true;
        }
    }
    return false;
}

/* Up from `index`; an empty chain when no root is reached. */
static struct chain path_from(const struct chain *heap, const struct parsed *parsed, size_t index)
{
    struct chain chain = { .count = 0 };
    while (chain.count < parsed->count) {
        size_t next = 0;
        chain.at[chain.count++] = heap->at[index];
        if (is_root(parsed->at[index])) {
            return chain;
        }
        while (next < parsed->count && (next == index || !issued(parsed->at[next], parsed->at[index]))) {
            next++;
        }
        if (next == parsed->count) {
            break;
        }
        index = next;
    }
    return (struct chain){ .count = 0 };
}

struct fault chains_of(struct op *op, const struct chain *heap, struct chain *ret_chains, size_t *ret_count)
{
    CLEANUP(parsed_clear) struct parsed parsed = { .count = 0 };
    size_t count = 0;
    TRY(parse_all(op, heap, &parsed));
    for (size_t i = 0; i < parsed.count; i++) {
        struct chain chain = has_issued(&parsed, i) ? (struct chain){ .count = 0 } : path_from(heap, &parsed, i);
        if (chain.count > 0) {
            ret_chains[count++] = chain;
        }
    }
    *ret_count = count;
    return OK;
}
