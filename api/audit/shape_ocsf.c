/* OCSF 1.3.0, class API Activity (6003) of category Application Activity (6): one object a line, canonical JSON. What
 * the class wants and the record does not know (where the call came from) is said to be unknown. */
#include "api/audit/shape_lines.h"

#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define OCSF_VERSION "1.3.0"
#define CLASS_UID    6003
#define CATEGORY_UID 6

static void key_span(struct jout *jout, const char *key, struct span text)
{
    jout_key(jout, key);
    jout_span_text(jout, text);
}

static void begin(struct jout *jout, const struct shape_kind *kind, struct buf *out)
{
    jout_init(jout, out);
    jout_object(jout);
    jout_key_int(jout, "activity_id", kind->activity);
    jout_key_text(jout, "activity_name", shape_activity_text(kind->activity));
}

static void put_actor(struct jout *jout, const struct audit_record *record)
{
    jout_key(jout, "actor");
    jout_object(jout);
    jout_key(jout, "user");
    jout_object(jout);
    if (record->role_count > 0) {
        jout_key(jout, "groups");
        jout_array(jout);
        for (size_t i = 0; i < record->role_count; i++) {
            jout_object(jout);
            key_span(jout, "name", record->roles[i]);
            jout_object_end(jout);
        }
        jout_array_end(jout);
    }
    key_span(jout, "name", record->subject);
    jout_object_end(jout);
    jout_object_end(jout);
}

static void put_api(struct jout *jout, struct span operation, int64_t version)
{
    jout_key(jout, "api");
    jout_object(jout);
    key_span(jout, "operation", operation);
    jout_key(jout, "service");
    jout_object(jout);
    jout_key_text(jout, "name", "svc");
    jout_object_end(jout);
    if (version > 0) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(32);
        if (!FAULTED(buf_printf(&text, "%lld", (long long)version))) {
            key_span(jout, "version", buf_span(&text));
        }
    }
    jout_object_end(jout);
}

static void put_class(struct jout *jout)
{
    jout_key_text(jout, "category_name", "Application Activity");
    jout_key_int(jout, "category_uid", CATEGORY_UID);
    jout_key_text(jout, "class_name", "API Activity");
    jout_key_int(jout, "class_uid", CLASS_UID);
}

static void put_product(struct jout *jout)
{
    jout_key(jout, "product");
    jout_object(jout);
    jout_key_text(jout, "name", "svc");
    jout_key_text(jout, "vendor_name", "svc");
    jout_object_end(jout);
}

static void put_metadata(struct jout *jout, const struct audit_record *record)
{
    jout_key(jout, "metadata");
    jout_object(jout);
    if (record->trace_id.len > 0) {
        key_span(jout, "correlation_uid", record->trace_id);
    }
    key_span(jout, "log_name", record->lane);
    put_product(jout);
    jout_key_int(jout, "sequence", record->sequence);
    key_span(jout, "tenant_uid", record->tenant_id);
    key_span(jout, "uid", record->event_id);
    jout_key_text(jout, "version", OCSF_VERSION);
    jout_object_end(jout);
}

static void put_outcome(struct jout *jout, const struct shape_kind *kind, int64_t time_ms)
{
    jout_key_text(jout, "severity", shape_severity_text(kind->severity));
    jout_key_int(jout, "severity_id", kind->severity);
    jout_key(jout, "src_endpoint");
    jout_object(jout);
    jout_key_text(jout, "name", "unknown");
    jout_object_end(jout);
    jout_key_text(jout, "status", kind->failure ? "Failure" : "Success");
    jout_key_int(jout, "status_id", kind->failure ? 2 : 1);
    jout_key_int(jout, "time", time_ms);
}

