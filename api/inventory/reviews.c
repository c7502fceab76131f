/*
 * An access review: the live credentials of users as of its opening, each to be kept or revoked by somebody else than
 * its opener, who does not close it either; that is done when all is decided and what was to be revoked is dead. It
 * revokes nothing itself: that is done where the credential lives, under that route's permission, and seen here.
 */
#include "api/inventory/credentials.h"

#include "appliance/base/codec.h"

#define ALL_KINDS "certificate key token" /* as kinds_of makes it of all */

static struct fault no_such(struct op *op)
{
    return op_fail(op, FAULT(NOT_FOUND), "no such access review: list them with GET /api/v1/access-reviews");
}

/* ---- opening ---- */

static struct fault check_kinds(struct op *op, const struct review_open_body *body)
{
    for (size_t i = 0; i < body->kinds.count; i++) {
        bool doubled = false;
        for (size_t j = 0; j < i; j++) {
            doubled = doubled || strcmp(body->kinds.at[i], body->kinds.at[j]) == 0;
        }
        if (doubled || !credential_kind_known(body->kinds.at[i])) {
            return op_fail_field(op, FAULT(JSON_FIELD), "/kinds", "/kinds: each of " CREDENTIAL_KINDS " once at most");
        }
    }
    return OK;
}

static struct fault kinds_of(struct op *op, const struct review_open_body *body, const char **ret_text)
{
    static const char *const all[] = { "certificate", "key", "token" };
    const char *text = "";
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        bool wanted = body->kinds.count == 0;
        for (size_t j = 0; j < body->kinds.count; j++) {
            wanted = wanted || strcmp(body->kinds.at[j], all[i]) == 0;
        }
        if (wanted) {
            TRY(arena_printf(op->arena, &text, "%s%s%s", text, text[0] != '\0' ? " " : "", all[i]));
        }
    }
    *ret_text = text;
    return OK;
}

static struct fault check_size(struct op *op, size_t count)
{
    if (count == 0) {
        return op_fail(op, FAULT(REVIEW_SIZE), "there is no live credential of users in this scope");
    }
    if (count > REVIEW_MAX) {
        return op_fail(op, FAULT(REVIEW_SIZE),
                       "more than %d live credentials: open several reviews, each for some kinds or for one owner_id",
                       REVIEW_MAX);
    }
    return OK;
}

static struct fault print_names(const char *const *names, size_t count, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_array(&jout);
    for (size_t i = 0; i < count; i++) {
        jout_text(&jout, names[i]);
    }
    jout_array_end(&jout);
    return jout_end(&jout);
}

static struct fault print_opened(struct op *op, const struct review_open_body *body, struct uuid id, struct span names,
                                 size_t count, struct buf *out)
{
    struct sha256 digest;
    struct jout jout;
    const char *kinds = NULL;
    TRY(kinds_of(op, body, &kinds));
    TRY(sha256_of(names, &digest)); /* an array of plain texts, compact: this is its RFC 8785 form */
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "command_id", op->command_id.text);
    jout_key_raw(&jout, "credentials", names);
    jout_key_hex(&jout, "inventory_digest", SPAN_ARRAY(digest.at));
    jout_key_text(&jout, "kinds", kinds);
    jout_key_text(&jout, "owner_id", body->owner_id != NULL ? body->owner_id : "");
    jout_key_text(&jout, "review_id", id.text);
    jout_key_text(&jout, "title", body->title);
    jout_key_int(&jout, "total", (int64_t)count);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault review_open(struct op *op, struct services *services, const struct review_open_body *body,
                         struct uuid *ret_id)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT(INVENTORY_EVENT_MAX), data = BUF_INIT(INVENTORY_EVENT_MAX);
    const char **list = NULL;
    size_t count = 0;
    struct uuid id;
    struct review before;
    const struct span parts[] = { span_text(op->command_id.text) };
    TRY(check_kinds(op, body));
    TRY(uuid_derive("inventory.access_review", parts, COUNT_OF(parts), &id));
    struct fault fault = review_get(op, services, id.text, clock_utc(), &before);
    if (fault.code != FAULT_NOT_FOUND) {
        op_was_recorded(op); /* this command has run before */
        *ret_id = id;
        return fault;
    }
    TRY(review_scope(op, services, body, clock_utc(), REVIEW_MAX + 1, &list, &count));
    TRY(check_size(op, count));
    TRY(print_names(list, count, &names));
    TRY(print_opened(op, body, id, buf_span(&names), count, &data));
    TRY(inventory_append(op, services, REVIEW_LANE, EVENT_REVIEW_OPENED, op->command_id.text, &data, NULL));
    *ret_id = id;
    return OK;
}

