/* The commands of svc-api. Each takes its own argv (argv[0] = its name) and returns the exit code. */
#ifndef API_COMMANDS_H
#define API_COMMANDS_H

#include "appliance/base/config.h"

int command_serve(const struct config *config, int argc, char **argv);
int command_migrate(const struct config *config, int argc, char **argv);
int command_empty(const struct config *config, int argc, char **argv);
int command_rebuild(const struct config *config, int argc, char **argv);
int command_backup(const struct config *config, int argc, char **argv);
int command_restore(const struct config *config, int argc, char **argv);
int command_check_log(const struct config *config, int argc, char **argv);
int command_snapshot(const struct config *config, int argc, char **argv);
int command_check_snapshot(const struct config *config, int argc, char **argv);
int command_load_snapshot(const struct config *config, int argc, char **argv);
int command_repair_log(const struct config *config, int argc, char **argv);
int command_token(const struct config *config, int argc, char **argv);
int command_tenant(const struct config *config, int argc, char **argv);
int command_openapi(const struct config *config, int argc, char **argv);
int command_docs(const struct config *config, int argc, char **argv);
int command_metrics(const struct config *config, int argc, char **argv);

#endif
