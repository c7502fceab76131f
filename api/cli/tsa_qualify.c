#include "api/cli/api.h"
#include "api/cli/print.h"

static void print_line(const char *title, const char *text)
{
    (void)printf("%s", title);
    print_safe(stdout, span_text(text != NULL ? text : ""));
    (void)printf("\n");
}

static void print_unmet(struct op *op, struct view answer)
{
    struct view rest = view_get(answer, "unmet"), item;
    while (view_next(&rest, &item)) {
        print_line("\nnot met: ", view_member(op, item, "condition"));
        print_line("  ", view_member(op, item, "explanation"));
        print_line("  what to do: ", view_member(op, item, "recovery"));
    }
    rest = view_get(answer, "notices");
    while (view_next(&rest, &item)) {
        print_line("\nnotice: ", view_text(op, item));
    }
}

static void print_answer(struct op *op, struct view answer, bool ready)
{
    static const struct column known[] = {
        { "endpoint", "endpoint", COLUMN_TEXT },
        { "policy", "policy_oid", COLUMN_TEXT },
        { "clock", "clock", COLUMN_TEXT },
        { "tenant-bound mount", "conditions.tenant_bound_mount", COLUMN_YESNO },
        { "protocol profile", "conditions.active_protocol_profile", COLUMN_YESNO },
        { "certificate", "conditions.timestamping_certificate", COLUMN_YESNO },
        { "isolated signer", "conditions.isolated_signer", COLUMN_YESNO },
        { "audit path", "conditions.immutable_audit_path", COLUMN_YESNO },
        { "capacity", "conditions.bounded_capacity", COLUMN_YESNO },
        { "trusted clock", "conditions.trusted_clock", COLUMN_YESNO },
    };
    (void)printf("%s\n", ready ? "ready" : "not ready");
    print_pairs(op, stdout, answer, known, COUNT_OF(known));
    print_unmet(op, answer);
}

struct fault run_tsa_qualify(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const struct api_call call = { .route = 0 };
    struct view found = { 0 };
    TRY(api_json(cli, &call, &answer, &found));
    bool ready = span_equal_text(view_get(found, "ready").json, "true");
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_answer(cli->op, found, ready);
    }
    if (!ready) {
        cli->said = true;
        cli->exit = EXIT_FAILED;
        return FAULT(TSA_TIME);
    }
    return OK;
}
