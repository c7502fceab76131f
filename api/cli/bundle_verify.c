#include "api/cli/bundle.h"

#include "api/cli/publickey.h"
#include "api/tsa/verify.h"
#include "appliance/base/crypto.h"

#define refuse(op, ...) op_fail((op), FAULT(BUNDLE_INVALID), __VA_ARGS__)

#define PEM_MAX ((size_t)1 << 20)

static struct fault find_key(struct op *op, const struct bundle *bundle, const struct bundle_expect *expect,
                             struct span *ret_spki)
{
    struct span spki = expect->key, own = { 0 };
    if (bundle->chain.count > 0) {
        TRY(certificate_spki(op, bundle->chain.at[0], &own));
        if (spki.len > 0 && !span_equal(spki, own)) {
            return refuse(op, "it was signed by another key than the one given");
        }
        spki = own;
    }
    if (spki.len == 0) {
        return refuse(op, "it was signed by a plain public key: give that key, which the bundle only hints at");
    }
    *ret_spki = spki;
    return OK;
}

static struct fault check_signature(struct op *op, const struct bundle *bundle, struct span digest, struct span spki,
                                    struct bundle_verdict *verdict)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    TRY(public_key_parse(op, spki, &key));
    public_key_print(key, verdict->key_text, sizeof(verdict->key_text));
    return public_key_verify(op, key, NULL, bundle->hash, digest, bundle->signature, &verdict->scheme);
}

static struct fault verify_stamp(struct op *op, struct span stamp, const struct trusted_authority *authority,
                                 struct span signature, utc_us *ret_time)
{
    CLEANUP(buf_free) struct buf root = BUF_INIT(PEM_MAX);
    CLEANUP(buf_free) struct buf others = BUF_INIT(PEM_MAX);
    struct chain anchor = { .at = { authority->chain.at[authority->chain.count - 1] }, .count = 1 };
    struct chain rest = authority->chain;
    struct tst_info seen, info;
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    rest.count--;
    TRY(chain_to_pem(&anchor, &root));
    TRY(chain_to_pem(&rest, &others));
    TRY(tst_inspect(op, stamp, &seen)); /* says which hash to take */
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), seen.hash, NULL);
    if (md == NULL || EVP_Digest(signature.at, signature.len, digest, &len, md, NULL) != 1) {
        return crypto_fail(op, "the signature cannot be hashed");
    }
    const struct tst_expect expect = {
        .hash = seen.hash, .digest = span_of(digest, len), .roots_pem = buf_span(&root), .extra_pem = buf_span(&others)
    };
    TRY(tst_verify(op, stamp, &expect, &info));
    /* Where the root names the stamping certificate itself, no sister of it will do. */
    if (authority->chain.count > 1 && !certificate_is_authority(op, authority->chain.at[0]) &&
        !span_equal(info.certificate, authority->chain.at[0])) {
        return op_fail(op, FAULT(TST_INVALID), "it is by another certificate than the trusted root names");
    }
    if (!trusted_at(authority, info.time)) {
        return op_fail(op, FAULT(TST_INVALID), "its time lies outside the window of its authority");
    }
    *ret_time = info.time;
    return OK;
}

/* By one of the root's authorities; the refusal is that of the last, which with one authority is the reason. */
static struct fault check_stamp(struct op *op, const struct bundle *bundle, size_t index,
                                const struct trusted_root *root, utc_us *ret_time)
{
    struct fault fault = FAULT(TST_INVALID);
    if (root->stamper_count == 0) {
        return refuse(op, "time stamp %zu: the trusted root names no time-stamping authority", index + 1);
    }
    for (size_t i = 0; i < root->stamper_count; i++) {
        op->note = (struct fault_note){ 0 };
        fault = verify_stamp(op, bundle->stamps[index], &root->stampers[i], bundle->signature, ret_time);
        if (!FAULTED(fault)) {
            return OK; /* with no note: none is written after it was emptied */
        }
    }
    return bundle_refuse_at(op, "time stamp", index + 1, fault);
}

