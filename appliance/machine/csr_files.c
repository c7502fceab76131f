#include "appliance/machine/csr.h"

#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "appliance/machine/provision_store.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/process.h"

#include <openssl/pem.h>
#include <stdio.h>
#include <unistd.h>

#define USER_API "svc-api"

/* ---- files of svc-api, with its rights ---- */

struct file_work {
    const char *path;
    struct span bytes;
};

static struct fault read_work(struct op *op, void *arg, int output)
{
    const struct file_work *work = arg;
    CLEANUP(buf_free) struct buf text = BUF_INIT(CSR_CHAIN_MAX);
    struct fault got = file_read(work->path, &text);
    if (FAULTED(got)) {
        return got.code == FAULT_NOT_FOUND ? got : op_fail(op, got, "cannot read %s", work->path);
    }
    for (size_t sent = 0; sent < text.len;) {
        ssize_t put = write(output, text.at + sent, text.len - sent);
        REQUIRE(put > 0, IO);
        sent += (size_t)put;
    }
    return OK;
}

static struct fault write_work(struct op *op, void *arg, int output)
{
    (void)output;
    const struct file_work *work = arg;
    struct fault written = file_write(work->path, work->bytes, 0600);
    return FAULTED(written) ? op_fail(op, written, "cannot write %s", work->path) : OK;
}

static struct fault api_read(struct op *op, const char *path, struct buf *out)
{
    struct file_work work = { .path = path };
    return process_as(op, USER_API, read_work, &work, out);
}

static struct fault api_write(struct op *op, const char *path, struct span bytes)
{
    struct file_work work = { path, bytes };
    return process_as(op, USER_API, write_work, &work, NULL);
}

/* ---- request and import ---- */

static struct fault names_of(struct op *op, const struct provision *provision, const char *const **ret_names)
{
    struct provision_texts names = { 0 };
    const char **at = NULL;
    TRY(provision_listener_names(op, provision, &names));
    TRY(arena_take(op->arena, names.count + 1, sizeof(*at), &at));
    memcpy(at, names.at, names.count * sizeof(*at));
    *ret_names = at;
    return OK;
}

static struct fault mode_needed(struct op *op, const struct provision *provision)
{
    return provision->tls.mode == PROVISION_TLS_CSR
               ? OK
               : op_fail(op, FAULT(CONFLICT),
                         "this machine makes its own certificate (tls.mode self in the "
                         "provisioning)");
}

static struct fault key_ensure(struct op *op, struct buf *key)
{
    TRY(folder_own(op, LISTENER_DIR, USER_API, NULL, 0700));
    struct fault got = api_read(op, LISTENER_KEY, key);
    if (got.code != FAULT_NOT_FOUND) {
        return got;
    }
    TRY(csr_key_new(key));
    return api_write(op, LISTENER_KEY, buf_span(key));
}

struct fault csr_make(struct op *op, const struct provision *provision, struct buf *pem)
{
    CLEANUP(buf_free) struct buf key = BUF_INIT(CSR_PEM_MAX);
    const char *const *names = NULL;
    TRY(mode_needed(op, provision));
    TRY(names_of(op, provision, &names));
    TRY(key_ensure(op, &key));
    TRY(csr_print(op, names, buf_span(&key), pem));
    return api_write(op, LISTENER_CSR, buf_span(pem));
}

struct fault csr_import(struct op *op, const struct provision *provision, struct span chain)
{
    CLEANUP(buf_free) struct buf key = BUF_INIT(CSR_PEM_MAX);
    const char *const *names = NULL;
    TRY(mode_needed(op, provision));
    TRY(names_of(op, provision, &names));
    struct fault got = api_read(op, LISTENER_KEY, &key);
    if (got.code == FAULT_NOT_FOUND) {
        return op_fail(op, FAULT(CONFLICT), "there is no request yet: `certificate csr` makes one");
    }
    TRY(got);
    TRY(csr_check(op, names, buf_span(&key), chain));
    return api_write(op, LISTENER_CERT, chain);
}

/* ---- looking ---- */

static void print_fingerprint(const uint8_t *digest, unsigned len, char out[FINGERPRINT_TEXT])
{
    for (unsigned i = 0; i < len; i++) {
        size_t at = (size_t)3 * i;
        (void)snprintf(out + at, FINGERPRINT_TEXT - at, "%02X%s", digest[i], i + 1 < len ? ":" : "");
    }
}

struct fault certificate_view(struct op *op, struct span pem, struct certificate_view *ret_view)
{
    struct certificate_view view = { .not_after = 0 };
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    struct tm end = { 0 };
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    CLEANUP(X509_freep) X509 *certificate = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    if (certificate == NULL || X509_digest(certificate, EVP_sha256(), digest, &len) != 1 || len != 32 ||
        ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) {
        return crypto_fail(op, "no certificate in PEM form");
    }
    print_fingerprint(digest, len, view.fingerprint);
    (void)X509_NAME_oneline(X509_get_subject_name(certificate), view.subject, sizeof(view.subject));
    view.not_after = (utc_us)timegm(&end) * US_PER_S;
    *ret_view = view;
    return OK;
}

struct fault certificate_authority(struct op *op, struct certificate_view *ret_view)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(CSR_CHAIN_MAX);
    TRY(file_read(PRODUCT_DATA_DIR "/ca.pem", &pem));
    return certificate_view(op, buf_span(&pem), ret_view);
}

struct fault certificate_listener(struct op *op, const struct provision *provision, struct certificate_view *ret_view)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(CSR_CHAIN_MAX);
    bool imported = provision->tls.mode == PROVISION_TLS_CSR && path_exists(LISTENER_CERT);
    TRY(api_read(op, imported ? LISTENER_CERT : PRODUCT_DATA_DIR "/api/tls.crt", &pem));
    return certificate_view(op, buf_span(&pem), ret_view);
}
