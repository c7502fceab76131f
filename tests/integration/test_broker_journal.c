/* The journal of a real svc-signer: a disk that is full, a folder that is not right, an older one, and kill -9 over and
 * over, each time with --check-journal for a second opinion. */
#include "signer.h"

#include "signer-pkcs11/broker/journal_internal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>

static struct fault sign_in(struct rig *rig, const struct sign_request *request, struct buf *signature, char *why)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    buf_clear(signature);
    struct fault fault = signer_sign(op, rig->client, request, signature);
    if (why != NULL) {
        (void)snprintf(why, 256, "%.255s", op->note.detail);
    }
    return fault;
}

static struct key_ref key_made(struct rig *rig)
{
    CLEANUP(op_freep) struct op *op = op_within(60000);
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(signer_generate(op, rig->client, &key, KEY_ALGORITHM_EC_P256, &spki), NONE);
    return key;
}

static struct sign_request journalled(struct key_ref key)
{
    struct sign_request request = request_for(key, KEY_ALGORITHM_EC_P256);
    assert_fault(uuid_new(&request.op_id), NONE);
    return request;
}

static int check_journal(struct rig *rig, const char *form)
{
    char *argv[] = { rig->program, (char *)"--check-journal", (char *)rig->config->signer_journal, (char *)form, NULL };
    (void)unlink(rig->log_path);
    return rig_run(rig, argv, NULL);
}

/* ---- a folder that is not right ---- */

static void a_journal_that_others_may_write_or_that_has_a_gap_refuses_to_start(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    rig_new(&rig, "");
    rig_start(&rig);
    struct sign_request request = journalled(key_made(&rig));
    assert_fault(sign_in(&rig, &request, &signature, NULL), NONE);
    assert_int_equal(check_journal(&rig, NULL), 1); /* it is in use */
    assert_true(rig_log_has(&rig, "another signer"));
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
    assert_int_equal(chmod(rig_path(&rig, "data/signer/00000001.journal"), 0620), 0);
    assert_int_equal(rig_signer_ends(&rig), 1);
    assert_true(rig_log_has(&rig, "00000001.journal: the file must be the signer's user's, with mode 0600"));
    assert_int_equal(chmod(rig_path(&rig, "data/signer/00000001.journal"), 0600), 0);
    rig_write(&rig, "data/signer/00000003.journal", "svc-", 0600);
    assert_int_equal(rig_signer_ends(&rig), 1);
    assert_true(rig_log_has(&rig, "00000002.journal: the file is missing"));
    assert_int_equal(check_journal(&rig, "--json"), 1);
    assert_true(rig_log_has(&rig, "\"file\":\"00000002.journal\",\"offset\":0"));
    assert_int_equal(unlink(rig_path(&rig, "data/signer/00000003.journal")), 0);
    assert_int_equal(check_journal(&rig, NULL), 0);
    assert_true(rig_log_has(&rig, "1 files, ") && rig_log_has(&rig, " 1 signatures, ") && rig_log_has(&rig, "\nok\n"));
    rig_start(&rig);
    assert_fault(sign_in(&rig, &request, &signature, NULL), NONE);
}

static void a_retention_of_less_than_a_day_is_refused(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    rig_new(&rig, "");
    char text[512];
    (void)snprintf(text, sizeof(text), "data_dir: \"%s/data\"\nsigner: {journal_retention: \"23h\"}\n", rig.folder);
    rig_write(&rig, "svc.yaml", text, 0644);
    assert_int_equal(rig_signer_ends(&rig), 2);
    assert_true(rig_log_has(&rig, "journal_retention"));
}

static void a_journal_of_the_version_before_is_taken_over(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf first = BUF_INIT(SIGNATURE_MAX), again = BUF_INIT(SIGNATURE_MAX);
    rig_new(&rig, "");
    for (unsigned number = 1; number <= 3; number++) {
        CLEANUP(buf_free) struct buf file = BUF_INIT(65536);
        char path[128];
        (void)snprintf(path, sizeof(path), "tests/unit/broker/journal-v1/%08u.journal", number);
        assert_fault(file_read(path, &file), NONE);
        (void)snprintf(path, sizeof(path), "data/signer/%08u.journal", number);
        assert_fault(file_write(rig_path(&rig, path), buf_span(&file), 0600), NONE);
    }
    rig_start(&rig);
    struct sign_request request = journalled(key_made(&rig));
    assert_fault(sign_in(&rig, &request, &first, NULL), NONE);
    assert_int_equal(rig_end(&rig, SIGKILL), 128 + SIGKILL);
    assert_int_equal(check_journal(&rig, NULL), 0);
    assert_true(rig_log_has(&rig, "4 files, ") && rig_log_has(&rig, " 16 signatures, "));
    rig_start(&rig);
    assert_fault(sign_in(&rig, &request, &again, NULL), NONE);
    assert_true(span_equal(buf_span(&first), buf_span(&again)));
}

