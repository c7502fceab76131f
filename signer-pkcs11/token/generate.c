#include "signer-pkcs11/token/internal.h"

static const uint8_t p256_oid[] = { 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07 };
static const uint8_t p384_oid[] = { 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22 };
static const uint8_t exponent_f4[] = { 0x01, 0x00, 0x01 };

static CK_BBOOL yes = CK_TRUE, no = CK_FALSE; /* Cryptoki's templates point at values, and read them only */
#define ATTR_BOOL(type, value)  { (type), &(value), sizeof(value) }
#define ATTR_BYTES(type, array) { (type), (void *)(uintptr_t)(array), sizeof(array) }

struct generate_job {
    const struct key_ref *key;
    enum key_algorithm algorithm;
    struct buf *spki;
    bool made; /* by an earlier attempt of this call */
    struct key_label label;
    uint8_t id[KEY_ID_LEN];
};
#define ATTR_LABEL(job) { CKA_LABEL, (job)->label.text, strlen((job)->label.text) }
#define ATTR_ID(job)    { CKA_ID, (job)->id, sizeof((job)->id) }

static struct fault no_generator(struct op *op, enum key_algorithm algorithm)
{
    return op_fail(op, FAULT(TOKEN_MECHANISM),
                   "the token does not list a mechanism that makes keys of algorithm %s: "
                   "use another algorithm",
                   key_algorithm_text(algorithm));
}

static struct fault key_exists(struct op *op)
{
    return op_fail(op, FAULT(KEY_EXISTS), "the token holds a key of this tenant, purpose and id already");
}

static struct fault generate_ec(struct op *op, struct token_session *session, struct generate_job *job,
                                struct key_objects *made)
{
    if (!session->token->module.has.ec_generate) {
        return no_generator(op, job->algorithm);
    }
    struct span curve = job->algorithm == KEY_ALGORITHM_EC_P256 ? SPAN_ARRAY(p256_oid) : SPAN_ARRAY(p384_oid);
    CK_ATTRIBUTE public_half[] = {
        { CKA_EC_PARAMS, (void *)(uintptr_t)curve.at, curve.len },
        ATTR_BOOL(CKA_TOKEN, yes),
        ATTR_BOOL(CKA_PRIVATE, no),
        ATTR_BOOL(CKA_VERIFY, yes),
        ATTR_LABEL(job),
        ATTR_ID(job),
    };
    CK_ATTRIBUTE private_half[] = {
        ATTR_BOOL(CKA_TOKEN, yes),
        ATTR_BOOL(CKA_PRIVATE, yes),
        ATTR_BOOL(CKA_SENSITIVE, yes),
        ATTR_BOOL(CKA_EXTRACTABLE, no),
        ATTR_BOOL(CKA_SIGN, yes),
        ATTR_BOOL(CKA_DERIVE, no),
        ATTR_LABEL(job),
        ATTR_ID(job),
    };
    CK_MECHANISM mechanism = { CKM_EC_KEY_PAIR_GEN, NULL, 0 };
    return gate_generate_pair(
        &session->call, session->handle, &mechanism, (struct key_template){ public_half, COUNT_OF(public_half) },
        (struct key_template){ private_half, COUNT_OF(private_half) }, &made->public_key, &made->private_key);
}

