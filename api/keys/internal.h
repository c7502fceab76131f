/* What the files of api/keys/ share. */
#ifndef API_KEYS_INTERNAL_H
#define API_KEYS_INTERNAL_H

#include "api/keys/keys.h"
#include "api/server/request.h"

#define LANE_KEYS               "keys"
#define KEY_NAME_MAX            64
#define KEY_CHAIN_MAX           32768
#define KEYS_DESTINATION_ERASE  "keys.erase"
#define KEYS_DESTINATION_RETIRE "keys.retire"
#define KEY_REASON_MAX          256
#define KEY_USES_MAX            1000000000000LL
#define KEY_OVERLAP_MAX         (366LL * 24 * 3600 * US_PER_S)
#define DECIDE_AGAIN_MAX        8 /* how often a lane that moved on is read again before the caller is asked to come later */

/* state.c */
enum key_state { KEY_PREPARED, KEY_ACTIVE, KEY_RETIRING, KEY_RETIRED, KEY_DESTROYED, KEY_STATES };
const char *key_state_text(enum key_state state);
bool key_state_parse(const char *text, enum key_state *ret_state);
enum key_state key_state_of(const struct managed_key *key); /* a state that is not known: destroyed */
bool key_may_move(enum key_state from, enum key_state to);

/* queries.c */
struct key_filter {
    const char *purpose, *state, *algorithm, *name; /* NULL = any */
    utc_us expires_before;                          /* of certificate or key; 0 = any */
    int64_t before_us;
    const char *before_id;
    int64_t limit;
};
struct fault key_list(struct op *op, struct services *services, const struct key_filter *filter,
                      struct managed_key **ret_keys, size_t *ret_count);
/* Is there a key of this name in this state? For the refusal of a second one. */
struct fault key_name_taken(struct op *op, struct services *services, const char *purpose, const char *name,
                            enum key_state state, bool *ret_taken);
/* The last command that moved it; "" when none did. */
struct fault key_move_command(struct op *op, struct services *services, struct uuid id, const char **ret_command);
/* The command that destroyed a key; "" while it is not. */
struct fault key_destroy_command(struct op *op, struct services *services, struct uuid id, const char **ret_command);
/* The command by which it has its present certificates; "" when no user's did. */
struct fault key_certify_command(struct op *op, struct services *services, struct uuid id, const char **ret_command);
/* The lane's last sequence as the read model knows it: ask before reading what a decision rests on. */
struct fault key_lane_last(struct op *op, struct services *services, uint64_t *ret_seq);

/* commands.c */
struct key_create {
    enum key_purpose purpose;
    enum key_algorithm algorithm;
    const char *name;
    const char *token; /* NULL or "" = the first one */
    bool prepare;      /* makes a prepared key instead of an active one */
    int64_t max_uses;  /* 0 = without limit */
    utc_us not_after;  /* 0 = without end */
};
struct fault key_create(struct op *op, struct services *services, const struct key_create *request,
                        struct managed_key *ret_key);

/* transitions.c */
struct key_move {
    enum key_state to;
    const char *reason;
    int64_t expected_version;
    int64_t overlap_us; /* -1 = keys.overlap when one key replaces another, else none */
    int64_t max_uses;   /* of an activation; 0 = as it was made */
    utc_us not_after;   /* likewise */
};
struct fault key_transition(struct op *op, struct services *services, struct uuid id, const struct key_move *move,
                            struct managed_key *ret_key);

/* destroy.c: may op's principal destroy the key? OK, or APPROVAL_REQUIRED (asked for, where nobody has yet) and
 * APPROVAL_DENIED. */
struct fault key_destroy_permitted(struct op *op, struct services *services, const struct managed_key *key,
                                   const char *reason);

/* The data of key.certified, appended. command_id: NULL when no user's command certifies. */
struct fault key_certified_data(const struct managed_key *key, const struct span *chain, size_t count,
                                const char *command_id, struct buf *data);

/* subject.c: the text of RFC 4514 as attributes, in the order of the text. JSON_FIELD. */
#define KEY_SUBJECT_MAX        1024
#define KEY_SUBJECT_ATTRIBUTES 10
#define KEY_EMAIL_MAX          254
struct key_subject {
    struct {
        int nid;
        const char *value; /* UTF-8, in op's arena */
    } at[KEY_SUBJECT_ATTRIBUTES];
    size_t count;
};
struct fault key_subject_parse(struct op *op, const char *text, struct key_subject *ret_subject);
bool key_email_fits(const char *text);

/* csr.c: PKCS#10, signed by the key in the token under `journal_id`; DER in op's arena. email: NULL = none. */
struct fault key_csr_make(struct op *op, const struct managed_key *key, const struct key_subject *subject,
                          const char *email, struct uuid journal_id, struct span *ret_der);

/* chain.c: 1 to KEYS_CERTIFICATES_MAX certificates, leaf first, DER. CERTIFICATE_REFUSED with the pointer of the bad
 * one.
 */
struct fault key_chain_check(struct op *op, struct span spki, const struct span *certificates, size_t count,
                             utc_us now);

