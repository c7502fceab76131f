#include "appliance/supervisor/listener_cert.h"

#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/port.h"
#include "appliance/stores/process.h"
#include "appliance/supervisor/http.h"
#include "appliance/supervisor/units.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define RENEW_DAYS 30
#define NAMES_MAX  40
#define CHAIN_MAX  ((size_t)256 << 10)

struct listener_files {
    const char *ca, *leaf, *key;
    struct listener_pem pem;
};

static struct fault read_pair(struct op *op, void *arg, int output)
{
    (void)op;
    const struct listener_files *files = arg;
    CLEANUP(buf_free) struct buf leaf = BUF_INIT(LISTENER_PEM_MAX), key = BUF_INIT(LISTENER_PEM_MAX);
    TRY(file_read(files->leaf, &leaf));
    TRY(file_read(files->key, &key));
    /* One after the other; the reader parts them at the key's first line. */
    REQUIRE(write(output, leaf.at, leaf.len) == (ssize_t)leaf.len, IO);
    REQUIRE(write(output, key.at, key.len) == (ssize_t)key.len, IO);
    return OK;
}

static struct fault write_pair(struct op *op, void *arg, int output)
{
    (void)output;
    const struct listener_files *files = arg;
    struct fault written = file_write(files->key, buf_span(&files->pem.key), 0600);
    if (!FAULTED(written)) {
        written = file_write(files->leaf, buf_span(&files->pem.leaf), 0600);
    }
    return FAULTED(written) ? op_fail(op, written, "cannot write %s or %s", files->key, files->leaf) : OK;
}

static bool present_and_good(struct op *op, struct listener_files *files, const char *const *names)
{
    CLEANUP(buf_free) struct buf ca = BUF_INIT(LISTENER_PEM_MAX), pair = BUF_INIT(2 * LISTENER_PEM_MAX);
    if (!path_exists(files->leaf) || !path_exists(files->key) || FAULTED(file_read(files->ca, &ca)) ||
        FAULTED(process_as(op, USER_API, read_pair, files, &pair))) {
        return false;
    }
    static const char key_line[] = "-----BEGIN PRIVATE KEY-----";
    const uint8_t *key = memmem(pair.at, pair.len, key_line, sizeof(key_line) - 1);
    if (key == NULL) {
        return false;
    }
    size_t leaf_len = (size_t)(key - pair.at);
    return listener_cert_good(buf_span(&ca), span_of(pair.at, leaf_len), span_of(key, pair.len - leaf_len), names,
                              RENEW_DAYS);
}

static void add_name(const char *names[NAMES_MAX], const char *name)
{
    size_t used = 0;
    for (; names[used] != NULL; used++) {
        if (strcmp(names[used], name) == 0) {
            return;
        }
    }
    BUG_IF(used + 1 >= NAMES_MAX);
    names[used] = name;
}

/* "https://signer.example:8443/x" -> "signer.example" */
static struct fault url_host(struct op *op, const char *url, const char **ret_host)
{
    const char *start = strstr(url, "://");
    start = start != NULL ? start + 3 : url;
    size_t len = start[0] == '[' ? strcspn(++start, "]") : strcspn(start, ":/");
    return arena_text(op->arena, span_of(start, len), ret_host);
}

/* What clients may call this listener. */
static struct fault names_of(struct op *op, const struct config *config, const char *names[NAMES_MAX])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    const char *host = NULL, *port = NULL;
    char own[256] = "";
    add_name(names, "localhost");
    add_name(names, "127.0.0.1");
    add_name(names, "::1");
    if (gethostname(own, sizeof(own) - 1) == 0 && own[0] != '\0' && strspn(own, letters) == strlen(own)) {
        TRY(arena_text(op->arena, span_text(own), &host));
        add_name(names, host);
    }
    TRY(port_split(op, config->http_listen, &host, &port));
    add_name(names, http_own_host(host));
    if (config->http_base_url[0] != '\0') {
        TRY(url_host(op, config->http_base_url, &host));
        add_name(names, http_own_host(host));
    }
    for (size_t i = 0; i < config->http_tls_names.count; i++) {
        add_name(names, config->http_tls_names.at[i]);
    }
    return OK;
}

static struct fault make_files(struct op *op, struct listener_files *files, const char *const *names)
{
    struct fault made = listener_cert_make(op, names, &files->pem);
    if (FAULTED(made)) {
        return op_fail(op, made, "cannot make the certificate of the HTTPS listener");
    }
    TRY(process_as(op, USER_API, write_pair, files, NULL));
    TRY(file_write(files->ca, buf_span(&files->pem.ca), 0644));
    log_write(INFO, "listener_certificate_made", LOG_TEXT("ca_file", files->ca));
    return OK;
}

static struct fault own_certificate(struct op *op, struct listener_files *files, const struct config *config)
{
    const char *names[NAMES_MAX] = { 0 };
    TRY(names_of(op, config, names));
    if (present_and_good(op, files, names)) {
        return OK;
    }
    files->pem =
        (struct listener_pem){ BUF_INIT(LISTENER_PEM_MAX), BUF_INIT(LISTENER_PEM_MAX), BUF_INIT(LISTENER_PEM_MAX) };
    struct fault made = make_files(op, files, names);
    buf_free(&files->pem.ca);
    buf_free(&files->pem.leaf);
    buf_free(&files->pem.key);
    return made;
}

/* The last certificate of the configured chain is what clients have to trust. */
static struct fault configured_certificate(struct op *op, const char *ca_file, const struct config *config)
{
    CLEANUP(buf_free) struct buf chain = BUF_INIT(CHAIN_MAX);
    static const char begin[] = "-----BEGIN CERTIFICATE-----";
    if (FAULTED(file_read(config->http_tls_certificate, &chain))) {
        return op_fail(op, FAULT(CONFIG), "http.tls_certificate_file: cannot read %s", config->http_tls_certificate);
    }
    const uint8_t *last = NULL, *from = chain.at;
    while (from != NULL && from < chain.at + chain.len) {
        from = memmem(from, (size_t)(chain.at + chain.len - from), begin, sizeof(begin) - 1);
        last = from != NULL ? from : last;
        from = from != NULL ? from + 1 : NULL;
    }
    if (last == NULL) {
        return op_fail(op, FAULT(CONFIG), "http.tls_certificate_file: %s holds no certificate in PEM form",
                       config->http_tls_certificate);
    }
    return file_write(ca_file, span_of(last, (size_t)(chain.at + chain.len - last)), 0644);
}

struct fault listener_cert_ensure(struct op *op, const struct config *config)
{
    struct listener_files files = { 0 };
    const char *folder = NULL;
    TRY(folder_path(op, config->data_dir, "ca.pem", &files.ca));
    TRY(folder_path(op, config->data_dir, "api", &folder));
    TRY(folder_path(op, folder, "tls.crt", &files.leaf));
    TRY(folder_path(op, folder, "tls.key", &files.key));
    bool own = config->http_tls_certificate[0] == '\0' || strcmp(config->http_tls_certificate, files.leaf) == 0;
    return own ? own_certificate(op, &files, config) : configured_certificate(op, files.ca, config);
}
