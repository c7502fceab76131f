#include "signer-pkcs11/sealed/internal.h"

#include "appliance/base/failpoint.h"
#include "appliance/base/secret.h"
#include "fips/fence.h"

#include <time.h>

/* ---- what is asked ---- */

static struct fault check_place(struct op *op, const struct key_ref *key)
{
    struct tenant_id tenant;
    struct uuid id;
    if (key->purpose != KEY_PURPOSE_CODESIGN) {
        return op_fail(op, FAULT(SIGNER_REFUSED), "a key of purpose %s cannot be of algorithm ml-dsa-65",
                       key_purpose_text(key->purpose));
    }
    if (FAULTED(tenant_id_parse(span_text(key->tenant.text), &tenant)) ||
        FAULTED(uuid_parse(span_text(key->id.text), &id))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the key has no tenant or no id");
    }
    return OK;
}

static struct fault check_use(struct op *op, const struct key_ref *key, enum sign_scheme scheme,
                              enum hash_algorithm hash, struct span digest)
{
    TRY(check_place(op, key));
    TRY(fence_check(op));
    if (scheme != SIGN_SCHEME_ML_DSA) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "this scheme does not go with a key of algorithm ml-dsa-65");
    }
    if (hash <= HASH_NONE || hash >= HASH_COUNT) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the hash algorithm is not known: use sha256, sha384 or sha512");
    }
    if (digest.len != hash_size(hash)) {
        return op_fail(op, FAULT(DIGEST_LENGTH), "a %s digest has %zu bytes, this one has %zu",
                       hash_algorithm_text(hash), hash_size(hash), digest.len);
    }
    return OK;
}

/* The token key that seals this one, and nothing else. */
static struct fault sealing_key(const struct key_ref *key, struct key_ref *ret_sealing)
{
    struct key_ref sealing = { .tenant = key->tenant, .purpose = KEY_PURPOSE_KEY_SEAL, .token = key->token };
    const struct span parts[] = { span_text(key->tenant.text), span_text(key_purpose_text(key->purpose)),
                                  span_text(key->id.text) };
    TRY(uuid_derive("svc-signer/key-seal", parts, COUNT_OF(parts), &sealing.id));
    *ret_sealing = sealing;
    return OK;
}

/* ---- reading ---- */

/* A file as it was read. */
struct loaded {
    struct buf bytes;
    struct sealed_record record; /* borrows bytes */
};
static void loaded_clear(struct loaded *loaded)
{
    buf_free(&loaded->bytes);
}

static struct fault load(struct op *op, struct sealed_keys *keys, const struct key_ref *key, struct loaded *loaded)
{
    enum sealed_file file = SEALED_FILE_NONE;
    TRY(sealed_folder_look(op, keys, key, &file));
    if (file == SEALED_FILE_GONE) {
        return op_fail(op, FAULT(KEY_NOT_FOUND), "the destruction of this sealed key is begun: destroy it again");
    }
    TRY(sealed_folder_read(op, keys, key, &loaded->bytes));
    const struct sealed_record *record = &loaded->record;
    if (FAULTED(sealed_record_parse(buf_span(&loaded->bytes), &loaded->record))) {
        return op_fail(op, FAULT(SEALED_KEY),
                       "the file of the sealed key is damaged or was altered: restore it from a backup, or remove it");
    }
    if (!tenant_id_equal(record->key.tenant, key->tenant) || record->key.purpose != key->purpose ||
        !uuid_equal(record->key.id, key->id) || record->algorithm != KEY_ALGORITHM_ML_DSA_65 ||
        !ml_dsa_65_is_spki(record->spki)) {
        return op_fail(op, FAULT(SEALED_KEY),
                       "the file of the sealed key holds another key: restore it from a backup, or remove it");
    }
    return OK;
}

/* Room for a seed in the locked arena, and a buffer over it that never grows: no copy is left elsewhere. */
struct seed {
    struct secret *secret;
    struct buf buf; /* over the secret; never freed */
};
static void seed_clear(struct seed *seed)
{
    secret_free(TAKE(seed->secret));
    seed->buf = (struct buf){ 0 };
}

static struct fault seed_room(struct seed *seed)
{
    static const uint8_t zeros[ML_DSA_65_SEED_LEN + 1]; /* a buf wants room for a NUL */
    TRY(secret_new(SPAN_ARRAY(zeros), &seed->secret));
    seed->buf = (struct buf){ .at = (uint8_t *)(uintptr_t)secret_span(seed->secret).at,
                              .cap = sizeof(zeros),
                              .max = ML_DSA_65_SEED_LEN };
    return OK;
}