/* ---- decisions ---- */

struct decision {
    const char *kind, *credential_id, *decision, *reason;
};
static const struct jin_field decision_fields[] = {
    JIN_TEXT(struct decision, kind, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct decision, credential_id, JIN_REQUIRED, 1, CREDENTIAL_ID_MAX),
    JIN_TEXT(struct decision, decision, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct decision, reason, JIN_REQUIRED, 1, 256),
};

struct decisions {
    struct decision *at;
    const char **names;
    size_t count;
};

static struct fault bad_decision(struct op *op, size_t index, const char *what)
{
    const char *pointer = NULL;
    TRY(arena_printf(op->arena, &pointer, "/decisions/%zu", index));
    return op_fail_field(op, FAULT(JSON_FIELD), pointer, "%s: %s", pointer, what);
}

static struct fault read_decisions(struct op *op, struct span json, struct decisions *decisions)
{
    struct span *items = NULL;
    TRY(jin_array(op, json, REVIEW_DECIDED_MAX, &items, &decisions->count));
    if (decisions->count == 0) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/decisions", "/decisions: 1 to %d of them", REVIEW_DECIDED_MAX);
    }
    TRY(arena_take(op->arena, decisions->count, sizeof(*decisions->at), &decisions->at));
    TRY(arena_take(op->arena, decisions->count, sizeof(*decisions->names), &decisions->names));
    for (size_t i = 0; i < decisions->count; i++) {
        struct decision *one = &decisions->at[i];
        TRY(jin_decode(op, items[i], decision_fields, COUNT_OF(decision_fields), one));
        if (strcmp(one->decision, "keep") != 0 && strcmp(one->decision, "revoke") != 0) {
            return bad_decision(op, i, "decision must be keep or revoke");
        }
        TRY(arena_printf(op->arena, &decisions->names[i], "%s:%s", one->kind, one->credential_id));
        for (size_t j = 0; j < i; j++) {
            if (strcmp(decisions->names[i], decisions->names[j]) == 0) {
                return bad_decision(op, i, "this credential is decided twice");
            }
        }
    }
    return OK;
}

static struct fault print_decided(struct op *op, const char *id, const struct decisions *decisions, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "command_id", op->command_id.text);
    jout_key(&jout, "decisions");
    jout_array(&jout);
    for (size_t i = 0; i < decisions->count; i++) {
        jout_object(&jout);
        jout_key_text(&jout, "credential_id", decisions->at[i].credential_id);
        jout_key_text(&jout, "decision", decisions->at[i].decision);
        jout_key_text(&jout, "kind", decisions->at[i].kind);
        jout_key_text(&jout, "reason", decisions->at[i].reason);
        jout_object_end(&jout);
    }
    jout_array_end(&jout);
    jout_key_text(&jout, "review_id", id);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* *ret_done: this command has run before. */
static struct fault open_review(struct op *op, struct services *services, const char *id, uint64_t *ret_lane,
                                struct review *ret_review, bool *ret_done)
{
    TRY(inventory_lane_last(op, services, REVIEW_LANE, ret_lane));
    struct fault fault = review_get(op, services, id, clock_utc(), ret_review);
    if (fault.code == FAULT_NOT_FOUND) {
        return no_such(op);
    }
    TRY(fault);
    *ret_done = strcmp(ret_review->last_command, op->command_id.text) == 0;
    if (*ret_done) {
        op_was_recorded(op);
        return OK;
    }
    if (strcmp(ret_review->state, "open") != 0) {
        return op_fail(op, FAULT(REVIEW_STATE), "the access review is %s: nothing of it changes any more",
                       ret_review->state);
    }
    return OK;
}

