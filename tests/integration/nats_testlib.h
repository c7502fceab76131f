/* A nats-server of a test's own: started, killed and started again at will; and what it takes to plant things in it. */
#ifndef TESTS_INTEGRATION_NATS_TESTLIB_H
#define TESTS_INTEGRATION_NATS_TESTLIB_H

#include "api/events/internal.h"
#include "testlib.h"

#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum nats_says { NATS_SYNCS, NATS_SYNCS_LATER, NATS_SAYS_NOTHING };

struct nats {
    char folder[64];
    int port;
    pid_t pid;
};

static inline struct config default_config(void)
{
    return (struct config){
#define CONFIG_TEXT(member, key, env, fallback, doc)           .member = (fallback),
#define CONFIG_INT(member, key, env, fallback, min, max, doc)  .member = (fallback),
#define CONFIG_BOOL(member, key, env, fallback, doc)           .member = (fallback),
#define CONFIG_TIME(member, key, env, fallback, min, max, doc) .member = (fallback),
#define CONFIG_LIST(member, key, env, fallback, doc)           .member = { NULL, 0 },
#include "appliance/base/config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TIME
#undef CONFIG_LIST
    };
}

static inline int loopback_listen(int *ret_port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static inline int loopback_connect(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static inline void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

static inline void nats_configure(const struct nats *nats, enum nats_says says)
{
    char text[2048], path[128];
    static const char sys[] = "$SYS.REQ.SERVER.PING.VARZ";
    (void)snprintf(text, sizeof(text),
                   "server_name: t\nlisten: \"127.0.0.1:%d\"\n"
                   "jetstream { store_dir: \"%s/js\", max_memory_store: 64MB, max_file_store: 8GB%s }\n"
                   "system_account: SYS\naccounts {\n"
                   "  SYS: { exports: [ { service: \"%s\", response_type: stream } ] }\n"
                   "  SVC: { jetstream: enabled, users: [ { user: \"svc\", password: \"pw\" } ]%s%s%s }\n}\n",
                   nats->port, nats->folder, says != NATS_SYNCS_LATER ? ", sync_interval: always" : "", sys,
                   says != NATS_SAYS_NOTHING ? ", imports: [ { service: { account: SYS, subject: \"" : "",
                   says != NATS_SAYS_NOTHING ? sys : "", says != NATS_SAYS_NOTHING ? "\" } } ]" : "");
    (void)snprintf(path, sizeof(path), "%s/nats.conf", nats->folder);
    write_text(path, text);
    (void)snprintf(path, sizeof(path), "%s/credentials", nats->folder);
    write_text(path, "svc:pw\n");
}

/* A fresh folder (under SVC_TEST_FOLDER, or /tmp) and a free port; nothing runs yet. */
static inline struct nats nats_new(enum nats_says says)
{
    struct nats nats = { 0 };
    const char *under = getenv("SVC_TEST_FOLDER");
    (void)snprintf(nats.folder, sizeof(nats.folder), "%s/svc-nats-XXXXXX", under != NULL ? under : "/tmp");
    assert_non_null(mkdtemp(nats.folder));
    assert_int_equal(close(loopback_listen(&nats.port)), 0);
    nats_configure(&nats, says);
    return nats;
}

static inline void nats_start(struct nats *nats)
{
    char conf[128], log[128];
    (void)snprintf(conf, sizeof(conf), "%s/nats.conf", nats->folder);
    (void)snprintf(log, sizeof(log), "%s/nats.log", nats->folder);
    nats->pid = fork();
    assert_true(nats->pid >= 0);
    if (nats->pid == 0) {
        (void)execlp("nats-server", "nats-server", "-c", conf, "-l", log, (char *)NULL);
        _exit(127);
    }
    int fd = -1;
    for (int i = 0; i < 500 && fd < 0; i++) {
        fd = loopback_connect(nats->port);
        if (fd < 0) {
            (void)poll(NULL, 0, 20);
        }
    }
    assert_true(fd >= 0);
    (void)close(fd);
}

/* Until it really stands: the signal alone is only on its way. */
static inline void nats_freeze(struct nats *nats)
{
    int status = 0;
    assert_int_equal(kill(nats->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(nats->pid, &status, WUNTRACED), nats->pid);
    assert_true(WIFSTOPPED(status));
}

static inline void nats_kill(struct nats *nats)
{
    if (nats->pid > 0) {
        assert_int_equal(kill(nats->pid, SIGKILL), 0);
        assert_int_equal(waitpid(nats->pid, NULL, 0), nats->pid);
        nats->pid = 0;
    }
}

static inline int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat, (void)kind, (void)at;
    return remove(path);
}

static inline void nats_remove(struct nats *nats)
{
    nats_kill(nats);
    (void)nftw(nats->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Points `config` at the server (or at `port`, when it is not 0). The texts live in static storage: one server a test.
 */
static inline void nats_use(const struct nats *nats, int port, struct config *config)
{
    static char url[64], credentials[128];
    (void)snprintf(url, sizeof(url), "nats://127.0.0.1:%d", port != 0 ? port : nats->port);
    (void)snprintf(credentials, sizeof(credentials), "%s/credentials", nats->folder);
    config->nats_url = url;
    config->nats_credentials = credentials;
    config->nats_stream = "TEST";
}

static inline struct event_log *log_for_test(const struct config *config)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct event_log *log = NULL;
    struct fault fault = event_log_open(config, &why, &log);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%.*s", (int)why.len, (const char *)why.at);
    }
    assert_fault(fault, NONE);
    return log;
}

static inline struct op *op_of(const char *tenant_text, int timeout_ms)
{
    struct op *op = NULL;
    struct tenant_id id = { "" };
    (void)snprintf(id.text, sizeof(id.text), "%s", tenant_text);
    assert_fault(op_new("tester", id, timeout_ms, &op), NONE);
    return op;
}

/* One event of type "test.said" with data {"n":number}. */
static inline struct fault append_number(struct op *op, struct event_log *log, const char *lane, int number,
                                         const struct uuid *id, uint64_t *ret_seq)
{
    char data[32];
    (void)snprintf(data, sizeof(data), "{\"n\":%d}", number);
    struct event event = { "test.said", 1, span_text(data) };
    struct event_append append = { .lane = lane, .events = &event, .count = 1 };
    if (id != NULL) {
        append.message_id = *id;
    }
    return events_append(op, log, &append, ret_seq);
}

static inline struct uuid id_of(int number)
{
    struct uuid id;
    (void)snprintf(id.text, sizeof(id.text), "00000000-0000-8000-8000-%012d", number);
    return id;
}

/* The encoded body of append_number's message, with a fixed time and actor. */
static inline void body_of_number(const char *tenant_text, const char *lane, int number, struct buf *out)
{
    char data[32];
    (void)snprintf(data, sizeof(data), "{\"n\":%d}", number);
    struct event event = { "test.said", 1, span_text(data) };
    const struct principal actor = { .subject = "planter" };
    struct event_body body = { .actor = &actor,
                               .lane = lane,
                               .trace_id = "",
                               .message_id = id_of(number),
                               .time = 1000000LL * number,
                               .events = &event,
                               .count = 1 };
    (void)snprintf(body.tenant.text, sizeof(body.tenant.text), "%s", tenant_text);
    assert_fault(event_message_encode(&body, out), NONE);
}

static inline uint64_t plant(struct event_log *log, const char *subject, struct span body)
{
    jsPubAck *ack = NULL;
    assert_int_equal(js_Publish(&ack, log->js, subject, body.at, (int)body.len, NULL, NULL), NATS_OK);
    uint64_t seq = ack->Sequence;
    jsPubAck_Destroy(ack);
    return seq;
}

/* A stream as event_log_open makes it, but one that can be damaged until damage_done. */
static inline void make_soft_stream(struct event_log *log, uint64_t first_seq)
{
    const char *subjects[] = { EVENTS_SUBJECTS };
    jsStreamConfig stream;
    assert_int_equal(jsStreamConfig_Init(&stream), NATS_OK);
    stream.Name = log->config->nats_stream;
    stream.Subjects = subjects;
    stream.SubjectsLen = 1;
    stream.Storage = js_FileStorage;
    stream.Discard = js_DiscardNew;
    stream.MaxMsgSize = STREAM_MESSAGE_MAX;
    stream.Replicas = 1;
    stream.Duplicates = DUPLICATE_WINDOW_NS;
    stream.AllowDirect = true;
    stream.FirstSeq = first_seq;
    assert_int_equal(js_AddStream(NULL, log->js, &stream, NULL, NULL), NATS_OK);
}

static inline void harden_stream(struct event_log *log)
{
    jsStreamInfo *info = NULL;
    assert_int_equal(js_GetStreamInfo(&info, log->js, log->config->nats_stream, NULL, NULL), NATS_OK);
    info->Config->DenyDelete = true;
    info->Config->DenyPurge = true;
    assert_int_equal(js_UpdateStream(NULL, log->js, info->Config, NULL, NULL), NATS_OK);
    jsStreamInfo_Destroy(info);
}

static inline void delete_stream(struct event_log *log)
{
    assert_int_equal(js_DeleteStream(log->js, log->config->nats_stream, NULL, NULL), NATS_OK);
}

/* Between client and server: lets everything through, keeps the server's answers back, or cuts the connection. */
struct proxy {
    int listener, port, server_port;
    char url[64];
    atomic_bool hold, cut, stop;
    pthread_t thread;
};

static inline bool forward(int from, int to)
{
    char bytes[4096];
    ssize_t got = read(from, bytes, sizeof(bytes));
    return got > 0 && (to < 0 || write(to, bytes, (size_t)got) == got);
}

static inline void *proxy_run(void *arg)
{
    struct proxy *proxy = arg;
    int client = -1, server = -1;
    while (!atomic_load(&proxy->stop)) {
        struct pollfd fds[] = { { proxy->listener, POLLIN, 0 }, { client, POLLIN, 0 }, { server, POLLIN, 0 } };
        (void)poll(fds, 3, 20);
        bool lost = client >= 0 && atomic_load(&proxy->cut);
        if (client < 0 && !atomic_load(&proxy->cut) && (fds[0].revents & POLLIN) != 0) {
            client = accept(proxy->listener, NULL, NULL);
            server = loopback_connect(proxy->server_port);
            lost = server < 0;
        } else if (client >= 0 && !lost) {
            lost = (fds[1].revents != 0 && !forward(client, server)) ||
                   (fds[2].revents != 0 && !forward(server, atomic_load(&proxy->hold) ? -1 : client));
        }
        if (lost) {
            (void)close(client);
            (void)close(server);
            client = server = -1;
        }
    }
    (void)close(client);
    (void)close(server);
    return NULL;
}

/* Points `config` at itself. */
static inline void proxy_start(struct proxy *proxy, struct config *config)
{
    proxy->listener = loopback_listen(&proxy->port);
    assert_int_equal(pthread_create(&proxy->thread, NULL, proxy_run, proxy), 0);
    (void)snprintf(proxy->url, sizeof(proxy->url), "nats://127.0.0.1:%d", proxy->port);
    config->nats_url = proxy->url;
}

static inline void proxy_stop(struct proxy *proxy)
{
    atomic_store(&proxy->stop, true);
    assert_int_equal(pthread_join(proxy->thread, NULL), 0);
    (void)close(proxy->listener);
}

#endif
