/* Effects that wait or were given up: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

static const struct flag list_flags[] = {
    { .name = "state", .value = "STATE", .doc = "pending, processing or dead-lettered (all three)" },
    { .name = "destination", .value = "NAME", .doc = "of this kind only, as transparency.tlog" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag requeue_flags[] = {
    { .name = "reason", .value = "TEXT", .doc = "why; it is recorded", .required = true },
    { .name = "destination", .value = "NAME", .doc = "instead of an id: the oldest dead letters of this kind" },
    { .name = "limit", .value = "N", .doc = "with --destination: how many at most, 1 to 100 (100)" },
};

static const struct command rows[] = {
    { .words = "operations outbox list",
      .routes = { { "GET", "/api/v1/outbox" } },
      FLAGS(list_flags),
      .run = run_outbox_list,
      .help = "effects that wait, are under way or were given up (dead letters)",
      .more = "What was delivered is not listed. Payloads are never shown. Needs the permission system:read.",
      .example = "operations outbox list --state dead-lettered" },
    { .words = "operations outbox show",
      .arguments = "ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", "/api/v1/outbox/{id}" } },
      .run = run_outbox_show,
      .help = "one effect, and what its last attempt met",
      .example = "operations outbox show 1105920" },
    { .words = "operations outbox requeue",
      .arguments = "[ID]",
      .least = 0,
      .most = 1,
      .routes = { { "POST", "/api/v1/outbox/{id}/requeue" }, { "POST", "/api/v1/outbox/requeue" } },
      FLAGS(requeue_flags),
      .run = run_outbox_requeue,
      .help = "let a dead letter go again, or all of a destination",
      .more =
          "All attempts are before it again. What has ended, as a failed signing has, is refused: the reason says what\n"
          "to do instead. Needs the permission operations:write.",
      .example = "operations outbox requeue --destination transparency.tlog --reason \"the log is back\"" },
};

const struct command_group commands_of_outbox = { rows, COUNT_OF(rows) };
