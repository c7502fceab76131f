/* Start, service and orderly end of svc-signer, in the order that keeps it closed until everything is proven. */
#ifndef SIGNER_BROKER_START_H
#define SIGNER_BROKER_START_H

/* Returns the exit code: 0 stopped by SIGTERM or SIGINT, 1 failed, 2 configuration refused, 3 self-test refused. What
 * was refused stands in one record of the log. */
int signer_run(const char *config_path);

#endif
