/* docs/api.md, printed from the features' tables: routes, permissions, events, outbox destinations, fault codes. And
 * docs/metrics.md, printed from the registry. */
#ifndef API_DOCS_H
#define API_DOCS_H

#include "appliance/base/bytes.h"

struct fault docs_print(struct buf *out);
struct fault docs_print_metrics(struct buf *out);

#endif
