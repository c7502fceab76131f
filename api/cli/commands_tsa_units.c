/* The time-stamping authority's units: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

#define PATH_UNITS "/api/v1/protocols/tsa/units"

static const struct flag csr_flags[] = {
    { .name = "subject",
      .value = "NAME",
      .required = true,
      .doc = "distinguished name (RFC 4514), such as 'CN=TSU 2'" },
    OUT_FLAG("where the request goes, PEM (stdout)"),
};
static const struct flag import_flags[] = {
    { .name = "chain",
      .value = "PEM",
      .required = true,
      .doc = "certificates of the unit and its authorities, leaf first, root last" },
};
static const struct flag retire_flags[] = {
    { .name = "reason", .value = "TEXT", .required = true, .doc = "goes into the audit trail" },
    { .name = "stop-stamping", .doc = "also when it is the active one" },
};

static const struct command rows[] = {
    { .words = "tsa units list",
      .routes = { { "GET", PATH_UNITS } },
      .run = run_tsa_units_list,
      .help = "keys and certificates that stamp, have stamped, or will",
      .more = "Needs the permission certs:read.",
      .example = "tsa units list" },
    { .words = "tsa units prepare",
      .routes = { { "POST", PATH_UNITS } },
      .run = run_tsa_units_prepare,
      .help = "make the next unit ahead of time",
      .more = "Happens by itself before the active unit's key usage period ends. Needs the permission keys:admin.",
      .example = "tsa units prepare" },
    { .words = "tsa units csr",
      .arguments = "UNIT_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", PATH_UNITS "/{id}/csr" } },
      FLAGS(csr_flags),
      .run = run_tsa_units_csr,
      .help = "a certificate request for an authority of yours",
      .more = "Signed by the unit's key inside the token. Needs the permission keys:admin.",
      .example = "tsa units csr 0190a6b2-0001-7000-8000-00000000abcd --subject 'CN=TSU 2,O=Example' -o tsu.csr" },
    { .words = "tsa units import",
      .arguments = "UNIT_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", PATH_UNITS "/{id}/certificates" } },
      FLAGS(import_flags),
      .run = run_tsa_units_import,
      .help = "give a unit that waits its certificate chain",
      .more = "The certificate must be for timeStamping alone, critical. Needs the permission keys:admin.",
      .example = "tsa units import 0190a6b2-0001-7000-8000-00000000abcd --chain tsu-chain.pem" },
    { .words = "tsa units activate",
      .arguments = "UNIT_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", PATH_UNITS "/{id}/activate" } },
      .run = run_tsa_units_activate,
      .help = "the certified unit takes over from the active one",
      .more = "No request is lost. Needs the permission keys:admin.",
      .example = "tsa units activate 0190a6b2-0001-7000-8000-00000000abcd" },
    { .words = "tsa units retire",
      .arguments = "UNIT_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", PATH_UNITS "/{id}/retire" } },
      FLAGS(retire_flags),
      .run = run_tsa_units_retire,
      .help = "end a unit for ever",
      .more = "Its key leaves the token; its certificate stays for verification. Needs the permission keys:admin.",
      .example = "tsa units retire 0190a6b2-0001-7000-8000-00000000abcd --reason 'key in doubt' --stop-stamping" },
};

const struct command_group commands_of_tsa_units = { rows, COUNT_OF(rows) };
