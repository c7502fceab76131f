#include "signer-pkcs11/broker/listen.h"

#include "appliance/base/file.h"
#include "signer-pkcs11/protocol/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG       128
#define DOOR_PATIENCE (5 * NS_PER_S)
#define FIRST_HANDED  3 /* as service managers do */

static struct fault refuse(struct buf *why, const char *what, const char *where)
{
    char reason[64];
    if (why != NULL) {
        IGNORE(buf_printf(why, "%s %s: %s", what, where, strerror_r(errno, reason, sizeof(reason))));
    }
    return FAULT(IO);
}

static struct fault refuse_config(struct buf *why, const char *what)
{
    if (why != NULL) {
        IGNORE(buf_text(why, what));
    }
    return FAULT(CONFIG);
}

/* ---- doors that were handed over ---- */

static bool number_of(const char *name, long *ret_number)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return false;
    }
    *ret_number = strtol(text, &end, 10);
    return *end == 0;
}

/* How many; 0 when they are not for us, as when another program of ours was meant. */
static long handed_count(void)
{
    long pid = 0, count = 0;
    bool ours = number_of("LISTEN_PID", &pid) && pid == (long)getpid() && number_of("LISTEN_FDS", &count);
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return ours ? count : 0;
}

static struct fault take_over(const struct config *config, int fd, struct buf *why, struct listener *ret_listener)
{
    int domain = 0, type = 0, listening = 0;
    socklen_t size = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || type != SOCK_STREAM || listening == 0) {
        return refuse_config(why, "a descriptor of LISTEN_FDS is not a listening stream socket");
    }
    bool local = domain == AF_UNIX;
    if (!local && domain != AF_INET && domain != AF_INET6) {
        return refuse_config(why, "a descriptor of LISTEN_FDS is neither a unix nor a TCP socket");
    }
    if (!local && config->signer_listen[0] == 0) {
        return refuse_config(why, "a TCP socket was handed over, but signer.listen is empty: it also says that TLS is "
                                  "set up");
    }
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
        return refuse(why, "cannot use", "a descriptor of LISTEN_FDS");
    }
    *ret_listener = (struct listener){ .fd = fd, .kind = local ? LISTENER_UNIX : LISTENER_TLS, .handed = true };
    return local || !FAULTED(tcp_attend(fd)) ? OK : refuse(why, "cannot set up", "a descriptor of LISTEN_FDS");
}

static struct fault take_over_all(const struct config *config, struct buf *why, struct listeners *listeners)
{
    long count = handed_count();
    if (count > (long)LISTENERS_MAX) {
        return refuse_config(why, "LISTEN_FDS hands over more sockets than there is use for");
    }
    for (int i = 0; i < count; i++) {
        TRY(take_over(config, FIRST_HANDED + i, why, &listeners->at[listeners->count]));
        listeners->count++;
    }
    return OK;
}

