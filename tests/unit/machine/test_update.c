/* Updates on plain files in place of partitions, and a folder in place of the EFI partition. */
#include "appliance/machine/esp.h"
#include "appliance/machine/update_machine.h"
#include "appliance/machine/update_versions.h"
#include "unit/release/release_testlib.h"

#include <dirent.h>
#include <sys/wait.h>

#define SLOT_SIZE ((off_t)1 << 20)

static EVP_PKEY *key;
static struct op *op;
static char slot_paths[SLOT_COUNT][160], esp[160], versions[160], keys[160], update[160];
static struct update_machine machine;

static void touch(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", esp, name);
    made_write(path, span_text(text));
}

static bool has(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", esp, name);
    return access(path, F_OK) == 0;
}

static unsigned entry_count(void)
{
    DIR *folder = opendir(esp);
    const struct dirent *entry = NULL;
    unsigned count = 0;
    while ((entry = readdir(folder)) != NULL) {
        count += entry->d_name[0] != '.' ? 1 : 0;
    }
    (void)closedir(folder);
    return count;
}

static bool slot_is(unsigned slot, const char *version)
{
    struct release_footer footer;
    char text[VERSION_TEXT_MAX];
    if (FAULTED(slot_read_footer(op, slot_paths[slot], &footer))) {
        return version == NULL;
    }
    version_print(footer.version, text);
    return version != NULL && strcmp(text, version) == 0;
}

static void clear_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry = NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
        }
    }
    (void)closedir(folder);
}

static void place(char *out, const char *name)
{
    (void)snprintf(out, 160, "%s", made_path(name));
}

/* A machine as it leaves the factory: 0.1.0 in slot a. */
static int begin(void **state)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(4096);
    struct release_footer footer = { .version = { 0, 1, 0 }, .tree = { .blocks = 3 } };
    (void)state;
    memset(footer.tree.roothash, '0', RELEASE_HEX_MAX);
    memset(footer.tree.salt, '0', RELEASE_HEX_MAX);
    op->note = (struct fault_note){ 0 };
    place(slot_paths[SLOT_A], "slot-a");
    place(slot_paths[SLOT_B], "slot-b");
    place(esp, "esp");
    place(versions, "versions.json");
    place(keys, "keys");
    place(update, "update");
    (void)unlink(versions);
    (void)mkdir(esp, 0700);
    (void)mkdir(keys, 0700);
    clear_folder(esp);
    touch("svc-0.1.0.efi", "first");
    touch("other.efi", "somebody else's");
    made_pem(key, &pem);
    made_write(made_path("keys/k.pem"), buf_span(&pem));
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        (void)unlink(slot_paths[i]);
        made_write(slot_paths[i], span_text(""));
        assert_int_equal(truncate(slot_paths[i], SLOT_SIZE), 0);
    }
    struct slot_writer writer;
    assert_fault(slot_open(op, slot_paths[SLOT_A], &writer), NONE);
    assert_fault(slot_write_footer(op, &writer, &footer), NONE);
    slot_close(&writer);
    machine = (struct update_machine){ .running = { 0, 1, 0 },
                                       .profile = "small",
                                       .slots = { slot_paths[SLOT_A], slot_paths[SLOT_B] },
                                       .slot = SLOT_A,
                                       .entries = esp,
                                       .versions = versions,
                                       .keys = keys };
    return 0;
}

static void make(const char *version)
{
    made_file(op, &(struct made_release){ .version = version, .fill = (uint8_t)version[2] }, key, update);
}

static struct fault apply(void)
{
    struct version version;
    op->note = (struct fault_note){ 0 };
    return update_machine_apply(op, &machine, update, NULL, NULL, &version);
}

/* The firmware takes `name`: boot counting spends a try of it. */
static void boot(const char *from, const char *to, struct version version, unsigned slot)
{
    char old[256], new[256];
    (void)snprintf(old, sizeof(old), "%s/%s", esp, from);
    (void)snprintf(new, sizeof(new), "%s/%s", esp, to);
    assert_int_equal(rename(old, new), 0);
    machine.running = version;
    machine.slot = slot;
}

