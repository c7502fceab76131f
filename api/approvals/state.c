/* What needs neither store nor log: how a request stands at a time, and the event that makes one. */
#include "api/approvals/internal.h"

#include "appliance/base/codec.h"

static const char *const standings[STANDING_COUNT] = {
    [STANDING_PENDING] = "pending", [STANDING_APPROVED] = "approved", [STANDING_USED_UP] = "used_up",
    [STANDING_DENIED] = "denied",   [STANDING_EXPIRED] = "expired",   [STANDING_REPLACED] = "replaced",
};

const char *approval_standing_text(enum approval_standing standing)
{
    return standings[standing];
}

bool approval_standing_parse(const char *text, enum approval_standing *ret_standing)
{
    for (size_t i = 0; i < COUNT_OF(standings); i++) {
        if (strcmp(standings[i], text) == 0) {
            *ret_standing = (enum approval_standing)i;
            return true;
        }
    }
    return false;
}

const char *approval_verdict_text(enum approval_verdict verdict)
{
    return verdict == VERDICT_GRANTED ? "granted" : "denied";
}

static bool used_up(const struct approval_row *row)
{
    return row->max_signings > 0 && row->uses >= row->max_signings;
}

enum approval_standing approval_standing_at(const struct approval_row *row, utc_us now)
{
    if (strcmp(row->stored, "denied") == 0) {
        return STANDING_DENIED;
    }
    if (strcmp(row->stored, "replaced") == 0) {
        return STANDING_REPLACED;
    }
    bool approved = strcmp(row->stored, "approved") == 0;
    if (approved && used_up(row)) {
        return STANDING_USED_UP;
    }
    if (now >= row->expires) {
        return STANDING_EXPIRED;
    }
    return approved ? STANDING_APPROVED : STANDING_PENDING;
}

/* What the present rule makes of a request: NONE where a refusal has to ask. */
static enum approval_state state_of(const struct approval_row *row, unsigned needed, utc_us now)
{
    switch (approval_standing_at(row, now)) {
    case STANDING_PENDING:
        return row->needed == needed ? APPROVAL_PENDING : APPROVAL_NONE;
    case STANDING_APPROVED:
        return row->needed >= needed ? APPROVAL_APPROVED : APPROVAL_NONE;
    case STANDING_USED_UP:
        return now < row->expires ? APPROVAL_USED_UP : APPROVAL_NONE;
    case STANDING_DENIED:
        return now < row->expires ? APPROVAL_DENIED : APPROVAL_NONE;
    case STANDING_EXPIRED:
    case STANDING_REPLACED:
    case STANDING_COUNT:
        break;
    }
    return APPROVAL_NONE;
}

void approval_status_of(const struct approval_row *newest, unsigned needed, utc_us now,
                        struct approval_status *ret_status)
{
    enum approval_state state = newest != NULL ? state_of(newest, needed, now) : APPROVAL_NONE;
    if (state == APPROVAL_NONE) {
        *ret_status = (struct approval_status){ .state = APPROVAL_NONE, .needed = needed };
        return;
    }
    *ret_status = (struct approval_status){
        .state = state,
        .request_id = newest->id,
        .approvals = (unsigned)newest->approvals,
        .needed = (unsigned)newest->needed,
        .expires = newest->expires,
        .uses = newest->uses,
        .max_signings = newest->max_signings,
        .denied_by = state == APPROVAL_DENIED ? newest->denied_by : NULL,
    };
}

bool approval_resource_valid(const char *resource)
{
    static const char *const heads[] = { APPROVAL_CODESIGN, APPROVAL_KEY_DESTROY, APPROVAL_ERASURE };
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        size_t head = strlen(heads[i]);
        if (strncmp(resource, heads[i], head) == 0 && strlen(resource + head) == APPROVAL_RESOURCE_HEX &&
            strspn(resource + head, "0123456789abcdef") == APPROVAL_RESOURCE_HEX) {
            return true;
        }
    }
    return false;
}

static bool fits(const char *text, size_t max)
{
    return text != NULL && text[0] != '\0' && strlen(text) <= max;
}

/* The bounds of the projection's table: what it would not take must never be in the log. */
static struct fault check_ask(const struct approval_ask *ask)
{
    REQUIRE(ask->resource != NULL && approval_resource_valid(ask->resource), BAD_ARGUMENT);
    REQUIRE(fits(ask->requester, OP_SUBJECT_MAX) && fits(ask->rule, APPROVAL_RULE_MAX), BAD_ARGUMENT);
    REQUIRE(fits(ask->action, APPROVAL_ACTION_MAX) && ask->about != NULL && ask->about[0] == '{', BAD_ARGUMENT);
    REQUIRE(strlen(ask->about) <= APPROVAL_ABOUT_MAX, TOO_LARGE);
    REQUIRE(ask->approvers >= 1 && ask->approvers <= APPROVAL_APPROVERS_MAX, BAD_ARGUMENT);
    REQUIRE(ask->window_us >= 1 && ask->window_us <= APPROVAL_WINDOW_MAX, BAD_ARGUMENT);
    REQUIRE(ask->max_signings >= 0 && ask->max_signings <= INT32_MAX, BAD_ARGUMENT);
    struct uuid parsed;
    return uuid_parse(span_text(ask->operation_id.text), &parsed);
}

struct fault approvals_print_requested(const struct approval_ask *ask, struct buf *out)
{
    struct uuid id;
    TRY(check_ask(ask));
    const struct span parts[] = { span_text(ask->resource), span_text(ask->operation_id.text) };
    TRY(uuid_derive("approval.request", parts, COUNT_OF(parts), &id));
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "request_id", id.text);
    jout_key_text(&jout, "resource", ask->resource);
    jout_key_text(&jout, "action", ask->action);
    jout_key_text(&jout, "requester", ask->requester);
    jout_key_text(&jout, "rule", ask->rule);
    jout_key_raw(&jout, "about", span_text(ask->about));
    jout_key_int(&jout, "approvers", ask->approvers);
    jout_key_int(&jout, "window_us", ask->window_us);
    jout_key_int(&jout, "max_signings", ask->max_signings);
    jout_key_text(&jout, "operation_id", ask->operation_id.text);
    jout_object_end(&jout);
    return jout_end(&jout);
}
