/* Names of boot entries, the running slot, versions.json, and the store of extensions. */
#include "appliance/machine/esp.h"
#include "appliance/machine/extension_store.h"
#include "appliance/machine/update_machine.h"
#include "appliance/machine/update_versions.h"
#include "unit/release/release_testlib.h"

#include <sys/sysmacros.h>

static EVP_PKEY *key;
static struct op *op;

static void only_names_of_ours_are_entries(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "svc-.efi",
                                       "svc-0.1.efi",
                                       "svc-0.1.0",
                                       "svc-0.1.0.efi.new",
                                       "svc-0.1.0+.efi",
                                       "svc-0.1.0+1-.efi",
                                       "svc-0.1.0+x.efi",
                                       "svc-0.1.0+100.efi",
                                       "svc-0.1.0+1-2-3.efi",
                                       "svc-0.1.0-1.efi",
                                       "svc-00.1.0.efi",
                                       "svc-0.1.0..efi",
                                       "svc-update.new",
                                       "Svc-0.1.0.efi",
                                       "other-0.1.0.efi",
                                       "svc-0.1.0+99999999999999999999999.efi" };
    struct esp_entry entry = { 0 };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (esp_entry_parse(bad[i], &entry)) {
            fail_msg("taken: %s", bad[i]);
        }
    }
    assert_true(esp_entry_parse("svc-0.1.10.efi", &entry));
    assert_true(!entry.counted && entry.version.patch == 10);
    assert_true(esp_entry_parse("svc-0.2.0+3.efi", &entry));
    assert_true(entry.counted && entry.left == 3 && entry.done == 0);
    assert_true(esp_entry_parse("svc-12.0.0+0-1.efi", &entry));
    assert_true(entry.counted && entry.left == 0 && entry.done == 1 && entry.version.major == 12);
    assert_string_equal(entry.name, "svc-12.0.0+0-1.efi");
}

static void part(const char *name, const char *label)
{
    char text[160], path[160];
    (void)snprintf(path, sizeof(path), "sys/class/block/%s", name);
    assert_fault(file_make_dirs(made_path(path), 0700), NONE);
    (void)snprintf(text, sizeof(text), "MAJOR=254\nDEVTYPE=partition\nPARTN=2\nPARTNAME=%s\n", label);
    (void)snprintf(path, sizeof(path), "sys/class/block/%s/uevent", name);
    made_write(made_path(path), span_text(text));
}

static void the_running_slot_is_what_lies_under_the_root(void **state)
{
    (void)state;
    unsigned slot = 9;
    dev_t root = makedev(253, 0);
    assert_fault(slot_running(op, made_path("sys"), root, &slot), NOT_FOUND);
    part("vda2", "svc-root-a");
    part("vda3", "svc-root-b");
    part("vdb1", "not-svc-root-b");
    assert_fault(file_make_dirs(made_path("sys/dev/block/253:0/slaves/vdb1"), 0700), NONE);
    assert_fault(slot_running(op, made_path("sys"), root, &slot), NOT_FOUND);
    assert_int_equal(slot, 9);
    assert_fault(file_make_dirs(made_path("sys/dev/block/253:0/slaves/vda3"), 0700), NONE);
    assert_fault(slot_running(op, made_path("sys"), root, &slot), NONE);
    assert_int_equal(slot, SLOT_B);
    assert_fault(file_make_dirs(made_path("sys/dev/block/253:0/slaves/vda2"), 0700), NONE);
    assert_fault(slot_running(op, made_path("sys"), root, &slot), NOT_FOUND); /* both: none may be written */
}

