#include "appliance/seal/tpm.h"

#include "appliance/base/alloc.h"
#include "appliance/base/secret.h"

#include <string.h>
#include <tss2/tss2_esys.h>
#include <tss2/tss2_mu.h>
#include <tss2/tss2_rc.h>
#include <tss2/tss2_tctildr.h>
#include <unistd.h>

#define PCR_WHO_MAY_BOOT 7
#define DEVICE_TCTI      "device:"
#define FORMAT_ONE_ERROR (TPM2_RC_FMT1 | 0x3f) /* without the number of the handle, session or parameter */

struct tpm {
    TSS2_TCTI_CONTEXT *tcti;
    ESYS_CONTEXT *esys;
    ESYS_TR storage; /* the storage key, once it was made; ESYS_TR_NONE before */
};

static inline void esys_freep(void *at)
{
    void **mem = at;
    Esys_Free(*mem);
    *mem = NULL;
}

/* A handle in the TPM that ends with its scope. */
struct held {
    struct tpm *tpm;
    ESYS_TR handle;
};
#define HELD(tpm_) { .tpm = (tpm_), .handle = ESYS_TR_NONE }
static void held_flush(struct held *held)
{
    if (held->handle != ESYS_TR_NONE) {
        (void)Esys_FlushContext(held->tpm->esys, held->handle);
        held->handle = ESYS_TR_NONE;
    }
}

static const TPMT_SYM_DEF PARAMETER_CIPHER = { .algorithm = TPM2_ALG_AES,
                                               .keyBits.aes = 128,
                                               .mode.aes = TPM2_ALG_CFB };

static TPML_PCR_SELECTION pcr_selection(void)
{
    TPML_PCR_SELECTION selection = { .count = 1 };
    selection.pcrSelections[0].hash = TPM2_ALG_SHA256;
    selection.pcrSelections[0].sizeofSelect = 3;
    selection.pcrSelections[0].pcrSelect[PCR_WHO_MAY_BOOT / 8] = 1 << (PCR_WHO_MAY_BOOT % 8);
    return selection;
}

static struct fault tpm_fail(struct op *op, TSS2_RC code, const char *what)
{
    op_note_log(op, "TPM: %s (0x%08x)", Tss2_RC_Decode(code), (unsigned)code);
    TSS2_RC error = (code & TPM2_RC_FMT1) != 0 ? code & FORMAT_ONE_ERROR : code;
    switch (error) {
    case TPM2_RC_AUTH_FAIL:
    case TPM2_RC_BAD_AUTH:
        return op_fail(op, FAULT(UNSEAL), "the TPM refuses the PIN");
    case TPM2_RC_POLICY_FAIL:
        return op_fail(op, FAULT(UNSEAL),
                       "the TPM does not give the key out: firmware, Secure Boot keys or settings were changed");
    case TPM2_RC_LOCKOUT:
        return op_fail(op, FAULT(UNSEAL), "the TPM is locked after wrong PINs: wait, or use the recovery key");
    case TPM2_RC_INTEGRITY:
        return op_fail(op, FAULT(UNSEAL), "the key was sealed by another TPM, or this TPM was cleared");
    default:
        return op_fail(op, FAULT(UNSUPPORTED), "the TPM fails to %s: %s", what, Tss2_RC_Decode(code));
    }
}
#define TPM_TRY(op, call, what)                   \
    do {                                          \
        TSS2_RC code_ = (call);                   \
        if (code_ != TSS2_RC_SUCCESS) {           \
            return tpm_fail((op), code_, (what)); \
        }                                         \
    } while (0)

void tpm_free(struct tpm *tpm)
{
    if (tpm == NULL) {
        return;
    }
    if (tpm->esys != NULL) {
        if (tpm->storage != ESYS_TR_NONE) {
            (void)Esys_FlushContext(tpm->esys, tpm->storage);
        }
        Esys_Finalize(&tpm->esys);
    }
    if (tpm->tcti != NULL) {
        Tss2_TctiLdr_Finalize(&tpm->tcti);
    }
    mem_free(tpm);
}

