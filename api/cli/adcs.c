/* adcs observe, list, get, drift. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"

#define BODY_MAX ((size_t)1 << 20)

struct fault run_adcs_observe(struct cli *cli)
{
    static const struct column lines[] = {
        { "observation", "observation_id", COLUMN_TEXT },
        { "domain", "domain", COLUMN_TEXT },
        { "observed at", "observed_at", COLUMN_TIME },
        { "version", "schema_version", COLUMN_TEXT },
        { "complete", "complete", COLUMN_YESNO },
        { "counts", "latest", COLUMN_YESNO },
        { "changes", "changes", COLUMN_TEXT },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct view made;
    TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    TRY(api_json(cli, &(struct api_call){ .body = buf_span(&body) }, &answer, &made));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_pairs(cli->op, stdout, made, lines, COUNT_OF(lines));
    return OK;
}

static struct fault list(struct cli *cli, bool history, const struct column *columns, size_t count, const char *none)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(query_add(&query, "domain", cli_flag(cli, "domain")));
    TRY(query_add(&query, "history", history ? "true" : NULL));
    TRY(query_add(&query, "limit", cli_flag(cli, "limit")));
    TRY(query_add(&query, "cursor", cli_flag(cli, "cursor")));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, count, none);
    print_more(cli->op, page);
    return OK;
}

struct fault run_adcs_list(struct cli *cli)
{
    static const struct column latest[] = {
        { "DOMAIN", "domain", COLUMN_TEXT },      { "OBSERVED", "observed_at", COLUMN_TIME },
        { "SOURCE", "source_id", COLUMN_TEXT },   { "CRITICAL", "findings.critical", COLUMN_TEXT },
        { "HIGH", "findings.high", COLUMN_TEXT }, { "MEDIUM", "findings.medium", COLUMN_TEXT },
        { "SEQUENCE", "sequence", COLUMN_TEXT },  { "OBSERVATION", "observation_id", COLUMN_TEXT },
    };
    static const struct column all[] = {
        { "DOMAIN", "domain", COLUMN_TEXT },          { "OBSERVED", "observed_at", COLUMN_TIME },
        { "SOURCE", "source_id", COLUMN_TEXT },       { "RUN", "run_id", COLUMN_TEXT },
        { "VERSION", "schema_version", COLUMN_TEXT }, { "COMPLETE", "complete", COLUMN_YESNO },
        { "COUNTS", "latest", COLUMN_YESNO },         { "OBSERVATION", "observation_id", COLUMN_TEXT },
    };
    return cli_flag(cli, "history") != NULL ? list(cli, true, all, COUNT_OF(all), "no observations")
                                            : list(cli, false, latest, COUNT_OF(latest), "no complete observations");
}

struct fault run_adcs_drift(struct cli *cli)
{
    static const struct column columns[] = {
        { "DOMAIN", "domain", COLUMN_TEXT },
        { "OBSERVED", "observed_at", COLUMN_TIME },
        { "SOURCE", "source_id", COLUMN_TEXT },
        { "RUN", "run_id", COLUMN_TEXT },
        { "CHANGES", "changes", COLUMN_TEXT },
        { "APPEARED", "drift.findings_appeared", COLUMN_TEXT },
        { "CLEARED", "drift.findings_cleared", COLUMN_TEXT },
        { "SEQUENCE", "sequence", COLUMN_TEXT },
    };
    return list(cli, false, columns, COUNT_OF(columns), "nothing changed");
}

struct fault run_adcs_get(struct cli *cli)
{
    static const struct column lines[] = {
        { "observation", "observation_id", COLUMN_TEXT },
        { "domain", "domain", COLUMN_TEXT },
        { "observed at", "observed_at", COLUMN_TIME },
        { "source", "source_id", COLUMN_TEXT },
        { "run", "run_id", COLUMN_TEXT },
        { "relay", "relay_id", COLUMN_TEXT },
        { "version", "schema_version", COLUMN_TEXT },
        { "complete", "complete", COLUMN_YESNO },
        { "counts", "latest", COLUMN_YESNO },
        { "event", "event_id", COLUMN_TEXT },
        { "sequence", "sequence", COLUMN_TEXT },
        { "chain", "chain", COLUMN_TEXT },
    };
    static const struct column findings[] = {
        { "RULE", "rule", COLUMN_TEXT }, { "SEVERITY", "severity", COLUMN_TEXT },     { "KIND", "kind", COLUMN_TEXT },
        { "NAME", "name", COLUMN_TEXT }, { "PRINCIPALS", "principals", COLUMN_LIST }, { "WHAT", "title", COLUMN_TEXT },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view made;
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0] }, &answer, &made));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_pairs(cli->op, stdout, made, lines, COUNT_OF(lines));
    (void)fputc('\n', stdout);
    print_table(cli->op, view_get(made, "findings"), findings, COUNT_OF(findings), "no findings");
    return OK;
}
