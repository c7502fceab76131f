/* The logs as configured, and what is told of them: plan, digest, trusted root. */
#include "api/transparency/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

#include <openssl/err.h>

#define DIGEST_MAX ((size_t)1 << 20)

void tlogs_free(struct transparency *transparency)
{
    if (transparency == NULL) {
        return;
    }
    for (size_t i = 0; i < transparency->count; i++) {
        BUG_IF(pthread_mutex_destroy(&transparency->logs[i].lock) != 0);
    }
    arena_free(transparency->arena);
    mem_free(transparency);
}

bool tlog_serves(const struct tlog *log, struct tenant_id tenant)
{
    for (size_t i = 0; i < log->tenant_count; i++) {
        if (tenant_id_equal(log->tenants[i], tenant)) {
            return true;
        }
    }
    return log->tenant_count == 0;
}

struct tlog *tlogs_open_at(struct transparency *transparency, struct tenant_id tenant, utc_us now)
{
    for (size_t i = transparency != NULL ? transparency->count : 0; i > 0; i--) {
        struct tlog *log = &transparency->logs[i - 1];
        bool open = now >= log->from && (log->until == 0 || now < log->until);
        if (open && tlog_serves(log, tenant)) {
            return log;
        }
    }
    return NULL;
}

struct tlog *tlogs_find(struct transparency *transparency, struct tenant_id tenant, const char *destination)
{
    for (size_t i = 0; transparency != NULL && i < transparency->count; i++) {
        struct tlog *log = &transparency->logs[i];
        if (strcmp(log->destination, destination) == 0 && tlog_serves(log, tenant)) {
            return log;
        }
    }
    return NULL;
}

/* Rekor v1 verifies by key and digest whatever the hash is. Rekor v2 ties the hash to the key. Neither takes RSA-PSS.
 */
bool tlog_takes(enum tlog_kind kind, enum key_algorithm algorithm, enum sign_scheme scheme, enum hash_algorithm hash)
{
    bool ec = algorithm == KEY_ALGORITHM_EC_P256 || algorithm == KEY_ALGORITHM_EC_P384;
    bool rsa = algorithm == KEY_ALGORITHM_RSA_3072 || algorithm == KEY_ALGORITHM_RSA_4096;
    bool fits = (ec && scheme == SIGN_SCHEME_ECDSA) || (rsa && scheme == SIGN_SCHEME_RSA_PKCS1);
    if (kind == TLOG_REKOR_V1) {
        return fits;
    }
    return fits && hash == (algorithm == KEY_ALGORITHM_EC_P384 ? HASH_SHA384 : HASH_SHA256);
}

const char *tlog_signer_details(struct span spki, const char *hash)
{
    static const struct {
        int bits;
        const char *kind, *hash, *details;
    } rows[] = {
        { 256, "EC", "sha256", "PKIX_ECDSA_P256_SHA_256" },
        { 384, "EC", "sha384", "PKIX_ECDSA_P384_SHA_384" },
        { 3072, "RSA", "sha256", "PKIX_RSA_PKCS1V15_3072_SHA256" },
        { 4096, "RSA", "sha256", "PKIX_RSA_PKCS1V15_4096_SHA256" },
    };
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep)
    EVP_PKEY *key = spki.len > 0 ? d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL) : NULL;
    ERR_clear_error();
    for (size_t i = 0; key != NULL && i < COUNT_OF(rows); i++) {
        if (EVP_PKEY_is_a(key, rows[i].kind) == 1 && EVP_PKEY_get_bits(key) == rows[i].bits &&
            strcmp(rows[i].hash, hash) == 0) {
            return rows[i].details;
        }
    }
    return NULL;
}

