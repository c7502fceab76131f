#include "api/pkcs11/object.h"

#include "api/pkcs11/der_fields.h"
#include "api/pkcs11/mechanism.h"
#include "appliance/base/codec.h"
#include "appliance/base/der.h"

#define UUID_LEN       16
#define CATEGORY_OWN   1 /* CKA_CERTIFICATE_CATEGORY: token user, authority */
#define CATEGORY_CA    2
#define LABEL_MAX      128
#define NAME_MAX_LEN   256
#define POINT_WRAP_MAX 160

static struct fault uuid_bytes(struct uuid id, uint8_t out[UUID_LEN])
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(UUID_LEN);
    char hex[2 * UUID_LEN] = { 0 };
    size_t len = 0;
    for (const char *c = id.text; *c != '\0' && len < 2 * UUID_LEN; c++) {
        if (*c != '-') {
            hex[len++] = *c;
        }
    }
    TRY(hex_decode(span_of(hex, len), &bytes));
    REQUIRE(bytes.len == UUID_LEN, BAD_ARGUMENT);
    memcpy(out, bytes.at, UUID_LEN);
    return OK;
}

/* The same class and the same content is the same object. */
static struct fault identify(CK_OBJECT_CLASS class, const char *key_id, struct span content,
                             struct sha256 *ret_identity)
{
    const struct span parts[] = { span_of(&class, sizeof(class)), span_text(key_id), content };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_identity);
}

struct fault token_key_read(struct arena *arena, struct op *op, struct view description, struct token_key *ret_key)
{
    struct token_key key = { 0 };
    struct public_fields fields;
    struct span spki;
    const char *id = view_member(op, description, "key_id"), *name = view_member(op, description, "name");
    REQUIRE(id != NULL && !FAULTED(uuid_parse(span_text(id), &key.id)), JSON_FIELD);
    REQUIRE(name != NULL && strlen(name) <= NAME_MAX_LEN, JSON_FIELD);
    TRY(view_base64(op, view_get(description, "public_key_der"), &spki));
    TRY(arena_text(arena, span_text(name), &key.name));
    TRY(arena_copy(arena, spki, &key.spki));
    TRY(public_fields_read(key.spki, &fields));
    key.type = fields.rsa ? CKK_RSA : CKK_EC;
    key.signature_len = fields.rsa ? fields.modulus.len : 2 * (((size_t)fields.bits + 7) / 8);
    *ret_key = key;
    return OK;
}

/* PKCS#11 2.40 4.4: what every object of a token has. Nothing is private: whoever may talk to the appliance is who the
 * bearer token says, and there is no other login. */
static void put_common(struct attributes *to, CK_OBJECT_CLASS class, struct span label)
{
    attributes_ulong(to, CKA_CLASS, class);
    attributes_bool(to, CKA_TOKEN, CK_TRUE);
    attributes_bool(to, CKA_PRIVATE, CK_FALSE);
    attributes_bool(to, CKA_MODIFIABLE, CK_FALSE);
    attributes_bool(to, CKA_COPYABLE, CK_FALSE);
    attributes_bool(to, CKA_DESTROYABLE, CK_FALSE);
    attributes_bytes(to, CKA_LABEL, label);
}

static void put_mechanisms(struct attributes *to, CK_KEY_TYPE type)
{
    CK_MECHANISM_TYPE allowed[32];
    size_t count = 0, all = 0;
    const struct mechanism *mechanisms = mechanism_all(&all);
    for (size_t i = 0; i < all && count < COUNT_OF(allowed); i++) {
        if (mechanisms[i].scheme != SCHEME_DIGEST && scheme_key_type(mechanisms[i].scheme) == type) {
            allowed[count++] = mechanisms[i].type;
        }
    }
    attributes_bytes(to, CKA_ALLOWED_MECHANISMS, span_of(allowed, count * sizeof(allowed[0])));
}

