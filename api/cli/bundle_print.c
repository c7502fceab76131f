#include "api/cli/bundle.h"

#include "api/cli/proto_json.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

struct fault bundle_hint(struct op *op, struct span spki, const char **ret_hint)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64);
    struct sha256 digest;
    TRY(sha256_of(spki, &digest));
    TRY(base64_encode(SPAN_ARRAY(digest.at), &text));
    return arena_text(op->arena, buf_span(&text), ret_hint);
}

/* hashedrekord 0.0.1 has a PEM text, 0.0.2 one member for each form. */
bool bundle_entry_has_certificate(struct op *op, const struct tlog_entry *entry)
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----";
    struct view body;
    struct span pem = { 0 };
    if (FAULTED(view_of(op, entry->body, &body))) {
        return false;
    }
    if (view_is_there(view_get(body, "spec.hashedRekordV002.signature.verifier.x509Certificate"))) {
        return true;
    }
    IGNORE(proto_bytes(op, body, "spec.signature.publicKey.content", &pem));
    return pem.len >= sizeof(begin) - 1 && memcmp(pem.at, begin, sizeof(begin) - 1) == 0;
}

static void put_nested_bytes(struct jout *jout, const char *outer, const char *inner, struct span bytes)
{
    jout_key(jout, outer);
    jout_object(jout);
    jout_key_base64(jout, inner, bytes);
    jout_object_end(jout);
}

/* A v0.3 bundle has the leaf alone: the authorities are the trusted root's business. */
static void put_signer(struct jout *jout, const struct bundle *bundle)
{
    if (bundle->chain.count == 0) {
        jout_key(jout, "publicKey");
        jout_object(jout);
        if (bundle->hint != NULL) {
            jout_key_text(jout, "hint", bundle->hint);
        }
        jout_object_end(jout);
        return;
    }
    put_nested_bytes(jout, "certificate", "rawBytes", bundle->chain.at[0]);
}

static void put_material(struct jout *jout, const struct bundle *bundle)
{
    jout_key(jout, "verificationMaterial");
    jout_object(jout);
    put_signer(jout, bundle);
    if (bundle->entry_count > 0) {
        jout_key(jout, "tlogEntries");
        jout_array(jout);
        for (size_t i = 0; i < bundle->entry_count; i++) {
            tlog_entry_print(jout, &bundle->entries[i]);
        }
        jout_array_end(jout);
    }
    if (bundle->stamp_count > 0) {
        jout_key(jout, "timestampVerificationData");
        jout_object(jout);
        jout_key(jout, "rfc3161Timestamps");
        jout_array(jout);
        for (size_t i = 0; i < bundle->stamp_count; i++) {
            jout_object(jout);
            jout_key_base64(jout, "signedTimestamp", bundle->stamps[i]);
            jout_object_end(jout);
        }
        jout_array_end(jout);
        jout_object_end(jout);
    }
    jout_object_end(jout);
}

struct fault bundle_print(const struct bundle *bundle, struct buf *out)
{
    const char *algorithm = bundle_hash_name(bundle->hash);
    struct jout jout;
    REQUIRE(algorithm != NULL, BAD_ARGUMENT);
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "mediaType", BUNDLE_TYPE);
    put_material(&jout, bundle);
    jout_key(&jout, "messageSignature");
    jout_object(&jout);
    jout_key(&jout, "messageDigest");
    jout_object(&jout);
    jout_key_text(&jout, "algorithm", algorithm);
    jout_key_base64(&jout, "digest", bundle->digest);
    jout_object_end(&jout);
    jout_key_base64(&jout, "signature", bundle->signature);
    jout_object_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}
