#include "appliance/machine/boot_facts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#define VARIABLE_BYTES 5 /* of SecureBoot */

/* The text behind "<name>=" at the start of a word, up to a character of `ends`. */
static bool value_of(struct span text, const char *name, const char *before, const char *ends, struct span *ret_value)
{
    size_t len = strlen(name);
    for (size_t i = 0; i + len < text.len; i++) {
        bool starts = i == 0 || strchr(before, text.at[i - 1]) != NULL;
        if (!starts || memcmp(text.at + i, name, len) != 0 || text.at[i + len] != '=') {
            continue;
        }
        size_t from = i + len + 1, to = from;
        while (to < text.len && strchr(ends, text.at[to]) == NULL) {
            to++;
        }
        *ret_value = span_of(text.at + from, to - from);
        return true;
    }
    return false;
}

struct fault facts_version(struct op *op, struct span os_release, const char **ret_version)
{
    struct span value = { 0 };
    if (!value_of(os_release, "VERSION_ID", "\n", "\n", &value)) {
        *ret_version = "";
        return OK;
    }
    if (value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"') {
        value = span_of(value.at + 1, value.len - 2);
    }
    return arena_text(op->arena, value, ret_version);
}

int64_t facts_number(struct span command_line, const char *name, int64_t min, int64_t max, int64_t fallback)
{
    struct span value = { 0 };
    if (!value_of(command_line, name, " ", " \n", &value) || value.len == 0 || value.len > 12) {
        return fallback;
    }
    int64_t number = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9') {
            return fallback;
        }
        number = number * 10 + (value.at[i] - '0');
    }
    return number >= min && number <= max ? number : fallback;
}

bool facts_secure_boot(struct span variable)
{
    return variable.len == VARIABLE_BYTES && variable.at[VARIABLE_BYTES - 1] == 1;
}

static unsigned prefix_of(const struct sockaddr *mask)
{
    const uint8_t *at = mask->sa_family == AF_INET6
                            ? (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr
                            : (const uint8_t *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr;
    unsigned bits = 0;
    for (size_t i = 0; i < (mask->sa_family == AF_INET6 ? 16U : 4U); i++) {
        bits += (unsigned)__builtin_popcount(at[i]);
    }
    return bits;
}

static struct fault address_print(struct op *op, const struct ifaddrs *entry, const char **ret_text)
{
    char host[INET6_ADDRSTRLEN] = "";
    bool six = entry->ifa_addr->sa_family == AF_INET6;
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr;
    const struct in_addr *in4 = &((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr;
    if ((six && IN6_IS_ADDR_LINKLOCAL(in6)) ||
        inet_ntop(entry->ifa_addr->sa_family, six ? (const void *)in6 : (const void *)in4, host, sizeof(host)) ==
            NULL) {
        *ret_text = NULL;
        return OK;
    }
    return arena_printf(op->arena, ret_text, "%s/%u", host, prefix_of(entry->ifa_netmask));
}

static bool is_wanted(const struct ifaddrs *entry, const char *interface)
{
    return entry->ifa_addr != NULL && entry->ifa_netmask != NULL && strcmp(entry->ifa_name, interface) == 0 &&
           (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6);
}

static void ifaddrs_freep(struct ifaddrs **list)
{
    if (*list != NULL) {
        freeifaddrs(TAKE(*list));
    }
}

struct fault facts_addresses(struct op *op, const char *interface, const char **ret_addresses, size_t max,
                             size_t *ret_count)
{
    CLEANUP(ifaddrs_freep) struct ifaddrs *list = NULL;
    REQUIRE(getifaddrs(&list) == 0, IO);
    size_t count = 0;
    for (const struct ifaddrs *entry = list; entry != NULL && count < max; entry = entry->ifa_next) {
        const char *text = NULL;
        if (is_wanted(entry, interface)) {
            TRY(address_print(op, entry, &text));
        }
        if (text != NULL) {
            ret_addresses[count++] = text;
        }
    }
    *ret_count = count;
    return OK;
}
