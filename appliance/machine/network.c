#include "appliance/machine/network.h"

#include "appliance/base/file.h"
#include "appliance/machine/netlink.h"
#include "appliance/machine/sysctl.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NET_CLASS      "/sys/class/net"
#define INTERFACES_MAX 32
#define LINK_POLL_MS   100
#define NAMES_MAX      8192

struct fault network_parse(const char *text, struct network_address *ret_address)
{
    struct network_address address = { 0 };
    char host[INET6_ADDRSTRLEN];
    size_t len = strcspn(text, "/");
    REQUIRE(len < sizeof(host), BAD_ARGUMENT);
    memcpy(host, text, len);
    host[len] = '\0';
    address.family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET;
    address.len = address.family == AF_INET6 ? 16 : 4;
    address.prefix = address.len * 8;
    REQUIRE(inet_pton((int)address.family, host, address.bytes) == 1, BAD_ARGUMENT);
    if (text[len] == '/') {
        const char *digits = text + len + 1;
        size_t count = strspn(digits, "0123456789");
        REQUIRE(count >= 1 && count <= 3 && digits[count] == '\0', BAD_ARGUMENT);
        unsigned prefix = 0;
        for (size_t i = 0; i < count; i++) {
            prefix = prefix * 10 + (unsigned)(digits[i] - '0');
        }
        REQUIRE(prefix <= address.prefix, BAD_ARGUMENT);
        address.prefix = prefix;
    }
    *ret_address = address;
    return OK;
}

/* ---- interfaces ---- */

static bool class_number(const char *interface, const char *what, long *ret_number)
{
    char path[PATH_MAX];
    CLEANUP(buf_free) struct buf text = BUF_INIT(64);
    const char *digits = NULL;
    char *end = NULL;
    (void)snprintf(path, sizeof(path), NET_CLASS "/%s/%s", interface, what);
    if (FAULTED(file_read(path, &text)) || FAULTED(buf_cstr(&text, &digits))) {
        return false; /* the carrier of an interface that is down cannot be read */
    }
    *ret_number = strtol(digits, &end, 10);
    return end != digits;
}

