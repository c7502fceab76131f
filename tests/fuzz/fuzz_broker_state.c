/* rooms: signer_broker signer_sealed signer_token signer_protocol fips base */
/*
 * svc-signer's connections as their peers see them, with a real token behind them. The input is a little program for
 * three peers: it sends requests whole, in pieces, twice, altered, cut, too long, or leaves. After every step holds
 * what the protocol promises: one well-formed answer with the request's id for each request in its turn; the end of the
 * connection, without a byte, for anything else; and an innocent peer, connected since the start, is served all along.
 * When all have left, the broker holds no connection, no descriptor and no memory of theirs.
 *
 *   step      = peer and kind (one byte), then its arguments; what is missing is 0
 *   request   = operation, variant, two argument bytes
 */
#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "signer-pkcs11/broker/broker_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODULE    "/usr/lib/softhsm/libsofthsm2.so"
#define PEERS     3
#define STEPS_MAX 12
#define KEYS      4 /* ids that come and go; the first of each kind is made at the start */
#define LIMIT_MS  20000
#define STREAM    (FRAME_HEADER + FRAME_MAX) /* what the broker reads at once */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern char **environ;

/* ---- the world: made once for the process ---- */

struct peer {
    int fd; /* -1: not connected */
    unsigned askers;
    uint8_t rest[STREAM];   /* a frame that was begun, */
    size_t rest_len, begun; /* and how much of it has been sent; 0 = none was */
};

static struct broker *broker;
static struct peer innocent = { .fd = -1 };
static struct peer peers[PEERS];
static struct uuid ids[KEYS];
static int lowest_fd;
static char folder[64];

static void in_folder(char out[256], const char *name)
{
    (void)snprintf(out, 256, "%s/%s", folder, name);
}

static void make_folder(const char *name)
{
    char path[256];
    in_folder(path, name);
    BUG_IF(FAULTED(file_make_dirs(path, 0700)));
}

static void make_token(void)
{
    char path[256], text[512];
    char *argv[] = {
        (char *)"softhsm2-util", (char *)"--init-token", (char *)"--free",   (char *)"--label",     (char *)"svc",
        (char *)"--pin",         (char *)"1234-right",   (char *)"--so-pin", (char *)"so-pin-1234", NULL
    };
    posix_spawn_file_actions_t quiet;
    pid_t pid = 0;
    int status = -1;
    make_folder("data/softhsm/tokens");
    make_folder("data/signer");
    (void)snprintf(text, sizeof(text), "directories.tokendir = %s/data/softhsm/tokens\nlog.level = ERROR\n", folder);
    in_folder(path, "data/softhsm/softhsm2.conf");
    BUG_IF(FAULTED(file_write(path, span_text(text), 0600)) || setenv("SOFTHSM2_CONF", path, 1) != 0);
    BUG_IF(posix_spawn_file_actions_init(&quiet) != 0);
    BUG_IF(posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0) != 0);
    BUG_IF(posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ) != 0 || waitpid(pid, &status, 0) != pid);
    BUG_IF(status != 0);
    (void)posix_spawn_file_actions_destroy(&quiet);
    in_folder(path, "data/signer/pin");
    BUG_IF(FAULTED(file_write(path, span_text("1234-right\n"), 0600)));
}

static const struct config *make_config(void)
{
    char path[256], text[512];
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct config *config = NULL;
    (void)snprintf(text, sizeof(text),
                   "data_dir: \"%s/data\"\nrun_dir: \"%s/run\"\nfeatures: {pqc: true}\nfips: {required: false}\n",
                   folder, folder);
    in_folder(path, "svc.yaml");
    BUG_IF(FAULTED(file_write(path, span_text(text), 0600)) || FAULTED(config_load(path, &why, &config)));
    return config;
}

static void *serve(void *arg)
{
    BUG_IF(FAULTED(broker_serve(broker, *(int *)arg)));
    return NULL;
}

/* Modules are known to crash in their exit handlers while threads go on: ours is registered after theirs, and is the
 * last thing that runs. */