/* After the time stamps, which tell when an entry without a time of its own was made at the latest. */
static struct fault check_entries(struct op *op, const struct bundle *bundle, const struct bundle_expect *expect,
                                  struct span spki, struct bundle_verdict *verdict)
{
    const struct trusted_root *root = expect->root;
    const struct tlog_trust trust = { .keys = root->logs, .key_count = root->log_count };
    const struct tlog_expect wanted = { .hash = bundle->hash,
                                        .digest = bundle->digest,
                                        .signature = bundle->signature,
                                        .spki = spki,
                                        .at = verdict->time_count > 0 ? verdict->times[0] : 0,
                                        .certificate =
                                            bundle->chain.count > 0 ? bundle->chain.at[0] : (struct span){ 0 } };
    if (bundle->entry_count == 0 && root->log_count > 0) {
        return refuse(op, "it has no entry of a transparency log, though the trusted root names logs");
    }
    for (size_t i = 0; i < bundle->entry_count; i++) {
        const struct tlog_entry *entry = &bundle->entries[i];
        struct fault fault = tlog_entry_verify(op, entry, &trust, &wanted);
        if (FAULTED(fault)) {
            return bundle_refuse_at(op, "transparency entry", i + 1, fault);
        }
        verdict->entries_verified++;
        /* Only the log's signature over it makes integrated_time a testimony. */
        if (entry->set.len > 0 && entry->integrated_time > 0 && entry->integrated_time < INT64_MAX / US_PER_S) {
            verdict->times[verdict->time_count++] = entry->integrated_time * US_PER_S;
        }
    }
    return OK;
}

static struct fault check_testimony(struct op *op, const struct bundle *bundle, const struct bundle_expect *expect,
                                    struct span spki, struct bundle_verdict *verdict)
{
    for (size_t i = 0; i < bundle->stamp_count; i++) {
        utc_us time = 0;
        TRY(check_stamp(op, bundle, i, expect->root, &time));
        verdict->times[verdict->time_count++] = time;
        verdict->stamps_verified++;
    }
    return expect->no_transparency ? OK : check_entries(op, bundle, expect, spki, verdict);
}

static struct fault check_identity(struct op *op, const struct bundle_expect *expect, const struct identity *identity)
{
    bool named = false;
    for (size_t i = 0; i < identity->name_count; i++) {
        named = named || strcmp(identity->names[i], expect->identity) == 0;
    }
    if (!named) {
        return refuse(op, "the signer's identity is another: %s",
                      identity->name_count > 0 ? identity->names[0] : "(the certificate names none)");
    }
    if (identity->issuer == NULL || strcmp(identity->issuer, expect->issuer) != 0) {
        return refuse(op, "the issuer of the signer's identity is another: %s",
                      identity->issuer != NULL ? identity->issuer : "(the certificate names none)");
    }
    return OK;
}

/* By one authority of the root, within its window. */
static struct fault check_path(struct op *op, const struct bundle *bundle, const struct trusted_root *root, utc_us time)
{
    struct fault fault = OK;
    bool tried = false;
    for (size_t i = 0; i < root->authority_count; i++) {
        if (!trusted_at(&root->authorities[i], time)) {
            continue;
        }
        tried = true;
        op->note = (struct fault_note){ 0 };
        fault = chain_verify(op, &bundle->chain, &root->authorities[i].chain, time, SIGNER_CODE_SIGNING);
        if (!FAULTED(fault)) {
            return OK;
        }
    }
    return tried ? fault : refuse(op, "the trusted root has no certificate authority for the time of signing");
}

static struct fault check_certificate(struct op *op, const struct bundle *bundle, const struct bundle_expect *expect,
                                      struct bundle_verdict *verdict)
{
    TRY(certificate_identity(op, bundle->chain.at[0], &verdict->identity));
    TRY(check_identity(op, expect, &verdict->identity));
    if (verdict->time_count == 0) {
        return refuse(op, "nothing proves when it was signed (no signed entry of a log, no time stamp), so its "
                          "certificate cannot be judged");
    }
    for (size_t i = 0; i < verdict->time_count; i++) {
        TRY(check_path(op, bundle, expect->root, verdict->times[i]));
    }
    return OK;
}

struct fault bundle_verify(struct op *op, const struct bundle *bundle, const struct bundle_expect *expect,
                           struct bundle_verdict *ret_verdict)
{
    struct bundle_verdict verdict = { 0 };
    struct span spki = { 0 };
    bool by_certificate = expect->key.len == 0;
    if (by_certificate && (expect->root == NULL || expect->identity == NULL || expect->issuer == NULL)) {
        return op_fail(op, FAULT(BAD_ARGUMENT),
                       "a trusted root, an identity and its issuer are needed, or a public key");
    }
    if (!span_equal(bundle->digest, expect->digest)) {
        return refuse(op, "it is the bundle of another file, or the file was altered");
    }
    TRY(find_key(op, bundle, expect, &spki));
    TRY(check_signature(op, bundle, expect->digest, spki, &verdict));
    if (expect->root != NULL) {
        TRY(check_testimony(op, bundle, expect, spki, &verdict));
    }
    if (by_certificate) {
        TRY(check_certificate(op, bundle, expect, &verdict));
    }
    *ret_verdict = verdict;
    return OK;
}
