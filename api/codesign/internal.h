/*
 * What the files of api/codesign/ share. The way of a signing through them:
 *
 *     routes.c      body -> plan -> append, wait, answer
 *     request.c     what may be asked; its canonical members, which previews, sealed commands and approvals bind
 *     plan.c        everything that execution must find as the preview told it: key, policy, destination, fingerprints
 *     governance.c  may it be signed: the policy's decision and the approval's state
 *     command.c     the sealed command, and codesign.commanded
 *     worker.c      opens, asks governance, signs, records
 *     keyless.c     proof -> identity -> ephemeral key -> certificate; and the key's end
 *     record.c      the data of the events that end a command
 *     projection.c  events -> rows
 *     project_rows.c  the same for many at once
 *     operations.c  rows -> struct codesign_operation; waiting for one
 *     answers.c     what is told of plans and operations
 *     check.c       verification as a service; check_read.c, check_certificate.c
 *     trust.c       what verifiers have to trust
 */
#ifndef API_CODESIGN_INTERNAL_H
#define API_CODESIGN_INTERNAL_H

#include "api/approvals/approvals.h"
#include "api/attest/attest.h"
#include "api/codesign/codesign.h"
#include "api/keys/keys.h"
#include "api/policy/policy.h"
#include "api/server/request.h"
#include "api/transparency/transparency.h"

#define CODESIGN_LANE      "codesign"
#define CODESIGN_COMMAND   "codesign.command"
#define CODESIGN_CLEANUP   "codesign.cleanup"
#define ARTIFACT_TYPE_MAX  128
#define METHOD_MAX         64
#define IDENTITY_MAX       1024 /* bytes of a SAN or an issuer */
#define BATCH_MAX          64
#define DIGEST_MAX         64
#define FINGERPRINT_LEN    64 /* hex of SHA-256 */
#define SEALED_COMMAND_MAX ((size_t)64 << 10)
#define COMMAND_MAX        ((size_t)48 << 10)
#define CHAIN_BYTES_MAX    ((size_t)64 << 10) /* certificates, DER one behind the other */

extern const struct metric codesign_metrics[2];
#define CODESIGN_OPERATIONS_TOTAL (&codesign_metrics[0]) /* {result} */
#define CODESIGN_SIGN_SECONDS     (&codesign_metrics[1]) /* {algorithm} */

/* ---- request.c ---- */

enum codesign_mode { CODESIGN_KEY, CODESIGN_KEYLESS };
enum codesign_form { FORM_SIGN, FORM_BATCH, FORM_KEYLESS };

/* What is to be signed, by whom: the whole of a request. Texts are borrowed. */
struct codesign_request {
    enum codesign_mode mode;
    struct uuid key_id;                                           /* of mode KEY */
    const char *identity_method, *expected_san, *expected_issuer; /* of KEYLESS; expectations may be NULL */
    struct span proof;                                            /* of KEYLESS */
    const char *artifact_type;
    enum hash_algorithm hash;
    enum sign_scheme scheme;
    const struct span *digests; /* 1..BATCH_MAX, each of the hash's size */
    size_t count;
    const char *principal;
    const char *const *roles;
    size_t role_count;
};

/* Body of all previews and executions; each route's table names its own members, the others stay NULL. */
struct codesign_body {
    const char *key_id, *artifact_type, *digest_algorithm, *signature_scheme, *preview_fingerprint;
    const char *identity_method, *expected_san, *expected_issuer;
    struct span digest, identity_payload;
    struct jin_texts digests;
};

const char *codesign_mode_text(enum codesign_mode mode);   /* "key", "keyless" */
const char *codesign_scheme_text(enum sign_scheme scheme); /* "" for NONE */
enum sign_scheme codesign_scheme_parse(const char *text);  /* NONE when it is not one */
/* NULL gives the key's default. JSON_FIELD when the key cannot do it. */
struct fault codesign_scheme_choose(struct op *op, const char *text, enum key_algorithm algorithm,
                                    enum sign_scheme *ret_scheme);
/* The body as a request of op's principal, checked as far as it can be without a key: key_id and scheme are not set.
 * In op's arena. DIGEST_LENGTH, JSON_FIELD. */
struct fault codesign_request_read(struct op *op, enum codesign_form form, const struct codesign_body *body,
                                   struct codesign_request *ret_request);
