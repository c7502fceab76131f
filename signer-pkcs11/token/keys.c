#include "signer-pkcs11/token/internal.h"

#include <inttypes.h>

#define FOUND_MAX 16 /* objects of one CKA_ID: a pair is two; more than this is somebody else's doing */

void key_label_print(const struct key_ref *ref, enum key_algorithm algorithm, struct key_label *ret_label)
{
    const char *tenant = ref->tenant.text[0] != '\0' ? ref->tenant.text : "_";
    int len = snprintf(ret_label->text, sizeof(ret_label->text), "svc/1/%s/%s/%s/%s", tenant,
                       key_purpose_text(ref->purpose), key_algorithm_text(algorithm), ref->id.text);
    BUG_IF(len < 0 || (size_t)len >= sizeof(ret_label->text));
}

bool key_label_match(struct span label, const struct key_ref *ref, enum key_algorithm *ret_algorithm)
{
    for (int i = KEY_ALGORITHM_NONE + 1; i < KEY_ALGORITHM_COUNT; i++) {
        struct key_label expected;
        key_label_print(ref, (enum key_algorithm)i, &expected);
        if (span_equal_text(label, expected.text)) {
            *ret_algorithm = (enum key_algorithm)i;
            return true;
        }
    }
    return false;
}

static uint8_t nibble(char digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

void key_id_bytes(const struct uuid *id, uint8_t out[KEY_ID_LEN])
{
    const char *digit = id->text;
    for (size_t i = 0; i < KEY_ID_LEN; i++) {
        digit += *digit == '-';
        out[i] = (uint8_t)(nibble(digit[0]) << 4 | nibble(digit[1]));
        digit += 2;
    }
}

struct fault key_ref_check(struct op *op, const struct key_ref *ref)
{
    struct uuid id;
    struct tenant_id tenant;
    if (ref->purpose <= KEY_PURPOSE_NONE || ref->purpose >= KEY_PURPOSE_COUNT) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the key's purpose is not known");
    }
    if (FAULTED(uuid_parse(span_text(ref->id.text), &id))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the key's id is not a UUID in lower case");
    }
    bool no_tenant = ref->tenant.text[0] == '\0';
    if (no_tenant ? ref->purpose != KEY_PURPOSE_POST : FAULTED(tenant_id_parse(span_text(ref->tenant.text), &tenant))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the key's tenant is not a tenant id");
    }
    return OK;
}

static struct fault find_by_id(struct token_session *session, const struct key_ref *ref,
                               CK_OBJECT_HANDLE found[FOUND_MAX], CK_ULONG *ret_count)
{
    struct call *call = &session->call;
    CK_BBOOL yes = CK_TRUE;
    uint8_t id[KEY_ID_LEN];
    key_id_bytes(&ref->id, id);
    CK_ATTRIBUTE wanted[] = { { CKA_TOKEN, &yes, sizeof(yes) }, { CKA_ID, id, sizeof(id) } };
    CK_ULONG count = 0;
    TRY(gate_find_init(call, session->handle, wanted, COUNT_OF(wanted)));
    TRY(gate_find(call, session->handle, found, FOUND_MAX, &count));
    TRY(gate_find_final(call, session->handle));
    *ret_count = count;
    return OK;
}

/* One of the key's objects: whose place does its label name? Objects without our label are not ours. */
static struct fault sort_in(struct token_session *session, const struct key_ref *ref, CK_OBJECT_HANDLE object,
                            struct key_objects *objects)
{
    CK_OBJECT_CLASS class = 0;
    char label[KEY_LABEL_MAX];
    CK_ATTRIBUTE shown[] = { { CKA_CLASS, &class, sizeof(class) }, { CKA_LABEL, label, sizeof(label) } };
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    struct fault fault = gate_attributes(&session->call, session->handle, object, shown, COUNT_OF(shown));
    if (FAULTED(fault) && session->call.refusal->class == CKR_CLASS_CALL) {
        call_clear(&session->call);
        return OK;
    }
    TRY(fault);
    if (shown[1].ulValueLen > sizeof(label) || !key_label_match(span_of(label, shown[1].ulValueLen), ref, &algorithm)) {
        return OK;
    }
    CK_OBJECT_HANDLE *place = class == CKO_PRIVATE_KEY  ? &objects->private_key
                              : class == CKO_PUBLIC_KEY ? &objects->public_key
                              : class == CKO_SECRET_KEY ? &objects->secret_key
                                                        : NULL;
    if (place == NULL) {
        return OK;
    }
    objects->doubled = objects->doubled || *place != CK_INVALID_HANDLE ||
                       (objects->algorithm != KEY_ALGORITHM_NONE && objects->algorithm != algorithm);
    *place = object;
    objects->algorithm = algorithm;
    return OK;
}

