#include "api/tsa/internal.h"
#include "api/tsa/units.h"
#include "appliance/base/codec.h"

#define EVENT_MAX ((size_t)96 << 10)
#define CHAIN_MAX ((size_t)32 << 10)
#define AGAIN_MAX 8 /* how often a lane that moved on is read again */

/* A user's command has an id; what the appliance does by itself has none. */
static const char *command_of(const struct op *op)
{
    return op->command_id.text[0] != '\0' ? op->command_id.text : NULL;
}

static void begin(const struct op *op, struct jout *jout, struct buf *data, struct uuid id)
{
    jout_init(jout, data);
    jout_object(jout);
    jout_key_text(jout, "unit_id", id.text);
    if (command_of(op) != NULL) {
        jout_key_text(jout, "command_id", command_of(op));
    }
}

static struct fault append(struct op *op, struct services *services, const char *type, const char *seed, struct uuid id,
                           struct jout *jout, const struct buf *data, uint64_t lane)
{
    jout_object_end(jout);
    TRY(jout_end(jout));
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    struct event_append message = { .lane = UNIT_LANE, .events = &event, .count = 1, .expect = true, .expected = lane };
    const struct span parts[] = { span_text(op->tenant.text), span_text(id.text), span_text(seed) };
    uint64_t sequence = 0;
    TRY(uuid_derive(type, parts, COUNT_OF(parts), &message.message_id));
    TRY(events_append(op, services->log, &message, &sequence));
    return projector_wait(op, services->projector, sequence);
}

/* ---- prepare ---- */

/* The first unit takes over the key of an authority that was there before units were recorded. */
static struct fault find_former_key(struct op *op, struct services *services, enum key_algorithm algorithm,
                                    struct managed_key *ret_key, bool *ret_found)
{
    struct fault fault = keys_newest(op, services, KEY_PURPOSE_TSA, NULL, ret_key);
    *ret_found = !FAULTED(fault) && ret_key->algorithm == algorithm && ret_key->chain_count >= 2;
    op->note = (struct fault_note){ 0 };
    return fault.code == FAULT_KEY_NOT_FOUND ? OK : fault;
}

static struct fault key_for(struct op *op, struct services *services, enum key_algorithm algorithm, size_t number,
                            struct managed_key *ret_key)
{
    const char *name = NULL;
    bool found = false;
    if (number == 1) {
        TRY(find_former_key(op, services, algorithm, ret_key, &found));
    }
    if (found) {
        return OK;
    }
    TRY(arena_printf(op->arena, &name, "tsu-%zu", number));
    return keys_prepare(op, services, KEY_PURPOSE_TSA, algorithm, name, ret_key);
}

static struct fault prepare_once(struct op *op, struct services *services, const struct tsa_settings *settings)
{
    struct units units;
    struct managed_key key;
    struct jout jout;
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    TRY(units_read(op, services, &units));
    for (size_t i = 0; command_of(op) != NULL && i < units.count; i++) {
        if (strcmp(units.at[i].prepare_command, op->command_id.text) == 0) {
            op_was_recorded(op);
            return OK; /* this command has run before */
        }
    }
    const struct unit *waiting = units_waiting(&units);
    if (waiting != NULL) {
        return op_fail(op, FAULT(TSA_UNIT_STATE), "unit %s waits already (%s): activate or retire it first",
                       waiting->id.text, unit_state_text(waiting->state));
    }
    TRY(key_for(op, services, settings->algorithm, units.count + 1, &key));
    begin(op, &jout, &data, key.ref.id);
    jout_key_int(&jout, "number", (int64_t)units.count + 1);
    jout_key_text(&jout, "algorithm", key_algorithm_text(key.algorithm));
    jout_key_text(&jout, "issuance", settings->external ? "external" : "own");
    return append(op, services, "tsa.unit.prepared", "", key.ref.id, &jout, &data, units.lane);
}

