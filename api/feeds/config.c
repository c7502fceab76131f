/* What a feed is told: members of all kinds in one table; the kind's row says which of them are its own. */
#include "api/feeds/internal.h"

#include "appliance/base/crypto.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#define FIELD(label, KIND, flags_, min_, max_, member, text) \
    { .name = (label),                                       \
      .kind = JIN_KIND_##KIND,                               \
      .flags = (flags_),                                     \
      .min = (min_),                                         \
      .max = (max_),                                         \
      .offset = offsetof(struct feed_body, member),          \
      .doc = (text) }

#define CONFIG_FIELDS (FEED_BODY_FIELDS - 2)

/* In the order of their names: that is the order in which they are printed. */
const struct jin_field feed_body_fields[FEED_BODY_FIELDS] = {
    FIELD("acknowledgement", TEXT, JIN_OPTIONAL, 1, 16, config.acknowledgement,
          "hec: indexer (the default) or receipt"),
    FIELD("ca_pem", TEXT, JIN_OPTIONAL, 1, 8192, config.ca_pem,
          "the authorities, and no others, that vouch for the host"),
    FIELD("client_certificate", BOOL, JIN_OPTIONAL, 0, 0, config.client_certificate,
          "syslog: show the certificate of audit.feeds.tls_certificate_file"),
    FIELD("client_id", TEXT, JIN_OPTIONAL, 1, 68, config.client_id, "azure-monitor: env:NAME of the application's id"),
    FIELD("credential", TEXT, JIN_OPTIONAL, 1, 68, config.credential, "env:NAME of the secret"),
    FIELD("enterprise_number", INT, JIN_OPTIONAL, 1, 4294967295, config.enterprise_number,
          "syslog: of the structured data's name (32473)"),
    FIELD("index", TEXT, JIN_OPTIONAL, 1, 128, config.index, "hec: where events go"),
    FIELD("kind", TEXT, JIN_REQUIRED, 1, 32, config.kind, "hec, azure-monitor or syslog"),
    FIELD("message_max", INT, JIN_OPTIONAL, 2048, 65536, config.message_max,
          "syslog: largest message in bytes (8192); a larger record comes in parts"),
    FIELD("rule_id", TEXT, JIN_OPTIONAL, 1, 64, config.rule_id, "azure-monitor: immutable id of the collection rule"),
    FIELD("scope", TEXT, JIN_OPTIONAL, 1, 256, config.scope, "azure-monitor: https://monitor.azure.com//.default"),
    FIELD("server_name", TEXT, JIN_OPTIONAL, 1, 255, config.server_name,
          "syslog: the name in the collector's certificate; else the host's"),
    FIELD("source", TEXT, JIN_OPTIONAL, 1, 128, config.source, "hec: source of the events (svc)"),
    FIELD("source_host", TEXT, JIN_OPTIONAL, 1, 100, config.source_host, "hec, syslog: host of the events (svc)"),
    FIELD("sourcetype", TEXT, JIN_OPTIONAL, 1, 128, config.sourcetype, "hec: source type of the events (svc:audit)"),
    FIELD("stream", TEXT, JIN_OPTIONAL, 1, 128, config.stream, "azure-monitor: Custom-... of the rule"),
    FIELD("token_url", TEXT, JIN_OPTIONAL, 1, 1024, config.token_url, "azure-monitor: where access tokens are made"),
    FIELD("url", TEXT, JIN_REQUIRED, 1, 1024, config.url, "https://HOST[:PORT][/PATH], or tls://HOST[:PORT] of syslog"),
    FIELD("enabled", RAW, JIN_OPTIONAL, 4, 5, enabled, "false: saved, and nothing is sent (true)"),
    FIELD("from_sequence", INT, JIN_OPTIONAL, 1, INT64_MAX, from_sequence,
          "the first record to send; else where the feed stands, or the oldest"),
};

static bool is_there(const struct jin_field *field, const struct feed_config *config)
{
    const void *at = (const uint8_t *)config + field->offset;
    switch ((int)field->kind) {
    case JIN_KIND_TEXT:
        return *(const char *const *)at != NULL;
    case JIN_KIND_INT:
        return *(const int64_t *)at != 0;
    default:
        return *(const bool *)at;
    }
}

struct fault feed_config_read(struct op *op, struct span json, struct feed_config *ret_config)
{
    struct feed_body body = { 0 };
    TRY(jin_decode(op, json, feed_body_fields, CONFIG_FIELDS, &body));
    *ret_config = body.config;
    return OK;
}

void feed_config_print(const struct feed_config *config, struct jout *jout)
{
    jout_object(jout);
    for (size_t i = 0; i < CONFIG_FIELDS; i++) {
        const struct jin_field *field = &feed_body_fields[i];
        const void *at = (const uint8_t *)config + field->offset;
        if (!is_there(field, config)) {
            continue;
        }
        if (field->kind == JIN_KIND_TEXT) {
            jout_key_text(jout, field->name, *(const char *const *)at);
        } else if (field->kind == JIN_KIND_INT) {
            jout_key_int(jout, field->name, *(const int64_t *)at);
        } else {
            jout_key_bool(jout, field->name, true);
        }
    }
    jout_object_end(jout);
}

/* ---- checks ---- */

