/* The frameworks of the service as they stand in policies/frameworks, held against the rules of its contract; and what
 * the reader of such files refuses, with the line. */
#include "testlib.h"

#include "api/compliance/framework_internal.h"
#include "api/inventory/fact.h"
#include "appliance/base/file.h"

#include <stdio.h>
#include <unistd.h>

#define FOLDER "policies/frameworks"

static struct op *op;
static struct frameworks *files;

static int load_files(void **state)
{
    (void)state;
    if (FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op))) {
        return -1;
    }
    struct fault fault = frameworks_load(op, FOLDER, &files);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%s\n", op->note.detail);
    }
    return FAULTED(fault) ? -1 : 0;
}

static int free_files(void **state)
{
    (void)state;
    frameworks_free(TAKE(files));
    op_free(TAKE(op));
    return 0;
}

/* ---- what is refused ---- */

#define TOP      "id: soc2\ncatalogue: { name: n, version: v }\n"
#define CONTROLS TOP "controls:\n  - id: C1\n    title: t\n    prerequisites:\n"
#define GAPS     "gaps:\n  - { id: g, title: t, owner: auditor }\n"
#define FACT     "      - { name: a, title: t, recovery: r, kind: fact, fact: log.trusted }\n"
#define EVENT(x) CONTROLS "      - { name: a, title: t, recovery: r, kind: event, " x " }\n" GAPS
#define WHERE(x) EVENT("types: [key.retired], where: [ " x " ]")
#define SIGNS_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void refused(const char *yaml, const char *want)
{
    const struct framework *framework = NULL;
    op->note = (struct fault_note){ 0 };
    assert_fault(framework_parse(op, "soc2", span_text(yaml), &framework), CONFIG);
    assert_null(framework);
    if (strstr(op->note.detail, want) != op->note.detail) {
        fail_msg("said '%s', not '%s', of:\n%s", op->note.detail, want, yaml);
    }
    op->note = (struct fault_note){ 0 };
}

