/* The folder of rules: which files are read, in which order, and what is refused. */
#include "unit/policy/policy_testlib.h"

#include "appliance/base/file.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/svc-policy-XXXXXX";
static char folder[64];

#define ALLOW(name) "rules:\n- {name: " name ", when: {}, then: allow}\n"

static const char *path_of(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text)
{
    assert_fault(file_write(path_of(name), span_text(text), 0600), NONE);
}

static void empty_folder(void)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlink(path_of(entry->d_name)) != 0) {
            assert_int_equal(rmdir(path_of(entry->d_name)), 0);
        }
    }
    assert_int_equal(closedir(dir), 0);
}

static struct fault load(struct buf *why, struct policy **ret_policy)
{
    struct config config = policy_config();
    config.policy_dir = top;
    return policy_load(&config, why, ret_policy);
}

static void refused(const char *want)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct policy *policy = NULL;
    const char *said = NULL;
    assert_fault(load(&why, &policy), CONFIG);
    assert_null(policy);
    assert_fault(buf_cstr(&why, &said), NONE);
    assert_string_equal(said, want);
    assert_fault(load(NULL, &policy), CONFIG);
}

static void a_folder_that_is_not_there_is_refused(void **state)
{
    (void)state;
    struct config config = policy_config();
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct policy *policy = NULL;
    assert_fault(policy_load(&config, &why, &policy), CONFIG);
    assert_span_text(buf_span(&why), "/nowhere/codesign: cannot be read; ca.policy.enabled needs the rules of signing "
                                     "there\n");
}

static void a_folder_without_rules_is_refused(void **state)
{
    (void)state;
    char want[256];
    empty_folder();
    (void)snprintf(want, sizeof(want), "%s: holds no *.yaml file with rules: everything would be denied\n", folder);
    refused(want);
    put("README.md", "words");
    put(".10-hidden.yaml", ALLOW("hidden"));
    put("10-a.yaml.bak", ALLOW("bak"));
    put("yaml", ALLOW("yaml"));
    put(".yaml", ALLOW("only-an-end"));
    refused(want);
}

static void a_file_that_somebody_may_take_for_rules_is_refused(void **state)
{
    (void)state;
    empty_folder();
    put("10-a.yaml", ALLOW("a"));
    put("05-freeze.yml", ALLOW("b"));
    refused("codesign: a file ends with .yml or .YAML, and would not be read: name it *.yaml\n");
    empty_folder();
    put("a b.yaml", ALLOW("a"));
    refused("codesign: a file's name must be 1 to 128 of a-z, A-Z, 0-9, '-', '_' and '.'\n");
}

static void what_is_no_regular_file_is_refused_and_blocks_nothing(void **state)
{
    (void)state;
    empty_folder();
    put("10-a.yaml", ALLOW("a"));
    assert_int_equal(mkfifo(path_of("20-b.yaml"), 0600), 0);
    refused("20-b.yaml: is no regular file\n");
    assert_int_equal(unlink(path_of("20-b.yaml")), 0);
    assert_int_equal(mkdir(path_of("20-b.yaml"), 0700), 0);
    refused("20-b.yaml: is no regular file\n");
    assert_int_equal(rmdir(path_of("20-b.yaml")), 0);
    assert_int_equal(symlink("/dev/zero", path_of("20-b.yaml")), 0);
    refused("20-b.yaml: is no regular file\n");
    assert_int_equal(unlink(path_of("20-b.yaml")), 0);
    assert_int_equal(symlink("nothing", path_of("20-b.yaml")), 0);
    refused("20-b.yaml: cannot be read\n");
}

static void too_much_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT((size_t)1 << 20);
    char name[32], line[64];
    empty_folder();
    assert_fault(buf_text(&text, ALLOW("large")), NONE);
    while (text.len < POLICY_FILE_MAX) {
        assert_fault(buf_text(&text, "#"), NONE);
    }
    assert_fault(file_write(path_of("a.yaml"), buf_span(&text), 0600), NONE);
    struct policy *policy = NULL;
    assert_fault(load(NULL, &policy), NONE); /* just as large as it may be */
    policy_free(policy);
    assert_fault(buf_text(&text, "\n"), NONE);
    assert_fault(file_write(path_of("a.yaml"), buf_span(&text), 0600), NONE);
    refused("a.yaml: is larger than 256 KiB\n");
    empty_folder();
    for (unsigned i = 0; i < 5; i++) {
        buf_clear(&text);
        assert_fault(buf_printf(&text, "rules:\n- {name: r%u, when: {}, then: allow}\n", i), NONE);
        while (text.len < 250000) {
            assert_fault(buf_text(&text, "#"), NONE);
        }
        (void)snprintf(name, sizeof(name), "%u.yaml", i);
        assert_fault(file_write(path_of(name), buf_span(&text), 0600), NONE);
    }
    refused("4.yaml: makes the files larger than 1 MiB in all\n");
    empty_folder();
    for (unsigned i = 0; i <= POLICY_FILES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "%02u.yaml", i);
        (void)snprintf(line, sizeof(line), "rules:\n- {name: r%u, when: {}, then: allow}\n", i);
        put(name, line);
    }
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    assert_fault(load(&why, &policy), CONFIG); /* whichever the folder lists last */
    assert_non_null(memmem(why.at, why.len, "is one file too many: at most 64", 32));
}