/* The members that say what is asked, without who was asking in which role: for whatever must bind a request. */
void codesign_request_print(struct jout *jout, const struct codesign_request *request);
void codesign_artifact_print(struct jout *jout, const struct codesign_request *request); /* what */
void codesign_signer_print(struct jout *jout, const struct codesign_request *request);   /* with what */

/* ---- governance.c ---- */

/* May it be signed? As of `at`; for a keyless request with the verified identity. */
struct governance {
    bool enabled; /* rules or approvals are configured at all */
    struct policy_decision decision;
    char resource[APPROVAL_RESOURCE_MAX + 1]; /* of decision APPROVE; "" otherwise */
    struct approval_status approval;          /* likewise */
};
struct verified_identity {
    const char *issuer, *san; /* NULL for a key-based request */
};
struct fault governance_look(struct op *op, struct services *services, const struct codesign_request *request,
                             const char *key_name, const struct verified_identity *identity, utc_us at,
                             struct governance *ret_governance);
/* OK, or why not: POLICY_DENIED, APPROVAL_REQUIRED, APPROVAL_DENIED, with a note. An approval that counts its signings
 * is used up by one for `command_id` (BUG_IF(tx_open)). */
struct fault governance_pass(struct op *op, struct services *services, const struct governance *governance,
                             struct uuid command_id, utc_us at);
/* Is approval.requested to be appended with the refusal? */
bool governance_asks(const struct governance *governance);

/* ---- plan.c ---- */

/* What preview tells, and what execution must find unchanged. */
struct codesign_plan {
    struct managed_key key; /* of mode KEY */
    enum key_algorithm algorithm;
    struct codesign_request request;
    const char *destination; /* of the transparency log */
    struct governance governance;
    char policy_digest[FINGERPRINT_LEN + 1], logs_digest[FINGERPRINT_LEN + 1], methods_digest[FINGERPRINT_LEN + 1];
    char configuration_fingerprint[FINGERPRINT_LEN + 1]; /* SHA-256 over the canonical form of what is configured */
    /* Four keyed digests of 64 bits, over caller, artifact, signer and configuration, each with the tenant: so that
     * execution can tell which of them changed. It guards against mistakes, not against forgers: whoever may execute
     * may also preview. */
    char request_fingerprint[FINGERPRINT_LEN + 1];
};
/* Pure: the same plan under the same fingerprint key gives the same texts. */
struct fault codesign_fingerprints(struct tenant_id tenant, struct span fingerprint_key, struct codesign_plan *plan);
/* OK when `fingerprint` is the plan's; else PREVIEW_CHANGED with a note that names what is different. */
struct fault codesign_plan_compare(struct op *op, const struct codesign_plan *plan, const char *fingerprint);
/* Reads the body, the key, the policy and the approval's state; changes nothing. KEY_NOT_FOUND, KEY_STATE,
 * DIGEST_LENGTH, JSON_FIELD, KEYLESS_DISABLED, IDENTITY_METHOD, PROOF_*, TLOG_UNSUPPORTED. */
struct fault codesign_plan_make(struct request *request, enum codesign_form form, struct codesign_plan *ret_plan);

/* ---- command.c ---- */

/* The command that is sealed, in canonical JSON; its additional authenticated data; a keyed digest of what it asks, by
 * which a repeated request is known to be the same one; and reading it back. */
struct codesign_command {
    struct uuid id;
    struct tenant_id tenant;
    const char *destination;
    struct codesign_request request;
};
/* The operation of a digest: the command's own id for the first one. */
struct fault codesign_operation_id(struct uuid command_id, size_t position, struct uuid *ret_id);
struct fault codesign_command_print(const struct codesign_command *command, struct buf *out);
struct fault codesign_command_aad(struct tenant_id tenant, struct uuid command_id, struct buf *out);
struct fault codesign_command_fingerprint(const struct codesign_command *command, struct span fingerprint_key,
                                          char ret_text[FINGERPRINT_LEN + 1]);
/* Texts live in op's arena. UNSEAL when it is not one of ours. */
struct fault codesign_command_parse(struct op *op, struct span plain, struct codesign_command *ret_command);
/* Seals and appends the command under op->command_id. */
struct fault codesign_accept(struct op *op, struct services *services, const struct codesign_plan *plan);

/* ---- operations.c ---- */

