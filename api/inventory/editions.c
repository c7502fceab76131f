/*
 * What this deployment runs under: its edition, and what the process knows of its cryptographic module. There is no
 * license in this build that anything could be entitled by, so nothing is counted, and what is not counted is null.
 */
#include "api/inventory/crypto.h"

#include "fips/fips.h"

#include <openssl/opensslv.h>

#define ANSWER_MAX ((size_t)256 << 10)

#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#else
#define MACHINE "other"
#endif
#define BUILD_TARGET "linux-" MACHINE ", OpenSSL " OPENSSL_VERSION_STR
#define CI_GATE \
    "scripts/test: known-answer tests (unit stage, fips) and refusal to start without the module (e2e stage)"

static void print_list(struct jout *out, const char *key, const char *const *list)
{
    jout_key(out, key);
    jout_array(out);
    for (size_t i = 0; list[i] != NULL; i++) {
        jout_text(out, list[i]);
    }
    jout_array_end(out);
}

static void print_null(struct jout *out, const char *key)
{
    jout_key(out, key);
    jout_null(out);
}

static void print_license(struct jout *out)
{
    jout_key_text(out, "edition", "community");
    jout_key(out, "license");
    jout_object(out);
    jout_key_bool(out, "present", false);
    jout_key_text(out, "why", "This build trusts no license key, so it stays Community.");
    jout_object_end(out);
    jout_key(out, "deployment_entitlement");
    jout_object(out);
    print_null(out, "environment");
    print_null(out, "deployment_id");
    jout_key_bool(out, "metered", false);
    print_null(out, "production_units_consumed");
    print_null(out, "registered_non_production_slots");
    print_null(out, "remaining_non_production_slots");
    jout_key_bool(out, "legacy_unbound", false);
    jout_object_end(out);
}

static void print_profile(struct jout *out, const struct config *config)
{
    static const char *const artifacts[] = {
        "certificate reference of the module",
        "approved configuration of this deployment",
        "certificates of external HSM and KMS",
        "signed evidence pack",
        "release manifest",
        NULL,
    };
    jout_key(out, "regulated_deployment_profile");
    jout_object(out);
    print_null(out, "go_fips_module_selector"); /* there is none: the module is chosen by file and digest, as follows */
    jout_key(out, "module_selector");
    jout_object(out);
    jout_key_text(out, "file", config->fips_module);
    jout_key_text(out, "sha256", fips_module_pin());
    jout_object_end(out);
    print_list(out, "approved_algorithms", fips_approved_algorithms());
    print_list(out, "non_fips_fences", fips_fences());
    jout_key(out, "hsm_kms_validation_certificates");
    jout_array(out);
    for (size_t i = 0; i < config->custody_certificates.count; i++) {
        jout_text(out, config->custody_certificates.at[i]);
    }
    jout_array_end(out);
    print_list(out, "operator_required_artifacts", artifacts);
    jout_object_end(out);
}

struct fault editions_print(const struct config *config, struct buf *out)
{
    struct fips_posture posture;
    struct jout jout;
    fips_posture(&posture);
    jout_init(&jout, out);
    jout_object(&jout);
    print_license(&jout);
    jout_key(&jout, "fips");
    jout_object(&jout);
    jout_key_bool(&jout, "module_active", posture.module_active);
    jout_key_bool(&jout, "required", posture.required);
    jout_key_bool(&jout, "self_test_passed", posture.module_active && posture.self_test_passed);
    jout_key_text(&jout, "standard", "FIPS 140-3");
    jout_key(&jout, "module");
    if (posture.module_active) {
        jout_object(&jout);
        jout_key_text(&jout, "name", posture.module);
        jout_key_text(&jout, "version", posture.version);
        jout_object_end(&jout);
    } else {
        jout_null(&jout);
    }
    jout_key_text(&jout, "build_target", BUILD_TARGET);
    jout_key_text(&jout, "ci_gate", CI_GATE);
    print_profile(&jout, config);
    jout_object_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault route_editions(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    TRY(editions_print(request->services->config, &out));
    return response_json(request, 0, &out);
}
