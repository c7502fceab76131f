/* Where a method's keys come from: a file that is read now, or a URL that is asked when the first proof comes. */
#include "api/attest/methods.h"

#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "appliance/base/log.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#define CA_MAX ((size_t)1 << 20)

static unsigned line_of(const struct yaml_node *node, const char *key)
{
    const struct yaml_node *child = yaml_tree_get(node, key);
    return child != NULL ? child->line : node->line;
}

static struct fault read_pinned(struct reading *reading, const struct yaml_node *node, const char *key,
                                const char *path, struct buf *bytes, struct sha256 *ret_digest)
{
    struct fault fault = file_read(path, bytes);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return refuse_at(reading, line_of(node, key), "%s: %.200s cannot be read: %s", key, path,
                         fault_row(fault.code)->title);
    }
    return sha256_of(buf_span(bytes), ret_digest);
}

static struct fault parse_pinned(struct reading *reading, const struct yaml_node *node, const struct method *method,
                                 struct span json, struct key_set **ret_set)
{
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(op_new("system:start", method->tenant, 1000, &op));
    struct fault fault = key_set_parse(op, json, ret_set);
    if (fault.code == FAULT_JWS_FORMAT) {
        return refuse_at(reading, line_of(node, "jwks_file"), "jwks_file: %.200s: %s%s%s", method->jwks_file,
                         op->note.detail, op->note.pointer[0] != '\0' ? " at " : "", op->note.pointer);
    }
    TRY(fault);
    if ((*ret_set)->left_out > 0) {
        log_write(WARN, "jwks_keys_left_out", LOG_TEXT("file", method->jwks_file),
                  LOG_INT("keys", (*ret_set)->jwks.count), LOG_INT("left_out", (*ret_set)->left_out));
    }
    return OK;
}

static struct fault open_file(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(JWKS_MAX);
    CLEANUP(key_set_unrefp) struct key_set *set = NULL;
    TRY(read_pinned(reading, node, "jwks_file", method->jwks_file, &json, &method->pinned));
    TRY(parse_pinned(reading, node, method, buf_span(&json), &set));
    TRY(issuer_keys_new_pinned(set, &method->keys));
    set = NULL; /* taken */
    return OK;
}

static struct fault check_authorities(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(CA_MAX);
    TRY(read_pinned(reading, node, "jwks_ca_file", method->ca_file, &pem, &method->pinned));
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.len > 0 ? pem.at : (const uint8_t *)"", (int)pem.len);
    CLEANUP(X509_freep) X509 *certificate = NULL;
    REQUIRE(bio != NULL, NO_MEMORY);
    certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    ERR_clear_error();
    return certificate != NULL ? OK
                               : refuse_at(reading, line_of(node, "jwks_ca_file"),
                                           "jwks_ca_file: %.200s holds no PEM certificate", method->ca_file);
}

static bool same_path(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static struct fault open_url(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    struct attest *attest = reading->attest;
    if (method->ca_file != NULL) {
        TRY(check_authorities(reading, node, method));
    }
    for (size_t i = 0; i < attest->method_count; i++) {
        const struct method *other = &attest->methods[i];
        if (other->jwks_url != NULL && strcmp(other->jwks_url, method->jwks_url) == 0 &&
            same_path(other->ca_file, method->ca_file)) {
            method->keys = other->keys;
            return OK;
        }
    }
    const struct keys_source source = {
        .url = method->jwks_url,
        .ca_file = method->ca_file,
        .fetch = keys_fetch_https,
        .now = clock_mono,
        .metrics = attest->metrics,
    };
    return issuer_keys_new(&source, &method->keys);
}

struct fault method_open_keys(struct reading *reading, const struct yaml_node *node, struct method *method)
{
    struct attest *attest = reading->attest;
    TRY(method->jwks_file != NULL ? open_file(reading, node, method) : open_url(reading, node, method));
    for (size_t i = 0; i < attest->source_count; i++) {
        if (attest->sources[i] == method->keys) {
            return OK;
        }
    }
    attest->sources[attest->source_count++] = method->keys;
    return OK;
}
