/* Sealed keys against a real SoftHSM token: what is refused, what survives kill -9, and that signatures are good. */
#include "tests/unit/token/softhsm.h"

#include "appliance/base/codec.h"
#include "appliance/base/failpoint.h"
#include "appliance/base/file.h"
#include "fips/fence.h"
#include "signer-pkcs11/sealed/internal.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define FOLDER_ENV "SVC_TEST_SEALED"

static struct softhsm hsm;
static struct token_settings settings;
static struct secret *pin;
static struct token *token;
static struct sealed_keys *keys;
static char folder[96], program[256];
static const uint8_t digest_bytes[32] = { 0xa5, 1, 2, 3 };
#define DIGEST SPAN_ARRAY(digest_bytes)

static void open_all(void)
{
    size_t count = 0;
    pin = pin_of(SOFTHSM_PIN);
    settings = softhsm_settings(SOFTHSM_MODULE, pin);
    assert_ok(token_open(&settings, NULL, &token));
    assert_ok(sealed_keys_open(folder, NULL, &count, &keys));
}

static void close_all(void)
{
    sealed_keys_close(TAKE(keys));
    token_close(TAKE(token));
    secret_free(TAKE(pin));
}

static int rig_up(void **state)
{
    (void)state;
    softhsm_new(&hsm);
    (void)snprintf(folder, sizeof(folder), "%s/sealed", hsm.folder);
    open_all();
    return 0;
}

static int rig_down(void **state)
{
    (void)state;
    close_all();
    softhsm_free(&hsm);
    return 0;
}

/* One call with its own operation and session. */
struct turn {
    struct op *op;
    struct token_session *session;
};
static struct turn turn_new(void)
{
    struct turn turn = { .op = op_within(20000) };
    assert_ok(token_session_take(turn.op, token, &turn.session));
    return turn;
}
static void turn_end(struct turn *turn)
{
    token_session_put(TAKE(turn->session));
    op_free(TAKE(turn->op));
}
#define TURN      CLEANUP(turn_end) struct turn turn = turn_new()
#define BUF(name) CLEANUP(buf_free) struct buf name = BUF_INIT(1 << 16)

static void say_nothing(struct turn *turn)
{
    turn->op->note = (struct fault_note){ 0 };
}

static struct key_ref made(struct buf *spki)
{
    TURN;
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    assert_ok(sealed_generate(turn.op, keys, turn.session, &key, KEY_ALGORITHM_ML_DSA_65, spki));
    assert_int_equal(spki->len, ML_DSA_65_SPKI_LEN);
    return key;
}

static struct fault signs(const struct key_ref *key, struct buf *signature)
{
    TURN;
    struct fault fault =
        sealed_sign(turn.op, keys, turn.session, key, SIGN_SCHEME_ML_DSA, HASH_SHA256, DIGEST, signature);
    assert_true(!FAULTED(fault) || turn.op->note.set); /* every refusal says what to do */
    return fault;
}

static struct fault shows(const struct key_ref *key, struct buf *spki)
{
    TURN;
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    return sealed_public_key(turn.op, keys, turn.session, key, &algorithm, spki);
}

static struct fault destroys(const struct key_ref *key)
{
    TURN;
    return sealed_destroy(turn.op, keys, turn.session, key);
}

static struct key_ref sealing_of(const struct key_ref *key)
{
    struct key_ref sealing = { .tenant = key->tenant, .purpose = KEY_PURPOSE_KEY_SEAL };
    const struct span parts[] = { span_text(key->tenant.text), span_text("codesign"), span_text(key->id.text) };
    assert_ok(uuid_derive("svc-signer/key-seal", parts, COUNT_OF(parts), &sealing.id));
    return sealing;
}

static bool token_has(const struct key_ref *key)
{
    TURN;
    BUF(spki);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    struct fault fault = token_public_key(turn.op, turn.session, key, &algorithm, &spki);
    assert_true(!FAULTED(fault) || fault.code == FAULT_KEY_NOT_FOUND);
    return !FAULTED(fault);
}

static const char *path_of(const struct key_ref *key, const char *end)
{
    static char path[2][320];
    static unsigned next;
    char *out = path[next++ % 2];
    (void)snprintf(out, sizeof(path[0]), "%s/%s.codesign.%s%s", folder, key->tenant.text, key->id.text, end);
    return out;
}