struct codesign_operation {
    struct uuid id, command_id;
    int64_t position, count;
    const char *mode, *key_id, *identity_method; /* key_id or identity_method is NULL */
    const char *artifact_type, *digest_algorithm, *scheme, *principal, *request_fingerprint, *command_fingerprint;
    const char *destination, *state;
    const char *failure_code, *resource, *algorithm, *san, *issuer; /* NULL = not (yet) */
    struct span digest, signature, spki, chain;                     /* empty = not (yet) */
    utc_us created, ended;
    int64_t made_seq;
    bool approved_mode; /* as the process that recorded the signature could claim it then */
};
/* Results live in op's arena. NOT_FOUND. */
struct fault codesign_operation_get(struct op *op, struct services *services, struct uuid id,
                                    struct codesign_operation *ret_operation);
/* All of a command, by position. */
struct fault codesign_operations_of(struct op *op, struct services *services, struct uuid command_id,
                                    struct codesign_operation **ret_operations, size_t *ret_count);
struct codesign_filter {
    const char *state, *key_id, *mode; /* NULL = any */
    int64_t before_seq;
    const char *before_id;
    int64_t limit;
};
struct fault codesign_operation_list(struct op *op, struct services *services, const struct codesign_filter *filter,
                                     struct codesign_operation **ret_operations, size_t *ret_count);
bool codesign_operation_ended(const struct codesign_operation *operation);

/* Threads of this process that wait for a command, woken by the worker of this process. Enter before the command is
 * appended, so that no end is missed. Thread-safe. */
struct codesign_waiter {
    struct uuid id;
    bool ended;
    uint64_t seq;         /* of the message that ended it */
    enum fault_code last; /* what a try that will be repeated met */
    struct codesign_waiter *next;
};
void codesign_waiter_enter(struct codesign_waiter *waiter, struct uuid id);
void codesign_waiter_leave(struct codesign_waiter *waiter); /* the form that CLEANUP wants */
/* Until it ended or `until`; true and the message's sequence when it ended. */
bool codesign_waiter_wait(struct codesign_waiter *waiter, mono_ns until, uint64_t *ret_seq);
enum fault_code codesign_waiter_last(struct codesign_waiter *waiter);
void codesign_waiters_ended(struct uuid id, uint64_t seq);
void codesign_waiters_met(struct uuid id, struct fault fault);

/* Waits until the command has ended, within code_signing.wait and op's deadline. DEADLINE, or what the worker met last,
 * when it has not: the command goes on. The first operation of a command ends in the same message as the others. */
struct fault codesign_await(struct op *op, struct services *services, struct codesign_waiter *waiter,
                            struct codesign_operation *ret_operation);

/* ---- record.c ---- */

/* What was made for one command, before it is recorded. */
struct codesign_made {
    const struct codesign_command *command;
    enum key_algorithm algorithm;
    struct span spki;
    struct span *chain; /* of KEYLESS: leaf first, DER */
    size_t chain_count;
    bool issued_outside;      /* of KEYLESS: by another authority than the tenant's own */
    struct attested identity; /* of KEYLESS */
    struct span signatures[BATCH_MAX];
    const struct governance *governance;
    bool approved_mode;
};
/* Appends the end of the command; *ret_seq is its message. Messages have deterministic ids: recorded once. */
struct fault codesign_record_completed(struct op *op, struct services *services, const struct codesign_made *made,
                                       uint64_t *ret_seq);
struct fault codesign_record_refused(struct op *op, struct services *services, const struct codesign_command *command,
                                     const struct verified_identity *identity, const struct governance *governance,
                                     struct fault why, uint64_t *ret_seq);
/* The sealed command may be unreadable: its first operation tells enough. */
struct fault codesign_record_failed(struct op *op, struct services *services, const struct codesign_operation *first,
                                    struct fault why, uint64_t *ret_seq);

/* ---- keyless.c ---- */

#define KEYLESS_CA_NAME "keyless" /* of the key of purpose ca */

struct ephemeral {
    struct key_ref key;
    struct span spki;
};
/* Verifies the proof as of `at`, and that it does not contradict what the request expects. PROOF_*,
 * KEYLESS_CONTRADICTION, JWKS_UNAVAILABLE. */
struct fault keyless_identify(struct op *op, struct services *services, const struct codesign_request *request,
                              utc_us at, struct attested *ret_identity);