static struct fault unseal(struct op *op, struct token_session *session, const struct sealed_record *record,
                           const struct key_ref *key, struct seed *seed)
{
    CLEANUP(buf_free) struct buf aad = BUF_INIT(SEALED_AAD_MAX);
    struct key_ref sealing;
    TRY(sealing_key(key, &sealing));
    TRY(sealed_record_aad(record, &aad));
    TRY(seed_room(seed));
    struct fault fault = token_unseal(op, session, &sealing, buf_span(&aad), record->blob, &seed->buf);
    if (fault.code == FAULT_KEY_NOT_FOUND) {
        op->note = (struct fault_note){ 0 };
        return op_fail(
            op, FAULT(SEALED_KEY),
            "the token does not hold the key that this one is sealed with: it is another token, or an object "
            "of it was removed");
    }
    if (fault.code == FAULT_UNSEAL || fault.code == FAULT_TOO_LARGE ||
        (!FAULTED(fault) && seed->buf.len != ML_DSA_65_SEED_LEN)) {
        op->note = (struct fault_note){ 0 };
        return op_fail(op, FAULT(SEALED_KEY),
                       "the sealed key does not open: its file was altered, or belongs to another token");
    }
    return fault;
}

/* ---- one at a time ---- */

static struct fault turn_take(struct op *op, struct sealed_keys *keys)
{
    const struct timespec until = { .tv_sec = (time_t)(op->deadline / NS_PER_S),
                                    .tv_nsec = (long)(op->deadline % NS_PER_S) };
    int waited = 0;
    BUG_IF(pthread_mutex_lock(&keys->lock) != 0);
    while (keys->busy && waited == 0) {
        waited = pthread_cond_timedwait(&keys->changed, &keys->lock, &until);
    }
    bool mine = !keys->busy;
    keys->busy = true;
    BUG_IF(pthread_mutex_unlock(&keys->lock) != 0);
    return mine ? OK
                : op_fail(op, FAULT(SATURATED), "another sealed key is being made or destroyed: repeat the request");
}

static void turn_over(struct sealed_keys *keys)
{
    BUG_IF(pthread_mutex_lock(&keys->lock) != 0);
    keys->busy = false;
    BUG_IF(pthread_cond_signal(&keys->changed) != 0);
    BUG_IF(pthread_mutex_unlock(&keys->lock) != 0);
}

/* ---- making ---- */

static struct fault key_exists(struct op *op)
{
    return op_fail(op, FAULT(KEY_EXISTS), "the signer holds a key of this tenant, purpose and id already");
}

/* Neither here nor in the token. */
static struct fault check_free(struct op *op, struct sealed_keys *keys, struct token_session *session,
                               const struct key_ref *key)
{
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    enum sealed_file file = SEALED_FILE_NONE;
    TRY(sealed_folder_look(op, keys, key, &file));
    if (file != SEALED_FILE_NONE) {
        return key_exists(op);
    }
    struct fault fault = token_public_key(op, session, key, &algorithm, &spki);
    if (fault.code != FAULT_KEY_NOT_FOUND) {
        return FAULTED(fault) ? fault : key_exists(op);
    }
    op->note = (struct fault_note){ 0 };
    return OK;
}

/* One that is there was made by a run that got no further: nothing is sealed with it. */
static struct fault make_sealing_key(struct op *op, struct token_session *session, const struct key_ref *sealing)
{
    CLEANUP(buf_free) struct buf none = BUF_INIT(SPKI_MAX);
    struct fault fault = token_generate(op, session, sealing, KEY_ALGORITHM_AES_256, &none);
    if (fault.code == FAULT_KEY_EXISTS) {
        op->note = (struct fault_note){ 0 };
        return OK;
    }
    return fault;
}

/* A seal that the token cannot open again would be found out with the first signature: better now. */
static struct fault check_opens(struct op *op, struct token_session *session, const struct sealed_record *record,
                                const struct key_ref *key, struct span seed)
{
    CLEANUP(seed_clear) struct seed opened = { 0 };
    TRY(unseal(op, session, record, key, &opened));
    return secret_equal(buf_span(&opened.buf), seed)
               ? OK
               : op_fail(op, FAULT(INTERNAL), "the token opens a seal to other bytes: use another token");
}

static struct fault seal_and_write(struct op *op, struct sealed_keys *keys, struct token_session *session,
                                   const struct key_ref *key, const struct key_ref *sealing, struct buf *spki)
{
    CLEANUP(secret_freep) struct secret *seed = NULL;
    CLEANUP(buf_free) struct buf public = BUF_INIT(SPKI_MAX);
    CLEANUP(buf_free) struct buf aad = BUF_INIT(SEALED_AAD_MAX);
    CLEANUP(buf_free) struct buf blob = BUF_INIT(SEALED_BLOB_MAX);
    CLEANUP(buf_free) struct buf file = BUF_INIT(SEALED_FILE_MAX);
    struct sealed_record record = { .key = *key, .algorithm = KEY_ALGORITHM_ML_DSA_65 };
    TRY(secret_random(ML_DSA_65_SEED_LEN, &seed));
    TRY(ml_dsa_65_public(op, secret_span(seed), &public));
    record.spki = buf_span(&public);
    TRY(sealed_record_aad(&record, &aad));
    TRY(token_seal(op, session, sealing, buf_span(&aad), secret_span(seed), &blob));
    record.blob = buf_span(&blob);
    TRY(check_opens(op, session, &record, key, secret_span(seed)));
    TRY(sealed_record_print(&record, &file));
    FAILPOINT("sealed.before_file");
    size_t before = spki->len;
    TRY(buf_put(spki, record.spki)); /* first, since nothing may fail once the file is there */
    struct fault fault = sealed_folder_write(op, keys, key, buf_span(&file));
    FAILPOINT("sealed.after_file");
    spki->len = FAULTED(fault) ? before : spki->len;
    return fault;
}

