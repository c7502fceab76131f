/* Operator attestations: statements of the operator, each with exact evidence by digest. */
#include "api/inventory/crypto.h"

#include "api/page.h"

#define EVENT_MAX ((size_t)16 << 10)

bool attest_statement_fits(const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        bool word = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');
        if (!word && (text[i] != '-' || i == 0 || i + 1 == len)) {
            return false;
        }
    }
    return len > 0 && len <= STATEMENT_MAX;
}

static bool is_media_type(const char *text)
{
    const char *slash = strchr(text, '/');
    for (const char *at = text; *at != '\0'; at++) {
        bool word = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');
        if (!word && strchr("!#$&^_.+-/", *at) == NULL) {
            return false;
        }
    }
    return slash != NULL && slash != text && slash[1] != '\0' && strchr(slash + 1, '/') == NULL;
}

static struct fault check(struct op *op, const struct attest_body *body, utc_us now)
{
    if (!attest_statement_fits(body->statement)) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/statement",
                             "/statement: must be of a-z, 0-9 and -, as a framework's prerequisite or gap names it");
    }
    if (!is_media_type(body->evidence.media_type)) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/evidence/media_type",
                             "/evidence/media_type: must be a media type, like application/pdf");
    }
    if (body->valid_from > now) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/valid_from",
                             "/valid_from: lies in the future: attest what is so now");
    }
    if (body->expires_at != 0 && body->expires_at <= now) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/expires_at", "/expires_at: has passed already");
    }
    return OK;
}

static struct fault print_data(const struct attest_body *body, struct uuid id, utc_us now, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "attestation_id", id.text);
    jout_key(&jout, "evidence");
    jout_object(&jout);
    jout_key_text(&jout, "locator", body->evidence.locator);
    jout_key_text(&jout, "media_type", body->evidence.media_type);
    jout_key_hex(&jout, "sha256", body->evidence.sha256);
    jout_object_end(&jout);
    if (body->expires_at != 0) {
        jout_key_time(&jout, "expires_at", body->expires_at);
    }
    jout_key_text(&jout, "note", body->note != NULL ? body->note : "");
    jout_key_text(&jout, "statement", body->statement);
    jout_key_text(&jout, "title", body->title);
    jout_key_time(&jout, "valid_from", body->valid_from != 0 ? body->valid_from : now);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault answer(struct request *request, struct uuid id)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(EVENT_MAX);
    struct attested attested;
    struct jout jout;
    TRY(attested_get(request->op, request->services, id, &attested));
    jout_init(&jout, &out);
    attested_print(&attested, clock_utc(), &jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

struct fault route_attest(struct request *request)
{
    const struct attest_body *body = request->body;
    struct op *op = request->op;
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    const struct span parts[] = { span_text(op->command_id.text) };
    struct uuid id;
    utc_us now = clock_utc();
    TRY(check(op, body, now));
    TRY(uuid_derive(EVENT_ATTESTED, parts, COUNT_OF(parts), &id));
    TRY(print_data(body, id, now, &data));
    TRY(crypto_append(op, request->services, EVENT_ATTESTED, id.text, &data));
    return answer(request, id);
}

struct fault route_attest_withdraw(struct request *request)
{
    const struct withdraw_body *body = request->body;
    struct op *op = request->op;
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct attested attested;
    struct uuid id;
    struct jout jout;
    if (FAULTED(uuid_parse(span_text(request_path(request, "id")), &id))) {
        return op_fail(op, FAULT(NOT_FOUND), "no such attestation");
    }
    TRY(attested_get(op, request->services, id, &attested));
    if (attested.withdrawn != 0 && strcmp(attested.withdraw_command, op->command_id.text) == 0) {
        op_was_recorded(op);
        return answer(request, id);
    }
    if (attested.withdrawn != 0) {
        return op_fail(op, FAULT(ATTESTATION_WITHDRAWN), "it was withdrawn before: record a new one instead");
    }
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "attestation_id", id.text);
    jout_key_text(&jout, "command_id", op->command_id.text);
    jout_key_text(&jout, "reason", body->reason);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(crypto_append(op, request->services, EVENT_WITHDRAWN, id.text, &data));
    return answer(request, id);
}
