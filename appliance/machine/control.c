#include "appliance/machine/control.h"

#include "appliance/base/file.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define HEAD_BYTES      1    /* of a request: the verb */
#define ANSWER_HEAD     4    /* of an answer: the fault's number, big-endian; then its detail, or the answer's text */
#define CALLER_PATIENCE 1000 /* ms */
#define MESSAGE_MAX     (CONTROL_BODY_MAX + ANSWER_HEAD)

static const char *const VERBS[CONTROL_VERB_COUNT] = {
    [CONTROL_REBOOT] = "reboot",       [CONTROL_POWEROFF] = "poweroff", [CONTROL_UNLOCK] = "unlock",
    [CONTROL_PROVISION] = "provision", [CONTROL_RECOVERY] = "recovery", [CONTROL_RECOVERY_SHOWN] = "recovery-shown",
    [CONTROL_RESTART] = "restart",
};

const char *control_verb_text(enum control_verb verb)
{
    return (size_t)verb < COUNT_OF(VERBS) ? VERBS[verb] : "?";
}

static struct fault address_of(struct op *op, const char *path, struct sockaddr_un *ret_address)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = strlen(path);
    if (len >= sizeof(address.sun_path)) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the socket's path is too long");
    }
    memcpy(address.sun_path, path, len);
    *ret_address = address;
    return OK;
}

static bool wait_for(int fd, short events, int ms)
{
    mono_ns deadline = clock_mono() + ms * NS_PER_MS;
    for (;;) {
        struct pollfd waited = { .fd = fd, .events = events };
        int ready = poll(&waited, 1, clock_ms_left(deadline));
        if (ready > 0) {
            return true;
        }
        if (ready == 0 || errno != EINTR) {
            return false;
        }
    }
}

/* One message, whole. */
static bool receive(int fd, struct buf *into, size_t most)
{
    uint8_t *at = NULL;
    if (FAULTED(buf_reserve(into, most, &at))) {
        return false;
    }
    ssize_t got = recv(fd, at, most, MSG_TRUNC);
    into->len = got > 0 && (size_t)got <= most ? (size_t)got : 0;
    return into->len > 0;
}

/* ---- asking ---- */

static struct fault ask(struct op *op, const char *path, struct span request, struct buf *answer)
{
    struct sockaddr_un address;
    TRY(address_of(op, path, &address));
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        return op_fail(op, FAULT(IO), "svc-machine does not run here, or not as root: %s", strerrordesc_np(errno));
    }
    if (send(fd, request.at, request.len, MSG_NOSIGNAL) != (ssize_t)request.len) {
        return op_fail(op, FAULT(IO), "svc-machine did not take the request: %s", strerrordesc_np(errno));
    }
    if (!wait_for(fd, POLLIN, clock_ms_left(op->deadline))) {
        return op_fail(op, FAULT(DEADLINE), "svc-machine did not answer in time");
    }
    if (!receive(fd, answer, MESSAGE_MAX) || answer->len < ANSWER_HEAD) {
        return op_fail(op, FAULT(IO), "svc-machine went away before it answered");
    }
    return OK;
}

struct fault control_ask(struct op *op, const char *socket, enum control_verb verb, struct span body, struct buf *said)
{
    CLEANUP(buf_free) struct buf request = BUF_INIT(HEAD_BYTES + CONTROL_BODY_MAX);
    TRY(buf_u8(&request, (uint8_t)verb));
    TRY(buf_put(&request, body));
    CLEANUP(buf_free) struct buf answer = BUF_INIT(MESSAGE_MAX);
    TRY(ask(op, socket, buf_span(&request), &answer));
    struct reader reader = { buf_span(&answer) };
    uint32_t number = 0;
    TRY(reader_u32(&reader, &number));
    if (number != FAULT_NONE) {
        return op_fail(op, fault_from_wire(number), "%.*s", (int)reader.rest.len, (const char *)reader.rest.at);
    }
    return said != NULL ? buf_put(said, reader.rest) : OK;
}

/* ---- serving ---- */

struct fault control_listen(struct op *op, const char *socket_path, int *ret_listener)
{
    struct sockaddr_un address;
    TRY(address_of(op, socket_path, &address));
    (void)unlink(socket_path);
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t before = umask(0177);
    bool bound = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    (void)umask(before);
    if (!bound || listen(fd, 4) != 0) {
        return op_fail(op, FAULT(IO), "cannot listen at %s: %s", socket_path, strerrordesc_np(errno));
    }
    *ret_listener = fd;
    fd = -1;
    return OK;
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

static struct fault answer_print(const struct op *op, struct fault fault, const struct buf *text, struct buf *out)
{
    TRY(buf_u32(out, (uint32_t)fault.code));
    if (!FAULTED(fault)) {
        return buf_put(out, buf_span(text));
    }
    bool told = op->note.set && op->note.detail[0] != '\0';
    return buf_text(out, told ? op->note.detail : fault_row(fault.code)->title);
}

static struct fault serve(struct op *op, int fd, control_handler handler, void *arg)
{
    CLEANUP(buf_free) struct buf request = BUF_INIT(HEAD_BYTES + CONTROL_BODY_MAX);
    REQUIRE(is_ours(fd) && wait_for(fd, POLLIN, CALLER_PATIENCE), IO);
    REQUIRE(receive(fd, &request, HEAD_BYTES + CONTROL_BODY_MAX) && request.at[0] < CONTROL_VERB_COUNT, IO);
    CLEANUP(buf_free) struct buf text = BUF_INIT(CONTROL_BODY_MAX);
    struct span body = span_of(request.at + HEAD_BYTES, request.len - HEAD_BYTES);
    struct fault done = handler(op, arg, (enum control_verb)request.at[0], body, &text);
    CLEANUP(buf_free) struct buf answer = BUF_INIT(MESSAGE_MAX);
    TRY(answer_print(op, done, &text, &answer));
    REQUIRE(send(fd, answer.at, answer.len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)answer.len, IO);
    return OK;
}

void control_serve(int listener, control_handler handler, void *arg)
{
    CLEANUP(fd_closep) int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CLEANUP(op_freep) struct op *op = NULL;
    if (fd < 0 || FAULTED(op_new("machine", (struct tenant_id){ 0 }, 120000, &op))) {
        return;
    }
    IGNORE(serve(op, fd, handler, arg)); /* a caller that does not keep to the form gets no answer */
}
