/* What certificates of the users' keys need: a request for an authority of theirs, and what it answered. */
#include "api/keys/internal.h"

#include "appliance/base/codec.h"

static struct fault check_use(struct op *op, const struct managed_key *key)
{
    if (key->system || key->ref.purpose != KEY_PURPOSE_CODESIGN) {
        return op_fail(op, FAULT(FORBIDDEN),
                       "this key belongs to the appliance itself (%s), which certifies it where that is needed",
                       key_purpose_text(key->ref.purpose));
    }
    enum key_state state = key_state_of(key);
    if (state == KEY_RETIRED || state == KEY_DESTROYED) {
        return op_fail(op, FAULT(KEY_STATE), "the key is %s", key->state);
    }
    if (keys_fenced(key->algorithm)) {
        return op_fail(
            op, FAULT(UNSUPPORTED),
            "keys of algorithm ml-dsa-65 sign digests only, no certificate request, and are verified by their "
            "public key: pin that, or use an EC or RSA key");
    }
    return OK; /* a prepared key gets its certificate before it is activated */
}

struct fault keys_record_csr(struct op *op, struct services *services, struct uuid id, const char *subject,
                             struct span csr)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(16384);
    struct sha256 digest;
    struct jout jout;
    TRY(sha256_of(csr, &digest));
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", id.text);
    jout_key_text(&jout, "subject", subject);
    jout_key_hex(&jout, "csr_sha256", SPAN_ARRAY(digest.at));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return key_append_one(op, services, "key.csr_signed", op->command_id.text, id, &data);
}

/* The journal gives the same signature to the same command, so an answer that was lost is given again. */
struct fault key_csr_sign(struct op *op, struct services *services, struct uuid id, const struct key_csr_body *body,
                          struct span *ret_csr)
{
    struct managed_key key;
    struct key_subject subject;
    struct uuid journal_id;
    const struct span parts[] = { span_text(op->command_id.text), span_text(id.text) };
    TRY(keys_get(op, services, id, &key));
    TRY(check_use(op, &key));
    TRY(key_subject_parse(op, body->subject, &subject));
    if (body->email != NULL && !key_email_fits(body->email)) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/email", "/email: must be an address of ASCII");
    }
    TRY(uuid_derive("key.csr", parts, COUNT_OF(parts), &journal_id));
    struct span csr;
    struct fault fault = key_csr_make(op, &key, &subject, body->email, journal_id, &csr);
    if (fault.code == FAULT_SIGNER_OP_MISMATCH) {
        op->note = (struct fault_note){ 0 };
        return op_fail(op, FAULT(IDEMPOTENCY_KEY_REUSED),
                       "this Idempotency-Key has signed another request: use a new one");
    }
    TRY(fault);
    TRY(keys_record_csr(op, services, id, body->subject, csr));
    *ret_csr = csr;
    return OK;
}

static struct fault certify_once(struct op *op, struct services *services, struct uuid id, const struct span *chain,
                                 size_t count, int64_t expected_version)
{
    uint64_t lane = 0;
    struct managed_key key;
    const char *command = "";
    CLEANUP(buf_free) struct buf data = BUF_INIT((size_t)2 * KEY_CHAIN_MAX);
    TRY(key_lane_last(op, services, &lane));
    TRY(keys_get(op, services, id, &key));
    TRY(key_certify_command(op, services, id, &command));
    if (strcmp(command, op->command_id.text) == 0) {
        op_was_recorded(op);
        return OK; /* this command has run before */
    }
    TRY(check_use(op, &key));
    if (key.version != expected_version) {
        return op_fail_field(op, FAULT(CONFLICT), "/expected_version",
                             "the key is at version %lld: read it again, then decide", (long long)key.version);
    }
    TRY(key_chain_check(op, key.spki, chain, count, clock_utc()));
    TRY(key_certified_data(&key, chain, count, op->command_id.text, &data));
    return key_append_expecting(op, services, "key.certified", op->command_id.text, id, &data, lane);
}

struct fault key_certify(struct op *op, struct services *services, struct uuid id, const struct span *chain,
                         size_t count, int64_t expected_version, struct managed_key *ret_key)
{
    struct fault fault = OK;
    for (int i = 0; i < DECIDE_AGAIN_MAX; i++) {
        fault = certify_once(op, services, id, chain, count, expected_version);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    TRY(fault);
    return keys_get(op, services, id, ret_key);
}
