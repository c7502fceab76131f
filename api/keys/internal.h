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
struct fault project_key_destroyed(struct projection *projection, const struct event_view *event);
struct fault project_key_erased(struct projection *projection, const struct event_view *event);

/* worker.c */
struct fault key_erase(struct op *op, struct services *services, const struct outbox_item *item);

/* pem.c: RFC 7468 text of a PKIX public key, appended */
struct fault key_public_pem(struct span spki, struct buf *out);

/* routes.c */
struct key_create_body {
    const char *name, *algorithm, *purpose;
};
struct key_transition_body {
    const char *to, *reason;
    int64_t expected_version;
};
struct fault route_key_create(struct request *request);
struct fault route_key_list(struct request *request);
struct fault route_key_get(struct request *request);
struct fault route_key_transition(struct request *request);

#endif