static void nothing_changed(void)
{
    assert_true(has("svc-0.1.0.efi") && has("other.efi"));
    assert_int_equal(entry_count(), 2);
    assert_true(slot_is(SLOT_A, "0.1.0") && slot_is(SLOT_B, NULL));
}

static void what_this_machine_must_not_take_changes_nothing(void **state)
{
    (void)state;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *other = made_key("P-256");
    static const struct {
        struct made_release file;
        enum fault_code code;
    } refused[] = {
        { { .version = "0.1.0" }, FAULT_RELEASE_VERSION }, /* the same */
        { { .version = "0.0.9" }, FAULT_RELEASE_VERSION }, /* a downgrade */
        { { .version = "0.3.0", .min_version = "0.2.0" }, FAULT_RELEASE_VERSION },
        { { .profile = "generic" }, FAULT_RELEASE_OTHER },
        { { .kind = RELEASE_EXTENSION, .name = "acme" }, FAULT_RELEASE_OTHER },
        { { .blocks = 300 }, FAULT_RELEASE_SPACE }, /* larger than a slot */
    };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        made_file(op, &refused[i].file, key, update);
        assert_string_equal(fault_row(apply().code)->text, fault_row(refused[i].code)->text);
        nothing_changed();
    }
    made_file(op, &(struct made_release){ .version = "0.2.0" }, other, update);
    assert_fault(apply(), RELEASE_SIGNATURE);
    make("0.2.0"); /* good, but damaged in its last byte */
    int fd = open(update, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "\xff", 1, lseek(fd, 0, SEEK_END) - 1), 1);
    (void)close(fd);
    assert_fault(apply(), RELEASE_FILE);
    nothing_changed();
}

static void below_the_floor_nothing_is_taken_and_nothing_runs(void **state)
{
    (void)state;
    struct versions floor = { .has_floor = true, .floor = { 0, 2, 0 } };
    assert_fault(versions_save(op, versions, &floor), NONE);
    make("0.2.0");
    assert_fault(apply(), RELEASE_VERSION);
    assert_fault(update_machine_admit(op, &machine), RELEASE_VERSION);
    assert_fault(update_machine_commit(op, &machine), RELEASE_VERSION);
    nothing_changed();
    make("0.2.1");
    assert_fault(apply(), NONE);
    made_write(versions, span_text("{\"floor\":\"0.0.1\"}")); /* damaged: nothing is known */
    op->note = (struct fault_note){ 0 };
    assert_fault(update_machine_admit(op, &machine), CONFIG);
    assert_fault(apply(), CONFIG);
}

static void a_good_update_is_tried_once_and_kept_when_ready(void **state)
{
    (void)state;
    struct update_state now;
    struct versions kept;
    make("0.2.0");
    assert_fault(apply(), NONE);
    assert_true(has("svc-0.1.0.efi") && has("svc-0.2.0+1.efi") && has("other.efi"));
    assert_int_equal(entry_count(), 3);
    assert_true(slot_is(SLOT_A, "0.1.0") && slot_is(SLOT_B, "0.2.0"));
    assert_fault(update_machine_state(op, &machine, &now), NONE);
    assert_true(!now.trial && now.has_waiting && !now.has_failed && !now.has_floor && now.slot == 'a');

    boot("svc-0.2.0+1.efi", "svc-0.2.0+0-1.efi", (struct version){ 0, 2, 0 }, SLOT_B);
    assert_fault(update_machine_state(op, &machine, &now), NONE);
    assert_true(now.trial && !now.has_waiting && !now.has_failed);
    make("0.3.0"); /* the other slot is the way back */
    assert_fault(apply(), CONFLICT);
    assert_true(slot_is(SLOT_A, "0.1.0") && has("svc-0.1.0.efi"));

    assert_fault(update_machine_commit(op, &machine), NONE);
    assert_true(has("svc-0.2.0.efi") && !has("svc-0.1.0.efi") && has("other.efi"));
    assert_int_equal(entry_count(), 2);
    assert_fault(versions_load(op, versions, &kept), NONE);
    assert_true(kept.has_floor && version_compare(kept.floor, machine.running) == 0);
    assert_fault(update_machine_commit(op, &machine), NONE); /* at every boot */

    assert_fault(apply(), NONE); /* 0.3.0, into the slot of 0.1.0 */
    assert_true(slot_is(SLOT_A, "0.3.0") && slot_is(SLOT_B, "0.2.0") && has("svc-0.3.0+1.efi"));
}

