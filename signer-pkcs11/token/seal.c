/*
 * Sealing: AES-256-GCM inside the token. Layout of sealed bytes: version 1, the key's 16-byte id, 12-byte IV,
 * ciphertext, 16-byte tag. The version and the id stand in front in the clear and are compared; all else is under the
 * tag together with the caller's context.
 */
#include "signer-pkcs11/token/internal.h"

#include "appliance/base/alloc.h"

#define SEAL_VERSION 1
#define IV_LEN       12
#define TAG_LEN      16
#define HEAD_LEN     (1 + KEY_ID_LEN)
#define SEAL_MAX     ((size_t)1 << 20)

struct seal_job {
    const struct key_ref *key;
    struct span aad, input;
    uint8_t iv[IV_LEN];
    uint8_t *out; /* owned; room for input and tag */
    CK_ULONG out_len;
};

static void seal_job_clear(struct seal_job *job)
{
    if (job->out != NULL) {
        secret_wipe(job->out, job->input.len + TAG_LEN);
    }
    mem_free(TAKE(job->out));
}

/* As PKCS#11 2.30 had it: quirk gcm-no-iv-bits. */
struct gcm_params_short {
    CK_BYTE *iv;
    CK_ULONG iv_len;
    CK_BYTE *aad;
    CK_ULONG aad_len, tag_bits;
};
union gcm_params {
    CK_GCM_PARAMS full;
    struct gcm_params_short brief;
};

static CK_MECHANISM gcm_with(const struct token_session *session, struct seal_job *job, union gcm_params *params)
{
    uint8_t *aad = (uint8_t *)(uintptr_t)job->aad.at;
    if (quirk_on(&session->token->settings->quirks, QUIRK_GCM_NO_IV_BITS)) {
        params->brief = (struct gcm_params_short){ job->iv, IV_LEN, aad, job->aad.len, TAG_LEN * 8 };
        return (CK_MECHANISM){ CKM_AES_GCM, &params->brief, sizeof(params->brief) };
    }
    params->full = (CK_GCM_PARAMS){ .pIv = job->iv,
                                    .ulIvLen = IV_LEN,
                                    .ulIvBits = IV_LEN * 8,
                                    .pAAD = aad,
                                    .ulAADLen = job->aad.len,
                                    .ulTagBits = TAG_LEN * 8 };
    return (CK_MECHANISM){ CKM_AES_GCM, &params->full, sizeof(params->full) };
}

/* Never the same twice under one key: from the token's generator, from ours, or made by the token while it seals. */
static struct fault new_iv(struct token_session *session, struct seal_job *job)
{
    const struct token_quirks *quirks = &session->token->settings->quirks;
    if (quirk_on(quirks, QUIRK_GCM_TOKEN_IV)) {
        memset(job->iv, 0, IV_LEN);
        return OK;
    }
    return quirk_on(quirks, QUIRK_GCM_HOST_IV) ? random_bytes(job->iv, IV_LEN)
                                               : gate_random(&session->call, session->handle, job->iv, IV_LEN);
}

static struct fault sealing_key(struct op *op, struct token_session *session, const struct key_ref *key,
                                CK_OBJECT_HANDLE *ret_object)
{
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    TRY(key_use(op, session, key, ret_object, &algorithm));
    if (algorithm != KEY_ALGORITHM_AES_256) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "a key of algorithm %s does not seal", key_algorithm_text(algorithm));
    }
    if (!session->token->module.has.aes_gcm) {
        return op_fail(op, FAULT(TOKEN_MECHANISM), "the token does not list CKM_AES_GCM");
    }
    return OK;
}

static struct fault encrypt(struct token_session *session, CK_OBJECT_HANDLE object, struct seal_job *job)
{
    struct call *call = &session->call;
    union gcm_params params;
    TRY(new_iv(session, job));
    CK_MECHANISM mechanism = gcm_with(session, job, &params);
    TRY(gate_encrypt_init(call, session->handle, &mechanism, object));
    TRY(key_login_again(session));
    job->out_len = job->input.len + TAG_LEN;
    return gate_encrypt(call, session->handle, job->input, job->out, &job->out_len);
}

static struct fault seal_step(struct op *op, struct token_session *session, void *arg)
{
    struct seal_job *job = arg;
    CK_OBJECT_HANDLE object = CK_INVALID_HANDLE;
    TRY(sealing_key(op, session, job->key, &object));
    TRY(encrypt(session, object, job));
    static const uint8_t zeros[IV_LEN] = { 0 };
    if (span_equal(SPAN_ARRAY(job->iv), SPAN_ARRAY(zeros))) {
        return op_fail(op, FAULT(INTERNAL), "the token sealed without an IV of its own: leave quirk gcm-token-iv out");
    }
    return OK;
}

static struct fault check_sizes(struct op *op, struct span aad, struct span bytes)
{
    if (aad.len > SEAL_MAX || bytes.len > SEAL_MAX) {
        return op_fail(op, FAULT(TOO_LARGE), "at most %zu bytes can be sealed at once", SEAL_MAX);
    }
    return OK;
}

