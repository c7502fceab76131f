/* The pack as a whole: its members, and that every copy is what was signed. */
#include "api/compliance/verify_internal.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

#include <openssl/pem.h>

#define ARENA_FIXED  ((size_t)16 << 20)
#define ARENA_TIMES  32 /* every level of the manifest is taken apart once, and once more to be shown */
#define KEY_FILE_MAX 65536

static const struct jin_field envelope_fields[] = {
    ENVELOPE_FIELDS,
    JIN_RAW(struct envelope, timestamp, JIN_OPTIONAL, 0, 2 * STAMP_MAX),
};

/* A time stamp that is left out is none, as null is: nothing that is signed depends on it. */
struct pack {
    const char *format, *framework;
    struct envelope signed_export;
    struct span public_key_der, custody, adcs, crypto_readiness;
};
static const struct jin_field pack_fields[] = {
    JIN_TEXT(struct pack, format, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct pack, framework, JIN_REQUIRED, 1, 64),
    { .name = "signed_export",
      .kind = JIN_KIND_OBJECT,
      .flags = JIN_REQUIRED,
      .offset = offsetof(struct pack, signed_export),
      .sub = envelope_fields,
      .sub_count = COUNT_OF(envelope_fields) },
    JIN_BASE64(struct pack, public_key_der, JIN_REQUIRED, 1, KEY_DER_MAX),
    JIN_RAW(struct pack, custody, JIN_REQUIRED, 2, EVIDENCE_MANIFEST_MAX),
    JIN_RAW(struct pack, adcs, JIN_REQUIRED, 2, EVIDENCE_MANIFEST_MAX),
    JIN_RAW(struct pack, crypto_readiness, JIN_REQUIRED, 2, EVIDENCE_MANIFEST_MAX),
};

struct fault evidence_verify_op(size_t size, struct op **ret_op)
{
    CLEANUP(op_freep) struct op *op = NULL;
    size_t bytes = size < EVIDENCE_PACK_MAX ? size : EVIDENCE_PACK_MAX;
    TRY(op_new("verify", (struct tenant_id){ 0 }, INT32_MAX, &op));
    arena_free(TAKE(op->arena));
    TRY(arena_new(ARENA_FIXED + ARENA_TIMES * bytes, &op->arena));
    *ret_op = TAKE(op);
    return OK;
}

struct fault evidence_key(struct op *op, struct span bytes, struct jwk_set *ret_set)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    CLEANUP(BIO_free_allp) BIO *bio = NULL;
    CLEANUP(buf_free) struct buf json = BUF_INIT(KEY_FILE_MAX);
    uint8_t room[KEY_DER_MAX], *end = room;
    const unsigned char *at = bytes.at;
    bool fits = bytes.len > 0 && bytes.len <= KEY_FILE_MAX;
    bio = fits ? BIO_new_mem_buf(bytes.at, (int)bytes.len) : NULL;
    key = bio != NULL ? PEM_read_bio_PUBKEY_ex(bio, NULL, NULL, NULL, crypto_context(), NULL) : NULL;
    if (key == NULL && fits) {
        key = d2i_PUBKEY_ex(NULL, &at, (long)bytes.len, crypto_context(), NULL);
    }
    int len = key != NULL ? i2d_PUBKEY(key, NULL) : 0;
    if (len <= 0 || (size_t)len > sizeof(room) || i2d_PUBKEY(key, &end) != len) {
        IGNORE(crypto_fail(NULL, "public key")); /* its queue is emptied */
        return op_fail(op, FAULT(JWS_FORMAT), "no public key: a SubjectPublicKeyInfo in PEM or DER is wanted");
    }
    TRY(buf_text(&json, "{\"keys\":["));
    struct fault fault = jwk_print(span_of(room, (size_t)len), &json);
    if (fault.code == FAULT_UNSUPPORTED || fault.code == FAULT_CRYPTO) {
        return op_fail(op, FAULT(JWS_FORMAT), "a key of this type signs no evidence");
    }
    TRY(fault);
    TRY(buf_text(&json, "]}"));
    return jwk_set_parse(op, buf_span(&json), ret_set);
}

/* ---- the copies ---- */

