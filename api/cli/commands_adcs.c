/* Observations of AD CS: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

#define DOMAIN_FLAG { .name = "domain", .value = "DOMAIN", .doc = "of this domain only" }

static const struct flag observe_flags[] = {
    { .name = "file",
      .letter = 'f',
      .value = "OBSERVATION.json",
      .required = true,
      .doc = "the observation; - is stdin" },
};
static const struct flag list_flags[] = {
    DOMAIN_FLAG,
    { .name = "history", .doc = "all of them, not only the latest complete one of each domain" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag drift_flags[] = { DOMAIN_FLAG, LIMIT_FLAG, CURSOR_FLAG };

static const struct command rows[] = {
    { .words = "adcs observe",
      .routes = { { "POST", "/api/v1/adcs/observations" } },
      FLAGS(observe_flags),
      .run = run_adcs_observe,
      .help = "hand in what a collector saw of a domain's AD CS",
      .more = "docs/inventory.md describes the file. Needs the permission adcs:observe (role adcs-collector).",
      .example = "adcs observe -f corp.example.com.json" },
    { .words = "adcs list",
      .routes = { { "GET", "/api/v1/adcs/observations" } },
      FLAGS(list_flags),
      .run = run_adcs_list,
      .help = "the latest complete observation of each domain, with its findings counted",
      .example = "adcs list" },
    { .words = "adcs get",
      .arguments = "OBSERVATION_ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", "/api/v1/adcs/observations/{id}" } },
      .run = run_adcs_get,
      .help = "one observation with its findings",
      .more = "--json shows the observation itself, too.",
      .example = "adcs get 0190a6b2-0001-8000-8000-00000000abcd" },
    { .words = "adcs drift",
      .routes = { { "GET", "/api/v1/adcs/drift" } },
      FLAGS(drift_flags),
      .run = run_adcs_drift,
      .help = "how domains changed from one complete observation to the next",
      .example = "adcs drift --domain corp.example.com" },
};

const struct command_group commands_of_adcs = { rows, COUNT_OF(rows) };