/* Whoever says what is looked at neither says what becomes of it nor that it is done. */
static struct fault check_person(struct op *op, const struct review *review, const char *what)
{
    if (strcmp(review->opened_by, op->principal.subject) == 0) {
        return op_fail(op, FAULT(REVIEW_PERSON), "you opened this access review: somebody else has to %s it", what);
    }
    return OK;
}

static struct fault decide_once(struct op *op, struct services *services, const char *id,
                                const struct decisions *decisions)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT(INVENTORY_EVENT_MAX), data = BUF_INIT(INVENTORY_EVENT_MAX);
    struct review review;
    const char *stranger = NULL;
    uint64_t lane = 0;
    bool done = false;
    TRY(open_review(op, services, id, &lane, &review, &done));
    if (done) {
        return OK;
    }
    TRY(check_person(op, &review, "decide"));
    TRY(print_names(decisions->names, decisions->count, &names));
    TRY(review_stranger(op, services, id, buf_span(&names), &stranger));
    if (stranger != NULL) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/decisions", "/decisions: %s is not in this access review",
                             stranger);
    }
    TRY(print_decided(op, id, decisions, &data));
    return inventory_append(op, services, REVIEW_LANE, EVENT_REVIEW_DECIDED, op->command_id.text, &data, &lane);
}

struct fault review_decide(struct op *op, struct services *services, const char *id, struct span json)
{
    struct decisions decisions = { 0 };
    struct fault fault = OK;
    TRY(read_decisions(op, json, &decisions));
    for (int i = 0; i < INVENTORY_DECIDE_AGAIN; i++) {
        fault = decide_once(op, services, id, &decisions);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    return fault;
}

/* ---- completion ---- */

static struct fault check_complete(struct op *op, const struct review *review)
{
    TRY(check_person(op, review, "complete"));
    if (review->undecided > 0) {
        return op_fail(op, FAULT(REVIEW_STATE), "%lld of %lld credentials are undecided", (long long)review->undecided,
                       (long long)review->total);
    }
    if (review->revoked_live > 0) {
        return op_fail(op, FAULT(REVIEW_STATE),
                       "%lld credentials that are to be revoked are still live: end them first (tokens revoke, keys "
                       "destroy; a recorded certificate: storage_class destroyed)",
                       (long long)review->revoked_live);
    }
    return OK;
}

static struct fault print_completed(struct op *op, const struct review *review, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "command_id", op->command_id.text);
    jout_key_hex(&jout, "inventory_digest", SPAN_ARRAY(review->digest.at));
    jout_key_text(&jout, "kinds", review->kinds);
    jout_key_int(&jout, "kept", review->kept);
    jout_key_text(&jout, "opened_by", review->opened_by);
    jout_key_text(&jout, "owner_id", review->owner_id);
    jout_key_text(&jout, "review_id", review->id.text);
    jout_key_text(&jout, "reviewer", op->principal.subject);
    jout_key_int(&jout, "revoked", review->revoked);
    jout_key_int(&jout, "total", review->total);
    jout_key_bool(&jout, "whole", strcmp(review->kinds, ALL_KINDS) == 0 && review->owner_id[0] == '\0');
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault complete_once(struct op *op, struct services *services, const char *id)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(8192);
    struct review review;
    uint64_t lane = 0;
    bool done = false;
    TRY(open_review(op, services, id, &lane, &review, &done));
    if (done) {
        return OK;
    }
    TRY(check_complete(op, &review));
    TRY(print_completed(op, &review, &data));
    return inventory_append(op, services, REVIEW_LANE, EVENT_REVIEW_COMPLETED, op->command_id.text, &data, &lane);
}

struct fault review_complete(struct op *op, struct services *services, const char *id)
{
    struct fault fault = OK;
    for (int i = 0; i < INVENTORY_DECIDE_AGAIN; i++) {
        fault = complete_once(op, services, id);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    return fault;
}
