/* What was measured of the service's size: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

static const struct command rows[] = {
    { .words = "scale orchestration",
      .routes = { { "GET", "/api/v1/scale/orchestration" } },
      .run = run_scale_orchestration,
      .help = "sizes, gates and limits: what was measured, and what was not",
      .more = "Needs the permission system:read.",
      .example = "scale orchestration" },
    { .words = "scale ha-issuance",
      .routes = { { "GET", "/api/v1/scale/ha-issuance" } },
      .run = run_scale_ha_issuance,
      .help = "several instances as one service: fences, and the gates of a failover",
      .more = "Needs the permission system:read.",
      .example = "scale ha-issuance" },
};

const struct command_group commands_of_scale = { rows, COUNT_OF(rows) };
