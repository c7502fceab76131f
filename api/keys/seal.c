#include "api/keys/seal.h"

#include "api/keys/keys.h"
#include "appliance/base/secret.h"

#include <openssl/evp.h>
#include <pthread.h>

#define SEAL_VERSION     1
#define DATA_KEY_LEN     32
#define NONCE_LEN        12
#define TAG_LEN          16
#define WRAPPED_MAX      512
#define DATA_KEYS        64 /* of all tenants, made here or opened; the oldest place is used again */
#define DATA_KEY_LIFE_NS (3600 * NS_PER_S)
#define DATA_KEY_USES    (UINT64_C(1) << 24) /* far from the 2^32 random nonces that NIST SP 800-38D 8.3 allows */
#define SEAL_PLAIN_MAX   ((size_t)256 << 10)

struct data_key {
    struct tenant_id tenant;
    struct uuid seal_key;
    uint8_t wrapped[WRAPPED_MAX];
    size_t wrapped_len;
    struct secret *secret; /* NULL = the place is free */
    bool made_here;        /* may seal; one that was only opened may not */
    mono_ns until;
    uint64_t uses;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below; never held over a call outside */
static struct data_key keys[DATA_KEYS];
static size_t next_place;

/* A data key copied out, so that nobody else's eviction matters. */
struct opened {
    struct uuid seal_key;
    uint8_t wrapped[WRAPPED_MAX];
    size_t wrapped_len;
    uint8_t key[DATA_KEY_LEN];
};

static void opened_wipe(struct opened *opened)
{
    secret_wipe(opened->key, sizeof(opened->key));
}

static void enter(void)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
}

