#include "appliance/machine/provision_rows.h"

#include <arpa/inet.h>
#include <stdio.h>

#define LABEL_MAX     63
#define INTERFACE_MAX 15
#define ADDRESSES_MAX 8
#define DNS_MAX       3 /* as many as the resolver reads */

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char digits[] = "0123456789";

bool provision_made_of(const char *text, const char *more)
{
    for (; *text != '\0'; text++) {
        if (strchr(letters, *text) == NULL && strchr(digits, *text) == NULL && strchr(more, *text) == NULL) {
            return false;
        }
    }
    return true;
}

/* ---- names and addresses ---- */

/* RFC 1123 2.1: labels of letters, digits and inner hyphens. A name that is all digits and dots would be an address. */
bool provision_host_name_fits(const char *name, size_t most)
{
    size_t len = strlen(name);
    if (len == 0 || len > most || strspn(name, "0123456789.") == len || !provision_made_of(name, ".-")) {
        return false;
    }
    while (true) {
        size_t label = strcspn(name, ".");
        if (label == 0 || label > LABEL_MAX || name[0] == '-' || name[label - 1] == '-') {
            return false;
        }
        if (name[label] == '\0') {
            return true;
        }
        name += label + 1;
    }
}

struct address {
    int family; /* AF_INET, AF_INET6 */
    uint8_t at[16];
    unsigned bits; /* of the network */
};

static bool address_parse(const char *text, struct address *ret_address)
{
    struct address address = { .family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET };
    address.bits = address.family == AF_INET6 ? 128 : 32;
    if (inet_pton(address.family, text, address.at) != 1) {
        return false;
    }
    *ret_address = address;
    return true;
}

static bool cidr_parse(const char *text, struct address *ret_address)
{
    char host[64];
    int64_t bits = 0;
    const char *slash = strchr(text, '/');
    if (slash == NULL || (size_t)(slash - text) >= sizeof(host) || slash[1] == '-' || strlen(slash + 1) > 3 ||
        !config_parse_int(slash + 1, &bits)) {
        return false;
    }
    (void)snprintf(host, sizeof(host), "%.*s", (int)(slash - text), text);
    struct address address;
    if (!address_parse(host, &address) || bits < 1 || bits > (int64_t)address.bits) {
        return false;
    }
    address.bits = (unsigned)bits;
    *ret_address = address;
    return true;
}

/* A host's own: not unspecified, loopback or multicast. */
static bool is_unicast(const struct address *address)
{
    static const uint8_t none[16], loopback[16] = { [15] = 1 };
    if (address->family == AF_INET) {
        return address->at[0] != 0 && address->at[0] != 127 && address->at[0] < 224;
    }
    return address->at[0] != 0xff && memcmp(address->at, none, 16) != 0 && memcmp(address->at, loopback, 16) != 0;
}

static bool same_network(const struct address *network, const struct address *address)
{
    if (network->family != address->family) {
        return false;
    }
    for (unsigned bit = 0; bit < network->bits; bit++) {
        uint8_t mask = (uint8_t)(0x80 >> (bit % 8));
        if ((network->at[bit / 8] & mask) != (address->at[bit / 8] & mask)) {
            return false;
        }
    }
    return true;
}

bool provision_host_fits(const char *text)
{
    struct address ignored;
    return address_parse(text, &ignored) || provision_host_name_fits(text, PROVISION_TEXT_MAX);
}

void provision_check_hosts(struct provision_load *load, const char *key, const struct provision_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        if (!provision_host_fits(texts->at[i])) {
            provision_refuse_key(load, key, "'%.80s' is neither a host name nor an address", texts->at[i]);
        }
    }
}

/* ---- network ---- */

static void check_addresses(struct provision_load *load, const struct provision_texts *texts)
{
    if (texts->count == 0 || texts->count > ADDRESSES_MAX) {
        provision_refuse_key(load, "network.address", "needs 1 to %d addresses, such as 192.0.2.10/24", ADDRESSES_MAX);
    }
    for (size_t i = 0; i < texts->count; i++) {
        struct address address;
        if (!cidr_parse(texts->at[i], &address) || !is_unicast(&address)) {
            provision_refuse_key(load, "network.address",
                                 "'%.80s' must be an address of this machine with the length of its network, such as "
                                 "192.0.2.10/24 or 2001:db8::10/64",
                                 texts->at[i]);
        }
    }
}

static bool reachable(const struct provision_texts *addresses, const struct address *gateway)
{
    if (gateway->family == AF_INET6 && gateway->at[0] == 0xfe && (gateway->at[1] & 0xc0) == 0x80) {
        return true; /* link-local: on every link */
    }
    for (size_t i = 0; i < addresses->count; i++) {
        struct address own;
        if (cidr_parse(addresses->at[i], &own) && same_network(&own, gateway)) {
            return true;
        }
    }
    return false;
}

static void check_gateways(struct provision_load *load, const struct provision *provision)
{
    const struct provision_texts *texts = &provision->network.gateways;
    unsigned of_family[2] = { 0 };
    for (size_t i = 0; i < texts->count; i++) {
        struct address gateway;
        if (!address_parse(texts->at[i], &gateway) || !is_unicast(&gateway)) {
            provision_refuse_key(load, "network.gateway", "'%.80s' is no address of a router", texts->at[i]);
            continue;
        }
        if (of_family[gateway.family == AF_INET6]++ > 0) {
            provision_refuse_key(load, "network.gateway", "at most one for IPv4 and one for IPv6");
        }
        if (!reachable(&provision->network.addresses, &gateway)) {
            provision_refuse_key(load, "network.gateway", "'%.80s' is in no network of network.address", texts->at[i]);
        }
    }
}

void provision_check_network(struct provision_load *load, const struct provision *provision)
{
    const char *interface = provision->network.interface;
    const struct provision_texts *dns = &provision->network.dns;
    if (strlen(interface) > INTERFACE_MAX || !provision_made_of(interface, "._-") ||
        !provision_made_of((char[]){ interface[0], 0 }, "")) {
        provision_refuse_key(load, "network.interface", "'%.40s' must be auto or the name of an interface", interface);
    }
    check_addresses(load, &provision->network.addresses);
    check_gateways(load, provision);
    if (dns->count > DNS_MAX) {
        provision_refuse_key(load, "network.dns", "at most %d servers are asked", DNS_MAX);
    }
    for (size_t i = 0; i < dns->count; i++) {
        struct address server;
        if (!address_parse(dns->at[i], &server)) {
            provision_refuse_key(load, "network.dns", "'%.80s' is no address", dns->at[i]);
        }
    }
    provision_check_hosts(load, "time.servers", &provision->time.servers);
    if (provision->time.servers.count == 0 && !provision->time.trust_host) {
        provision_refuse_key(load, "time.servers",
                             "needs time servers; without any, say time.trust_host: true, so that time stamps rest on "
                             "the clock of the host");
    }
}