static void versions_that_cannot_be_read_refuse(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "{\"extensions\":[],\"format\":\"svc.versions.v2\"}",
        "{\"extensions\":[],\"floor\":\"1\",\"format\":\"svc.versions.v1\"}",
        "{\"extensions\":[{\"name\":\"a/b\",\"version\":\"1.0.0\"}],\"format\":\"svc.versions.v1\"}",
        /* the same name twice */
        ("{\"extensions\":[{\"name\":\"a\",\"version\":\"1.0.0\"},{\"name\":\"a\",\"version\":\"1.0.0\"}],"
         "\"format\":\"svc.versions.v1\"}"),
    };
    struct versions kept = { 0 };
    const char *path = "versions.json";
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        made_write(made_path(path), span_text(bad[i]));
        assert_fault(versions_load(op, made_path(path), &kept), CONFIG);
    }
    (void)unlink(made_path(path));
    assert_fault(versions_load(op, made_path(path), &kept), NONE);
    assert_false(kept.has_floor);
    for (unsigned i = 0; i < VERSIONS_EXTENSIONS_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "e%u", i);
        assert_fault(versions_note_extension(op, &kept, name, (struct version){ 1, i, 0 }), NONE);
    }
    assert_fault(versions_note_extension(op, &kept, "one-more", (struct version){ 1, 0, 0 }), RELEASE_SPACE);
    assert_fault(versions_note_extension(op, &kept, "e3", (struct version){ 9, 9, 9 }), NONE);
    kept.has_floor = true;
    kept.floor = (struct version){ 0, 4, 0 };
    assert_fault(versions_save(op, made_path(path), &kept), NONE);
    struct versions again = { 0 };
    assert_fault(versions_load(op, made_path(path), &again), NONE);
    assert_memory_equal(&again, &kept, sizeof(kept));
    (void)unlink(made_path(path));
}

static void the_image_tells_its_version_and_profile(void **state)
{
    (void)state;
    struct version version = { 0 };
    char profile[RELEASE_PROFILE_MAX + 1] = "";
    assert_fault(image_facts(op, made_path("image.json"), &version, profile), UNSUPPORTED);
    made_write(made_path("image.json"), span_text("{\"profile\":\"small\"}"));
    assert_fault(image_facts(op, made_path("image.json"), &version, profile), CONFIG);
    made_write(made_path("image.json"), span_text("{\"version\":\"0.1\",\"profile\":\"small\"}"));
    assert_fault(image_facts(op, made_path("image.json"), &version, profile), CONFIG);
    made_write(made_path("image.json"), span_text("{\"kernel\":\"x\",\"profile\":\"small\",\"version\":\"0.1.7\"}"));
    assert_fault(image_facts(op, made_path("image.json"), &version, profile), NONE);
    assert_int_equal(version.patch, 7);
    assert_string_equal(profile, "small");
}

static void only_one_has_the_slots_at_a_time(void **state)
{
    (void)state;
    CLEANUP(fd_closep) int first = -1;
    int second = -1;
    assert_fault(update_lock(op, made_path("lock"), &first), NONE);
    assert_fault(update_lock(op, made_path("lock"), &second), CONFLICT);
    fd_close(first);
    first = -1;
    assert_fault(update_lock(op, made_path("lock"), &second), NONE);
    fd_close(second);
}

/* ---- extensions ---- */

static struct release_keys *trusted;
static char folder[160], versions[160], file[160];

static struct extension_store store_of(const char *profile)
{
    return (struct extension_store){
        .folder = folder, .versions = versions, .running = { 0, 2, 0 }, .profile = profile, .keys = trusted
    };
}

static struct fault add(const struct extension_store *store, const struct made_release *wanted)
{
    struct extension extension;
    made_file(op, wanted, key, file);
    op->note = (struct fault_note){ 0 };
    return extension_store_add(op, store, file, &extension);
}

