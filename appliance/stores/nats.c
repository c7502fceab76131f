#include "appliance/stores/nats.h"

#include "appliance/base/codec.h"
#include "appliance/base/file.h"
#include "appliance/base/id.h"
#include "appliance/base/secret.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/port.h"
#include "appliance/stores/process.h"
#include "appliance/stores/profiles.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define NATS_SERVER    "/usr/sbin/nats-server"
#define NATS_LOGIN     "svc"
/* By it the event log asks whether the server really syncs every write (api/events): the one thing of the system
 * account that the log's account may use. */
#define SYNC_QUESTION  "$SYS.REQ.SERVER.PING.VARZ"
#define PASSWORD_BYTES 32
#define FILE_MAX       ((size_t)16 << 10)
#define GREETING_MAX   ((size_t)8 << 10)

/* One password for the life of this process: the server's file and the client's are both written from it. */
static struct secret *password;

bool nats_embedded(const struct config *config)
{
    return config->nats_url[0] == '\0';
}

static struct fault password_make(void)
{
    if (password != NULL) {
        return OK;
    }
    uint8_t raw[PASSWORD_BYTES];
    char text[2 * PASSWORD_BYTES + 1];
    TRY(random_bytes(raw, sizeof(raw)));
    hex_text(SPAN_ARRAY(raw), text, sizeof(text));
    struct fault made = secret_new(span_of(text, sizeof(text) - 1), &password);
    secret_wipe(raw, sizeof(raw));
    secret_wipe(text, sizeof(text));
    return made;
}

struct output_file {
    const char *path;
    struct span text;
};

static struct fault write_file(struct op *op, void *arg, int output)
{
    (void)output;
    const struct output_file *file = arg;
    struct fault written = file_write(file->path, file->text, 0600);
    return FAULTED(written) ? op_fail(op, written, "cannot write %s", file->path) : OK;
}

/* A text in the server's configuration: nothing that its parser would take as the end or as an escape. */
static struct fault put_quoted(struct op *op, struct buf *out, const char *text)
{
    if (strpbrk(text, "\"\\\n\r") != NULL) {
        return op_fail(op, FAULT(CONFIG), "data_dir: '%s' cannot stand in the event log server's configuration", text);
    }
    return buf_printf(out, "\"%s\"", text);
}

static struct fault print_conf(struct op *op, const struct config *config, const char *folder, struct buf *out)
{
    TRY(buf_printf(out,
                   "# Written by svc-appliance at every start: changes made here are lost.\n"
                   "server_name: svc\n"
                   "listen: \"127.0.0.1:%lld\"\n"
                   "max_payload: 2MB\n"
                   "max_connections: 256\n"
                   "write_deadline: \"5s\"\n"
                   "logtime: true\n"
                   "jetstream {\n  store_dir: ",
                   (long long)config->nats_embedded_port));
    TRY(put_quoted(op, out, folder));
    TRY(buf_text(out,
                 "\n  sync_interval: always\n"
                 "  max_memory_store: 64MB\n"
                 "  max_file_store: 1TB\n"
                 "}\n"
                 "system_account: SYS\n"
                 "accounts {\n"
                 "  SYS: { exports: [ { service: \"" SYNC_QUESTION "\", response_type: stream, accounts: [SVC] } ] }\n"
                 "  SVC: {\n"
                 "    jetstream: enabled\n"
                 "    imports: [ { service: { account: SYS, subject: \"" SYNC_QUESTION "\" } } ]\n"
                 "    users: [ { user: \"" NATS_LOGIN "\", password: \""));
    TRY(buf_put(out, secret_span(password)));
    return buf_text(out, "\" } ]\n  }\n}\n");
}

static struct fault credentials_write(struct op *op, const struct config *config)
{
    const char *folder = NULL;
    TRY(folder_path(op, config->data_dir, "nats-client", &folder));
    TRY(folder_own(op, folder, NATS_CLIENT_USER, NULL, 0700));
    CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    TRY(buf_text(&text, NATS_LOGIN ":"));
    TRY(buf_put(&text, secret_span(password)));
    TRY(buf_text(&text, "\n"));
    struct output_file file = { .text = buf_span(&text) };
    TRY(folder_path(op, folder, "credentials", &file.path));
    return process_as(op, NATS_CLIENT_USER, write_file, &file, NULL);
}

struct fault nats_init(struct op *op, const struct config *config)
{
    const char *address = NULL, *folder = NULL;
    TRY(arena_printf(op->arena, &address, "127.0.0.1:%lld", (long long)config->nats_embedded_port));
    TRY(port_free(op, "nats.embedded_port", address));
    TRY(password_make());
    TRY(folder_path(op, config->data_dir, "nats", &folder));
    TRY(folder_own(op, folder, NATS_USER, NULL, 0700));
    CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    TRY(print_conf(op, config, folder, &text));
    struct output_file file = { .text = buf_span(&text) };
    TRY(folder_path(op, folder, "nats-server.conf", &file.path));
    TRY(process_as(op, NATS_USER, write_file, &file, NULL));
    return credentials_write(op, config);
}

