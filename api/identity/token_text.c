#include "api/identity/internal.h"

#include "appliance/base/codec.h"
#include "appliance/base/secret.h"

#include <stdio.h>
#include <strings.h>

#define SECRET_LEN   32
#define SECRET_CHARS 43 /* base64url of 32 bytes, without padding */
#define PREFIX       "svc_"

struct fault token_text_make(struct tenant_id tenant, char out[TOKEN_TEXT_MAX], struct sha256 *ret_hash)
{
    CLEANUP(buf_free) struct buf encoded = BUF_INIT(64);
    uint8_t secret[SECRET_LEN];
    TRY(random_bytes(secret, sizeof(secret)));
    struct fault fault = base64url_encode(SPAN_ARRAY(secret), &encoded);
    secret_wipe(secret, sizeof(secret));
    TRY(fault);
    (void)snprintf(out, TOKEN_TEXT_MAX, PREFIX "%s_%.*s", tenant.text, (int)encoded.len, (const char *)encoded.at);
    return sha256_of(span_text(out), ret_hash);
}

struct fault token_text_parse(struct span text, struct tenant_id *ret_tenant, struct sha256 *ret_hash)
{
    const size_t prefix = sizeof(PREFIX) - 1;
    REQUIRE(text.len > prefix + 1 + SECRET_CHARS && text.len < TOKEN_TEXT_MAX, BAD_ARGUMENT);
    REQUIRE(memcmp(text.at, PREFIX, prefix) == 0, BAD_ARGUMENT);
    size_t tenant_len = text.len - prefix - 1 - SECRET_CHARS;
    REQUIRE(text.at[prefix + tenant_len] == '_', BAD_ARGUMENT);
    TRY(tenant_id_parse(span_of(text.at + prefix, tenant_len), ret_tenant));

    CLEANUP(buf_free) struct buf secret = BUF_INIT(64); /* wiped when freed */
    TRY(base64url_decode(span_of(text.at + text.len - SECRET_CHARS, SECRET_CHARS), &secret));
    REQUIRE(secret.len == SECRET_LEN, BAD_ARGUMENT);
    return sha256_of(text, ret_hash);
}

struct fault bearer_parse(const char *authorization, struct span *ret_token)
{
    static const char scheme[] = "Bearer ";
    const size_t len = sizeof(scheme) - 1;
    REQUIRE(authorization != NULL && strncasecmp(authorization, scheme, len) == 0, UNAUTHENTICATED);
    struct span token = span_text(authorization + len);
    REQUIRE(token.len > 0 && memchr(token.at, ' ', token.len) == NULL, UNAUTHENTICATED);
    *ret_token = token;
    return OK;
}
