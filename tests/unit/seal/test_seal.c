/* The state's header on a plain file: nothing is opened by device-mapper (name NULL), every key is proved. */
#include "testlib.h"

#include "appliance/seal/luks.h"
#include "appliance/seal/seal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATE_BYTES ((off_t)48 << 20)

static char path[64];
static struct op *op;
static int op_renew(void **state)
{
    (void)state;
    op_free(op);
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 60000, &op), NONE);
    (void)snprintf(path, sizeof(path), "/tmp/seal-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && ftruncate(fd, STATE_BYTES) == 0 && close(fd) == 0);
    return 0;
}

static int op_end(void **state)
{
    (void)state;
    (void)unlink(path);
    op_free(TAKE(op));
    return 0;
}

static void put(off_t at, const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes, len, at), len);
    assert_int_equal(close(fd), 0);
}

static struct secret *text_secret(const char *text)
{
    struct secret *secret = NULL;
    assert_fault(secret_new(span_text(text), &secret), NONE);
    return secret;
}

static struct fault open_with(const char *typed, bool *ret_recovered)
{
    op->note = (struct fault_note){ 0 };
    struct seal_key key = { .tcti = "none", .typed = span_text(typed) };
    return seal_open(op, path, NULL, &key, ret_recovered);
}

static void something_else_on_the_partition_is_never_taken_for_empty(void **state)
{
    (void)state;
    struct seal_look look;
    put(STATE_BYTES - 5, "x", 1);
    assert_fault(seal_look(op, path, &look), NONE);
    assert_int_equal(look.content, SEAL_FOREIGN);
    put(STATE_BYTES - 5, "\0", 1);
    assert_fault(seal_look(op, path, &look), NONE);
    assert_int_equal(look.content, SEAL_EMPTY);
    put(4096, "LUKS", 4);
    assert_fault(seal_look(op, path, &look), NONE);
    assert_int_equal(look.content, SEAL_FOREIGN);
}

static void a_pin_that_is_too_short_leaves_the_partition_as_it_is(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *pin = text_secret("12345");
    CLEANUP(secret_freep) struct secret *recovery = NULL;
    struct seal_look look;
    assert_fault(seal_create(op, &(struct seal_request){ .device = path, .mode = SEAL_PIN, .pin = pin }, &recovery),
                 BAD_ARGUMENT);
    assert_fault(seal_create(op, &(struct seal_request){ .device = path, .mode = SEAL_PIN }, &recovery), BAD_ARGUMENT);
    assert_null(recovery);
    assert_fault(seal_look(op, path, &look), NONE);
    assert_int_equal(look.content, SEAL_EMPTY);
}

static void a_tpm_that_is_not_there_leaves_the_partition_as_it_is(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *recovery = NULL;
    struct seal_look look;
    bool measured = true;
    struct seal_request request = { .device = path, .mode = SEAL_TPM2, .tcti = "device:/nonexistent" };
    assert_false(seal_tpm_usable(op, request.tcti, &measured));
    assert_false(measured);
    assert_fault(seal_create(op, &request, &recovery), UNSUPPORTED);
    assert_fault(seal_look(op, path, &look), NONE);
    assert_int_equal(look.content, SEAL_EMPTY);
}

static void a_state_counts_only_once_it_was_finished(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *recovery = NULL;
    struct seal_look look;
    assert_fault(seal_create(op, &(struct seal_request){ .device = path, .mode = SEAL_NONE }, &recovery), NONE);
    assert_fault(seal_look(op, path, &look), NONE);
    assert_int_equal(look.content, SEAL_UNFINISHED);
    assert_fault(seal_finish(op, path), NONE);
    assert_fault(seal_look(op, path, &look), NONE);
    assert_int_equal(look.content, SEAL_COMPLETE);
    assert_int_equal(look.mode, SEAL_NONE);
    bool recovered = true;
    assert_fault(open_with("", &recovered), NONE);
    assert_false(recovered);
}

static void a_wrong_pin_is_refused_and_the_right_one_opens(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *pin = text_secret("correct horse");
    CLEANUP(secret_freep) struct secret *recovery = NULL;
    struct seal_request request = { .device = path, .mode = SEAL_PIN, .pin = pin };
    assert_fault(seal_create(op, &request, &recovery), NONE);
    assert_fault(seal_finish(op, path), NONE);
    bool recovered = true;
    assert_fault(open_with("", &recovered), UNSEAL);
    assert_fault(open_with("correct hors", &recovered), UNSEAL);
    assert_fault(open_with("correct horse\n", &recovered), UNSEAL);
    assert_true(recovered);
    assert_fault(open_with("correct horse", &recovered), NONE);
    assert_false(recovered);
}

