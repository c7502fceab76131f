/* What the files of the OSCAL rendering share. */
#ifndef API_COMPLIANCE_RENDER_OSCAL_H
#define API_COMPLIANCE_RENDER_OSCAL_H

#include "api/compliance/render.h"
#include "appliance/base/json.h"
#include "appliance/base/json_view.h"

#define TOKEN_MAX 160

struct writing {
    struct op *op;
    struct jout *jout;
    const struct evidence_verdict *verdict;
    struct view manifest;
    const char *from, *to;
};

/* ---- render_oscal_put.c ---- */

/* A member that is the identifier of that name (render_uuid). */
struct fault oscal_uuid(struct writing *w, const char *key, const char *name);
/* "observation/1/2" */
struct fault oscal_numbered(struct writing *w, const char **ret_name, const char *what, size_t i, size_t j);
/* A control's id as OSCAL's token: as NIST's own catalogues write theirs ("AC-2(1)" is "ac-2.1"), and what a token may
 * not hold as "-". The id as the framework writes it stands beside it as a property. */
void oscal_token(const char *id, char out[TOKEN_MAX]);
/* Markup lines and string values hold no line end, are not empty, and neither begin nor end with a blank. */
void oscal_line(struct writing *w, const char *key, const char *text);
void oscal_member(struct writing *w, const char *key, struct view object, const char *path);
/* Properties have a namespace of ours. */
void oscal_property(struct writing *w, const char *name, const char *value);
void oscal_property_of(struct writing *w, const char *name, struct view object, const char *path);
void oscal_digest(struct writing *w);
void oscal_list(struct writing *w, const char *key); /* jout_array_end ends it */

/* ---- render_oscal_observations.c ---- */
struct fault oscal_observations(struct writing *w);

#endif