static void a_file_that_is_not_as_it_must_be_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "id: [\n", "soc2.yaml:2: " },
        { "", "soc2.yaml:1: a framework needs 'id'" },
        { "- a\n", "soc2.yaml:1: a framework: must be a mapping" },
        { "id: nis2\ncatalogue: { name: n, version: v }\ncontrols: []\ngaps: []\n",
          "soc2.yaml:1: id: 'nis2' stands in the file of soc2" },
        { "id: soc2\ncatalogue: n\ncontrols: []\ngaps: []\n", "soc2.yaml:2: catalogue: must be a mapping" },
        { "id: soc2\ncatalogue: { name: n }\ncontrols: []\ngaps: []\n", "soc2.yaml:2: catalogue needs 'version'" },
        { TOP "controls: []\n" GAPS, "soc2.yaml:3: controls: must be a list of 1 to 64" },
        { CONTROLS FACT, "soc2.yaml:1: a framework needs 'gaps'" },
        { CONTROLS FACT GAPS "extra: 1\n", "soc2.yaml:10: 'extra' is no key of a framework" },
        { CONTROLS FACT "gaps: []\n", "soc2.yaml:8: gaps: must be a list of 1 to 32" },
        { TOP "controls:\n  - { id: C1, title: t, prerequisites: [] }\n" GAPS,
          "soc2.yaml:4: prerequisites: must be a list of 1 to 16" },
        { TOP "controls:\n  - { id: C1, title: t }\n" GAPS, "soc2.yaml:4: a control needs 'prerequisites'" },
        { TOP "controls:\n  - { id: C1, title: t, evidenced: true, prerequisites: [] }\n" GAPS,
          "soc2.yaml:4: 'evidenced' is no key of a control" },
        { TOP "controls:\n  - { id: \"\", title: t, prerequisites: [] }\n" GAPS,
          "soc2.yaml:4: id: must be a text of 1" },
        { TOP "controls:\n  - { id: \"" SIGNS_64 "5\", title: t, prerequisites: [] }\n" GAPS,
          "soc2.yaml:4: id: must be a text of 1 to 64 bytes" },
        { TOP "controls:\n  - { id: \"a\\tb\", title: t, prerequisites: [] }\n" GAPS,
          "soc2.yaml:4: id: must be one line of printable ASCII" },
        { CONTROLS FACT "  - id: C1\n    title: t\n    prerequisites:\n" FACT GAPS,
          "soc2.yaml:8: control 'C1' stands there twice" },
        { CONTROLS FACT FACT GAPS, "soc2.yaml:8: name: 'a' stands there twice" },
        { CONTROLS "      - fact\n" GAPS, "soc2.yaml:7: a prerequisite is a mapping with 'kind'" },
        { CONTROLS "      - { name: a, title: t, recovery: r, kind: guess, fact: log.trusted }\n" GAPS,
          "soc2.yaml:7: kind: must be event, fact or attestation" },
        { CONTROLS "      - { name: A, title: t, recovery: r, kind: fact, fact: log.trusted }\n" GAPS,
          "soc2.yaml:7: name: 'A' must be of a-z" },
        { CONTROLS "      - { name: a-, title: t, recovery: r, kind: fact, fact: log.trusted }\n" GAPS,
          "soc2.yaml:7: name: 'a-' must be of a-z" },
        { CONTROLS "      - { name: a, title: t, kind: fact, fact: log.trusted }\n" GAPS,
          "soc2.yaml:7: a prerequisite of this kind needs 'recovery'" },
        { CONTROLS "      - { name: a, title: t, recovery: r, kind: fact, fact: log.trust }\n" GAPS,
          "soc2.yaml:7: fact: 'log.trust' is no fact of the inventory" },
        { CONTROLS "      - { name: a, title: t, recovery: r, kind: fact, fact: log.trusted, min: 2 }\n" GAPS,
          "soc2.yaml:7: 'min' is no key of a prerequisite of this kind" },
        { CONTROLS "      - { name: a, title: t, recovery: r, kind: fact, fact: log.trusted, max_age_days: 91 }\n" GAPS,
          "soc2.yaml:7: max_age_days: must be a number of 1 to 90" },
        { CONTROLS "      - { name: a, title: t, recovery: r, kind: attestation, statement: s.t }\n" GAPS,
          "soc2.yaml:7: statement: 's.t' must be of a-z" },
        { CONTROLS
          "      - { name: a, title: t, recovery: r, kind: attestation, statement: s, max_age_days: 91 }\n" GAPS,
          "soc2.yaml:7: max_age_days: must be a number of 1 to 90" },
        { CONTROLS "      - { name: a, title: t, recovery: r, kind: attestation, types: [key.retired] }\n" GAPS,
          "soc2.yaml:7: 'types' is no key of a prerequisite of this kind" },
        { EVENT("types: key.retired"), "soc2.yaml:7: types: must be a list of 1 to 16" },
        { EVENT("types: [key.retired, key.retired]"), "soc2.yaml:7: types: 'key.retired' stands there twice" },
        { EVENT("types: [keys]"), "soc2.yaml:7: types: 'keys' is no event type" },
        { EVENT("types: [key.retired.]"), "soc2.yaml:7: types: 'key.retired.' is no event type" },
        { EVENT("types: [Key.retired]"), "soc2.yaml:7: types: 'Key.retired' is no event type" },
        { EVENT("types: [key.retired], min: 0"), "soc2.yaml:7: min: must be a number of 1 to 1000000" },
        { EVENT("types: [key.retired], min: \"2\""), "soc2.yaml:7: min: must be a number" },
        { EVENT("types: [key.retired], distinct_actors: 9"),
          "soc2.yaml:7: distinct_actors: must be a number of 2 to 8" },
        { EVENT("types: [key.retired], fact: log.trusted"), "soc2.yaml:7: 'fact' is no key" },
        { EVENT("types: [key.retired], where: []"), "soc2.yaml:7: where: must be a list of 1 to 4" },
        { WHERE("{ is: [a] }"), "soc2.yaml:7: a condition needs 'path'" },
        { WHERE("{ path: data.a }"), "soc2.yaml:7: a condition has one of is, is_not, present and differs_from" },
        { WHERE("{ path: data.a, is: [b], present: true }"), "soc2.yaml:7: a condition has one of" },
        { WHERE("{ path: data.a, matches: b }"), "soc2.yaml:7: 'matches' is no key of a condition" },
        { WHERE("{ path: a, is: [b] }"), "soc2.yaml:7: path: 'a' must be data.<member> or actor.subject" },
        { WHERE("{ path: data..a, is: [b] }"), "soc2.yaml:7: path: 'data..a' must be" },
        { WHERE("{ path: data.a, is: b }"), "soc2.yaml:7: is: must be a list of 1 to 16" },
        { WHERE("{ path: data.a, present: false }"), "soc2.yaml:7: present: can only be true" },
        { WHERE("{ path: data.a, differs_from: data.a }"), "soc2.yaml:7: differs_from: nothing differs from itself" },
        { WHERE("{ of: key.activated, path: data.a, is: [b] }"),
          "soc2.yaml:7: of: 'key.activated' is none of the prerequisite's types" },
        { WHERE("{ of: \"ke.*\", path: data.a, is: [b] }"), "soc2.yaml:7: of: 'ke.*' is none of the prerequisite's" },
        { WHERE("{ of: \".*\", path: data.a, is: [b] }"), "soc2.yaml:7: of: '.*' is none of the prerequisite's" },
        { CONTROLS FACT "gaps:\n  - { id: g, title: t, owner: me }\n",
          "soc2.yaml:9: owner: must be operator or auditor" },
        { CONTROLS FACT "gaps:\n  - { id: g, title: t, owner: auditor, statement: s }\n",
          "soc2.yaml:9: statement: goes with owner: operator only" },
        { CONTROLS FACT GAPS "  - { id: g, title: t, owner: auditor }\n", "soc2.yaml:10: gap 'g' stands there twice" },
        { CONTROLS FACT GAPS "gaps: []\n", "soc2.yaml:10: the key stands here a second time" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        refused(rows[i][0], rows[i][1]);
    }
    const struct framework *framework = NULL;
    assert_fault(framework_parse(op, "soc2", span_text(CONTROLS FACT GAPS), &framework), NONE);
    assert_string_equal(framework->controls[0].prerequisites[0].fact, "log.trusted");
    assert_fault(framework_parse(op, "soc2", span_text(WHERE("{ path: data.a, is: [b] }")), &framework), NONE);
    assert_int_equal(framework->controls[0].prerequisites[0].min, 1);
    const char *family =
        EVENT("types: [key.retired, key_a.b, key.generated], where: [ { of: \"key.*\", path: data.a, is: [b] },"
              " { path: data.c, present: true } ]");
    assert_fault(framework_parse(op, "soc2", span_text(family), &framework), NONE);
    const struct framework_prerequisite *spread = framework->controls[0].prerequisites;
    assert_int_equal(spread->where_count, 3);
    assert_string_equal(spread->where[0].of, "key.retired");
    assert_string_equal(spread->where[1].of, "key.generated");
    assert_string_equal(spread->where[1].path, "data.a");
    assert_null(spread->where[2].of);
}