struct fault transparency_plan(struct op *op, struct services *services, enum key_algorithm algorithm,
                               enum sign_scheme scheme, enum hash_algorithm hash, utc_us now,
                               const char **ret_destination)
{
    const struct tlog *log = tlogs_open_at(services->transparency, op->tenant, now);
    if (log == NULL) {
        *ret_destination = TRANSPARENCY_NONE;
        return OK;
    }
    if (!tlog_takes(log->kind, algorithm, scheme, hash)) {
        if (scheme == SIGN_SCHEME_ML_DSA) {
            return op_fail(op, FAULT(TLOG_UNSUPPORTED),
                           "the log %s takes no ML-DSA signatures, and what is signed here is published: use an EC or "
                           "RSA key, or a tenant without a log",
                           log->name);
        }
        bool pss = scheme == SIGN_SCHEME_RSA_PSS;
        return op_fail(op, FAULT(TLOG_UNSUPPORTED), "the log %s takes no %s signature of a key %s over %s; %s",
                       log->name, pss ? "RSA-PSS" : "such", key_algorithm_text(algorithm), hash_algorithm_text(hash),
                       pss ? "ask for rsa-pkcs1v15"
                           : (algorithm == KEY_ALGORITHM_EC_P384 ? "use sha384 with it" : "use sha256 with it"));
    }
    *ret_destination = log->destination;
    return OK;
}

static void print_log(struct jout *jout, const struct tlog *log)
{
    jout_object(jout);
    jout_key_text(jout, "destination", log->destination);
    jout_key_int(jout, "from", log->from);
    jout_key(jout, "keys");
    jout_array(jout);
    for (size_t i = 0; i < log->key_count; i++) {
        jout_object(jout);
        jout_key_base64(jout, "spki", log->keys[i].spki);
        jout_key_int(jout, "valid_from", log->keys[i].valid_from);
        jout_key_int(jout, "valid_until", log->keys[i].valid_until);
        jout_object_end(jout);
    }
    jout_array_end(jout);
    jout_key_text(jout, "name", log->name);
    jout_key_text(jout, "origin", log->origin);
    jout_key_int(jout, "until", log->until);
    jout_object_end(jout);
}

struct fault transparency_digest(struct op *op, struct services *services, char ret_text[65])
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(DIGEST_MAX);
    struct transparency *logs = services->transparency;
    struct sha256 digest;
    struct jout jout;
    jout_init(&jout, &text);
    jout_array(&jout);
    for (size_t i = 0; logs != NULL && i < logs->count; i++) {
        if (tlog_serves(&logs->logs[i], op->tenant)) {
            print_log(&jout, &logs->logs[i]);
        }
    }
    jout_array_end(&jout);
    TRY(jout_end(&jout));
    TRY(sha256_of(buf_span(&text), &digest));
    hex_text(SPAN_ARRAY(digest.at), ret_text, TLOG_DIGEST_TEXT);
    return OK;
}

static struct fault print_instance(struct jout *jout, const struct tlog *log, const struct tlog_key *key)
{
    const char *details = NULL;
    struct sha256 id;
    TRY(tlog_key_check(key->spki, &details));
    TRY(log->kind == TLOG_REKOR_V1 ? tlog_key_id(key->spki, &id)
                                   : tlog_note_key_id(key->spki, span_text(log->origin), &id));
    jout_object(jout);
    jout_key_text(jout, "baseUrl", log->url);
    jout_key_text(jout, "hashAlgorithm", "SHA2_256");
    jout_key(jout, "publicKey");
    jout_object(jout);
    jout_key_base64(jout, "rawBytes", key->spki);
    jout_key_text(jout, "keyDetails", details);
    jout_key(jout, "validFor");
    jout_object(jout);
    jout_key_time(jout, "start", key->valid_from);
    if (key->valid_until != 0) {
        jout_key_time(jout, "end", key->valid_until);
    }
    jout_object_end(jout);
    jout_object_end(jout);
    jout_key(jout, "logId");
    jout_object(jout);
    jout_key_base64(jout, "keyId", SPAN_ARRAY(id.at));
    jout_object_end(jout);
    jout_object_end(jout);
    return OK;
}

struct fault transparency_trust(struct op *op, struct services *services, struct jout *jout)
{
    struct transparency *logs = services->transparency;
    jout_array(jout);
    for (size_t i = 0; logs != NULL && i < logs->count; i++) {
        const struct tlog *log = &logs->logs[i];
        for (size_t j = 0; tlog_serves(log, op->tenant) && j < log->key_count; j++) {
            TRY(print_instance(jout, log, &log->keys[j]));
        }
    }
    jout_array_end(jout);
    return OK;
}
