/* Addresses as text, and the kernel's messages made of them. */
#include "testlib.h"

#include "appliance/machine/netlink.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <string.h>

static void what_is_no_address_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = { "",
                                         "/24",
                                         "192.0.2.1/",
                                         "192.0.2.1/33",
                                         "192.0.2.1/-1",
                                         "192.0.2/24",
                                         "192.0.2.1/2x",
                                         "192.0.2.1/024x",
                                         "2001:db8::1/129",
                                         "2001:db8::g",
                                         "192.0.2.1 /24",
                                         "host",
                                         "fe80::1%eth0/64",
                                         "192.0.2.1/0024",
                                         "1111:2222:3333:4444:5555:6666:7777:8888:9999" };
    struct network_address address = { .prefix = 77 };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_fault(network_parse(texts[i], &address), BAD_ARGUMENT);
    }
    assert_int_equal(address.prefix, 77);
}

static void both_families_are_read_with_and_without_prefix(void **state)
{
    (void)state;
    struct network_address address;
    assert_fault(network_parse("192.0.2.10/24", &address), NONE);
    assert_int_equal(address.family, AF_INET);
    assert_int_equal(address.len, 4);
    assert_int_equal(address.prefix, 24);
    assert_memory_equal(address.bytes, "\xc0\x00\x02\x0a", 4);
    assert_fault(network_parse("10.0.0.1", &address), NONE);
    assert_int_equal(address.prefix, 32);
    assert_fault(network_parse("2001:db8::10/64", &address), NONE);
    assert_int_equal(address.family, AF_INET6);
    assert_int_equal(address.len, 16);
    assert_int_equal(address.prefix, 64);
    assert_int_equal(address.bytes[15], 0x10);
    assert_fault(network_parse("0.0.0.0/0", &address), NONE);
    assert_int_equal(address.prefix, 0);
}

static void a_message_is_aligned_and_holds_the_address_twice(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(512);
    struct network_address address;
    assert_fault(network_parse("192.0.2.10/24", &address), NONE);
    assert_fault(netlink_print_address(&out, 3, &address), NONE);
    const struct nlmsghdr *head = (const struct nlmsghdr *)(const void *)out.at;
    assert_int_equal(head->nlmsg_type, RTM_NEWADDR);
    assert_int_equal(head->nlmsg_flags & (NLM_F_REQUEST | NLM_F_ACK | NLM_F_EXCL),
                     NLM_F_REQUEST | NLM_F_ACK | NLM_F_EXCL);
    assert_int_equal(out.len, NLMSG_SPACE(sizeof(struct ifaddrmsg)) + 2 * RTA_SPACE(4));
    const struct ifaddrmsg *info = (const struct ifaddrmsg *)NLMSG_DATA(head);
    assert_int_equal(info->ifa_index, 3);
    assert_int_equal(info->ifa_prefixlen, 24);
    const uint8_t *at = out.at + NLMSG_SPACE(sizeof(struct ifaddrmsg));
    for (size_t i = 0; i < 2; i++, at += RTA_SPACE(4)) {
        const struct rtattr *attribute = (const struct rtattr *)(const void *)at;
        assert_int_equal(attribute->rta_len, RTA_LENGTH(4));
        assert_memory_equal(at + RTA_LENGTH(0), "\xc0\x00\x02\x0a", 4);
    }
}

static void a_gateway_is_a_default_route_of_its_family(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(512);
    struct network_address gateway;
    assert_fault(network_parse("2001:db8::1", &gateway), NONE);
    assert_fault(netlink_print_gateway(&out, 7, &gateway), NONE);
    const struct rtmsg *info = (const struct rtmsg *)NLMSG_DATA((const struct nlmsghdr *)(const void *)out.at);
    assert_int_equal(info->rtm_family, AF_INET6);
    assert_int_equal(info->rtm_dst_len, 0);
    assert_int_equal(out.len, NLMSG_SPACE(sizeof(*info)) + RTA_SPACE(16) + RTA_SPACE(4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(both_families_are_read_with_and_without_prefix),
        cmocka_unit_test(a_message_is_aligned_and_holds_the_address_twice),
        cmocka_unit_test(a_gateway_is_a_default_route_of_its_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
