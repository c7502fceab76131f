/*
 * Keyless signing: the identity that the proof proves gets a key of its own for one signature. The key's handle follows
 * from the operation, so a try that comes again finds the same key; it is destroyed when the signing is over.
 */
#include "api/codesign/internal.h"

#include "api/ca/keyless.h"
#include "appliance/base/failpoint.h"

#define CA_ALGORITHM  KEY_ALGORITHM_EC_P384
#define BACKDATE_US   (60 * US_PER_S)
#define LOCK_KEY      INT64_C(0x7376635f6b6c63) /* "svc_klc": who certifies, over all instances */
#define LOCK_RETRY_NS (200 * NS_PER_MS)
#define EVENT_MAX     ((size_t)4 << 10)

/* ---- the identity ---- */

static bool contradicts(const char *expected, const char *verified)
{
    return expected != NULL && strcmp(expected, verified) != 0;
}

struct fault keyless_identify(struct op *op, struct services *services, const struct codesign_request *request,
                              utc_us at, struct attested *ret_identity)
{
    REQUIRE(services->attest != NULL, KEYLESS_DISABLED);
    struct attested identity = { 0 };
    TRY(attest_verify(op, services, request->identity_method, request->proof, at, &identity));
    if (contradicts(request->expected_san, identity.san) || contradicts(request->expected_issuer, identity.issuer)) {
        return op_fail(op, FAULT(KEYLESS_CONTRADICTION),
                       "the proof is of another identity than the request expects: nothing was signed");
    }
    *ret_identity = identity;
    return OK;
}

/* ---- the key ---- */

static struct fault ephemeral_ref(struct op *op, struct uuid operation_id, struct key_ref *ret_ref)
{
    const struct span parts[] = { span_text(op->tenant.text), span_text(operation_id.text) };
    struct key_ref ref = { .tenant = op->tenant, .purpose = KEY_PURPOSE_CODESIGN_EPHEMERAL };
    TRY(uuid_derive("codesign.ephemeral", parts, COUNT_OF(parts), &ref.id));
    *ret_ref = ref;
    return OK;
}

struct fault keyless_key(struct op *op, struct services *services, struct uuid operation_id,
                         struct ephemeral *ret_ephemeral)
{
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    struct ephemeral made = { 0 };
    enum key_algorithm algorithm = KEY_ALGORITHM_EC_P256;
    TRY(ephemeral_ref(op, operation_id, &made.key));
    struct fault fault = signer_generate(op, services->signer, &made.key, algorithm, &spki);
    if (fault.code == FAULT_KEY_EXISTS) {
        op->note = (struct fault_note){ 0 };
        buf_clear(&spki);
        fault = signer_public_key(op, services->signer, &made.key, &algorithm, &spki);
        REQUIRE(FAULTED(fault) || algorithm == KEY_ALGORITHM_EC_P256, INTERNAL);
    }
    TRY(fault);
    TRY(arena_copy(op->arena, buf_span(&spki), &made.spki));
    *ret_ephemeral = made;
    return OK;
}

/* ---- its certificate ---- */

static struct fault certify_root(struct op *op, struct services *services, struct managed_key *key)
{
    struct span root;
    TRY(projector_catch_up(op, services->projector));
    TRY(keys_get(op, services, key->ref.id, key));
    if (key->chain_count > 0) {
        return OK; /* another instance was quicker */
    }
    TRY(keyless_root_issue(op, services->signer, &key->ref, key->spki, clock_utc() - BACKDATE_US, &root));
    TRY(keys_set_chain(op, services, key, &root, 1));
    return keys_get(op, services, key->ref.id, key);
}

static struct fault certify_root_alone(struct op *op, struct services *services, struct managed_key *key)
{
    uint64_t seen = 0;
    for (;;) {
        CLEANUP(store_lock_freep) struct store_lock *lock = NULL;
        bool held = false;
        TRY(store_lock_try(op, services->store, LOCK_KEY, &lock, &held));
        if (held) {
            return certify_root(op, services, key);
        }
        if (op_expired(op)) {
            return op_fail(op, FAULT(DEADLINE), "another instance is certifying the keyless CA and does not finish");
        }
        IGNORE(projector_changed(op, services->projector, &seen, clock_mono() + LOCK_RETRY_NS));
    }
}

