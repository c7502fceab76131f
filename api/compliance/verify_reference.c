/* References: what a verdict rests on, by name. */
#include "api/compliance/verify_internal.h"

struct event_reference {
    const char *event_id, *type, *observed_at;
    int64_t sequence;
    struct span chain, evidence_sha256;
};
#define EVENT_FIELDS                                                                 \
    JIN_TEXT(struct event_reference, event_id, JIN_REQUIRED, 36, 36),                \
        JIN_TEXT(struct event_reference, type, JIN_REQUIRED, 1, TYPE_TEXT_MAX),      \
        JIN_TEXT(struct event_reference, observed_at, JIN_REQUIRED, 1, RFC3339_MAX), \
        JIN_INT(struct event_reference, sequence, JIN_REQUIRED, 1, INT64_MAX),       \
        JIN_HEX(struct event_reference, chain, JIN_REQUIRED, SHA256_LEN, SHA256_LEN)
static const struct jin_field event_fields[] = { EVENT_FIELDS };
static const struct jin_field attestation_fields[] = {
    EVENT_FIELDS,
    JIN_HEX(struct event_reference, evidence_sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
};

struct object_reference {
    const char *object, *snapshot_at;
};
static const struct jin_field object_fields[] = {
    JIN_TEXT(struct object_reference, object, JIN_REQUIRED, 1, 256),
    JIN_TEXT(struct object_reference, snapshot_at, JIN_REQUIRED, 1, RFC3339_MAX),
};

static struct fault check_time(struct check *check, const char *at, const char *name, const char *text,
                               struct evidence_window window)
{
    utc_us time = 0;
    TRY(take_time(check, at, name, text, &time));
    if (time < window.from || time > window.to) {
        return refuse_below(check, PACK_REFERENCE_WINDOW, at, name, "%s lies outside the window", text);
    }
    return OK;
}

static struct fault check_event(struct check *check, const char *at, struct span json, bool attestation,
                                struct evidence_window window, const char **ret_id)
{
    struct event_reference event = { 0 };
    struct uuid id;
    const struct jin_field *fields = attestation ? attestation_fields : event_fields;
    size_t count = attestation ? COUNT_OF(attestation_fields) : COUNT_OF(event_fields);
    TRY(take_object(check, PACK_REFERENCE, at, json, fields, count, &event));
    if (FAULTED(uuid_parse(span_text(event.event_id), &id))) {
        return refuse_below(check, PACK_REFERENCE, at, "event_id", "\"%s\" is no event's id", event.event_id);
    }
    if (event.sequence > check->head) {
        return refuse_below(check, PACK_REFERENCE_SEQUENCE, at, "sequence", "%lld, and the audit trail ended with %lld",
                            (long long)event.sequence, (long long)check->head);
    }
    *ret_id = event.event_id;
    return check_time(check, at, "observed_at", event.observed_at, window);
}

static struct fault check_object(struct check *check, const char *at, struct span json, struct evidence_window window,
                                 const char **ret_id)
{
    struct object_reference object = { 0 };
    TRY(take_object(check, PACK_REFERENCE, at, json, object_fields, COUNT_OF(object_fields), &object));
    *ret_id = object.object;
    return check_time(check, at, "snapshot_at", object.snapshot_at, window);
}

static bool has_member(struct span json, const char *quoted)
{
    return memmem(json.at, json.len, quoted, strlen(quoted)) != NULL;
}

struct fault verify_references(struct check *check, const char *at, struct span references, enum prerequisite_kind kind,
                               struct evidence_window window, size_t *ret_count)
{
    const char *ids[EVIDENCE_REFERENCES_MAX] = { NULL };
    struct span *items = NULL;
    size_t count = 0;
    TRY(take_array(check, PACK_REFERENCE, at, references, EVIDENCE_REFERENCES_MAX, &items, &count));
    for (size_t i = 0; i < count; i++) {
        char member[MEMBER_MAX];
        bool is_object = has_member(items[i], "\"object\":");
        member_at(at, i, member);
        if (is_object != (kind == PREREQUISITE_FACT)) {
            return refuse(check, PACK_REFERENCE_KIND, member, "%s",
                          is_object ? "an object of the inventory, where an event is wanted"
                                    : "an event, where an object of the inventory is wanted");
        }
        const char *id = "";
        TRY(is_object ? check_object(check, member, items[i], window, &id)
                      : check_event(check, member, items[i], kind == PREREQUISITE_ATTESTATION, window, &id));
        if (listed(ids, i, id)) {
            return refuse(check, PACK_REFERENCE_TWICE, member, "%s is evidence already", id);
        }
        ids[i] = id;
    }
    *ret_count = count;
    return OK;
}
