/* What a schedule may be, and when its report is due: without clock and store. */
#include "api/compliance/schedules.h"

#include "appliance/base/codec.h"

#include <strings.h>

#define CANONICAL_MAX ((size_t)8 << 10)

static const char *const types[REPORT_TYPE_COUNT] = {
    [REPORT_EVIDENCE_PACK] = "framework_evidence_pack",
    [REPORT_INVENTORY_SNAPSHOT] = "inventory_snapshot",
    [REPORT_CBOM_POSTURE] = "cbom_posture",
    [REPORT_AUDIT_SUMMARY] = "audit_summary",
};

const char *report_type_text(enum report_type type)
{
    return types[type];
}

bool report_type_parse(const char *text, enum report_type *ret_type)
{
    for (enum report_type type = 0; type < REPORT_TYPE_COUNT; type++) {
        if (strcmp(types[type], text) == 0) {
            *ret_type = type;
            return true;
        }
    }
    return false;
}

/* ---- the definition ---- */

/* Without the blanks around it; a control character within is refused, and so is a text that is nothing but blanks. */
static struct fault trim(struct op *op, const char *text, size_t max, const char *pointer, const char **ret_text)
{
    struct span span = span_text(text + strspn(text, " \t\r\n"));
    while (span.len > 0 && strchr(" \t\r\n", span.at[span.len - 1]) != NULL) {
        span.len--;
    }
    for (size_t i = 0; i < span.len; i++) {
        if (span.at[i] < 0x20 || span.at[i] == 0x7f) {
            return op_fail_field(op, FAULT(JSON_FIELD), pointer, "%s: holds a control character", pointer);
        }
    }
    if (span.len == 0 || span.len > max) {
        return op_fail_field(op, FAULT(JSON_FIELD), pointer, "%s: must be 1 to %zu bytes", pointer, max);
    }
    return arena_text(op->arena, span, ret_text);
}

static struct fault read_framework(struct op *op, const char *text, const char **ret_framework)
{
    const char *trimmed = "";
    TRY(trim(op, text, 64, "/framework", &trimmed));
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        const char *id = framework_id(i);
        if (id != NULL && strcasecmp(id, trimmed) == 0) {
            *ret_framework = id;
            return OK;
        }
    }
    return op_fail_field(op, FAULT(JSON_FIELD), "/framework",
                         "/framework: is none of the ids that GET /api/v1/compliance/inventory-report lists");
}

static struct fault read_enabled(struct op *op, struct span text, bool *ret_enabled)
{
    bool on = text.len == 0 || span_equal_text(text, "true");
    if (!on && !span_equal_text(text, "false")) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/enabled", "/enabled: must be true or false");
    }
    *ret_enabled = on;
    return OK;
}

struct fault schedule_normalise(struct op *op, const struct schedule_body *body,
                                struct schedule_definition *ret_definition)
{
    struct schedule_definition made = { .interval_seconds = body->interval_seconds };
    TRY(read_framework(op, body->framework, &made.framework));
    TRY(trim(op, body->name, SCHEDULE_NAME_MAX, "/name", &made.name));
    TRY(trim(op, body->recipient_ref, SCHEDULE_RECIPIENT_MAX, "/recipient_ref", &made.recipient_ref));
    TRY(read_enabled(op, body->enabled, &made.enabled));
    if (!report_type_parse(body->report_type, &made.type)) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/report_type",
                             "/report_type: must be framework_evidence_pack, inventory_snapshot, cbom_posture or "
                             "audit_summary");
    }
    if (strcmp(body->delivery, SCHEDULE_DELIVERY) != 0) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/delivery",
                             "/delivery: must be " SCHEDULE_DELIVERY ": a report is kept for pick-up here, and taking "
                             "it elsewhere is the operator's");
    }
    if (made.interval_seconds < SCHEDULE_INTERVAL_MIN || made.interval_seconds > SCHEDULE_INTERVAL_MAX) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/interval_seconds", "/interval_seconds: must be %d to %d",
                             SCHEDULE_INTERVAL_MIN, SCHEDULE_INTERVAL_MAX);
    }
    *ret_definition = made;
    return OK;
}

void schedule_definition_print(const struct schedule_definition *definition, struct jout *jout)
{
    jout_key_text(jout, "delivery", SCHEDULE_DELIVERY);
    jout_key_bool(jout, "enabled", definition->enabled);
    jout_key_text(jout, "framework", definition->framework);
    jout_key_int(jout, "interval_seconds", definition->interval_seconds);
    jout_key_text(jout, "name", definition->name);
    jout_key_text(jout, "recipient_ref", definition->recipient_ref);
    jout_key_text(jout, "report_type", types[definition->type]);
}

struct fault schedule_fingerprint(struct tenant_id tenant, const struct schedule_definition *definition, int64_t keep,
                                  char ret_text[2 * SHA256_LEN + 1])
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(CANONICAL_MAX), canonical = BUF_INIT(CANONICAL_MAX);
    struct sha256 digest;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key(&jout, "definition");
    jout_object(&jout);
    schedule_definition_print(definition, &jout);
    jout_object_end(&jout);
    jout_key_int(&jout, "reports_kept", keep);
    jout_key_text(&jout, "schema", "svc.compliance.report-schedule.preview.v1");
    jout_key_text(&jout, "tenant_id", tenant.text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(json_canonical(buf_span(&json), &canonical));
    TRY(sha256_of(buf_span(&canonical), &digest));
    hex_text(SPAN_ARRAY(digest.at), ret_text, 2 * SHA256_LEN + 1);
    return OK;
}

/* ---- time ---- */

utc_us schedule_next(utc_us counted_from, int64_t interval_us)
{
    utc_us next;
    return __builtin_add_overflow(counted_from, interval_us, &next) ? INT64_MAX : next;
}

bool schedule_is_due(utc_us counted_from, int64_t interval_us, utc_us now)
{
    return schedule_next(counted_from, interval_us) <= now || schedule_next(now, interval_us) < counted_from;
}
