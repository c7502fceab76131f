/* From JSON to an observation. What comes from a collector is checked text by text; what an event holds was, and only
 * its structure is asked for: an erasure may have put other texts in their place. */
#include "api/inventory/adcs.h"

#include <stdio.h>

#define PART_MAX ((int64_t)1 << 20)
#define TEXT_MAX 2048
#define ITEM_MAX 32768 /* what is taken is far shorter; an erasure may have put longer words in place of others */

#define FLAGS_MAX 4294967295LL

const struct jin_field adcs_body_fields[ADCS_BODY_FIELDS + 2] = {
    JIN_TEXT(struct adcs_body, domain, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TEXT(struct adcs_body, source_id, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TEXT(struct adcs_body, run_id, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TEXT(struct adcs_body, relay_id, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TIME(struct adcs_body, observed_at, JIN_REQUIRED),
    JIN_INT(struct adcs_body, schema_version, JIN_REQUIRED, 1, 2),
    JIN_BOOL(struct adcs_body, complete, JIN_REQUIRED),
    JIN_RAW(struct adcs_body, templates, JIN_REQUIRED, 2, PART_MAX),
    JIN_RAW(struct adcs_body, enrollment_services, JIN_OPTIONAL, 2, PART_MAX),
    JIN_RAW(struct adcs_body, iis_endpoints, JIN_OPTIONAL, 2, PART_MAX),
    JIN_RAW(struct adcs_body, ca_restrictions, JIN_OPTIONAL, 2, PART_MAX),
    JIN_TEXT(struct adcs_body, observation_id, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_RAW(struct adcs_body, principals, JIN_REQUIRED, 2, PART_MAX),
};

static const struct jin_field permission_fields[] = {
    JIN_TEXT(struct adcs_permission, sid, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_TEXT(struct adcs_permission, name, JIN_OPTIONAL, 0, ITEM_MAX),
    {
        .name = "rights",
        .kind = JIN_KIND_TEXTS,
        .flags = JIN_REQUIRED,
        .min = 1,
        .max = 16,
        .offset = offsetof(struct adcs_permission, words),
    },
};

#define PERMISSIONS(type)    \
    { .name = "permissions", \
      .kind = JIN_KIND_RAW,  \
      .flags = JIN_REQUIRED, \
      .min = 2,              \
      .max = PART_MAX,       \
      .offset = offsetof(struct type, permissions_json) }

static const struct jin_field template_fields[] = {
    JIN_TEXT(struct adcs_template, name, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_TEXT(struct adcs_template, oid, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_INT(struct adcs_template, schema_version, JIN_REQUIRED, 1, 4),
    JIN_INT(struct adcs_template, authorized_signatures, JIN_REQUIRED, 0, 64),
    JIN_INT(struct adcs_template, validity_seconds, JIN_REQUIRED, 0, 10000000000LL),
    JIN_INT(struct adcs_template, renewal_seconds, JIN_REQUIRED, 0, 10000000000LL),
    JIN_INT(struct adcs_template, name_flags, JIN_REQUIRED, 0, FLAGS_MAX),
    JIN_INT(struct adcs_template, enrollment_flags, JIN_REQUIRED, 0, FLAGS_MAX),
    JIN_INT(struct adcs_template, private_key_flags, JIN_REQUIRED, 0, FLAGS_MAX),
    JIN_BOOL(struct adcs_template, enrollee_supplies_subject, JIN_REQUIRED),
    JIN_BOOL(struct adcs_template, manager_approval, JIN_REQUIRED),
    JIN_TEXTS(struct adcs_template, ekus, JIN_REQUIRED, 0, ADCS_EKUS_MAX),
    PERMISSIONS(adcs_template),
};
static const struct jin_field service_fields[] = {
    JIN_TEXT(struct adcs_service, ca, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_TEXT(struct adcs_service, host, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_HEX(struct adcs_service, certificate_sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXTS(struct adcs_service, templates, JIN_REQUIRED, 0, ADCS_TEMPLATES_MAX),
};
static const struct jin_field endpoint_fields[] = {
    JIN_TEXT(struct adcs_endpoint, url, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_TEXT(struct adcs_endpoint, kind, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_TEXT(struct adcs_endpoint, scheme, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_TEXT(struct adcs_endpoint, channel_binding, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_BOOL(struct adcs_endpoint, ntlm, JIN_REQUIRED),
    JIN_HEX(struct adcs_endpoint, certificate_sha256, JIN_OPTIONAL, SHA256_LEN, SHA256_LEN),
};
static const struct jin_field restriction_fields[] = {
    JIN_TEXT(struct adcs_restriction, ca, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_TEXT(struct adcs_restriction, enrollment_agents, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_TEXT(struct adcs_restriction, officers, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_INT(struct adcs_restriction, edit_flags, JIN_OPTIONAL, 0, FLAGS_MAX),
    JIN_INT(struct adcs_restriction, interface_flags, JIN_OPTIONAL, 0, FLAGS_MAX),
    PERMISSIONS(adcs_restriction),
};
static const struct jin_field principal_fields[] = {
    JIN_TEXT(struct adcs_principal, sid, JIN_REQUIRED, 1, ITEM_MAX),
    JIN_TEXT(struct adcs_principal, name, JIN_REQUIRED, 0, ITEM_MAX),
};

/* What was noted within an element stands below its place. */
static struct fault below(struct op *op, struct fault fault, const char *member, size_t index)
{
    char inner[sizeof(op->note.pointer)];
    if (op->note.set) {
        memcpy(inner, op->note.pointer, sizeof(inner));
        (void)snprintf(op->note.pointer, sizeof(op->note.pointer), "/%.40s/%zu%.60s", member, index, inner);
    }
    return fault;
}

/* ---- one element each ---- */

static struct fault check_permission(struct op *op, struct adcs_permission *permission)
{
    TRY(adcs_check_sid(op, "/sid", &permission->sid));
    return permission->name[0] != '\0' ? adcs_check_name(op, "/name", &permission->name) : OK;
}

static struct fault read_permission(struct op *op, struct span json, unsigned allowed, bool strict,
                                    struct adcs_permission *permission)
{
    permission->name = "";
    TRY(jin_decode(op, json, permission_fields, COUNT_OF(permission_fields), permission));
    for (size_t i = 0; i < permission->words.count; i++) {
        unsigned right = adcs_right_of(permission->words.at[i]);
        if (strict && (right & allowed) == 0) {
            return op_fail_field(op, FAULT(JSON_FIELD), "/rights", "%.40s is no right of these",
                                 permission->words.at[i]);
        }
        permission->rights |= right;
    }
    return strict ? check_permission(op, permission) : OK;
}

static struct fault read_permissions(struct op *op, struct span json, unsigned allowed, bool strict,
                                     struct adcs_permissions *ret_permissions)
{
    struct span *items = NULL;
    struct adcs_permissions made = { 0 };
    struct fault fault = jin_array(op, json, ADCS_PERMISSIONS_MAX, &items, &made.count);
    if (FAULTED(fault)) {
        return below(op, fault, "permissions", 0);
    }
    TRY(arena_take(op->arena, made.count + 1, sizeof(*made.at), &made.at));
    for (size_t i = 0; i < made.count; i++) {
        fault = read_permission(op, items[i], allowed, strict, &made.at[i]);
        if (FAULTED(fault)) {
            return below(op, fault, "permissions", i);
        }
    }
    *ret_permissions = made;
    return OK;
}

static struct fault check_template(struct op *op, struct adcs_template *made)
{
    bool supplies = (made->name_flags & (ADCS_NAME_SUBJECT_SUPPLIED | ADCS_NAME_ALT_SUPPLIED)) != 0;
    bool pends = (made->enrollment_flags & ADCS_ENROLL_PEND_ALL) != 0;
    TRY(adcs_check_name(op, "/name", &made->name));
    TRY(adcs_check_oid(op, "/oid", made->oid));
    for (size_t i = 0; i < made->ekus.count; i++) {
        TRY(adcs_check_oid(op, "/ekus", made->ekus.at[i]));
    }
    if (made->enrollee_supplies_subject != supplies) {
        return op_fail_field(op, FAULT(ADCS_OBSERVATION), "/enrollee_supplies_subject", "name_flags say otherwise");
    }
    if (made->manager_approval != pends) {
        return op_fail_field(op, FAULT(ADCS_OBSERVATION), "/manager_approval", "enrollment_flags say otherwise");
    }
    return OK;
}

static struct fault read_template(struct op *op, struct span json, bool strict, void *at)
{
    struct adcs_template *made = at;
    TRY(jin_decode(op, json, template_fields, COUNT_OF(template_fields), made));
    TRY(read_permissions(op, made->permissions_json, ADCS_TEMPLATE_RIGHTS, strict, &made->permissions));
    return strict ? check_template(op, made) : OK;
}

static struct fault read_service(struct op *op, struct span json, bool strict, void *at)
{
    struct adcs_service *made = at;
    TRY(jin_decode(op, json, service_fields, COUNT_OF(service_fields), made));
    if (!strict) {
        return OK;
    }
    TRY(adcs_check_name(op, "/ca", &made->ca));
    TRY(adcs_check_domain(op, "/host", &made->host));
    for (size_t i = 0; i < made->templates.count; i++) {
        TRY(adcs_check_name(op, "/templates", &made->templates.at[i]));
    }
    return OK;
}

static struct fault read_endpoint(struct op *op, struct span json, bool strict, void *at)
{
    struct adcs_endpoint *made = at;
    TRY(jin_decode(op, json, endpoint_fields, COUNT_OF(endpoint_fields), made));
    if (!strict) {
        return OK;
    }
    TRY(adcs_check_word(op, "/kind", made->kind, adcs_kinds));
    TRY(adcs_check_word(op, "/scheme", made->scheme, adcs_schemes));
    TRY(adcs_check_word(op, "/channel_binding", made->channel_binding, adcs_bindings));
    TRY(adcs_check_url(op, "/url", made->scheme, &made->url));
    if (strcmp(made->scheme, "http") == 0 &&
        (made->certificate_sha256.len > 0 || strcmp(made->channel_binding, "none") != 0)) {
        return op_fail_field(op, FAULT(ADCS_OBSERVATION), "/scheme",
                             "plain HTTP has no certificate, and no channel that could be bound");
    }
    return OK;
}

static struct fault read_restriction(struct op *op, struct span json, bool strict, void *at)
{
    struct adcs_restriction *made = at;
    made->edit_flags = ADCS_UNKNOWN;
    made->interface_flags = ADCS_UNKNOWN;
    TRY(jin_decode(op, json, restriction_fields, COUNT_OF(restriction_fields), made));
    TRY(read_permissions(op, made->permissions_json, ADCS_CA_RIGHTS, strict, &made->permissions));
    if (!strict) {
        return OK;
    }
    TRY(adcs_check_name(op, "/ca", &made->ca));
    TRY(adcs_check_word(op, "/enrollment_agents", made->enrollment_agents, adcs_states));
    return adcs_check_word(op, "/officers", made->officers, adcs_states);
}

static struct fault read_principal(struct op *op, struct span json, bool strict, void *at)
{
    (void)strict;
    return jin_decode(op, json, principal_fields, COUNT_OF(principal_fields), at);
}

/* ---- the whole ---- */

struct part {
    const char *member;
    struct span json;
    size_t most, size;
    struct fault (*read)(struct op *op, struct span json, bool strict, void *at);
};

static struct fault read_part(struct op *op, const struct part *part, bool strict, void *ret_at, size_t *ret_count)
{
    struct span *items = NULL;
    uint8_t *at = NULL;
    size_t count = 0;
    if (part->json.at != NULL) {
        struct fault fault = jin_array(op, part->json, part->most, &items, &count);
        if (FAULTED(fault)) {
            return below(op, fault, part->member, 0);
        }
    }
    TRY(arena_take(op->arena, count + 1, part->size, &at));
    for (size_t i = 0; i < count; i++) {
        struct fault fault = part->read(op, items[i], strict, at + i * part->size);
        if (FAULTED(fault)) {
            return below(op, fault, part->member, i);
        }
    }
    *(void **)ret_at = at;
    *ret_count = count;
    return OK;
}

static struct fault read_parts(struct op *op, bool strict, struct adcs_observation *made)
{
    const struct adcs_body *head = &made->head;
    const struct part parts[] = {
        { "templates", head->templates, ADCS_TEMPLATES_MAX, sizeof(*made->templates), read_template },
        { "enrollment_services", head->enrollment_services, ADCS_SERVICES_MAX, sizeof(*made->services), read_service },
        { "iis_endpoints", head->iis_endpoints, ADCS_ENDPOINTS_MAX, sizeof(*made->endpoints), read_endpoint },
        { "ca_restrictions", head->ca_restrictions, ADCS_RESTRICTIONS_MAX, sizeof(*made->restrictions),
          read_restriction },
        { "principals", head->principals, ADCS_PRINCIPALS_MAX, sizeof(*made->principals), read_principal },
    };
    TRY(read_part(op, &parts[0], strict, &made->templates, &made->template_count));
    TRY(read_part(op, &parts[1], strict, &made->services, &made->service_count));
    TRY(read_part(op, &parts[2], strict, &made->endpoints, &made->endpoint_count));
    TRY(read_part(op, &parts[3], strict, &made->restrictions, &made->restriction_count));
    return read_part(op, &parts[4], strict, &made->principals, &made->principal_count);
}

static struct fault check_version(struct op *op, const struct adcs_body *body)
{
    const struct span services[] = { body->enrollment_services, body->iis_endpoints, body->ca_restrictions };
    static const char *const pointers[] = { "/enrollment_services", "/iis_endpoints", "/ca_restrictions" };
    for (size_t i = 0; i < COUNT_OF(services); i++) {
        if (body->schema_version == 1 && services[i].at != NULL) {
            return op_fail_field(op, FAULT(JSON_FIELD), pointers[i], "schema_version 1 has templates only");
        }
        if (body->schema_version == 2 && services[i].at == NULL) {
            return op_fail_field(op, FAULT(JSON_FIELD), pointers[i],
                                 "schema_version 2 needs it: an empty array says that there is none");
        }
    }
    if (body->schema_version == 1 && body->complete) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/complete",
                             "templates alone are never a complete observation: send schema_version 2, or false");
    }
    return OK;
}

struct fault adcs_read_body(struct op *op, const struct adcs_body *body, struct adcs_observation *ret_observation)
{
    struct adcs_observation made = { .head = *body };
    made.head.principals = (struct span){ 0 };
    TRY(check_version(op, body));
    TRY(adcs_check_domain(op, "/domain", &made.head.domain));
    TRY(adcs_check_id(op, "/source_id", body->source_id));
    TRY(adcs_check_id(op, "/run_id", body->run_id));
    TRY(adcs_check_id(op, "/relay_id", body->relay_id));
    TRY(read_parts(op, true, &made));
    *ret_observation = made;
    return OK;
}

struct fault adcs_read_stored(struct op *op, struct span data, struct adcs_observation *ret_observation)
{
    struct adcs_observation made = { 0 };
    TRY(jin_decode(op, data, adcs_body_fields, COUNT_OF(adcs_body_fields), &made.head));
    TRY(read_parts(op, false, &made));
    *ret_observation = made;
    return OK;
}