static void the_recovery_key_opens_and_sets_another_pin(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *pin = text_secret("first PIN");
    CLEANUP(secret_freep) struct secret *next = text_secret("second PIN");
    CLEANUP(secret_freep) struct secret *recovery = NULL;
    struct seal_request request = { .device = path, .mode = SEAL_PIN, .pin = pin };
    assert_fault(seal_create(op, &request, &recovery), NONE);
    char typed[SEAL_RECOVERY_TEXT];
    seal_recovery_print(recovery, typed);
    bool recovered = false;
    assert_fault(open_with(typed, &recovered), NONE);
    assert_true(recovered);
    struct seal_key wrong = { .typed = span_text("AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA") };
    assert_fault(seal_renew(op, path, &wrong, next), UNSEAL);
    assert_fault(open_with("first PIN", &recovered), NONE);
    op->note = (struct fault_note){ 0 };
    assert_fault(seal_renew(op, path, &(struct seal_key){ .typed = span_text(typed) }, next), NONE);
    assert_fault(open_with("first PIN", &recovered), UNSEAL);
    assert_fault(open_with("second PIN", &recovered), NONE);
    assert_fault(open_with(typed, &recovered), NONE);
}

static void a_damaged_token_is_refused_not_guessed(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *recovery = NULL;
    static const char *const tokens[] = {
        "{\"type\":\"svc-seal\",\"keyslots\":[\"0\"],\"mode\":\"clear\"}",
        "{\"type\":\"svc-seal\",\"keyslots\":[\"0\"],\"mode\":\"none\"}",
        "{\"type\":\"svc-seal\",\"keyslots\":[\"0\"],\"mode\":\"none\",\"key\":\"AAAA\"}",
        "{\"type\":\"svc-seal\",\"keyslots\":[\"0\"],\"mode\":\"none\",\"more\":\"1\"}",
        "{\"type\":\"other\",\"keyslots\":[\"0\"],\"mode\":\"none\"}",
    };
    assert_fault(seal_create(op, &(struct seal_request){ .device = path, .mode = SEAL_NONE }, &recovery), NONE);
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        CLEANUP(luks_freep) struct luks *luks = NULL;
        bool recovered = false;
        assert_fault(luks_load(op, path, &luks), NONE);
        assert_fault(luks_token_put(op, luks, LUKS_TOKEN_SEAL, tokens[i]), NONE);
        assert_true(FAULTED(open_with("", &recovered)));
    }
}

static void a_recovery_key_is_read_as_people_write_it(void **state)
{
    (void)state;
    CLEANUP(secret_freep) struct secret *made = NULL;
    assert_fault(seal_recovery_new(&made), NONE);
    char text[SEAL_RECOVERY_TEXT];
    seal_recovery_print(made, text);
    assert_int_equal(strlen(text), SEAL_RECOVERY_TEXT - 1);
    char typed[2 * SEAL_RECOVERY_TEXT] = "";
    size_t at = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        char byte = text[i] == 'O' ? '0' : text[i] == 'I' ? '1' : text[i] == 'B' ? '8' : text[i];
        typed[at++] = byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte == '-' ? ' ' : byte;
    }
    CLEANUP(secret_freep) struct secret *read = NULL;
    assert_fault(seal_recovery_parse(span_text(typed), &read), NONE);
    assert_true(secret_equal(secret_span(read), secret_span(made)));
    CLEANUP(secret_freep) struct secret *none = NULL;
    assert_fault(seal_recovery_parse(span_text(""), &none), BAD_ARGUMENT);
    assert_fault(seal_recovery_parse(span_of(text, strlen(text) - 1), &none), BAD_ARGUMENT);
    typed[at] = 'A';
    typed[at + 1] = '\0';
    assert_fault(seal_recovery_parse(span_text(typed), &none), BAD_ARGUMENT);
    assert_fault(seal_recovery_parse(span_text("AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAA9"), &none), BAD_ARGUMENT);
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(something_else_on_the_partition_is_never_taken_for_empty, op_renew, op_end),
        cmocka_unit_test_setup_teardown(a_pin_that_is_too_short_leaves_the_partition_as_it_is, op_renew, op_end),
        cmocka_unit_test_setup_teardown(a_tpm_that_is_not_there_leaves_the_partition_as_it_is, op_renew, op_end),
        cmocka_unit_test_setup_teardown(a_state_counts_only_once_it_was_finished, op_renew, op_end),
        cmocka_unit_test_setup_teardown(a_wrong_pin_is_refused_and_the_right_one_opens, op_renew, op_end),
        cmocka_unit_test_setup_teardown(the_recovery_key_opens_and_sets_another_pin, op_renew, op_end),
        cmocka_unit_test_setup_teardown(a_damaged_token_is_refused_not_guessed, op_renew, op_end),
        cmocka_unit_test(a_recovery_key_is_read_as_people_write_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