static void remove_all(void)
{
    char *argv[] = { (char *)"rm", (char *)"-rf", (char *)"--", folder, NULL };
    pid_t pid = 0;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0) {
        (void)waitpid(pid, NULL, 0);
    }
    _exit(0);
}

static void peer_open(struct peer *peer, unsigned askers)
{
    int fds[2];
    BUG_IF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0);
    BUG_IF(FAULTED(broker_adopt(broker, fds[0], askers)));
    peer->fd = fds[1];
    peer->askers = askers;
    peer->rest_len = 0;
}

static void make_keys(void);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    static struct listeners nobody = LISTENERS_NONE;
    static int signals;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct tokens_settings *settings = NULL;
    struct broker_parts parts = { .askers = { .own = geteuid(), .own_is_all = true }, .listeners = &nobody };
    uint64_t cut = 0;
    size_t sealed = 0;
    char path[256];
    pthread_t thread;
    (void)snprintf(folder, sizeof(folder), "/tmp/svc-fuzz-broker-XXXXXX");
    BUG_IF(mkdtemp(folder) == NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    log_setup("fuzz", LOG_LEVEL_ERROR, LOG_FORMAT_JSON);
    make_token();
    parts.config = make_config();
    BUG_IF(FAULTED(tokens_settings_load(parts.config, MODULE, &why, &settings)));
    BUG_IF(FAULTED(tokens_open(settings, &why, &parts.tokens)));
    in_folder(path, "journal");
    BUG_IF(FAULTED(journal_open(path, JOURNAL_RETENTION_MIN, &why, &cut, &parts.journal)));
    in_folder(path, "sealed");
    BUG_IF(FAULTED(sealed_keys_open(path, &why, &sealed, &parts.sealed)));
    BUG_IF(FAULTED(broker_new(&parts, &broker)));
    signals = eventfd(0, EFD_CLOEXEC);
    BUG_IF(signals < 0 || pthread_create(&thread, NULL, serve, &signals) != 0);
    for (size_t i = 0; i < PEERS; i++) {
        peers[i].fd = -1;
    }
    peer_open(&innocent, ASKER_API | ASKER_SUP);
    make_keys();
    BUG_IF(atexit(remove_all) != 0);
    lowest_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fd_close(lowest_fd);
    return 0;
}

/* ---- what a peer sends, and what comes back ---- */

/* False: the broker has closed. */
static bool send_bytes(const struct peer *peer, const uint8_t *at, size_t len)
{
    while (len > 0) {
        ssize_t put = send(peer->fd, at, len, MSG_NOSIGNAL);
        if (put <= 0) {
            BUG_IF(errno != EPIPE && errno != ECONNRESET);
            return false;
        }
        at += put;
        len -= (size_t)put;
    }
    return true;
}

/* All of `len` bytes within the limit; fewer only at the connection's end. */
static size_t receive(const struct peer *peer, uint8_t *at, size_t len)
{
    size_t got = 0;
    while (got < len) {
        struct pollfd ready = { .fd = peer->fd, .events = POLLIN };
        BUG_IF(poll(&ready, 1, LIMIT_MS) != 1); /* neither an answer nor an end */
        ssize_t more = recv(peer->fd, at + got, len - got, 0);
        if (more <= 0) {
            BUG_IF(more < 0 && errno != ECONNRESET);
            break;
        }
        got += (size_t)more;
    }
    return got;
}

