/* code-signing operations, operation, transparency list. */
#include "api/cli/api.h"
#include "api/cli/print.h"

static struct fault print_query(struct cli *cli, const char *const (*filters)[2], size_t count, struct buf *query,
                                const char **ret_text)
{
    for (size_t i = 0; i < count; i++) {
        TRY(query_add(query, filters[i][0], cli_flag(cli, filters[i][1])));
    }
    return buf_cstr(query, ret_text);
}

static struct fault show_page(struct cli *cli, const char *const (*filters)[2], size_t filter_count,
                              const struct column *columns, size_t column_count, const char *none)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(print_query(cli, filters, filter_count, &query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, column_count, none);
    print_more(cli->op, page);
    return OK;
}

struct fault run_codesign_operations(struct cli *cli)
{
    static const char *const filters[][2] = {
        { "state", "state" }, { "mode", "mode" }, { "key_id", "key" }, { "limit", "limit" }, { "cursor", "cursor" },
    };
    static const struct column columns[] = {
        { "OPERATION", "operation_id", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "WHY", "failure_code", COLUMN_TEXT },
        { "MODE", "mode", COLUMN_TEXT },
        { "KEY", "key_id", COLUMN_TEXT },
        { "TYPE", "artifact_type", COLUMN_TEXT },
        { "BY", "principal", COLUMN_TEXT },
        { "MADE AT", "created_at", COLUMN_TIME },
    };
    return show_page(cli, filters, COUNT_OF(filters), columns, COUNT_OF(columns), "no signing operations");
}

struct fault run_transparency_list(struct cli *cli)
{
    static const char *const filters[][2] = {
        { "state", "state" },
        { "log", "log" },
        { "limit", "limit" },
        { "cursor", "cursor" },
    };
    static const struct column columns[] = {
        { "OPERATION", "operation_id", COLUMN_TEXT }, { "STATE", "state", COLUMN_TEXT },
        { "WHY", "failure_code", COLUMN_TEXT },       { "LOG", "log", COLUMN_TEXT },
        { "INDEX", "log_index", COLUMN_TEXT },        { "QUEUED AT", "queued_at", COLUMN_TIME },
        { "ENDED AT", "ended_at", COLUMN_TIME },
    };
    return show_page(cli, filters, COUNT_OF(filters), columns, COUNT_OF(columns), "nothing was published");
}

struct fault run_codesign_operation(struct cli *cli)
{
    static const struct column lines[] = {
        { "operation", "operation_id", COLUMN_TEXT },
        { "state", "state", COLUMN_TEXT },
        { "failed with", "failure_code", COLUMN_TEXT },
        { "approval", "resource", COLUMN_TEXT },
        { "mode", "mode", COLUMN_TEXT },
        { "key", "key_id", COLUMN_TEXT },
        { "identity by", "identity_method", COLUMN_TEXT },
        { "identity", "fulcio_san", COLUMN_TEXT },
        { "issued by", "fulcio_issuer", COLUMN_TEXT },
        { "algorithm", "algorithm", COLUMN_TEXT },
        { "artifact type", "artifact_type", COLUMN_TEXT },
        { "digest", "digest", COLUMN_HEX },
        { "hash", "digest_algorithm", COLUMN_TEXT },
        { "signed as", "principal", COLUMN_TEXT },
        { "encoding", "signature_encoding", COLUMN_TEXT },
        { "approved mode", "approved_mode", COLUMN_YESNO },
        { "note", "approved_mode_note", COLUMN_TEXT },
        { "signature", "signature", COLUMN_TEXT },
        { "made at", "created_at", COLUMN_TIME },
        { "ended at", "ended_at", COLUMN_TIME },
        { "publication", "transparency.state", COLUMN_TEXT },
        { "log", "transparency.log", COLUMN_TEXT },
        { "log index", "transparency.log_index", COLUMN_TEXT },
        { "in log since", "transparency.integrated_at", COLUMN_TIME },
        { "log refused", "transparency.failure_code", COLUMN_TEXT },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view operation;
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0] }, &answer, &operation));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_pairs(cli->op, stdout, operation, lines, COUNT_OF(lines));
    const char *failure = view_member(cli->op, operation, "failure_code");
    const char *resource = view_member(cli->op, operation, "resource");
    if (failure != NULL && resource != NULL && strcmp(failure, "approval_required") == 0) {
        hint("somebody else approves it with: svc-cli approvals approve %s", resource);
    }
    return OK;
}