/* `count` times the line, each with its number. */
static void put_lines(struct buf *yaml, size_t count, const char *line)
{
    for (size_t i = 0; i < count; i++) {
        const char *mark = strchr(line, '#');
        assert_fault(buf_put(yaml, span_of(line, (size_t)(mark - line))), NONE);
        assert_fault(buf_printf(yaml, "%zu%s", i, mark + 1), NONE);
    }
}

static void too_much_of_anything_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *head, *line, *tail, *want;
        size_t max;
    } rows[] = {
        { TOP "controls:\n",
          "  - { id: C#, title: t, prerequisites: [ { name: a, title: t, recovery: r, kind: fact, fact: log.trusted } ]}\n",
          GAPS, "soc2.yaml:3: controls: must be a list of 1 to 64", FRAMEWORK_CONTROLS_MAX },
        { CONTROLS, "      - { name: a#, title: t, recovery: r, kind: fact, fact: log.trusted }\n", GAPS,
          "soc2.yaml:6: prerequisites: must be a list of 1 to 16", FRAMEWORK_PREREQ_MAX },
        { CONTROLS FACT "gaps:\n", "  - { id: g#, title: t, owner: auditor }\n", "",
          "soc2.yaml:8: gaps: must be a list of 1 to 32", FRAMEWORK_GAPS_MAX },
        { CONTROLS "      - { name: a, title: t, recovery: r, kind: event, types: [key.retired], where: [\n",
          "          { path: data.a#, present: true },\n", "          ] }\n" GAPS,
          "soc2.yaml:7: where: must be a list of 1 to 4", FRAMEWORK_CONDITION_MAX },
        { CONTROLS
          "      - { name: a, title: t, recovery: r, kind: event, types: [key.retired], where: [ { path: data.a, is: [",
          "v#, ", "] } ] }\n" GAPS, "soc2.yaml:7: is: must be a list of 1 to 16", FRAMEWORK_VALUES_MAX },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t more = 0; more < 2; more++) {
            CLEANUP(buf_free) struct buf yaml = BUF_INIT((size_t)64 << 10);
            const struct framework *framework = NULL;
            const char *text = NULL;
            assert_fault(buf_text(&yaml, rows[i].head), NONE);
            put_lines(&yaml, rows[i].max + more, rows[i].line);
            assert_fault(buf_text(&yaml, rows[i].tail), NONE);
            assert_fault(buf_cstr(&yaml, &text), NONE);
            if (more == 1) {
                refused(text, rows[i].want);
            } else if (FAULTED(framework_parse(op, "soc2", span_text(text), &framework))) {
                fail_msg("%s", op->note.detail);
            }
        }
    }
    CLEANUP(buf_free) struct buf large = BUF_INIT(FRAMEWORK_FILE_MAX + 64);
    const char *text = NULL;
    while (large.len <= FRAMEWORK_FILE_MAX) {
        assert_fault(buf_text(&large, "# nothing but comments\n"), NONE);
    }
    assert_fault(buf_cstr(&large, &text), NONE);
    refused(text, "soc2.yaml: is larger than 256 KiB");
}