/* ---- forgetting ---- */

/* Two ended files and a newest one, of a journal that was open for 31 days since. */
static void make_old(struct rig *rig)
{
    CLEANUP(journal_closep) struct journal *journal = NULL;
    uint64_t cut = 0;
    assert_fault(journal_open_sized(rig->config->signer_journal, JOURNAL_RETENTION_MIN, 512, NULL, &cut, &journal),
                 NONE);
    while (journal->current < 3) {
        CLEANUP(op_freep) struct op *op = op_within(20000);
        CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
        struct journal_entry entry = { 0 };
        struct sha256 request = { { 1 } };
        struct uuid id;
        bool replayed = false;
        assert_fault(uuid_new(&id), NONE);
        assert_fault(journal_enter(op, journal, &id, &request, &entry, &signature, &replayed), NONE);
        assert_fault(journal_commit(op, &entry, span_of(rig_digest, 64)), NONE);
    }
    journal_keeper_stop(journal);
    journal->age_at_open_ms += (uint64_t)31 * 24 * 3600 * 1000;
}

static void what_is_older_than_the_retention_goes_from_inside_the_sandbox(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf first = BUF_INIT(SIGNATURE_MAX), again = BUF_INIT(SIGNATURE_MAX);
    rig_new(&rig, "");
    make_old(&rig);
    rig_start(&rig);
    while (access(rig_path(&rig, "data/signer/00000002.journal"), F_OK) == 0 ||
           !rig_log_has(&rig, "journal_compacted")) {
        (void)sched_yield();
    }
    assert_int_equal(access(rig_path(&rig, "data/signer/00000001.journal"), F_OK), -1);
    struct sign_request request = journalled(key_made(&rig));
    assert_fault(sign_in(&rig, &request, &first, NULL), NONE);
    assert_int_equal(rig_end(&rig, SIGKILL), 128 + SIGKILL);
    assert_int_equal(check_journal(&rig, NULL), 0);
    rig_start(&rig);
    assert_fault(sign_in(&rig, &request, &again, NULL), NONE);
    assert_true(span_equal(buf_span(&first), buf_span(&again)));
}

/* ---- a full disk ---- */

/* A small file system of its own under the journal's folder; skips the test where mounting is not allowed. */
static void small_disk(struct rig *rig)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", rig_path(rig, "data/signer"), "tmpfs", 0, "size=3m,mode=0700") != 0) {
        skip();
    }
    rig_write(rig, "data/signer/pin", RIG_PIN "\n", 0600);
}

static void small_disk_end(const struct rig *rig)
{
    assert_int_equal(umount2(rig_path(rig, "data/signer"), MNT_DETACH), 0);
}

static void fill(const struct rig *rig)
{
    static const char page[4096] = { 1 };
    CLEANUP(fd_closep) int fd = open(rig_path(rig, "data/signer/ballast"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, page, sizeof(page)) > 0) {
    }
    assert_int_equal(errno, ENOSPC);
}

static void assert_reads_go_on(struct rig *rig, const struct sign_request *old, const struct buf *old_signature)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    assert_fault(sign_in(rig, old, &signature, NULL), NONE); /* a replay */
    assert_true(span_equal(buf_span(&signature), buf_span(old_signature)));
    struct sign_request unjournalled = *old;
    unjournalled.op_id = (struct uuid){ "" };
    assert_fault(sign_in(rig, &unjournalled, &signature, NULL), NONE);
    assert_fault(signer_verify(op, rig->client, &unjournalled, buf_span(&signature)), NONE);
}

static void assert_health(struct rig *rig, bool usable)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    struct signer_health health = { 0 };
    assert_fault(signer_health(op, rig->client, &health), NONE);
    assert_int_equal(health.journal_usable, usable);
    assert_int_equal(health.state, usable ? SIGNER_OK : SIGNER_DEGRADED);
    assert_int_equal(strstr(health.cause, "make room on its disk") != NULL, !usable);
}

static bool is_usable(struct rig *rig)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    struct signer_health health = { 0 };
    assert_fault(signer_health(op, rig->client, &health), NONE);
    return health.journal_usable;
}

