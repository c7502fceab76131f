#include "api/inventory/certificates.h"

static const struct sql SQL_RECORDED = {
    "inventory_certificate_recorded",
    "INSERT INTO svc.certificates (tenant_id, certificate_id, fingerprint, der, not_after_us, origin, storage_class,"
    " exportability, holder, locus, recorded_us, recorded_by, version, custody_us, custody_by)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 1, $13, $14) ON CONFLICT DO NOTHING",
    14,
};
static const struct sql SQL_CUSTODY = {
    "inventory_custody_recorded",
    "UPDATE svc.certificates SET origin = $2, storage_class = $3, exportability = $4, holder = $5, locus = $6,"
    " custody_us = $7, custody_by = $8, custody_command = $9, version = $10 WHERE certificate_id = $1",
    10,
};

struct recorded_data {
    const char *certificate_id, *command_id;
    struct span fingerprint, certificate_der;
    utc_us not_after;
    int64_t version;
    struct custody custody;
};
#define CUSTODY_ROW                                        \
    {                                                      \
        .name = "custody",                                 \
        .kind = JIN_KIND_OBJECT,                           \
        .flags = JIN_REQUIRED,                             \
        .offset = offsetof(struct recorded_data, custody), \
        .sub = custody_stored_fields,                      \
        .sub_count = CUSTODY_FACTS,                        \
    }
static const struct jin_field recorded_fields[] = {
    JIN_TEXT(struct recorded_data, certificate_id, JIN_REQUIRED, 36, 36),
    JIN_HEX(struct recorded_data, fingerprint, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_BASE64(struct recorded_data, certificate_der, JIN_REQUIRED, 1, CERTIFICATE_DER_MAX),
    JIN_TIME(struct recorded_data, not_after, JIN_REQUIRED),
    CUSTODY_ROW,
};
static const struct jin_field custody_recorded_fields[] = {
    JIN_TEXT(struct recorded_data, certificate_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct recorded_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_INT(struct recorded_data, version, JIN_REQUIRED, 2, INT64_MAX),
    CUSTODY_ROW,
};

static struct sql_arg fact(const char *text)
{
    return text != NULL ? SQL_TEXT(text) : SQL_NONE;
}

struct fault project_certificate_recorded(struct projection *projection, const struct event_view *event)
{
    struct recorded_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, recorded_fields, COUNT_OF(recorded_fields), &data));
    bool stated = !custody_is_empty(&data.custody);
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.certificate_id),
        SQL_BYTES(data.fingerprint),
        SQL_BYTES(data.certificate_der),
        SQL_INT(data.not_after),
        fact(data.custody.origin),
        fact(data.custody.storage_class),
        fact(data.custody.exportability),
        fact(data.custody.holder),
        fact(data.custody.locus),
        SQL_INT(event->time),
        SQL_TEXT(event->actor_subject),
        stated ? SQL_INT(event->time) : SQL_NONE,
        stated ? SQL_TEXT(event->actor_subject) : SQL_NONE,
    };
    return tx_queue(projection_tx(projection), &SQL_RECORDED, args, COUNT_OF(args));
}

struct fault project_custody_recorded(struct projection *projection, const struct event_view *event)
{
    struct recorded_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, custody_recorded_fields, COUNT_OF(custody_recorded_fields),
                   &data));
    const struct sql_arg args[] = {
        SQL_TEXT(data.certificate_id),
        fact(data.custody.origin),
        fact(data.custody.storage_class),
        fact(data.custody.exportability),
        fact(data.custody.holder),
        fact(data.custody.locus),
        SQL_INT(event->time),
        SQL_TEXT(event->actor_subject),
        SQL_TEXT(data.command_id),
        SQL_INT(data.version),
    };
    return tx_queue(projection_tx(projection), &SQL_CUSTODY, args, COUNT_OF(args));
}
