#include "signer-pkcs11/token/internal.h"

static const uint8_t p256_oid[] = { 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07 };
static const uint8_t p384_oid[] = { 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22 };
static const uint8_t p256_name[] = { 0x13, 9, 's', 'e', 'c', 'p', '2', '5', '6', 'r', '1' };
static const uint8_t p384_name[] = { 0x13, 9, 's', 'e', 'c', 'p', '3', '8', '4', 'r', '1' };
static const uint8_t exponent_f4[] = { 0x01, 0x00, 0x01 };

static const CK_BBOOL yes = CK_TRUE, no = CK_FALSE;

static CK_OBJECT_HANDLE take_handle(CK_OBJECT_HANDLE *handle)
{
    CK_OBJECT_HANDLE taken = *handle;
    *handle = CK_INVALID_HANDLE;
    return taken;
}

struct generate_job {
    const struct key_ref *key;
    enum key_algorithm algorithm;
    struct buf *spki;
    bool made; /* by an earlier attempt of this call */
    struct key_label label;
    struct key_id id_bytes;
    struct span id; /* "" = the token keeps none */
};

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

/* ---- templates ---- */

static struct template_list begin(const struct token_session *session, const struct generate_job *job,
                                  const CK_BBOOL *on_token)
{
    struct template_list list = { .quirks = &session->token->settings->quirks };
    template_put(&list, CKA_TOKEN, on_token, sizeof(*on_token));
    template_put(&list, CKA_LABEL, job->label.text, strlen(job->label.text));
    if (job->id.len > 0) {
        template_put(&list, CKA_ID, job->id.at, job->id.len);
    }
    return list;
}

static struct template_list public_half(const struct token_session *session, const struct generate_job *job)
{
    bool kept = !quirk_on(&session->token->settings->quirks, QUIRK_PUBLIC_IN_SESSION);
    struct template_list list = begin(session, job, kept ? &yes : &no);
    template_put(&list, CKA_PRIVATE, &no, sizeof(no));
    template_flag(&list, CKA_VERIFY, QUIRK_CKA_VERIFY, true);
    return list;
}

/* Of private and secret keys: it never leaves the token. */
static struct template_list guarded(const struct token_session *session, const struct generate_job *job)
{
    struct template_list list = begin(session, job, &yes);
    template_flag(&list, CKA_PRIVATE, QUIRK_CKA_PRIVATE, true);
    template_flag(&list, CKA_SENSITIVE, QUIRK_CKA_SENSITIVE, true);
    template_flag(&list, CKA_EXTRACTABLE, QUIRK_CKA_EXTRACTABLE, false);
    template_put_set(&list);
    return list;
}

/* Quirk allowed-mechanisms: the key is bound to what the signer does with it. */
static void bind_to(struct template_list *list, const CK_MECHANISM_TYPE *mechanisms, size_t size)
{
    if (quirk_on(list->quirks, QUIRK_ALLOWED_MECHANISMS)) {
        template_put(list, CKA_ALLOWED_MECHANISMS, mechanisms, size);
    }
}

static struct span curve_of(const struct token_session *session, enum key_algorithm algorithm)
{
    bool p256 = algorithm == KEY_ALGORITHM_EC_P256;
    if (quirk_on(&session->token->settings->quirks, QUIRK_EC_PARAMS_NAME)) {
        return p256 ? SPAN_ARRAY(p256_name) : SPAN_ARRAY(p384_name);
    }
    return p256 ? SPAN_ARRAY(p256_oid) : SPAN_ARRAY(p384_oid);
}

/* ---- making ---- */

static struct fault make_pair(struct token_session *session, CK_MECHANISM_TYPE type, struct template_list *public_list,
                              struct template_list *private_list, struct key_objects *made)
{
    CK_MECHANISM mechanism = { type, NULL, 0 };
    return gate_generate_pair(&session->call, session->handle, &mechanism,
                              (struct key_template){ public_list->at, public_list->count },
                              (struct key_template){ private_list->at, private_list->count }, &made->public_key,
                              &made->private_key);
}

