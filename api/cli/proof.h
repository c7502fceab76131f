/* Identity proofs (OIDC ID tokens) of a CI job: from a file, stdin, or what the CI system offers in the environment.
 * Never from the command line, where every process of the machine could read them; never shown. */
#ifndef API_CLI_PROOF_H
#define API_CLI_PROOF_H

#include "api/cli/cli.h"

#define PROOF_MAX ((size_t)16 << 10)

/* By --proof FILE|-; else SVC_ID_TOKEN; else GitHub's token service, asked with --audience. The bytes go into `out`. */
struct fault proof_read(struct cli *cli, struct buf *out);
/* Could a second call bring a fresh one? (stdin could not) */
bool proof_can_repeat(const struct cli *cli);

#endif