static void read_file(const struct key_ref *key, struct buf *out)
{
    assert_ok(file_read(path_of(key, ".key"), out));
}

static void write_file(const struct key_ref *key, struct span bytes)
{
    assert_ok(file_write(path_of(key, ".key"), bytes, 0600));
}

static unsigned files(void)
{
    unsigned count = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        fail_msg("%s is not there", folder);
        return 0;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(dir);
    return count;
}

/* ---- behind the closed fence: runs before anything has opened it ---- */

static void with_the_feature_off_nothing_is_made_shown_signed_or_verified(void **state)
{
    (void)state;
    TURN;
    BUF(out);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(sealed_generate(turn.op, keys, turn.session, &key, KEY_ALGORITHM_ML_DSA_65, &out), PQC_DISABLED);
    assert_non_null(strstr(turn.op->note.detail, "features.pqc"));
    assert_fault(sealed_public_key(turn.op, keys, turn.session, &key, &algorithm, &out), PQC_DISABLED);
    assert_fault(sealed_sign(turn.op, keys, turn.session, &key, SIGN_SCHEME_ML_DSA, HASH_SHA256, DIGEST, &out),
                 PQC_DISABLED);
    assert_fault(sealed_verify(turn.op, keys, turn.session, &key, SIGN_SCHEME_ML_DSA, HASH_SHA256, DIGEST, DIGEST),
                 PQC_DISABLED);
    assert_int_equal(out.len, 0);
    assert_int_equal(files(), 0);
    struct key_ref sealing = sealing_of(&key);
    assert_false(token_has(&sealing));
}

static void open_the_fence(void)
{
    BUF(why);
    assert_ok(fence_start(FENCE_OPEN, &why));
}

/* ---- refusals ---- */

static void every_other_purpose_is_refused(void **state)
{
    (void)state;
    open_the_fence();
    for (int purpose = KEY_PURPOSE_NONE + 1; purpose < KEY_PURPOSE_COUNT; purpose++) {
        TURN;
        BUF(out);
        enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
        if (purpose == KEY_PURPOSE_CODESIGN) {
            continue;
        }
        struct key_ref key = key_new((enum key_purpose)purpose);
        assert_fault(sealed_generate(turn.op, keys, turn.session, &key, KEY_ALGORITHM_ML_DSA_65, &out), SIGNER_REFUSED);
        assert_fault(sealed_sign(turn.op, keys, turn.session, &key, SIGN_SCHEME_ML_DSA, HASH_SHA256, DIGEST, &out),
                     SIGNER_REFUSED);
        assert_fault(sealed_public_key(turn.op, keys, turn.session, &key, &algorithm, &out), SIGNER_REFUSED);
        assert_fault(sealed_destroy(turn.op, keys, turn.session, &key), SIGNER_REFUSED);
        assert_false(sealed_has(keys, &key));
    }
}

static void the_wrong_scheme_algorithm_or_digest_is_refused(void **state)
{
    (void)state;
    BUF(spki);
    struct key_ref key = made(&spki);
    TURN;
    BUF(out);
    struct key_ref other = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(sealed_generate(turn.op, keys, turn.session, &other, KEY_ALGORITHM_EC_P256, &out), BAD_ARGUMENT);
    assert_fault(sealed_sign(turn.op, keys, turn.session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, DIGEST, &out),
                 BAD_ARGUMENT);
    assert_fault(sealed_sign(turn.op, keys, turn.session, &key, SIGN_SCHEME_ML_DSA, HASH_SHA384, DIGEST, &out),
                 DIGEST_LENGTH);
    assert_fault(sealed_sign(turn.op, keys, turn.session, &key, SIGN_SCHEME_ML_DSA, HASH_NONE, DIGEST, &out),
                 BAD_ARGUMENT);
    assert_int_equal(out.len, 0);
}