/* The answer's whole frame and nothing behind it; false: the connection ended without a byte. */
static bool receive_answer(const struct peer *peer, struct arena *arena, struct wire_response *ret_response)
{
    static uint8_t bytes[STREAM];
    size_t got = receive(peer, bytes, FRAME_HEADER);
    if (got == 0) {
        return false;
    }
    BUG_IF(got < FRAME_HEADER);
    size_t len = (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
    BUG_IF(len == 0 || len > FRAME_MAX || receive(peer, bytes, len) != len);
    BUG_IF(FAULTED(response_unpack(arena, span_of(bytes, len), ret_response)));
    uint8_t more = 0;
    BUG_IF(recv(peer->fd, &more, 1, MSG_DONTWAIT | MSG_PEEK) > 0); /* a second answer */
    return true;
}

static void peer_close(struct peer *peer)
{
    fd_close(peer->fd);
    peer->fd = -1;
    peer->rest_len = 0;
}

static void expect_end(struct peer *peer)
{
    uint8_t byte = 0;
    BUG_IF(receive(peer, &byte, 1) != 0);
    peer_close(peer);
}

/* What a request of this operation brings when all is well. */
static void check_result(const struct wire_request *request, const struct wire_response *response)
{
    bool bytes = response->result.len > 0, algorithm = response->algorithm != KEY_ALGORITHM_NONE;
    switch (request->op) {
    case WIRE_HEALTH:
        BUG_IF(bytes || algorithm || response->health == NULL || response->health->token_count != 1);
        return;
    case WIRE_GENERATE_KEY:
    case WIRE_PUBLIC_KEY:
        BUG_IF(!algorithm || bytes != (response->algorithm != KEY_ALGORITHM_AES_256) || response->health != NULL);
        return;
    case WIRE_SIGN:
    case WIRE_SIGN_MANY:
    case WIRE_SEAL:
        BUG_IF(!bytes || algorithm || response->health != NULL);
        return;
    case WIRE_UNSEAL:
        BUG_IF(algorithm || response->health != NULL);
        return;
    case WIRE_VERIFY:
    case WIRE_DESTROY:
        BUG_IF(bytes || algorithm || response->health != NULL);
        return;
    case WIRE_OP_NONE:
    case WIRE_OP_COUNT:
        break;
    }
    BUG_IF(true);
}

static void check_answer(unsigned askers, const struct wire_request *request, const struct wire_response *response)
{
    bool refused = FAULTED(purpose_check(NULL, askers, request));
    BUG_IF(response->id != request->id);
    BUG_IF(refused && response->fault.code != FAULT_SIGNER_REFUSED);
    BUG_IF(FAULTED(response->fault) && response->detail[0] == 0);
    /* Whatever a peer says, the signer's own house is in order. */
    BUG_IF(response->fault.code == FAULT_INTERNAL || response->fault.code == FAULT_NO_MEMORY ||
           response->fault.code == FAULT_SIGNER_PROTOCOL || response->fault.code == FAULT_TOKEN_UNAVAILABLE ||
           response->fault.code == FAULT_TOKEN_PIN || response->fault.code == FAULT_SIGNER_JOURNAL ||
           response->fault.code == FAULT_SEALED_STORE);
    if (!FAULTED(response->fault)) {
        check_result(request, response);
    }
}

/* The answer to what was sent. A peer whose operation came too late may lose its connection with it. */
static void expect_answer(struct peer *peer, struct span message)
{
    CLEANUP(arena_freep) struct arena *asked = NULL;
    CLEANUP(arena_freep) struct arena *answered = NULL;
    struct wire_request request;
    struct wire_response response;
    BUG_IF(FAULTED(arena_new(WIRE_ARENA_MAX, &asked)) || FAULTED(arena_new(WIRE_ARENA_MAX, &answered)));
    BUG_IF(FAULTED(request_unpack(asked, message, &request)));
    BUG_IF(!receive_answer(peer, answered, &response));
    check_answer(peer->askers, &request, &response);
    if (response.fault.code == FAULT_DEADLINE) {
        peer_close(peer);
    }
}

/* ---- the little program ---- */

struct program {
    const uint8_t *at;
    size_t len;
};

static uint8_t next(struct program *program)
{
    if (program->len == 0) {
        return 0;
    }
    program->len--;
    return *program->at++;
}

static size_t next_two(struct program *program)
{
    size_t high = next(program);
    return high << 8 | next(program);
}

static void some_key(struct wire_request *request, uint8_t variant)
{
    static const char *const tenants[] = { "acme", "other", "acme", "" };
    static const char *const tokens[] = { "", "", "", "no-such" };
    request->key.id = ids[variant & 3];
    request->key.purpose = (enum key_purpose)(1 + (variant >> 2) % (KEY_PURPOSE_COUNT - 1));
    const char *tenant = request->key.purpose == KEY_PURPOSE_POST ? "" : tenants[variant >> 6];
    (void)snprintf(request->key.tenant.text, sizeof(request->key.tenant.text), "%s",
                   tenant[0] == 0 && request->key.purpose != KEY_PURPOSE_POST ? "acme" : tenant);
    (void)snprintf(request->key.token.text, sizeof(request->key.token.text), "%s", tokens[variant >> 6]);
}

/* Keys that take a second to make teach nothing here. */
static enum key_algorithm quick_algorithm(uint8_t byte)
{
    static const enum key_algorithm quick[] = { KEY_ALGORITHM_EC_P256, KEY_ALGORITHM_EC_P384, KEY_ALGORITHM_AES_256,
                                                KEY_ALGORITHM_ML_DSA_65 };
    return quick[byte % COUNT_OF(quick)];
}

/* A request that its sender's own code would let out. */
static struct wire_request some_request(struct program *program)
{
    static const uint8_t zeros[WIRE_DATA_MAX];
    static uint64_t numbers;
    struct wire_request request = { .id = ++numbers, .deadline_ms = 15000 };
    request.op = (enum wire_op)(1 + next(program) % (WIRE_OP_COUNT - 1));
    some_key(&request, next(program));
    uint8_t a = next(program), b = next(program);
    request.algorithm = quick_algorithm(a);
    request.scheme = (enum sign_scheme)(1 + a % (SIGN_SCHEME_COUNT - 1));
    request.hash = (enum hash_algorithm)(1 + (a >> 4) % (HASH_COUNT - 1));
    request.digest = span_of(zeros, hash_size(request.hash));
    request.signature = span_of(zeros, 1 + (size_t)b * 13);
    request.spki = span_of(zeros, (size_t)(a & 7) * 200);
    request.aad = span_of(zeros, b & 15);
    request.data = span_of(zeros, (size_t)b * 234);
    if (request.op == WIRE_SIGN_MANY) {
        request.scheme = request.scheme == SIGN_SCHEME_ML_DSA ? SIGN_SCHEME_ECDSA : request.scheme;
        request.digest.len *= 1 + b % WIRE_DIGESTS_MAX;
    }
    if (request.op == WIRE_SIGN && b > 0) {
        request.op_id = ids[b & 3]; /* the same ids, so that some repeat and some clash */
        request.op_id.text[0] = "0123456789abcdef"[b >> 4];
    }
    if (request.op != WIRE_GENERATE_KEY && b == 255) {
        request.deadline_ms = a & 3;
    }
    return request;
}

static void pack(const struct wire_request *request, struct buf *frame)
{
    BUG_IF(FAULTED(request_pack(NULL, request, frame)));
}

/* Would the broker take this as a request? And is it one that would only cost time? */
static bool is_request(struct span message, bool *ret_slow)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    struct wire_request request;
    BUG_IF(FAULTED(arena_new(WIRE_ARENA_MAX, &arena)));
    bool good = message.len > 0 && !FAULTED(request_unpack(arena, message, &request));
    *ret_slow = good && request.op == WIRE_GENERATE_KEY &&
                (request.algorithm == KEY_ALGORITHM_RSA_3072 || request.algorithm == KEY_ALGORITHM_RSA_4096);
    return good;
}

