/* Controls with their prerequisites, and what is left to operator and auditor. */
#include "api/compliance/render_html.h"

static struct fault put_reference(struct page *page, struct view reference)
{
    const char *digest = member(page, reference, "evidence_sha256");
    if (member(page, reference, "object") != NULL) {
        TRY(html_element(page->out, "<li>object <code>", member(page, reference, "object"), "</code>"));
        return html_element(page->out, " as of ", member(page, reference, "snapshot_at"), "</li>");
    }
    TRY(html_element(page->out, "<li>record ", member(page, reference, "sequence"), ""));
    TRY(html_element(page->out, ", ", member(page, reference, "type"), ""));
    TRY(html_element(page->out, ", ", member(page, reference, "observed_at"), ""));
    TRY(html_element(page->out, "<br>event <code>", member(page, reference, "event_id"), "</code>"));
    TRY(html_element(page->out, "<br>chain <code>", member(page, reference, "chain"), "</code>"));
    if (digest != NULL) {
        TRY(html_element(page->out, "<br>evidence SHA-256 <code>", digest, "</code>"));
    }
    return buf_text(page->out, "</li>");
}

static struct fault put_references(struct page *page, struct view references)
{
    struct view reference;
    bool any = false;
    while (view_next(&references, &reference)) {
        TRY(any ? OK : buf_text(page->out, "<ul>"));
        any = true;
        TRY(put_reference(page, reference));
    }
    return buf_text(page->out, any ? "</ul>" : "none");
}

static struct fault put_population(struct page *page, struct view population)
{
    struct view excluded = view_get(population, "excluded"), row;
    TRY(html_element(page->out, "", member(page, population, "matched"), " matched of "));
    TRY(html_element(page->out, "", member(page, population, "total"), ""));
    while (view_next(&excluded, &row)) {
        TRY(html_element(page->out, "; ", member(page, row, "count"), " excluded"));
        TRY(html_element(page->out, " (", member(page, row, "reason"), ")"));
    }
    return html_element(page->out, "<br><span class=\"quiet\">", member(page, population, "query"), "</span>");
}

static struct fault put_prerequisite(struct page *page, struct view prerequisite)
{
    bool met = span_equal_text(view_get(prerequisite, "state").json, "\"met\"");
    TRY(html_element(page->out, "<tr><th scope=\"row\">", member(page, prerequisite, "title"), ""));
    TRY(html_element(page->out, "<br><code>", member(page, prerequisite, "name"), "</code></th>"));
    TRY(buf_printf(page->out, "<td class=\"%s\">", met ? "met" : "unmet"));
    TRY(html_element(page->out, "", member(page, prerequisite, "state"), "</td>"));
    TRY(html_element(page->out, "<td>", member(page, prerequisite, "why"), "<br>"));
    TRY(put_population(page, view_get(prerequisite, "population")));
    TRY(buf_text(page->out, "</td><td class=\"references\">"));
    TRY(put_references(page, view_get(prerequisite, "references")));
    return buf_text(page->out, "</td></tr>\n");
}

static struct fault put_missing(struct page *page, struct view missing)
{
    struct view row;
    bool any = false;
    while (view_next(&missing, &row)) {
        TRY(any ? OK : buf_text(page->out, "<h4>What to do</h4>\n<ul>\n"));
        any = true;
        TRY(html_element(page->out, "<li><code>", member(page, row, "name"), "</code> "));
        TRY(html_element(page->out, "(", member(page, row, "state"), "): "));
        TRY(html_element(page->out, "", member(page, row, "recovery"), "</li>\n"));
    }
    return any ? buf_text(page->out, "</ul>\n") : OK;
}

static struct fault put_control(struct page *page, struct view control, size_t i)
{
    struct view prerequisites = view_get(control, "prerequisites"), prerequisite;
    bool evidenced = is_evidenced(control);
    TRY(buf_printf(page->out, "<section class=\"control\" id=\"control-%zu\">\n", i));
    TRY(html_element(page->out, "<h3>", member(page, control, "control"), ": "));
    TRY(html_element(page->out, "", member(page, control, "title"), "</h3>\n"));
    TRY(buf_printf(page->out, "<p>Verdict: <span class=\"%s\">%s</span></p>\n", evidenced ? "evidenced" : "gap",
                   evidenced ? "evidenced" : "gap"));
    TRY(buf_text(
        page->out,
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Prerequisite</th>"
        "<th scope=\"col\">State</th><th scope=\"col\">Found</th>"
        "<th scope=\"col\">References</th></tr></thead>\n<tbody>\n"));
    while (view_next(&prerequisites, &prerequisite)) {
        TRY(put_prerequisite(page, prerequisite));
    }
    TRY(buf_text(page->out, "</tbody>\n</table></div>\n"));
    TRY(put_missing(page, view_get(control, "missing_prerequisites")));
    return buf_text(page->out, "</section>\n");
}

struct fault html_controls(struct page *page)
{
    struct view controls = view_get(page->manifest, "verdicts"), control;
    TRY(buf_text(page->out, "<h2 id=\"controls\">Controls</h2>\n"));
    for (size_t i = 0; view_next(&controls, &control); i++) {
        TRY(put_control(page, control, i));
    }
    return OK;
}

struct fault html_gaps(struct page *page)
{
    struct view gaps = view_get(page->manifest, "attestation_gaps"), gap;
    TRY(buf_text(
        page->out,
        "<h2 id=\"gaps\">Left to operator and auditor</h2>\n<div class=\"scroll\" role=\"group\" tabindex=\"0\"><table>\n<thead><tr>"
        "<th scope=\"col\">Point</th><th scope=\"col\">Owner</th><th scope=\"col\">State</th>"
        "<th scope=\"col\">Attestation</th></tr></thead>\n<tbody>\n"));
    while (view_next(&gaps, &gap)) {
        struct view reference = view_get(gap, "attestation.reference");
        bool attested = view_is_there(reference);
        TRY(html_element(page->out, "<tr><th scope=\"row\">", member(page, gap, "title"), ""));
        TRY(html_element(page->out, "<br><code>", member(page, gap, "id"), "</code></th>"));
        TRY(html_element(page->out, "<td>", member(page, gap, "owner"), "</td>"));
        TRY(buf_text(page->out, attested ? "<td class=\"met\">attested" : "<td class=\"unmet\">open"));
        TRY(html_element(page->out, " (", member(page, gap, "state"), ")</td><td>"));
        if (attested) {
            TRY(buf_text(page->out, "<ul>"));
            TRY(put_reference(page, reference));
            TRY(buf_text(page->out, "</ul>"));
        }
        TRY(buf_text(page->out, "</td></tr>\n"));
    }
    return buf_text(page->out, "</tbody>\n</table></div>\n");
}
