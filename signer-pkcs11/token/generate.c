#include "signer-pkcs11/token/internal.h"

static CK_OBJECT_HANDLE take_handle(CK_OBJECT_HANDLE *handle)
{
    CK_OBJECT_HANDLE taken = *handle;
    *handle = CK_INVALID_HANDLE;
    return taken;
}

struct generate_job {
    const struct key_ref *key;
    struct key_order order;
    struct buf *spki;
    bool made; /* by an earlier attempt of this call */
};

static struct fault key_exists(struct op *op)
{
    return op_fail(op, FAULT(KEY_EXISTS), "the token holds a key of this tenant, purpose and id already");
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

/* Another signer on the same token may make the same key at the same time. Then neither is kept: both callers see
 * "exists", find none, and make it again. */
static struct fault make_alone(struct op *op, struct token_session *session, struct generate_job *job,
                               CK_OBJECT_HANDLE *ret_public)
{
    struct key_objects seen,
        made = { .private_key = CK_INVALID_HANDLE, .public_key = CK_INVALID_HANDLE, .secret_key = CK_INVALID_HANDLE };
    TRY(key_make(op, session, &job->order, &made));
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
    *ret_public = made.public_key;
    return OK;
}

/* Quirk public-in-session: the public half goes with its session, so it must be kept elsewhere, or be readable from the
 * private one. A key whose public half is lost is of no use: then it is not kept. */
static struct fault keep_public(struct op *op, struct token_session *session, struct generate_job *job,
                                struct key_objects *there, CK_OBJECT_HANDLE fresh, struct buf *spki)
{
    const char *folder = session->token->settings->public_keys_dir;
    there->public_key = fresh;
    TRY(public_key_read(op, session, job->key, there, spki));
    IGNORE(gate_destroy(&session->call, session->handle, take_handle(&there->public_key)));
    call_clear(&session->call);
    struct fault fault = public_key_store(op, session->token, job->key, buf_span(spki));
    if (!FAULTED(fault) && (folder == NULL || folder[0] == '\0')) {
        CLEANUP(buf_free) struct buf again = BUF_INIT(SPKI_MAX);
        fault = public_key_read(op, session, job->key, there, &again);
    }
    if (FAULTED(fault) && session->call.refusal == NULL) {
        undo(session, there);
    }
    return fault;
}

static struct fault generate_step(struct op *op, struct token_session *session, void *arg)
{
    struct generate_job *job = arg;
    struct key_objects there;
    CK_OBJECT_HANDLE fresh = CK_INVALID_HANDLE;
    TRY(key_find(op, session, job->key, &there));
    if (key_objects_any(&there) && !job->made) {
        return key_exists(op);
    }
    if (!key_objects_any(&there)) {
        TRY(make_alone(op, session, job, &fresh));
        TRY(key_find(op, session, job->key, &there));
    }
    if (job->order.algorithm == KEY_ALGORITHM_AES_256) {
        return OK;
    }
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    bool in_session = there.public_key == CK_INVALID_HANDLE && fresh != CK_INVALID_HANDLE;
    TRY(in_session ? keep_public(op, session, job, &there, fresh, &spki)
                   : public_key_read(op, session, job->key, &there, &spki));
    return buf_put(job->spki, buf_span(&spki));
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
    if (algorithm == KEY_ALGORITHM_ML_DSA_65) { /* signer-pkcs11/sealed makes these */
        return key_no_generator(op, algorithm);
    }
    struct generate_job job = { .key = key, .order = { .algorithm = algorithm }, .spki = spki };
    TRY(key_label_on(&session->token->settings->quirks, key, algorithm, &job.order.label));
    job.order.id = key_id_on(session->token, key, &job.order.id_bytes);
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
