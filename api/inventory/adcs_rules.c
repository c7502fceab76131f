/*
 * The known classes of AD CS misconfiguration, as far as an observation's facts tell. A right counts against everybody
 * who is not known to administer AD CS: whether a group of the customer's own is trusted cannot be read from it, so it
 * counts too, one step less severe than a right of everybody's.
 */
#include "api/inventory/adcs.h"

#define EKU_CLIENT     "1.3.6.1.5.5.7.3.2"
#define EKU_SMART_CARD "1.3.6.1.4.1.311.20.2.2"
#define EKU_PKINIT     "1.3.6.1.5.2.3.4"
#define EKU_ANY        "2.5.29.37.0"
#define EKU_AGENT      "1.3.6.1.4.1.311.20.2.1"

#define ENROLL_RIGHTS (ADCS_ENROLL | ADCS_AUTOENROLL | ADCS_FULL_CONTROL)
#define WRITE_RIGHTS  (ADCS_OWNER | ADCS_FULL_CONTROL | ADCS_WRITE_DACL | ADCS_WRITE_OWNER | ADCS_WRITE_PROPERTY)
#define MANAGE_RIGHTS (ADCS_MANAGE_CA | ADCS_MANAGE_CERTIFICATES)

#define MEMBERS(...)      \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

enum { ESC1, ESC2, ESC3, ESC4, ESC6, ESC7, ESC8, ESC11 };
static const struct adcs_rule rules[] = {
    [ESC1] = { "ESC1", "Who enrols chooses the identity that the certificate authenticates",
               MEMBERS("authorized_signatures", "ekus", "enrollee_supplies_subject", "manager_approval", "permissions",
                       "enrollment_services.templates") },
    [ESC2] = { "ESC2", "The certificate serves any purpose",
               MEMBERS("authorized_signatures", "ekus", "manager_approval", "permissions",
                       "enrollment_services.templates") },
    [ESC3] = { "ESC3", "The certificate enrols on behalf of others, and a CA does not restrict that",
               MEMBERS("authorized_signatures", "ekus", "manager_approval", "permissions",
                       "enrollment_services.templates", "ca_restrictions.enrollment_agents") },
    [ESC4] = { "ESC4", "The template can be changed by others than administrators", MEMBERS("permissions") },
    [ESC6] = { "ESC6", "The CA takes alternative names from any request", MEMBERS("edit_flags") },
    [ESC7] = { "ESC7", "The CA can be managed by others than administrators", MEMBERS("permissions") },
    [ESC8] = { "ESC8", "An enrollment endpoint takes NTLM that can be relayed to it",
               MEMBERS("channel_binding", "kind", "ntlm", "scheme") },
    [ESC11] = { "ESC11", "The CA takes enrollment calls that are not encrypted", MEMBERS("interface_flags") },
};

const char *adcs_severity_text(enum adcs_severity severity)
{
    static const char *const texts[] = { "medium", "high", "critical" };
    return texts[severity];
}

/* ---- principals ---- */

/* "S-1-5-21-x-y-z-RID" of any domain: the RID, or NULL. */
static const char *domain_rid(const char *sid)
{
    size_t dashes = 0;
    if (strncmp(sid, "S-1-5-21-", 9) != 0) {
        return NULL;
    }
    for (const char *at = sid; *at != '\0'; at++) {
        dashes += *at == '-';
    }
    return dashes == 7 ? strrchr(sid, '-') + 1 : NULL;
}

static bool stands_in(const char *text, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcmp(*list, text) == 0) {
            return true;
        }
    }
    return false;
}

/* SYSTEM, Enterprise Domain Controllers, Administrators. Then, of a domain: its read-only domain controllers,
 * Administrator, krbtgt, Domain Admins, Domain Controllers, Cert Publishers, Schema Admins, Enterprise Admins and the
 * Key Admins. */
bool adcs_administers(const char *sid, const struct config_list *more)
{
    static const char *const sids[] = { "S-1-5-18", "S-1-5-9", "S-1-5-32-544", NULL };
    static const char *const rids[] = { "498", "500", "502", "512", "516", "517",
                                        "518", "519", "521", "526", "527", NULL };
    const char *rid = domain_rid(sid);
    if (stands_in(sid, sids) || (rid != NULL && stands_in(rid, rids))) {
        return true;
    }
    for (size_t i = 0; more != NULL && i < more->count; i++) {
        if (strcmp(more->at[i], sid) == 0) {
            return true;
        }
    }
    return false;
}

