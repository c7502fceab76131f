#include "appliance/release/keys.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"
#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <sys/stat.h>

#define KEY_NAME_MAX 96
#define FOLDER_MAX   256 /* entries of a folder of keys */

struct release_key {
    char name[KEY_NAME_MAX + 1];
    EVP_PKEY *key;
    const char *hash; /* a constant */
};
struct release_keys {
    struct release_key at[RELEASE_KEYS_MAX];
    size_t count;
};

struct fault release_keys_new(struct release_keys **ret_keys)
{
    return mem_new(1, sizeof(**ret_keys), ret_keys);
}

void release_keys_free(struct release_keys *keys)
{
    for (size_t i = 0; keys != NULL && i < keys->count; i++) {
        EVP_PKEY_free(keys->at[i].key);
    }
    mem_free(keys);
}

/* The hash that goes with the key's curve; NULL: a kind of key that signs no release. */
static const char *hash_of(const EVP_PKEY *key)
{
    char group[32];
    size_t len = 0;
    if (EVP_PKEY_is_a(key, "EC") != 1 ||
        EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof(group), &len) != 1) {
        return NULL;
    }
    return strcmp(group, "prime256v1") == 0 ? "SHA256" : strcmp(group, "secp384r1") == 0 ? "SHA384" : NULL;
}

struct fault release_keys_add(struct op *op, struct release_keys *keys, const char *name, struct span pem)
{
    if (keys->count == RELEASE_KEYS_MAX) {
        return op_fail(op, FAULT(CONFIG), "there are more than %d release keys", RELEASE_KEYS_MAX);
    }
    CLEANUP(BIO_free_allp) BIO *bio = pem.len <= RELEASE_KEY_FILE_MAX ? BIO_new_mem_buf(pem.at, (int)pem.len) : NULL;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL, *second = NULL;
    key = bio != NULL ? PEM_read_bio_PUBKEY_ex(bio, NULL, NULL, NULL, crypto_context(), NULL) : NULL;
    second = key != NULL ? PEM_read_bio_PUBKEY_ex(bio, NULL, NULL, NULL, crypto_context(), NULL) : NULL;
    ERR_clear_error();
    const char *hash = key != NULL && second == NULL ? hash_of(key) : NULL;
    if (hash == NULL) {
        return op_fail(op, FAULT(CONFIG), "%s is not one public key on P-256 or P-384 in PEM", name);
    }
    struct release_key *made = &keys->at[keys->count++];
    (void)snprintf(made->name, sizeof(made->name), "%s", name);
    made->key = TAKE(key);
    made->hash = hash;
    return OK;
}

static struct fault load_file(struct op *op, struct release_keys *keys, const char *path)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(RELEASE_KEY_FILE_MAX);
    const char *slash = strrchr(path, '/');
    if (FAULTED(file_read(path, &pem))) {
        return op_fail(op, FAULT(CONFIG), "the release key %s cannot be read", path);
    }
    return release_keys_add(op, keys, slash != NULL ? slash + 1 : path, buf_span(&pem));
}

static int is_pem(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return entry->d_name[0] != '.' && len > 4 && strcmp(entry->d_name + len - 4, ".pem") == 0;
}

static struct fault load_folder(struct op *op, struct release_keys *keys, const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_pem, alphasort); /* in one order: the same key answers for the same file */
    struct fault fault =
        count > 0 && count <= FOLDER_MAX ? OK : op_fail(op, FAULT(CONFIG), "%s holds no release key (*.pem)", path);
    for (int i = 0; i < count; i++) {
        char file[4096];
        int len = snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        if (!FAULTED(fault)) {
            fault = len > 0 && (size_t)len < sizeof(file) ? load_file(op, keys, file) : FAULT(TOO_LARGE);
        }
        free(entries[i]);
    }
    free(entries);
    return fault;
}

struct fault release_keys_load(struct op *op, struct release_keys *keys, const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return op_fail(op, FAULT(CONFIG), "there is no release key at %s", path);
    }
    return S_ISDIR(status.st_mode) ? load_folder(op, keys, path) : load_file(op, keys, path);
}

static bool made_by(const struct release_key *key, struct span message, struct span signature)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool good = md != NULL &&
                EVP_DigestVerifyInit_ex(md, NULL, key->hash, crypto_context(), NULL, key->key, NULL) == 1 &&
                EVP_DigestVerify(md, signature.at, signature.len, message.at, message.len) == 1;
    ERR_clear_error();
    return good;
}

struct fault release_keys_verify(struct op *op, const struct release_keys *keys, struct span message,
                                 struct span signature, const char **ret_signer)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (made_by(&keys->at[i], message, signature)) {
            *ret_signer = keys->at[i].name;
            return OK;
        }
    }
    return op_fail(op, FAULT(RELEASE_SIGNATURE), "the signature was made by none of the %zu keys that are trusted here",
                   keys->count);
}
