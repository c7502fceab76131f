/* What to do about an asset. Pure: the same asset gets the same advice whenever it is asked for. */
#include "api/inventory/crypto.h"

const char *crypto_kind_text(enum crypto_kind kind)
{
    static const char *const texts[CRYPTO_KINDS] = { "certificate", "key", "listener" };
    BUG_IF(kind >= CRYPTO_KINDS);
    return texts[kind];
}

static const struct crypto_advice identify = {
    "identify",
    "The algorithm is not known to this service: find out what it is before relying on it.",
};
static const struct crypto_advice replace = {
    "replace",
    "Neither approved here nor post-quantum: replace it with an approved algorithm, and plan the step beyond.",
};
static const struct crypto_advice leave_fence = {
    "replace_for_approved_mode",
    "Fenced off and not post-quantum: replace it where approved mode is claimed.",
};
static const struct crypto_advice keep = {
    "keep",
    "A quantum computer does not break this at its size: nothing to do.",
};
static const struct crypto_advice keep_fenced = {
    "keep_fenced",
    "Post-quantum already. It stays outside approved mode: nothing that it signs is part of an approved-mode claim.",
};
static const struct crypto_advice investigate = {
    "investigate_use",
    "No use was observed here, which is no proof that there is none: ask the owner, then retire it or plan its migration.",
};
static const struct crypto_advice second_signature = {
    "plan_second_signature",
    "What has to be verifiable for years needs a second, post-quantum signature before such computers exist: list who "
    "verifies, then make a key of ml-dsa-65 beside this one where FIPS is not required.",
};
static const struct crypto_advice restamp = {
    "plan_restamping",
    "Time stamps are kept longer than keys: stamp archived evidence again, under a post-quantum unit once the module "
    "approves one, before this algorithm falls.",
};
static const struct crypto_advice evidence = {
    "plan_evidence_renewal",
    "Exports and packs that this key signed are proof for years: keep their time stamps, and sign them again with a "
    "post-quantum key before this algorithm falls.",
};
static const struct crypto_advice authority = {
    "plan_authority_migration",
    "Everything below an authority moves with it: plan a second hierarchy and the trust anchors of those who verify.",
};
static const struct crypto_advice listener = {
    "plan_key_agreement",
    "Certificates are replaced as they end; what recorded traffic hangs on is key agreement over P-256 and P-384: move "
    "it to a hybrid group once the module approves one.",
};
static const struct crypto_advice certificate = {
    "replace_at_renewal",
    "Ask for another algorithm when it is renewed, as soon as those who rely on it take one.",
};
static const struct crypto_advice migrate = {
    "plan_migration",
    "A quantum computer breaks this: plan its replacement, together with whoever relies on it.",
};

static bool is_any(const char *purpose, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(purpose, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static struct crypto_advice for_key(const char *purpose, int64_t uses)
{
    static const char *const authorities[] = { "ca", "ocsp", "crl", "ssh-ca" };
    static const char *const proofs[] = { "audit-export", "archive", "evidence-pack" };
    if (is_any(purpose, authorities, COUNT_OF(authorities))) {
        return authority;
    }
    if (is_any(purpose, proofs, COUNT_OF(proofs))) {
        return evidence;
    }
    if (strcmp(purpose, "tsa") == 0) {
        return restamp;
    }
    if (strcmp(purpose, "codesign") == 0) {
        return uses > 0 ? second_signature : investigate;
    }
    return migrate;
}

struct crypto_advice crypto_advise(const struct crypto_algorithm *algorithm, enum crypto_kind kind, const char *purpose,
                                   int64_t uses)
{
    switch (algorithm->quantum) {
    case QUANTUM_UNKNOWN:
        return identify;
    case QUANTUM_POST:
        return keep_fenced;
    case QUANTUM_SYMMETRIC:
        return keep;
    case QUANTUM_VULNERABLE:
    case QUANTUM_COUNT:
        break;
    }
    if (algorithm->posture != POSTURE_APPROVED) {
        return algorithm->posture == POSTURE_FENCED ? leave_fence : replace;
    }
    return kind == CRYPTO_KEY ? for_key(purpose, uses) : kind == CRYPTO_HTTPS ? listener : certificate;
}
