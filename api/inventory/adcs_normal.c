/* One form for one meaning: sorted, without doubles, principals' names in a table of their own. */
#include "api/inventory/adcs.h"

static struct fault inconsistent(struct op *op, const char *pointer, const char *name, const char *why)
{
    return op_fail_field(op, FAULT(ADCS_OBSERVATION), pointer, "%.100s: %s", name, why);
}

static void sort_texts(struct jin_texts *texts)
{
    size_t kept = 0;
    if (texts->count > 1) {
        qsort(texts->at, texts->count, sizeof(*texts->at), adcs_text_order);
    }
    for (size_t i = 0; i < texts->count; i++) {
        if (kept == 0 || strcmp(texts->at[kept - 1], texts->at[i]) != 0) {
            texts->at[kept++] = texts->at[i];
        }
    }
    texts->count = kept;
}

/* By SID, and the name that sorts last first, so that one that was said stands before none. */
static int permission_order(const void *a, const void *b)
{
    const struct adcs_permission *first = a, *second = b;
    int order = strcmp(first->sid, second->sid);
    return order != 0 ? order : strcmp(second->name, first->name);
}

static void sort_permissions(struct adcs_permissions *permissions)
{
    size_t kept = 0;
    if (permissions->count > 1) {
        qsort(permissions->at, permissions->count, sizeof(*permissions->at), permission_order);
    }
    for (size_t i = 0; i < permissions->count; i++) {
        if (kept > 0 && strcmp(permissions->at[kept - 1].sid, permissions->at[i].sid) == 0) {
            permissions->at[kept - 1].rights |= permissions->at[i].rights;
        } else {
            permissions->at[kept++] = permissions->at[i];
        }
    }
    permissions->count = kept;
}

/* Every struct begins with the text that it is known by. */
_Static_assert(offsetof(struct adcs_template, name) == 0 && offsetof(struct adcs_service, ca) == 0 &&
                   offsetof(struct adcs_endpoint, url) == 0 && offsetof(struct adcs_restriction, ca) == 0,
               "sorted by their first member");

static struct fault sort_known_by(struct op *op, const char *pointer, void *items, size_t count, size_t size)
{
    const uint8_t *at = items;
    if (count > 1) {
        qsort(items, count, size, adcs_text_order);
    }
    for (size_t i = 1; i < count; i++) {
        const char *name = *(const char *const *)(const void *)(at + i * size);
        if (strcmp(name, *(const char *const *)(const void *)(at + (i - 1) * size)) == 0) {
            return inconsistent(op, pointer, name, "stands there twice");
        }
    }
    return OK;
}

/* ---- principals ---- */

static int principal_order(const void *a, const void *b)
{
    const struct adcs_principal *first = a, *second = b;
    int order = strcmp(first->sid, second->sid);
    return order != 0 ? order : strcmp(second->name, first->name);
}

static void add_principals(struct adcs_observation *observation, const struct adcs_permissions *permissions)
{
    for (size_t i = 0; i < permissions->count; i++) {
        observation->principals[observation->principal_count++] =
            (struct adcs_principal){ permissions->at[i].sid, permissions->at[i].name };
    }
}

static struct fault collect_principals(struct op *op, struct adcs_observation *observation)
{
    size_t most = 0, kept = 0;
    for (size_t i = 0; i < observation->template_count; i++) {
        most += observation->templates[i].permissions.count;
    }
    for (size_t i = 0; i < observation->restriction_count; i++) {
        most += observation->restrictions[i].permissions.count;
    }
    observation->principal_count = 0;
    TRY(arena_take(op->arena, most + 1, sizeof(*observation->principals), &observation->principals));
    for (size_t i = 0; i < observation->template_count; i++) {
        add_principals(observation, &observation->templates[i].permissions);
    }
    for (size_t i = 0; i < observation->restriction_count; i++) {
        add_principals(observation, &observation->restrictions[i].permissions);
    }
    struct adcs_principal *all = observation->principals;
    if (observation->principal_count > 1) {
        qsort(all, observation->principal_count, sizeof(*all), principal_order);
    }
    for (size_t i = 0; i < observation->principal_count; i++) {
        if (kept == 0 || strcmp(all[kept - 1].sid, all[i].sid) != 0) {
            all[kept++] = all[i];
        }
    }
    observation->principal_count = kept;
    if (kept > ADCS_PRINCIPALS_MAX) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/templates", "at most %d principals", ADCS_PRINCIPALS_MAX);
    }
    return OK;
}

