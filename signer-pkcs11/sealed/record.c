#include "signer-pkcs11/sealed/internal.h"

#include "appliance/base/secret.h"

static const uint8_t magic[] = { 's', 'v', 'c', 's', 'e', 'a', 'l', 0, 1 }; /* the last one is the version */

static struct fault put_short(struct buf *out, const char *text)
{
    TRY(buf_u8(out, (uint8_t)strlen(text)));
    return buf_text(out, text);
}

static struct fault put_long(struct buf *out, struct span bytes)
{
    REQUIRE(bytes.len <= UINT16_MAX, TOO_LARGE);
    TRY(buf_u16(out, (uint16_t)bytes.len));
    return buf_put(out, bytes);
}

struct fault sealed_record_print(const struct sealed_record *record, struct buf *out)
{
    size_t before = out->len;
    struct sha256 digest;
    TRY(buf_put(out, SPAN_ARRAY(magic)));
    TRY(buf_u8(out, (uint8_t)record->algorithm));
    TRY(buf_u8(out, (uint8_t)record->key.purpose));
    TRY(put_short(out, record->key.tenant.text));
    TRY(put_short(out, record->key.id.text));
    TRY(put_long(out, record->spki));
    TRY(put_long(out, record->blob));
    TRY(sha256_of(span_of(out->at + before, out->len - before), &digest));
    return buf_put(out, SPAN_ARRAY(digest.at));
}

static struct fault take_short(struct reader *reader, struct span *ret_text)
{
    uint8_t len = 0;
    TRY(reader_u8(reader, &len));
    return reader_bytes(reader, len, ret_text);
}

static struct fault take_long(struct reader *reader, struct span *ret_bytes)
{
    uint16_t len = 0;
    TRY(reader_u16(reader, &len));
    return reader_bytes(reader, len, ret_bytes);
}

static struct fault take_digest(struct span bytes, struct span *ret_rest)
{
    struct sha256 digest;
    REQUIRE(bytes.len > SHA256_LEN, BAD_ARGUMENT);
    struct span rest = span_of(bytes.at, bytes.len - SHA256_LEN);
    TRY(sha256_of(rest, &digest));
    REQUIRE(span_equal(SPAN_ARRAY(digest.at), span_of(bytes.at + rest.len, SHA256_LEN)), BAD_ARGUMENT);
    *ret_rest = rest;
    return OK;
}

struct fault sealed_record_parse(struct span bytes, struct sealed_record *ret_record)
{
    struct sealed_record record = { 0 };
    struct reader reader = { 0 };
    struct span head, tenant, id;
    uint8_t algorithm = 0, purpose = 0;
    TRY(take_digest(bytes, &reader.rest));
    TRY(reader_bytes(&reader, sizeof(magic), &head));
    REQUIRE(span_equal(head, SPAN_ARRAY(magic)), BAD_ARGUMENT);
    TRY(reader_u8(&reader, &algorithm));
    TRY(reader_u8(&reader, &purpose));
    REQUIRE(algorithm > KEY_ALGORITHM_NONE && algorithm < KEY_ALGORITHM_COUNT, BAD_ARGUMENT);
    REQUIRE(purpose > KEY_PURPOSE_NONE && purpose < KEY_PURPOSE_COUNT, BAD_ARGUMENT);
    record.algorithm = (enum key_algorithm)algorithm;
    record.key.purpose = (enum key_purpose)purpose;
    TRY(take_short(&reader, &tenant));
    TRY(tenant_id_parse(tenant, &record.key.tenant));
    TRY(take_short(&reader, &id));
    TRY(uuid_parse(id, &record.key.id));
    TRY(take_long(&reader, &record.spki));
    TRY(take_long(&reader, &record.blob));
    REQUIRE(record.spki.len > 0 && record.spki.len <= SPKI_MAX, BAD_ARGUMENT);
    REQUIRE(record.blob.len > 0 && record.blob.len <= SEALED_BLOB_MAX, BAD_ARGUMENT);
    TRY(reader_end(&reader));
    *ret_record = record;
    return OK;
}

struct fault sealed_record_aad(const struct sealed_record *record, struct buf *out)
{
    struct sha256 spki;
    TRY(sha256_of(record->spki, &spki));
    TRY(buf_put(out, SPAN_ARRAY(magic)));
    TRY(buf_u8(out, (uint8_t)record->algorithm));
    TRY(buf_u8(out, (uint8_t)record->key.purpose));
    TRY(put_short(out, record->key.tenant.text));
    TRY(put_short(out, record->key.id.text));
    return buf_put(out, SPAN_ARRAY(spki.at));
}