/* ---- the folder ---- */

static char top[] = "/tmp/svc-frameworks-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", top, name);
    return path;
}

static void folder_refused(const char *want)
{
    struct frameworks *made = NULL;
    op->note = (struct fault_note){ 0 };
    assert_fault(frameworks_load(op, top, &made), CONFIG);
    assert_null(made);
    if (strstr(op->note.detail, want) == NULL) {
        fail_msg("said '%s', not '%s'", op->note.detail, want);
    }
    op->note = (struct fault_note){ 0 };
}

static void a_folder_holds_all_frameworks_and_no_others(void **state)
{
    (void)state;
    struct frameworks *made = NULL;
    folder_refused("cannot be read, or holds too many files");
    assert_non_null(mkdtemp(top));
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(FRAMEWORK_FILE_MAX);
        char name[64], from[128];
        (void)snprintf(name, sizeof(name), "%s.yaml", framework_id(i));
        (void)snprintf(from, sizeof(from), FOLDER "/%s", name);
        folder_refused(name); /* the first that is not there */
        assert_fault(file_read(from, &text), NONE);
        assert_fault(file_write(path_of(name), buf_span(&text), 0600), NONE);
    }
    static const char *const wrong[] = { "iso-27001.yaml", "soc2.yml", "soc2.YAML" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_fault(file_write(path_of(wrong[i]), span_text("id: soc2\n"), 0600), NONE);
        folder_refused("is no framework of the service: take it away");
        assert_int_equal(unlink(path_of(wrong[i])), 0);
    }
    assert_fault(file_write(path_of("README"), span_text("for people"), 0600), NONE);
    assert_fault(frameworks_load(op, top, &made), NONE);
    frameworks_free(made);
    assert_fault(file_write(path_of("nis2.yaml"), span_text("id: nis2\nmore: 1\n"), 0600), NONE);
    folder_refused("frameworks/nis2.yaml:2: 'more' is no key of a framework");
    assert_int_equal(unlink(path_of("README")), 0);
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%s.yaml", framework_id(i));
        assert_int_equal(unlink(path_of(name)), 0);
    }
    assert_int_equal(rmdir(top), 0);
}

