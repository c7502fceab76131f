/* Audit feeds: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

static const struct flag file_flags[] = {
    { .name = "file", .letter = 'f', .value = "FEED.json", .required = true, .doc = "the configuration; - is stdin" },
};

static const struct command rows[] = {
    { .words = "audit feeds list",
      .routes = { { "GET", "/api/v1/audit/feeds" } },
      .run = run_feeds_list,
      .help = "where audit records are sent to, and how that goes",
      .more = "Needs the permission audit:read.",
      .example = "audit feeds list" },
    { .words = "audit feeds preview",
      .arguments = "FEED",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/audit/feeds/{id}/preview" } },
      FLAGS(file_flags),
      .run = run_feeds_preview,
      .help = "what saving a feed would do; changes nothing and asks nobody",
      .more =
          "The file: {\"kind\": \"hec\", \"url\": ..., \"credential\": \"env:NAME\", ...}; docs/audit-feeds.md has all\n"
          "kinds. Needs the permission audit:write.",
      .example = "audit feeds preview siem -f siem.json" },
    { .words = "audit feeds apply",
      .arguments = "FEED",
      .least = 1,
      .most = 1,
      .routes = { { "PUT", "/api/v1/audit/feeds/{id}" } },
      FLAGS(file_flags),
      .run = run_feeds_apply,
      .help = "save a feed: a new version of its configuration",
      .more = "The feed goes on with it, also one that stood still. Needs the permission audit:write.",
      .example = "audit feeds apply siem -f siem.json" },
    { .words = "audit feeds pause",
      .arguments = "FEED",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/audit/feeds/{id}/pause" } },
      .run = run_feeds_switch,
      .help = "send nothing more until it is resumed",
      .example = "audit feeds pause siem" },
    { .words = "audit feeds resume",
      .arguments = "FEED",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/audit/feeds/{id}/resume" } },
      .run = run_feeds_switch,
      .help = "go on where it stands, also after a failure",
      .example = "audit feeds resume siem" },
};

const struct command_group commands_of_feeds = { rows, COUNT_OF(rows) };
