/* Compliance evidence as a feature: frameworks, signed evidence packs, the inventory report, report schedules. It says
 * what is evidenced and what is missing, and never that anything is compliant. */
#ifndef API_COMPLIANCE_COMPLIANCE_H
#define API_COMPLIANCE_COMPLIANCE_H

#include "api/feature.h"

extern const struct feature compliance_feature;           /* packs, samples */
extern const struct feature compliance_schedules_feature; /* inventory report, schedules, generated reports */

#endif