static bool listed(const char *const *names, const char *name)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static struct fault check_members(struct op *op, const struct feed_kind *kind, const struct feed_config *config)
{
    static const char *const common[] = { "kind", "url", "ca_pem", NULL };
    char pointer[40];
    for (size_t i = 0; i < CONFIG_FIELDS; i++) {
        const char *name = feed_body_fields[i].name;
        bool there = is_there(&feed_body_fields[i], config), required = listed(kind->required, name);
        (void)snprintf(pointer, sizeof(pointer), "/%s", name);
        if (required && !there) {
            return op_fail_field(op, FAULT(JSON_FIELD), pointer, "%s: a feed of kind %s needs it", name, kind->name);
        }
        if (there && !required && !listed(kind->takes, name) && !listed(common, name)) {
            return op_fail_field(op, FAULT(JSON_FIELD), pointer, "%s: a feed of kind %s has no such member", name,
                                 kind->name);
        }
    }
    return OK;
}

static bool pem_is_good(const char *pem)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem, -1);
    size_t count = 0;
    while (bio != NULL) {
        CLEANUP(X509_freep) X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        if (certificate == NULL) {
            break;
        }
        count++;
    }
    bool end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    return count > 0 && end && strstr(pem, "PRIVATE KEY") == NULL;
}

static struct fault need_host(struct op *op, const char *member, const char *url, const struct feed_kind *kind,
                              const char *scheme, struct feed_needs *needs)
{
    if (!feed_url_read(url, scheme, kind->port, &needs->hosts[needs->host_count])) {
        return op_fail_field(op, FAULT(FEED_CONFIG), member, "must be %s://HOST[:PORT]%s", scheme,
                             strcmp(scheme, "https") == 0 ? "/PATH (http:// of this machine only)" : "");
    }
    needs->host_count++;
    return OK;
}

static struct fault need_credential(struct op *op, const char *member, const char *reference, struct feed_needs *needs)
{
    if (reference == NULL) {
        return OK;
    }
    const char *name = feed_credential_name(reference);
    if (name == NULL) {
        return op_fail_field(op, FAULT(FEED_CONFIG), member,
                             "must be env:NAME, where NAME is of A-Z, 0-9 and _: never the secret itself");
    }
    needs->names[needs->name_count++] = name;
    return OK;
}

static struct fault collect(struct op *op, const struct feed_kind *kind, const struct feed_config *config,
                            struct feed_needs *ret_needs)
{
    struct feed_needs needs = { .host_count = 0 };
    TRY(need_host(op, "/url", config->url, kind, kind->scheme, &needs));
    if (config->token_url != NULL) {
        TRY(need_host(op, "/token_url", config->token_url, kind, "https", &needs));
    }
    TRY(need_credential(op, "/credential", config->credential, &needs));
    TRY(need_credential(op, "/client_id", config->client_id, &needs));
    *ret_needs = needs;
    return OK;
}

/* The first host that is not allowed with all the credentials. */
static const struct feed_host *not_allowed(struct tenant_id tenant, const struct feeds *feeds,
                                           const struct feed_needs *needs)
{
    for (size_t i = 0; i < needs->host_count; i++) {
        if (!feeds_allow(feeds, tenant, &needs->hosts[i], needs->names, needs->name_count)) {
            return &needs->hosts[i];
        }
    }
    return NULL;
}

static struct fault refuse_host(struct op *op, const struct feed_host *host, const struct feed_needs *needs)
{
    return op_fail(op, FAULT(FEED_DESTINATION),
                   "audit.feeds.allow of the server has no entry %.100s:%s%s%.64s%s%.64s for this tenant", host->name,
                   host->port, needs->name_count > 0 ? "=" : "", needs->name_count > 0 ? needs->names[0] : "",
                   needs->name_count > 1 ? "+" : "", needs->name_count > 1 ? needs->names[1] : "");
}

struct fault feed_config_check(struct op *op, const struct feeds *feeds, const struct feed_config *config,
                               const struct feed_kind **ret_kind, struct feed_needs *ret_needs)
{
    const struct feed_kind *kind = feed_kind_find(config->kind);
    struct feed_needs needs;
    if (kind == NULL) {
        return op_fail_field(op, FAULT(FEED_CONFIG), "/kind", "kind must be %s", feed_kind_names());
    }
    TRY(check_members(op, kind, config));
    TRY(collect(op, kind, config, &needs));
    if (config->ca_pem != NULL && !pem_is_good(config->ca_pem)) {
        return op_fail_field(op, FAULT(FEED_CONFIG), "/ca_pem", "must be the PEM of certificates, and of nothing else");
    }
    if (kind->check != NULL) {
        TRY(kind->check(op, config));
    }
    const struct feed_host *host = not_allowed(op->tenant, feeds, &needs);
    if (host != NULL) {
        return refuse_host(op, host, &needs);
    }
    *ret_kind = kind;
    *ret_needs = needs;
    return OK;
}

bool feed_config_allowed(struct op *op, const struct feeds *feeds, const struct feed_config *config)
{
    const struct feed_kind *kind = feed_kind_find(config->kind);
    struct feed_needs needs;
    struct fault_note note = op->note;
    bool allowed =
        kind != NULL && !FAULTED(collect(op, kind, config, &needs)) && not_allowed(op->tenant, feeds, &needs) == NULL;
    op->note = note;
    return allowed;
}
