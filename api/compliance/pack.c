/* The evidence pack: facts of one snapshot, judged, signed, time-stamped. Nothing is open while the token and the
 * authority are asked. */
#include "api/compliance/manifest.h"

#include "api/tsa/tsa.h"
#include "appliance/base/codec.h"
#include "fips/jws.h"

#define TIMESTAMP_MAX ((size_t)64 << 10)

struct pack {
    const struct framework *framework;
    struct evidence evidence;
    struct managed_key key;
    char kid[44];
    struct buf manifest; /* canonical */
    struct sha256 digest;
    struct buf jws;
    struct span timestamp; /* empty = the authority is off */
};

static void pack_clear(struct pack *pack)
{
    buf_free(&pack->manifest);
    buf_free(&pack->jws);
}

static struct fault unknown_framework(struct op *op)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT(1024);
    const char *text = NULL;
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        TRY(buf_printf(&list, "%s%s", i > 0 ? ", " : "", framework_id(i)));
    }
    TRY(buf_cstr(&list, &text));
    return op_fail_field(op, FAULT(COMPLIANCE_FRAMEWORK), "framework", "frameworks are %s", text);
}

struct fault pack_framework(struct op *op, const char *id, const struct framework **ret_framework)
{
    const struct framework *framework = frameworks_get(compliance_frameworks(), id);
    if (framework == NULL) {
        return unknown_framework(op);
    }
    *ret_framework = framework;
    return OK;
}

static struct fault judge(struct op *op, struct services *services, struct pack *pack)
{
    struct framework_verdict verdict;
    struct fault fault = evidence_load(op, services, pack->framework, clock_utc(), &pack->evidence);
    if (fault.code == FAULT_TOO_LARGE) { /* that means the request elsewhere, which it is not */
        return op_fail(op, FAULT(EVIDENCE_SIZE), "the datasets of this tenant are larger than a pack can hold");
    }
    TRY(fault);
    TRY(framework_evaluate(op, pack->framework, &pack->evidence.facts, &verdict));
    utc_us now = pack->evidence.now, since = pack->key.activated; /* by the clock of whoever activated it */
    TRY(manifest_print(op, &pack->evidence, &verdict, now > since ? now : since, &pack->manifest));
    return sha256_of(buf_span(&pack->manifest), &pack->digest);
}

static struct fault stamp(struct op *op, struct services *services, struct pack *pack)
{
    if (!tsa_is_on(services)) {
        return OK;
    }
    TRY(tsa_anchor(op, services, &pack->digest, &pack->timestamp));
    REQUIRE(pack->timestamp.len > 0 && pack->timestamp.len <= TIMESTAMP_MAX, INTERNAL);
    return OK;
}

static void put_export(struct jout *jout, const struct pack *pack)
{
    jout_key(jout, "signed_export");
    jout_object(jout);
    jout_key_raw(jout, "manifest", buf_span(&pack->manifest));
    jout_key_hex(jout, "manifest_sha256", SPAN_ARRAY(pack->digest.at));
    jout_key_text(jout, "algorithm", EVIDENCE_JWS_ALG);
    jout_key_text(jout, "key_id", pack->kid);
    jout_key(jout, "jws");
    jout_span_text(jout, buf_span(&pack->jws));
    jout_key(jout, "timestamp");
    if (pack->timestamp.len > 0) {
        jout_base64(jout, pack->timestamp);
    } else {
        jout_null(jout);
    }
    jout_object_end(jout);
}

static struct fault print(const struct pack *pack, struct buf *json)
{
    struct jout jout;
    jout_init(&jout, json);
    jout_object(&jout);
    jout_key_text(&jout, "format", EVIDENCE_PACK_FORMAT);
    jout_key_text(&jout, "framework", pack->framework->id);
    put_export(&jout, pack);
    jout_key_base64(&jout, "public_key_der", pack->key.spki);
    jout_key_raw(&jout, "custody", pack->evidence.custody);
    jout_key_raw(&jout, "adcs", pack->evidence.adcs);
    jout_key_raw(&jout, "crypto_readiness", pack->evidence.readiness);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault pack_make(struct op *op, struct services *services, const char *framework, struct buf *json,
                       struct sha256 *ret_digest)
{
    CLEANUP(pack_clear)
    struct pack pack = { .manifest = BUF_INIT(EVIDENCE_MANIFEST_MAX), .jws = BUF_INIT(EVIDENCE_JWS_MAX) };
    TRY(pack_framework(op, framework, &pack.framework));
    TRY(pack_key(op, services, &pack.key));
    TRY(jwk_kid(pack.key.spki, pack.kid));
    TRY(judge(op, services, &pack));
    TRY(pack_sign(op, services, &pack.key, EVIDENCE_TYP, buf_span(&pack.manifest), &pack.jws));
    TRY(stamp(op, services, &pack));
    TRY(print(&pack, json));
    *ret_digest = pack.digest;
    return OK;
}

struct fault pack_record_read(struct op *op, struct services *services, const char *artifact, const char *framework,
                              const struct sha256 *digest)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(4096);
    uint64_t seq = 0;
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "artifact", artifact);
    jout_key_text(&jout, "framework", framework);
    jout_key_hex(&jout, "manifest_sha256", SPAN_ARRAY(digest->at));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct event event = { .type = PACK_READ_EVENT, .schema_version = 1, .data = buf_span(&data) };
    return events_append(op, services->log,
                         &(struct event_append){ .lane = COMPLIANCE_LANE, .events = &event, .count = 1 }, &seq);
}
