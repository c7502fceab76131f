/* Settings of the kernel that the appliance wants, as a table: nothing that an unprivileged process does not need. */
#ifndef APPLIANCE_MACHINE_SYSCTL_H
#define APPLIANCE_MACHINE_SYSCTL_H

/* A kernel without the setting is fine. */
void sysctl_put(const char *path, const char *value); /* "/proc/sys/..." */
void sysctl_harden(void);

#endif
