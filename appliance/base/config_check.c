#include "appliance/base/clock.h"
#include "appliance/base/config_rows.h"
#include "appliance/base/id.h"
#include "appliance/base/log.h"
#include "appliance/base/tracing.h"

#include <arpa/inet.h>
#include <sys/un.h>

#define TLS_NAMES_MAX 32

static bool host_is_name(struct span host)
{
    for (size_t i = 0; i < host.len; i++) {
        uint8_t c = host.at[i], lower = c | 0x20;
        if ((lower < 'a' || lower > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_') {
            return false;
        }
    }
    return host.len > 0;
}

/* "127.0.0.1", "name.example" or "[::1]". */
static bool host_fits(struct span host)
{
    char inside[INET6_ADDRSTRLEN] = "";
    if (host.len < 2 || host.at[0] != '[') {
        return host_is_name(host);
    }
    if (host.at[host.len - 1] != ']' || host.len - 2 >= sizeof(inside)) {
        return false;
    }
    memcpy(inside, host.at + 1, host.len - 2);
    struct in6_addr address;
    return inet_pton(AF_INET6, inside, &address) == 1;
}

static void check_listen(struct load *load, const char *key, const char *text)
{
    const char *colon = strrchr(text, ':');
    int64_t port = 0;
    if (colon == NULL || !host_fits(span_of(text, (size_t)(colon - text))) || colon[1] == '-' ||
        !config_parse_int(colon + 1, &port) || port < 1 || port > 65535) {
        config_refuse_key(load, key, "'%.80s' must be ADDRESS:PORT, for example 127.0.0.1:8443", text);
    }
}

static void check_log(struct load *load, const struct config *config)
{
    enum log_level level;
    enum log_format format;
    if (FAULTED(log_level_parse(config->log_level, &level))) {
        config_refuse_key(load, "log.level", "'%.40s' must be debug, info, warn or error", config->log_level);
    }
    if (FAULTED(log_format_parse(config->log_format, &format))) {
        config_refuse_key(load, "log.format", "'%.40s' must be json or text", config->log_format);
    }
}

static void check_audit(struct load *load, const struct config *config)
{
    if (strcmp(config->audit_algorithm, "ES256") != 0 && strcmp(config->audit_algorithm, "PS256") != 0) {
        config_refuse_key(load, "audit.signature_algorithm", "'%.40s' must be ES256 or PS256", config->audit_algorithm);
    }
}

/* They become names of a certificate: whole ones, without a wildcard. */
static void check_tls_names(struct load *load, const struct config_list *names)
{
    if (names->count > TLS_NAMES_MAX) {
        config_refuse_key(load, "http.tls_names", "at most %d names", TLS_NAMES_MAX);
    }
    for (size_t i = 0; i < names->count; i++) {
        struct in6_addr address;
        if (inet_pton(AF_INET6, names->at[i], &address) != 1 &&
            (strlen(names->at[i]) > 253 || !host_is_name(span_text(names->at[i])))) {
            config_refuse_key(load, "http.tls_names", "'%.80s' is neither a host name nor an address", names->at[i]);
        }
    }
}

static void check_http(struct load *load, const struct config *config)
{
    check_tls_names(load, &config->http_tls_names);
    check_listen(load, "http.listen", config->http_listen);
    if (config->http_plain_listen[0] != 0) {
        check_listen(load, "http.plain_listen", config->http_plain_listen);
    }
    if (config->http_probe_listen[0] != 0) {
        check_listen(load, "http.probe_listen", config->http_probe_listen);
    }
    if ((config->http_tls_certificate[0] == 0) != (config->http_tls_key[0] == 0)) {
        bool key_missing = config->http_tls_key[0] == 0;
        config_refuse_key(load, key_missing ? "http.tls_certificate_file" : "http.tls_key_file",
                          "is given without %s; give both or none",
                          key_missing ? "http.tls_key_file" : "http.tls_certificate_file");
    }
    int64_t inside =
        config->bulkhead_api + config->bulkhead_protocol + config->bulkhead_heavy + config->bulkhead_evidence;
    if (config->http_threads <= inside) {
        config_refuse_key(load, "http.threads", "%lld must be more than the sum of the bulkheads' limits, %lld",
                          (long long)config->http_threads, (long long)inside);
    }
}

/* Every path of the embedded profile stands below these two, unix sockets included. */
static void check_folder(struct load *load, const char *key, const char *path)
{
    if (path[0] != '/') {
        config_refuse_key(load, key, "'%.80s' must be an absolute path", path);
    }
}

static void check_paths(struct load *load, const struct config *config)
{
    static const char socket_below[] = "/signer/signer.sock";
    struct sockaddr_un address;
    check_folder(load, "data_dir", config->data_dir);
    check_folder(load, "run_dir", config->run_dir);
    if (config->signer_socket[0] != 0 && strlen(config->signer_socket) >= sizeof(address.sun_path)) {
        config_refuse_key(load, "signer.socket", "must be shorter than %zu bytes", sizeof(address.sun_path));
    }
    if (strlen(config->run_dir) + sizeof(socket_below) > sizeof(address.sun_path)) {
        config_refuse_key(load, "run_dir", "must be shorter than %zu bytes, to leave room for socket names",
                          sizeof(address.sun_path) - sizeof(socket_below) + 1);
    }
    if (config->token_module[0] != 0 && config->token_pin_file[0] == 0 && strcmp(config->token_login, "user") == 0) {
        config_refuse_key(load, "token.pin_file", "is needed with token.module, unless token.login is not user");
    }
    if (config->tokens_file[0] != 0 && config->token_module[0] != 0) {
        config_refuse_key(load, "token.tokens_file", "describes every token: leave token.module out");
    }
}

/* Read by programs that have another working directory; empty = not given. */
static void check_file(struct load *load, const char *key, const char *path)
{
    if (path[0] != 0) {
        check_folder(load, key, path);
    }
}

/* The host alone is compared, up to its port or path. */
static bool url_is_loopback(const char *rest)
{
    static const char *const hosts[] = { "127.0.0.1", "localhost", "[::1]" };
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        size_t len = strlen(hosts[i]);
        if (strncmp(rest, hosts[i], len) == 0 && strchr(":/", rest[len]) != NULL) { /* its NUL, too */
            return true;
        }
    }
    return false;
}

