#include "appliance/seal/luks.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <libcryptsetup.h>
#include <string.h>

#define CIPHER       "aes"
#define CIPHER_MODE  "xts-plain64"
#define KEYSLOT      "aes-xts-plain64"
#define KEY_BYTES    64 /* two keys of 256 bits, as XTS has it */
#define SECTOR_BYTES 4096
#define HASH         "sha512"
#define FULL_ROUNDS  1000   /* LUKS2's least; a 160-bit key needs none */
#define WEAK_PASSES  4      /* of argon2id */
#define WEAK_KIB     131072 /* fits the smallest machine beside what runs there */
#define WEAK_THREADS 2

struct luks {
    struct crypt_device *device;
    char said[256]; /* the library's last complaint */
};

static void take_words(int level, const char *words, void *arg)
{
    struct luks *luks = arg;
    if (level == CRYPT_LOG_ERROR && luks != NULL) {
        size_t len = strcspn(words, "\n");
        len = len < sizeof(luks->said) - 1 ? len : sizeof(luks->said) - 1;
        memcpy(luks->said, words, len);
        luks->said[len] = '\0';
    }
}

void luks_free(struct luks *luks)
{
    if (luks != NULL) {
        crypt_free(luks->device);
        mem_free(luks);
    }
}

static struct fault luks_fail(struct op *op, const struct luks *luks, int error, const char *what)
{
    op_note_log(op, "libcryptsetup: %s (%d)", luks->said, error);
    return op_fail(op, FAULT(IO), "%s: %s", what, luks->said[0] != '\0' ? luks->said : strerrordesc_np(-error));
}

static struct fault luks_new(struct op *op, const char *device, struct luks **ret_luks)
{
    CLEANUP(luks_freep) struct luks *luks = NULL;
    TRY(mem_new(1, sizeof(*luks), (void *)&luks));
    int error = crypt_init(&luks->device, device);
    if (error < 0) {
        return op_fail(op, FAULT(IO), "cannot open %s: %s", device, strerrordesc_np(-error));
    }
    crypt_set_log_callback(luks->device, take_words, luks);
    *ret_luks = TAKE(luks);
    return OK;
}

/* A header of somebody else's making must not talk us into writing with less than our cipher. */
static bool is_our_cipher(struct luks *luks)
{
    const char *cipher = crypt_get_cipher(luks->device), *mode = crypt_get_cipher_mode(luks->device);
    if (cipher == NULL || mode == NULL || strcmp(cipher, CIPHER) != 0 || strcmp(mode, CIPHER_MODE) != 0 ||
        crypt_get_volume_key_size(luks->device) != KEY_BYTES) {
        return false;
    }
    for (int slot = 0; slot < crypt_keyslot_max(CRYPT_LUKS2); slot++) {
        size_t bytes = 0;
        if (crypt_keyslot_status(luks->device, slot) <= CRYPT_SLOT_INACTIVE) {
            continue;
        }
        const char *encryption = crypt_keyslot_get_encryption(luks->device, slot, &bytes);
        if (encryption == NULL || strcmp(encryption, KEYSLOT) != 0 || bytes != KEY_BYTES) {
            return false;
        }
    }
    return true;
}

struct fault luks_load(struct op *op, const char *device, struct luks **ret_luks)
{
    CLEANUP(luks_freep) struct luks *luks = NULL;
    TRY(luks_new(op, device, &luks));
    if (crypt_load(luks->device, CRYPT_LUKS2, NULL) < 0) {
        return op_fail(op, FAULT(NOT_FOUND), "%s holds no LUKS2 volume", device);
    }
    if (!is_our_cipher(luks)) {
        return op_fail(op, FAULT(UNSEAL), "the state's header names another cipher than this product's");
    }
    *ret_luks = TAKE(luks);
    return OK;
}

