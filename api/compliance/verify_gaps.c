/* What is left to operator and auditor: open, or attested. */
#include "api/compliance/verify_internal.h"

#include "appliance/base/json_view.h"

struct gap {
    const char *id, *title, *owner, *statement, *state;
    struct span attestation;
};
static const struct jin_field gap_fields[] = {
    JIN_TEXT(struct gap, id, JIN_REQUIRED, 1, 128),   JIN_TEXT(struct gap, title, JIN_REQUIRED, 1, 1024),
    JIN_TEXT(struct gap, owner, JIN_REQUIRED, 1, 32), JIN_TEXT(struct gap, statement, JIN_OPTIONAL, 1, 128),
    JIN_TEXT(struct gap, state, JIN_REQUIRED, 1, 32), JIN_RAW(struct gap, attestation, JIN_OPTIONAL, 2, TEXT_MAX),
};

struct attestation {
    struct span reference;
    const char *expires_at;
};
static const struct jin_field attestation_fields[] = {
    JIN_RAW(struct attestation, reference, JIN_REQUIRED, 2, TEXT_MAX),
    JIN_TEXT(struct attestation, expires_at, JIN_OPTIONAL, 1, RFC3339_MAX),
};

/* It holds at the window's end, however long ago it was made. */
static struct fault check_attestation(struct check *check, const char *at, struct span json)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT(TEXT_MAX + 2);
    struct attestation made = { 0 };
    const struct evidence_window window = { INT64_MIN, check->window.to };
    char member[MEMBER_MAX];
    utc_us expires = INT64_MAX;
    size_t count = 0;
    TRY(take_object(check, PACK_GAP, at, json, attestation_fields, COUNT_OF(attestation_fields), &made));
    TRY(buf_text(&list, "["));
    TRY(buf_put(&list, made.reference));
    TRY(buf_text(&list, "]"));
    member_below(at, "reference", member);
    TRY(verify_references(check, member, buf_span(&list), PREREQUISITE_ATTESTATION, window, &count));
    if (made.expires_at != NULL) {
        TRY(take_time(check, at, "expires_at", made.expires_at, &expires));
    }
    if (expires <= check->window.to) {
        return refuse_below(check, PACK_GAP_STATE, at, "expires_at", "it had ended at the window's end");
    }
    return OK;
}

static struct fault check_gap(struct check *check, const char *at, struct span json, const char **ret_id)
{
    struct gap gap = { 0 };
    enum prerequisite_state state = STATE_MISSING;
    char member[MEMBER_MAX];
    TRY(take_object(check, PACK_GAP, at, json, gap_fields, COUNT_OF(gap_fields), &gap));
    if (strcmp(gap.owner, "operator") != 0 && strcmp(gap.owner, "auditor") != 0) {
        return refuse_below(check, PACK_GAP_OWNER, at, "owner", "\"%s\"", gap.owner);
    }
    if (!evidence_state(gap.state, &state)) {
        return refuse_below(check, PACK_GAP_STATE, at, "state", "\"%s\"", gap.state);
    }
    bool attested = gap.attestation.len > 0;
    if ((state == STATE_MET) != attested || (gap.statement == NULL && state != STATE_MISSING)) {
        return refuse_below(check, PACK_GAP_STATE, at, "state", "%s, with%s attestation", gap.state,
                            attested ? " an" : "out");
    }
    check->verdict->gaps_open += !attested;
    *ret_id = gap.id;
    member_below(at, "attestation", member);
    return attested ? check_attestation(check, member, gap.attestation) : OK;
}

struct fault verify_gaps(struct check *check, const char *at, struct span gaps)
{
    const char *ids[GAPS_MAX] = { NULL };
    struct span *items = NULL;
    size_t count = 0;
    TRY(take_array(check, PACK_MANIFEST, at, gaps, GAPS_MAX, &items, &count));
    for (size_t i = 0; i < count; i++) {
        char member[MEMBER_MAX];
        member_at(at, i, member);
        const char *id = "";
        TRY(check_gap(check, member, items[i], &id));
        if (listed(ids, i, id)) {
            return refuse(check, PACK_GAP_TWICE, member, "\"%s\"", id);
        }
        ids[i] = id;
    }
    check->verdict->gaps = (int64_t)count;
    return OK;
}
