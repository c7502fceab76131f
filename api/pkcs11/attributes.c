#include "api/pkcs11/attributes.h"

struct fault attributes_init(struct arena *arena, struct attributes *ret_attributes)
{
    struct attributes made = { .arena = arena, .first = OK };
    TRY(arena_take(arena, ATTRIBUTES_MAX, sizeof(*made.at), &made.at));
    *ret_attributes = made;
    return OK;
}

static void add(struct attributes *attributes, CK_ATTRIBUTE_TYPE type, struct span value, bool sensitive)
{
    if (FAULTED(attributes->first)) {
        return;
    }
    if (attributes->count == ATTRIBUTES_MAX) {
        attributes->first = FAULT(TOO_LARGE);
        return;
    }
    struct span copy = { 0 };
    attributes->first = arena_copy(attributes->arena, value, &copy);
    attributes->at[attributes->count++] = (struct attribute){ type, copy, sensitive };
}

void attributes_bytes(struct attributes *attributes, CK_ATTRIBUTE_TYPE type, struct span value)
{
    add(attributes, type, value, false);
}

void attributes_ulong(struct attributes *attributes, CK_ATTRIBUTE_TYPE type, CK_ULONG value)
{
    add(attributes, type, span_of(&value, sizeof(value)), false);
}

void attributes_bool(struct attributes *attributes, CK_ATTRIBUTE_TYPE type, CK_BBOOL value)
{
    add(attributes, type, span_of(&value, sizeof(value)), false);
}

void attributes_sensitive(struct attributes *attributes, CK_ATTRIBUTE_TYPE type)
{
    add(attributes, type, (struct span){ 0 }, true);
}

static const struct attribute *find(const struct attributes *attributes, CK_ATTRIBUTE_TYPE type)
{
    for (size_t i = 0; i < attributes->count; i++) {
        if (attributes->at[i].type == type) {
            return &attributes->at[i];
        }
    }
    return NULL;
}

bool attributes_match(const struct attributes *attributes, const CK_ATTRIBUTE *wanted, CK_ULONG count)
{
    for (CK_ULONG i = 0; i < count; i++) {
        const struct attribute *have = find(attributes, wanted[i].type);
        if (have == NULL || have->sensitive || have->value.len != wanted[i].ulValueLen ||
            (have->value.len > 0 &&
             (wanted[i].pValue == NULL || memcmp(have->value.at, wanted[i].pValue, have->value.len) != 0))) {
            return false;
        }
    }
    return true;
}

static CK_RV get(const struct attribute *have, CK_ATTRIBUTE *wanted)
{
    CK_ULONG room = wanted->ulValueLen;
    wanted->ulValueLen = CK_UNAVAILABLE_INFORMATION;
    if (have == NULL) {
        return CKR_ATTRIBUTE_TYPE_INVALID;
    }
    if (have->sensitive) {
        return CKR_ATTRIBUTE_SENSITIVE;
    }
    if (wanted->pValue != NULL) {
        if (room < have->value.len) {
            return CKR_BUFFER_TOO_SMALL;
        }
        if (have->value.len > 0) {
            memcpy(wanted->pValue, have->value.at, have->value.len);
        }
    }
    wanted->ulValueLen = have->value.len;
    return CKR_OK;
}

CK_RV attributes_get(const struct attributes *attributes, CK_ATTRIBUTE *wanted, CK_ULONG count)
{
    CK_RV first = CKR_OK;
    for (CK_ULONG i = 0; i < count; i++) {
        CK_RV rv = get(find(attributes, wanted[i].type), &wanted[i]);
        first = first != CKR_OK ? first : rv;
    }
    return first;
}
