/*
 * Renderings of a verified evidence pack, for tools and people who read other shapes: OSCAL 1.1 assessment results
 * (JSON) and an HTML report. Pure, part of libsvc-verify.a. Both are made from the signed manifest alone, carry its
 * digest, and are not signed themselves: who doubts one of them verifies the pack and makes it again, which gives the
 * same bytes.
 *
 *     TRY(evidence_verify(op, bytes, &pins, &verdict));
 *     TRY(render_html(op, &verdict, &out));
 */
#ifndef API_COMPLIANCE_RENDER_H
#define API_COMPLIANCE_RENDER_H

#include "api/compliance/verify.h"

#define RENDER_MAX            ((size_t)128 << 20)
#define RENDER_OSCAL_VERSION  "1.1.2"
/* The namespace of our property names, and of the UUIDs below. */
#define RENDER_OSCAL_NS       "urn:svc:compliance:oscal:1"
#define RENDER_UUID_NAMESPACE "6f1c0d5e-3b7a-4c52-9a54-1f0c2d9b8e47"

/* Of a pack that holds; UNSUPPORTED for a report or what does not hold. Appended. */
struct fault render_oscal(struct op *op, const struct evidence_verdict *verdict, struct buf *out);
/* One file without script and without anything from elsewhere. */
struct fault render_html(struct op *op, const struct evidence_verdict *verdict, struct buf *out);

/* The name-based UUID (RFC 9562 5.5) of "<manifest digest in hex>/<name>" in RENDER_UUID_NAMESPACE: OSCAL takes
 * versions 4 and 5 only. Nothing is secured by it. */
struct fault render_uuid(const struct sha256 *digest, const char *name, struct uuid *ret_uuid);

#endif
