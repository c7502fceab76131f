#include "unit/stores/testlib.h"

#include "appliance/stores/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static void an_address_without_a_port_is_refused(void **state)
{
    struct scratch *scratch = *state;
    static const char *const bad[] = { "", ":", "localhost", "localhost:", ":8443", "localhost:84x3" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *host = NULL, *port = NULL;
        assert_fault(port_split(scratch->op, bad[i], &host, &port), BAD_ARGUMENT);
        assert_null(host);
    }
}

static void addresses_are_parted(void **state)
{
    struct scratch *scratch = *state;
    static const char *const good[][3] = { { "127.0.0.1:8443", "127.0.0.1", "8443" },
                                           { "[::1]:1", "::1", "1" },
                                           { "a.b:65535", "a.b", "65535" } };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        const char *host = NULL, *port = NULL;
        assert_fault(port_split(scratch->op, good[i][0], &host, &port), NONE);
        assert_string_equal(host, good[i][1]);
        assert_string_equal(port, good[i][2]);
    }
}

/* A listener on a port that the kernel picks; address gets "127.0.0.1:port". */
static int listener(char address[32])
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(any);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &len), 0);
    (void)snprintf(address, 32, "127.0.0.1:%u", ntohs(any.sin_port));
    return fd;
}

static void a_taken_port_is_named_with_its_setting(void **state)
{
    struct scratch *scratch = *state;
    char address[32];
    int fd = listener(address);
    assert_fault(port_free(scratch->op, "http.listen", address), CONFLICT);
    assert_non_null(strstr(scratch->op->note.detail, "http.listen: cannot listen on 127.0.0.1:"));
    (void)close(fd);
    assert_fault(port_free(scratch->op, "http.listen", address), NONE);
    const char *host = NULL, *port = NULL;
    assert_fault(port_split(scratch->op, address, &host, &port), NONE);
    int connected = -1;
    assert_fault(port_connect(scratch->op, host, port, &connected), IO); /* looking did not listen */
}

static void a_silent_server_ends_with_the_deadline(void **state)
{
    struct scratch *scratch = *state;
    char address[32];
    int fd = listener(address), connected = -1;
    const char *host = NULL, *port = NULL;
    scratch_renew(scratch, 150);
    assert_fault(port_split(scratch->op, address, &host, &port), NONE);
    assert_fault(port_connect(scratch->op, host, port, &connected), NONE);
    CLEANUP(buf_free) struct buf said = BUF_INIT(100);
    assert_fault(port_receive(scratch->op, connected, "\n", &said), DEADLINE);
    (void)close(connected);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(an_address_without_a_port_is_refused),
        scratch_test(addresses_are_parted),
        scratch_test(a_taken_port_is_named_with_its_setting),
        scratch_test(a_silent_server_ends_with_the_deadline),
    };
    return cmocka_run_group_tests_name("port", tests, NULL, NULL);
}
