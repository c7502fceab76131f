/* What the files of api/codesign/ share. */
#ifndef API_CODESIGN_INTERNAL_H
#define API_CODESIGN_INTERNAL_H

#include "api/codesign/codesign.h"
#include "api/keys/keys.h"
#include "api/server/request.h"

#define CODESIGN_LANE         "codesign"
#define CODESIGN_COMMAND      "codesign.command"
#define CODESIGN_TRANSPARENCY "none" /* no log is configured: nothing is published, and every answer says so */
#define ARTIFACT_TYPE_MAX     128
#define FINGERPRINT_LEN       64 /* hex of SHA-256 */
#define SEALED_COMMAND_MAX    ((size_t)32 << 10)

extern const struct metric codesign_metrics[2];
#define CODESIGN_OPERATIONS_TOTAL (&codesign_metrics[0]) /* {result} */
#define CODESIGN_SIGN_SECONDS     (&codesign_metrics[1]) /* {algorithm} */

/* What is to be signed, by whom: the whole of a key-based request. */
struct codesign_request {
    struct uuid key_id;
    const char *artifact_type;
    struct span digest; /* 32 bytes */
    enum sign_scheme scheme;
    const char *principal;
};
const char *codesign_scheme_text(enum sign_scheme scheme); /* "" for NONE */
enum sign_scheme codesign_scheme_parse(const char *text);  /* NONE when it is not one */
/* NULL gives the key's default. JSON_FIELD when the key cannot do it. */
struct fault codesign_scheme_choose(struct op *op, const char *text, enum key_algorithm algorithm,
                                    enum sign_scheme *ret_scheme);

/* What preview tells, and what execution must find unchanged. Pure: the same request, key and configuration under the
 * same fingerprint key give the same texts. */
struct codesign_plan {
    struct managed_key key;
    struct codesign_request request;
    char configuration_fingerprint[FINGERPRINT_LEN + 1]; /* SHA-256 over the canonical form of what is configured */
    char request_fingerprint[FINGERPRINT_LEN + 1];       /* HMAC-SHA-256 over request, caller, tenant and the former */
};
struct fault codesign_fingerprints(struct tenant_id tenant, struct span fingerprint_key, struct codesign_plan *plan);

/* Body of preview and sign; preview_fingerprint is NULL for preview. */
struct codesign_body {
    const char *key_id, *artifact_type, *signature_scheme, *preview_fingerprint;
    struct span digest;
};
/* Checks the body and reads the key. KEY_NOT_FOUND, KEY_STATE, DIGEST_LENGTH, JSON_FIELD. */
struct fault codesign_plan_make(struct request *request, const struct codesign_body *body,
                                struct codesign_plan *ret_plan);

/* The command that is sealed, in canonical JSON; its additional authenticated data; a keyed digest of it, by which a
 * repeated request is known to be the same one; and reading it back. */
struct codesign_command {
    struct uuid operation_id;
    struct tenant_id tenant;
    struct codesign_request request;
};
struct fault codesign_command_print(const struct codesign_command *command, struct buf *out);
struct fault codesign_command_aad(struct tenant_id tenant, struct uuid operation_id, struct buf *out);
struct fault codesign_command_fingerprint(const struct codesign_command *command, struct span fingerprint_key,
                                          char ret_text[FINGERPRINT_LEN + 1]);
/* Texts live in op's arena. UNSEAL when it is not one of ours. */
struct fault codesign_command_parse(struct op *op, struct span plain, struct codesign_command *ret_command);

struct codesign_operation {
    struct uuid id, key_id;
    const char *artifact_type, *scheme, *principal, *request_fingerprint, *command_fingerprint;
    const char *transparency_destination, *state;
    const char *failure_code, *algorithm; /* NULL = not yet */
    struct span digest, signature;        /* empty = not yet */
    utc_us created, ended;
    int64_t made_seq;
};
/* Results live in op's arena. NOT_FOUND. */
struct fault codesign_operation_get(struct op *op, struct services *services, struct uuid id,
                                    struct codesign_operation *ret_operation);
struct codesign_filter {
    const char *state, *key_id; /* NULL = any */
    int64_t before_seq;
    const char *before_id;
    int64_t limit;
};
struct fault codesign_operation_list(struct op *op, struct services *services, const struct codesign_filter *filter,
                                     struct codesign_operation **ret_operations, size_t *ret_count);
bool codesign_operation_ended(const struct codesign_operation *operation);

/* Seals and appends the command under op->command_id. */
struct fault codesign_accept(struct op *op, struct services *services, const struct codesign_plan *plan);

/* Threads of this process that wait for an operation, woken by the worker of this process. Enter before the command
 * is appended, so that no end is missed. Thread-safe. */
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

/* Waits until the operation has ended, within code_signing.wait and op's deadline. DEADLINE, or what the worker met
 * last, when it has not: the operation goes on. */
struct fault codesign_await(struct op *op, struct services *services, struct codesign_waiter *waiter,
                            struct codesign_operation *ret_operation);

/* OK or SIGNATURE_INVALID, by OpenSSL and the stored public key, apart from signer and token. */
struct fault codesign_signature_check(struct span spki, enum sign_scheme scheme, struct span digest,
                                      struct span signature);

struct fault codesign_command_handler(struct op *op, struct services *services, const struct outbox_item *item);

struct fault project_commanded(struct projection *projection, const struct event_view *event);
struct fault project_signed(struct projection *projection, const struct event_view *event);
struct fault project_completed(struct projection *projection, const struct event_view *event);
struct fault project_failed(struct projection *projection, const struct event_view *event);

struct fault route_preview(struct request *request);
struct fault route_sign(struct request *request);
struct fault route_operation_get(struct request *request);
struct fault route_operation_list(struct request *request);

#endif