static struct fault load_once(void)
{
    CLEANUP(op_freep) struct op *own = NULL;
    CLEANUP(frameworks_freep) struct frameworks *made = NULL;
    TRY(op_new("test", (struct tenant_id){ "default" }, 60000, &own));
    const struct framework *framework = NULL;
    return framework_parse(own, "soc2", span_text(CONTROLS FACT GAPS), &framework);
}

static void no_failed_allocation_leaves_anything_behind(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(load_once) > 3);
}

/* ---- the rules of the contract ---- */

static void there_are_fifteen_in_the_contracts_order(void **state)
{
    (void)state;
    static const char *const want[] = { "pci-dss", "hipaa",    "soc2",     "nist-800-53", "nist-csf-2.0",
                                        "fedramp", "cmmc-2.0", "cnsa-2.0", "fips-140",    "common-criteria",
                                        "cabf-br", "webtrust", "etsi",     "eidas",       "nis2" };
    assert_int_equal(COUNT_OF(want), FRAMEWORKS);
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        assert_string_equal(framework_id(i), want[i]);
        assert_string_equal(frameworks_get(files, want[i])->id, want[i]);
        assert_true(framework_known(want[i]));
    }
    assert_false(framework_known("SOC2"));
    assert_false(framework_known(""));
    assert_false(framework_known(NULL));
    assert_null(frameworks_get(files, "iso-27001"));
}

/* The names of its prerequisites, in order, with a blank between them. */
static void names_of(const struct framework_control *control, char out[512])
{
    size_t len = 0;
    for (size_t i = 0; i < control->prerequisite_count; i++) {
        len += (size_t)snprintf(out + len, 512 - len, "%s%s", i > 0 ? " " : "", control->prerequisites[i].name);
        assert_true(len < 512);
    }
}

struct rule {
    const char *id, *control, *prerequisites;
};
static void assert_controls(const char *id, const struct rule *rules, size_t count)
{
    const struct framework *framework = frameworks_get(files, id);
    assert_int_equal(framework->control_count, count);
    for (size_t i = 0; i < count; i++) {
        char names[512] = "";
        names_of(&framework->controls[i], names);
        assert_string_equal(framework->controls[i].id, rules[i].control);
        assert_string_equal(names, rules[i].prerequisites);
    }
}

static void controls_that_the_contract_spells_out_ask_for_exactly_that(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        { "soc2", "CC6", "credential-inventory complete-ownership access-review" },
        { "soc2", "CC7", "policy-decision credential-lifecycle monitoring-event" },
        { "soc2", "CC8", "active-authored-policy policy-active approved-change credential-lifecycle" },
        { "fips-140", "7.2", "crypto-bill-of-materials approved-algorithms" },
        { "fips-140", "7.9", "custody-recorded custody-not-exportable" },
        { "fips-140", "7.10", "fips-module-active fips-self-test-passed" },
        { "common-criteria", "FDP_ACF.1", "active-authored-policy policy-active" },
        { "common-criteria", "FMT_SMR.2", "approved-change" },
        { "common-criteria", "FMT_MTD.1", "credential-lifecycle" },
        { "cabf-br", "4.3.1", "certificate-issued" },
        { "cabf-br", "4.9.1", "revocation-records" },
        { "cabf-br", "6.1.1", "authority-ceremony" },
        { "cabf-br", "6.2", "custody-recorded custody-not-exportable" },
        { "cabf-br", "7.1.2", "profile-decision" },
    };
    for (size_t from = 0; from < COUNT_OF(rules);) {
        size_t count = 1;
        while (from + count < COUNT_OF(rules) && strcmp(rules[from + count].id, rules[from].id) == 0) {
            count++;
        }
        assert_controls(rules[from].id, &rules[from], count);
        from += count;
    }
    const struct framework *common = frameworks_get(files, "common-criteria");
    for (size_t i = 0; i < common->control_count; i++) {
        const struct framework_condition *first = common->controls[i].prerequisites[0].where;
        assert_true(first != NULL && first->present && first->of == NULL); /* attributable: who acted stands there */
    }
}

