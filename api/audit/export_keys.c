/* The keys that exports are signed with: one line of them for each algorithm, the newest of which signs. */
#include "api/audit/internal.h"

#include "fips/jws.h"

/* What is being signed when a key is replaced is finished under it: longer than an export may take. */
#define OVERLAP_MORE_US (600 * US_PER_S)

struct algorithm {
    const char *alg; /* as audit.signature_algorithm and the JWS header have it */
    enum key_algorithm key;
    const char *name; /* of the keys */
};
static const struct algorithm algorithms[] = {
    { "ES256", KEY_ALGORITHM_EC_P256, "audit-export" },
    { "PS256", KEY_ALGORITHM_RSA_3072, "audit-export-ps256" },
};

/* The configuration was refused with another one. */
static const struct algorithm *configured(const struct services *services)
{
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        if (strcmp(algorithms[i].alg, services->config->audit_algorithm) == 0) {
            return &algorithms[i];
        }
    }
    BUG_IF(true);
}

struct fault export_key(struct op *op, struct services *services, struct managed_key *ret_key)
{
    const struct algorithm *algorithm = configured(services);
    return keys_ensure(op, services, KEY_PURPOSE_AUDIT_EXPORT, algorithm->key, algorithm->name, ret_key);
}

struct fault export_key_rotate(struct op *op, struct services *services, struct managed_key *ret_key)
{
    const struct algorithm *algorithm = configured(services);
    int64_t overlap = services->config->audit_export_timeout / 1000 + OVERLAP_MORE_US;
    return keys_replace(op, services, KEY_PURPOSE_AUDIT_EXPORT, algorithm->key, algorithm->name, overlap, ret_key);
}

static utc_us earlier(utc_us a, utc_us b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

struct fault export_keys(struct op *op, struct services *services, struct buf *json)
{
    struct managed_key *keys = NULL;
    size_t count = 0;
    TRY(keys_history(op, services, KEY_PURPOSE_AUDIT_EXPORT, &keys, &count));
    TRY(buf_text(json, "{\"keys\":["));
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        const struct managed_key *key = &keys[i];
        if (key->activated == 0) {
            continue; /* prepared, and never signed anything */
        }
        utc_us end = earlier(earlier(key->retires, key->retired), key->destroyed);
        TRY(buf_text(json, shown++ > 0 ? "," : ""));
        TRY(jwk_print_window(key->spki, key->activated, end, json));
    }
    return buf_text(json, "]}");
}
