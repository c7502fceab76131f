#include "api/tsa/units_route.h"

#include "api/tsa/internal.h"

#define ANSWER_MAX  ((size_t)4 << 20)
#define CHAIN_MAX   ((size_t)32 << 10)
#define SUBJECT_MAX 1024

const struct jin_field unit_csr_body[1] = {
    JIN_TEXT(struct unit_csr_request, subject, JIN_REQUIRED, 1, SUBJECT_MAX),
};
const struct jin_field unit_chain_body[1] = {
    JIN_RAW(struct unit_chain_request, certificate_chain, JIN_REQUIRED, 2, 2 * CHAIN_MAX),
};
const struct jin_field unit_retire_body[2] = {
    JIN_TEXT(struct unit_retire_request, reason, JIN_REQUIRED, 1, UNIT_REASON_MAX),
    JIN_BOOL(struct unit_retire_request, stop_stamping, JIN_OPTIONAL),
};
const struct answer_field units_answer[1] = {
    { "items", "array", "The units." },
};
const struct answer_field unit_answer[17] = {
    { "unit_id", "string", "Of the unit, and of its key." },
    { "number", "integer", "From 1, in the order of making." },
    { "state", "string", "prepared, certified, active, replaced or retired." },
    { "version", "integer", "Counts the unit's changes." },
    { "algorithm", "string", "Of its key." },
    { "issuance", "string", "own: certified by the appliance's root. external: by import." },
    { "certificate_chain", "array", "Base64 of DER, leaf first, root last; empty until it is certified." },
    { "not_before", "string", "Of its certificate." },
    { "not_after", "string", "Of its certificate: its time stamps verify until then." },
    { "key_usage_end", "string", "It stamps until then." },
    { "prepared_at", "string", "" },
    { "certified_at", "string", "" },
    { "activated_at", "string", "" },
    { "replaced_at", "string", "" },
    { "replaced_by", "string", "The unit that took its place." },
    { "retired_at", "string", "" },
    { "retire_reason", "string", "" },
};
const struct answer_field unit_csr_answer[2] = {
    { "csr_pem", "string", "PKCS#10 as PEM." },
    { "csr_der", "string", "Base64 of the same." },
};

static void print_time(struct jout *jout, const char *name, utc_us time)
{
    if (time != 0) {
        jout_key_time(jout, name, time);
    }
}

static void print_unit(struct jout *jout, const struct unit *unit)
{
    jout_object(jout);
    jout_key_text(jout, "unit_id", unit->id.text);
    jout_key_int(jout, "number", unit->number);
    jout_key_text(jout, "state", unit_state_text(unit->state));
    jout_key_int(jout, "version", unit->version);
    jout_key_text(jout, "algorithm", key_algorithm_text(unit->algorithm));
    jout_key_text(jout, "issuance", unit->issuance);
    jout_key(jout, "certificate_chain");
    jout_array(jout);
    for (size_t i = 0; i < unit->chain_count; i++) {
        jout_base64(jout, unit->chain[i]);
    }
    jout_array_end(jout);
    print_time(jout, "not_before", unit->not_before);
    print_time(jout, "not_after", unit->not_after);
    print_time(jout, "key_usage_end", unit->usage_end);
    print_time(jout, "prepared_at", unit->prepared);
    print_time(jout, "certified_at", unit->certified);
    print_time(jout, "activated_at", unit->activated);
    print_time(jout, "replaced_at", unit->replaced);
    print_time(jout, "retired_at", unit->retired);
    if (unit->replaced_by != NULL) {
        jout_key_text(jout, "replaced_by", unit->replaced_by);
    }
    if (unit->retire_reason != NULL) {
        jout_key_text(jout, "retire_reason", unit->retire_reason);
    }
    jout_object_end(jout);
}