/* Everyone, Anonymous, Network, Interactive, Authenticated Users, Users, Guests, Pre-Windows 2000 Compatible Access;
 * of a domain: Guest, Domain Users, Domain Guests, Domain Computers. */
static bool is_broad(const char *sid)
{
    static const char *const sids[] = { "S-1-1-0",      "S-1-5-7",      "S-1-5-2",      "S-1-5-4", "S-1-5-11",
                                        "S-1-5-32-545", "S-1-5-32-546", "S-1-5-32-554", NULL };
    static const char *const rids[] = { "501", "513", "514", "515", NULL };
    const char *rid = domain_rid(sid);
    return stands_in(sid, sids) || (rid != NULL && stands_in(rid, rids));
}

/* ---- one look at an observation ---- */

struct look {
    struct op *op;
    const struct adcs_observation *seen;
    const struct config_list *administrators;
    bool *published; /* by template: some CA issues by it */
    bool agents_free;
    struct adcs_findings found;
    size_t room;
};

static void add(struct look *look, int rule, enum adcs_severity severity, const char *kind, const char *name)
{
    BUG_IF(look->found.count == look->room);
    look->found.at[look->found.count++] =
        (struct adcs_finding){ .rule = &rules[rule], .severity = severity, .kind = kind, .name = name };
}

/* Adds a finding that rests on who has one of `rights`; none when administrators alone have. */
static struct fault add_for(struct look *look, int rule, enum adcs_severity severity, const char *kind,
                            const char *name, const struct adcs_permissions *permissions, unsigned rights)
{
    const char **sids = NULL;
    size_t count = 0;
    bool broad = false;
    TRY(arena_take(look->op->arena, permissions->count + 1, sizeof(*sids), &sids));
    for (size_t i = 0; i < permissions->count; i++) {
        const struct adcs_permission *one = &permissions->at[i];
        if ((one->rights & rights) != 0 && !adcs_administers(one->sid, look->administrators)) {
            sids[count++] = one->sid;
            broad = broad || is_broad(one->sid);
        }
    }
    if (count == 0) {
        return OK;
    }
    severity = !broad && severity > ADCS_MEDIUM ? severity - 1 : severity;
    add(look, rule, severity, kind, name);
    look->found.at[look->found.count - 1].sids = sids;
    look->found.at[look->found.count - 1].sid_count = count;
    return OK;
}

static bool has_eku(const struct adcs_template *template, const char *oid)
{
    for (size_t i = 0; i < template->ekus.count; i++) {
        if (strcmp(template->ekus.at[i], oid) == 0) {
            return true;
        }
    }
    return false;
}

/* No EKU at all is any purpose. */
static bool any_purpose(const struct adcs_template *template)
{
    return template->ekus.count == 0 || has_eku(template, EKU_ANY);
}

static bool authenticates(const struct adcs_template *template)
{
    return any_purpose(template) || has_eku(template, EKU_CLIENT) || has_eku(template, EKU_SMART_CARD) ||
           has_eku(template, EKU_PKINIT);
}

/* Once for all templates, with the names that CAs publish in order: both may be thousands. Nothing is taken to be
 * sorted, and names may stand there twice: an erasure may have been at work. */
static struct fault find_published(struct look *look)
{
    const struct adcs_observation *seen = look->seen;
    const char **names = NULL;
    size_t most = 0, count = 0;
    for (size_t i = 0; i < seen->service_count; i++) {
        most += seen->services[i].templates.count;
    }
    TRY(arena_take(look->op->arena, most + 1, sizeof(*names), &names));
    TRY(arena_take(look->op->arena, seen->template_count + 1, sizeof(*look->published), &look->published));
    for (size_t i = 0; i < seen->service_count; i++) {
        for (size_t j = 0; j < seen->services[i].templates.count; j++) {
            names[count++] = seen->services[i].templates.at[j];
        }
    }
    if (count == 0) {
        return OK;
    }
    qsort(names, count, sizeof(*names), adcs_text_order);
    for (size_t i = 0; i < seen->template_count; i++) {
        look->published[i] = bsearch(&seen->templates[i].name, names, count, sizeof(*names), adcs_text_order) != NULL;
    }
    return OK;
}

