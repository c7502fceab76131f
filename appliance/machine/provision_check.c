#include "appliance/base/clock.h"
#include "appliance/base/crypto.h"
#include "appliance/base/id.h"
#include "appliance/machine/provision_rows.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <stdio.h>

#define HOSTNAME_MAX 63
#define TTL_MAX_NS   (31622400LL * NS_PER_S)
#define TTL_MIN_NS   (60LL * NS_PER_S)
#define PIN_NAME_MAX 64
#define TOKEN_LABEL  32 /* CK_TOKEN_INFO */
#define MODULES      "/run/extensions/"

/* ---- who ---- */

static void check_identity(struct provision_load *load, const struct provision *provision)
{
    struct tenant_id tenant;
    int64_t ttl = 0;
    if (!provision_host_name_fits(provision->hostname, HOSTNAME_MAX)) {
        provision_refuse_key(load, "hostname", "'%.80s' must be a host name of 1 to %d letters, digits, '-' and '.'",
                             provision->hostname, HOSTNAME_MAX);
    }
    if (FAULTED(tenant_id_parse(span_text(provision->tenant), &tenant))) {
        provision_refuse_key(load, "tenant", "'%.80s' must be 1 to 63 of a-z, 0-9 and '-', not starting with '-'",
                             provision->tenant);
    }
    if (strlen(provision->admin.subject) > OP_SUBJECT_MAX || !provision_made_of(provision->admin.subject, "._:@/+-")) {
        provision_refuse_key(load, "admin.subject", "must be 1 to %d letters, digits and . _ : @ / + -",
                             OP_SUBJECT_MAX);
    } else if (strncmp(provision->admin.subject, "system:", 7) == 0 ||
               strncmp(provision->admin.subject, "svc-", 4) == 0) {
        provision_refuse_key(load, "admin.subject", "names beginning with system: or svc- are reserved");
    }
    if (FAULTED(duration_parse(span_text(provision->admin.ttl), &ttl)) || ttl < TTL_MIN_NS || ttl > TTL_MAX_NS) {
        provision_refuse_key(load, "admin.ttl", "'%.40s' must be a duration of 1m to 8784h, such as 720h",
                             provision->admin.ttl);
    }
    provision_check_hosts(load, "tls.names", &provision->tls.names);
}

/* ---- HSM, time-stamping, state ---- */

static bool pin_name_fits(const char *name)
{
    return name[0] != '.' && strlen(name) <= PIN_NAME_MAX && provision_made_of(name, "._-");
}

static void check_module(struct provision_load *load, const struct provision *provision)
{
    const char *module = provision->hsm.module, *login = provision->hsm.login;
    int64_t slot = 0;
    if (strncmp(module, MODULES, sizeof(MODULES) - 1) != 0 || !provision_made_of(module, "/._-+") ||
        strstr(module, "/.") != NULL || module[strlen(module) - 1] == '/') {
        provision_refuse_key(load, "hsm.module",
                             "must be the path of a library of an extension image, such as " MODULES
                             "NAME/lib/libpkcs11.so");
    }
    if (provision->hsm.label[0] == '\0' && provision->hsm.slot[0] == '\0') {
        provision_refuse_key(load, "hsm.label", "needs the token's label, or hsm.slot its number");
    }
    if (strlen(provision->hsm.label) > TOKEN_LABEL) {
        provision_refuse_key(load, "hsm.label", "at most %d bytes", TOKEN_LABEL);
    }
    if (provision->hsm.slot[0] != '\0' &&
        (!config_parse_int(provision->hsm.slot, &slot) || slot < 0 || slot > (int64_t)UINT32_MAX)) {
        provision_refuse_key(load, "hsm.slot", "'%.40s' is no number of a slot", provision->hsm.slot);
    }
    if (strcmp(login, "user") != 0 && strcmp(login, "protected") != 0 && strcmp(login, "none") != 0) {
        provision_refuse_key(load, "hsm.login", "'%.40s' must be one of user, protected, none", login);
    }
}

static void check_hsm(struct provision_load *load, const struct provision *provision)
{
    const char *pin_file = provision->hsm.pin_file;
    bool module = provision->hsm.kind == PROVISION_HSM_MODULE;
    if (module) {
        check_module(load, provision);
    } else if (provision->hsm.module[0] != '\0' || provision->hsm.label[0] != '\0' || provision->hsm.slot[0] != '\0' ||
               strcmp(provision->hsm.login, "user") != 0) {
        provision_refuse_key(load, "hsm.kind", "is embedded, which has no module, label, slot or login: say module");
    }
    if (pin_file[0] != '\0' && (!module || strcmp(provision->hsm.login, "user") != 0)) {
        provision_refuse_key(load, "hsm.pin_file", "is for hsm.kind module with hsm.login user");
    }
    if (pin_file[0] != '\0' && !pin_name_fits(pin_file)) {
        provision_refuse_key(load, "hsm.pin_file", "must be the name of a file beside this one");
    }
}

