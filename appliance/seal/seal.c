#include "appliance/seal/seal.h"

#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/seal/luks.h"
#include "appliance/seal/tpm.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MACHINE_KEY_BYTES 64
#define EDGE_BYTES        ((size_t)1 << 20)
#define COMPLETE_TOKEN    "{\"type\":\"svc-state\",\"keyslots\":[],\"complete\":\"1\"}"

static const struct {
    const char *text, *meaning;
} MODES[] = {
    [SEAL_TPM2] = { "tpm2", "encrypted; the TPM gives the key out while firmware and Secure Boot are as they were" },
    [SEAL_TPM2_PIN] = { "tpm2+pin", "encrypted; the TPM gives the key out for the PIN, while firmware and Secure Boot "
                                    "are as they were" },
    [SEAL_PIN] = { "pin", "encrypted; the PIN opens it at every start (no TPM)" },
    [SEAL_NONE] = { "none", "encrypted, but the key is on the same disk (no TPM, no PIN)" },
};

const char *seal_mode_text(enum seal_mode mode)
{
    return (size_t)mode < COUNT_OF(MODES) ? MODES[mode].text : "?";
}

const char *seal_mode_meaning(enum seal_mode mode)
{
    return (size_t)mode < COUNT_OF(MODES) ? MODES[mode].meaning : "?";
}

static bool uses_tpm(enum seal_mode mode)
{
    return mode == SEAL_TPM2 || mode == SEAL_TPM2_PIN;
}

bool seal_mode_has_pin(enum seal_mode mode)
{
    return mode == SEAL_PIN || mode == SEAL_TPM2_PIN;
}

/* ---- the token beside keyslot 0 ---- */

struct seal_token {
    const char *type, *mode;
    struct jin_texts keyslots;
    struct span public_blob, private_blob, key;
    enum seal_mode kind;
};
static const struct jin_field TOKEN_FIELDS[] = {
    JIN_TEXT(struct seal_token, type, JIN_REQUIRED, 1, 32),
    JIN_TEXTS(struct seal_token, keyslots, JIN_REQUIRED, 0, 8),
    JIN_TEXT(struct seal_token, mode, JIN_REQUIRED, 1, 16),
    JIN_BASE64(struct seal_token, public_blob, JIN_OPTIONAL, 1, TPM_BLOB_MAX),
    JIN_BASE64(struct seal_token, private_blob, JIN_OPTIONAL, 1, TPM_BLOB_MAX),
    JIN_BASE64(struct seal_token, key, JIN_OPTIONAL, MACHINE_KEY_BYTES, MACHINE_KEY_BYTES),
};

static struct fault token_read(struct op *op, struct luks *luks, struct seal_token *ret_token)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(LUKS_TOKEN_MAX);
    TRY(luks_token_get(op, luks, LUKS_TOKEN_SEAL, &json));
    struct seal_token token = { 0 };
    TRY(jin_decode(op, buf_span(&json), TOKEN_FIELDS, COUNT_OF(TOKEN_FIELDS), &token));
    for (size_t i = 0; i < COUNT_OF(MODES); i++) {
        if (strcmp(token.mode, MODES[i].text) == 0 && strcmp(token.type, "svc-seal") == 0) {
            token.kind = (enum seal_mode)i;
            *ret_token = token;
            return OK;
        }
    }
    return op_fail(op, FAULT(UNSEAL), "the state's header is sealed in a way that this version does not know");
}

static struct fault token_write(struct op *op, struct luks *luks, const struct seal_token *token)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(LUKS_TOKEN_MAX);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "type", "svc-seal");
    jout_key(&jout, "keyslots");
    jout_array(&jout);
    jout_text(&jout, "0");
    jout_array_end(&jout);
    jout_key_text(&jout, "mode", seal_mode_text(token->kind));
    if (token->public_blob.len > 0) {
        jout_key_base64(&jout, "public_blob", token->public_blob);
        jout_key_base64(&jout, "private_blob", token->private_blob);
    }
    if (token->key.len > 0) {
        jout_key_base64(&jout, "key", token->key);
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const char *text = NULL;
    TRY(buf_cstr(&json, &text));
    return luks_token_put(op, luks, LUKS_TOKEN_SEAL, text);
}

/* ---- looking ---- */

static struct fault edge_is_zero(int fd, off_t from, bool *zero)
{
    CLEANUP(buf_free) struct buf edge = BUF_INIT(EDGE_BYTES);
    uint8_t *at = NULL;
    TRY(buf_reserve(&edge, EDGE_BYTES, &at));
    ssize_t got = pread(fd, at, EDGE_BYTES, from);
    REQUIRE(got >= 0, IO);
    for (ssize_t i = 0; i < got; i++) {
        *zero = *zero && at[i] == 0;
    }
    return OK;
}

static struct fault is_empty(struct op *op, const char *device, bool *ret_empty)
{
    CLEANUP(fd_closep) int fd = open(device, O_RDONLY | O_CLOEXEC);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    if (end < 0) {
        return op_fail(op, FAULT(IO), "cannot read %s: %s", device, strerrordesc_np(errno));
    }
    bool zero = true;
    TRY(edge_is_zero(fd, 0, &zero));
    TRY(edge_is_zero(fd, end > (off_t)EDGE_BYTES ? end - (off_t)EDGE_BYTES : 0, &zero));
    *ret_empty = zero;
    return OK;
}

