/* Evidence packs in the client: what a user pinned, and what the verifier found. */
#ifndef API_CLI_EVIDENCE_H
#define API_CLI_EVIDENCE_H

#include "api/cli/cli.h"
#include "api/compliance/render.h"
#include "api/compliance/verify.h"

#define PATH_EVIDENCE_PACK "/api/v1/compliance/evidence-packs/{framework}"
#define PATH_EVIDENCE_KEYS "/api/v1/compliance/verification-keys"

struct evidence_pinned {
    struct evidence_pins pins;
    struct jwk_set keys;
    struct buf roots;
};
void evidence_pinned_clear(struct evidence_pinned *pinned); /* the form that CLEANUP wants */
/* --key or --jwks, and --tsa-root where the command has it. *ret_any: was a key given? */
struct fault evidence_pinned_read(struct cli *cli, struct evidence_pinned *pinned, bool *ret_any);
/* Of what the server hands out. */
struct fault evidence_pinned_take(struct cli *cli, struct span jwks, struct evidence_pinned *pinned);

/* --format: json, oscal or html. */
enum evidence_shape { EVIDENCE_SHAPE_JSON, EVIDENCE_SHAPE_OSCAL, EVIDENCE_SHAPE_HTML };
struct fault evidence_shape_read(struct cli *cli, enum evidence_shape fallback, enum evidence_shape *ret_shape);
/* The verified pack in that shape: for JSON its own bytes. */
struct fault evidence_shape_make(struct op *op, enum evidence_shape shape, const struct evidence_verdict *verdict,
                                 struct span pack, struct buf *out);

/* On stderr, and as exit code; gives the fault back. */
struct fault evidence_refused(struct cli *cli, const char *file, const struct evidence_verdict *verdict,
                              struct fault fault);
/* One object. */
struct fault evidence_verdict_json(const char *file, const struct evidence_verdict *verdict, struct fault fault,
                                   struct buf *out);

#endif