static struct fault generate_ec(struct op *op, struct token_session *session, struct generate_job *job,
                                struct key_objects *made)
{
    static const CK_MECHANISM_TYPE used[] = { CKM_ECDSA };
    if (!session->token->module.has.ec_generate) {
        return no_generator(op, job->algorithm);
    }
    struct span curve = curve_of(session, job->algorithm);
    struct template_list public_list = public_half(session, job), private_list = guarded(session, job);
    template_put(&public_list, CKA_EC_PARAMS, curve.at, curve.len);
    template_flag(&private_list, CKA_SIGN, QUIRK_CKA_SIGN, true);
    template_flag(&private_list, CKA_DERIVE, QUIRK_CKA_DERIVE, false);
    bind_to(&private_list, used, sizeof(used));
    return make_pair(session, CKM_EC_KEY_PAIR_GEN, &public_list, &private_list, made);
}

static struct fault generate_rsa(struct op *op, struct token_session *session, struct generate_job *job,
                                 struct key_objects *made)
{
    static const CK_MECHANISM_TYPE used[] = { CKM_RSA_PKCS, CKM_RSA_PKCS_PSS };
    static const CK_MECHANISM_TYPE used_raw[] = { CKM_RSA_PKCS, CKM_RSA_X_509 };
    const struct mechanisms *has = &session->token->module.has;
    CK_ULONG bits = algorithm_bits(job->algorithm);
    if (!(has->rsa_generate || has->rsa_x9_31) || bits > has->rsa_max) {
        return no_generator(op, job->algorithm);
    }
    struct template_list public_list = public_half(session, job), private_list = guarded(session, job);
    template_put(&public_list, CKA_MODULUS_BITS, &bits, sizeof(bits));
    if ((public_list.quirks->omit & 1u << QUIRK_CKA_PUBLIC_EXPONENT) == 0) {
        template_put(&public_list, CKA_PUBLIC_EXPONENT, exponent_f4, sizeof(exponent_f4));
    }
    template_flag(&public_list, CKA_ENCRYPT, QUIRK_CKA_ENCRYPT, false);
    template_flag(&public_list, CKA_WRAP, QUIRK_CKA_WRAP, false);
    template_flag(&private_list, CKA_SIGN, QUIRK_CKA_SIGN, true);
    template_flag(&private_list, CKA_DECRYPT, QUIRK_CKA_DECRYPT, false);
    template_flag(&private_list, CKA_UNWRAP, QUIRK_CKA_UNWRAP, false);
    bool raw = quirk_on(private_list.quirks, QUIRK_PSS_RAW);
    bind_to(&private_list, raw ? used_raw : used, sizeof(used));
    return make_pair(session, has->rsa_generate ? CKM_RSA_PKCS_KEY_PAIR_GEN : CKM_RSA_X9_31_KEY_PAIR_GEN, &public_list,
                     &private_list, made);
}

static struct fault generate_aes(struct op *op, struct token_session *session, struct generate_job *job,
                                 struct key_objects *made)
{
    static const CK_MECHANISM_TYPE used[] = { CKM_AES_GCM };
    if (!session->token->module.has.aes_generate) {
        return no_generator(op, job->algorithm);
    }
    CK_ULONG length = algorithm_bits(job->algorithm) / 8;
    struct template_list list = guarded(session, job);
    template_put(&list, CKA_VALUE_LEN, &length, sizeof(length));
    template_flag(&list, CKA_ENCRYPT, QUIRK_CKA_ENCRYPT, true);
    template_flag(&list, CKA_DECRYPT, QUIRK_CKA_DECRYPT, true);
    template_flag(&list, CKA_SIGN, QUIRK_CKA_SIGN, false);
    template_flag(&list, CKA_VERIFY, QUIRK_CKA_VERIFY, false);
    template_flag(&list, CKA_WRAP, QUIRK_CKA_WRAP, false);
    template_flag(&list, CKA_UNWRAP, QUIRK_CKA_UNWRAP, false);
    bind_to(&list, used, sizeof(used));
    CK_MECHANISM mechanism = { CKM_AES_KEY_GEN, NULL, 0 };
    return gate_generate_key(&session->call, session->handle, &mechanism, list.at, list.count, &made->secret_key);
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
static struct fault make_alone(struct op *op, struct token_session *session, struct generate_job *job,
                               CK_OBJECT_HANDLE *ret_public)
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
    if (job->algorithm == KEY_ALGORITHM_AES_256) {
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
        return no_generator(op, algorithm);
    }
    struct generate_job job = { .key = key, .algorithm = algorithm, .spki = spki };
    TRY(key_label_on(&session->token->settings->quirks, key, algorithm, &job.label));
    job.id = key_id_on(session->token, key, &job.id_bytes);
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
