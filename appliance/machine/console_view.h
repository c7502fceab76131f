/*
 * What the console shows of the machine: a status screen in plain lines. Gathering (files, status.json) and printing
 * are apart, so that a test prints any machine. For the console_*.c files only.
 */
#ifndef APPLIANCE_MACHINE_CONSOLE_VIEW_H
#define APPLIANCE_MACHINE_CONSOLE_VIEW_H

#include "appliance/machine/csr.h"
#include "appliance/machine/status.h"

struct console_view {
    struct status status;
    bool has_fips; /* the three below are known */
    bool fips_required, fips_active, fips_tested;
    const char *fips_module; /* "OpenSSL FIPS Provider 3.5.4" */
    bool has_authority, has_listener;
    struct certificate_view authority, listener;
    bool waits_for_certificate; /* tls.mode csr, and the site's certificate is not imported */
    const char *base_url;       /* "" = unknown */
};

/* In op's arena. What cannot be read is left out: a console shows what it has. */
void console_view_gather(struct op *op, const struct provision *provision, struct console_view *ret_view);
/* Ends with a line feed. The same machine gives the same text. */
struct fault console_view_print(const struct console_view *view, struct buf *out);
/* The posture that `svc-appliance --check-config --json` told, from its answer. False: it is not in there. */
bool console_view_fips(struct op *op, struct span json, struct console_view *view);

#endif
