/* The report that people read and print: one file, no script, nothing from elsewhere, every value escaped. */
#include "api/compliance/render_html.h"

#include "appliance/base/codec.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri "
    "'none'; form-action 'none'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n";

/* Colours in pairs that keep 4.5:1 on their ground; a verdict is a word first and a colour second. */
static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--ground:#fff;--ink:#1b1f24;--quiet:#57606a;--line:#d0d7de;--fill:#f6f8fa;"
    "--good:#116329;--open:#9a3412}\n"
    "@media (prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--quiet:#9ea7b3;--line:#30363d;"
    "--fill:#161b22;--good:#56d364;--open:#ffa657}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:62rem;padding:1.5rem;background:var(--ground);color:var(--ink);"
    "font:1rem/1.5 system-ui,sans-serif;overflow-wrap:break-word}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:0 0 .5rem}h2{font-size:1.3rem;margin:2.2rem 0 .5rem;"
    "border-bottom:1px solid var(--line)}h3{font-size:1.08rem;margin:1.6rem 0 .3rem}h4{font-size:1rem;margin:1rem 0 "
    ".2rem}\n"
    "p{margin:.4rem 0}a{color:inherit}.quiet{color:var(--quiet)}.notice{border-left:.25rem solid var(--line);"
    "padding:.3rem .8rem;background:var(--fill)}\n"
    "table{width:100%;border-collapse:collapse;margin:.5rem 0;font-size:.92rem}th,td{border:1px solid var(--line);"
    "padding:.3rem .5rem;text-align:left;vertical-align:top}th{background:var(--fill)}caption{text-align:left;"
    "color:var(--quiet);padding:.2rem 0}\n"
    "td,dd,code,.value{unicode-bidi:isolate}code{font:.88em ui-monospace,monospace;overflow-wrap:anywhere}"
    "thead th,.evidenced,.gap,.met,.unmet{white-space:nowrap}td.references{min-width:17rem}\n"
    "dl{display:grid;grid-template-columns:minmax(9rem,max-content) 1fr;gap:.15rem .9rem;margin:.5rem 0}"
    "dt{color:var(--quiet)}dd{margin:0;min-width:0}\n"
    ".evidenced,.met{color:var(--good);font-weight:600}.gap,.unmet{color:var(--open);font-weight:600}\n"
    "ul{margin:.2rem 0;padding-left:1.2rem}.scroll{overflow-x:auto}\n"
    "@media (max-width:40rem){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}\n"
    "@page{margin:16mm 14mm}\n"
    "@media print{:root{--ground:#fff;--ink:#000;--quiet:#444;--line:#999;--fill:#f2f2f2;--good:#064d1a;--open:#7a2408}"
    "body{max-width:none;padding:0;font-size:10pt}h2{break-before:page}h2.here{break-before:auto}"
    "h1,h2,h3,h4,caption{break-after:avoid}tr,dl,.notice{break-inside:avoid}thead{display:table-header-group}"
    "section.control{break-inside:auto}.scroll{overflow:visible}a{text-decoration:none}}\n"
    "</style>\n</head>\n<body>\n";

/* ---- escaping ---- */

/* A control character is none of HTML's; it is shown that there was one. */
static struct fault put_char(struct buf *out, uint8_t c)
{
    switch (c) {
    case '&':
        return buf_text(out, "&amp;");
    case '<':
        return buf_text(out, "&lt;");
    case '>':
        return buf_text(out, "&gt;");
    case '"':
        return buf_text(out, "&quot;");
    case '\'':
        return buf_text(out, "&#39;");
    default:
        return c < ' ' && c != '\n' && c != '\t' ? buf_text(out, "\xef\xbf\xbd") : buf_u8(out, c);
    }
}

struct fault html_span(struct buf *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        TRY(put_char(out, text.at[i]));
    }
    return OK;
}

struct fault html_text(struct buf *out, const char *text)
{
    return html_span(out, span_text(text));
}

struct fault html_element(struct buf *out, const char *open, const char *text, const char *close)
{
    TRY(buf_text(out, open));
    TRY(html_text(out, text));
    return buf_text(out, close);
}

struct fault html_pair(struct buf *out, const char *term, const char *text)
{
    TRY(html_element(out, "<dt>", term, "</dt>"));
    return html_element(out, "<dd>", text, "</dd>\n");
}

/* ---- the head of the report ---- */

