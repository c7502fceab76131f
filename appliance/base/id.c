#include "appliance/base/id.h"

#include "appliance/base/clock.h"
#include "appliance/base/codec.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <pthread.h>
#include <stdatomic.h>

static OSSL_LIB_CTX *context; /* set before threads start */

void crypto_context_set(OSSL_LIB_CTX *libctx)
{
    context = libctx;
}

OSSL_LIB_CTX *crypto_context(void)
{
    return context;
}

/* The fetched algorithms of this process: fetching costs more than hashing 64 bytes, so each is fetched once. */
static pthread_mutex_t fetch_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(EVP_MD *) sha256_md;
static _Atomic(EVP_MAC *) hmac_mac;
static _Atomic(OSSL_LIB_CTX *) fetched_from;

/* Tests switch contexts; what was fetched from the old one must not be used then. */
static void forget_if_switched(void)
{
    if (fetched_from != context) {
        EVP_MD_free(atomic_exchange(&sha256_md, NULL));
        EVP_MAC_free(atomic_exchange(&hmac_mac, NULL));
        fetched_from = context;
    }
}

static void fetch_all(void)
{
    BUG_IF(pthread_mutex_lock(&fetch_lock) != 0);
    forget_if_switched();
    if (atomic_load(&sha256_md) == NULL) {
        atomic_store(&sha256_md, EVP_MD_fetch(context, "SHA2-256", NULL));
    }
    if (atomic_load(&hmac_mac) == NULL) {
        atomic_store(&hmac_mac, EVP_MAC_fetch(context, "HMAC", NULL));
    }
    BUG_IF(pthread_mutex_unlock(&fetch_lock) != 0);
}

static EVP_MD *sha256_algorithm(void)
{
    EVP_MD *md = atomic_load(&sha256_md);
    if (md == NULL || fetched_from != context) {
        fetch_all();
        md = atomic_load(&sha256_md);
    }
    return md;
}

static EVP_MAC *hmac_algorithm(void)
{
    EVP_MAC *mac = atomic_load(&hmac_mac);
    if (mac == NULL || fetched_from != context) {
        fetch_all();
        mac = atomic_load(&hmac_mac);
    }
    return mac;
}

struct fault random_bytes(uint8_t *at, size_t len)
{
    REQUIRE(RAND_bytes_ex(context, at, len, 0) == 1, CRYPTO);
    return OK;
}

struct fault sha256_of(struct span bytes, struct sha256 *ret_digest)
{
    return sha256_of_parts(&bytes, 1, ret_digest);
}

/* Each thread keeps one: a digest is made for every signature, and a context costs more than the digest. */
static pthread_key_t md_ctx_key;
static pthread_once_t md_ctx_once = PTHREAD_ONCE_INIT;

static void md_ctx_free(void *ctx)
{
    EVP_MD_CTX_free(ctx);
}

static void md_ctx_prepare(void)
{
    BUG_IF(pthread_key_create(&md_ctx_key, md_ctx_free) != 0);
}

static struct fault md_ctx_of_thread(EVP_MD_CTX **ret_ctx)
{
    BUG_IF(pthread_once(&md_ctx_once, md_ctx_prepare) != 0);
    EVP_MD_CTX *ctx = pthread_getspecific(md_ctx_key);
    if (ctx == NULL) {
        ctx = EVP_MD_CTX_new();
        REQUIRE(ctx != NULL, NO_MEMORY);
        if (pthread_setspecific(md_ctx_key, ctx) != 0) {
            EVP_MD_CTX_free(ctx);
            return FAULT(NO_MEMORY);
        }
    }
    *ret_ctx = ctx;
    return OK;
}

struct fault sha256_of_parts(const struct span *parts, size_t count, struct sha256 *ret_digest)
{
    EVP_MD *md = sha256_algorithm();
    EVP_MD_CTX *ctx = NULL;
    REQUIRE(md != NULL, CRYPTO);
    TRY(md_ctx_of_thread(&ctx));
    REQUIRE(EVP_DigestInit_ex2(ctx, md, NULL) == 1, CRYPTO);
    for (size_t i = 0; i < count; i++) {
        REQUIRE(EVP_DigestUpdate(ctx, parts[i].at, parts[i].len) == 1, CRYPTO);
    }
    struct sha256 digest;
    REQUIRE(EVP_DigestFinal_ex(ctx, digest.at, NULL) == 1, CRYPTO);
    *ret_digest = digest;
    return OK;
}