static bool asks_fact(const struct framework *framework, const char *fact)
{
    for (size_t i = 0; i < framework->control_count; i++) {
        for (size_t j = 0; j < framework->controls[i].prerequisite_count; j++) {
            const struct framework_prerequisite *asked = &framework->controls[i].prerequisites[j];
            if (asked->kind == PREREQUISITE_FACT && strcmp(asked->fact, fact) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void six_frameworks_rest_on_audit_evidence_identities_and_posture(void **state)
{
    (void)state;
    static const char *const six[] = { "nist-800-53", "nist-csf-2.0", "fedramp", "cmmc-2.0", "eidas", "nis2" };
    static const char *const all_need[] = {
        "audit.chain-whole",     "credentials.current",      "credentials.least-privilege",
        "credentials.not-stale", "credentials.not-orphaned", "credentials.not-static",
        "cbom.current"
    };
    static const char *const others[] = { "custody.", "adcs.", "crypto-readiness.", "fips.", "tsa." };
    for (size_t i = 0; i < COUNT_OF(six); i++) {
        const struct framework *framework = frameworks_get(files, six[i]);
        for (size_t j = 0; j < COUNT_OF(all_need); j++) {
            assert_true(asks_fact(framework, all_need[j]));
        }
        for (unsigned j = 0; j < INVENTORY_FACT_COUNT; j++) {
            const char *fact = inventory_fact_text((enum inventory_fact)j);
            for (size_t k = 0; k < COUNT_OF(others); k++) {
                assert_false(strncmp(fact, others[k], strlen(others[k])) == 0 && asks_fact(framework, fact));
            }
        }
        for (size_t j = 0; j < framework->control_count; j++) {
            for (size_t k = 0; k < framework->controls[j].prerequisite_count; k++) {
                assert_int_not_equal(framework->controls[j].prerequisites[k].kind, PREREQUISITE_ATTESTATION);
            }
        }
    }
}

static const struct framework_gap *gap_of(const struct framework *framework, const char *id)
{
    for (size_t i = 0; i < framework->gap_count; i++) {
        if (strcmp(framework->gaps[i].id, id) == 0) {
            return &framework->gaps[i];
        }
    }
    return NULL;
}

static void what_is_left_to_operator_and_auditor_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *id, *gap;
        bool fillable;
    } rows[] = {
        { "soc2", "trust-services-scope", true },
        { "soc2", "management-assertion", true },
        { "soc2", "cpa-examination", false },
        { "fips-140", "build-provenance", true },
        { "fips-140", "crypto-boundary", true },
        { "fips-140", "cmvp-certificate", true },
        { "fips-140", "approved-deployment-configuration", true },
        { "common-criteria", "security-target", true },
        { "common-criteria", "toe-boundary", true },
        { "common-criteria", "evaluation-report", false },
        { "common-criteria", "evaluation-certificate", false },
        { "common-criteria", "protection-profile", true },
        { "cabf-br", "cp-cps-publication", true },
        { "cabf-br", "public-trust-audit", false },
        { "webtrust", "webtrust-opinion", false },
        { "etsi", "etsi-conformity-assessment", false },
    };
    static const char *const six[] = { "nist-800-53", "nist-csf-2.0", "fedramp", "cmmc-2.0", "eidas", "nis2" };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct framework_gap *gap = gap_of(frameworks_get(files, rows[i].id), rows[i].gap);
        assert_non_null(gap);
        assert_int_equal(gap->statement != NULL, rows[i].fillable);
        assert_int_equal(gap->owner, rows[i].fillable ? GAP_OPERATOR : GAP_AUDITOR);
    }
    for (size_t i = 0; i < COUNT_OF(six); i++) {
        const struct framework *framework = frameworks_get(files, six[i]);
        assert_non_null(gap_of(framework, "system-boundary"));
        assert_non_null(gap_of(framework, "authorization-package"));
        assert_non_null(gap_of(framework, "cui-scope"));
        assert_int_equal(gap_of(framework, "assessor-decision")->owner, GAP_AUDITOR);
    }
}

/* The approval names what was asked for and the requester itself (approval.granted: action, requester, approver). */
static void an_approval_counts_that_somebody_else_gave_to_a_signing(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        const struct framework *framework = frameworks_get(files, framework_id(i));
        for (size_t j = 0; j < framework->control_count; j++) {
            for (size_t k = 0; k < framework->controls[j].prerequisite_count; k++) {
                const struct framework_prerequisite *asked = &framework->controls[j].prerequisites[k];
                bool differs = false, signing = false;
                for (size_t n = 0; n < asked->where_count; n++) {
                    const char *from = asked->where[n].differs_from;
                    differs = differs || (from != NULL && strcmp(from, "data.requester") == 0 &&
                                          strcmp(asked->where[n].path, "data.approver") == 0);
                    signing =
                        signing || (strcmp(asked->where[n].path, "data.action") == 0 &&
                                    asked->where[n].value_count == 1 && strcmp(asked->where[n].values[0], "sign") == 0);
                }
                bool approval = asked->type_count == 1 && strcmp(asked->types[0], "approval.granted") == 0;
                assert_true(!approval || (differs && signing));
                seen += approval;
            }
        }
    }
    assert_true(seen >= 12);
}

