/* The audit trail as a feature: pages of records, the signed export, the keys that verify it. Records and chain are
 * written by the projector (api/projection); here they are only read. */
#ifndef API_AUDIT_AUDIT_H
#define API_AUDIT_AUDIT_H

#include "api/feature.h"

extern const struct feature audit_feature;

#endif