struct fault luks_format(struct op *op, const char *device, struct luks **ret_luks)
{
    CLEANUP(luks_freep) struct luks *luks = NULL;
    TRY(luks_new(op, device, &luks));
    struct crypt_pbkdf_type kdf = {
        .type = CRYPT_KDF_PBKDF2, .hash = HASH, .iterations = FULL_ROUNDS, .flags = CRYPT_PBKDF_NO_BENCHMARK
    };
    struct crypt_params_luks2 params = { .pbkdf = &kdf, .sector_size = SECTOR_BYTES, .label = "svc-state" };
    int error = crypt_format(luks->device, CRYPT_LUKS2, CIPHER, CIPHER_MODE, NULL, NULL, KEY_BYTES, &params);
    if (error < 0) {
        return luks_fail(op, luks, error, "cannot write the state's header");
    }
    *ret_luks = TAKE(luks);
    return OK;
}

static struct fault set_kdf(struct op *op, struct luks *luks, enum luks_kdf kdf)
{
    struct crypt_pbkdf_type type = { .hash = HASH, .flags = CRYPT_PBKDF_NO_BENCHMARK };
    if (kdf == LUKS_KDF_WEAK) {
        type.type = CRYPT_KDF_ARGON2ID;
        type.iterations = WEAK_PASSES;
        type.max_memory_kb = WEAK_KIB;
        type.parallel_threads = WEAK_THREADS;
    } else {
        type.type = CRYPT_KDF_PBKDF2;
        type.iterations = FULL_ROUNDS;
    }
    int error = crypt_set_pbkdf_type(luks->device, &type);
    return error < 0 ? luks_fail(op, luks, error, "the way of deriving a key is refused") : OK;
}

struct fault luks_add(struct op *op, struct luks *luks, int slot, struct span passphrase, enum luks_kdf kdf)
{
    TRY(set_kdf(op, luks, kdf));
    int error =
        crypt_keyslot_add_by_volume_key(luks->device, slot, NULL, 0, (const char *)passphrase.at, passphrase.len);
    return error < 0 ? luks_fail(op, luks, error, "cannot add a key to the state") : OK;
}

struct fault luks_replace(struct op *op, struct luks *luks, int slot, struct span passphrase, enum luks_kdf kdf,
                          int by_slot, struct span by_passphrase)
{
    TRY(set_kdf(op, luks, kdf));
    uint8_t key[KEY_BYTES];
    size_t len = sizeof(key);
    int error = crypt_volume_key_get(luks->device, by_slot, (char *)key, &len, (const char *)by_passphrase.at,
                                     by_passphrase.len);
    if (error < 0) {
        return op_fail(op, FAULT(UNSEAL), "the key does not open the state");
    }
    if (crypt_keyslot_status(luks->device, slot) > CRYPT_SLOT_INACTIVE) {
        error = crypt_keyslot_destroy(luks->device, slot);
    }
    if (error >= 0) {
        error = crypt_keyslot_add_by_volume_key(luks->device, slot, (const char *)key, len, (const char *)passphrase.at,
                                                passphrase.len);
    }
    explicit_bzero(key, sizeof(key));
    return error < 0 ? luks_fail(op, luks, error, "cannot renew a key of the state") : OK;
}

struct fault luks_open(struct op *op, struct luks *luks, int slot, struct span passphrase, const char *name)
{
    int error = crypt_activate_by_passphrase(luks->device, name, slot, (const char *)passphrase.at, passphrase.len, 0);
    if (error >= 0) {
        return OK;
    }
    if (error == -EPERM || error == -ENOENT) {
        return op_fail(op, FAULT(UNSEAL), "the key does not open the state");
    }
    return luks_fail(op, luks, error, "cannot open the state");
}

/* ---- tokens ---- */

struct fault luks_token_get(struct op *op, struct luks *luks, int token, struct buf *out)
{
    const char *json = NULL;
    if (crypt_token_json_get(luks->device, token, &json) < 0 || json == NULL) {
        return op_fail(op, FAULT(NOT_FOUND), "the state's header has no token %d", token);
    }
    return buf_text(out, json);
}

struct fault luks_token_put(struct op *op, struct luks *luks, int token, const char *json)
{
    int error = crypt_token_json_set(luks->device, token, json);
    return error < 0 ? luks_fail(op, luks, error, "cannot write to the state's header") : OK;
}
