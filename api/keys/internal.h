/* What the files of api/keys/ share. */
#ifndef API_KEYS_INTERNAL_H
#define API_KEYS_INTERNAL_H

#include "api/keys/keys.h"
#include "api/server/request.h"

#define LANE_KEYS              "keys"
#define KEY_NAME_MAX           64
#define KEY_CHAIN_MAX          32768
#define KEY_CHAIN_CERTS_MAX    8
#define KEYS_DESTINATION_ERASE "keys.erase"

/* queries.c */
struct key_filter {
    const char *purpose, *state; /* NULL = any */
    int64_t before_us;
    const char *before_id;
    int64_t limit;
};
struct fault key_list(struct op *op, struct services *services, const struct key_filter *filter,
                      struct managed_key **ret_keys, size_t *ret_count);
/* An active key of the user's names? For the refusal of a second one. */
struct fault key_name_taken(struct op *op, struct services *services, const char *purpose, const char *name,
                            bool *ret_taken);
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
};
struct fault key_create(struct op *op, struct services *services, const struct key_create *request,
                        struct managed_key *ret_key);
struct fault key_destroy(struct op *op, struct services *services, struct uuid id, const char *reason,
                         int64_t expected_version, struct managed_key *ret_key);

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

/* chain.c: 1 to KEY_CHAIN_CERTS_MAX certificates, leaf first, DER. CERTIFICATE_REFUSED with the pointer of the bad one.
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
struct fault project_key_generated(struct projection *projection, const struct event_view *event);
struct fault project_key_certified(struct projection *projection, const struct event_view *event);
struct fault project_key_csr_signed(struct projection *projection, const struct event_view *event);
struct fault project_key_destroyed(struct projection *projection, const struct event_view *event);
struct fault project_key_erased(struct projection *projection, const struct event_view *event);

/* worker.c */
struct fault key_erase(struct op *op, struct services *services, const struct outbox_item *item);

/* pem.c: RFC 7468 text, appended */
struct fault key_pem(const char *label, struct span der, struct buf *out);

/* routes.c */
struct key_create_body {
    const char *name, *algorithm, *purpose;
};
struct key_transition_body {
    const char *to, *reason;
    int64_t expected_version;
};
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

#endif