/* Its libraries explain on stderr what callers here say in one line. */
static void keep_library_quiet(void)
{
    (void)setenv("TSS2_LOG", "all+NONE", 0);
}

struct fault tpm_open(struct op *op, const char *tcti, struct tpm **ret_tpm)
{
    keep_library_quiet();
    if (strncmp(tcti, DEVICE_TCTI, sizeof(DEVICE_TCTI) - 1) == 0 && access(tcti + sizeof(DEVICE_TCTI) - 1, F_OK) != 0) {
        return op_fail(op, FAULT(UNSUPPORTED), "this machine has no TPM 2.0"); /* which the library would leak over */
    }
    CLEANUP(tpm_freep) struct tpm *tpm = NULL;
    TRY(mem_new(1, sizeof(*tpm), (void *)&tpm));
    tpm->storage = ESYS_TR_NONE;
    TPM_TRY(op, Tss2_TctiLdr_Initialize(tcti, &tpm->tcti), "be reached");
    TPM_TRY(op, Esys_Initialize(&tpm->esys, tpm->tcti, NULL), "be reached");
    *ret_tpm = TAKE(tpm);
    return OK;
}

struct fault tpm_pcr7(struct op *op, struct tpm *tpm, uint8_t ret_value[32])
{
    TPML_PCR_SELECTION selection = pcr_selection();
    CLEANUP(esys_freep) TPML_DIGEST *values = NULL;
    TPM_TRY(op, Esys_PCR_Read(tpm->esys, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &selection, NULL, NULL, &values),
            "tell PCR 7");
    if (values->count != 1 || values->digests[0].size != 32) {
        return op_fail(op, FAULT(UNSUPPORTED), "the TPM has no PCRs for SHA-256");
    }
    memcpy(ret_value, values->digests[0].buffer, 32);
    return OK;
}

/* The storage key of the TCG's template for ECC P-256: the same one each time, from the TPM's owner seed. */
static struct fault storage_key(struct op *op, struct tpm *tpm)
{
    if (tpm->storage != ESYS_TR_NONE) {
        return OK;
    }
    TPM2B_SENSITIVE_CREATE sensitive = { 0 };
    TPM2B_PUBLIC template = { 0 };
    template.publicArea.type = TPM2_ALG_ECC;
    template.publicArea.nameAlg = TPM2_ALG_SHA256;
    template.publicArea.objectAttributes = TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT |
                                           TPMA_OBJECT_SENSITIVEDATAORIGIN | TPMA_OBJECT_USERWITHAUTH |
                                           TPMA_OBJECT_RESTRICTED | TPMA_OBJECT_DECRYPT | TPMA_OBJECT_NODA;
    TPMS_ECC_PARMS *ecc = &template.publicArea.parameters.eccDetail;
    ecc->symmetric.algorithm = TPM2_ALG_AES;
    ecc->symmetric.keyBits.aes = 128;
    ecc->symmetric.mode.aes = TPM2_ALG_CFB;
    ecc->scheme.scheme = TPM2_ALG_NULL;
    ecc->curveID = TPM2_ECC_NIST_P256;
    ecc->kdf.scheme = TPM2_ALG_NULL;
    TPM2B_DATA outside = { 0 };
    TPML_PCR_SELECTION none = { 0 };
    TPM_TRY(op,
            Esys_CreatePrimary(tpm->esys, ESYS_TR_RH_OWNER, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &sensitive,
                               &template, &outside, &none, &tpm->storage, NULL, NULL, NULL, NULL),
            "make its storage key (is its owner hierarchy disabled or password-protected?)");
    return OK;
}

