#include "api/cli/bundle.h"

#include "api/cli/proto_json.h"
#include "appliance/base/crypto.h"

#define refuse(op, ...) op_fail((op), FAULT(BUNDLE_INVALID), __VA_ARGS__)

static const struct {
    const char *type;
    bool proof_needed;
} versions[] = {
    { BUNDLE_TYPE, true },
    { "application/vnd.dev.sigstore.bundle+json;version=0.3", true },
    { "application/vnd.dev.sigstore.bundle+json;version=0.2", true },
    { "application/vnd.dev.sigstore.bundle+json;version=0.1", false },
};

static const struct {
    const char *ours, *theirs;
    size_t len;
} hashes[] = { { "sha256", "SHA2_256", 32 }, { "sha384", "SHA2_384", 48 }, { "sha512", "SHA2_512", 64 } };

const char *bundle_hash_name(const char *hash)
{
    for (size_t i = 0; i < COUNT_OF(hashes); i++) {
        if (strcmp(hashes[i].ours, hash) == 0) {
            return hashes[i].theirs;
        }
    }
    return NULL;
}

struct fault bundle_refuse_at(struct op *op, const char *place, size_t number, struct fault fault)
{
    const struct fault_note note = op->note;
    if (fault.code == FAULT_NO_MEMORY) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    return refuse(op, "%s %zu: %s", place, number, note.detail[0] != '\0' ? note.detail : fault_row(fault.code)->title);
}

static struct fault read_entries(struct op *op, struct view material, bool proof_needed, struct bundle *bundle)
{
    struct view list, item;
    TRY(proto_list(op, material, "tlogEntries", &list));
    while (view_next(&list, &item)) {
        if (bundle->entry_count == BUNDLE_ENTRIES_MAX) {
            return refuse(op, "tlogEntries: more than %d", BUNDLE_ENTRIES_MAX);
        }
        struct tlog_entry *entry = &bundle->entries[bundle->entry_count++];
        struct fault fault = tlog_entry_read(op, item.json, entry);
        if (FAULTED(fault)) {
            return bundle_refuse_at(op, "transparency entry", bundle->entry_count, fault);
        }
        if (entry->body.len == 0) {
            return refuse(op, "transparency entry %zu: without canonicalizedBody", bundle->entry_count);
        }
        if (proof_needed && entry->checkpoint == NULL) {
            return refuse(op, "transparency entry %zu: without inclusionProof is for version 0.1 only",
                          bundle->entry_count);
        }
    }
    return OK;
}

static struct fault read_stamps(struct op *op, struct view material, struct bundle *bundle)
{
    struct view list, item;
    TRY(proto_list(op, material, "timestampVerificationData.rfc3161Timestamps", &list));
    while (view_next(&list, &item)) {
        if (bundle->stamp_count == BUNDLE_STAMPS_MAX) {
            return refuse(op, "rfc3161Timestamps: more than %d", BUNDLE_STAMPS_MAX);
        }
        struct span *stamp = &bundle->stamps[bundle->stamp_count++];
        TRY(proto_bytes(op, item, "signedTimestamp", stamp));
        if (stamp->len == 0) {
            return refuse(op, "rfc3161Timestamps: one of them is empty");
        }
    }
    return OK;
}

static struct fault add_certificate(struct op *op, struct view certificate, struct bundle *bundle)
{
    struct span der;
    X509 *parsed = NULL;
    if (bundle->chain.count == CHAIN_MAX) {
        return refuse(op, "x509CertificateChain: more than %d certificates", CHAIN_MAX);
    }
    TRY(proto_bytes(op, certificate, "rawBytes", &der));
    if (FAULTED(certificate_parse(op, der, &parsed))) {
        return FAULT(BUNDLE_INVALID);
    }
    X509_free(parsed);
    bundle->chain.at[bundle->chain.count++] = der;
    return OK;
}

/* Exactly one of three forms says whose signature it is. */
static struct fault read_signer(struct op *op, struct view material, struct bundle *bundle)
{
    struct view certificate, chain, key, list, item;
    TRY(proto_object(op, material, "certificate", &certificate));
    TRY(proto_object(op, material, "x509CertificateChain", &chain));
    TRY(proto_object(op, material, "publicKey", &key));
    if (view_is_there(certificate) + view_is_there(chain) + view_is_there(key) != 1) {
        return refuse(op, "verificationMaterial: needs one of certificate, x509CertificateChain and publicKey");
    }
    if (view_is_there(certificate)) {
        return add_certificate(op, certificate, bundle);
    }
    if (view_is_there(key)) {
        return proto_text(op, key, "hint", &bundle->hint);
    }
    TRY(proto_list(op, chain, "certificates", &list));
    while (view_next(&list, &item)) {
        TRY(add_certificate(op, item, bundle));
    }
    return bundle->chain.count > 0 ? OK : refuse(op, "x509CertificateChain: there is no certificate in it");
}

static struct fault read_content(struct op *op, struct view document, struct bundle *bundle)
{
    struct view content;
    const char *algorithm = NULL;
    size_t wanted = 0;
    if (view_is_there(view_get(document, "dsseEnvelope"))) {
        return refuse(op, "it holds an attestation (dsseEnvelope), not a signature over a file");
    }
    TRY(proto_object(op, document, "messageSignature", &content));
    TRY(proto_bytes(op, content, "signature", &bundle->signature));
    TRY(proto_bytes(op, content, "messageDigest.digest", &bundle->digest));
    TRY(proto_text(op, content, "messageDigest.algorithm", &algorithm));
    for (size_t i = 0; i < COUNT_OF(hashes); i++) {
        if (algorithm != NULL && strcmp(hashes[i].theirs, algorithm) == 0) {
            bundle->hash = hashes[i].ours;
            wanted = hashes[i].len;
        }
    }
    if (bundle->hash == NULL) {
        return refuse(op, "messageDigest.algorithm: must be SHA2_256, SHA2_384 or SHA2_512");
    }
    if (bundle->digest.len != wanted) {
        return refuse(op, "messageDigest.digest: must be %zu bytes", wanted);
    }
    return bundle->signature.len > 0 ? OK : refuse(op, "messageSignature.signature: is missing");
}

static struct fault read_version(struct op *op, struct view document, bool *ret_proof_needed)
{
    const char *type = NULL;
    TRY(proto_text(op, document, "mediaType", &type));
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        if (type != NULL && strcmp(versions[i].type, type) == 0) {
            *ret_proof_needed = versions[i].proof_needed;
            return OK;
        }
    }
    return refuse(op, "mediaType: is not that of a Sigstore bundle of version 0.1, 0.2 or 0.3");
}

struct fault bundle_parse(struct op *op, struct span json, struct bundle *ret_bundle)
{
    struct bundle bundle = { 0 };
    struct view document, material;
    bool proof_needed = true;
    if (json.len > BUNDLE_MAX) {
        return refuse(op, "the bundle is larger than %zu bytes", BUNDLE_MAX);
    }
    if (FAULTED(view_of(op, json, &document)) || document.json.at[0] != '{') {
        return refuse(op, "the bundle is no JSON object");
    }
    TRY(read_version(op, document, &proof_needed));
    TRY(proto_object(op, document, "verificationMaterial", &material));
    TRY(read_signer(op, material, &bundle));
    TRY(read_entries(op, material, proof_needed, &bundle));
    TRY(read_stamps(op, material, &bundle));
    TRY(read_content(op, document, &bundle));
    *ret_bundle = bundle;
    return OK;
}
