#include "signer-pkcs11/client/dial.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "signer-pkcs11/client/resolve.h"
#include "signer-pkcs11/protocol/tls_end.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>

struct dial {
    const struct config *config;
    struct resolver *resolver; /* NULL: the unix socket */
    pthread_mutex_t lock;      /* guards tls */
    struct tls_end *tls;       /* made at the first connection for which its files are good */
};

struct fault dial_new(const struct config *config, struct dial **ret_dial)
{
    CLEANUP(dial_freep) struct dial *made = NULL;
    REQUIRE(strlen(config->signer_socket) < sizeof(((struct sockaddr_un *)0)->sun_path), CONFIG);
    TRY(mem_new(1, sizeof(*made), &made));
    made->config = config;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    if (config->signer_address[0] != 0) {
        struct tcp_address address;
        REQUIRE(!FAULTED(tcp_address_parse(config->signer_address, &address)), CONFIG);
        TRY(resolver_new(&address, &made->resolver));
    }
    *ret_dial = TAKE(made);
    return OK;
}

void dial_free(struct dial *dial)
{
    if (dial == NULL) {
        return;
    }
    resolver_free(dial->resolver);
    tls_end_free(dial->tls);
    (void)pthread_mutex_destroy(&dial->lock);
    mem_free(dial);
}

/* ---- the socket of this host ---- */

/* A full backlog makes connect wait; SO_SNDTIMEO bounds that. */
static struct fault connect_unix(struct op *op, const char *path, mono_ns deadline, int *ret_fd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, path, strlen(path) + 1);
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0, IO);
    int ms = clock_ms_left(deadline);
    struct timeval patience = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
    if (ms == 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        char reason[64];
        op_note_log(op, "connect %s: %s", path, strerror_r(errno, reason, sizeof(reason)));
        return op_fail(op, FAULT(SIGNER_UNAVAILABLE), "the signer does not accept connections: is svc-signer running?");
    }
    *ret_fd = fd;
    fd = -1;
    return OK;
}

/* ---- another host ---- */

static bool wait_connected(int fd, mono_ns deadline)
{
    struct pollfd ready = { .fd = fd, .events = POLLOUT };
    int rc = 0, error = 0;
    socklen_t size = sizeof(error);
    do {
        rc = poll(&ready, 1, clock_ms_left(deadline));
    } while (rc < 0 && errno == EINTR && clock_mono() < deadline);
    if (rc <= 0) {
        errno = ETIMEDOUT;
        return false;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        return false;
    }
    errno = error;
    return error == 0;
}

/* -1 with errno. */
static int connect_one(const struct sockaddr_storage *address, socklen_t len, mono_ns deadline)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    bool attended = !FAULTED(tcp_attend(fd));
    if (attended && (connect(fd, (const struct sockaddr *)address, len) == 0 ||
                     (errno == EINPROGRESS && wait_connected(fd, deadline)))) {
        return fd;
    }
    int error = errno;
    fd_close(fd);
    errno = error;
    return -1;
}

/* Each address gets its share of the time, so that one that swallows everything does not cost the others theirs. */
static struct fault connect_tcp(struct op *op, struct dial *dial, mono_ns deadline, int *ret_fd)
{
    struct resolved resolved;
    TRY(resolver_ask(op, dial->resolver, deadline, &resolved));
    for (size_t i = 0; i < resolved.count; i++) {
        mono_ns now = clock_mono();
        mono_ns share = deadline > now ? (deadline - now) / (mono_ns)(resolved.count - i) : 0;
        int fd = connect_one(&resolved.addresses[i].at, resolved.addresses[i].len, now + share);
        if (fd >= 0) {
            *ret_fd = fd;
            return OK;
        }
    }
    char reason[64];
    op_note_log(op, "connect %s: %s", dial->config->signer_address, strerror_r(errno, reason, sizeof(reason)));
    return op_fail(op, FAULT(SIGNER_UNAVAILABLE), "the signer's host does not accept connections");
}

static struct fault tls_of(struct op *op, struct dial *dial, struct tls_end **ret_tls)
{
    const struct config *config = dial->config;
    const struct tls_settings settings = { .side = TLS_CLIENT,
                                           .certificate_file = config->signer_tls_certificate,
                                           .key_file = config->signer_tls_key,
                                           .ca_file = config->signer_tls_ca,
                                           .names = &config->signer_peer_names };
    CLEANUP(buf_free) struct buf why = BUF_INIT(512);
    const char *text = "";
    BUG_IF(pthread_mutex_lock(&dial->lock) != 0);
    struct fault made = dial->tls != NULL ? OK : tls_end_new(&settings, &why, &dial->tls);
    *ret_tls = dial->tls;
    BUG_IF(pthread_mutex_unlock(&dial->lock) != 0);
    if (FAULTED(made)) {
        IGNORE(buf_cstr(&why, &text));
        op_note_log(op, "%s", text);
        return op_fail(op, FAULT(SIGNER_UNAVAILABLE), "our certificate for the signer's host cannot be used");
    }
    return OK;
}

static struct fault secure(struct op *op, struct dial *dial, int fd, mono_ns deadline, struct tls_stream **ret_tls)
{
    struct tls_end *end = NULL;
    struct tls_report report;
    TRY(tls_of(op, dial, &end));
    struct fault opened = tls_stream_open(end, fd, deadline, &report, ret_tls);
    if (report.reload == TLS_RELOAD_REFUSED) {
        op_note_log(op, "the new certificate is not used: %s", report.reload_detail);
    }
    if (FAULTED(opened)) {
        op_note_log(op, "TLS with %s: %s: %s", dial->config->signer_address, tls_refusal_text(report.refusal),
                    report.detail);
        return op_fail(op, FAULT(SIGNER_UNAVAILABLE), "no trusted connection to the signer's host: %s",
                       tls_refusal_text(report.refusal));
    }
    return OK;
}

struct fault dial_connect(struct op *op, struct dial *dial, mono_ns deadline, int *ret_fd, struct tls_stream **ret_tls)
{
    if (dial->resolver == NULL) {
        *ret_tls = NULL;
        return connect_unix(op, dial->config->signer_socket, deadline, ret_fd);
    }
    CLEANUP(fd_closep) int fd = -1;
    TRY(connect_tcp(op, dial, deadline, &fd));
    TRY(secure(op, dial, fd, deadline, ret_tls));
    *ret_fd = fd;
    fd = -1;
    return OK;
}