/* The authority of the caller's tenant. */
static struct fault enter(struct request *request, struct tsa **ret_tsa)
{
    struct tsa *tsa = tsa_of_tenant(request->services, request->op->tenant);
    if (tsa == NULL) {
        return op_fail(request->op, FAULT(NOT_FOUND), "the caller's tenant has no time-stamping authority");
    }
    *ret_tsa = tsa;
    return OK;
}

static struct fault unit_id(struct request *request, struct uuid *ret_id)
{
    if (FAULTED(uuid_parse(span_text(request_path(request, "id")), ret_id))) {
        return op_fail(request->op, FAULT(NOT_FOUND), "no such time-stamping unit");
    }
    return OK;
}

/* What was just recorded is shown here before it is answered; other instances follow within a second or two. */
static struct fault answer_unit(struct request *request, struct tsa *tsa, const struct uuid *id)
{
    struct op *op = request->op;
    struct units units;
    struct jout jout;
    const struct unit *unit = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    TRY(tsa_follow(op, request->services, tsa));
    TRY(units_read(op, request->services, &units));
    if (id != NULL) {
        TRY(units_find(op, &units, *id, &unit));
    }
    for (size_t i = 0; unit == NULL && i < units.count; i++) {
        unit = strcmp(units.at[i].prepare_command, op->command_id.text) == 0 ? &units.at[i] : NULL;
    }
    REQUIRE(unit != NULL, INTERNAL);
    jout_init(&jout, &out);
    print_unit(&jout, unit);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

/* A tenant without an authority has none, or those of one that it had. */
struct fault route_units_list(struct request *request)
{
    struct units units;
    struct jout jout;
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    TRY(units_read(request->op, request->services, &units));
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < units.count; i++) {
        print_unit(&jout, &units.at[i]);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

/* The key now; the certificate of the own root with the next look at what is due, which is made at once. */
struct fault route_unit_prepare(struct request *request)
{
    struct tsa *tsa = NULL;
    struct op *op = request->op;
    TRY(enter(request, &tsa));
    TRY(unit_prepare(op, request->services, &tsa->settings));
    const struct uuid command = op->command_id;
    op->command_id = (struct uuid){ 0 }; /* what follows is not the caller's command */
    struct fault fault = units_keep(op, request->services, &tsa->settings, false);
    op->command_id = command;
    TRY(fault);
    return answer_unit(request, tsa, NULL);
}

struct fault route_unit_csr(struct request *request)
{
    const struct unit_csr_request *body = request->body;
    struct tsa *tsa = NULL;
    struct uuid id;
    struct span csr;
    TRY(enter(request, &tsa));
    TRY(unit_id(request, &id));
    TRY(unit_csr(request->op, request->services, id, body->subject, &csr));
    return keys_answer_csr(request, csr);
}

struct fault route_unit_certify(struct request *request)
{
    const struct unit_chain_request *body = request->body;
    struct tsa *tsa = NULL;
    struct uuid id;
    struct span chain[KEYS_CERTIFICATES_MAX];
    size_t count = 0;
    TRY(enter(request, &tsa));
    TRY(unit_id(request, &id));
    TRY(keys_read_chain(request->op, body->certificate_chain, chain, &count));
    TRY(unit_certify(request->op, request->services, &tsa->settings, id, UNIT_ISSUED_EXTERNAL, chain, count));
    return answer_unit(request, tsa, &id);
}

struct fault route_unit_activate(struct request *request)
{
    struct tsa *tsa = NULL;
    struct uuid id;
    TRY(enter(request, &tsa));
    TRY(unit_id(request, &id));
    TRY(unit_activate(request->op, request->services, id));
    return answer_unit(request, tsa, &id);
}

struct fault route_unit_retire(struct request *request)
{
    const struct unit_retire_request *body = request->body;
    struct tsa *tsa = NULL;
    struct uuid id;
    TRY(enter(request, &tsa));
    TRY(unit_id(request, &id));
    TRY(unit_retire(request->op, request->services, id, body->reason, body->stop_stamping));
    return answer_unit(request, tsa, &id);
}
