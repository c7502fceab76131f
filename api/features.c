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
#include "api/operations/operations.h"
#include "api/otlp/otlp.h"
#include "api/policy/policy.h"
#include "api/privacy/privacy.h"
#include "api/scale/scale.h"
#include "api/server/server_feature.h"
#include "api/snapshot/snapshot.h"
#include "api/transparency/transparency.h"
#include "api/tsa/tsa.h"

/* Start order: a feature may use what stands before it. */
static const struct feature *const all[] = {
    &server_feature,
    &otlp_feature,
    &identity_feature,
    &keys_feature,
    &audit_feature,
    &audit_archive_feature,
    &audit_proof_feature,
    &policy_feature,
    &approvals_feature,
    &attest_feature,
    &transparency_feature,
    &tsa_feature,
    &codesign_feature,
    &feeds_feature,
    &privacy_feature,
    &console_feature,
    &inventory_feature,
    &inventory_adcs_feature,
    &inventory_crypto_feature,
    &compliance_feature,
    &compliance_schedules_feature,
    &scale_feature,
    &operations_feature,
    &snapshot_feature,
};

const struct feature *const *features_all(size_t *ret_count)
{
    *ret_count = COUNT_OF(all);
    return all;
}

struct fault features_metrics(struct metrics *metrics)
{
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        TRY(metrics_register(metrics, all[i]->metrics, all[i]->metric_count));
        TRY(all[i]->register_metrics != NULL ? all[i]->register_metrics(metrics) : OK);
    }
    return OK;
}
