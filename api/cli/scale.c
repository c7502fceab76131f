/* scale orchestration, scale ha-issuance. */
#include "api/cli/api.h"
#include "api/cli/print.h"

struct table {
    const char *title, *member;
    const struct column *columns;
    size_t count;
};

static void print_tables(struct cli *cli, struct view page, const struct table *tables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)printf("%s%s\n", i > 0 ? "\n" : "", tables[i].title);
        print_table(cli->op, view_get(page, tables[i].member), tables[i].columns, tables[i].count, "none");
    }
}

struct fault run_scale_orchestration(struct cli *cli)
{
    static const struct column bands[] = {
        { "CREDENTIALS", "credentials", COLUMN_TEXT },
        { "STATUS", "status", COLUMN_TEXT },
        { "MEASURED AT", "last.measured_at", COLUMN_TIME },
        { "MACHINE", "last.machine", COLUMN_TEXT },
    };
    static const struct column gates[] = {
        { "GATE", "gate", COLUMN_TEXT },
        { "PROFILE", "profile", COLUMN_TEXT },
        { "STATUS", "status", COLUMN_TEXT },
        { "PASSED", "last.passed", COLUMN_YESNO },
        { "MEASURED AT", "last.measured_at", COLUMN_TIME },
        { "COMMAND", "command", COLUMN_TEXT },
    };
    static const struct column lanes[] = {
        { "LANE", "lane", COLUMN_TEXT },
        { "THREADS", "threads", COLUMN_TEXT },
        { "RUNS", "runs", COLUMN_TEXT },
    };
    static const struct column controls[] = {
        { "CONTROL", "control", COLUMN_TEXT },     { "NAME", "name", COLUMN_TEXT },
        { "LIMIT", "limit", COLUMN_TEXT },         { "QUEUE", "queue", COLUMN_TEXT },
        { "WHEN FULL", "when_full", COLUMN_TEXT },
    };
    static const struct table tables[] = {
        { "Credential bands", "credential_bands", bands, COUNT_OF(bands) },
        { "Release gates", "release_gates", gates, COUNT_OF(gates) },
        { "Execution lanes", "execution_lanes", lanes, COUNT_OF(lanes) },
        { "Backpressure", "backpressure", controls, COUNT_OF(controls) },
    };
    static const struct column lines[] = { { "not said by them", "residuals", COLUMN_LIST } };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view page;
    TRY(api_json(cli, &(struct api_call){ .query = NULL }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_tables(cli, page, tables, COUNT_OF(tables));
    (void)printf("\n");
    print_pairs(cli->op, stdout, page, lines, COUNT_OF(lines));
    return OK;
}

struct fault run_scale_ha_issuance(struct cli *cli)
{
    static const struct column lanes[] = {
        { "INSTANCE", "instance", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "LEADS", "leads_projection", COLUMN_YESNO },
        { "AT", "base_url", COLUMN_TEXT },
    };
    static const struct column fences[] = {
        { "FENCE", "fence", COLUMN_TEXT },
        { "HOW", "how", COLUMN_TEXT },
    };
    static const struct column gates[] = {
        { "GATE", "gate", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "TO DO", "recovery", COLUMN_TEXT },
    };
    static const struct table tables[] = {
        { "Ingress lanes", "ingress_lanes", lanes, COUNT_OF(lanes) },
        { "Tenant write fences", "tenant_write_fences", fences, COUNT_OF(fences) },
        { "Failover gates", "failover_gates", gates, COUNT_OF(gates) },
    };
    static const struct column lines[] = {
        { "RPO, seconds", "targets.rpo_seconds", COLUMN_TEXT },
        { "RTO, seconds", "targets.rto_seconds", COLUMN_TEXT },
        { "assuming", "targets.assumes", COLUMN_TEXT },
        { "unsupported", "targets.unsupported", COLUMN_TEXT },
        { "status", "status", COLUMN_TEXT },
        { "measured at", "last.measured_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view page;
    TRY(api_json(cli, &(struct api_call){ .query = NULL }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_tables(cli, page, tables, COUNT_OF(tables));
    (void)printf("\n");
    print_pairs(cli->op, stdout, page, lines, COUNT_OF(lines));
    return OK;
}
