/* What the commands over keys share. */
#ifndef API_CLI_KEYS_H
#define API_CLI_KEYS_H

#include "api/cli/api.h"
#include "appliance/base/json.h"

/* The key as it came, or as lines. */
struct fault keys_show(struct cli *cli, const struct http_answer *answer, struct view key);
/* The members "max_uses" and "not_after" from the flags of that name, where they were given. BAD_ARGUMENT. */
struct fault keys_print_limits(struct cli *cli, struct jout *jout);

#endif