static bool has(const struct listeners *listeners, enum listener_kind kind)
{
    for (size_t i = 0; i < listeners->count; i++) {
        if (listeners->at[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* ---- our own unix socket ---- */

/* Made when it is missing. One that others can enter, or replace things in, is not what it has to be. */
static struct fault own_folder(const char *path, struct buf *why)
{
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct stat status;
    (void)snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder) {
        return refuse_config(why, "signer.socket must stand in a folder of its own");
    }
    *slash = 0;
    if (FAULTED(file_make_dirs(folder, 0700)) || lstat(folder, &status) != 0) {
        return refuse(why, "cannot make", folder);
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 07077) != 0) {
        if (why != NULL) {
            IGNORE(buf_printf(why, "%s, the folder of signer.socket, must be this user's and of mode 0700", folder));
        }
        return FAULT(CONFIG);
    }
    return OK;
}

/* A socket at which somebody listens is another signer's: its door is not taken away. */
static bool is_live(const struct sockaddr_un *address)
{
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd >= 0 && (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN);
}

/* Only a socket is removed: a path that was mistyped costs nobody a file. */
static struct fault remove_stale(const struct sockaddr_un *address, struct buf *why)
{
    const char *path = address->sun_path;
    struct stat status;
    if (lstat(path, &status) != 0) {
        return errno == ENOENT ? OK : refuse(why, "cannot look at", path);
    }
    if (!S_ISSOCK(status.st_mode)) {
        errno = EEXIST;
        return refuse(why, "there is something else than a socket at", path);
    }
    if (is_live(address)) {
        errno = EADDRINUSE;
        return refuse(why, "another signer listens at", path);
    }
    return unlink(path) == 0 ? OK : refuse(why, "cannot remove", path);
}

static struct fault bind_unix(const char *path, struct buf *why, struct listener *ret_listener)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    errno = ENAMETOOLONG;
    if (strlen(path) >= sizeof(address.sun_path)) {
        return refuse(why, "signer.socket cannot be", path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    TRY(own_folder(path, why));
    TRY(remove_stale(&address, why));
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return refuse(why, "cannot make a socket for", path);
    }
    mode_t old = umask(0177); /* before threads: 0600 from its first moment */
    int rc = bind(fd, (const struct sockaddr *)&address, sizeof(address));
    (void)umask(old);
    if (rc != 0) {
        return refuse(why, "cannot bind", path);
    }
    *ret_listener = (struct listener){ .fd = fd, .kind = LISTENER_UNIX };
    fd = -1;
    return OK;
}

/* ---- our own TCP port ---- */

static struct fault bind_first(const struct addrinfo *found, const char *address, struct buf *why,
                               struct listener *ret_listener)
{
    int on = 1;
    CLEANUP(fd_closep) int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 || FAULTED(tcp_attend(fd))) {
        return refuse(why, "cannot make a socket for", address);
    }
    if (bind(fd, found->ai_addr, found->ai_addrlen) != 0) {
        return refuse(why, "signer.listen: cannot bind", address);
    }
    *ret_listener = (struct listener){ .fd = fd, .kind = LISTENER_TLS };
    fd = -1;
    return OK;
}

static struct fault bind_tcp(const char *text, struct buf *why, struct listener *ret_listener)
{
    const struct addrinfo want = { .ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct tcp_address address;
    struct addrinfo *found = NULL;
    if (FAULTED(tcp_address_parse(text, &address))) {
        return refuse_config(why, "signer.listen must be ADDRESS:PORT");
    }
    int error = getaddrinfo(address.host, address.port, &want, &found);
    if (error != 0) {
        if (why != NULL) {
            IGNORE(buf_printf(why, "signer.listen: %s does not resolve: %s", address.host, gai_strerror(error)));
        }
        return FAULT(IO);
    }
    struct fault bound = bind_first(found, text, why, ret_listener);
    freeaddrinfo(found);
    return bound;
}

/* ---- all of them ---- */

static struct fault open_tls(const struct config *config, struct buf *why, struct listeners *listeners)
{
    const struct tls_settings settings = { .side = TLS_SERVER,
                                           .certificate_file = config->signer_tls_certificate,
                                           .key_file = config->signer_tls_key,
                                           .ca_file = config->signer_tls_ca,
                                           .names = &config->signer_peer_names };
    return tls_end_new(&settings, why, &listeners->tls);
}

static struct fault open_all(const struct config *config, struct buf *why, struct listeners *listeners)
{
    TRY(take_over_all(config, why, listeners));
    if (!has(listeners, LISTENER_UNIX)) {
        TRY(bind_unix(config->signer_socket, why, &listeners->at[listeners->count]));
        listeners->count++;
    }
    if (config->signer_listen[0] == 0) {
        return OK;
    }
    TRY(open_tls(config, why, listeners));
    if (!has(listeners, LISTENER_TLS)) {
        TRY(bind_tcp(config->signer_listen, why, &listeners->at[listeners->count]));
        listeners->count++;
    }
    return OK;
}

struct fault listeners_open(const struct config *config, struct buf *why, struct listeners *ret_listeners)
{
    struct listeners made = LISTENERS_NONE;
    struct fault opened = open_all(config, why, &made);
    if (FAULTED(opened)) {
        listeners_close(&made, config);
        listeners_free(&made);
        return opened;
    }
    *ret_listeners = made;
    return OK;
}

struct fault listeners_begin(const struct listeners *listeners, struct buf *why)
{
    for (size_t i = 0; i < listeners->count; i++) {
        const struct listener *one = &listeners->at[i];
        if (!one->handed && listen(one->fd, BACKLOG) != 0) {
            return refuse(why, "cannot listen on", one->kind == LISTENER_UNIX ? "signer.socket" : "signer.listen");
        }
    }
    return OK;
}

void listeners_close(struct listeners *listeners, const struct config *config)
{
    for (size_t i = 0; i < listeners->count; i++) {
        const struct listener *one = &listeners->at[i];
        fd_close(one->fd);
        if (one->kind == LISTENER_UNIX && !one->handed) {
            (void)unlink(config->signer_socket); /* nobody shall wait for an answer from a name that is left over */
        }
    }
    listeners->count = 0;
}

void listeners_free(struct listeners *listeners)
{
    tls_end_free(TAKE(listeners->tls));
}

bool listeners_handed(const struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++) {
        if (listeners->at[i].kind == LISTENER_UNIX) {
            return listeners->at[i].handed;
        }
    }
    return false;
}

/* ---- who comes in ---- */

unsigned door_askers(const struct listener *listener, const struct askers *askers, int fd)
{
    struct ucred peer = { .uid = (uid_t)-1 };
    socklen_t size = sizeof(peer);
    if (listener->kind == LISTENER_TLS) {
        return ASKER_API;
    }
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? askers_of(askers, peer.uid) : 0;
}

static atomic_uint handshakes;

struct fault door_admit(const struct listeners *listeners, enum listener_kind kind, int fd,
                        struct tls_report *ret_report, struct tls_stream **ret_tls)
{
    *ret_report = (struct tls_report){ .refusal = TLS_REFUSAL_NONE };
    if (kind == LISTENER_UNIX) {
        *ret_tls = NULL;
        return OK;
    }
    if (atomic_fetch_add(&handshakes, 1) >= HANDSHAKES_MAX) {
        atomic_fetch_sub(&handshakes, 1);
        ret_report->refusal = TLS_REFUSAL_SATURATED;
        return FAULT(SATURATED);
    }
    struct fault shaken = tls_stream_open(listeners->tls, fd, clock_mono() + DOOR_PATIENCE, ret_report, ret_tls);
    atomic_fetch_sub(&handshakes, 1);
    return shaken;
}
