#include "api/cli/api.h"

#include "api/cli/print.h"
#include "appliance/base/json.h"

#include <poll.h>
#include <stdio.h>

#define ANSWER_DEFAULT ((size_t)64 << 20)
#define URL_MAX        ((size_t)8192)
#define LINE_MAX_LEN   1024

static bool is_unreserved(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c) != NULL;
}

static struct fault put_encoded(struct buf *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        uint8_t c = (uint8_t)*at;
        TRY(is_unreserved(c) ? buf_u8(out, c) : buf_printf(out, "%%%02X", c));
    }
    return OK;
}

struct fault query_add(struct buf *query, const char *name, const char *value)
{
    if (value == NULL) {
        return OK;
    }
    TRY(buf_printf(query, "%c%s=", query->len == 0 ? '?' : '&', name));
    return put_encoded(query, value);
}

static struct fault print_url(const struct cli *cli, const struct api_call *call, struct buf *url)
{
    const char *path = cli->command->routes[call->route].path;
    size_t base_len = strlen(cli->base_url);
    while (base_len > 0 && cli->base_url[base_len - 1] == '/') {
        base_len--;
    }
    TRY(buf_put(url, span_of(cli->base_url, base_len)));
    for (const char *brace; (brace = strchr(path, '{')) != NULL; path = strchr(brace, '}') + 1) {
        bool kind = strncmp(brace, "{kind}", 6) == 0;
        TRY(buf_put(url, span_of(path, (size_t)(brace - path))));
        TRY(put_encoded(url, kind ? call->kind : call->id));
    }
    TRY(buf_text(url, path));
    return buf_text(url, call->query != NULL ? call->query : "");
}

static struct fault check_ready(struct cli *cli, const struct api_call *call)
{
    if (cli->base_url == NULL) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "no address: give --base-url or set SVC_BASE_URL");
    }
    if (strncmp(cli->base_url, "https://", 8) != 0) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--base-url: must start with https://");
    }
    if (cli->token == NULL && !call->without_token) {
        return op_fail(cli->op, FAULT(UNAUTHENTICATED),
                       "no token: set SVC_TOKEN, or give --token-file FILE (mode 0600)");
    }
    if ((call->id != NULL && (call->id[0] == '\0' || strlen(call->id) > 128)) ||
        (call->kind != NULL && (call->kind[0] == '\0' || strlen(call->kind) > 128))) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "the id is empty or too long");
    }
    return OK;
}

size_t api_route(const struct cli *cli, const char *path)
{
    for (size_t i = 0; i < ROUTES_MAX && cli->command->routes[i].path != NULL; i++) {
        if (strcmp(cli->command->routes[i].path, path) == 0) {
            return i;
        }
    }
    BUG_IF(true);
}

/* Previews, explanations, verifications and qualifications have no effect. */
static bool is_mutation(const char *method, const char *path)
{
    return strcmp(method, "GET") != 0 && strstr(path, "/preview") == NULL && strstr(path, "/explain") == NULL &&
           strstr(path, "/verify") == NULL && strstr(path, "/qualification") == NULL;
}

static struct fault make_idempotency_key(struct cli *cli)
{
    struct uuid id;
    if (cli->idempotency_key != NULL) {
        return OK;
    }
    TRY(uuid_new(&id));
    return arena_text(cli->op->arena, span_text(id.text), &cli->idempotency_key);
}

/* Without an answer nobody knows whether a mutation took place: the same key finds out without doing it twice. */
struct fault api_unreachable(struct cli *cli, const char *why)
{
    cli->said = true;
    cli->exit = EXIT_FAILED;
    if (cli->json) {
        CLEANUP(buf_free) struct buf out = BUF_INIT(8192);
        struct jout jout;
        jout_init(&jout, &out);
        jout_object(&jout);
        jout_key_text(&jout, "code", "unreachable");
        jout_key_text(&jout, "detail", why);
        if (cli->idempotency_key != NULL) {
            jout_key_text(&jout, "idempotency_key", cli->idempotency_key);
        }
        jout_object_end(&jout);
        TRY(jout_end(&jout));
        print_safe(stderr, buf_span(&out));
        (void)fputc('\n', stderr);
        return FAULT(IO);
    }
    say("unreachable: %s", why);
    if (cli->idempotency_key != NULL) {
        hint("to learn how it ended without doing it twice, repeat with --idempotency-key %s", cli->idempotency_key);
    }
    return FAULT(IO);
}

