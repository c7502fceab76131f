/*
 * What the machine says of this process and its disks: memory, processor time, files, clock, space. All of it read at
 * once and cheaply; what cannot be read is NaN, and never a fault. Thread-safe.
 */
#ifndef API_TELEMETRY_HOST_H
#define API_TELEMETRY_HOST_H

#include "api/telemetry/metrics.h"
#include "appliance/base/config.h"

extern const struct metric host_metrics[];
extern const size_t host_metric_count;

/* Process, version and the kernel's clock: for each scrape. */
void host_sample_process(struct metrics *metrics);
/* Space of the folders that this configuration keeps on this host: data, journal, postgres, nats, archive; what the
 * supervisor says of them (run_dir/disks.json) before what we see, since it hides other parts' folders from us. May
 * wait for a file system, so it belongs to periodic work. */
void host_sample_disks(struct metrics *metrics, const struct config *config);

#endif
