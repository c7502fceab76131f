#include "appliance/base/file.h"
#include "appliance/machine/provision_rows.h"
#include "appliance/machine/provision_store.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/process.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define SAID_MAX        ((size_t)256 << 10)
#define LISTEN_PORT     "8443"
#define BIN_DIR         "/usr/bin"
#define CODE_GATE       3 /* of svc-appliance: refused by the self-test gate */
#define POLICY_DIR      "/usr/share/svc/policies"
#define CHECK_CANDIDATE ".new"

static bool has_ipv6(const struct provision *provision)
{
    for (size_t i = 0; i < provision->network.addresses.count; i++) {
        if (strchr(provision->network.addresses.at[i], ':') != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- the listener ---- */

/* "192.0.2.10/24" as part of a URL. */
static struct fault url_host(struct op *op, const char *name, const char **ret_host)
{
    bool bare = strchr(name, ':') != NULL;
    return arena_printf(op->arena, ret_host, "%s%.*s%s", bare ? "[" : "", (int)strcspn(name, "/"), name,
                        bare ? "]" : "");
}

/* By which clients reach us: the first name that the site gave, a full host name, or the first address. */
struct fault provision_base_url(struct op *op, const struct provision *provision, const char **ret_url)
{
    for (size_t i = 0; i < provision->settings.count; i++) {
        if (strcmp(provision->settings.at[i].key, "http.base_url") == 0) {
            *ret_url = provision->settings.at[i].values.at[0];
            return OK;
        }
    }
    const char *host = provision->network.addresses.at[0];
    if (provision->tls.names.count > 0) {
        host = provision->tls.names.at[0];
    } else if (strchr(provision->hostname, '.') != NULL) {
        host = provision->hostname;
    }
    TRY(url_host(op, host, &host));
    return arena_printf(op->arena, ret_url, "https://%s:" LISTEN_PORT, host);
}

struct fault provision_listener_names(struct op *op, const struct provision *provision, struct provision_texts *ret)
{
    const struct provision_texts *addresses = &provision->network.addresses, *names = &provision->tls.names;
    struct provision_texts all = { 0 };
    TRY(arena_take(op->arena, 1 + names->count + addresses->count, sizeof(*all.at), &all.at));
    all.at[all.count++] = provision->hostname;
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->at[i], provision->hostname) != 0) {
            all.at[all.count++] = names->at[i];
        }
    }
    for (size_t i = 0; i < addresses->count; i++) {
        const char *address = addresses->at[i];
        TRY(arena_text(op->arena, span_of(address, strcspn(address, "/")), &all.at[all.count++]));
    }
    *ret = all;
    return OK;
}

static struct fault add_listener(struct op *op, const struct provision *provision, bool imported, struct emit *emit)
{
    const char *url = NULL;
    struct provision_texts names = { 0 };
    if (!emit_has(emit, "http.listen")) {
        emit_text(emit, "http.listen", has_ipv6(provision) ? "[::]:" LISTEN_PORT : "0.0.0.0:" LISTEN_PORT);
    }
    if (!emit_has(emit, "http.base_url")) {
        TRY(provision_base_url(op, provision, &url));
        emit_text(emit, "http.base_url", url);
    }
    if (imported) {
        emit_text(emit, "http.tls_certificate_file", LISTENER_CERT);
        emit_text(emit, "http.tls_key_file", LISTENER_KEY);
        return OK;
    }
    TRY(provision_listener_names(op, provision, &names));
    emit_list(emit, "http.tls_names", names);
    return OK;
}

/* ---- the rest ---- */

static void add_token(const struct provision *provision, struct emit *emit)
{
    if (provision->hsm.kind == PROVISION_HSM_EMBEDDED) {
        return;
    }
    emit_text(emit, "token.module", provision->hsm.module);
    emit_text(emit, "token.label", provision->hsm.label);
    emit_text(emit, "token.login", provision->hsm.login);
    if (provision->hsm.slot[0] != '\0') {
        emit_plain(emit, "token.slot", provision->hsm.slot);
    }
    if (strcmp(provision->hsm.login, "user") == 0) {
        emit_text(emit, "token.pin_file", HSM_PIN_FILE);
    }
}

static void add_tsa(const struct provision *provision, struct emit *emit)
{
    emit_plain(emit, "protocols.tsa.enabled", provision->tsa.enabled ? "true" : "false");
    emit_text(emit, "protocols.tsa.tenant_id", provision->tenant);
    emit_plain(emit, "protocols.tsa.clock.trust_host", provision->time.trust_host ? "true" : "false");
    if (provision->tsa.policy[0] != '\0') {
        emit_text(emit, "protocols.tsa.policy_oid", provision->tsa.policy);
    }
    if (provision->tsa.algorithm[0] != '\0') {
        emit_text(emit, "protocols.tsa.key_algorithm", provision->tsa.algorithm);
    }
    emit_list(emit, "protocols.tsa.policies", provision->tsa.policies);
}