static struct fault end(struct jout *jout, const struct shape_kind *kind, const char *name, struct span value,
                        struct buf *out)
{
    CLEANUP(buf_free) struct buf type = BUF_INIT(64);
    TRY(buf_printf(&type, "API Activity: %s", shape_activity_text(kind->activity)));
    key_span(jout, "type_name", buf_span(&type));
    jout_key_int(jout, "type_uid", CLASS_UID * 100 + kind->activity);
    jout_key(jout, "unmapped");
    jout_object(jout);
    key_span(jout, name, value);
    jout_object_end(jout);
    jout_object_end(jout);
    TRY(jout_end(jout));
    return buf_u8(out, '\n');
}

/* Canonical JSON as a text: it has no control characters, and is UTF-8. */
static struct fault put_raw(struct jout *jout, struct span record, struct buf *out)
{
    static const struct shape_escape escape = { '"', '\\', '\\', false };
    jout_key_raw(jout, "raw_data", span_text("\""));
    TRY(shape_put_escaped(record, &escape, out));
    return buf_u8(out, '"');
}

struct fault shape_ocsf_record(const struct shape_line *line, struct buf *out)
{
    const struct audit_record *record = line->record;
    const struct shape_kind *kind = shape_kind_of(record->type);
    CLEANUP(buf_free) struct buf title = BUF_INIT(AUDIT_LINE_MAX);
    char chain[2 * SHA256_LEN + 1];
    struct jout jout;
    hex_text(SPAN_ARRAY(line->chain->at), chain, sizeof(chain));
    TRY(shape_put_title(record->type, &title));
    begin(&jout, kind, out);
    put_actor(&jout, record);
    put_api(&jout, record->type, record->schema_version);
    put_class(&jout);
    key_span(&jout, "message", buf_span(&title));
    put_metadata(&jout, record);
    TRY(put_raw(&jout, line->bytes, out));
    put_outcome(&jout, kind, record->at / 1000);
    return end(&jout, kind, "chain", span_text(chain), out);
}

/* When the export was made: as the trailer's own payload says, which is canonical, so that nothing of a user's stands
 * before that member. */
static struct fault exported_at(struct span trailer, int64_t *ret_ms)
{
    static const char mark[] = "\"exported_at\":\"";
    utc_us at = 0;
    const uint8_t *dot = memchr(trailer.at, '.', trailer.len);
    REQUIRE(dot != NULL, BAD_ARGUMENT);
    size_t left = trailer.len - (size_t)(dot + 1 - trailer.at);
    const uint8_t *last = memchr(dot + 1, '.', left);
    REQUIRE(last != NULL, BAD_ARGUMENT);
    CLEANUP(buf_free) struct buf payload = BUF_INIT(trailer.len);
    TRY(base64url_decode(span_of(dot + 1, (size_t)(last - dot - 1)), &payload));
    const uint8_t *found = payload.len > 0 ? memmem(payload.at, payload.len, mark, sizeof(mark) - 1) : NULL;
    REQUIRE(found != NULL, BAD_ARGUMENT);
    const uint8_t *from = found + sizeof(mark) - 1;
    const uint8_t *quote = memchr(from, '"', (size_t)(payload.at + payload.len - from));
    REQUIRE(quote != NULL, BAD_ARGUMENT);
    TRY(rfc3339_parse(span_of(from, (size_t)(quote - from)), &at));
    *ret_ms = at / 1000;
    return OK;
}

struct fault shape_ocsf_trailer(struct span trailer, struct buf *out)
{
    static const struct shape_kind kind = { .activity = 2, .severity = 1 };
    static const struct audit_record of_ours = { .subject = { (const uint8_t *)"svc", 3 } };
    int64_t ms = 0;
    struct jout jout;
    TRY(exported_at(trailer, &ms));
    begin(&jout, &kind, out);
    put_actor(&jout, &of_ours);
    put_api(&jout, span_text(SHAPE_TRAILER), 0);
    put_class(&jout);
    jout_key_text(&jout, "message", "Audit trailer");
    jout_key(&jout, "metadata");
    jout_object(&jout);
    put_product(&jout);
    jout_key_text(&jout, "version", OCSF_VERSION);
    jout_object_end(&jout);
    put_outcome(&jout, &kind, ms);
    return end(&jout, &kind, "trailer", trailer, out);
}