static void leave(void)
{
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

static bool copy_out(const struct data_key *from, struct opened *ret_opened)
{
    ret_opened->seal_key = from->seal_key;
    memcpy(ret_opened->wrapped, from->wrapped, from->wrapped_len);
    ret_opened->wrapped_len = from->wrapped_len;
    memcpy(ret_opened->key, secret_span(from->secret).at, DATA_KEY_LEN);
    return true;
}

static bool find_to_seal(struct tenant_id tenant, struct opened *ret_opened)
{
    bool found = false;
    mono_ns now = clock_mono();
    enter();
    for (size_t i = 0; i < DATA_KEYS && !found; i++) {
        struct data_key *key = &keys[i];
        if (key->secret != NULL && key->made_here && tenant_id_equal(key->tenant, tenant) && now < key->until &&
            key->uses < DATA_KEY_USES) {
            key->uses++;
            found = copy_out(key, ret_opened);
        }
    }
    leave();
    return found;
}

static bool find_to_open(struct tenant_id tenant, struct span wrapped, struct opened *ret_opened)
{
    bool found = false;
    enter();
    for (size_t i = 0; i < DATA_KEYS && !found; i++) {
        const struct data_key *key = &keys[i];
        found = key->secret != NULL && tenant_id_equal(key->tenant, tenant) &&
                span_equal(span_of(key->wrapped, key->wrapped_len), wrapped) && copy_out(key, ret_opened);
    }
    leave();
    return found;
}

static struct fault keep(struct tenant_id tenant, const struct opened *opened, bool made_here)
{
    struct secret *secret = NULL;
    TRY(secret_new(SPAN_ARRAY(opened->key), &secret));
    struct data_key made = {
        .tenant = tenant,
        .seal_key = opened->seal_key,
        .wrapped_len = opened->wrapped_len,
        .secret = secret,
        .made_here = made_here,
        .until = clock_mono() + DATA_KEY_LIFE_NS,
    };
    memcpy(made.wrapped, opened->wrapped, opened->wrapped_len);
    enter();
    struct data_key *place = &keys[next_place];
    struct secret *old = place->secret;
    *place = made;
    next_place = (next_place + 1) % DATA_KEYS;
    leave();
    secret_free(old);
    return OK;
}

void keys_seal_renew(struct tenant_id tenant)
{
    enter();
    for (size_t i = 0; i < DATA_KEYS; i++) {
        keys[i].made_here = keys[i].made_here && !tenant_id_equal(keys[i].tenant, tenant);
    }
    leave();
}

void keys_seal_forget(void)
{
    enter();
    for (size_t i = 0; i < DATA_KEYS; i++) {
        secret_free(TAKE(keys[i].secret));
    }
    leave();
}

/* Binds a wrapped data key to its tenant and use. */
static struct fault wrap_aad(struct op *op, struct buf *out)
{
    return buf_printf(out, "svc.seal.data-key.v1/%s", op->tenant.text);
}

static struct fault new_data_key(struct op *op, struct services *services, struct opened *opened)
{
    CLEANUP(buf_free) struct buf aad = BUF_INIT(256);
    CLEANUP(buf_free) struct buf wrapped = BUF_INIT(WRAPPED_MAX);
    struct managed_key seal;
    TRY(keys_ensure(op, services, KEY_PURPOSE_SEAL, KEY_ALGORITHM_AES_256, SEAL_KEY_NAME, &seal));
    TRY(wrap_aad(op, &aad));
    TRY(random_bytes(opened->key, sizeof(opened->key)));
    TRY(signer_seal(op, services->signer, &seal.ref, buf_span(&aad), SPAN_ARRAY(opened->key), &wrapped));
    opened->seal_key = seal.ref.id;
    memcpy(opened->wrapped, wrapped.at, wrapped.len);
    opened->wrapped_len = wrapped.len;
    return keep(op->tenant, opened, true);
}

static struct fault open_data_key(struct op *op, struct services *services, struct uuid seal_key, struct span wrapped,
                                  struct opened *opened)
{
    if (find_to_open(op->tenant, wrapped, opened)) {
        return OK;
    }
    CLEANUP(buf_free) struct buf aad = BUF_INIT(256);
    CLEANUP(buf_free) struct buf plain = BUF_INIT(DATA_KEY_LEN);
    const struct key_ref ref = { .tenant = op->tenant, .purpose = KEY_PURPOSE_SEAL, .id = seal_key };
    TRY(wrap_aad(op, &aad));
    TRY(signer_unseal(op, services->signer, &ref, buf_span(&aad), wrapped, &plain));
    REQUIRE(plain.len == DATA_KEY_LEN && wrapped.len <= WRAPPED_MAX, UNSEAL);
    opened->seal_key = seal_key;
    memcpy(opened->wrapped, wrapped.at, wrapped.len);
    opened->wrapped_len = wrapped.len;
    memcpy(opened->key, plain.at, DATA_KEY_LEN);
    return keep(op->tenant, opened, false);
}

static struct fault put_header(const struct opened *opened, struct buf *out)
{
    TRY(buf_u8(out, SEAL_VERSION));
    TRY(buf_u16(out, (uint16_t)strlen(opened->seal_key.text)));
    TRY(buf_text(out, opened->seal_key.text));
    TRY(buf_u16(out, (uint16_t)opened->wrapped_len));
    return buf_put(out, span_of(opened->wrapped, opened->wrapped_len));
}

struct gcm {
    EVP_CIPHER *cipher;
    EVP_CIPHER_CTX *ctx;
};

static void gcm_clear(struct gcm *gcm)
{
    EVP_CIPHER_CTX_free(gcm->ctx);
    EVP_CIPHER_free(gcm->cipher);
}

static struct fault gcm_init(struct gcm *gcm)
{
    gcm->cipher = EVP_CIPHER_fetch(crypto_context(), "AES-256-GCM", NULL);
    gcm->ctx = EVP_CIPHER_CTX_new();
    REQUIRE(gcm->cipher != NULL && gcm->ctx != NULL, CRYPTO);
    return OK;
}

static bool gcm_authenticate(struct gcm *gcm, bool sealing, struct span header, struct span aad)
{
    int ignored = 0;
    int (*update)(EVP_CIPHER_CTX *, unsigned char *, int *, const unsigned char *, int) =
        sealing ? EVP_EncryptUpdate : EVP_DecryptUpdate;
    return update(gcm->ctx, NULL, &ignored, header.at, (int)header.len) == 1 &&
           (aad.len == 0 || update(gcm->ctx, NULL, &ignored, aad.at, (int)aad.len) == 1);
}

/* The nonce is drawn inside the module (no IV is given), as FIPS 140-3 IG C.H wants it for GCM. */
static struct fault gcm_seal(const uint8_t *key, struct span header, struct span aad, struct span plain,
                             struct buf *out)
{
    CLEANUP(gcm_clear) struct gcm gcm = { 0 };
    CLEANUP(buf_free) struct buf cipher = BUF_INIT(SEAL_PLAIN_MAX);
    uint8_t nonce[NONCE_LEN], tag[TAG_LEN];
    uint8_t *at = NULL;
    int len = 0, more = 0;
    TRY(gcm_init(&gcm));
    TRY(buf_reserve(&cipher, plain.len, &at));
    bool good = EVP_EncryptInit_ex2(gcm.ctx, gcm.cipher, key, NULL, NULL) == 1 &&
                gcm_authenticate(&gcm, true, header, aad) &&
                EVP_EncryptUpdate(gcm.ctx, at, &len, plain.at, (int)plain.len) == 1 &&
                EVP_EncryptFinal_ex(gcm.ctx, at + len, &more) == 1 && (size_t)len + (size_t)more == plain.len &&
                EVP_CIPHER_CTX_get_original_iv(gcm.ctx, nonce, sizeof(nonce)) == 1 &&
                EVP_CIPHER_CTX_ctrl(gcm.ctx, EVP_CTRL_AEAD_GET_TAG, TAG_LEN, tag) == 1;
    REQUIRE(good, CRYPTO);
    TRY(buf_put(out, SPAN_ARRAY(nonce)));
    TRY(buf_put(out, buf_span(&cipher)));
    return buf_put(out, SPAN_ARRAY(tag));
}

static struct fault gcm_open(const uint8_t *key, struct span header, struct span aad, struct span nonce,
                             struct span cipher_and_tag, struct buf *plain)
{
    CLEANUP(gcm_clear) struct gcm gcm = { 0 };
    CLEANUP(buf_free) struct buf opened = BUF_INIT(SEAL_PLAIN_MAX); /* handed over only once the tag is good */
    uint8_t tag[TAG_LEN];
    uint8_t *at = NULL;
    int len = 0, more = 0;
    size_t cipher_len = cipher_and_tag.len - TAG_LEN;
    memcpy(tag, cipher_and_tag.at + cipher_len, TAG_LEN);
    TRY(gcm_init(&gcm));
    TRY(buf_reserve(&opened, cipher_len, &at));
    bool ready = EVP_DecryptInit_ex2(gcm.ctx, gcm.cipher, key, nonce.at, NULL) == 1 &&
                 gcm_authenticate(&gcm, false, header, aad) &&
                 EVP_CIPHER_CTX_ctrl(gcm.ctx, EVP_CTRL_AEAD_SET_TAG, TAG_LEN, tag) == 1;
    REQUIRE(ready, CRYPTO);
    bool good = EVP_DecryptUpdate(gcm.ctx, at, &len, cipher_and_tag.at, (int)cipher_len) == 1 &&
                EVP_DecryptFinal_ex(gcm.ctx, at + len, &more) == 1 && (size_t)len + (size_t)more == cipher_len;
    REQUIRE(good, UNSEAL);
    return buf_put(plain, buf_span(&opened));
}

struct fault keys_seal_prepare(struct op *op, struct services *services)
{
    CLEANUP(opened_wipe) struct opened opened = { 0 };
    return find_to_seal(op->tenant, &opened) ? OK : new_data_key(op, services, &opened);
}

struct fault keys_seal(struct op *op, struct services *services, struct span aad, struct span plain, struct buf *sealed)
{
    CLEANUP(opened_wipe) struct opened opened = { 0 };
    CLEANUP(buf_free) struct buf header = BUF_INIT(KEYS_SEAL_OVERHEAD);
    REQUIRE(plain.len >= 1 && plain.len <= SEAL_PLAIN_MAX, TOO_LARGE);
    if (!find_to_seal(op->tenant, &opened)) {
        TRY(new_data_key(op, services, &opened));
    }
    TRY(put_header(&opened, &header));
    TRY(buf_put(sealed, buf_span(&header)));
    return gcm_seal(opened.key, buf_span(&header), aad, plain, sealed);
}

static struct fault unseal(struct op *op, struct services *services, struct span aad, struct span sealed,
                           struct buf *plain)
{
    CLEANUP(opened_wipe) struct opened opened = { 0 };
    struct reader reader = { sealed };
    struct span id, wrapped, nonce;
    struct uuid seal_key;
    uint8_t version = 0;
    uint16_t len = 0;
    TRY(reader_u8(&reader, &version));
    REQUIRE(version == SEAL_VERSION, UNSEAL);
    TRY(reader_u16(&reader, &len));
    TRY(reader_bytes(&reader, len, &id));
    TRY(uuid_parse(id, &seal_key));
    TRY(reader_u16(&reader, &len));
    TRY(reader_bytes(&reader, len, &wrapped));
    struct span header = span_of(sealed.at, sealed.len - reader.rest.len);
    TRY(reader_bytes(&reader, NONCE_LEN, &nonce));
    REQUIRE(reader.rest.len > TAG_LEN && reader.rest.len <= SEAL_PLAIN_MAX + TAG_LEN, UNSEAL);
    TRY(open_data_key(op, services, seal_key, wrapped, &opened));
    return gcm_open(opened.key, header, aad, nonce, reader.rest, plain);
}

struct fault keys_unseal(struct op *op, struct services *services, struct span aad, struct span sealed,
                         struct buf *plain)
{
    struct fault fault = unseal(op, services, aad, sealed, plain);
    return fault.code == FAULT_BAD_ARGUMENT ? FAULT(UNSEAL) : fault; /* bytes that are cut short */
}
