/* Samples of the populations that evidence packs count. */
#include "api/cli/commands.h"

static const struct flag sample_flags[] = {
    { .name = "sample", .value = "N", .doc = "how many records, 1 to 500", .required = true },
    { .name = "seed",
      .value = "SEED",
      .doc = "what they are drawn by: the same seed draws the same ones",
      .required = true },
    { .name = "control", .value = "CONTROL", .doc = "with --prerequisite: its records only (all of the window)" },
    { .name = "prerequisite", .value = "NAME", .doc = "a prerequisite of the control that is about audit records" },
    { .name = "to", .value = "TIME", .doc = "end of the window, as a pack's evidence_window.to has it (now)" },
    { .name = "head-sequence",
      .value = "N",
      .doc = "newest record that counts, as a pack's audit.head_sequence has it" },
    OUT_FLAG("the whole answer into a file as well"),
};

static const struct command rows[] = {
    { .words = "compliance sample",
      .arguments = "FRAMEWORK",
      .least = 1,
      .most = 1,
      .routes = { { "GET", "/api/v1/compliance/populations/{framework}/sample" } },
      FLAGS(sample_flags),
      .run = run_compliance_sample,
      .help = "draw records of a population, so that anybody can draw them again",
      .more =
          "The population has an order (time, then sequence), and the seed alone says which ranks are drawn; this\n"
          "client draws them again and refuses an answer with others. Choose the seed before you look, and note it\n"
          "down with window and head. Every sample is itself recorded. Needs the permission audit:read.",
      .example =
          "compliance sample soc2 --control CC7 --prerequisite credential-lifecycle --sample 25 --seed 2026-Q3" },
};

const struct command_group commands_of_samples = { rows, COUNT_OF(rows) };