/* Without a person or another certificate in between. */
static bool is_issued(const struct look *look, size_t index)
{
    const struct adcs_template *template = &look->seen->templates[index];
    return !template->manager_approval && template->authorized_signatures == 0 && look->published[index];
}

/* A CA that is not said to restrict them does not. */
static bool agents_unrestricted(const struct adcs_observation *seen)
{
    size_t restricted = 0;
    for (size_t i = 0; i < seen->restriction_count; i++) {
        restricted += strcmp(seen->restrictions[i].enrollment_agents, "restricted") == 0;
    }
    return restricted < seen->service_count;
}

static struct fault each_template(struct look *look, int rule)
{
    for (size_t i = 0; i < look->seen->template_count; i++) {
        const struct adcs_template *template = &look->seen->templates[i];
        enum adcs_severity severity = rule == ESC2 || rule == ESC3 ? ADCS_HIGH : ADCS_CRITICAL;
        unsigned rights = rule == ESC4 ? WRITE_RIGHTS : ENROLL_RIGHTS;
        bool holds = rule == ESC1 ? is_issued(look, i) && template->enrollee_supplies_subject && authenticates(template)
                     : rule == ESC2 ? is_issued(look, i) && any_purpose(template)
                     : rule == ESC3 ? is_issued(look, i) && has_eku(template, EKU_AGENT) && look->agents_free
                                    : true;
        if (rule == ESC4 && !look->published[i]) {
            severity = ADCS_HIGH; /* no CA issues by it until somebody publishes it */
        }
        if (holds) {
            TRY(add_for(look, rule, severity, "template", template->name, &template->permissions, rights));
        }
    }
    return OK;
}

static bool has_bit(int64_t flags, int64_t bit)
{
    return flags != ADCS_UNKNOWN && (flags & bit) != 0;
}

static struct fault each_ca(struct look *look, int rule)
{
    for (size_t i = 0; i < look->seen->restriction_count; i++) {
        const struct adcs_restriction *ca = &look->seen->restrictions[i];
        if (rule == ESC6 && has_bit(ca->edit_flags, ADCS_EDIT_SUBJECT_ALT_NAME)) {
            add(look, rule, ADCS_CRITICAL, "ca", ca->ca);
        }
        if (rule == ESC11 && ca->interface_flags != ADCS_UNKNOWN &&
            !has_bit(ca->interface_flags, ADCS_INTERFACE_ENCRYPT_ENROLL)) {
            add(look, rule, ADCS_HIGH, "ca", ca->ca);
        }
        if (rule == ESC7) {
            TRY(add_for(look, rule, ADCS_CRITICAL, "ca", ca->ca, &ca->permissions, MANAGE_RIGHTS));
        }
    }
    return OK;
}

/* Policy (cep) is only read there; the others issue. */
static void each_endpoint(struct look *look)
{
    for (size_t i = 0; i < look->seen->endpoint_count; i++) {
        const struct adcs_endpoint *endpoint = &look->seen->endpoints[i];
        bool plain = strcmp(endpoint->scheme, "https") != 0;
        if (endpoint->ntlm && strcmp(endpoint->kind, "cep") != 0 &&
            (plain || strcmp(endpoint->channel_binding, "required") != 0)) {
            add(look, ESC8, plain ? ADCS_CRITICAL : ADCS_HIGH, "endpoint", endpoint->url);
        }
    }
}

struct fault adcs_find(struct op *op, const struct adcs_observation *observation,
                       const struct config_list *administrators, struct adcs_findings *ret_findings)
{
    struct look look = { .op = op, .seen = observation, .administrators = administrators };
    look.room = 4 * observation->template_count + 3 * observation->restriction_count + observation->endpoint_count;
    look.agents_free = agents_unrestricted(observation);
    TRY(arena_take(op->arena, look.room + 1, sizeof(*look.found.at), &look.found.at));
    TRY(find_published(&look));
    TRY(each_template(&look, ESC1));
    TRY(each_template(&look, ESC2));
    TRY(each_template(&look, ESC3));
    TRY(each_template(&look, ESC4));
    TRY(each_ca(&look, ESC6));
    TRY(each_ca(&look, ESC7));
    each_endpoint(&look);
    TRY(each_ca(&look, ESC11));
    *ret_findings = look.found;
    return OK;
}
