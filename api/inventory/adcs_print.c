/* The data of inventory.adcs.observed, with members in canonical order; and findings. */
#include "api/inventory/adcs.h"

static void print_permissions(struct jout *jout, const struct adcs_permissions *permissions)
{
    jout_key(jout, "permissions");
    jout_array(jout);
    for (size_t i = 0; i < permissions->count; i++) {
        jout_object(jout);
        jout_key(jout, "rights");
        adcs_rights_print(jout, permissions->at[i].rights);
        jout_key_text(jout, "sid", permissions->at[i].sid);
        jout_object_end(jout);
    }
    jout_array_end(jout);
}

static void print_texts(struct jout *jout, const char *key, const struct jin_texts *texts)
{
    jout_key(jout, key);
    jout_array(jout);
    for (size_t i = 0; i < texts->count; i++) {
        jout_text(jout, texts->at[i]);
    }
    jout_array_end(jout);
}

static void print_template(struct jout *jout, const struct adcs_template *template)
{
    jout_object(jout);
    jout_key_int(jout, "authorized_signatures", template->authorized_signatures);
    print_texts(jout, "ekus", &template->ekus);
    jout_key_bool(jout, "enrollee_supplies_subject", template->enrollee_supplies_subject);
    jout_key_int(jout, "enrollment_flags", template->enrollment_flags);
    jout_key_bool(jout, "manager_approval", template->manager_approval);
    jout_key_text(jout, "name", template->name);
    jout_key_int(jout, "name_flags", template->name_flags);
    jout_key_text(jout, "oid", template->oid);
    print_permissions(jout, &template->permissions);
    jout_key_int(jout, "private_key_flags", template->private_key_flags);
    jout_key_int(jout, "renewal_seconds", template->renewal_seconds);
    jout_key_int(jout, "schema_version", template->schema_version);
    jout_key_int(jout, "validity_seconds", template->validity_seconds);
    jout_object_end(jout);
}

static void print_service(struct jout *jout, const struct adcs_service *service)
{
    jout_object(jout);
    jout_key_text(jout, "ca", service->ca);
    jout_key_hex(jout, "certificate_sha256", service->certificate_sha256);
    jout_key_text(jout, "host", service->host);
    print_texts(jout, "templates", &service->templates);
    jout_object_end(jout);
}

static void print_endpoint(struct jout *jout, const struct adcs_endpoint *endpoint)
{
    jout_object(jout);
    if (endpoint->certificate_sha256.len > 0) {
        jout_key_hex(jout, "certificate_sha256", endpoint->certificate_sha256);
    }
    jout_key_text(jout, "channel_binding", endpoint->channel_binding);
    jout_key_text(jout, "kind", endpoint->kind);
    jout_key_bool(jout, "ntlm", endpoint->ntlm);
    jout_key_text(jout, "scheme", endpoint->scheme);
    jout_key_text(jout, "url", endpoint->url);
    jout_object_end(jout);
}

static void print_flags(struct jout *jout, const char *key, int64_t flags)
{
    if (flags != ADCS_UNKNOWN) {
        jout_key_int(jout, key, flags);
    }
}

static void print_restriction(struct jout *jout, const struct adcs_restriction *restriction)
{
    jout_object(jout);
    jout_key_text(jout, "ca", restriction->ca);
    print_flags(jout, "edit_flags", restriction->edit_flags);
    jout_key_text(jout, "enrollment_agents", restriction->enrollment_agents);
    print_flags(jout, "interface_flags", restriction->interface_flags);
    jout_key_text(jout, "officers", restriction->officers);
    print_permissions(jout, &restriction->permissions);
    jout_object_end(jout);
}

