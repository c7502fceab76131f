/* Complete facts for a framework, and ways to take one of them away. Everything follows from the framework's own file,
 * so that a framework with another prerequisite needs no other test. */
#ifndef TESTS_UNIT_COMPLIANCE_WORLD_H
#define TESTS_UNIT_COMPLIANCE_WORLD_H

#include "testlib.h"

#include "api/compliance/evaluate.h"

#include <stdio.h>

#define DAY_US       (24 * 3600 * US_PER_S)
#define WORLD_NOW    ((utc_us)1800000000 * US_PER_S)
#define WORLD_EVENTS 256
#define WORLD_NAMED  128
#define WORLD_DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define WORLD_SAID   "Ten of ten are as they should be."

/* What is wrong with one of them. */
enum spoilt {
    SPOILT_NOTHING,
    SPOILT_REMOVED,
    SPOILT_STALE,
    SPOILT_MALFORMED,
    SPOILT_UNNAMED, /* malformed in another way: nothing could refer to it */
    SPOILT_FUTURE,
    SPOILT_FOREIGN,
    SPOILT_FOREIGN_RECORD, /* the record itself names another tenant */
    SPOILT_FAILS,          /* a fact that does not hold; an event that meets no condition */
    SPOILT_FEW,            /* one record less than is asked for */
    SPOILT_ONE_ACTOR,
    SPOILT_EXPIRED,
    SPOILT_COUNT
};

static const struct tenant_id world_tenant = { "default" }, world_stranger = { "stranger" };
static const struct evidence_window world_window = { WORLD_NOW - EVIDENCE_WINDOW_DAYS * DAY_US, WORLD_NOW };

struct world {
    struct op *op, *scratch;
    struct gathering gatherings[WORLD_EVENTS];
    struct evidence_fact facts[WORLD_NAMED];
    struct evidence_attestation attestations[WORLD_NAMED];
    struct evidence_facts all;
    int64_t sequence;
};

static inline void world_clear(struct world *world)
{
    op_free(TAKE(world->op));
    op_free(TAKE(world->scratch));
}

/* ---- records ---- */

struct member {
    const char *path, *value;
};
struct members {
    struct member at[16];
    size_t count;
};

static inline void member_set(struct members *members, const char *path, const char *value)
{
    for (size_t i = 0; i < members->count; i++) {
        if (strcmp(members->at[i].path, path) == 0) {
            members->at[i].value = value;
            return;
        }
    }
    assert_true(members->count < COUNT_OF(members->at));
    members->at[members->count++] = (struct member){ path, value };
}

/* What the conditions on this type ask for; with `fails`, what the last of them does not take. */
static inline void members_for(const struct framework_prerequisite *asked, const char *type, bool fails,
                               struct members *members)
{
    const struct framework_condition *last = NULL;
    for (size_t i = 0; i < asked->where_count; i++) {
        const struct framework_condition *condition = &asked->where[i];
        if (condition->of != NULL && strcmp(condition->of, type) != 0) {
            continue;
        }
        last = condition;
        if (condition->value_count > 0) {
            member_set(members, condition->path, condition->values[condition->value_count - 1]);
        } else if (condition->differs_from != NULL) {
            member_set(members, condition->path, "ann");
            member_set(members, condition->differs_from, "ben");
        } else {
            member_set(members, condition->path, "something else");
        }
    }
    if (fails && last != NULL) {
        member_set(members, last->path,
                   last->value_count > 0    ? "nothing of that"
                   : last->except_count > 0 ? last->except[0]
                   : last->differs_from     ? "ben"
                                            : NULL);
    }
}

static inline void print_value(struct jout *jout, const char *key, const char *value)
{
    bool truth = value != NULL && (strcmp(value, "true") == 0 || strcmp(value, "false") == 0);
    if (truth) {
        jout_key_bool(jout, key, strcmp(value, "true") == 0);
    } else {
        jout_key_text(jout, key, value); /* NULL: null */
    }
}

