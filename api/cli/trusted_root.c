#include "api/cli/trusted_root.h"

#include "api/cli/proto_json.h"
#include "appliance/base/crypto.h"

#include <openssl/x509.h>

#define refuse(op, ...) op_fail((op), FAULT(BUNDLE_INVALID), __VA_ARGS__)

/* Keys in PKIX form are the only ones used; a log with another form (PKCS1_...) is not believed. */
static bool is_pkix(const char *details)
{
    return details != NULL && strncmp(details, "PKIX_", 5) == 0;
}

static struct fault check_spki(struct op *op, struct span spki)
{
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    char reason[256];
    crypto_last_error(reason, sizeof(reason));
    if (key == NULL || (size_t)(at - spki.at) != spki.len) {
        return refuse(op, "tlogs: a publicKey.rawBytes is no public key (PKIX, DER)");
    }
    return OK;
}

static struct fault read_window(struct op *op, struct view object, const char *start, const char *end, utc_us *ret_from,
                                utc_us *ret_until)
{
    utc_us from = 0, until = 0;
    TRY(proto_time(op, object, start, &from));
    TRY(proto_time(op, object, end, &until));
    if (until != 0 && until < from) {
        return refuse(op, "%s: lies before %s", end, start);
    }
    *ret_from = from;
    *ret_until = until;
    return OK;
}

static struct fault read_log(struct op *op, struct view log, struct trusted_root *root)
{
    struct tlog_key key = { 0 };
    const char *details = NULL;
    TRY(proto_text(op, log, "publicKey.keyDetails", &details));
    TRY(proto_bytes(op, log, "publicKey.rawBytes", &key.spki));
    TRY(read_window(op, log, "publicKey.validFor.start", "publicKey.validFor.end", &key.valid_from, &key.valid_until));
    if (!is_pkix(details)) {
        return OK;
    }
    TRY(check_spki(op, key.spki));
    if (!FAULTED(tlog_key_check(key.spki, &details))) { /* another kind of key signs no log that is read here */
        root->logs[root->log_count++] = key;
    }
    return OK;
}

static struct fault read_authority(struct op *op, struct view item, struct trusted_authority *authority)
{
    struct view list, rest, certificate;
    struct chain *chain = &authority->chain;
    TRY(proto_list(op, item, "certChain.certificates", &list));
    TRY(read_window(op, item, "validFor.start", "validFor.end", &authority->from, &authority->until));
    for (rest = list; view_next(&rest, &certificate);) {
        CLEANUP(X509_freep) X509 *parsed = NULL;
        if (chain->count == CHAIN_MAX) {
            return refuse(op, "certChain: more than %d certificates", CHAIN_MAX);
        }
        TRY(proto_bytes(op, certificate, "rawBytes", &chain->at[chain->count]));
        if (FAULTED(certificate_parse(op, chain->at[chain->count], &parsed))) {
            return FAULT(BUNDLE_INVALID);
        }
        chain->count++;
    }
    return chain->count > 0 ? OK : refuse(op, "certChain: there is no certificate in it");
}

static struct fault read_authorities(struct op *op, struct view document, const char *name,
                                     struct trusted_authority *authorities, size_t *count)
{
    struct view list, rest, item;
    TRY(proto_list(op, document, name, &list));
    for (rest = list; view_next(&rest, &item);) {
        if (*count == TRUSTED_MAX) {
            return refuse(op, "%s: more than %d", name, TRUSTED_MAX);
        }
        TRY(read_authority(op, item, &authorities[*count]));
        (*count)++;
    }
    return OK;
}

static struct fault read_logs(struct op *op, struct view document, struct trusted_root *root)
{
    struct view list, rest, item;
    TRY(proto_list(op, document, "tlogs", &list));
    for (rest = list; view_next(&rest, &item);) {
        if (root->log_count == TRUSTED_MAX) {
            return refuse(op, "tlogs: more than %d", TRUSTED_MAX);
        }
        TRY(read_log(op, item, root));
    }
    return OK;
}

static bool is_known_type(const char *type)
{
    return type != NULL && (strcmp(type, "application/vnd.dev.sigstore.trustedroot+json;version=0.1") == 0 ||
                            strcmp(type, "application/vnd.dev.sigstore.trustedroot.v0.1+json") == 0);
}

struct fault trusted_root_parse(struct op *op, struct span json, struct trusted_root **ret_root)
{
    struct trusted_root *root = NULL;
    struct view document;
    const char *type = NULL;
    if (json.len > TRUSTED_ROOT_MAX) {
        return refuse(op, "the trusted root is larger than %zu bytes", TRUSTED_ROOT_MAX);
    }
    if (FAULTED(view_of(op, json, &document)) || document.json.at[0] != '{') {
        return refuse(op, "the trusted root is no JSON object");
    }
    TRY(proto_text(op, document, "mediaType", &type));
    if (!is_known_type(type)) {
        return refuse(op, "the trusted root's mediaType is not that of version 0.1");
    }
    TRY(arena_take(op->arena, 1, sizeof(*root), &root));
    TRY(read_logs(op, document, root));
    TRY(read_authorities(op, document, "certificateAuthorities", root->authorities, &root->authority_count));
    TRY(read_authorities(op, document, "timestampAuthorities", root->stampers, &root->stamper_count));
    if (root->log_count + root->authority_count + root->stamper_count == 0) {
        return refuse(op, "the trusted root trusts nobody");
    }
    *ret_root = root;
    return OK;
}
