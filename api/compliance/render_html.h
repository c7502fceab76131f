/* What the files of the HTML report share. */
#ifndef API_COMPLIANCE_RENDER_HTML_H
#define API_COMPLIANCE_RENDER_HTML_H

#include "api/compliance/render.h"
#include "appliance/base/json_view.h"

struct page {
    struct op *op;
    struct buf *out;
    const struct evidence_verdict *verdict;
    struct view manifest;
};

/* Text of anybody, as text: nothing of it can become markup, in an element or in a quoted attribute. NULL: nothing. */
struct fault html_text(struct buf *out, const char *text);
struct fault html_span(struct buf *out, struct span text);
/* open and close are markup of ours. */
struct fault html_element(struct buf *out, const char *open, const char *text, const char *close);
struct fault html_pair(struct buf *out, const char *term, const char *text); /* within a <dl> */

/* A member as text; NULL when it is missing. */
static inline const char *member(struct page *page, struct view object, const char *path)
{
    return view_member(page->op, object, path);
}
static inline bool is_evidenced(struct view control)
{
    return span_equal_text(view_get(control, "verdict").json, "\"evidenced\"");
}

/* render_html_controls.c */
struct fault html_controls(struct page *page);
struct fault html_gaps(struct page *page);
/* render_html_data.c */
struct fault html_trail(struct page *page);
struct fault html_datasets(struct page *page);

#endif
