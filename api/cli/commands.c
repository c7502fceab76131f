/* Every command of the client, one row each, in the order of the help. */
#include "api/cli/commands.h"

const struct command *command_at(size_t index)
{
    static const struct command_group *const groups[] = {
        &commands_of_keys,         &commands_of_codesign,      &commands_of_codesign_checks, &commands_of_approvals,
        &commands_of_tokens,       &commands_of_tsa_and_audit, &commands_of_archives,        &commands_of_audit_export,
        &commands_of_audit_verify, &commands_of_audit_proof,   &commands_of_feeds,           &commands_of_tsa_units,
        &commands_of_inventory,    &commands_of_privacy,       &commands_of_evidence,        &commands_of_samples,
        &commands_of_schedules,    &commands_of_adcs,          &commands_of_crypto,          &commands_of_scale,
        &commands_of_outbox,
    };
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        if (index < groups[i]->count) {
            return &groups[i]->rows[index];
        }
        index -= groups[i]->count;
    }
    return NULL;
}
