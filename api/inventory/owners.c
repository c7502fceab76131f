/* Who answers for a credential. Writing a record is attesting it: by the caller, now. */
#include "api/inventory/credentials.h"

static const struct sql SQL_OWNER = {
    "inventory_owner_recorded",
    "INSERT INTO svc.credential_owners (tenant_id, kind, credential_id, owner_id, contact, application_id, environment,"
    " attested_us, attested_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    " ON CONFLICT (tenant_id, kind, credential_id) DO UPDATE SET owner_id = EXCLUDED.owner_id,"
    " contact = EXCLUDED.contact, application_id = EXCLUDED.application_id, environment = EXCLUDED.environment,"
    " attested_us = EXCLUDED.attested_us, attested_by = EXCLUDED.attested_by",
    9,
};

const struct jin_field owner_body_fields[] = {
    JIN_TEXT(struct owner_body, owner_id, JIN_REQUIRED, 1, 128),
    JIN_TEXT(struct owner_body, contact, JIN_OPTIONAL, 1, 256),
    JIN_TEXT(struct owner_body, application_id, JIN_OPTIONAL, 1, 128),
    JIN_TEXT(struct owner_body, environment, JIN_OPTIONAL, 1, 64),
};
const size_t owner_body_count = COUNT_OF(owner_body_fields);

static void print_part(struct jout *jout, const char *name, const char *text)
{
    if (text != NULL) {
        jout_key_text(jout, name, text);
    }
}

struct fault owner_record(struct op *op, struct services *services, const char *kind, const char *id,
                          const struct owner_body *body)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(8192);
    struct credential credential;
    struct jout jout;
    struct fault fault = credential_kind_known(kind) ? credential_get(op, services, kind, id, clock_utc(), &credential)
                                                     : FAULT(NOT_FOUND);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(op, fault,
                       "no such credential: its kind (" CREDENTIAL_KINDS ") and credential_id are those of "
                       "GET /api/v1/credentials");
    }
    TRY(fault);
    jout_init(&jout, &data);
    jout_object(&jout);
    print_part(&jout, "application_id", body->application_id);
    print_part(&jout, "contact", body->contact);
    jout_key_text(&jout, "credential_id", id);
    print_part(&jout, "environment", body->environment);
    jout_key_text(&jout, "kind", kind);
    jout_key_text(&jout, "owner_id", body->owner_id);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return inventory_append(op, services, INVENTORY_LANE, EVENT_OWNER, op->command_id.text, &data, NULL);
}

#define STORED_MAX 32768 /* longer than what is taken: an erasure may have put longer words in place of others */

struct owner_data {
    const char *kind, *credential_id;
    struct owner_body owner;
};
static const struct jin_field owner_fields[] = {
    JIN_TEXT(struct owner_data, kind, JIN_REQUIRED, 1, STORED_MAX),
    JIN_TEXT(struct owner_data, credential_id, JIN_REQUIRED, 1, STORED_MAX),
    { .name = "owner_id",
      .kind = JIN_KIND_TEXT,
      .flags = JIN_REQUIRED,
      .min = 1,
      .max = STORED_MAX,
      .offset = offsetof(struct owner_data, owner.owner_id) },
    { .name = "contact",
      .kind = JIN_KIND_TEXT,
      .max = STORED_MAX,
      .offset = offsetof(struct owner_data, owner.contact) },
    { .name = "application_id",
      .kind = JIN_KIND_TEXT,
      .max = STORED_MAX,
      .offset = offsetof(struct owner_data, owner.application_id) },
    { .name = "environment",
      .kind = JIN_KIND_TEXT,
      .max = STORED_MAX,
      .offset = offsetof(struct owner_data, owner.environment) },
};

static struct sql_arg text_or_empty(const char *text)
{
    return SQL_TEXT(text != NULL ? text : "");
}

struct fault project_owner_recorded(struct projection *projection, const struct event_view *event)
{
    struct owner_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, owner_fields, COUNT_OF(owner_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),          SQL_TEXT(data.kind),
        SQL_TEXT(data.credential_id),          SQL_TEXT(data.owner.owner_id),
        text_or_empty(data.owner.contact),     text_or_empty(data.owner.application_id),
        text_or_empty(data.owner.environment), SQL_INT(event->time),
        SQL_TEXT(event->actor_subject),
    };
    return tx_queue(projection_tx(projection), &SQL_OWNER, args, COUNT_OF(args));
}