static struct fault generate_rsa(struct op *op, struct token_session *session, struct generate_job *job,
                                 struct key_objects *made)
{
    const struct mechanisms *has = &session->token->module.has;
    CK_ULONG bits = algorithm_bits(job->algorithm);
    if (!has->rsa_generate || bits > has->rsa_max) {
        return no_generator(op, job->algorithm);
    }
    CK_ATTRIBUTE public_half[] = {
        { CKA_MODULUS_BITS, &bits, sizeof(bits) },
        ATTR_BYTES(CKA_PUBLIC_EXPONENT, exponent_f4),
        ATTR_BOOL(CKA_TOKEN, yes),
        ATTR_BOOL(CKA_PRIVATE, no),
        ATTR_BOOL(CKA_VERIFY, yes),
        ATTR_BOOL(CKA_ENCRYPT, no),
        ATTR_BOOL(CKA_WRAP, no),
        ATTR_LABEL(job),
        ATTR_ID(job),
    };
    CK_ATTRIBUTE private_half[] = {
        ATTR_BOOL(CKA_TOKEN, yes),
        ATTR_BOOL(CKA_PRIVATE, yes),
        ATTR_BOOL(CKA_SENSITIVE, yes),
        ATTR_BOOL(CKA_EXTRACTABLE, no),
        ATTR_BOOL(CKA_SIGN, yes),
        ATTR_BOOL(CKA_DECRYPT, no),
        ATTR_BOOL(CKA_UNWRAP, no),
        ATTR_LABEL(job),
        ATTR_ID(job),
    };
    CK_MECHANISM mechanism = { CKM_RSA_PKCS_KEY_PAIR_GEN, NULL, 0 };
    return gate_generate_pair(
        &session->call, session->handle, &mechanism, (struct key_template){ public_half, COUNT_OF(public_half) },
        (struct key_template){ private_half, COUNT_OF(private_half) }, &made->public_key, &made->private_key);
}

static struct fault generate_aes(struct op *op, struct token_session *session, struct generate_job *job,
                                 struct key_objects *made)
{
    if (!session->token->module.has.aes_generate) {
        return no_generator(op, job->algorithm);
    }
    CK_ULONG length = algorithm_bits(job->algorithm) / 8;
    CK_ATTRIBUTE template[] = {
        { CKA_VALUE_LEN, &length, sizeof(length) },
        ATTR_BOOL(CKA_TOKEN, yes),
        ATTR_BOOL(CKA_PRIVATE, yes),
        ATTR_BOOL(CKA_SENSITIVE, yes),
        ATTR_BOOL(CKA_EXTRACTABLE, no),
        ATTR_BOOL(CKA_ENCRYPT, yes),
        ATTR_BOOL(CKA_DECRYPT, yes),
        ATTR_BOOL(CKA_SIGN, no),
        ATTR_BOOL(CKA_VERIFY, no),
        ATTR_BOOL(CKA_WRAP, no),
        ATTR_BOOL(CKA_UNWRAP, no),
        ATTR_LABEL(job),
        ATTR_ID(job),
    };
    CK_MECHANISM mechanism = { CKM_AES_KEY_GEN, NULL, 0 };
    return gate_generate_key(&session->call, session->handle, &mechanism, template, COUNT_OF(template),
                             &made->secret_key);
}

/* Did the token do what the template said? A key that could leave it is worse than none. */
static struct fault check_custody(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object)
{
    CK_BBOOL sensitive = CK_FALSE, extractable = CK_TRUE;
    CK_ATTRIBUTE shown[] = { { CKA_SENSITIVE, &sensitive, sizeof(sensitive) },
                             { CKA_EXTRACTABLE, &extractable, sizeof(extractable) } };
    TRY(gate_attributes(&session->call, session->handle, object, shown, COUNT_OF(shown)));
    if (sensitive != CK_TRUE || extractable != CK_FALSE) {
        return op_fail(op, FAULT(INTERNAL),
                       "the token made a key that can leave it, against what it was told; the key "
                       "was destroyed: use another token");
    }
    return OK;
}

static void undo(struct token_session *session, const struct key_objects *made)
{
    const CK_OBJECT_HANDLE objects[] = { made->private_key, made->secret_key, made->public_key };
    for (size_t i = 0; i < COUNT_OF(objects); i++) {
        if (objects[i] != CK_INVALID_HANDLE) {
            IGNORE(gate_destroy(&session->call, session->handle, objects[i]));
        }
    }
    call_clear(&session->call);
}

static struct fault make(struct op *op, struct token_session *session, struct generate_job *job,
                         struct key_objects *made)
{
    if (job->algorithm == KEY_ALGORITHM_AES_256) {
        return generate_aes(op, session, job, made);
    }
    return algorithm_is_ec(job->algorithm) ? generate_ec(op, session, job, made) : generate_rsa(op, session, job, made);
}

