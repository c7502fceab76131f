/* The renderings of a pack: nothing of anybody's text becomes markup, and both say what was signed, the same each time.
 */
#include "unit/compliance/pack_sample.h"

struct rendered {
    struct op *op;
    struct evidence_verdict verdict;
    struct buf pack, out;
};

static void rendered_clear(struct rendered *rendered)
{
    op_free(TAKE(rendered->op));
    buf_free(&rendered->pack);
    buf_free(&rendered->out);
}

typedef struct fault (*render_fn)(struct op *op, const struct evidence_verdict *verdict, struct buf *out);

static void render(render_fn fn, const char *find, const char *put, struct rendered *rendered)
{
    CLEANUP(buf_free) struct buf manifest = BUF_INIT(PACK_ROOM), canonical = BUF_INIT(PACK_ROOM);
    CLEANUP(jwk_set_free) struct jwk_set keys = { 0 };
    const struct evidence_pins pins = { .keys = &keys };
    *rendered = (struct rendered){ .pack = BUF_INIT(PACK_ROOM), .out = BUF_INIT(PACK_ROOM) };
    sample_plain(&manifest);
    if (find != NULL) {
        text_replace(&manifest, find, put);
    }
    assert_fault(json_canonical(buf_span(&manifest), &canonical), NONE);
    sample_pack(&(struct pack_recipe){ .signer = NULL }, buf_span(&canonical), &rendered->pack);
    sample_keys(made_by.exporter, &keys);
    assert_fault(evidence_verify_op(rendered->pack.len, &rendered->op), NONE);
    struct fault fault = evidence_verify(rendered->op, buf_span(&rendered->pack), &pins, &rendered->verdict);
    if (FAULTED(fault)) {
        fail_msg("%s: %s", rendered->verdict.member, rendered->verdict.why);
    }
    assert_fault(fn(rendered->op, &rendered->verdict, &rendered->out), NONE);
}

static bool has(const struct rendered *rendered, const char *text)
{
    return memmem(rendered->out.at, rendered->out.len, text, strlen(text)) != NULL;
}

static void assert_digest_stands_in_it(const struct rendered *rendered)
{
    char hex[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(rendered->verdict.digest.at), hex, sizeof(hex));
    assert_true(has(rendered, hex));
}

static void what_does_not_hold_and_what_is_no_pack_is_not_rendered(void **state)
{
    CLEANUP(rendered_clear) struct rendered rendered = { 0 };
    (void)state;
    render(render_html, NULL, NULL, &rendered);
    buf_clear(&rendered.out);
    struct evidence_verdict refused = rendered.verdict, report = rendered.verdict, empty = { .reason = PACK_HOLDS };
    refused.reason = PACK_SIGNATURE;
    report.kind = EVIDENCE_KIND_REPORT;
    const struct evidence_verdict *verdicts[] = { &refused, &report, &empty };
    for (size_t i = 0; i < COUNT_OF(verdicts); i++) {
        assert_fault(render_html(rendered.op, verdicts[i], &rendered.out), UNSUPPORTED);
        assert_fault(render_oscal(rendered.op, verdicts[i], &rendered.out), UNSUPPORTED);
        assert_int_equal(rendered.out.len, 0);
    }
}

/* Wherever text of the tenant or of a framework file comes out: in elements, headings, lists, the title. */
static void no_value_becomes_markup(void **state)
{
    static const struct {
        const char *find, *put;
    } rows[] = {
        { "Access <script>alert(1)</script>", "</h3><script>alert(1)</script>" },
        { "\"title\":\"Signatures\"", "\"title\":\"<img src=x onerror=alert(1)>\"" },
        { "Ten of ten are as they should be.", "<svg/onload=alert(1)>\\u0001\\u001b[31m" },
        { "\"name\":\"a\"", "\"name\":\"a\"" },
        { "\"domains\":[]", "\"domains\":[{\"<b onclick=x>\":\"'\\\"><script>\"}]" },
        { "\"id\":\"cpa-examination\"", "\"id\":\"<iframe src=//x>\"" },
        { "CN=<b>x</b>", "CN=</dd></dl><style>*{display:none}</style>" },
        { "codesign.refused\"}", "<embed>.refused\"}" },
        { "Trust Services Criteria", "</title><script>alert(1)</script>" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CLEANUP(rendered_clear) struct rendered rendered = { 0 };
        render(render_html, rows[i].find, rows[i].put, &rendered);
        assert_digest_stands_in_it(&rendered);
        const char *never[] = { "<script", "<img", "<svg", "<iframe", "<embed", "<b", "onclick=x>", "\x1b", "\x01" };
        for (size_t j = 0; j < COUNT_OF(never); j++) {
            bool is_ours = strcmp(never[j], "<b") == 0 && (has(&rendered, "<body>") || has(&rendered, "<br>"));
            assert_true(is_ours || !has(&rendered, never[j]));
        }
        const uint8_t *first = memmem(rendered.out.at, rendered.out.len, "<style", 6);
        assert_non_null(first);
        assert_null(memmem(first + 1, rendered.out.len - (size_t)(first + 1 - rendered.out.at), "<style", 6));
    }
}

/* Nothing is fetched from anywhere, and nothing runs. */
static void the_page_needs_nothing_but_itself(void **state)
{
    static const char *const never[] = {
        "http:", "https:", "src=", "url(", "@import", "<link", "javascript:", "<form"
    };
    static const char *const always[] = { "default-src 'none'",
                                          "@media print",
                                          "break-before:page",
                                          "prefers-color-scheme:dark",
                                          "lang=\"en\"",
                                          "<title>",
                                          "width=device-width",
                                          "CC6.1",
                                          "wait for one",
                                          "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&quot;",
                                          "no claim of compliance or certification",
                                          "1 of 2 controls evidenced; 1 of 2 points" };
    CLEANUP(rendered_clear) struct rendered rendered = { 0 };
    (void)state;
    render(render_html, NULL, NULL, &rendered);
    for (size_t i = 0; i < COUNT_OF(never); i++) {
        assert_false(has(&rendered, never[i]));
    }
    for (size_t i = 0; i < COUNT_OF(always); i++) {
        if (!has(&rendered, always[i])) {
            fail_msg("\"%s\" does not stand in the page", always[i]);
        }
    }
}

static void the_same_pack_gives_the_same_bytes(void **state)
{
    static const render_fn fns[] = { render_html, render_oscal };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(fns); i++) {
        CLEANUP(rendered_clear) struct rendered first = { 0 }, second = { 0 };
        render(fns[i], NULL, NULL, &first);
        render(fns[i], NULL, NULL, &second);
        assert_true(span_equal(buf_span(&first.out), buf_span(&second.out)));
    }
}

