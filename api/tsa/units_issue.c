/* The tenant's own time-stamping root, and what it issues. Under the lock of units_keep.c. */
#include "api/ca/certificate.h"
#include "api/tsa/internal.h"
#include "api/tsa/units.h"

#define ROOT_DAYS   3652 /* ten years */
#define ROOTS_MAX   64
#define BACKDATE_US (60 * US_PER_S) /* so that a stamp of this second lies inside the validity */

static struct fault issue_root(struct op *op, struct services *services, struct managed_key *root, size_t number)
{
    const char *name = NULL;
    struct span certificate;
    TRY(number == 1 ? arena_printf(op->arena, &name, "Time Stamping Root (%s)", op->tenant.text)
                    : arena_printf(op->arena, &name, "Time Stamping Root %zu (%s)", number, op->tenant.text));
    struct certificate_issuer self = { .key = root->ref, .spki = root->spki };
    struct certificate_profile profile = {
        .common_name = name,
        .authority = true,
        .valid_days = ROOT_DAYS,
        .not_before = clock_utc() - BACKDATE_US,
    };
    TRY(certificate_issue(op, services->signer, &self, root->spki, &profile, &certificate));
    TRY(keys_set_chain(op, services, root, &certificate, 1));
    TRY(keys_get(op, services, root->ref.id, root));
    REQUIRE(root->chain_count == 1, INTERNAL);
    return OK;
}

/* The first root that outlives what is to be issued; a new one follows those that do not. */
static struct fault find_root(struct op *op, struct services *services, utc_us until, struct managed_key *ret_root)
{
    for (size_t number = 1; number <= ROOTS_MAX; number++) {
        const char *name = "tsa-root";
        struct tsa_times times;
        TRY(number == 1 ? OK : arena_printf(op->arena, &name, "tsa-root-%zu", number));
        TRY(keys_ensure(op, services, KEY_PURPOSE_CA, KEY_ALGORITHM_EC_P384, name, ret_root));
        if (ret_root->chain_count == 0) {
            TRY(issue_root(op, services, ret_root, number));
        }
        TRY(tsa_certificate_times(op, ret_root->chain[0], &times));
        if (times.not_after >= until) {
            return OK;
        }
    }
    return op_fail(op, FAULT(INTERNAL), "none of %d time-stamping roots outlives a unit's certificate", ROOTS_MAX);
}

struct fault unit_issue(struct op *op, struct services *services, const struct tsa_settings *settings,
                        const struct managed_key *key, struct span ret_chain[2])
{
    const struct config *config = settings->config;
    const char *name = NULL;
    struct managed_key root;
    utc_us from = clock_utc() - BACKDATE_US;
    struct certificate_profile profile = {
        .extended_usage = "critical,timeStamping",
        .not_before = from,
        .not_after = from + BACKDATE_US + config->tsa_unit_validity / 1000,
        .usage_until = from + BACKDATE_US + config->tsa_unit_usage / 1000,
    };
    TRY(find_root(op, services, profile.not_after, &root));
    TRY(arena_printf(op->arena, &name, "Time Stamping Unit %.8s (%s)", key->ref.id.text, op->tenant.text));
    profile.common_name = name;
    struct certificate_issuer issuer = { .key = root.ref, .spki = root.spki, .certificate = root.chain[0] };
    TRY(certificate_issue(op, services->signer, &issuer, key->spki, &profile, &ret_chain[0]));
    ret_chain[1] = root.chain[0];
    return OK;
}
