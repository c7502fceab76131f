/* Samples of populations. The server says which ranks it drew; they are drawn here again. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/compliance/verify_sample.h"

#define ANSWER_MAX ((size_t)96 << 20)

static struct fault refuse(struct cli *cli, const char *what)
{
    cli->exit = EXIT_REFUSED;
    return op_fail(cli->op, FAULT(IO), "the server's sample is not what the seed draws: %s", what);
}

/* The ranks are those of the seed, and there is a record for each, in their order. */
static struct fault check_ranks(struct cli *cli, struct view answer, const char *seed, int64_t wanted)
{
    int64_t total = 0, drawn[SAMPLE_MAX], said = 0, rank = 0;
    struct view ranks = view_get(answer, "ranks"), records = view_get(answer, "records"), item;
    TRY(view_int(view_get(answer, "population.total"), &total));
    if (total < 0 || wanted < 0 || wanted > SAMPLE_MAX) {
        return refuse(cli, "its total is no number of records");
    }
    size_t n = (size_t)(wanted < total ? wanted : total), count = 0;
    TRY(sample_draw(seed, total, n, drawn));
    for (; view_next(&ranks, &item); count++) {
        TRY(view_int(item, &said));
        if (count >= n || said != drawn[count]) {
            return refuse(cli, "other ranks");
        }
    }
    size_t with = 0;
    for (; view_next(&records, &item); with++) {
        TRY(view_int(view_get(item, "rank"), &rank));
        if (with >= n || rank != drawn[with]) {
            return refuse(cli, "records of other ranks");
        }
    }
    return count == n && with == n ? OK : refuse(cli, "fewer ranks or records than were asked for");
}

static void print_sample(struct cli *cli, struct view answer)
{
    static const struct column lines[] = {
        { "framework", "framework", COLUMN_TEXT },
        { "control", "control", COLUMN_TEXT },
        { "prerequisite", "prerequisite", COLUMN_TEXT },
        { "window from", "evidence_window.from", COLUMN_TEXT },
        { "window to", "evidence_window.to", COLUMN_TEXT },
        { "population", "population.total", COLUMN_TEXT },
        { "head sequence", "audit.head_sequence", COLUMN_TEXT },
        { "archived through", "audit.archived_through", COLUMN_TEXT },
        { "seed", "seed", COLUMN_TEXT },
    };
    static const struct column columns[] = {
        { "RANK", "rank", COLUMN_TEXT },
        { "SEQUENCE", "reference.sequence", COLUMN_TEXT },
        { "TIME", "reference.observed_at", COLUMN_TIME },
        { "TYPE", "reference.type", COLUMN_TEXT },
        { "ACTOR", "record.actor.subject", COLUMN_TEXT },
        { "EVENT", "reference.event_id", COLUMN_TEXT },
    };
    print_pairs(cli->op, stdout, answer, lines, COUNT_OF(lines));
    print_table(cli->op, view_get(answer, "records"), columns, COUNT_OF(columns), "the population is empty");
    hint("the same sample again: --seed %s --sample %s --to %s --head-sequence %s", cli_flag(cli, "seed"),
         cli_flag(cli, "sample"), view_member(cli->op, answer, "evidence_window.to"),
         view_member(cli->op, answer, "audit.head_sequence"));
}

static struct fault wanted_of(struct cli *cli, int64_t *ret_wanted)
{
    const char *text = cli_flag(cli, "sample");
    int64_t wanted = 0;
    struct fault fault = view_int((struct view){ span_text(text) }, &wanted);
    if (FAULTED(fault) || wanted < 1 || wanted > SAMPLE_MAX) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--sample: a number from 1 to %d", SAMPLE_MAX);
    }
    if (strlen(cli_flag(cli, "seed")) > SAMPLE_SEED_MAX) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--seed: at most %d characters", SAMPLE_SEED_MAX);
    }
    *ret_wanted = wanted;
    return OK;
}

struct fault run_compliance_sample(struct cli *cli)
{
    static const struct {
        const char *name, *flag;
    } members[] = { { "control", "control" }, { "prerequisite", "prerequisite" },
                    { "n", "sample" },        { "seed", "seed" },
                    { "to", "to" },           { "head_sequence", "head-sequence" } };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL, *file = cli_flag(cli, "output");
    struct view sample;
    int64_t wanted = 0;
    TRY(wanted_of(cli, &wanted));
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        TRY(query_add(&query, members[i].name, cli_flag(cli, members[i].flag)));
    }
    TRY(buf_cstr(&query, &text));
    const struct api_call call = { .id = cli->arguments[0], .query = text, .answer_max = ANSWER_MAX };
    TRY(api_json(cli, &call, &answer, &sample));
    TRY(check_ranks(cli, sample, cli_flag(cli, "seed"), wanted));
    if (file != NULL) {
        TRY(files_write(cli->op, file, buf_span(&answer.body), 0644));
    }
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_sample(cli, sample);
    return OK;
}