static inline struct span record_print(struct op *op, const char *tenant, const char *type, const char *actor,
                                       const struct members *members)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(4096);
    struct span made;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key(&jout, "actor");
    jout_object(&jout);
    for (size_t i = 0; i < members->count; i++) {
        actor = strcmp(members->at[i].path, "actor.subject") == 0 ? members->at[i].value : actor;
    }
    jout_key_text(&jout, "subject", actor);
    jout_object_end(&jout);
    jout_key(&jout, "data");
    jout_object(&jout);
    for (size_t i = 0; i < members->count; i++) {
        if (strncmp(members->at[i].path, "data.", 5) == 0) {
            print_value(&jout, members->at[i].path + 5, members->at[i].value);
        }
    }
    jout_object_end(&jout);
    jout_key_text(&jout, "tenant_id", tenant);
    jout_key_text(&jout, "type", type);
    jout_object_end(&jout);
    assert_fault(jout_end(&jout), NONE);
    assert_fault(arena_copy(op->arena, buf_span(&json), &made), NONE);
    return made;
}

/* ---- each kind ---- */

static inline const struct framework_condition *condition_on(const struct framework_prerequisite *asked,
                                                             const char *type)
{
    for (size_t i = 0; i < asked->where_count; i++) {
        if (asked->where[i].of == NULL || strcmp(asked->where[i].of, type) == 0) {
            return &asked->where[i];
        }
    }
    return NULL;
}

static inline void world_gather(struct world *world, const struct framework_prerequisite *asked, size_t type_index,
                                enum spoilt spoilt, struct gathering *gathering)
{
    static const char *const actors[] = { "ann", "ben", "cyd", "dan", "eve", "fay", "guy", "hal" };
    const char *type = asked->types[type_index % asked->type_count];
    int64_t age = asked->max_age_days > 0 ? asked->max_age_days : EVIDENCE_WINDOW_DAYS;
    int64_t wanted = asked->min > asked->distinct_actors ? asked->min : asked->distinct_actors;
    gathering_init(gathering, asked, world_tenant, world_window);
    wanted -= spoilt == SPOILT_FEW;
    for (int64_t i = 0; spoilt != SPOILT_REMOVED && i < wanted; i++) {
        struct members members = { 0 };
        char id[37];
        const char *actor = actors[spoilt == SPOILT_ONE_ACTOR ? 0 : (size_t)i % COUNT_OF(actors)];
        members_for(asked, type, spoilt == SPOILT_FAILS, &members);
        (void)snprintf(id, sizeof(id), "01900000-0000-8000-8000-%012llx", (unsigned long long)++world->sequence);
        const struct evidence_event event = {
            .tenant = spoilt == SPOILT_FOREIGN ? world_stranger : world_tenant,
            .event_id = spoilt == SPOILT_UNNAMED ? "" : id,
            .type = type,
            .actor = actor,
            .sequence = world->sequence,
            .time = spoilt == SPOILT_STALE    ? WORLD_NOW - age * DAY_US - 1
                    : spoilt == SPOILT_FUTURE ? WORLD_NOW + 1
                                              : WORLD_NOW - i,
            .record =
                spoilt == SPOILT_MALFORMED
                    ? span_text("{\"data\":{\"approver\":")
                    : record_print(world->op, spoilt == SPOILT_FOREIGN_RECORD ? world_stranger.text : world_tenant.text,
                                   type, actor, &members),
        };
        arena_clear(world->scratch->arena);
        assert_fault(gather_take(world->op, world->scratch, gathering, &event), NONE);
    }
}

static inline struct evidence_fact fact_of(const struct framework_prerequisite *asked, enum spoilt spoilt)
{
    int64_t age = asked->max_age_days > 0 ? asked->max_age_days : EVIDENCE_WINDOW_DAYS;
    return (struct evidence_fact){
        .name = asked->fact,
        .state = spoilt == SPOILT_FAILS       ? FACT_FAILS
                 : spoilt == SPOILT_MALFORMED ? FACT_MALFORMED
                                              : FACT_HOLDS,
        .tenant = spoilt == SPOILT_FOREIGN ? world_stranger : world_tenant,
        .snapshot = spoilt == SPOILT_STALE    ? WORLD_NOW - age * DAY_US - 1
                    : spoilt == SPOILT_FUTURE ? WORLD_NOW + 1
                                              : WORLD_NOW,
        .object = spoilt == SPOILT_UNNAMED ? NULL : "some-summary:default",
        .why = WORLD_SAID,
        .total = 10,
        .matched = spoilt == SPOILT_FAILS ? 9 : 10,
    };
}