static void an_extension_is_kept_only_if_it_verifies_and_never_goes_back(void **state)
{
    (void)state;
    struct extension_store store = store_of("small");
    struct extension extension, list[EXTENSIONS_MAX];
    size_t count = 9;
    (void)snprintf(folder, sizeof(folder), "%s", made_path("extensions"));
    (void)snprintf(versions, sizeof(versions), "%s", made_path("ext-versions.json"));
    (void)snprintf(file, sizeof(file), "%s", made_path("file"));
    assert_fault(extension_store_list(op, &store, list, &count), NONE); /* no folder yet */
    assert_int_equal(count, 0);
    assert_fault(add(&store, &(struct made_release){ .version = "0.9.0" }), RELEASE_OTHER); /* an update */
    struct made_release acme = { .kind = RELEASE_EXTENSION, .name = "acme", .profile = "generic", .version = "1.2.0" };
    assert_fault(add(&store, &acme), RELEASE_OTHER);
    acme.profile = "any";
    acme.min_version = "0.3.0";
    assert_fault(add(&store, &acme), RELEASE_VERSION);
    acme.min_version = "0.2.0";
    assert_fault(add(&store, &acme), NONE);
    acme.version = "1.1.9";
    assert_fault(add(&store, &acme), RELEASE_VERSION);
    assert_fault(extension_store_remove(op, &store, "acme"), NONE);
    assert_fault(add(&store, &acme), RELEASE_VERSION); /* not by way of removing it, either */
    acme.version = "1.2.0";
    assert_fault(add(&store, &acme), NONE);
    assert_fault(extension_store_remove(op, &store, "../file"), NOT_FOUND);
    assert_fault(extension_store_remove(op, &store, "other"), NOT_FOUND);
    int fd = open(file, O_RDWR | O_CLOEXEC); /* damaged on its way */
    assert_int_equal(pwrite(fd, "x", 1, RELEASE_BLOCK + 5), 1);
    (void)close(fd);
    assert_fault(extension_store_add(op, &store, file, &extension), RELEASE_FILE);
    assert_fault(extension_store_list(op, &store, list, &count), NONE);
    assert_int_equal(count, 1);
    assert_string_equal(list[0].refusal, "");
}

static void what_lies_in_the_folder_is_judged_anew(void **state)
{
    (void)state;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *other = made_key("P-256");
    struct extension_store store = store_of("small");
    struct extension list[EXTENSIONS_MAX];
    char path[256];
    size_t count = 0;
    struct release_file *opened = NULL;
    struct made_release wanted = { .kind = RELEASE_EXTENSION, .name = "zeta", .profile = "any", .version = "1.0.0" };
    (void)snprintf(path, sizeof(path), "%s/zeta.svcext", folder);
    made_file(op, &wanted, other, path); /* nobody's key */
    (void)snprintf(path, sizeof(path), "%s/beta.svcext", folder);
    made_file(op, &wanted, key, path); /* under another's name */
    (void)snprintf(path, sizeof(path), "%s/../escape.svcext", folder);
    made_file(op, &wanted, key, path);
    assert_fault(extension_store_list(op, &store, list, &count), NONE);
    assert_int_equal(count, 3);
    assert_string_equal(list[0].name, "acme");
    assert_string_equal(list[0].refusal, "");
    assert_string_equal(list[1].name, "beta");
    assert_non_null(strstr(list[1].refusal, "is the extension zeta"));
    assert_string_equal(list[2].name, "zeta");
    assert_non_null(strstr(list[2].refusal, "signature"));
    assert_fault(extension_store_open(op, &store, "zeta", &opened), RELEASE_SIGNATURE);
    struct extension_store elsewhere = store_of("generic");
    wanted.profile = "small"; /* with modules for another kernel */
    wanted.name = "mods";
    assert_fault(add(&store, &wanted), NONE);
    assert_fault(extension_store_open(op, &elsewhere, "mods", &opened), RELEASE_OTHER);
}

static void there_is_a_last_extension(void **state)
{
    (void)state;
    struct extension_store store = store_of("small");
    static const char *const names[] = { "e4", "e5", "e6", "e7" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_fault(add(&store, &(struct made_release){ .kind = RELEASE_EXTENSION, .name = names[i] }), NONE);
    }
    assert_fault(add(&store, &(struct made_release){ .kind = RELEASE_EXTENSION, .name = "e9" }), RELEASE_SPACE);
    assert_fault(add(&store, &(struct made_release){ .kind = RELEASE_EXTENSION, .name = "e4" }), NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_names_of_ours_are_entries),
        cmocka_unit_test(the_running_slot_is_what_lies_under_the_root),
        cmocka_unit_test(versions_that_cannot_be_read_refuse),
        cmocka_unit_test(the_image_tells_its_version_and_profile),
        cmocka_unit_test(only_one_has_the_slots_at_a_time),
        cmocka_unit_test(an_extension_is_kept_only_if_it_verifies_and_never_goes_back),
        cmocka_unit_test(what_lies_in_the_folder_is_judged_anew),
        cmocka_unit_test(there_is_a_last_extension),
    };
    (void)made_begin(NULL);
    op = made_op();
    key = made_key("P-256");
    trusted = made_keys(op, key);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    release_keys_free(trusted);
    EVP_PKEY_free(key);
    op_free(op);
    return failed;
}