/* Another signer on the same token may make the same key at the same time. Then neither is kept: both callers see
 * "exists", find none, and make it again. */
static struct fault make_alone(struct op *op, struct token_session *session, struct generate_job *job)
{
    struct key_objects seen,
        made = { .private_key = CK_INVALID_HANDLE, .public_key = CK_INVALID_HANDLE, .secret_key = CK_INVALID_HANDLE };
    TRY(make(op, session, job, &made));
    job->made = true;
    CK_OBJECT_HANDLE kept = made.private_key != CK_INVALID_HANDLE ? made.private_key : made.secret_key;
    struct fault fault = check_custody(op, session, kept);
    if (FAULTED(fault) && session->call.refusal == NULL) {
        undo(session, &made);
    }
    TRY(fault);
    TRY(key_find_all(session, job->key, &seen));
    if (seen.doubled) {
        undo(session, &made);
        return key_exists(op);
    }
    return OK;
}

static struct fault generate_step(struct op *op, struct token_session *session, void *arg)
{
    struct generate_job *job = arg;
    struct key_objects there;
    TRY(key_find(op, session, job->key, &there));
    if (key_objects_any(&there) && !job->made) {
        return key_exists(op);
    }
    if (!key_objects_any(&there)) {
        TRY(make_alone(op, session, job));
        TRY(key_find(op, session, job->key, &there));
    }
    return job->algorithm == KEY_ALGORITHM_AES_256
               ? OK
               : public_key_read(op, session, there.public_key, job->algorithm, job->spki);
}

static struct fault turn_to_generate(struct op *op, struct token *token)
{
    bool mine = true;
    token_lock(&token->lock);
    while (token->generating && mine) {
        mine = token_wait(&token->changed, &token->lock, op->deadline);
    }
    token->generating = token->generating || mine;
    token_unlock(&token->lock);
    return mine ? OK : op_fail(op, FAULT(SATURATED), "the token is still making another key: repeat the request");
}

static void turn_over(struct token *token)
{
    token_lock(&token->lock);
    token->generating = false;
    BUG_IF(pthread_cond_broadcast(&token->changed) != 0);
    token_unlock(&token->lock);
}

struct fault token_generate(struct op *op, struct token_session *session, const struct key_ref *key,
                            enum key_algorithm algorithm, struct buf *spki)
{
    TRY(key_ref_check(op, key));
    if (algorithm <= KEY_ALGORITHM_NONE || algorithm >= KEY_ALGORITHM_COUNT) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the key algorithm is not known");
    }
    struct generate_job job = { .key = key, .algorithm = algorithm, .spki = spki };
    key_label_print(key, algorithm, &job.label);
    key_id_bytes(&key->id, job.id);
    TRY(turn_to_generate(op, session->token));
    struct fault fault = token_run(op, session, key, generate_step, &job);
    turn_over(session->token);
    return fault;
}

static struct fault destroy_step(struct op *op, struct token_session *session, void *arg)
{
    const struct key_ref *key = arg;
    struct key_objects objects;
    TRY(key_find(op, session, key, &objects));
    if (!key_objects_any(&objects)) {
        return key_not_found(op);
    }
    key_forget(session->token, key);
    /* The private half first: what is left of an interrupted destruction can sign nothing. */
    const CK_OBJECT_HANDLE order[] = { objects.private_key, objects.secret_key, objects.public_key };
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        if (order[i] != CK_INVALID_HANDLE) {
            TRY(gate_destroy(&session->call, session->handle, order[i]));
        }
    }
    key_forget(session->token, key); /* somebody may have used it between */
    return OK;
}

struct fault token_destroy(struct op *op, struct token_session *session, const struct key_ref *key)
{
    TRY(key_ref_check(op, key));
    struct key_ref copy = *key;
    return token_run(op, session, key, destroy_step, &copy);
}
