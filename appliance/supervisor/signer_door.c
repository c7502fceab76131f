#include "appliance/supervisor/signer_door.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/port.h"
#include "appliance/stores/process.h"
#include "appliance/supervisor/units.h"
#include "signer-pkcs11/protocol/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG       128
#define ASK_LIMIT_MS  30000 /* what the request itself allows; the supervisor looks for the answer now and then */
#define ASK_LOOK_NS   (50 * NS_PER_MS)
#define FRAME_REST_NS (2 * NS_PER_S)

struct signer_door {
    struct sockaddr_un address;
    int listener;
    int node; /* the socket's name as it was made: what svc-api puts in its place later is not meant */
    struct frame_stream asking;
};

/* ---- making it ---- */

static struct fault failed(struct op *op, const struct signer_door *door, const char *what)
{
    return op_fail(op, FAULT(IO), "signer.socket: cannot %s %s: %s", what, door->address.sun_path,
                   strerrordesc_np(errno));
}

/* A folder that is there already was made by prepare.c, or is the operator's. */
static struct fault ensure_folder(struct op *op, const char *path)
{
    const char *slash = strrchr(path, '/'), *folder = NULL, *parent = NULL;
    if (slash == NULL || slash == path) {
        return op_fail(op, FAULT(CONFIG), "signer.socket: %s must stand in a folder of its own", path);
    }
    TRY(arena_text(op->arena, span_of(path, (size_t)(slash - path)), &folder));
    if (path_exists(folder)) {
        return OK;
    }
    slash = strrchr(folder, '/');
    if (slash != NULL && slash != folder) {
        TRY(arena_text(op->arena, span_of(folder, (size_t)(slash - folder)), &parent));
        struct fault made = file_make_dirs(parent, 0755);
        if (FAULTED(made)) {
            return op_fail(op, made, "signer.socket: cannot make %s", parent);
        }
    }
    return folder_own(op, folder, USER_API, NULL, 0700);
}

/* Only a socket is removed: a path that was mistyped costs nobody a file. */
static struct fault remove_stale(struct op *op, const struct signer_door *door)
{
    struct stat status;
    if (lstat(door->address.sun_path, &status) != 0) {
        return errno == ENOENT ? OK : failed(op, door, "look at");
    }
    if (!S_ISSOCK(status.st_mode)) {
        return op_fail(op, FAULT(CONFIG), "signer.socket: there is something else than a socket at %s",
                       door->address.sun_path);
    }
    return unlink(door->address.sun_path) == 0 ? OK : failed(op, door, "remove");
}

static struct fault bind_door(struct op *op, struct signer_door *door)
{
    door->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door->listener < 0) {
        return failed(op, door, "make a socket for");
    }
    mode_t old = umask(0177); /* this program has one thread: 0600 from its first moment */
    int rc = bind(door->listener, (const struct sockaddr *)&door->address, sizeof(door->address));
    (void)umask(old);
    return rc == 0 && listen(door->listener, BACKLOG) == 0 ? OK : failed(op, door, "listen on");
}

static struct fault give_to_api(struct op *op, struct signer_door *door)
{
    uid_t uid = 0;
    gid_t gid = 0;
    struct stat status;
    TRY(process_user(op, USER_API, &uid, &gid));
    door->node = open(door->address.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (door->node < 0 || fstat(door->node, &status) != 0 || !S_ISSOCK(status.st_mode) ||
        fchownat(door->node, "", uid, gid, AT_EMPTY_PATH) != 0) {
        return failed(op, door, "hand over");
    }
    return OK;
}

struct fault signer_door_new(struct op *op, const struct config *config, struct signer_door **ret_door)
{
    CLEANUP(signer_door_freep) struct signer_door *made = NULL;
    TRY(mem_new(1, sizeof(*made), (void *)&made));
    made->listener = made->node = -1;
    made->asking = (struct frame_stream)FRAME_STREAM_NONE;
    REQUIRE(strlen(config->signer_socket) < sizeof(made->address.sun_path), CONFIG);
    made->address.sun_family = AF_UNIX;
    memcpy(made->address.sun_path, config->signer_socket, strlen(config->signer_socket) + 1);
    TRY(ensure_folder(op, config->signer_socket));
    TRY(remove_stale(op, made));
    TRY(bind_door(op, made));
    TRY(give_to_api(op, made));
    *ret_door = TAKE(made);
    return OK;
}

/* The name is removed only while it is the one that was made here. */
void signer_door_free(struct signer_door *door)
{
    if (door == NULL) {
        return;
    }
    struct stat ours, there;
    frame_stream_clear(&door->asking);
    if (door->node >= 0 && fstat(door->node, &ours) == 0 && lstat(door->address.sun_path, &there) == 0 &&
        ours.st_dev == there.st_dev && ours.st_ino == there.st_ino) {
        (void)unlink(door->address.sun_path);
    }
    fd_close(door->node);
    fd_close(door->listener);
    mem_free(door);
}

int signer_door_listener(const struct signer_door *door)
{
    return door->listener;
}

/* ---- open and shut ---- */

/* Through /proc, since the descriptor of a name cannot be changed directly; root is not bound by the mode. */
static void set_mode(struct signer_door *door, mode_t mode)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", door->node);
    if (chmod(path, mode) != 0) {
        log_write(WARN, "signer_door", LOG_TEXT("detail", "the mode of signer.socket cannot be changed"),
                  LOG_INT("errno", errno));
    }
}

void signer_door_open(struct signer_door *door)
{
    set_mode(door, 0600);
}

void signer_door_shut(struct signer_door *door, bool alive)
{
    int fd = -1;
    set_mode(door, 0);
    while (!alive && (fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        fd_close(fd);
    }
}

/* ---- asking ---- */

static struct fault ask(struct op *op, struct signer_door *door)
{
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    const struct wire_request request = { .id = 1, .deadline_ms = ASK_LIMIT_MS, .op = WIRE_HEALTH };
    size_t sent = 0;
    TRY(port_connect_unix(op, door->address.sun_path, &fd));
    TRY(frame_stream_init(&door->asking, fd, NULL));
    fd = -1;
    TRY(request_pack(op, &request, &frame));
    return frame_send(&door->asking, clock_mono() + ASK_LOOK_NS, buf_span(&frame), &sent);
}

static struct fault look_for_answer(struct op *op, struct signer_door *door)
{
    const struct frame_patience patience = { .first = clock_mono() + ASK_LOOK_NS, .rest = FRAME_REST_NS };
    struct span message;
    struct wire_response response;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    TRY(arena_new(WIRE_ARENA_MAX, &arena));
    TRY(frame_read(&door->asking, &patience, &message));
    TRY(response_unpack(arena, message, &response));
    frame_done(&door->asking);
    (void)op;
    return response.fault;
}

struct fault signer_door_ask(struct op *op, struct signer_door *door)
{
    struct fault asked = door->asking.fd >= 0 ? OK : ask(op, door);
    if (!FAULTED(asked)) {
        asked = look_for_answer(op, door);
    }
    if (asked.code != FAULT_DEADLINE) { /* else the question stands */
        frame_stream_clear(&door->asking);
    }
    return FAULTED(asked) ? op_fail(op, FAULT(SIGNER_UNAVAILABLE), "svc-signer does not answer yet") : OK;
}

void signer_door_ask_anew(struct signer_door *door)
{
    frame_stream_clear(&door->asking);
}
