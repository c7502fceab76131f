/*
 * One run of `code-signing sign` or `keyless`: files are hashed here, previewed, shown, executed under one
 * Idempotency-Key, and what comes back is checked before it is written. Several files are one batch.
 */
#ifndef API_CLI_SIGNING_H
#define API_CLI_SIGNING_H

#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/stamp.h"
#include "api/codesign/verify.h"

#define SIGNING_BODY_MAX ((size_t)64 << 10)
#define SIGNING_MANY     64 /* files of one batch */

struct signing_file {
    const char *path;
    struct file_digest digest;
    const char *signature_out, *stamp_out, *bundle_out; /* the latter two NULL = not wanted */
    /* of the receipt */
    const char *operation_id;
    struct span signature, stamp;
    bool stamped, bundled;
};

struct signing {
    bool batch, keyless;
    const char *path, *preview_path; /* of the API */
    struct signing_file *files;
    size_t count;
    struct span proof;       /* of keyless; in `proof_bytes` */
    struct buf *proof_bytes; /* NULL for key-based; wiped when freed */
    /* of the plan */
    const char *fingerprint, *principal;
    /* of the receipt */
    const char *encoding, *destination;
    struct span spki;
    struct chain chain;
};

/* ---- signing_files.c ---- */
/* Which files, where the results go, and their digests: all that can be refused before anything is asked. */
struct fault signing_gather(struct cli *cli, struct signing *signing);

/* ---- signing_request.c ---- */
/* FILE and the options that go with it, or -f alone. `needed` is the option without which FILE is not enough. */
struct fault signing_check_form(struct cli *cli, const char *needed);
/* The body; with a fingerprint it is the one that executes. */
struct fault signing_print_request(struct cli *cli, const struct signing *signing, const char *fingerprint,
                                   struct buf *body);

/* ---- signing_plan.c ---- */
/* What a preview says, for a person. */
void plan_print(struct cli *cli, FILE *out, struct view plan);
/* Previews, shows the plan on stderr, and refuses what the policy denies. */
struct fault signing_plan(struct cli *cli, struct signing *signing);
/* A new preview without a word, for a new proof. */
struct fault signing_plan_again(struct cli *cli, struct signing *signing);

/* ---- signing_execute.c ---- */
/* Executes what was planned. A missing approval is explained, and waited for with --wait-approval. */
struct fault signing_execute(struct cli *cli, struct signing *signing, struct http_answer *answer,
                             struct view *ret_receipt);
/* One execution of a body; a missing approval is explained. */
struct fault signing_submit(struct cli *cli, const char *path, struct span body, const char *principal,
                            struct http_answer *answer);

/* ---- signing_receipt.c ---- */
/* What came back must hold before anybody relies on it: signatures verify, certificates belong to their key. */
struct fault signing_check(struct cli *cli, struct signing *signing, struct view receipt);
/* Writes signatures, certificates, time stamps and bundles, and tells of them. */
struct fault signing_deliver(struct cli *cli, struct signing *signing, struct view receipt);
void receipt_print(struct cli *cli, struct view receipt);
/* A chain as the API tells it: array of base64. */
struct fault receipt_chain(struct op *op, struct view list, struct chain *ret_chain);
/* A name of the user's for a line that can be pasted into a shell. */
const char *shell_quoted(struct op *op, const char *path);

/* ---- signing_publish.c ---- */
/* Waits until the operation's entry is published, at most `limit_ns`. DEADLINE when it goes on in the background. */
struct fault publish_wait(struct cli *cli, const char *operation_id, int64_t limit_ns, struct http_answer *answer,
                          struct view *ret_operation);

struct bundle_parts {
    const char *hash;
    struct span digest, signature, spki;
    const struct chain *chain; /* empty = a plain public key */
    struct view entry;         /* TransparencyLogEntry; empty = none */
    struct span stamp;         /* empty = none */
};
/* The bundle of a signature. Its signer is the certificate where the entry names one, or without an entry where it
 * states an identity with its issuer; else the public key. */
struct fault bundle_assemble(struct op *op, const struct bundle_parts *parts, struct buf *out);
/* For one file of a signing: waits for its entry where --bundle or --wait-log ask for that, and writes the bundle. */
struct fault signing_publish(struct cli *cli, const struct signing *signing, struct signing_file *file);

#endif
