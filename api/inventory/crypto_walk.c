/* All assets of a tenant in canonical order: certificates, keys, the listener; each by its id. */
#include "api/inventory/credentials.h"
#include "api/inventory/crypto.h"

#include "api/policy/policy.h"

#include <stdio.h>

#define PAGE 500

static const struct sql SQL_KEYS = {
    "crypto_keys",
    "SELECT k.key_id, k.purpose, k.algorithm, k.name, k.state, k.token, k.system, k.version, k.created_us,"
    " k.activated_us, k.not_after_us, coalesce(u.uses, 0), coalesce(u.last_used_us, 0),"
    " (SELECT count(*) FROM svc.certificates c WHERE c.key_id = k.key_id)"
    " FROM svc.managed_keys k LEFT JOIN svc.key_uses u ON u.tenant_id = k.tenant_id AND u.key_id = k.key_id"
    " WHERE " KEY_LIVES("$3") " AND k.key_id > $1 ORDER BY k.key_id LIMIT $2",
    3,
};
static const struct sql SQL_CERTIFICATE_THERE = {
    "crypto_certificate_there",
    "SELECT EXISTS (SELECT FROM svc.certificates WHERE certificate_id = $1)",
    1,
};
static const struct sql SQL_KEY_LIVES = {
    "crypto_key_lives",
    "SELECT EXISTS (SELECT FROM svc.managed_keys k WHERE " KEY_LIVES("$2") " AND k.key_id = $1)",
    2,
};

struct walk {
    struct op *op;
    struct services *services;
    struct tx *tx;
    utc_us now;
    crypto_visit visit;
    void *arg;
};

static void name_object(struct crypto_asset *asset, const char *id)
{
    (void)snprintf(asset->object, sizeof(asset->object), "%s:%s", crypto_kind_text(asset->kind), id);
}

static struct fault visit_key(const struct walk *walk, const struct rows *rows, size_t row)
{
    const char *id = rows_text(rows, row, 0);
    struct crypto_asset asset = {
        .kind = CRYPTO_KEY,
        .purpose = rows_text(rows, row, 1),
        .algorithm = crypto_algorithm_find(rows_text(rows, row, 2)),
        .name = rows_text(rows, row, 3),
        .state = rows_text(rows, row, 4),
        .token = rows_text(rows, row, 5),
        .subject = "",
        .issuer = "",
        .key_object = "",
        .system = rows_bool(rows, row, 6),
        .version = rows_int(rows, row, 7),
        .created = rows_int(rows, row, 8),
        .activated = rows_int(rows, row, 9),
        .not_after = rows_int(rows, row, 10),
        .signing_operations = rows_int(rows, row, 11),
        .last_observed = rows_int(rows, row, 12),
        .certificates = rows_int(rows, row, 13),
    };
    asset.rules = (int64_t)policy_rules_naming(walk->services->policy, walk->op->tenant.text, id, asset.name);
    name_object(&asset, id);
    return walk->visit(walk->arg, &asset);
}

static struct fault walk_keys(const struct walk *walk)
{
    char last[40] = "";
    for (bool more = true; more;) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        TRY(tx_query(walk->tx, &SQL_KEYS, (struct sql_arg[]){ SQL_TEXT(last), SQL_INT(PAGE), SQL_INT(walk->now) }, 3,
                     &rows));
        size_t count = rows_count(rows);
        for (size_t row = 0; row < count; row++) {
            TRY(visit_key(walk, rows, row));
        }
        more = count == PAGE;
        if (more) {
            (void)snprintf(last, sizeof(last), "%s", rows_text(rows, count - 1, 0));
        }
    }
    return OK;
}

static struct fault visit_listener(const struct walk *walk)
{
    const struct crypto_listener *listener = crypto_listener();
    if (listener->algorithm == NULL) {
        return OK;
    }
    const struct crypto_asset asset = {
        .object = CRYPTO_LISTENER,
        .kind = CRYPTO_HTTPS,
        .algorithm = listener->algorithm,
        .name = listener->fingerprint,
        .purpose = "tls-server",
        .state = "active",
        .token = "",
        .subject = "",
        .issuer = "",
        .key_object = "",
        .system = true,
        .version = 1,
        .not_before = listener->not_before,
        .not_after = listener->not_after,
        .certificates = 1,
    };
    return walk->visit(walk->arg, &asset);
}

struct fault crypto_walk(struct op *op, struct services *services, struct tx *tx, utc_us now,
                         struct custody_summary *custody, crypto_visit visit, void *arg)
{
    const struct walk walk = { op, services, tx, now, visit, arg };
    TRY(crypto_walk_certificates(op, tx, custody, visit, arg));
    TRY(walk_keys(&walk));
    return visit_listener(&walk);
}

/* ---- is there such an object? ---- */

static struct fault exists(struct tx *tx, const struct sql *sql, const char *id, bool *ret_there)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, sql, (struct sql_arg[]){ SQL_TEXT(id), SQL_INT(clock_utc()) }, sql->args, &rows));
    *ret_there = rows_bool(rows, 0, 0);
    return OK;
}

struct fault crypto_object_check(struct op *op, struct tx *tx, const char *object)
{
    struct uuid id;
    const char *colon = strchr(object, ':');
    const struct sql *sql = strncmp(object, "key:", 4) == 0            ? &SQL_KEY_LIVES
                            : strncmp(object, "certificate:", 12) == 0 ? &SQL_CERTIFICATE_THERE
                                                                       : NULL;
    bool there = strcmp(object, CRYPTO_LISTENER) == 0 && crypto_listener()->algorithm != NULL;
    if (sql != NULL && !FAULTED(uuid_parse(span_text(colon + 1), &id))) {
        TRY(exists(tx, sql, id.text, &there));
    }
    if (!there) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/object",
                             "/object: the crypto-readiness dataset has no such object: list them with GET "
                             "/api/v1/graph/crypto-readiness");
    }
    return OK;
}
