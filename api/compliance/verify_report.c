/* Reports that schedules generated: signed as packs are, with one part of the evidence in them. */
#include "api/compliance/verify_internal.h"

#define AT AT_MANIFEST

static const struct jin_field envelope_fields[] = { ENVELOPE_FIELDS };

struct report {
    const char *format, *report_type;
    struct span public_key_der;
    struct envelope signed_export;
};
static const struct jin_field report_fields[] = {
    JIN_TEXT(struct report, format, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct report, report_type, JIN_REQUIRED, 1, 64),
    JIN_BASE64(struct report, public_key_der, JIN_REQUIRED, 1, KEY_DER_MAX),
    { .name = "signed_export",
      .kind = JIN_KIND_OBJECT,
      .flags = JIN_REQUIRED,
      .offset = offsetof(struct report, signed_export),
      .sub = envelope_fields,
      .sub_count = COUNT_OF(envelope_fields) },
};

struct document {
    const char *format, *report_type, *tenant_id, *generated_at, *notice;
    struct span window, schedule, audit;
    struct span adcs, custody, inventory_counts, cbom, crypto_readiness, population; /* by type */
};
#define DOCUMENT_RAW(member) JIN_RAW(struct document, member, JIN_REQUIRED, 2, EVIDENCE_MANIFEST_MAX)
#define DOCUMENT_FIELDS                                                                                             \
    JIN_TEXT(struct document, format, JIN_REQUIRED, 1, 64),                                                         \
        JIN_TEXT(struct document, report_type, JIN_REQUIRED, 1, 64),                                                \
        JIN_TEXT(struct document, tenant_id, JIN_REQUIRED, 1, 64),                                                  \
        JIN_TEXT(struct document, generated_at, JIN_REQUIRED, 1, RFC3339_MAX),                                      \
        JIN_TEXT(struct document, notice, JIN_REQUIRED, 0, TEXT_MAX), DOCUMENT_RAW(window), DOCUMENT_RAW(schedule), \
        DOCUMENT_RAW(audit)
static const struct jin_field inventory_fields[] = { DOCUMENT_FIELDS, DOCUMENT_RAW(adcs), DOCUMENT_RAW(custody),
                                                     DOCUMENT_RAW(inventory_counts) };
static const struct jin_field cbom_fields[] = { DOCUMENT_FIELDS, DOCUMENT_RAW(cbom), DOCUMENT_RAW(crypto_readiness) };
static const struct jin_field audit_fields[] = { DOCUMENT_FIELDS, DOCUMENT_RAW(population) };

static struct fault check_inventory(struct check *check, const struct document *document)
{
    TRY(verify_custody(check, AT "/custody", document->custody));
    TRY(verify_dataset(check, AT "/adcs", document->adcs));
    return verify_dataset(check, AT "/inventory_counts", document->inventory_counts);
}

static struct fault check_cbom(struct check *check, const struct document *document)
{
    TRY(verify_dataset(check, AT "/cbom", document->cbom));
    return verify_readiness(check, AT "/crypto_readiness", document->crypto_readiness);
}

static struct fault check_population(struct check *check, const struct document *document)
{
    return verify_totals(check, AT "/population", document->population);
}

static const struct report_kind {
    const char *text;
    const struct jin_field *fields;
    size_t count;
    struct fault (*check)(struct check *check, const struct document *document);
} kinds[] = {
    { "inventory_snapshot", inventory_fields, COUNT_OF(inventory_fields), check_inventory },
    { "cbom_posture", cbom_fields, COUNT_OF(cbom_fields), check_cbom },
    { "audit_summary", audit_fields, COUNT_OF(audit_fields), check_population },
};

static struct fault find_kind(struct check *check, const char *text, const struct report_kind **ret_kind)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (strcmp(kinds[i].text, text) == 0) {
            *ret_kind = &kinds[i];
            return OK;
        }
    }
    return refuse(check, PACK_REPORT_TYPE, "/report_type", "\"%s\"", text);
}

static struct fault check_document(struct check *check, const struct report *report, const struct document *document)
{
    struct tenant_id tenant;
    if (strcmp(document->format, EVIDENCE_REPORT_FORMAT) != 0) {
        return refuse(check, PACK_MANIFEST_FORMAT, AT "/format", "\"%s\", where %s is wanted", document->format,
                      EVIDENCE_REPORT_FORMAT);
    }
    if (strcmp(document->report_type, report->report_type) != 0) {
        return refuse(check, PACK_REPORT_COPY, "/report_type", "\"%s\" is signed", document->report_type);
    }
    if (FAULTED(tenant_id_parse(span_text(document->tenant_id), &tenant))) {
        return refuse(check, PACK_TENANT, AT "/tenant_id", "\"%s\" is no tenant's id", document->tenant_id);
    }
    if (strstr(document->notice, "no claim") == NULL) {
        return refuse(check, PACK_NOTICE, AT "/notice", "it has to say what the report does not claim");
    }
    check->verdict->tenant = document->tenant_id;
    check->verdict->generated_at = document->generated_at;
    check->verdict->report_type = document->report_type;
    TRY(verify_dataset(check, AT "/schedule", document->schedule));
    TRY(verify_window(check, AT "/window", document->window, document->generated_at));
    return verify_trail(check, AT "/audit", document->audit);
}

struct fault verify_report(struct check *check, struct span bytes)
{
    struct report report = { 0 };
    struct document document = { 0 };
    const struct report_kind *kind = &kinds[0];
    const struct jwk *key = NULL;
    TRY(take_file(check, bytes, report_fields, COUNT_OF(report_fields), &report));
    if (strcmp(report.format, EVIDENCE_REPORT_FORMAT) != 0) {
        return refuse(check, PACK_FORMAT, "/format", "\"%s\", where %s is wanted", report.format,
                      EVIDENCE_REPORT_FORMAT);
    }
    TRY(find_kind(check, report.report_type, &kind));
    TRY(verify_envelope(check, &report.signed_export, report.public_key_der, EVIDENCE_REPORT_TYP, &key));
    TRY(take_object(check, PACK_REPORT, AT, report.signed_export.manifest, kind->fields, kind->count, &document));
    TRY(check_document(check, &report, &document));
    TRY(kind->check(check, &document));
    TRY(verify_key_window(check, key, check->generated));
    return verify_stamp(check, (struct span){ 0 }); /* reports carry none: who asks for one is told so */
}