static void mac_ctx_freep(EVP_MAC_CTX **ctx)
{
    EVP_MAC_CTX_free(*ctx);
}

struct fault hmac_sha256(struct span key, const struct span *parts, size_t count, struct sha256 *ret_mac)
{
    EVP_MAC *mac = hmac_algorithm();
    REQUIRE(mac != NULL, CRYPTO);
    CLEANUP(mac_ctx_freep) EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac);
    REQUIRE(ctx != NULL, NO_MEMORY);
    char name[] = "SHA2-256";
    OSSL_PARAM params[] = { OSSL_PARAM_utf8_string("digest", name, 0), OSSL_PARAM_END };
    REQUIRE(EVP_MAC_init(ctx, key.at, key.len, params) == 1, CRYPTO);
    for (size_t i = 0; i < count; i++) {
        REQUIRE(EVP_MAC_update(ctx, parts[i].at, parts[i].len) == 1, CRYPTO);
    }
    struct sha256 digest;
    size_t len = 0;
    REQUIRE(EVP_MAC_final(ctx, digest.at, &len, sizeof(digest.at)) == 1 && len == sizeof(digest.at), CRYPTO);
    *ret_mac = digest;
    return OK;
}

static bool is_tenant_char(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

struct fault tenant_id_parse(struct span text, struct tenant_id *ret_id)
{
    struct tenant_id id = { 0 };
    REQUIRE(text.len >= 1 && text.len < sizeof(id.text), BAD_ARGUMENT);
    for (size_t i = 0; i < text.len; i++) {
        REQUIRE(is_tenant_char(text.at[i]) || (i > 0 && text.at[i] == '-'), BAD_ARGUMENT);
        id.text[i] = (char)text.at[i];
    }
    *ret_id = id;
    return OK;
}

bool tenant_id_equal(struct tenant_id a, struct tenant_id b)
{
    return strcmp(a.text, b.text) == 0;
}

static void uuid_print(const uint8_t bytes[16], struct uuid *ret_id)
{
    char hex[33];
    hex_text(span_of(bytes, 16), hex, sizeof(hex));
    size_t at = 0;
    for (size_t i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20) {
            ret_id->text[at++] = '-';
        }
        ret_id->text[at++] = hex[i];
    }
    ret_id->text[at] = 0;
}

struct fault uuid_parse(struct span text, struct uuid *ret_id)
{
    REQUIRE(text.len == 36, BAD_ARGUMENT);
    for (size_t i = 0; i < 36; i++) {
        uint8_t c = text.at[i];
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            REQUIRE(c == '-', BAD_ARGUMENT);
        } else {
            REQUIRE((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'), BAD_ARGUMENT);
        }
    }
    struct uuid id = { 0 };
    memcpy(id.text, text.at, 36);
    *ret_id = id;
    return OK;
}

struct fault uuid_new(struct uuid *ret_id)
{
    uint8_t bytes[16];
    TRY(random_bytes(bytes, sizeof(bytes)));
    uint64_t ms = (uint64_t)(clock_utc() / 1000);
    for (int i = 0; i < 6; i++) {
        bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    }
    bytes[6] = (uint8_t)(0x70 | (bytes[6] & 15));
    bytes[8] = (uint8_t)(0x80 | (bytes[8] & 63));
    uuid_print(bytes, ret_id);
    return OK;
}

#define DERIVE_PARTS_MAX 16

struct fault uuid_derive(const char *domain, const struct span *parts, size_t count, struct uuid *ret_id)
{
    BUG_IF(count > DERIVE_PARTS_MAX);
    /* domain NUL, then each part behind its 8-byte length: no two lists of parts give the same bytes */
    uint8_t lengths[DERIVE_PARTS_MAX][8];
    struct span all[1 + 2 * DERIVE_PARTS_MAX];
    size_t used = 0;
    all[used++] = span_of(domain, strlen(domain) + 1);
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < 8; k++) {
            lengths[i][k] = (uint8_t)((uint64_t)parts[i].len >> (56 - 8 * k));
        }
        all[used++] = SPAN_ARRAY(lengths[i]);
        all[used++] = parts[i];
    }
    struct sha256 digest;
    TRY(sha256_of_parts(all, used, &digest));
    digest.at[6] = (uint8_t)(0x80 | (digest.at[6] & 15));
    digest.at[8] = (uint8_t)(0x80 | (digest.at[8] & 63));
    uuid_print(digest.at, ret_id);
    return OK;
}

bool uuid_equal(struct uuid a, struct uuid b)
{
    return strcmp(a.text, b.text) == 0;
}
