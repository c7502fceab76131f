/* The time stamp over the head: RFC 3161, by a pinned root, judged at the time that it states. */
#include "api/audit/verify_internal.h"

#include "api/tsa/verify.h"
#include "appliance/base/crypto.h"

#define SECOND_US US_PER_S

static struct fault check_absent(struct audit_walk *walk)
{
    const struct audit_pins *pins = walk->pins;
    if (pins->keys == NULL) {
        return walk_refuse(walk, FAULT(AUDIT_UNANCHORED),
                           "it has no time stamp: without one, a record stream proves nothing unless it is judged by "
                           "pinned keys");
    }
    if (pins->tsa_roots.len > 0 && !pins->unanchored_allowed) {
        return walk_refuse(walk, FAULT(AUDIT_UNANCHORED), "it has no time stamp, and a root was given to judge one by");
    }
    return OK;
}

/* Of the certificate that signed, outside its validity at the stated time? */
static bool outside_validity(const struct tst_info *info)
{
    const unsigned char *at = info->certificate.at;
    CLEANUP(X509_freep) X509 *certificate = at != NULL ? d2i_X509(NULL, &at, (long)info->certificate.len) : NULL;
    if (certificate == NULL) {
        return false;
    }
    time_t when = (time_t)(info->time / US_PER_S);
    return X509_cmp_time(X509_get0_notBefore(certificate), &when) > 0 ||
           X509_cmp_time(X509_get0_notAfter(certificate), &when) < 0;
}

static struct fault refuse(struct audit_walk *walk, struct fault fault, enum tst_reason reason)
{
    struct tst_info info = { 0 };
    char time[RFC3339_MAX];
    const char *words = walk->scratch->note.detail;
    TRY(fault.code != FAULT_TST_INVALID ? fault : OK);
    if (reason == TST_DIGEST) {
        return walk_refuse(walk, FAULT(AUDIT_ANCHOR), "the time stamp is over something else than the chain head");
    }
    if (reason == TST_CERTIFICATE && !FAULTED(tst_inspect(walk->scratch, walk->statement.timestamp, &info)) &&
        outside_validity(&info)) {
        rfc3339_print(info.time, time);
        return walk_refuse(walk, FAULT(TIMESTAMP_VALIDITY),
                           "the time stamp is of %s, when the authority's certificate was not valid", time);
    }
    return walk_refuse(walk, FAULT(TST_INVALID), "the time stamp: %s", words);
}

static struct fault check_time(struct audit_walk *walk, const struct tst_info *info)
{
    char stamped[RFC3339_MAX], newest[RFC3339_MAX];
    utc_us at = walk->verdict.newest_at;
    int64_t allowance = info->accuracy_us > 0 ? info->accuracy_us : SECOND_US;
    int64_t most = walk->pins->max_anchor_delay_us;
    rfc3339_print(info->time, stamped);
    rfc3339_print(at, newest);
    if (!walk->started) {
        return OK;
    }
    if (info->time < at - allowance) {
        return walk_refuse(walk, FAULT(AUDIT_ANCHOR_TIME), "stamped at %s, before the newest record, which is of %s",
                           stamped, newest);
    }
    if (most > 0 && info->time - at > most) {
        return walk_refuse(walk, FAULT(AUDIT_ANCHOR_TIME),
                           "stamped at %s, %lld seconds after the newest record, and %lld are allowed", stamped,
                           (long long)((info->time - at) / US_PER_S), (long long)(most / US_PER_S));
    }
    return OK;
}

struct fault walk_anchor(struct audit_walk *walk)
{
    const struct audit_pins *pins = walk->pins;
    const struct audit_statement *statement = &walk->statement;
    struct tst_info info = { 0 };
    enum tst_reason reason = TST_HOLDS;
    if (pins->anchor_ignored) {
        return OK;
    }
    if (statement->timestamp.len == 0) {
        return check_absent(walk);
    }
    if (pins->tsa_roots.len == 0) {
        return walk_refuse(walk, FAULT(AUDIT_PINS), "it carries a time stamp: give the root that it is judged by");
    }
    struct tst_expect expect = {
        .hash = "sha256",
        .digest = SPAN_ARRAY(statement->head.at),
        .roots_pem = pins->tsa_roots,
    };
    walk->scratch->note = (struct fault_note){ 0 };
    struct fault fault = tst_judge(walk->scratch, statement->timestamp, &expect, &info, &reason);
    if (FAULTED(fault)) {
        return refuse(walk, fault, reason);
    }
    TRY(check_time(walk, &info));
    walk->verdict.anchor_good = true;
    walk->verdict.anchor_at = info.time;
    walk->verdict.anchor_accuracy_us = info.accuracy_us;
    return info.signer != NULL ? arena_text(walk->op->arena, span_text(info.signer), &walk->verdict.anchor_signer) : OK;
}
