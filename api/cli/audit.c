#include "api/audit/verify.h"

#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define EXPORT_MAX ((size_t)320 << 20)
#define JWKS_MAX   ((size_t)1 << 20)

struct fault run_audit_records(struct cli *cli)
{
    static const char *const filters[] = { "actor", "type", "from", "to", "order", "limit", "cursor" };
    static const struct column columns[] = {
        { "SEQUENCE", "record.sequence", COLUMN_TEXT }, { "TIME", "record.time", COLUMN_TIME },
        { "TYPE", "record.type", COLUMN_TEXT },         { "ACTOR", "record.actor.subject", COLUMN_TEXT },
        { "ROLES", "record.actor.roles", COLUMN_LIST },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    for (size_t i = 0; i < COUNT_OF(filters); i++) {
        TRY(query_add(&query, filters[i], cli_flag(cli, filters[i])));
    }
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text, .answer_max = EXPORT_MAX }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "records"), columns, COUNT_OF(columns), "no records that fit");
    print_more(cli->op, page);
    return OK;
}

/* Into a file, or onto stdout with nothing else. */
static struct fault save(struct cli *cli, const struct http_answer *answer, const char *what, const char *next)
{
    const char *out = cli_flag(cli, "output");
    TRY(files_write(cli->op, out != NULL ? out : "-", buf_span(&answer->body), 0644));
    if (out == NULL || strcmp(out, "-") == 0) {
        (void)fputc('\n', stdout);
        return OK;
    }
    if (cli->json) {
        CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
        struct jout jout;
        jout_init(&jout, &json);
        jout_object(&jout);
        jout_key_text(&jout, "file", out);
        jout_key_int(&jout, "bytes", (int64_t)answer->body.len);
        jout_object_end(&jout);
        TRY(jout_end(&jout));
        print_json(buf_span(&json));
        return OK;
    }
    (void)printf("%s: %s, %zu bytes\n", what, out, answer->body.len);
    hint("%s", next);
    return OK;
}

struct fault run_audit_export(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    TRY(query_add(&query, "from_sequence", cli_flag(cli, "from-sequence")));
    TRY(query_add(&query, "to_sequence", cli_flag(cli, "to-sequence")));
    TRY(buf_cstr(&query, &text));
    TRY(api_send(cli, &(struct api_call){ .query = text, .answer_max = EXPORT_MAX }, &answer));
    return save(cli, &answer, "exported", "check it anywhere: svc-cli audit verify --artifact FILE --audit-jwks KEYS");
}

struct fault run_audit_keys(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    TRY(api_send(cli, &(struct api_call){ 0 }, &answer));
    return save(cli, &answer, "verification keys", "pin them: keep them apart from the exports that they are to check");
}

static struct fault show_json(const struct audit_verdict *verdict)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_bool(&jout, "valid", verdict->signature_good && verdict->chain_good);
    jout_key_bool(&jout, "signature_good", verdict->signature_good);
    jout_key_bool(&jout, "chain_good", verdict->chain_good);
    jout_key_text(&jout, "kid", verdict->kid);
    jout_key_text(&jout, "tenant_id", verdict->tenant.text);
    jout_key_int(&jout, "first_sequence", verdict->first_sequence);
    jout_key_int(&jout, "last_sequence", verdict->last_sequence);
    jout_key_int(&jout, "records", verdict->count);
    jout_key_int(&jout, "records_good", verdict->checked);
    if (verdict->broken_sequence != 0) {
        jout_key_int(&jout, "broken_sequence", verdict->broken_sequence);
    }
    jout_key_hex(&jout, "chain_head", SPAN_ARRAY(verdict->head.at));
    jout_key_text(&jout, "exported_at", verdict->exported_at);
    jout_key_text(&jout, "reason", verdict->reason[0] != '\0' ? verdict->reason : NULL);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return OK;
}

static void show(const struct audit_verdict *verdict)
{
    char head[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(verdict->head.at), head, sizeof(head));
    (void)printf("good audit export\n  tenant    %s\n  records   %lld to %lld, each recomputed: %lld\n  head      %s\n"
                 "  exported  %s\n  signed by key %s\n",
                 verdict->tenant.text, (long long)verdict->first_sequence, (long long)verdict->last_sequence,
                 (long long)verdict->checked, head, verdict->exported_at, verdict->kid);
}

static struct fault refuse(struct cli *cli, const struct audit_verdict *verdict, struct fault fault)
{
    const char *reason = verdict->reason[0] != '\0' ? verdict->reason : cli->op->note.detail;
    cli->said = true;
    cli->exit = EXIT_REFUSED;
    if (cli->json) {
        TRY(show_json(verdict));
        return fault;
    }
    say("%s: %s%s%s", fault_row(fault.code)->text, fault_row(fault.code)->title, reason[0] != '\0' ? ": " : "", reason);
    if (verdict->broken_sequence != 0) {
        hint("the first record that does not hold is sequence %lld; %lld before it do",
             (long long)verdict->broken_sequence, (long long)verdict->checked);
    }
    return fault;
}

static struct fault read_keys(struct cli *cli, const char *path, struct jwk_set *keys)
{
    CLEANUP(buf_free) struct buf jwks = BUF_INIT(JWKS_MAX);
    TRY(files_read(cli->op, path, &jwks));
    struct fault fault = jwk_set_parse(cli->op, buf_span(&jwks), keys);
    if (FAULTED(fault)) {
        struct fault_note note = cli->op->note;
        cli->op->note = (struct fault_note){ 0 };
        return op_fail(cli->op, fault, "%s: no JWK set of verification keys: %s", path, note.detail);
    }
    return OK;
}

struct fault run_audit_verify(struct cli *cli)
{
    CLEANUP(buf_free) struct buf artifact = BUF_INIT(EXPORT_MAX);
    CLEANUP(jwk_set_free) struct jwk_set keys = { 0 };
    CLEANUP(op_freep) struct op *op = NULL;
    struct audit_verdict verdict = { 0 };
    TRY(files_read(cli->op, cli_flag(cli, "artifact"), &artifact));
    TRY(read_keys(cli, cli_flag(cli, "audit-jwks"), &keys));
    while (artifact.len > 0 && (artifact.at[artifact.len - 1] == '\n' || artifact.at[artifact.len - 1] == '\r')) {
        artifact.len--; /* of the file, not of the JWS */
    }
    TRY(audit_verify_op(artifact.len, &op));
    struct fault fault = audit_verify_jws(op, buf_span(&artifact), &keys, &verdict);
    if (FAULTED(fault)) {
        cli->op->note = op->note;
        return refuse(cli, &verdict, fault);
    }
    if (cli->json) {
        return show_json(&verdict);
    }
    show(&verdict);
    return OK;
}