struct fault key_find_all(struct token_session *session, const struct key_ref *ref, struct key_objects *ret_objects)
{
    CK_OBJECT_HANDLE found[FOUND_MAX] = { 0 };
    CK_ULONG count = 0;
    TRY(find_by_id(session, ref, found, &count));
    struct key_objects objects = { .private_key = CK_INVALID_HANDLE,
                                   .public_key = CK_INVALID_HANDLE,
                                   .secret_key = CK_INVALID_HANDLE,
                                   .doubled = count == FOUND_MAX };
    for (CK_ULONG i = 0; i < count; i++) {
        TRY(sort_in(session, ref, found[i], &objects));
    }
    if (objects.private_key == CK_INVALID_HANDLE && objects.secret_key == CK_INVALID_HANDLE) {
        /* A token that lost its login hides private objects: that is not the same as having none. */
        TRY(session_logged_in(&session->call, session->token, session->handle));
    }
    *ret_objects = objects;
    return OK;
}

struct fault key_find(struct op *op, struct token_session *session, const struct key_ref *ref,
                      struct key_objects *ret_objects)
{
    struct key_objects objects;
    TRY(key_find_all(session, ref, &objects));
    if (objects.doubled) {
        return op_fail(op, FAULT(INTERNAL),
                       "the token holds more than one key of this label: remove those that are "
                       "not the signer's with the token's own tools");
    }
    *ret_objects = objects;
    return OK;
}

static uint32_t hash_text(uint32_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * 16777619u; /* FNV-1a: spreads, keeps no secret */
    }
    return hash;
}

static struct handle *set_of(struct handle_cache *cache, const struct key_ref *ref)
{
    uint32_t hash = hash_text(hash_text(2166136261u, ref->id.text), ref->tenant.text) + (uint32_t)ref->purpose;
    return cache->at[hash % HANDLE_SETS];
}

static bool same_key(const struct key_ref *a, const struct key_ref *b)
{
    return a->purpose == b->purpose && uuid_equal(a->id, b->id) && tenant_id_equal(a->tenant, b->tenant);
}

static bool recall(struct token_session *session, const struct key_ref *ref, struct handle *ret_handle)
{
    struct handle_cache *cache = &session->token->cache;
    bool hit = false;
    token_lock(&cache->lock);
    const struct handle *set = set_of(cache, ref);
    for (size_t i = 0; i < HANDLE_WAYS && !hit; i++) {
        hit = set[i].generation == session->seen && same_key(&set[i].ref, ref);
        if (hit) {
            *ret_handle = set[i];
        }
    }
    token_unlock(&cache->lock);
    return hit;
}

static void remember(struct token_session *session, const struct handle *handle)
{
    struct handle_cache *cache = &session->token->cache;
    token_lock(&cache->lock);
    struct handle *set = set_of(cache, &handle->ref);
    struct handle *place = &set[cache->next_way++ % HANDLE_WAYS];
    for (size_t i = 0; i < HANDLE_WAYS; i++) {
        if (same_key(&set[i].ref, &handle->ref)) {
            place = &set[i];
            break;
        }
        if (set[i].generation != session->seen) {
            place = &set[i];
        }
    }
    *place = *handle;
    token_unlock(&cache->lock);
}

void key_forget(struct token *token, const struct key_ref *ref)
{
    token_lock(&token->cache.lock);
    struct handle *set = set_of(&token->cache, ref);
    for (size_t i = 0; i < HANDLE_WAYS; i++) {
        if (same_key(&set[i].ref, ref)) {
            set[i].generation = 0;
        }
    }
    token_unlock(&token->cache.lock);
}

struct fault key_not_found(struct op *op)
{
    return op_fail(op, FAULT(KEY_NOT_FOUND), "the token holds no such key for this tenant and purpose");
}

struct fault key_use(struct op *op, struct token_session *session, const struct key_ref *ref,
                     CK_OBJECT_HANDLE *ret_object, enum key_algorithm *ret_algorithm)
{
    struct handle handle = { .ref = *ref, .generation = session->seen };
    if (!recall(session, ref, &handle)) {
        struct key_objects objects = { 0 };
        TRY(key_find(op, session, ref, &objects));
        handle.object = objects.private_key != CK_INVALID_HANDLE ? objects.private_key : objects.secret_key;
        handle.algorithm = objects.algorithm;
        if (handle.object == CK_INVALID_HANDLE) {
            return key_not_found(op);
        }
        remember(session, &handle);
    }
    *ret_object = handle.object;
    *ret_algorithm = handle.algorithm;
    return OK;
}