static void a_key_that_exists_here_or_in_the_token_is_not_made_again(void **state)
{
    (void)state;
    BUF(spki);
    BUF(out);
    struct key_ref key = made(&spki);
    TURN;
    assert_fault(sealed_generate(turn.op, keys, turn.session, &key, KEY_ALGORITHM_ML_DSA_65, &out), KEY_EXISTS);
    struct key_ref classic = key_new(KEY_PURPOSE_CODESIGN);
    BUF(classic_spki);
    say_nothing(&turn);
    assert_ok(token_generate(turn.op, turn.session, &classic, KEY_ALGORITHM_EC_P256, &classic_spki));
    assert_fault(sealed_generate(turn.op, keys, turn.session, &classic, KEY_ALGORITHM_ML_DSA_65, &out), KEY_EXISTS);
    assert_int_equal(out.len, 0);
    BUF(again);
    assert_ok(shows(&key, &again));
    assert_true(span_equal(buf_span(&again), buf_span(&spki)));
}

static void any_changed_bit_of_the_file_is_refused_and_never_taken_for_no_key(void **state)
{
    (void)state;
    BUF(spki);
    BUF(file);
    struct key_ref key = made(&spki);
    read_file(&key, &file);
    for (size_t at = 0; at < file.len; at += at < 80 || at + 160 > file.len ? 1 : 97) {
        BUF(out);
        file.at[at] ^= 0x40;
        write_file(&key, buf_span(&file));
        assert_fault(signs(&key, &out), SEALED_KEY);
        assert_fault(shows(&key, &out), SEALED_KEY);
        assert_fault(destroys(&key), SEALED_KEY);
        assert_int_equal(out.len, 0);
        file.at[at] ^= 0x40;
    }
    write_file(&key, buf_span(&file));
    BUF(out);
    assert_ok(signs(&key, &out));
}

/* The digest at the end keeps accidents out; against intent there is only the sealing. */
static void an_altered_file_with_a_right_digest_is_refused_by_the_sealing(void **state)
{
    (void)state;
    BUF(spki);
    BUF(other_spki);
    BUF(file);
    BUF(altered);
    BUF(out);
    struct sealed_record record;
    struct key_ref key = made(&spki), other = made(&other_spki);
    read_file(&key, &file);
    assert_ok(sealed_record_parse(buf_span(&file), &record));
    record.spki = buf_span(&other_spki); /* somebody else's public key before this seed */
    assert_ok(sealed_record_print(&record, &altered));
    write_file(&key, buf_span(&altered));
    assert_fault(signs(&key, &out), SEALED_KEY);
    assert_fault(shows(&key, &out), SEALED_KEY);

    BUF(theirs);
    BUF(taken);
    struct sealed_record their_record;
    read_file(&other, &theirs);
    assert_ok(sealed_record_parse(buf_span(&theirs), &their_record));
    their_record.key = key; /* the other's key, spki and all, under this name */
    assert_ok(sealed_record_print(&their_record, &taken));
    write_file(&key, buf_span(&taken));
    assert_fault(signs(&key, &out), SEALED_KEY);
    assert_int_equal(out.len, 0);
}

static void a_file_of_another_key_or_tenant_under_this_name_is_refused(void **state)
{
    (void)state;
    BUF(spki);
    BUF(other_spki);
    BUF(out);
    BUF(file);
    struct key_ref key = made(&spki), other = made(&other_spki), foreign = key;
    (void)snprintf(foreign.tenant.text, sizeof(foreign.tenant.text), "rival");
    read_file(&other, &file);
    write_file(&key, buf_span(&file));
    assert_fault(signs(&key, &out), SEALED_KEY);
    assert_fault(destroys(&key), SEALED_KEY);
    assert_true(sealed_has(keys, &key));

    assert_fault(signs(&foreign, &out), KEY_NOT_FOUND);
    write_file(&foreign, buf_span(&file));
    assert_fault(signs(&foreign, &out), SEALED_KEY);
    assert_int_equal(unlink(path_of(&foreign, ".key")), 0);
}

static void a_file_that_others_could_read_or_that_is_a_link_is_refused(void **state)
{
    (void)state;
    BUF(spki);
    BUF(out);
    struct key_ref key = made(&spki);
    assert_int_equal(chmod(path_of(&key, ".key"), 0640), 0);
    assert_fault(signs(&key, &out), SEALED_KEY);
    assert_int_equal(chmod(path_of(&key, ".key"), 0600), 0);
    assert_ok(signs(&key, &out));
    assert_int_equal(rename(path_of(&key, ".key"), path_of(&key, ".aside")), 0);
    assert_int_equal(symlink(path_of(&key, ".aside"), path_of(&key, ".key")), 0); /* to the very same file */
    assert_fault(signs(&key, &out), SEALED_KEY);
    assert_int_equal(rename(path_of(&key, ".aside"), path_of(&key, ".key")), 0);
    assert_ok(signs(&key, &out));
}

