/* From a medium's folder to what the machine keeps: PIN files, refusals, owners and modes. */
#include "tests/unit/machine/provision_file.h"

#include "appliance/base/file.h"
#include "appliance/machine/admin.h"
#include "appliance/machine/console.h"
#include "appliance/machine/provision_medium.h"
#include "appliance/machine/provision_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define WITH_PINS                                                                                \
    LEAST "hsm: { kind: module, module: /run/extensions/x/lib/x.so, label: t, pin_file: hsm }\n" \
          "state: { seal: pin, pin_file: state }\n"

static char folder[64];

static void in_folder(const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_fault(file_write(path, span_text(text), 0644), NONE);
}

static int new_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/svc-provision-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0); /* svc-signer walks through */
    return 0;
}

static struct fault read_folder(struct op *op, struct buf *why, struct provision_found *ret_found)
{
    CLEANUP(fd_closep) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return provision_read_from(op, dir, why, ret_found);
}

static void assert_folder_refused(const char *want)
{
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf why = BUF_INIT(FILE_MAX);
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "untouched" };
    const char *said = NULL;
    assert_fault(read_folder(op, &why, &found), CONFIG);
    assert_fault(buf_cstr(&why, &said), NONE);
    assert_string_equal(said, want);
    assert_string_equal(found.device, "untouched");
    assert_null(found.state_pin);
}

static void a_folder_without_the_file_is_no_provisioning(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf why = BUF_INIT(FILE_MAX);
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "" };
    assert_fault(read_folder(op, &why, &found), NOT_FOUND);
    assert_int_equal(why.len, 0);
}

static void a_link_or_a_pipe_in_place_of_a_file_is_refused(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/provision.yaml", folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_folder_refused("provision.yaml cannot be opened: Too many levels of symbolic links\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_folder_refused("provision.yaml must be a regular file\n");
}

static void pins_that_are_missing_or_no_pins_are_refused(void **state)
{
    (void)state;
    in_folder("provision.yaml", LEAST "state: { seal: pin }\n");
    assert_folder_refused("provision.yaml: state.pin_file: is needed with state.seal pin\n");
    in_folder("provision.yaml", LEAST "hsm: { kind: module, module: /run/extensions/x/lib/x.so, label: t }\n");
    assert_folder_refused("provision.yaml: hsm.pin_file: is needed with hsm.kind module and hsm.login user\n");
    in_folder("provision.yaml", WITH_PINS);
    assert_folder_refused("state: the PIN file cannot be read: it is not there\n");
    static const char *const wrong[] = { "", "12345", "12345\n", "1234567\n89\n", "12345\t6" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        in_folder("state", wrong[i]);
        assert_folder_refused("state: a PIN is one line of 6 to 128 bytes, without control characters\n");
    }
    in_folder("state", "reboot\n");
    assert_folder_refused("state: a command of the console cannot be a PIN\n");
}

static int checked(const char *name)
{
    char path[128], provision[] = "provision", check[] = "check";
    bool known = false;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    char *const words[] = { provision, check, path };
    int code = console_command_line(3, words, &known);
    assert_true(known);
    return code;
}

static void a_check_refuses_what_the_machine_would_refuse(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf why = BUF_INIT(FILE_MAX);
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "" };
    const char *said = NULL;
    char path[128];
    assert_int_equal(checked("nowhere.yaml"), 2);
    in_folder("other.yaml", LEAST "settings:\n  http: { threads: 9 }\n"); /* fewer than the bulkheads take */
    assert_int_equal(checked("other.yaml"), 2);
    in_folder("other.yaml", LEAST "state: { seal: pin, pin_file: absent }\n");
    assert_int_equal(checked("other.yaml"), 2);
    (void)snprintf(path, sizeof(path), "%s/other.yaml", folder);
    assert_fault(provision_read_file(op, path, &why, &found), CONFIG);
    assert_fault(buf_cstr(&why, &said), NONE);
    assert_string_equal(said, "absent: the PIN file cannot be read: it is not there\n");
    in_folder("absent", "1234567\n");
    assert_int_equal(checked("other.yaml"), 0);
}

static void pins_come_without_the_end_of_their_line(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "" };
    in_folder("provision.yaml", WITH_PINS);
    in_folder("state", "1234567\r\n");
    in_folder("hsm", "abc");
    assert_fault(read_folder(op, NULL, &found), NONE);
    assert_true(span_equal_text(secret_span(found.state_pin), "1234567"));
    assert_true(span_equal_text(secret_span(found.hsm_pin), "abc"));
}