static struct span message_in(const struct buf *frame)
{
    return span_of(frame->at + FRAME_HEADER, frame->len - FRAME_HEADER);
}

/* Sends one frame whose message may or may not be a request, and sees that the right thing happens. */
static void send_judged(struct peer *peer, const struct buf *frame)
{
    bool slow = false;
    bool good = is_request(message_in(frame), &slow);
    if (slow) {
        return;
    }
    (void)send_bytes(peer, frame->at, frame->len);
    if (good) {
        expect_answer(peer, message_in(frame));
    } else {
        expect_end(peer);
    }
}

static void step_whole(struct peer *peer, struct program *program)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(STREAM);
    struct wire_request request = some_request(program);
    pack(&request, &frame);
    send_judged(peer, &frame);
}

/* Some of a frame now; the rest by STEP_REST, with whatever the others do in between. */
static void step_begin(struct peer *peer, struct program *program)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(STREAM);
    struct wire_request request = some_request(program);
    pack(&request, &frame);
    size_t part = next_two(program) % frame.len;
    memcpy(peer->rest, frame.at, frame.len);
    peer->rest_len = frame.len;
    BUG_IF(!send_bytes(peer, frame.at, part));
    peer->begun = part;
}

static void step_rest(struct peer *peer)
{
    size_t part = peer->begun, len = peer->rest_len;
    peer->rest_len = 0;
    BUG_IF(!send_bytes(peer, peer->rest + part, len - part));
    expect_answer(peer, span_of(peer->rest + FRAME_HEADER, len - FRAME_HEADER));
}