struct fault seal_look(struct op *op, const char *device, struct seal_look *ret_look)
{
    CLEANUP(luks_freep) struct luks *luks = NULL;
    struct fault loaded = luks_load(op, device, &luks);
    if (loaded.code == FAULT_NOT_FOUND) {
        op->note = (struct fault_note){ 0 };
        bool empty = false;
        TRY(is_empty(op, device, &empty));
        *ret_look = (struct seal_look){ .content = empty ? SEAL_EMPTY : SEAL_FOREIGN };
        return OK;
    }
    TRY(loaded);
    CLEANUP(buf_free) struct buf complete = BUF_INIT(LUKS_TOKEN_MAX);
    if (FAULTED(luks_token_get(op, luks, LUKS_TOKEN_COMPLETE, &complete))) {
        op->note = (struct fault_note){ 0 };
        *ret_look = (struct seal_look){ .content = SEAL_UNFINISHED };
        return OK;
    }
    struct seal_token token = { 0 };
    TRY(token_read(op, luks, &token));
    *ret_look = (struct seal_look){ .content = SEAL_COMPLETE, .mode = token.kind };
    return OK;
}

bool seal_tpm_usable(struct op *op, const char *tcti, bool *ret_measured)
{
    CLEANUP(tpm_freep) struct tpm *tpm = NULL;
    static const uint8_t nothing[32];
    uint8_t pcr[32];
    bool usable = !FAULTED(tpm_open(op, tcti, &tpm)) && !FAULTED(tpm_pcr7(op, tpm, pcr));
    op->note = (struct fault_note){ 0 };
    *ret_measured = usable && !span_equal(SPAN_ARRAY(pcr), SPAN_ARRAY(nothing));
    return usable;
}

/* ---- making ---- */

/* A PIN of any length as an authorisation value of the TPM. Guesses are counted there, so a plain digest will do. */
static struct fault pin_auth(struct op *op, struct span pin, uint8_t ret_auth[TPM_AUTH_MAX])
{
    unsigned len = 0;
    if (EVP_Digest(pin.at, pin.len, ret_auth, &len, EVP_sha256(), NULL) != 1 || len != TPM_AUTH_MAX) {
        return crypto_fail(op, "the PIN cannot be hashed");
    }
    return OK;
}

static struct fault pin_check(struct op *op, const struct secret *pin)
{
    struct span bytes = pin != NULL ? secret_span(pin) : (struct span){ 0 };
    if (bytes.len < SEAL_PIN_MIN || bytes.len > SEAL_PIN_MAX) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the state's PIN needs %d to %d characters", SEAL_PIN_MIN,
                       SEAL_PIN_MAX);
    }
    return OK;
}

/* The machine's key goes into the TPM; what comes of it into `token`, whose spans live in op's arena. */
static struct fault seal_by_tpm(struct op *op, const struct seal_request *request, const struct secret *key,
                                struct seal_token *token)
{
    CLEANUP(tpm_freep) struct tpm *tpm = NULL;
    CLEANUP(buf_free) struct buf public_blob = BUF_INIT(TPM_BLOB_MAX);
    CLEANUP(buf_free) struct buf private_blob = BUF_INIT(TPM_BLOB_MAX);
    uint8_t auth[TPM_AUTH_MAX];
    size_t auth_len = 0;
    if (seal_mode_has_pin(request->mode)) {
        TRY(pin_auth(op, secret_span(request->pin), auth));
        auth_len = sizeof(auth);
    }
    uint8_t pcr[32];
    TRY(tpm_open(op, request->tcti, &tpm));
    TRY(tpm_pcr7(op, tpm, pcr));
    struct fault sealed = tpm_seal(op, tpm, secret_span(key), span_of(auth, auth_len), &public_blob, &private_blob);
    secret_wipe(auth, sizeof(auth));
    TRY(sealed);
    TRY(arena_copy(op->arena, buf_span(&public_blob), &token->public_blob));
    return arena_copy(op->arena, buf_span(&private_blob), &token->private_blob);
}

/* What opens keyslot 0, and the token that says how. */
static struct fault machine_key(struct op *op, const struct seal_request *request, struct seal_token *token,
                                struct secret **ret_key)
{
    token->kind = request->mode;
    if (seal_mode_has_pin(request->mode)) {
        TRY(pin_check(op, request->pin));
    }
    if (request->mode == SEAL_PIN) {
        return secret_new(secret_span(request->pin), ret_key);
    }
    CLEANUP(secret_freep) struct secret *key = NULL;
    TRY(secret_random(MACHINE_KEY_BYTES, &key));
    if (uses_tpm(request->mode)) {
        TRY(seal_by_tpm(op, request, key, token));
    } else {
        token->key = secret_span(key);
    }
    *ret_key = TAKE(key);
    return OK;
}

