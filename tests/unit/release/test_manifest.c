#include "unit/release/release_testlib.h"

#include "appliance/release/footer.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PARTS                                                                                                  \
    "\"parts\":[{\"name\":\"root\",\"sha256\":\"" HEX "\",\"size\":40960},{\"name\":\"uki\",\"sha256\":\"" HEX \
    "\",\"size\":9}]"
#define GOOD                                                                                                        \
    "{\"blocks\":8,\"created\":\"2026-11-22T00:00:00.000000Z\",\"format\":\"svc.update.v1\",\"min_version\":\"0.1." \
    "0\",\"name\":\"svc\"," PARTS ",\"profile\":\"small\",\"roothash\":\"" HEX "\",\"salt\":\"" HEX                 \
    "\",\"version\":\"0.2.0\"}"

/* GOOD with one text in place of another. */
static struct fault parse_with(struct op *op, const char *old, const char *new)
{
    static const char good[] = GOOD;
    char json[4096];
    struct release_manifest manifest;
    const char *at = strstr(good, old);
    assert_non_null(at);
    (void)snprintf(json, sizeof(json), "%.*s%s%s", (int)(at - good), good, new, at + strlen(old));
    op->note = (struct fault_note){ 0 };
    return release_manifest_parse(op, span_text(json), &manifest);
}

static void a_version_has_one_text(void **state)
{
    (void)state;
    static const char *const bad[] = { "",       "1",      "1.2",     "1.2.3.4",       "01.2.3",     "1.2.03",
                                       "1..3",   "1.2.3 ", " 1.2.3",  "1.2.3-rc",      "100000.0.0", "-1.2.3",
                                       "+1.2.3", "1.2.x",  "1.2.3\n", "4294967296.0.0" };
    struct version version = { 9, 9, 9 }, other = { 0 };
    char text[VERSION_TEXT_MAX];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(version_parse(span_text(bad[i]), &version), BAD_ARGUMENT);
    }
    assert_fault(version_parse(span_of("1.2.3\0", 6), &version), BAD_ARGUMENT);
    assert_int_equal(version.major, 9);
    assert_fault(version_parse(span_text("99999.0.10"), &version), NONE);
    version_print(version, text);
    assert_string_equal(text, "99999.0.10");
    assert_fault(version_parse(span_text("99999.0.9"), &other), NONE);
    assert_true(version_compare(other, version) < 0 && version_compare(version, other) > 0);
    assert_int_equal(version_compare(version, version), 0);
}

static void what_is_not_just_a_manifest_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *old, *new;
    } bad[] = {
        { "svc.update.v1", "svc.update.v2" },         /* another format */
        { "svc.update.v1", "svc.extension.v1" },      /* its parts are not those of the kind */
        { "\"name\":\"svc\"", "\"name\":\"other\"" }, /* another product */
        { "\"name\":\"svc\"", "\"name\":\"../svc\"" },
        { "\"version\":\"0.2.0\"", "\"version\":\"0.2\"" },
        { "\"min_version\":\"0.1.0\"", "\"min_version\":\"\"" },
        { "\"profile\":\"small\"", "\"profile\":\"any\"" }, /* an update is for one */
        { "\"profile\":\"small\"", "\"profile\":\"a/b\"" },
        { "\"profile\":\"small\"", "\"profile\":\"0123456789abcdef\"" },
        { "\"blocks\":8", "\"blocks\":9" }, /* no room for the tree in the part */
        { "\"blocks\":8", "\"blocks\":1" },
        { "\"blocks\":8", "\"blocks\":-8" },
        { "\"blocks\":8", "\"blocks\":18446744073709551624" },
        { "\"size\":40960", "\"size\":40961" },
        { "\"size\":40960", "\"size\":9007199254740992" },
        { "\"size\":40960", "\"size\":0" },
        { "\"size\":9", "\"size\":268435457" },        /* an uki is smaller */
        { "{\"name\":\"root\"", "{\"name\":\"uki\"" }, /* the same part twice */
        { "{\"name\":\"uki\"", "{\"name\":\"root\"" },
        { ",{\"name\":\"uki\",\"sha256\":\"" HEX "\",\"size\":9}", "" },
        { "\"size\":9}]", "\"size\":9},{\"name\":\"uki\",\"sha256\":\"" HEX "\",\"size\":9}]" },
        { "\"parts\":[", "\"parts\":[5," },
        { "\"salt\":\"0", "\"salt\":\"" },
        { "\"roothash\":\"0", "\"roothash\":\"A" },
        { "\"profile\"", "\"prefix\":1,\"profile\"" }, /* unknown */
        { ",\"profile\":\"small\"", "" },
        { "\"version\":\"0.2.0\"", "\"version\":\"0.2.0\",\"version\":\"0.2.1\"" },
        { "{\"blocks\"", "{ \"blocks\"" }, /* not the one form */
        { "\"0.2.0\"}", "\"0.2.0\"}\n" },
        { "2026-11-22", "2026-13-22" },
    };
    CLEANUP(op_freep) struct op *op = made_op();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct fault fault = parse_with(op, bad[i].old, bad[i].new);
        if (fault.code != FAULT_RELEASE_FILE || op->note.detail[0] == '\0') {
            fail_msg("row %zu (%s): %s %s", i, bad[i].new, fault_row(fault.code)->text, op->note.detail);
        }
    }
}