static void an_update_that_failed_is_told_of_and_may_be_applied_again(void **state)
{
    (void)state;
    struct update_state now;
    make("0.2.0");
    assert_fault(apply(), NONE);
    boot("svc-0.2.0+1.efi", "svc-0.2.0+0-1.efi", (struct version){ 0, 1, 0 }, SLOT_A); /* fell back */
    assert_fault(update_machine_state(op, &machine, &now), NONE);
    assert_true(!now.trial && now.has_failed && !now.has_waiting);
    assert_fault(update_machine_commit(op, &machine), NONE);
    assert_true(has("svc-0.2.0+0-1.efi"));
    assert_fault(apply(), NONE);
    assert_true(has("svc-0.2.0+1.efi") && !has("svc-0.2.0+0-1.efi"));
}

static void without_an_entry_of_its_own_there_is_no_way_back(void **state)
{
    (void)state;
    make("0.2.0");
    clear_folder(esp);
    assert_fault(apply(), CONFLICT);
    assert_true(slot_is(SLOT_B, NULL));
}

/* ---- the database ---- */

static void database(const char *text)
{
    assert_fault(file_make_dirs(made_path("data/postgres/base/1"), 0700), NONE);
    made_write(made_path("data/postgres/base/1/rows"), span_text(text));
}

static void database_is(const char *text)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(4096);
    assert_fault(file_read(made_path("data/postgres/base/1/rows"), &bytes), NONE);
    assert_span_text(buf_span(&bytes), text);
}

static bool data_has(const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "data/%s", name);
    return access(made_path(path), F_OK) == 0;
}

/* 0.1.0 was kept, 0.2.0 boots on trial. */
static void on_trial(void **state, const char *data)
{
    assert_int_equal(begin(state), 0);
    machine.data = data;
    assert_fault(update_machine_commit(op, &machine), NONE);
    make("0.2.0");
    assert_fault(apply(), NONE);
    boot("svc-0.2.0+1.efi", "svc-0.2.0+0-1.efi", (struct version){ 0, 2, 0 }, SLOT_B);
    assert_fault(update_machine_before_service(op, &machine), NONE);
}

