/*
 * Qualification: may this authority be relied on as it stands? Seven conditions, each met or explained with what to do.
 * Texts are constants: no tenant, certificate, path, key or request of anybody gets into the answer. Nothing is signed
 * and nothing recorded for it.
 */
#ifndef API_TSA_QUALIFY_H
#define API_TSA_QUALIFY_H

#include "api/services.h"
#include "api/tsa/internal.h"

#define QUALIFY_X(X)                                                                                               \
    X(MOUNT, "tenant_bound_mount", "POST /tsa is served for the caller's tenant.")                                 \
    X(PROFILE, "active_protocol_profile", "Policy, hash algorithms and accuracy are in force.")                    \
    X(CERTIFICATE, "timestamping_certificate",                                                                     \
      "The certificate in use is valid, for time stamping alone, about the key in use, and the one on record.")    \
    X(SIGNER, "isolated_signer", "The separate signer answers and its token works.")                               \
    X(AUDIT, "immutable_audit_path", "The event log is reachable, whole and durable, and the read model follows.") \
    X(CAPACITY, "bounded_capacity", "Requests at once are bounded, and there is room.")                            \
    X(CLOCK, "trusted_clock", "The time is trusted.")

enum qualify_condition {
#define X(symbol, name, doc) QUALIFY_##symbol,
    QUALIFY_X(X)
#undef X
        QUALIFY_COUNT
};
const char *qualify_name(enum qualify_condition condition);

/* Several may be about one condition. */
struct qualify_finding {
    enum qualify_condition condition;
    const char *explanation, *recovery;
};
#define QUALIFY_FINDINGS_MAX 24
struct qualify {
    struct qualify_finding findings[QUALIFY_FINDINGS_MAX];
    size_t count;
};
void qualify_find(struct qualify *qualify, enum qualify_condition condition, const char *explanation,
                  const char *recovery);
bool qualify_met(const struct qualify *qualify, enum qualify_condition condition);

/* The rules, each over what was looked at; pure but for OpenSSL. `recorded`: the leaf on record, empty = none. */
void qualify_certificate(struct qualify *qualify, const struct tsa_unit *unit, struct span recorded, utc_us now);
void qualify_signer(struct qualify *qualify, struct fault asked, const struct signer_health *health,
                    bool fips_required);
void qualify_audit(struct qualify *qualify, struct fault asked, const struct event_log_state *log,
                   const struct projector_state *projection, int64_t replicas);
void qualify_capacity(struct qualify *qualify, unsigned limit, unsigned queue, unsigned in_use, unsigned waiting);
void qualify_clock(struct qualify *qualify, const struct clock_state *state, int64_t accuracy_ms);

/* What the answer names beside the findings. */
struct qualify_subject {
    const char *endpoint, *policy, *clock; /* NULL when there is none */
    bool trusts_host;
};
struct fault qualify_print(const struct qualify *qualify, const struct qualify_subject *subject, struct buf *out);

#endif
