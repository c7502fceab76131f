/*
 * What this version was measured to carry, and what it was not: GET /api/v1/scale/orchestration and
 * /api/v1/scale/ha-issuance. Figures come from one file that `scripts/perf --record` writes, with date, machine and
 * command (policy_dir/scale/measured.json); limits and states are those of the running process. What nobody measured
 * is said to be unmeasured: nothing here is estimated.
 */
#ifndef API_SCALE_SCALE_H
#define API_SCALE_SCALE_H

#include "api/feature.h"

extern const struct feature scale_feature;

#endif
