/* rooms: pkcs11 */
/*
 * What the PKCS#11 module reads of others. The first byte picks the parser: what a host hands in (DigestInfo, PSS
 * parameters, raw signatures), and what the appliance answers (signatures, keys, certificates, lists, refusals).
 * Oracles: what is accepted is what its definition says, spans stay inside the bytes, and both forms of an ECDSA
 * signature lead to one another.
 */
#include "api/pkcs11/der_fields.h"
#include "api/pkcs11/ecdsa.h"
#include "api/pkcs11/keyring.h"
#include "api/pkcs11/mechanism.h"
#include "api/pkcs11/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static bool is_inside(struct span outer, struct span inner)
{
    return inner.len == 0 ||
           (inner.at >= outer.at && inner.len <= outer.len && inner.at + inner.len <= outer.at + outer.len);
}

static void try_digest_info(struct span bytes)
{
    struct span digest = { 0 };
    const struct hash *hash = hash_unwrap(bytes, &digest);
    if (hash != NULL) {
        BUG_IF(digest.len != hash->len || !is_inside(bytes, digest) || bytes.len != digest.len + 19);
        BUG_IF(bytes.at[0] != 0x30 || (size_t)bytes.at[1] + 2 != bytes.len);
    }
}

static void try_mechanism(struct span bytes)
{
    CK_MECHANISM_TYPE type = 0;
    const struct mechanism *mechanism = NULL;
    const struct hash *hash = NULL;
    if (bytes.len < sizeof(type)) {
        return;
    }
    memcpy(&type, bytes.at, sizeof(type));
    struct span rest = span_of(bytes.at + sizeof(type), bytes.len - sizeof(type));
    CK_MECHANISM asked = { type, rest.len > 0 ? (void *)rest.at : NULL, rest.len };
    if (mechanism_read(&asked, &mechanism, &hash) == CKR_OK) {
        BUG_IF(mechanism->type != type);
        BUG_IF((mechanism->scheme == SCHEME_PSS) != (rest.len > 0));
        BUG_IF(mechanism->scheme == SCHEME_PSS && hash == NULL);
        BUG_IF(mechanism->hash != 0 && (hash == NULL || hash->mechanism != mechanism->hash));
    }
}

static void try_signature(struct span bytes)
{
    static const size_t halves[] = { 32, 48, 66 };
    uint8_t raw[ECDSA_RAW_MAX], der[ECDSA_DER_MAX];
    struct span again;
    for (size_t i = 0; i < COUNT_OF(halves); i++) {
        if (!FAULTED(ecdsa_to_raw(bytes, halves[i], raw))) {
            BUG_IF(FAULTED(ecdsa_to_der(span_of(raw, 2 * halves[i]), der, &again)));
            BUG_IF(!span_equal(again, bytes));
        }
    }
    if (!FAULTED(ecdsa_to_der(bytes, der, &again))) {
        BUG_IF(FAULTED(ecdsa_to_raw(again, bytes.len / 2, raw)));
        BUG_IF(!span_equal(span_of(raw, bytes.len), bytes));
    }
}

static void try_public_key(struct span bytes)
{
    struct public_fields fields;
    if (FAULTED(public_fields_read(bytes, &fields))) {
        return;
    }
    BUG_IF(fields.bits == 0 || !is_inside(bytes, fields.curve) || !is_inside(bytes, fields.point) ||
           !is_inside(bytes, fields.modulus) || !is_inside(bytes, fields.exponent));
    BUG_IF(fields.rsa ? fields.bits > fields.modulus.len * 8 || fields.bits + 7 < fields.modulus.len * 8
                      : fields.point.len != 2 * (((size_t)fields.bits + 7) / 8) + 1);
}

static void try_certificate(struct span bytes)
{
    struct certificate_fields fields;
    if (!FAULTED(certificate_fields_read(bytes, &fields))) {
        BUG_IF(!is_inside(bytes, fields.serial) || !is_inside(bytes, fields.issuer) ||
               !is_inside(bytes, fields.subject) || !is_inside(bytes, fields.spki) ||
               !is_inside(fields.subject, fields.common_name));
    }
}

static void try_keys(struct op *op, struct span bytes)
{
    CLEANUP(keyring_unrefp) struct keyring *keyring = NULL;
    struct handles handles = { 0 };
    struct view page, rest, item;
    BUG_IF(FAULTED(keyring_new(&keyring)));
    if (FAULTED(view_of(op, bytes, &page))) {
        return;
    }
    rest = view_get(page, "items");
    while (view_next(&rest, &item)) {
        IGNORE(keyring_add(keyring, op, item));
    }
    BUG_IF(FAULTED(handles_give(&handles, keyring)));
    for (size_t i = 0; i < keyring_count(keyring); i++) {
        const struct object *object = keyring_at(keyring, i);
        CK_ULONG class = object->class;
        CK_ATTRIBUTE wanted = { CKA_CLASS, &class, sizeof(class) };
        BUG_IF(keyring_find(keyring, object->handle) != object);
        BUG_IF(!attributes_match(&object->attributes, &wanted, 1));
    }
    handles_clear(&handles);
}

static void try_refusal(struct op *op, struct span bytes)
{
    struct refusal refusal;
    refusal_read(op, bytes.len > 0 ? 100 + bytes.at[0] * 2 : 0, bytes, &refusal);
    BUG_IF(refusal.code[0] == '\0' || refusal.fault.code == FAULT_NONE);
    BUG_IF(refusal_rv(&refusal) == CKR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    CLEANUP(op_freep) struct op *op = NULL;
    if (len == 0 || len > 16384) {
        return 0;
    }
    struct span rest = span_of(bytes + 1, len - 1);
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ 0 }, 1 << 30, &op)));
    switch (bytes[0]) {
    case 'd':
        try_digest_info(rest);
        break;
    case 'm':
        try_mechanism(rest);
        break;
    case 's':
        try_signature(rest);
        break;
    case 'p':
        try_public_key(rest);
        break;
    case 'c':
        try_certificate(rest);
        break;
    case 'k':
        try_keys(op, rest);
        break;
    case 'r':
        try_refusal(op, rest);
        break;
    default:
        break;
    }
    return 0;
}