static inline struct evidence_attestation attestation_of(const char *statement, int64_t age_days, enum spoilt spoilt)
{
    int64_t age = age_days > 0 ? age_days : EVIDENCE_WINDOW_DAYS;
    return (struct evidence_attestation){
        .statement = statement,
        .tenant = spoilt == SPOILT_FOREIGN ? world_stranger : world_tenant,
        .malformed = spoilt == SPOILT_MALFORMED,
        .made = spoilt == SPOILT_STALE    ? WORLD_NOW - age * DAY_US - 1
                : spoilt == SPOILT_FUTURE ? WORLD_NOW + 1
                                          : WORLD_NOW - DAY_US,
        .expires = spoilt == SPOILT_EXPIRED ? WORLD_NOW : WORLD_NOW + DAY_US,
        .evidence_sha256 = spoilt == SPOILT_UNNAMED ? "0011" : WORLD_DIGEST,
        .event = { .event_id = "01900000-0000-8000-8000-00000000a77e",
                   .type = "inventory.attestation.recorded",
                   .sequence = 7,
                   .time = WORLD_NOW - DAY_US },
    };
}

static inline bool has_fact(const struct world *world, const char *name)
{
    for (size_t i = 0; i < world->all.fact_count; i++) {
        if (strcmp(world->facts[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static inline bool has_statement(const struct world *world, const char *statement)
{
    for (size_t i = 0; i < world->all.attestation_count; i++) {
        if (strcmp(world->attestations[i].statement, statement) == 0) {
            return true;
        }
    }
    return false;
}

/* Everything that the framework asks for, but for one prerequisite (NULL: none), which is spoilt: a fact or statement
 * that several controls ask for is so for all of them. `type`: of which of its types the victim's records are. */
static inline void world_make(struct world *world, const struct framework *framework,
                              const struct framework_prerequisite *victim, enum spoilt spoilt, size_t type)
{
    memset(world, 0, sizeof(*world));
    assert_fault(op_new("test", world_tenant, 60000, &world->op), NONE);
    assert_fault(op_new("test", world_tenant, 60000, &world->scratch), NONE);
    world->all = (struct evidence_facts){ .tenant = world_tenant,
                                          .window = world_window,
                                          .facts = world->facts,
                                          .attestations = world->attestations,
                                          .gatherings = world->gatherings };
    for (size_t i = 0; i < framework->control_count; i++) {
        for (size_t j = 0; j < framework->controls[i].prerequisite_count; j++) {
            const struct framework_prerequisite *asked = &framework->controls[i].prerequisites[j];
            bool same = victim != NULL && victim->kind == asked->kind;
            if (asked->kind == PREREQUISITE_EVENT) {
                assert_true(world->all.gathering_count < WORLD_EVENTS);
                world_gather(world, asked, asked == victim ? type : i + j, asked == victim ? spoilt : SPOILT_NOTHING,
                             &world->gatherings[world->all.gathering_count++]);
            } else if (asked->kind == PREREQUISITE_FACT && !has_fact(world, asked->fact)) {
                bool hit = same && strcmp(victim->fact, asked->fact) == 0;
                if (!hit || spoilt != SPOILT_REMOVED) {
                    world->facts[world->all.fact_count++] = fact_of(asked, hit ? spoilt : SPOILT_NOTHING);
                }
            } else if (asked->kind == PREREQUISITE_ATTESTATION && !has_statement(world, asked->statement)) {
                bool hit = same && strcmp(victim->statement, asked->statement) == 0;
                if (!hit || spoilt != SPOILT_REMOVED) {
                    world->attestations[world->all.attestation_count++] =
                        attestation_of(asked->statement, asked->max_age_days, hit ? spoilt : SPOILT_NOTHING);
                }
            }
        }
    }
}

#endif