static void files_come_in_name_order_and_links_are_followed(void **state)
{
    (void)state;
    empty_folder();
    put("20-b.yaml", ALLOW("b"));
    put("100-c.yaml", ALLOW("c"));
    put("10-a.yaml", "# words\n" ALLOW("a"));
    put("..data", ALLOW("d"));
    assert_int_equal(symlink("..data", path_of("30-d.yaml")), 0);
    CLEANUP(policy_freep) struct policy *policy = NULL;
    assert_fault(load(NULL, &policy), NONE);
    static const char *const order[] = { "a", "c", "b", "d" };
    const struct rule *rule = policy->first;
    for (size_t i = 0; i < COUNT_OF(order); i++, rule = rule->next) {
        assert_string_equal(rule->name, order[i]);
    }
    assert_null(rule);
    assert_string_equal(policy->first->file, "10-a.yaml");
    assert_int_equal(policy->first->line, 3);
}

static void the_first_bad_file_is_told_by_name_and_line(void **state)
{
    (void)state;
    empty_folder();
    put("10-a.yaml", ALLOW("a"));
    put("20-b.yaml", "rules:\n- name: b\n  when: {}\n  then: alow\n");
    refused("20-b.yaml:4: rule b: then: 'alow' must be allow, deny or require_approval\n");
}

/* The shipped rules: separation of duties that must stay. */
static void the_shipped_rules_deny_what_they_do_not_name(void **state)
{
    (void)state;
    struct config config = policy_config();
    config.policy_dir = "policies";
    CLEANUP(policy_freep) struct policy *policy = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    if (FAULTED(policy_load(&config, &why, &policy))) {
        fail_msg("%.*s", (int)why.len, (const char *)why.at);
    }
    static const struct {
        const char *role, *key, *artifact, *rule;
        enum policy_outcome outcome;
    } rows[] = {
        { "ci", "other", "tarball", "everything-else", POLICY_DENY },
        { "admin", "other", "tarball", "everything-else", POLICY_DENY },
        { "ci", NULL, "snapshot", "everything-else", POLICY_DENY },
        { "operator", "snapshot-1", "snapshot", "everything-else", POLICY_DENY },
        { "ci", "snapshot-1", "tarball", "everything-else", POLICY_DENY },
        { "ci", "snapshot-1", "release", "release-artifacts-need-approval", POLICY_APPROVE },
        { "ci", NULL, "release-deb", "release-artifacts-need-approval", POLICY_APPROVE },
        { "ci", "release-2026", "snapshot", "release-keys-need-approval", POLICY_APPROVE },
        { "operator", "release-2026", "tarball", "release-keys-need-approval", POLICY_APPROVE },
        { "ci", "snapshot-1", "snapshot", "ci-signs-snapshots", POLICY_ALLOW },
        { "ci", "snapshot-1", "snapshot-oci", "ci-signs-snapshots", POLICY_ALLOW },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct may_sign input = { .tenant = "default",
                                        .principal = "somebody",
                                        .roles = &rows[i].role,
                                        .role_count = 1,
                                        .keyless = rows[i].key == NULL,
                                        .key_name = rows[i].key,
                                        .artifact_type = rows[i].artifact,
                                        .digest_algorithm = "sha256" };
        struct policy_decision decision;
        policy_decide(policy, &config, &input, &decision);
        assert_string_equal(decision.rule, rows[i].rule);
        assert_int_equal(decision.outcome, rows[i].outcome);
    }
}

static int start(void **state)
{
    (void)state;
    if (mkdtemp(top) == NULL) {
        return -1;
    }
    (void)snprintf(folder, sizeof(folder), "%s/codesign", top);
    return mkdir(folder, 0700);
}

static int end(void **state)
{
    (void)state;
    empty_folder();
    return rmdir(folder) == 0 ? rmdir(top) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_is_not_there_is_refused),
        cmocka_unit_test(a_folder_without_rules_is_refused),
        cmocka_unit_test(a_file_that_somebody_may_take_for_rules_is_refused),
        cmocka_unit_test(what_is_no_regular_file_is_refused_and_blocks_nothing),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(files_come_in_name_order_and_links_are_followed),
        cmocka_unit_test(the_first_bad_file_is_told_by_name_and_line),
        cmocka_unit_test(the_shipped_rules_deny_what_they_do_not_name),
    };
    return cmocka_run_group_tests(tests, start, end);
}
