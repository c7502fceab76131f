/* Shared by tsa*.c: how a time stamp is told. */
#ifndef API_CLI_TSA_H
#define API_CLI_TSA_H

#include "api/cli/cli.h"
#include "api/tsa/verify.h"

struct fault tsa_show(struct cli *cli, const struct tst_info *info, bool verified);

#endif