/* A session whose parameters are encrypted with a salt that only this TPM can read. */
static struct fault session_new(struct op *op, struct tpm *tpm, TPM2_SE type, TPMA_SESSION encrypts, struct held *held)
{
    TPM_TRY(op,
            Esys_StartAuthSession(tpm->esys, tpm->storage, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, NULL,
                                  type, &PARAMETER_CIPHER, TPM2_ALG_SHA256, &held->handle),
            "start a session");
    TPM_TRY(op, Esys_TRSess_SetAttributes(tpm->esys, held->handle, encrypts | TPMA_SESSION_CONTINUESESSION, 0xff),
            "set up a session");
    return OK;
}

static struct fault policy_apply(struct op *op, struct tpm *tpm, ESYS_TR session, bool with_auth)
{
    TPML_PCR_SELECTION selection = pcr_selection();
    TPM2B_DIGEST present = { 0 }; /* empty: the TPM takes the values that there are */
    TPM_TRY(op, Esys_PolicyPCR(tpm->esys, session, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &present, &selection),
            "take PCR 7 into a policy");
    if (with_auth) {
        TPM_TRY(op, Esys_PolicyAuthValue(tpm->esys, session, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE),
                "take the PIN into a policy");
    }
    return OK;
}

static struct fault policy_digest(struct op *op, struct tpm *tpm, bool with_auth, TPM2B_DIGEST *ret_digest)
{
    CLEANUP(held_flush) struct held trial = HELD(tpm);
    CLEANUP(esys_freep) TPM2B_DIGEST *digest = NULL;
    TRY(session_new(op, tpm, TPM2_SE_TRIAL, 0, &trial));
    TRY(policy_apply(op, tpm, trial.handle, with_auth));
    TPM_TRY(op, Esys_PolicyGetDigest(tpm->esys, trial.handle, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &digest),
            "tell a policy's digest");
    *ret_digest = *digest;
    return OK;
}

static struct fault blobs_print(const TPM2B_PUBLIC *public, const TPM2B_PRIVATE *private, struct buf *public_blob,
                                struct buf *private_blob)
{
    uint8_t space[sizeof(TPM2B_PUBLIC) + sizeof(TPM2B_PRIVATE)];
    size_t len = 0;
    REQUIRE(Tss2_MU_TPM2B_PUBLIC_Marshal(public, space, sizeof(space), &len) == TSS2_RC_SUCCESS, INTERNAL);
    TRY(buf_put(public_blob, span_of(space, len)));
    len = 0;
    REQUIRE(Tss2_MU_TPM2B_PRIVATE_Marshal(private, space, sizeof(space), &len) == TSS2_RC_SUCCESS, INTERNAL);
    return buf_put(private_blob, span_of(space, len));
}

struct fault tpm_seal(struct op *op, struct tpm *tpm, struct span bytes, struct span auth, struct buf *public_blob,
                      struct buf *private_blob)
{
    REQUIRE(bytes.len > 0 && bytes.len <= TPM_SEALED_MAX && auth.len <= TPM_AUTH_MAX, BAD_ARGUMENT);
    TRY(storage_key(op, tpm));
    TPM2B_PUBLIC template = { 0 };
    template.publicArea.type = TPM2_ALG_KEYEDHASH;
    template.publicArea.nameAlg = TPM2_ALG_SHA256;
    /* Without TPMA_OBJECT_USERWITHAUTH only the policy opens it. */
    template.publicArea.objectAttributes =
        TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | (auth.len == 0 ? TPMA_OBJECT_NODA : 0);
    template.publicArea.parameters.keyedHashDetail.scheme.scheme = TPM2_ALG_NULL;
    TRY(policy_digest(op, tpm, auth.len > 0, &template.publicArea.authPolicy));
    CLEANUP(held_flush) struct held session = HELD(tpm);
    TRY(session_new(op, tpm, TPM2_SE_HMAC, TPMA_SESSION_DECRYPT, &session));
    TPM2B_SENSITIVE_CREATE sensitive = { 0 };
    sensitive.sensitive.data.size = (UINT16)bytes.len;
    memcpy(sensitive.sensitive.data.buffer, bytes.at, bytes.len);
    sensitive.sensitive.userAuth.size = (UINT16)auth.len;
    if (auth.len > 0) {
        memcpy(sensitive.sensitive.userAuth.buffer, auth.at, auth.len);
    }
    TPM2B_DATA outside = { 0 };
    TPML_PCR_SELECTION none = { 0 };
    CLEANUP(esys_freep) TPM2B_PRIVATE *private = NULL;
    CLEANUP(esys_freep) TPM2B_PUBLIC *public = NULL;
    TSS2_RC code = Esys_Create(tpm->esys, tpm->storage, ESYS_TR_PASSWORD, session.handle, ESYS_TR_NONE, &sensitive,
                               &template, &outside, &none, &private, &public, NULL, NULL, NULL);
    secret_wipe(&sensitive, sizeof(sensitive));
    TPM_TRY(op, code, "seal a key");
    return blobs_print(public, private, public_blob, private_blob);
}

