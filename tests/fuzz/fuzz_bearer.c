/* rooms: identity */
/* The Authorization header. What is accepted must print back as the same text, in full and nothing else. */
#include "api/identity/internal.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char header[512], again[512];
    if (size >= sizeof(header) || memchr(data, 0, size) != NULL) {
        return 0;
    }
    memcpy(header, data, size);
    header[size] = '\0';
    struct span token = { 0 };
    struct tenant_id tenant = { "" };
    struct sha256 hash;
    if (FAULTED(bearer_parse(header, &token)) || FAULTED(token_text_parse(token, &tenant, &hash))) {
        return 0;
    }
    (void)snprintf(again, sizeof(again), "svc_%s_%s", tenant.text, header + size - 43);
    BUG_IF(!span_equal_text(token, again));
    return 0;
}