static struct fault authority(struct op *op, struct services *services, struct managed_key *ret_key)
{
    struct managed_key key;
    TRY(keys_ensure(op, services, KEY_PURPOSE_CA, CA_ALGORITHM, KEYLESS_CA_NAME, &key));
    if (key.chain_count == 0) {
        TRY(certify_root_alone(op, services, &key));
    }
    REQUIRE(key.chain_count == 1, INTERNAL);
    *ret_key = key;
    return OK;
}

struct fault keyless_prepare(struct op *op, struct services *services)
{
    struct managed_key key;
    return authority(op, services, &key);
}

static struct fault claims_of(struct op *op, const struct attested *identity, struct keyless_claim **ret_claims)
{
    struct keyless_claim *claims = NULL;
    TRY(arena_take(op->arena, identity->claim_count + 1, sizeof(*claims), &claims));
    for (size_t i = 0; i < identity->claim_count; i++) {
        claims[i] = (struct keyless_claim){ identity->claims[i].arc, identity->claims[i].value };
    }
    *ret_claims = claims;
    return OK;
}

static enum keyless_san san_of(enum san_kind kind)
{
    return kind == SAN_EMAIL ? KEYLESS_SAN_EMAIL : kind == SAN_DNS ? KEYLESS_SAN_DNS : KEYLESS_SAN_URI;
}

bool keyless_issued_outside(const struct services *services)
{
    return services->config->fulcio_url[0] != '\0';
}

struct fault keyless_certify(struct op *op, struct services *services, const struct codesign_command *command,
                             const struct ephemeral *ephemeral, const struct attested *identity, utc_us at,
                             struct span **ret_chain, size_t *ret_count)
{
    struct keyless_claim *claims = NULL;
    struct managed_key key = { 0 };
    bool own = !keyless_issued_outside(services);
    TRY(claims_of(op, identity, &claims));
    TRY(own ? authority(op, services, &key) : OK);
    const struct keyless_authority issuer = {
        .key = key.ref,
        .spki = key.spki,
        .certificate = own ? key.chain[0] : (struct span){ 0 },
    };
    const struct keyless_subject subject = {
        .operation_id = command->id,
        .key = ephemeral->key,
        .spki = ephemeral->spki,
        .san = identity->san,
        .san_kind = san_of(identity->san_kind),
        .issuer = identity->issuer,
        .subject = identity->subject,
        .claims = claims,
        .claim_count = identity->claim_count,
        .proof = command->request.proof,
        .not_before = at,
    };
    return keyless_issue(op, services->config, services->signer, own ? &issuer : NULL, &subject, ret_chain, ret_count);
}

/* ---- the end of the key ---- */

struct cleanup_payload {
    const char *operation_id;
};
static const struct jin_field cleanup_fields[] = {
    JIN_TEXT(struct cleanup_payload, operation_id, JIN_REQUIRED, 36, 36),
};

static struct fault record_destroyed(struct op *op, struct services *services, struct uuid operation_id,
                                     const struct key_ref *ref)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    const struct span parts[] = { span_text(op->tenant.text), span_text(operation_id.text) };
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", operation_id.text);
    jout_key_text(&jout, "ephemeral_id", ref->id.text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct event event = { .type = "codesign.ephemeral.destroyed", .schema_version = 1, .data = buf_span(&data) };
    struct event_append append = { .lane = CODESIGN_LANE, .events = &event, .count = 1 };
    uint64_t seq = 0;
    TRY(uuid_derive("codesign.ephemeral.destroyed", parts, COUNT_OF(parts), &append.message_id));
    return events_append(op, services->log, &append, &seq);
}

/* A key that is not there any more was destroyed by an earlier try, or never made. */
struct fault codesign_cleanup_handler(struct op *op, struct services *services, const struct outbox_item *item)
{
    struct cleanup_payload payload = { 0 };
    struct uuid operation_id;
    struct key_ref ref;
    TRY(jin_decode(op, item->payload, cleanup_fields, COUNT_OF(cleanup_fields), &payload));
    TRY(uuid_parse(span_text(payload.operation_id), &operation_id));
    TRY(ephemeral_ref(op, operation_id, &ref));
    FAILPOINT("codesign.before_cleanup");
    struct fault fault = signer_destroy(op, services->signer, &ref);
    if (FAULTED(fault) && fault.code != FAULT_KEY_NOT_FOUND) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    FAILPOINT("codesign.after_cleanup");
    return record_destroyed(op, services, operation_id, &ref);
}