static void put_point(struct attributes *to, struct span point)
{
    uint8_t bytes[POINT_WRAP_MAX];
    struct der_writer writer;
    struct span wrapped = { 0 };
    der_writer_init(&writer, bytes, sizeof(bytes));
    der_write_element(&writer, DER_OCTET_STRING, point);
    if (FAULTED(der_written(&writer, &wrapped))) {
        to->first = FAULT(TOO_LARGE);
    }
    attributes_bytes(to, CKA_EC_POINT, wrapped);
}

/* What both halves of a pair have. The point stands with the private key too: clients ask it for its public half. */
static struct fault put_key(struct attributes *to, const struct token_key *key)
{
    struct public_fields fields;
    uint8_t id[UUID_LEN];
    TRY(public_fields_read(key->spki, &fields));
    TRY(uuid_bytes(key->id, id));
    attributes_bytes(to, CKA_ID, SPAN_ARRAY(id));
    attributes_ulong(to, CKA_KEY_TYPE, key->type);
    attributes_bytes(to, CKA_START_DATE, (struct span){ 0 });
    attributes_bytes(to, CKA_END_DATE, (struct span){ 0 });
    attributes_bool(to, CKA_DERIVE, CK_FALSE);
    attributes_bool(to, CKA_LOCAL, CK_TRUE);
    attributes_ulong(to, CKA_KEY_GEN_MECHANISM, fields.rsa ? CKM_RSA_PKCS_KEY_PAIR_GEN : CKM_EC_KEY_PAIR_GEN);
    attributes_bytes(to, CKA_PUBLIC_KEY_INFO, key->spki);
    put_mechanisms(to, key->type);
    if (fields.rsa) {
        attributes_bytes(to, CKA_MODULUS, fields.modulus);
        attributes_bytes(to, CKA_PUBLIC_EXPONENT, fields.exponent);
        attributes_ulong(to, CKA_MODULUS_BITS, fields.bits);
    } else {
        attributes_bytes(to, CKA_EC_PARAMS, fields.curve);
        put_point(to, fields.point);
    }
    return OK;
}

static void put_sensitive(struct attributes *to, CK_KEY_TYPE type)
{
    static const CK_ATTRIBUTE_TYPE of_rsa[] = { CKA_PRIVATE_EXPONENT, CKA_PRIME_1,    CKA_PRIME_2,
                                                CKA_EXPONENT_1,       CKA_EXPONENT_2, CKA_COEFFICIENT };
    if (type == CKK_EC) {
        attributes_sensitive(to, CKA_VALUE);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(of_rsa); i++) {
        attributes_sensitive(to, of_rsa[i]);
    }
}

static struct fault begin(struct arena *arena, CK_OBJECT_CLASS class, const struct token_key *key,
                          struct object *object)
{
    *object = (struct object){ .class = class, .key = key };
    TRY(identify(class, key->id.text, key->spki, &object->identity));
    TRY(attributes_init(arena, &object->attributes));
    put_common(&object->attributes, class, span_text(key->name));
    return put_key(&object->attributes, key);
}

struct fault object_private_key(struct arena *arena, const struct token_key *key, struct span certificate,
                                struct object *ret_object)
{
    struct object object;
    struct certificate_fields fields = { 0 };
    IGNORE(certificate_fields_read(certificate, &fields)); /* then its subject stays empty */
    TRY(begin(arena, CKO_PRIVATE_KEY, key, &object));
    struct attributes *to = &object.attributes;
    attributes_bytes(to, CKA_SUBJECT, fields.subject);
    attributes_bool(to, CKA_SIGN, CK_TRUE);
    attributes_bool(to, CKA_SIGN_RECOVER, CK_FALSE);
    attributes_bool(to, CKA_DECRYPT, CK_FALSE);
    attributes_bool(to, CKA_UNWRAP, CK_FALSE);
    attributes_bool(to, CKA_SENSITIVE, CK_TRUE);
    attributes_bool(to, CKA_ALWAYS_SENSITIVE, CK_TRUE);
    attributes_bool(to, CKA_EXTRACTABLE, CK_FALSE);
    attributes_bool(to, CKA_NEVER_EXTRACTABLE, CK_TRUE);
    attributes_bool(to, CKA_WRAP_WITH_TRUSTED, CK_FALSE);
    attributes_bool(to, CKA_ALWAYS_AUTHENTICATE, CK_FALSE);
    put_sensitive(to, key->type);
    TRY(to->first);
    *ret_object = object;
    return OK;
}

