/*
 * What the authority of each tenant is to be. The first one's is protocols.tsa.*; further ones stand in a YAML file
 * (protocols.tsa.tenants_file), read at start, and are served at /tsa/{tenant}. What an item leaves out is as for the
 * first one:
 *
 *     tenants:
 *       - tenant: acme
 *         enabled: true                    # false: as if it were not in the file
 *         public: true                     # false: a bearer token of that tenant is due
 *         policy_oid: 1.3.6.1.4.1.99999.1
 *         policies: [1.3.6.1.4.1.99999.2]  # further ones that a request may name
 *         hash_algorithms: [sha256, sha384, sha512]
 *         accuracy_ms: 1000                # not less than protocols.tsa.accuracy_ms: that is what the clock is held to
 *         key_algorithm: ec-p256           # of units that are made from now on
 *         issuance: own                    # or external
 *         requests_per_second: 0           # of each instance; 0 = no limit
 *         burst: 0                         # 0 = as many as requests_per_second
 *         in_flight: 16                    # 0 = no limit but the bulkhead
 */
#ifndef API_TSA_TENANTS_H
#define API_TSA_TENANTS_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"
#include "signer-pkcs11/protocol/key.h"

#define TSA_TENANTS_MAX 256

struct tsa_settings {
    struct tenant_id tenant;
    const struct config *config; /* the tenant's own view: protocols.tsa.* as they are for it */
    enum key_algorithm algorithm;
    bool external; /* certificates are imported */
    bool open;     /* nobody is asked for a token */
    bool first;    /* the tenant of protocols.tsa.tenant_id */
    int64_t rate, burst, in_flight;
};

struct tsa_tenants;
/* Reads protocols.tsa.* and the file. CONFIG, and `why` says where and what. */
struct fault tsa_tenants_load(const struct config *config, struct buf *why, struct tsa_tenants **ret_tenants);
/* The same with the file's text at hand; empty = no file. */
struct fault tsa_tenants_parse(const struct config *config, struct span yaml, const char *file, struct buf *why,
                               struct tsa_tenants **ret_tenants);
void tsa_tenants_free(struct tsa_tenants *tenants);
DEFINE_FREEP(struct tsa_tenants, tsa_tenants_free)
/* The first one first; disabled ones are not among them. */
size_t tsa_tenants_count(const struct tsa_tenants *tenants);
const struct tsa_settings *tsa_tenants_at(const struct tsa_tenants *tenants, size_t index);

#endif