/* certificates.c */
struct key_csr_body {
    const char *subject, *email;
};
struct fault key_csr_sign(struct op *op, struct services *services, struct uuid id, const struct key_csr_body *body,
                          struct span *ret_csr);
struct fault key_certify(struct op *op, struct services *services, struct uuid id, const struct span *chain,
                         size_t count, int64_t expected_version, struct managed_key *ret_key);

/* append.c: one event each, projected when they return OK */
struct fault key_append_generated(struct op *op, struct services *services, const struct managed_key *key,
                                  uint64_t expected_lane);
struct fault key_append_one(struct op *op, struct services *services, const char *type, const char *message_seed,
                            struct uuid key_id, const struct buf *data);
/* The same, if the lane has not moved on: LOG_CONFLICT. */
struct fault key_append_expecting(struct op *op, struct services *services, const char *type, const char *message_seed,
                                  struct uuid key_id, const struct buf *data, uint64_t expected_lane);

/* projection.c */
/* uses.c: from here on in this batch, the tenant has a key with a limit. */
void keys_project_limited(struct projection *projection);
struct fault project_key_generated(struct projection *projection, const struct event_view *event);
struct fault project_key_certified(struct projection *projection, const struct event_view *event);
/* project_certificates.c: the leaf of a chain goes into the tenant's inventory of certificates. */
struct fault key_project_leaf(struct projection *projection, const char *key_id, struct span chain,
                              struct sql_arg not_after);
struct fault project_key_csr_signed(struct projection *projection, const struct event_view *event);
struct fault project_key_destroyed(struct projection *projection, const struct event_view *event);
struct fault project_key_erased(struct projection *projection, const struct event_view *event);
/* project_moves.c */
struct fault project_key_activated(struct projection *projection, const struct event_view *event);
struct fault project_key_retiring(struct projection *projection, const struct event_view *event);
struct fault project_key_retired(struct projection *projection, const struct event_view *event);
struct fault project_key_probe_failed(struct projection *projection, const struct event_view *event);
struct fault project_key_probe_recovered(struct projection *projection, const struct event_view *event);

/* worker.c */
struct fault key_erase(struct op *op, struct services *services, const struct outbox_item *item);
struct fault key_retire(struct op *op, struct services *services, const struct outbox_item *item);

/* census.c: keys by purpose and state, and when certificates end, as gauges of whoever leads. */
struct fault key_census(struct op *op, struct services *services);

/* probe.c: the key signs a random digest, which must verify under the public half that was recorded; a sealing key
 * seals and opens. */
struct fault key_probe(struct op *op, struct services *services, const struct managed_key *key);
bool key_probe_is_outage(struct fault fault); /* says nothing of the key itself */

/* probes.c: probes of all keys, a few with each call, of whoever leads. What they find is kept in memory, and recorded
 * when it changes. */
struct fault key_probe_some(struct op *op, struct services *services);
struct fault key_probes_well(struct op *op, struct services *services); /* a readiness check */
struct key_probed {
    bool known; /* in this process */
    bool good;
    utc_us at;
    enum fault_code code; /* while it is not good */
};
void key_probe_get(struct uuid id, struct key_probed *ret_probed);
void key_probes_forget(void);

enum key_metric {
    KEY_METRIC_COUNT_OF_KEYS,
    KEY_METRIC_CERTIFICATE_END,
    KEY_METRIC_END,
    KEY_METRIC_PROBES,
    KEY_METRIC_PROBE_FAILING,
    KEY_METRIC_PROBE_GOOD,
    KEY_METRICS
};
extern const struct metric key_metrics[KEY_METRICS];

/* pem.c: RFC 7468 text, appended */
struct fault key_pem(const char *label, struct span der, struct buf *out);

/* routes.c */
struct key_create_body {
    const char *name, *algorithm, *purpose, *token;
    bool prepare;
    int64_t max_uses;
    utc_us not_after;
};
struct key_transition_body {
    const char *to, *reason, *overlap;
    int64_t expected_version, max_uses;
    utc_us not_after;
};
/* answers.c: the object of the API, appended */
struct fault key_print(struct jout *jout, const struct managed_key *key);
struct fault route_key_answer(struct request *request, const struct managed_key *key);
struct fault route_key_id(struct request *request, struct uuid *ret_id);
struct fault route_key_create(struct request *request);
struct fault route_key_list(struct request *request);
struct fault route_key_get(struct request *request);
struct fault route_key_transition(struct request *request);

/* routes_certificates.c */
struct key_certificates_body {
    struct span certificate_chain; /* JSON array */
    int64_t expected_version;
};
struct fault route_key_csr(struct request *request);
struct fault route_key_certificates(struct request *request);

/* The token's key under this id: made now, or found because an earlier run of the same command made it. Fills spki. */
struct fault key_make_in_token(struct op *op, struct services *services, struct managed_key *key);

/* rotate.c: a new sealing key for op's tenant, under op->command_id. Commands sealed before it still open: older keys
 * stay in the token. Other processes follow with their next data key, within an hour. */
struct fault key_rotate_seal(struct op *op, struct services *services, struct managed_key *ret_key);
struct fault route_seal_rotate(struct request *request);

/* upkeep.c */
extern const struct outbox_upkeep keys_erase_upkeep, keys_retire_upkeep;

#endif