static struct fault make(struct op *op, struct sealed_keys *keys, struct token_session *session,
                         const struct key_ref *key, struct buf *spki)
{
    struct key_ref sealing;
    TRY(check_free(op, keys, session, key));
    TRY(sealing_key(key, &sealing));
    TRY(make_sealing_key(op, session, &sealing));
    FAILPOINT("sealed.after_sealing_key");
    struct fault fault = seal_and_write(op, keys, session, key, &sealing, spki);
    if (FAULTED(fault)) {
        struct fault_note note = op->note;
        IGNORE(token_destroy(op, session, &sealing)); /* one that stays is used by the repetition */
        op->note = note;
    }
    return fault;
}

struct fault sealed_generate(struct op *op, struct sealed_keys *keys, struct token_session *session,
                             const struct key_ref *key, enum key_algorithm algorithm, struct buf *spki)
{
    TRY(check_place(op, key));
    if (algorithm != KEY_ALGORITHM_ML_DSA_65) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "a key of algorithm %s is the token's to make",
                       key_algorithm_text(algorithm));
    }
    TRY(fence_check(op));
    TRY(turn_take(op, keys));
    struct fault fault = make(op, keys, session, key, spki);
    turn_over(keys);
    return fault;
}

/* ---- using ---- */

/* The seed is opened and wiped again: so a public key that was changed in its file is not handed out. */
struct fault sealed_public_key(struct op *op, struct sealed_keys *keys, struct token_session *session,
                               const struct key_ref *key, enum key_algorithm *ret_algorithm, struct buf *spki)
{
    CLEANUP(loaded_clear) struct loaded loaded = { .bytes = BUF_INIT(SEALED_FILE_MAX) };
    CLEANUP(seed_clear) struct seed seed = { 0 };
    TRY(check_place(op, key));
    TRY(fence_check(op));
    TRY(load(op, keys, key, &loaded));
    TRY(unseal(op, session, &loaded.record, key, &seed));
    TRY(buf_put(spki, loaded.record.spki));
    *ret_algorithm = loaded.record.algorithm;
    return OK;
}

struct fault sealed_sign(struct op *op, struct sealed_keys *keys, struct token_session *session,
                         const struct key_ref *key, enum sign_scheme scheme, enum hash_algorithm hash,
                         struct span digest, struct buf *signature)
{
    CLEANUP(loaded_clear) struct loaded loaded = { .bytes = BUF_INIT(SEALED_FILE_MAX) };
    CLEANUP(seed_clear) struct seed seed = { 0 };
    TRY(check_use(op, key, scheme, hash, digest));
    TRY(load(op, keys, key, &loaded));
    TRY(unseal(op, session, &loaded.record, key, &seed));
    return ml_dsa_65_sign(op, buf_span(&seed.buf), loaded.record.spki, digest, signature);
}

struct fault sealed_verify(struct op *op, struct sealed_keys *keys, struct token_session *session,
                           const struct key_ref *key, enum sign_scheme scheme, enum hash_algorithm hash,
                           struct span digest, struct span signature)
{
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    TRY(check_use(op, key, scheme, hash, digest));
    TRY(sealed_public_key(op, keys, session, key, &algorithm, &spki));
    return ml_dsa_65_verify(op, buf_span(&spki), digest, signature);
}

/* ---- destroying ---- */

/* First nobody can use it, then no copy can be opened, then nothing is left of it. */
static struct fault destroy(struct op *op, struct sealed_keys *keys, struct token_session *session,
                            const struct key_ref *key)
{
    enum sealed_file file = SEALED_FILE_NONE;
    struct key_ref sealing;
    TRY(sealing_key(key, &sealing));
    TRY(sealed_folder_look(op, keys, key, &file));
    if (file != SEALED_FILE_GONE) {
        CLEANUP(loaded_clear) struct loaded loaded = { .bytes = BUF_INIT(SEALED_FILE_MAX) };
        TRY(load(op, keys, key, &loaded));
        TRY(sealed_folder_bury(op, keys, key));
    }
    FAILPOINT("sealed.after_bury");
    struct fault fault = token_destroy(op, session, &sealing);
    if (fault.code != FAULT_KEY_NOT_FOUND) { /* not found: an interrupted run had come this far */
        TRY(fault);
    }
    op->note = (struct fault_note){ 0 };
    FAILPOINT("sealed.after_sealing_key_gone");
    return sealed_folder_remove(op, keys, key);
}

struct fault sealed_destroy(struct op *op, struct sealed_keys *keys, struct token_session *session,
                            const struct key_ref *key)
{
    TRY(check_place(op, key));
    TRY(turn_take(op, keys));
    struct fault fault = destroy(op, keys, session, key);
    turn_over(keys);
    return fault;
}