/* Two requests in one breath: neither is answered. Beyond what the broker reads at once it cannot see the second. */
static void step_twice(struct peer *peer, struct program *program)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(2 * STREAM);
    struct wire_request first = some_request(program), second = some_request(program);
    pack(&first, &frame);
    size_t one = frame.len;
    pack(&second, &frame);
    if (one >= STREAM / 4) {
        return;
    }
    (void)send_bytes(peer, frame.at, frame.len < STREAM ? frame.len : STREAM);
    expect_end(peer);
}

/* Up to four bytes of a good message changed, or its end cut off, under a header that fits. */
static void step_altered(struct peer *peer, struct program *program)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(STREAM);
    struct wire_request request = some_request(program);
    pack(&request, &frame);
    uint8_t how = next(program);
    for (unsigned i = 0; i < (how & 3u) + 1; i++) {
        size_t at = FRAME_HEADER + next_two(program) % (frame.len - FRAME_HEADER);
        frame.at[at] ^= next(program);
    }
    if ((how & 0x80) != 0) {
        size_t len = 1 + next_two(program) % (frame.len - FRAME_HEADER);
        frame.len = FRAME_HEADER + len;
        frame.at[0] = frame.at[1] = 0;
        frame.at[2] = (uint8_t)(len >> 8);
        frame.at[3] = (uint8_t)len;
    }
    send_judged(peer, &frame);
}

/* The program's own bytes as a message. */
static void step_raw(struct peer *peer, struct program *program)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(STREAM);
    uint8_t *at = NULL;
    size_t len = 1 + next(program);
    BUG_IF(FAULTED(frame_reserve(&frame, len, &at)));
    for (size_t i = 0; i < len; i++) {
        at[i] = next(program);
    }
    send_judged(peer, &frame);
}

/* A length that no frame has. */
static void step_length(struct peer *peer, struct program *program)
{
    uint32_t lengths[] = { 0, FRAME_MAX + 1, 0x7fffffff, 0xffffffff };
    uint32_t length = lengths[next(program) & 3];
    const uint8_t header[] = { (uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8),
                               (uint8_t)length, next(program) };
    (void)send_bytes(peer, header, sizeof(header));
    expect_end(peer);
}

/* A request whose sender does not wait for the answer, or not even for its end to be sent. */
static void step_leave(struct peer *peer, struct program *program)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(STREAM);
    struct wire_request request = some_request(program);
    pack(&request, &frame);
    size_t part = next_two(program) % (2 * frame.len);
    if (request.op != WIRE_GENERATE_KEY) {
        (void)send_bytes(peer, frame.at, part < frame.len ? part : frame.len);
    }
    peer_close(peer);
}

static void step(struct program *program)
{
    static const unsigned askers[] = { ASKER_API, ASKER_SUP, ASKER_API | ASKER_SUP, ASKER_API };
    uint8_t kind = next(program);
    struct peer *peer = &peers[kind % PEERS];
    if (peer->fd < 0) {
        peer_open(peer, askers[kind >> 6]);
    }
    if (peer->rest_len > 0) {
        step_rest(peer);
        return;
    }
    switch ((kind / PEERS) & 7) {
    case 0:
    case 1:
        step_whole(peer, program);
        return;
    case 2:
        step_begin(peer, program);
        return;
    case 3:
        step_twice(peer, program);
        return;
    case 4:
        step_altered(peer, program);
        return;
    case 5:
        step_raw(peer, program);
        return;
    case 6:
        step_length(peer, program);
        return;
    default:
        step_leave(peer, program);
        return;
    }
}

