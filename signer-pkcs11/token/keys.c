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

#define SHORT_DIGITS 26 /* of SHA-256; with "svc/1/" in front as long as a label of 32 bytes may be */

/* The long label, or what a token with room for 32 bytes keeps of it. */
struct fault key_label_on(const struct token_quirks *quirks, const struct key_ref *ref, enum key_algorithm algorithm,
                          struct key_label *ret_label)
{
    struct key_label label;
    key_label_print(ref, algorithm, &label);
    if (quirk_on(quirks, QUIRK_SHORT_LABELS)) {
        struct sha256 digest;
        TRY(sha256_of(span_text(label.text), &digest));
        int len = snprintf(label.text, sizeof(label.text), "svc/1/");
        for (int i = 0; i < SHORT_DIGITS / 2; i++) {
            len += snprintf(label.text + len, sizeof(label.text) - (size_t)len, "%02x", digest.at[i]);
        }
    }
    *ret_label = label;
    return OK;
}

bool key_label_match(const struct token_quirks *quirks, struct span label, const struct key_ref *ref,
                     enum key_algorithm *ret_algorithm)
{
    for (int i = KEY_ALGORITHM_NONE + 1; i < KEY_ALGORITHM_COUNT; i++) {
        struct key_label expected;
        if (!FAULTED(key_label_on(quirks, ref, (enum key_algorithm)i, &expected)) &&
            span_equal_text(label, expected.text)) {
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

struct span key_id_on(const struct token *token, const struct key_ref *ref, struct key_id *id)
{
    if (quirk_on(&token->settings->quirks, QUIRK_ID_NONE)) {
        return (struct span){ 0 };
    }
    if (quirk_on(&token->settings->quirks, QUIRK_ID_TEXT)) {
        memcpy(id->at, ref->id.text, sizeof(id->at));
        return SPAN_ARRAY(id->at);
    }
    key_id_bytes(&ref->id, id->at);
    return span_of(id->at, KEY_ID_LEN);
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

/* Appends to `found`. */
static struct fault find(struct token_session *session, CK_ATTRIBUTE *wanted, CK_ULONG wanted_count,
                         CK_OBJECT_HANDLE found[FOUND_MAX], CK_ULONG *count)
{
    struct call *call = &session->call;
    CK_ULONG more = 0;
    TRY(gate_find_init(call, session->handle, wanted, wanted_count));
    TRY(gate_find(call, session->handle, found + *count, FOUND_MAX - *count, &more));
    TRY(gate_find_final(call, session->handle));
    *count += more;
    return OK;
}

/* By CKA_ID, or where the token keeps none by each label that the key may have. `class` NULL = of every class. */
static struct fault find_objects(struct token_session *session, const struct key_ref *ref, CK_OBJECT_CLASS *class,
                                 CK_OBJECT_HANDLE found[FOUND_MAX], CK_ULONG *ret_count)
{
    CK_BBOOL yes = CK_TRUE;
    struct key_id bytes;
    struct span id = key_id_on(session->token, ref, &bytes);
    CK_ATTRIBUTE wanted[3] = { { CKA_TOKEN, &yes, sizeof(yes) },
                               { CKA_ID, (void *)(uintptr_t)id.at, id.len },
                               { CKA_CLASS, class, sizeof(*class) } };
    const CK_ULONG wanted_count = class != NULL ? 3 : 2;
    CK_ULONG count = 0;
    for (int i = KEY_ALGORITHM_NONE + 1; id.len == 0 && i < KEY_ALGORITHM_COUNT && count < FOUND_MAX; i++) {
        struct key_label label;
        TRY(key_label_on(&session->token->settings->quirks, ref, (enum key_algorithm)i, &label));
        wanted[1] = (CK_ATTRIBUTE){ CKA_LABEL, label.text, strlen(label.text) };
        TRY(find(session, wanted, wanted_count, found, &count));
    }
    if (id.len > 0) {
        TRY(find(session, wanted, wanted_count, found, &count));
    }
    *ret_count = count;
    return OK;
}

struct fault key_find_certificate(struct token_session *session, const struct key_ref *ref,
                                  CK_OBJECT_HANDLE *ret_object)
{
    CK_OBJECT_HANDLE found[FOUND_MAX] = { 0 };
    CK_OBJECT_CLASS class = CKO_CERTIFICATE;
    CK_ULONG count = 0;
    TRY(find_objects(session, ref, &class, found, &count));
    *ret_object = count == 1 ? found[0] : CK_INVALID_HANDLE; /* whose it is among several cannot be told */
    return OK;
}

/* Is it an object without a class or label, or with a longer one than any of ours? PKCS#11 marks which it does not
 * show. */
static bool not_shown(CK_RV rv, const CK_ATTRIBUTE shown[2])
{
    bool marked =
        shown[0].ulValueLen == CK_UNAVAILABLE_INFORMATION || shown[1].ulValueLen == CK_UNAVAILABLE_INFORMATION;
    return marked && (rv == CKR_ATTRIBUTE_TYPE_INVALID || rv == CKR_ATTRIBUTE_SENSITIVE || rv == CKR_BUFFER_TOO_SMALL);
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
    if (FAULTED(fault) && not_shown(session->call.rv, shown)) {
        call_clear(&session->call);
        return OK;
    }
    TRY(fault); /* a refusal for another reason says nothing about the key: least of all that there is none */
    if (shown[1].ulValueLen > sizeof(label) ||
        !key_label_match(&session->token->settings->quirks, span_of(label, shown[1].ulValueLen), ref, &algorithm)) {
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

static bool holds_secret(const struct key_objects *objects)
{
    return objects->private_key != CK_INVALID_HANDLE || objects->secret_key != CK_INVALID_HANDLE;
}

static struct fault find_once(struct token_session *session, const struct key_ref *ref, struct key_objects *ret_objects)
{
    CK_OBJECT_HANDLE found[FOUND_MAX] = { 0 };
    CK_ULONG count = 0;
    TRY(find_objects(session, ref, NULL, found, &count));
    struct key_objects objects = { .private_key = CK_INVALID_HANDLE,
                                   .public_key = CK_INVALID_HANDLE,
                                   .secret_key = CK_INVALID_HANDLE,
                                   .doubled = count == FOUND_MAX };
    for (CK_ULONG i = 0; i < count; i++) {
        TRY(sort_in(session, ref, found[i], &objects));
    }
    *ret_objects = objects;
    return OK;
}

/* A token that lost its login hides private objects: that is not the same as having none. The login may also have been
 * lost while they were looked for, and renewed before it is asked about: so what is missing is looked for twice. */
struct fault key_find_all(struct token_session *session, const struct key_ref *ref, struct key_objects *ret_objects)
{
    struct key_objects objects;
    TRY(find_once(session, ref, &objects));
    if (!holds_secret(&objects)) {
        TRY(session_logged_in(&session->call, session->token, session->handle));
        TRY(find_once(session, ref, &objects));
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

struct fault key_not_found(struct op *op)
{
    return op_fail(op, FAULT(KEY_NOT_FOUND), "the token holds no such key for this tenant and purpose");
}

static struct fault find_to_use(struct op *op, struct token_session *session, struct handle *handle)
{
    struct key_objects objects = { 0 };
    TRY(key_find(op, session, &handle->ref, &objects));
    handle->object = objects.private_key != CK_INVALID_HANDLE ? objects.private_key : objects.secret_key;
    handle->algorithm = objects.algorithm;
    return handle->object != CK_INVALID_HANDLE ? OK : key_not_found(op);
}

struct fault key_use(struct op *op, struct token_session *session, const struct key_ref *ref,
                     CK_OBJECT_HANDLE *ret_object, enum key_algorithm *ret_algorithm)
{
    struct handle handle = { .ref = *ref, .generation = session->seen };
    if (!cache_recall(session, &handle)) {
        struct fault fault = find_to_use(op, session, &handle);
        cache_found(session, FAULTED(fault) ? NULL : &handle);
        TRY(fault);
    }
    *ret_object = handle.object;
    *ret_algorithm = handle.algorithm;
    return OK;
}