static struct fault known_fault(const char *code)
{
    size_t count = 0;
    const struct fault_row *rows = fault_rows(&count);
    for (size_t i = 0; code != NULL && i < count; i++) {
        if (strcmp(rows[i].text, code) == 0) {
            return (struct fault){ rows[i].code };
        }
    }
    return FAULT(INTERNAL);
}

static void print_problem(struct cli *cli, const struct http_answer *answer, struct view problem)
{
    const char *code = view_member(cli->op, problem, "code");
    const char *title = view_member(cli->op, problem, "title");
    const char *detail = view_member(cli->op, problem, "detail");
    const char *pointer = view_member(cli->op, problem, "pointer");
    const char *trace = view_member(cli->op, problem, "trace_id");
    bool where = pointer != NULL && pointer[0] == '/' && (detail == NULL || strstr(detail, pointer + 1) == NULL);
    say("%s: %s%s%s%s%s%s%s%s", code != NULL ? code : "refused", title != NULL ? title : "the server refused",
        where ? " at " : "", where ? pointer : "", detail != NULL ? ": " : "", detail != NULL ? detail : "",
        trace != NULL ? " (trace " : "", trace != NULL ? trace : "", trace != NULL ? ")" : "");
    if (answer->status == 401) {
        hint("set SVC_TOKEN, or give --token-file FILE");
    }
    if (answer->retry_after[0] != '\0') {
        hint("worth repeating in %s s%s%s", answer->retry_after,
             cli->idempotency_key != NULL ? ", with --idempotency-key " : "",
             cli->idempotency_key != NULL ? cli->idempotency_key : "");
    }
}

struct fault api_complain(struct cli *cli, const char *url, const struct http_answer *answer)
{
    struct view problem = { 0 };
    struct span body = buf_span(&answer->body);
    bool is_problem = !FAULTED(view_of(cli->op, body, &problem)) && problem.json.len > 0 && problem.json.at[0] == '{' &&
                      view_is_there(view_get(problem, "code"));
    cli->said = true;
    cli->exit = answer->status >= 400 && answer->status < 500 ? EXIT_REFUSED : EXIT_FAILED;
    if (!is_problem) {
        say("unexpected_answer: %s answered with status %ld and no problem body: is this the appliance's address?", url,
            answer->status);
        return FAULT(IO);
    }
    if (cli->json) {
        print_safe(stderr, problem.json);
        (void)fputc('\n', stderr);
    } else {
        print_problem(cli, answer, problem);
    }
    return known_fault(view_member(cli->op, problem, "code"));
}

struct fault api_exchange(struct cli *cli, const struct api_call *call, char *why, size_t why_size,
                          struct http_answer *ret_answer)
{
    const struct route_use *route = &cli->command->routes[call->route];
    CLEANUP(buf_free) struct buf url = BUF_INIT(URL_MAX);
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const char *text = NULL;
    bool mutation = is_mutation(route->method, route->path);
    TRY(check_ready(cli, call));
    TRY(print_url(cli, call, &url));
    TRY(buf_cstr(&url, &text));
    if (mutation) {
        TRY(make_idempotency_key(cli));
    }
    const struct http_request request = {
        .advise = true,
        .method = route->method,
        .url = text,
        .content_type = strcmp(route->method, "GET") != 0 ? "application/json" : NULL,
        .body = call->body,
        .idempotency_key = mutation ? cli->idempotency_key : NULL,
        .ca_file = cli->ca_file,
        .token = call->without_token ? NULL : cli->token,
        .timeout_ns = cli->timeout_ns,
        .answer_max = call->answer_max != 0 ? call->answer_max : ANSWER_DEFAULT,
        .sink = call->sink,
        .stall_ns = call->sink != NULL ? cli->timeout_ns : 0,
    };
    TRY(http_send(&request, why, why_size, &answer));
    buf_free(&ret_answer->body);
    *ret_answer = answer;
    answer.body = (struct buf){ 0 };
    return OK;
}

