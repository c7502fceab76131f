/*
 * What the module is told: a file of lines "NAME=value" named by SVC_PKCS11_CONFIG, and the environment for what the
 * file leaves out. Read once by C_Initialize; immutable and counted afterwards, so that a call that is under way keeps
 * them while another thread finalizes.
 *
 * The bearer token is not among them when it stands in a file: it is read for each call (settings_token), so a token
 * that is renewed in place is taken, and none stays in the memory of a process that is not ours.
 */
#ifndef API_PKCS11_SETTINGS_H
#define API_PKCS11_SETTINGS_H

#include "appliance/base/op.h"
#include "appliance/base/secret.h"

struct settings {
    const char *base_url; /* without a slash at its end */
    const char *ca_file;  /* NULL = the machine's */
    const char *token_file;
    const char *artifact_type;
    const char *keys;     /* names or ids, split by commas; NULL = all */
    const char *log_file; /* NULL = stderr */
    int64_t timeout_ns, approval_wait_ns;
    char serial[17]; /* of the token: hex over base_url */
};

/* CONFIG with a note in op about what is wrong and what to do. */
struct fault settings_read(struct op *op, struct settings **ret_settings);
struct settings *settings_ref(struct settings *settings);
void settings_unref(struct settings *settings); /* NULL is fine */
static inline void settings_unrefp(struct settings **settings)
{
    settings_unref(TAKE(*settings));
}
/* CONFIG with a note when the file cannot be taken; UNAUTHENTICATED when there is no token at all. */
struct fault settings_token(const struct settings *settings, struct op *op, struct secret **ret_token);
/* Is this key to be shown? */
bool settings_show(const struct settings *settings, const char *id, const char *name);

#endif