/* A device of its own, not the loopback, a bridge or a tunnel. */
static bool is_ethernet(const char *interface)
{
    char path[PATH_MAX];
    long type = 0;
    (void)snprintf(path, sizeof(path), NET_CLASS "/%s/device", interface);
    return access(path, F_OK) == 0 && class_number(interface, "type", &type) && type == ARPHRD_ETHER;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static size_t ethernets(char names[][IFNAMSIZ])
{
    size_t count = 0;
    DIR *dir = opendir(NET_CLASS);
    if (dir == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL && count < INTERFACES_MAX; entry = readdir(dir)) {
        size_t len = strlen(entry->d_name);
        if (entry->d_name[0] != '.' && len < IFNAMSIZ && is_ethernet(entry->d_name)) {
            memcpy(names[count++], entry->d_name, len + 1);
        }
    }
    (void)closedir(dir);
    qsort(names, count, IFNAMSIZ, by_name);
    return count;
}

/* What a router or a neighbour says must not change this machine's network. */
static void distrust(const char *interface)
{
    static const char *const zero[] = { "ipv6/conf/%s/accept_ra",        "ipv6/conf/%s/autoconf",
                                        "ipv6/conf/%s/accept_redirects", "ipv4/conf/%s/accept_redirects",
                                        "ipv4/conf/%s/send_redirects",   "ipv4/conf/%s/accept_source_route" };
    for (size_t i = 0; i < COUNT_OF(zero); i++) {
        char path[PATH_MAX] = "/proc/sys/net/";
        size_t at = strlen(path);
        const char *mark = strstr(zero[i], "%s");
        (void)snprintf(path + at, sizeof(path) - at, "%.*s%s%s", (int)(mark - zero[i]), zero[i], interface, mark + 2);
        sysctl_put(path, "0");
    }
}

static bool has_link(const char *interface)
{
    long carrier = 0;
    return class_number(interface, "carrier", &carrier) && carrier == 1;
}

static struct fault interface_up(struct op *op, int netlink, const char *interface)
{
    unsigned index = if_nametoindex(interface);
    if (index == 0) {
        return op_fail(op, FAULT(NOT_FOUND), "there is no network interface %s", interface);
    }
    distrust(interface);
    return netlink_up(op, netlink, index);
}

/* Brings all up and takes the first with a link; when time is over, the first. */
static struct fault choose(struct op *op, int netlink, const char **ret_interface)
{
    char names[INTERFACES_MAX][IFNAMSIZ];
    for (size_t seen = 0;;) {
        size_t count = ethernets(names);
        for (; seen < count; seen++) {
            TRY(interface_up(op, netlink, names[seen]));
        }
        for (size_t i = 0; i < count; i++) {
            if (has_link(names[i]) || (i + 1 == count && op_expired(op))) {
                return arena_text(op->arena, span_text(has_link(names[i]) ? names[i] : names[0]), ret_interface);
            }
        }
        if (op_expired(op)) {
            return op_fail(op, FAULT(NOT_FOUND), "no network interface was found");
        }
        (void)poll(NULL, 0, LINK_POLL_MS);
    }
}

static struct fault wait_interface(struct op *op, const char *interface)
{
    while (if_nametoindex(interface) == 0 && !op_expired(op)) {
        (void)poll(NULL, 0, LINK_POLL_MS);
    }
    return OK;
}

struct fault network_loopback(struct op *op)
{
    CLEANUP(fd_closep) int netlink = -1;
    TRY(netlink_open(op, &netlink));
    return interface_up(op, netlink, "lo");
}

struct fault network_start(struct op *op, const struct provision *provision, const char **ret_interface)
{
    CLEANUP(fd_closep) int netlink = -1;
    TRY(netlink_open(op, &netlink));
    distrust("all");
    distrust("default");
    const char *interface = provision->network.interface;
    if (strcmp(interface, "auto") == 0) {
        TRY(choose(op, netlink, &interface));
    } else {
        TRY(wait_interface(op, interface));
        TRY(interface_up(op, netlink, interface));
    }
    unsigned index = if_nametoindex(interface);
    op->deadline = clock_mono() + 10 * NS_PER_S; /* the wait is over; the rest is the kernel's */
    for (size_t i = 0; i < provision->network.addresses.count; i++) {
        struct network_address address;
        TRY(network_parse(provision->network.addresses.at[i], &address));
        TRY(netlink_address(op, netlink, index, &address));
    }
    for (size_t i = 0; i < provision->network.gateways.count; i++) {
        struct network_address gateway;
        TRY(network_parse(provision->network.gateways.at[i], &gateway));
        TRY(netlink_gateway(op, netlink, index, &gateway));
    }
    *ret_interface = interface;
    return OK;
}

struct fault network_names(struct op *op, const struct provision *provision)
{
    if (sethostname(provision->hostname, strlen(provision->hostname)) != 0) {
        return op_fail(op, FAULT(IO), "the kernel does not take the host name: %s", strerrordesc_np(errno));
    }
    CLEANUP(buf_free) struct buf resolv = BUF_INIT(NAMES_MAX);
    for (size_t i = 0; i < provision->network.dns.count; i++) {
        TRY(buf_printf(&resolv, "nameserver %s\n", provision->network.dns.at[i]));
    }
    TRY(buf_text(&resolv, "options timeout:2 attempts:2\n"));
    TRY(file_write(RESOLV_FILE, buf_span(&resolv), 0644));
    CLEANUP(buf_free) struct buf hosts = BUF_INIT(NAMES_MAX);
    TRY(buf_printf(&hosts, "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n", provision->hostname));
    return file_write(HOSTS_FILE, buf_span(&hosts), 0644);
}