struct fault unit_prepare(struct op *op, struct services *services, const struct tsa_settings *settings)
{
    struct fault fault = OK;
    for (int i = 0; i < AGAIN_MAX; i++) {
        fault = prepare_once(op, services, settings);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    return fault;
}

/* ---- certify ---- */

static struct fault check_waits(struct op *op, const struct unit *unit)
{
    if (unit->state == UNIT_PREPARED || unit->state == UNIT_CERTIFIED) {
        return OK;
    }
    return op_fail(op, FAULT(TSA_UNIT_STATE), "the unit is %s: only one that waits can be certified or activated",
                   unit_state_text(unit->state));
}

/* A certificate without a privateKeyUsagePeriod gets the configured one: a key stamps less long than it verifies. */
static utc_us usage_end_of(const struct tsa_settings *settings, const struct tsa_times *times)
{
    utc_us configured = times->not_before + settings->config->tsa_unit_usage / 1000;
    utc_us end = times->usage_end < times->not_after ? times->usage_end : times->not_after;
    return times->usage_end == times->not_after && configured < end ? configured : end;
}

static struct fault certify_once(struct op *op, struct services *services, const struct tsa_settings *settings,
                                 struct uuid id, const char *issuance, const struct span *chain, size_t count)
{
    struct units units;
    struct managed_key key;
    struct tsa_times times;
    struct sha256 digest;
    struct jout jout;
    char seed[2 * SHA256_LEN + 1];
    const struct unit *unit = NULL;
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    CLEANUP(buf_free) struct buf whole = BUF_INIT(CHAIN_MAX);
    TRY(units_read(op, services, &units));
    TRY(units_find(op, &units, id, &unit));
    if (command_of(op) != NULL && strcmp(unit->command, op->command_id.text) == 0) {
        op_was_recorded(op);
        return OK; /* this command has run before */
    }
    TRY(check_waits(op, unit));
    TRY(keys_get(op, services, id, &key));
    TRY(keys_check_stamping(op, key.spki, chain, count, clock_utc()));
    if (count < 2) {
        return op_fail_field(
            op, FAULT(CERTIFICATE_REFUSED), "/certificate_chain",
            "/certificate_chain: a unit's certificate is issued by an authority: give its whole chain");
    }
    TRY(tsa_certificate_times(op, chain[0], &times));
    for (size_t i = 0; i < count; i++) {
        TRY(buf_put(&whole, chain[i]));
    }
    TRY(sha256_of(buf_span(&whole), &digest));
    hex_text(SPAN_ARRAY(digest.at), seed, sizeof(seed));
    begin(op, &jout, &data, id);
    jout_key_text(&jout, "issuance", issuance);
    jout_key_base64(&jout, "certificate_chain", buf_span(&whole));
    jout_key_time(&jout, "not_before", times.not_before);
    jout_key_time(&jout, "not_after", times.not_after);
    jout_key_time(&jout, "usage_end", usage_end_of(settings, &times));
    return append(op, services, "tsa.unit.certified", seed, id, &jout, &data, units.lane);
}

struct fault unit_certify(struct op *op, struct services *services, const struct tsa_settings *settings, struct uuid id,
                          const char *issuance, const struct span *chain, size_t count)
{
    struct fault fault = OK;
    for (int i = 0; i < AGAIN_MAX; i++) {
        fault = certify_once(op, services, settings, id, issuance, chain, count);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    return fault;
}

/* ---- activate and retire ---- */

static struct fault check_valid(struct op *op, const struct unit *unit)
{
    utc_us now = clock_utc();
    TRY(check_waits(op, unit));
    if (unit->state != UNIT_CERTIFIED) {
        return op_fail(op, FAULT(TSA_UNIT_STATE), "the unit has no certificate yet: certify it first");
    }
    if (now < unit->not_before || now >= unit->usage_end) {
        return op_fail(op, FAULT(TSA_UNIT_STATE),
                       "the unit's certificate is not valid now, or its key's usage period is over");
    }
    return OK;
}

static struct fault activate_once(struct op *op, struct services *services, struct uuid id)
{
    struct units units;
    struct jout jout;
    const struct unit *unit = NULL;
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    TRY(units_read(op, services, &units));
    TRY(units_find(op, &units, id, &unit));
    if (command_of(op) != NULL && strcmp(unit->command, op->command_id.text) == 0) {
        op_was_recorded(op);
        return OK;
    }
    TRY(check_valid(op, unit));
    const struct unit *active = units_active(&units);
    begin(op, &jout, &data, id);
    if (active != NULL) {
        jout_key_text(&jout, "replaces", active->id.text);
    }
    return append(op, services, "tsa.unit.activated", "", id, &jout, &data, units.lane);
}

struct fault unit_activate(struct op *op, struct services *services, struct uuid id)
{
    struct fault fault = OK;
    for (int i = 0; i < AGAIN_MAX; i++) {
        fault = activate_once(op, services, id);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    return fault;
}

static struct fault check_retirable(struct op *op, const struct unit *unit, bool stop)
{
    if (unit->state == UNIT_RETIRED) {
        return op_fail(op, FAULT(TSA_UNIT_STATE), "the unit is retired already");
    }
    if (unit->state == UNIT_ACTIVE && !stop) {
        return op_fail_field(op, FAULT(TSA_UNIT_STATE), "/stop_stamping",
                             "the unit is active: activate its successor first, or say stop_stamping if its key must "
                             "not be used any more");
    }
    return OK;
}

static struct fault retire_once(struct op *op, struct services *services, struct uuid id, const char *reason, bool stop)
{
    struct units units;
    struct jout jout;
    const struct unit *unit = NULL;
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    TRY(units_read(op, services, &units));
    TRY(units_find(op, &units, id, &unit));
    if (command_of(op) != NULL && strcmp(unit->command, op->command_id.text) == 0) {
        op_was_recorded(op);
        return OK;
    }
    TRY(check_retirable(op, unit, stop));
    begin(op, &jout, &data, id);
    jout_key_text(&jout, "reason", reason);
    return append(op, services, "tsa.unit.retired", "", id, &jout, &data, units.lane);
}

struct fault unit_retire(struct op *op, struct services *services, struct uuid id, const char *reason, bool stop)
{
    struct fault fault = OK;
    for (int i = 0; i < AGAIN_MAX; i++) {
        fault = retire_once(op, services, id, reason, stop);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    return fault;
}

/* The journal gives the same signature to the same command, so an answer that was lost is given again. */
struct fault unit_csr(struct op *op, struct services *services, struct uuid id, const char *subject,
                      struct span *ret_der)
{
    struct units units;
    struct managed_key key;
    struct uuid journal_id;
    const struct unit *unit = NULL;
    const struct span parts[] = { span_text(op->command_id.text), span_text(id.text) };
    TRY(units_read(op, services, &units));
    TRY(units_find(op, &units, id, &unit));
    TRY(check_waits(op, unit));
    TRY(keys_get(op, services, id, &key));
    TRY(uuid_derive("tsa.unit.csr", parts, COUNT_OF(parts), &journal_id));
    TRY(keys_csr(op, &key, subject, "critical,timeStamping", journal_id, ret_der));
    return keys_record_csr(op, services, id, subject, *ret_der);
}
