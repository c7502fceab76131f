/* The body of an entry: hashedrekord 0.0.1 (Rekor v1) and 0.0.2 (Rekor v2). */
#include "api/transparency/verify_internal.h"

#include "appliance/base/codec.h"

#define BODY_MAX      ((size_t)64 << 10)
#define VERIFIER_MAX  ((size_t)32 << 10)
#define SIGNATURE_LEN 4096

/* Rows of nested objects: `at` is the offset within the object that the row stands in. */
#define OBJECT(name_, at, sub_)      \
    {                                \
        .name = (name_),             \
        .kind = JIN_KIND_OBJECT,     \
        .flags = JIN_REQUIRED,       \
        .offset = (at),              \
        .sub = (sub_),               \
        .sub_count = COUNT_OF(sub_), \
    }
#define MEMBER(name_, kind_, min_, max_, at) \
    {                                        \
        .name = (name_),                     \
        .kind = JIN_KIND_##kind_,            \
        .flags = JIN_REQUIRED,               \
        .min = (min_),                       \
        .max = (max_),                       \
        .offset = (at),                      \
    }
#define WITHIN(type, outer, inner) (offsetof(type, outer.inner) - offsetof(type, outer))

/* ---- 0.0.1; members are named as in the JSON ---- */

struct v1_body {
    const char *apiVersion, *kind;
    struct {
        struct {
            struct {
                const char *algorithm;
                struct span value;
            } hash;
        } data;
        struct {
            struct span content;
            struct {
                struct span content;
            } publicKey;
        } signature;
    } spec;
};
static const struct jin_field v1_hash[] = {
    MEMBER("algorithm", TEXT, 1, 16, WITHIN(struct v1_body, spec.data.hash, algorithm)),
    MEMBER("value", HEX, 1, 64, WITHIN(struct v1_body, spec.data.hash, value)),
};
static const struct jin_field v1_data[] = { OBJECT("hash", 0, v1_hash) };
static const struct jin_field v1_key[] = { MEMBER("content", BASE64, 1, VERIFIER_MAX, 0) };
static const struct jin_field v1_signature[] = {
    MEMBER("content", BASE64, 1, SIGNATURE_LEN, WITHIN(struct v1_body, spec.signature, content)),
    OBJECT("publicKey", WITHIN(struct v1_body, spec.signature, publicKey), v1_key),
};
static const struct jin_field v1_spec[] = {
    OBJECT("data", WITHIN(struct v1_body, spec, data), v1_data),
    OBJECT("signature", WITHIN(struct v1_body, spec, signature), v1_signature),
};
static const struct jin_field v1_fields[] = {
    MEMBER("apiVersion", TEXT, 1, 16, offsetof(struct v1_body, apiVersion)),
    MEMBER("kind", TEXT, 1, 32, offsetof(struct v1_body, kind)),
    OBJECT("spec", offsetof(struct v1_body, spec), v1_spec),
};

/* ---- 0.0.2 ---- */

struct v2_raw {
    struct span rawBytes;
};
struct v2_verifier {
    const char *keyDetails;
    struct v2_raw publicKey, x509Certificate;
};
struct v2_body {
    const char *apiVersion, *kind;
    struct {
        struct {
            struct {
                const char *algorithm;
                struct span digest;
            } data;
            struct {
                struct span content;
                struct v2_verifier verifier;
            } signature;
        } record;
    } spec;
};
static const struct jin_field v2_raw[] = { MEMBER("rawBytes", BASE64, 1, VERIFIER_MAX, 0) };
static const struct jin_field v2_verifier[] = {
    MEMBER("keyDetails", TEXT, 1, 64, offsetof(struct v2_verifier, keyDetails)),
    { .name = "publicKey",
      .kind = JIN_KIND_OBJECT,
      .offset = offsetof(struct v2_verifier, publicKey),
      .sub = v2_raw,
      .sub_count = COUNT_OF(v2_raw) },
    { .name = "x509Certificate",
      .kind = JIN_KIND_OBJECT,
      .offset = offsetof(struct v2_verifier, x509Certificate),
      .sub = v2_raw,
      .sub_count = COUNT_OF(v2_raw) },
};
static const struct jin_field v2_data[] = {
    MEMBER("algorithm", TEXT, 1, 16, WITHIN(struct v2_body, spec.record.data, algorithm)),
    MEMBER("digest", BASE64, 1, 64, WITHIN(struct v2_body, spec.record.data, digest)),
};
static const struct jin_field v2_signature[] = {
    MEMBER("content", BASE64, 1, SIGNATURE_LEN, WITHIN(struct v2_body, spec.record.signature, content)),
    OBJECT("verifier", WITHIN(struct v2_body, spec.record.signature, verifier), v2_verifier),
};
static const struct jin_field v2_record[] = {
    OBJECT("data", WITHIN(struct v2_body, spec.record, data), v2_data),
    OBJECT("signature", WITHIN(struct v2_body, spec.record, signature), v2_signature),
};
static const struct jin_field v2_spec[] = { OBJECT("hashedRekordV002", 0, v2_record) };
static const struct jin_field v2_fields[] = {
    MEMBER("apiVersion", TEXT, 1, 16, offsetof(struct v2_body, apiVersion)),
    MEMBER("kind", TEXT, 1, 32, offsetof(struct v2_body, kind)),
    OBJECT("spec", offsetof(struct v2_body, spec), v2_spec),
};

/* ---- either, in one form ---- */

struct record {
    const char *kind, *version, *hash; /* hash: "sha256" */
    struct span digest, signature;
    struct span spki, certificate; /* one of them */
};

