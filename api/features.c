#include "api/feature.h"

#include "api/approvals/approvals.h"
#include "api/attest/attest.h"
#include "api/audit/audit.h"
#include "api/codesign/codesign.h"
#include "api/compliance/compliance.h"
#include "api/console/console.h"
#include "api/feeds/feeds.h"
#include "api/identity/identity_feature.h"
#include "api/inventory/inventory.h"
#include "api/keys/keys.h"
#include "api/policy/policy.h"
#include "api/privacy/privacy.h"
#include "api/server/server_feature.h"
#include "api/transparency/transparency.h"
#include "api/tsa/tsa.h"

/* Start order: a feature may use what stands before it. */
static const struct feature *const all[] = {
    &server_feature,         &identity_feature,         &keys_feature,       &audit_feature,
    &audit_archive_feature,  &audit_proof_feature,      &policy_feature,     &approvals_feature,
    &attest_feature,         &transparency_feature,     &tsa_feature,        &codesign_feature,
    &feeds_feature,          &privacy_feature,          &console_feature,    &inventory_feature,
    &inventory_adcs_feature, &inventory_crypto_feature, &compliance_feature, &compliance_schedules_feature,
};

const struct feature *const *features_all(size_t *ret_count)
{
    *ret_count = COUNT_OF(all);
    return all;
}