/* Between "complete" and "observation_id", as canonical order has it. */
static void print_services(struct jout *jout, const struct adcs_observation *observation)
{
    jout_key(jout, "enrollment_services");
    jout_array(jout);
    for (size_t i = 0; i < observation->service_count; i++) {
        print_service(jout, &observation->services[i]);
    }
    jout_array_end(jout);
    jout_key(jout, "iis_endpoints");
    jout_array(jout);
    for (size_t i = 0; i < observation->endpoint_count; i++) {
        print_endpoint(jout, &observation->endpoints[i]);
    }
    jout_array_end(jout);
}

static void print_restrictions(struct jout *jout, const struct adcs_observation *observation)
{
    jout_key(jout, "ca_restrictions");
    jout_array(jout);
    for (size_t i = 0; i < observation->restriction_count; i++) {
        print_restriction(jout, &observation->restrictions[i]);
    }
    jout_array_end(jout);
}

static void print_principals(struct jout *jout, const struct adcs_observation *observation)
{
    jout_key(jout, "principals");
    jout_array(jout);
    for (size_t i = 0; i < observation->principal_count; i++) {
        jout_object(jout);
        jout_key_text(jout, "name", observation->principals[i].name);
        jout_key_text(jout, "sid", observation->principals[i].sid);
        jout_object_end(jout);
    }
    jout_array_end(jout);
}

struct fault adcs_print(const struct adcs_observation *observation, struct buf *out)
{
    const struct adcs_body *head = &observation->head;
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    if (head->schema_version == 2) {
        print_restrictions(&jout, observation);
    }
    jout_key_bool(&jout, "complete", head->complete);
    jout_key_text(&jout, "domain", head->domain);
    if (head->schema_version == 2) {
        print_services(&jout, observation);
    }
    jout_key_text(&jout, "observation_id", head->observation_id);
    jout_key_time(&jout, "observed_at", head->observed_at);
    print_principals(&jout, observation);
    jout_key_text(&jout, "relay_id", head->relay_id);
    jout_key_text(&jout, "run_id", head->run_id);
    jout_key_int(&jout, "schema_version", head->schema_version);
    jout_key_text(&jout, "source_id", head->source_id);
    jout_key(&jout, "templates");
    jout_array(&jout);
    for (size_t i = 0; i < observation->template_count; i++) {
        print_template(&jout, &observation->templates[i]);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* ---- findings ---- */

void adcs_findings_count(const struct adcs_findings *findings, struct adcs_counts *ret_counts)
{
    struct adcs_counts made = { 0 };
    for (size_t i = 0; i < findings->count; i++) {
        made.of[findings->at[i].severity]++;
    }
    *ret_counts = made;
}

void adcs_counts_print(struct jout *jout, const struct adcs_counts *counts)
{
    static const enum adcs_severity order[] = { ADCS_CRITICAL, ADCS_HIGH, ADCS_MEDIUM };
    jout_object(jout);
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        jout_key_int(jout, adcs_severity_text(order[i]), counts->of[order[i]]);
    }
    jout_object_end(jout);
}

void adcs_findings_print(struct jout *jout, const struct adcs_findings *findings)
{
    jout_array(jout);
    for (size_t i = 0; i < findings->count; i++) {
        const struct adcs_finding *finding = &findings->at[i];
        jout_object(jout);
        jout_key_text(jout, "kind", finding->kind);
        jout_key_text(jout, "name", finding->name);
        jout_key(jout, "principals");
        jout_array(jout);
        for (size_t j = 0; j < finding->sid_count; j++) {
            jout_text(jout, finding->sids[j]);
        }
        jout_array_end(jout);
        jout_key(jout, "rests_on");
        jout_array(jout);
        for (const char *const *member = finding->rule->rests_on; *member != NULL; member++) {
            jout_text(jout, *member);
        }
        jout_array_end(jout);
        jout_key_text(jout, "rule", finding->rule->id);
        jout_key_text(jout, "severity", adcs_severity_text(finding->severity));
        jout_key_text(jout, "title", finding->rule->title);
        jout_object_end(jout);
    }
    jout_array_end(jout);
}
