/* A domain with one CA, two templates and one endpoint, without findings as long as no knob is turned. */
#ifndef TESTS_UNIT_INVENTORY_ADCS_SAMPLE_H
#define TESTS_UNIT_INVENTORY_ADCS_SAMPLE_H

#include "api/inventory/adcs.h"
#ifndef assert_fault /* the integration tests have another one */
#include "testlib.h"
#endif

#include <stdio.h>

#ifndef assert_ok
#define assert_ok(expr) assert_fault(expr, NONE)
#endif

#define CLIENT_AUTH    "\"1.3.6.1.5.5.7.3.2\""
#define REQUEST_AGENT  "\"1.3.6.1.4.1.311.20.2.1\""
#define DOMAIN_USERS   "S-1-5-21-1004336348-1177238915-682003330-513"
#define DOMAIN_ADMINS  "S-1-5-21-1004336348-1177238915-682003330-512"
#define HELP_DESK      "S-1-5-21-1004336348-1177238915-682003330-1105"
#define AUTHENTICATED  "S-1-5-11"
#define ADMINISTRATORS "S-1-5-32-544"

/* NULL, 0 and false are the domain without findings. */
struct knobs {
    const char *ekus, *sid, *rights; /* of the template "User" */
    bool supplies, approval, unpublished;
    int signatures;
    const char *agents;
    bool alt_name, plain_calls;
    const char *ca_sid, *ca_right;
    const char *binding, *kind;
    bool http, no_ntlm;
};

static inline const char *or_else(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

/* The body as a collector sends it; in the arena. */
[[maybe_unused]] static const char *sample_body(struct op *op, const struct knobs *knobs)
{
    const char *templates = NULL, *services = NULL, *ca = NULL, *body = NULL;
    assert_ok(arena_printf(
        op->arena, &templates,
        "[{\"name\":\"WebServer\",\"oid\":\"1.3.6.1.4.1.311.21.8.1.2.3\",\"schema_version\":2,\"ekus\":"
        "[\"1.3.6.1.5.5.7.3.1\"],\"enrollee_supplies_subject\":true,\"manager_approval\":false,"
        "\"authorized_signatures\":0,\"validity_seconds\":31536000,\"renewal_seconds\":3628800,\"name_flags\":1,"
        "\"enrollment_flags\":0,\"private_key_flags\":16842752,\"permissions\":[{\"sid\":\"" AUTHENTICATED
        "\",\"rights\":[\"enroll\"]},{\"sid\":\"" DOMAIN_ADMINS "\",\"name\":\"CORP\\\\Domain Admins\",\"rights\":"
        "[\"owner\",\"full-control\"]}]},"
        "{\"name\":\"User\",\"oid\":\"1.3.6.1.4.1.311.21.8.1.2.4\",\"schema_version\":1,\"ekus\":[%s],"
        "\"enrollee_supplies_subject\":%s,\"manager_approval\":%s,\"authorized_signatures\":%d,"
        "\"validity_seconds\":31536000,\"renewal_seconds\":3628800,\"name_flags\":%d,\"enrollment_flags\":%d,"
        "\"private_key_flags\":16,\"permissions\":[{\"sid\":\"%s\",\"rights\":[%s]}]}]",
        or_else(knobs->ekus, CLIENT_AUTH), knobs->supplies ? "true" : "false", knobs->approval ? "true" : "false",
        knobs->signatures, knobs->supplies ? 1 : 0x2000000, knobs->approval ? 2 : 32, or_else(knobs->sid, DOMAIN_USERS),
        or_else(knobs->rights, "\"enroll\"")));
    assert_ok(arena_printf(
        op->arena, &services,
        "[{\"ca\":\"Corp-CA\",\"host\":\"ca1.corp.example.com\",\"certificate_sha256\":"
        "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\",\"templates\":[\"WebServer\"%s]}]",
        knobs->unpublished ? "" : ",\"User\""));
    assert_ok(arena_printf(
        op->arena, &ca,
        "[{\"ca\":\"Corp-CA\",\"enrollment_agents\":\"%s\",\"officers\":\"restricted\",\"edit_flags\":%d,"
        "\"interface_flags\":%d,\"permissions\":[{\"sid\":\"" AUTHENTICATED "\",\"rights\":[\"enroll\"]},"
        "{\"sid\":\"%s\",\"rights\":[\"%s\"]}]}]",
        or_else(knobs->agents, "restricted"), knobs->alt_name ? 0x15014e : 0x11014e, knobs->plain_calls ? 0x441 : 0x641,
        or_else(knobs->ca_sid, ADMINISTRATORS), or_else(knobs->ca_right, "manage-ca")));
    assert_ok(arena_printf(
        op->arena, &body,
        "{\"domain\":\"corp.example.com\",\"source_id\":\"collector-1\",\"run_id\":\"run-1\",\"relay_id\":\"relay-1\","
        "\"observed_at\":\"2026-11-20T10:00:00Z\",\"schema_version\":2,\"complete\":true,\"templates\":%s,"
        "\"enrollment_services\":%s,\"iis_endpoints\":[{\"url\":\"%s://ca1.corp.example.com/certsrv\",\"kind\":\"%s\","
        "\"scheme\":\"%s\",\"channel_binding\":\"%s\",\"ntlm\":%s}],\"ca_restrictions\":%s}",
        templates, services, knobs->http ? "http" : "https", or_else(knobs->kind, "web-enrollment"),
        knobs->http ? "http" : "https", or_else(knobs->binding, knobs->http ? "none" : "required"),
        knobs->no_ntlm ? "false" : "true", ca));
    return body;
}

/* Replaces the one place where `from` stands. */
[[maybe_unused]] static const char *sample_with(struct op *op, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from), *made = NULL;
    assert_non_null(at);
    assert_ok(arena_printf(op->arena, &made, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)));
    return made;
}

/* What the route does with a body, up to the event's data. */
[[maybe_unused]] static struct fault sample_data(struct op *op, const char *body_text, struct span *ret_data)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ADCS_NORMAL_MAX);
    struct adcs_body body = { 0 };
    struct adcs_observation observation;
    TRY(jin_decode(op, span_text(body_text), adcs_body_fields, ADCS_BODY_FIELDS, &body));
    TRY(adcs_read_body(op, &body, &observation));
    observation.head.observation_id = "0190a6b2-0001-8000-8000-00000000abcd";
    TRY(adcs_normalise(op, &observation));
    TRY(adcs_print(&observation, &out));
    return arena_copy(op->arena, buf_span(&out), ret_data);
}

[[maybe_unused]] static void sample_seen(struct op *op, const char *body_text, const struct config_list *administrators,
                                         struct adcs_observation *ret_observation, struct adcs_findings *ret_findings)
{
    struct span data;
    struct fault fault = sample_data(op, body_text, &data);
    if (FAULTED(fault)) {
        fail_msg("%s %s: %s", fault_row(fault.code)->text, op->note.pointer, op->note.detail);
    }
    assert_ok(adcs_read_stored(op, data, ret_observation));
    assert_ok(adcs_find(op, ret_observation, administrators, ret_findings));
}

[[maybe_unused]] static struct op *sample_op(void)
{
    struct op *op = NULL;
    assert_ok(op_new("collector", (struct tenant_id){ "acme" }, 60000, &op));
    return op;
}

#endif