static void after_a_fall_back_the_database_is_the_one_from_before(void **state)
{
    char data[160];
    struct stat status;
    place(data, "data");
    database("before");
    made_write(made_path("secret"), span_text("root's alone"));
    assert_int_equal(symlink(made_path("secret"), made_path("data/postgres/planted")), 0);
    assert_int_equal(chmod(made_path("data/postgres/base/1/rows"), 0640), 0);
    on_trial(state, data);
    assert_true(data_has("postgres.before-0.1.0/base/1/rows") && !data_has("postgres.before-0.1.0/planted"));
    assert_int_equal(lstat(made_path("data/postgres.before-0.1.0/base/1/rows"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    database("migrated");
    assert_fault(update_machine_before_service(op, &machine), NONE); /* a second try copies nothing of the first */
    machine.running = (struct version){ 0, 1, 0 };
    machine.slot = SLOT_A;
    assert_fault(update_machine_before_service(op, &machine), NONE);
    database_is("before");
    assert_true(!data_has("postgres.before-0.1.0") && !data_has("postgres.given-up") && !data_has("postgres.copy"));
    /* A cut between the two changes of names. */
    assert_int_equal(rename(made_path("data/postgres"), made_path("data/postgres.before-0.1.0")), 0);
    assert_fault(file_make_dirs(made_path("data/postgres.given-up"), 0700), NONE);
    assert_fault(update_machine_before_service(op, &machine), NONE);
    database_is("before");
    assert_false(data_has("postgres.given-up"));
}

static void a_version_that_is_kept_keeps_its_database(void **state)
{
    char data[160];
    place(data, "data");
    database("before");
    on_trial(state, data);
    database("migrated");
    assert_fault(file_make_dirs(made_path("data/postgres.copy/cut"), 0700), NONE); /* of a boot that was cut off */
    assert_fault(update_machine_commit(op, &machine), NONE);
    assert_true(!data_has("postgres.before-0.1.0") && !data_has("postgres.copy"));
    assert_fault(update_machine_before_service(op, &machine), NONE);
    database_is("migrated");
}

/* ---- a power cut ---- */

struct cut {
    unsigned after, seen;
};
static void end_here(void *arg, const char *name)
{
    struct cut *cut = arg;
    (void)name;
    if (cut->seen++ == cut->after) {
        _exit(7);
    }
}

/* Runs `work` in a process that ends behind its step number `after`. False: it came to its end. */
static bool cut_off(struct fault (*work)(void), unsigned after)
{
    struct cut cut = { .after = after };
    int code = 0;
    pid_t child = fork();
    if (child == 0) {
        machine.step = end_here;
        machine.step_arg = &cut;
        _exit(FAULTED(work()) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code) && (WEXITSTATUS(code) == 7 || WEXITSTATUS(code) == 0));
    return WEXITSTATUS(code) == 7;
}

static bool slot_is_whole(unsigned slot)
{
    struct release_footer footer;
    int fd = open(slot_paths[slot], O_RDONLY | O_CLOEXEC);
    assert_fault(slot_read_footer(op, slot_paths[slot], &footer), NONE);
    struct fault fault =
        release_tree_check(op, fd, 0, (footer.tree.blocks + 2) * RELEASE_BLOCK, &footer.tree); /* one level */
    (void)close(fd);
    return !FAULTED(fault);
}

static void footer_into(unsigned slot, struct version version)
{
    struct release_footer footer = { .version = version, .tree = { .blocks = 3 } };
    struct slot_writer writer;
    memset(footer.tree.roothash, '0', RELEASE_HEX_MAX);
    memset(footer.tree.salt, '0', RELEASE_HEX_MAX);
    assert_fault(slot_open(op, slot_paths[slot], &writer), NONE);
    assert_fault(slot_write_footer(op, &writer, &footer), NONE);
    slot_close(&writer);
}

static bool slot_is_untouched(unsigned slot)
{
    uint8_t bytes[RELEASE_BLOCK], zeros[RELEASE_BLOCK] = { 0 };
    int fd = open(slot_paths[slot], O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    (void)close(fd);
    return memcmp(bytes, zeros, sizeof(bytes)) == 0;
}

static void a_cut_at_any_step_of_an_update_leaves_the_old_or_the_new(void **state)
{
    bool cut = true;
    unsigned steps = 0;
    for (; cut; steps++) {
        assert_int_equal(begin(state), 0);
        touch("svc-0.0.9.efi", "superseded"); /* leads into slot b */
        footer_into(SLOT_B, (struct version){ 0, 0, 9 });
        make("0.2.0");
        cut = cut_off(apply, steps);
        /* What ran before can boot, always. */
        assert_true(has("svc-0.1.0.efi") && slot_is(SLOT_A, "0.1.0"));
        /* Nothing leads into a slot that changed, unless to what is whole. */
        bool old = slot_is(SLOT_B, "0.0.9");
        assert_true(old ? slot_is_untouched(SLOT_B) : !has("svc-0.0.9.efi"));
        if (has("svc-0.2.0+1.efi")) {
            assert_true(slot_is(SLOT_B, "0.2.0") && slot_is_whole(SLOT_B));
        }
        assert_true(old || slot_is(SLOT_B, NULL) || slot_is_whole(SLOT_B));
        assert_fault(update_machine_commit(op, &machine), NONE); /* the next boot, of what ran before */
        assert_false(has("svc-update.new"));
        assert_fault(apply(), NONE);
        assert_true(has("svc-0.2.0+1.efi") && slot_is(SLOT_B, "0.2.0") && slot_is_whole(SLOT_B));
        assert_int_equal(entry_count(), 3);
    }
    assert_true(steps > 7);
}

static struct fault commit(void)
{
    return update_machine_commit(op, &machine);
}

static void a_cut_at_any_step_of_keeping_it_is_made_up_for_by_the_next_boot(void **state)
{
    bool cut = true;
    unsigned steps = 0;
    for (; cut; steps++) {
        struct update_state now;
        assert_int_equal(begin(state), 0);
        make("0.2.0");
        assert_fault(apply(), NONE);
        boot("svc-0.2.0+1.efi", "svc-0.2.0+0-1.efi", (struct version){ 0, 2, 0 }, SLOT_B);
        cut = cut_off(commit, steps);
        assert_true(has("svc-0.2.0.efi")); /* before the floor rises */
        assert_fault(update_machine_admit(op, &machine), NONE);
        assert_fault(commit(), NONE);
        assert_fault(update_machine_state(op, &machine, &now), NONE);
        assert_true(now.has_floor && !now.trial && !has("svc-0.1.0.efi"));
    }
    assert_true(steps > 3);
}

/* ---- a file that changes between the check and the write ---- */

static void swap_root(void *arg, const char *name)
{
    (void)arg;
    if (strcmp(name, "verified") == 0) {
        int fd = open(update, O_RDWR | O_CLOEXEC);
        assert_int_equal(pwrite(fd, "other", 5, RELEASE_BLOCK + 100), 5);
        (void)close(fd);
    }
}

static void spoil_slot(void *arg, const char *name)
{
    (void)arg;
    if (strcmp(name, "root-written") == 0) {
        int fd = open(slot_paths[SLOT_B], O_RDWR | O_CLOEXEC);
        assert_int_equal(pwrite(fd, "spoilt", 6, 100), 6);
        (void)close(fd);
    }
}

static void swap_uki(void *arg, const char *name)
{
    (void)arg;
    if (strcmp(name, "footer-written") == 0) {
        int fd = open(update, O_RDWR | O_CLOEXEC);
        assert_int_equal(pwrite(fd, "other", 5, lseek(fd, 0, SEEK_END) - 100), 5);
        (void)close(fd);
    }
}

static void what_changes_after_the_check_is_never_booted(void **state)
{
    static void (*const meddlers[])(void *arg, const char *name) = { swap_root, spoil_slot, swap_uki };
    for (size_t i = 0; i < COUNT_OF(meddlers); i++) {
        assert_int_equal(begin(state), 0);
        make("0.2.0");
        machine.step = meddlers[i];
        assert_fault(apply(), RELEASE_FILE);
        assert_true(has("svc-0.1.0.efi") && !has("svc-0.2.0+1.efi") && !has("svc-update.new"));
        assert_true(meddlers[i] == swap_uki || slot_is(SLOT_B, NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_this_machine_must_not_take_changes_nothing, begin),
        cmocka_unit_test_setup(below_the_floor_nothing_is_taken_and_nothing_runs, begin),
        cmocka_unit_test_setup(a_good_update_is_tried_once_and_kept_when_ready, begin),
        cmocka_unit_test_setup(an_update_that_failed_is_told_of_and_may_be_applied_again, begin),
        cmocka_unit_test_setup(without_an_entry_of_its_own_there_is_no_way_back, begin),
        cmocka_unit_test_setup(after_a_fall_back_the_database_is_the_one_from_before, begin),
        cmocka_unit_test_setup(a_version_that_is_kept_keeps_its_database, begin),
        cmocka_unit_test_setup(a_cut_at_any_step_of_an_update_leaves_the_old_or_the_new, begin),
        cmocka_unit_test_setup(a_cut_at_any_step_of_keeping_it_is_made_up_for_by_the_next_boot, begin),
        cmocka_unit_test_setup(what_changes_after_the_check_is_never_booted, begin),
    };
    (void)made_begin(NULL);
    op = made_op();
    key = made_key("P-256");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    EVP_PKEY_free(key);
    op_free(op);
    return failed;
}