static void what_is_kept_holds_no_pin_and_belongs_to_its_users(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip(); /* it hands files to others */
    }
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "" };
    CLEANUP(secret_freep) struct secret *right = NULL, *wrong = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    struct provision kept;
    struct stat about;
    char machine[96], data[96], path[128];
    (void)snprintf(machine, sizeof(machine), "%s/machine", folder);
    (void)snprintf(data, sizeof(data), "%s/data", folder);
    in_folder("provision.yaml", WITH_PINS);
    in_folder("state", "1234567");
    in_folder("hsm", "abcdefg");
    assert_fault(read_folder(op, NULL, &found), NONE);
    assert_fault(provision_save_to(op, &(struct provision_places){ machine, data }, &found), NONE);
    assert_fault(provision_save_to(op, &(struct provision_places){ machine, data }, &found), NONE); /* and again */

    (void)snprintf(path, sizeof(path), "%s/provision.yaml", machine);
    assert_fault(provision_load(op, path, &kept), NONE);
    assert_string_equal(kept.hsm.pin_file, "");
    assert_fault(file_read(path, &text), NONE);
    assert_null(memmem(text.at, text.len, "1234567", 7));
    assert_null(memmem(text.at, text.len, "abcdefg", 7));
    assert_int_equal(stat(machine, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0700);

    (void)snprintf(path, sizeof(path), "%s/hsm/pin", data);
    buf_clear(&text);
    assert_int_equal(stat(path, &about), 0);
    assert_true(about.st_uid != 0 && (about.st_mode & 07777) == 0600);
    assert_fault(file_read(path, &text), NONE);
    assert_true(span_equal_text(buf_span(&text), "abcdefg"));

    (void)snprintf(path, sizeof(path), "%s/" ADMIN_PIN_NAME, machine);
    assert_fault(secret_new(span_text("1234567"), &right), NONE);
    assert_fault(secret_new(span_text("1234568"), &wrong), NONE);
    assert_fault(admin_pin_check(op, path, right), NONE);
    assert_fault(admin_pin_check(op, path, wrong), FORBIDDEN);
}

static void a_damaged_or_missing_pin_hash_lets_nobody_in(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(secret_freep) struct secret *pin = NULL;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/pin", folder);
    assert_fault(secret_new(span_text("1234567"), &pin), NONE);
    assert_fault(admin_pin_check(op, path, pin), NOT_FOUND);
    static const char *const wrong[] = {
        "", "pbkdf2-sha512\n", "pbkdf2-sha512 1 00112233445566778899aabbccddeeff 00\n",
        "pbkdf2-sha512 220000 00112233445566778899aabbccddeeff 00\n",
        "sha1 220000 00112233445566778899aabbccddeeff 00112233445566778899aabbccddeeff\n"
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        in_folder("pin", wrong[i]);
        assert_fault(admin_pin_check(op, path, pin), CONFIG);
    }
}

static void what_is_handed_over_lands_in_a_folder_of_its_own(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf text = BUF_INIT(100);
    CLEANUP(fd_closep) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char path[128];
    assert_fault(medium_write(op, dir, "out", "ca.pem", span_text("first")), NONE);
    assert_fault(medium_write(op, dir, "out", "ca.pem", span_text("second")), NONE);
    (void)snprintf(path, sizeof(path), "%s/out/ca.pem", folder);
    assert_fault(file_read(path, &text), NONE);
    assert_true(span_equal_text(buf_span(&text), "second"));
    /* A link that waits there leads nowhere. */
    (void)snprintf(path, sizeof(path), "%s/elsewhere", folder);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_fault(medium_write(op, dir, "elsewhere", "ca.pem", span_text("x")), IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_folder_without_the_file_is_no_provisioning, new_folder),
        cmocka_unit_test_setup(a_link_or_a_pipe_in_place_of_a_file_is_refused, new_folder),
        cmocka_unit_test_setup(pins_that_are_missing_or_no_pins_are_refused, new_folder),
        cmocka_unit_test_setup(a_check_refuses_what_the_machine_would_refuse, new_folder),
        cmocka_unit_test_setup(pins_come_without_the_end_of_their_line, new_folder),
        cmocka_unit_test_setup(what_is_kept_holds_no_pin_and_belongs_to_its_users, new_folder),
        cmocka_unit_test_setup(a_damaged_or_missing_pin_hash_lets_nobody_in, new_folder),
        cmocka_unit_test_setup(what_is_handed_over_lands_in_a_folder_of_its_own, new_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