struct fault object_public_key(struct arena *arena, const struct token_key *key, struct object *ret_object)
{
    struct object object;
    TRY(begin(arena, CKO_PUBLIC_KEY, key, &object));
    struct attributes *to = &object.attributes;
    attributes_bytes(to, CKA_SUBJECT, (struct span){ 0 });
    attributes_bool(to, CKA_VERIFY, CK_TRUE);
    attributes_bool(to, CKA_VERIFY_RECOVER, CK_FALSE);
    attributes_bool(to, CKA_ENCRYPT, CK_FALSE);
    attributes_bool(to, CKA_WRAP, CK_FALSE);
    attributes_bool(to, CKA_TRUSTED, CK_FALSE);
    TRY(to->first);
    *ret_object = object;
    return OK;
}

/* A leaf is found by its key's id and label. One further up has an id of its own, over its public key, so that the
 * same authority has the same id in every chain; and its common name for a label. */
static struct fault put_certificate_names(struct attributes *to, const struct token_key *leaf_of,
                                          const struct certificate_fields *fields)
{
    if (leaf_of != NULL) {
        uint8_t id[UUID_LEN];
        TRY(uuid_bytes(leaf_of->id, id));
        put_common(to, CKO_CERTIFICATE, span_text(leaf_of->name));
        attributes_bytes(to, CKA_ID, SPAN_ARRAY(id));
        return OK;
    }
    struct sha256 id;
    TRY(sha256_of(fields->spki, &id));
    bool named = fields->common_name.len > 0 && fields->common_name.len <= LABEL_MAX;
    put_common(to, CKO_CERTIFICATE, named ? fields->common_name : span_text("certificate authority"));
    attributes_bytes(to, CKA_ID, SPAN_ARRAY(id.at));
    return OK;
}

struct fault object_certificate(struct arena *arena, const struct token_key *leaf_of, struct span der,
                                struct object *ret_object)
{
    struct object object = { .class = CKO_CERTIFICATE };
    struct certificate_fields fields;
    TRY(certificate_fields_read(der, &fields));
    TRY(identify(CKO_CERTIFICATE, leaf_of != NULL ? leaf_of->id.text : "", der, &object.identity));
    TRY(attributes_init(arena, &object.attributes));
    struct attributes *to = &object.attributes;
    TRY(put_certificate_names(to, leaf_of, &fields));
    attributes_ulong(to, CKA_CERTIFICATE_TYPE, CKC_X_509);
    attributes_ulong(to, CKA_CERTIFICATE_CATEGORY, leaf_of != NULL ? CATEGORY_OWN : CATEGORY_CA);
    attributes_bool(to, CKA_TRUSTED, CK_FALSE);
    attributes_bytes(to, CKA_SUBJECT, fields.subject);
    attributes_bytes(to, CKA_ISSUER, fields.issuer);
    attributes_bytes(to, CKA_SERIAL_NUMBER, fields.serial);
    attributes_bytes(to, CKA_VALUE, der);
    attributes_bytes(to, CKA_PUBLIC_KEY_INFO, fields.spki);
    attributes_bytes(to, CKA_URL, (struct span){ 0 });
    attributes_bytes(to, CKA_START_DATE, (struct span){ 0 });
    attributes_bytes(to, CKA_END_DATE, (struct span){ 0 });
    TRY(to->first);
    *ret_object = object;
    return OK;
}
