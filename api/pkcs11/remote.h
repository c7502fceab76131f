/*
 * The appliance, as this module talks to it: list the keys, sign a digest. One `struct remote` serves one C_ call: it
 * holds that call's operation (arena, deadline), its token, and what was refused.
 *
 *     CLEANUP(remote_end) struct remote remote = { 0 };
 *     TRY(remote_begin(settings, &remote));
 *     TRY(remote_sign(&remote, &order, &signature));
 *
 * What is worth repeating is repeated until the deadline: a call without an answer, and answers that say "later". A
 * signing is always repeated with its own Idempotency-Key, so however often it is sent, it is done once.
 */
#ifndef API_PKCS11_REMOTE_H
#define API_PKCS11_REMOTE_H

#include "api/pkcs11/hash.h"
#include "api/pkcs11/settings.h"
#include "appliance/base/json_view.h"

/* Why it did not work: the members of a problem body, or this side's words for what happened without an answer. */
struct refusal {
    struct fault fault; /* of `code`; IO without an answer, INTERNAL for a code that is not known here */
    long status;        /* 0 = no answer */
    char code[64], detail[1024], pointer[128], resource[256], trace[64];
};

struct remote {
    struct settings *settings; /* a reference */
    struct op *op;
    struct secret *token;
    struct refusal refusal;
};

struct sign_order {
    const char *key_id;
    const char *key_name; /* for what is told */
    const struct hash *hash;
    struct span digest;
    const char *scheme;
};

/* Takes a reference. On failure the refusal says why, as after every call below. */
struct fault remote_begin(struct settings *settings, struct remote *remote);
void remote_end(struct remote *remote); /* idempotent */

/* One page of the active code-signing keys; cursor NULL = the first. What it gives dies with the operation. */
struct fault remote_keys(struct remote *remote, const char *cursor, struct view *ret_page);
/* What the approval of this order is waiting for, without effect: "pending", "approved" ...; "" when none is needed. */
struct fault remote_approval(struct remote *remote, const struct sign_order *order, const char **ret_state);
/* Preview, then execute. The signature is as the appliance encodes it (ECDSA: DER), in the operation's arena. */
struct fault remote_sign(struct remote *remote, const struct sign_order *order, struct span *ret_signature);

/* order.c: remote_sign, and when an approval is missing and the settings say so, waiting for it and signing then. The
 * signature is appended to `out`; on failure ret_refusal is written instead. */
struct fault order_signature(struct settings *settings, const struct sign_order *order, struct buf *out,
                             struct refusal *ret_refusal);

/* The refusal in an answer that is no success. Its texts are cut to their room. */
void refusal_read(struct op *op, long status, struct span body, struct refusal *refusal);
/* What a C_ function returns for it. */
CK_RV refusal_rv(const struct refusal *refusal);
/* One line about it: `what` was being done ("sign with release-key"). */
void refusal_tell(const struct settings *settings, const char *what, const struct refusal *refusal);

#endif