/* Whole seconds, one at least; 0 when the server does not say. A date is none of this server's. */
static int64_t seconds_of(const char *retry_after)
{
    int64_t seconds = 0;
    size_t digits = strspn(retry_after, "0123456789");
    if (digits == 0 || digits > 6 || retry_after[digits] != '\0') {
        return 0;
    }
    for (size_t i = 0; i < digits; i++) {
        seconds = seconds * 10 + (retry_after[i] - '0');
    }
    return seconds > 0 ? seconds : 1;
}

/* Refused for now, and nothing was done; or the same command is being done by an earlier try. */
static bool is_for_later(struct cli *cli, const struct http_answer *answer, const char **ret_code)
{
    struct view problem = { 0 };
    const char *code = NULL;
    if (answer->status != 429 && answer->status != 503 && answer->status != 409) {
        return false;
    }
    if (!FAULTED(view_of(cli->op, buf_span(&answer->body), &problem))) {
        code = view_member(cli->op, problem, "code");
    }
    *ret_code = code != NULL ? code : "busy";
    return answer->status != 409 || strcmp(*ret_code, "idempotency_in_progress") == 0;
}

bool api_wait_to_repeat(struct cli *cli, const struct http_answer *answer)
{
    const char *code = NULL;
    int64_t span = seconds_of(answer->retry_after) * NS_PER_S;
    if (span == 0 || span > cli->patience_ns || !is_for_later(cli, answer, &code)) {
        return false;
    }
    if (!cli->json) {
        hint("%s: the same request again in %lld s (--no-wait: fail instead)", code, (long long)(span / NS_PER_S));
    }
    cli->patience_ns -= span;
    (void)poll(NULL, 0, (int)(span / NS_PER_MS));
    return true;
}

struct fault api_ask(struct cli *cli, const struct api_call *call, char *why, size_t why_size,
                     struct http_answer *ret_answer)
{
    do {
        TRY(api_exchange(cli, call, why, why_size, ret_answer));
    } while (api_wait_to_repeat(cli, ret_answer));
    return OK;
}

struct fault api_judge(struct cli *cli, const struct api_call *call, const struct http_answer *answer)
{
    CLEANUP(buf_free) struct buf url = BUF_INIT(URL_MAX);
    const char *text = NULL;
    if (answer->status < 200 || answer->status >= 300) {
        TRY(print_url(cli, call, &url));
        TRY(buf_cstr(&url, &text));
        return api_complain(cli, text, answer);
    }
    if (answer->replayed) {
        hint("this answer was recorded earlier under the same Idempotency-Key; nothing was done again");
    }
    return OK;
}

struct fault api_send(struct cli *cli, const struct api_call *call, struct http_answer *ret_answer)
{
    char why[LINE_MAX_LEN] = "";
    struct fault fault = api_ask(cli, call, why, sizeof(why), ret_answer);
    if (FAULTED(fault)) {
        return why[0] != '\0' ? api_unreachable(cli, why) : fault;
    }
    return api_judge(cli, call, ret_answer);
}

struct fault api_json(struct cli *cli, const struct api_call *call, struct http_answer *answer, struct view *ret_view)
{
    TRY(api_send(cli, call, answer));
    if (FAULTED(view_of(cli->op, buf_span(&answer->body), ret_view))) {
        return op_fail(cli->op, FAULT(IO), "the server's answer is not JSON: is this the appliance's address?");
    }
    return OK;
}
