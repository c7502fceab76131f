#include "appliance/machine/netlink.h"

#include "appliance/base/file.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_MAX 512
#define ANSWER_MAX  4096
#define FLAGS       (NLM_F_REQUEST | NLM_F_ACK)
#define FLAGS_NEW   (FLAGS | NLM_F_CREATE | NLM_F_EXCL)

struct fault netlink_open(struct op *op, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    if (fd < 0 || connect(fd, (const struct sockaddr *)&kernel, sizeof(kernel)) != 0) {
        return op_fail(op, FAULT(IO), "cannot speak to the kernel's network: %s", strerrordesc_np(errno));
    }
    *ret_fd = fd;
    fd = -1;
    return OK;
}

static struct fault put_padded(struct buf *out, const void *at, size_t len)
{
    static const uint8_t zeros[NLMSG_ALIGNTO];
    TRY(buf_put(out, span_of(at, len)));
    return buf_put(out, span_of(zeros, NLMSG_ALIGN(len) - len));
}

/* Header and fixed part; the length is set by finish. */
static struct fault begin(struct buf *out, uint16_t type, uint16_t flags, const void *fixed, size_t len)
{
    struct nlmsghdr head = { .nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = 1 };
    TRY(put_padded(out, &head, sizeof(head)));
    return put_padded(out, fixed, len);
}

static struct fault attribute(struct buf *out, uint16_t type, const void *at, size_t len)
{
    struct rtattr head = { .rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(len) };
    TRY(put_padded(out, &head, sizeof(head)));
    return put_padded(out, at, len);
}

static void finish(struct buf *out)
{
    uint32_t len = (uint32_t)out->len;
    memcpy(out->at, &len, sizeof(len)); /* nlmsg_len is the first member */
}

/* Sends it and reads the acknowledgement; `fine` is an error that is none. */
static struct fault talk(struct op *op, int fd, struct buf *message, int fine, const char *what)
{
    finish(message);
    if (send(fd, message->at, message->len, 0) != (ssize_t)message->len) {
        return op_fail(op, FAULT(IO), "%s: %s", what, strerrordesc_np(errno));
    }
    struct pollfd waited = { .fd = fd, .events = POLLIN };
    int left = clock_ms_left(op->deadline);
    if (poll(&waited, 1, left > 1000 ? left : 1000) != 1) {
        return op_fail(op, FAULT(DEADLINE), "%s: the kernel does not answer", what);
    }
    alignas(struct nlmsghdr) uint8_t answer[ANSWER_MAX];
    ssize_t got = recv(fd, answer, sizeof(answer), 0);
    const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
    if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) || head->nlmsg_type != NLMSG_ERROR) {
        return op_fail(op, FAULT(IO), "%s: the kernel's answer is none", what);
    }
    const struct nlmsgerr *error = (const struct nlmsgerr *)NLMSG_DATA(head);
    if (error->error != 0 && error->error != -fine) {
        return op_fail(op, FAULT(IO), "%s: %s", what, strerrordesc_np(-error->error));
    }
    return OK;
}

struct fault netlink_up(struct op *op, int fd, unsigned interface)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT(MESSAGE_MAX);
    struct ifinfomsg info = { .ifi_index = (int)interface, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };
    TRY(begin(&message, RTM_NEWLINK, FLAGS, &info, sizeof(info)));
    return talk(op, fd, &message, 0, "the interface cannot be brought up");
}

struct fault netlink_print_address(struct buf *out, unsigned interface, const struct network_address *address)
{
    struct ifaddrmsg info = {
        .ifa_family = (uint8_t)address->family,
        .ifa_prefixlen = (uint8_t)address->prefix,
        .ifa_flags = IFA_F_PERMANENT,
        .ifa_index = interface,
    };
    TRY(begin(out, RTM_NEWADDR, FLAGS_NEW, &info, sizeof(info)));
    TRY(attribute(out, IFA_LOCAL, address->bytes, address->len));
    return attribute(out, IFA_ADDRESS, address->bytes, address->len);
}

struct fault netlink_address(struct op *op, int fd, unsigned interface, const struct network_address *address)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT(MESSAGE_MAX);
    TRY(netlink_print_address(&message, interface, address));
    return talk(op, fd, &message, EEXIST, "the address cannot be set");
}

struct fault netlink_print_gateway(struct buf *out, unsigned interface, const struct network_address *gateway)
{
    struct rtmsg info = {
        .rtm_family = (uint8_t)gateway->family,
        .rtm_table = RT_TABLE_MAIN,
        .rtm_protocol = RTPROT_STATIC,
        .rtm_scope = RT_SCOPE_UNIVERSE,
        .rtm_type = RTN_UNICAST,
    };
    TRY(begin(out, RTM_NEWROUTE, FLAGS_NEW, &info, sizeof(info)));
    TRY(attribute(out, RTA_GATEWAY, gateway->bytes, gateway->len));
    return attribute(out, RTA_OIF, &interface, sizeof(interface));
}

struct fault netlink_gateway(struct op *op, int fd, unsigned interface, const struct network_address *gateway)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT(MESSAGE_MAX);
    TRY(netlink_print_gateway(&message, interface, gateway));
    return talk(op, fd, &message, EEXIST, "the gateway cannot be set");
}