static struct fault decode(struct op *op, struct span body, const struct jin_field *fields, size_t count, void *into)
{
    struct fault fault = jin_decode(op, body, fields, count, into);
    if (tlog_is_refusal(fault)) {
        const struct fault_note note = op->note;
        return tlog_refuse(op, "the entry's body is no hashedrekord: %.100s %.80s", note.pointer, note.detail);
    }
    return fault;
}

static const char *hash_of_v2(const char *algorithm)
{
    static const char *const names[][2] = {
        { "SHA2_256", "sha256" },
        { "SHA2_384", "sha384" },
        { "SHA2_512", "sha512" },
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcmp(names[i][0], algorithm) == 0) {
            return names[i][1];
        }
    }
    return "";
}

/* One PEM block (RFC 7468 in its strict form) with this label. */
static struct fault read_pem(struct op *op, struct span pem, const char *label, struct span *ret_der)
{
    const char *begin = NULL, *end = NULL;
    TRY(arena_printf(op->arena, &begin, "-----BEGIN %s-----\n", label));
    TRY(arena_printf(op->arena, &end, "-----END %s-----", label));
    size_t head = strlen(begin), tail = strlen(end);
    while (pem.len > 0 && pem.at[pem.len - 1] == '\n') {
        pem.len--;
    }
    REQUIRE(pem.len > head + tail && memcmp(pem.at, begin, head) == 0 &&
                memcmp(pem.at + pem.len - tail, end, tail) == 0,
            BAD_ARGUMENT);
    CLEANUP(buf_free) struct buf text = BUF_INIT(VERIFIER_MAX);
    CLEANUP(buf_free) struct buf der = BUF_INIT(VERIFIER_MAX);
    for (size_t at = head; at < pem.len - tail; at++) {
        if (pem.at[at] != '\n') {
            TRY(buf_u8(&text, pem.at[at]));
        }
    }
    TRY(base64_decode(buf_span(&text), &der));
    REQUIRE(der.len > 0, BAD_ARGUMENT);
    return arena_copy(op->arena, buf_span(&der), ret_der);
}

static struct fault read_v1(struct op *op, struct span bytes, struct record *record)
{
    struct v1_body body = { 0 };
    TRY(decode(op, bytes, v1_fields, COUNT_OF(v1_fields), &body));
    record->kind = body.kind;
    record->version = body.apiVersion;
    record->hash = body.spec.data.hash.algorithm;
    record->digest = body.spec.data.hash.value;
    record->signature = body.spec.signature.content;
    struct span pem = body.spec.signature.publicKey.content;
    struct fault fault = read_pem(op, pem, "PUBLIC KEY", &record->spki);
    if (tlog_is_refusal(fault)) {
        fault = read_pem(op, pem, "CERTIFICATE", &record->certificate);
    }
    return tlog_is_refusal(fault) ? tlog_refuse(op, "the entry names neither a public key nor a certificate") : fault;
}

static struct fault read_v2(struct op *op, struct span bytes, struct record *record)
{
    struct v2_body body = { 0 };
    TRY(decode(op, bytes, v2_fields, COUNT_OF(v2_fields), &body));
    record->kind = body.kind;
    record->version = body.apiVersion;
    record->hash = hash_of_v2(body.spec.record.data.algorithm);
    record->digest = body.spec.record.data.digest;
    record->signature = body.spec.record.signature.content;
    record->spki = body.spec.record.signature.verifier.publicKey.rawBytes;
    record->certificate = body.spec.record.signature.verifier.x509Certificate.rawBytes;
    if ((record->spki.len > 0) == (record->certificate.len > 0)) {
        return tlog_refuse(op, "the entry must name either a public key or a certificate");
    }
    return OK;
}

static struct fault compare(struct op *op, const struct tlog_entry *entry, const struct record *record,
                            const struct tlog_expect *expect)
{
    bool certified = expect->certificate.len > 0;
    if (strcmp(record->kind, entry->kind) != 0 || strcmp(record->version, entry->version) != 0) {
        return tlog_refuse(op, "the entry's body is of another kind or version than the entry says");
    }
    if (strcmp(record->hash, expect->hash) != 0 || !span_equal(record->digest, expect->digest)) {
        return tlog_refuse(op, "the entry is of another digest");
    }
    if (!span_equal(record->signature, expect->signature)) {
        return tlog_refuse(op, "the entry is of another signature");
    }
    bool same = certified ? span_equal(record->certificate, expect->certificate)
                          : record->certificate.len == 0 && span_equal(record->spki, expect->spki);
    return same ? OK : tlog_refuse(op, "the entry is of another %s", certified ? "certificate" : "key");
}

struct fault tlog_body_check(struct op *op, const struct tlog_entry *entry, const struct tlog_expect *expect)
{
    struct record record = { 0 };
    if (entry->kind == NULL || entry->version == NULL || strcmp(entry->kind, "hashedrekord") != 0) {
        return tlog_refuse(op, "the entry is of a kind other than hashedrekord");
    }
    if (entry->body.len == 0 || entry->body.len > BODY_MAX) {
        return tlog_refuse(op, "the entry has no body, or one of more than %zu bytes", BODY_MAX);
    }
    if (strcmp(entry->version, "0.0.1") == 0) {
        TRY(read_v1(op, entry->body, &record));
    } else if (strcmp(entry->version, "0.0.2") == 0) {
        TRY(read_v2(op, entry->body, &record));
    } else {
        return tlog_refuse(op, "hashedrekord of a version other than 0.0.1 and 0.0.2");
    }
    return compare(op, entry, &record, expect);
}
