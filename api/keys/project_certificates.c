/* Every certificate that a key ever had stays in the tenant's inventory of certificates, under an id of its
 * fingerprint: a chain that is replaced takes its leaf out of the key's row and not out of there. */
#include "api/keys/internal.h"
#include "appliance/base/der.h"

#include <stdio.h>

static const struct sql SQL_LEAF = {
    "keys_leaf",
    "INSERT INTO svc.certificates (tenant_id, certificate_id, fingerprint, der, not_after_us, key_id, recorded_us,"
    " recorded_by, version) VALUES ($1, $2, $3, $4, $5, $6, $7, '', 1) ON CONFLICT (tenant_id, certificate_id)"
    " DO UPDATE SET key_id = EXCLUDED.key_id WHERE svc.certificates.key_id IS NULL",
    7,
};

void keys_certificate_id(const struct sha256 *fingerprint, struct uuid *ret_id)
{
    uint8_t id[16];
    char hex[2 * sizeof(id) + 1] = "";
    memcpy(id, fingerprint->at, sizeof(id));
    id[6] = (uint8_t)((id[6] & 0x0f) | 0x80); /* RFC 9562 5.8: version 8, variant 10 */
    id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(id); i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", id[i]);
    }
    (void)snprintf(ret_id->text, sizeof(ret_id->text), "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
                   hex + 20);
}

struct fault key_project_leaf(struct projection *projection, const char *key_id, struct span chain,
                              struct sql_arg not_after)
{
    struct span rest = chain;
    struct der_element leaf;
    struct sha256 fingerprint;
    struct uuid id;
    if (FAULTED(der_next(&rest, &leaf))) {
        return OK; /* the event says what it says; there is no certificate in it to list */
    }
    TRY(sha256_of(leaf.whole, &fingerprint));
    keys_certificate_id(&fingerprint, &id);
    const struct sql_arg args[] = {
        SQL_TEXT(projection_op(projection)->tenant.text),
        SQL_TEXT(id.text),
        SQL_BYTES(SPAN_ARRAY(fingerprint.at)),
        SQL_BYTES(leaf.whole),
        not_after,
        SQL_TEXT(key_id),
        SQL_INT(projection_time(projection)),
    };
    return tx_queue(projection_tx(projection), &SQL_LEAF, args, COUNT_OF(args));
}