/* ---- and nobody else notices ---- */

static struct wire_response ask_innocently(const struct wire_request *request, struct arena *arena)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(STREAM);
    struct wire_response response;
    pack(request, &frame);
    BUG_IF(!send_bytes(&innocent, frame.at, frame.len) || !receive_answer(&innocent, arena, &response));
    check_answer(innocent.askers, request, &response);
    return response;
}

static struct wire_request innocent_request(enum wire_op op, enum key_purpose purpose)
{
    static uint64_t numbers = 1ull << 40;
    static const uint8_t digest[32] = { 1 };
    struct wire_request request = { .id = ++numbers,
                                    .deadline_ms = 15000,
                                    .op = op,
                                    .scheme = SIGN_SCHEME_ECDSA,
                                    .hash = HASH_SHA256,
                                    .digest = SPAN_ARRAY(digest) };
    request.key = (struct key_ref){ .tenant = { "innocent" }, .purpose = purpose, .id = ids[0] };
    return request;
}

static void serve_innocent(bool sign)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    BUG_IF(FAULTED(arena_new(WIRE_ARENA_MAX, &arena)));
    struct wire_request request =
        sign ? innocent_request(WIRE_SIGN, KEY_PURPOSE_CODESIGN) : innocent_request(WIRE_HEALTH, KEY_PURPOSE_NONE);
    struct wire_response response = ask_innocently(&request, arena);
    BUG_IF(FAULTED(response.fault));
    BUG_IF(!sign && (response.health->state != SIGNER_OK || !response.health->journal_usable));
}

static void make_keys(void)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    static const struct {
        const char *tenant;
        enum key_purpose purpose;
        enum key_algorithm algorithm;
    } rows[] = { { "innocent", KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256 },
                 { "acme", KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256 },
                 { "acme", KEY_PURPOSE_SEAL, KEY_ALGORITHM_AES_256 } };
    BUG_IF(FAULTED(arena_new(WIRE_ARENA_MAX, &arena)));
    for (size_t i = 0; i < KEYS; i++) {
        (void)snprintf(ids[i].text, sizeof(ids[i].text), "0190b3c4-0000-7000-8000-00000000000%zu", i);
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct wire_request request = innocent_request(WIRE_GENERATE_KEY, rows[i].purpose);
        request.algorithm = rows[i].algorithm;
        (void)snprintf(request.key.tenant.text, sizeof(request.key.tenant.text), "%s", rows[i].tenant);
        BUG_IF(FAULTED(ask_innocently(&request, arena).fault));
        arena_clear(arena);
    }
}

/* Connections end on threads of their own: a moment after their peers. */
static void all_are_gone(void)
{
    mono_ns limit = clock_mono() + LIMIT_MS * NS_PER_MS;
    for (unsigned count = 0; count != 1;) {
        broker_lock(&broker->lock);
        count = broker->count;
        broker_unlock(&broker->lock);
        BUG_IF(count != 1 && clock_mono() > limit);
    }
    BUG_IF(atomic_load(&broker->running) != 0);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    BUG_IF(fd < 0 || fd > lowest_fd + 8); /* the token's own files come and go */
    fd_close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct program program = { data, size };
    for (unsigned i = 0; i < STEPS_MAX && program.len > 0; i++) {
        step(&program);
    }
    serve_innocent(false);
    for (size_t i = 0; i < PEERS; i++) {
        if (peers[i].fd >= 0) {
            uint8_t byte = 0;
            BUG_IF(recv(peers[i].fd, &byte, 1, MSG_DONTWAIT) >= 0); /* an answer too many, or an end too early */
            peer_close(&peers[i]);
        }
    }
    serve_innocent(true);
    all_are_gone();
    return 0;
}
