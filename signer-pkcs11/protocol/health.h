/* What svc-signer says of itself: one struct for both ends of the socket. Counters are those of the present process. */
#ifndef SIGNER_PROTOCOL_HEALTH_H
#define SIGNER_PROTOCOL_HEALTH_H

#include "signer-pkcs11/protocol/key.h"

/* The members of Request.op, in its order. */
enum wire_op {
    WIRE_OP_NONE,
    WIRE_HEALTH,
    WIRE_GENERATE_KEY,
    WIRE_PUBLIC_KEY,
    WIRE_SIGN,
    WIRE_VERIFY,
    WIRE_DESTROY,
    WIRE_SEAL,
    WIRE_UNSEAL,
    WIRE_SIGN_MANY,
    WIRE_OP_COUNT
};
const char *wire_op_text(enum wire_op op); /* "sign" ... */

enum signer_state { SIGNER_OK, SIGNER_DEGRADED, SIGNER_DOWN };

/* How an operation ended: done, refused by rule or for the caller's mistake, failed for the token's or the machine's
 * sake, or too late. */
enum op_outcome { OP_OUTCOME_OK, OP_OUTCOME_REFUSED, OP_OUTCOME_UNAVAILABLE, OP_OUTCOME_LATE, OP_OUTCOME_COUNT };
const char *op_outcome_text(enum op_outcome outcome); /* "ok" "refused" "unavailable" "late" */

/* What the module refused, by what it takes to go on; the order of enum ckr_class. */
enum { HEALTH_CLASSES = 7 };
const char *health_class_text(unsigned index); /* "call" "handle" "session" "login" "device" "module" "pin" */

struct token_health {
    struct token_name name;
    enum signer_state state;
    char label[33], model[17], serial[17];
    char cause[160]; /* why not OK, and what to do */
    uint64_t recoveries;
    uint32_t sessions, in_use, set_aside;
};
struct operation_count {
    enum wire_op op;
    enum key_purpose purpose;
    enum op_outcome outcome;
    uint64_t count;
};

#define HEALTH_TOKENS_MAX 8
#define HEALTH_COUNTS_MAX 256
struct signer_health {
    enum signer_state state;                                 /* the worst of all tokens and of the journal */
    char token_label[33], token_model[17], token_serial[17]; /* of the first token */
    char cause[160];
    uint64_t operations, recoveries, journal_bytes;
    uint32_t sessions, queue; /* open on all tokens; requests that wait for one */
    bool fips_active, self_test_passed, journal_usable;
    size_t token_count;
    struct token_health tokens[HEALTH_TOKENS_MAX];
    size_t count_count;
    struct operation_count counts[HEALTH_COUNTS_MAX];
    uint64_t refusals[HEALTH_CLASSES];
};

#endif
