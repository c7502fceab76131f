/* The OpenAPI 3.1 document, generated from the route tables and their field tables: it cannot drift from the server. */
#ifndef API_SERVER_OPENAPI_H
#define API_SERVER_OPENAPI_H

#include "api/feature.h"

#define OPENAPI_MAX ((size_t)4 << 20)

/* The same features give the same bytes. CONFIG when the tables contradict themselves (router.h). */
struct fault openapi_print(const struct feature *const *features, size_t count, struct buf *out);

#endif
