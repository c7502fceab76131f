/* The time stamp over the manifest's digest: RFC 3161, by a pinned root, judged at the time that it states. */
#include "api/compliance/verify_internal.h"

#include "api/tsa/verify.h"

#define AT      "/signed_export/timestamp"
/* A pack is stamped while it is made. Whoever holds a key that leaked later can write an early generated_at, but gets
 * only late stamps. */
#define LATE_US (3600 * US_PER_S)

struct fault verify_stamp(struct check *check, struct span token)
{
    struct evidence_verdict *verdict = check->verdict;
    const struct tst_expect expect = { .hash = "sha256",
                                       .digest = SPAN_ARRAY(verdict->digest.at),
                                       .roots_pem = check->pins->tsa_roots };
    struct tst_info info = { 0 };
    enum tst_reason reason = TST_HOLDS;
    char text[RFC3339_MAX];
    verdict->timestamp_there = token.len > 0;
    if (expect.roots_pem.len == 0) {
        return OK; /* not judged; the verdict says so */
    }
    if (token.len == 0) {
        return refuse(check, PACK_STAMP_ABSENT, AT, "there is none, and a root was given to judge one by");
    }
    check->op->note = (struct fault_note){ 0 };
    struct fault fault = tst_judge(check->op, token, &expect, &info, &reason);
    if (fault.code == FAULT_TST_INVALID) {
        enum evidence_reason mine = reason == TST_MALFORMED ? PACK_STAMP_FORM
                                    : reason == TST_DIGEST  ? PACK_STAMP_IMPRINT
                                                            : PACK_STAMP_INVALID;
        return refuse(check, mine, AT, "%s: %s", tst_reason_text(reason), check->op->note.detail);
    }
    TRY(fault);
    rfc3339_print(info.time, text);
    int64_t allowance = info.accuracy_us > 0 ? info.accuracy_us : US_PER_S;
    if (info.time < check->generated - allowance) {
        return refuse(check, PACK_STAMP_TIME, AT, "stamped at %s, before the manifest was made", text);
    }
    if (info.time > check->generated + LATE_US + allowance) {
        return refuse(check, PACK_STAMP_LATE, AT, "stamped at %s, long after the manifest says that it was made", text);
    }
    verdict->timestamp_good = true;
    verdict->timestamp_at = info.time;
    return info.signer != NULL ? arena_text(check->op->arena, span_text(info.signer), &verdict->timestamp_signer) : OK;
}
