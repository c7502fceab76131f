/*
 * Time-stamping units of op's tenant, as events (lane "tsa-units") and read model. A unit is a key in the token with a
 * certificate for time stamping alone; it has both for all of its life, and is never used again.
 *
 *     prepared -> certified -> active -> replaced -> retired      (a unit that never stamped may be retired, too)
 *
 * At most one is active and at most one waits (prepared or certified). tsa.unit.activated names the unit that it
 * replaces, so the change is one event. A retired unit's key is taken out of the token; its certificate stays for
 * those who verify.
 */
#ifndef API_TSA_UNITS_H
#define API_TSA_UNITS_H

#include "api/keys/keys.h"
#include "api/tsa/tenants.h"

enum unit_state { UNIT_PREPARED, UNIT_CERTIFIED, UNIT_ACTIVE, UNIT_REPLACED, UNIT_RETIRED, UNIT_STATES };
const char *unit_state_text(enum unit_state state);

struct unit {
    struct uuid id; /* of its key */
    int64_t number, version;
    enum key_algorithm algorithm;
    enum unit_state state;
    const char *issuance;
    const struct span *chain; /* leaf first, root last; empty until certified */
    size_t chain_count;
    utc_us not_before, not_after, usage_end;                  /* 0 until certified */
    utc_us prepared, certified, activated, replaced, retired; /* 0 = not yet */
    const char *replaced_by, *retire_reason;                  /* NULL = not yet */
    const char *command, *prepare_command;                    /* "" = none of a user */
};
struct units {
    struct unit *at; /* in the order of their making */
    size_t count;
    uint64_t lane; /* the lane's last sequence, read before them */
};
/* In op's arena, as are all results. */
struct fault units_read(struct op *op, struct services *services, struct units *ret_units);
const struct unit *units_active(const struct units *units);  /* NULL */
const struct unit *units_waiting(const struct units *units); /* prepared or certified; NULL */
/* NOT_FOUND. */
struct fault units_find(struct op *op, const struct units *units, struct uuid id, const struct unit **ret_unit);
struct fault units_lane(struct op *op, struct services *services, uint64_t *ret_lane);

/* ---- units_move.c: each decides, appends one event and waits until it is projected ---- */

#define UNIT_LANE       "tsa-units"
#define UNIT_REASON_MAX 256
/* A new unit with a key of its own. TSA_UNIT_STATE when one waits already. */
struct fault unit_prepare(struct op *op, struct services *services, const struct tsa_settings *settings);
/* chain: leaf first, root last. CERTIFICATE_REFUSED; TSA_UNIT_STATE once it has stamped. `issuance` says in the record
 * whether the tenant's own root issued the certificate now, or it came from elsewhere. */
#define UNIT_ISSUED_OWN      "own"
#define UNIT_ISSUED_EXTERNAL "external" /* an authority outside, or one from before units were recorded */
struct fault unit_certify(struct op *op, struct services *services, const struct tsa_settings *settings, struct uuid id,
                          const char *issuance, const struct span *chain, size_t count);
/* The waiting unit takes over. TSA_UNIT_STATE when it is not certified, or its certificate is not valid now. */
struct fault unit_activate(struct op *op, struct services *services, struct uuid id);
/* For ever. The active one is retired only with `stop`. */
struct fault unit_retire(struct op *op, struct services *services, struct uuid id, const char *reason, bool stop);
/* PKCS#10 of a unit that waits. */
struct fault unit_csr(struct op *op, struct services *services, struct uuid id, const char *subject,
                      struct span *ret_der);

/* ---- units_issue.c ---- */

/* The chain of a certificate by the tenant's own root, which is made where it is missing or ends too early. */
struct fault unit_issue(struct op *op, struct services *services, const struct tsa_settings *settings,
                        const struct managed_key *key, struct span ret_chain[2]);

/* ---- units_keep.c ---- */

/* What is due now, by the clock and the configuration: preparing, certifying, activating, retiring. One instance at a
 * time. `wait`: for another instance that is at it, when there is no active unit yet; else leaves it to that one. */
struct fault units_keep(struct op *op, struct services *services, const struct tsa_settings *settings, bool wait);

/* ---- units_project.c ---- */
struct fault project_unit_prepared(struct projection *projection, const struct event_view *event);
struct fault project_unit_certified(struct projection *projection, const struct event_view *event);
struct fault project_unit_activated(struct projection *projection, const struct event_view *event);
struct fault project_unit_retired(struct projection *projection, const struct event_view *event);

#endif