static void a_key_whose_token_key_is_missing_or_another_is_refused(void **state)
{
    (void)state;
    TURN;
    BUF(spki);
    BUF(none);
    BUF(out);
    struct key_ref key = made(&spki), sealing = sealing_of(&key);
    assert_ok(token_destroy(turn.op, turn.session, &sealing));
    assert_fault(signs(&key, &out), SEALED_KEY);
    assert_ok(token_generate(turn.op, turn.session, &sealing, KEY_ALGORITHM_AES_256, &none)); /* another token's */
    assert_fault(signs(&key, &out), SEALED_KEY);
    assert_fault(shows(&key, &out), SEALED_KEY);
    assert_int_equal(out.len, 0);
    assert_ok(destroys(&key)); /* whoever lost the token can still be rid of the file */
    assert_false(sealed_has(keys, &key));
}

static void a_full_disk_leaves_no_key_and_says_so(void **state)
{
    (void)state;
    const struct rlimit little = { 1900, RLIM_INFINITY }, none = { RLIM_INFINITY, RLIM_INFINITY };
    BUF(out);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN), sealing = sealing_of(&key);
    unsigned before = files();
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    {
        TURN;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
        struct fault fault = sealed_generate(turn.op, keys, turn.session, &key, KEY_ALGORITHM_ML_DSA_65, &out);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
        assert_fault(fault, SEALED_STORE);
        assert_non_null(strstr(turn.op->note.detail, "disk"));
    }
    assert_int_equal(out.len, 0);
    assert_int_equal(files(), before);
    assert_false(sealed_has(keys, &key));
    assert_false(token_has(&sealing));
}

static void a_folder_that_others_may_enter_is_refused(void **state)
{
    (void)state;
    char path[128];
    struct sealed_keys *opened = NULL;
    size_t count = 0;
    BUF(why);
    (void)snprintf(path, sizeof(path), "%s/open", hsm.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0755), 0);
    assert_fault(sealed_keys_open(path, &why, &count, &opened), SEALED_STORE);
    assert_true(why.len > 0);
    assert_null(opened);
}

/* ---- what works ---- */

static void a_signature_verifies_and_no_other_does(void **state)
{
    (void)state;
    BUF(spki);
    BUF(first);
    BUF(second);
    struct key_ref key = made(&spki);
    assert_true(sealed_has(keys, &key));
    assert_ok(signs(&key, &first));
    assert_ok(signs(&key, &second));
    assert_int_equal(first.len, ML_DSA_65_SIGNATURE_LEN);
    assert_false(span_equal(buf_span(&first), buf_span(&second))); /* hedged */
    TURN;
    const uint8_t other[32] = { 0 };
    assert_ok(
        sealed_verify(turn.op, keys, turn.session, &key, SIGN_SCHEME_ML_DSA, HASH_SHA256, DIGEST, buf_span(&first)));
    assert_ok(ml_dsa_65_verify(turn.op, buf_span(&spki), DIGEST, buf_span(&second)));
    assert_fault(sealed_verify(turn.op, keys, turn.session, &key, SIGN_SCHEME_ML_DSA, HASH_SHA256, SPAN_ARRAY(other),
                               buf_span(&first)),
                 SIGNATURE_INVALID);
    first.at[100] ^= 1;
    assert_fault(ml_dsa_65_verify(turn.op, buf_span(&spki), DIGEST, buf_span(&first)), SIGNATURE_INVALID);
    first.len--;
    assert_fault(ml_dsa_65_verify(turn.op, buf_span(&spki), DIGEST, buf_span(&first)), SIGNATURE_INVALID);
}