static void a_manifest_is_read_as_it_is_printed(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = made_op();
    CLEANUP(buf_free) struct buf out = BUF_INIT(RELEASE_MANIFEST_MAX);
    struct release_manifest manifest;
    assert_fault(release_manifest_parse(op, span_text(GOOD), &manifest), NONE);
    assert_int_equal(manifest.kind, RELEASE_UPDATE);
    assert_int_equal(manifest.part_count, 2);
    assert_int_equal(manifest.parts[RELEASE_PART_UKI].size, 9);
    assert_string_equal(manifest.tree.salt, HEX);
    assert_fault(release_manifest_print(op, &manifest, &out), NONE);
    assert_span_text(buf_span(&out), GOOD);
    manifest.tree.blocks = 9;
    assert_fault(release_manifest_print(op, &manifest, &out), RELEASE_FILE);
}

static void a_footer_has_one_form(void **state)
{
    (void)state;
    uint8_t bytes[RELEASE_FOOTER], changed[RELEASE_FOOTER];
    struct release_footer footer = { .version = { 0, 2, 0 }, .tree = { .blocks = 77 } }, read = { 0 };
    (void)snprintf(footer.tree.roothash, sizeof(footer.tree.roothash), HEX);
    (void)snprintf(footer.tree.salt, sizeof(footer.tree.salt), HEX);
    release_footer_print(&footer, bytes);
    size_t len = strlen((const char *)bytes);
    for (size_t i = 0; i < len + 2; i++) { /* each byte counts, and the first ones behind the text */
        memcpy(changed, bytes, sizeof(bytes));
        changed[i] = (uint8_t)(changed[i] ^ 0x80);
        assert_fault(release_footer_parse(changed, &read), NOT_FOUND);
    }
    memset(changed, 0, sizeof(changed));
    assert_fault(release_footer_parse(changed, &read), NOT_FOUND);
    memset(changed, 'S', sizeof(changed));
    assert_fault(release_footer_parse(changed, &read), NOT_FOUND);
    assert_fault(release_footer_parse(bytes, &read), NONE);
    assert_int_equal(read.tree.blocks, 77);
    assert_string_equal(read.tree.roothash, HEX);
    assert_string_equal((const char *)bytes, "SVCROOT1\nversion=0.2.0\nroothash=" HEX "\nblocks=77\nsalt=" HEX "\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_has_one_text),
        cmocka_unit_test(what_is_not_just_a_manifest_is_refused),
        cmocka_unit_test(a_manifest_is_read_as_it_is_printed),
        cmocka_unit_test(a_footer_has_one_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