struct fault provision_print_svc_yaml(struct op *op, const struct provision *provision, bool imported, struct buf *out)
{
    struct emit emit = { .count = 0 };
    provision_emit_settings(provision, &emit);
    TRY(add_listener(op, provision, imported, &emit));
    add_token(provision, &emit);
    add_tsa(provision, &emit);
    emit_text(&emit, "data_dir", PRODUCT_DATA_DIR);
    emit_text(&emit, "run_dir", PRODUCT_RUN_DIR);
    emit_text(&emit, "bin_dir", BIN_DIR);
    emit_text(&emit, "policy_dir", POLICY_DIR);
    emit_text(&emit, "bootstrap.tenant", provision->tenant);
    emit_plain(&emit, "bootstrap.tokens", "false");
    TRY(buf_text(out, "# Made from provision.yaml at every start; changes here do not last.\n"));
    return emit_print(&emit, 0, out);
}

/* The lines of config_load without the name of our file, which nobody has seen. */
static struct fault put_refusals(struct span said, struct buf *why)
{
    while (said.len > 0) {
        const uint8_t *end = memchr(said.at, '\n', said.len);
        size_t len = end != NULL ? (size_t)(end - said.at) : said.len, skip = 0;
        if (said.at[0] >= '0' && said.at[0] <= '9') {
            const uint8_t *key = memmem(said.at, len, ": ", 2);
            skip = key != NULL ? (size_t)(key - said.at) + 2 : 0;
        }
        TRY(buf_printf(why, PROVISION_NAME ": settings: %.*s\n", (int)(len - skip), (const char *)said.at + skip));
        size_t used = len + (end != NULL);
        said = span_of(said.at + used, said.len - used);
    }
    return OK;
}

struct fault provision_judge(struct op *op, const struct provision *provision, struct buf *why)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(SAID_MAX), said = BUF_INIT(SAID_MAX), lines = BUF_INIT(SAID_MAX);
    CLEANUP(config_freep) struct config *config = NULL;
    char path[32];
    TRY(provision_print_svc_yaml(op, provision, false, &text));
    CLEANUP(fd_closep) int fd = memfd_create("svc.yaml", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text.at, text.len) != (ssize_t)text.len) {
        return op_fail(op, FAULT(IO), "no memory for the configuration");
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct fault loaded = config_load(path, &said, &config);
    if (FAULTED(loaded)) {
        TRY(put_refusals(buf_span(&said), &lines));
        IGNORE(why != NULL ? buf_put(why, buf_span(&lines)) : OK);
        return op_fail(op, loaded, "%.*s", (int)(lines.len > 0 ? lines.len - 1 : 0), (const char *)lines.at);
    }
    return OK;
}

/* As the product judges it. */
static struct fault check(struct op *op, const char *path)
{
    const char *const argv[] = { APPLIANCE_PROGRAM, "--check-config", "--json", "--config", path, NULL };
    CLEANUP(buf_free) struct buf said = BUF_INIT(SAID_MAX);
    int code = 0;
    TRY(process_run(op, &(struct process_spec){ .argv = argv }, (struct span){ 0 }, &said, &code));
    if (code == 0) {
        return file_write(PROVISION_POSTURE_FILE, buf_span(&said), 0600);
    }
    (void)unlink(PROVISION_POSTURE_FILE);
    if (code == CODE_GATE) {
        return OK; /* the product says so itself when it starts */
    }
    /* The last line of what it said has the cause. */
    size_t end = said.len;
    while (end > 0 && said.at[end - 1] == '\n') {
        end--;
    }
    size_t start = end;
    while (start > 0 && said.at[start - 1] != '\n') {
        start--;
    }
    return op_fail(op, FAULT(CONFIG), "the product refuses this provisioning: %.*s", (int)(end - start),
                   (const char *)said.at + start);
}

struct fault provision_write_svc_yaml(struct op *op, const struct provision *provision, const char *path)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(SAID_MAX);
    const char *candidate = NULL;
    bool imported = provision->tls.mode == PROVISION_TLS_CSR && path_exists(LISTENER_CERT);
    TRY(provision_print_svc_yaml(op, provision, imported, &text));
    TRY(arena_printf(op->arena, &candidate, "%s" CHECK_CANDIDATE, path));
    struct fault written = file_write(candidate, buf_span(&text), 0644);
    if (FAULTED(written)) {
        return op_fail(op, written, "cannot write %s", candidate);
    }
    struct fault judged = check(op, candidate);
    if (FAULTED(judged)) {
        (void)unlink(candidate);
        return judged;
    }
    return folder_rename(op, candidate, path);
}
