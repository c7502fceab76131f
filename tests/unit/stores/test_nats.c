#include "unit/stores/testlib.h"

#include "appliance/base/file.h"
#include "appliance/stores/nats.h"
#include "appliance/stores/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* A loopback port that was free a moment ago; `held` >= 0 keeps it. */
static int64_t pick_port(int *held)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(any);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &len), 0);
    if (held != NULL) {
        *held = fd;
    } else {
        (void)close(fd);
    }
    return ntohs(any.sin_port);
}

static pid_t start(struct scratch *scratch)
{
    pid_t pid = 0;
    scratch->config.nats_embedded_port = pick_port(NULL);
    assert_fault(nats_init(scratch->op, &scratch->config), NONE);
    assert_fault(nats_start(scratch->op, &scratch->config, &pid), NONE);
    while (FAULTED(nats_check(scratch->op, &scratch->config))) {
        assert_false(op_expired(scratch->op));
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    }
    return pid;
}

static void stop(pid_t pid)
{
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Sends lines after the server's greeting; `said` gets what comes until `until`. */
static void talk(struct scratch *scratch, const char *lines, const char *until, struct buf *said)
{
    char port[16];
    int fd = -1;
    (void)snprintf(port, sizeof(port), "%d", (int)scratch->config.nats_embedded_port);
    assert_fault(port_connect(scratch->op, "127.0.0.1", port, &fd), NONE);
    assert_fault(port_receive(scratch->op, fd, "\r\n", said), NONE);
    assert_fault(port_send(scratch->op, fd, span_text(lines)), NONE);
    buf_clear(said);
    assert_fault(port_receive(scratch->op, fd, until, said), NONE);
    (void)close(fd);
}

static void a_taken_port_is_refused_before_anything_is_written(void **state)
{
    struct scratch *scratch = *state;
    int held = -1;
    scratch->config.nats_embedded_port = pick_port(&held);
    assert_fault(nats_init(scratch->op, &scratch->config), CONFLICT);
    assert_non_null(strstr(scratch->op->note.detail, "nats.embedded_port"));
    (void)close(held);
}

static void a_data_folder_that_the_server_would_misread_is_refused(void **state)
{
    struct scratch *scratch = *state;
    char odd[128];
    (void)snprintf(odd, sizeof(odd), "%s/od\"d", scratch->dir);
    assert_int_equal(mkdir(odd, 0755), 0);
    scratch->config.data_dir = odd;
    scratch->config.nats_embedded_port = pick_port(NULL);
    assert_fault(nats_init(scratch->op, &scratch->config), CONFIG);
}

static void an_external_server_that_is_not_there_is_unavailable(void **state)
{
    struct scratch *scratch = *state;
    char url[64];
    (void)snprintf(url, sizeof(url), "nats://127.0.0.1:%d, tls://u@127.0.0.1:%d", (int)pick_port(NULL),
                   (int)pick_port(NULL));
    scratch->config.nats_url = url;
    assert_false(nats_embedded(&scratch->config));
    assert_fault(nats_check(scratch->op, &scratch->config), LOG_UNAVAILABLE);
}

static void an_external_server_that_speaks_only_after_a_tls_greeting_is_there(void **state)
{
    struct scratch *scratch = *state;
    int held = -1;
    char url[64];
    (void)snprintf(url, sizeof(url), "tls://127.0.0.1:%d", (int)pick_port(&held));
    scratch->config.nats_url = url;
    assert_fault(nats_check(scratch->op, &scratch->config), NONE);
    (void)close(held);
}

static void strangers_are_not_let_in(void **state)
{
    struct scratch *scratch = *state;
    pid_t pid = start(scratch);
    CLEANUP(buf_free) struct buf said = BUF_INIT(16384);
    const char *text = NULL;
    talk(scratch, "CONNECT {\"verbose\":false}\r\nPING\r\n", "\r\n", &said);
    assert_fault(buf_cstr(&said, &text), NONE);
    assert_non_null(strstr(text, "Authorization Violation"));
    buf_clear(&said);
    talk(scratch, "CONNECT {\"user\":\"svc\",\"pass\":\"guess\"}\r\nPING\r\n", "\r\n", &said);
    assert_fault(buf_cstr(&said, &text), NONE);
    assert_non_null(strstr(text, "Authorization Violation"));
    stop(pid);
}

static void the_credentials_open_it_and_it_says_that_it_syncs_every_write(void **state)
{
    struct scratch *scratch = *state;
    pid_t pid = start(scratch);
    char path[128], login[512];
    struct stat about;
    CLEANUP(buf_free) struct buf credentials = BUF_INIT(256), said = BUF_INIT(65536);
    (void)snprintf(path, sizeof(path), "%s/nats-client/credentials", scratch->data);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(about.st_uid, 643);
    assert_fault(file_read(path, &credentials), NONE);
    const char *text = NULL;
    assert_fault(buf_cstr(&credentials, &text), NONE);
    (void)snprintf(login, sizeof(login),
                   "CONNECT {\"verbose\":false,\"user\":\"svc\",\"pass\":\"%.64s\"}\r\nSUB answers 1\r\n"
                   "PUB $SYS.REQ.SERVER.PING.VARZ answers 0\r\n\r\n",
                   strchr(text, ':') + 1);
    talk(scratch, login, "sync_always\":", &said);
    assert_fault(buf_cstr(&said, &text), NONE);
    assert_non_null(strstr(text, "\"sync_always\":true"));

    scratch->config.nats_url = "nats://svc@127.0.0.1:1, nats://127.0.0.1:2";
    assert_fault(nats_check(scratch->op, &scratch->config), LOG_UNAVAILABLE);
    char url[64];
    (void)snprintf(url, sizeof(url), "nats://127.0.0.1:1,nats://127.0.0.1:%d", (int)scratch->config.nats_embedded_port);
    scratch->config.nats_url = url; /* seen as an external one, it answers too */
    assert_fault(nats_check(scratch->op, &scratch->config), NONE);
    stop(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_taken_port_is_refused_before_anything_is_written),
        scratch_test(a_data_folder_that_the_server_would_misread_is_refused),
        scratch_test(an_external_server_that_is_not_there_is_unavailable),
        scratch_test(an_external_server_that_speaks_only_after_a_tls_greeting_is_there),
        scratch_test(strangers_are_not_let_in),
        scratch_test(the_credentials_open_it_and_it_says_that_it_syncs_every_write),
    };
    return cmocka_run_group_tests_name("nats", tests, NULL, NULL);
}
