/* Sealing to a TPM, against the one that SVC_TEST_TCTI names (a swtpm: tests/image/with-swtpm starts one); skipped
 * without it. The order matters: the PCR that is extended stays so. */
#include "testlib.h"

#include "appliance/seal/seal.h"
#include "appliance/seal/tpm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tss2/tss2_esys.h>
#include <tss2/tss2_tctildr.h>
#include <unistd.h>

static const char *tcti;
static struct op *op;

static struct op *fresh(void)
{
    op_free(TAKE(op));
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 60000, &op), NONE);
    return op;
}

static bool absent(void)
{
    tcti = getenv("SVC_TEST_TCTI");
    return tcti == NULL;
}

struct sealed {
    struct buf public_blob, private_blob;
};
static void seal(const char *text, const char *auth, struct sealed *sealed)
{
    CLEANUP(tpm_freep) struct tpm *tpm = NULL;
    *sealed = (struct sealed){ { .max = TPM_BLOB_MAX }, { .max = TPM_BLOB_MAX } };
    assert_fault(tpm_open(fresh(), tcti, &tpm), NONE);
    assert_fault(tpm_seal(op, tpm, span_text(text), span_text(auth), &sealed->public_blob, &sealed->private_blob),
                 NONE);
}

static void sealed_free(struct sealed *sealed)
{
    buf_free(&sealed->public_blob);
    buf_free(&sealed->private_blob);
}

static struct fault unseal(struct sealed *sealed, const char *auth, struct buf *ret_bytes)
{
    CLEANUP(tpm_freep) struct tpm *tpm = NULL;
    assert_fault(tpm_open(fresh(), tcti, &tpm), NONE);
    return tpm_unseal(op, tpm, buf_span(&sealed->public_blob), buf_span(&sealed->private_blob), span_text(auth),
                      ret_bytes);
}

static void what_was_sealed_comes_back(void **state)
{
    (void)state;
    if (absent()) {
        skip();
    }
    CLEANUP(sealed_free) struct sealed sealed;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(TPM_SEALED_MAX);
    seal("sixty-four bytes at most", "", &sealed);
    assert_fault(unseal(&sealed, "", &bytes), NONE);
    assert_span_text(buf_span(&bytes), "sixty-four bytes at most");
}

static void a_blob_that_was_changed_is_refused(void **state)
{
    (void)state;
    if (absent()) {
        skip();
    }
    CLEANUP(sealed_free) struct sealed sealed;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(TPM_SEALED_MAX);
    seal("secret", "", &sealed);
    sealed.private_blob.at[sealed.private_blob.len - 1] ^= 1;
    assert_fault(unseal(&sealed, "", &bytes), UNSEAL);
    sealed.public_blob.len = 1;
    assert_fault(unseal(&sealed, "", &bytes), UNSEAL);
    assert_int_equal(bytes.len, 0);
}

static void without_its_pin_it_stays_sealed(void **state)
{
    (void)state;
    if (absent()) {
        skip();
    }
    CLEANUP(sealed_free) struct sealed sealed;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(TPM_SEALED_MAX);
    seal("secret", "the PIN", &sealed);
    assert_fault(unseal(&sealed, "another", &bytes), UNSEAL);
    assert_string_equal(op->note.detail, "the TPM refuses the PIN");
    assert_fault(unseal(&sealed, "", &bytes), UNSEAL);
    assert_fault(unseal(&sealed, "the PIN", &bytes), NONE);
    assert_span_text(buf_span(&bytes), "secret");
}

static void extend_pcr7(void)
{
    TSS2_TCTI_CONTEXT *context = NULL;
    ESYS_CONTEXT *esys = NULL;
    TPML_DIGEST_VALUES values = { .count = 1 };
    values.digests[0].hashAlg = TPM2_ALG_SHA256;
    memset(values.digests[0].digest.sha256, 1, 32);
    assert_int_equal(Tss2_TctiLdr_Initialize(tcti, &context), 0);
    assert_int_equal(Esys_Initialize(&esys, context, NULL), 0);
    assert_int_equal(Esys_PCR_Extend(esys, ESYS_TR_PCR7, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &values), 0);
    Esys_Finalize(&esys);
    Tss2_TctiLdr_Finalize(&context);
}

static void a_state_whose_machine_changed_opens_by_its_recovery_key_and_is_sealed_anew(void **state)
{
    (void)state;
    if (absent()) {
        skip();
    }
    char path[] = "/tmp/seal-XXXXXX", typed[SEAL_RECOVERY_TEXT];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)48 << 20) == 0 && close(fd) == 0);
    CLEANUP(secret_freep) struct secret *recovery = NULL;
    bool measured = true, recovered = true;
    assert_true(seal_tpm_usable(fresh(), tcti, &measured));
    assert_false(measured);
    struct seal_request request = { .device = path, .mode = SEAL_TPM2, .tcti = tcti };
    struct seal_key key = { .tcti = tcti };
    assert_fault(seal_create(op, &request, &recovery), NONE);
    assert_fault(seal_open(op, path, NULL, &key, &recovered), NONE);
    assert_false(recovered);
    extend_pcr7();
    assert_fault(seal_open(fresh(), path, NULL, &key, &recovered), UNSEAL);
    assert_non_null(strstr(op->note.detail, "were changed"));
    seal_recovery_print(recovery, typed);
    key.typed = span_text(typed);
    assert_fault(seal_open(fresh(), path, NULL, &key, &recovered), NONE);
    assert_true(recovered);
    assert_fault(seal_renew(op, path, &key, NULL), NONE);
    key.typed = (struct span){ 0 };
    assert_fault(seal_open(fresh(), path, NULL, &key, &recovered), NONE);
    assert_false(recovered);
    assert_true(seal_tpm_usable(op, tcti, &measured));
    assert_true(measured);
    assert_int_equal(unlink(path), 0);
}

static int end(void **state)
{
    (void)state;
    op_free(TAKE(op));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_comes_back),
        cmocka_unit_test(a_blob_that_was_changed_is_refused),
        cmocka_unit_test(without_its_pin_it_stays_sealed),
        cmocka_unit_test(a_state_whose_machine_changed_opens_by_its_recovery_key_and_is_sealed_anew),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
