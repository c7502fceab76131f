/* The audit trail's archive: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

static const struct flag list_flags[] = { LIMIT_FLAG, CURSOR_FLAG };

static const struct command rows[] = {
    { .words = "audit archives list",
      .routes = { { "GET", "/api/v1/audit/archives" } },
      FLAGS(list_flags),
      .run = run_audit_archives_list,
      .help = "files of records that left the served trail, newest first",
      .more = "Each file is an export of its own: audit verify checks it. Needs the permission audit:read.",
      .example = "audit archives list" },
    { .words = "audit archives preview",
      .routes = { { "POST", "/api/v1/audit/archive/runs/preview" } },
      .run = run_audit_archives_preview,
      .help = "what a run of the archive would archive now",
      .more = "Changes nothing. Needs the permission audit:read.",
      .example = "audit archives preview" },
    { .words = "audit archives run",
      .routes = { { "POST", "/api/v1/audit/archive/runs" } },
      .run = run_audit_archives_run,
      .help = "archive now what is older than audit.retention",
      .more = "Happens by itself every hour. Needs the permission audit:write.",
      .example = "audit archives run" },
};

const struct command_group commands_of_archives = { rows, COUNT_OF(rows) };