/* Identity proofs travel there: they are as good as a password for their few minutes. */
static void check_fulcio(struct load *load, const struct config *config)
{
    const char *url = config->fulcio_url;
    bool tls = strncmp(url, "https://", 8) == 0 && url[8] != 0;
    if (!tls && !(strncmp(url, "http://", 7) == 0 && url_is_loopback(url + 7))) {
        config_refuse_key(load, "code_signing.keyless.fulcio_url",
                          "'%.80s' must start with https://; http:// does for this machine only", url);
    }
    if (config->fulcio_root[0] == 0) {
        config_refuse_key(load, "code_signing.keyless.fulcio_root_file",
                          "is needed with code_signing.keyless.fulcio_url");
    }
}

static void check_codesign(struct load *load, const struct config *config)
{
    check_file(load, "token.tokens_file", config->tokens_file);
    check_file(load, "token.public_keys_dir", config->token_public_keys);
    check_file(load, "code_signing.keyless.attestors_file", config->attestors_file);
    check_file(load, "code_signing.keyless.fulcio_ca_file", config->fulcio_ca);
    check_file(load, "code_signing.keyless.fulcio_root_file", config->fulcio_root);
    check_file(load, "code_signing.transparency.logs_file", config->tlogs_file);
    if (config->keyless_enabled && config->attestors_file[0] == 0) {
        config_refuse_key(load, "code_signing.keyless.attestors_file", "is needed with code_signing.keyless.enabled");
    }
    if (config->fulcio_url[0] != 0) {
        check_fulcio(load, config);
    }
    if (config->policy_enabled) {
        check_folder(load, "policy_dir", config->policy_dir);
    }
}

/* Both ends of the connection between hosts need the same four; a name that is too long for a certificate is no name.
 */
