/* Text codecs: hex (lower case), base64 (RFC 4648 4, padded) and base64url (RFC 4648 5, no padding). Decoders are
 * strict: no blanks, no other alphabet, no non-zero trailing bits, so that one value has one text. */
#ifndef APPLIANCE_BASE_CODEC_H
#define APPLIANCE_BASE_CODEC_H

#include "appliance/base/bytes.h"

struct fault hex_encode(struct span bytes, struct buf *out);
struct fault hex_decode(struct span text, struct buf *out); /* BAD_ARGUMENT; upper case is refused too */
struct fault base64_encode(struct span bytes, struct buf *out);
struct fault base64_decode(struct span text, struct buf *out);
struct fault base64url_encode(struct span bytes, struct buf *out);
struct fault base64url_decode(struct span text, struct buf *out);
/* Writes 2*len+1 chars with NUL into `out` of `size` bytes (a bug if it is smaller). */
void hex_text(struct span bytes, char *out, size_t size);

#endif
