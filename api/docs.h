/* docs/api.md, printed from the features' tables: routes, permissions, events, outbox destinations, metrics, fault
 * codes. */
#ifndef API_DOCS_H
#define API_DOCS_H

#include "appliance/base/bytes.h"

struct fault docs_print(struct buf *out);

#endif