struct fault seal_create(struct op *op, const struct seal_request *request, struct secret **ret_recovery)
{
    CLEANUP(secret_freep) struct secret *key = NULL;
    CLEANUP(secret_freep) struct secret *recovery = NULL;
    CLEANUP(luks_freep) struct luks *luks = NULL;
    struct seal_token token = { 0 };
    TRY(machine_key(op, request, &token, &key)); /* first: without it nothing is overwritten */
    TRY(seal_recovery_new(&recovery));
    TRY(luks_format(op, request->device, &luks));
    TRY(luks_add(op, luks, LUKS_SLOT_MACHINE, secret_span(key),
                 request->mode == SEAL_PIN ? LUKS_KDF_WEAK : LUKS_KDF_FULL));
    TRY(luks_add(op, luks, LUKS_SLOT_RECOVERY, secret_span(recovery), LUKS_KDF_FULL));
    TRY(token_write(op, luks, &token));
    *ret_recovery = TAKE(recovery);
    return OK;
}

struct fault seal_finish(struct op *op, const char *device)
{
    CLEANUP(luks_freep) struct luks *luks = NULL;
    TRY(luks_load(op, device, &luks));
    return luks_token_put(op, luks, LUKS_TOKEN_COMPLETE, COMPLETE_TOKEN);
}

/* ---- opening ---- */

static struct fault key_from_tpm(struct op *op, const struct seal_token *token, const struct seal_key *key,
                                 struct secret **ret_key)
{
    CLEANUP(tpm_freep) struct tpm *tpm = NULL;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(TPM_SEALED_MAX);
    uint8_t auth[TPM_AUTH_MAX];
    size_t auth_len = 0;
    if (token->kind == SEAL_TPM2_PIN) {
        TRY(pin_auth(op, key->typed, auth));
        auth_len = sizeof(auth);
    }
    TRY(tpm_open(op, key->tcti, &tpm));
    struct fault opened = tpm_unseal(op, tpm, token->public_blob, token->private_blob, span_of(auth, auth_len), &bytes);
    secret_wipe(auth, sizeof(auth));
    TRY(opened);
    return secret_new(buf_span(&bytes), ret_key);
}

static struct fault key_of_machine(struct op *op, const struct seal_token *token, const struct seal_key *key,
                                   struct secret **ret_key)
{
    if (seal_mode_has_pin(token->kind) && key->typed.len == 0) {
        return op_fail(op, FAULT(UNSEAL), "the state opens with its PIN, or with the recovery key");
    }
    if (uses_tpm(token->kind)) {
        struct fault got = key_from_tpm(op, token, key, ret_key);
        return got.code == FAULT_UNSUPPORTED ? FAULT(UNSEAL)
                                             : got; /* the TPM that was there is not; the note says it */
    }
    if (token->kind == SEAL_PIN) {
        return secret_new(key->typed, ret_key);
    }
    REQUIRE(token->key.len == MACHINE_KEY_BYTES, UNSEAL);
    return secret_new(token->key, ret_key);
}

static struct fault open_by_recovery(struct op *op, struct luks *luks, const char *name, struct span typed)
{
    CLEANUP(secret_freep) struct secret *recovery = NULL;
    TRY(seal_recovery_parse(typed, &recovery));
    return luks_open(op, luks, LUKS_SLOT_RECOVERY, secret_span(recovery), name);
}

struct fault seal_open(struct op *op, const char *device, const char *name, const struct seal_key *key,
                       bool *ret_recovered)
{
    CLEANUP(luks_freep) struct luks *luks = NULL;
    TRY(luks_load(op, device, &luks));
    if (!FAULTED(open_by_recovery(op, luks, name, key->typed))) {
        *ret_recovered = true;
        return OK;
    }
    op->note = (struct fault_note){ 0 }; /* not the recovery key: then perhaps the PIN */
    struct seal_token token = { 0 };
    CLEANUP(secret_freep) struct secret *opener = NULL;
    TRY(token_read(op, luks, &token));
    TRY(key_of_machine(op, &token, key, &opener));
    TRY(luks_open(op, luks, LUKS_SLOT_MACHINE, secret_span(opener), name));
    *ret_recovered = false;
    return OK;
}

struct fault seal_renew(struct op *op, const char *device, const struct seal_key *recovery, const struct secret *pin)
{
    CLEANUP(luks_freep) struct luks *luks = NULL;
    CLEANUP(secret_freep) struct secret *key = NULL;
    CLEANUP(secret_freep) struct secret *by = NULL;
    struct seal_token token = { 0 };
    TRY(luks_load(op, device, &luks));
    TRY(token_read(op, luks, &token));
    TRY(seal_recovery_parse(recovery->typed, &by));
    struct seal_request request = { .device = device, .mode = token.kind, .tcti = recovery->tcti, .pin = pin };
    struct seal_token anew = { 0 };
    TRY(machine_key(op, &request, &anew, &key));
    TRY(luks_replace(op, luks, LUKS_SLOT_MACHINE, secret_span(key),
                     request.mode == SEAL_PIN ? LUKS_KDF_WEAK : LUKS_KDF_FULL, LUKS_SLOT_RECOVERY, secret_span(by)));
    return token_write(op, luks, &anew);
}
