#include "appliance/machine/admin.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/file.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdio.h>

/* PBKDF2 with HMAC-SHA-512 (NIST SP 800-132). The hash is only reachable for who has opened the state already. */
#define MAGIC        "pbkdf2-sha512"
#define ITERATIONS   220000u
#define SALT_LEN     16
#define HASH_LEN     32
#define PIN_LINE_MAX 512

DEFINE_FREEP(EVP_KDF, EVP_KDF_free)
DEFINE_FREEP(EVP_KDF_CTX, EVP_KDF_CTX_free)

static struct fault hash_of(struct op *op, struct span pin, struct span salt, unsigned iterations,
                            uint8_t ret_hash[HASH_LEN])
{
    CLEANUP(EVP_KDF_freep) EVP_KDF *kdf = EVP_KDF_fetch(crypto_context(), "PBKDF2", NULL);
    CLEANUP(EVP_KDF_CTX_freep) EVP_KDF_CTX *context = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PASSWORD, (void *)pin.at, pin.len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt.at, salt.len),
        OSSL_PARAM_construct_uint(OSSL_KDF_PARAM_ITER, &iterations),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA512", 0),
        OSSL_PARAM_construct_end(),
    };
    if (context == NULL || EVP_KDF_derive(context, ret_hash, HASH_LEN, params) != 1) {
        return crypto_fail(op, "the PIN cannot be hashed");
    }
    return OK;
}

struct fault admin_pin_set(struct op *op, const char *path, const struct secret *pin)
{
    uint8_t salt[SALT_LEN], hash[HASH_LEN];
    char salt_text[2 * SALT_LEN + 1], hash_text[2 * HASH_LEN + 1];
    CLEANUP(buf_free) struct buf line = BUF_INIT(PIN_LINE_MAX);
    TRY(random_bytes(salt, sizeof(salt)));
    TRY(hash_of(op, secret_span(pin), SPAN_ARRAY(salt), ITERATIONS, hash));
    hex_text(SPAN_ARRAY(salt), salt_text, sizeof(salt_text));
    hex_text(SPAN_ARRAY(hash), hash_text, sizeof(hash_text));
    TRY(buf_printf(&line, "%s %u %s %s\n", MAGIC, ITERATIONS, salt_text, hash_text));
    struct fault written = file_write(path, buf_span(&line), 0600);
    secret_wipe(hash, sizeof(hash));
    secret_wipe(hash_text, sizeof(hash_text));
    return FAULTED(written) ? op_fail(op, written, "cannot write %s", path) : OK;
}

/* The next word of a line, and the line behind it. */
static struct span word(struct span *line)
{
    size_t len = 0;
    while (len < line->len && line->at[len] != ' ' && line->at[len] != '\n') {
        len++;
    }
    struct span found = span_of(line->at, len);
    size_t used = len + (len < line->len);
    *line = span_of(line->at + used, line->len - used);
    return found;
}

static bool number_of(struct span text, unsigned *ret_number)
{
    unsigned number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || i > 7) {
            return false;
        }
        number = number * 10 + (text.at[i] - '0');
    }
    *ret_number = number;
    return text.len > 0 && number >= 1000;
}

struct fault admin_pin_check(struct op *op, const char *path, const struct secret *pin)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(PIN_LINE_MAX), salt = BUF_INIT(64), hash = BUF_INIT(64);
    unsigned iterations = 0;
    uint8_t own[HASH_LEN];
    struct fault got = file_read(path, &line);
    if (FAULTED(got)) {
        return got.code == FAULT_NOT_FOUND ? got : op_fail(op, FAULT(CONFIG), "cannot read %s", path);
    }
    struct span rest = buf_span(&line);
    bool whole = span_equal_text(word(&rest), MAGIC) && number_of(word(&rest), &iterations) &&
                 !FAULTED(hex_decode(word(&rest), &salt)) && !FAULTED(hex_decode(word(&rest), &hash)) &&
                 rest.len == 0 && salt.len == SALT_LEN && hash.len == HASH_LEN;
    if (!whole) {
        return op_fail(op, FAULT(CONFIG), "%s is damaged", path);
    }
    TRY(hash_of(op, secret_span(pin), buf_span(&salt), iterations, own));
    bool same = secret_equal(buf_span(&hash), SPAN_ARRAY(own));
    secret_wipe(own, sizeof(own));
    return same ? OK : op_fail(op, FAULT(FORBIDDEN), "the PIN is not the one of this machine");
}