/* Dotted decimal, at least two arcs: first 0 to 2, second below 40 under 0 and 1. */
static bool oid_fits(const char *text)
{
    unsigned arcs = 0;
    int64_t first = 0;
    for (;; arcs++) {
        size_t len = strspn(text, "0123456789");
        int64_t arc = 0;
        char number[20];
        if (len == 0 || len > 10 || (text[0] == '0' && len > 1)) {
            return false;
        }
        (void)snprintf(number, sizeof(number), "%.*s", (int)len, text);
        if (!config_parse_int(number, &arc) || arc > (int64_t)UINT32_MAX || (arcs == 0 && arc > 2) ||
            (arcs == 1 && first < 2 && arc > 39)) {
            return false;
        }
        first = arcs == 0 ? arc : first;
        if (text[len] == '\0') {
            return arcs >= 1;
        }
        if (text[len] != '.') {
            return false;
        }
        text += len + 1;
    }
}

static void check_tsa(struct provision_load *load, const struct provision *provision)
{
    const char *algorithm = provision->tsa.algorithm;
    if (provision->tsa.policy[0] != '\0' && !oid_fits(provision->tsa.policy)) {
        provision_refuse_key(load, "tsa.policy", "'%.80s' is no object identifier, such as 1.3.6.1.4.1.57264.2.1.1",
                             provision->tsa.policy);
    }
    for (size_t i = 0; i < provision->tsa.policies.count; i++) {
        if (!oid_fits(provision->tsa.policies.at[i])) {
            provision_refuse_key(load, "tsa.policies", "'%.80s' is no object identifier",
                                 provision->tsa.policies.at[i]);
        }
    }
    if (algorithm[0] != '\0' && strcmp(algorithm, "ec-p256") != 0 && strcmp(algorithm, "ec-p384") != 0 &&
        strcmp(algorithm, "rsa-3072") != 0) {
        provision_refuse_key(load, "tsa.algorithm", "'%.40s' must be one of ec-p256, ec-p384, rsa-3072", algorithm);
    }
}

static void check_state(struct provision_load *load, const struct provision *provision)
{
    const char *pin_file = provision->state.pin_file;
    if (pin_file[0] == '\0') {
        return;
    }
    if (!pin_name_fits(pin_file)) {
        provision_refuse_key(load, "state.pin_file", "must be the name of a file beside this one");
    }
    if (provision->state.seal == PROVISION_SEAL_NONE) {
        provision_refuse_key(load, "state.pin_file", "is given, but state.seal is none; say auto, tpm2 or pin");
    }
}

/* ---- keys of extension images ---- */

static bool key_fits(const EVP_PKEY *key)
{
    char group[64] = "";
    return EVP_PKEY_is_a(key, "EC") == 1 && EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
           (strcmp(group, "prime256v1") == 0 || strcmp(group, "secp384r1") == 0);
}

/* In the one form that OpenSSL writes, so that nothing else can stand around it. */
static struct fault key_again(struct op *op, const EVP_PKEY *key, const char **ret_pem)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    char *at = NULL;
    REQUIRE(bio != NULL && PEM_write_bio_PUBKEY(bio, key) == 1, CRYPTO);
    long len = BIO_get_mem_data(bio, &at);
    REQUIRE(len > 0, CRYPTO);
    return arena_text(op->arena, span_of(at, (size_t)len), ret_pem);
}

static void check_keys(struct provision_load *load, const struct provision *provision)
{
    const struct provision_texts *keys = &provision->extension_keys;
    for (size_t i = 0; i < keys->count; i++) {
        CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(keys->at[i], (int)strlen(keys->at[i]));
        CLEANUP(EVP_PKEY_freep)
        EVP_PKEY *key = bio != NULL ? PEM_read_bio_PUBKEY_ex(bio, NULL, NULL, NULL, crypto_context(), NULL) : NULL;
        if (key == NULL || !key_fits(key) || FAULTED(key_again(load->op, key, &keys->at[i]))) {
            provision_refuse_key(load, "extensions.keys",
                                 "number %zu is no public key of ECDSA P-256 or P-384 in PEM form", i + 1);
        }
        char ignored[8];
        crypto_last_error(ignored, sizeof(ignored));
    }
}

void provision_check(struct provision_load *load, const struct provision *provision)
{
    check_identity(load, provision);
    provision_check_network(load, provision);
    check_hsm(load, provision);
    check_tsa(load, provision);
    check_state(load, provision);
    check_keys(load, provision);
}