/* The certificates come from another authority than the tenant's own. */
bool keyless_issued_outside(const struct services *services);
/* The ephemeral key of the operation, made in the token unless an earlier try made it. */
struct fault keyless_key(struct op *op, struct services *services, struct uuid operation_id,
                         struct ephemeral *ret_ephemeral);
struct fault keyless_certify(struct op *op, struct services *services, const struct codesign_command *command,
                             const struct ephemeral *ephemeral, const struct attested *identity, utc_us at,
                             struct span **ret_chain, size_t *ret_count);
/* Makes the tenant's keyless CA key and its certificate, where they are missing. */
struct fault keyless_prepare(struct op *op, struct services *services);
struct fault codesign_cleanup_handler(struct op *op, struct services *services, const struct outbox_item *item);

/* ---- check.c, check_certificate.c; more in check.h ---- */

/* Body of the verifying routes; each route's table names its own members. */
struct check_body {
    const char *key_id, *digest_algorithm, *signature_scheme, *expected_san, *expected_issuer;
    struct span digest, signature, public_key_der, timestamp;
    struct jin_texts certificate_chain, root_certificates, timestamp_roots; /* base64 of DER */
};
struct fault route_verify(struct request *request);
struct fault route_keyless_verify(struct request *request);
struct fault route_verify_long_term(struct request *request);

/* ---- trust.c; more in trust.h ---- */

struct fault route_trusted_root(struct request *request);

/* ---- the rest ---- */

/* OK or SIGNATURE_INVALID, by OpenSSL and the stored public key, apart from signer and token. ML-DSA only where the
 * fence is open: ALGORITHM_FENCED, PQC_DISABLED. */
struct fault codesign_signature_check(struct span spki, enum sign_scheme scheme, enum hash_algorithm hash,
                                      struct span digest, struct span signature);

struct fault codesign_command_handler(struct op *op, struct services *services, const struct outbox_item *item);

struct fault codesign_project_commanded(struct projection *projection, const struct event_view *event);
struct fault codesign_project_signed(struct projection *projection, const struct event_view *event);
struct fault codesign_project_keyless_signed(struct projection *projection, const struct event_view *event);
struct fault codesign_project_completed(struct projection *projection, const struct event_view *event);
struct fault codesign_project_refused(struct projection *projection, const struct event_view *event);
struct fault codesign_project_failed(struct projection *projection, const struct event_view *event);
struct fault codesign_project_destroyed(struct projection *projection, const struct event_view *event);
/* project_rows.c: the same in memory. *ret_kept: the row is there, and nothing else has to be done. Values in the order
 * of the statements of projection.c. */
struct fault codesign_row_commanded(struct projection *projection, const char *operation_id,
                                    const struct sql_arg *given, size_t count);
struct fault codesign_row_signed(struct projection *projection, const char *operation_id, const struct sql_arg *values,
                                 size_t count, bool *ret_kept);
struct fault codesign_row_completed(struct projection *projection, const char *operation_id, utc_us time,
                                    bool *ret_kept);
struct fault codesign_row_ended(struct projection *projection, const char *operation_id, const char *state,
                                const struct sql_arg *values, size_t count, bool *ret_kept);
struct fault codesign_row_destroyed(struct projection *projection, const char *operation_id, utc_us time,
                                    bool *ret_kept);

/* answers.c */
/* "ecdsa-der", "rsa-pkcs1v15", "rsa-pss", "ml-dsa-65" */
const char *codesign_encoding_text(const char *scheme);
void answer_chain(struct jout *jout,
                  struct span chain); /* "certificate_chain": DER one behind the other; none: nothing */
struct fault answer_preview(struct request *request, enum codesign_form form, const struct codesign_plan *plan);
struct fault answer_signed(struct request *request, enum codesign_form form, const struct codesign_operation *first);
struct fault answer_operation(struct request *request, const struct codesign_operation *operation);
void answer_operation_row(struct jout *jout, const struct codesign_operation *operation);

struct fault route_preview(struct request *request);
struct fault route_sign(struct request *request);
struct fault route_batch_preview(struct request *request);
struct fault route_batch(struct request *request);
struct fault route_keyless_preview(struct request *request);
struct fault route_keyless(struct request *request);
struct fault route_operation_get(struct request *request);
struct fault route_operation_list(struct request *request);

/* upkeep.c */
extern const struct outbox_upkeep codesign_command_upkeep, codesign_cleanup_upkeep;

#endif
