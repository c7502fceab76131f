/*
 * The network as the provisioning has it: one interface, static addresses and gateways, by rtnetlink; names by
 * /run/svc-machine/resolv.conf and hosts (the image has links to them from /etc). No DHCP, no router advertisements.
 */
#ifndef APPLIANCE_MACHINE_NETWORK_H
#define APPLIANCE_MACHINE_NETWORK_H

#include "appliance/machine/provision.h"

#define RESOLV_FILE MACHINE_RUN_DIR "/resolv.conf"
#define HOSTS_FILE  MACHINE_RUN_DIR "/hosts"

/* The loopback interface, which the product needs whatever the site's network is like. */
struct fault network_loopback(struct op *op);
/* Brings it up. `auto` takes the first ethernet device, by name, that has a link; it waits for one until op's deadline
 * and then takes the first that there is. *ret_interface in op's arena. Addresses that are there already are fine. */
struct fault network_start(struct op *op, const struct provision *provision, const char **ret_interface);
/* Host name of the kernel, resolv.conf and hosts. */
struct fault network_names(struct op *op, const struct provision *provision);

/* "192.0.2.10/24" or "2001:db8::10/64" as bytes: 4 or 16 of them, and the length of the prefix; without "/" the whole
 * address. BAD_ARGUMENT. */
struct network_address {
    uint8_t bytes[16];
    unsigned family, len, prefix; /* AF_INET, AF_INET6; 4, 16 */
};
struct fault network_parse(const char *text, struct network_address *ret_address);

#endif