static struct fault sealed_load(struct op *op, struct tpm *tpm, struct span public_blob, struct span private_blob,
                                struct held *held)
{
    TPM2B_PUBLIC public = { 0 };
    TPM2B_PRIVATE private = { 0 };
    size_t at = 0;
    if (Tss2_MU_TPM2B_PUBLIC_Unmarshal(public_blob.at, public_blob.len, &at, &public) != TSS2_RC_SUCCESS) {
        return op_fail(op, FAULT(UNSEAL), "what the TPM sealed is malformed");
    }
    at = 0;
    if (Tss2_MU_TPM2B_PRIVATE_Unmarshal(private_blob.at, private_blob.len, &at, &private) != TSS2_RC_SUCCESS) {
        return op_fail(op, FAULT(UNSEAL), "what the TPM sealed is malformed");
    }
    TPM_TRY(op,
            Esys_Load(tpm->esys, tpm->storage, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &private, &public,
                      &held->handle),
            "take the sealed key");
    return OK;
}

static struct fault auth_give(struct op *op, struct tpm *tpm, ESYS_TR object, struct span auth)
{
    TPM2B_AUTH value = { .size = (UINT16)auth.len };
    memcpy(value.buffer, auth.at, auth.len);
    TSS2_RC code = Esys_TR_SetAuth(tpm->esys, object, &value);
    secret_wipe(&value, sizeof(value));
    TPM_TRY(op, code, "take the PIN");
    return OK;
}

struct fault tpm_unseal(struct op *op, struct tpm *tpm, struct span public_blob, struct span private_blob,
                        struct span auth, struct buf *ret_bytes)
{
    REQUIRE(auth.len <= TPM_AUTH_MAX, BAD_ARGUMENT);
    TRY(storage_key(op, tpm));
    CLEANUP(held_flush) struct held object = HELD(tpm);
    TRY(sealed_load(op, tpm, public_blob, private_blob, &object));
    if (auth.len > 0) {
        TRY(auth_give(op, tpm, object.handle, auth));
    }
    CLEANUP(held_flush) struct held session = HELD(tpm);
    TRY(session_new(op, tpm, TPM2_SE_POLICY, TPMA_SESSION_ENCRYPT, &session));
    TRY(policy_apply(op, tpm, session.handle, auth.len > 0));
    CLEANUP(esys_freep) TPM2B_SENSITIVE_DATA *bytes = NULL;
    TPM_TRY(op, Esys_Unseal(tpm->esys, object.handle, session.handle, ESYS_TR_NONE, ESYS_TR_NONE, &bytes),
            "give the key out");
    struct fault put = buf_put(ret_bytes, span_of(bytes->buffer, bytes->size));
    secret_wipe(bytes, sizeof(*bytes));
    return put;
}