/* What the service does by itself, at its start or on behalf of a request, is nobody's evidence. */
static void the_services_own_doings_evidence_nothing(void **state)
{
    (void)state;
    static const char *const never[] = { "tsa.clock.trusted", "tsa.unit.activated", "tsa.unit.retired", "key.erased" };
    size_t seen = 0;
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        const struct framework *framework = frameworks_get(files, framework_id(i));
        for (size_t j = 0; j < framework->control_count; j++) {
            for (size_t k = 0; k < framework->controls[j].prerequisite_count; k++) {
                const struct framework_prerequisite *asked = &framework->controls[j].prerequisites[k];
                size_t users = 0, keys = 0, actors = 0;
                for (size_t n = 0; n < asked->type_count; n++) {
                    for (size_t m = 0; m < COUNT_OF(never); m++) {
                        assert_string_not_equal(asked->types[n], never[m]);
                    }
                    keys += strncmp(asked->types[n], "key.", 4) == 0 && strncmp(asked->types[n], "key.probe", 9) != 0;
                    actors += strncmp(asked->types[n], "identity.token.", 15) == 0;
                }
                for (size_t n = 0; n < asked->where_count; n++) {
                    users += strcmp(asked->where[n].path, "data.system") == 0;
                    bool subject = strcmp(asked->where[n].path, "actor.subject") == 0;
                    actors = subject && asked->where[n].except_count > 0 ? 0 : actors;
                }
                assert_int_equal(users, keys);
                assert_int_equal(actors, 0);
                seen += keys > 0;
            }
        }
    }
    assert_true(seen >= 8);
}

