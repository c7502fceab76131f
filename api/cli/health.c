#include "api/cli/api.h"
#include "api/cli/print.h"
#include "appliance/base/json.h"

/* Probes answer 503 with a body that says why: that is an answer here, not a problem. */
static struct fault probe(struct cli *cli, size_t route, struct http_answer *answer, struct view *ret_view)
{
    const char *path = cli->command->routes[route].path;
    char why[1024] = "", url[4096];
    if (cli->base_url == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "no address: give --base-url or set SVC_BASE_URL");
    }
    size_t len = strlen(cli->base_url);
    len -= len > 0 && cli->base_url[len - 1] == '/';
    (void)snprintf(url, sizeof(url), "%.*s%s", (int)len, cli->base_url, path);
    const struct http_request request = { .method = "GET",
                                          .url = url,
                                          .ca_file = cli->ca_file,
                                          .timeout_ns = cli->timeout_ns,
                                          .advise = true,
                                          .answer_max = (size_t)1 << 20 };
    if (FAULTED(http_send(&request, why, sizeof(why), answer))) {
        return api_unreachable(cli, why);
    }
    bool told = (answer->status == 200 || answer->status == 503) &&
                !FAULTED(view_of(cli->op, buf_span(&answer->body), ret_view)) &&
                view_is_there(view_get(*ret_view, "status"));
    return told ? OK : api_complain(cli, url, answer);
}

static void print_checks(struct op *op, struct view ready)
{
    static const struct column known[] = {
        { "datastore", "checks.db", COLUMN_TEXT },
        { "event log", "checks.nats", COLUMN_TEXT },
        { "read model", "checks.projection", COLUMN_TEXT },
        { "signer", "checks.signer", COLUMN_TEXT },
        { "time stamps", "checks.tsa", COLUMN_TEXT },
        { "degraded", "degraded", COLUMN_LIST },
        { "applied up to", "projection.checkpoint", COLUMN_TEXT },
        { "lag, events", "projection.lag", COLUMN_TEXT },
    };
    print_pairs(op, stdout, ready, known, COUNT_OF(known));
}

struct fault run_health(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer alive = { 0 };
    CLEANUP(http_answer_clear) struct http_answer ready = { 0 };
    struct view health = { 0 }, readiness = { 0 };
    TRY(probe(cli, 0, &alive, &health));
    TRY(probe(cli, 1, &ready, &readiness));
    bool well = alive.status == 200 && ready.status == 200;
    if (cli->json) {
        CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)4 << 20);
        struct jout jout;
        jout_init(&jout, &out);
        jout_object(&jout);
        jout_key_raw(&jout, "health", health.json);
        jout_key_raw(&jout, "readiness", readiness.json);
        jout_object_end(&jout);
        TRY(jout_end(&jout));
        print_json(buf_span(&out));
    } else {
        const char *word = view_member(cli->op, readiness, "status");
        (void)printf("%s\n", word != NULL ? word : "unknown");
        print_checks(cli->op, readiness);
    }
    if (!well) {
        cli->said = true;
        cli->exit = EXIT_FAILED;
        return FAULT(SIGNER_UNAVAILABLE);
    }
    return OK;
}
