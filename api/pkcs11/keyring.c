#include "api/pkcs11/keyring.h"

#include "api/pkcs11/object.h"
#include "appliance/base/alloc.h"

#include <stdatomic.h>

#define ARENA_MAX ((size_t)256 << 20)

struct keyring {
    atomic_uint refs;
    struct arena *arena;
    struct object *objects; /* sorted by handle once they have one */
    size_t count, cap;
};

struct fault keyring_new(struct keyring **ret_keyring)
{
    struct keyring *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    atomic_init(&made->refs, 1);
    struct fault fault = arena_new(ARENA_MAX, &made->arena);
    if (FAULTED(fault)) {
        mem_free(made);
        return fault;
    }
    *ret_keyring = made;
    return OK;
}

struct keyring *keyring_ref(struct keyring *keyring)
{
    (void)atomic_fetch_add(&keyring->refs, 1);
    return keyring;
}

void keyring_unref(struct keyring *keyring)
{
    if (keyring != NULL && atomic_fetch_sub(&keyring->refs, 1) == 1) {
        mem_free(keyring->objects);
        arena_free(keyring->arena);
        mem_free(keyring);
    }
}

static bool has(const struct keyring *keyring, const struct sha256 *identity)
{
    for (size_t i = 0; i < keyring->count; i++) {
        if (span_equal(SPAN_ARRAY(keyring->objects[i].identity.at), SPAN_ARRAY(identity->at))) {
            return true;
        }
    }
    return false;
}

/* What is there already, as an authority of another key's chain may be, is not there twice. */
static struct fault append(struct keyring *keyring, const struct object *object)
{
    if (has(keyring, &object->identity)) {
        return OK;
    }
    REQUIRE(keyring->count < KEYRING_OBJECTS_MAX, TOO_LARGE);
    if (keyring->count == keyring->cap) {
        size_t cap = keyring->cap > 0 ? keyring->cap * 2 : 64;
        TRY(mem_resize(&keyring->objects, cap, sizeof(*keyring->objects)));
        keyring->cap = cap;
    }
    keyring->objects[keyring->count++] = *object;
    return OK;
}

/* One that cannot be read is none. */
static struct fault add_certificate(struct keyring *keyring, const struct token_key *leaf_of, struct span der)
{
    struct object object;
    struct fault fault = object_certificate(keyring->arena, leaf_of, der, &object);
    if (fault.code == FAULT_BAD_ARGUMENT) {
        return OK;
    }
    TRY(fault);
    return append(keyring, &object);
}

static struct fault add_chain(struct keyring *keyring, struct op *op, const struct token_key *key, struct view chain)
{
    struct view rest = chain, item;
    for (size_t i = 0; view_next(&rest, &item); i++) {
        struct span der;
        TRY(view_base64(op, item, &der));
        TRY(add_certificate(keyring, i == 0 ? key : NULL, der));
    }
    return OK;
}

/* The leaf's subject becomes the private key's: clients look for one by the other. */
static struct span leaf_of(struct op *op, struct view chain)
{
    struct view rest = chain, item;
    struct span der = { 0 };
    if (view_next(&rest, &item)) {
        (void)FAULTED(view_base64(op, item, &der));
    }
    return der;
}

static struct fault add_all(struct keyring *keyring, struct op *op, struct view description)
{
    struct token_key *key = NULL;
    struct object object;
    struct view chain = view_get(description, "certificate_chain");
    TRY(arena_take(keyring->arena, 1, sizeof(*key), &key));
    TRY(token_key_read(keyring->arena, op, description, key));
    TRY(object_private_key(keyring->arena, key, leaf_of(op, chain), &object));
    TRY(append(keyring, &object));
    TRY(object_public_key(keyring->arena, key, &object));
    TRY(append(keyring, &object));
    return add_chain(keyring, op, key, chain);
}

struct fault keyring_add(struct keyring *keyring, struct op *op, struct view key)
{
    size_t before = keyring->count;
    struct fault fault = add_all(keyring, op, key);
    if (FAULTED(fault)) {
        keyring->count = before;
    }
    return fault;
}

size_t keyring_count(const struct keyring *keyring)
{
    return keyring->count;
}

const struct object *keyring_at(const struct keyring *keyring, size_t index)
{
    return &keyring->objects[index];
}

const struct object *keyring_find(const struct keyring *keyring, CK_OBJECT_HANDLE handle)
{
    size_t low = 0, high = keyring->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (keyring->objects[middle].handle < handle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < keyring->count && keyring->objects[low].handle == handle;
    return found ? &keyring->objects[low] : NULL;
}

/* ---- handles ---- */

struct handle_entry {
    struct sha256 identity;
    CK_OBJECT_HANDLE handle;
};

void handles_clear(struct handles *handles)
{
    mem_free(handles->at);
    *handles = (struct handles){ 0 };
}

static size_t place_of(const struct handles *handles, const struct sha256 *identity)
{
    size_t low = 0, high = handles->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(handles->at[middle].identity.at, identity->at, SHA256_LEN) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct fault give(struct handles *handles, struct object *object)
{
    size_t place = place_of(handles, &object->identity);
    if (place < handles->count &&
        span_equal(SPAN_ARRAY(handles->at[place].identity.at), SPAN_ARRAY(object->identity.at))) {
        object->handle = handles->at[place].handle;
        return OK;
    }
    if (handles->count == handles->cap) {
        size_t cap = handles->cap > 0 ? handles->cap * 2 : 64;
        TRY(mem_resize(&handles->at, cap, sizeof(*handles->at)));
        handles->cap = cap;
    }
    memmove(&handles->at[place + 1], &handles->at[place], (handles->count - place) * sizeof(*handles->at));
    object->handle = handles->count + 1; /* nothing is ever taken out, so this one is new; 0 is no handle */
    handles->at[place] = (struct handle_entry){ object->identity, object->handle };
    handles->count++;
    return OK;
}

static int by_handle(const void *a, const void *b)
{
    const struct object *left = a, *right = b;
    return (left->handle > right->handle) - (left->handle < right->handle);
}

struct fault handles_give(struct handles *handles, struct keyring *keyring)
{
    for (size_t i = 0; i < keyring->count; i++) {
        TRY(give(handles, &keyring->objects[i]));
    }
    if (keyring->count > 0) {
        qsort(keyring->objects, keyring->count, sizeof(*keyring->objects), by_handle);
    }
    return OK;
}
