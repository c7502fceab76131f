/* Two persons for what nothing brings back: keys.destroy_approval. */
#include "api/keys/internal.h"

#include "api/approvals/approvals.h"
#include "appliance/base/codec.h"

#include <stdio.h>

#define ABOUT_MAX ((size_t)4 << 10)
#define ASK_MAX   ((size_t)16 << 10)
#define RULE      "keys.destroy_approval"
#define APPROVERS 1 /* besides the one who asks */

/* Binds tenant, requester, key and its version: an approval is of the key as the approver saw it. */
static struct fault resource_of(struct op *op, const struct managed_key *key, char out[APPROVAL_RESOURCE_MAX + 1])
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(ABOUT_MAX);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(ABOUT_MAX);
    struct sha256 digest;
    char hex[2 * SHA256_LEN + 1];
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", "svc.keys.approval.v1");
    jout_key_text(&jout, "action", "destroy");
    jout_key_text(&jout, "tenant_id", op->tenant.text);
    jout_key_text(&jout, "principal", op->principal.subject);
    jout_key_text(&jout, "key_id", key->ref.id.text);
    jout_key_int(&jout, "version", key->version);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(json_canonical(buf_span(&json), &canonical));
    TRY(sha256_of(buf_span(&canonical), &digest));
    hex_text(SPAN_ARRAY(digest.at), hex, sizeof(hex));
    (void)snprintf(out, APPROVAL_RESOURCE_MAX + 1, APPROVAL_KEY_DESTROY "%s", hex);
    return OK;
}

/* What approvers are shown. */
static struct fault print_about(struct op *op, const struct managed_key *key, const char *reason, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(ABOUT_MAX);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", key->ref.id.text);
    jout_key_text(&jout, "name", key->name);
    jout_key_text(&jout, "purpose", key_purpose_text(key->ref.purpose));
    jout_key_text(&jout, "algorithm", key_algorithm_text(key->algorithm));
    jout_key_text(&jout, "state", key->state);
    jout_key_int(&jout, "version", key->version);
    jout_key_int(&jout, "uses", key->uses);
    jout_key_text(&jout, "principal", op->principal.subject);
    jout_key_text(&jout, "reason", reason);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

static struct fault ask(struct op *op, struct services *services, const char *resource, const struct managed_key *key,
                        const char *reason)
{
    CLEANUP(buf_free) struct buf about = BUF_INIT(ABOUT_MAX);
    CLEANUP(buf_free) struct buf data = BUF_INIT(ASK_MAX);
    const char *about_text = NULL;
    TRY(print_about(op, key, reason, &about));
    TRY(buf_cstr(&about, &about_text));
    const struct approval_ask asked = {
        .resource = resource,
        .requester = op->principal.subject,
        .rule = RULE,
        .action = "destroy",
        .about = about_text,
        .approvers = APPROVERS,
        .window_us = services->config->approval_window / 1000,
        .operation_id = op->command_id,
    };
    TRY(approvals_print_requested(&asked, &data));
    return key_append_one(op, services, "approval.requested", op->command_id.text, key->ref.id, &data);
}

static struct fault refused(struct op *op, const char *resource, struct fault fault)
{
    fault =
        fault.code == FAULT_APPROVAL_DENIED
            ? op_fail(op, fault, "an approver denied this: nothing was destroyed")
            : op_fail(op, fault,
                      "nothing was destroyed: somebody else who holds certs:issue has to approve the resource; then "
                      "repeat the request with a new Idempotency-Key");
    (void)snprintf(op->note.resource, sizeof(op->note.resource), "%s", resource);
    return fault;
}

struct fault key_destroy_permitted(struct op *op, struct services *services, const struct managed_key *key,
                                   const char *reason)
{
    char resource[APPROVAL_RESOURCE_MAX + 1];
    struct approval_status status;
    if (!services->config->keys_destroy_approval) {
        return OK;
    }
    TRY(resource_of(op, key, resource));
    TRY(approvals_status(op, services, resource, APPROVERS, clock_utc(), &status));
    if (status.state == APPROVAL_APPROVED) {
        return OK;
    }
    if (status.state == APPROVAL_DENIED) {
        return refused(op, resource, FAULT(APPROVAL_DENIED));
    }
    if (status.state != APPROVAL_PENDING) {
        TRY(ask(op, services, resource, key, reason));
    }
    return refused(op, resource, FAULT(APPROVAL_REQUIRED));
}
