/* A token is read back before it leaves, by the code that strangers verify with: not a line of it made the token. */
#include "api/tsa/internal.h"
#include "api/tsa/verify_internal.h"

#include <stdio.h>

int64_t tsa_accuracy_stated_ms(const struct config *config)
{
    static const int64_t left_out_ms[] = { 1000, 100, 10 };
    size_t digits = (size_t)config->tsa_time_digits;
    return config->tsa_accuracy_ms + (digits < COUNT_OF(left_out_ms) ? left_out_ms[digits] : 0);
}

utc_us tsa_time_step(unsigned digits)
{
    static const utc_us steps[] = { 1000000, 100000, 10000, 1000, 100, 10, 1 };
    BUG_IF(digits >= COUNT_OF(steps));
    return steps[digits];
}

static bool says_what_was_meant(const struct tsa_statement *statement, const struct tst_info *info)
{
    char policy[DER_OID_TEXT_MAX];
    char serial[24];
    int len = snprintf(serial, sizeof(serial), "%llX", (unsigned long long)statement->serial);
    const char *found = info->serial + strspn(info->serial, "0x");
    return !FAULTED(der_oid_print(statement->policy, policy)) && strcmp(policy, info->policy) == 0 && len > 0 &&
           strcmp(serial, found) == 0 &&
           info->time == statement->time - statement->time % tsa_time_step(statement->digits) &&
           info->accuracy_us > 0 && (info->certificate.len > 0);
}

struct fault tsa_check(struct op *op, const struct tsa_unit *unit, const struct tsa_statement *statement,
                       struct span token, bool path)
{
    const struct tst_hash *hash = tst_hash_by_oid(statement->request->hash_oid);
    struct span nonce = statement->request->nonce;
    struct der_element element = { 0 };
    struct tst_info info = { 0 };
    BUG_IF(hash == NULL || (nonce.len > 0 && FAULTED(der_take(&nonce, DER_INTEGER, &element))));
    const struct tst_expect expect = { .hash = hash->name,
                                       .digest = statement->request->digest,
                                       .nonce = element.body,
                                       .roots_pem = buf_span(&unit->root_pem),
                                       .extra_pem = statement->request->certificate_wanted
                                                        ? (struct span){ 0 }
                                                        : buf_span(&unit->below_pem) };
    char why[256] = "it says something else than what was meant";
    struct fault fault = path ? tst_verify(op, token, &expect, &info) : tst_verify_but_path(op, token, &expect, &info);
    if (FAULTED(fault)) {
        (void)snprintf(why, sizeof(why), "%s", op->note.detail);
    } else if (says_what_was_meant(statement, &info) && span_equal(info.certificate, buf_span(&unit->leaf)) &&
               span_equal(info.nonce, element.body)) {
        return OK;
    }
    op->note = (struct fault_note){ 0 }; /* the client learns no more than that */
    fault = op_fail(op, FAULT(CRYPTO), "the token that was made did not verify, and was thrown away");
    op_note_log(op, "%s", why);
    return fault;
}