struct fault nats_start(struct op *op, const struct config *config, pid_t *ret_pid)
{
    const char *conf = NULL;
    struct confine confine;
    TRY(arena_printf(op->arena, &conf, "%s/nats/nats-server.conf", config->data_dir));
    TRY(profile_nats(op, config, &confine));
    const char *const argv[] = { NATS_SERVER, "--config", conf, NULL };
    /* Go's scheduler looks for work with a second processor for a while whenever the first one sleeps: on a small
     * machine that is time the token lacks. */
    const char *const one[] = { "GOMAXPROCS=1", NULL };
    const char *const *env = sysconf(_SC_NPROCESSORS_ONLN) > 2 ? NULL : one;
    return process_spawn(
        op,
        &(struct process_spec){
            .argv = argv, .env = env, .user = NATS_USER, .death_signal = SIGTERM, .confine = &confine },
        ret_pid);
}

/* ---- is it there? ---- */

/* The server speaks first: "INFO {...}". */
static struct fault greet(struct op *op, const char *host, const char *port, int *ret_fd, struct buf *greeting)
{
    CLEANUP(fd_closep) int fd = -1;
    TRY(port_connect(op, host, port, &fd));
    TRY(port_receive(op, fd, "\r\n", greeting));
    REQUIRE(greeting->len > 5 && memcmp(greeting->at, "INFO ", 5) == 0, IO);
    *ret_fd = fd;
    fd = -1;
    return OK;
}

static struct fault embedded_ask(struct op *op, const struct config *config)
{
    const char *port = NULL;
    TRY(arena_printf(op->arena, &port, "%lld", (long long)config->nats_embedded_port));
    CLEANUP(buf_free) struct buf greeting = BUF_INIT(GREETING_MAX);
    CLEANUP(fd_closep) int fd = -1;
    TRY(greet(op, "127.0.0.1", port, &fd, &greeting));
    static const char jetstream[] = "\"jetstream\":true";
    REQUIRE(memmem(greeting.at, greeting.len, jetstream, sizeof(jetstream) - 1) != NULL, IO);

    CLEANUP(buf_free) struct buf login = BUF_INIT(FILE_MAX);
    TRY(buf_text(&login, "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"c\",\"version\":\"1\","
                         "\"name\":\"svc-appliance\",\"user\":\"" NATS_LOGIN "\",\"pass\":\""));
    TRY(buf_put(&login, secret_span(password)));
    TRY(buf_text(&login, "\"}\r\nPING\r\n"));
    TRY(port_send(op, fd, buf_span(&login)));
    CLEANUP(buf_free) struct buf answer = BUF_INIT(GREETING_MAX);
    TRY(port_receive(op, fd, "\r\n", &answer));
    REQUIRE(answer.len >= 4 && memcmp(answer.at, "PONG", 4) == 0, IO);
    return OK;
}

/* One address of nats.url, "[nats|tls]://[user[:password]@]host[:port]". A server that wants TLS may keep silent until
 * it is greeted by TLS (handshake_first): that it takes the connection is all that is asked of it here; svc-api, which
 * has the certificates, asks the rest and tells by its readiness. */
static struct fault external_ask(struct op *op, const struct config *config, struct span address)
{
    const char *text = NULL, *host = NULL, *port = NULL;
    TRY(arena_text(op->arena, address, &text));
    const char *scheme = strstr(text, "://");
    bool tls = config->nats_tls_ca[0] != '\0' || strncmp(text, "tls://", 6) == 0;
    text = scheme != NULL ? scheme + 3 : text;
    const char *at = strrchr(text, '@');
    text = at != NULL ? at + 1 : text;
    if (strrchr(text, ':') == NULL || text[strlen(text) - 1] == ']') {
        TRY(arena_printf(op->arena, &text, "%s:4222", text));
    }
    TRY(port_split(op, text, &host, &port));
    CLEANUP(buf_free) struct buf greeting = BUF_INIT(GREETING_MAX);
    CLEANUP(fd_closep) int fd = -1;
    return tls ? port_connect(op, host, port, &fd) : greet(op, host, port, &fd, &greeting);
}

static struct fault external_check(struct op *op, const struct config *config)
{
    const char *at = config->nats_url;
    while (*at != '\0') {
        size_t len = strcspn(at, ", ");
        if (len > 0 && !FAULTED(external_ask(op, config, span_of(at, len)))) {
            return OK;
        }
        at += len;
        at += strspn(at, ", ");
    }
    return op_fail(op, FAULT(LOG_UNAVAILABLE), "no server of nats.url answers");
}

struct fault nats_check(struct op *op, const struct config *config)
{
    if (!nats_embedded(config)) {
        return external_check(op, config);
    }
    BUG_IF(password == NULL);
    struct fault asked = embedded_ask(op, config);
    if (asked.code == FAULT_IO || asked.code == FAULT_DEADLINE) {
        return FAULT(LOG_UNAVAILABLE);
    }
    return asked;
}