/* Modules refuse a null pointer even where its length is 0. */
static struct span not_null(struct span bytes)
{
    return bytes.len > 0 ? bytes : span_of("", 0);
}

struct fault token_seal(struct op *op, struct token_session *session, const struct key_ref *key, struct span aad,
                        struct span plain, struct buf *sealed)
{
    TRY(key_ref_check(op, key));
    TRY(check_sizes(op, aad, plain));
    CLEANUP(seal_job_clear) struct seal_job job = { .key = key, .aad = aad, .input = not_null(plain) };
    TRY(mem_new(plain.len + TAG_LEN, 1, (void *)&job.out));
    TRY(token_run(op, session, key, seal_step, &job));
    if (job.out_len != plain.len + TAG_LEN) {
        return op_fail(op, FAULT(INTERNAL), "the token sealed to an unexpected length: report it with its model");
    }
    uint8_t id[KEY_ID_LEN];
    key_id_bytes(&key->id, id);
    TRY(buf_u8(sealed, SEAL_VERSION));
    TRY(buf_put(sealed, SPAN_ARRAY(id)));
    TRY(buf_put(sealed, SPAN_ARRAY(job.iv)));
    return buf_put(sealed, span_of(job.out, job.out_len));
}

/* Tokens disagree on how they say "the tag does not match": some answer CKR_GENERAL_ERROR, which otherwise means a
 * token in trouble. Whoever can still seal with the same key is not in trouble, so it was the bytes. */
static bool token_still_seals(struct token_session *session, CK_OBJECT_HANDLE object)
{
    static const uint8_t zero = 0;
    uint8_t out[1 + TAG_LEN];
    struct seal_job probe = { .input = { &zero, 1 }, .out = out };
    return !FAULTED(encrypt(session, object, &probe)) && probe.out_len == sizeof(out);
}

static struct fault decrypt(struct token_session *session, CK_OBJECT_HANDLE object, struct seal_job *job)
{
    union gcm_params params;
    CK_MECHANISM mechanism = gcm_with(session, job, &params);
    TRY(gate_decrypt_init(&session->call, session->handle, &mechanism, object));
    TRY(key_login_again(session));
    job->out_len = job->input.len + TAG_LEN;
    return gate_decrypt(&session->call, session->handle, job->input, job->out, &job->out_len);
}

static bool ambiguous(const struct token_session *session, struct fault fault)
{
    return FAULTED(fault) && session->call.refusal->class == CKR_CLASS_DEVICE;
}

static struct fault unseal_step(struct op *op, struct token_session *session, void *arg)
{
    struct seal_job *job = arg;
    struct call *call = &session->call;
    CK_OBJECT_HANDLE object = CK_INVALID_HANDLE;
    TRY(sealing_key(op, session, job->key, &object));
    struct fault fault = decrypt(session, object, job);
    if (!ambiguous(session, fault) || !token_still_seals(session, object)) {
        return fault;
    }
    call_clear(call);
    fault = decrypt(session, object, job); /* once more, lest a passing trouble of the token be blamed on the bytes */
    if (ambiguous(session, fault)) {
        call_clear(call);
        return FAULT(UNSEAL);
    }
    return fault;
}

static struct fault unseal_refused(struct op *op)
{
    return op_fail(op, FAULT(UNSEAL), "the sealed bytes were altered, or belong to another context or key");
}

struct fault token_unseal(struct op *op, struct token_session *session, const struct key_ref *key, struct span aad,
                          struct span sealed, struct buf *plain)
{
    TRY(key_ref_check(op, key));
    TRY(check_sizes(op, aad, sealed));
    CLEANUP(seal_job_clear) struct seal_job job = { .key = key, .aad = aad };
    struct reader reader = { sealed };
    uint8_t version = 0, id[KEY_ID_LEN];
    struct span named = { 0 }, iv = { 0 };
    key_id_bytes(&key->id, id);
    if (FAULTED(reader_u8(&reader, &version)) || FAULTED(reader_bytes(&reader, KEY_ID_LEN, &named)) ||
        FAULTED(reader_bytes(&reader, IV_LEN, &iv)) || reader.rest.len < TAG_LEN || version != SEAL_VERSION ||
        !span_equal(named, SPAN_ARRAY(id))) {
        return unseal_refused(op);
    }
    memcpy(job.iv, iv.at, IV_LEN);
    job.input = reader.rest;
    TRY(mem_new(job.input.len + TAG_LEN, 1, (void *)&job.out));
    struct fault fault = token_run(op, session, key, unseal_step, &job);
    if (fault.code == FAULT_UNSEAL) {
        return unseal_refused(op);
    }
    TRY(fault);
    if (job.out_len != job.input.len - TAG_LEN) {
        return op_fail(op, FAULT(INTERNAL), "the token unsealed to an unexpected length: report it with its model");
    }
    return buf_put(plain, span_of(job.out, job.out_len));
}