/* ---- OSCAL ---- */

static const char *text_at(struct op *op, struct view view, const char *path)
{
    const char *text = view_member(op, view, path);
    return text != NULL ? text : "";
}

static bool is_oscal_uuid(const char *text)
{
    return strlen(text) == 36 && text[14] == '5' && strchr("89ab", text[19]) != NULL;
}

static void the_oscal_document_has_what_its_schema_requires(void **state)
{
    static const char *const required[] = {
        "uuid",          "metadata.title", "metadata.last-modified", "metadata.version", "metadata.oscal-version",
        "import-ap.href"
    };
    CLEANUP(rendered_clear) struct rendered rendered = { 0 };
    struct view document, results, result, list, item;
    size_t observations = 0, findings = 0;
    (void)state;
    render(render_oscal, NULL, NULL, &rendered);
    assert_digest_stands_in_it(&rendered);
    assert_fault(view_of(rendered.op, buf_span(&rendered.out), &document), NONE);
    document = view_get(document, "assessment-results");
    for (size_t i = 0; i < COUNT_OF(required); i++) {
        assert_string_not_equal(text_at(rendered.op, document, required[i]), "");
    }
    assert_string_equal(text_at(rendered.op, document, "metadata.oscal-version"), "1.1.2");
    results = view_get(document, "results");
    assert_true(view_next(&results, &result));
    assert_true(view_is_there(view_get(result, "reviewed-controls.control-selections")));
    list = view_get(result, "observations");
    for (; view_next(&list, &item); observations++) {
        assert_true(is_oscal_uuid(text_at(rendered.op, item, "uuid")));
        assert_string_not_equal(text_at(rendered.op, item, "description"), "");
        assert_true(view_is_there(view_get(item, "methods")));
        assert_string_equal(text_at(rendered.op, item, "collected"), "2027-01-15T08:00:00.000000Z");
    }
    list = view_get(result, "findings");
    for (; view_next(&list, &item); findings++) {
        const char *wanted = findings == 0 ? "satisfied" : "not-satisfied";
        assert_true(is_oscal_uuid(text_at(rendered.op, item, "uuid")));
        assert_string_equal(text_at(rendered.op, item, "target.status.state"), wanted);
        assert_true(view_is_there(view_get(item, "target.status.reason")) == (findings == 1));
        assert_string_equal(text_at(rendered.op, item, "target.type"), "objective-id");
        assert_string_equal(text_at(rendered.op, item, "target.target-id"), findings == 0 ? "cc6.1" : "cc7.1");
        assert_true(view_is_there(view_get(item, "remarks")) == (findings == 1));
    }
    assert_int_equal(observations, 5 + 2); /* prerequisites, and what is left to others */
    assert_int_equal(findings, 2);
}

/* RFC 9562 5.5, made once elsewhere: uuid5(RENDER_UUID_NAMESPACE, "<64 zeros>/result"). */
static void identifiers_follow_from_the_digest(void **state)
{
    struct sha256 digest = { 0 };
    struct uuid first, second;
    (void)state;
    assert_fault(render_uuid(&digest, "result", &first), NONE);
    assert_string_equal(first.text, "39a2cbfb-ef02-51b8-b5a8-1e6d0d1badef");
    digest.at[31] = 1;
    assert_fault(render_uuid(&digest, "result", &second), NONE);
    assert_string_not_equal(first.text, second.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_hold_and_what_is_no_pack_is_not_rendered),
        cmocka_unit_test(no_value_becomes_markup),
        cmocka_unit_test(the_page_needs_nothing_but_itself),
        cmocka_unit_test(the_same_pack_gives_the_same_bytes),
        cmocka_unit_test(the_oscal_document_has_what_its_schema_requires),
        cmocka_unit_test(identifiers_follow_from_the_digest),
    };
    return cmocka_run_group_tests(tests, artifact_start, artifact_stop);
}
