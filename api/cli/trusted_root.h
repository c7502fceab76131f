/*
 * Sigstore's trusted root (v0.1): what a verifier believes, and when. Logs that sign entries, authorities that issue
 * certificates, authorities that stamp time, each with its window. Certificate-transparency logs are passed over.
 */
#ifndef API_CLI_TRUSTED_ROOT_H
#define API_CLI_TRUSTED_ROOT_H

#include "api/codesign/verify.h"
#include "api/transparency/verify.h"

#define TRUSTED_ROOT_MAX ((size_t)4 << 20)
#define TRUSTED_MAX      64 /* of each kind */

/* Both ends belong to the window; 0 = open. */
struct trusted_authority {
    struct chain chain; /* the root is the last */
    utc_us from, until;
};
struct trusted_root {
    struct tlog_key logs[TRUSTED_MAX];
    size_t log_count;
    struct trusted_authority authorities[TRUSTED_MAX], stampers[TRUSTED_MAX];
    size_t authority_count, stamper_count;
};

/* BUNDLE_INVALID with what is wrong. Lives in op's arena. */
struct fault trusted_root_parse(struct op *op, struct span json, struct trusted_root **ret_root);

static inline bool trusted_at(const struct trusted_authority *authority, utc_us time)
{
    return time >= authority->from && (authority->until == 0 || time <= authority->until);
}

#endif
