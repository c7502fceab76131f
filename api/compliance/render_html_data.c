/* The audit trail that was looked at, and the datasets: JSON of any shape as lists and tables. */
#include "api/compliance/render_html.h"

#include "appliance/base/json.h"

#define DEPTH_MAX 12
#define ROWS_MAX  1000 /* of one array: more of them nobody reads on paper, and the pack has them all */

struct fault html_trail(struct page *page)
{
    struct view types = view_get(page->manifest, "population.by_type"), row;
    static const char *const paths[][2] = { { "Head sequence", "audit.head_sequence" },
                                            { "Chain head", "audit.chain_head" },
                                            { "Generation of the history", "audit.generation" },
                                            { "Archived through", "audit.archived_through" },
                                            { "Population", "population.query" },
                                            { "Records in the window", "population.total" },
                                            { "First of them", "population.first_sequence" },
                                            { "Last of them", "population.last_sequence" },
                                            { "Records outside of it", "population.outside_window" },
                                            { "Archived records of the window", "population.archived_in_window" } };
    TRY(buf_text(page->out, "<h2 id=\"trail\">Audit trail</h2>\n<dl>\n"));
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        TRY(html_pair(page->out, paths[i][0], member(page, page->manifest, paths[i][1])));
    }
    TRY(buf_text(page->out, "</dl>\n<table>\n<caption>Records in the window by type</caption>\n<thead><tr>"
                            "<th scope=\"col\">Type</th><th scope=\"col\">Count</th></tr></thead>\n<tbody>\n"));
    while (view_next(&types, &row)) {
        TRY(html_element(page->out, "<tr><td>", member(page, row, "type"), "</td>"));
        TRY(html_element(page->out, "<td>", member(page, row, "count"), "</td></tr>\n"));
    }
    return buf_text(page->out, "</tbody>\n</table>\n");
}

/* ---- JSON of any shape ---- */

static bool begins(struct view value, char c)
{
    return value.json.len > 0 && value.json.at[0] == (uint8_t)c;
}

static struct fault put_value(struct page *page, struct view value, unsigned depth);

static struct fault put_array(struct page *page, struct view rest, unsigned depth)
{
    struct view item;
    size_t count = 0;
    for (; view_next(&rest, &item); count++) {
        if (count >= ROWS_MAX) {
            continue;
        }
        TRY(buf_text(page->out, count == 0 ? "<ul><li>" : "<li>"));
        TRY(put_value(page, item, depth + 1));
        TRY(buf_text(page->out, "</li>\n"));
    }
    if (count > ROWS_MAX) {
        TRY(buf_printf(page->out, "<li>and %zu more, in the pack</li>\n", count - ROWS_MAX));
    }
    return buf_text(page->out, count > 0 ? "</ul>" : "none");
}

static struct fault put_object(struct page *page, struct view object, unsigned depth)
{
    struct jin_member *members = NULL;
    size_t count = 0;
    TRY(jin_members(page->op, object.json, 4096, &members, &count));
    TRY(buf_text(page->out, count > 0 ? "<dl>\n" : "none"));
    for (size_t i = 0; i < count; i++) {
        TRY(html_element(page->out, "<dt>", members[i].name, "</dt><dd>"));
        TRY(members[i].type == JIN_TYPE_TEXT ? html_span(page->out, members[i].value)
                                             : put_value(page, (struct view){ members[i].value }, depth + 1));
        TRY(buf_text(page->out, "</dd>\n"));
    }
    return count > 0 ? buf_text(page->out, "</dl>") : OK;
}

static struct fault put_value(struct page *page, struct view value, unsigned depth)
{
    if (depth < DEPTH_MAX && begins(value, '{')) {
        return put_object(page, value, depth);
    }
    if (depth < DEPTH_MAX && begins(value, '[')) {
        return put_array(page, value, depth);
    }
    const char *text = view_text(page->op, value);
    return text != NULL ? html_text(page->out, text) : buf_text(page->out, "<span class=\"quiet\">null</span>");
}

struct fault html_datasets(struct page *page)
{
    static const char *const sets[][2] = { { "cbom", "Cryptographic bill of materials" },
                                           { "custody", "Custody of certificates" },
                                           { "adcs", "AD CS" },
                                           { "crypto_readiness", "Crypto-readiness" } };
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        TRY(buf_printf(page->out, "<h2 id=\"%s\">%s</h2>\n", sets[i][0], sets[i][1]));
        TRY(put_value(page, view_get(page->manifest, sets[i][0]), 0));
        TRY(buf_text(page->out, "\n"));
    }
    return OK;
}