static void a_full_disk_fails_closed_says_so_and_recovers_by_itself(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf old_signature = BUF_INIT(SIGNATURE_MAX), signature = BUF_INIT(SIGNATURE_MAX);
    char why[256] = "";
    rig_new(&rig, "");
    small_disk(&rig);
    rig_start(&rig);
    struct sign_request old = journalled(key_made(&rig)), next = old;
    assert_fault(sign_in(&rig, &old, &old_signature, NULL), NONE);
    fill(&rig);
    struct fault fault = OK;
    for (unsigned n = 0; !FAULTED(fault); n++) { /* what was filled ahead lasts for some thousand */
        assert_true(n < 20000);
        next = journalled(old.key);
        fault = sign_in(&rig, &next, &signature, why);
    }
    assert_fault(fault, SIGNER_JOURNAL);
    for (int i = 0; i < 50; i++) {
        assert_health(&rig, false);
        assert_fault(sign_in(&rig, &next, &signature, why), SIGNER_JOURNAL);
        assert_int_equal(signature.len, 0);
        assert_reads_go_on(&rig, &old, &old_signature);
    }
    /* killed and started on the full disk: the same */
    assert_int_equal(rig_end(&rig, SIGKILL), 128 + SIGKILL);
    rig_start(&rig);
    assert_reads_go_on(&rig, &old, &old_signature);
    assert_fault(sign_in(&rig, &next, &signature, NULL), SIGNER_JOURNAL);
    assert_int_equal(unlink(rig_path(&rig, "data/signer/ballast")), 0);
    while (!is_usable(&rig)) {
        (void)sched_yield();
    }
    assert_health(&rig, true);
    assert_fault(sign_in(&rig, &next, &signature, NULL), NONE);
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
    assert_int_equal(check_journal(&rig, NULL), 0);
    small_disk_end(&rig);
}

/* ---- kill -9 over and over ---- */

#define SIGNERS 4
#define ROUNDS  5
#define EACH    300

struct signer {
    struct rig *rig;
    struct key_ref key;
    pthread_t thread;
    struct uuid ids[EACH];
    uint8_t signatures[EACH][128];
    size_t lens[EACH];
    atomic_uint acknowledged;
};

static void *sign_until_dead(void *arg)
{
    struct signer *signer = arg;
    for (unsigned i = atomic_load(&signer->acknowledged); i < EACH; i++) {
        CLEANUP(buf_free) struct buf signature = BUF_INIT(128);
        struct sign_request request = request_for(signer->key, KEY_ALGORITHM_EC_P256);
        if (FAULTED(uuid_new(&signer->ids[i]))) {
            return NULL;
        }
        request.op_id = signer->ids[i];
        if (FAULTED(sign_in(signer->rig, &request, &signature, NULL))) {
            return NULL;
        }
        memcpy(signer->signatures[i], signature.at, signature.len);
        signer->lens[i] = signature.len;
        atomic_fetch_add(&signer->acknowledged, 1);
    }
    return NULL;
}

static void assert_all_known(struct rig *rig, struct signer *signers)
{
    for (size_t i = 0; i < SIGNERS; i++) {
        for (unsigned k = 0; k < atomic_load(&signers[i].acknowledged); k++) {
            CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
            struct sign_request request = request_for(signers[i].key, KEY_ALGORITHM_EC_P256);
            request.op_id = signers[i].ids[k];
            assert_fault(sign_in(rig, &request, &signature, NULL), NONE);
            assert_true(span_equal(buf_span(&signature), span_of(signers[i].signatures[k], signers[i].lens[k])));
        }
    }
}

static void a_signer_that_is_killed_over_and_over_keeps_every_promise(void **state)
{
    (void)state;
    static struct signer signers[SIGNERS];
    CLEANUP(rig_free) struct rig rig;
    rig_new(&rig, "");
    rig_start(&rig);
    struct key_ref key = key_made(&rig);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < SIGNERS; i++) {
            signers[i].rig = &rig;
            signers[i].key = key;
            assert_int_equal(pthread_create(&signers[i].thread, NULL, sign_until_dead, &signers[i]), 0);
        }
        while (atomic_load(&signers[0].acknowledged) < round * (EACH / ROUNDS / 2)) {
            (void)poll(NULL, 0, 1);
        }
        assert_int_equal(rig_end(&rig, SIGKILL), 128 + SIGKILL);
        for (size_t i = 0; i < SIGNERS; i++) {
            assert_int_equal(pthread_join(signers[i].thread, NULL), 0);
        }
        assert_int_equal(check_journal(&rig, "--json"), 0);
        assert_true(rig_log_has(&rig, "{\"ok\":true,"));
        rig_start(&rig);
        assert_all_known(&rig, signers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journal_that_others_may_write_or_that_has_a_gap_refuses_to_start),
        cmocka_unit_test(a_retention_of_less_than_a_day_is_refused),
        cmocka_unit_test(a_journal_of_the_version_before_is_taken_over),
        cmocka_unit_test(what_is_older_than_the_retention_goes_from_inside_the_sandbox),
        cmocka_unit_test(a_signer_that_is_killed_over_and_over_keeps_every_promise),
        /* the last one: in its own mount namespace, this program has another name */
        cmocka_unit_test(a_full_disk_fails_closed_says_so_and_recovers_by_itself),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