static struct fault check_copies(struct check *check, const struct pack *pack, const struct evidence_datasets *signed_)
{
    const struct {
        enum evidence_reason reason;
        const char *member;
        struct span copy, truth;
    } copies[] = {
        { PACK_FRAMEWORK_COPY, "/framework", span_text(pack->framework), span_text(signed_->framework) },
        { PACK_CUSTODY_COPY, "/custody", pack->custody, signed_->custody },
        { PACK_ADCS_COPY, "/adcs", pack->adcs, signed_->adcs },
        { PACK_READINESS_COPY, "/crypto_readiness", pack->crypto_readiness, signed_->readiness },
    };
    for (size_t i = 0; i < COUNT_OF(copies); i++) {
        if (!span_equal(copies[i].copy, copies[i].truth)) {
            return refuse(check, copies[i].reason, copies[i].member, "it differs from the signed manifest");
        }
    }
    return OK;
}

static struct fault stamp_of(struct check *check, struct span json, struct span *ret_token)
{
    CLEANUP(buf_free) struct buf token = BUF_INIT(STAMP_MAX);
    *ret_token = (struct span){ 0 };
    if (json.len == 0) {
        return OK; /* null */
    }
    bool text = json.len > 2 && json.at[0] == '"';
    if (!text || FAULTED(base64_decode(span_of(json.at + 1, json.len - 2), &token)) || token.len == 0) {
        return refuse(check, PACK_STAMP_FORM, "/signed_export/timestamp", "it is neither null nor base64 of a token");
    }
    return arena_copy(check->op->arena, buf_span(&token), ret_token);
}

static struct fault verify_pack(struct check *check, struct span bytes)
{
    struct pack pack = { 0 };
    struct evidence_datasets datasets = { 0 };
    const struct jwk *key = NULL;
    struct span token;
    TRY(take_file(check, bytes, pack_fields, COUNT_OF(pack_fields), &pack));
    if (strcmp(pack.format, EVIDENCE_PACK_FORMAT) != 0) {
        return refuse(check, PACK_FORMAT, "/format", "\"%s\", where %s is wanted", pack.format, EVIDENCE_PACK_FORMAT);
    }
    TRY(stamp_of(check, pack.signed_export.timestamp, &token));
    TRY(verify_envelope(check, &pack.signed_export, pack.public_key_der, EVIDENCE_TYP, &key));
    if (strcmp(pack.signed_export.key_id, check->verdict->kid) != 0) {
        return refuse(check, PACK_KEY_ID, "/signed_export/key_id", "the key that signed is %s", check->verdict->kid);
    }
    TRY(verify_manifest(check, pack.signed_export.manifest, &datasets));
    TRY(check_copies(check, &pack, &datasets));
    TRY(verify_key_window(check, key, check->generated));
    return verify_stamp(check, token);
}

static bool names(struct span bytes, const char *text)
{
    return memmem(bytes.at, bytes.len, text, strlen(text)) != NULL;
}

struct fault evidence_verify(struct op *op, struct span bytes, const struct evidence_pins *pins,
                             struct evidence_verdict *ret_verdict)
{
    struct check check = { .op = op, .pins = pins, .verdict = ret_verdict };
    *ret_verdict = (struct evidence_verdict){ .reason = PACK_HOLDS };
    if (bytes.len == 0 || bytes.len > EVIDENCE_PACK_MAX) {
        return refuse(&check, PACK_SIZE, "", "%zu bytes, where 1 to %zu are wanted", bytes.len, EVIDENCE_PACK_MAX);
    }
    if (pins->keys == NULL || pins->keys->count == 0) {
        return refuse(&check, PACK_NO_PIN, "", "give the key that you pinned");
    }
    /* It decides by what rules the file is judged, and each of them is strict. */
    bool report = names(bytes, "\"" EVIDENCE_REPORT_FORMAT "\"") && !names(bytes, "\"" EVIDENCE_PACK_FORMAT "\"");
    ret_verdict->kind = report ? EVIDENCE_KIND_REPORT : EVIDENCE_KIND_PACK;
    return report ? verify_report(&check, bytes) : verify_pack(&check, bytes);
}
