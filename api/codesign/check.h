/* What the verifying routes read from their bodies (check_read.c), and judge by (check.c, check_certificate.c). */
#ifndef API_CODESIGN_CHECK_H
#define API_CODESIGN_CHECK_H

#include "api/codesign/internal.h"
#include "api/codesign/trust.h"
#include "api/tsa/verify.h"

/* The signature as it is judged. */
struct judged {
    enum hash_algorithm hash;
    enum sign_scheme scheme;
    struct span spki;
};

/* ---- check_read.c ---- */

struct fault check_read_digest(struct op *op, const struct check_body *body, enum hash_algorithm *ret_hash);
/* Base64 of DER certificates; nothing given = none. JSON_FIELD with the pointer of the one at fault. */
struct fault check_read_chain(struct op *op, const char *pointer, const struct jin_texts *texts,
                              struct chain *ret_chain);
/* The scheme for a public key: the one that is asked for, or the key's usual one. Keys that nobody should believe any
 * more, or that are not known here, are refused with `code`. */
struct fault check_read_scheme(struct op *op, struct span spki, struct fault code, const char *pointer,
                               const char *scheme, enum sign_scheme *ret_scheme);

/* Is a verdict under this key part of an approved-mode claim? Keys of others may be outside the table of approved ones
 * (fips_approved_algorithms), and are verified all the same. */
bool check_approved(struct span spki);

/* ---- check.c ---- */

/* Whether the signature verifies under judged->spki, by the signer. Fills the rest of `judged`. Whose key it is said to
 * be tells `purpose`; where it stands in the body, `pointer`, and `code` is what an unusable one is answered with. */
struct fault check_signature(struct request *request, const struct check_body *body, enum key_purpose purpose,
                             struct fault code, const char *pointer, struct judged *judged);
struct fault check_answer_begin(struct jout *jout, struct buf *answer, const struct judged *judged);
struct fault check_answer_end(struct request *request, struct jout *jout, struct buf *answer);

#endif