/* Of these a tenant may have millions: they are counted, never looked into. */
static void no_condition_is_on_a_type_of_mass(void **state)
{
    (void)state;
    static const char *const mass[] = { "codesign.commanded",     "codesign.signed",
                                        "codesign.completed",     "codesign.keyless.signed",
                                        "tsa.timestamp.issued",   "codesign.ephemeral.destroyed",
                                        "transparency.published", "attestation.verified",
                                        "audit.feed.delivered" };
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        const struct framework *framework = frameworks_get(files, framework_id(i));
        for (size_t j = 0; j < framework->control_count; j++) {
            for (size_t k = 0; k < framework->controls[j].prerequisite_count; k++) {
                const struct framework_prerequisite *asked = &framework->controls[j].prerequisites[k];
                for (size_t n = 0; n < asked->type_count * COUNT_OF(mass); n++) {
                    bool same = strcmp(asked->types[n / COUNT_OF(mass)], mass[n % COUNT_OF(mass)]) == 0;
                    bool all = asked->where_count > 0 && asked->where[0].of == NULL;
                    assert_false(same && (all || asked->distinct_actors > 0));
                }
                for (size_t n = 0; n < asked->where_count * COUNT_OF(mass); n++) {
                    const char *of = asked->where[n / COUNT_OF(mass)].of;
                    assert_false(of != NULL && strcmp(of, mass[n % COUNT_OF(mass)]) == 0);
                }
            }
        }
    }
}

/* ---- the words ---- */

static void lower(char *text)
{
    for (; *text != '\0'; text++) {
        *text = (char)(*text >= 'A' && *text <= 'Z' ? *text + ('a' - 'A') : *text);
    }
}

/* Event types are named as they are. */
static void blank(char *text, const char *word)
{
    for (char *at = strstr(text, word); at != NULL; at = strstr(at, word)) {
        memset(at, ' ', strlen(word));
    }
}

static void no_file_says_that_anything_complies(void **state)
{
    (void)state;
    static const char *const words[] = { "compliant", "complies", "compliance with", "certified", "in conformity" };
    static const char *const types[] = { "key.certified", "tsa.unit.certified" };
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(FRAMEWORK_FILE_MAX);
        char path[128];
        (void)snprintf(path, sizeof(path), FOLDER "/%s.yaml", framework_id(i));
        assert_fault(file_read(path, &text), NONE);
        assert_fault(buf_u8(&text, 0), NONE);
        char *said = (char *)text.at;
        lower(said);
        for (size_t j = 0; j < COUNT_OF(types); j++) {
            blank(said, types[j]);
        }
        for (size_t j = 0; j < COUNT_OF(words); j++) {
            if (strstr(said, words[j]) != NULL) {
                fail_msg("%s says '%s'", path, words[j]);
            }
        }
    }
}

static void facts_have_names_and_only_those(void **state)
{
    (void)state;
    assert_string_equal(inventory_fact_text(INVENTORY_FACT_CUSTODY_RECORDED), "custody.recorded");
    for (unsigned i = 0; i < INVENTORY_FACT_COUNT; i++) {
        assert_true(inventory_fact_known(inventory_fact_text((enum inventory_fact)i)));
    }
    assert_false(inventory_fact_known(NULL));
    assert_false(inventory_fact_known(""));
    assert_false(inventory_fact_known("custody"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_not_as_it_must_be_is_refused_with_its_line),
        cmocka_unit_test(too_much_of_anything_is_refused),
        cmocka_unit_test(a_folder_holds_all_frameworks_and_no_others),
        cmocka_unit_test(no_failed_allocation_leaves_anything_behind),
        cmocka_unit_test(there_are_fifteen_in_the_contracts_order),
        cmocka_unit_test(controls_that_the_contract_spells_out_ask_for_exactly_that),
        cmocka_unit_test(six_frameworks_rest_on_audit_evidence_identities_and_posture),
        cmocka_unit_test(what_is_left_to_operator_and_auditor_is_named),
        cmocka_unit_test(an_approval_counts_that_somebody_else_gave_to_a_signing),
        cmocka_unit_test(the_services_own_doings_evidence_nothing),
        cmocka_unit_test(no_condition_is_on_a_type_of_mass),
        cmocka_unit_test(no_file_says_that_anything_complies),
        cmocka_unit_test(facts_have_names_and_only_those),
    };
    return cmocka_run_group_tests(tests, load_files, free_files);
}
