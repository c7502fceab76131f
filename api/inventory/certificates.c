/* Commands about certificates: recording one, and stating who keeps its key. */
#include "api/inventory/certificates.h"
#include "api/keys/keys.h"

struct taken {
    struct span der;
    const char *pointer;
    struct certificate_facts facts;
    struct sha256 fingerprint;
    struct uuid id;
};

static struct fault take(struct op *op, const struct certificate_body *body, struct taken *taken)
{
    if ((body->certificate_der.len > 0) == (body->certificate_pem != NULL)) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/certificate_der",
                             "give the certificate once: certificate_der (base64 of DER) or certificate_pem");
    }
    taken->der = body->certificate_der;
    taken->pointer = "/certificate_der";
    if (body->certificate_pem != NULL) {
        taken->pointer = "/certificate_pem";
        TRY(certificate_unwrap(op, body->certificate_pem, taken->pointer, &taken->der));
    }
    TRY(certificate_read(op, taken->der, taken->pointer, &taken->facts));
    TRY(sha256_of(taken->der, &taken->fingerprint));
    keys_certificate_id(&taken->fingerprint, &taken->id);
    return OK;
}

static struct fault print_recorded(const struct taken *taken, const struct custody *custody, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_base64(&jout, "certificate_der", taken->der);
    jout_key_text(&jout, "certificate_id", taken->id.text);
    jout_key(&jout, "custody");
    jout_object(&jout);
    custody_print_facts(&jout, custody);
    jout_object_end(&jout);
    jout_key_hex(&jout, "fingerprint", SPAN_ARRAY(taken->fingerprint.at));
    jout_key_time(&jout, "not_after", taken->facts.not_after);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static bool same(const char *stated, const char *kept)
{
    return stated == NULL || (kept != NULL && strcmp(stated, kept) == 0);
}

/* What is there already is answered as it is; another custody is not slipped in this way. */
static struct fault check_same(struct op *op, const struct custody *stated, const struct certificate_row *row)
{
    const struct custody *kept = &row->custody;
    if (same(stated->origin, kept->origin) && same(stated->storage_class, kept->storage_class) &&
        same(stated->exportability, kept->exportability) && same(stated->holder, kept->holder) &&
        same(stated->locus, kept->locus)) {
        return OK;
    }
    return op_fail_field(op, FAULT(CONFLICT), "/custody",
                         "this certificate is recorded already (%s), with other custody facts: state them with "
                         "PUT /api/v1/certificates/%s/custody",
                         row->id.text, row->id.text);
}

struct fault certificate_record(struct op *op, struct services *services, const struct certificate_body *body,
                                struct certificate_row *ret_row, bool *ret_made)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(INVENTORY_EVENT_MAX);
    struct taken taken = { 0 };
    TRY(take(op, body, &taken));
    TRY(custody_check(op, &body->custody, "/custody"));
    struct fault fault = certificate_get(op, services->store, taken.id.text, ret_row);
    if (fault.code != FAULT_NOT_FOUND) {
        TRY(fault);
        TRY(check_same(op, &body->custody, ret_row));
        op_changed_nothing(op);
        *ret_made = false;
        return OK;
    }
    TRY(print_recorded(&taken, &body->custody, &data));
    TRY(inventory_append(op, services, INVENTORY_LANE, EVENT_CERTIFICATE, taken.id.text, &data, NULL));
    *ret_made = true;
    return certificate_get(op, services->store, taken.id.text, ret_row);
}

static struct fault print_custody(struct op *op, const struct certificate_row *row, const struct custody *custody,
                                  struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "certificate_id", row->id.text);
    jout_key_text(&jout, "command_id", op->command_id.text);
    jout_key(&jout, "custody");
    jout_object(&jout);
    custody_print_facts(&jout, custody);
    jout_object_end(&jout);
    jout_key_int(&jout, "version", row->version + 1);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault custody_once(struct op *op, struct services *services, const char *id,
                                 const struct custody_body *body)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(8192);
    struct certificate_row row;
    uint64_t lane = 0;
    TRY(inventory_lane_last(op, services, CUSTODY_LANE, &lane));
    TRY(certificate_get(op, services->store, id, &row));
    if (row.custody_command != NULL && strcmp(row.custody_command, op->command_id.text) == 0) {
        op_was_recorded(op);
        return OK; /* this command has run before */
    }
    if (row.key_id != NULL) {
        return op_fail(op, FAULT(CUSTODY_OWN),
                       "this certificate is of the managed key %s: its custody follows from the key itself",
                       row.key_id);
    }
    if (row.version != body->expected_version) {
        return op_fail_field(op, FAULT(CONFLICT), "/expected_version",
                             "the certificate is at version %lld: read it again, then decide", (long long)row.version);
    }
    TRY(print_custody(op, &row, &body->custody, &data));
    return inventory_append(op, services, CUSTODY_LANE, EVENT_CUSTODY, op->command_id.text, &data, &lane);
}

struct fault certificate_custody(struct op *op, struct services *services, const char *id,
                                 const struct custody_body *body, struct certificate_row *ret_row)
{
    struct fault fault = OK;
    TRY(custody_check(op, &body->custody, ""));
    if (custody_is_empty(&body->custody)) {
        return op_fail_field(
            op, FAULT(JSON_FIELD), "/origin",
            "state at least one of origin, storage_class, exportability, holder and locus; what is left "
            "out is not recorded afterwards");
    }
    for (int i = 0; i < INVENTORY_DECIDE_AGAIN; i++) {
        fault = custody_once(op, services, id, body);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(op, fault, "no such certificate: list them with GET /api/v1/certificates");
    }
    TRY(fault);
    return certificate_get(op, services->store, id, ret_row);
}