static struct fault put_identity(struct page *page)
{
    const struct evidence_verdict *verdict = page->verdict;
    char hex[2 * SHA256_LEN + 1], time[RFC3339_MAX];
    hex_text(SPAN_ARRAY(verdict->digest.at), hex, sizeof(hex));
    TRY(buf_text(page->out, "<dl>\n"));
    TRY(html_pair(page->out, "Framework", member(page, page->manifest, "framework.catalogue")));
    TRY(html_pair(page->out, "Version", member(page, page->manifest, "framework.version")));
    TRY(html_pair(page->out, "Tenant", verdict->tenant));
    TRY(html_pair(page->out, "Generated", verdict->generated_at));
    TRY(html_pair(page->out, "Window from", member(page, page->manifest, "evidence_window.from")));
    TRY(html_pair(page->out, "Window to", member(page, page->manifest, "evidence_window.to")));
    TRY(html_element(page->out, "<dt>Manifest SHA-256</dt><dd><code>", hex, "</code></dd>\n"));
    TRY(html_element(page->out, "<dt>Signed by key</dt><dd><code>", verdict->kid, "</code></dd>\n"));
    if (verdict->timestamp_good) {
        rfc3339_print(verdict->timestamp_at, time);
        TRY(html_pair(page->out, "Time stamp", time));
    } else {
        TRY(html_pair(page->out, "Time stamp", verdict->timestamp_there ? "there is one; it was not judged" : "none"));
    }
    return buf_text(page->out, "</dl>\n");
}

static struct fault put_overview(struct page *page)
{
    struct view controls = view_get(page->manifest, "verdicts"), control;
    const struct evidence_verdict *verdict = page->verdict;
    TRY(buf_printf(
        page->out,
        "<h2 class=\"here\" id=\"overview\">Overview</h2>\n<p>%lld of %lld controls evidenced; %lld of %lld "
        "points that are left to operator and auditor are open.</p>\n<div class=\"scroll\" role=\"group\" tabindex=\"0\"><table>\n<thead><tr>"
        "<th scope=\"col\">Control</th><th scope=\"col\">Title</th><th scope=\"col\">Verdict</th>"
        "<th scope=\"col\">Missing</th></tr></thead>\n<tbody>\n",
        (long long)verdict->evidenced, (long long)verdict->controls, (long long)verdict->gaps_open,
        (long long)verdict->gaps));
    for (size_t i = 0; view_next(&controls, &control); i++) {
        struct view missing = view_get(control, "missing_prerequisites"), row;
        bool evidenced = is_evidenced(control);
        TRY(buf_printf(page->out, "<tr><th scope=\"row\"><a href=\"#control-%zu\">", i));
        TRY(html_element(page->out, "", member(page, control, "control"), "</a></th>"));
        TRY(html_element(page->out, "<td>", member(page, control, "title"), "</td>"));
        TRY(buf_printf(page->out, "<td class=\"%s\">%s</td><td>", evidenced ? "evidenced" : "gap",
                       evidenced ? "evidenced" : "gap"));
        for (bool first = true; view_next(&missing, &row); first = false) {
            TRY(html_element(page->out, first ? "" : ", ", member(page, row, "name"), ""));
        }
        TRY(buf_text(page->out, "</td></tr>\n"));
    }
    return buf_text(page->out, "</tbody>\n</table></div>\n");
}

static struct fault put_page(struct page *page)
{
    TRY(buf_text(page->out, head));
    TRY(html_element(page->out, "<title>Evidence for ", page->verdict->framework, ""));
    TRY(html_element(page->out, ", ", page->verdict->tenant, "</title>\n"));
    TRY(buf_text(page->out, style));
    TRY(html_element(page->out, "<header>\n<h1>Evidence for <span class=\"value\">", page->verdict->framework,
                     "</span></h1>\n"));
    TRY(html_element(page->out, "<p class=\"notice\">", member(page, page->manifest, "notice"),
                     " This page shows a signed manifest and is not signed itself.</p>\n"));
    TRY(put_identity(page));
    TRY(buf_text(page->out, "</header>\n<main>\n"));
    TRY(put_overview(page));
    TRY(html_controls(page));
    TRY(html_gaps(page));
    TRY(html_trail(page));
    TRY(html_datasets(page));
    return buf_text(page->out, "</main>\n</body>\n</html>\n");
}

struct fault render_html(struct op *op, const struct evidence_verdict *verdict, struct buf *out)
{
    struct page page = { .op = op, .out = out, .verdict = verdict, .manifest = { verdict->payload } };
    if (verdict->reason != PACK_HOLDS || verdict->kind != EVIDENCE_KIND_PACK || verdict->payload.len == 0) {
        return op_fail(op, FAULT(UNSUPPORTED), "only a verified evidence pack has this rendering");
    }
    return put_page(&page);
}