static void check_signer_tls(struct load *load, const struct config *config, const char *why)
{
    const struct {
        const char *key, *path;
    } files[] = {
        { "signer.tls_certificate_file", config->signer_tls_certificate },
        { "signer.tls_key_file", config->signer_tls_key },
        { "signer.tls_ca_file", config->signer_tls_ca },
    };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        if (files[i].path[0] == 0) {
            config_refuse_key(load, files[i].key, "is needed with %s", why);
        } else {
            check_folder(load, files[i].key, files[i].path);
        }
    }
    const struct config_list *names = &config->signer_peer_names;
    if (names->count == 0 || names->count > 32) {
        config_refuse_key(load, "signer.peer_names", "needs 1 to 32 names with %s", why);
    }
    for (size_t i = 0; i < names->count; i++) {
        if (names->at[i][0] == 0 || strlen(names->at[i]) > 255 || strchr(names->at[i], '*') != NULL) {
            config_refuse_key(load, "signer.peer_names", "'%.80s' must be a whole name without '*'", names->at[i]);
        }
    }
}

static void check_signer(struct load *load, const struct config *config)
{
    if (config->signer_listen[0] != 0) {
        check_listen(load, "signer.listen", config->signer_listen);
        check_signer_tls(load, config, "signer.listen");
    }
    if (config->signer_address[0] != 0) {
        check_listen(load, "signer.address", config->signer_address);
        check_signer_tls(load, config, "signer.address");
    }
    if (config->signer_listen[0] != 0 && config->signer_address[0] != 0) {
        config_refuse_key(load, "signer.address", "is given with signer.listen; a host has a signer or uses another's");
    }
}

/* An address and perhaps a path, no credentials and nothing behind: what is sent there depends on nothing else. */
static bool otlp_endpoint_fits(const char *url, size_t scheme)
{
    size_t host = strcspn(url + scheme, "/"), len = strlen(url);
    for (size_t i = 0; i < len; i++) {
        if (url[i] <= ' ' || url[i] > '~' || strchr("?#@\\\"<>", url[i]) != NULL) {
            return false;
        }
    }
    return host > 0 && len < 512;
}

static void check_otlp(struct load *load, const struct config *config)
{
    static const char key[] = "telemetry.otlp.endpoint";
    const char *url = config->otlp_endpoint;
    unsigned ppm = 0;
    check_file(load, "telemetry.otlp.bearer_token_file", config->otlp_token_file);
    check_file(load, "telemetry.otlp.ca_file", config->otlp_ca_file);
    if (!trace_ratio_parse(config->otlp_sample, &ppm)) {
        config_refuse_key(load, "telemetry.otlp.sample_ratio", "'%.40s' must be a number from 0 to 1, such as 0.25",
                          config->otlp_sample);
    }
    if (!config->otlp_enabled || url[0] == 0) {
        return;
    }
    bool tls = strncmp(url, "https://", 8) == 0, plain = strncmp(url, "http://", 7) == 0;
    if ((!tls && !plain) || !otlp_endpoint_fits(url, tls ? 8 : 7)) {
        config_refuse_key(load, key, "must be https://HOST[:PORT][/PATH], without credentials and without a query");
    } else if (plain && !config->otlp_insecure) {
        config_refuse_key(load, key, "must start with https://; http:// needs telemetry.otlp.insecure");
    } else if (plain && config->otlp_token_file[0] != 0) {
        config_refuse_key(load, "telemetry.otlp.bearer_token_file", "is sent over TLS only: the endpoint is http://");
    }
}

static void check_tenant(struct load *load, const char *key, const char *text)
{
    struct tenant_id id;
    if (FAULTED(tenant_id_parse(span_text(text), &id))) {
        config_refuse_key(load, key, "'%.80s' must be 1 to 63 of a-z, 0-9 and '-', not starting with '-'", text);
    }
}

void config_check(struct load *load)
{
    const struct config *config = &load->loaded->config;
    check_paths(load, config);
    check_log(load, config);
    check_audit(load, config);
    check_http(load, config);
    check_codesign(load, config);
    check_signer(load, config);
    check_otlp(load, config);
    check_tenant(load, "bootstrap.tenant", config->first_tenant);
    check_tenant(load, "protocols.tsa.tenant_id", config->tsa_tenant);
    check_file(load, "protocols.tsa.tenants_file", config->tsa_tenants_file);
    check_file(load, "audit.archive_dir", config->audit_archive_dir);
    if (config->nats_allow_unsynced && config->nats_replicas < 3) {
        config_refuse_key(load, "nats.allow_unsynced",
                          "needs nats.replicas of 3 or more, so that another server has what one lost");
    }
}