/* The blob is all that the file has of the private half. */
static void the_file_tells_nothing_of_the_seed_and_is_the_signers_alone(void **state)
{
    (void)state;
    BUF(spki);
    BUF(file);
    struct sealed_record record;
    struct stat status;
    struct key_ref key = made(&spki);
    assert_int_equal(stat(path_of(&key, ".key"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(stat(folder, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    read_file(&key, &file);
    assert_ok(sealed_record_parse(buf_span(&file), &record));
    TURN;
    BUF(aad);
    BUF(seed);
    struct key_ref sealing = sealing_of(&key);
    assert_ok(sealed_record_aad(&record, &aad));
    assert_ok(token_unseal(turn.op, turn.session, &sealing, buf_span(&aad), record.blob, &seed));
    assert_int_equal(seed.len, 32);
    assert_null(memmem(file.at, file.len, seed.at, seed.len));
    assert_null(memmem(file.at, file.len, seed.at, 8));
    BUF(derived);
    assert_ok(ml_dsa_65_public(turn.op, buf_span(&seed), &derived));
    assert_true(span_equal(buf_span(&derived), buf_span(&spki)));
}

static void a_destroyed_key_is_gone_and_no_copy_of_its_file_opens(void **state)
{
    (void)state;
    BUF(spki);
    BUF(copy);
    BUF(out);
    struct key_ref key = made(&spki), sealing = sealing_of(&key);
    read_file(&key, &copy);
    assert_ok(destroys(&key));
    assert_false(sealed_has(keys, &key));
    assert_false(token_has(&sealing));
    assert_fault(signs(&key, &out), KEY_NOT_FOUND);
    assert_fault(destroys(&key), KEY_NOT_FOUND);
    write_file(&key, buf_span(&copy));
    assert_fault(signs(&key, &out), SEALED_KEY);
    assert_ok(destroys(&key));
}

static void a_key_opens_in_the_next_process_and_beginnings_are_removed(void **state)
{
    (void)state;
    BUF(spki);
    BUF(out);
    struct key_ref key = made(&spki), begun = key_new(KEY_PURPOSE_CODESIGN);
    assert_ok(file_write(path_of(&begun, ".new"), span_text("svcsea"), 0600));
    close_all();
    open_all();
    assert_ok(signs(&key, &out));
    assert_int_not_equal(access(path_of(&begun, ".new"), F_OK), 0);
    assert_false(sealed_has(keys, &begun));
}

#define THREADS 4 /* as many as there are sessions */
#define ROUNDS  20
static pthread_barrier_t start_line;

static void *make_the_same(void *arg)
{
    TURN;
    BUF(spki);
    (void)pthread_barrier_wait(&start_line);
    struct fault fault = sealed_generate(turn.op, keys, turn.session, arg, KEY_ALGORITHM_ML_DSA_65, &spki);
    return fault.code == FAULT_NONE ? arg : NULL;
}

static unsigned made_by_several(struct key_ref *key)
{
    pthread_t threads[THREADS];
    unsigned successes = 0;
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, make_the_same, key), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        successes += result != NULL;
    }
    return successes;
}

static void of_several_who_make_the_same_key_one_does(void **state)
{
    (void)state;
    assert_int_equal(pthread_barrier_init(&start_line, NULL, THREADS), 0);
    for (size_t round = 0; round < ROUNDS; round++) {
        BUF(out);
        struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
        assert_int_equal(made_by_several(&key), 1);
        assert_ok(signs(&key, &out));
    }
    assert_int_equal(pthread_barrier_destroy(&start_line), 0);
}

/* ---- kill -9 ---- */

/* The other process: `what` with the key of that id, in the same folder and token. */
static int other_process(const char *what, const char *id)
{
    BUF(spki);
    struct key_ref key = { .tenant = { "acme" }, .purpose = KEY_PURPOSE_CODESIGN };
    failpoint_open();
    softhsm_present = &hsm; /* SOFTHSM2_CONF is inherited */
    (void)snprintf(folder, sizeof(folder), "%s", getenv(FOLDER_ENV));
    assert_ok(uuid_parse(span_text(id), &key.id));
    open_all();
    open_the_fence();
    TURN;
    struct fault fault = strcmp(what, "make") == 0
                             ? sealed_generate(turn.op, keys, turn.session, &key, KEY_ALGORITHM_ML_DSA_65, &spki)
                             : sealed_destroy(turn.op, keys, turn.session, &key);
    _exit(FAULTED(fault) ? 1 : 0);
}

#ifdef SVC_FAILPOINTS
static bool killed_at(const char *failpoint, const char *what, const struct key_ref *key)
{
    char path[128];
    char *argv[] = { program, (char *)(uintptr_t)what, (char *)(uintptr_t)key->id.text, NULL };
    pid_t pid = 0;
    int status = 0;
    (void)snprintf(path, sizeof(path), "%s/failpoint", hsm.folder);
    char name[1 + FAILPOINT_NAME_MAX] = "";
    (void)snprintf(name, sizeof(name), "x%s", failpoint);
    assert_ok(file_write(path, SPAN_ARRAY(name), 0600));
    assert_int_equal(setenv("SVC_FAILPOINT_FILE", path, 1), 0);
    assert_int_equal(setenv(FOLDER_ENV, folder, 1), 0);
    close_all(); /* one process at a time, as the journal's lock has it */
    assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    open_all();
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}
#endif

static void kill_9_while_a_key_is_made_leaves_the_whole_key_or_none(void **state)
{
    (void)state;
#ifdef SVC_FAILPOINTS
    static const struct {
        const char *at;
        bool there;
    } steps[] = { { "sealed.after_sealing_key", false },
                  { "sealed.before_file", false },
                  { "sealed.before_name", false },
                  { "sealed.after_name", true },
                  { "sealed.after_file", true } };
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        BUF(out);
        BUF(spki);
        struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
        assert_true(killed_at(steps[i].at, "make", &key));
        assert_int_equal(sealed_has(keys, &key), steps[i].there);
        if (steps[i].there) {
            assert_ok(signs(&key, &out));
            assert_ok(shows(&key, &spki));
            continue;
        }
        assert_fault(signs(&key, &out), KEY_NOT_FOUND);
        TURN;
        assert_ok(sealed_generate(turn.op, keys, turn.session, &key, KEY_ALGORITHM_ML_DSA_65, &spki));
        assert_ok(signs(&key, &out));
    }
#else
    skip();
#endif
}

static void kill_9_while_a_key_is_destroyed_leaves_none_and_repeating_finishes(void **state)
{
    (void)state;
#ifdef SVC_FAILPOINTS
    static const char *const steps[] = { "sealed.after_bury", "sealed.after_sealing_key_gone" };
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        BUF(spki);
        BUF(out);
        struct key_ref key = made(&spki), sealing = sealing_of(&key);
        assert_true(killed_at(steps[i], "destroy", &key));
        assert_fault(signs(&key, &out), KEY_NOT_FOUND);
        assert_true(sealed_has(keys, &key)); /* so that destroying again comes here */
        assert_ok(destroys(&key));
        assert_false(sealed_has(keys, &key));
        assert_false(token_has(&sealing));
    }
#else
    skip();
#endif
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        return other_process(argv[1], argv[2]);
    }
    ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
    assert_true(len > 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_the_feature_off_nothing_is_made_shown_signed_or_verified), /* first: it stays off */
        cmocka_unit_test(every_other_purpose_is_refused),                                /* opens the fence */
        cmocka_unit_test(the_wrong_scheme_algorithm_or_digest_is_refused),
        cmocka_unit_test(a_key_that_exists_here_or_in_the_token_is_not_made_again),
        cmocka_unit_test(any_changed_bit_of_the_file_is_refused_and_never_taken_for_no_key),
        cmocka_unit_test(an_altered_file_with_a_right_digest_is_refused_by_the_sealing),
        cmocka_unit_test(a_file_of_another_key_or_tenant_under_this_name_is_refused),
        cmocka_unit_test(a_file_that_others_could_read_or_that_is_a_link_is_refused),
        cmocka_unit_test(a_key_whose_token_key_is_missing_or_another_is_refused),
        cmocka_unit_test(a_full_disk_leaves_no_key_and_says_so),
        cmocka_unit_test(a_folder_that_others_may_enter_is_refused),
        cmocka_unit_test(a_signature_verifies_and_no_other_does),
        cmocka_unit_test(the_file_tells_nothing_of_the_seed_and_is_the_signers_alone),
        cmocka_unit_test(a_destroyed_key_is_gone_and_no_copy_of_its_file_opens),
        cmocka_unit_test(a_key_opens_in_the_next_process_and_beginnings_are_removed),
        cmocka_unit_test(of_several_who_make_the_same_key_one_does),
        cmocka_unit_test(kill_9_while_a_key_is_made_leaves_the_whole_key_or_none),
        cmocka_unit_test(kill_9_while_a_key_is_destroyed_leaves_none_and_repeating_finishes),
    };
    return cmocka_run_group_tests(tests, rig_up, rig_down);
}
