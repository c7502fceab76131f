/* The rows of the client's commands, in groups that commands.c puts in order. */
#ifndef API_CLI_COMMANDS_H
#define API_CLI_COMMANDS_H

#include "api/cli/api.h"
#include "api/cli/cli.h"

struct command_group {
    const struct command *rows;
    size_t count;
};
extern const struct command_group commands_of_keys, commands_of_codesign, commands_of_codesign_checks,
    commands_of_approvals, commands_of_tokens, commands_of_tsa_and_audit, commands_of_audit_verify,
    commands_of_audit_export, commands_of_audit_proof, commands_of_tsa_units, commands_of_archives, commands_of_feeds,
    commands_of_inventory, commands_of_privacy;

extern const struct command_group commands_of_schedules, commands_of_evidence, commands_of_samples;

extern const struct command_group commands_of_adcs;

extern const struct command_group commands_of_crypto;

extern const struct command_group commands_of_scale;

extern const struct command_group commands_of_outbox;

#define GET_KEY { "GET", "/api/v1/keys/{id}" }

#define LIMIT_FLAG      { .name = "limit", .value = "N", .doc = "how many at most on a page" }
#define CURSOR_FLAG     { .name = "cursor", .value = "CURSOR", .doc = "the next page, as the page before named it" }
#define OUT_FLAG(what)  { .name = "output", .letter = 'o', .value = "FILE", .doc = what }
#define FILE_FLAG(what) { .name = "file", .letter = 'f', .value = "REQUEST.json", .doc = what }
#define SCHEME_FLAG \
    { .name = "scheme", .value = "SCHEME", .doc = "ecdsa, rsa-pkcs1v15, rsa-pss or ml-dsa; else the key's usual one" }
#define HASH_FLAG { .name = "digest-algorithm", .value = "HASH", .doc = "sha256, sha384 or sha512 (sha256)" }

#define FLAGS(list) .flags = (list), .flag_count = COUNT_OF(list)

#endif