/* ---- does it fit together ---- */

static const struct adcs_restriction *restriction_of(const struct adcs_observation *observation, const char *ca)
{
    return observation->restriction_count == 0 ? NULL
                                               : bsearch(&ca, observation->restrictions, observation->restriction_count,
                                                         sizeof(*observation->restrictions), adcs_text_order);
}

static bool has_service(const struct adcs_observation *observation, const char *ca)
{
    return observation->service_count > 0 && bsearch(&ca, observation->services, observation->service_count,
                                                     sizeof(*observation->services), adcs_text_order) != NULL;
}

static struct fault check_complete_service(struct op *op, const struct adcs_observation *observation,
                                           const struct adcs_service *service)
{
    const struct adcs_restriction *restriction = restriction_of(observation, service->ca);
    if (restriction == NULL) {
        return inconsistent(op, "/ca_restrictions", service->ca, "not said, so the observation is not complete");
    }
    if (restriction->edit_flags == ADCS_UNKNOWN || restriction->interface_flags == ADCS_UNKNOWN ||
        strcmp(restriction->enrollment_agents, "unknown") == 0 || strcmp(restriction->officers, "unknown") == 0) {
        return inconsistent(op, "/ca_restrictions", service->ca, "unknown in part, so the observation is not complete");
    }
    for (size_t i = 0; i < service->templates.count; i++) {
        if (observation->template_count == 0 ||
            bsearch(&service->templates.at[i], observation->templates, observation->template_count,
                    sizeof(*observation->templates), adcs_text_order) == NULL) {
            return inconsistent(op, "/templates", service->templates.at[i],
                                "published and not described, so the observation is not complete");
        }
    }
    return OK;
}

static struct fault check_whole(struct op *op, const struct adcs_observation *observation)
{
    for (size_t i = 0; i < observation->restriction_count; i++) {
        if (!has_service(observation, observation->restrictions[i].ca)) {
            return inconsistent(op, "/ca_restrictions", observation->restrictions[i].ca, "is no enrollment service");
        }
    }
    if (observation->head.complete && observation->head.schema_version == 2 && observation->service_count == 0) {
        return op_fail_field(op, FAULT(ADCS_OBSERVATION), "/enrollment_services",
                             "a complete observation has at least one enrollment service: hand in what was not seen "
                             "whole with complete false");
    }
    for (size_t i = 0; i < observation->service_count && observation->head.complete; i++) {
        TRY(check_complete_service(op, observation, &observation->services[i]));
    }
    return OK;
}

struct fault adcs_normalise(struct op *op, struct adcs_observation *observation)
{
    for (size_t i = 0; i < observation->template_count; i++) {
        sort_texts(&observation->templates[i].ekus);
        sort_permissions(&observation->templates[i].permissions);
    }
    for (size_t i = 0; i < observation->service_count; i++) {
        sort_texts(&observation->services[i].templates);
    }
    for (size_t i = 0; i < observation->restriction_count; i++) {
        sort_permissions(&observation->restrictions[i].permissions);
    }
    TRY(sort_known_by(op, "/templates", observation->templates, observation->template_count,
                      sizeof(*observation->templates)));
    TRY(sort_known_by(op, "/enrollment_services", observation->services, observation->service_count,
                      sizeof(*observation->services)));
    TRY(sort_known_by(op, "/iis_endpoints", observation->endpoints, observation->endpoint_count,
                      sizeof(*observation->endpoints)));
    TRY(sort_known_by(op, "/ca_restrictions", observation->restrictions, observation->restriction_count,
                      sizeof(*observation->restrictions)));
    TRY(collect_principals(op, observation));
    return check_whole(op, observation);
}
